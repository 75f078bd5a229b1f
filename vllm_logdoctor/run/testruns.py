"""Output of pytest: which tests failed, and with what."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record

# FAILED tests/test_a.py::test_b[x-1] - ValueError: text      ERROR tests/test_a.py::test_b - OSError: text      (a CI system writes before it)
_FAILED = lazy_pattern(r"(?:^|[\]|] )(?P<shown>(?:FAILED|ERROR) \S{1,300}\.py::[^\n]+)")


def failed_tests(records: Sequence[Record]) -> dict[str, Record]:
    """Return the lines of a summary that name failed tests, without what a CI system wrote before them."""
    found = ((_FAILED.search(one.message[:600]), one) for one in records if ".py::" in one.message[:600])
    return {match["shown"]: record for match, record in found if match is not None}
