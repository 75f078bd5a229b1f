"""What people use instead of logdoctor: a loop over regexes, a chain of grep, lnav with a format for vLLM.

None of them says what happened: the loop finds the same messages, grep and lnav count a few of them.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.logs import Mix, Truth, pieces
from benchmarks.measuring import Cost, analyze, least
from benchmarks.table import Row, seconds

_LOOP_MEGABYTES = 0.3
"""The loop takes half a minute per megabyte."""
_COUNTED = ("Avg prompt throughput", '" 500 ', " ERROR ", " WARNING ", "Traceback")
_LNAV_FOLDER = Path(__file__).parent / "lnav"
_LEVELS = ";SELECT log_level, count(*) FROM vllm_log GROUP BY log_level"
_STATISTICS = (
    r";SELECT count(*), max(CAST(regexp_match('generation throughput: ([\d.]+)', log_body) AS REAL)) "
    "FROM vllm_log WHERE log_body LIKE 'Engine 000: Avg prompt throughput%'"
)


def peers(folder: Path, megabytes: float) -> Iterator[Row]:
    """CPU time of each against the diagnosis of the same log."""
    size = min(megabytes, _LOOP_MEGABYTES)
    small = _written(folder, "access", size)
    loop = least((sys.executable, "-m", "benchmarks.line_loop", str(small)), 1)
    yield _row(f"line by line over all regexes, {size:g} MB", least(analyze(small), 3), loop)
    for mix in ("access", "trace"):
        log = _written(folder, mix, megabytes)
        mine = least(analyze(log), 2)
        chain = [least(("grep", "-c", text, str(log)), 2) for text in _COUNTED]
        greps = Cost(sum(one.cpu for one in chain), 0, 0, b"", 0)
        yield _row(f"{len(chain)} greps, {mix}, {megabytes:g} MB", mine, greps)
        if shutil.which("lnav") is None:
            yield Row(f"lnav, {mix}", note="lnav is not installed: skipped")
            continue
        lnav = ("lnav", "-n", "-I", str(_LNAV_FOLDER), "-c", _LEVELS, "-c", _STATISTICS, str(log))
        yield _row(f"lnav, levels and statistics, {mix}, {megabytes:g} MB", mine, least(lnav, 2))


def _row(name: str, mine: Cost, other: Cost) -> Row:
    return Row(name, seconds(mine.cpu), seconds(other.cpu), mine.cpu / other.cpu)


def _written(folder: Path, mix: Mix, megabytes: float) -> Path:
    path = folder / f"{mix}-{megabytes:g}.log"
    with path.open("wb") as file:
        file.writelines(pieces(megabytes, mix, Truth()))
    return path
