"""Errors whose exception is not in the log: torn tracebacks, words of other processes, and follow-up errors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from vllm_logdoctor.catalogue.pages import Signature
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.rules.failure.context import LIBRARY_WARNED, FailureContext, Observation
from vllm_logdoctor.rules.failure.matching import RuleMatch, is_vague, match_rules
from vllm_logdoctor.rules.failure.own_steps import WHOLE_OUTPUT
from vllm_logdoctor.rules.failure.rule_ids import NOT_IN_LOG, UNKNOWN
from vllm_logdoctor.rules.failure.signatures import FailureRules
from vllm_logdoctor.rules.failure.values import values_of
from vllm_logdoctor.run.blockkinds import is_request_site, tells_of_transfer
from vllm_logdoctor.run.blocks import Block, Raised
from vllm_logdoctor.run.places import file_and_function, file_name

NO_CACHE = "no-memory-left-for-kv-cache"
# Available KV cache memory: -0.85 GiB
_NO_BUDGET = lazy_pattern(r"Available KV cache memory: (?P<available>-\d+(?:\.\d+)?) Gi?B")
_BUDGET_LINES = 40
# RuntimeError: Worker failed with error 'Expected result >= 0 to be true, but got false.', please check the stack trace
_QUOTES = lazy_pattern(
    r"Worker failed with error '(?P<error>[^\n]{4,400}?)(?:', please|'?$|\n)", re.MULTILINE
)
_ORIGINAL_TYPE = lazy_pattern(r"\w+(?:Error|Exception)\(")
# EngineCore failed to start.      Exception in worker VllmWorkerProcess while processing method load_model.      AsyncLLM output_handler failed.
# 2026-02-02 12:53:27,515 ERROR exceptions.py:81 -- Full stack trace:
_NO_MESSAGE = lazy_pattern(
    r"\b[Ff]ailed\b|fatal error|hit an exception|^Exception\b|^Error (?:in|executing|while)\b|Traceback \(most|[Ss]tack ?trace:?\s*$|^[\^~ ]+$"
)
_SAYS_WHAT_FAILED = lazy_pattern(
    r"(?!.*[Tt]race)[A-Z][^:{}]{4,60} (?:failed|fatal error|hit an exception)\b[^:{}]{0,30}"
)
# 2024:09:13-11:21:50:(  532) |CCL_ERROR| exchange_utils.cpp:202 sendmsg_fd: condition ... failed      rocblas error: Cannot read library
# E0511 10:00:00.123456 1234 nixl_agent.cpp:1118] no potential backend found      - manager.worker - ERROR - Error provisioning chat-1: Failed
_LIBRARY_FAILED = lazy_pattern(
    r"CCL_ERROR|NCCL WARN .*(?:fail|error)|(?i:\bfatal\b|\berror: ?\S)|\[E\d{3}|^[EF]\d{4} \d\d:|\bERR\d{5}\b"
    r"|\b(?:ERROR|CRITICAL)\b(?!.*:\s*$)"
)
_OF_CUT_OFF = Signature(
    "", rank="symptom", priority=0, confidence="low", title="An error whose traceback is cut off"
)
_REST = (
    "Get the rest of the traceback: its last line names the error.",
    "Keep the output of all processes, standard error too, from the start on: `COMMAND > vllm.log 2>&1`.",
)
_OF_WORKER = (
    "Get the worker's own traceback, which names the place: it is not in this log, and the worker wrote it before this error.",
    "Search the issues of vLLM for the words of the worker's error, without its paths and numbers.",
)
_REST_OF_WORKER = (
    "Get the rest of the workers' traceback: this log has only parts of it, and its last line names the error.",
    _OF_WORKER[1],
)
# /home/user/.cache/vllm/torch_compile_cache/1c0ffee123/rank_3_0/inductor_cache/ab/cabc.py
_GENERATED = lazy_pattern(r"(?P<cache>\S*/torch_compile_cache/\w+)/|inductor_cache/|/torchinductor_")
_CODE = "    "  # The place of a frame whose code a piece begins with is above it.
_CLOSE_LINES = 10
_CLOSE_SECONDS = 10.0


def without_exception(
    raised: Raised,
    observation: Observation,
    context: FailureContext,
    rules: FailureRules,
    facts: Mapping[str, Any],
) -> RuleMatch | None:
    """Return what is known of a traceback whose exception is not in the log: what its process said above it, or where it ends."""
    return (
        _out_of_budget(observation, context, rules, facts)
        or _announced(observation, rules)
        or _logged_above(observation, context, rules, facts)
        or _torn(raised, observation, context, rules)
    )


def of_another_process(
    observation: Observation, rules: FailureRules, blocks: Sequence[Block] = ()
) -> RuleMatch | None:
    """Return the error that a follow-up error quotes, or that its cause is logged elsewhere."""
    return _quoted(observation, rules, blocks) or _elsewhere(observation, rules)


def _out_of_budget(
    observation: Observation, context: FailureContext, rules: FailureRules, facts: Mapping[str, Any]
) -> RuleMatch | None:
    """Return the negative room for the KV cache that was measured right above a traceback without its exception."""
    measured = reversed(context.above(observation.position, _BUDGET_LINES))
    record = next((one for one in measured if _NO_BUDGET.search(one.message)), None)
    found = _NO_BUDGET.search(record.message) if record is not None else None
    if record is None or found is None or NO_CACHE not in rules:
        return None
    values = values_of(NO_CACHE, found.groupdict(), facts, context.run)
    signature = Signature("", priority=70, confidence="medium")
    return RuleMatch(rules.rule(NO_CACHE), signature, observation, record, values, (observation.record,))


def _announced(observation: Observation, rules: FailureRules) -> RuleMatch | None:
    """Return the message of an exception that a logger printed above its traceback, whose end is not in the log.

    ERROR 05-26 00:17:47 [engine.py:448] 'ColumnParallelLinear' object has no attribute 'input_scale'
    """
    block, said = observation.block, observation.text.split("\n")[0].strip()
    same_logger = (
        block is not None
        and block.call_site is not None
        and block.introduction is not None
        and block.introduction.call_site == block.call_site
        and not block.introduction.message.startswith(_CODE)
    )
    if not said or not same_logger or _NO_MESSAGE.search(said) or UNKNOWN not in rules:
        return None
    return _cut_off(said, observation.record, observation, rules)


def _logged_above(
    observation: Observation, context: FailureContext, rules: FailureRules, facts: Mapping[str, Any]
) -> RuleMatch | None:
    """Return the error that the process of a traceback without its exception logged right above it, as a rule knows it or as logged.

    ERROR 05-01 11:35:28 [nixl_connector.py:343] NIXL is not available
    """
    above = reversed(context.above(observation.position, _CLOSE_LINES))
    said = next((one for one in above if _is_error(one, observation, context)), None)
    if said is None or UNKNOWN not in rules:
        return _printed_above(observation, context, rules)
    seen = Observation(
        said.message, said, observation.position, context.place(said),
        raised=Raised("", said.message, "", (), said, ""),
    )  # fmt: skip
    named = next((one for one in match_rules(seen, context, rules, facts) if not is_vague(one)), None)
    if named is not None:
        signature = named.signature
        if named.confidence == "high":
            signature = replace(signature, confidence="medium")  # The exception itself is not in the log.
        return replace(named, signature=signature, observation=observation)
    return _cut_off(said.message.strip(), said, observation, rules, observation.record)


def _printed_above(
    observation: Observation, context: FailureContext, rules: FailureRules
) -> RuleMatch | None:
    """Return the error that a library or another program printed right above a traceback without its exception."""
    said = _printed(_LIBRARY_FAILED, observation, context)
    if said is None or UNKNOWN not in rules:
        return None
    found = _cut_off(said.message.strip(), said, observation, rules, observation.record)
    return replace(found, signature=replace(_OF_CUT_OFF, remedy=_REST))


def _printed(shape: re.Pattern[str], observation: Observation, context: FailureContext) -> Record | None:
    """Return the first line of a shape right above a traceback that no logger of vLLM framed; Python's warnings are of no failure."""
    above = context.above(observation.position, _CLOSE_LINES)
    bare = (one for one in above if not one.level and id(one) not in context.inside)
    return next(
        (one for one in bare if shape.search(one.message[:400]) and "Warning: " not in one.message), None
    )


def _cut_off(
    text: str, record: Record, observation: Observation, rules: FailureRules, *supporting: Record
) -> RuleMatch:
    """Return the text of a line as the error of a traceback that is cut off."""
    values = {"exception": text[:300], "process": record.process.name or None}
    return RuleMatch(rules.rule(UNKNOWN), _OF_CUT_OFF, observation, record, values, supporting)


def _is_error(record: Record, observation: Observation, context: FailureContext) -> bool:
    """Return whether a line above a traceback is an error of its process, in the same seconds, that states more than that it failed."""
    block = observation.block
    if block is None or record.level not in ("ERROR", "CRITICAL") or record.process != block.process:
        return False
    if id(record) in context.inside or _NO_MESSAGE.search(record.message) or record.message.startswith(_CODE):
        return False
    if record.call_site is not None and is_request_site(record.call_site[0]):
        return False
    if tells_of_transfer(record) and context.served_before(observation.place):
        return False
    now = block.first.time
    return record.time is None or now is None or now - record.time <= _CLOSE_SECONDS


def _torn(
    raised: Raised, observation: Observation, context: FailureContext, rules: FailureRules
) -> RuleMatch | None:
    """Return what a traceback without its exception says: where the text ends, and that the cause is not in it."""
    if NOT_IN_LOG not in rules:
        return None
    last = raised.frames[-1]
    function = last.function.partition(" ")[0]  # All lines of the traceback may be in one.
    warned = _printed(LIBRARY_WARNED, observation, context)
    meaning = _meaning(warned, context) if warned is not None else ""
    own = _warned_in(last.file, observation, context) if warned is None else None
    values = {
        "cut_in": file_and_function(last.file, function),
        "warned": warned.message.strip() if warned is not None and not meaning else None,
        "meaning": meaning or None,
        "own_warning": own.call_site[0] if own is not None and own.call_site else None,
    }
    rest = WHOLE_OUTPUT if context.run.kind == "build" else _REST
    signature = Signature(
        "", rank="symptom", priority=0, confidence="medium", title=_title_of_torn(observation), remedy=rest
    )
    shown = warned or own
    decisive, supporting = (shown, (raised.record,)) if shown is not None else (raised.record, ())
    return RuleMatch(rules.rule(NOT_IN_LOG), signature, observation, decisive, values, supporting)


def _warned_in(file: str, observation: Observation, context: FailureContext) -> Record | None:
    """Return the last warning, right above a traceback, of the file in which the traceback is cut off.

    WARNING 07-09 16:17:11 [tensorizer.py:226] Provided both tensorizer_dir and tensorizer_uri.
    """
    above = reversed(context.above(observation.position, _CLOSE_LINES))
    same = (one for one in above if one.level == "WARNING" and one.call_site is not None)
    return next((one for one in same if one.call_site and one.call_site[0] == file_name(file)), None)


def _title_of_torn(observation: Observation) -> str:
    """Return what a logger said failed, which is what one searches for where the exception is not in the log."""
    block = observation.block
    said = block.introduction if block is not None else None
    if said is None or said.call_site is None or not _SAYS_WHAT_FAILED.fullmatch(said.message.strip()):
        return "Traceback is cut off"
    return f"{said.message.strip().rstrip('.')}, its traceback is cut off"


def _meaning(record: Record, context: FailureContext) -> str:
    """Return the first sentence of what a pattern says that a line means, or ""."""
    seen = (event for message in context.run.messages.values() for event in message.first)
    of_line = (one for one in seen if (one.record.file, one.record.line) == (record.file, record.line))
    return next((one.pattern.meaning.partition(". ")[0].rstrip(".") for one in of_line), "")


def _quoted(observation: Observation, rules: FailureRules, blocks: Sequence[Block]) -> RuleMatch | None:
    """Return the error of a worker that another process quotes, where of the worker's own traceback the log has parts at most."""
    found = _QUOTES.search(observation.text[:4000])
    error = (
        found["error"]
        if found
        else ""
        if observation.wrapper
        else _ORIGINAL_TYPE.match(observation.text) and observation.text
    )
    if not error or UNKNOWN not in rules:
        return None
    values = {"exception": error.split("\n")[0][:300], "process": observation.record.process.name or None}
    block, steps = _part_of_worker(blocks)
    supporting: tuple[Record, ...] = ()
    if block is not None:
        last = block.last_raised.frames[-1]
        generated = _GENERATED.search(last.file)
        place = (
            "code that torch.compile generated" if generated else file_and_function(last.file, last.function)
        )
        values["raised"] = f"A part of a worker's traceback ends in {place}"
        below = (one for one in block.records if last.code and last.code in one.message)
        supporting = (last.record, *list(below)[:1])
    signature = Signature(
        "", rank="echo", priority=0, confidence="low", title="Error of a worker that no rule names", remedy=steps
    )  # fmt: skip
    return RuleMatch(rules.rule(UNKNOWN), signature, observation, observation.record, values, supporting)


def _part_of_worker(blocks: Sequence[Block]) -> tuple[Block | None, tuple[str, ...]]:
    """Return the block that shows most of a worker's traceback without its exception, and the steps; generated code goes first."""
    torn = [
        one
        for one in blocks
        if one.process.role == "worker" and not one.last_raised.type and one.last_raised.frames
    ]
    for block in torn:
        generated = _GENERATED.search(block.last_raised.frames[-1].file)
        if generated:
            clean = (
                f"Remove the compile cache `{generated['cache']}` and start again."
                if generated["cache"]
                else ""
            )
            eager = "Start with `--enforce-eager`: it leaves torch.compile out."
            return block, tuple(filter(None, (eager, clean, *_REST_OF_WORKER)))
    return (torn[0], _REST_OF_WORKER) if torn else (None, _OF_WORKER)


def _elsewhere(observation: Observation, rules: FailureRules) -> RuleMatch | None:
    if NOT_IN_LOG not in rules:
        return None
    values = {"exception": observation.text.split("\n")[0][:300] or None}
    signature = Signature("", rank="echo", priority=0, confidence="medium")
    return RuleMatch(rules.rule(NOT_IN_LOG), signature, observation, observation.record, values)
