"""Routine lines taken out of the bytes of long logs, thousands at once: lines of known shapes, and lines known to be dull.

What is left is searched as in short logs, so that what is found does not depend on any of this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vllm_logdoctor.scan.accesses import AccessKey
from vllm_logdoctor.scan.gates import GateSet
from vllm_logdoctor.scan.lines import LineColumns, Offsets
from vllm_logdoctor.scan.routine import Kind, RequestLine, RequestLines, Stretch, WithoutRoutine
from vllm_logdoctor.scan.shapes import NO_CODE, AccessShapes, Codes, DebugHeads, RequestShapes
from vllm_logdoctor.scan.skeletons import DULL, DULL_IF_DEBUG, Skeletons
from vllm_logdoctor.scan.structure import is_full_of_debug

_DULL_CODE = NO_CODE + 1
_MOST_MEANINGS = 180
"""Kinds of request lines, one for each writer, that leave room in a byte for the shapes of access lines."""


class _Meanings:
    """What the codes of routine lines mean; a code fits a byte."""

    def __init__(self) -> None:
        self._meanings: list[Kind | AccessKey | None] = [None, None]

    def of(self, codes: bytes) -> list[tuple[int, Kind | AccessKey]]:
        """Return the codes that occur, with their meanings."""
        told = ((code, self._meanings[code]) for code in sorted(set(codes)))
        return [(code, meaning) for code, meaning in told if meaning is not None]

    def code_of(self, meaning: Kind | AccessKey) -> int:
        """Return the code of a meaning, a new one where it has none."""
        if meaning not in self._meanings:
            self._meanings.append(meaning)
        return self._meanings.index(meaning)

    def have_room(self, lines: Sequence[RequestLine]) -> bool:
        """Say whether each kind of some request lines has a code or can get one; access lines keep theirs."""
        return len({line.kind for line in lines}.union(self._meanings)) <= _MOST_MEANINGS


@dataclass(frozen=True, slots=True)
class WithoutRoutineLines:
    """Bytes without their routine lines; see `scan.routine.WithoutRoutine`.

    Attributes:
        lines: the bytes as they stood.
        rest: the bytes without them.
        left: the lines in `rest` among all lines.
        numbers: the routine lines among all lines, int64.
        codes: what each routine line is, a byte for each.
        meanings: the codes that occur, with what they mean.
    """

    lines: LineColumns
    rest: bytes
    left: list[int]
    numbers: Offsets
    codes: bytes
    meanings: Sequence[tuple[int, Kind | AccessKey]]

    def line_ends(self) -> int:
        """Return how many line ends there were."""
        return len(self.lines.ends) - (not self.lines.data.endswith(b"\n"))

    def total(self) -> int:
        """Return how many routine lines there are."""
        return len(self.numbers)

    def number_of(self, place: int) -> int:
        """Return the number of the line that is number `place` in the rest."""
        return self.left[place]

    def before(self, place: int, start: int) -> int:
        """Return how many routine lines stand before the line that is number `place` in the rest."""
        return self.left[place] - place

    def stretches(self, low: int, high: int) -> Iterator[Stretch]:
        """Yield the kinds of request lines among the routine lines number low .. high - 1, in order of their first lines."""
        found = [
            Stretch(kind, count, self.codes.find(code, low, high), self.codes.rfind(code, low, high))
            for code, kind, count in self._counted(low, high)
            if len(kind) == 2
        ]
        yield from sorted(found, key=lambda stretch: stretch.first)

    def accesses(self, low: int, high: int) -> Counter[AccessKey]:
        """Count the access lines among the routine lines low .. high - 1."""
        return Counter({key: count for _, key, count in self._counted(low, high) if len(key) == 3})

    def _counted(self, low: int, high: int) -> Iterator[tuple[int, Kind | AccessKey, int]]:
        """Yield each code among some routine lines, its meaning, and how many have it."""
        for code, meaning in self.meanings:
            count = self.codes.count(code, low, high)
            if count:
                yield code, meaning, count

    def line(self, routine: int, longest: int) -> tuple[int, bytes]:
        """Return the number of a routine line, and the line cut behind so many bytes."""
        number = int(self.numbers[routine])
        return number, self.lines.line(number)[:longest]


class RoutineColumns:
    """Takes routine lines out of bytes; it learns their shapes as it goes.

    Args:
        gates: finds the gates.
        bare: gates that are nothing to anybody in DEBUG records.
        requests: finds request lines of any shape.
    """

    def __init__(self, gates: GateSet, bare: frozenset[int], requests: RequestLines) -> None:
        self._gates = gates
        self._requests = requests
        self._meanings = _Meanings()
        self._access_shapes = AccessShapes(gates.texts, lambda line: bool(gates.scan(line + b"\n")))
        self._request_shapes = RequestShapes()
        self._debug_heads = DebugHeads()
        self._skeletons = Skeletons(gates.texts, bare)
        self._narrowed = 0

    def taken_out(self, data: bytes) -> WithoutRoutine:
        """Take the routine lines out of bytes.

        Args:
            data: eight bytes or more.
        """
        lines = LineColumns.of(data)
        codes: Codes = np.full(len(lines.starts), NO_CODE, np.uint8)
        self._access_shapes.mark(lines, codes)
        self._request_shapes.mark(lines, codes)
        if is_full_of_debug(data) and _is_plain(data):
            self._mark_dull(lines, codes)
        found = self._without(lines, codes)
        more = self._requests.found(found.rest)
        if more and not self._meanings.have_room(more):
            return self._requests.taken_out(data)
        if more:
            self._mark_requests(lines, codes, found.left, more)
            self._request_shapes.learn(found.rest, more, self._meanings.code_of)
            found = self._without(lines, codes)
        self._access_shapes.learn(found.rest, self._meanings.code_of)
        return found

    def _mark_dull(self, lines: LineColumns, codes: Codes) -> None:
        for gate, regexes in self._gates.narrowings[self._narrowed :]:
            self._skeletons.narrow(gate, regexes)
        self._narrowed = len(self._gates.narrowings)
        verdicts = self._skeletons.of_lines(lines.data)[: len(codes)]
        said = np.frombuffer(verdicts, np.uint8)
        codes[(said == DULL) & (codes == NO_CODE)] = _DULL_CODE
        perhaps = np.flatnonzero((said == DULL_IF_DEBUG) & (codes == NO_CODE))
        codes[perhaps[self._debug_heads.among(lines, perhaps)]] = _DULL_CODE

    def _mark_requests(
        self, lines: LineColumns, codes: Codes, left: Sequence[int], found: Sequence[RequestLine]
    ) -> None:
        """Write the codes of request lines that were found in the rest of the lines."""
        numbers = np.array(left)
        lengths = (lines.ends - lines.starts)[numbers] + 1
        starts_in_rest = np.cumsum(lengths) - lengths
        places = np.searchsorted(starts_in_rest, [line.start for line in found])
        codes[numbers[places]] = [self._meanings.code_of(line.kind) for line in found]

    def _without(self, lines: LineColumns, codes: Codes) -> WithoutRoutineLines:
        is_left = codes == NO_CODE
        left, numbers = np.flatnonzero(is_left), np.flatnonzero(~is_left)
        gaps = np.flatnonzero(left[1:] - left[:-1] != 1)
        firsts, lasts = np.append(left[:1], left[gaps + 1]), np.append(left[gaps], left[-1:])
        starts, ends = lines.starts[firsts].tolist(), (lines.ends[lasts] + 1).tolist()
        rest = b"".join([lines.data[start:end] for start, end in zip(starts, ends, strict=True)])
        written = codes[numbers].tobytes()
        return WithoutRoutineLines(lines, rest, left.tolist(), numbers, written, self._meanings.of(written))


def _is_plain(data: bytes) -> bool:
    """Say whether framing leaves the texts of lines as they are, so that what stands in them tells what patterns see."""
    return data.isascii() and b"\x1b" not in data and b"\r" not in data
