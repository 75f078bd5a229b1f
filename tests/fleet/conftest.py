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


def _written(folder: Path) -> Path:
    """Write nine logs of eight jobs: healthy, cut, empty, of another tool, of two files."""
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
def logs(tmp_path: Path) -> Path:
    """The logs, for a test that changes them or reads them again."""
    return _written(tmp_path / "logs")


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of these logs, which is only copied."""
    folder = tmp_path_factory.mktemp("fleet")
    Fleet(folder / "store").add([_written(folder / "logs")], jobs=1)
    return folder / "store"


@pytest.fixture
def fleet(request: pytest.FixtureRequest, tmp_path: Path, filled: Path) -> Fleet:
    """A store of the test's own logs where it has them, else of equal ones."""
    place = tmp_path / "store"
    if "logs" not in request.fixturenames:
        shutil.copytree(filled, place)
        return Fleet(place)
    opened = Fleet(place)
    opened.add([request.getfixturevalue("logs")], jobs=1)
    return opened
