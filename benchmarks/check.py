"""Fails when speed, memory or start-up got worse: the benchmark that runs with every change.

    python -m benchmarks.check [--mb 100]

The limits stand in docs/reference/performance.md beside what was measured; 15 % above a limit still passes, because
machines that run such checks are shared. The unit is a plain Python loop over the same log, because a ratio of two Python
programs hardly depends on the processor; a ratio to ripgrep differed by half between two kinds of machines.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.logs import MIXES, Mix, Truth, pieces
from benchmarks.measuring import LOGDOCTOR, Cost, analyze, least, ratio_of

TURNS = 5
"""Runs of each command of which the least counts: on a shared machine a run may take half as much again."""
ROUNDS = 4
"""How often the turns are repeated at most while a ratio is above its limit: on a shared machine the least of five may still be disturbed."""
MARGIN = 1.15
PLAIN_LOOP = Path(__file__).with_name("plain_loop.py")
AGAINST_PLAIN_LOOP: dict[Mix, float] = {"access": 1.5, "requests": 3.8, "debug": 1.7, "trace": 4.2}
MEMORY_MEBIBYTES = 160.0
VERSION_AGAINST_TYPER = 1.5
SMALL_LOG_AGAINST_IMPORTS: dict[Mix, float] = {"access": 2.4, "trace": 3.5}


@dataclass(frozen=True, slots=True)
class Outcome:
    """A figure with its limit; `right` is false where the report did not say the truth about the log."""

    name: str
    figure: float
    limit: float
    right: bool = True

    @property
    def passed(self) -> bool:
        """Whether the figure keeps its limit with the margin, and the report is right."""
        return self.right and self.figure <= self.limit * MARGIN


def says_truth(report: bytes, truth: Truth) -> bool:
    """Compare the exact counts of a report with what was written into the log."""
    document = json.loads(report)
    serving = document["runs"][0]["serving"]
    status = {str(key): value for key, value in serving["requests"]["by_status"].items()}
    return (
        document["sources"][0]["lines"] == truth.lines
        and serving["samples"] == truth.statistics
        and status == dict(truth.status)
        and document["coverage"]["tracebacks"] == truth.tracebacks
    )


def settled_ratio(command: Sequence[str], against: Sequence[str], limit: float) -> tuple[float, Cost]:
    """Return the ratio of the least CPU times, measured again while it is above the limit, with the command's least cost."""
    mine: list[Cost] = []
    other: list[Cost] = []
    for _ in range(ROUNDS):
        _, cost, reference = ratio_of(command, against, TURNS)
        mine.append(cost)
        other.append(reference)
        ratio = min(cost.cpu for cost in mine) / min(cost.cpu for cost in other)
        if ratio <= limit:
            break
    return ratio, min(mine, key=lambda cost: cost.cpu)


def outcomes(megabytes: float, folder: Path) -> Iterator[Outcome]:
    """Measure figure by figure."""
    for mix in MIXES:
        log, truth = folder / f"{mix}.log", Truth()
        with log.open("wb") as file:
            file.writelines(pieces(megabytes, mix, truth))
        limit = AGAINST_PLAIN_LOOP[mix]
        ratio, cost = settled_ratio(analyze(log), (sys.executable, str(PLAIN_LOOP), str(log)), limit)
        yield Outcome(f"CPU time against a plain loop, {mix}", ratio, limit, says_truth(cost.output, truth))
        yield Outcome(f"resident MiB, {mix}", cost.mebibytes, MEMORY_MEBIBYTES)
        log.unlink()
    yield from start_up(folder)


def start_up(folder: Path) -> Iterator[Outcome]:
    """Measure what the start of the command line costs."""
    ratio, _ = settled_ratio(
        (*LOGDOCTOR, "--version"), (sys.executable, "-c", "import typer"), VERSION_AGAINST_TYPER
    )
    yield Outcome("--version against importing typer", ratio, VERSION_AGAINST_TYPER)
    for mix, limit in SMALL_LOG_AGAINST_IMPORTS.items():
        small = folder / "small.log"
        lines = b"".join(pieces(0.6, mix, Truth())).splitlines(keepends=True)[:2000]
        small.write_bytes(b"".join(lines))
        # The first start after an installation compiles what is kept for all later ones.
        least(analyze(small), 1)
        ratio, _ = settled_ratio(
            analyze(small), (sys.executable, "-c", "import typer, rich, pydantic"), limit
        )
        yield Outcome(f"2,000 lines ({mix}) against typer, rich, pydantic", ratio, limit)


def main() -> int:
    """Print every figure; return 1 where one fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mb", type=float, default=100)
    asked = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for one in outcomes(asked.mb, Path(folder)):
            failed |= not one.passed
            word = "ok" if one.passed else "FAILED" if one.right else "WRONG COUNTS"
            print(f"{one.name:55} {one.figure:8.2f}   limit {one.limit:7.2f}   {word}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
