"""The package data agrees with the mined facts of all releases, where these are at hand."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.extract.fact_files import releases_from_fact_files
from tools.extract.merge import merge, read_releases, write_releases
from vllm_logdoctor.knowledge.call_sites import versions_for_call_sites
from vllm_logdoctor.knowledge.flags import flag_default, flags_of
from vllm_logdoctor.knowledge.store import DATA_FOLDER, read_table
from vllm_logdoctor.knowledge.variables import variable_known
from vllm_logdoctor.knowledge.versions import Version, known_versions, nearest_release, parse_version

FACTS = Path(__file__).resolve().parents[3] / "shared" / "vllm-facts"
pytestmark = pytest.mark.skipif(not FACTS.is_dir(), reason="mined facts of the releases are not at hand")


def _facts(name: str) -> Any:
    return json.loads((FACTS / name).read_bytes())


def test_the_releases_are_those_of_the_facts() -> None:
    assert [str(version) for version in known_versions()] == _facts("flags.json")["versions"]


def test_each_release_has_exactly_the_flags_of_the_facts() -> None:
    for version, flags in _facts("flags.json")["by_version"].items():
        assert set(flags_of(version)) == set(flags), version


def test_each_release_has_exactly_the_variables_of_the_facts() -> None:
    for version, variables in _facts("env-vars.json")["by_version"].items():
        assert {name for name in read_table("variables") if variable_known(name, version)} == set(
            variables
        ), version


def test_defaults_at_both_ends_of_every_era_agree() -> None:
    for name, history in _facts("flags.json")["flags"].items():
        for run in history:
            expected = None if run.get("default_is_expr") else run.get("default")
            for version in (run["from"], run["to"]):
                assert flag_default(name, version) == expected, (name, version)


def test_writing_the_facts_again_gives_the_same_bytes(tmp_path: Path) -> None:
    write_releases(tmp_path, merge({}, releases_from_fact_files(FACTS)))
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (DATA_FOLDER / path.name).read_bytes(), path.name


def test_reading_the_data_back_gives_what_was_written() -> None:
    assert read_releases(DATA_FOLDER) == {r.version: r for r in releases_from_fact_files(FACTS)}


CORPUS = FACTS.parent / "corpus"
# INFO 02-09 19:43:55 [core.py:187] init engine ...     INFO 11-18 01:29:33 engine.py:267] Added request ...
COLOUR = re.compile(r"\x1b?\[[0-9;]{1,6}m")
CALL_SITE = re.compile(r"[A-Z]+ \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? \[?([\w./]+\.py):(\d+)\] ?([^\r\n]*)")


def _logs_of_releases() -> Iterator[tuple[Version, str]]:
    for row in (CORPUS / "facts.jsonl").read_text().splitlines():
        entry = json.loads(row)
        version = parse_version(entry["facts"].get("vllm_version") or "")
        if version is not None and nearest_release(version) == version:
            yield version, COLOUR.sub("", (CORPUS / entry["file"]).read_text(errors="replace"))


def test_call_sites_tell_the_release_that_the_log_prints() -> None:
    told, wrong, logs = 0, 0, 0
    for version, text in _logs_of_releases():
        sites = {(m[1], int(m[2]), m[3]) for m in CALL_SITE.finditer(text)}
        answer = versions_for_call_sites(sites)
        logs += 1
        told += answer is not None and version in answer.releases and len(answer.releases) <= 2
        wrong += answer is not None and version not in answer.releases
    assert logs > 100
    assert told >= 0.95 * logs
    assert wrong <= 0.01 * logs
