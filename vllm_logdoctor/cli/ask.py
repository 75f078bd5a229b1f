"""`analyze --ask`: the report first, then what a model says of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from vllm_logdoctor.assistants.asking import ask, messages_for
from vllm_logdoctor.assistants.endpoint import TIMEOUT, Endpoint, split_url
from vllm_logdoctor.assistants.excerpt import chosen
from vllm_logdoctor.assistants.lines import line_source
from vllm_logdoctor.assistants.question import schema
from vllm_logdoctor.cli.analyze import AnalyzeArguments, write_outputs
from vllm_logdoctor.cli.output import write
from vllm_logdoctor.cli.settings import AskSettings
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.report.opinion import Opinion
from vllm_logdoctor.report.text import plain_text
from vllm_logdoctor.report.writers import format_of_name

if TYPE_CHECKING:
    from vllm_logdoctor.source import Input

KEY = "LOGDOCTOR_ASK_KEY"
_WITH_OPINION = ("markdown", "text", "html", "json")
_WHOLE = ("html", "json")
"""Formats of one document: on standard output they are written once, after the answer."""


def check_ask(request: AnalyzeArguments, settings: AskSettings | None) -> None:
    """Raise a LogdoctorError (exit code 2) if it is not clear which model to ask."""
    if request.ask is None:
        raise LogdoctorError("--model and --ask-dry-run go with --ask URL", 2)
    _endpoint(request, settings)


def write_with_opinion(
    analysis: Analysis, request: AnalyzeArguments, settings: AskSettings | None, inputs: Sequence[Input]
) -> None:
    """Write the report to all outputs, then ask, then add the opinion.

    Whatever the endpoint does, the report is there. On standard output only a JSON or HTML document waits for the answer:
    it can be written once.
    """
    endpoint = _endpoint(request, settings)
    if request.ask_dry_run:
        _print_request(endpoint, analysis)
        return
    names = request.outputs or ["-"]
    waiting = [name for name in names if name == "-" and _format(name, request) in _WHOLE]
    first = [name for name in names if name not in waiting]
    if first:
        write_outputs(analysis, replace(request, outputs=first) if request.outputs else request)
        sys.stdout.flush()
    opinion = _opinion(analysis, endpoint, inputs)
    asked = replace(analysis, opinions=(opinion,))
    if waiting:
        write_outputs(asked, replace(request, outputs=waiting))
    for name in first:
        if name == "-":
            _print_opinion(opinion, _format(name, request))
        elif _format(name, request) in _WITH_OPINION:
            write_outputs(asked, replace(request, outputs=[name]))


def _format(name: str, request: AnalyzeArguments) -> str:
    return (request.format or "") if name == "-" else format_of_name(name, request.format)


def _opinion(analysis: Analysis, endpoint: Endpoint, inputs: Sequence[Input]) -> Opinion:
    try:
        return ask(analysis, endpoint, line_source(analysis, inputs))
    except KeyboardInterrupt:
        return Opinion(chosen(analysis).run.number, endpoint.model, "interrupted")


def _print_opinion(opinion: Opinion, format_name: str) -> None:
    if format_name in ("", "markdown"):
        text = opinion.to_markdown()
        write(f"\n## Second opinion\n\n{text}" if not sys.stdout.isatty() else f"\n{plain_text(text)}")
    elif format_name in ("text", "terminal"):
        write(f"\n{plain_text(opinion.to_markdown())}")


def _print_request(endpoint: Endpoint, analysis: Analysis) -> None:
    sys.stderr.write(
        f"logdoctor: not sent: POST {endpoint.target}{' with a key' if endpoint.key else ''}; the model may then"
        " ask for more masked lines\n"
    )
    write(endpoint.body(messages_for(analysis), schema(may_ask=True)).decode() + "\n")


def _endpoint(request: AnalyzeArguments, settings: AskSettings | None) -> Endpoint:
    """Return what to ask; an address of a settings file counts only where the command line says so.

    A settings file may lie in a folder of somebody else: it must not make logs leave by itself.
    """
    if request.ask == "config":
        if settings is None:
            raise LogdoctorError("--ask config: logdoctor.toml has no [ask] table with url and model", 2)
        url, model = settings.url, request.model or settings.model
    else:
        url, model = request.ask or "", request.model or ""
    if not model.strip():
        raise LogdoctorError("--ask needs the name of the model: --model NAME", 2)
    split_url(url)
    key = os.environ.get(KEY, "").strip()
    if not key.isascii() or not key.isprintable():
        raise LogdoctorError(
            f"{KEY} holds what no key holds: only visible ASCII characters go into a header", 2
        )
    return Endpoint(url, model, key, settings.timeout if settings else TIMEOUT)
