"""Versions are read as logs print them, and stand for the newest release that is not above them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_logdoctor.knowledge.versions import (
    at_least,
    known_versions,
    nearest_release,
    parse_ranges,
    parse_version,
)


@pytest.mark.parametrize(
    ("printed", "stands_for", "exact"),
    [
        ("0.11.2", "0.11.2", True),
        ("v0.11.2", "0.11.2", True),
        ("0.32.0+cpu", "0.32.0", True),
        ("0.9.1.dev287+g89b1388d8", "0.9.0.1", False),
        ("0.6.4.post2.dev22+g47826cac", "0.6.4.post1", False),
        ("0.8.3rc2.dev77+g2976dc27e.d20250409", "0.8.2", False),
        ("0.10.1rc1", "0.10.0", False),
    ],
)
def test_a_printed_version_means_a_release(printed: str, stands_for: str, exact: bool) -> None:
    nearest = nearest_release(printed)
    assert (str(nearest), nearest == parse_version(printed)) == (stands_for, exact)


@pytest.mark.parametrize("printed", ["0.1.dev15917+g0a6396b45", "0.3.3", "dev", "", None])
def test_what_says_nothing_about_a_release_means_none(printed: str | None) -> None:
    assert nearest_release(printed) is None


def test_the_newest_known_release_stands_for_newer_ones() -> None:
    assert nearest_release("99.1.0") == known_versions()[-1]


def test_versions_order_as_packages_do() -> None:
    written = ["0.8.3.dev1", "0.8.3rc1", "0.8.3", "0.8.3.post1.dev4", "0.8.3.post1", "0.8.4", "0.10.0"]
    parsed = [parse_version(text) for text in written]
    assert sorted([version for version in parsed[::-1] if version]) == parsed


def test_known_releases_are_in_order_and_unlike() -> None:
    assert list(known_versions()) == sorted(set(known_versions()))


@pytest.mark.parametrize(
    ("version", "inside"), [("0.8.0", True), ("0.9.2", True), ("0.9.2.post1", False), ("0.7.3", False)]
)
def test_both_ends_of_a_range_belong_to_it(version: str, inside: bool) -> None:
    (span,) = parse_ranges("0.8.0-0.9.2")
    assert (parse_version(version) in span) is inside


def test_a_local_label_does_not_change_the_version() -> None:
    assert parse_version("0.32.0+cpu") == parse_version("0.32.0")


def test_at_least_is_undecided_without_a_version() -> None:
    assert at_least("0.1.dev1+g0", "0.11.0") is None
    assert at_least("0.0.0+g0a6396b45", "0.6.4") is None


@given(st.text(max_size=60))
def test_no_text_breaks_the_reading(text: str) -> None:
    version = parse_version(text)
    assert version is None or version.release


def test_releases_order_by_their_parts_and_what_came_before_them() -> None:
    ordered = [
        "0.9.0.dev5",
        "0.9.0rc1.dev2",
        "0.9.0rc1",
        "0.9.0rc2",
        "0.9.0",
        "0.9.0.post0",
        "0.9.0.post1.dev3",
        "0.9.0.post1",
        "0.9.0.1",
        "0.9.1",
    ]
    versions = [parse_version(one) for one in ordered]
    assert None not in versions
    keys = [one.sort_key for one in versions if one is not None]
    assert all(one < other for one, other in pairwise(keys))
