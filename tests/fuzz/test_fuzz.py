"""A few random logs in each run of the tests, and those that once failed; hours of them by `python -m tests.fuzz`."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from tests.fuzz.checks import problems_of
from tests.fuzz.logs import FIXTURES, log_of
from tests.tables import for_each
from vllm_logdoctor import analyze

SEEDS = sorted((Path(__file__).parent / "seeds").glob("*.log"))


@for_each("number", range(40))
def test_a_random_log_gives_a_report_that_holds(number: int) -> None:
    assert problems_of(log_of(number), number) == []


@for_each("seed", SEEDS)
def test_a_log_that_once_failed_gives_a_report_that_holds(seed: Path) -> None:
    assert problems_of(seed.read_bytes()) == []


@for_each("log", [path for path in FIXTURES if "-fail-" in path.name])
def test_lines_that_come_up_to_two_lines_late_hide_no_cause(log: Path) -> None:
    lines, random = log.read_bytes().split(b"\n"), Random(1)
    order = sorted(range(len(lines)), key=lambda number: number + random.uniform(0, 2))
    assert causes(b"\n".join(lines[number] for number in order)) == causes(log.read_bytes()) != []


def causes(data: bytes) -> list[str]:
    """Return the finding of each run that names what broke it."""
    runs = json.loads(analyze(data).to_json())["runs"]
    return [one["id"] for run in runs for one in run["findings"] if one.get("role") == "root"]
