"""A phase that all ranks go through is shown once, by its slowest rank."""

from __future__ import annotations

from tests.failure.judging import diagnosis
from tests.tables import for_each

START = "INFO 05-01 10:00:00 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: model='m', tensor_parallel_size=2"


@for_each(("seconds", "words"), [((18, 18), "as long in all 2"), ((18, 21), "slowest of 2")])
def test_ranks_that_took_equally_long_are_not_called_slowest(seconds: tuple[int, int], words: str) -> None:
    captured = [
        f"(Worker_TP{rank} pid=3{rank}) INFO 05-01 10:01:00 [gpu_model_runner.py:3480] Graph capturing finished in {took} secs, took 0.50 GiB"
        for rank, took in enumerate(seconds)
    ]
    run = diagnosis("\n".join([START, *captured])).run
    assert words in next(one.process for one in run.phases if one.name == "graph-capture")
