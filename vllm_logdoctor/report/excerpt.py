"""The part of a line that says it: without its header, and around the setting in question."""

from __future__ import annotations

import re
from collections.abc import Iterable

# (EngineCore_DP0 pid=123) INFO 04-12 07:11:48 [utils.py:233] text
_HEADER = re.compile(
    r"^(?:\([^()]{1,80}\) ){0,3}(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):? )?"
    r"(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)? \[[\w./-]+(?:\.py)?:\d+\] "
)


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
    said = " ".join(_HEADER.sub("", text, count=1).split()) or " ".join(text.split())
    if len(said) <= limit:
        return said
    at = next((found for knob in knobs if (found := _place(said, knob)) >= 0), -1)
    start = max(0, at - limit // 4) if at >= 0 else 0
    start = min(start, max(0, len(said) - limit + 1))
    end = start + limit - 1 - (1 if start else 0)
    return ("…" if start else "") + said[start:end] + ("…" if end < len(said) else "")


def _place(text: str, knob: str) -> int:
    bare = knob.lstrip("-").split("=")[0].removeprefix("no-")
    if len(bare) < 3:
        return -1
    found = [place for name in (bare.replace("-", "_"), bare) if (place := text.find(name)) >= 0]
    return min(found, default=-1)
