"""Lengths of time in words: the two largest units that say something."""

from __future__ import annotations

import math

from tests.tables import for_each
from vllm_logdoctor.run.clock import duration


@for_each(
    ("seconds", "words"),
    [
        (None, "unknown"), (math.nan, "unknown"), (math.inf, "unknown"), (0.0, "0 s"), (0.004, "0.004 s"), (0.25, "0.25 s"), (1.0, "1 s"),
        (1.25, "1.2 s"), (59.4, "59.4 s"), (60.0, "1 min"), (61.0, "1 min 1 s"), (3599.0, "59 min 59 s"), (3599.6, "1 h"), (3600.0, "1 h"),
        (3660.0, "1 h 1 min"), (86399.0, "1 day"), (86400.0, "1 day"), (90000.0, "1 day 1 h"), (172800.0, "2 days"), (176400.0, "2 days 1 h"),
        (-90.0, "-1 min 30 s"), (-0.5, "-0.5 s"),
    ],
)  # fmt: skip
def test_a_length_of_time_has_the_two_largest_units_that_say_something(
    seconds: float | None, words: str
) -> None:
    assert duration(seconds) == words
