"""Findings become one set of changes: one value per knob, conflicts settled, every knob valid in the run's
version.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from vllm_logdoctor.knowledge.flags import canonical_name, flag_exists, long_name
from vllm_logdoctor.knowledge.versions import release_number
from vllm_logdoctor.plan.model import PlannedChange
from vllm_logdoctor.rules.model import Change, Finding
from vllm_logdoctor.rules.urgency import is_urgent, urgent_first
from vllm_logdoctor.run.model import Run

# Changes that need more device memory: not for a run that has just run out of it.
_NEEDS_MEMORY = {
    "--enforce-eager": "dropped",
    "--max-num-seqs": "raised",
    "--max-num-batched-tokens": "raised",
    "--gpu-memory-utilization": "raised",
    "--max-cudagraph-capture-size": "raised",
    "--kv-cache-memory-bytes": "raised",
}
_EATS_CACHE = frozenset({"--max-num-seqs", "--max-num-batched-tokens"})

# The first of two knobs makes the second one void.
_OVERRIDES = (
    ("--kv-cache-memory-bytes", "--gpu-memory-utilization"),
    ("--num-gpu-blocks-override", "--gpu-memory-utilization"),
    ("--enforce-eager", "--max-cudagraph-capture-size"),
)
_SHARE = "--gpu-memory-utilization"
_SPLIT = ("--tensor-parallel-size", "--pipeline-parallel-size")
Refusal = tuple[str, str]


class Merged(Struct, frozen=True):
    """Changes in the order to apply, and knobs that were left out with the reason."""

    changes: tuple[PlannedChange, ...]
    refused: tuple[Refusal, ...]


def merge(run: Run, findings: Sequence[Finding]) -> Merged:
    """Merge the changes of findings; the finding that comes first has the first word on its knobs.

    Findings of severity "info" tell something and change nothing.
    """
    version = run.release
    planned: dict[str, PlannedChange] = {}
    refused: list[Refusal] = []
    short = _shortage(findings)
    for finding in urgent_first(run, findings):
        if finding.severity == "info":
            continue
        for change in finding.changes:
            reason = _refusal(change, finding, version, short) or _clash(change, planned.values())
            if reason:
                refused.append((change.knob, reason))
                continue
            key = knob_key(change, version)
            planned[key] = _joined(planned.get(key), change, finding)
    urgent = frozenset(finding.id for finding in findings if is_urgent(run, finding))
    return Merged(tuple(_in_order(_without_void(planned, refused), urgent)), tuple(dict.fromkeys(refused)))


def knob_key(change: Change, version: str | None) -> str:
    """Return what tells one knob from another: the flag's name in the version, the variable, or the words of
    an action.
    """
    if change.kind == "flag":
        return canonical_name(change.knob, version) or long_name(change.knob)
    return change.knob


def _shortage(findings: Sequence[Finding]) -> str:
    """Return "device" for a run that ran out of memory, "cache" for one whose cache is full, else ""."""
    if any(finding.exhausts == "device-memory" for finding in findings):
        return "device"
    return "cache" if any(finding.exhausts == "kv-cache" for finding in findings) else ""


def _refusal(change: Change, finding: Finding, version: str | None, short: str) -> str:
    if (
        change.kind == "flag"
        and release_number(version) is not None
        and not flag_exists(change.knob, version)
    ):
        return f"it does not exist in vLLM {version}"
    if change.kind in ("flag", "env") and change.after is not None and change.after == change.before:
        return "it has this value already"
    if short == "device" and finding.kind != "failure" and _grows(change):
        return "this needs memory, and the run ran out of it: fix that first"
    if short == "cache" and finding.exhausts != "kv-cache" and change.knob in _EATS_CACHE and _grows(change):
        return "this needs memory or KV cache, and the KV cache is full: make room first"
    return ""


def _clash(change: Change, planned: Iterable[PlannedChange]) -> str:
    """Return why a change can't be made together with one that is planned: a share of the device that is lowered was worked out for
    what this run holds on each card.
    """
    others = [item.change for item in planned]
    if _lowers_share(change) and any(_fills_card(other) for other in others):
        return (
            "was worked out for what each card holds now, and another change puts more on it: one at a time"
        )
    if _fills_card(change) and any(_lowers_share(other) for other in others):
        return "puts more on each card, and the share of the device is lowered: one at a time"
    return ""


def _lowers_share(change: Change) -> bool:
    return change.knob == _SHARE and _falls(change)


def _fills_card(change: Change) -> bool:
    return _grows(change) or (change.knob in _SPLIT and _falls(change))


def _falls(change: Change) -> bool:
    before, after = change.before, change.after
    return isinstance(before, int | float) and isinstance(after, int | float) and after < before


def _grows(change: Change) -> bool:
    how = _NEEDS_MEMORY.get(change.knob)
    if how == "dropped":
        return change.after is None
    if how is None or change.after is None:
        return False
    return (
        not isinstance(change.before, int | float)
        or not isinstance(change.after, int | float)
        or change.after > change.before
    )


def _joined(present: PlannedChange | None, change: Change, finding: Finding) -> PlannedChange:
    if present is None:
        return PlannedChange(change, (finding.id,))
    findings = tuple(dict.fromkeys((*present.findings, finding.id)))
    if present.change.after == change.after:
        return replace(present, findings=findings)
    wanted = "to drop it" if change.after is None else f"{change.after}"
    settled = f"{finding.id} asks for {wanted}; {present.findings[0]} comes first"
    return replace(present, findings=findings, settled="; ".join(filter(None, (present.settled, settled))))


def _without_void(planned: dict[str, PlannedChange], refused: list[Refusal]) -> dict[str, PlannedChange]:
    left = dict(planned)
    for strong, weak in _OVERRIDES:
        ruling = left.get(strong)
        if weak in left and ruling is not None and ruling.change.after not in (None, False):
            refused.append((weak, f"has no effect beside {strong}"))
            del left[weak]
    return left


def _in_order(planned: dict[str, PlannedChange], urgent: frozenset[str]) -> Iterable[PlannedChange]:
    """Flags and variables first, as they make the command; then what is done by hand, what is urgent before all."""

    def place(item: PlannedChange) -> int:
        if not urgent.isdisjoint(item.findings):
            return 0
        return 2 if item.change.kind == "action" else 1

    return sorted(planned.values(), key=place)
