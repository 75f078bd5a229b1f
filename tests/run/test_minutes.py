"""Requests by minute in little memory say what a dictionary of counters says."""

from __future__ import annotations

from collections import Counter, defaultdict

from hypothesis import given
from hypothesis import strategies as st

from vllm_logdoctor.run.minutes import AccessesByMinute, RequestsByMinute
from vllm_logdoctor.scan import AccessKey

keys = st.tuples(
    st.sampled_from(["GET", "POST"]), st.sampled_from(["/a", "/b"]), st.sampled_from([200, 404, 500])
)
counted = st.dictionaries(keys, st.integers(1, 3_000_000_000), max_size=5)


@given(st.lists(st.tuples(st.integers(-1, 6), counted), max_size=30))
def test_counts_are_those_of_counters_in_order_of_time(added: list[tuple[int, dict[AccessKey, int]]]) -> None:
    found, expected = RequestsByMinute(), defaultdict[int, Counter[AccessKey]](Counter)
    for minute, counts in added:
        found.add(minute, counts)
        if counts:
            expected[minute].update(counts)
    assert list(found.items()) == sorted(expected.items())
    assert len(found) == len(expected)


def test_by_status_adds_up_methods_and_paths() -> None:
    requests = RequestsByMinute()
    requests.add(3, {("GET", "/a", 200): 2, ("POST", "/b", 200): 5, ("POST", "/b", 500): 1})
    assert dict(AccessesByMinute(requests)) == {3: Counter({200: 7, 500: 1})}
