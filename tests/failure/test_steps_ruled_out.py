"""Steps that the log rules out are left out: what can't be smaller, what the model does not take, flags of vLLM for another program."""

from __future__ import annotations

import pytest

from tests.failure.judging import root
from tests.failure.records import framed
from vllm_logdoctor import analyze
from vllm_logdoctor.run.owners import owner_of

NO_MEMORY = [
    "Traceback (most recent call last):",
    '  File "/opt/vllm/v1/core/kv_cache_utils.py", line 480, in check_enough_kv_cache_memory',
    '    raise ValueError("No available memory for the cache blocks. "',
    "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
]


def _without_cache(model: str, arguments: str, gib: float, quantization: str = "None") -> str:
    return "\n".join(
        [
            "INFO 05-01 10:00:00 [api_server.py:1034] vLLM API server version 0.8.3",
            f"INFO 05-01 10:00:00 [api_server.py:1035] args: Namespace(model='{model}', {arguments}limit_mm_per_prompt=None)",
            f"INFO 05-01 10:00:02 [core.py:61] Initializing a V1 LLM engine (v0.8.3) with config: model='{model}', dtype=torch.float16,"
            f" max_seq_len=512, quantization={quantization}, seed=0, mm_processor_kwargs=None",
            f"INFO 05-01 10:00:09 [gpu_model_runner.py:1273] Model loading took {gib} GiB and 0.8 seconds",
            *framed("", ["EngineCore hit an exception:", *NO_MEMORY], "core.py:390"),
        ]
    )


def _steps(text: str) -> str:
    return " ".join(root(text).alternatives)


def test_one_sequence_is_not_made_fewer() -> None:
    assert "--max-num-seqs" not in _steps(_without_cache("org/plain-7b", "max_num_seqs=1, ", 14.0))
    assert "`--max-num-seqs`" in _steps(_without_cache("org/plain-7b", "max_num_seqs=8, ", 14.0))


@pytest.mark.parametrize(("model", "takes"), [("org/plain-7b", False), ("org/Plain-VL-7B", True)])
def test_images_are_limited_where_the_model_takes_some(model: str, takes: bool) -> None:
    assert ("--limit-mm-per-prompt" in _steps(_without_cache(model, "", 14.0))) is takes


def test_smaller_weights_are_advised_where_there_is_something_to_save() -> None:
    assert "weights smaller" not in _steps(_without_cache("org/tiny-0.5b", "", 0.4))
    assert "a quantized checkpoint" in _steps(_without_cache("org/plain-7b", "", 14.0))
    packed = _steps(_without_cache("org/plain-70b", "", 38.0, "awq_marlin"))
    assert "a larger `--tensor-parallel-size`" in packed
    assert "quantized checkpoint" not in packed


FAULT = [
    "torch.distributed.DistBackendError: NCCL error in: /torch/ProcessGroupNCCL.cpp:99, unhandled cuda error, NCCL version 2.26.2",
    "ncclUnhandledCudaError: Call to CUDA function failed.",
    "Last error:",
    "Cuda failure 700 'an illegal memory access was encountered'",
]


def _called_from(*files: str) -> str:
    frames = [line for file in files for line in (f'  File "{file}", line 7, in run', "    step()")]
    return "\n".join(["Traceback (most recent call last):", *frames, *FAULT])


def test_a_trainer_without_vllm_gets_no_switch_of_vllm_and_is_named() -> None:
    library = "/opt/lib/python3/site-packages/torch/distributed/utils.py"
    alone = root(_called_from("/src/verl/workers/fsdp_workers.py", library))
    within = root(_called_from("/src/verl/workers/rollout.py", "/opt/vllm/v1/engine/core.py", library))
    assert "of verl: no line of this log is vLLM's" in alone.explanation
    assert "enforce-eager" not in " ".join(alone.alternatives)
    assert "no line of this log" not in within.explanation
    assert "enforce-eager" in " ".join(within.alternatives)


def test_a_cuda_error_within_nccl_is_its_cause_and_not_beside_it() -> None:
    report = analyze(_called_from("/opt/vllm/v1/engine/core.py").split("\n")).to_markdown()
    assert "Illegal memory access" in report.split("\n")[0]
    assert "without a logged cause" not in report


def test_weights_go_over_as_many_cards_as_leave_room_for_the_cache() -> None:
    text = "\n".join(
        [
            "INFO 05-01 10:00:01 llm_engine.py:213] Initializing an LLM engine (v0.6.4) with config: model='/models/Our-72B-Chat',"
            " dtype=torch.bfloat16, max_seq_len=32768, tensor_parallel_size=1, pipeline_parallel_size=1, quantization=None, seed=0)",
            "INFO 05-01 10:00:05 model_runner.py:1060] Starting to load model /models/Our-72B-Chat...",
            "Traceback (most recent call last):",
            '  File "/opt/vllm/worker/model_runner.py", line 1062, in load_model',
            "    self.model = get_model(vllm_config=self.vllm_config)",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 400.00 MiB. GPU 0 has a total capacity of 79.25 GiB of which 200.00 MiB is free.",
        ]
    )
    assert [change.after for change in root(text).changes] == [4]


def _neuron(message: str, *above: str) -> str:
    lines = ["EngineCore encountered a fatal error.", "Traceback (most recent call last):", *above, message]
    return "\n".join(
        [
            "INFO 05-01 10:00:01 [__init__.py:239] Automatically detected platform neuron.",
            "INFO:     Application startup complete.",
            *framed("", lines, "core.py:517"),
        ]
    )


@pytest.mark.parametrize("ends", ["Execution Out-Of-Bounds Memory Access", "Execution timed out"])
def test_what_is_compiled_in_is_changed_by_compiling(ends: str) -> None:
    found = root(_neuron(f"RuntimeError: Failed to execute the model status=1006 message={ends}"))
    assert found.alternatives[0].startswith("Compile the model anew")
    assert "its text tells" not in found.explanation
    assert ("Out-of-bounds" in found.title) is ("Out-Of-Bounds" in ends)
    code = root(
        _neuron("2026-May-01 10:00:00.1 9:9 ERROR NRT:nrt_infodump Failure: NRT_EXEC_OOB in nrt_execute()")
    )
    assert "Out-of-bounds" in code.title


def test_code_of_torchscript_is_the_library_s_and_no_place_of_the_program() -> None:
    assert owner_of("code/__torch__/some_library/trace/run.py") == "some_library"
    frames = ['  File "code/__torch__/some_library/trace/run.py", line 97, in forward', "    if ready:"]
    found = root(_neuron("RuntimeError: Failed to execute the model status=1006 message=x", *frames))
    assert not any("if ready" in one.text for one in found.evidence)


def test_the_cuda_error_of_a_step_whose_dump_failed_is_the_reason_that_cutlass_does_not_give() -> None:
    failed = [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/_custom_ops.py", line 601, in cutlass_scaled_mm',
        "    torch.ops._C.cutlass_scaled_mm(out, a, b, scale_a, scale_b, bias)",
        "RuntimeError: Error Internal",
    ]
    block = framed("", failed, "engine.py:366")
    dump = "WARNING 05-01 10:00:00 [model_runner_base.py:143] Failed to pickle inputs of failed execution: CUDA error: an illegal memory access was encountered"
    shown, silent = root("\n".join([dump, *block])), root("\n".join(block))
    assert "an illegal memory access" in shown.title
    assert "names no reason" not in shown.explanation
    assert "names no reason" in silent.explanation
    assert any(dump.partition("] ")[2] in one.text for one in shown.evidence)


def test_with_ray_no_step_sets_the_list_of_devices_that_ray_sets() -> None:
    error = "RuntimeError: device >= 0 && device < num_gpus INTERNAL ASSERT FAILED at CUDAContext.cpp:49"
    ray = "INFO 05-01 10:00:00 [config.py:9] Defaulting to use ray for distributed inference"
    alone, with_ray = (root(text).alternatives for text in (error, f"{ray}\n{error}"))
    assert any(step.startswith("Set CUDA_VISIBLE_DEVICES before Python starts") for step in alone)
    assert not any("before Python starts" in step or step.startswith("With") for step in with_ray)
    assert any(step.startswith("Leave CUDA_VISIBLE_DEVICES unset") for step in with_ray)
