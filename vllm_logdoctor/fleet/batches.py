"""Batches of logs, and what a worker does with one: read each log, write one part, hand back a receipt."""

from __future__ import annotations

import gc
import json
import os
import socket
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from typing import TextIO

from msgspec import Struct, field

from vllm_logdoctor.fleet.inventory import Log
from vllm_logdoctor.fleet.limits import limited
from vllm_logdoctor.fleet.reading import ReadOptions, engine_of, read_log
from vllm_logdoctor.fleet.rows import Rows, joined
from vllm_logdoctor.fleet.store import Store, now, part_name

_LOG_SECONDS = 0.03
_BYTES_A_SECOND = 4e6
_BATCH_SECONDS = 5.0
_LEAST_SECONDS = 0.2
_SHARES = 4
"""A batch takes at most this part of what is left for one worker."""
_MOST_LOGS = 200
HARD_FACTOR = 4
_HARD_EXTRA = 10.0


class Batch(Struct, frozen=True):
    """Logs that one worker reads one after the other.

    Attributes:
        id: name of the part: hash of the logs and their states.
        store: directory.
        logs: what to read.
        reading: how.
        driver: host and process that divides the work: limits are for other processes only.
        alone: whether the log killed a worker before.
    """

    id: str
    store: str
    logs: tuple[Log, ...]
    reading: ReadOptions
    driver: tuple[str, int]
    alone: bool = False


class Receipt(Struct, frozen=True):
    """What a worker did: logs by status, seconds; `error` says why the part could not be written."""

    batch: str
    statuses: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    error: str = ""


def batches_of(store: str, logs: Iterable[Log], reading: ReadOptions, workers: int) -> Iterator[Batch]:
    """Yield batches of a few seconds each, the largest logs first and smaller batches at the end: so all workers end at one time."""
    waiting = sorted(logs, key=lambda log: -log.bytes)
    left = sum(map(_cost, waiting))
    chosen: list[Log] = []
    cost = 0.0
    for log in waiting:
        wanted = min(_BATCH_SECONDS, max(left / (_SHARES * workers), _LEAST_SECONDS))
        if chosen and (cost + _cost(log) > wanted or len(chosen) == _MOST_LOGS):
            yield batch_of(store, chosen, reading)
            left -= cost
            chosen, cost = [], 0.0
        chosen.append(log)
        cost += _cost(log)
    if chosen:
        yield batch_of(store, chosen, reading)


def batch_of(store: str, logs: Sequence[Log], reading: ReadOptions, *, alone: bool = False) -> Batch:
    """Return a batch; its id depends on the logs and their states only."""
    name = part_name(sorted(f"{log.key} {log.state}" for log in logs))
    return Batch(name, store, tuple(logs), reading, (socket.gethostname(), os.getpid()), alone)


def _cost(log: Log) -> float:
    return _LOG_SECONDS + log.bytes / _BYTES_A_SECOND


def read_batch(batch: Batch) -> Receipt:
    """Read the logs of a batch and write them as one part; what goes wrong with the store is in the receipt."""
    gc.set_threshold(50_000, 20, 50)
    began = time.perf_counter()
    store = Store(batch.store)
    engine = engine_of(batch.reading)
    crumb = store.running(batch.id)
    seconds = HARD_FACTOR * batch.reading.time_limit + _HARD_EXTRA
    own = (socket.gethostname(), os.getpid()) != batch.driver
    rows: Rows = {}
    try:
        with open(crumb, "w") as file:
            for log in batch.logs:
                _note(file, log)
                with limited(seconds, batch.reading.memory_limit) if own else nullcontext():
                    rows = joined([rows, read_log(log, batch.reading, engine)])
        added = now()
        for row in rows["logs"]:
            row["added"] = added
        store.write_part(batch.id, rows)
        with suppress(OSError):
            crumb.unlink()
    except OSError as error:
        return Receipt(batch.id, error=error.strerror or str(error))
    return Receipt(batch.id, Counter(row["status"] for row in rows["logs"]), time.perf_counter() - began)


def _note(file: TextIO, log: Log) -> None:
    """Name the log that is read now: the driver looks here when the worker dies."""
    file.seek(0)
    file.truncate()
    file.write(json.dumps({"log": log.key, "since": time.time()}))
    file.flush()
