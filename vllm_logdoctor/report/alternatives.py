"""Actions and other ways: what a page says again in more words is said once."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.model import Change

_WORD = lazy_pattern(r"[a-z0-9_][a-z0-9_./=-]*[a-z0-9_]")
_SAYS_NOTHING = frozenset(
    [
        "the",
        "and",
        "for",
        "that",
        "with",
        "its",
        "are",
        "not",
        "one",
        "or",
        "of",
        "to",
        "in",
        "is",
        "it",
        "so",
    ]
)
_SHARE = 0.6


def in_full(change: Change, ways: Sequence[str]) -> str | None:
    """Return the way that says an action again, in more words, or None.

    Example:
        >>> look = Change("look at the node at that time", "action")
        >>> in_full(look, ["More memory for the job.", "Look at the node at that time: `dmesg -T`."])
        'Look at the node at that time: `dmesg -T`.'
        >>> in_full(Change("--max-num-seqs", "flag", None, 8), ["Lower `--max-num-seqs`."]) is None
        True
    """
    wanted = _words(change.knob)
    if change.kind != "action" or not wanted:
        return None
    alike = max(ways, key=lambda way: len(wanted & _words(way)), default="")
    return alike if len(wanted & _words(alike)) >= _SHARE * len(wanted) else None


def ways_beside(changes: Sequence[Change], ways: Sequence[str]) -> tuple[str, ...]:
    """Return the ways that no action says.

    Example:
        >>> more = Change("add prefill capacity: another replica, or shorter prompts", "action")
        >>> ways_beside([more], ["Shorter prompts.", "A faster card."])
        ('A faster card.',)
    """
    said = {in_full(change, ways) for change in changes}
    said |= {
        way
        for way in ways
        for change in changes
        if change.kind == "action" and _words(way) <= _words(change.knob)
    }
    values = [
        f"{change.knob}={change.after}"
        for change in changes
        if change.kind == "env" and change.after is not None
    ]
    return tuple(way for way in ways if way not in said and not any(value in way for value in values))


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower())) - _SAYS_NOTHING
