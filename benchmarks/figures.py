"""Measures all figures of docs/reference/performance.md and prints them as a table.

    python -m benchmarks.figures [ripgrep|jobs|packed|memory|start|peers|growth|hostile ...] [--mb 1000]

Each figure is a ratio of two things measured in turns on one machine. Large logs are written to a temporary folder
or handed over through a pipe and deleted after use. All of it with 1,000 MB takes hours; with `--mb 20`, minutes.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.check import says_truth, start_up
from benchmarks.hostile import HOSTILE
from benchmarks.logs import MIXES, Mix, Truth, pieces
from benchmarks.measuring import LOGDOCTOR, analyze, cost_of, least, ratio_of, soonest
from benchmarks.peers import peers
from benchmarks.table import Row, mebibytes, print_head, print_row, seconds

_PACKERS = (
    ("zst", ("zstd", "-c"), ("zstd", "-dc")),
    ("gz", ("pigz", "-c"), ("pigz", "-dc")),
    ("gz", ("gzip", "-c"), ("gzip", "-dc")),
)


def written(folder: Path, mix: Mix, megabytes: float) -> tuple[Path, Truth]:
    """Write a log of a mix and return its path and truth."""
    path, truth = folder / f"{mix}.log", Truth()
    with path.open("wb") as file:
        file.writelines(pieces(megabytes, mix, truth))
    return path, truth


def ripgrep(folder: Path, megabytes: float) -> Iterator[Row]:
    """CPU time of the diagnosis against ripgrep counting the lines with any literal."""
    literals = folder / "literals"
    literals.write_bytes(cost_of((*LOGDOCTOR, "patterns", "literals")).output)
    for mix in MIXES:
        path, truth = written(folder, mix, megabytes)
        counting = ("rg", "-j1", "-c", "-F", "-f", str(literals), str(path))
        ratio, mine, other = ratio_of(analyze(path), counting, 3)
        note = "exact" if says_truth(mine.output, truth) else "WRONG COUNTS"
        yield Row(f"CPU against ripgrep, {mix}", seconds(mine.cpu), seconds(other.cpu), ratio, note)
        path.unlink()


def jobs(folder: Path, megabytes: float) -> Iterator[Row]:
    """Wall time of one process against two that scan: means something only where two cores are free."""
    for mix in MIXES:
        path, _ = written(folder, mix, megabytes)
        pairs = [(cost_of(analyze(path)), cost_of(analyze(path, "--jobs", "2"))) for _ in range(3)]
        one = min(pair[0].wall for pair in pairs)
        two = min(pair[1].wall for pair in pairs)
        same = all(pair[0].output == pair[1].output for pair in pairs)
        note = "same report" if same else "OTHER REPORT"
        yield Row(f"--jobs 2 (other: --jobs 1), wall, {mix}", seconds(two), seconds(one), one / two, note)
        path.unlink()


def packed(folder: Path, megabytes: float) -> Iterator[Row]:
    """Wall time of a packed log against its decompressor alone, and against the same log unpacked."""
    path, _ = written(folder, "access", megabytes)
    plain = soonest(analyze(path), 3)
    for kind, pack, unpack in _PACKERS:
        if shutil.which(pack[0]) is None:
            yield Row(f"{pack[0]}, wall", note=f"{pack[0]} is not installed: skipped")
            continue
        archive = folder / f"log.{kind}"
        archive.write_bytes(cost_of((*pack, str(path))).output)
        ours = soonest(analyze(archive), 3)
        alone = soonest(("sh", "-c", '"$@" | wc -l', "sh", *unpack, str(archive)), 3)
        name = f"{kind}, wall, against {' '.join(unpack)} | wc -l"
        yield Row(name, seconds(ours), seconds(alone), ours / alone)
        yield Row(f"{kind}, wall, against the plain log", seconds(ours), seconds(plain), ours / plain)
        archive.unlink()


def memory(folder: Path, megabytes: float) -> Iterator[Row]:
    """Largest resident memory through standard input, from a tenth to four times the size."""
    least_memory = 0.0
    for size in (megabytes / 10, megabytes, megabytes * 4):
        cost = cost_of(analyze("-"), pieces(size, "access", Truth()))
        least_memory = least_memory or cost.mebibytes
        ratio = cost.mebibytes / least_memory
        yield Row(f"memory, {size:g} MB", mebibytes(cost.mebibytes), mebibytes(least_memory), ratio)


def start(folder: Path, megabytes: float) -> Iterator[Row]:
    """CPU time of `--version` and of small logs against the imports that a command line of this kind needs."""
    for outcome in start_up(folder):
        yield Row(outcome.name, ratio=outcome.figure)


def growth(folder: Path, megabytes: float) -> Iterator[Row]:
    """CPU seconds per further 100 MB between a hundredth, a tenth, the whole and four times the size; ratio to the first."""
    for mix in MIXES:
        before: tuple[float, float] | None = None
        first = 0.0
        for size in (megabytes / 100, megabytes / 10, megabytes, megabytes * 4):
            if shutil.disk_usage(folder).free < size * 1_100_000:
                yield Row(f"growth, {mix}, {size:g} MB", note="no room for the log: skipped")
                break
            path, _ = written(folder, mix, size)
            cpu = least(analyze(path), 5 if size <= 100 else 1).cpu
            path.unlink()
            if before is not None:
                slope = (cpu - before[1]) / (size - before[0]) * 100
                first = first or slope
                name = f"growth, {mix}, {before[0]:g} to {size:g} MB, per 100 MB"
                yield Row(name, seconds(slope), seconds(first), slope / first)
            before = (size, cpu)


def hostile(folder: Path, megabytes: float) -> Iterator[Row]:
    """Time per byte against the access mix, and memory, through standard input."""
    honest = cost_of(analyze("-"), pieces(megabytes, "access", Truth()))
    for name, write in HOSTILE.items():
        cost = cost_of(analyze("-"), write(int(megabytes * 1_000_000)))
        note = f"{mebibytes(cost.mebibytes)}, exit {cost.status}"
        ratio = cost.cpu / honest.cpu
        yield Row(f"hostile, {name}, {megabytes:g} MB", seconds(cost.cpu), seconds(honest.cpu), ratio, note)


FIGURES: dict[str, Callable[[Path, float], Iterator[Row]]] = {
    "ripgrep": ripgrep, "jobs": jobs, "packed": packed, "memory": memory, "start": start, "peers": peers,
    "growth": growth, "hostile": hostile,
}  # fmt: skip


def main() -> None:
    """Measure the named figures, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=", ".join(FIGURES))
    parser.add_argument("--mb", type=float, default=1000)
    asked = parser.parse_args()
    unknown = [name for name in asked.figures if name not in FIGURES]
    if unknown:
        parser.error(f"no figure {unknown[0]!r}; there are {', '.join(FIGURES)}")
    # The first start after a change compiles what is kept for all later ones; its memory and time are no figure of them.
    cost_of(analyze("-"), pieces(0.01, "access", Truth()))
    print_head()
    for name in asked.figures or FIGURES:
        with tempfile.TemporaryDirectory() as folder:
            for row in FIGURES[name](Path(folder), asked.mb):
                print_row(row)


if __name__ == "__main__":
    main()
