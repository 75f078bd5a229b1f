"""Adds logs to a store: what is new or has grown, each log once, whatever happens to a worker."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from msgspec import Struct, field

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.fleet.batches import HARD_FACTOR, Batch, Receipt, batch_of, batches_of
from vllm_logdoctor.fleet.inventory import Log
from vllm_logdoctor.fleet.mapping import WorkerPool, outcomes
from vllm_logdoctor.fleet.reading import ReadOptions, engine_of, log_row
from vllm_logdoctor.fleet.store import Store, now

_MOST_ATTEMPTS = 3


class Added(Struct):
    """What a call of `add` did.

    Attributes:
        known: logs that were read before and have not changed.
        statuses: logs that were read, by status.
        seconds: how long it took.
        interrupted: whether it was stopped before its end.
        skipped: what is no file though its name is that of a log, with the reason.
    """

    known: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    interrupted: bool = False
    skipped: list[str] = field(default_factory=list)

    @property
    def read(self) -> int:
        """Logs that were read."""
        return self.statuses.total()


def add(
    store: Store,
    logs: Iterable[Log],
    reading: ReadOptions,
    workers: WorkerPool,
    *,
    again: bool = False,
    progress: Callable[[Added, int], None] | None = None,
) -> Added:
    """Read logs into a store.

    Args:
        store: where to.
        logs: what may be new (`inventory.logs_of`).
        reading: how.
        workers: who reads.
        again: read anew what another version of logdoctor had read.
        progress: called after each batch with what was done and the number of logs to read.

    Raises:
        LogdoctorError: the store can't be written, or the workers are gone (exit code 3).
    """
    began = time.monotonic()
    done = Added()
    wanted = _new_logs(store, logs, reading, done, again=again)
    total = len(wanted)
    if not total:
        return done
    try:
        store.create()
    except OSError as error:
        raise _unwritable(store, error.strerror or str(error)) from error
    waiting = deque(batches_of(str(store.path), wanted, reading, workers.count))
    del wanted
    attempts: Counter[str] = Counter()
    try:
        for batch, outcome in outcomes(waiting, workers):
            if isinstance(outcome, Receipt):
                if outcome.error:
                    raise _unwritable(store, outcome.error)
                done.statuses.update(outcome.statuses)
            else:
                waiting.extend(_again(store, batch, outcome, attempts, done))
            if progress is not None:
                progress(done, total)
    except KeyboardInterrupt:
        done.interrupted = True
    done.seconds = time.monotonic() - began
    return done


def _new_logs(
    store: Store, logs: Iterable[Log], reading: ReadOptions, done: Added, *, again: bool
) -> list[Log]:
    """Return the logs that are not in the store as they are now."""
    newest = store.newest()
    known = dict(zip(newest["log"].to_pylist(), newest["state"].to_pylist(), strict=True))
    if again:
        engine = engine_of(reading)
        engines = zip(newest["log"].to_pylist(), newest["engine"].to_pylist(), strict=True)
        known = {log: known[log] for log, read_by in engines if read_by == engine}
    del newest
    wanted = []
    for log in logs:
        if known.get(log.key) == log.state:
            done.known += 1
        else:
            wanted.append(log)
    return wanted


def _again(
    store: Store, batch: Batch, error: BaseException, attempts: Counter[str], done: Added
) -> Iterator[Batch]:
    """Yield what is left to do of a batch whose worker died: the log that it read alone, and the others."""
    suspect, since = _suspect(store, batch)
    if suspect is None:
        attempts[batch.id] += 1
        if attempts[batch.id] >= _MOST_ATTEMPTS:
            raise LogdoctorError(
                f"workers end before they read anything: {type(error).__name__}: {error}"[:300]
            ) from error
        yield batch
        return
    if batch.alone:
        slow = time.time() - since >= HARD_FACTOR * batch.reading.time_limit
        status = "too-slow" if slow else "killed-worker"
        row = log_row(suspect, status, "", engine_of(batch.reading)) | {"added": now()}
        try:
            store.write_part(batch.id, {"logs": [row]})
        except OSError as failed:
            raise _unwritable(store, failed.strerror or str(failed)) from failed
        done.statuses[status] += 1
        return
    yield batch_of(batch.store, [suspect], batch.reading, alone=True)
    others = [log for log in batch.logs if log is not suspect]
    if others:
        yield batch_of(batch.store, others, batch.reading)


def _suspect(store: Store, batch: Batch) -> tuple[Log | None, float]:
    """Return the log that a dead worker was reading, and since when; None where it had not begun."""
    crumb = store.running(batch.id)
    try:
        found = json.loads(crumb.read_text())
    except (OSError, ValueError):
        return None, 0.0
    with suppress(OSError):
        crumb.unlink()
    return next((log for log in batch.logs if log.key == found["log"]), None), found["since"]


def _unwritable(store: Store, reason: str) -> LogdoctorError:
    return LogdoctorError(
        f"can't write the store {store.path}: {reason}; what was committed stays valid, call fleet add again after making room or"
        " changing permissions"
    )
