"""Advice names the tools of the platform that the run was on."""

from __future__ import annotations

import pytest

from tests.failure.judging import root

NOT_FREE = """\
INFO 05-01 10:00:00 [__init__.py:220] Automatically detected platform {platform}.
(EngineCore pid=9) INFO 05-01 10:00:20 [core.py:97] Initializing a V1 LLM engine (v0.18.0) with config: model='m', device_config={device}
(EngineCore pid=9) ERROR 05-01 10:00:30 [core.py:708] EngineCore failed to start.
(EngineCore pid=9) ERROR 05-01 10:00:30 [core.py:708] Traceback (most recent call last):
(EngineCore pid=9) ERROR 05-01 10:00:30 [core.py:708]   File "/opt/vllm/v1/worker/worker.py", line 250, in init_device
(EngineCore pid=9) ERROR 05-01 10:00:30 [core.py:708]     raise ValueError(
(EngineCore pid=9) ERROR 05-01 10:00:30 [core.py:708] ValueError: Free memory on device (23.23/60.96 GiB) on startup is less than \
desired GPU memory utilization (0.6, 36.57 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."""


@pytest.mark.parametrize(
    ("platform", "device", "tool", "variable"),
    [
        ("cuda", "cuda", "nvidia-smi", "CUDA_VISIBLE_DEVICES"),
        ("rocm", "cuda", "rocm-smi", "HIP_VISIBLE_DEVICES"),
        ("npu", "npu", "npu-smi info", "ASCEND_RT_VISIBLE_DEVICES"),
    ],
)
def test_the_process_on_the_card_is_found_with_the_tool_of_the_card(
    platform: str, device: str, tool: str, variable: str
) -> None:
    found = root(NOT_FREE.format(platform=platform, device=device))
    assert found.id == "gpu-memory-not-free-at-start"
    words = " ".join([*found.alternatives, *(str(change.after) for change in found.changes)])
    assert tool in words
    assert variable in words
    if platform != "cuda":
        assert "nvidia" not in words
        assert "CUDA_" not in words
