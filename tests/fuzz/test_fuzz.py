"""A few random logs in each run of the tests, and those that once failed; hours of them by `python -m tests.fuzz`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.checks import problems_of
from tests.fuzz.logs import log_of

SEEDS = sorted((Path(__file__).parent / "seeds").glob("*.log"))


@pytest.mark.parametrize("number", range(40))
def test_a_random_log_gives_a_report_that_holds(number: int) -> None:
    assert problems_of(log_of(number), number) == []


@pytest.mark.parametrize("seed", SEEDS, ids=lambda path: path.stem)
def test_a_log_that_once_failed_gives_a_report_that_holds(seed: Path) -> None:
    assert problems_of(seed.read_bytes()) == []
