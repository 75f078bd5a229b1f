"""The analyze command: reads, analyses, writes the outputs that were asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from vllm_logdoctor.cli.exit_codes import ExitCode
from vllm_logdoctor.cli.options import options_of, planned_for, settings_here, warn, why_not_judged
from vllm_logdoctor.cli.output import check_outputs, write_result
from vllm_logdoctor.cli.settings import ToolSettings, with_known_findings
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.evidence.model import EvidenceFile
from vllm_logdoctor.pipeline import INTERRUPTED, analyse
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.report.writers import format_named, result_of
from vllm_logdoctor.run.servers import VLLM
from vllm_logdoctor.source import Input, inputs_of_paths

_LONG_INPUT = 50_000_000


class AnalyzeArguments(Struct):
    """The arguments of analyze; None where a settings file may decide.

    Attributes:
        paths: logs, directories, "-".
        outputs: files to write, "-" for standard output.
        format: name of a format.
        objective: what the advice is for.
        patterns: more pattern packs.
        jobs: processes that scan.
        quiet: no progress bar.
        job: look for the log of the batch job that this runs in.
        fail_on: severity at which the exit status is 1.
        baseline: earlier JSON report; only findings that it lacks are reported.
        beside: files that are no logs: metrics, benchmark results, output of nvidia-smi ...
        fleet: store whose jobs show what a change did.
        ask: address of a model that is asked for a second opinion, or "config".
        model: its name.
        ask_dry_run: print what would be sent instead.
    """

    paths: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    format: str | None = None
    objective: str | None = None
    patterns: list[str] = field(default_factory=list)
    jobs: int = 1
    quiet: bool = False
    job: bool = False
    fail_on: str | None = None
    baseline: str | None = None
    beside: list[str] = field(default_factory=list)
    fleet: str | None = None
    ask: str | None = None
    model: str | None = None
    ask_dry_run: bool = False


def run_analyze(request: AnalyzeArguments) -> int:
    """Analyse and write every output; returns the exit status.

    Raises:
        LogdoctorError: usage (2), input (3), nothing of vLLM (4).
    """
    settings = settings_here([Path(path) for path in request.patterns])
    request.format = request.format or (None if request.outputs else settings.format)
    _check(request)
    if request.ask is not None or request.model is not None or request.ask_dry_run:
        from vllm_logdoctor.cli.ask import check_ask

        check_ask(request, settings.ask)
    options = options_of(settings, request.objective, request.jobs)
    inputs = inputs_of_paths(_paths(request))
    reads = [*(one.path or "-" for one in inputs), *_files_of(request, settings)]
    check_outputs(request.outputs, reads, request.format)
    settings = with_known_findings(settings)
    evidence = _evidence(request)
    with _progress(inputs, request.quiet) as progress:
        analysis = analyse(inputs, options, progress, evidence)
    analysis, failed = _checked(analysis, request, settings)
    if request.fleet is not None:
        from vllm_logdoctor.cli.fleet import with_own_effects

        analysis = with_own_effects(analysis, request.fleet)
    if request.ask is None or all(one.run.server != VLLM for one in analysis.runs):
        write_outputs(analysis, request)
    else:
        from vllm_logdoctor.cli.ask import write_with_opinion

        write_with_opinion(analysis, request, settings.ask, inputs)
    if INTERRUPTED in analysis.coverage.notes:
        raise KeyboardInterrupt
    if all(one.run.server != VLLM for one in analysis.runs):
        raise LogdoctorError(why_not_judged(analysis), ExitCode.NOTHING_OF_VLLM)
    return ExitCode.FINDINGS if failed else ExitCode.OK


def _evidence(request: AnalyzeArguments) -> list[EvidenceFile]:
    if not request.beside:
        return []
    from vllm_logdoctor.evidence.given import evidence_from

    if "-" in request.beside and "-" in request.paths:
        raise LogdoctorError("standard input is the log or the evidence, not both", ExitCode.USAGE)
    return evidence_from(request.beside, sys.stdin.buffer.read() if "-" in request.beside else None)


def write_outputs(analysis: Analysis, request: AnalyzeArguments) -> None:
    """Write the report to the named files, or to standard output: a view on a terminal, else Markdown."""

    def show() -> None:
        from vllm_logdoctor.report.terminal import print_analysis

        print_analysis(analysis)

    write_result(result_of(analysis), request.format, request.outputs, show)


def _files_of(request: AnalyzeArguments, settings: ToolSettings) -> list[str | Path]:
    """Return what is read beside the logs."""
    return [one for one in (request.baseline, settings.baseline, settings.path) if one is not None]


def _paths(request: AnalyzeArguments) -> list[str]:
    if request.job:
        from vllm_logdoctor.hooks.joblog import file_behind, find_job_log

        own_output = file_behind(Path("/proc/self/fd/1"))
        return [str(path) for path in find_job_log(os.environ, own_output=own_output)]
    return request.paths


def _checked(analysis: Analysis, request: AnalyzeArguments, settings: ToolSettings) -> tuple[Analysis, bool]:
    """Leave out what is suppressed or known, and say whether what is left fails the call."""
    if not (request.fail_on or request.baseline or settings.path):
        return analysis, False
    from datetime import date

    from vllm_logdoctor.cli.baseline import reaches, severity_named, without_known

    fail_on = severity_named(request.fail_on) if request.fail_on else settings.fail_on
    if request.baseline:
        settings = replace(settings, baseline=Path(request.baseline))
    left = without_known(analysis, settings, date.today(), planned_for(analysis.objective))
    warn(left.warnings)
    return left.analysis, fail_on is not None and reaches(left.analysis, fail_on)


def _check(request: AnalyzeArguments) -> None:
    if not request.paths and not request.job:
        raise LogdoctorError("name a log: logdoctor analyze vllm.log (or - for standard input)", 2)
    if request.format:
        request.format = format_named(request.format)


@contextmanager
def _progress(inputs: list[Input], quiet: bool) -> Iterator[Callable[[int], None] | None]:
    """Show a progress bar on standard error for long inputs on a terminal."""
    total = sum(source.size or 0 for source in inputs)
    if quiet or total < _LONG_INPUT or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=total)
        yield lambda size: bar.advance(task, size)
