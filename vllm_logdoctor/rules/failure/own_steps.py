"""Steps for an error that no rule names: what its message asks for, or what fits the owner of the code that raised it."""

from __future__ import annotations

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.failure.build_errors import INSTALL_BUILT
from vllm_logdoctor.rules.failure.context import FailureContext, Observation
from vllm_logdoctor.rules.failure.rule_ids import CODE
from vllm_logdoctor.run.owners import BUILD, PROGRAM, PYTHON, VLLM, is_vllm_or_tensors

CALL = ("Correct the call in the program that starts vLLM: it hands over a value of the wrong type.",)
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
STATED = ("Do what the message says: {stated}.",)
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
_LONGEST_WAY = 150
# CMake Error at CMakeLists.txt:14      csrc/x.cu(12): error: ...      FAILED: CMakeFiles/_C.dir/csrc/x.o
_OF_COMPILER = lazy_pattern(
    r"CMake Error|\berror: (?!subprocess|metadata|command|legacy)|FAILED: |error generated|fatal error"
)
_OF_SCRIPT = "Install the package as a wheel (`pip install --only-binary :all: PACKAGE`): a release that has one for this Python and PyTorch."
_NEWER = "Use a newer release of vLLM."
_OUTPUT_MISSING = "Keep the whole output of the build (`pip install -v ... > build.log 2>&1`): its first error is the cause, and is not in this log."


def stated_remedy(observation: Observation) -> str:
    """Return what the text of an exception itself says to do, or ""."""
    found = _OWN_REMEDY.search(observation.text[:1200])
    way = found["way"].strip() if found else ""
    return way if len(way) <= _LONGEST_WAY else way.partition(" or ")[0]


def next_steps(
    owner: str | None, rule_id: str, context: FailureContext, *, called: bool, tool: bool
) -> tuple[str, ...]:
    """Return the steps that fit the owner; `called`: code of vLLM led there; `tool`: the exception says that a program failed."""
    if rule_id == CODE and (owner is None or is_vllm_or_tensors(owner)):
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
    if owner and owner != PYTHON and not called and not owner.startswith(VLLM) and owner.isidentifier():
        return (
            f"Check how the program calls {owner}, and its release (`pip show {owner}`): the traceback shows no code of vLLM.",
        )
    if called and owner and owner != PYTHON and not owner.startswith(VLLM) and owner.isidentifier():
        compare = f"Compare the installed release of {owner} (`pip show {owner}`) with the one that this vLLM release requires."
        return (compare, _NEWER) if rule_id == CODE else (compare,)
    return ()
