"""Times as a report and its data print them."""

from __future__ import annotations

from tests.tables import for_each
from vllm_logdoctor.report.clock import iso


@for_each(
    ("seconds", "year_known", "text"),
    [
        (86401.0, True, "2000-01-02T00:00:01"),
        (86401.25, True, "2000-01-02T00:00:01.250"),
        (86401.25, False, None),
        (None, True, None),
        (1e30, True, None),
    ],
)
def test_a_time_of_a_known_year_has_milliseconds_where_the_log_has_them(
    seconds: float | None, year_known: bool, text: str | None
) -> None:
    assert iso(seconds, year_known) == text
