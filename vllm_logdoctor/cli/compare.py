"""The compare and verify commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vllm_logdoctor.cli.analyze_options import parameter
from vllm_logdoctor.cli.output import check_outputs, write_result
from vllm_logdoctor.errors import LogdoctorError

if TYPE_CHECKING:
    from vllm_logdoctor.cli.settings import ToolSettings
    from vllm_logdoctor.comparison.snapshot import Snapshot
    from vllm_logdoctor.engine_comparison.rows import Claims
    from vllm_logdoctor.engine_comparison.table import EngineComparison
    from vllm_logdoctor.pipeline import Options
    from vllm_logdoctor.report.writers import Result


Run = Annotated[int | None, typer.Option(min=1, metavar="N", help="Number of the run in a log with several.")]
Format = Annotated[str | None, parameter("format")]
Output = Annotated[list[str] | None, parameter("outputs")]


def compare(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="Log, or a report of logdoctor (.json).")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="Log, or a report of logdoctor (.json).")],
    more: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MORE]...", help="Logs of other engines, benchmarks without a server."),
    ] = None,
    before_run: Run = None,
    after_run: Run = None,
    same_machine: Annotated[
        bool, typer.Option("--same-machine", help="All ran on one machine (printed as your claim).")
    ] = False,
    same_workload: Annotated[
        bool, typer.Option("--same-workload", help="All served the same requests (printed as your claim).")
    ] = False,
    format: Format = None,
    output: Output = None,
) -> None:
    """Compare two runs of vLLM, or several engines."""
    from vllm_logdoctor.comparison import comparison
    from vllm_logdoctor.comparison.writers import result_of_comparison
    from vllm_logdoctor.engine_comparison.rows import Claims

    names = (before, after, *(more or ()))
    settings = _checked_settings(format, output or [], names)
    document_of = _reader(settings)
    engines = engines_compared(names, Claims(same_machine, same_workload), document_of)
    if engines is not None:
        _write(engines, format, output or [])
        return
    result = comparison.compare(*_sides(settings, document_of, (before, before_run), (after, after_run)))
    chosen = format or (None if output else settings.format)
    _write(result_of_comparison(result), chosen, output or [])


def verify(
    after: Annotated[str, typer.Argument(metavar="LOG", help="Log of the run after the change.")],
    against: Annotated[
        str, typer.Option(metavar="FILE", help="Report of the run before (--format json), or its log.")
    ],
    before_run: Run = None,
    after_run: Run = None,
    format: Format = None,
    output: Output = None,
) -> None:
    """Check whether planned changes took effect and helped."""
    from vllm_logdoctor.comparison import verification
    from vllm_logdoctor.comparison.writers import result_of_verification

    settings = _checked_settings(format, output or [], (against, after))
    result = verification.verify(
        *_sides(settings, _reader(settings), (against, before_run), (after, after_run))
    )
    chosen = format or (None if output else settings.format)
    _write(result_of_verification(result), chosen, output or [])


def document_of(name: str, options: Options) -> dict[str, Any]:
    """Return the JSON report of a log, or the report itself where the file holds one.

    Raises:
        LogdoctorError: can't be read, or holds nothing of vLLM.
    """
    from vllm_logdoctor.pipeline import analyse
    from vllm_logdoctor.report.json import document
    from vllm_logdoctor.source import inputs_from

    return _report(name) or document(analyse(inputs_from(name), options))


def _report(name: str) -> dict[str, Any] | None:
    """Return the report in a file that begins as one; a log in JSON lines is none."""
    path = Path(name)
    if path.suffix != ".json" or not path.is_file():
        return None
    try:
        parsed = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    is_report = isinstance(parsed, dict) and str(parsed.get("schema", "")).startswith("logdoctor/")
    return parsed if is_report else None


def _checked_settings(format: str | None, outputs: Sequence[str], logs: Sequence[str]) -> ToolSettings:
    """Check the arguments and return the settings of logdoctor.toml."""
    from vllm_logdoctor.cli.options import settings_here
    from vllm_logdoctor.cli.settings import with_known_findings
    from vllm_logdoctor.report.writers import format_named
    from vllm_logdoctor.source import inputs_of_paths

    if format is not None:
        format_named(format)
    if logs.count("-") > 1:
        raise LogdoctorError("standard input can be only one of the logs", 2)
    check_outputs(outputs, [one.path or "-" for one in inputs_of_paths(logs)], format)
    return with_known_findings(settings_here())


def _reader(settings: ToolSettings) -> Callable[[str], dict[str, Any]]:
    """Return what reads the JSON report of a log once: a pipe, <(kubectl logs pod), is empty the second time."""
    from vllm_logdoctor.cli.options import options_of

    options = options_of(settings)
    return cache(lambda name: document_of(name, options))


def _sides(
    settings: ToolSettings, document_of: Callable[[str], dict[str, Any]], *sides: tuple[str, int | None]
) -> list[Snapshot]:
    """Read runs, each without the findings that are accepted today."""
    from datetime import date

    from vllm_logdoctor.cli.baseline import without_accepted
    from vllm_logdoctor.cli.options import warn
    from vllm_logdoctor.comparison.snapshot import snapshot_of

    read = [snapshot_of(document_of(name), run) for name, run in sides]
    left = [without_accepted(one, settings.suppressions, date.today()) for one in read]
    warn(dict.fromkeys(note for _, notes in left for note in notes))
    return [snapshot for snapshot, _ in left]


def _write(result: Result, format: str | None, outputs: Sequence[str]) -> None:
    """Write to the named files, or to standard output."""

    def show() -> None:
        from vllm_logdoctor.report.terminal_page import print_page

        print_page(result.page())

    write_result(result, format, outputs, show)


def engines_compared(
    names: Sequence[str], claims: Claims, document_of: Callable[[str], dict[str, Any]]
) -> Result | None:
    """Return the comparison of several engines, or None for two runs of vLLM, which `comparison` compares in full.

    Raises:
        LogdoctorError: a side can't be read or holds no run.
    """
    from vllm_logdoctor.engine_comparison.reading import benchmark_in, is_report_of_vllm, sides_of
    from vllm_logdoctor.engine_comparison.table import compare_engines

    documents = {name: document_of(name) for name in dict.fromkeys(names) if benchmark_in(name) is None}
    logs = len(names) == 2 and len(documents) == len(set(names))
    if logs and all(map(is_report_of_vllm, documents.values())):
        return None
    return _result(compare_engines(sides_of(names, documents.__getitem__), claims))


def _result(comparison: EngineComparison) -> Result:
    from vllm_logdoctor.engine_comparison.table import document, render
    from vllm_logdoctor.report.body import block_html, blocks_in
    from vllm_logdoctor.report.webpage import webpage
    from vllm_logdoctor.report.writers import Result

    def html() -> str:
        blocks = blocks_in(render(comparison))
        return webpage(blocks, [], "".join(one.heading_html + block_html(one, {}) for one in blocks))

    return Result(partial(render, comparison), partial(document, comparison), {"html": html})
