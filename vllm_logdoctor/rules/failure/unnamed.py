"""What no rule knows, by its own words: the exception as raised, whose code raised it, in which phase, and a step that fits the owner."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from vllm_logdoctor.catalogue.pages import Signature
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.rules.failure.context import FailureContext, Observation
from vllm_logdoctor.rules.failure.matching import RuleMatch, broke_by_itself, is_vague, match_rules
from vllm_logdoctor.rules.failure.signatures import FailureRules
from vllm_logdoctor.rules.failure.support import is_of_wrong_type
from vllm_logdoctor.rules.failure.values import values_of
from vllm_logdoctor.rules.model import Confidence
from vllm_logdoctor.run.blockkinds import is_request_site, tells_of_transfer
from vllm_logdoctor.run.blockphase import BlockPhase
from vllm_logdoctor.run.blocks import Block, Frame, Raised
from vllm_logdoctor.run.builds import compiler_error, error_text, not_found_above
from vllm_logdoctor.run.owners import BUILD, PROGRAM, PYTHON, TENSOR_LIBRARIES, VLLM, acting_frames, owner_of
from vllm_logdoctor.run.places import component_of, file_and_function, kind_of_request, raised_in

UNKNOWN = "unclassified-failure"
NOT_IN_LOG = "cause-not-in-log"
CODE = "engine-code-bug"
NO_CACHE = "no-memory-left-for-kv-cache"
# Available KV cache memory: -0.85 GiB
_NO_BUDGET = lazy_pattern(r"Available KV cache memory: (?P<available>-\d+(?:\.\d+)?) Gi?B")
_BUDGET_LINES = 40
_PROGRAMMING = frozenset(
    {
        "AssertionError", "IndexError", "KeyError", "AttributeError", "TypeError", "UnboundLocalError", "ZeroDivisionError",
        "NameError", "RecursionError", "StopIteration", "NotImplementedError",
    }
)  # fmt: skip
_NAMES = frozenset({"AttributeError", "NameError", "UnboundLocalError"})
"""Their texts quote names of code: no attribute 'kv_connector_workers' speaks of no connection."""
_VALUES = frozenset({"ValueError", "RuntimeError", "OverflowError", "BufferError"})
# A device, a peer or the host failed: whose code noticed it says nothing of the fault.
_ELSEWHERE = lazy_pattern(
    r"CUDA|HIP|NCCL|RCCL|HCCL|XPU|NPU|cu(?:DNN|BLAS)|out of memory|[Tt]imed? ?out|[Cc]onnect|kernel image|[Dd]river|No such file|[Pp]ermission"
)
_PHASES: dict[BlockPhase, str] = {
    "import": "while modules were imported",
    "configuration": "while the configuration was checked",
    "distributed-init": "while devices and ranks were initialized",
    "load-weights": "while the model was built and its weights were loaded",
    "profiling": "during memory profiling",
    "sampler-warm-up": "during sampler warm-up",
    "kv-cache": "while the KV cache was set up",
    "graph-capture": "while CUDA graphs were captured",
    "warm-up": "during warm-up",
    "wake-up": "during /wake_up",
    "serving": "while requests were processed",
}
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
_TOOL_FAILED = frozenset({"CalledProcessError", "CompileError", "DistutilsExecError", "BuildError"})
_BUILD_LINES = 600
# ptxas terminated (signal: 11)      c++: fatal error: Killed signal terminated program cc1plus      internal compiler error
_SIGNAL = lazy_pattern(r"signal|Killed|Segmentation|internal compiler error")
# Killed signal terminated program cc1plus      Compiler killed by signal 9
_KILLED = lazy_pattern(r"Killed|signal:? 9\b")
_OUT_OF_MEMORY = (
    "Build with fewer jobs at once (`MAX_JOBS`): each compiler takes gigabytes of host memory, and the kernel kills one where none is left.",
)
_CRASHED = (
    "Build again: where the compiler crashes at the same file, use another release of it (nvcc and ptxas are of the CUDA toolkit).",
    "Where it crashes at another file each time, build with fewer jobs at once (`MAX_JOBS`): memory may be short.",
)
INSTALL_BUILT = "Install a wheel or an image of vLLM for this platform instead of building it."
_LACKING = "CMake did not find all of {package} (missing: {missing}), and stopped: {exception}"
_HEADERS = (
    "Install the headers of the Python that builds (`apt install python{python}-dev`, `dnf install python{python}-devel`), and build again.",
    INSTALL_BUILT,
)
_INSTALL = (
    "Install {package} with its headers and CMake files, or name its place by `CMAKE_PREFIX_PATH`, and build again.",
    INSTALL_BUILT,
)
_REFUSED = ("Fix the first error of the compiler: later ones often follow from it.",)
_CALL = ("Correct the call in the program that starts vLLM: it hands over a value of the wrong type.",)
WHOLE_OUTPUT = (
    "Run the step that failed again with its whole output: `pip install -v ...`, `docker build --progress=plain ...`.",
    INSTALL_BUILT,
)
_CLIENTS = frozenset({"openai", "httpx", "requests", "aiohttp", "urllib3"})
OF_A_TEST = (
    "Read the section of the failed test: its captured output, where there is any, holds what the engine logged.",
    "Run one failed test alone, with its output: `pytest -s` and the name that the summary gives.",
)
_PROGRAM = ("Correct the program at the place that the traceback names: what vLLM had to do was done.",)
_OWN_CODE = ("Correct the program at {at}: the traceback contains no vLLM code.",)
_STATED = ("Do what the message says: {stated}.",)
_CALLED = (
    "Correct the code at {at}: it is a part of neither vLLM nor an installed package.",
    "Start once without that code to see that the rest works.",
)
# Asking to pad but the tokenizer has no padding token. Please select a token to use as `pad_token`.
# free memory is below the reserve: 13 bytes available, 15 required. Replan more layers into host memory.
_OWN_REMEDY = lazy_pattern(
    r"(?:^|[.!:;,] )(?P<way>(?:[Pp]lease (?!check the stack|see |refer|report|file |open |contact)"
    r"|(?:Try|Consider|Use|Set|Make sure|Ensure|Install|Upgrade|Increase|Decrease|Lower|Raise|Choose|Select"
    r"|Re(?:plan|duce|install|build|start)) )"
    r"[^\n]{8,240}?)(?:[.!](?=\s|$)|\n|$)"
)
_NAME = lazy_pattern(r"\w{1,60}")
# 2024:09:13-11:21:50:(  532) |CCL_ERROR| exchange_utils.cpp:202 sendmsg_fd: condition ... failed      NCCL WARN Cuda failure
# - manager.worker - ERROR - Error provisioning chat-1: Failed to find an image
_LIBRARY_FAILED = lazy_pattern(
    r"CCL_ERROR|NCCL WARN .*(?:fail|error)|(?i:\bfatal\b)|: error:|\[E\d{3}|\bERR\d{5}\b|\b(?:ERROR|CRITICAL)\b(?!.*:\s*$)"
)
_OF_CUT_OFF = Signature(
    "", rank="symptom", priority=0, confidence="low", title="An error whose traceback is cut off"
)
_LONGEST_WAY = 150
_REST = (
    "Get the rest of the traceback: its last line names the error.",
    "Keep the output of all processes, standard error too, from the start on: `COMMAND > vllm.log 2>&1`.",
)
_STOPPED = "its engine has stopped, and every later request fails"
_CODE = "    "  # The place of a frame whose code a piece begins with is above it.
_CLOSE_LINES = 10
_CLOSE_SECONDS = 10.0


def unnamed_match(
    observation: Observation, context: FailureContext, rules: FailureRules, facts: Mapping[str, Any]
) -> RuleMatch | None:
    """Return the finding of last resort for an observation: its own words, place, owner and phase."""
    if observation.wrapper or observation.echo:
        return _quoted(observation, rules) or _elsewhere(observation, rules)
    raised = observation.raised
    compiler = _compiler_error(observation, context)
    if compiler is not None and UNKNOWN in rules:
        return build_failure(compiler, observation, context, rules)
    if raised is not None and raised.frames and not raised.type:
        return (
            _out_of_budget(observation, context, rules, facts)
            or _announced(observation, rules)
            or _logged_above(observation, context, rules, facts)
            or _torn(raised, observation, context, rules)
        )
    frames = _without_tensors(acting_frames(raised.frames)) if raised is not None else ()
    owner = owner_of(frames[-1].file) if frames else None
    phase = context.phase(observation.block) if observation.block is not None else ""
    starts = context.run.kind not in ("build", "test") and context.ending.outcome == "crashed_at_startup"
    rule_id = CODE if raised is not None and _is_code_fault(raised, frames, phase) else UNKNOWN
    if rule_id not in rules:
        return None
    called = raised.frames if raised is not None and raised.name == "RecursionError" else frames
    own = next((one for one in reversed(called) if owner_of(one.file).startswith(VLLM)), None)
    in_test = context.run.kind == "test" and rule_id == UNKNOWN
    of_others = in_test or context.ending.program_failed
    stated = _stated_remedy(observation) if rule_id == UNKNOWN and not in_test else ""
    place = frames[-1] if frames else raised.frames[-1] if raised is not None and raised.frames else None
    if rule_id == CODE and own is not None and (owner in TENSOR_LIBRARIES or called is not frames):
        # A library refused what vLLM's code handed it, or called back without end: that code is the place.
        place, owner = own, owner if owner in TENSOR_LIBRARIES else VLLM
    hidden = in_test and owner == PROGRAM  # pytest names the innermost place of a test behind the exception.
    phase_words = "" if owner == PROGRAM else _PHASES.get(phase) or ("during start-up" if starts else "")
    of_library = owner not in (None, PROGRAM, BUILD, PYTHON) and not _is_close(owner)
    named = rule_id == CODE and not of_library and owner != PROGRAM
    owner_words = "" if named else _owner_words(owner, frames)
    groups = {
        "exception": observation.text.split("\n")[0][:300],
        "raised": raised_in(place, owner_words, phase_words, raised, own if of_library else None, named)
        if place and raised is not None and not hidden
        else "",
        "process": observation.record.process.name,
        "at": f"{place.file}:{place.line}" if place and place.line else place.file if place else "",
        "phase_words": phase_words,
        "stated": stated,
        "in_vllm": "" if of_others or stated or not (owner is None or owner.startswith(VLLM)) else "yes",
        "raised_in": f"{own.file}:{own.function}" if own else "",
        "request_kind": kind_of_request(frames),
        "engine_loop": _STOPPED if _serves(context, frames) else "",
    }
    signature = Signature(
        "", rank="symptom", priority=8 if rule_id == CODE else 0, confidence=_confidence(raised, rule_id, owner),
        title="" if in_test and owner == PROGRAM else _title(raised, rule_id, owner, place),
        remedy=OF_A_TEST if in_test else _STATED if stated else _CALL if raised is not None and _is_wrong_call(raised)
        else () if raised is not None and _is_of_device(raised) and context.run.kind != "build"
        else _next_steps(
            owner, rule_id, context, called=own is not None, tool=raised is not None and raised.name in _TOOL_FAILED
        ),
    )  # fmt: skip
    values = values_of(rule_id, {name: text for name, text in groups.items() if text}, facts, context.run)
    return RuleMatch(rules.rule(rule_id), signature, observation, observation.record, values)


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
        return None
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
    if observation.block is not None and (said := _said_above(observation.block)) and UNKNOWN in rules:
        return _cut_off(said.message.strip(), said, observation, rules, raised.record)
    function = last.function.partition(" ")[0]  # All lines of the traceback may be in one.
    values = {"cut_in": file_and_function(last.file, function)}
    rest = WHOLE_OUTPUT if context.run.kind == "build" else _REST
    signature = Signature(
        "", rank="symptom", priority=0, confidence="medium", title="Traceback is cut off", remedy=rest
    )
    return RuleMatch(rules.rule(NOT_IN_LOG), signature, observation, raised.record, values)


def _said_above(block: Block) -> Record | None:
    """Return the first line right above a traceback in which a library or another program says that something failed."""
    bare = () if block.introduction is None or block.introduction.call_site else (block.introduction,)
    close = (one for one in (*block.native, *bare) if block.first.line - one.line <= _CLOSE_LINES)
    return next((one for one in close if _LIBRARY_FAILED.search(one.message[:400])), None)


def _quoted(observation: Observation, rules: FailureRules) -> RuleMatch | None:
    """Return the error of a worker that another process quotes, where the worker's own traceback is not in the log."""
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
    signature = Signature(
        "", rank="echo", priority=0, confidence="low", title="Error of a worker that no rule names"
    )
    return RuleMatch(rules.rule(UNKNOWN), signature, observation, observation.record, values)


def _compiler_error(observation: Observation, context: FailureContext) -> Record | None:
    """Return the first error of a compiler above the exception of a build tool, which only says that the tool failed."""
    raised = observation.raised
    if raised is None or raised.name not in _TOOL_FAILED:
        return None
    return compiler_error(context.above(observation.position, _BUILD_LINES))


def build_failure(
    compiler: Record, observation: Observation, context: FailureContext, rules: FailureRules
) -> RuleMatch:
    """Return what a compiler, a linker or CMake refused, as the finding of an observation that follows from it."""
    values = {"exception": error_text(context.trail, compiler)[:300]}
    signature = Signature(
        "", rank="symptom", priority=8, confidence="medium", title="Compiler or build tool failed",
        remedy=(
            *(
                _OUT_OF_MEMORY if _KILLED.search(compiler.message)
                else _CRASHED if _SIGNAL.search(compiler.message) else _REFUSED
            ),
            INSTALL_BUILT,
        ),
    )  # fmt: skip
    supporting = (observation.record,) if observation.record is not compiler else ()
    if (lacking := not_found_above(context.trail, compiler)) is not None:
        values.update(
            package=lacking.package,
            missing=lacking.missing,
            python=".".join(lacking.found.split(".")[:2]) or "3",
        )
        headers = lacking.package.startswith("Python") and "Development" in lacking.missing
        signature = replace(signature, explain=_LACKING, remedy=_HEADERS if headers else _INSTALL)
        supporting = (lacking.record, *supporting)
    return RuleMatch(rules.rule(UNKNOWN), signature, observation, compiler, values, supporting)


def _elsewhere(observation: Observation, rules: FailureRules) -> RuleMatch | None:
    if NOT_IN_LOG not in rules:
        return None
    values = {"exception": observation.text.split("\n")[0][:300] or None}
    signature = Signature("", rank="echo", priority=0, confidence="medium")
    return RuleMatch(rules.rule(NOT_IN_LOG), signature, observation, observation.record, values)


def _stated_remedy(observation: Observation) -> str:
    """Return what the text of an exception itself says to do, or ""."""
    found = _OWN_REMEDY.search(observation.text[:1200])
    way = found["way"].strip() if found else ""
    return way if len(way) <= _LONGEST_WAY else way.partition(" or ")[0]


def _without_tensors(frames: Sequence[Frame]) -> tuple[Frame, ...]:
    """Return frames up to the last one of a library that handed tensors on: xformers, whose operator torch calls, refuses its caller."""
    outer = list(frames)
    while outer and owner_of(outer[-1].file) in TENSOR_LIBRARIES:
        outer.pop()
    owner = owner_of(outer[-1].file) if outer else PROGRAM
    called = any(owner_of(one.file).startswith(VLLM) for one in outer)
    library = not owner.startswith(VLLM) and owner not in (PROGRAM, BUILD, PYTHON)
    return tuple(outer if called and library else frames)


def _is_code_fault(raised: Raised, frames: Sequence[Frame], phase: BlockPhase) -> bool:
    """Return whether the innermost acting code is vLLM's, or a library's that refuses what vLLM hands it."""
    name = raised.inner or raised.name
    if not frames or (name not in _NAMES and _is_of_device(raised)):
        return False
    if _is_wrong_call(raised):
        return False
    owners = [owner_of(frame.file) for frame in frames]
    innermost = next((owner for owner in reversed(owners) if owner not in TENSOR_LIBRARIES), "")
    called = any(owner.startswith(VLLM) for owner in owners) and innermost not in (PROGRAM, BUILD)
    if name in _PROGRAMMING or (name in _VALUES and phase == "serving"):
        return called
    return (
        innermost.startswith(VLLM)
        and name in _VALUES
        and (owners[-1] in TENSOR_LIBRARIES or broke_by_itself(raised))
    )


def _is_of_device(raised: Raised) -> bool:
    return bool(_ELSEWHERE.search(raised.statement[:400]))


def _is_wrong_call(raised: Raised) -> bool:
    """Return whether a program handed vLLM an object where it takes a text, a list or a number."""
    return (
        bool(raised.frames)
        and owner_of(raised.frames[0].file) == PROGRAM
        and is_of_wrong_type(raised.statement)
    )


def _confidence(raised: Raised | None, rule_id: str, owner: str | None) -> Confidence:
    """Return how sure a fault of vLLM's code is: a wrong name or index in its own frames is, a value that does not fit less so."""
    sure = (
        raised is not None
        and rule_id == CODE
        and _is_close(owner)
        and (raised.inner or raised.name) in _PROGRAMMING
    )
    return "medium" if sure else "low"


def _is_close(owner: str | None) -> bool:
    """Return whether vLLM itself raised an exception, or a tensor library that it called."""
    return owner is not None and (owner.startswith(VLLM) or owner in TENSOR_LIBRARIES)


def _serves(context: FailureContext, frames: Sequence[Frame]) -> bool:
    """Return whether the engine of a server raised: the server goes on without it."""
    return context.run.kind == "server" or any(one.function.endswith("run_engine_loop") for one in frames)


def _owner_words(owner: str | None, frames: Sequence[Frame]) -> str:
    if owner is None or owner == BUILD:
        return ""
    if owner == VLLM:
        return "vLLM"
    if owner == PYTHON:
        return "Python's standard library"
    if owner == PROGRAM:
        own = any(owner_of(frame.file).startswith(VLLM) for frame in frames)
        return "a program that vLLM calls" if own else "the program's own code"
    return owner


def _title(raised: Raised | None, rule_id: str, owner: str | None, place: Frame | None) -> str:
    name = _NAME.fullmatch(raised.name) if raised is not None else None
    if raised is None or name is None:
        return ""
    if rule_id == CODE and (owner is None or _is_close(owner)):
        return f"{name[0]} in {component_of(place, raised.frames) if place else 'vLLM'}"
    if rule_id == CODE:
        return f"{name[0]} in {owner}, called by vLLM"
    if owner == BUILD:
        return f"{name[0]} in the build of a package"
    if owner == PROGRAM:
        return f"{name[0]} in the program's own code"
    return (
        f"{name[0]} raised by {owner}"
        if owner and _NAME.fullmatch(owner)
        else f"{name[0]}, a failure that no rule names"
    )


# CMake Error at CMakeLists.txt:14      csrc/x.cu(12): error: ...      FAILED: CMakeFiles/_C.dir/csrc/x.o
_OF_COMPILER = lazy_pattern(
    r"CMake Error|\berror: (?!subprocess|metadata|command|legacy)|FAILED: |error generated|fatal error"
)
_OF_SCRIPT = "Install the package as a wheel (`pip install --only-binary :all: PACKAGE`): a release that has one for this Python and PyTorch."
_NEWER = "Use a newer release of vLLM."
_OUTPUT_MISSING = "Keep the whole output of the build (`pip install -v ... > build.log 2>&1`): its first error is the cause, and is not in this log."


def _next_steps(
    owner: str | None, rule_id: str, context: FailureContext, *, called: bool, tool: bool
) -> tuple[str, ...]:
    """Return the steps that fit the owner; `called`: code of vLLM led there; `tool`: the exception says that a program failed."""
    if rule_id == CODE and (owner is None or _is_close(owner)):
        return ()
    if owner == BUILD and not tool:
        return (_OF_SCRIPT,)
    if owner == BUILD and not any(_OF_COMPILER.search(one.message) for one in context.trail):
        return (_OUTPUT_MISSING,)
    if owner == BUILD:
        return (
            "Read the first error of the compiler or of the build script above this line: later errors follow from it.",
        )
    if context.ending.program_failed:
        return _PROGRAM
    if owner == PROGRAM and not called:
        return _OWN_CODE
    if context.run.kind == "build":
        return WHOLE_OUTPUT
    if owner == PROGRAM:
        return _CALLED
    if owner in _CLIENTS and not called:
        return ("Read the server's log at that time: this log is the client's.",)
    if owner and owner != PYTHON and not called and not owner.startswith(VLLM) and _NAME.fullmatch(owner):
        return (
            f"Check how the program calls {owner}, and its release (`pip show {owner}`): no vLLM code is involved.",
        )
    if called and owner and owner != PYTHON and not owner.startswith(VLLM) and _NAME.fullmatch(owner):
        compare = f"Compare the installed release of {owner} (`pip show {owner}`) with the one that this vLLM release requires."
        return (compare, _NEWER) if rule_id == CODE else (compare,)
    return ()
