"""What lived with a run: containers and jobs by both of their ends on a clock of any zone, lines of a kernel by their time."""

from __future__ import annotations

from typing import Any

from tests.rules.making import a_run
from tests.tables import for_each
from vllm_logdoctor.evidence.model import EvidenceFile, Reading
from vllm_logdoctor.parse.clock import seconds_of
from vllm_logdoctor.run.lifetimes import in_time_of, lived_together
from vllm_logdoctor.run.model import Run


def run_from(start: str | None, end: str | None, *, year: bool = True) -> Run:
    run = a_run()
    run.started, run.ended = (
        (found := seconds_of(one)) and found[0] if one else None for one in (start, end)
    )
    run.year_known = year
    return run


RUN = run_from("2026-05-01T10:00:00Z", "2026-05-01T11:00:00Z")


def container(*times: tuple[str, str]) -> EvidenceFile:
    readings = tuple(Reading(name, value, line=number) for number, (name, value) in enumerate(times, 1))
    return EvidenceFile("inspect.json", "docker", readings)


@for_each(
    ("begun", "ended", "together"),
    [
        ("2026-05-01T10:00:00Z", "2026-05-01T11:00:00Z", True),
        # Loading Python takes up to ten minutes, and the last line comes up to two before the end.
        ("2026-05-01T09:50:00Z", "2026-05-01T11:02:00Z", True),
        ("2026-05-01T09:49:59Z", "2026-05-01T11:00:00Z", None),
        ("2026-05-01T10:00:00Z", "2026-05-01T11:02:01Z", None),
        ("2026-05-01T10:02:00Z", "2026-05-01T11:00:00Z", True),
        ("2026-05-01T10:02:01Z", "2026-05-01T11:00:00Z", None),
        # Other zones, as far as there are any; only one end that agrees is chance.
        ("2026-05-01T15:30:00Z", "2026-05-01T16:30:00Z", True),
        ("2026-05-02T00:00:00Z", "2026-05-02T01:00:00Z", True),
        ("2026-05-02T00:15:00Z", "2026-05-02T01:15:00Z", None),
        ("2026-05-01T10:00:00Z", "2026-05-01T16:30:00Z", None),
        # Another day.
        ("2026-05-02T13:00:00Z", "2026-05-02T14:00:00Z", None),
        ("2026-05-02T13:00:01Z", "2026-05-02T14:00:00Z", False),
        ("2026-04-29T10:00:00Z", "2026-04-30T08:00:00Z", None),
        ("2026-04-29T10:00:00Z", "2026-04-30T07:59:59Z", False),
        ("soon", "2026-05-01T11:00:00Z", None),
    ],
)  # fmt: skip
def test_a_container_lived_with_a_run_where_both_ends_agree(
    begun: str, ended: str, together: bool | None
) -> None:
    assert lived_together(container(("StartedAt", begun), ("FinishedAt", ended)), RUN) is together


def test_without_times_nothing_is_known() -> None:
    whole = container(("StartedAt", "2026-05-01T10:00:00Z"), ("FinishedAt", "2026-05-01T11:00:00Z"))
    assert lived_together(container(), RUN) is None
    assert lived_together(whole, run_from("2026-05-01T10:00:00Z", None)) is None
    assert lived_together(whole, run_from(None, "2026-05-01T11:00:00Z")) is None
    assert lived_together(container(("FinishedAt", "2026-05-01T11:00:00Z")), RUN) is None


@for_each(
    ("text", "run", "inside"),
    [
        ("2026-05-01T10:30:00Z", RUN, True),
        # 26 hours are between the farthest zones.
        ("2026-04-30T08:00:00Z", RUN, True),
        ("2026-04-30T07:59:59Z", RUN, False),
        ("2026-05-02T13:00:00Z", RUN, True),
        ("2026-05-02T13:00:01Z", RUN, False),
        ("Fri, 01 May 2026 10:30:00 +0000", RUN, True),
        ("Fri May 01 10:30:00 2026", RUN, True),
        ("Fri, 01 May 2020 10:30:00 +0000", RUN, False),
        ("Fri, 01 May 1960 10:30:00 +0000", RUN, None),
        ("soon", RUN, None),
        ("2026-05-01T10:30:00Z", run_from(None, "2026-05-01T11:00:00Z"), None),
        ("2026-05-01T10:30:00Z", run_from("2026-05-01T10:00:00Z", None), None),
        # A clock without a year has that of the other one.
        ("May 01 10:30:00", RUN, True),
        ("May 04 10:30:00", RUN, False),
        ("2031-05-01T10:30:00Z", run_from("May 01 10:00:00", "May 01 11:00:00", year=False), True),
        ("2031-05-04T10:30:00Z", run_from("May 01 10:00:00", "May 01 11:00:00", year=False), False),
    ],
)  # fmt: skip
def test_a_printed_time_is_in_the_time_of_a_run(text: str, run: Any, inside: bool | None) -> None:
    assert in_time_of(run, text) is inside
