"""Logs of several nodes or ranks: the failure that came first is the one to start with, and its host is named."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from vllm_logdoctor import analyze

_ENDS = {
    "dead": [
        "(APIServer pid=11) ERROR {time}:06:00 [async_llm.py:480] AsyncLLM output_handler failed.",
        "(APIServer pid=11) ERROR {time}:06:00 [async_llm.py:480] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. "
        "See stack trace (above) for the root cause.",
    ],
    "crashed": [
        "(EngineCore_DP0 pid=21) ERROR {time}:05:00 [core.py:710] Traceback (most recent call last):",
        '(EngineCore_DP0 pid=21) ERROR {time}:05:00 [core.py:710]   File "/opt/vllm/v1/engine/core.py", line 701, in run_engine_core',
        "(EngineCore_DP0 pid=21) ERROR {time}:05:00 [core.py:710] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    ],
    "stopped": ["(APIServer pid=11) INFO:     Shutting down", "(APIServer pid=11) INFO:     Finished server process [11]"],
}  # fmt: skip


def lines_of_node(end: str, time: str = "03-04 10") -> list[str]:
    """Return the log of a server that starts at a full hour and ends in one of three ways."""
    lines = [
        "(APIServer pid=11) INFO {time}:00:05 [api_server.py:1839] vLLM API server version 0.11.2",
        "(APIServer pid=11) INFO {time}:00:05 [utils.py:233] non-default args: {{'model': 'org/tiny', 'max_num_seqs': 4}}",
        "(EngineCore_DP0 pid=21) INFO {time}:00:20 [kv_cache_utils.py:1087] GPU KV cache size: 100,000 tokens",
        "(APIServer pid=11) INFO:     Application startup complete.",
        "(APIServer pid=11) INFO {time}:01:00 [loggers.py:127] Engine 000: Avg prompt throughput: 10.0 tokens/s, Avg generation throughput: 50.0 tokens/s, "
        "Running: 2 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%, Prefix cache hit rate: 0.0%",
        *_ENDS[end],
    ]  # fmt: skip
    return [line.format(time=time) for line in lines]


def test_of_several_nodes_the_one_that_failed_first_is_the_one_to_start_with(tmp_path: Path) -> None:
    for node, end in (("node1", "dead"), ("node2", "crashed"), ("node3", "stopped")):
        (tmp_path / f"{node}.log").write_text("\n".join(lines_of_node(end)))
    report = analyze(tmp_path)
    assert [run.run.first_file.rpartition("/")[2] for run in report.runs] == [
        "node1.log",
        "node2.log",
        "node3.log",
    ]
    assert "**2 of 3 failed; start with run 2.**" in report.to_markdown()


@pytest.mark.parametrize("errors", ["errors-48.err", "slurm-48.err"])
@pytest.mark.parametrize("others", [(), ("slurm-51.out",)])
def test_the_end_of_a_job_in_its_error_output_belongs_to_its_log_whatever_its_name(
    errors: str, others: tuple[str, ...], tmp_path: Path
) -> None:
    running = lines_of_node("stopped")[:-2]
    for name in ("slurm-48.out", *others):
        (tmp_path / name).write_text("\n".join([*running, ""]))
    (tmp_path / errors).write_text(
        "slurmstepd-n1: error: *** JOB 48 ON n1 CANCELLED AT 2026-03-04T10:23:38 DUE TO TIME LIMIT ***\n"
    )
    outcomes = {run.run.first_file.rpartition("/")[2]: run.run.outcome for run in analyze(tmp_path).runs}
    assert outcomes == {"slurm-48.out": "killed", **dict.fromkeys(others, "running")}


def test_servers_that_were_started_days_apart_are_runs_of_their_own(tmp_path: Path) -> None:
    for day, end in ((4, "stopped"), (7, "stopped"), (9, "crashed")):
        (tmp_path / f"serve.{day}.log").write_text("\n".join(lines_of_node(end, f"03-{day:02} 10")))
    report = analyze(tmp_path)
    assert len(report.runs) == 3
    assert "**1 of 3 failed; start with run 3.**" in report.to_markdown()


@pytest.mark.parametrize("seed", range(4))
def test_the_rank_that_failed_is_named_however_the_lines_of_two_ranks_are_mixed(seed: int) -> None:
    mix, waiting, lines = random.Random(seed), [lines_of_node("dead"), lines_of_node("crashed")], []
    while any(waiting):
        rank = mix.choice([number for number, left in enumerate(waiting) if left])
        lines.append(f"{rank}: {waiting[rank].pop(0)}")
    text = analyze("\n".join(lines).encode()).to_markdown()
    assert text.startswith("# FAILED while serving: Out of memory\n")
    assert "`1: torch.OutOfMemoryError" in text
