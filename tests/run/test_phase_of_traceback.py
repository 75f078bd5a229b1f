"""A traceback that only a start can have makes the run one that failed at its start, whatever else the log lacks."""

from __future__ import annotations

import pytest

from vllm_logdoctor import analyze

ROOT = "/opt/env/lib/python3.12/site-packages/vllm"
REGISTERED = f'  File "{ROOT}/distributed/kv_transfer/kv_connector/v1/nixl_connector.py", line 210, in register_kv_caches\n    self.agent.register(caches)'
LOADED = f'  File "{ROOT}/model_executor/model_loader/utils.py", line 64, in device_of_layer\n    module.process_weights()'
PARSED = f'  File "{ROOT}/entrypoints/api_server.py", line 120, in <module>\n    parser.add_argument("--port", type=int, gt=0)'
ANSWERED = f'  File "{ROOT}/v1/engine/core.py", line 320, in run_busy_loop\n    self._process_engine_step()'


@pytest.mark.parametrize(
    ("frame", "outcome"),
    [
        (REGISTERED, "crashed_at_startup"),
        (LOADED, "crashed_at_startup"),
        (PARSED, "crashed_at_startup"),
        (ANSWERED, "crashed_while_serving"),
    ],
)
def test_the_frames_of_a_traceback_tell_whether_the_start_failed(frame: str, outcome: str) -> None:
    log = f"Traceback (most recent call last):\n{frame}\nRuntimeError: the device answered with code 7\n"
    assert analyze(log.encode()).runs[0].outcome == outcome
