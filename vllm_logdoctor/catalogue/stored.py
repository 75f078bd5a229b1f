"""The file of compiled packs: a head, sections that are read when they are asked for, a line of JSON for each pattern.

Every start reads it, and one log asks for a few dozen of ten thousand patterns. So nothing is parsed that is as long
as the packs are many: numbers stand as arrays, gates and shared texts are taken apart at their first use.
"""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, overload

FORMAT = 4

_SECTIONS = ("gates", "leads", "starts", "shared")


class StoredGates(Sequence[str]):
    """The gates in order, one on each line of a section."""

    __slots__ = ("_count", "_gates", "_text")

    def __init__(self, text: bytes, count: int) -> None:
        self._text = text
        self._count = count
        self._gates: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, number: int) -> str: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[str, ...]: ...
    def __getitem__(self, number: int | slice) -> str | tuple[str, ...]:
        return self._all()[number]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def _all(self) -> tuple[str, ...]:
        if self._gates is None:
            self._gates = tuple(self._text.decode().split("\n")) if self._count else ()
        return self._gates


class StoredLeads(Sequence[tuple[int, ...]]):
    """Numbers of the patterns that each gate leads to: nearly every gate leads to one, which then stands by itself."""

    __slots__ = ("_leads", "_several")

    def __init__(self, leads: Sequence[int], several: Sequence[Sequence[int]]) -> None:
        self._leads = leads
        self._several = several

    def __len__(self) -> int:
        return len(self._leads)

    @overload
    def __getitem__(self, gate: int) -> tuple[int, ...]: ...
    @overload
    def __getitem__(self, gate: slice) -> tuple[tuple[int, ...], ...]: ...
    def __getitem__(self, gate: int | slice) -> tuple[int, ...] | tuple[tuple[int, ...], ...]:
        if isinstance(gate, slice):
            return tuple(self[number] for number in range(*gate.indices(len(self))))
        lead = self._leads[gate]
        return (lead,) if lead >= 0 else tuple(self._several[-1 - lead])


class StoredRows:
    """The rows of all patterns, and the texts that many of them share."""

    __slots__ = ("_begin", "_data", "_shared", "_shared_text", "_starts")

    def __init__(self, data: bytes, begin: int, starts: Sequence[int], shared: bytes) -> None:
        self._data = data
        self._begin = begin
        self._starts = starts
        self._shared_text = shared
        self._shared: list[str] | None = None

    def __len__(self) -> int:
        return len(self._starts)

    def row(self, number: int) -> list[Any]:
        """Return what stands for a pattern."""
        start = self._begin + self._starts[number]
        row: list[Any] = json.loads(self._data[start : self._data.index(b"\n", start)])
        return row

    @property
    def shared(self) -> list[str]:
        """Texts by the numbers under which rows name them."""
        if self._shared is None:
            self._shared = json.loads(self._shared_text)
        return self._shared


class Stored:
    """A file of compiled packs, taken apart no further than it has to be."""

    def __init__(self, data: bytes) -> None:
        end = data.index(b"\n")
        head = json.loads(data[:end])
        sections: dict[str, bytes] = {}
        for name, length in zip(_SECTIONS, head["lengths"], strict=True):
            sections[name] = data[end + 1 : end + 1 + length]
            end += 1 + length
        leads = _numbers(sections["leads"])
        self.digest: str = head["digest"]
        self.signatures: frozenset[int] = frozenset(head["signatures"])
        self.gates = StoredGates(sections["gates"], len(leads))
        self.leads = StoredLeads(leads, head["several"])
        self.rows = StoredRows(data, end + 1, _numbers(sections["starts"]), sections["shared"])


def stored(
    head: Mapping[str, Any], leads_of: Mapping[str, Sequence[int]], rows: Iterable[Any], shared: Sequence[str]
) -> bytes:
    """Return the file of compiled packs.

    Args:
        head: what is read first; it begins with `format`, `sources` and `count`.
        leads_of: numbers of patterns by gate, in order of the gates.
        rows: what stands for each pattern.
        shared: texts that rows name by number.
    """
    lines = [_dumped(row) + b"\n" for row in rows]
    several = [numbers for numbers in leads_of.values() if len(numbers) != 1]
    places = iter(range(-1, -1 - len(several), -1))
    leads = [numbers[0] if len(numbers) == 1 else next(places) for numbers in leads_of.values()]
    sections = (
        "\n".join(leads_of).encode(),
        _encoded(leads),
        _encoded([0, *accumulate(map(len, lines))][: len(lines)]),
        _dumped(shared),
    )
    whole_head = _dumped({**head, "several": several, "lengths": list(map(len, sections))})
    return b"\n".join([whole_head, *sections, b"".join(lines)])


def _dumped(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _encoded(numbers: Iterable[int]) -> bytes:
    """Write numbers as hexadecimal digits, four bytes each, the least one first on every machine."""
    return _least_first(array("i", numbers)).tobytes().hex().encode()


def _numbers(digits: bytes) -> array[int]:
    numbers = array("i")
    numbers.frombytes(bytes.fromhex(digits.decode()))
    return _least_first(numbers)


def _least_first(numbers: array[int]) -> array[int]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
