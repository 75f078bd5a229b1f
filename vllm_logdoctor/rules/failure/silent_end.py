"""Ends without an error of the engine: stops, kills, hangs, logs that just end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from msgspec.structs import replace

from vllm_logdoctor.catalogue.topics import RuleKind, Severity
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.rules.failure.context import FailureContext, Observation
from vllm_logdoctor.rules.failure.matching import is_vague, match_rules
from vllm_logdoctor.rules.failure.other_output import OTHERS, findings_of_others
from vllm_logdoctor.rules.failure.rule_ids import UNKNOWN
from vllm_logdoctor.rules.failure.signatures import FailureRules
from vllm_logdoctor.rules.failure.support import is_ruled_out
from vllm_logdoctor.rules.failure.values import number
from vllm_logdoctor.rules.failure.wording import finding_of, named_finding, rule_of_case, shown, with_shown
from vllm_logdoctor.rules.model import Confidence, Finding
from vllm_logdoctor.run.blockkinds import is_request_site, tells_of_transfer
from vllm_logdoctor.run.blocks import Raised
from vllm_logdoctor.run.job import NATIVE_CRASHES
from vllm_logdoctor.run.model import Run, Sample
from vllm_logdoctor.run.termination import Stop, StopKind
from vllm_logdoctor.run.tracelines import cleaned, exception_within

STOPPED = "stopped-by-user-or-script"
ORCHESTRATOR = "killed-by-orchestrator"
KILLED = "process-killed-externally"
MEMORY = "host-memory-exhausted"
NATIVE = "worker-crash-native"
NOT_IN_LOG = "cause-not-in-log"
P2P_TEST = "cuda-p2p-ipc-unavailable"
NCCL_START = "nccl-init-hang"
NCCL_TRAFFIC = "nccl-p2p-hang"
PLACEMENT = "ray-not-enough-gpus"
HANG = "worker-hang-execute-model-timeout"
SILENT = frozenset({NOT_IN_LOG, P2P_TEST, NCCL_START, NCCL_TRAFFIC, PLACEMENT, HANG, MEMORY})
"""What may be said of a log that only stops: none of them proves that the run broke."""

# (CELL HANGS HERE)      ... stuck here forever      <- it hangs
_SAYS_THAT_IT_HANGS = lazy_pattern(
    r"(?i)\W{0,8}(?:[a-z']{1,12} ){0,5}(?:hangs?|hanging|stuck|freezes|frozen)(?: [a-z']{1,12}){0,5}\W{0,8}"
)
_ENDS_HERE = "The log ends here without an error: the process hangs, was ended without logging it, or ran on after the log was copied."
_OF_A_JOB = ("Correct what the line names of the job (`--gres`, partition, account), and submit it again.",)
_STOPPED_EARLY = (
    "Find out what sent the signal before the start was done: a script or a tool that waits only so long, a probe, Ctrl-C.",
    "Make that script, tool or probe wait longer: loading weights and compiling take minutes.",
)
_STOPPED_AT_HUB = (
    _STOPPED_EARLY[0],
    "Download the model before (`hf download`) and set `HF_HUB_OFFLINE=1`: at that moment the start waited for an answer of the hub.",
)
_STOPPED_BY: dict[StopKind, str] = {
    "user": "a user (Ctrl-C)", "scheduler": "the batch system or the container's manager", "walltime": "the job's time limit",
}  # fmt: skip
_SIGNAL_NAME = lazy_pattern(r"\bSIG[A-Z]{3,4}\b")
_LAST_LINES = 15
_SURVIVED = 3
"""Records as usual behind an error after which it ended nothing."""
_WHOLE_PIECE = 40
"""A piece of so few lines is its end as a whole."""
# rocBLAS error: Cannot read ...      MIOpen Error: ...      Failed: CUDA error ...      docker: Error response from daemon: could not select ...
_NATIVE_ERROR = lazy_pattern(
    r"\s*(?:\w{2,20} [Ee]rror|[Ff]atal error|[Ee]rror|Failed|docker: Error response from daemon): \S|(?:\w+: )*\S+: command not found$"
)
# srun: error: Unable to create step for job 7: Invalid generic resource (gres) specification
_OF_BATCH_SYSTEM = lazy_pattern(r"s(?:run|batch|alloc): (?:fatal|error): \S")
# [E504 03:41:43.748 ProcessGroupNCCL.cpp:2119] ... Process group watchdog thread terminated with exception: CUDA error: misaligned address
_OF_DEVICE = lazy_pattern(r"(?:CUDA|HIP) error: \S")
_STALL = lazy_pattern(r"No available (?:shared memory broadcast )?block found")
_FREE_RAM = lazy_pattern(r"Available RAM: (?P<ram>\d+(?:\.\d+)?) GiB")
_LITTLE_RAM_GIB = 32.0
_LONG_WAIT = 60.0
_YOUNG_SECONDS = 600.0
_STARTED = ("init engine (", "Application startup complete", "Graph capturing finished")
_STALLED = "A worker still computed, waited for another rank, or hung: {what}."
_STALLS_SERVING = 4
_STALLS_STARTING = 10
"""Loading and compiling keep the workers busy for minutes: only many stalls in a row say something there."""
# INFO 12-12 05:28:31 pynccl.py:69] vLLM is using nccl==2.21.5
_NCCL = lazy_pattern(r"vLLM is using nccl==|Found nccl from library|ncclCommInitRank|NCCL INFO")
_PLACEMENT = lazy_pattern(
    r"Waiting for creating a placement group|No available node types can fulfill resource request"
)
# The number of required GPUs exceeds the total number of available GPUs in the placement group.
_EXCEEDS = lazy_pattern(
    r"number of required \w+ exceeds the total number of available \w+ in the placement group"
)
_P2P_TEST = lazy_pattern(r"generating GPU P2P access cache")
# *** SIGTERM received at time=1748300290 on cpu 8 ***
# [2025-05-26 18:58:10,599 E 629624 629624] logging.cc:496: *** SIGTERM received at time=1748300290 on cpu 8 ***
# (EngineCore pid=7) INFO ... [shutdown] EngineCore: trigger received signal=SIGTERM
_NAMES_SIGNAL = lazy_pattern(r"\bsignal[= ]SIG[A-Z]+")
_SIGNAL_REPORT = lazy_pattern(r"\^C|(?:\[[^\]]{1,80}\] logging\.cc:\d+: )?\*\*\* SIG(?:TERM|INT) received")
_NO_TOKEN_YET = lazy_pattern(r"Processed prompts: +0%")
_BY_SIGNAL = "Ended by a signal during start-up"
_MEANINGFUL = lazy_pattern(r"\w{3}")
_STEPS = lazy_pattern(
    r"NCCL INFO|message queue communication handle|ShmRingBuffer|Found nccl|local_reader_ranks"
)


def end_findings(context: FailureContext, rules: FailureRules, facts: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what is to say of a run that did not break by itself: who stopped it, or where it hangs."""
    outcome, stop = context.ending.outcome, context.ending.stop
    if context.run.kind in OTHERS:
        yield from findings_of_others(context, rules)
    elif outcome in ("killed", "clean_shutdown") and stop is not None:
        yield from _stopped(context, rules, facts, stop)
    elif outcome == "killed":
        yield from _killed(context, rules)
    elif outcome.startswith("crashed") and (job := context.run.job) is not None and job.signal is not None:
        crash = NATIVE_CRASHES.get(job.signal, "")
        values = {"what": f"the job ended by signal {job.signal} ({crash}; {job.words})"}
        finding = _finding(context, rules, NATIVE, "medium", context.trail[-1:], values)
        yield replace(finding, title=f"A process of the job crashed in native code ({crash})")
    elif outcome == "truncated" or _gives_no_token(context, facts):
        yield from _silent(context, rules, facts)
    elif context.ending.failed and (stated := _stated_by_library(context.ending.deaths)) and UNKNOWN in rules:
        yield _unnamed_error(context, rules, stated)
    elif context.ending.failed and context.ending.deaths:
        values = {"exception": shown(context.ending.deaths[0].message.strip())}
        yield _finding(context, rules, NOT_IN_LOG, "medium", context.ending.deaths[:2], values)
    elif (
        (outcome == "unknown" or _ends_with_error_of_engine(context))
        and (errors := _last_errors(context))
        and UNKNOWN in rules
    ):
        yield _stated_error(context, rules, facts, errors) or _unnamed_error(context, rules, errors)


def _stated_by_library(deaths: Sequence[Record]) -> list[Record]:
    """Return the last words of processes that state an error themselves, as PyTorch's watchdog does: they echo nothing."""
    return [one for one in deaths if not one.level and _OF_DEVICE.search(one.message)]


def _unnamed_error(context: FailureContext, rules: FailureRules, errors: list[Record]) -> Finding:
    values = {"exception": shown(errors[0].message.strip()), "process": errors[0].process.name or None}
    ends = errors[:1] if len(errors) == 1 else [errors[0], errors[-1]]
    finding = _finding(context, rules, UNKNOWN, "low", ends, values)
    if _OF_BATCH_SYSTEM.match(errors[-1].message):
        return replace(finding, title="The batch system refused", changes=(), alternatives=_OF_A_JOB)
    return replace(finding, title="An error without a traceback")


def _stated_error(
    context: FailureContext, rules: FailureRules, facts: Mapping[str, Any], errors: Sequence[Record]
) -> Finding | None:
    """Return the failure that a line names by class and text of an exception behind other words: no traceback says more."""
    for record in errors:
        said = exception_within(cleaned(record.message))
        if said is None:
            continue
        raised = Raised(said.type, said.text, "", (), record, "")
        position = next(number for number, one in enumerate(context.trail) if one is record)
        seen = Observation(raised.statement, record, position, context.place(record), raised=raised)
        named = next(iter(match_rules(seen, context, rules, facts)), None)
        if named is not None and not is_vague(named):
            finding = named_finding(named, context.run, "root")
            return finding if finding.confidence == "low" else replace(finding, confidence="medium")
    return None


def _last_errors(context: FailureContext) -> list[Record]:
    """Return the errors with which a log ends, of those that are one line and no traceback."""
    last = context.trail[-1].line if context.trail else 0
    end = last - _LAST_LINES if last > _WHOLE_PIECE else 0
    announced = {id(block.introduction) for block in context.blocks}
    lines = (one.record for one in context.lines if one.record.line > end)
    errors = [one for one in lines if id(one) not in announced and _is_error(one)]
    return [] if errors and _went_on_behind(context, errors[-1]) else errors


def _went_on_behind(context: FailureContext, error: Record) -> bool:
    """Return whether loggers of vLLM wrote as usual behind the last error, up to the end: a module that is not needed, a retry."""
    place = context.place(error)
    behind = [one for one in context.trail if one.level and context.place(one) > place]
    usual = error.level and len(behind) >= _SURVIVED and not context.ending.deaths
    return bool(usual) and all(one.level == "INFO" for one in behind)


def _ends_with_error_of_engine(context: FailureContext) -> bool:
    """Return whether the last line of the log, of an engine whose load it does not show, is the error of a worker or an engine core."""
    last = context.trail[-1] if context.trail else None
    return (
        context.ending.outcome == "running"
        and not context.run.samples
        and last is not None
        and last.level in ("ERROR", "CRITICAL")
        and last.process.role in ("engine-core", "worker")
    )


def _is_error(record: Record) -> bool:
    if record.level:
        of_request = record.call_site is not None and is_request_site(record.call_site[0])
        return record.level in ("ERROR", "CRITICAL") and not of_request and not tells_of_transfer(record)
    stated = _NATIVE_ERROR.match(record.message) or _OF_BATCH_SYSTEM.match(record.message)
    return stated is not None or exception_within(record.message) is not None


def _stopped(
    context: FailureContext, rules: FailureRules, facts: Mapping[str, Any], stop: Stop
) -> Iterator[Finding]:
    batch = stop.kind in ("scheduler", "walltime")
    early = context.ending.outcome == "killed" and context.ending.ready is None
    if early and (hang := _hang_before(context, rules, facts, stop)) is not None:
        yield hang  # Whoever stopped it, a user, a probe or the time limit: the start was waiting for this.
        return
    if batch or (early and stop.kind == "signal" and _first_process_of_container(context, stop)):
        yield _ended_from_above(context, rules, facts, stop, early)
        return
    noise = _noise_after(context, stop)
    if stop.kind == "shutdown" and not noise and context.ending.outcome != "killed":
        return
    # The program of an offline engine ends its engine core by SIGTERM.
    if context.run.kind == "offline" and stop.record.process.role == "engine-core" and not noise:
        return
    values = {"what": shown(stop.record.message.strip()), "count": _errors(len(noise)) if noise else None}
    place = context.place(stop.record)
    named = [one for one in context.trail if context.place(one) > place and _NAMES_SIGNAL.search(one.message)]
    records = [stop.record, *named[:1], *(block.last_raised.record for block in noise[:2])]
    confidence: Confidence = "high" if stop.kind != "shutdown" else "medium"
    finding = _finding(context, rules, STOPPED, confidence, records, values)
    if early:
        ways = _STOPPED_AT_HUB if _waited_for_hub(context, stop) else _STOPPED_EARLY
        finding = replace(finding, alternatives=ways)
    yield finding


def _waited_for_hub(context: FailureContext, stop: Stop) -> bool:
    """Return whether the signal met the process in a call of the Hugging Face hub, as the traceback of the stop shows."""
    raised = (one for block in context.blocks if stop.record in block.records for one in block.raised)
    return any("huggingface_hub/" in frame.file for one in raised for frame in one.frames)


def _hang_before(
    context: FailureContext, rules: FailureRules, facts: Mapping[str, Any], stop: Stop
) -> Finding | None:
    """Return the finding for a start that waited for something until it was stopped, or None."""
    words = takewhile(lambda one: context.place(one) < context.place(stop.record), _last_words(context.trail))
    before = list(takewhile(lambda one: not _SIGNAL_REPORT.match(one.message), words))
    times = [one.time for one in before if one.time is not None]
    later = next(
        (
            one.time
            for one in context.trail
            if context.place(one) >= context.place(stop.record) and one.time is not None
        ),
        None,
    )
    waited = later - times[-1] if later is not None and times else None
    if waited is not None and waited < _LONG_WAIT:
        return None
    reading = next(_readings(context, rules, before, facts), None)
    if reading is None or reading[0] not in rules:
        return None
    rule_id, records, confidence = reading
    values = {"what": _waits(context) if rule_id == HANG else shown(records[0].message.strip())}
    finding = _finding(context, rules, rule_id, confidence, [*records, stop.record], values)
    # A traceback of the stop, as Python's for Ctrl-C, may follow the report of another signal.
    reports = (one for one in context.trail if _SIGNAL_REPORT.match(one.message))
    end = min((stop.record, *reports), key=context.place)
    signal = _SIGNAL_NAME.search(end.message)
    by = signal[0] if signal is not None else _STOPPED_BY.get(stop.kind, "a signal")
    said = f"{finding.explanation} The start waited until {by} ended it."
    return with_shown(replace(finding, explanation=said), [*records, end], context.run)


def _errors(number: int) -> str:
    return "1 error" if number == 1 else f"{number:,} errors"


def _noise_after(context: FailureContext, stop: Stop) -> list[Any]:
    """Return the errors behind a stop; the traceback that ends with the stop itself is none."""
    place = context.place(stop.record)
    return [block for block in context.blocks if context.place(block.first) > place]


def _first_process_of_container(context: FailureContext, stop: Stop) -> bool:
    """Return whether the process that was stopped is number 1, as in a container, or was run by kubelet or a pod."""
    if any(process.pid == 1 for process in context.run.processes) or stop.record.process.pid == 1:
        return True
    return any("Started server process [1]" in record.message for record in context.trail[:400])


def _ended_from_above(
    context: FailureContext, rules: FailureRules, facts: Mapping[str, Any], stop: Stop, early: bool
) -> Finding:
    run = context.run
    seconds = (
        round(run.ended - run.started)
        if early and run.ended is not None and run.started is not None
        else None
    )
    seen = Observation(stop.record.message, stop.record, 0, context.place(stop.record))
    named = next(
        (one for one in match_rules(seen, context, rules, facts) if one.rule.id == ORCHESTRATOR), None
    )
    rule = rule_of_case(named) if named is not None else rules.rule(ORCHESTRATOR)
    # A probe or a user's patience may have been too short for the start; who was preempted had no such limit.
    budget = f"more than {seconds * 2:,} seconds" if named is None and seconds and seconds > 20 else None
    timed = stop.record.time is not None or stop.record.outer_time is not None
    ran = f"{seconds}" if timed else f"at least {seconds}"
    values = {
        "what": shown(stop.record.message.strip()),
        "seconds": ran if seconds else None,
        "budget": budget,
    }
    served = run.startup_complete and not early
    severity: Severity = "medium" if served else "high"
    explain = f"{named.signature.explain}\n{rule.explain}" if named is not None else ""
    finding = finding_of(
        rule, run, role="root", confidence="high", records=[stop.record], values=values, severity=severity,
        explain=explain,
    )  # fmt: skip
    return replace(finding, title=_BY_SIGNAL) if named is None and stop.kind == "signal" else finding


def _killed(context: FailureContext, rules: FailureRules) -> Iterator[Finding]:
    stop = next((one for one in context.ending.stops if one.kind in ("memory", "kill")), None)
    if stop is not None:
        values = {"what": shown(stop.record.message.strip())}
        yield _finding(
            context, rules, MEMORY if stop.kind == "memory" else KILLED, "high", [stop.record], values
        )


def _gives_no_token(context: FailureContext, facts: Mapping[str, Any]) -> bool:
    """Return whether an offline run with several ranks never gave a first token."""
    last = _last_words(context.trail)
    if context.ending.outcome not in ("running", "unknown") or not last:
        return False
    stalls = sum(bool(_STALL.search(one.message)) for one in context.trail[-30:])
    return (
        _several_ranks(context, facts)
        and bool(_NO_TOKEN_YET.search(last[-1].message))
        and context.run.kind != "server"
    ) or stalls >= _STALLS_SERVING


def _several_ranks(context: FailureContext, facts: Mapping[str, Any]) -> bool:
    """Return whether the settings or the log show that several devices work together."""
    return facts.get("tensor_parallel_size") not in (None, 1) or any(
        _NCCL.search(one.message) for one in context.trail
    )


def _silent(context: FailureContext, rules: FailureRules, facts: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the finding for a log that ends, or a run that hangs, without a traceback: by its last error, else by its last step."""
    last = _last_words(context.trail)
    if (errors := _last_errors(context)) and UNKNOWN in rules:
        yield _unnamed_error(context, rules, errors)
        return
    end = last[-1] if last else None
    values = {"what": shown(end.message.strip()) if end else None, "silent": True}
    for rule_id, records, confidence in _readings(context, rules, last, facts):
        if rule_id in rules:
            memory = _FREE_RAM.search(records[0].message) if records else None
            if rule_id == HANG:
                values["what"] = _waits(context)
            values["ram"] = f"{number(memory['ram'])} GiB" if memory else None
            yield _suspicion(context, rules, rule_id, confidence, [*records, *last[-1:]], values)
            return
    if _start_seen(context):
        yield _suspicion(context, rules, NOT_IN_LOG, "low", last[-2:], values)


def _start_seen(context: FailureContext) -> bool:
    """Return whether the log holds the begin of the start and not its end: an excerpt tells nothing by where it ends."""
    begun = context.run.version is not None and context.run.version.provenance == "reported"
    return begun and not any(words in one.message for one in context.trail for words in _STARTED)


def _suspicion(
    context: FailureContext, rules: FailureRules, rule_id: str, confidence: Confidence, records: Sequence[Record],
    values: Mapping[str, Any],
) -> Finding:  # fmt: skip
    """Return the finding for a silent end; a weak one is no failure, the log may have been copied while it was written."""
    if confidence != "low":
        return _finding(context, rules, rule_id, confidence, records, values)
    severity: Severity = "low" if _young(context.run) else "medium"
    finding = _finding(
        context, rules, rule_id, confidence, records, values, kind="configuration", severity=severity
    )
    if rule_id != NOT_IN_LOG:
        words = f"{_ENDS_HERE} If it hangs: {finding.explanation}"
        return replace(finding, title=f"Possibly: {finding.title}", explanation=words)
    ready = context.run.progress or context.run.measure("init_engine_seconds") is not None
    title = "Log ends before the first result" if ready else "Log ends before start-up completes"
    words = "Either the log was copied while the process ran, or the process was killed without logging it."
    if records and not records[-1].level and _SAYS_THAT_IT_HANGS.fullmatch(records[-1].message.strip()):
        words = "The process hangs here, as the remark in the last line says."
    return replace(finding, title=title, explanation=words)


def _young(run: Run) -> bool:
    """Return whether a start may well be going on still where its log ends."""
    if run.started is None or run.ended is None:
        return True
    return run.ended - run.started < _YOUNG_SECONDS


def _readings(
    context: FailureContext, rules: FailureRules, last: Sequence[Record], facts: Mapping[str, Any]
) -> Iterator[tuple[str, list[Record], Confidence]]:
    """Yield what a silent end may be, the likeliest first."""
    tail = last[-8:]
    placement = next((one for one in reversed(tail) if _PLACEMENT.search(one.message)), None)
    if placement is not None:
        # vLLM compares its ranks with all devices of the cluster before it waits.
        compared = next((one for one in last if _EXCEEDS.search(one.message)), None)
        yield (
            (PLACEMENT, [placement], "medium")
            if compared is None
            else (PLACEMENT, [compared, placement], "high")
        )
    test = next((one for one in reversed(tail) if _P2P_TEST.search(one.message)), None)
    if test is not None:
        yield P2P_TEST, [test], "medium"
    waiting = next((one for one in reversed(tail) if _NO_TOKEN_YET.search(one.message)), None)
    if waiting is not None:
        if not _several_ranks(context, facts):
            yield NOT_IN_LOG, [waiting], "low"
        elif NCCL_TRAFFIC in rules and not is_ruled_out(rules.rule(NCCL_TRAFFIC), facts, ""):
            yield NCCL_TRAFFIC, [waiting], "medium"
    nccl = next((one for one in reversed(tail) if _NCCL.search(one.message)), None)
    if nccl is not None and all(
        _STEPS.search(one.message) or _NCCL.search(one.message) for one in tail[tail.index(nccl) :]
    ):
        yield NCCL_START, [nccl], "low"
    stalls = [one for one in last[-30:] if _STALL.search(one.message)]
    if len(stalls) >= (_STALLS_SERVING if context.run.startup_complete else _STALLS_STARTING):
        yield HANG, [stalls[0]], "medium" if _stopped_at_work(context, stalls) else "low"
    memory = [
        one
        for one in last
        if (found := _FREE_RAM.search(one.message)) and float(found["ram"]) < _LITTLE_RAM_GIB
    ]
    if memory and context.ending.outcome == "truncated":
        yield MEMORY, [memory[-1]], "low"


def _waits(context: FailureContext) -> str:
    waits = sum(bool(_STALL.search(one.message)) for one in context.trail)
    return f"the message of a wait of 60 s is {waits} times in the log"


def _stopped_at_work(context: FailureContext, stalls: Sequence[Record]) -> bool:
    """Return whether requests ran, no token was made any more, and nothing but waiting followed."""
    latest: dict[int, Sample] = {}
    for sample in context.run.samples:
        latest[sample.engine] = sample
    held = [one for one in latest.values() if one.running and not one.generation and not one.prompt]
    return bool(held) and all(
        (one.file, one.line) < (stalls[-_STALLS_SERVING].file, stalls[-_STALLS_SERVING].line)
        for one in latest.values()
    )


def _last_words(trail: Sequence[Record]) -> list[Record]:
    return [one for one in trail if _MEANINGFUL.search(one.message)]


def _finding(
    context: FailureContext, rules: FailureRules, rule_id: str, confidence: Confidence, records: Sequence[Record],
    values: Mapping[str, Any], kind: RuleKind | None = None, severity: Severity | None = None,
) -> Finding:  # fmt: skip
    return finding_of(
        rules.rule(rule_id), context.run, role="root", confidence=confidence, records=records, values=values,
        explain=_STALLED if rule_id == HANG else "", kind=kind, severity=severity,
    )  # fmt: skip
