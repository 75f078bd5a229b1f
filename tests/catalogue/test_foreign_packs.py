"""Packs of others can't stop an analysis: a time limit, and a word about what was left out."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from vllm_logdoctor.catalogue.errors import PackError
from vllm_logdoctor.catalogue.foreign import ForeignMatcher, match_with_timeout
from vllm_logdoctor.catalogue.index import Pattern
from vllm_logdoctor.catalogue.loading import GROUP, installed_packs, load_all
from vllm_logdoctor.catalogue.packs import parse_pack, runtime_pattern
from vllm_logdoctor.catalogue.values import find
from vllm_logdoctor.pipeline import Analyser, Options
from vllm_logdoctor.source import Chunk

from .packfiles import GOOD

HOSTILE = "wrapper: starting vllm " + "a" * 5000 + "!"


@pytest.fixture
def pattern() -> Pattern:
    entry = parse_pack(Path("site.toml"), GOOD).pattern[0]
    return runtime_pattern(entry, "site", trusted=False)


def test_a_good_regex_matches(pattern: Pattern) -> None:
    found = match_with_timeout(pattern, "wrapper: starting vllm on 8 GPUs of node7")
    assert found is not None
    assert found["gpus"] == "8"


def test_an_exception_type_precedes_the_message(pattern: Pattern) -> None:
    search = partial(ForeignMatcher().match, pattern)
    assert find(search, "RuntimeError: wrapper: starting vllm on 8 GPUs of node7", anywhere=False)
    assert find(search, "  wrapper: starting vllm on 8 GPUs of node7", anywhere=False)
    assert not find(search, "first wrapper: starting vllm on 8 GPUs of node7", anywhere=False)


def test_a_regex_that_blows_up_is_stopped_and_left_out(pattern: Pattern) -> None:
    slow = replace(pattern, regex=r"wrapper: starting vllm (a|a|aa)+$")
    matcher = ForeignMatcher(time_limit=0.05)
    start = time.monotonic()
    assert matcher.match(slow, HOSTILE) is None
    assert time.monotonic() - start < 5
    assert "site-wrapper-started" in matcher.disabled["site-wrapper-started"]
    assert "longer than 0.05 s" in matcher.disabled["site-wrapper-started"]
    start = time.monotonic()
    assert matcher.match(slow, HOSTILE) is None
    assert time.monotonic() - start < 0.05


def test_a_regex_that_is_none_is_left_out(pattern: Pattern) -> None:
    matcher = ForeignMatcher()
    assert matcher.match(replace(pattern, regex="wrapper: ("), "wrapper: (") is None
    assert "is no regex" in matcher.disabled["site-wrapper-started"]


def install(folder: Path, name: str, entry_point: str) -> None:
    """Write what an installer leaves behind for a package with one entry point."""
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    header = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    (metadata / "METADATA").write_text(header, encoding="utf-8")
    (metadata / "entry_points.txt").write_text(f"[{GROUP}]\n{entry_point}\n", encoding="utf-8")


def test_packages_bring_packs_by_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "oursite", "site = oursite_packs")
    package = tmp_path / "oursite_packs"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "site.toml").write_text(GOOD, encoding="utf-8")
    assert installed_packs() == []
    monkeypatch.syspath_prepend(str(tmp_path))
    assert installed_packs() == [package]
    monkeypatch.delitem(sys.modules, "oursite_packs")


def test_an_entry_point_to_nothing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "lostsite", "lost = lostsite_packs:PATH")
    (tmp_path / "lostsite_packs.py").write_text("PATH = '/no/such/folder'\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(PackError, match="entry point lost"):
        installed_packs()
    monkeypatch.delitem(sys.modules, "lostsite_packs")


def test_an_installed_pack_that_can_not_be_used_is_left_out_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "brokensite", "broken = brokensite_packs")
    (tmp_path / "brokensite_packs.py").write_text("raise RuntimeError('no such server')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    index, (note,) = load_all()
    assert len(index.patterns) > 500
    assert note == "installed packs left out: RuntimeError: no such server"


SECOND = (
    GOOD[GOOD.index("[[pattern]]") :]
    .replace("site-wrapper-started", "site-second")
    .replace("wrapper:", "second:")
)


@pytest.mark.parametrize(
    ("broken", "key"),
    [
        (GOOD.replace("lifecycle", "no topic"), "site.toml:11: pattern.0.topic: is 'no topic'"),
        (
            GOOD.replace("GPUs of (?P<host>\\S+)", "GPUs of ("),
            "site.toml:6: site-wrapper-started: regex: is no regular",
        ),
        (GOOD.replace('vllm"]', 'vllm 9"]'), "site.toml:6: site-wrapper-started: literal: does not cover"),
        (
            GOOD.replace("(?P<host>\\S+)", "(?:\\w+\\s*)+x"),
            "site-wrapper-started: regex: can take more than linear time",
        ),
    ],
)
def test_a_broken_pattern_costs_that_pattern_by_name_and_no_other(
    tmp_path: Path, broken: str, key: str
) -> None:
    path = tmp_path / "site.toml"
    path.write_text(broken + SECOND, encoding="utf-8")
    index, (note,) = load_all([path])
    assert index.by_id("site-wrapper-started") is None
    assert index.by_id("site-second") is not None
    assert note.startswith("pattern left out: ")
    assert key in note


def test_a_file_that_is_no_toml_costs_that_file(tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text("[pack\n", encoding="utf-8")
    (tmp_path / "site.toml").write_text(GOOD, encoding="utf-8")
    index, (note,) = load_all([tmp_path])
    assert index.by_id("site-wrapper-started") is not None
    assert "broken.toml:1: TOML" in note


def test_an_analysis_goes_on_and_says_which_patterns_it_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "site.toml"
    path.write_text(
        GOOD.replace(" on (?P<gpus>\\d+) GPUs of (?P<host>\\S+)", " (a|a|aa)+$")
        .replace('gpus = { type = "int" }\n', "")
        .replace("values = { gpus = 8 }\n", ""),
        encoding="utf-8",
    )
    analyser = Analyser(Options(patterns=(path,)))
    number = analyser.open("job.log")
    text = f"{HOSTILE}\nINFO 05-01 10:00:00 [api_server.py:1043] vLLM API server version 0.11.2\n"
    analyser.feed(Chunk(number, 1, text.encode()))
    analysis = analyser.analysis()
    assert analysis.coverage.recognised == 1
    assert [note for note in analysis.coverage.notes if "site-wrapper-started" in note]
