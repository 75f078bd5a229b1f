"""Measures all figures of docs/reference/performance.md.

    python -m benchmarks.figures [ripgrep|jobs|packed|memory|peers|growth|hostile ...] [--mb 1000]

Each figure is a ratio of two things measured in turns on one machine. Large logs are written to a temporary folder
or handed over through a pipe and deleted after use.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.check import says_truth
from benchmarks.hostile import HOSTILE
from benchmarks.logs import MIXES, Mix, Truth, pieces
from benchmarks.measuring import LOGDOCTOR, cost_of, least, ratio_of


def written(folder: Path, mix: Mix, megabytes: float) -> tuple[Path, Truth]:
    """Write a log of a mix and return its path and truth."""
    path, truth = folder / f"{mix}.log", Truth()
    with path.open("wb") as file:
        file.writelines(pieces(megabytes, mix, truth))
    return path, truth


def _analyze(path: Path | str, *more: str) -> tuple[str, ...]:
    return (*LOGDOCTOR, "analyze", str(path), "--format", "json", *more)


def ripgrep(folder: Path, megabytes: float) -> None:
    """CPU time of the diagnosis against ripgrep counting the lines with any gate."""
    gates = folder / "gates"
    gates.write_bytes(cost_of((*LOGDOCTOR, "patterns", "gates")).output)
    for mix in MIXES:
        path, truth = written(folder, mix, megabytes)
        ratio, mine, other = ratio_of(
            _analyze(path), ("rg", "-j1", "-c", "-F", "-f", str(gates), str(path)), 3
        )
        right = "exact" if says_truth(mine.output, truth) else "WRONG COUNTS"
        print(f"ripgrep {mix:9} {mine.cpu:7.2f} s / {other.cpu:6.2f} s = {ratio:5.2f}   {right}", flush=True)
        path.unlink()


def jobs(folder: Path, megabytes: float) -> None:
    """Wall time of one process against two that scan."""
    for mix in MIXES:
        path, _ = written(folder, mix, megabytes)
        pairs = [(cost_of(_analyze(path)), cost_of(_analyze(path, "--jobs", "2"))) for _ in range(3)]
        faster = max(one.wall / two.wall for one, two in pairs)
        same = all(one.output == two.output for one, two in pairs)
        print(
            f"jobs {mix:9} {faster:5.2f} times faster   {'same report' if same else 'OTHER REPORT'}",
            flush=True,
        )
        path.unlink()


def packed(folder: Path, megabytes: float) -> None:
    """Wall time of a packed log against its decompressor alone."""
    path, _ = written(folder, "access", megabytes)
    for packer, unpack in (("zstd", ("zstd", "-dc")), ("pigz", ("pigz", "-dc")), ("gzip", ("gzip", "-dc"))):
        if shutil.which(packer) is None:
            continue
        archive = folder / f"log.{packer}"
        archive.write_bytes(cost_of((packer, "-c", str(path))).output)
        ours = min(cost_of(_analyze(archive)).wall for _ in range(3))
        theirs = min(
            cost_of(("sh", "-c", '"$@" | wc -l', "sh", *unpack, str(archive))).wall for _ in range(3)
        )
        print(f"packed {packer:5} {ours:6.2f} s / {theirs:6.2f} s = {ours / theirs:5.2f}", flush=True)
        archive.unlink()


def memory(folder: Path, megabytes: float) -> None:
    """Largest resident memory through standard input, from a tenth to four times the size."""
    for size in (megabytes / 10, megabytes, megabytes * 4):
        cost = cost_of(_analyze("-"), pieces(size, "access", Truth()))
        print(f"memory {size:6.0f} MB {cost.mebibytes:6.1f} MiB", flush=True)


def peers(folder: Path, megabytes: float) -> None:
    """CPU time against a loop of the same regexes over lines, and against a chain of grep."""
    from vllm_logdoctor.packs.index import load_index

    size = min(megabytes, 2.0)
    path, _ = written(folder, "access", size)
    mine = least(_analyze(path), 3)
    loop = least((sys.executable, "-m", "benchmarks.line_loop", str(path)), 1)
    print(
        f"loop over {len(load_index().patterns)} regexes, {size:g} MB: {loop.cpu:.1f} s against {mine.cpu:.2f} s",
        flush=True,
    )
    path, _ = written(folder, "access", megabytes)
    mine = least(_analyze(path), 2)
    greps = [
        ("throughput:", "Avg prompt"),
        ("status", '" 500 '),
        ("errors", "ERROR"),
        ("warnings", "WARNING"),
        ("trace", "Traceback"),
    ]
    chain = sum(least(("grep", "-c", text, str(path)), 2).cpu for _, text in greps)
    print(f"five greps, {megabytes:g} MB: {chain:.2f} s against {mine.cpu:.2f} s", flush=True)


def growth(folder: Path, megabytes: float) -> None:
    """CPU seconds per 100 MB from a hundredth to four times the size, without the start."""
    start = least(_analyze(written(folder, "access", 0.2)[0]), 3).cpu
    for mix in MIXES:
        slopes = []
        for size in (megabytes / 10, megabytes / 2, megabytes):
            path, _ = written(folder, mix, size)
            slopes.append((least(_analyze(path), 2).cpu - start) / size * 100)
            path.unlink()
        print(
            f"growth {mix:9} " + "  ".join(f"{slope:.3f}" for slope in slopes) + " s per 100 MB", flush=True
        )


def hostile(folder: Path, megabytes: float) -> None:
    """Time per byte against the access mix, and memory, through standard input."""
    size = int(megabytes * 1_000_000)
    honest = cost_of(_analyze("-"), pieces(megabytes, "access", Truth()))
    for name, write in HOSTILE.items():
        cost = cost_of(_analyze("-"), write(size))
        print(
            f"hostile {name:16} {cost.cpu / honest.cpu:6.2f} times   {cost.mebibytes:6.1f} MiB   exit {cost.status}",
            flush=True,
        )


FIGURES: dict[str, Callable[[Path, float], None]] = {
    "ripgrep": ripgrep, "jobs": jobs, "packed": packed, "memory": memory, "peers": peers, "growth": growth, "hostile": hostile,
}  # fmt: skip


def main() -> None:
    """Measure the named figures, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("figures", nargs="*", help=re.sub(r"\s+", " ", " ".join(FIGURES)))
    parser.add_argument("--mb", type=float, default=1000)
    asked = parser.parse_args()
    for name in asked.figures or FIGURES:
        with tempfile.TemporaryDirectory() as folder:
            FIGURES[name](Path(folder), asked.mb)


if __name__ == "__main__":
    main()
