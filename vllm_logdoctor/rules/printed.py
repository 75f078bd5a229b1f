"""Lines to look for, in the words of the release and engine that ran: V0 and V1 print the same thing in other words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from vllm_logdoctor.knowledge.messages import VllmMessage, message_table
from vllm_logdoctor.knowledge.versions import (
    at_least,
    is_older_than_known,
    known_versions,
    number_of,
    release_number,
)
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.run.blockphase import step_of_message
from vllm_logdoctor.run.identity import release_ends
from vllm_logdoctor.run.lifecycle import trail_of
from vllm_logdoctor.run.model import Outcome, Run

_SIZE = "`GPU KV cache size`"
_LOADED = "`Model loading took N GiB`"
_BLOCKS_NAMED_BY_DEVICE = "0.7.0"
_SIZE_IN_TOKENS = "0.8.0"
_SIZE_BY_DEVICE = "0.30.0"
_V1_BY_DEFAULT = "0.8.0"
_V0_GONE = "0.11.0"
_SCHEDULING_ON = "`Asynchronous scheduling is enabled.` at the start"
_SCHEDULING_SAID_IF_OFF = "0.27.0"
_ARGUMENT_GONE = "the arguments at the start no longer name `async_scheduling`"
_NOT_SAID_OFF = "no line at the start says that asynchronous scheduling is disabled"
_SERVERS_ONLY = "`Application startup complete`"
_NAMED = lazy_pattern(r"`([^`]+)`")
# Then `GPU KV cache size` (engine V0: `# GPU blocks`) is printed.
_OTHER_ENGINE = lazy_pattern(r" \(engine V0: [^)]*\)")
# rank N in world size M is assigned      Using cache directory: ... for vLLM's torch.compile
_HOLE = lazy_pattern(r"\b[NM]\b|\.\.\.")
# `Application startup complete`.      `Loading model weights took N GB` on every rank.
_BARE_LINE = lazy_pattern(r"`(?P<line>[A-Z][^`]+)`(?P<where> on every rank)?\.")
# File "/opt/lib/python3.10/site-packages/vllm/entrypoints/llm.py", line 242, in __init__
_OF_CLASS = lazy_pattern(
    r"/vllm/entrypoints/(?:offline/)?llm\.py\", line \d+, in (?:__init__|generate|chat)\b"
)
_LEAST = 10
"""Characters by which a line is known: shorter ones are words such as Running."""


def as_printed(text: str, run: Run) -> str:
    """Return what to look for with the lines that the run's release prints.

    V0 prints the cache in blocks, waiting requests as pending ones and accepted drafts as an efficiency, V1 did the first before 0.8.0 too.

    Example:
        >>> from vllm_logdoctor.run.model import Value
        >>> old = Run(version=Value("0.6.3", "reported"), engine="V0", platform="cuda")
        >>> as_printed("Then `GPU KV cache size`, and `Waiting` at 0.", old)
        'Then `# GPU blocks`, and `Pending` at 0.'
        >>> as_printed("Then `GPU KV cache size`.", Run(version=Value("0.11.2", "reported"), engine="V1"))
        'Then `GPU KV cache size`.'
    """
    version = run.release
    if at_least(version, _SCHEDULING_SAID_IF_OFF):
        # A line says that vLLM switched it off, none that an argument did.
        by_argument = "async_scheduling" in run.arguments
        text = text.replace(_SCHEDULING_ON, _ARGUMENT_GONE if by_argument else _NOT_SAID_OFF)
    engine = run.engine or _usual_engine(version)
    if at_least(version, _SIZE_IN_TOKENS) is False:
        text = text.replace(_LOADED, "`Loading model weights took N GB`")
        text = text.replace("in `Loading weights took`", "up to `Loading model weights took`")
    if engine == "V0":
        return (
            text.replace(_SIZE, f"`# {_device(run, version)} blocks`")
            .replace("`Waiting`", "`Pending`")
            .replace("`Mean acceptance length`", "`System efficiency`")
        )
    if engine == "V1" and at_least(version, _SIZE_IN_TOKENS) is False:
        return text.replace(_SIZE, "`# GPU blocks`")
    if at_least(version, _SIZE_BY_DEVICE):
        # The word before it is that of the device, or of each pool.
        return text.replace(_SIZE, "`KV cache size`")
    if engine is None:
        return text.replace(_SIZE, f"{_SIZE} (engine V0: `# GPU blocks`)")
    return text


def _device(run: Run, version: str | None) -> str:
    """Return how V0 names the device: as a word of its own at first, later by the name of the platform."""
    platform = run.platform or "cuda"
    if at_least(version, _BLOCKS_NAMED_BY_DEVICE):
        return platform
    return "GPU" if platform in ("cuda", "rocm") else platform.upper()


def _usual_engine(version: str | None) -> str | None:
    """Return the engine of a release that does not print it, None where it has both."""
    if at_least(version, _V1_BY_DEFAULT) is False:
        return "V0"
    return "V1" if at_least(version, _V0_GONE) else None


def check_of_failure(text: str, run: Run, outcome: Outcome) -> str:
    """Return what shows that a failure is gone, or "" where that is only that the step succeeds.

    A line that the failed run prints already, or that its release does not print, shows nothing.

    Example:
        >>> from vllm_logdoctor.run.model import Value
        >>> old = Run(version=Value("0.8.5", "reported"), kind="server")
        >>> check_of_failure("`pip check` names no conflict.", old, "crashed_at_startup")
        '`pip check` names no conflict.'
        >>> check_of_failure("`Resolved architecture: ...` names it.", old, "crashed_at_startup")
        ''
    """
    named = _NAMED.findall(_OTHER_ENGINE.sub("", text))
    served = outcome == "crashed_while_serving" or run.startup_complete
    if not named or any(_is_no_check(line, run, served) for line in named):
        return ""
    bare = _BARE_LINE.fullmatch(text)
    return f"The new log has the line `{bare['line']}`{bare['where'] or ''}." if bare else text


def shows_class(run: Run) -> bool:
    """Return whether a traceback passes through vLLM's class for programs, which serves nothing."""
    return any(_OF_CLASS.search(record.message) for record in trail_of(run) if 'File "' in record.message)


def _is_no_check(line: str, run: Run, served: bool) -> bool:
    """Return whether a line can't show that a failure is gone: the run got past it, or its release doesn't print it."""
    if f"`{line.rstrip('.')}`" == _SERVERS_ONLY:
        return served or run.kind not in ("server", "unknown") or shows_class(run)
    pieces = _HOLE.split(line)
    literal = max(pieces, key=len).strip()
    if len(literal) < _LEAST:
        return False
    logged = message_table().logged_with(literal)
    if logged and (served or not _can_print(logged, run)):
        return True
    step = step_of_message(line)
    wanted = re.compile(".*?".join(map(re.escape, pieces)))
    return any(wanted.search(text) or (step and step_of_message(text) > step) for text in _messages_of(run))


def _messages_of(run: Run) -> Iterator[str]:
    events = (event for seen in run.messages.values() for event in (*seen.first, seen.last) if event)
    yield from (event.record.message for event in events)
    yield from (record.message for record in trail_of(run))


def _can_print(logged: Sequence[VllmMessage], run: Run) -> bool:
    """Return whether all releases that may have run print one of some messages at INFO."""
    spans = [
        span
        for message in logged
        if message.level != "debug" and not (run.engine == "V0" and message.module.startswith("v1/"))
        for span in message.spans
    ]
    return all(any(first <= number <= last for first, last, *_ in spans) for number in _releases(run))


def _releases(run: Run) -> range:
    """Return the numbers of the releases that may have run."""
    ends = release_ends(run.version) if run.version else ()
    numbers = [0 if is_older_than_known(end) else release_number(end) for end in ends]
    known = [number for number in numbers if number is not None]
    if known and len(known) == len(numbers):
        return range(known[0], known[-1] + 1)
    return range(number_of(_V1_BY_DEFAULT) if run.engine == "V1" else 0, len(known_versions()))
