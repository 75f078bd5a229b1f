"""How a command analyses: the command line before logdoctor.toml before the defaults."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from vllm_logdoctor.catalogue.locate import cache_directory
from vllm_logdoctor.cli.settings import ToolSettings, find_settings, read_settings
from vllm_logdoctor.errors import LogdoctorError, unknown_choice
from vllm_logdoctor.evidence.kind_names import kind_words
from vllm_logdoctor.pipeline import OBJECTIVES, Options
from vllm_logdoctor.run.servers import NAMES

if TYPE_CHECKING:
    from vllm_logdoctor.cli.baseline import Filtered, Replan
    from vllm_logdoctor.report.model import Analysis, Diagnosis


def settings_here(patterns: Sequence[Path] = ()) -> ToolSettings:
    """Read the logdoctor.toml that holds in the working directory; without one the settings say nothing.

    Args:
        patterns: packs that the command line names, before those of the file.

    Raises:
        LogdoctorError: the file can't be read (exit code 3), or says what is not known (2); a pack is not there (2).
    """
    for path in patterns:
        if not (os.path.isfile(path) or os.path.isdir(path)):
            raise LogdoctorError(f"no such pattern pack: {path}", 2)
    place = find_settings(_working_directory(), os.environ)
    settings = read_settings(place) if place else ToolSettings()
    return replace(settings, patterns=(*patterns, *settings.patterns))


def _working_directory() -> Path | None:
    """Return the working directory, or None where it was deleted."""
    try:
        return Path.cwd()
    except OSError:
        return None


def options_of(settings: ToolSettings, objective: str | None = None, jobs: int = 1) -> Options:
    """Return how to analyse; what the command line says goes before what the file says.

    Raises:
        LogdoctorError: no such objective (exit code 2).
    """
    chosen = objective or settings.objective or "balanced"
    if chosen not in OBJECTIVES:
        raise unknown_choice("objective", chosen, OBJECTIVES)
    return Options(patterns=settings.patterns, objective=chosen, cache=cache_directory(), jobs=jobs)


def analysis_of(log: str, settings: ToolSettings | None = None, objective: str | None = None) -> Analysis:
    """Analyse a log, or standard input ("-"), as the settings say.

    Raises:
        LogdoctorError: the file is one that lies beside logs (exit code 4).
    """
    from vllm_logdoctor.pipeline import analyse
    from vllm_logdoctor.source import inputs_from

    analysis = analyse(inputs_from(log), options_of(settings or settings_here(), objective))
    if not analysis.runs:
        raise LogdoctorError(why_not_judged(analysis), 4)
    return analysis


def why_not_judged(analysis: Analysis) -> str:
    """Return what to say where no run is vLLM's: another engine's log, or only files that lie beside one."""
    names = sorted({NAMES.get(one.run.server, one.run.server) for one in analysis.runs})
    if names:
        return f"this is a log of {' and '.join(names)}; only logs of vLLM are judged"
    first = analysis.beside[0].evidence
    more = f" (and {len(analysis.beside) - 1} more files)" if len(analysis.beside) > 1 else ""
    return (
        f"{first.file} is {kind_words(first.kind)}{more}, not a log of vLLM; with the log it adds {first.adds}:"
        f" logdoctor analyze vllm.log --with {first.file}"
    )


def run_of(analysis: Analysis, number: int | None) -> Diagnosis:
    """Return the run with a number, or the last one.

    Raises:
        LogdoctorError: there is none (exit code 2).
    """
    if number is not None and number > len(analysis.runs):
        raise LogdoctorError(f"there is no run {number}: the log holds {len(analysis.runs)}", 2)
    return analysis.runs[number - 1 if number else -1]


def accepted_left_out(analysis: Analysis, settings: ToolSettings) -> Filtered:
    """Leave out the findings that the settings accept today; the plan is made again without them."""
    from datetime import date

    from vllm_logdoctor.cli.baseline import suppressed

    return suppressed(analysis, settings.suppressions, date.today(), planned_for(analysis.objective))


def planned_for(objective: str) -> Replan:
    """Return how a plan is made again of the findings that are left."""
    from vllm_logdoctor.plan import plan_of

    return lambda run, left: plan_of(run, left, objective)


def warn(lines: Iterable[str]) -> None:
    """Print lines on standard error; control characters that they quote from a file are shown as text."""
    from vllm_logdoctor.report.escape import visible

    for line in lines:
        sys.stderr.write(f"logdoctor: {visible(line)}\n")
