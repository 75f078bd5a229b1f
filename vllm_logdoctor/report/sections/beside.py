"""Files beside the log: which run each belongs to, and what was read of them."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_logdoctor.evidence.cluster import trouble_of
from vllm_logdoctor.evidence.kind_names import kind_words
from vllm_logdoctor.evidence.model import Reading
from vllm_logdoctor.report.escape import code, inline, prose
from vllm_logdoctor.report.figures import table
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.rules.context import plural
from vllm_logdoctor.run.beside import Beside

_MOST_READINGS = 16
_MOST_FILES = 8
_MOST_RESULTS = 4


def files_beside(analysis: Analysis) -> list[str]:
    """Return each file with its kind and use, then what those that are known hold."""
    if not analysis.beside:
        return []
    rows = [
        [
            inline(one.evidence.file, 200) + _part(one),
            prose(kind_words(one.evidence.kind)) if one.evidence.kind else "unknown",
            _use(one, alone=not analysis.runs),
        ]
        for one in analysis.beside
    ]
    lines = table(["file", "kind", "use"], rows)
    telling = [one for one in analysis.beside if one.evidence.readings and one.certainty != "contradicted"]
    for one in telling[:_MOST_FILES]:
        lines += ["", f"{inline(one.evidence.file, 200)}{_part(one)}:", "", *_readings(one)]
    left = len(telling) - _MOST_FILES
    return (
        [*lines, "", f"{plural(left, 'more file')} with readings in the JSON report."] if left > 0 else lines
    )


def pod_in_trouble(analysis: Analysis) -> list[str]:
    """Return the heading of a report without a run, with what Kubernetes says that went wrong with a pod."""
    pods = (one for one in analysis.beside if one.evidence.kind in ("kubectl-describe", "kubectl-events"))
    trouble = next(filter(None, (trouble_of(one.evidence.readings) for one in pods)), None)
    if trouble is None:
        return ["# No log of vLLM"]
    said = f"{code(str(trouble.reading.value), 300)} [{_place(trouble.reading)}]"
    return [f"# No log of vLLM. {trouble.words}", "", said, "", f"1. {trouble.step}"]


def _part(one: Beside) -> str:
    """Return the lines of a part of a pasted text."""
    return " L{} to L{}".format(*one.evidence.place) if one.evidence.place else ""


def _use(one: Beside, alone: bool) -> str:
    if alone and one.evidence.kind and one.evidence.readings and not one.used:
        return prose(
            f"shown below: no log of vLLM was given{f'; {one.evidence.note}' if one.evidence.note else ''}"
        )
    said = f"run {one.run}: {', '.join(one.because)}" if one.used else one.why_not or ""
    return prose(f"{said}; {one.evidence.note}" if one.evidence.note and one.evidence.note != said else said)


def _readings(one: Beside) -> list[str]:
    readings = one.evidence.readings
    results = _results(readings) if "-bench" in (one.evidence.kind or "") else []
    if len(results) > 1:
        return _side_by_side(results)
    rows = [
        [inline(_name(reading)), code(str(reading.value), 120), _place(reading)]
        for reading in readings[:_MOST_READINGS]
    ]
    left = len(readings) - len(rows)
    more = ["", f"{left} more readings in the JSON report."] if left > 0 else []
    return [*table(["reading", "value", "line"], rows), *more]


def _results(readings: Sequence[Reading]) -> list[dict[str, Reading]]:
    """Return the results of a file one by one: the first reading that comes again begins the next one."""
    results: list[dict[str, Reading]] = []
    for reading in readings:
        if not results or _name(reading) in results[-1]:
            results.append({})
        results[-1][_name(reading)] = reading
    return results


def _side_by_side(results: Sequence[dict[str, Reading]]) -> list[str]:
    shown = results[:_MOST_RESULTS]
    names = list(dict.fromkeys(name for one in shown for name in one))
    header = ["reading", *(f"from {_place(next(iter(one.values())))}" for one in shown)]
    rows = [
        [inline(name), *(code(str(one[name].value), 60) if name in one else "" for one in shown)]
        for name in names[:_MOST_READINGS]
    ]
    left = len(names) - len(rows)
    more = [f"{plural(left, 'more reading')} of each"] if left > 0 else []
    more += [plural(len(results) - len(shown), "more result")] if len(results) > len(shown) else []
    return [*table(header, rows), *(["", f"{' and '.join(more)} in the JSON report."] if more else [])]


def _name(reading: Reading) -> str:
    name = f"{reading.subject}: {reading.name}" if reading.subject else reading.name
    unit = reading.unit if reading.unit not in ("as printed", "count") and reading.unit not in name else ""
    return f"{name} ({unit})" if unit else name


def _place(reading: Reading) -> str:
    if isinstance(reading.line, tuple):
        return ", ".join(f"L{line}" for line in reading.line[:3])
    return f"L{reading.line}" if reading.line is not None else reading.where
