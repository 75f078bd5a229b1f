"""Sentences that reports on real logs got wrong, each on a small log of its own."""

from __future__ import annotations

import vllm_logdoctor
from vllm_logdoctor.report.sections.machine import device_name

START = [
    "INFO 05-01 10:00:00 [api_server.py:1043] vLLM API server version 0.11.0",
    "INFO 05-01 10:00:01 [utils.py:233] non-default args: {'model': 'org/model', 'max_model_len': 4096,"
    " 'speculative_config': {'method': 'mtp', 'num_speculative_tokens': 3}}",
    "(EngineCore_DP0 pid=9) INFO 05-01 10:00:10 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config:"
    " model='org/model', speculative_config=SpeculativeConfig(method='mtp', num_spec_tokens=3), dtype=torch.bfloat16,"
    " max_seq_len=4096, tensor_parallel_size=1",
]
FAILED_LOAD = [
    *START,
    "(EngineCore_DP0 pid=9) INFO 05-01 10:05:10 [default_loader.py:268] Loading weights took 290.00 seconds",
    "(EngineCore_DP0 pid=9) ERROR 05-01 10:05:20 [core.py:708] EngineCore failed to start.",
    "(EngineCore_DP0 pid=9) ERROR 05-01 10:05:20 [core.py:708] Traceback (most recent call last):",
    '(EngineCore_DP0 pid=9) ERROR 05-01 10:05:20 [core.py:708]   File "/opt/vllm/model_executor/models/llama.py", line 430, in load_weights',
    "(EngineCore_DP0 pid=9) ERROR 05-01 10:05:20 [core.py:708]     param = params_dict[name]",
    "(EngineCore_DP0 pid=9) ERROR 05-01 10:05:20 [core.py:708] KeyError: 'layers.0.attention.wk.weight'",
]
TOOL_PARSER = [
    "ERROR 03-20 16:44:04 [hermes_tool_parser.py:338] Error trying to handle streaming tool call.",
    "ERROR 03-20 16:44:04 [hermes_tool_parser.py:338] Traceback (most recent call last):",
    'ERROR 03-20 16:44:04 [hermes_tool_parser.py:338]   File "/opt/vllm/entrypoints/openai/tool_parsers/hermes_tool_parser.py", line 227, in extract_tool_calls_streaming',
    'ERROR 03-20 16:44:04 [hermes_tool_parser.py:338]     name = call.get("name")',
    "ERROR 03-20 16:44:04 [hermes_tool_parser.py:338] AttributeError: 'NoneType' object has no attribute 'get'",
]


def report(lines: list[str]) -> str:
    return vllm_logdoctor.analyze(lines).to_markdown()


def test_the_verdict_of_a_failure_explains_and_does_not_repeat_its_decisive_line() -> None:
    text = report([line.replace("speculative_config", "load_config") for line in FAILED_LOAD])
    screen = text.split("## What broke")[0]
    assert screen.count("layers.0.attention.wk.weight") == 1
    assert "do not match what vLLM's model class expects" in screen


def test_a_part_of_a_load_that_failed_is_not_called_unexplained() -> None:
    phases = {phase.name: phase for phase in vllm_logdoctor.analyze(FAILED_LOAD).runs[0].phases}
    assert phases["read-weights"].parent == "startup"
    assert (phases["unexplained"].seconds or 0) < 30


def test_a_nested_setting_that_the_engine_prints_with_other_names_is_not_called_changed() -> None:
    config = vllm_logdoctor.analyze(START).runs[0].config
    assert config.value("speculative_config").provenance == "explicit"


def test_an_exception_of_a_request_without_a_4xx_is_not_called_one() -> None:
    text = report(TOOL_PARSER)
    assert "4xx" not in text
    assert "the server kept running" in text


def test_a_piece_of_a_log_is_not_called_a_running_server() -> None:
    assert "still running" not in report(TOOL_PARSER)


def test_the_head_of_a_traceback_is_no_unknown_warning() -> None:
    old = [line.replace("[hermes_tool_parser.py:338]", "engine.py:366]") for line in TOOL_PARSER[1:]]
    assert "`Traceback (most recent call last):`" not in report(old)


def test_a_card_that_the_job_script_listed_is_named() -> None:
    text = report(["GPU 0: NVIDIA L4 (UUID: GPU-5c1d0a52-1111)", *START])
    assert "GPU model" not in text
    run = vllm_logdoctor.analyze(["0, NVIDIA L4, 23034 MiB, 550.54.15", *START]).runs[0].run
    assert (named := device_name(run)) is not None
    assert named[0] == "NVIDIA L4"


def test_parts_of_torch_compile_are_indented_below_it() -> None:
    compiled = [
        "(EngineCore_DP0 pid=9) INFO 05-01 10:00:20 [gpu_model_runner.py:2653] Model loading took 2.9 GiB and 5.0 seconds",
        "(EngineCore_DP0 pid=9) INFO 05-01 10:00:26 [backends.py:559] Dynamo bytecode transform time: 5.00 s",
        "(EngineCore_DP0 pid=9) INFO 05-01 10:00:30 [monitor.py:34] torch.compile takes 9.00 s in total",
        "(EngineCore_DP0 pid=9) INFO 05-01 10:00:40 [core.py:210] init engine (profile, create kv cache, warmup model) took 20.00 seconds",
        "INFO:     Application startup complete.",
    ]
    text = report([*START, *compiled])
    assert "| · torch.compile |" in text
    assert "| · · Dynamo tracing |" in text


def test_a_run_limited_by_its_configuration_is_said_to_be_so_in_the_first_sentence() -> None:
    from pathlib import Path

    for log in sorted(Path("fixtures").glob("*.log")):
        text = vllm_logdoctor.analyze(log).to_markdown()
        if text.startswith("# LIMITED: by its configuration"):
            verdict = next(line for line in text.splitlines() if line.startswith("**"))
            assert not verdict.startswith("**No request queued")


def test_an_excerpt_is_not_said_to_end_during_start_up() -> None:
    text = report(
        [
            "INFO 05-01 10:00:00 [cumem.py:174] Sleep mode freed 23.74 GiB memory, 1.20 GiB memory is still in use."
        ]
    )
    assert "ends during start-up" not in text
    assert "log ends before start-up completed" not in text


def test_a_first_sentence_of_a_failure_is_more_than_a_path() -> None:
    full = "OSError: [Errno 28] No space left on device: '/scratch/cache/a.bin'"
    screen = report(
        [*FAILED_LOAD[:-1], FAILED_LOAD[-1].replace("KeyError: 'layers.0.attention.wk.weight'", full)]
    )
    verdict = next(line for line in screen.splitlines() if line.startswith("**"))
    assert verdict.startswith("**A file could not be written")
