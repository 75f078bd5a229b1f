"""Lines known to be dull by what is left of them without digits and the letters a to f.

Lines that differ in numbers, times and request ids leave the same skeleton. Where a text holds a gate, the skeleton of the
text holds the skeleton of the gate: so a skeleton without any speaks for all lines that leave it. It is looked at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import itemgetter

from vllm_logdoctor.scan.required import required_texts, speaks_of_framing
from vllm_logdoctor.scan.structure import EXPRESSION_WORDS, LITERALS
from vllm_logdoctor.texts import TextIndex

_LEFT_OUT = b"0123456789abcdef"
_MOST = 8192
_LONGEST = 2000

STAYS, DULL, DULL_IF_DEBUG, PERHAPS_COUNTED = range(4)

# What access lines and request lines are counted by, and what framing takes off before patterns are tried.
_OTHERS = (b"HTTP/", b"Received request ", b"Added request ", b"Finished request ", b"[0m")

# (EngineCore_DP0 pid=55) DEBUG 01-01 00:15:46 [scheduler.py:702] Scheduled 41305 tokens for request ...
_DEBUG = re.compile(rb"(?:\([A-Zg-z_ ]{0,60} pi=\) )?DEBUG -{1,2} ::")


def mask_variables(text: bytes) -> bytes:
    """Return a text without digits and the letters a to f.

    Example:
        >>> skeleton(b"Freed block 17 of chatcmpl-3fa9")
        b'Fr lok  o htmpl-'
    """
    return text.translate(None, _LEFT_OUT)


class LineTemplates(dict[bytes, int]):
    """What each skeleton says of the lines that leave it: `STAYS`, `DULL`, `DULL_IF_DEBUG`, or `PERHAPS_COUNTED`.

    Args:
        gates: the literal gates.
        bare: gates that lead to no pattern; in DEBUG records they are nothing to anybody.
    """

    def __init__(self, gates: Sequence[str], bare: frozenset[int]) -> None:
        super().__init__()
        self._bare = bare
        self._never: dict[int, list[tuple[bytes, ...]]] = {}
        self._gates = TextIndex([mask_variables(gate.encode()) for gate in (*gates, *LITERALS)])
        self._counted: set[bytes] = set()
        self._words = [mask_variables(word) for word in (*(w.encode() for w in EXPRESSION_WORDS), *_OTHERS)]

    def __missing__(self, text: bytes) -> int:
        if len(self) >= _MOST or len(text) > _LONGEST:
            return STAYS
        verdict = self[text] = self._verdict(text)
        return verdict

    def of_lines(self, data: bytes) -> bytes:
        """Return what the skeleton of each line says, a byte for each line; what stands behind the last line end is a line."""
        texts = mask_variables(data).split(b"\n")
        return bytes(itemgetter(*texts)(self)) if len(texts) > 1 else bytes([self[texts[0]]])

    def narrow(self, gate: int, regexes: Sequence[str]) -> None:
        """Note the regexes of the patterns that a gate leads to: where none can match, the gate is nothing."""
        required = [required_texts(regex) for regex in regexes]
        if all(required) and not any(map(speaks_of_framing, regexes)):
            self._never[gate] = [tuple(mask_variables(text.encode()) for text in texts) for texts in required]
            self.clear()

    def learn(self, line: bytes) -> None:
        """Note a line of a kind that is only counted; its digits may be left out."""
        text = mask_variables(line)
        self._counted.add(text)
        self.pop(text, None)

    def _verdict(self, text: bytes) -> int:
        if text in self._counted:
            return PERHAPS_COUNTED
        if any(word in text for word in self._words):
            return STAYS
        gates = [gate for gate in self._gates.found_in(text) if not self._leads_nowhere(gate, text)]
        if not gates:
            return DULL
        return DULL_IF_DEBUG if self._bare.issuperset(gates) and _DEBUG.match(text) else STAYS

    def _leads_nowhere(self, gate: int, text: bytes) -> bool:
        regexes = self._never.get(gate)
        return regexes is not None and all(any(one not in text for one in texts) for texts in regexes)
