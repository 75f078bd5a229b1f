"""The warnings and errors of a run with a verdict each, and what packs of the user's own know of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vllm_logdoctor.catalogue.message_ids import PREFIX
from vllm_logdoctor.catalogue.topics import MessageVerdict, Verdict
from vllm_logdoctor.rules.model import Finding, Message
from vllm_logdoctor.run.model import Occurrences, Run, Unknown

_ORDER: tuple[MessageVerdict, ...] = (
    "cause-of-failure", "will-break", "needs-attention", "costs-performance", "not-fatal", "unknown", "harmless", "information",
)  # fmt: skip
_WENT_ON = ("running", "clean_shutdown")
_SERIOUS = frozenset({"WARNING", "ERROR", "CRITICAL"})
_ERRORS = _SERIOUS - {"WARNING"}
MOST_MESSAGES = 400
_OF_COMPILED_KERNELS = frozenset({"failed-import-vllm-c", "failed-import-vllm-c-stable-libtorch"})
_WITHOUT_COMPILED_KERNELS = frozenset({"tpu", "hpu", "neuron", "npu"})
"""Platforms whose kernels are not in vLLM's compiled library."""
_NOT_CONNECTED = "client-not-connected"
# After a stop signal this is normal; otherwise the cause is logged earlier.
_IF_NOT_STOPPED = "; otherwise the cause is logged earlier"


def messages_of(run: Run, findings: Sequence[Finding]) -> tuple[Message, ...]:
    """Return what the run warned of, the worst verdicts first, each kind once with its count.

    Args:
        run: the run.
        findings: what broke it; a message that can end a run did not end one that nothing broke.
    """
    went_on = run.outcome in _WENT_ON and not any(found.kind == "failure" for found in findings)
    found = [*_known(run, went_on), *map(_unknown, (u for u in run.unknown if u.level in _SERIOUS))]
    found.sort(key=lambda m: (_ORDER.index(m.verdict), m.evidence.line))
    return tuple(found[:MOST_MESSAGES])


def _known(run: Run, went_on: bool) -> Iterator[Message]:
    for pattern_id, seen in run.messages.items():
        event = seen.first[0]
        if not _worth_a_verdict(seen):
            continue
        record = event.record
        pattern = event.pattern
        # An error that no pack judges is one as well.
        needless = pattern_id in _OF_COMPILED_KERNELS and run.platform in _WITHOUT_COMPILED_KERNELS
        needless = needless or (pattern_id == _NOT_CONNECTED and _waited(run, seen))
        unjudged = went_on and record.level in _ERRORS and pattern_id.startswith(PREFIX)
        yield Message(
            pattern_id,
            record.message[:300],
            "not-fatal" if unjudged else "harmless" if needless else _verdict(pattern.verdict, went_on),
            "vLLM went on after it." if unjudged else _meaning(pattern.meaning, run),
            seen.count,
            run.evidence(record),
            custom=not pattern.trusted,
        )


def _meaning(meaning: str, run: Run) -> str:
    """Return what a message means in a run that was stopped or failed, where its pattern tells the two apart."""
    before, stopped, _ = meaning.partition(_IF_NOT_STOPPED)
    if not stopped:
        return meaning
    return f"{before}." if run.outcome == "clean_shutdown" else meaning


def _waited(run: Run, seen: Occurrences) -> bool:
    """Return whether a message was last printed before the server was up: a program waited for it."""
    ready, last = run.seen("startup-complete"), (seen.last or seen.first[-1]).record
    up = ready.first[0].record if ready is not None else None
    return up is not None and up.file == last.file and last.line < up.line


def _verdict(verdict: Verdict, went_on: bool) -> MessageVerdict:
    return "not-fatal" if went_on and verdict == "cause-of-failure" else verdict


def _worth_a_verdict(seen: Occurrences) -> bool:
    """Return whether a message is listed: what a pack of the user's own knows is, whatever its level."""
    event = seen.first[0]
    if not event.pattern.trusted:
        return True
    return event.record.level in _SERIOUS or event.pattern.verdict in (
        "will-break",
        "needs-attention",
        "costs-performance",
    )


def _unknown(unknown: Unknown) -> Message:
    return Message("", unknown.first.text[:300], "unknown", "", unknown.count, unknown.first)
