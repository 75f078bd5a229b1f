"""One run in the making: which minute an access line belongs to, and which lines go on after another writer."""

from __future__ import annotations

from collections import Counter

from tests.tables import for_each
from vllm_logdoctor.run.builder import RunBuilder
from vllm_logdoctor.scan import AccessKey

ACCESSES: Counter[AccessKey] = Counter({("POST", "/v1/completions", 200): 3})


def run_at(*times: float | None) -> RunBuilder:
    """Return a run with a statistics line at each time and access lines before each but the first."""
    builder = RunBuilder(1, ["vllm.log"])
    for number, time in enumerate(times):
        if number:
            builder.add_accesses(ACCESSES)
        builder.now = time
        builder.note_statistics()
    return builder


@for_each(
    ("times", "minute"),
    [
        ((600.0, 610.0), 10),
        ((600.0, 720.0), 10),
        ((600.0, 720.5), -1),
        ((None, 610.0), -1),
        ((600.0, None), 10),
    ],
)
def test_access_lines_count_to_the_statistics_line_before_them_if_that_is_near(
    times: tuple[float | None, ...], minute: int
) -> None:
    builder = run_at(*times)
    assert sum(builder.accesses.values()) == 3
    assert set(builder.requests_by_minute) == {minute}


@for_each(("time", "goes_on"), [(600.0, False), (600.1, True), (720.0, True), (720.1, False), (None, False)])
def test_a_torn_line_goes_on_with_the_statistics_within_two_minutes(
    time: float | None, goes_on: bool
) -> None:
    assert run_at(600.0).goes_on(time) is goes_on
    assert not run_at().goes_on(time)
