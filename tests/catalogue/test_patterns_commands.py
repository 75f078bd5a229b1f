"""The commands `patterns` and `explain`, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from vllm_logdoctor.catalogue.locate import builtin_root
from vllm_logdoctor.catalogue.packs import parse_pack
from vllm_logdoctor.cli.patterns import explain, patterns

from .packfiles import GOOD

app = typer.Typer()
app.add_typer(patterns)
app.command()(explain)


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == code, result.output
    return result.stdout


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "site.toml"
    path.write_text(GOOD, encoding="utf-8")
    return path


def test_list_filters() -> None:
    rows = [line.split("\t") for line in run("patterns", "list", "--verdict", "will-break").splitlines()]
    assert len(rows) > 10
    assert {row[3] for row in rows} == {"will-break"}


def test_show_prints_the_pattern_with_its_place(site: Path) -> None:
    shown = run("patterns", "show", "site-wrapper-started", "--patterns", str(site))
    assert shown.splitlines()[0] == f"# {site}:5"
    assert "wrapper: starting vllm on (?P<gpus>" in shown


def test_test_is_silent_about_good_packs(site: Path) -> None:
    assert run("patterns", "test", str(site)) == ""


def test_test_ends_with_one_and_a_line_for_each_problem(site: Path) -> None:
    site.write_text(GOOD.replace("gpus = 8 }", "gpus = 9 }"), encoding="utf-8")
    (line,) = run("patterns", "test", str(site), code=1).splitlines()
    assert line.startswith(f"{site}:19: site-wrapper-started: samples.0.values: gpus comes out as 8")


def test_test_finds_lines_that_the_tool_knows_already(site: Path) -> None:
    greedy = "(?:wrapper: starting vllm|nohup: ignoring) .*"
    text = GOOD.replace("wrapper: starting vllm on (?P<gpus>\\d+) GPUs of (?P<host>\\S+)", greedy)
    text = text.replace('starting vllm"]', 'starting vllm", "nohup: ignoring"]')
    text = text.replace('gpus = { type = "int" }\n', "").replace("values = { gpus = 8 }\n", "")
    site.write_text(text, encoding="utf-8")
    (line,) = run("patterns", "test", str(site), code=1).splitlines()
    assert "regex: takes a line of nohup-input-ignored too" in line


def test_new_drafts_a_pattern_that_passes_the_checks(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    header = "(APIServer pid=7) WARNING 05-01 10:00:00 [site.py:12]"
    message = "Fetched 1,250 shards from /data/models in 12.5 s"
    log.write_text(f"first line\n{header} {message}\n", encoding="utf-8")
    text = run("patterns", "new", "--from", f"{log}:2")
    (entry,) = parse_pack(Path("site.toml"), text).pattern
    assert (entry.level, entry.module) == ("warning", "site.py")
    assert entry.samples[0].values == {"count": 1250, "number": 12.5}
    pack = tmp_path / "site.toml"
    pack.write_text(text, encoding="utf-8")
    assert run("patterns", "test", str(pack)) == ""


@pytest.mark.parametrize("place", ["job.log", "job.log:x", "job.log:5"])
def test_new_names_a_place_that_is_none(tmp_path: Path, place: str) -> None:
    (tmp_path / "job.log").write_text("one line\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["patterns", "new", "--from", f"{tmp_path}/{place}"])
    assert result.exception is not None
    assert "\n" not in str(result.exception)


def test_schema_is_json() -> None:
    assert json.loads(run("patterns", "schema"))["title"] == "Pattern pack of vllm_logdoctor"


def test_literals_are_one_per_line() -> None:
    literals = run("patterns", "literals").split("\n")
    assert "KV cache size: " in literals
    assert len(set(literals)) == len(literals)


def test_a_pack_of_the_tool_has_no_problem_however_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    root = builtin_root()
    monkeypatch.chdir(root.parent)
    assert run("patterns", "test", "patterns/core/memory.toml") == ""
    assert run("patterns", "test", str(root / "core" / "memory.toml")) == ""


def test_explain_knows_rules_patterns_and_own_packs(site: Path) -> None:
    assert "Harmless: nothing to do." in run("explain", "torch-process-group-not-destroyed")
    assert "Our wrapper starts the server." in run("explain", "site-wrapper-started", "--patterns", str(site))


def test_explain_says_where_a_rule_is_written() -> None:
    places = run("explain", "eager-mode").partition("## Where it is\n\n")[2].splitlines()
    assert places[0] == "- page: `patterns/rules/eager-mode.md`"
    name, _, line = places[1].removeprefix("- check: `").rstrip("`").partition(":")
    source = (builtin_root().parent / name).read_text("utf-8").splitlines()
    assert source[int(line) - 1].startswith("def eager_mode(")
    # The file that is about the rule, before those that only mention it.
    assert places[2].startswith("- test: `tests/rules/test_graph_rules.py:")


def test_explain_of_a_pattern_says_where_its_rule_is_written_and_that_it_has_no_check() -> None:
    places = run("explain", "sampler-fallback-flashinfer-missing").partition("## Where it is\n\n")[2]
    assert "- page: `patterns/rules/sampler-in-pytorch.md`" in places
    assert "- check: none; the pattern is the rule" in places
    assert "- pattern: `patterns/" in places
