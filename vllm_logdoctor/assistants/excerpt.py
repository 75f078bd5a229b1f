"""An excerpt of one run: the facts and the lines from which somebody can judge it without the log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import PurePath
from typing import Annotated, Any

from msgspec import Meta, Struct, to_builtins
from msgspec.structs import replace

from vllm_logdoctor.assistants.selection import decisive_place, last_sign_of_life, selected
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.report.escape import visible
from vllm_logdoctor.report.excerpt import excerpt
from vllm_logdoctor.report.first_screen import first_screen
from vllm_logdoctor.report.key_figures import key_figures
from vllm_logdoctor.report.model import Analysis, Diagnosis
from vllm_logdoctor.report.naming import BROKEN, parallelism
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.reader import plain_words
from vllm_logdoctor.report.sections.configuration import spread
from vllm_logdoctor.rules.capacity.card import device_name
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.rules.urgency import urgent_first
from vllm_logdoctor.run.model import Evidence, Run, Value

FEWEST, MOST = 30, 150
"""Bounds of the lines of an excerpt."""
LONGEST_LINE = 500
_BRIEF = 50
"""Below so many lines the facts are cut down to leave room for lines of the log."""
_LEAST_LOG = 8
_FINDINGS = 4
_SETTINGS = 40
_LONGEST_FACT = 300
# 203.0.113.7:53124 - "POST /v1/chat/completions HTTP/1.1" 200 OK     [2001:db8::7]:53124 - "GET / HTTP/1.1" 404
_CLIENT = lazy_pattern(
    r"(?P<host>\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-fA-F:.]{2,45}\]|[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{0,4}){2,7}):(?P<port>\d{1,5})(?= - \"[A-Z]{3,8} )"
)
_BLANKS = lazy_pattern(r"\s{17,}")


class CitedFact(Struct, frozen=True):
    """A named value with the lines that prove it."""

    name: str
    value: str
    lines: tuple[str, ...] = ()


class LogLine(Struct, frozen=True):
    """One line of the log."""

    at: Annotated[str, Meta(description='line number, "12", or "2:12" for line 12 of the second file')]
    text: Annotated[str, Meta(description="the line, secrets masked")]


class Conclusion(Struct, frozen=True):
    """One finding in a sentence."""

    id: str
    kind: str
    role: str | None
    confidence: str
    text: str
    lines: tuple[str, ...]


class Excerpt(Struct, frozen=True):
    """What somebody needs to judge a run without its log.

    Attributes:
        state, ran: the verdict and what ran, as on the first screen of the report.
        run, runs: number of the run, and how many the log has.
        files: names of the files, without their folders; line numbers refer to them in this order.
        launch: the command, or "" where the log does not hold all arguments.
        settings: values that somebody set or that vLLM changed.
        environment: release, hardware and variables.
        signs: which process failed, and the last line of ordinary work before.
        load: figures of the load; empty where nothing was served.
        concluded: findings in order of importance.
        not_known: what the log can't tell.
        lines: lines of the log in order.
        lines_in_log: lines of all files.
    """

    state: str
    ran: str
    run: int
    runs: int
    files: tuple[str, ...]
    launch: str
    settings: tuple[CitedFact, ...]
    environment: tuple[CitedFact, ...]
    signs: tuple[CitedFact, ...]
    load: tuple[CitedFact, ...]
    concluded: tuple[Conclusion, ...]
    not_known: tuple[str, ...]
    lines: tuple[LogLine, ...]
    lines_in_log: int

    def to_markdown(self) -> str:
        """Return it as Markdown with the log lines in a fenced block."""
        from vllm_logdoctor.assistants.writing import rendered

        return rendered(self, "markdown")

    def to_text(self) -> str:
        """Return it as plain text."""
        from vllm_logdoctor.assistants.writing import rendered

        return rendered(self, "text")

    def to_dict(self) -> dict[str, Any]:
        """Return it as dictionaries and lists."""
        return dict(to_builtins(self))


def excerpt_of(analysis: Analysis, run: int | None = None, lines: int = MOST) -> Excerpt:
    """Return the excerpt of one run.

    Args:
        analysis: all of an analysis.
        run: number of the run; default: the last one that failed, else the last one.
        lines: most lines of the excerpt as Markdown.

    Raises:
        LogdoctorError: no such run, or too few or too many lines (exit code 2).
    """
    check_lines(lines)
    diagnosis = chosen(analysis, run)
    others = [one for one in analysis.runs if one is not diagnosis]
    frame = _without_lines(analysis, diagnosis, list(filter(_failed, others)), brief=lines < _BRIEF)
    room = max(_LEAST_LOG, lines - frame.to_markdown().count("\n"))
    places = Places(diagnosis.run)
    shown = selected(diagnosis, others, room)
    lines_shown = (LogLine(places.at(one.file, one.line), shortened(one.text)) for one in shown)
    return replace(frame, lines=tuple(lines_shown))


def check_lines(lines: int) -> None:
    """Raise a LogdoctorError (exit code 2) if an excerpt can't have so many lines."""
    if not FEWEST <= lines <= MOST:
        raise LogdoctorError(f"--lines {lines}: an excerpt has {FEWEST} to {MOST} lines", 2)


def _without_lines(analysis: Analysis, diagnosis: Diagnosis, others: list[Diagnosis], brief: bool) -> Excerpt:
    run = diagnosis.run
    places = Places(run)
    screen = first_screen(Page(analysis, diagnosis))
    launch = visible(diagnosis.plan.command_before or "", "\n")
    few = 1 if brief else _FINDINGS
    return Excerpt(
        plain_words(screen.state),
        plain_words(screen.ran),
        run.number,
        len(analysis.runs),
        places.names,
        launch.replace(" \\\n  ", " ") if brief else launch,
        tuple(_settings(run, places)),
        tuple(_environment(run, places)),
        tuple(_signs(diagnosis, places)),
        tuple(CitedFact(plain_words(name), plain_words(value)) for name, value in key_figures(run))
        if served(run)
        else (),
        tuple(_concluded(diagnosis, others, places))[: 2 * few],
        tuple(map(plain_words, diagnosis.unknowns[:few])),
        (),
        analysis.coverage.lines,
    )


def chosen(analysis: Analysis, run: int | None = None) -> Diagnosis:
    """Return the run with a number; without one the last that failed, else the last.

    Raises:
        LogdoctorError: no such run (exit code 2).
    """
    if not analysis.runs:
        raise LogdoctorError("no run of vLLM in this log", 4)
    if run is None:
        failed = [one for one in analysis.runs if _failed(one)]
        return (failed or analysis.runs)[-1]
    for one in analysis.runs:
        if one.run.number == run:
            return one
    raise LogdoctorError(f"there is no run {run}: the log holds {len(analysis.runs)}", 2)


def _failed(diagnosis: Diagnosis) -> bool:
    return diagnosis.run.outcome in BROKEN or any(one.kind == "failure" for one in diagnosis.findings)


def served(run: Run) -> bool:
    """Return True if a run shows a load."""
    return bool(run.samples or run.progress or run.benchmarks or run.accesses)


class Places:
    """Writes places of lines: the line number, with the number of the file where a run has several."""

    def __init__(self, run: Run) -> None:
        self._files = run.files or tuple(dict.fromkeys((run.first_file, run.last_file)))
        self.names = tuple(visible(PurePath(name).name or name) for name in self._files)

    def at(self, file: str, line: int) -> str:
        """Return a place, "12", or "2:12" for line 12 of the second file."""
        if len(self._files) < 2 or file not in self._files:
            return str(line)
        return f"{self._files.index(file) + 1}:{line}"

    def of(self, evidence: Iterable[Evidence], limit: int = 3) -> tuple[str, ...]:
        """Return the first places of some evidence, each once."""
        return tuple(dict.fromkeys(self.at(one.file, one.line) for one in evidence))[:limit]


def shortened(text: str) -> str:
    """Return a line of at most `LONGEST_LINE` characters without anything that acts, and without addresses of strangers."""
    shown = _BLANKS.sub(" " * 16, visible(_CLIENT.sub(_without_address, text.rstrip())))
    return shown if len(shown) <= LONGEST_LINE else f"{shown[: LONGEST_LINE - 1]}…"


def _without_address(found: re.Match[str]) -> str:
    """Mask the address of a client on the internet: it identifies a person."""
    try:
        return f"***:{found['port']}" if ip_address(found["host"].strip("[]")).is_global else found[0]
    except ValueError:
        return found[0]


def _settings(run: Run, places: Places) -> Iterable[CitedFact]:
    asked = [
        (name, value) for name, value in run.config.items() if value.provenance in ("explicit", "adjusted")
    ]
    for name, value in sorted(asked)[:_SETTINGS]:
        yield CitedFact(name, _value(value), places.of(value.evidence, 1))


def _environment(run: Run, places: Places) -> Iterable[CitedFact]:
    if run.version is not None:
        engine = f" ({run.engine} engine)" if run.engine else ""
        yield CitedFact("vLLM", f"{_value(run.version)}{engine}", places.of(run.version.evidence, 1))
    if run.model is not None:
        yield CitedFact("model", _value(run.model), places.of(run.model.evidence, 1))
    if run.platform:
        yield CitedFact("platform", run.platform, places.of(run.platform_evidence, 1))
    device = device_name(run)
    if device is not None:
        yield CitedFact("device", visible(device[0]), places.of([run.evidence(device[1].record)], 1))
    spread_over = parallelism(run)
    if spread_over:
        yield CitedFact("ranks", spread_over)
    for name, value in sorted(run.environment.items())[:_SETTINGS]:
        yield CitedFact(visible(name), _value(value), places.of(value.evidence, 1))
    for name, value in sorted(run.measured.items()):
        if isinstance(value.value, int | float):
            yield CitedFact(name, f"{value.value:,}", places.of(value.evidence, 1))


def _value(value: Value) -> str:
    shown: Any = spread(value.value) if isinstance(value.value, dict) else value.value
    text = visible(str(shown))
    return text if len(text) <= _LONGEST_FACT else f"{text[: _LONGEST_FACT - 1]}…"


def _signs(diagnosis: Diagnosis, places: Places) -> Iterable[CitedFact]:
    decisive = decisive_place(diagnosis)
    if decisive is None:
        return
    writer = next((one.process for one in diagnosis.run.records if (one.file, one.line) == decisive), None)
    # A stop on request is no failure.
    failed = any(one.kind == "failure" for one in diagnosis.findings)
    if failed and writer is not None and (writer.name or writer.pid):
        words = [writer.name, f"pid {writer.pid}" if writer.pid else "", writer.rank, writer.host]
        yield CitedFact("failed first in", visible(" ".join(dict.fromkeys(filter(None, words)))))
    alive = last_sign_of_life(diagnosis)
    if alive is not None:
        yield CitedFact("last sign of life", excerpt(alive.text, limit=120), places.of([alive]))


def _concluded(diagnosis: Diagnosis, others: list[Diagnosis], places: Places) -> Iterable[Conclusion]:
    for one in urgent_first(diagnosis.run, diagnosis.findings)[:_FINDINGS]:
        yield _conclusion(one, places)
    for other in others[:_FINDINGS]:
        for one in other.findings[:1]:
            yield _conclusion(one, places, f"Run {other.run.number}: ")


def _conclusion(one: Finding, places: Places, before: str = "") -> Conclusion:
    text = shortened(f"{before}{one.title.rstrip('.')}. {one.explanation}")
    return Conclusion(one.id, one.kind, one.role, one.confidence, text, places.of(one.evidence))
