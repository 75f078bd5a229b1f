"""The trail of a run: the kept records and the last lines of its files, in order of time."""

from __future__ import annotations

from pathlib import Path

from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.run.lifecycle import trail_of
from vllm_logdoctor.source import inputs_from

OUT = """\
(APIServer pid=77) INFO 05-01 10:00:00 [api_server.py:1043] vLLM API server version 0.11.2
(APIServer pid=77) ERROR 05-01 10:00:50 [core_client.py:564] Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.
+ echo the end
"""
ERR = """\
(EngineCore pid=78) INFO 05-01 10:00:20 [core.py:97] Initializing a V1 LLM engine (v0.11.2) with config: model='m'
(EngineCore pid=78) ERROR 05-01 10:00:40 [core.py:708] EngineCore failed to start.
(EngineCore pid=78) ERROR 05-01 10:00:41 [core.py:708] RuntimeError: no such device
"""


def test_records_of_output_and_error_are_in_order_of_time(tmp_path: Path) -> None:
    for name, text in (("vllm.out", OUT), ("vllm.err", ERR)):
        (tmp_path / name).write_text(text)
    paths = [str(tmp_path / name) for name in ("vllm.out", "vllm.err")]
    (diagnosis,) = analyse(inputs_from(paths), Options()).runs
    trail = trail_of(diagnosis.run)
    assert [(record.file, record.line) for record in trail] == [
        (0, 1),
        (1, 1),
        (1, 2),
        (1, 3),
        (0, 2),
        (0, 3),
    ]
