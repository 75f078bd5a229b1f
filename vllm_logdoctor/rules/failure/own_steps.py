"""Steps for an error that no rule names: what its message asks for, or what fits the owner of the code that raised it."""

from __future__ import annotations

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.failure.build_errors import INSTALL_BUILT, TOOL_FAILED
from vllm_logdoctor.rules.failure.context import FailureContext
from vllm_logdoctor.rules.failure.rule_ids import CODE
from vllm_logdoctor.run.blocks import Raised
from vllm_logdoctor.run.owners import (
    BUILD,
    PROGRAM,
    PYTHON,
    TENSOR_LIBRARIES,
    VLLM,
    acting_frames,
    framework_of,
    is_vllm_or_tensors,
    owner_of,
)
from vllm_logdoctor.run.places import file_name

CALL = ("Correct the call in the program that starts vLLM: it hands over a value of the wrong type.",)
_OUTPUT_MISSING = (
    "Keep the whole output of the build, above its last message too: its first error is the cause, and is not in this log."
    " `pip install -v`, `poetry add -vvv` and `docker build --progress=plain` print all of it."
)
WHOLE_OUTPUT = (
    _OUTPUT_MISSING,
    INSTALL_BUILT,
)
_CLIENTS = frozenset({"openai", "httpx", "requests", "aiohttp", "urllib3"})
_PROGRAM = ("Correct the program at the place that the traceback names: vLLM itself had finished its work.",)
_SAID = (
    "Find the program or script that prints this line: the engine had ended before, and no line of vLLM has this error.",
)
_OWN_CODE = ("Correct the program at {at}: the traceback contains no vLLM code.",)
STATED = ("Do what the message says: {stated}.",)
_OWN_CALL = "Correct the call of {owner} at {{at}}: the traceback contains no vLLM code."
_OF_FRAMEWORK = (
    "See in {at} what {framework} checks or calls there; another release of {framework} may support it."
)
_UNKNOWN_TO_FRAMEWORK = "Use a release of {framework} whose {at} lists the model's architecture: this one's list, in the message, lacks it."
_LISTS_MODELS = lazy_pattern(r"[Mm]odel architectures? .{1,200} (?:is|are) not supported")
_NOT_IMPLEMENTED = (
    "Set or register an implementation of your own in {framework}, or change the input: {at} has none for it."
)
_CALLED = (
    "Correct the code at {at}: it is a part of neither vLLM nor an installed package.",
    "Start once without that code to see that the rest works.",
)
TOOK_OVER = (
    _CALLED[0],
    "Or remove the cause of the error before it, with which this code does not run: {handled}.",
)
# CMake Error at CMakeLists.txt:14      csrc/x.cu(12): error: ...      FAILED: CMakeFiles/_C.dir/csrc/x.o
_OF_COMPILER = lazy_pattern(
    r"CMake Error|\berror: (?!subprocess|metadata|command|legacy)|FAILED: |error generated|fatal error"
)
_OF_SCRIPT = "Install the package as a wheel (`pip install --only-binary :all: {package}`): a release that has one for this Python and PyTorch."
COMPARE = "Compare the installed release of {owner} (`pip show {owner}`) with the one that this vLLM release requires."
_REFUSED = "Try another release of vLLM, a newer one first: the failed call of {owner} is in vLLM's code."
# A name or an argument that a library does not have: the two are not of the same time.
_OTHER_INTERFACE = lazy_pattern(
    r"unexpected keyword argument|takes (?:no|\d+|from) .{0,40}argument|missing \d+ required|module '[\w.]+' has no attribute"
    r"|type object '\w+' has no attribute|cannot import name|No module named|Received an? \w+ for argument"
)
# ERROR: Failed building wheel for xformers
_BUILT = lazy_pattern(r"Failed building (?:wheel|editable) for (?P<package>[\w.-]{2,80})")


def next_steps(
    owner: str | None, rule_id: str, context: FailureContext, *, called: bool, raised: Raised | None, at: str,
    caller: str = "",
) -> tuple[str, ...]:  # fmt: skip
    """Return the steps that fit the owner of code that is not vLLM's.

    Args:
        owner: whose code it is.
        rule_id: the rule of last resort.
        context: the run.
        called: whether code of vLLM led there.
        raised: the exception.
        at: the file.
        caller: the file of the program that called a library, "" where vLLM did, or no frame shows it.
    """
    if rule_id == CODE and (owner is None or is_vllm_or_tensors(owner)):
        return ()
    if owner == BUILD:
        return _of_build(context, raised)
    if context.ending.program_failed:
        return _PROGRAM if at or context.run.progress else _SAID
    framework = framework_of(caller or at) if owner == PROGRAM or (caller and owner not in _CLIENTS) else ""
    if framework:
        lacks = raised is not None and (raised.inner or raised.name) == "NotImplementedError"
        listed = raised is not None and _LISTS_MODELS.search(raised.statement[:600])
        step = _NOT_IMPLEMENTED if lacks else _UNKNOWN_TO_FRAMEWORK if listed else _OF_FRAMEWORK
        return (step.format(framework=framework, at=file_name(caller or at)),)
    if owner == PROGRAM and not called:
        return _OWN_CODE
    if context.run.kind == "build":
        return WHOLE_OUTPUT
    if owner == PROGRAM:
        return _CALLED
    if owner in _CLIENTS and not called:
        return ("Read the server's log at that time: this log is the client's.",)
    if not owner or owner == PYTHON or owner.startswith(VLLM) or not owner.isidentifier():
        return ()
    if caller:
        return (_OWN_CALL.format(owner=owner),)
    if not called:
        return (
            f"Keep the whole log: the traceback shows neither vLLM's code nor a program's, and so not who called {owner}.",
        )
    compare, refused = COMPARE.format(owner=owner), _REFUSED.format(owner=owner)
    if rule_id != CODE:
        return (compare,)
    if raised is not None and _OTHER_INTERFACE.search(raised.statement[:600]):
        return compare, refused
    # Its own object, or one of vLLM that it can't take.
    return (refused, compare) if raised is not None and raised.name == "AttributeError" else (refused,)


def _of_build(context: FailureContext, raised: Raised | None) -> tuple[str, ...]:
    if raised is None or raised.name not in TOOL_FAILED:
        found = (_BUILT.search(one.message) for one in context.trail)
        built = next((one["package"] for one in found if one is not None), "PACKAGE")
        return (_OF_SCRIPT.format(package=built),)
    if not any(_OF_COMPILER.search(one.message) for one in context.trail):
        return (_OUTPUT_MISSING,)
    return (
        "Read the first error of the compiler or of the build script above this line: later errors follow from it.",
    )


def failed_in_own_way(first: Raised | None, after: Raised) -> bool:
    """Return whether a function of the calling program that vLLM called caught an exception, and the program's code for that case failed.

    run_grpo.py:_safe_expand  ->  run_grpo.py:_safe_expand, run_grpo.py:_own_expand
    """
    if first is None or not first.frames or after.link != "context":
        return False
    catching, acting = first.frames[0], acting_frames(after.frames)
    inside = next(
        (
            at
            for at, one in enumerate(acting)
            if (one.file, one.function) == (catching.file, catching.function)
        ),
        0,
    )
    below = {owner_of(one.file) for one in acting[inside:]}
    called = any(owner_of(one.file).startswith(VLLM) for one in acting[:inside])
    return called and owner_of(catching.file) == PROGRAM and below <= {PROGRAM, *TENSOR_LIBRARIES}
