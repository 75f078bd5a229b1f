"""One run as a comparison needs it, read from the JSON report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, ValidationError, convert, field

from vllm_logdoctor.comparison.identity import fingerprint_of_document
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.rules.equal_load import LoadLevel
from vllm_logdoctor.run.model import Evidence

Node = Mapping[str, Any]

# The engine prints these durations itself: they are among the measured figures.
_MEASURED_PHASES = ("engine-init", "load-weights", "compile", "graph-capture")


class Setting(Struct, frozen=True):
    """A value of the effective configuration and where it comes from."""

    value: Any
    provenance: str


class Predicted(Struct, frozen=True):
    """What a finding expects of its changes: ratio range after/before of a metric."""

    metric: str
    low: float
    high: float
    origin: str


class KnownFinding(Struct, frozen=True):
    """A finding of a run.

    Attributes:
        identity: what it is recognised by in another log.
        rule: rule id.
        kind, severity, title: as in the report.
        knobs: what it would change.
        effect: what it expects, or None.
        line: the line that decides it, or None.
    """

    identity: str
    rule: str
    kind: str
    severity: str
    title: str
    knobs: tuple[str, ...]
    effect: Predicted | None
    line: Evidence | None


class PlannedKnob(Struct, frozen=True):
    """One change of a plan with the rules that ask for it."""

    knob: str
    kind: str
    before: Any
    after: Any
    rules: tuple[str, ...]


class Snapshot(Struct, frozen=True):
    """One run.

    Attributes:
        name: file and number of the run, for people.
        what: vLLM version, model, platform, engine and hardware by name.
        outcome: how it ended; `started` tells whether it got ready.
        config: effective configuration by field, mappings flattened by dots.
        environment: variables that the log shows, by name; empty where it shows none.
        figures: measured and summed figures by name.
        busy_samples: statistics lines with work in the engine.
        levels: busy samples by running requests.
        most_running, most_waiting: highest seen, or None.
        findings: what was found.
        planned: what was planned.
        bottleneck: name of what limits it.
    """

    name: str
    what: Mapping[str, str] = field(default_factory=dict)
    outcome: str = "unknown"
    started: bool = False
    config: Mapping[str, Setting] = field(default_factory=dict)
    environment: Mapping[str, Setting] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    busy_samples: int = 0
    levels: tuple[LoadLevel, ...] = ()
    most_running: int | None = None
    most_waiting: int | None = None
    findings: tuple[KnownFinding, ...] = ()
    planned: tuple[PlannedKnob, ...] = ()
    bottleneck: str = "none-clear"


def snapshot_of(document: Node, run: int | None = None) -> Snapshot:
    """Read one run of a JSON report.

    Args:
        document: the report.
        run: 1-based number of the run; None takes the last one that got ready, else the last.

    Raises:
        LogdoctorError: the document is no such report, or has no such run.
    """
    try:
        runs = document["runs"]
        number = _chosen(runs, run)
        return _snapshot(_name(document, number), runs[number])
    except (KeyError, TypeError, AttributeError, ValueError, ValidationError) as error:
        raise LogdoctorError(f"no report of logdoctor: {type(error).__name__} at {error}") from error


def _chosen(runs: Sequence[Node], run: int | None) -> int:
    if not runs:
        raise LogdoctorError("the report holds no run", 4)
    if run is None:
        ready = [number for number, one in enumerate(runs) if one.get("startup_complete")]
        return ready[-1] if ready else len(runs) - 1
    if not 1 <= run <= len(runs):
        raise LogdoctorError(f"there is no run {run}: the log holds {len(runs)}", 2)
    return run - 1


def _name(document: Node, number: int) -> str:
    sources = document.get("sources") or [{"file": "log"}]
    name = str(sources[0]["file"]) if len(sources) == 1 else f"{len(sources)} files"
    return f"{name}, run {number + 1}" if len(document["runs"]) > 1 else name


def _snapshot(name: str, run: Node) -> Snapshot:
    serving = run.get("serving") or {}
    return Snapshot(
        name=name,
        what=dict(_what(run)),
        outcome=str(run.get("outcome") or "unknown"),
        started=bool(run.get("startup_complete")),
        config=dict(_config(run.get("config") or {})),
        environment={
            name: Setting(node.get("value"), str(node.get("provenance")))
            for name, node in (run.get("environment") or {}).items()
        },
        figures=dict(_figures(run, serving)),
        busy_samples=int(serving.get("busy_samples") or 0),
        levels=convert(serving.get("levels") or (), tuple[LoadLevel, ...]),
        most_running=(serving.get("running") or {}).get("max"),
        most_waiting=(serving.get("waiting") or {}).get("max"),
        findings=tuple(_finding(finding) for finding in run.get("findings") or ()),
        planned=tuple(_planned(change) for change in (run.get("plan") or {}).get("changes") or ()),
        bottleneck=str(run.get("bottleneck") or "none-clear"),
    )


def _what(run: Node) -> Iterator[tuple[str, str]]:
    for name, key in (("vLLM version", "vllm_version"), ("model", "model")):
        value = (run.get(key) or {}).get("value")
        if value:
            yield name, str(value)
    for name, key in (("platform", "platform"), ("engine", "engine"), ("kind", "kind")):
        if run.get(key):
            yield name, str(run[key])


def _config(config: Node) -> Iterator[tuple[str, Setting]]:
    for name, node in config.items():
        if name == "model":
            continue
        provenance = str(node.get("provenance"))
        for leaf, value in _leaves(name, node.get("value")):
            yield leaf, Setting(value, provenance)


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, part in value.items():
            yield from _leaves(f"{name}.{key}", part)
    else:
        yield name, value


def _figures(run: Node, serving: Node) -> Iterator[tuple[str, float]]:
    for name, node in (run.get("measured") or {}).items():
        yield from _number(name, (node or {}).get("value"))
    # The time until a start broke off is no time that a start takes.
    for phase in (run.get("phases") or ()) if run.get("startup_complete") else ():
        if phase.get("name") == "startup":
            yield from _number("startup_seconds", phase.get("seconds"))
        elif phase.get("parent") == "startup" and phase["name"] not in _MEASURED_PHASES:
            yield from _number(f"startup.{phase['name']}_seconds", phase.get("seconds"))
    for name in ("prompt_throughput", "generation_throughput"):
        spread = serving.get(name) or {}
        yield from _number(f"{name}_busy_mean", spread.get("mean_busy"))
        yield from _number(f"{name}_p95", spread.get("p95"))
    yield from _number("kv_cache_usage_max", (serving.get("kv_cache_usage") or {}).get("max"))
    yield from _number("prefix_cache_hit_rate", (serving.get("prefix_cache_hit_rate") or {}).get("last"))
    yield from _number("preemptions", serving.get("preemptions"))
    for one in (run.get("beside") or {}).get("latency") or ():
        # Means of /metrics beside each log: "TTFT mean" -> ttft_mean_ms.
        if one["joined"] and one["unit"] == "s" and one["name"].endswith(" mean"):
            yield from _number(f"{one['name'].lower().replace(' ', '_')}_ms", 1000 * one["value"])


def _number(name: str, value: Any) -> Iterator[tuple[str, float]]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield name, float(value)


def _finding(finding: Node) -> KnownFinding:
    effect = finding.get("effect")
    return KnownFinding(
        identity=fingerprint_of_document(finding),
        rule=str(finding["id"]),
        kind=str(finding["kind"]),
        severity=str(finding["severity"]),
        title=str(finding["title"]),
        knobs=tuple(str(change["knob"]) for change in finding["changes"]),
        effect=convert(effect, Predicted) if effect else None,
        line=next((convert(line, Evidence) for line in finding.get("evidence") or ()), None),
    )


def _planned(change: Node) -> PlannedKnob:
    rules = tuple(map(str, change.get("findings") or ()))
    return PlannedKnob(str(change["knob"]), str(change["kind"]), change.get("from"), change.get("to"), rules)
