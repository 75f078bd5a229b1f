"""What the tools of the server do, without the protocol: each returns plain values of bounded size."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from msgspec import to_builtins
from pydantic import Field

from vllm_logdoctor.assistants.excerpt import MOST, Places, chosen, excerpt_of
from vllm_logdoctor.assistants.lines import MaskedLog, line_source
from vllm_logdoctor.comparison import comparison
from vllm_logdoctor.comparison.snapshot import snapshot_of
from vllm_logdoctor.comparison.writers import result_of_comparison
from vllm_logdoctor.errors import LogdoctorError, unknown_choice
from vllm_logdoctor.knowledge.flags import Flag, flag_at, flag_history
from vllm_logdoctor.knowledge.variables import variable_default, variable_known, variable_spans
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.mcp_server.roots import Roots
from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.plan.formats import FORMS, render_launch
from vllm_logdoctor.plan.launch import changed, launch_of
from vllm_logdoctor.plan.whatif import check_setting, what_if
from vllm_logdoctor.report.first_screen import first_screen
from vllm_logdoctor.report.json import document, run_document
from vllm_logdoctor.report.model import Analysis, Diagnosis
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.reader import plain_words
from vllm_logdoctor.report.writers import render_result
from vllm_logdoctor.rules.explaining import explain

_KEPT = 4
"""Analyses that are kept while their files do not change."""
_MOST_RUNS = 20
_FINDINGS = 12
_OF_FINDING = ("id", "kind", "role", "severity", "confidence", "title")
Log = Annotated[str, Field(description="A log or a folder of logs, below a root of the server.")]
RunNumber = Annotated[
    int | None, Field(description="Number of the run; default: the last that failed, else the last.")
]
Offset = Annotated[int, Field(description="next_offset of the page before, to go on.")]
_State = tuple[tuple[str, int, int], ...]
"""Path, size and time of the last change of each file."""


class Tools:
    """The tools on the logs below some roots."""

    def __init__(self, roots: Roots, options: Options | None = None) -> None:
        self._roots = roots
        self._options = options or Options()
        self._analyses: OrderedDict[_State, Analysis] = OrderedDict()

    def analyze(
        self,
        path: Log,
        part: Annotated[
            str, Field(description="One of the parts that the summary names; empty for the summary.")
        ] = "",
        run: RunNumber = None,
        offset: Offset = 0,
    ) -> dict[str, Any]:
        """Return what ran, what broke and why, and what to change: a summary first, parts of a run on demand."""
        analysis = self._analysis(path)
        if not part:
            return {
                "runs": [_summary(analysis, one) for one in analysis.runs[-_MOST_RUNS:]],
                "runs_in_all": len(analysis.runs),
                "coverage": _coverage(analysis),
                "parts": sorted(run_document(chosen(analysis, run))),
            }
        found = run_document(chosen(analysis, run))
        if part not in found:
            raise unknown_choice("part", part, sorted(found))
        return {"run": found["number"], "part": part, **page(_items(found[part]), offset)}

    def lines(
        self,
        path: Log,
        first: Annotated[
            int | str | None,
            Field(description='First line: 12, or "2:12" for line 12 of the second file of a folder.'),
        ] = None,
        last: Annotated[
            int | str | None, Field(description="Last line, in the same file; at most 100 are returned.")
        ] = None,
        text: Annotated[
            str, Field(description="Return lines that hold this text instead, in any case of letters.")
        ] = "",
        start: Annotated[int | str, Field(description="Line to search from: next of the answer before.")] = 1,
        run: RunNumber = None,
    ) -> dict[str, Any]:
        """Return lines of a log, or of the files of a run in a folder, by number or by text, secrets masked."""
        files = self._roots.files(path)
        alone = len(files) == 1
        analysis = None if alone else self._analysis(path)
        with self._roots.opened(files) as inputs:
            log = MaskedLog(*inputs) if analysis is None else line_source(analysis, inputs, run)
            if text:
                found = log.containing(text, str(start))
            elif first is not None:
                found = log.between(str(first), str(last if last is not None else first))
            else:
                raise LogdoctorError("name the lines: first and last, or a text that they hold", 2)
        names = {} if analysis is None else {"files": Places(chosen(analysis, run).run).names}
        shown = [{"line": _number(one.at), "text": one.text} for one in found.lines]
        return {"lines": shown, "next": _number(found.next), **names}

    def configuration(
        self,
        path: Log,
        name: Annotated[str, Field(description="One setting; empty for all.")] = "",
        run: RunNumber = None,
        offset: Offset = 0,
    ) -> dict[str, Any]:
        """Return the effective configuration, each value with who set it and the line that proves it."""
        facts = chosen(self._analysis(path), run).run
        places, field = Places(facts), name.lstrip("-").replace("-", "_")
        rows = [
            {
                "name": key,
                "value": cut(value.value),
                "set_by": value.provenance,
                "lines": list(map(_number, places.of(value.evidence))),
                **({"note": value.note} if value.note else {}),
            }
            for group in (facts.config, facts.environment)
            for key, value in sorted(group.items())
            if not name or key in (field, name)
        ]
        if name and not rows:
            raise LogdoctorError(f"{name} is not in the log and has no known default in this release")
        release = facts.release
        return {"run": facts.number, "release": release, **page(rows, offset)}

    def whatif(
        self,
        path: Log,
        settings: Annotated[
            dict[str, Any], Field(description='New values by name: {"max_model_len": 8192}.')
        ],
        run: RunNumber = None,
    ) -> dict[str, Any]:
        """Return what the KV cache of a logged run would hold with other settings."""
        if not settings:
            raise LogdoctorError('name a setting: {"gpu_memory_utilization": 0.95}', 2)
        facts = _with_cache(self._analysis(path), run).run
        version = facts.release
        for name, value in settings.items():
            check_setting(name, value, version)
        return dict(to_builtins(what_if(facts, settings)))

    def plan(
        self,
        path: Log,
        shape: Annotated[
            str, Field(description="shell, yaml, pbs, slurm, systemd, compose or kubernetes.")
        ] = "shell",
        run: RunNumber = None,
    ) -> dict[str, Any]:
        """Return what to change, and the launch command before and after; nothing is started."""
        if shape not in FORMS:
            raise unknown_choice("shape", shape, FORMS)
        diagnosis = chosen(self._analysis(path), run)
        launch, plan = launch_of(diagnosis.run), diagnosis.plan
        after = changed(launch, (one.change for one in plan.changes)) if launch else None
        found = cut(run_document(diagnosis)["plan"])
        return {
            "run": diagnosis.run.number,
            **{name: value for name, value in found.items() if not name.startswith("command_")},
            "before": render_launch(launch, shape) if launch else None,
            "after": render_launch(after, shape) if after else None,
        }

    def compare(self, before: Log, after: Log, offset: Offset = 0) -> dict[str, Any]:
        """Return what differs between two runs: settings, start-up, capacity, speed at equal load, findings."""
        first, second = (snapshot_of(document(self._analysis(path))) for path in (before, after))
        result = result_of_comparison(comparison.compare(first, second))
        return page(render_result(result, "text").split("\n"), offset)

    def explain(
        self,
        name: Annotated[
            str,
            Field(
                description="Id of a finding or message, a flag (--max-num-seqs) or a variable (VLLM_USE_V1)."
            ),
        ],
        release: Annotated[str, Field(description="Release of vLLM, for flags and variables.")] = "",
        offset: Offset = 0,
    ) -> dict[str, Any]:
        """Return what a rule, a message, a flag or a variable of vLLM means, and which releases have it."""
        return page(run_facts(name, release).split("\n"), offset)

    def excerpt(
        self,
        path: Log,
        run: RunNumber = None,
        lines: Annotated[int, Field(description="Most lines, 30 to 150.")] = 80,
    ) -> str:
        """Return what is needed to judge a run without its log, as Markdown: facts, decisive lines, what is not known."""
        return excerpt_of(self._analysis(path), run, min(lines, MOST)).to_markdown()

    def _analysis(self, path: str) -> Analysis:
        """Return the analysis of a log or a folder; it is made anew when a file has changed."""
        files = self._roots.files(path)
        state = tuple(map(_state, files))
        analysis = self._analyses.pop(state, None)
        if analysis is None:
            with self._roots.opened(files) as inputs:
                analysis = analyse(inputs, self._options)
            while len(self._analyses) >= _KEPT:
                self._analyses.popitem(last=False)
        self._analyses[state] = analysis
        return analysis


def _state(path: Path) -> tuple[str, int, int]:
    found = path.stat()
    return str(path), found.st_size, found.st_mtime_ns


def _with_cache(analysis: Analysis, run: int | None) -> Diagnosis:
    """Return the requested run, else the last one whose KV cache is known."""
    return analysis.with_known_cache if run is None and analysis.runs else chosen(analysis, run)


def _items(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return [{"name": name, "value": one} for name, one in value.items()]
    return [value]


def _summary(analysis: Analysis, diagnosis: Diagnosis) -> dict[str, Any]:
    screen, places = first_screen(Page(analysis, diagnosis)), Places(diagnosis.run)
    return {
        "run": diagnosis.run.number,
        "state": plain_words(screen.state),
        "ran": plain_words(screen.ran),
        "verdict": plain_words(screen.verdict),
        "decisive_line": plain_words(screen.quote),
        "figures": {plain_words(name): plain_words(value) for name, value in screen.figures},
        "actions": [plain_words(one) for one in screen.actions],
        "findings": [
            {
                **{name: getattr(one, name) for name in _OF_FINDING},
                "lines": list(map(_number, places.of(one.evidence))),
            }
            for one in diagnosis.findings[:_FINDINGS]
        ],
        "files": places.names,
        "not_known": list(diagnosis.unknowns[:4]),
    }


def _coverage(analysis: Analysis) -> dict[str, Any]:
    found = analysis.coverage
    counts = {name: getattr(found, name) for name in ("lines", "vllm_lines", "recognised")}
    return {**counts, "notes": list(found.notes[:5])}


def _number(place: str | None) -> int | str | None:
    """Return a place as a number where there is one file."""
    return int(place) if place is not None and place.isdigit() else place


_LONGEST_NAME = 200
_VARIABLE = lazy_pattern(r"[A-Z][A-Z0-9_]+\Z")


def run_facts(name: str, release: str = "") -> str:
    """Return what a name means, as Markdown.

    Args:
        name: id of a finding, rule or message, a flag ("--max-num-seqs"), or a variable ("VLLM_USE_V1").
        release: of vLLM; for flags and variables.

    Example:
        >>> run_facts("--swap-space", "0.18.0").splitlines()[2]
        'Not in vLLM 0.18.0.'

    Raises:
        LogdoctorError: nobody knows it; names the nearest.
    """
    if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        raise LogdoctorError(
            "name: give the id of a finding, a flag such as --max-num-seqs, or a variable", 2
        )
    if name.startswith("-"):
        eras = [(one.since, one.until, _flag_words(one.flag)) for one in flag_history(name)]
        known = flag_at(name, release) is not None
    elif _VARIABLE.match(name):
        defaults = [(one, variable_default(name, one.until)) for one in variable_spans(name)]
        eras = [
            (one.since, one.until or "now", f"default {'none' if x is None else repr(x)}")
            for one, x in defaults
        ]
        known = bool(variable_known(name, release))
    else:
        return explain(name)
    if not eras:
        raise LogdoctorError(f"no known release of vLLM has {name}", 2)
    lines = [f"# {name}", ""]
    if release:
        lines += [f"{'In' if known else 'Not in'} vLLM {release}.", ""]
    return "\n".join([*lines, *(f"- {since} to {until}: {words}" for since, until, words in eras)])


def _flag_words(flag: Flag) -> str:
    default = "computed" if flag.default is None or flag.default_is_source else repr(flag.default)
    choices = f"; one of {', '.join(map(str, flag.choices[:20]))}" if flag.choices else ""
    return f"{flag.form}, default {default}{choices}{'; deprecated' if flag.deprecated else ''}"


MOST_CHARACTERS = 16_000
"""Characters of one page, as JSON."""
_LONGEST_TEXT = 2000
_LONGEST_LIST = 50


def page(items: Sequence[Any], offset: int = 0) -> dict[str, Any]:
    """Return the items from `offset` on that fit a page.

    Returns:
        `items`, `total`, and `next_offset`: the number to go on from, or None at the end.

    Raises:
        LogdoctorError: there is no such offset (exit code 2).
    """
    if not 0 <= offset <= len(items):
        raise LogdoctorError(f"offset {offset}: there are {len(items)} items, numbered from 0", 2)
    shown: list[Any] = []
    size = 0
    for item in items[offset:]:
        small = cut(item)
        size += len(json.dumps(small, ensure_ascii=False))
        if shown and size > MOST_CHARACTERS:
            break
        shown.append(small)
    after = offset + len(shown)
    return {"items": shown, "total": len(items), "next_offset": after if after < len(items) else None}


def cut(value: Any, depth: int = 0) -> Any:
    """Return a value whose texts and lists are of bounded length."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else f"{value[: _LONGEST_TEXT - 1]}…"
    if isinstance(value, dict):
        left_out = len(value) - _LONGEST_LIST if depth else 0
        kept = list(value.items())[: _LONGEST_LIST if depth else None]
        small = {name: cut(one, depth + 1) for name, one in kept}
        return {**small, "…": f"{left_out} more"} if left_out > 0 else small
    if isinstance(value, list | tuple):
        small_list = [cut(one, depth + 1) for one in value[:_LONGEST_LIST]]
        left_out = len(value) - _LONGEST_LIST
        return [*small_list, f"… {left_out} more"] if left_out > 0 else small_list
    return value
