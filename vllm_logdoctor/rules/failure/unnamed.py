"""What no rule knows, by its own words: the exception as raised, whose code raised it, in which phase, and a step that fits the owner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

from msgspec import Struct

from vllm_logdoctor.catalogue.pages import Signature
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.failure.build_errors import build_failure, compiler_refusal
from vllm_logdoctor.rules.failure.code_terms import feature_of, step_of_build, steps_around
from vllm_logdoctor.rules.failure.context import FailureContext, Observation
from vllm_logdoctor.rules.failure.cut_off import of_another_process, without_exception
from vllm_logdoctor.rules.failure.matching import RuleMatch, broke_by_itself
from vllm_logdoctor.rules.failure.own_steps import (
    CALL,
    COMPARE,
    STATED,
    TOOK_OVER,
    failed_in_own_way,
    next_steps,
)
from vllm_logdoctor.rules.failure.pytest_output import failed_at, lines_of_test, steps_of_test
from vllm_logdoctor.rules.failure.rule_ids import CODE, UNKNOWN
from vllm_logdoctor.rules.failure.signatures import FailureRules
from vllm_logdoctor.rules.failure.stated_steps import stated_cause, stated_remedy
from vllm_logdoctor.rules.failure.support import is_of_wrong_type
from vllm_logdoctor.rules.failure.values import values_of
from vllm_logdoctor.rules.model import Confidence
from vllm_logdoctor.rules.release_terms import options_of_fork
from vllm_logdoctor.run.blockphase import BlockPhase, phase_of_block
from vllm_logdoctor.run.blocks import Frame, Raised
from vllm_logdoctor.run.model import Run
from vllm_logdoctor.run.owners import (
    BUILD,
    PROGRAM,
    PYTHON,
    TENSOR_LIBRARIES,
    VLLM,
    acting_frames,
    framework_of,
    installed_package,
    is_vllm_or_tensors,
    owner_of,
)
from vllm_logdoctor.run.places import caller_of, component_of, file_name, kind_of_request, raised_in

_PROGRAMMING = frozenset(
    {
        "AssertionError", "IndexError", "KeyError", "AttributeError", "TypeError", "UnboundLocalError", "ZeroDivisionError",
        "NameError", "RecursionError", "StopIteration", "NotImplementedError",
    }
)  # fmt: skip
_NAMES = frozenset({"AttributeError", "NameError", "UnboundLocalError"})
"""Their texts quote names of code: no attribute 'kv_connector_workers' speaks of no connection."""
_VALUES = frozenset({"ValueError", "RuntimeError", "OverflowError", "BufferError"})
_OF_ARGUMENTS = frozenset({"ValueError", "TypeError"})
# A device, a peer or the host failed: whose code noticed it says nothing of the fault.
_ELSEWHERE = lazy_pattern(
    r"CUDA|HIP|NCCL|RCCL|HCCL|XPU|NPU|cu(?:DNN|BLAS)|out of memory|[Tt]imed? ?out|[Cc]onnect|kernel image|[Dd]river|No such file|[Pp]ermission"
)
_PHASES: dict[BlockPhase, str] = {
    "import": "while modules were imported",
    "configuration": "while the configuration was checked",
    "distributed-init": "while devices and ranks were initialized",
    "load-weights": "during model loading",
    "profiling": "during memory profiling",
    "sampler-warm-up": "during sampler warm-up",
    "kv-cache": "while the KV cache was set up",
    "graph-capture": "while CUDA graphs were captured",
    "warm-up": "during warm-up",
    "wake-up": "during /wake_up",
    "serving": "after start-up",
}
_RESTART = "Restart the server: its engine has stopped, and every later request fails."
_WITHOUT_REQUESTS = "Send no requests with {kind} meanwhile: their code raised the error."


class _Place(Struct, frozen=True):
    """Where an exception was raised, and by whose code.

    Attributes:
        frames: the frames that acted, outermost first.
        innermost: the frame that raised it, or None.
        own: the innermost frame of vLLM's code, or None.
        caller: where vLLM had no part in it, the innermost frame of a program that called the library at fault, or None.
        owner: whose code raised it, or None without frames.
        phase: what was being done, or "".
        is_code: whether vLLM's code is at fault.
    """

    frames: tuple[Frame, ...]
    innermost: Frame | None
    own: Frame | None
    caller: Frame | None
    owner: str | None
    phase: BlockPhase | Literal[""]
    is_code: bool

    @property
    def of_library(self) -> bool:
        """True if an installed package raised it, neither vLLM nor a tensor library."""
        return self.owner not in (None, PROGRAM, BUILD, PYTHON) and not is_vllm_or_tensors(self.owner)


def unnamed_match(
    observation: Observation, context: FailureContext, rules: FailureRules, facts: Mapping[str, Any]
) -> RuleMatch | None:
    """Return the finding of last resort for an observation: its own words, place, owner and phase."""
    if observation.wrapper or observation.echo:
        return of_another_process(observation, rules, context.blocks)
    raised = observation.raised
    compiler = compiler_refusal(observation, context)
    if compiler is not None and UNKNOWN in rules:
        return build_failure(compiler, observation, context, rules)
    if raised is not None and raised.frames and not raised.type:
        return without_exception(raised, observation, context, rules, facts)
    place = _place_of(observation, context)
    rule_id = CODE if place.is_code else UNKNOWN
    if rule_id not in rules:
        return None
    in_test = context.run.kind == "test" and not place.is_code
    stated = stated_remedy(observation) if not place.is_code and not in_test else ""
    words = _words(observation, context, place, stated, in_test)
    signature = Signature(
        "", rank="symptom", priority=8 if place.is_code else 0, confidence=_confidence(raised, place),
        title="" if in_test and place.owner == PROGRAM else _title(raised, place, words),
        remedy=TOOK_OVER if words["handled"] else _remedy(raised, context, place, stated, in_test),
        explain=_explain(words, stated=bool(stated), in_test=in_test),
    )  # fmt: skip
    values = values_of(rule_id, {name: text for name, text in words.items() if text}, facts, context.run)
    shown = lines_of_test(context.trail) if in_test and place.owner in (PROGRAM, None) else ()
    handled = _handled_by_program(observation)
    shown = (*shown, handled.record) if handled is not None else shown
    return RuleMatch(rules.rule(rule_id), signature, observation, observation.record, values, shown)


def _file_and_line(frame: Frame) -> str:
    return f"{frame.file}:{frame.line}" if frame.line else frame.file


_OF_BACKEND = "The benchmark ran its backend `{backend}`: vLLM's engine did not run.\n"


def _explain(words: Mapping[str, str], *, stated: bool, in_test: bool) -> str:
    """Return the sentences on an error, or "" for those of its page, where its message states neither a cause nor a remedy."""
    if in_test and words["raised"]:
        return "{raised}.\n{stated_cause}.\n"
    if words["handled"]:
        return "No known cause matches this error.\n{raised}.\nThis code ran because of another error before it: {handled}.\n"
    if words["stated_cause"]:
        return f"First error: {{exception}}.\n{{stated_cause}}.\n{{raised}}.\n{_OF_BACKEND}"
    return f"First error: {{exception}}.\n{{raised}}.\n{_OF_BACKEND}" if stated or words["backend"] else ""


def _place_of(observation: Observation, context: FailureContext) -> _Place:
    """Return where the exception of an observation was raised."""
    raised = observation.raised
    phase = context.phase(observation.block) if observation.block is not None else ""
    if raised is None:
        return _Place((), None, None, None, None, phase, False)
    frames = _without_tensors(acting_frames(raised.frames))
    owner = owner_of(frames[-1].file) if frames else None
    is_code = _is_code_fault(raised, frames, phase)
    called = raised.frames if raised.name == "RecursionError" else frames
    own = next((one for one in reversed(called) if owner_of(one.file).startswith(VLLM)), None)
    innermost = next(iter((frames or raised.frames)[-1:]), None)
    if is_code and own is not None and (owner in TENSOR_LIBRARIES or called is not frames):
        # A library refused what vLLM's code handed it, or called back without end: that code is the place.
        innermost, owner = own, owner if owner in TENSOR_LIBRARIES else VLLM
    programs = () if own is not None else (one for one in reversed(frames) if owner_of(one.file) == PROGRAM)
    return _Place(frames, innermost, own, next(iter(programs), None), owner, phase, is_code)


def _words(
    observation: Observation, context: FailureContext, place: _Place, stated: str, in_test: bool
) -> dict[str, str]:
    """Return the values of the placeholders of the pages; empty ones are left out."""
    raised, at, owner = observation.raised, place.innermost, place.owner
    called_at = place.caller if place.of_library and place.caller is not None else at
    handled = _handled_by_program(observation)
    starts = context.run.kind not in ("build", "test") and context.ending.outcome == "crashed_at_startup"
    # By the frames alone: a message above tells the last step that was announced, and others may lie between.
    shown = phase_of_block(observation.block) if observation.block is not None else ""
    phase = _PHASES.get(shown) if shown else None
    phase_words = "" if owner == PROGRAM else phase or ("during start-up" if starts else "")
    named = place.is_code and not place.of_library and owner != PROGRAM
    owner_words = "" if named else _owner_words(place, context.run, in_test)
    caller = caller_of(at, place.frames) if named and at else None
    if place.of_library:
        caller = place.own or place.caller
    feature = feature_of(place.frames) if place.is_code else None
    raised_words = (
        raised_in(
            at, owner_words, phase_words, raised, caller, feature.name if feature else "", in_title=named
        )
        if at and raised is not None
        else ""
    )
    if in_test and owner in (PROGRAM, None):
        raised_words = failed_at(context.trail) or raised_words
    return {
        "exception": observation.text.split("\n")[0][:300],
        "raised": raised_words,
        "backend": _other_backend(place.frames),
        "process": observation.record.process.name,
        "at": _file_and_line(called_at) if called_at else "",
        "phase_words": phase_words,
        "stated": stated,
        "handled": handled.statement.split("\n")[0].split(". ")[0][:200] if handled is not None else "",
        "stated_cause": ""
        if stated or raised is None or owner == PYTHON
        else stated_cause(raised, context.trail),
        "raised_in": f"{place.own.file}:{place.own.function}" if place.own else "",
        "passes_through": " ".join(
            f"{one.file}:{one.function}" for one in place.frames if owner_of(one.file).startswith(VLLM)
        ),
    }


_BENCHMARK = ("benchmark_throughput.py", "throughput.py")


def _other_backend(frames: Sequence[Frame]) -> str:
    """Return the backend of vLLM's own benchmark of throughput that ran, where it is another engine; else ""."""
    of_benchmark = (one for one in frames if file_name(one.file) in _BENCHMARK)
    found = (one.function.removeprefix("run_") for one in of_benchmark if one.function.startswith("run_"))
    return next((one for one in found if not one.startswith("vllm")), "")


def _handled_by_program(observation: Observation) -> Raised | None:
    """Return the exception that code of the calling program caught before it raised the one of an observation, or None."""
    chain = observation.block.raised if observation.block is not None else ()
    return next(
        (
            before
            for before, after in pairwise(chain)
            if after is observation.raised and failed_in_own_way(before, after)
        ),
        None,
    )


def _remedy(
    raised: Raised | None, context: FailureContext, place: _Place, stated: str, in_test: bool
) -> tuple[str, ...]:
    """Return the steps: those of a test, of the message itself, or those that fit the owner of the code."""
    if in_test:
        return steps_of_test(context.trail)
    if stated:
        return STATED
    if raised is not None and _is_wrong_call(raised):
        return CALL
    if raised is not None and _is_of_device(raised) and context.run.kind != "build":
        return ()
    rule_id = CODE if place.is_code else UNKNOWN
    if place.is_code and raised is not None and is_vllm_or_tensors(place.owner):
        return _around(context, place, raised)
    at = place.innermost.file if place.innermost else ""
    caller = place.caller.file if place.of_library and place.caller else ""
    steps = next_steps(
        place.owner, rule_id, context, called=place.own is not None, raised=raised, at=at, caller=caller
    )
    around = (
        steps_around(place.frames, place.phase, context.run) if place.is_code and raised is not None else ()
    )
    return (*around, *steps)


def _around(context: FailureContext, place: _Place, raised: Raised) -> tuple[str, ...]:
    """Return the steps for an error in vLLM's own code: what led there is left out, then another build is tried."""
    around = steps_around(place.frames, place.phase, context.run)
    serving = place.phase == "serving"
    left_out = bool(around) or feature_of(place.frames) is not None
    kind = kind_of_request(place.frames) if serving and not left_out else ""
    restart = (_RESTART,) if serving and not left_out and context.run.kind == "server" else ()
    without = (_WITHOUT_REQUESTS.format(kind=kind),) if kind else ()
    refused = raised.name in _OF_ARGUMENTS and raised.frames[-1].code.startswith("raise ")
    compare = (COMPARE.format(owner=place.owner),) if refused and place.owner in TENSOR_LIBRARIES else ()
    return (*restart, *around, *without, *compare, step_of_build(place.frames, raised, context.run))


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


def _confidence(raised: Raised | None, place: _Place) -> Confidence:
    """Return how sure a fault of vLLM's code is: a wrong name or index in its own frames is, a value that does not fit less so."""
    sure = (
        raised is not None
        and place.is_code
        and is_vllm_or_tensors(place.owner)
        and (raised.inner or raised.name) in _PROGRAMMING
    )
    return "medium" if sure else "low"


def _owner_words(place: _Place, run: Run, in_test: bool) -> str:
    owner = place.owner
    if owner == BUILD and place.innermost:
        return installed_package(place.innermost.file)
    if owner is None:
        return ""
    if owner == VLLM:
        return "a modified vLLM" if options_of_fork(run) else "vLLM"
    if owner == PROGRAM and in_test:
        return "the test's own code"
    if owner == PYTHON:
        return "Python's standard library"
    if owner == PROGRAM:
        framework = framework_of(place.innermost.file) if place.innermost else ""
        own = any(owner_of(frame.file).startswith(VLLM) for frame in place.frames)
        return framework or ("a program that vLLM calls" if own else "the program's own code")
    return owner


def _title(raised: Raised | None, place: _Place, words: Mapping[str, str]) -> str:
    owner, at = place.owner, place.innermost
    if raised is None or not raised.name.isidentifier():
        return ""
    if place.is_code and (owner is None or is_vllm_or_tensors(owner)):
        return f"{raised.name} in {component_of(at, raised.frames) if at else 'vLLM'}"
    if place.is_code:
        return f"{raised.name} in {owner}, called by vLLM"
    if not raised.text and words["raised"]:  # The class alone is the name of any error.
        return f"{words['exception']}, {words['raised'][:1].lower()}{words['raised'][1:]}"
    if owner == BUILD:
        return f"{raised.name} in the build of a package"
    if owner == PROGRAM:
        framework = framework_of(at.file) if at else ""
        return f"{raised.name} in " + (framework or "the program's own code")
    return (
        f"{raised.name} raised by {owner}"
        if owner and owner.isidentifier()
        else f"{raised.name}, a failure that no rule names"
    )
