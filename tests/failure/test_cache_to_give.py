"""Advice that takes memory from the KV cache is held against what the cache has to give."""

from __future__ import annotations

from tests.failure.judging import root
from tests.failure.records import framed, traceback
from tests.failure.two_ranks import text

HEAD = "(EngineCore pid=9) INFO 05-01 10:00:0"


def _captured_too_much(cache: str, tokens: str) -> str:
    start = [
        f"{HEAD}0 [core.py:105] Initializing a V1 LLM engine (v0.19.1) with config: model='m', max_seq_len=4096",
        f"{HEAD}1 [gpu_model_runner.py:5955] Estimated CUDA graph memory: 3.30 GiB total",
        f"{HEAD}2 [gpu_worker.py:436] Available KV cache memory: {cache} GiB",
        f"{HEAD}2 [kv_cache_utils.py:1319] GPU KV cache size: {tokens} tokens",
        f"{HEAD}3 [gpu_model_runner.py:5800] Capturing CUDA graphs (decode, FULL)",
    ]
    raised = traceback(
        ("capture_model", "with graph_capture(device=self.device):"),
        ends="torch.AcceleratorError: CUDA error: out of memory",
    )
    return text(start, framed("EngineCore pid=9", ["EngineCore failed to start.", *raised], "core.py:1108"))


def test_a_cache_that_holds_little_more_than_one_request_gives_nothing() -> None:
    found = root(_captured_too_much("0.90", "5,120"))
    assert found.id == "oom-cudagraph-capture"
    assert "It can give up 0.18 GiB at most: one request of 4,096 tokens needs the rest." in found.explanation
    assert not found.changes
    assert found.alternatives[0].startswith("Capture fewer sizes")


def test_a_cache_with_room_is_made_smaller() -> None:
    found = root(_captured_too_much("20.00", "113,920"))
    assert "It can give up" not in found.explanation
    assert [change.knob for change in found.changes] == ["VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"]
    assert any("--gpu-memory-utilization" in way for way in found.alternatives)
