"""Logs of jobs, made from the bundled ones, and a store of them."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from vllm_logdoctor.fleet.library import Fleet

FIXTURES = Path(__file__).parents[2] / "fixtures"
STARVED = FIXTURES / "vllm-0.11.2-kv-starved.log"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Nine logs of eight jobs: healthy, cut, empty, of another tool, of two files."""
    folder = tmp_path / "logs"
    folder.mkdir()
    shutil.copy(STARVED, folder / "slurm-101.out")
    shutil.copy(STARVED, folder / "vllm.o202")
    (folder / "vllm.e202").write_text(
        "INFO 07-16 12:29:43 [api_server.py:1289] vLLM API server version 0.11.2\n"
    )
    (folder / "named.log").write_text("SLURM_JOB_ID=303\n" + STARVED.read_text())
    (folder / "empty.log").touch()
    (folder / "poem.log").write_text("roses are red\n" * 50)
    whole = gzip.compress(STARVED.read_bytes())
    (folder / "cut.log.gz").write_bytes(whole[: len(whole) // 2])
    (folder / "gpus.csv").write_text("index, name, utilization.gpu [%]\n0, NVIDIA A100, 50 %\n")
    return folder


@pytest.fixture
def fleet(tmp_path: Path, logs: Path) -> Fleet:
    """A store of these logs."""
    opened = Fleet(tmp_path / "store")
    opened.add([logs], jobs=1)
    return opened
