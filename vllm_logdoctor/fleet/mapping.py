"""Who reads: executors of concurrent.futures, a pool of processes on this machine or workers elsewhere."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import AbstractContextManager, contextmanager, nullcontext

from msgspec import Struct

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.fleet.batches import Batch, Receipt, read_batch
from vllm_logdoctor.fleet.limits import end_with

_IN_FLIGHT = 3
_POOL_BATCHES = 150
"""Batches that the processes of a pool read before new ones take their place: memory of a process grows a little with each log."""

_UNTIL_LOOKED = 30.0

Outcome = Receipt | BaseException


class WorkerPool(Struct, frozen=True):
    """Where batches are read.

    Attributes:
        count: how many are read at once.
        executor: opens an executor with so many workers.
        isolated: whether a dead worker costs its own batch only, not those of the others.
        look: called again and again while no batch ends; raises where none will.
    """

    count: int
    executor: Callable[[int], AbstractContextManager[Executor]]
    isolated: bool
    look: Callable[[], None] = lambda: None


def pool(jobs: int | None = None) -> WorkerPool:
    """Return a pool of processes on this machine, one per core by default."""
    return WorkerPool(jobs or usable_cores(), _process_pool, isolated=False)


def given(executor: Executor) -> WorkerPool:
    """Return the executor that a program has: a pool of its own, or that of a Dask client."""
    count = getattr(executor, "_max_workers", None) or _dask_threads(executor) or usable_cores()
    return WorkerPool(count, lambda _: nullcontext(executor), isolated=True)


def usable_cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def outcomes(waiting: deque[Batch], workers: WorkerPool) -> Iterator[tuple[Batch, Outcome]]:
    """Yield each batch with its receipt or with why there is none; batches that are added to `waiting` meanwhile are read too.

    A batch that is alone gets workers of its own where a dead one would take others with it.
    """
    lonely: deque[Batch] = deque()
    while waiting or lonely:
        if not waiting:
            yield from _read(deque([lonely.popleft()]), deque(), workers, 1)
            continue
        yield from _read(waiting, lonely, workers, workers.count)


def _read(
    waiting: deque[Batch], lonely: deque[Batch], workers: WorkerPool, count: int
) -> Iterator[tuple[Batch, Outcome]]:
    """Read batches with one executor until there are none, it breaks, or it is old."""
    left = _POOL_BATCHES * count
    with workers.executor(count) as executor:
        running: dict[Future[Receipt], Batch] = {}
        usable = True
        while usable or running:
            while usable and waiting and len(running) < _IN_FLIGHT * count:
                batch = waiting.popleft()
                if batch.alone and not workers.isolated and count > 1:
                    lonely.append(batch)
                    continue
                try:
                    running[executor.submit(read_batch, batch)] = batch
                    left -= 1
                except (BrokenExecutor, RuntimeError) as error:
                    usable = False
                    yield batch, error
            if not running:
                return
            usable = usable and (workers.isolated or left > 0)
            ended = wait(running, _UNTIL_LOOKED, FIRST_COMPLETED).done
            if not ended:
                workers.look()
            for future in ended:
                outcome = _outcome(future)
                usable = usable and not isinstance(outcome, BrokenExecutor)
                yield running.pop(future), outcome


def _outcome(future: Future[Receipt]) -> Outcome:
    try:
        return future.exception() or future.result()
    except CancelledError as error:
        raise LogdoctorError(
            "the scheduler of the workers is gone; call fleet add again, it goes on where it was"
        ) from error


@contextmanager
def _process_pool(count: int) -> Iterator[Executor]:
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload(["vllm_logdoctor.fleet.preload"])
    executor = ProcessPoolExecutor(count, context, initializer=_begin, initargs=(os.getpid(),))
    try:
        yield executor
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _begin(driver: int) -> None:
    """Prepare a process of the pool: it ends with its driver, and the driver alone hears an interrupt."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with(driver)


def _dask_threads(executor: Executor) -> int | None:
    client = getattr(executor, "_client", None)
    return sum(client.nthreads().values()) if client is not None else None
