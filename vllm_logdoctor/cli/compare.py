"""The compare and verify commands."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from vllm_logdoctor.errors import LogdoctorError

FORMATS = ("markdown", "text", "json")

Run = Annotated[Optional[int], typer.Option(min=1, help="Number of the run in a log with several.")]  # noqa: UP045
Format = Annotated[str, typer.Option("--format", "-f", help="markdown, text or json.")]
Output = Annotated[str, typer.Option("--output", "-o", help="Write here; - is standard output.")]


def compare(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="Log, or a report of logdoctor (.json).")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="Log, or a report of logdoctor (.json).")],
    before_run: Run = None,
    after_run: Run = None,
    format: Format = "markdown",
    output: Output = "-",
) -> None:
    """Say what differs between two runs: settings, start-up, capacity, speed at equal load, findings."""
    from vllm_logdoctor.compare import comparison, markdown
    from vllm_logdoctor.compare.json import render_comparison
    from vllm_logdoctor.compare.snapshot import snapshot_of

    _check(format)
    sides = snapshot_of(document_of(before), before_run), snapshot_of(document_of(after), after_run)
    result = comparison.compare(*sides)
    _write(render_comparison(result) if format == "json" else _page(markdown.render(result), format), output)


def verify(
    after: Annotated[str, typer.Argument(metavar="LOG", help="Log of the run after the change.")],
    against: Annotated[str, typer.Option(help="Report of the run before (--format json), or its log.")],
    before_run: Run = None,
    after_run: Run = None,
    format: Format = "markdown",
    output: Output = "-",
) -> None:
    """Say whether each planned change took effect, and whether its prediction came true."""
    from vllm_logdoctor.compare import verification, verification_markdown
    from vllm_logdoctor.compare.json import render_verification
    from vllm_logdoctor.compare.snapshot import snapshot_of

    _check(format)
    sides = snapshot_of(document_of(against), before_run), snapshot_of(document_of(after), after_run)
    result = verification.verify(*sides)
    text = (
        render_verification(result)
        if format == "json"
        else _page(verification_markdown.render(result), format)
    )
    _write(text, output)


def document_of(name: str) -> dict[str, Any]:
    """Return the JSON report of a log, or the report itself where the file holds one.

    Raises:
        LogdoctorError: can't be read, or holds nothing of vLLM.
    """
    from vllm_logdoctor.analysis import Options, analyse
    from vllm_logdoctor.cli.analyze import cache_directory
    from vllm_logdoctor.report.json import document
    from vllm_logdoctor.source import inputs_from

    report = _report(name)
    return report if report else document(analyse(inputs_from(name), Options(cache=cache_directory())))


def _report(name: str) -> dict[str, Any] | None:
    """Return the report in a file that begins as one; a log in JSON lines is none."""
    path = Path(name)
    if path.suffix != ".json" or not path.is_file():
        return None
    try:
        parsed = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return (
        parsed
        if isinstance(parsed, dict) and str(parsed.get("schema", "")).startswith("logdoctor/")
        else None
    )


def _check(format: str) -> None:
    if format not in FORMATS:
        raise LogdoctorError(f"unknown format {format!r}; choose one of {', '.join(FORMATS)}", 2)


def _page(markdown: str, format: str) -> str:
    from vllm_logdoctor.report.text import plain_text

    return plain_text(markdown) if format == "text" else markdown


def _write(text: str, output: str) -> None:
    data = text.encode("utf-8", "replace")
    if output == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        Path(output).write_bytes(data)
    except OSError as error:
        raise LogdoctorError(
            f"can't write {output}: {error.strerror or error}; choose another place with -o"
        ) from error
