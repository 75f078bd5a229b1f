"""Twice the log costs at most twice the work, counted in calls, which no other load of the machine changes."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import pytest

from benchmarks.hostile import HOSTILE
from vllm_logdoctor import analyze

SIZE = 150_000


@pytest.mark.parametrize("name", ["tracebacks", "runs"])
def test_work_grows_no_faster_than_the_log(name: str, tmp_path: Path) -> None:
    small, middle, large = (
        calls_of(b"".join(HOSTILE[name](SIZE * times)), tmp_path / "vllm.log") for times in (1, 2, 3)
    )
    assert large - middle <= 1.15 * (middle - small)


def calls_of(log: bytes, path: Path) -> int:
    path.write_bytes(log)
    analyze(path)  # What is compiled and loaded once is no work of the log.
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        analyze(path)
    finally:
        sys.setprofile(None)
    return count
