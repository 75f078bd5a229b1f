"""Ranks that write files of their own: the one that failed first is the root, whatever the order of the files."""

import pytest

from tests.failure.records import framed, traceback
from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.source import inputs_from


def rank(number, ends, clock):
    process = f"VllmWorker rank={number} pid={number + 9}"
    start = f"({process}) INFO 05-01 10:00:30 [gpu_model_runner.py:1531] Starting to load model org/model..."
    lines = ["WorkerProc failed to start.", *traceback(("somewhere", "x()"), ends=ends)]
    return "\n".join([start, *framed(process, lines, clock=clock)]) + "\n"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_first_unknown_error_in_time_is_the_root(tmp_path, order):
    texts = [
        rank(0, "RuntimeError: seen second", "10:05:00"),
        rank(1, "RuntimeError: seen first", "10:01:00"),
    ]
    files = [tmp_path / f"rank{number}.log" for number in order]
    for number, file in zip(order, files, strict=True):
        file.write_text(texts[number])
    (run,) = analyse(inputs_from([str(file) for file in files]), Options()).runs
    root = next(finding for finding in run.findings if finding.role == "root")
    assert "seen first" in root.explanation
    assert root.evidence[0].file.endswith("rank1.log")
