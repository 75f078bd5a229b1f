"""Routine lines taken out of the bytes of long logs, thousands at once: lines of known shapes, and lines known to be dull.

What is left is searched as in short logs, so that what is found does not depend on any of this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct

from vllm_logdoctor.scan.accesses import AccessKey
from vllm_logdoctor.scan.debug_lines import DebugKind, DebugLines
from vllm_logdoctor.scan.line_templates import DULL, DULL_IF_DEBUG, PERHAPS_COUNTED, LineTemplates
from vllm_logdoctor.scan.prefilter import Prefilter
from vllm_logdoctor.scan.request_lines import Kind, RequestLine, RequestLines, Residue, Stretch
from vllm_logdoctor.scan.structure import is_full_of_debug, is_plain
from vllm_logdoctor.scan.vector_lines import LineColumns, Offsets
from vllm_logdoctor.scan.vector_templates import (
    FEW,
    NO_CODE,
    AccessShapes,
    Codes,
    CountedShapes,
    DebugHeads,
    RequestShapes,
)

_DULL_CODE = NO_CODE + 1
_MOST_KINDS = 180
"""Kinds of request and DEBUG lines, one for each writer, that leave room in a byte for the shapes of access lines."""


class _Meanings:
    """What the codes of routine lines mean; a code fits a byte."""

    def __init__(self) -> None:
        self.requests: dict[Kind, int] = {}
        self.debug: dict[DebugKind, int] = {}
        self.accesses: dict[AccessKey, int] = {}

    def code_of_request(self, kind: Kind) -> int:
        """Return the code of request lines of a kind, a new one where they have none."""
        return self.requests.setdefault(kind, self._next())

    def code_of_access(self, key: AccessKey) -> int:
        """Return the code of access lines, a new one where they have none."""
        return self.accesses.setdefault(key, self._next())

    def code_of_debug(self, kind: DebugKind) -> int:
        """Return the code of DEBUG lines of a kind; none where there is no room for a new one."""
        if kind not in self.debug and len(self.requests) + len(self.debug) >= _MOST_KINDS:
            return NO_CODE
        return self.debug.setdefault(kind, self._next())

    def have_room(self, lines: Sequence[RequestLine]) -> bool:
        """Say whether each kind of some request lines has a code or can get one; access lines keep theirs."""
        return len({line.kind for line in lines}.union(self.requests)) + len(self.debug) <= _MOST_KINDS

    def _next(self) -> int:
        return _DULL_CODE + 1 + len(self.requests) + len(self.debug) + len(self.accesses)


class VectorResidue(Struct, frozen=True):
    """Bytes without their routine lines; see `scan.request_lines.Residue`.

    Attributes:
        lines: the bytes as they stood.
        rest: the bytes without them.
        left: the lines in `rest` among all lines.
        numbers: the routine lines among all lines, int64.
        codes: what each routine line is, a byte for each.
        kinds: codes of request and DEBUG lines by kind, those that occur.
        keys: codes of access lines by what they ask for, those that occur.
    """

    lines: LineColumns
    rest: bytes
    left: list[int]
    numbers: Offsets
    codes: bytes
    kinds: Mapping[Kind | DebugKind, int]
    keys: Mapping[AccessKey, int]

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
        """Yield the kinds of request and DEBUG lines among the routine lines number low .. high - 1, in order of their first lines."""
        found = [
            Stretch(kind, count, self.codes.find(code, low, high), self.codes.rfind(code, low, high))
            for kind, code in self.kinds.items()
            if (count := self.codes.count(code, low, high))
        ]
        yield from sorted(found, key=lambda stretch: stretch.first)

    def accesses(self, low: int, high: int) -> Counter[AccessKey]:
        """Count the access lines among the routine lines low .. high - 1."""
        return Counter(
            {key: count for key, code in self.keys.items() if (count := self.codes.count(code, low, high))}
        )

    def line(self, routine: int, longest: int) -> tuple[int, bytes]:
        """Return the number of a routine line, and the line cut behind so many bytes."""
        number = int(self.numbers[routine])
        return number, self.lines.line(number)[:longest]


class VectorScanner:
    """Takes routine lines out of bytes; it learns their shapes as it goes.

    Args:
        gates: finds the gates.
        bare: gates that are nothing to anybody in DEBUG records.
        requests: finds request lines of any shape.
        debug_lines: kinds of DEBUG lines that are only counted.
    """

    def __init__(
        self, gates: Prefilter, bare: frozenset[int], requests: RequestLines, debug_lines: DebugLines
    ) -> None:
        self._gates = gates
        self._requests = requests
        self._meanings = _Meanings()
        self._access_shapes = AccessShapes(gates.texts, lambda line: bool(gates.scan(line + b"\n")))
        self._request_shapes = RequestShapes()
        self._debug_heads = DebugHeads()
        self._counted_shapes = CountedShapes(debug_lines)
        self._skeletons = LineTemplates(gates.texts, bare)
        self._debug_lines = debug_lines
        self._narrowed = self._learned = 0

    def taken_out(self, data: bytes) -> Residue:
        """Take the routine lines out of bytes.

        Args:
            data: eight bytes or more.
        """
        lines = LineColumns.of(data)
        codes: Codes = np.full(len(lines.starts), NO_CODE, np.uint8)
        self._access_shapes.mark(lines, codes)
        self._request_shapes.mark(lines, codes)
        if is_full_of_debug(data) and is_plain(data):
            self._mark_dull(lines, codes)
        found = self._without(lines, codes)
        more = self._requests.found(found.rest)
        if more and not self._meanings.have_room(more):
            return self._requests.taken_out(data)
        if more:
            self._mark_requests(lines, codes, found.left, more)
            self._request_shapes.learn(found.rest, more, self._meanings.code_of_request)
            found = self._without(lines, codes)
        self._access_shapes.learn(found.rest, self._meanings.code_of_access)
        return found

    def _mark_dull(self, lines: LineColumns, codes: Codes) -> None:
        for gate, regexes in self._gates.narrowings[self._narrowed :]:
            self._skeletons.narrow(gate, regexes)
        self._narrowed = len(self._gates.narrowings)
        for kind in self._debug_lines.since(self._learned):
            self._skeletons.learn(kind.text)
        self._learned = len(self._debug_lines.learned)
        verdicts = self._skeletons.of_lines(lines.data)[: len(codes)]
        said = np.frombuffer(verdicts, np.uint8)
        codes[(said == DULL) & (codes == NO_CODE)] = _DULL_CODE
        perhaps = np.flatnonzero((said == DULL_IF_DEBUG) & (codes == NO_CODE))
        codes[perhaps[self._debug_heads.among(lines, perhaps)]] = _DULL_CODE
        perhaps = np.flatnonzero((said == PERHAPS_COUNTED) & (codes == NO_CODE))
        if len(perhaps) >= FEW:
            self._counted_shapes.mark(lines, perhaps, codes, self._meanings.code_of_debug)

    def _mark_requests(
        self, lines: LineColumns, codes: Codes, left: Sequence[int], found: Sequence[RequestLine]
    ) -> None:
        """Write the codes of request lines that were found in the rest of the lines."""
        numbers = np.array(left)
        lengths = (lines.ends - lines.starts)[numbers] + 1
        starts_in_rest = np.cumsum(lengths) - lengths
        places = np.searchsorted(starts_in_rest, [line.start for line in found])
        codes[numbers[places]] = [self._meanings.code_of_request(line.kind) for line in found]

    def _without(self, lines: LineColumns, codes: Codes) -> VectorResidue:
        is_left = codes == NO_CODE
        left, numbers = np.flatnonzero(is_left), np.flatnonzero(~is_left)
        gaps = np.flatnonzero(left[1:] - left[:-1] != 1)
        firsts, lasts = np.append(left[:1], left[gaps + 1]), np.append(left[gaps], left[-1:])
        starts, ends = lines.starts[firsts].tolist(), (lines.ends[lasts] + 1).tolist()
        rest = b"".join([lines.data[start:end] for start, end in zip(starts, ends, strict=True)])
        written = codes[numbers].tobytes()
        occur = set(written)
        met: list[tuple[Kind | DebugKind, int]] = [
            *self._meanings.requests.items(),
            *self._meanings.debug.items(),
        ]
        kinds = {kind: code for kind, code in met if code in occur}
        keys = {key: code for key, code in self._meanings.accesses.items() if code in occur}
        return VectorResidue(lines, rest, left.tolist(), numbers, written, kinds, keys)
