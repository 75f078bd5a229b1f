"""Grammar of traceback lines: what one line of a traceback is, whatever printed it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record

Link = Literal["", "cause", "context", "echo"]
"""How an exception follows the one before it: unrelated, raised from it, raised while it was handled, or an
outer exception whose text repeats the traceback of another process."""

OPENING = "Traceback (most recent call last)"

# [repeated 7x across cluster] (Ray folds equal lines of many workers)
_REPEATED = lazy_pattern(r"\s*(?:\x1b?\[\d+m)?\[repeated \d+x across cluster\].*$")
# ERROR [core.py:1330] text      [registry.py:523] text      ERROR:    text      ERROR core.py:12] text
_LOOSE_HEADER = lazy_pattern(
    r"(?:\[)?(?:(?:ERROR|WARNING|CRITICAL)\]?:?\s+)?(?:[\d:., T-]{8,30}\s)?\[[\w./-]{1,120}(?:\.py"
    r"|-py)?: ?\d{1,6}\] ?"
    r"|(?:ERROR|CRITICAL):\s+(?=Traceback)"
)
# #12 34.51       Traceback (most recent call last):      > RuntimeError: quoted in a thread      E   KeyError: 'x'   (pytest)
_FOREIGN_PREFIX = lazy_pattern(
    r"(?:> ?)*(?:#\d+ \d+\.\d+ ?|\d{1,4}\.\d{1,3} (?= |[\w.]+(?:Error|Exception)\b)|E {3,}(?=\S))?"
)
# │ /opt/env/lib/python3.10/site-packages/vllm/engine/llm_engine.py:133 in __init__      │      (rich)
_BOX = lazy_pattern(r"\s*│ ?(?P<text>.*?)\s*│?\s*$")
# time="2026-01-02T10:00:01Z" level=error msg="  File \\"/opt/vllm/x.py\\", line 5, in load"
_LOGFMT = lazy_pattern(
    r'(?:[\w.]{1,40}=(?:"(?:[^"\\]|\\.){0,400}"|[^\s"]{0,200}) ){1,20}msg="(?P<text>(?:[^"\\]|\\.){0,8000})"'
)
# Exception groups draw a frame around their members:    + Exception Group Traceback ...     | Traceback ...
_GROUP_FRAME = lazy_pattern(r"^\s*(?:[|+] ?)+(?:-\+?-* )?")
# A terminal or a viewer may break the line anywhere behind the file:   File "/opt/vllm/x.py", l
_FRAME = lazy_pattern(
    r'\s*File "(?P<file>[^"]{1,400})", (?:line (?P<line>\d+)(?:, in (?P<function>.{1,200}))?|l?i?n?e? ?$)'
)
# File ~/x/llm_engine.py:133, in LLMEngine.__init__(self, ...)      (IPython)
_NOTEBOOK_FRAME = lazy_pattern(
    r"\s*File (?P<file>[^\s\":]{1,300}):(?P<line>\d+), in (?P<function>[\w.<>]{1,120})"
)
# "RuntimeError                              Traceback (most recent call last)"   (IPython)
_NOTEBOOK_OPENING = lazy_pattern(r"(?P<type>[A-Z]\w+)\s{4,}Traceback \(most recent call last\)")
# /usr/lib/python3/dist-packages/vllm/worker/worker.py in execute_model(self, request)      (IPython before 8)
_OLD_NOTEBOOK_FRAME = lazy_pattern(r"(?P<file>[^\s\":]{1,300}\.py) in (?P<function>[\w.<>]{1,120})\(")
# ---> 247         offsets = qweight.bnb_shard_offsets
# ❱ 290 │   │   spent = time.perf_counter() - begun      (rich)
_ARROW = lazy_pattern(r"(?:-{1,8}> ?(?:\d+|\[\d+\]\S*)|❱ \d+ │(?: +│)*) (?P<code>.*)")
# vllm/model_executor/model_loader/default_loader.py:269: in load_weights   (pytest)      /opt/x.py:133 in __init__   (rich)
_TEST_FRAME = lazy_pattern(
    r"\s*(?P<file>[^\s\":]{1,300}\.py):(?P<line>\d+):? in (?P<function>[\w.<>]{1,120})\s*$"
)
# At:\n  /opt/env/lib/python3.11/site-packages/vllm/_custom_ops.py(712): cutlass_scaled_mm   (pybind11, below the exception, innermost first)
_PYBIND_FRAME = lazy_pattern(
    r" +(?P<file>[^\s\":()]{1,300}\.py)\((?P<line>\d{1,7})\): (?P<function>[\w.<>]{1,120})\s*$"
)
#   what():  ValueError: too many values to unpack (expected 2)     (C++ ends for an exception of Python)
_WHAT = lazy_pattern(r"\s*what\(\): +(?=(?:[A-Za-z_]\w*\.){0,10}[A-Z]\w*(?:Error|Exception): )")
_CAUSE = "The above exception was the direct cause of the following exception"
_CONTEXT = "During handling of the above exception, another exception occurred"
_NAME = r"(?:[A-Za-z_]\w*\.){0,10}[A-Za-z_]\w*"
# ray.exceptions.RayTaskError(RuntimeError): ray::...       KeyError: 'x'       KeyboardInterrupt
_ANY_EXCEPTION = lazy_pattern(
    rf"(?P<type>{_NAME})(?:\((?P<inner>\w+)\))?(?::\s?(?P<text>.*)|\s*$)", re.DOTALL
)
_EXCEPTION_NAME = lazy_pattern(
    r"(?:Error|Exception|Interrupt|SystemExit|Timeout|ActorDied|Failure|Exit|Empty|OutOfResources"
    r"|Unsupported|Died|Crashed|\.(?:gai|h)?error|\.timeout)$"
)
# RuntimeError('text')        ValueError("text")      (a logger printed the repr)
_REPR = lazy_pattern(rf"(?P<type>{_NAME}(?:Error|Exception))\((?P<text>.*)\)\s*$", re.DOTALL)


# ... AssertionError: 19114 is not divisible by 8      model.py:244] Failed to start: ValueError: text      (a program put words of its own before it)
_STATED = lazy_pattern(
    r"(?:^|[\s:\])\uff1a\u3011\"])(?<!except )(?P<type>(?:[A-Za-z_]\w*\.){0,10}[A-Z]\w*(?:Error|Exception)): (?P<text>\S.*)",
    re.DOTALL,
)


class FrameLine(Struct, frozen=True):
    """A line that names a place in code."""

    file: str
    line: int
    function: str


class ExceptionLine(Struct, frozen=True):
    """A line that names an exception; `inner` is the type that a remote wrapper names in brackets."""

    type: str
    text: str
    inner: str = ""


def cleaned(message: str) -> str:
    """Return a message without what folds, frames or loosely heads a line of a traceback.

    >>> cleaned("ERROR [core.py:1330] Traceback (most recent call last): [repeated 7x across cluster]")
    'Traceback (most recent call last):'
    """
    text = _REPEATED.sub("", message) if "[repeated" in message else message
    if 'msg="' in text and (fields := _LOGFMT.match(text)):
        text = fields["text"].replace('\\"', '"')
    header = _LOOSE_HEADER.match(text) if text[:1] in "[EWC" else None
    if header:
        text = text[header.end() :]
    if text[:1] in "#>E0123456789":
        text = _without_foreign_prefix(text)
    if "what():" in text:
        text = _WHAT.sub("", text)
    first = text.lstrip()[:1]
    if first in ("|", "+"):
        text = _GROUP_FRAME.sub("", text)
    elif first == "\u2502" and (boxed := _BOX.match(text)):
        text = boxed["text"]
    return text


def _without_foreign_prefix(text: str) -> str:
    """Return a line without what docker build, a quotation or pytest puts before it."""
    prefix = _FOREIGN_PREFIX.match(text)
    return text[prefix.end() :] if prefix else text


def opens(text: str) -> str | None:
    """Return what precedes the opening of a traceback, or None where the line opens none.

    >>> opens("EngineCore hit an exception: Traceback (most recent call last):")
    'EngineCore hit an exception:'
    >>> opens("prompt: 'Traceback (most recent call last): what is this?'") is None
    True
    """
    mark = text.find(OPENING)
    if (
        mark < 0
        or text[mark + len(OPENING) :].strip(": \r\u2500\u256e")
        or text[:mark].endswith(("'", '"', "\\n", "`"))
    ):
        return None
    before = text[:mark].strip(" \u2500\u256d")
    return "" if _NOTEBOOK_OPENING.match(text) or before == "Exception Group" else before


def notebook_type(text: str) -> str:
    """Return the exception that the opening line of a notebook's traceback names, or "".

    >>> notebook_type("OutOfMemoryError                 Traceback (most recent call last)")
    'OutOfMemoryError'
    """
    opening = _NOTEBOOK_OPENING.match(text)
    return opening["type"] if opening else ""


def frame_line(text: str) -> FrameLine | None:
    """Return the place that a line names, or None; paths of Windows are written with slashes.

    >>> frame_line('  File "C:\\\\vllm\\\\utils.py", line 7, in run').file
    'C:/vllm/utils.py'
    """
    if "File " in text:
        match = _FRAME.match(text) or _NOTEBOOK_FRAME.match(text)
    elif ".py:" in text:
        match = _TEST_FRAME.match(text)
    else:
        match = _OLD_NOTEBOOK_FRAME.match(text) if ".py in " in text else None
    if match is None:
        return None
    line = match.groupdict().get("line")
    return FrameLine(match["file"].replace("\\", "/"), int(line or 0), (match["function"] or "").strip())


def stack_line(text: str) -> FrameLine | None:
    """Return the place that a line of pybind11's stack names, or None.

    >>> stack_line("  /opt/vllm/config.py(120): get_num_layers").function
    'get_num_layers'
    """
    match = _PYBIND_FRAME.match(text) if ".py(" in text else None
    return FrameLine(match["file"], int(match["line"]), match["function"]) if match else None


def marked_code(text: str) -> str:
    """Return the code that a notebook or a box marks as the one that raised, or "".

    >>> marked_code("---> 247         offsets = qweight.bnb_shard_offsets")
    'offsets = qweight.bnb_shard_offsets'
    """
    marked = _ARROW.match(text)
    return marked["code"].strip() if marked else ""


def link_line(text: str) -> Link:
    """Return how the next exception follows from the one above, or "" for other lines."""
    if _CAUSE in text:
        return "cause"
    return "context" if _CONTEXT in text else ""


def exception_line(text: str, *, strict: bool) -> ExceptionLine | None:
    """Return the exception that a line names, or None.

    Args:
        text: the line.
        strict: only names that end like exceptions; for lines that no traceback precedes.
    """
    match = _ANY_EXCEPTION.match(text)
    if not match:
        return None
    name = match["type"]
    if not name.rpartition(".")[2][:1].isupper() and not _EXCEPTION_NAME.search(name):
        return None
    if strict and not (_EXCEPTION_NAME.search(name)):
        return None
    if (
        strict
        and match["text"] is None
        and "." not in name
        and name != "KeyboardInterrupt"
        and not name.endswith("Error")
    ):
        return None
    return ExceptionLine(name, (match["text"] or "").strip(), match["inner"] or "")


def exception_within(text: str) -> ExceptionLine | None:
    """Return the exception that a line states behind other words, or None; a warning that quotes one states none.

    >>> exception_within("[12:01] load failed: ValueError: no such format").text
    'no such format'
    """
    found = _STATED.search(text[:1000]) if "arning" not in text else None
    return ExceptionLine(found["type"], found["text"].strip()) if found else None


def exception_repr(text: str) -> ExceptionLine | None:
    """Return the exception whose repr is the whole message, or None.

    >>> exception_repr("RuntimeError('no GPU')").text
    'no GPU'
    """
    match = _REPR.match(text)
    return ExceptionLine(match["type"], match["text"].strip("'\"")) if match else None


NUMBER = lazy_pattern(r"\d+(?:\.\d+)?")


def without_numbers(text: str) -> str:
    """Return a text with a 0 in place of each number: what ranks print of one error differs in these only.

    Example:
        >>> without_numbers("rank 3: 1.86 GiB asked")
        'rank 0: 0 GiB asked'
    """
    return NUMBER.sub("0", text)


# step:6 - reward/mean:0.31 - actor/lr:1e-06 - ...      {'loss': 0.31, 'grad_norm': 1.2, 'epoch': 0.5}
_METRICS = lazy_pattern(
    r"\{?'?[A-Za-z][\w/@.-]{0,80}'?: ?-?\d[\d.]*(?:e[-+]?\d+)?(?:(?: - |, |\s\|\s)'?[A-Za-z][\w/@.-]{0,80}'?: ?-?\d[\d.]*(?:e[-+]?\d+)?){2}"
)


def reports_metrics(text: str) -> bool:
    """Return whether a line is a list of named figures, as programs that train or evaluate print it after a step.

    >>> reports_metrics("step:6 - reward/mean:0.31 - actor/lr:1e-06"), reports_metrics("RuntimeError: size: 3, 4")
    (True, False)
    """
    return _METRICS.match(text) is not None


_FULL_LINE = 56
# ptxas app.ptx, line 9; fatal : Unsupported .version      HTTPSConnectionPool(host=
_BROKEN_OFF = lazy_pattern(r"[\w=,(]\s*\Z")


def breaks_off(text: str) -> bool:
    """Return whether a long line ends in its middle, as CMake and terminals break messages.

    Example:
        >>> breaks_off("ptxas app.ptx, line 9; fatal : Unsupported .version in the assembler"), breaks_off("fatal : version")
        (True, False)
    """
    return len(text.strip()) >= _FULL_LINE and _BROKEN_OFF.search(text) is not None


def indentation(text: str) -> int:
    """Return how many blanks a line begins with."""
    return len(text) - len(text.lstrip())


NATIVE_REACH = 60
"""Lines above a block in which text of native code belongs to it."""
# Text of libraries below Python that explains an exception printed later.
_NATIVE = lazy_pattern(
    r"Assertion [`'].{0,200} failed|ptxas|nvcc fatal|NCCL WARN|CCL_ERROR|\bXid\b|GLIBC(?:XX)?_\d|undefined symbol"
    r"|SIG(?:SEGV|ABRT|BUS|ILL|KILL|TERM)\b"
    r"|terminate called|what\(\):|Fatal Python error|[Ss]egmentation fault|Segfault encountered|core dumped|[Bb]us error"
    r"|^Killed\b|\bKilled\s|Illegal instruction|failed \(exitcode: -\d"
    r"|cannot open shared object|error while loading shared|libgomp|nrt_\w+ |HSA_STATUS"
    r"|Memory access fault|hipError|^/bin/sh:|^sh: |fatal error:"
    r"|^ninja: |: not found$|[Oo]ut of memory|No space left|Disk quota|RESOURCE_EXHAUSTED"
    r"|ProcessGroup(?:NCCL|Gloo|HCCL)\.cpp|Gloo connect"
    r"|error: |\[E\d{3}|: error |Warning: Unable to resolve hostname|PassManager|Unable to get JIT kernel"
    r"|\bCuda error\b|STATUS_|\bERR\d{5}\b|EI\d{4}"
)


# WARN 2026-05-01 10:00:18.152 system.rs:194] No attribute of device 0: error: the requested operation is not available
_NO_ERROR = lazy_pattern(r"\s*\[?(?:DEBUG|INFO|WARN(?:ING)?)\]?:? +\[?\d{4}-\d\d-\d\d[T ]")


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
    return bool(_NATIVE.search(text, 0, 2000)) and frame_line(text) is None and not _NO_ERROR.match(text)
