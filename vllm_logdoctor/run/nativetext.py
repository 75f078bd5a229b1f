"""Text of libraries, compilers, shells and kernels above a traceback, which often says what the traceback does not."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.run.tracelines import frame_line

NATIVE_REACH = 60
"""Lines above a block in which text of native code belongs to it."""
# Text of libraries below Python that explains an exception printed later.
_NATIVE = lazy_pattern(
    r"Assertion [`'].{0,200} failed|ptxas|nvcc fatal|NCCL WARN|CCL_ERROR|\bXid\b|GLIBC(?:XX)?_\d|undefined symbol"
    r"|SIG(?:SEGV|ABRT|BUS|ILL|KILL|TERM)\b"
    r"|terminate called|what\(\):|Fatal Python error|[Ss]egmentation fault|Segfault encountered|core dumped|[Bb]us error"
    r"|^Killed\b|\bKilled\s|Illegal instruction"
    r"|cannot open shared object|error while loading shared|libgomp|nrt_\w+ |HSA_STATUS"
    r"|Memory access fault|hipError|^/bin/sh:|^sh: |fatal error:"
    r"|^ninja: |: not found$|[Oo]ut of memory|No space left|Disk quota|RESOURCE_EXHAUSTED"
    r"|ProcessGroup(?:NCCL|Gloo|HCCL)\.cpp|Gloo connect"
    r"|error: |\[E\d{3}|: error |Warning: Unable to resolve hostname|PassManager|Unable to get JIT kernel"
    r"|\bCuda error\b|STATUS_|\bERR\d{5}\b|EI\d{4}"
)


def native_above(records: Sequence[Record], start: int, outside: Sequence[int]) -> tuple[Record, ...]:
    """Return the native text above a place.

    Args:
        records: all records in order.
        start: the place.
        outside: places of the records that belong to no traceback, in order.
    """
    line = records[start].line
    near = outside[bisect_left(outside, start - NATIVE_REACH) : bisect_left(outside, start)]
    above = (records[place] for place in near)
    return tuple(one for one in above if line - one.line <= NATIVE_REACH and is_native(one))


def is_native(record: Record) -> bool:
    """Return whether a line is text of a library, compiler, shell or kernel that no logger of vLLM framed."""
    return not record.level and _reads_native(record.message)


@lru_cache(maxsize=1024)  # Every rank prints the same lines.
def _reads_native(text: str) -> bool:
    return bool(_NATIVE.search(text, 0, 2000)) and frame_line(text) is None
