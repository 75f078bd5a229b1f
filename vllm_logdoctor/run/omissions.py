"""Marks by which whoever copied a log says that lines are left out: nothing shows by where such a copy ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.run.model import Run

# ...      [...]      (...)      <...>      …
_DOTS = lazy_pattern(r"[\[(<]?(?:\.{3,12}|…{1,4})[\])>]?")
# <snip>      [120 lines omitted]      --- rest of the output truncated ---      ... (same lines left out) ...
_WORDS = lazy_pattern(
    r"(?i)[\[(<{*#=.…\s-]{1,12}(?:[\w ]{0,30}\b)?(?:snip(?:ped)?|omitted|truncated|elided|left out)(?: [\w ]{1,30})?[\])>}*#=.…\s-]{1,12}"
)
_PROGRESS = lazy_pattern(r"^\.{13,}|(?i:neuron)|^Compiler status ")
"""Who prints dots while it works: the Neuron compiler, and tools that wait."""
_PROMPTS = (">>> ", "... ")
"""A shell of Python prints dots for an empty line of a block."""


def omissions(records: Sequence[Record]) -> Iterator[Record]:
    """Yield the lines that say that others are left out."""
    dots_are_progress = any(_PROGRESS.search(one.message) for one in records)
    for before, record in zip((None, *records), records, strict=False):
        if record.level or not is_mark(record.text):
            continue
        of_shell = before is not None and before.text.startswith(_PROMPTS)
        if not (_DOTS.fullmatch(record.text.strip()) and (dots_are_progress or of_shell)):
            yield record


def is_mark(text: str) -> bool:
    """Return whether a line says that others are left out; an indented one belongs to the text that was copied.

    Example:
        >>> [is_mark(one) for one in ("...", "[...]", "<snip>", "[12 lines omitted]", "   (...)", "Loading ...")]
        [True, True, True, True, False, False]
    """
    line = text.rstrip()
    return bool(_DOTS.fullmatch(line) or (not line[:1].isspace() and _WORDS.fullmatch(line)))


def last_omission(run: Run) -> Record | None:
    """Return the mark that ends a copy of a log, or None where its last line is one of the log."""
    last = run.tail[-1:] if run.last_of_file else []
    return last[0] if last and last[0] in list(omissions(run.tail)) else None
