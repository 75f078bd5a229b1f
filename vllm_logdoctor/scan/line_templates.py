"""DEBUG lines that nothing asks for, recognised by their template before they are searched.

Lines that differ in numbers, times and request ids leave the same template: the line without digits and the letters a to f.
Where a text holds a literal, the template of the text holds the template of the literal; so a template without any speaks for
all lines that leave it, and is looked at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import itemgetter

from vllm_logdoctor.scan.structure import DEBUG_HEADER, EXPRESSION_WORDS, LITERALS
from vllm_logdoctor.texts import TextIndex

_VARIABLE = b"0123456789abcdef"
_MOST = 8192
_LONGEST = 2000

SKIP, KEEP, SKIP_IF_DEBUG = range(3)
"""The verdict on a template: so many bytes of a line must be a known header for the line to be skipped (none, never, some)."""
_SAMPLED = 8
_MOST_HEADERS = 4096

# What access lines and request lines are counted by, and the colour codes that the parser takes off before patterns are tried.
_OTHERS = (b"HTTP/", b"Received request ", b"Added request ", b"Finished request ", b"[0m")

# (EngineCore_DP0 pid=55) DEBUG 01-01 00:15:46 [scheduler.py:702] Scheduled 41305 tokens for request ...
_DEBUG_RECORD = re.compile(rb"(?:\([A-Za-z0-9_ ]{0,60} pid=[0-9]{1,9}\) )?" + DEBUG_HEADER.encode())
_DEBUG_TEMPLATE = re.compile(rb"(?:\([A-Zg-z_ ]{0,60} pi=\) )?DEBUG -{1,2} :")


def mask_variables(text: bytes) -> bytes:
    """Return a text without digits and the letters a to f.

    Example:
        >>> mask_variables(b"Freed block 17 of chatcmpl-3fa9")
        b'Fr lok  o htmpl-'
    """
    return text.translate(None, _VARIABLE)


class LineTemplates(dict[bytes, int]):
    """Decides per template whether its lines are skipped: `KEEP`, `SKIP`, or `SKIP_IF_DEBUG` and above.

    Args:
        literals: the literals of all patterns and rule pages.
        pages_only: literals of rule pages alone, which ask nothing of DEBUG records.
    """

    def __init__(self, literals: Sequence[str], pages_only: frozenset[int]) -> None:
        super().__init__()
        self._pages_only = pages_only
        self._headers = {b""}
        self._literals = TextIndex([mask_variables(text.encode()) for text in (*literals, *LITERALS)])
        self._words = [mask_variables(word) for word in (*(w.encode() for w in EXPRESSION_WORDS), *_OTHERS)]

    def __missing__(self, text: bytes) -> int:
        if len(self) >= _MOST or len(text) > _LONGEST:
            return KEEP
        verdict = self[text] = self._verdict(text)
        return verdict

    def without_skipped(self, data: bytes) -> bytes:
        """Return the text with the lines that nothing asks for empty, so that line numbers stay."""
        templates = mask_variables(data).split(b"\n")
        if len(templates) < 2:
            return data
        lines = data.split(b"\n")
        verdicts = itemgetter(*templates)(self)
        self._learn_headers(lines[::_SAMPLED], templates[::_SAMPLED], verdicts[::_SAMPLED])
        headers = self._headers
        # One expression for all verdicts, because there are a million of these lines in a hundred megabytes.
        pairs = zip(lines, verdicts, strict=True)
        return b"\n".join([b"" if line[:verdict] in headers else line for line, verdict in pairs])

    def _learn_headers(
        self, lines: Sequence[bytes], templates: Sequence[bytes], verdicts: Sequence[int]
    ) -> None:
        """Note the headers of DEBUG records, with the date and the hour; a template can't tell digits from letters."""
        if len(self._headers) > _MOST_HEADERS:
            self._headers = {b""}
        for line, template, verdict in zip(lines, templates, verdicts, strict=True):
            found = _DEBUG_RECORD.match(line) if verdict > KEEP else None
            if found is not None:
                self[template] = found.end()
                self._headers.add(found[0])

    def _verdict(self, text: bytes) -> int:
        if any(word in text for word in self._words):
            return KEEP
        found = self._literals.found_in(text)
        if not found:
            return SKIP
        header = _DEBUG_TEMPLATE.match(text)
        if header is None or not self._pages_only.issuperset(found) or self._literals.found_in(header[0]):
            return KEEP
        return SKIP_IF_DEBUG
