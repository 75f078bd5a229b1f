"""What a report says to look for after a failure: nothing that the failed run shows, no line that its release has not."""

import re
from collections.abc import Sequence

from tests.corpus.test_plans_settle import BUNDLED, READ
from tests.failure.judging import diagnosis, examples
from tests.tables import for_each
from vllm_logdoctor import analyze
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.rules.already_set import already_set
from vllm_logdoctor.rules.failure.signatures import failure_rules
from vllm_logdoctor.rules.model import Change

LINE = re.compile(r"`([^`]{10,})`")
SET = re.compile(r"`(--[a-z][\w-]*|[A-Z][A-Z0-9_]+)[ =]([^\s`]+)`")
HOLE = re.compile(r"\b[NM]\b|\.\.\.")


def lines_of(check: str) -> list[re.Pattern[str]]:
    return [re.compile(".*?".join(map(re.escape, HOLE.split(line)))) for line in LINE.findall(check)]


def passed(check: str, text: str) -> list[str]:
    return [one.pattern for one in lines_of(check) if one.search(text)]


def followed(run, ways: Sequence[str]) -> list[str]:
    """The ways whose only settings are those of the launch."""
    asked = {way: SET.findall(way) for way in ways}
    return [
        way
        for way, settings in asked.items()
        if settings
        and all(
            already_set(run, Change(name, "flag" if name.startswith("-") else "env", None, value))
            for name, value in settings
        )
    ]


@for_each("slug", sorted(slug for slug in examples() if slug in failure_rules()))
def test_no_example_passes_the_check_of_its_page(slug):
    text = examples()[slug]
    found = [one for one in diagnosis(text).findings if one.role == "root"]
    assert [passed(one.verify, text) for one in found if passed(one.verify, text)] == []


@for_each("path", [*BUNDLED, *READ])
def test_no_failed_run_passes_its_check(path):
    try:
        report = analyze(path)
    except LogdoctorError:
        return
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    for judged in report.analysis.runs:
        run = judged.run
        text = "\n".join(lines[run.first_line - 1 : run.last_line])
        for one in judged.findings:
            if one.role == "root":
                assert passed(one.verify, text) == [], one.id
                assert followed(run, one.alternatives) == [], one.id
