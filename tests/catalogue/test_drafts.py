"""Real lines become drafts: what changes becomes groups, the longest text the literal, and the line is the sample."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_logdoctor.catalogue.drafting import draft
from vllm_logdoctor.catalogue.model import PatternEntry
from vllm_logdoctor.catalogue.packs import parse_pack
from vllm_logdoctor.catalogue.toml import loads
from vllm_logdoctor.catalogue.validation import check_files
from vllm_logdoctor.catalogue.values import compiled
from vllm_logdoctor.errors import LogdoctorError

FETCHED = "Fetched 1,250 shards from '/data/our models' at https://mirror.example:8443/x in 12.5 s"


def drafted(message: str) -> PatternEntry:
    (entry,) = parse_pack(Path("site.toml"), draft(message, "warning", "site.py", "site")).pattern
    return entry


def test_a_draft_reads_numbers_and_leaves_texts_open() -> None:
    entry = drafted(FETCHED)
    assert entry.samples[0].values == {"count": 1250, "number": 12.5}
    found = compiled(entry.regex).match(FETCHED)
    assert found is not None
    assert found.groupdict() == {
        "count": "1,250",
        "text": "/data/our models",
        "place": "https://mirror.example:8443/x",
        "number": "12.5",
    }


@pytest.mark.parametrize(
    "message", [FETCHED, "Loading took 12.34 s", "kv blocks 3/7 of 'a' and 'b' on node7"]
)
def test_a_draft_passes_the_checks(tmp_path: Path, message: str) -> None:
    pack = tmp_path / "site.toml"
    pack.write_text(draft(message, "warning", "site.py", "site"), encoding="utf-8")
    assert check_files([pack]) == []


@pytest.mark.parametrize("message", ["1.5: 2.5", "a 1.5 b", ""])
def test_too_little_text_gives_no_draft(message: str) -> None:
    with pytest.raises(LogdoctorError, match="too little text"):
        draft(message, "info", "", "site")


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r\n"), max_size=60))
def test_law_a_draft_holds_its_message_and_matches_it(text: str) -> None:
    message = f"wrapper: {text}"
    try:
        entry = drafted(message)
    except LogdoctorError:
        return
    assert entry.samples[0].text == message
    assert entry.literal[0] in message
    assert compiled(entry.regex).match(message)


@pytest.mark.parametrize(
    ("message", "literal", "numbers"),
    [
        ("Cache 'a' of /opt/x/y holds 1,024 and 3 blocks in 2.5 s", " blocks in ", {"count": 1024, "count_2": 3, "number": 2.5}),
        ("abcdef 5", "abcdef ", {"count": 5}),
        (f"{'x' * 39} 5", f"{'x' * 39} ", {"count": 5}),
        (f"{'x' * 45} 5", "x" * 40, {"count": 5}),
        ("loaded https://example.org/a in no time", " in no time", {}),
        ("a 16bit cache is on", "a 16bit cache is on", {}),
    ],
)  # fmt: skip
def test_a_draft_is_found_by_its_longest_text_of_forty_characters_at_most(
    message: str, literal: str, numbers: dict[str, float]
) -> None:
    (pattern,) = loads(draft(message, "INFO", "core", "own"))["pattern"]
    assert pattern["literal"] == [literal]
    assert pattern["samples"][0].get("values", {}) == numbers
    assert set(pattern.get("fields", {})) == set(numbers)
