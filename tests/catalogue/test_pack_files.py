"""Pack files: written and read back the same, found again by line, compiled once."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from vllm_logdoctor.catalogue import loading
from vllm_logdoctor.catalogue.loading import load_index
from vllm_logdoctor.catalogue.locate import builtin_root, pack_files, page_files
from vllm_logdoctor.catalogue.model import schema_text
from vllm_logdoctor.catalogue.positions import Positions
from vllm_logdoctor.catalogue.sources import PatternTexts
from vllm_logdoctor.catalogue.toml import loads

from .packfiles import GOOD


def test_positions_know_keys_of_nested_tables() -> None:
    positions = Positions(GOOD)
    lines = GOOD.split("\n")
    assert lines[positions.line_of(("pattern", 0, "regex")) - 1].startswith("regex")
    assert lines[positions.line_of(("pattern", 0, "samples", 0, "values")) - 1].startswith("values")
    assert lines[positions.line_of(("pattern", 0, "fields", "gpus")) - 1].startswith("gpus")
    assert lines[positions.line_of(("pattern", 0, "nothing")) - 1] == "[[pattern]]"


def test_positions_skip_over_long_strings() -> None:
    text = "[pack]\nname = '''\nid = \"no key\"\n'''\n\ntitle = \"x\"\n"
    assert Positions(text).line_of(("pack", "title")) == 6
    assert Positions(text).line_of(("pack", "id")) == 1


def test_a_pattern_is_found_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text(GOOD, encoding="utf-8")
    found = PatternTexts([tmp_path]).find("site-wrapper-started")
    assert found is not None
    assert (found.path, found.line) == (path, 5)
    assert found.entry.samples[0].values == {"gpus": 8}
    assert PatternTexts([tmp_path]).find("something-else") is None


def test_packs_fit_their_published_schema() -> None:
    schema = json.loads(schema_text())
    small = sorted(pack_files(builtin_root()), key=lambda path: path.stat().st_size)[:20]
    for path in small:
        jsonschema.validate(loads(path.read_text(encoding="utf-8")), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(loads(GOOD.replace("lifecycle", "no topic")), schema)


def test_the_published_schema_is_that_of_the_models() -> None:
    docs = builtin_root().parent / "docs" / "reference" / "pack.schema.json"
    if not docs.is_file():
        pytest.skip("no docs beside the package")
    assert docs.read_text(encoding="utf-8") == schema_text()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with one pack, and a cache directory of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(loading, "cache_directory", lambda: tmp_path / "cache")
    folder = tmp_path / "packs"
    folder.mkdir()
    (folder / "site.toml").write_text(GOOD, encoding="utf-8")
    return folder


def test_packs_of_others_are_added_and_not_trusted(site: Path) -> None:
    builtin = load_index()
    both = load_index([site])
    assert len(both.patterns) == len(builtin.patterns) + 1
    pattern = both.by_id("site-wrapper-started")
    assert pattern is not None
    assert not pattern.trusted
    number = len(builtin.patterns)
    assert both.patterns[number] == pattern
    literal = both.literals.index("wrapper: starting vllm")
    assert both.patterns_by_literal[literal] == (number,)
    assert both.digest != builtin.digest


def test_a_compiled_pack_is_not_read_again(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_index([site])
    monkeypatch.setattr("vllm_logdoctor.catalogue.packs.usable_patterns", None)
    assert load_index([site]).by_id("site-wrapper-started") is not None


def test_a_changed_pack_is_compiled_anew(site: Path) -> None:
    load_index([site])
    (site / "site.toml").write_text(GOOD.replace("site-wrapper-started", "site-started"), encoding="utf-8")
    index = load_index([site])
    assert index.by_id("site-started") is not None
    assert index.by_id("site-wrapper-started") is None


def test_no_place_to_write_is_no_hindrance(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "cache_directory", lambda: Path("/proc/no-such-place"))
    assert load_index([site]).by_id("site-wrapper-started") is not None


def test_a_damaged_cache_is_replaced(site: Path, tmp_path: Path) -> None:
    load_index([site])
    for stored in (tmp_path / "cache").iterdir():
        stored.write_bytes(b'{"format":5,"sources":{},"index":')
    assert load_index([site]).by_id("site-wrapper-started") is not None


def test_core_packs_come_first_and_foreign_ones_last_and_other_files_do_not_count(tmp_path: Path) -> None:
    for name in (
        "core/a.toml",
        "foreign/b.toml",
        "attention/c.toml",
        "rules/d.md",
        "e.md",
        "core/.f.toml",
        "g.txt",
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    found = [file.relative_to(tmp_path).as_posix() for file in (*pack_files(tmp_path), *page_files(tmp_path))]
    assert found == ["core/a.toml", "attention/c.toml", "foreign/b.toml", "rules/d.md"]
