"""The part of a line that says it: without its header, and around the setting in question."""

from __future__ import annotations

from collections.abc import Iterable

from vllm_logdoctor.lazy import lazy_pattern

# (EngineCore_DP0 pid=123) INFO 04-12 07:11:48 [utils.py:233] text
# (Replica(id=3f0) pid=77) INFO 04-12 07:11:48.120 [loggers.py:146] text
# ERROR 04-20 20:40:11 worker_base.py:153] text
# [2025-05-20T05:24:28Z] (VllmWorker rank=0 pid=10229) ERROR 05-19 22:24:28 [multiproc_executor.py:522] text
_HEADER = lazy_pattern(
    r"^(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]? ){0,2}"
    r"(?:\[rank\d+\]: ?)?(?:\((?:[^()]|\([^()]{0,40}\)){1,80}\) ){0,3}(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):? )?"
    r"(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)? \[?[\w./-]+(?:\.py)?:\d+\] "
)
# [2025-05-21T18:59:44Z] RuntimeError: ...      [2025-04-03T16:08:35Z] E           json.decoder.JSONDecodeError: ...
# [2025-03-05 14:28:45,821] [ERROR] [MainThread] [vllm.worker.worker_base] >>> RuntimeError: ...
_STAMP = lazy_pattern(
    r"^(?:\[\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?\] )?"
    r"(?:\[(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\] (?:\[[\w.-]{1,40}\] )?\[vllm[\w.]{0,120}\] (?:>>> |[-:] )?)?"
)
# [rank0]: text      (EngineCore pid=4140) text      E       KeyError: 'a' (pytest)      >       assert a (pytest)
_RANK = lazy_pattern(
    r"^(?:\[rank\d{1,4}\]: ?|[E>] {3,}(?=\S)|\([A-Za-z]\w{2,40}(?: [\w=.:-]{1,40}){0,2} pid=\d+\) )"
)
_IN_WORD = lazy_pattern(r"[\w.][\w.%]")


def excerpt(text: str, knobs: Iterable[str] = (), limit: int = 180) -> str:
    """Return what a line says in at most `limit` characters.

    Args:
        text: the line.
        knobs: settings that the reader wants to see of it; the first that the line holds is in the middle.
        limit: most characters.

    Example:
        >>> excerpt("INFO 04-12 07:11:48 [utils.py:233] non-default args: {'a': 1}")
        "non-default args: {'a': 1}"
        >>> excerpt("x" * 50 + " 'max_num_seqs': 1, " + "y" * 50, ["--max-num-seqs"], 40)
        "…xxxxxxxx 'max_num_seqs': 1, yyyyyyyyyy…"
    """
    said = " ".join(_RANK.sub("", _STAMP.sub("", _HEADER.sub("", text, count=1))).split()) or " ".join(
        text.split()
    )
    if len(said) <= limit:
        return said
    at = next((found for knob in knobs if (found := _place(said, knob)) >= 0), -1)
    start = max(0, at - limit // 4) if at >= 0 else 0
    start = min(start, max(0, len(said) - limit + 1))
    end = start + limit - 1 - (1 if start else 0)
    return ("…" if start else "") + _whole_words(said, start, end) + ("…" if end < len(said) else "")


def _whole_words(text: str, start: int, end: int) -> str:
    """Return a part of a text without a torn last word: half a number is another number."""
    part = text[start:end]
    if end >= len(text) or not _IN_WORD.match(text, end - 1):
        return part.rstrip()
    kept = part.rpartition(" ")[0].rstrip()
    return kept if len(kept) > len(part) * 3 // 4 else part


def _place(text: str, knob: str) -> int:
    bare = knob.lstrip("-").split("=")[0].removeprefix("no-")
    if len(bare) < 3:
        return -1
    found = [place for name in (bare.replace("-", "_"), bare) if (place := text.find(name)) >= 0]
    return min(found, default=-1)
