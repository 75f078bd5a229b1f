"""Builds and installations: what pip, setuptools, CMake, ninja and docker print where no vLLM ran."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from msgspec import Struct

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.run.tracelines import cleaned

# error: subprocess-exited-with-error      ERROR: Failed building wheel for vllm      -- Configuring incomplete, errors occurred!
# make[2]: *** [library/CMakeFiles/TENSILE.dir/build.make:74: Tensile/library] Error 1
# [end of output]      (pip, below what a failed step printed)
# FAILED: csrc/attention.cu.o      ERROR: failed to solve: process "/bin/sh -c pip install ..." did not complete successfully: exit code: 1
_FAILED = lazy_pattern(
    r"error: subprocess-exited-with-error|^\s*\[end of output\]\s*$"
    r"|ERROR: (?:ERROR: )?(?:Failed (?:to build|building)|Could not (?:build|install|find a version))"
    r"|^\s*(?:#\d+ [\d.]+ +)?(?:Failed to build |ninja: build stopped|-- Configuring incomplete|ERROR: failed to (?:solve|build))"
    r"|Unable to find installation candidates for |^\s*(?:#\d+ [\d.]+ +)?FAILED: (?:\[code=\d+\] )?\S+\.(?:o|so)\b"
    r"|did not complete successfully: exit code|metadata-generation-failed|The command '.{1,400}' returned a non-zero code"
    r"|\bmake(?:\[\d+\])?: \*\*\* \[[^\]]{0,200}(?:build\.make|Makefile2?|CMakeFiles)[^\]]{0,200}\] Error \d"
    r"|^\s*× (?:No solution found|Failed to )|CMake Error|Command '\['cmake'|^\s*=> ERROR \[[^\]]{1,80}\] RUN\b"
)
# Successfully installed vllm-0.6.3      #19 naming to docker.io/library/vllm:dev done      Successfully tagged vllm:dev
_DONE = lazy_pattern(r"Successfully (?:installed|built|tagged) |naming to \S+ (?:\S+ )?done")
# -- Build files have been written to: /src/build      [144/237] Building CUDA object ...      Collecting torch==2.4.0      running build_ext
_STEP = lazy_pattern(
    r"^\s*(?:#\d+ [\d.]+ +)?(?:-- (?:Build files have|Configuring done|Build type|The CXX)|\[\d+/\d+\] (?:Building|Linking) "
    r"|Collecting [\w.\[\]-]+|Building wheels? for |Processing /|Obtaining file:|running (?:build|bdist|dist_info|egg_info)"
    r"|Requirement already satisfied: |Getting requirements to build )|^#\d+ \[|^Step \d+/\d+ : "
)
# File "/usr/lib/python3/dist-packages/setuptools/_distutils/cmd.py", line 339, in run_command      ...\pip\_vendor\pyproject_hooks\_impl.py
_BUILD_FRAME = lazy_pattern(r"File \"[^\"]{0,300}[/\\](?:setuptools|distutils|pyproject_hooks)[/\\]")
# File "/opt/env/lib/python3.12/site-packages/vllm/v1/engine/core.py", line 12, in run_engine_core
_RUNS = lazy_pattern(
    r"File \"[^\"]{0,300}\bvllm/(?:v1|engine|worker|executor|entrypoints|model_executor|distributed|platforms)/"
)
# /src/csrc/cpu/attention.cpp:281:40: error: use of undeclared identifier      kernels.cu(96): error: expression must be constant
# ptxas terminated (signal: 11)      c++: fatal error: Killed signal terminated program cc1plus      nvcc fatal   : Unsupported gpu
_COMPILER_ERROR = lazy_pattern(
    r"\.(?:cu|cuh|c|cc|cpp|cxx|h|hpp)(?::\d+(?::\d+)?|\(\d+\)): (?:fatal )?error[: ]|CMake Error(?: at |: )"
    r"|ptxas (?:fatal|error|terminated \(signal)|nvcc (?:fatal|error) +:|\b(?:cc|c\+\+|g\+\+|gcc|clang(?:\+\+)?): (?:fatal )?error: "
    r"|undefined reference to |\bld(?:\.\w+)?: (?:cannot find|error:)"
)

# 0.354 Not allowed: Wheel dist/vllm-0.9.0-cp38-abi3-linux_x86_64.whl is larger (291.37 MB) than the limit (250 MB).
# 623.7   error: <urlopen error retrieval incomplete: got only 17 out of 32 bytes>
# The system library `openssl` required by crate `openssl-sys` was not found.
_STATED = lazy_pattern(
    r"^\s*(?:#\d+ )?(?:[\d.]+ +)?(?:(?:error|fatal): (?!subprocess-exited|metadata-gen|`|command .* failed)|Not allowed: )\S"
    r"|\brequired by .{1,80} was not found"
)
# ERROR: failed to solve: failed to compute cache key: failed to calculate checksum of ref a1::b2: "/requirements/build.txt": not found
_UNSOLVED = lazy_pattern(r"failed to solve: (?!process )\S")
_STATED_REACH = 200
# srun: error: Unable to create step for job 7: Invalid generic resource (gres) specification      sbatch: error: Batch job submission failed
_ENDS_WITH_ERROR = lazy_pattern(r"^(?:[\w./-]{1,60}: )?(?:fatal )?error: \S")
_LAST_WORDS = 3

# vllm 0.18.0 requires torch==2.10.0, but you have torch 2.9.0 which is incompatible.
_CONFLICT = lazy_pattern(
    r"^\s*(?:ERROR: )?\S+ \S+ (?:requires|has requirement) .{1,200}, but you(?: |'ll )have .{1,120} which is incompatible"
)
_PARAGRAPHS = 8


def is_build(records: Sequence[Record]) -> bool:
    """Return whether records are of a build or an installation: nothing in them is of a vLLM that ran."""
    if any(_RUNS.search(one.message) for one in records):
        return False
    steps = sum(
        bool(_STEP.search(one.message[:300]) or _BUILD_FRAME.search(one.message[:300])) for one in records
    )
    if failed_step(records) is not None or compiler_error(records) is not None:
        return True
    if any(_CONFLICT.match(one.message[:600]) for one in records):
        return True
    return steps > 1 and not _failed_behind(records)


def _failed_behind(records: Sequence[Record]) -> bool:
    """Return whether a command failed with the last lines behind an installation that is done: then the log is of a job."""
    done = last_step_done(records)
    behind = [one for one in records if one.message.strip() and done is not None and one.line > done.line]
    return any(_ENDS_WITH_ERROR.search(one.message[:200]) for one in behind[-_LAST_WORDS:])


def failed_step(records: Sequence[Record]) -> Record | None:
    """Return the first line with which a build tool says that it failed, or None."""
    return next((one for one in records if _FAILED.search(one.message[:600])), None)


def stated_error(records: Sequence[Record]) -> Record | None:
    """Return the last line in which a step says what it lacked, right above the first one in which a build tool says that it failed.

    Docker repeats the output of a failed step below the line that marks it.
    """
    failed = failed_step(records)
    if failed is None or _UNSOLVED.search(failed.message[:600]):
        return failed
    below = "=> ERROR [" in failed.message
    side = (one for one in records if one.file == failed.file and (one.line > failed.line) == below)
    near = [one for one in side if 0 < abs(failed.line - one.line) <= _STATED_REACH]
    return next((one for one in reversed(near) if _STATED.search(one.message[:400])), None)


def last_step_done(records: Sequence[Record]) -> Record | None:
    """Return the last line with which a build tool says that it is done, or None."""
    return next((one for one in reversed(records) if _DONE.search(one.message[:600])), None)


# FAILED: csrc/CMakeFiles/_C.dir/attention.cu.o      /src/csrc/quant_kernels.hip:35:14: note: called by 'to_int8'
_OBJECT = lazy_pattern(
    r"^\s*(?:#\d+ [\d.]+ +)?FAILED: (?:\[code=\d+\] )?(?:\S*/)?(?P<file>[^\s/]{1,200})\.o\b"
)
_CALLED_BY = lazy_pattern(r"(?:^|/)(?P<file>csrc/[^\s:]{1,200}):\d+:\d+: note: called by ")
_NEAR_OBJECT, _NEAR_CALL = 10, 20


def compiled_file(records: Sequence[Record], error: Record) -> tuple[str, Record] | None:
    """Return the source file whose compilation an error ended, and the line that names it: ninja's above it or the compiler's notes below."""
    at = next((number for number, one in enumerate(records) if one is error), 0)
    above = ((_OBJECT, one) for one in reversed(records[max(0, at - _NEAR_OBJECT) : at]))
    below = ((_CALLED_BY, one) for one in records[at : at + _NEAR_CALL])
    searched = ((known.search(one.message[:400]), one) for known, one in (*above, *below))
    return next(((found["file"], one) for found, one in searched if found is not None), None)


def compiler_error(records: Sequence[Record]) -> Record | None:
    """Return the first error of a compiler, a linker or CMake: what the build tools say later follows from it."""
    return next((one for one in records if _COMPILER_ERROR.search(one.message[:500])), None)


# -- Could NOT find Python (missing: Python_INCLUDE_DIRS Development.Module) (found version "3.11.9")
_NOT_FOUND = lazy_pattern(
    r"\bCould NOT find (?P<package>[\w.+-]{1,60}) \(missing: (?P<missing>[^()\n]{1,200})\)(?: \(found (?:suitable )?version \"(?P<found>[\d.]+)\")?"
)
_NOT_FOUND_REACH = 20


class NotFound(Struct, frozen=True):
    """What CMake looked for and did not find: the package, its parts that are missing, the version that is there, the line."""

    package: str
    missing: str
    found: str
    record: Record


def not_found_above(records: Sequence[Record], error: Record) -> NotFound | None:
    """Return what CMake did not find right before it stopped with an error, or None."""
    if "CMake Error" not in error.message:
        return None
    above = (
        one
        for one in reversed(records)
        if one.file == error.file and 0 < error.line - one.line <= _NOT_FOUND_REACH
    )
    matches = ((_NOT_FOUND.search(one.message[:600]), one) for one in above)
    match, record = next(((match, one) for match, one in matches if match is not None), (None, error))
    return NotFound(match["package"], match["missing"], match["found"] or "", record) if match else None


def error_text(records: Sequence[Record], error: Record) -> str:
    """Return the words of an error; those of CMake with the paragraphs below its place, which say what is wrong.

    CMake Error at CMakeLists.txt:14 (project):
      Running '/opt/env/bin/ninja' '--version' failed with: no such file or directory
    """
    words = error.message
    if words.rstrip().endswith(":"):
        below = (
            one.message
            for one in records
            if 0 < one.line - error.line <= _PARAGRAPHS and one.file == error.file
        )
        words += " ".join(
            takewhile(lambda text: text[:1] in ("", " ") and "Call Stack" not in text, map(cleaned, below))
        )
    return " ".join(words.split())
