"""Measures the figures of docs/explanation/scale.md and prints them as a table.

    python -m benchmarks.fleet [read|pool|coordinator|page ...] [--logs DIRECTORY] [--names 100000]

`read` and `pool` take the logs of a directory (default: the bundled ones); `coordinator` links one log under many names
and lets workers that read nothing answer for them, so that it measures the coordinator alone; `page` multiplies the rows
of a store.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks.table import Row, print_head, print_row, seconds

FIXTURES = Path(__file__).parents[1] / "fixtures"
_SIZE_TABLES = ("documents",)


def read(folder: Path, logs: Path, names: int) -> Iterator[Row]:
    """CPU of one process for each log, after a first pass that loads what all share."""
    from vllm_logdoctor.fleet.inventory import logs_of
    from vllm_logdoctor.fleet.reading import ReadOptions, read_log

    found = list(logs_of([str(logs)]))
    passes = []
    for _ in range(3):
        began = time.process_time()
        for log in found:
            read_log(log, ReadOptions())
        passes.append(time.process_time() - began)
    each = min(passes[1:]) / len(found)
    mean = sum(log.bytes for log in found) / len(found)
    yield Row(
        "logs a second and core, warm",
        f"{1000 * each:.1f} ms",
        "",
        1 / each,
        f"{len(found)} logs, {mean / 1000:.0f} kB each",
    )


def pool(folder: Path, logs: Path, names: int) -> Iterator[Row]:
    """Wall time of one process of the pool against two: means something only where two cores are free."""
    from vllm_logdoctor.fleet.library import Fleet

    times = []
    for jobs in (1, 2):
        fleet = Fleet(folder / f"pool-{jobs}")
        times.append(fleet.add([logs], jobs=jobs).seconds)
    yield Row("two processes against one", seconds(times[1]), seconds(times[0]), times[0] / times[1])
    fleet.compact()
    sizes = fleet.check().bytes
    count = fleet.table("logs").num_rows
    tables = sum(size for name, size in sizes.items() if name not in _SIZE_TABLES)
    yield Row("bytes a log, tables", f"{tables / count:,.0f} B", "", None, f"{count} logs")
    yield Row("bytes a log, documents", f"{sizes.get('documents', 0) / count:,.0f} B")


def coordinator(folder: Path, logs: Path, names: int) -> Iterator[Row]:
    """Memory and time of the coordinator alone: a first call over many names, and one with nothing new."""
    data = (FIXTURES / "vllm-0.11.2-kv-starved.log").read_bytes()
    for number in range(names):
        place = folder / "many" / f"{number // 1000:04d}"
        place.mkdir(parents=True, exist_ok=True)
        # A file has 65,000 names at most.
        source = folder / f"{number // 50_000}.log"
        if not source.exists():
            source.write_bytes(data)
        os.link(source, place / f"slurm-{100_000 + number}.out")
    for words in ("first call", "nothing new"):
        answer = subprocess.run(
            [sys.executable, "-m", "benchmarks.fleet", "--coordinate", str(folder)],
            capture_output=True,
            text=True,
            check=True,
        )
        wall, cpu, memory, done = answer.stdout.split()
        yield Row(
            f"{names:,} names, {words}",
            f"{float(wall):.1f} s",
            f"{float(cpu):.1f} s CPU",
            None,
            f"{memory} MiB, {done} logs",
        )


def page(folder: Path, logs: Path, names: int) -> Iterator[Row]:
    """Time and size of the page over a store."""
    from vllm_logdoctor.fleet.library import Fleet

    fleet = Fleet(logs)
    began = time.process_time()
    text = fleet.to_html()
    jobs = len(fleet.picture().reports)
    yield Row(
        "page",
        f"{len(text.encode()) / 1e6:.1f} MB",
        f"{time.process_time() - began:.1f} s CPU",
        None,
        f"{jobs:,} jobs",
    )


class _ReadNothing(Executor):
    """Answers for each batch with rows that say that its logs were read."""

    def submit(self, fn: Any, /, *args: Any, **_: Any) -> Future[Any]:
        from vllm_logdoctor.fleet.batches import Receipt
        from vllm_logdoctor.fleet.reading import log_row
        from vllm_logdoctor.fleet.store import Store, now

        (batch,) = args
        rows = [log_row(log, "empty", "", "") | {"added": now()} for log in batch.logs]
        Store(batch.store).write_part(batch.id, {"logs": rows})
        future: Future[Any] = Future()
        future.set_result(Receipt(batch.id, {"empty": len(rows)}))
        return future


def coordinate(folder: Path) -> None:
    """Add the names below a folder and print wall seconds, CPU seconds, MiB at most and logs."""
    from vllm_logdoctor.fleet.library import Fleet
    from vllm_logdoctor.fleet.mapping import WorkerPool

    began, cpu = time.monotonic(), time.process_time()
    workers = WorkerPool(2, lambda _: nullcontext(_ReadNothing()), isolated=True)
    done = Fleet(folder / "store").add([folder / "many"], workers=workers)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(time.monotonic() - began, time.process_time() - cpu, round(most), done.read + done.known)


PARTS: dict[str, Callable[[Path, Path, int], Iterator[Row]]] = {
    "read": read,
    "pool": pool,
    "coordinator": coordinator,
    "page": page,
}


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["read", "pool", "coordinator"])
    parser.add_argument("--logs", type=Path, default=FIXTURES)
    parser.add_argument("--names", type=int, default=100_000)
    parser.add_argument("--coordinate", type=Path)
    given = parser.parse_args()
    if given.coordinate:
        coordinate(given.coordinate)
        return
    print_head()
    for name in given.parts:
        with tempfile.TemporaryDirectory() as folder:
            for row in PARTS[name](Path(folder), given.logs, given.names):
                print_row(row)


if __name__ == "__main__":
    main()
