"""`analyze --ask`: the report first and unharmed, the opinion apart, nothing sent unless it was asked for."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.assistants.answering import LOG, answer, claim, completion, reply, serving
from tests.commands import logdoctor
from tests.parse.planted_secrets import BY_NAME, token
from vllm_logdoctor import analyze
from vllm_logdoctor.cli.start import plain_call

GOOD = reply(completion(answer(claim("The zebra kernel is the cause of this."))))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "vllm.log"
    path.write_text("\n".join(LOG) + "\n")
    return path


def call(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return logdoctor("analyze", *arguments, cwd=folder, NO_COLOR="1", **environment)


@pytest.mark.parametrize("format_name", ["markdown", "text"])
def test_the_opinion_follows_the_report(log: Path, format_name: str) -> None:
    alone = call(log.parent, "vllm.log", "-f", format_name)
    with serving(GOOD) as (url, _):
        asked = call(log.parent, "vllm.log", "-f", format_name, "--ask", url, "--model", "tiny")
    assert asked.stdout.startswith(alone.stdout)
    assert "Second opinion (model tiny): The zebra kernel" in asked.stdout[len(alone.stdout) :]
    assert asked.returncode == alone.returncode == 0


def test_files_hold_report_and_opinion_and_checkers_get_the_report_alone(log: Path) -> None:
    names = ["r.md", "r.json", "r.html", "r.txt", "r.sarif", "r.xml", "r.csv"]
    with serving(GOOD) as (url, _):
        call(
            log.parent,
            "vllm.log",
            "--ask",
            url,
            "--model",
            "tiny",
            *[part for name in names for part in ("-o", name)],
        )
    has = {name: "zebra" in (log.parent / name).read_text() for name in names}
    assert has == {**dict.fromkeys(names, False), **dict.fromkeys(names[:4], True)}
    assert json.loads((log.parent / "r.json").read_text())["opinions"][0]["model"] == "tiny"


def test_json_on_standard_output_is_one_document(log: Path) -> None:
    with serving(GOOD) as (url, _):
        asked = call(log.parent, "vllm.log", "-f", "json", "--ask", url, "--model", "tiny")
    assert len(json.loads(asked.stdout)["opinions"]) == 1


@pytest.mark.parametrize("status", [401, 500])
def test_a_failing_endpoint_costs_one_line_and_changes_no_exit_code(log: Path, status: int) -> None:
    alone = call(log.parent, "vllm.log", "--fail-on", "high")
    with serving(reply(b"{}", status, Retry_After="0")) as (url, _):
        asked = call(log.parent, "vllm.log", "--fail-on", "high", "--ask", url, "--model", "tiny")
    assert asked.returncode == alone.returncode == 1
    assert asked.stdout.startswith(alone.stdout)
    assert f"Second opinion (model tiny): none; status {status}" in asked.stdout


def test_a_dry_run_prints_what_would_be_sent_and_sends_nothing(log: Path) -> None:
    with serving(GOOD) as (url, seen):
        dry = call(
            log.parent, "vllm.log", "--ask", url, "--model", "tiny", "--ask-dry-run", LOGDOCTOR_ASK_KEY="k3y"
        )
        assert seen == []
        call(log.parent, "vllm.log", "--ask", url, "--model", "tiny", LOGDOCTOR_ASK_KEY="k3y")
    assert dry.stdout == seen[0]["body"].decode() + "\n"
    assert "k3y" not in dry.stdout + dry.stderr
    assert seen[0]["headers"]["Authorization"] == "Bearer k3y"


def test_a_settings_file_names_the_model_but_asks_nothing_by_itself(log: Path) -> None:
    with serving(GOOD) as (url, seen):
        (log.parent / "logdoctor.toml").write_text(f'[ask]\nurl = "{url}"\nmodel = "mine"\ntimeout = 30\n')
        quiet = call(log.parent, "vllm.log")
        assert (seen, "Second opinion" in quiet.stdout) == ([], False)
        asked = call(log.parent, "vllm.log", "--ask", "config")
        other = call(log.parent, "vllm.log", "--ask", "config", "--model", "other")
    assert "Second opinion (model mine): The zebra" in asked.stdout
    assert "Second opinion (model other): The zebra" in other.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--ask", "http://127.0.0.1:1/v1"], "--model NAME"),
        (["--model", "tiny"], "go with --ask URL"),
        (["--ask-dry-run"], "go with --ask URL"),
        (["--ask", "config"], "no [ask] table"),
        (["--ask", "localhost:8000", "--model", "m"], "is no address"),
    ],
)
def test_an_incomplete_question_is_refused_before_anything_is_read(
    log: Path, arguments: list[str], words: str
) -> None:
    refused = call(log.parent, "vllm.log", *arguments)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert words in refused.stderr


@pytest.mark.parametrize(
    "text",
    [
        "[ask]\nurl = 'x'\n",
        "[ask]\nurl='http://a/v1'\nmodel='m'\nkey='s'\n",
        "[ask]\nurl='http://a/v1'\nmodel='m'\ntimeout=0\n",
    ],
)
def test_a_mistake_in_the_settings_is_reported(log: Path, text: str) -> None:
    (log.parent / "logdoctor.toml").write_text(text)
    told = call(log.parent, "vllm.log")
    assert (told.returncode, told.stderr.count("\n")) == (2, 1)
    assert "ask" in told.stderr


def test_a_model_is_not_asked_about_another_engine(log: Path) -> None:
    log.write_text(
        "[2025-05-20 10:00:00] server_args=ServerArgs(model_path='org/m', tokenizer_path='org/m', port=30000, tp_size=1)\n"
        "[2025-05-20 10:00:09] max_total_num_tokens=100000, chunked_prefill_size=8192, max_running_requests=64\n"
    )
    with serving(GOOD) as (url, seen):
        asked = call(log.parent, "vllm.log", "--ask", url, "--model", "tiny")
    assert (seen, asked.returncode) == ([], 4)


def test_nothing_but_asking_opens_a_connection(monkeypatch: pytest.MonkeyPatch, log: Path) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    report = analyze(str(log))
    report.excerpt()
    assert [bool(text) for text in (report.to_markdown(), report.to_json(), report.to_html())] == [True] * 3


def test_the_short_way_imports_no_client() -> None:
    code = (
        "import sys; from vllm_logdoctor.cli.start import _run; _run(['analyze', 'fixtures/vllm-0.11.2-kv-starved.log', '-o', '/dev/null', '-f', 'json']);"
        "print([name for name in sys.modules if name in ('http.client', 'ssl', 'mcp') or name.startswith('vllm_logdoctor.assistants')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_plain_call_reads_the_options() -> None:
    request = plain_call(["analyze", "a.log", "--ask", "http://h/v1", "--model", "m", "--ask-dry-run"])
    assert request is not None
    assert (request.ask, request.model, request.ask_dry_run) == ("http://h/v1", "m", True)


@pytest.mark.parametrize("form", BY_NAME[::3])
def test_a_planted_secret_is_not_sent(form: str, tmp_path: Path) -> None:
    from tests.assistants.answering import Canned

    secret = token()
    log = tmp_path / "vllm.log"
    log.write_text(
        "\n".join(
            [
                *LOG[:3],
                f"(APIServer pid=5) ERROR 03-04 10:12:00 [odd.py:93] near {form.format(secret)} failed",
                LOG[3],
            ]
        )
    )
    client = Canned(answer(more=[{"first": 1, "last": 9}, {"text": "odd.py"}]), answer())
    analyze(str(log)).ask(client)
    assert secret not in json.dumps(client.asked)
