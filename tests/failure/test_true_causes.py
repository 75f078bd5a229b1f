"""What a cause says holds for this log: the device, the build and the phase that it names are the log's."""

from __future__ import annotations

import pytest

import vllm_logdoctor
from tests.failure.judging import root


def _raised(*frames: tuple[str, int, str, str], error: str, above: str = "") -> str:
    lines = [above, "Traceback (most recent call last):"]
    for file, line, function, code in frames:
        lines += [f'  File "{file}", line {line}, in {function}', f"    {code}"]
    return "\n".join([*lines, error]).strip()


_ENGINE = (
    "/opt/site-packages/vllm/v1/engine/core.py",
    60,
    "__init__",
    "self.executor = executor_class(config)",
)


def test_a_worker_of_ray_without_a_tpu_is_not_said_to_lack_a_gpu() -> None:
    frame = (
        "/opt/vllm-0.6.2.post1/vllm/executor/ray_utils.py",
        300,
        "initialize_ray_cluster",
        "raise ValueError(",
    )
    text = _raised(
        frame, error="ValueError: Current node has no TPU available. current_node_resource={'CPU': 8.0}"
    )
    report = vllm_logdoctor.analyze(text.splitlines()).to_markdown()
    assert "no TPU" in report
    assert "GPU" not in report
    assert "vLLM 0.6.2.post1 ·" in report


def test_a_call_with_a_wrong_keyword_is_no_refused_setting() -> None:
    frame = (
        "/opt/site-packages/vllm/entrypoints/api_server.py",
        9,
        "<module>",
        'parser.add_argument("--port", le=9)',
    )
    assert (
        root(_raised(frame, error="TypeError: Action.__init__() got an unexpected keyword argument 'le'")).id
        != "settings-refused"
    )


def test_a_debugger_that_torch_compile_traces_is_named() -> None:
    frames = (
        (
            "/opt/site-packages/vllm/compilation/decorators.py",
            238,
            "__call__",
            "self.compiled_callable(*args)",
        ),
        ("_pydevd_sys_monitoring_cython.pyx", 505, "_get_code_line_info", ""),
        ("/opt/site-packages/torch/_dynamo/exc.py", 297, "unimplemented", "raise Unsupported(msg)"),
    )
    found = root(_raised(_ENGINE, *frames, error="torch._dynamo.exc.Unsupported: generator"))
    assert "debugger" in found.title
    assert found.alternatives[0] == "Start without the debugger."


def test_a_python_stack_that_the_log_has_is_not_asked_for() -> None:
    text = "\n".join([
        "(Worker pid=7) *** SIGSEGV received at time=1722289279 on cpu 1 ***",
        "(Worker pid=7) Fatal Python error: Segmentation fault",
        "(Worker pid=7) Stack (most recent call first):",
        '(Worker pid=7)   File "/opt/site-packages/vllm/distributed/pynccl.py", line 9 in all_reduce',
    ])  # fmt: skip
    found = root(text)
    assert not any(change.knob == "PYTHONFAULTHANDLER" for change in found.changes)
    assert "stack" in found.explanation


def test_an_operation_of_an_extension_that_was_not_imported() -> None:
    frame = ("/opt/site-packages/vllm/_custom_ops.py", 106, "rms_norm", "vllm_ops.rms_norm(out)")
    assert (
        "not loaded" in root(_raised(_ENGINE, frame, error="NameError: name 'vllm_ops' is not defined")).title
    )


@pytest.mark.parametrize("setting", ["CUDA_LAUNCH_BLOCKING=1 ", ""])
def test_a_variable_that_is_set_is_not_proposed(setting: str) -> None:
    frame = (
        "/opt/site-packages/vllm/_custom_ops.py",
        6,
        "cutlass_scaled_mm",
        "torch.ops._C.cutlass_scaled_mm(out, a)",
    )
    text = _raised(_ENGINE, frame, error="RuntimeError: Error Internal", above=f"$ {setting}vllm serve org/m")
    assert any("CUDA_LAUNCH_BLOCKING" in way for way in root(text).alternatives) is not bool(setting)


def test_an_error_in_an_unknown_step_of_a_start_is_not_ascribed_to_requests() -> None:
    frame = (
        "/opt/site-packages/xgrammar/tokenizer_info.py",
        107,
        "_is_tiktoken",
        'names["vocab"]',
    )
    text = _raised(_ENGINE, frame, error="KeyError: 'vocab'")
    found = root(f"INFO 05-01 10:00:01 [api_server.py:1043] vLLM API server version 0.8.1\n{text}")
    assert "during start-up" in found.explanation
    assert not any("request" in way for way in found.alternatives)


def test_an_offline_log_that_ends_before_its_first_result_is_not_healthy() -> None:
    lines = [
        "INFO 05-01 10:00:01 [core.py:54] Initializing a V1 LLM engine (v0.8.3) with config: model='org/m', tensor_parallel_size=1",
        "INFO 05-01 10:01:00 [core.py:162] init engine (profile, create kv cache, warmup model) took 8.69 seconds",
        "Processed prompts:   0%|          | 0/1 [00:00<?, ?it/s, est. speed input: 0.00 toks/s, output: 0.00 toks/s]",
    ]
    assert vllm_logdoctor.analyze(lines).to_markdown().startswith("# CUT OFF: no result in the log")


def test_a_device_other_than_cuda_in_a_forked_process_is_named() -> None:
    error = "RuntimeError: Cannot re-initialize NPU in forked subprocess. To use NPU with multiprocessing, you must use the 'spawn' start method"
    found = root(_raised(_ENGINE, error=error))
    assert found.explanation.startswith("NPU was already in use")
    assert "CUDA" not in found.title


def test_a_small_step_is_not_proposed_where_more_memory_is_missing() -> None:
    lines = [
        "INFO 03-09 12:54:57 [api_server.py:1043] vLLM API server version 0.11.0",
        "INFO 03-09 12:54:57 [utils.py:238] non-default args: {'model': 'org/m', 'gpu_memory_utilization': 0.3}",
        "INFO 03-09 12:56:44 [gpu_worker.py:424] Available KV cache memory: -8.59 GiB",
        _raised(
            _ENGINE,
            error="ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.",
        ),
    ]
    assert not any(change.knob == "--gpu-memory-utilization" for change in root("\n".join(lines)).changes)


def test_the_budget_for_an_item_is_at_least_its_tokens() -> None:
    error = "ValueError: The decoder prompt contains a(n) image item with length 6105, which exceeds the pre-allocated encoder cache size 6084."
    found = root(_raised(_ENGINE, error=error))
    assert [change.after for change in found.changes if change.knob == "--max-num-batched-tokens"] == [6144]


def test_a_time_before_a_process_is_no_part_of_an_error() -> None:
    text = _raised(_ENGINE, error="OSError: no such model")
    stamped = [f"2026-04-19 12:51:56.342 | (APIServer pid=1) {line}" for line in text.splitlines()]
    assert "`OSError: no such model`" in vllm_logdoctor.analyze(stamped).to_markdown()
