"""Settings that the source line of a traceback shows are the run's, as far as they are literals."""

from typing import Any

import pytest

import vllm_logdoctor
from tests.failure.records import records_of
from vllm_logdoctor.run.source_calls import settings_in_calls

FRAME = '  File "/home/me/serve.py", line 9, in <module>'
BELOW = [
    '  File "/opt/lib/python3.12/site-packages/vllm/entrypoints/llm.py", line 200, in __init__',
    "    self.llm_engine = LLMEngine.from_engine_args(args)",
    "ValueError: no such thing",
]


@pytest.mark.parametrize(
    ("lines", "settings"),
    [
        (['    llm = LLM(model="org/m", enforce_eager=True, max_model_len=8192)'], {"model": "org/m", "enforce_eager": True, "max_model_len": 8192}),
        (['    self.llm = vllm.LLM("org/m", dtype=torch.float16, tensor_parallel_size=size)'], {"model": "org/m", "dtype": "float16"}),
        (['----> 1 llm = LLM(', "      2     model=path,", "      3     max_model_len=512,", "      4 )"], {"max_model_len": 512}),
        (['    llm = LLM(model="org/m",', "              ^^^^^^^^^^^^^^^^"], {"model": "org/m"}),
        (['    args = AsyncEngineArgs(model="org/m", quantization="awq", own_setting=3)'], {"model": "org/m", "quantization": "awq"}),
        (["    llm = LLM(**settings)"], None),
        (['    print("LLM(model=1)")'], None),
    ],
)  # fmt: skip
def test_literals_of_the_call_are_settings(lines: list[str], settings: dict[str, Any] | None) -> None:
    found = settings_in_calls(
        records_of("\n".join(["Traceback (most recent call last):", FRAME, *lines, *BELOW]))
    )
    assert (found and found[0]) == settings


def test_the_report_lists_them_with_their_line_and_asks_for_no_configuration() -> None:
    call = '    llm = LLM(model="org/m", quantization="awq", max_model_len=512)'
    analysis = vllm_logdoctor.analyze(["Traceback (most recent call last):", FRAME, call, *BELOW])
    text = analysis.to_markdown()
    assert "| `quantization` | `awq` | arguments | [L3] |" in text
    assert "Configuration: keep" not in text
    assert "Complete launch command" not in text
    assert analysis.runs[0].run.kind == "offline"


def test_what_the_log_prints_goes_before_a_source_line() -> None:
    printed = "INFO 05-01 10:00:00 [utils.py:233] non-default args: {'max_model_len': 1024, 'model': 'org/m'}"
    call = '    llm = LLM(model="org/m", max_model_len=512)'
    run = (
        vllm_logdoctor.analyze([printed, "Traceback (most recent call last):", FRAME, call, *BELOW])
        .runs[0]
        .run
    )
    assert run.config["max_model_len"].value == 1024
    assert run.config["max_model_len"].evidence[0].line == 1
