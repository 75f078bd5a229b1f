"""The analysis as one JSON document (see schema.py for the same document as models)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from vllm_logdoctor.plan.model import Plan, WhatIf
from vllm_logdoctor.report.clock import clock, iso
from vllm_logdoctor.report.model import SCHEMA, AlreadyRight, Analysis, Diagnosis, Message
from vllm_logdoctor.report.series import requests_by_time
from vllm_logdoctor.report.serving import Spread, requests_of, serving_of
from vllm_logdoctor.report.throughput_detail import Drafts, drafts_of, transfers_of
from vllm_logdoctor.rules.capacity.ceiling import Ceiling
from vllm_logdoctor.rules.equal_load import LoadLevel, load_levels
from vllm_logdoctor.rules.model import Change, Effect, Finding
from vllm_logdoctor.run.metrics import batches_of
from vllm_logdoctor.run.model import Coverage, Evidence, Phase, Run, Unknown, Value

Document = dict[str, Any]
BATCHES = 50
"""Offline batches that the document holds, the last ones; all are counted."""

MEASURED = (
    "model_weights_gib", "model_load_seconds", "available_kv_cache_gib", "kv_cache_tokens", "max_concurrency",
    "torch_compile_seconds", "graph_capture_seconds", "graph_capture_gib", "init_engine_seconds",
)  # fmt: skip


def render(analysis: Analysis, indent: int | None = 2) -> str:
    """Return the JSON document as text: valid UTF-8, no NaN, the same bytes for the same analysis."""
    text = json.dumps(document(analysis), indent=indent, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace").decode("utf-8") + "\n"


def document(analysis: Analysis) -> Document:
    """Return the JSON document as dictionaries, lists and plain values."""
    return {
        "schema": SCHEMA,
        "objective": analysis.objective,
        "sources": [
            {"file": s.file, "bytes": s.bytes, "lines": s.lines, "note": s.note or None}
            for s in analysis.sources
        ],
        "runs": [run_document(diagnosis) for diagnosis in analysis.runs],
        "coverage": _coverage(analysis.coverage),
    }


def run_document(diagnosis: Diagnosis) -> Document:
    """Return one run with what was judged of it."""
    run = diagnosis.run
    return {
        "number": run.number,
        "kind": run.kind,
        "engine": run.engine,
        "vllm_version": _value(run.version),
        "platform": run.platform,
        "model": _value(run.model),
        "started": iso(run.started, run.year_known),
        "ended": iso(run.ended, run.year_known),
        "clock": {"started": clock(run.started), "ended": clock(run.ended), "year_known": run.year_known},
        "lines": [run.first_line, run.last_line],
        "files": [run.first_file, run.last_file],
        "startup_complete": run.startup_complete,
        "outcome": run.outcome,
        "processes": [
            {
                "name": p.name,
                "role": p.role or None,
                "pid": p.pid,
                "rank": p.rank or None,
                "host": p.host or None,
            }
            for p in run.processes
        ],
        "config": {name: _value(value) for name, value in run.config.items()},
        "environment": {name: _value(value) for name, value in run.environment.items()},
        "measured": _measured(run),
        "phases": [_phase(phase, run) for phase in run.phases],
        "serving": _serving(run),
        "benchmarks": [
            {"kind": one.kind, "figures": plain(one.figures), "evidence": _lines(one.evidence)}
            for one in run.benchmarks
        ],
        "bottleneck": diagnosis.bottleneck.name,
        "bottleneck_detail": _bottleneck(diagnosis),
        "findings": [finding_document(finding) for finding in diagnosis.findings],
        "plan": _plan(diagnosis.plan),
        "what_if": [_what_if(answer) for answer in diagnosis.what_if],
        "ceiling": _ceiling(diagnosis.ceiling),
        "already_right": [_already_right(item) for item in diagnosis.already_right],
        "messages": [_message(message) for message in diagnosis.messages],
        "not_known": list(diagnosis.unknowns),
    }


def finding_document(finding: Finding) -> Document:
    """Return one finding."""
    return {
        "id": finding.id,
        "kind": finding.kind,
        "role": finding.role,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "title": finding.title,
        "explanation": finding.explanation,
        "evidence": _lines(finding.evidence),
        "changes": [_change(change) for change in finding.changes],
        "alternatives": list(finding.alternatives),
        "avoid": finding.avoid or None,
        "effect": _effect(finding.effect),
        "verify": finding.verify or None,
        "topic": finding.topic or None,
    }


def plain(value: Any) -> Any:
    """Return a value that JSON can hold: no NaN, no infinity, text for what JSON has no form for.

    Example:
        >>> plain({1: float("nan"), "a": (1, 2)})
        {'1': None, 'a': [1, 2]}
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(str(item) for item in value)
    return str(value)


def _evidence(evidence: Evidence) -> Document:
    return {"file": evidence.file, "line": evidence.line, "text": evidence.text}


def _lines(evidence: tuple[Evidence, ...]) -> list[Document]:
    return [_evidence(one) for one in evidence]


def _value(value: Value | None) -> Document | None:
    if value is None:
        return None
    return {
        "value": plain(value.value),
        "provenance": value.provenance,
        "evidence": _lines(value.evidence),
        "note": value.note or None,
    }


def _measured(run: Run) -> Document:
    names = [*MEASURED, *(name for name in run.measured if name not in MEASURED)]
    return {name: _value(run.measured.get(name)) for name in names}


def _phase(phase: Phase, run: Run) -> Document:
    return {
        "name": phase.name,
        "process": phase.process,
        "parent": phase.parent or None,
        "start": iso(phase.start, run.year_known),
        "end": iso(phase.end, run.year_known),
        "clock": {"start": clock(phase.start), "end": clock(phase.end)},
        "seconds": plain(phase.seconds),
        "evidence": _lines(phase.evidence),
    }


def _serving(run: Run) -> Document:
    figures = serving_of(run)
    by_status = requests_of(run)
    return {
        "samples": figures.samples,
        "busy_samples": figures.busy,
        "engines": list(figures.engines),
        "prompt_throughput": _spread(figures.prompt),
        "generation_throughput": _spread(figures.generation),
        "running": {"max": figures.running},
        "waiting": {"max": figures.waiting},
        "kv_cache_usage": {"max": figures.kv_usage},
        "prefix_cache_hit_rate": {"last": figures.prefix_hit},
        "preemptions": figures.preemptions,
        "levels": [_level(level) for level in load_levels(run.samples)],
        "speculation": _drafts(drafts_of(run)),
        "transfers": _transfers(run),
        "offline": _offline(run),
        "requests": {
            "total": sum(by_status.values()),
            "by_status": {str(status): count for status, count in sorted(by_status.items())},
            "by_minute": [
                {
                    "start": iso(minute * 60.0, run.year_known),
                    "clock": clock(minute * 60.0),
                    "minutes": length,
                    "by_status": {str(status): count for status, count in sorted(counts.items())},
                }
                for minute, length, counts in requests_by_time(run)
            ],
            "by_endpoint": [
                {"method": method, "path": path, "status": status, "count": count}
                for (method, path, status), count in sorted(run.accesses.items())
            ],
        },
    }


def _drafts(drafts: Drafts | None) -> Document | None:
    if drafts is None:
        return None
    return {
        "lines": drafts.lines,
        "accepted": drafts.accepted,
        "drafted": drafts.drafted,
        "acceptance": _rounded(drafts.acceptance),
        "mean_length": _rounded(drafts.mean_length),
        "per_position": [round(rate, 3) for rate in drafts.per_position],
        "evidence": _lines(drafts.evidence),
    }


def _transfers(run: Run) -> Document | None:
    if not run.transfers:
        return None
    first, last = run.transfers[0].evidence, run.transfers[-1].evidence
    return {
        "lines": len(run.transfers),
        "figures": {
            one.name: {name: _rounded(getattr(one, name)) for name in ("mean", "highest", "last")}
            for one in transfers_of(run)
        },
        "evidence": _lines(tuple(dict.fromkeys((first, last)))),
    }


def _offline(run: Run) -> Document | None:
    batches = batches_of(run)
    if not batches:
        return None
    return {
        "batches": len(batches),
        "prompts": sum(batch.done for batch in batches),
        "seconds": plain(sum(batch.seconds or 0.0 for batch in batches)),
        "last": [
            {
                "done": batch.done,
                "total": batch.total,
                "seconds": plain(batch.seconds),
                "input": plain(batch.input),
                "output": plain(batch.output),
                "evidence": _evidence(batch.evidence),
            }
            for batch in batches[-BATCHES:]
        ],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 3)


def _level(level: LoadLevel) -> Document:
    return {
        "low": level.low,
        "high": level.high,
        "running": round(level.running, 3),
        "samples": level.samples,
        "generation": [round(value, 3) for value in level.generation],
        "prompt": round(level.prompt, 3),
    }


def _spread(spread: Spread) -> Document:
    rounded = {"mean_busy": spread.mean_busy, "p50": spread.p50, "p95": spread.p95, "max": spread.max}
    return {name: None if value is None else round(value, 3) for name, value in rounded.items()}


def _bottleneck(diagnosis: Diagnosis) -> Document:
    limit = diagnosis.bottleneck
    known = diagnosis.run.year_known
    return {
        "reason": limit.reason,
        "evidence": _lines(limit.evidence),
        "periods": [
            {
                "name": period.name,
                "start": iso(period.start, known),
                "end": iso(period.end, known),
                "clock": {"start": clock(period.start), "end": clock(period.end)},
                "samples": period.samples,
                "reason": period.reason,
                "evidence": _lines(period.evidence),
            }
            for period in limit.periods
        ],
    }


def _change(change: Change) -> Document:
    return {
        "knob": change.knob,
        "kind": change.kind,
        "from": plain(change.before),
        "to": plain(change.after),
        "safety": change.safety,
        "note": change.note or None,
    }


def _effect(effect: Effect | None) -> Document | None:
    if effect is None:
        return None
    return {
        "metric": effect.metric,
        "low": plain(effect.low),
        "high": plain(effect.high),
        "origin": effect.origin,
        "basis": effect.basis,
    }


def _plan(plan: Plan) -> Document:
    return {
        "command_before": plan.command_before,
        "command_after": plan.command_after,
        "changes": [
            {
                **_change(planned.change),
                "findings": list(planned.findings),
                "settled": planned.settled or None,
            }
            for planned in plan.changes
        ],
        "refused": [{"knob": knob, "reason": reason} for knob, reason in plan.refused],
    }


def _what_if(answer: WhatIf) -> Document:
    return {
        "knob": answer.knob,
        "from": plain(answer.before),
        "to": plain(answer.after),
        "kv_cache_tokens": answer.kv_cache_tokens,
        "low": answer.low,
        "high": answer.high,
        "max_concurrency": plain(answer.max_concurrency),
        "basis": answer.basis,
    }


def _ceiling(ceiling: Ceiling | None) -> Document | None:
    if ceiling is None:
        return None
    return {
        "ceiling": plain(ceiling.ceiling),
        "measured": plain(ceiling.measured),
        "share": plain(ceiling.share),
        "formula": ceiling.formula,
        "evidence": _lines(ceiling.evidence),
    }


def _already_right(item: AlreadyRight) -> Document:
    return {"name": item.name, "state": item.state, "brings": item.brings, "evidence": _lines(item.evidence)}


def _message(message: Message) -> Document:
    return {
        "pattern": message.pattern or None,
        "text": message.text,
        "verdict": message.verdict,
        "meaning": message.meaning,
        "count": message.count,
        "evidence": _evidence(message.evidence),
    }


def _unknown(group: Unknown) -> Document:
    return {
        "level": group.level,
        "template": group.template,
        "count": group.count,
        "evidence": _evidence(group.first),
    }


def _coverage(coverage: Coverage) -> Document:
    return {
        "lines": coverage.lines,
        "vllm_lines": coverage.vllm_lines,
        "recognised": coverage.recognised,
        "cut_characters": coverage.cut_characters,
        "unknown_warnings": [_unknown(group) for group in coverage.unknown],
        "notes": list(coverage.notes),
    }
