"""The man page, made of the help of every command."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Protocol, cast

import typer

from vllm_logdoctor.cli.exit_codes import ExitCode


class Parameter(Protocol):
    """What is read of an option or argument: its class is click's or typer's own, by release."""

    name: str | None
    param_type_name: str
    opts: list[str]
    secondary_opts: list[str]
    metavar: str | None


class Command(Protocol):
    """What is read of a command; a group has `commands` too."""

    help: str | None
    hidden: bool
    params: list[Parameter]


EXIT_MEANINGS = {
    ExitCode.OK: "done: the report is written, whatever it says",
    ExitCode.FINDINGS: "findings at or above --fail-on",
    ExitCode.USAGE: "wrong usage: an option, a value or a settings file",
    ExitCode.UNREADABLE: (
        "an input can't be read or is a report of logdoctor, or an output can't be written; a batch system refuses the"
        " jobs of `fleet add --cluster`, or they end without a worker"
    ),
    ExitCode.NOTHING_OF_VLLM: "nothing that vLLM writes is in the input; `fleet add` is given no log",
    ExitCode.INTERNAL: "an error of logdoctor itself",
    ExitCode.INTERRUPTED: "interrupted",
}
"""Exit status -> meaning; `hook run` always ends with 0."""

ENVIRONMENT = {
    "LOGDOCTOR_CONFIG": "settings file; else ./logdoctor.toml, else that in the user's configuration",
    "LOGDOCTOR_TRACEBACK": "1 shows where an error of logdoctor itself was",
    "LOGDOCTOR_LOG": "hooks: log of vLLM, where it is not the output of the job",
    "LOGDOCTOR_REPORT": "hooks: file or directory for the report, or - for none",
    "LOGDOCTOR_JOB": "afterany jobs: id of the job to report on",
    "LOGDOCTOR_SECONDS": "job scripts: time limit of the analysis",
    "LOGDOCTOR_BESIDE": "job scripts: directory in which /metrics and nvidia-smi -q of the end are saved, and read with the log",
    "LOGDOCTOR_PORT": "job scripts: port of the server whose /metrics are saved, 8000 by default",
    "LOGDOCTOR": "administrators' hooks: 1 asks for a report, 0 refuses it",
    "XDG_CACHE_HOME": "where compiled patterns are kept between starts (logdoctor/)",
    "XDG_CONFIG_HOME": "where logdoctor/logdoctor.toml is looked for",
    "NO_COLOR": "no colours on a terminal",
    "COLUMNS": "width of a terminal",
}


def man() -> None:
    """Print the man page."""
    from importlib.metadata import version

    from vllm_logdoctor.cli.app import app

    sys.stdout.write(page(cast(Command, typer.main.get_command(app)), version("vllm-logdoctor")))


def page(root: Command, release: str) -> str:
    """Return the man page of a command with all of its sub-commands, as roff."""
    lines = [
        f'.TH LOGDOCTOR 1 "" "vllm-logdoctor {_text(release)}" "User Commands"',
        ".SH NAME",
        rf"logdoctor \- {_text((root.help or '').rstrip('.'))}",
        ".SH SYNOPSIS",
        r"\fBlogdoctor\fR \fICOMMAND\fR [\fIOPTIONS\fR] [\fIARGUMENTS\fR]",
        ".SH COMMANDS",
    ]
    for name, command in _commands("logdoctor", root):
        lines += _command(name, command)
    lines += [".SH EXIT STATUS"]
    for code, meaning in EXIT_MEANINGS.items():
        lines += [".TP", rf"\fB{int(code)}\fR", _text(meaning)]
    lines += [".PP", _text("hook run always ends with 0."), ".SH ENVIRONMENT"]
    for variable, meaning in ENVIRONMENT.items():
        lines += [".TP", rf"\fB{_text(variable)}\fR", _text(meaning)]
    lines += [".SH FILES", ".TP", r"\fBlogdoctor.toml\fR", _text("settings and suppressions")]
    return "\n".join(lines) + "\n"


def _commands(name: str, command: Command) -> Iterator[tuple[str, Command]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield name, command
        return
    for child_name, child in children.items():
        if not child.hidden:
            yield from _commands(f"{name} {child_name}", child)


def _command(name: str, command: Command) -> list[str]:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    words = " ".join(rf"\fI{_text(_metavar(one))}\fR" for one in arguments)
    lines = [f".SS {_text(name)} {words}".rstrip(), _text(_first_paragraph(command.help or ""))]
    for parameter in (*arguments, *options):
        meaning = getattr(parameter, "help", None)
        if meaning:
            lines += [".TP", _head(parameter), _text(str(meaning))]
    return lines


def _head(parameter: Parameter) -> str:
    if parameter.param_type_name == "argument":
        return rf"\fI{_text(_metavar(parameter))}\fR"
    names = ", ".join(rf"\fB{_text(name)}\fR" for name in (*parameter.opts, *parameter.secondary_opts))
    if getattr(parameter, "is_flag", False):
        return names
    return rf"{names} \fI{_text(_metavar(parameter).upper())}\fR"


def _metavar(parameter: Parameter) -> str:
    return (parameter.metavar or parameter.name or "").strip("[]")


def _first_paragraph(text: str) -> str:
    return " ".join(re.split(r"\n\s*\n", text.strip(), maxsplit=1)[0].split())


def _text(text: str) -> str:
    """Return text that roff prints as it is: no backslash, dash or leading dot acts."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    return r"\&" + escaped if escaped.startswith((".", "'")) else escaped
