"""Comparison and verification as JSON documents."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from vllm_logdoctor.comparison.comparison import Attribution, Comparison
from vllm_logdoctor.comparison.snapshot import KnownFinding, Snapshot
from vllm_logdoctor.comparison.verification import CheckedChange, Verification
from vllm_logdoctor.rules.equal_load import EqualLoad

COMPARISON_SCHEMA = "logdoctor-comparison/1"
VERIFICATION_SCHEMA = "logdoctor-verification/1"
Document = dict[str, Any]


def verification_document(verification: Verification) -> Document:
    """Return a verification as dictionaries and lists, with the comparison that it rests on."""
    return {
        "schema": VERIFICATION_SCHEMA,
        "changes": [_checked_change(one) for one in verification.changes],
        "predictions": to_builtins(verification.predictions),
        "comparison": _comparison(verification.comparison),
    }


def comparison_document(comparison: Comparison) -> Document:
    """Return a comparison as dictionaries and lists."""
    return {"schema": COMPARISON_SCHEMA, **_comparison(comparison)}


def _comparison(comparison: Comparison) -> Document:
    return {
        "before": _side(comparison.before),
        "after": _side(comparison.after),
        "settings": to_builtins(comparison.settings),
        "told_by_one_log": to_builtins(comparison.one_sided),
        "figures": [{**to_builtins(one), "note": one.note or None} for one in comparison.figures],
        "equal_load": _load(comparison.load),
        "room_used": {**to_builtins(comparison.room), "ratio": comparison.room.ratio}
        if comparison.room
        else None,
        "findings": [
            {**_finding(one.finding), "state": one.state, "note": one.note or None}
            for one in comparison.findings
        ],
        "ties": [_attribution(one) for one in comparison.attributions],
    }


def _side(side: Snapshot) -> Document:
    return {"name": side.name, **side.what, "outcome": side.outcome, "bottleneck": side.bottleneck}


def _load(load: EqualLoad) -> Document:
    names = ("verdict", "ratio", "low", "high", "share_before", "share_after")
    figures = {name: getattr(load, name) for name in names}
    return {**figures, "warnings": list(load.warnings), "levels": to_builtins(load.pairs)}


def _finding(finding: KnownFinding) -> Document:
    return {
        "id": finding.rule,
        "kind": finding.kind,
        "severity": finding.severity,
        "title": finding.title,
        "knobs": list(finding.knobs),
    }


def _attribution(attribution: Attribution) -> Document:
    return {
        "setting": attribution.change.name,
        "can_move": sorted(attribution.subjects),
        "figures": [one.name for one in attribution.figures],
        "findings": [{"id": one.finding.rule, "state": one.state} for one in attribution.findings],
        "speed_at_equal_load": attribution.speed,
        "room_used": attribution.room,
        "shared_with": list(attribution.shared_with),
    }


def _checked_change(one: CheckedChange) -> Document:
    planned = one.planned
    return {
        "knob": planned.knob,
        "kind": planned.kind,
        "from": planned.before,
        "to": planned.after,
        "found": to_builtins(one.found),
        "state": one.state,
        "note": one.note or None,
    }
