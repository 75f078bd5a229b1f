"""What must be true of the reports on any bytes."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

from tests.fuzz.logs import MARKUP, SECRET
from vllm_logdoctor import LogdoctorError
from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.plan.formats import render_launch
from vllm_logdoctor.plan.launch import MASK, Launch, SecretVariable, flag_words, launch_of, program
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.report.writers import render
from vllm_logdoctor.source import Input

_SECONDS = 3.0
_SECONDS_PER_MEGABYTE = 20.0
_CHUNKS = (17, 257, 1000, 4096, 65_536)
_RARE_FORMATS = ("html", "text", "sarif", "junit", "csv", "github")


def problems_of(data: bytes, number: int = 0) -> list[str]:
    """Return what is wrong with the reports on a log; an error that is documented is no problem.

    Args:
        data: the log.
        number: chooses the size of chunks, and which of the slower checks are made; all of them for 0.
    """
    begun = time.process_time()
    try:
        analysis = _analysed(data, Options())
        texts = {name: render(analysis, name) for name in ("json", "markdown")[: 2 - number % 2]}
        if number % 64 == 0:
            texts |= {name: render(analysis, name) for name in _RARE_FORMATS}
    except LogdoctorError as error:
        return [] if error.exit_code in (3, 4) else [f"exit code {error.exit_code}: {error}"]
    except Exception as error:
        return [f"crash: {type(error).__name__}: {error}"]
    seconds = time.process_time() - begun
    found = []
    if seconds > _SECONDS + _SECONDS_PER_MEGABYTE * len(data) / 1e6:
        found.append(f"{seconds:.1f} s for {len(data):,} bytes")
    if "defect of logdoctor" in texts["json"]:
        found.append("a defect is noted in the report")
    found += [f"planted secret in {name}" for name, text in texts.items() if SECRET in text]
    if MARKUP in texts.get("html", ""):
        found.append("markup of the log in html")
    if number % 8 == 0:
        found += _differences(data, texts["json"], number)
    for diagnosis in analysis.runs if number % 3 == 0 else ():
        launch = launch_of(diagnosis.run)
        found += _launch_problems(launch) if launch else []
    return found


def _analysed(data: bytes, options: Options) -> Analysis:
    return analyse([Input("vllm.log", data=data)], options)


def _differences(data: bytes, expected: str, number: int) -> list[str]:
    """Return in which other ways of reading the same bytes the report is another one."""
    ways: dict[str, Any] = {}
    size = _CHUNKS[number // 8 % len(_CHUNKS)] if number else 257
    ways[f"for pieces of {size} bytes"] = lambda: _analysed(data, Options(chunk_bytes=size))
    if number % 128 == 0:
        ways["from a pipe"] = lambda: _from_pipe(data)
        ways["with two processes"] = lambda: _from_file(data)
    return [f"another report {way}" for way, read in ways.items() if render(read(), "json") != expected]


def _from_pipe(data: bytes) -> Analysis:
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as file:
            file.write(data)

    thread = threading.Thread(target=write)
    with os.fdopen(reading, "rb", buffering=0) as stream:
        thread.start()
        with mock.patch.object(sys, "stdin", io.TextIOWrapper(stream)):
            analysis = analyse([Input("vllm.log")], Options())
        thread.join()
    return analysis


def _from_file(data: bytes) -> Analysis:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        path.write_bytes(data)
        return analyse([Input("vllm.log", path=path)], Options(chunk_bytes=4096, jobs=2))


def _launch_problems(launch: Launch) -> list[str]:
    """Return which forms of a launch read back as something else than its words."""
    words = [*program(launch), *(word for group in flag_words(launch) for word in group)]
    masked = [word if isinstance(word, SecretVariable) else None for word in words]
    read = {
        "shell": _shell_words(render_launch(launch, "shell"), masked),
        "systemd": _systemd_words(render_launch(launch, "systemd")),
        "compose": _compose_words(render_launch(launch, "compose")),
        "kubernetes": _kubernetes_words(render_launch(launch, "kubernetes")),
    }
    expected = {
        "shell": [f"${word}" if hidden else word for word, hidden in zip(words, masked, strict=True)],
        "systemd": [f"${{{word}}}" if hidden else word for word, hidden in zip(words, masked, strict=True)],
        "compose": [
            f"${{{word}:?the log masks it}}" if hidden else word
            for word, hidden in zip(words, masked, strict=True)
        ],
        "kubernetes": [f"$({word})" if hidden else word for word, hidden in zip(words, masked, strict=True)],
    }
    found = [
        f"{form}: {read[form]!r:.300} for {expected[form]!r:.300}"
        for form in read
        if read[form] != expected[form]
    ]
    try:
        settings = yaml.load(render_launch(launch, "yaml"), Loader=_loader()) or {}
    except yaml.YAMLError as error:
        return [*found, f"yaml: {error}"]
    if any(value == MASK for value in settings.values()):
        found.append("yaml: a mask in place of a secret")
    return found + [
        f"yaml: {name} is {settings.get(name.removeprefix('--'))!r} for {value!r}"
        for name, value in launch.flags.items()
        if isinstance(value, str | int) and not isinstance(value, bool) and MASK not in str(value)
        and settings.get(name.removeprefix("--")) != value
    ]  # fmt: skip


@cache
def _loader() -> Any:
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _shell_words(text: str, masked: list[str | None]) -> list[str]:
    """Return the words that a shell reads; bash where the text holds its escapes, with each variable holding its own name."""
    command = "\n".join(line for line in text.split("\n") if not line.startswith(": "))
    if "$'" not in command:
        return shlex.split(command.replace("\\\n", " "))
    variables = {word: f"${word}" for word in masked if word}
    done = subprocess.run(
        ["bash", "-c", f'printf "%s\\0" {command}'],
        capture_output=True,
        env={**variables, "LC_ALL": "C.UTF-8"},
        check=False,
    )
    return done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]


_SYSTEMD_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)')
_SYSTEMD_ESCAPE = re.compile(r"\\(u[0-9a-f]{4}|U[0-9a-f]{8}|x[0-9a-f]{2}|.)")


def _systemd_words(text: str) -> list[str]:
    line = next(line for line in text.split("\n") if line.startswith("ExecStart=")).partition("env ")[2]

    def escaped(match: re.Match[str]) -> str:
        code = match[1]
        return (
            chr(int(code[1:], 16))
            if code[0] in "uUx" and len(code) > 1
            else {"n": "\n", "t": "\t"}.get(code, code)
        )

    words = [match[1] if match[1] is not None else match[2] for match in _SYSTEMD_WORD.finditer(line)]
    return [_SYSTEMD_ESCAPE.sub(escaped, word).replace("%%", "%").replace("$$", "$") for word in words]


def _compose_words(text: str) -> list[str]:
    service = yaml.load(text, Loader=_loader())["services"]["vllm"]
    return [word.replace("$$", "$") for word in [*service["entrypoint"], *service["command"]]]


def _kubernetes_words(text: str) -> list[str]:
    (container,) = yaml.load(text, Loader=_loader())
    return [word.replace("$$", "$") for word in [*container["command"], *container["args"]]]
