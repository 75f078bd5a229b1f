"""Selection of lines: a line is wanted for a literal in it, its shape, its place in the file, or a block it continues."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Generic, TypeVar

from msgspec import Struct

from vllm_logdoctor.scan.accesses import AccessBlock, AccessKey, PathLimit
from vllm_logdoctor.scan.line_templates import mask_variables
from vllm_logdoctor.scan.scanner import LONGEST, Repeat, Scanned, Scanner
from vllm_logdoctor.scan.structure import MOST_BLANK, may_name_secret, secret_name_before
from vllm_logdoctor.source import Chunk

HEAD_LINES = 120
"""The first lines of a file are always wanted: launch scripts, commands, tables of cards."""
TAIL_LINES = 60
TAIL_BYTES = 4096
"""Bytes of one of the last lines that are kept."""
_LINES_OF_KEY = 110
"""A private key of 8192 bits has 103 lines."""
_TAIL_BYTES = 1 << 16
_BLOCK_LINES = 400
_BOX = "│".encode()
_AFTER_BLOCK = 14
_BLOCKS_PER_KEY = 48
_MOST_PLACES = 1024
"""Places that print tracebacks; a server has some dozens. Beyond it nothing but the first and the last lines of a traceback is read."""
_MOST_KINDS = 20_000
"""Kinds of lines that are read of those that have no bound of their own; a release of vLLM prints some 3,000."""
_NOTHING_SPLIT: tuple[Chunk | None, Sequence[bytes]] = (None, ())
_T = TypeVar("_T")


class WantedLine(Struct, frozen=True, gc=False):
    """A wanted line.

    Attributes:
        file: number of the file.
        number: 1-based line number.
        data: its bytes without the line end.
        literals: numbers of the literals in it.
        literals_only: whether nothing but its literals makes it wanted: it counts only if a pattern matches.
        shaped: whether its shape alone makes it wanted.
    """

    file: int
    number: int
    data: bytes
    literals: tuple[int, ...] = ()
    literals_only: bool = False
    shaped: bool = False


class Repeated(Struct, frozen=True):
    """Request lines of one kind with nothing but other request lines and access lines between them.

    Attributes:
        first, last: the first and the last one; the same line where there is one only.
        count: how many.
    """

    first: WantedLine
    last: WantedLine
    count: int


Item = WantedLine | Repeated | Counter[AccessKey]


class KindLimit:
    """Decides which lines are read where a log whose lines all differ would cost many times an ordinary one.

    Attributes:
        left_out: lines that are not read, because they are of none of the first kinds.
    """

    def __init__(self) -> None:
        self._kinds: set[int] = set()
        self.left_out = 0

    def is_read(self, data: bytes) -> bool:
        """Return whether a line is of one of the first kinds, or may name a secret of the next line."""
        kind = hash(mask_variables(data))
        if kind in self._kinds:
            return True
        if len(self._kinds) == _MOST_KINDS:
            self.left_out += 1
            return False
        self._kinds.add(kind)
        return True


class Selector:
    """Selects lines from the chunks of one file after the other; the result does not depend on where chunks are cut.

    Attributes:
        unknown: which lines without any known text are read.
    """

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner
        self._paths = PathLimit()
        self._opened: dict[bytes, int] = {}
        self._block_until = 0
        self._open = 0
        self._file = -1
        self.unknown = KindLimit()
        self._last_read = 0
        self._tail: deque[tuple[int, int, bytes]] = deque()
        self._split = _NOTHING_SPLIT

    def select(self, chunk: Chunk, scanned: Scanned | None = None) -> Iterator[Item]:
        """Yield the wanted lines of a chunk in order, and counts of access lines; fills in how many lines the chunk has.

        Args:
            chunk: the next chunk of the stream.
            scanned: what a scanner in another process found in it, or None.
        """
        if chunk.file != self._file:
            self._file, self._block_until, self._open, self._last_read = chunk.file, 0, 0, 0
        return self._items(chunk, scanned if scanned is not None else self._scanner.scan(chunk.data))

    def tail(self) -> tuple[list[WantedLine], int]:
        """Return the last lines, wanted or not, with some before them in which a secret may begin; how many those are."""
        lines: list[WantedLine] = []
        for file, behind, data in self._tail:
            pieces = data.split(b"\n")
            first = behind - len(pieces) + 1
            written = ((n, piece) for n, piece in enumerate(pieces, first) if piece.strip())
            lines += [WantedLine(file, n, piece[:TAIL_BYTES]) for n, piece in written]
        lines = lines[-TAIL_LINES - _LINES_OF_KEY :]
        return lines, max(0, len(lines) - TAIL_LINES)

    def _remember_tail(self, chunk: Chunk) -> None:
        data = chunk.tail(_TAIL_BYTES)
        self._tail.append((chunk.file, chunk.first_line + chunk.lines, data))
        while len(self._tail) > 1 and sum(len(d) for *_, d in list(self._tail)[1:]) >= _TAIL_BYTES:
            self._tail.popleft()

    def _items(self, chunk: Chunk, scanned: Scanned) -> Iterator[Item]:
        chunk.lines = scanned.lines
        file, base = chunk.file, chunk.first_line
        counts, repeats = _InOrder(self._blocks(chunk, scanned)), _InOrder(scanned.repeats)
        number = base
        yield from self._name_before(chunk, scanned)
        for place, match in enumerate(scanned.matches):
            line = base + match.number
            inside = self._block_until >= line or line <= HEAD_LINES
            if number < line and (number <= HEAD_LINES or number <= self._block_until):
                yield from self._between(file, self._lines(chunk), base, number, line)
            if counts.next_place <= place:
                yield from counts.upto(place)
            if repeats.next_place <= place:
                yield from (_repeated(file, base, repeat) for repeat in repeats.upto(place))
            opened = match.opens and self._open_block(line, match.data[:200])
            if match.literals or inside or opened or not match.by_shape or self.unknown.is_read(match.data):
                self._last_read = line
                self._go_on_behind(line, match.data)
                yield WantedLine(
                    file, line, match.data, match.literals, not match.by_shape and not inside, match.by_shape
                )
            elif may_name_secret(match.data):
                self._last_read = line
                yield WantedLine(file, line, match.data, (), True)
            if not match.opens and match.closes and self._open:
                self._close_block(line)
            number = line + 1
        if number <= max(HEAD_LINES, self._block_until):
            lines = self._lines(chunk)
            yield from self._between(file, lines, base, number, base + len(lines))
        yield from counts.upto(len(scanned.matches))
        yield from (_repeated(file, base, repeat) for repeat in repeats.upto(len(scanned.matches)))
        self._split = _NOTHING_SPLIT
        self._remember_tail(chunk)

    def _name_before(self, chunk: Chunk, scanned: Scanned) -> Iterator[WantedLine]:
        """Yield the line of the chunk before that names the secret in the first wanted line of this one."""
        first = scanned.matches[0].number if scanned.matches else -1
        if not 0 <= first <= MOST_BLANK:
            return
        last = list(self._tail)[-1 - MOST_BLANK :]
        before = b"".join(data for file, _, data in last if file == chunk.file) + b"\n" * first
        name = secret_name_before(before, len(before))
        if name is None or name[1] <= first:
            return
        line = chunk.first_line + first - name[1]
        if line > max(HEAD_LINES, self._block_until, self._last_read):
            yield WantedLine(chunk.file, line, name[2][:LONGEST], (), True)

    def _blocks(self, chunk: Chunk, scanned: Scanned) -> list[tuple[int, Counter[AccessKey]]]:
        """Return the access lines before each match, with the way to their lines."""
        blocks: list[tuple[int, Counter[AccessKey]]] = []
        first = 0
        for place, counts in scanned.counts:
            last = scanned.matches[place].number if place < len(scanned.matches) else None
            lines = partial(self._lines_between, chunk, first, last)
            begin = chunk.file, chunk.first_line + first
            blocks.append((place, AccessBlock(self._paths.limited(counts), begin, lines, self._paths)))
            first = last or first
        return blocks

    def _lines_between(self, chunk: Chunk, first: int, last: int | None) -> Sequence[bytes]:
        return self._lines(chunk)[first:last]

    def _lines(self, chunk: Chunk) -> Sequence[bytes]:
        """Return the lines of a chunk; where several servers write, each block of access lines asks for them."""
        known, lines = self._split
        if known is not chunk:
            lines = self._scanner.lines_without_requests(chunk.data)
            self._split = chunk, lines
        return lines

    def _between(
        self, file: int, lines: Sequence[bytes], base: int, number: int, before: int
    ) -> Iterator[WantedLine]:
        """Yield the lines without a hit that continue a block or belong to the head of the file."""
        for at in range(number, before):
            if at > max(HEAD_LINES, self._block_until):
                return
            line = lines[at - base]
            if line:
                self._go_on_behind(at, line)
                yield WantedLine(file, at, line[:LONGEST])

    def _go_on_behind(self, number: int, line: bytes) -> None:
        """Make the next line wanted behind one that ends with a backslash, where a command goes on, and in a box at the head of a file.

        Of a traceback of rich whose first line is not in the log nothing else tells that it goes on.
        """
        boxed = line.startswith(_BOX) and number < HEAD_LINES + _BLOCK_LINES
        if boxed or line.rstrip(b" \r").endswith(b"\\"):
            self._block_until = max(self._block_until, number + 1)

    def _open_block(self, line: int, head: bytes) -> bool:
        """Keep a window of wanted lines open after a traceback and return True; repeated ones from one call site are only counted."""
        key = _place(head)
        opened = self._opened.get(key, 0)
        if opened == _BLOCKS_PER_KEY or (not opened and len(self._opened) == _MOST_PLACES):
            return False
        self._opened[key] = opened + 1
        self._open += 1
        self._block_until = max(self._block_until, line + _BLOCK_LINES)
        return True

    def _close_block(self, line: int) -> None:
        self._open -= 1
        if not self._open:
            self._block_until = line + _AFTER_BLOCK


class _InOrder(Generic[_T]):
    """Hands out what comes before each match.

    Attributes:
        next_place: number of the match before which the next one comes.
    """

    def __init__(self, entries: list[tuple[int, _T]]) -> None:
        self._entries = entries
        self._next = 0
        self.next_place: float = entries[0][0] if entries else math.inf

    def upto(self, place: int) -> Iterator[_T]:
        """Yield what comes before the match with this number and was not handed out yet."""
        while self.next_place <= place:
            entry = self._entries[self._next][1]
            self._next += 1
            self.next_place = self._entries[self._next][0] if self._next < len(self._entries) else math.inf
            yield entry


def _repeated(file: int, base: int, repeat: Repeat) -> Repeated:
    first, last = (WantedLine(file, base + number, data) for number, data in (repeat.first, repeat.last))
    return Repeated(first, last, repeat.lines)


def _place(head: bytes) -> bytes:
    """Return what identifies the place that prints a traceback: the text before it, without digits that differ each time."""
    before = head.split(b"Traceback", 1)[0]
    mark = before.rfind(b".py:")
    call_site_line = before[mark : mark + 10] if mark >= 0 else b""
    return before.translate(None, b"0123456789") + call_site_line
