"""The rows of one log: what an analysis gives, without any text of the log."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from vllm_logdoctor.fleet.values import digest, hashed, plain, release_of, setting_value
from vllm_logdoctor.report.frames import Times
from vllm_logdoctor.report.key_figures import startup_seconds
from vllm_logdoctor.report.model import Diagnosis
from vllm_logdoctor.report.naming import accelerators, model_name
from vllm_logdoctor.report.serving import requests_of, serving_of
from vllm_logdoctor.rules.equal_load import load_levels
from vllm_logdoctor.rules.model import Change, Effect
from vllm_logdoctor.run.model import Evidence, Run

Row = dict[str, Any]
Rows = dict[str, list[Row]]

_FIRST_YEAR = 2023
"""vLLM's first: an earlier one is that of a machine whose clock is not set (1970-01-01T00:00:00Z)."""
_LONGEST_SPAN = 30 * 86400.0
_LONGEST_STARTUP = 6 * 3600.0
_MOST_PLACES = 20
_MOST_UNKNOWN = 40
_MEASURED = {
    "kv_tokens": "kv_cache_tokens", "max_concurrency": "max_concurrency", "weights_gib": "model_weights_gib",
    "load_s": "model_load_seconds", "compile_s": "torch_compile_seconds", "graph_s": "graph_capture_seconds",
    "init_s": "init_engine_seconds",
}  # fmt: skip
# The paths of vLLM's server: other paths are the client's text.
ENDPOINTS = frozenset({
    "/", "/health", "/ping", "/load", "/metrics", "/version", "/v1/models", "/v1/chat/completions", "/v1/completions",
    "/v1/embeddings", "/v1/responses", "/v1/score", "/v1/rerank", "/rerank", "/score", "/pooling", "/classify", "/tokenize",
    "/detokenize", "/invocations", "/generate", "/v1/audio/transcriptions", "/v1/audio/translations", "/docs",
})  # fmt: skip
# ERROR 07-16 12:29:43 [core.py:187] ...
_CALL_SITE = re.compile(r"\[([\w/.-]{1,80}\.py):\d{1,6}\]")


def rows_of_run(diagnosis: Diagnosis, written: datetime | None) -> Rows:
    """Return the rows of one run in each table, without the key of its log.

    Args:
        diagnosis: the run.
        written: last change of its file, for the year of a log without years.
    """
    run = diagnosis.run
    rows: Rows = {
        "runs": [_run_row(diagnosis, _times(run, written))],
        "settings": list(_settings(run)),
        "findings": [_finding(rank, diagnosis, one) for rank, one in enumerate(diagnosis.findings, 1)],
        "changes": list(_changes(diagnosis)),
        "phases": [
            {"name": one.name, "parent": one.parent or None, "process": plain(one.process, 80) if one.process else None, "seconds": one.seconds}
            for one in run.phases
            if one.seconds is not None
        ],
        "load": list(_levels(run)),
        "requests": list(_requests(run)),
        "messages": [*_messages(diagnosis), *_unknown(run)],
    }  # fmt: skip
    for table in rows.values():
        for row in table:
            row["run"] = run.number
    return rows


def _run_row(diagnosis: Diagnosis, times: Times) -> Row:
    run, serving = diagnosis.run, serving_of(diagnosis.run)
    statuses = requests_of(run, with_probes=False)
    startup = startup_seconds(run.phases)
    span = None if run.started is None or run.ended is None else run.ended - run.started
    root = next((one for one in diagnosis.findings if one.role == "root"), None)
    at = root.evidence[0] if root and root.evidence else None
    version = run.release
    return {
        "kind": run.kind,
        "server": run.server,
        "engine": run.engine,
        "version": plain(version, 80) if version else None,
        "release": release_of(version),
        "model": _model(run),
        "platform": run.platform,
        **{short: _size(run, f"{name}_parallel_size") for short, name in (("tp", "tensor"), ("pp", "pipeline"), ("dp", "data"))},
        "cards": 0 if run.platform == "cpu" else accelerators(run),
        "quantization": setting_value("quantization", run.setting("quantization")),
        "eager": _flag(run.setting("enforce_eager")),
        "started": times.at(run.started),
        "ended": times.at(run.ended),
        "year_from": times.source or None,
        "span_s": span,
        "clock": _clock(run, span, startup),
        "outcome": run.outcome,
        "startup_complete": run.startup_complete,
        "bottleneck": diagnosis.bottleneck.name,
        "root": root.id if root else None,
        "root_file": plain(at.file) if at else None,
        "root_line": at.line if at else None,
        "startup_s": startup,
        "samples": serving.samples,
        "busy": serving.busy,
        "generation_p50": serving.generation.p50,
        "generation_max": serving.generation.max,
        "prompt_p50": serving.prompt.p50,
        "running_max": serving.running,
        "waiting_max": serving.waiting,
        "kv_max": serving.kv_usage,
        "prefix_hit": serving.prefix_hit,
        "preemptions": serving.preemptions,
        "requests": sum(statuses.values()),
        "requests_4xx": sum(count for status, count in statuses.items() if 400 <= status < 500),
        "requests_5xx": sum(count for status, count in statuses.items() if status >= 500),
        **{column: run.measure(name) for column, name in _MEASURED.items()},
        "ceiling_share": diagnosis.ceiling.share if diagnosis.ceiling else None,
        "secrets": len(run.secrets),
        "secret_places": list(dict.fromkeys(_place(one) for one, _ in run.secrets))[:_MOST_PLACES],
        "first_line": run.first_line,
        "last_line": run.last_line,
    }  # fmt: skip


def _times(run: Run, written: datetime | None) -> Times:
    times = Times.of_run(run, written=written)
    return Times(times.started, None, "") if times.year is not None and times.year < _FIRST_YEAR else times


def _clock(run: Run, span: float | None, startup: float | None) -> str:
    if span is None:
        return "no time"
    if run.newest_first or span < 0:
        return "runs backwards"
    if span > _LONGEST_SPAN:
        return "over 30 days"
    return "start-up over 6 h" if startup is not None and startup > _LONGEST_STARTUP else "ok"


def _model(run: Run) -> str | None:
    if run.model is None or not run.model.value:
        return None
    return setting_value("model", model_name(str(run.model.value)))


def _size(run: Run, name: str) -> int | None:
    value = run.setting(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _place(evidence: Evidence) -> str:
    return f"{plain(evidence.file)}:{evidence.line}"


def _settings(run: Run) -> Iterator[Row]:
    for scope, values in (("config", run.config), ("env", run.environment)):
        for name, one in values.items():
            if one.provenance in ("explicit", "reported", "adjusted"):
                yield {
                    "scope": scope, "name": plain(name, 120), "value": setting_value(name, one.value), "provenance": one.provenance,
                    "line": one.evidence[0].line if one.evidence else None,
                }  # fmt: skip


def _finding(rank: int, diagnosis: Diagnosis, finding: Any) -> Row:
    first = finding.evidence[0] if finding.evidence else None
    return {
        "rank": rank, "id": finding.id, "kind": finding.kind, "role": finding.role, "severity": finding.severity,
        "confidence": finding.confidence, "file": plain(first.file) if first else None, "line": first.line if first else None,
        **_effect(finding.effect),
    }  # fmt: skip


def _effect(effect: Effect | None) -> Row:
    if effect is None:
        return {"metric": None, "low": None, "high": None, "origin": None}
    return {"metric": effect.metric, "low": effect.low, "high": effect.high, "origin": effect.origin}


def _changes(diagnosis: Diagnosis) -> Iterator[Row]:
    effects = {one.id: one.effect for one in diagnosis.findings}
    for rank, planned in enumerate(diagnosis.plan.changes, 1):
        change = planned.change
        effect = next((found for name in planned.findings if (found := effects.get(name))), None)
        # The words of an action can quote the log: its rule names it.
        named_by_rule = change.kind == "action" and planned.findings
        knob = f"action of {planned.findings[0]}" if named_by_rule else change.knob
        yield {
            "rank": rank, "knob": setting_value("knob", knob), "kind": change.kind, "before": _given(change, change.before),
            "after": _given(change, change.after), "safety": change.safety, "findings": list(planned.findings), **_effect(effect),
        }  # fmt: skip


def _given(change: Change, value: Any) -> str | None:
    """Return a value as it is written on a command line: mappings are JSON there."""
    # What an action is about can quote the log: 'MixtralForCausalLM' object has no attribute 'x'
    if change.kind == "action" and value is not None:
        return hashed(str(value))
    return setting_value(change.knob, json.dumps(value) if isinstance(value, dict) else value)


def _levels(run: Run) -> Iterator[Row]:
    for level in load_levels(run.samples):
        low, middle, high = level.generation
        yield {
            "low": level.low, "high": level.high, "running": level.running, "samples": level.samples, "generation_q25": low,
            "generation_p50": middle, "generation_q75": high, "prompt": level.prompt,
        }  # fmt: skip


def _requests(run: Run) -> Iterator[Row]:
    counts: Counter[tuple[str, int]] = Counter()
    for (_, path, status), count in run.accesses.items():
        counts[path if path in ENDPOINTS else "other", status] += count
    for (endpoint, status), count in sorted(counts.items()):
        yield {"endpoint": endpoint, "status": status, "count": count}


def _messages(diagnosis: Diagnosis) -> Iterator[Row]:
    for one in diagnosis.messages:
        if one.pattern:
            yield {
                "pattern": one.pattern, "known": True, "verdict": one.verdict, "level": None, "call_site": None, "count": one.count,
                "file": plain(one.evidence.file), "line": one.evidence.line,
            }  # fmt: skip


def _unknown(run: Run) -> Iterator[Row]:
    unknown = [one for one in run.unknown if one.level not in ("INFO", "DEBUG")]
    for one in sorted(unknown, key=lambda group: -group.count)[:_MOST_UNKNOWN]:
        site = _CALL_SITE.search(one.first.text)
        yield {
            "pattern": digest(one.template), "known": False, "verdict": "unknown", "level": one.level[:20] if one.level.isalpha() else None,
            "call_site": site[1] if site else None, "count": one.count, "file": plain(one.first.file), "line": one.first.line,
        }  # fmt: skip


def joined(parts: Sequence[Rows]) -> Rows:
    """Return the rows of several runs or logs, table by table."""
    together: Rows = {}
    for part in parts:
        for table, rows in part.items():
            together.setdefault(table, []).extend(rows)
    return together
