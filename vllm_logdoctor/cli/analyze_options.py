"""The options of analyze, once: typer's parameters and the short way without typer are made of this table."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from vllm_logdoctor.catalogue.topics import SEVERITIES
from vllm_logdoctor.pipeline import OBJECTIVES
from vllm_logdoctor.report.writers import CHOICES


class AnalyzeOption(Struct, frozen=True):
    """One option.

    Attributes:
        names: as typed, the long one first.
        help: one line.
        metavar: what its value is, or "" for a switch.
        choices: its values, or () for any.
        many: whether it may be given several times.
    """

    names: tuple[str, ...]
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    many: bool = False


OPTIONS: dict[str, AnalyzeOption] = {
    "outputs": AnalyzeOption(
        ("--output", "-o"), "Write the report to FILE; its ending names the format (repeatable).", "FILE", many=True
    ),
    "format": AnalyzeOption(("--format", "-f"), f"{', '.join(CHOICES)}.", "FORMAT", CHOICES),
    "objective": AnalyzeOption(("--objective",), f"{', '.join(OBJECTIVES)}.", "GOAL", OBJECTIVES),
    "patterns": AnalyzeOption(("--patterns",), "Directory with more pattern packs (repeatable).", "DIR", many=True),
    "jobs": AnalyzeOption(("--jobs", "-j"), "Processes that scan a large file.", "N"),
    "quiet": AnalyzeOption(("--quiet", "-q"), "No progress bar."),
    "job": AnalyzeOption(("--job",), "Find the log of the PBS or Slurm job that this runs in."),
    "fail_on": AnalyzeOption(
        ("--fail-on",), f"Exit with 1 on findings at or above: {', '.join(SEVERITIES)}.", "SEVERITY", tuple(SEVERITIES)
    ),
    "baseline": AnalyzeOption(
        ("--baseline",), "Report only findings that are not in this earlier JSON report.", "FILE"
    ),
    "beside": AnalyzeOption(
        ("--with",), "A file beside the log: metrics, nvidia-smi, a benchmark's result.", "FILE", many=True
    ),
    "fleet": AnalyzeOption(("--fleet",), "Store of logdoctor fleet: say what a change did to your own jobs.", "STORE"),
    "ask": AnalyzeOption(
        ("--ask",), "Ask a model at this OpenAI-compatible address for a second opinion; config: that of logdoctor.toml.", "URL"
    ),
    "model": AnalyzeOption(("--model",), "Name of the model to ask.", "NAME"),
    "ask_dry_run": AnalyzeOption(("--ask-dry-run",), "Print what --ask would send, and send nothing."),
}  # fmt: skip
"""Field of a request -> its option."""

WITH_VALUE = {name: field for field, option in OPTIONS.items() if option.metavar for name in option.names}
SWITCHES = {name: field for field, option in OPTIONS.items() if not option.metavar for name in option.names}


def parameter(field: str, **more: Any) -> Any:
    """Return an option as a parameter of typer, whose values a shell completes."""
    import typer

    option = OPTIONS[field]
    if option.metavar:
        more["metavar"] = option.metavar
    if option.choices:
        more["autocompletion"] = lambda incomplete: [
            one for one in option.choices if one.startswith(incomplete)
        ]
    return typer.Option(*option.names, help=option.help, **more)
