"""Output of pytest: which tests failed, and with what."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record

# FAILED tests/test_a.py::test_b[x-1] - ValueError: text      ERROR tests/test_a.py::test_b - OSError: text      (a CI system writes before it)
_FAILED = lazy_pattern(r"(?:^|[\]|] )(?P<shown>(?:FAILED|ERROR) \S{1,300}\.py::[^\n]+)")
# ========== warnings summary ==========      ===== 1 failed, 3 passed in 12.41s =====      Its errors begin with an E: E   TypeError: text
_SECTION = lazy_pattern(
    r"=+ (?:FAILURES|ERRORS|warnings summary|short test summary info|test session starts|\d+ (?:failed|passed|error)\b.*?) =+\s*$"
)
_OWN_ERROR = lazy_pattern(r"E {2,}\S")


def is_of_pytest(records: Sequence[Record]) -> bool:
    """Return whether pytest printed an error among its own sections; a summary that names the tests may be missing."""
    errors = any(_OWN_ERROR.match(one.text[:80]) for one in records)
    return errors and any(_SECTION.match(one.message[:600]) for one in records)


def failed_tests(records: Sequence[Record]) -> dict[str, Record]:
    """Return the lines of a summary that name failed tests, without what a CI system wrote before them."""
    found = ((_FAILED.search(one.message[:600]), one) for one in records if ".py::" in one.message[:600])
    return {match["shown"]: record for match, record in found if match is not None}
