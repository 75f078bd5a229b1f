"""Pieces of a stream scanned in several processes, this one among them, handed back in order."""

from __future__ import annotations

import marshal
import multiprocessing
import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import starmap
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from msgspec import Struct

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.scan.scanner import LineMatch, Repeat, Scanned, Scanner
from vllm_logdoctor.source import Chunk, FileSlice, keep_freed_memory

_AHEAD = 4
"""Pieces that a worker has waiting at most."""
_SCANNED_AHEAD = 8
"""Pieces that this process may have scanned while an earlier one is under way elsewhere."""
_BUFFER_BYTES = 1 << 20
"""Room for one piece whose bytes are in no plain file."""


class _Worker:
    """A process that scans; it inherits the scanner, and all files that are open."""

    def __init__(self, scanner: Scanner, others: Sequence[_Worker]) -> None:
        context: Any = multiprocessing.get_context("fork")
        self._connection: Connection
        self._connection, theirs = context.Pipe()
        # A pipe ends only when no process holds its other end.
        not_theirs = [self._connection, *(other._connection for other in others)]
        self._process: BaseProcess = context.Process(
            target=_work, args=(theirs, not_theirs, scanner), daemon=True
        )
        self._buffer = _SharedBuffer()
        self.waiting = 0
        self._process.start()
        theirs.close()

    def takes(self, chunk: Chunk) -> bool:
        """Return whether a chunk is in a file, or fits into the shared buffer."""
        return isinstance(chunk.content, FileSlice) or self._buffer.takes(chunk.content)

    def send(self, chunk: Chunk) -> None:
        """Hand over a chunk; the answer will be the next one after those that are waited for."""
        place = chunk.content if isinstance(chunk.content, FileSlice) else self._buffer.put(chunk.content)
        self.waiting += 1
        try:
            self._connection.send(place)
        except OSError as error:
            raise _ended() from error

    def has_answered(self) -> bool:
        """Return whether the next answer is there."""
        return self._connection.poll()

    def answer(self) -> Scanned:
        """Return the next answer; waits for it."""
        self.waiting -= 1
        try:
            return loads(self._connection.recv_bytes())
        except (EOFError, OSError) as error:
            raise _ended() from error

    def end(self) -> None:
        """End the process and what leads to it."""
        self._connection.close()
        self._process.terminate()
        self._process.join()
        self._buffer.close()


class _SharedBuffer:
    """Memory that a worker sees too, as a file: room for the pieces that it has waiting."""

    def __init__(self) -> None:
        make = getattr(os, "memfd_create", None)
        self._descriptor: int = make("logdoctor-pieces") if make else -1
        self._put = 0

    def takes(self, data: bytes) -> bool:
        """Return whether a piece has room."""
        return self._descriptor >= 0 and len(data) <= _BUFFER_BYTES

    def put(self, data: bytes) -> FileSlice:
        """Put a piece where the one before the last `_AHEAD` was: that one was answered."""
        place = FileSlice(self._descriptor, self._put % _AHEAD * _BUFFER_BYTES, len(data))
        self._put += 1
        os.pwrite(self._descriptor, data, place.offset)
        return place

    def close(self) -> None:
        """Give the memory back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)


class _Piece(Struct):
    """A piece on its way: scanned, or under way in a worker."""

    chunk: Chunk
    worker: _Worker | None = None
    scanned: Scanned | None = None

    def is_there(self) -> bool:
        return self.worker is None or self.worker.has_answered()

    def take(self) -> tuple[Chunk, Scanned]:
        scanned = self.worker.answer() if self.worker is not None else self.scanned
        assert scanned is not None
        return self.chunk, scanned


class Workers:
    """Processes that scan beside this one; used as a context, so that they end with it.

    Args:
        count: how many.
        scanner: scans; each process goes on with a copy of it.
    """

    def __init__(self, count: int, scanner: Scanner) -> None:
        self._scanner = scanner
        self._workers: list[_Worker] = []
        for _ in range(count):
            self._workers.append(_Worker(scanner, self._workers))

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self._workers:
            worker.end()

    def scan(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, Scanned]]:
        """Yield chunks with what was found in them, in order; this process scans where it would wait else.

        Raises:
            LogdoctorError: a process ended before its work.
        """
        under_way: deque[_Piece] = deque()
        source = iter(chunks)
        unread = True
        while unread or under_way:
            while unread and (worker := self._with_room()) is not None:
                piece = self._sent(worker, source)
                unread = piece is not None
                under_way.extend([piece] if piece else ())
            ahead = unread and len(under_way) < _AHEAD * len(self._workers) + _SCANNED_AHEAD
            if ahead and not under_way[0].is_there():
                chunk = next(source, None)
                unread = chunk is not None
                under_way.extend([self._scanned_here(chunk)] if chunk else ())
            elif under_way:
                yield under_way.popleft().take()

    def _with_room(self) -> _Worker | None:
        """Return the worker that has the fewest pieces waiting, or None where each has enough."""
        worker = min(self._workers, key=lambda worker: worker.waiting)
        return worker if worker.waiting < _AHEAD else None

    def _sent(self, worker: _Worker, source: Iterator[Chunk]) -> _Piece | None:
        """Read the next chunk and hand it to a worker; None at the end."""
        chunk = next(source, None)
        if chunk is None:
            return None
        if not worker.takes(chunk):
            return self._scanned_here(chunk)
        worker.send(chunk)
        return _Piece(chunk, worker)

    def _scanned_here(self, chunk: Chunk) -> _Piece:
        try:
            return _Piece(chunk, scanned=self._scanner.scan(chunk.data))
        except OSError as error:
            raise LogdoctorError(f"can't read on: {error.strerror}") from error


def _ended() -> LogdoctorError:
    return LogdoctorError("a scanning process ended before its work; try --jobs 1")


def _work(connection: Connection, not_mine: Sequence[Connection], scanner: Scanner) -> None:
    """Scan what comes until the other side is gone."""
    for other in not_mine:
        other.close()
    keep_freed_memory()
    with suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            place: FileSlice = connection.recv()
            connection.send_bytes(dumps(scanner.scan(place.read())))


def dumps(scanned: Scanned) -> bytes:
    """Return what a piece contains as bytes.

    Example:
        >>> loads(dumps(Scanned(lines=3))) == Scanned(lines=3)
        True
    """
    return marshal.dumps(
        (
            scanned.lines,
            list(map(tuple, scanned.matches)),
            [(place, dict(counts)) for place, counts in scanned.counts],
            [(place, tuple(repeat)) for place, repeat in scanned.repeats],
        )
    )


def loads(data: bytes) -> Scanned:
    """Return what `dumps` was given; it comes from a process of our own."""
    lines, matches, counts, repeats = marshal.loads(data)
    return Scanned(
        lines,
        list(starmap(LineMatch, matches)),
        [(place, Counter(counts)) for place, counts in counts],
        [(place, Repeat(*repeat)) for place, repeat in repeats],
    )
