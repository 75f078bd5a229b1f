"""The verdict: what ran, how it ended, what limits it, and the three changes that are worth most."""

from __future__ import annotations

from vllm_logdoctor.report.effects import ORIGINS, change_words, effect_range
from vllm_logdoctor.report.escape import inline, prose
from vllm_logdoctor.report.figures import capital, count, number, table
from vllm_logdoctor.report.naming import BOTTLENECKS, BROKEN, OUTCOMES, PHASES, is_client
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.sections.advice import is_asked, put_off
from vllm_logdoctor.rules.model import Confidence, Finding
from vllm_logdoctor.rules.urgency import is_urgent

SHOWN = 3
DOUBT: dict[Confidence, str] = {"high": "", "medium": "probably ", "low": "perhaps "}
_COMPARED = (
    "Successful requests",
    "Request throughput (req/s)",
    "Output token throughput (tok/s)",
    "Median TTFT (ms)",
    "Median TPOT (ms)",
    "requests/s",
    "output tokens/s",
    "average latency (s)",
    "p99 latency (s)",
)
_FAILED = "Failed requests"
_LIMITED = (
    "kv-cache-limited",
    "max-num-seqs-limited",
    "prefill-limited",
    "host-limited",
    "interconnect-limited",
)
_REST = (
    "What to do: get the rest of the log and how the process ended (`docker inspect`, `kubectl describe pod` and `kubectl logs"
    " --previous`, `journalctl -u`, `sacct`). What is below is about the part of the start that is here."
)
BACKWARDS = (
    "**The lines of this log run backwards in time: the newest comes first.** Where runs begin and end, what broke first and how it"
    " ended can't be told in this order, and may be wrong below. Turn it round and analyse it again: `tac LOG | logdoctor analyze -`."
)


def verdict(page: Page) -> list[str]:
    """Return the verdict as Markdown lines."""
    lines = [*([BACKWARDS, ""] if page.run.newest_first else []), _headline(page), ""]
    limit = _limits(page)
    if limit:
        lines += [limit, ""]
    worth = [finding for finding in page.findings if finding.changes and finding.role != "cascade"]
    if page.failures:
        worth = [finding for finding in worth if finding.kind == "failure"]
    worth = [finding for finding in worth if not put_off(page, finding)]
    root = next(iter(page.failures), None)
    if root is not None and not root.changes:
        # What helps against something else that broke is not the first thing to do.
        lines += [f"What to do: {prose(root.alternatives[0])}", ""] if root.alternatives else []
    elif _start_cut_off(page) and not any(is_urgent(page.run, finding) for finding in page.findings):
        lines += [_REST, ""]
    elif worth:
        lines += [*_changes(page, worth[:SHOWN]), ""]
        further = sum(bool(finding.changes) for finding in page.diagnosis.findings) - len(worth[:SHOWN])
        if further > 0:
            lines += [f"{count(further, 'further change')} below.", ""]
    elif not page.failures and page.run.outcome not in BROKEN:
        lines += [_nothing(page), ""]
    return lines


def sentence(page: Page) -> str:
    """Return the verdict in one sentence, without emphasis."""
    root = next(iter(page.failures), None) or (page.ended_by if page.run.outcome in BROKEN else None)
    outcome = OUTCOMES[page.run.outcome]
    if root is not None:
        cause = f"{DOUBT[root.confidence]}{prose(root.title)}"
        return f"{capital(outcome)}: {cause}{page.cited(root.evidence, 2)}."
    if page.run.outcome in BROKEN:
        return f"{capital(outcome)}. The log does not say why."
    if is_client(page.run):
        return f"The log is a benchmark client's, and nothing of a server is in it: {_result(page)}."
    if _start_cut_off(page):
        return _cut_off(page)
    reason = page.diagnosis.bottleneck.reason or BOTTLENECKS[page.diagnosis.bottleneck.name]
    return capital(prose(reason).rstrip(".")) + "."


def _result(page: Page) -> str:
    """Return the figures of the last result by which benchmarks are compared."""
    last = page.run.benchmarks[-1]
    compared = (*_COMPARED, *((_FAILED,) if last.figures.get(_FAILED) else ()))
    told = [f"{name} {number(last.figures[name])}" for name in compared if name in last.figures]
    many = len(page.run.benchmarks)
    which = f"the last of {many} results, " if many > 1 else ""
    return f"{which}{inline(', '.join(told) or 'without a rate')}{page.cited(last.evidence)}"


def _start_cut_off(page: Page) -> bool:
    """Say whether the log ends before anything was served, and without a word on why."""
    return page.run.outcome == "truncated" and not page.run.startup_complete


def _cut_off(page: Page) -> str:
    """Return what is known of a start whose end is not in the log."""
    ready = page.run.measured.get("init_engine_seconds")
    if ready is not None:
        return f"The log ends where the engine is ready{page.cited(ready.evidence, 1)}; whether it served anything, and how it ended, is not in it."
    what = "engine" if page.run.kind == "offline" else "server"
    return (
        f"The log ends before the start-up does{_last_phase(page)}; whether the {what} came up is not in it."
    )


def _last_phase(page: Page) -> str:
    """Return in which part of the start the last line stands."""
    parts = [phase for phase in page.run.phases if phase.parent == "startup" and phase.name in PHASES]
    if not parts or parts[-1].name == "unexplained":
        return ""
    return f"; the last part of it in the log: {PHASES[parts[-1].name]}{page.cited(parts[-1].evidence, 1)}"


def _headline(page: Page) -> str:
    root = next(iter(page.failures), None)
    told = sentence(page)
    if root is None:
        return f"**{told}**"
    return f"**{told}** {prose(root.explanation)}"


def _limits(page: Page) -> str:
    limit = page.diagnosis.bottleneck
    if limit.name in ("failed", "startup-only") or page.failures:
        return ""
    return f"Bottleneck: {limit.name}{page.cited(limit.evidence)}."


def _changes(page: Page, findings: list[Finding]) -> list[str]:
    header = ["#", "change", "why", "expected", "confidence"]
    rows = [_row(page, position, finding) for position, finding in enumerate(findings, start=1)]
    if page.failures:
        return table([*header[:3], header[4]], [[*row[:3], row[4]] for row in rows])
    return table(header, rows)


def _row(page: Page, position: int, finding: Finding) -> list[str]:
    wanted = "; ".join(change_words(change) for change in finding.changes[:2])
    why = f"{prose(finding.title)}{page.cited(finding.evidence, 3)}"
    return [str(position), wanted, why, _expected(finding), finding.confidence]


def _expected(finding: Finding) -> str:
    if finding.effect is None:
        return "no range with an origin is known"
    return f"{effect_range(finding.effect)} ({ORIGINS[finding.effect.origin]})"


def _nothing(page: Page) -> str:
    if any(is_asked(finding) for finding in page.advice):
        return "What to look at is below; no flag changes it."
    if page.diagnosis.bottleneck.name in _LIMITED:
        return "No rule finds a setting in this log that would lift this limit."
    if not page.run.startup_complete:
        return "No change follows from what this log holds."
    return "Nothing to change: no rule finds a setting in this log that a change would improve."
