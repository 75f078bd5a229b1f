"""What failed beside a run and did not end it: second commands in the same log, transfers of a connector, limits of the host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.context import action
from vllm_logdoctor.rules.failure.context import FailureContext, Observation
from vllm_logdoctor.rules.failure.matching import RuleMatch, match_rules
from vllm_logdoctor.rules.failure.requests import REFUSED
from vllm_logdoctor.rules.failure.signatures import FailureRules
from vllm_logdoctor.rules.failure.wording import finding_of, named_finding, shown
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.run.blockkinds import is_transfer, tells_of_transfer
from vllm_logdoctor.run.blocks import Block
from vllm_logdoctor.run.owners import PROGRAM, acting_frames, is_file_of_vllm, owner_of
from vllm_logdoctor.run.places import file_name

TRANSFER = "kv-connector-failure"
_LIMITS = frozenset({"thread-or-process-limit", "disk-full-or-quota"})
_OF_PROXY = (
    " The answer is a page in HTML, which vLLM does not send: a proxy between the two did.",
    "set NO_PROXY to the server's address where the client runs",
)
_HELD = frozenset(
    {"port-in-use", "gpu-memory-not-free-at-start", "no-memory-left-for-kv-cache", "oom-weights-load"}
)
"""Failures for want of what a server that is up holds."""
CLIENT_FAILED = "A client of the server failed"
_OF_CLIENT = (CLIENT_FAILED, "Another program in this log, no part of the server, raised this exception")
_CAUGHT = (
    "Exception in the program, which went on",
    "The program that calls vLLM printed this exception and wrote on",
)
_OFFLINE = (
    " The data set is not in the cache, and offline mode forbids the download.",
    "load the data set once with network and the same HF_HOME, or unset HF_HUB_OFFLINE and HF_DATASETS_OFFLINE",
)
_WELL = frozenset({"running", "clean_shutdown"})
# File "/opt/env/bin/vllm", line 8, in <module>      File "/usr/lib/python3.12/multiprocessing/process.py", line 314, in _bootstrap
_COMMAND = lazy_pattern(
    r"(?:bin/vllm|openai/api_server\.py|<frozen runpy>|/runpy\.py|multiprocessing/process\.py)$"
)


def aside_findings(
    context: FailureContext, rules: FailureRules, facts: Mapping[str, Any]
) -> Iterator[Finding]:
    """Yield what broke a second command that wrote into the log of a run that is well, at most one."""
    if context.ending.outcome not in _WELL:
        return
    for number, block in enumerate(context.blocks):
        if context.kind(number) != "error" or not _ended_a_command(block):
            continue
        for observation in context.exceptions([number]):
            for named in match_rules(observation, context, rules, facts):
                if named.signature.rank == "cause" and named.rule.kind == "failure":
                    finding = named_finding(named, context.run, None)
                    words = f"A second command that wrote into this log failed; this run went on. {finding.explanation}"
                    finding = replace(finding, kind="configuration", severity="medium", explanation=words)
                    yield _held_by_this_run(finding) if named.rule.id in _HELD else finding
                    return


def _held_by_this_run(finding: Finding) -> Finding:
    """Return a finding without the step to stop who holds what a second command lacks: that is the run that is well."""
    words = f"{finding.explanation} It was probably this run that held what the second command needed."
    return replace(
        finding, title="A second command failed beside this run", explanation=words, confidence="medium",
        changes=(action("start no second server on the card or the port of this one"),), alternatives=(), avoid="", verify="",
    )  # fmt: skip


def caller_findings(context: FailureContext, rules: FailureRules) -> Iterator[Finding]:
    """Yield the exception of a program that calls vLLM: of a client in the server's log, or one that an offline program caught; at most one."""
    offline = context.run.kind == "offline" or context.run.seen("training-progress") is not None
    for number, block in enumerate(context.blocks):
        if context.kind(number) != "error" or number in context.ending.fatal or not _is_of_caller(block):
            continue
        lives = context.ending.outcome in _WELL or (offline and not context.ending.failed)
        if lives and block.last_raised.type and REFUSED in rules:
            said, record = block.last_raised.statement, block.last_raised.record
            finding = finding_of(
                rules.rule(REFUSED), context.run, role=None, confidence="high", records=[record], values={}
            )
            text, (why, step) = said.splitlines()[0], _to_correct(block)
            if "<!DOCTYPE" in said or "<html" in said:
                text, (why, step) = text.partition("<")[0].rstrip(" ("), _OF_PROXY
            title, words = _CAUGHT if offline else _OF_CLIENT
            quoted = f"`{shown(text).replace('`', chr(39))}`"
            # What a program caught itself may need no step.
            caught = f" {step[0].upper()}{step[1:]}." if step and offline else ""
            yield replace(
                finding, title=title, explanation=f"{words}: {quoted}.{why}{caught}", alternatives=(), avoid="",
                changes=(action(step),) if step and not offline else (), verify="no such exception of the client.",
            )  # fmt: skip
            return


def _to_correct(block: Block) -> tuple[str, str]:
    """Return why a program failed, beside its exception, and the step: where its own code raised it, or what it lacks; "" for what is not known."""
    if "on the Hub (OfflineModeIsEnabled" in block.last_raised.statement:
        return _OFFLINE
    frames = acting_frames(block.last_raised.frames)
    own = bool(frames) and owner_of(frames[-1].file) == PROGRAM
    return "", f"correct the program at {file_name(frames[-1].file)}:{frames[-1].line}" if own else ""


def _is_of_caller(block: Block) -> bool:
    """Return whether an exception was raised by a program and has no part of vLLM, nor is the other end of what the server logs itself."""
    files = [frame.file for one in block.raised for frame in one.frames]
    # The server's own exit:   File "/usr/lib/python3.12/weakref.py", line 666, in _exitfunc
    if (
        block.process.role not in ("", "other")
        or block.call_site is not None
        or any(map(is_file_of_vllm, files))
    ):
        return False
    # A status of 5xx is the other end of an error that the server logs or counts itself.
    of_actor = bool(files) and block.process.pid is not None
    of_program = of_actor or any(owner_of(file) == PROGRAM for file in files)
    return of_program and block.last_raised.name != "InternalServerError"


def transfer_findings(context: FailureContext, rules: FailureRules) -> Iterator[Finding]:
    """Yield the failed transfers and handshakes of a connector that the engine went on after, as one finding."""
    fatal = frozenset(context.ending.fatal)
    blocks = [
        block for number, block in enumerate(context.blocks)
        if number not in fatal and context.kind(number) == "error" and is_transfer(block)
    ]  # fmt: skip
    announced = {id(block.introduction) for block in blocks}
    lines = [
        one.record
        for one in context.lines
        if tells_of_transfer(one.record) and id(one.record) not in announced
    ]
    failed = [block.introduction or block.last_raised.record for block in blocks] + lines
    if context.ending.failed or not failed or TRANSFER not in rules:
        return
    said = blocks[0].last_raised.statement if blocks else ""
    values = {"what": shown((said or failed[0].message).split("\n")[0])}
    raised = [block.last_raised.record for block in blocks if block.last_raised.type]
    finding = finding_of(
        rules.rule(TRANSFER), context.run, role=None, confidence="medium", values=values, records=[*raised[:3], *failed[:3]],
        kind="configuration", severity="medium",
    )  # fmt: skip
    number = "One message reports" if len(failed) == 1 else f"{len(failed):,} messages report"
    words = (
        f"{number} a failed transfer of KV blocks, or a failed handshake before one. vLLM goes on after such an error; the request"
        f" that needed it fails or is computed again. {finding.explanation}"
    )
    yield replace(finding, title="KV transfers failed", explanation=words)


def limit_findings(
    context: FailureContext, rules: FailureRules, facts: Mapping[str, Any]
) -> Iterator[Finding]:
    """Yield the limits of the host that a run reached and lived on with: files that can't be opened, disks that are full."""
    if context.ending.outcome not in _WELL:
        return
    aside = [number for number in range(len(context.blocks)) if number not in context.ending.fatal]
    lines = (one for one in context.lines if not one.framed or one.record.level in ("ERROR", "CRITICAL"))
    reached: dict[str, list[RuleMatch]] = {}
    for observation in (*context.exceptions(aside), *lines):
        if _before_start(context, observation):
            continue
        for named in match_rules(observation, context, rules, facts)[:1]:
            if named.rule.id in _LIMITS:
                reached.setdefault(named.rule.id, []).append(named)
    for named, *others in reached.values():
        finding = named_finding(named, context.run, None, [one.decisive for one in others[-1:]])
        times = "once" if not others else f"{len(others) + 1:,} times"
        words = f"The log says so {times}; the server went on, and refused or lost what needed it. {finding.explanation}"
        yield replace(finding, kind="configuration", severity="high", explanation=words)


def _before_start(context: FailureContext, observation: Observation) -> bool:
    """Return whether something happened before the engine was ready: the start that followed did not need it."""
    return context.ending.ready is None or observation.place < context.ending.ready


def _ended_a_command(block: Block) -> bool:
    """Return whether a traceback left the program: it is raw, and its outermost place is the command itself."""
    first = block.raised[0].frames[:1] if block.raised else ()
    return not block.level and any(bool(_COMMAND.search(frame.file)) for frame in first)
