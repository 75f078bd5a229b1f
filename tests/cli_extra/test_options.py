"""logdoctor.toml holds for every command that analyses, not for analyze alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from vllm_logdoctor.cli.app import app
from vllm_logdoctor.errors import LogdoctorError

ACCEPTED = '[[suppress]]\nfinding = "{}"\nreason = "known"\nuntil = 2999-01-01\n'

LOG = """\
(APIServer pid=11) INFO 03-02 10:00:05 [api_server.py:1839] vLLM API server version 0.11.2
(APIServer pid=11) INFO 03-02 10:00:05 [utils.py:233] non-default args: {'model_tag': 'org/tiny', \
'model': 'org/tiny', 'enforce_eager': True}
(EngineCore pid=12) INFO 03-02 10:00:06 [core.py:93] Initializing a V1 LLM engine (v0.11.2) with config: \
model='org/tiny', enforce_eager=True, device_config=cuda
(EngineCore pid=12) site: node lost
(APIServer pid=11) INFO:     Application startup complete.
"""

SITE_PACK = """\
[pack]
name = "site"
title = "Site"
[[pattern]]
id = "site-node-lost"
literal = ["site: node lost"]
regex = "site: node lost"
level = "foreign"
seen = "any"
topic = "other"
verdict = "information"
severity = "low"
meaning = "A node is gone."
[[pattern.samples]]
text = "site: node lost"
"""

Say = Callable[[str], None]


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "vllm.log"
    path.write_text(LOG)
    return str(path)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Say:
    """Write what logdoctor.toml says; before that it says nothing."""
    monkeypatch.setenv("LOGDOCTOR_CONFIG", str(tmp_path / "logdoctor.toml"))

    def write(text: str) -> None:
        (tmp_path / "logdoctor.toml").write_text(text)

    write("")
    return write


class Printed(NamedTuple):
    """What a command printed."""

    stdout: str
    stderr: str


def call(*arguments: str) -> Printed:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, done.exception
    return Printed(done.stdout, done.stderr)


def test_plan_leaves_the_changes_of_accepted_findings_out(log: str, settings: Say) -> None:
    assert "--enforce-eager" not in call("plan", log).stdout
    settings(ACCEPTED.format("eager-mode"))
    done = call("plan", log)
    assert "--enforce-eager" in done.stdout
    assert "suppressed until 2999-01-01: eager-mode (known)" in done.stderr


@pytest.mark.parametrize("side", ["before", "after"])
def test_compare_leaves_accepted_findings_out_of_logs_and_of_earlier_reports(
    side: str, log: str, settings: Say, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    report.write_text(call("analyze", log, "--format", "json").stdout)
    other = tmp_path / "other.log"
    other.write_text(
        LOG.replace("'enforce_eager': True", "'max_num_seqs': 8").replace("eager=True", "eager=False")
    )
    sides = [str(report), str(other)] if side == "before" else [str(other), log]
    assert "eager-mode" in findings(call("compare", *sides, "--format", "json"))
    settings(ACCEPTED.format("eager-mode"))
    assert "eager-mode" not in findings(call("compare", *sides, "--format", "json"))


def findings(done: Printed) -> list[str]:
    return [one["id"] for one in json.loads(done.stdout)["findings"]]


def test_verify_does_not_ask_for_a_change_whose_finding_is_accepted(log: str, settings: Say) -> None:
    asked = ["verify", log, "--against", log, "--format", "json"]
    assert planned(call(*asked)) == ["--enforce-eager"]
    settings(ACCEPTED.format("eager-mode"))
    assert planned(call(*asked)) == []


def planned(done: Printed) -> list[str]:
    return [one["knob"] for one in json.loads(done.stdout)["changes"]]


@pytest.mark.parametrize("command", ["compare", "verify"])
def test_the_format_is_that_of_the_file_where_none_is_asked_for(
    command: str, log: str, settings: Say
) -> None:
    settings('format = "json"')
    sides = [log, log] if command == "compare" else [log, "--against", log]
    json.loads(call(command, *sides).stdout)
    assert call(command, *sides, "--format", "markdown").stdout.startswith("# ")


@pytest.mark.parametrize(
    ("alias", "name"), [("md", "markdown"), ("txt", "text"), ("htm", "html"), ("xml", "junit")]
)
def test_the_ending_of_a_file_is_another_name_of_its_format(
    log: str, settings: Say, alias: str, name: str
) -> None:
    for command in (("analyze", log), ("compare", log, log), ("config", log))[
        : 1 if alias in ("htm", "xml") else 3
    ]:
        assert call(*command, "-f", alias).stdout == call(*command, "-f", name).stdout
    settings(f'format = "{alias}"')
    assert call("analyze", log).stdout == call("analyze", log, "-f", name).stdout


@pytest.mark.parametrize("command", ["plan", "follow", "whatif", "config", "compare"])
def test_a_mistake_in_the_file_is_reported_by_every_command(command: str, log: str, settings: Say) -> None:
    settings("objektive = 'latency'")
    more = {"whatif": ["--set", "max_num_seqs=1"], "compare": [log]}.get(command, [])
    done = CliRunner().invoke(app, [command, log, *more])
    assert isinstance(done.exception, LogdoctorError)
    assert done.exception.exit_code == 2
    assert "objektive: no such key" in str(done.exception)


def test_packs_of_the_file_are_known_to_explain_and_to_the_list(settings: Say, tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(SITE_PACK)
    settings('patterns = ["site.toml"]')
    assert "A node is gone." in call("explain", "site-node-lost").stdout
    assert "site-node-lost" in call("patterns", "list", "--pack", "site").stdout
