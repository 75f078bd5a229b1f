"""No kind of credential survives in a report, whatever the place in the log."""

from __future__ import annotations

import pytest

from tests.parse.secret_kinds import PLANTED
from vllm_logdoctor import analyze

SERVER = """\
(APIServer pid=5) INFO 03-04 10:11:10 [api_server.py:1289] vLLM API server version 0.11.2
(EngineCore_DP0 pid=9) INFO 03-04 10:11:20 [core.py:93] Initializing a V1 LLM engine (v0.11.2) with config: model='org/m'
{line}
(EngineCore_DP0 pid=9) ERROR 03-04 10:13:00 [core.py:708] RuntimeError: CUDA error: an illegal memory access was encountered
"""


@pytest.mark.parametrize(("core", "line"), [pytest.param(*planted, id=name) for name, *planted in PLANTED])
def test_it_is_masked(core: str, line: str) -> None:
    report = analyze(SERVER.format(line=line).encode())
    assert [text for text in (report.to_json(), report.to_markdown()) if core in text] == []
