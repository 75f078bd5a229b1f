"""Pieces of a stream scanned in several processes, handed back in order."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, cast

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.scan.gates import GateSet, Narrowing
from vllm_logdoctor.scan.sight import Interest, Scanned, Scanner
from vllm_logdoctor.source import Chunk, keep_freed_memory

_AHEAD = 3
"""Pieces that a worker may have waiting when it reads them from the file itself."""


@dataclass(frozen=True, slots=True)
class _Task:
    """A piece to scan: its bytes, or where they stand in a file; and what was learned about gates since the last one."""

    data: bytes | None
    path: str
    offset: int
    size: int
    narrowings: tuple[Narrowing, ...]


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    connection: Connection
    waiting: int = 0
    narrowings: int = 0


class Workers:
    """Processes that scan; used as a context, so that they end with it.

    Args:
        count: how many.
        gates: the gate automaton; what the flow learns about it is passed on.
        interest: what the packs say about gates.
        build: builds the automaton where processes don't inherit memory.
    """

    def __init__(self, count: int, gates: GateSet, interest: Interest, build: Callable[[], GateSet]) -> None:
        self._gates = gates
        inherits = "fork" in multiprocessing.get_all_start_methods()
        context: Any = multiprocessing.get_context("fork" if inherits else None)
        self._workers: list[_Worker] = []
        for _ in range(count):
            mine, theirs = context.Pipe()
            arguments = (theirs, gates if inherits else None, build, interest)
            process = context.Process(target=_work, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self._workers.append(_Worker(process, mine))

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self._workers:
            worker.connection.close()
        for worker in self._workers:
            worker.process.terminate()
            worker.process.join()

    def scan(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, Scanned]]:
        """Yield chunks with what was found in them, in order.

        Raises:
            LogdoctorError: a process ended before its work.
        """
        under_way: deque[tuple[Chunk, _Worker]] = deque()
        for number, chunk in enumerate(chunks):
            worker = self._workers[number % len(self._workers)]
            # A worker that waits for its answer to be taken does not take bytes: with bytes on the way none waits.
            while worker.waiting >= (_AHEAD if chunk.path else 1):
                yield self._answer(under_way)
            self._send(worker, chunk)
            under_way.append((chunk, worker))
        while under_way:
            yield self._answer(under_way)

    def _send(self, worker: _Worker, chunk: Chunk) -> None:
        known = self._gates.narrowings
        task = _Task(
            None if chunk.path else chunk.data,
            chunk.path,
            chunk.offset,
            len(chunk.data),
            tuple(known[worker.narrowings :]),
        )
        worker.narrowings = len(known)
        try:
            worker.connection.send(task)
        except OSError as error:
            raise LogdoctorError("a scanning process ended before its work; try --jobs 1") from error
        worker.waiting += 1

    @staticmethod
    def _answer(under_way: deque[tuple[Chunk, _Worker]]) -> tuple[Chunk, Scanned]:
        chunk, worker = under_way.popleft()
        try:
            scanned = cast(Scanned, worker.connection.recv())
        except (EOFError, OSError) as error:
            raise LogdoctorError("a scanning process ended before its work; try --jobs 1") from error
        worker.waiting -= 1
        return chunk, scanned


def _work(
    connection: Connection, gates: GateSet | None, build: Callable[[], GateSet], interest: Interest
) -> None:
    """Scan what comes until the other side is gone."""
    keep_freed_memory()
    gates = gates if gates is not None else build()
    scanner = Scanner(gates, interest)
    try:
        while True:
            task: _Task = connection.recv()
            for gate, regexes in task.narrowings:
                gates.narrow(gate, regexes)
            connection.send(scanner.scan(task.data if task.data is not None else _read(task)))
    except (EOFError, OSError, KeyboardInterrupt):
        return


def _read(task: _Task) -> bytes:
    with open(task.path, "rb", buffering=0) as file:
        file.seek(task.offset)
        data = file.read(task.size) or b""
        while len(data) < task.size:
            more = file.read(task.size - len(data))
            if not more:
                break
            data += more
    return data
