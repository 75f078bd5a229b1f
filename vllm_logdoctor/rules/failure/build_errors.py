"""What a compiler, a linker or CMake refused, as the finding behind the exception of a build tool."""

from __future__ import annotations

from msgspec.structs import replace

from vllm_logdoctor.catalogue.pages import Signature
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.rules.failure.context import FailureContext, Observation
from vllm_logdoctor.rules.failure.matching import RuleMatch
from vllm_logdoctor.rules.failure.rule_ids import UNKNOWN
from vllm_logdoctor.rules.failure.signatures import FailureRules
from vllm_logdoctor.run.builds import compiled_file, compiler_error, error_text, not_found_above

TOOL_FAILED = frozenset({"CalledProcessError", "CompileError", "DistutilsExecError", "BuildError"})
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
INSTALL_BUILT = (
    "Install a release of vLLM that has a wheel or an image for this platform instead of building one."
)
_LACKING = "CMake did not find all of {package} (missing: {missing}), and stopped: {exception}"
_HEADERS = (
    "Install the headers of the Python that builds (`apt install python{python}-dev`, `dnf install python{python}-devel`), and build again.",
    INSTALL_BUILT,
)
_INSTALL = (
    "Install {package} with its headers and CMake files, or name its place by `CMAKE_PREFIX_PATH`, and build again.",
    INSTALL_BUILT,
)
_EXPLAINED = "A compiler or build tool stopped; this is its first error in the log."
_COMPILED = "The compiler stopped at {source}; this is its first error in the log."
_REFUSED = ("Fix the first error of the build: later ones often follow from it.",)
# /usr/include/c++/13/type_traits:44:1: error: ...      /usr/lib64/gcc/x86_64-pc-linux-gnu/14/../include/c++/14/bits/stl_algo.h:36:7: error: ...
_OF_SYSTEM = lazy_pattern(r"\s*/usr/(?:[^\s:(]{1,200}/)?include/[^\s:(]{1,200}(?::\d|\(\d)")
_HEADERS_OF_SYSTEM = (
    "Build with releases of the compiler and of the system's headers that fit together: the error is in a header that a source of vLLM includes.",
)
# error: use of undeclared identifier 'omp_get_max_threads'      'omp_get_num_threads' was not declared
# clang: error: unsupported option '-fopenmp'      ld: library 'omp' not found
_OPENMP = lazy_pattern(
    r"(?:undeclared identifier |error: )'(?P<name>omp_\w+)'|unsupported option '(?P<option>-fopenmp)'"
    r"|library (?:not found for -l|')(?P<library>omp)\b"
)
_OF_MAC = lazy_pattern(r"AppleClang|/Applications/Xcode|macosx|/opt/homebrew/")
_OPENMP_OF_MAC = (
    "Install OpenMP (`brew install libomp`) and build with its folders: `CPPFLAGS=-I$(brew --prefix libomp)/include` and"
    " `LDFLAGS=-L$(brew --prefix libomp)/lib`."
)
_OPENMP_OF_LINUX = "Build with gcc, which brings OpenMP, or install that of clang (`apt install libomp-dev`)."
_WITHOUT_OPENMP = " OpenMP is missing: `{lacks}` is a part of it."


def compiler_refusal(observation: Observation, context: FailureContext) -> Record | None:
    """Return the first error of a compiler above the exception of a build tool, which only says that the tool failed."""
    raised = observation.raised
    if raised is None or raised.name not in TOOL_FAILED:
        return None
    return compiler_error(context.above(observation.position, _BUILD_LINES))


def build_failure(
    compiler: Record, observation: Observation, context: FailureContext, rules: FailureRules
) -> RuleMatch:
    """Return what a compiler, a linker or CMake refused, as the finding of an observation that follows from it."""
    said = error_text(context.trail, compiler)
    # The words of CMake are below the line that the report quotes.
    more = "" if said == " ".join(compiler.message.split()) else " {exception}"
    values = {"exception": said[:300]}
    if (source := compiled_file(context.trail, compiler)) is not None:
        values["source"] = source[0]
    explain = (_COMPILED if source else _EXPLAINED) + more
    signature = Signature(
        "", rank="symptom", priority=8, confidence="medium", title="Compiler or build tool failed", explain=explain,
        remedy=(
            *(
                _OUT_OF_MEMORY if _KILLED.search(compiler.message)
                else _CRASHED if _SIGNAL.search(compiler.message)
                else _HEADERS_OF_SYSTEM if _OF_SYSTEM.match(compiler.message) else _REFUSED
            ),
            INSTALL_BUILT,
        ),
    )  # fmt: skip
    if (openmp := _OPENMP.search(said)) is not None:
        values["lacks"] = next(one for one in openmp.groups() if one)
        on_mac = any(_OF_MAC.search(one.message[:400]) for one in context.trail)
        step = _OPENMP_OF_MAC if on_mac else _OPENMP_OF_LINUX
        signature = replace(signature, explain=explain + _WITHOUT_OPENMP, remedy=(step, INSTALL_BUILT))
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
    shown = source[1:] if source is not None and "{source}" in signature.explain else ()
    return RuleMatch(rules.rule(UNKNOWN), signature, observation, compiler, values, supporting, shown=shown)
