"""The command line starts without what it does not need, and reads plain calls as typer would."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from vllm_logdoctor.cli import analyze as command
from vllm_logdoctor.cli.app import app
from vllm_logdoctor.cli.start import plain_call

LOG = "INFO 01-01 00:00:00 [api_server.py:1] vLLM API server version 0.11.0\n"


def loaded_by(*arguments: str) -> set[str]:
    program = (
        "import sys; from vllm_logdoctor.cli import main\n"
        "sys.argv = ['logdoctor', *sys.argv[1:]]\n"
        "try: main()\n"
        "finally: sys.stderr.write('\\n'.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    return set(done.stderr.split("\n"))


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "vllm.log"
    path.write_text(LOG)
    return str(path)


def test_the_version_needs_neither_typer_nor_pandas() -> None:
    assert not {"pandas", "typer", "rich", "pydantic"} & loaded_by("--version")


def test_a_plain_analysis_needs_neither_pandas_nor_numpy_nor_typer_nor_pydantic(log: str) -> None:
    assert not {"pandas", "numpy", "typer", "pydantic", "tempfile", "statistics"} & loaded_by(
        "analyze", log, "--format", "json"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["analyze", "a.log"],
        ["analyze", "a.log", "b.log", "--format", "json"],
        ["analyze", "-f", "markdown", "-", "-q"],
        ["analyze", "a.log", "-o", "r.md", "--output", "r.json", "--objective", "latency"],
        ["analyze", "--patterns", "packs", "--jobs", "3", "a.log", "--quiet"],
    ],
)
def test_a_plain_call_means_what_typer_reads(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[command.AnalyzeArguments] = []
    monkeypatch.setattr(command, "run_analyze", asked.append)
    done = CliRunner().invoke(app, arguments)
    call = plain_call(arguments)
    assert done.exit_code == 0, done.output
    assert call is not None
    assert asked == [
        command.AnalyzeArguments(
            call.paths, call.outputs, call.format, call.objective, call.patterns, call.jobs, call.quiet
        )
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["analyze"],
        ["analyze", "--help"],
        ["analyze", "a.log", "--jobs", "0"],
        ["analyze", "a.log", "--format"],
        ["explain", "x"],
        ["--help"],
        [],
    ],
)
def test_what_is_not_plain_is_left_to_typer(arguments: list[str]) -> None:
    assert plain_call(arguments) is None
