"""An output that takes no more is an output that can't be written: one line and exit status 3."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import logdoctor

LOG = str(Path(__file__).resolve().parents[2] / "fixtures/vllm-0.11.2-fail-port-in-use.log")
FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
@pytest.mark.parametrize(
    "arguments",
    [["analyze", LOG], ["analyze", LOG, "-f", "terminal"], ["config", LOG], ["man"], ["--help"]],
    ids=" ".join,
)
def test_a_full_standard_output_is_one_line(arguments: list[str], tmp_path: Path) -> None:
    with FULL.open("wb") as full:
        done = logdoctor(*arguments, cwd=tmp_path, stdout=full)
    assert (done.returncode, done.stderr) == (3, "logdoctor: can't write: No space left on device\n")
