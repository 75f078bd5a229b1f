"""The man page, the completion and the exit codes say what the command line does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import typer

from tests.commands import logdoctor
from vllm_logdoctor.cli.app import app
from vllm_logdoctor.cli.exit_codes import ExitCode
from vllm_logdoctor.cli.man import EXIT_MEANINGS, page

EXIT_PAGE = Path(__file__).parents[2] / "docs/reference/exit-codes.md"


def man_page() -> str:
    return page(typer.main.get_command(app), "1.2.3")


def test_every_command_and_every_option_is_in_the_man_page() -> None:
    text = man_page().replace(r"\-", "-")
    root = typer.main.get_command(app)
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        if command.hidden:
            continue
        assert f".SS logdoctor {name}" in text
        for parameter in command.params:
            if getattr(parameter, "help", None):
                assert all(option in text for option in parameter.opts if option.startswith("-"))


def test_only_an_option_that_takes_a_value_names_one() -> None:
    text = man_page()
    assert ".TP\n\\fB\\-\\-format\\fR, \\fB\\-f\\fR \\fIFORMAT\\fR\n" in text
    assert ".TP\n\\fB\\-\\-quiet\\fR, \\fB\\-q\\fR\n" in text


@pytest.mark.parametrize("group", ["", "hook", "patterns", "fleet"])
def test_the_list_of_commands_cuts_no_description_at_80_columns(tmp_path: Path, group: str) -> None:
    listed = logdoctor(*group.split(), "--help", cwd=tmp_path, COLUMNS="80").stdout.partition("Commands:")[2]
    assert listed.count("\n") > 2
    assert "..." not in listed


def test_what_an_option_takes_is_named_for_people(tmp_path: Path) -> None:
    for command in (
        "compare",
        "verify",
        "follow",
        "config",
        "whatif",
        "plan",
        "hook pbs",
        "fleet add",
        "patterns list",
    ):
        shown = logdoctor(*command.split(), "--help", cwd=tmp_path).stdout.partition("Options:")[2]
        assert "range>" not in shown
        assert "<str>" not in shown


def test_the_man_page_is_the_same_each_time() -> None:
    assert man_page() == man_page()


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_roff_takes_the_man_page_without_a_warning() -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z"],
        input=man_page(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""


def test_every_exit_code_has_a_meaning_and_is_in_the_documentation() -> None:
    assert set(EXIT_MEANINGS) == set(ExitCode)
    rows = dict(re.findall(r"^\| (\d+) \| (.+?) \|", EXIT_PAGE.read_text("utf-8"), re.MULTILINE))
    assert rows == {str(int(code)): meaning for code, meaning in EXIT_MEANINGS.items()}


def completions(shell: str, typed: str, folder: Path) -> str:
    asked = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    if shell != "bash":
        asked = {"_TYPER_COMPLETE_ARGS": typed, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    return logdoctor(cwd=folder, _LOGDOCTOR_COMPLETE=f"complete_{shell}", **asked).stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_the_commands(shell: str, tmp_path: Path) -> None:
    offered = completions(shell, "logdoctor comp", tmp_path)
    assert "compare" in offered
    assert "analyze" not in offered


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("logdoctor analyze --objective thr", "throughput"),
        ("logdoctor plan vllm.log --form s", "shell slurm systemd"),
        ("logdoctor plan vllm.log --objective mem", "memory"),
        ("logdoctor config vllm.log --format y", "yaml"),
        ("logdoctor excerpt vllm.log --format j", "json"),
        ("logdoctor whatif vllm.log --set kv_cache_d", "kv_cache_dtype="),
        ("logdoctor explain kv-cache-pre", "kv-cache-preemption"),
    ],
)
def test_completion_knows_values(typed: str, offered: str, tmp_path: Path) -> None:
    assert completions("bash", typed, tmp_path).split() == offered.split()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["analyze", "/absent.log"], ExitCode.UNREADABLE),
        (["compare", "/absent.log", "/absent.log"], ExitCode.UNREADABLE),
        (["compare", "only-one.log"], ExitCode.USAGE),
        (["config", "/absent.log", "--format", "toml"], ExitCode.USAGE),
        (["hook", "run", "--log", "/absent.log"], ExitCode.OK),
        (["hook", "pbs", "--kind", "prologue"], ExitCode.USAGE),
        (["config", os.devnull], ExitCode.NOTHING_OF_VLLM),
    ],
)
def test_an_exit_code_is_what_the_documentation_says(
    arguments: list[str], code: ExitCode, tmp_path: Path
) -> None:
    done = logdoctor(*arguments, cwd=tmp_path)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
