"""Compose a plan: each change is tried in the planned run, and what would not start or brings a new finding is held back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct

from vllm_logdoctor.plan.feasible import context_that_fits, obstacle
from vllm_logdoctor.plan.merge import Refusal
from vllm_logdoctor.plan.model import PlannedChange
from vllm_logdoctor.plan.planned import PlannedRun, planned_run
from vllm_logdoctor.rules.load import Load
from vllm_logdoctor.rules.model import Change, Finding
from vllm_logdoctor.rules.performance.graphs import GRAPH_SIZES, largest_size
from vllm_logdoctor.run.model import Run

BANDWIDTH = "memory bandwidth"
FULL_LENGTH = "KV cache, with requests of full length"
NEXT_LIMITS = {
    "scheduler-limit-not-memory": "max_num_seqs",
    "decode-limited-by-weight-reads": BANDWIDTH,
    "kv-cache-reads-dominate": BANDWIDTH,
    "few-full-length-requests-fit": FULL_LENGTH,
    "client-concurrency-bound": "client",
}
"""What in a planned run is no finding but the limit that comes next: with a full cache cured, more requests run until
max_num_seqs or the client limits; with graphs in place of eager mode, bytes that a step reads set its pace. A cache that is
full then, or prompts that fill the steps, are defects of a plan.
"""
LIMITS_OF_LONG_CONTEXT = {rule: name for rule, name in NEXT_LIMITS.items() if name != FULL_LENGTH}
"""The same for the objective long-context, which must not lose requests of full length."""

SLIGHTLY_SHORTER = 0.9
"""Share of the context that must be left where a step takes some of it."""
_CONTEXT = "--max-model-len"

Judgement = Callable[[Run], Sequence[Finding]]


class PlannedFindings(Struct, frozen=True):
    """What the run of a plan is judged to be: its findings, and the limits that come next in place of those that are gone."""

    findings: tuple[Finding, ...]
    next_limits: tuple[str, ...]


class Composed(Struct, frozen=True):
    """The changes of a plan, what was held back with the reason, the run that they lead to, and the names of what limits it newly."""

    changes: tuple[PlannedChange, ...]
    held_back: tuple[Refusal, ...]
    planned: PlannedRun
    next_limits: tuple[str, ...]


def composed(
    run: Run,
    items: Sequence[PlannedChange],
    load: Load,
    judgement: Judgement,
    findings: Sequence[Finding],
    long_context: bool = False,
) -> Composed:
    """Return the changes that can be made together.

    Args:
        run: the run.
        items: merged changes in the order to apply.
        load: the load of the run.
        judgement: gives the findings on the settings and the load of a planned run.
        findings: of this run; what repairs a failure may cost speed.
        long_context: whether requests of full length count: no step may take any of the context or of the requests of that length.
    """
    failures = frozenset(finding.id for finding in findings if finding.kind == "failure")
    kept: list[PlannedChange] = []
    held: list[Refusal] = []
    for group in _groups(items, failures):
        repairs = not failures.isdisjoint(group[0].findings)
        reason = _reason(run, kept, group, load, repairs)
        if reason is not None and not long_context:
            shorter = _with_shorter_context(run, kept, group, load)
            if shorter and _reason(run, kept, shorter, load, repairs) is None:
                group, reason = shorter, None
        if reason is None:
            kept += group
        else:
            held.append((reason[0], reason[1]))
            held += [
                (item.change.knob, f"belongs to the same step as {reason[0]}")
                for item in group
                if item.change.knob != reason[0]
            ]
    kept = with_capture_sizes(run, kept)
    limits = LIMITS_OF_LONG_CONTEXT if long_context else NEXT_LIMITS
    known = frozenset(finding.id for finding in findings if finding.kind != "failure")
    kept, brought, names = _without_new_findings(run, kept, judgement, failures, known, limits)
    return Composed(tuple(kept), (*held, *brought), _with(run, kept), names)


def in_command(items: Sequence[PlannedChange], findings: Sequence[Finding]) -> list[PlannedChange]:
    """Return the changes that one command makes: of the root of a failure its first step alone, because its other steps take the place
    of that one, or are to find out more; where that step is no setting, none of it.
    """
    failures = [finding for finding in findings if finding.kind == "failure"]
    roots = [finding for finding in failures if finding.role == "root"] or failures
    planned = {item.change.knob for item in items}
    first = {
        next((change.knob for change in finding.changes if change.knob in planned), "") for finding in roots
    }
    broken = {finding.id for finding in failures}
    return [item for item in items if broken.isdisjoint(item.findings) or item.change.knob in first]


def _groups(items: Sequence[PlannedChange], failures: frozenset[str]) -> list[list[PlannedChange]]:
    """Return changes that are made together: those of one finding; remedies of a failure and actions go one by one."""
    groups: dict[object, list[PlannedChange]] = {}
    for number, item in enumerate(items):
        alone = item.change.kind == "action" or not failures.isdisjoint(item.findings)
        groups.setdefault(number if alone else item.findings[0], []).append(item)
    return list(groups.values())


def _reason(
    run: Run, kept: Sequence[PlannedChange], group: Sequence[PlannedChange], load: Load, repairs: bool
) -> Refusal | None:
    """Return the first change of a group that can't be made, with the reason."""
    risky = next((item for item in kept if item.change.safety == "changes-results"), None)
    if group[0].change.kind == "action":
        return None
    planned = _with(run, [*kept, *group])
    for item in group:
        reason = _second_risk(risky, item) or obstacle(planned, item.change, load, repairs)
        if reason:
            return item.change.knob, reason
    return None


def _with(run: Run, items: Sequence[PlannedChange]) -> PlannedRun:
    return planned_run(run, [item.change for item in items])


def _with_shorter_context(
    run: Run, kept: Sequence[PlannedChange], group: list[PlannedChange], load: Load
) -> list[PlannedChange]:
    """Return a step with the context that its cache holds; nothing where that is much shorter, or what this load may need."""
    planned = _with(run, [*kept, *group])
    fits, memory = context_that_fits(planned), planned.before
    length = memory.length if memory is not None else None
    if memory is None or not length or not SLIGHTLY_SHORTER * length <= fits < length or not load.peak_kv:
        return []
    used = load.peak_kv / 100 * memory.tokens
    if used > fits or any(item.change.knob == _CONTEXT for item in (*kept, *group)):
        return []
    note = f"with this step the cache no longer holds a request of {length:,} tokens; this load held at most {used:,.0f} tokens at once"
    change = Change(_CONTEXT, "flag", length, fits, "needs-test", note)
    return [*group, PlannedChange(change, group[0].findings, note)]


def _second_risk(first: PlannedChange | None, item: PlannedChange) -> str:
    """Return why a second change of what the model answers waits: a difference must have one cause."""
    if first is None or item.change.safety != "changes-results":
        return ""
    return (
        f"can change answers, as {first.change.knob} can: one at a time, so that a difference has one cause"
    )


def _without_new_findings(
    run: Run,
    items: list[PlannedChange],
    judgement: Judgement,
    failures: frozenset[str],
    known: frozenset[str],
    limits: Mapping[str, str],
) -> tuple[list[PlannedChange], list[Refusal], tuple[str, ...]]:
    """Hold back steps, the last first, until the planned run has no finding that this run has not; and return its new limits."""
    held: list[Refusal] = []
    steps = [group for group in _groups(items, failures) if group[0].change.kind in ("flag", "env")]
    if not steps:
        return items, held, ()
    left = list(items)
    planned = planned_findings(judgement(_with(run, left).run), known, limits)
    for step in reversed(steps):
        new = new_findings(planned, known)
        if not new:
            break
        whole = _with_actions(step, left, failures)
        without = [other for other in left if other not in whole]
        planned_without = planned_findings(judgement(_with(run, without).run), known, limits)
        still = {finding.id for finding in new_findings(planned_without, known)}
        if len(still) < len(new):
            gone = next(finding for finding in new if finding.id not in still)
            reason = f'it would lead to "{gone.title}"'
            held += [(item.change.knob, reason) for item in whole]
            left, planned = without, planned_without
    return left, held, planned.next_limits


def _with_actions(
    step: list[PlannedChange], items: Sequence[PlannedChange], failures: frozenset[str]
) -> list[PlannedChange]:
    """Return a step with what its finding asks for by hand: replicas without fewer ranks each are none."""
    if not failures.isdisjoint(step[0].findings):
        return step
    return [item for item in items if item in step or item.findings == step[0].findings]


def planned_findings(
    judged: Sequence[Finding], known: Collection[str], limits: Mapping[str, str] = NEXT_LIMITS
) -> PlannedFindings:
    """Divide what judges a planned run into findings and the limits that come next; `known` are the findings of this run."""
    next_ones = [finding for finding in judged if finding.id in limits and finding.id not in known]
    names = dict.fromkeys(limits[finding.id] for finding in next_ones)
    return PlannedFindings(tuple(finding for finding in judged if finding not in next_ones), tuple(names))


def new_findings(planned: PlannedFindings, known: Collection[str]) -> list[Finding]:
    """Return the findings of a planned run that this run has not."""
    return [finding for finding in planned.findings if finding.id not in known]


_SEQUENCES = "--max-num-seqs"
_NOTE = "vLLM then captures sizes for the new max_num_seqs"


def with_capture_sizes(run: Run, items: Sequence[PlannedChange]) -> list[PlannedChange]:
    """Return the changes with those that drop fixed capture sizes which a raised max_num_seqs leaves too small."""
    raised = next((item for item in items if item.change.knob == _SEQUENCES), None)
    wanted = raised.change.after if raised else None
    if raised is None or not isinstance(wanted, int):
        return list(items)
    planned = {item.change.knob for item in items}
    follow = [
        PlannedChange(change, raised.findings)
        for change in _fixed_sizes(run, wanted)
        if change.knob not in planned
    ]
    position = list(items).index(raised) + 1
    return [*items[:position], *follow, *items[position:]]


def _fixed_sizes(run: Run, wanted: int) -> list[Change]:
    """Return changes that drop sizes, all smaller than `wanted`, which the user fixed."""
    found = []
    for name in GRAPH_SIZES:
        value = run.arguments.get(name)
        if value and largest_size(value) < wanted:
            found.append(Change("--" + name.replace("_", "-"), "flag", value, None, "needs-test", _NOTE))
    config = run.arguments.get("compilation_config")
    if isinstance(config, dict):
        small = [name for name in GRAPH_SIZES if config.get(name) and largest_size(config[name]) < wanted]
        if small:
            rest = {name: value for name, value in config.items() if name not in small and value is not None}
            found.append(Change("--compilation-config", "flag", config, rest or None, "needs-test", _NOTE))
    return found
