"""DEBUG lines sifted before the search: where they are many, nearly none of them says anything that a pattern knows.

They are searched with the gates of patterns only. A line with any hit stays among the others and is searched in
full, so that what is found does not depend on the sieve.
"""

from __future__ import annotations

import re

from vllm_logdoctor.scan.gates import GateSet

_MANY = 16
"""So many pieces full of DEBUG lines pay for an automaton of their own."""
_DENSE = 400
"""Bytes of a piece for one DEBUG line that make it full of them."""
_SAMPLE = 1 << 14
_SAMPLED_LINES = 64

# (EngineCore_DP0 pid=55) DEBUG 01-01 00:15:46 [scheduler.py:702] Scheduled 41305 tokens for request ...
_HEAD = re.compile(
    rb"(?:\([A-Za-z0-9_ ]{1,60} pid=[0-9]{1,9}\) )?DEBUG (?:[0-9]{4}-)?[0-9]{2}-[0-9]{2} (?=[0-9]{2}:)"
)


class DebugSieve:
    """Takes out DEBUG lines in which no gate of a pattern stands.

    Args:
        gates: finds the gates.
        bare: gates that lead to no pattern.
    """

    def __init__(self, gates: GateSet, bare: frozenset[int]) -> None:
        self._gates = gates
        self._bare = bare
        self._pieces = 0

    def without_dull(self, data: bytes) -> bytes:
        """Return the bytes; of each DEBUG line without a hit only its line end is left."""
        if not _is_full_of_debug(data):
            return data
        self._pieces += 1
        if self._pieces < _MANY:
            return data
        hits = self._gates.debug_hits(data, self._bare)
        if hits is None:
            return data
        lines = data.split(b"\n")
        heads = _heads_in(lines)
        others = [b"" if line.startswith(heads) else line for line in lines]
        for number in _lines_at(data, hits):
            others[number] = lines[number]
        return b"\n".join(others)


def _is_full_of_debug(data: bytes) -> bool:
    """Look at the beginning and the end of a piece: whether it is sifted changes no result."""
    seen = data[:_SAMPLE].count(b"DEBUG ") + data[-_SAMPLE:].count(b"DEBUG ")
    return seen * _DENSE > min(len(data), 2 * _SAMPLE)


def _heads_in(lines: list[bytes]) -> tuple[bytes, ...]:
    """Return what DEBUG lines begin with here, up to their date."""
    found = (_HEAD.match(line) for line in lines[:: max(1, len(lines) // _SAMPLED_LINES)])
    return tuple({match[0] for match in found if match is not None})


def _lines_at(data: bytes, ends: list[int]) -> set[int]:
    """Return the numbers of the lines on which hits end; `ends` grow."""
    numbers: set[int] = set()
    position = number = 0
    for end in ends:
        number += data.count(b"\n", position, end - 1)
        position = max(position, end - 1)
        numbers.add(number)
    return numbers
