"""Words and steps are those of what a log names: the layer of a kernel, the address of a rank, the platform, the code of a caller."""

from __future__ import annotations

import pytest

from tests.failure.judging import crashed, diagnosis, raised, root
from vllm_logdoctor.rules.model import Finding

KERNELS = "/opt/site-packages/vllm/_custom_ops.py"
START = "(APIServer pid=1) INFO 05-01 09:59:10 [api_server.py:90] vLLM API server version {}"


def steps(finding: Finding) -> str:
    """Return all steps of a finding in one text."""
    changes = [f"{one.knob} {one.after} {one.note}" for one in finding.changes]
    return "\n".join([*changes, *finding.alternatives])


def test_an_item_that_may_not_be_split_is_said_to_exceed_one_step_with_both_sizes() -> None:
    found = crashed(
        "ValueError: Chunked MM input disabled but max_tokens_per_mm_item (2496) is larger than max_num_batched_tokens"
        " (2048). Please increase max_num_batched_tokens.",
        version="0.20.0",
    )
    assert {"2,496", "2,048"} <= set(found.explanation.split())
    assert "can't be split" in found.explanation
    assert [(one.knob, one.after) for one in found.changes] == [("--max-num-batched-tokens", 3072)]


TIMED_OUT = "The client socket has timed out after 600000ms while trying to connect to (10.0.0.7, 29501)."
JOINED = "Timed out after 301 seconds waiting for clients. 3/8 clients joined."


@pytest.mark.parametrize(
    ("ends", "words", "step"),
    [
        (f"torch.distributed.DistNetworkError: {TIMED_OUT}", "10.0.0.7:29501", "nc -vz 10.0.0.7 29501"),
        (f"torch.distributed.DistStoreError: {JOINED}", "3 of 8 processes", "ranks that did not come"),
        ("torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /ids", "TCP store", "every rank was started"),
    ],
)  # fmt: skip
def test_ranks_that_miss_each_other_before_nccl_exists_are_not_asked_for_its_log(
    ends: str, words: str, step: str
) -> None:
    found = crashed(ends, place="init_device")
    assert found.id == "nccl-init-hang"
    assert words in found.explanation
    assert step in steps(found)
    assert "NCCL_DEBUG" not in steps(found)


GEMM = "cutlass_gemm_caller, /src/csrc/w8a8/cutlass/c3x/cutlass_gemm_caller.cuh:62, Error Internal"


def _refused_by_cutlass(
    function: str, version: str, error: str = "Error Internal", selected: str = ""
) -> Finding:
    frames = [
        ("/opt/site-packages/vllm/worker/worker.py", 5, "load_model", "self.model_runner.load_model()"),
        (KERNELS, 519, function, f"torch.ops._C.{function}(out, a, b)"),
    ]
    config = "Initializing a V1 LLM engine (v{}) with config: model='org/m', quantization=fp8, seed=0"
    engine = f"(EngineCore pid=9) INFO 05-01 09:59:20 [core.py:77] {config.format(version)}"
    error = raised(*frames, error=f"RuntimeError: {error}")
    kernel = (
        f"(EngineCore pid=9) INFO 05-01 09:59:29 [__init__.py:604] Selected {selected} for Fp8LinearMethod"
    )
    return root("\n".join([START.format(version), engine, *([kernel] if selected else []), error]))


@pytest.mark.parametrize(
    ("function", "version", "step"),
    [
        ("cutlass_scaled_mm", "0.26.0", "VLLM_TEST_FORCE_FP8_MARLIN 1"),
        ("cutlass_scaled_mm", "0.11.0", "VLLM_TEST_FORCE_FP8_MARLIN 1"),
        ("cutlass_scaled_mm", "0.8.1", "Use a newer release"),
        ("cutlass_scaled_sparse_mm", "0.8.1", "2:4 sparsity"),
    ],
)
def test_a_kernel_of_cutlass_gets_the_steps_of_the_layer_that_the_traceback_names(
    function: str, version: str, step: str
) -> None:
    found = _refused_by_cutlass(function, version)
    sparse = "sparse" in function
    assert found.id == "kernel-backend-unsupported-on-arch"
    assert "linear layer" in found.title
    assert ("sparse" in found.explanation) is sparse
    assert steps(found).startswith(step) or step in found.alternatives[0]
    assert ("2:4" in steps(found)) is sparse
    assert not {"--attention-backend", "--moe-backend"} & {one.knob for one in found.changes}


def test_the_source_file_in_the_message_tells_the_layer_where_compiled_code_called_the_kernel() -> None:
    found = _refused_by_cutlass("call", "0.26.0", GEMM, "CutlassFp8BlockScaledMMKernel")
    assert "linear layer" in found.title
    assert [one.knob for one in found.changes] == ["--linear-backend"]


@pytest.mark.parametrize(
    ("selected", "backend"),
    [("CutlassFp8BlockScaledMMKernel", "triton"), ("CutlassFP8ScaledMMLinearKernel", "torch")],
)
def test_marlin_is_no_way_out_of_an_fp8_kernel_because_cards_that_ran_one_are_refused_by_it(
    selected: str, backend: str
) -> None:
    found = _refused_by_cutlass("call", "0.26.0", GEMM, selected)
    assert [(one.knob, one.after) for one in found.changes] == [("--linear-backend", backend)]


def test_the_kernel_of_fp4_weights_is_replaced_by_marlin_which_has_one_for_every_card() -> None:
    frames = [
        (
            "/opt/site-packages/vllm/utils/flashinfer.py",
            84,
            "flashinfer_mm_fp4",
            "return flashinfer_mm_fp4_(",
        ),
        ("/opt/site-packages/flashinfer/gemm/gemm_base.py", 23, "mm_fp4", "out = torch.empty("),
    ]
    error = "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device"
    found = root(f"{START.format('0.26.0')}\n{raised(*frames, error=error)}")
    assert found.id == "kernel-backend-unsupported-on-arch"
    assert [(one.knob, one.after) for one in found.changes] == [("--linear-backend", "marlin")]


def test_a_library_whose_source_file_the_message_names_is_switched_off() -> None:
    found = crashed(
        "RuntimeError: CUDA driver error (/src/csrc/jit/handle.hpp:141): 200 (CUDA_ERROR_INVALID_IMAGE, device kernel image is invalid)"
    )
    assert "DeepGEMM" in found.title
    assert [(one.knob, one.after) for one in found.changes] == [("VLLM_USE_DEEP_GEMM", "0")]


ASSERTION = "{}: block: [0,0,0], thread: [0,0,0] Assertion `{}` failed."
GATHER = ASSERTION.format("../ScatterGatherKernel.cu:144: operator()", "idx_dim < index_size")
LOOKUP = ASSERTION.format("/pytorch/Indexing.cu:1369: indexSelectSmallIndex", "srcIndex < srcSelectDimSize")
SAMPLER = (
    "/opt/site-packages/vllm/v1/sample/ops/topk_topp_sampler.py",
    100,
    "apply_top_k_top_p",
    "x.gather(1, k)",
)
MODEL = ("/opt/site-packages/vllm/model_executor/models/opt.py", 9, "forward", "hidden = self.embed(ids)")


@pytest.mark.parametrize(
    ("assertion", "frame", "words", "step"),
    [
        (GATHER, SAMPLER, "top-k and top-p step", "top_k"),
        (LOOKUP, SAMPLER, "token id beyond the vocabulary", "tokenizer"),
        (LOOKUP, MODEL, "token id beyond the vocabulary", "tokenizer"),
        (GATHER, MODEL, "indexed past the end of a tensor", "CUDA_LAUNCH_BLOCKING"),
    ],
)
def test_an_index_out_of_range_is_ascribed_by_the_kernel_and_the_code_that_called_it(
    assertion: str, frame: tuple[str, int, str, str], words: str, step: str
) -> None:
    step_of_engine = ("/opt/site-packages/vllm/v1/engine/core.py", 60, "run_busy_loop", "self.step()")
    found = root(
        raised(
            step_of_engine,
            frame,
            error="RuntimeError: CUDA error: device-side assert triggered",
            above=assertion,
        )
    )
    assert found.id == "index-out-of-range-device-assert"
    assert words in found.explanation
    assert step in steps(found)
    assert ("vocabulary" in found.explanation) is (assertion is LOOKUP)


HANGS = """\
INFO 05-01 10:00:00 [__init__.py:220] Automatically detected platform {platform}.
(EngineCore pid=9) INFO 05-01 10:00:20 [core.py:97] Initializing a V1 LLM engine (v0.11.0) with config: model='m', tensor_parallel_size=4
INFO:     Application startup complete.
(EngineCore pid=9) ERROR 05-01 10:09:30 [core.py:708] EngineCore encountered a fatal error.
(EngineCore pid=9) ERROR 05-01 10:09:30 [core.py:708] Traceback (most recent call last):
(EngineCore pid=9) ERROR 05-01 10:09:30 [core.py:708]   File "/opt/vllm/v1/executor/multiproc_executor.py", line 220, in collective_rpc
(EngineCore pid=9) ERROR 05-01 10:09:30 [core.py:708]     raise TimeoutError(f"RPC call to {{method}} timed out.") from e
(EngineCore pid=9) ERROR 05-01 10:09:30 [core.py:708] TimeoutError: RPC call to execute_model timed out."""


@pytest.mark.parametrize(
    ("platform", "tool"),
    [
        ("cuda", "grep -i xid"),
        ("rocm", "grep -i amdgpu"),
        ("npu", "npu-smi info"),
        ("xpu", "xpu-smi"),
        ("tpu", ""),
        ("cpu", ""),
    ],
)
def test_a_card_that_may_have_failed_is_looked_at_with_the_tool_of_its_platform(
    platform: str, tool: str
) -> None:
    found = root(HANGS.format(platform=platform))
    assert found.id == "worker-hang-execute-model-timeout"
    looks = [way for way in found.alternatives if "card failed" in way]
    assert bool(looks) is bool(tool)
    assert all(tool in way for way in looks)
    assert ("xid" in steps(found).lower()) is (platform == "cuda")


def test_an_allocator_of_v0_without_a_free_block_is_a_fault_of_the_engine() -> None:
    frame = (
        "/opt/site-packages/vllm/core/block/naive_block.py",
        130,
        "_allocate_block_id",
        "raise BlockAllocator.NoFreeBlocksError()",
    )
    step = ("/opt/site-packages/vllm/engine/llm_engine.py", 1374, "step", "self.scheduler[0].schedule()")
    found = root(raised(step, frame, error="vllm.core.block.interfaces.BlockAllocator.NoFreeBlocksError"))
    assert (found.id, found.title) == ("engine-code-bug", "NoFreeBlocksError in the block allocator of V0")
    assert "0.11.0 or newer" in found.alternatives[0]


OMEGACONF = (
    "/usr/lib/python3/dist-packages/omegaconf/dictconfig.py", 359, "__getattr__", "self._format_and_raise(key=key)",
)  # fmt: skip


@pytest.mark.parametrize(
    ("file", "step"),
    [
        ("/opt/tiger/verl/verl/workers/dp_actor.py", "what verl checks or calls there"),
        ("/home/me/run/train.py", "Correct the call of omegaconf at /home/me/run/train.py:57"),
    ],
)
def test_a_program_that_called_a_library_is_named_as_the_caller(file: str, step: str) -> None:
    called = (file, 57, "build", "self.fused = config.fused")
    found = root(
        raised(called, OMEGACONF, error="omegaconf.errors.ConfigAttributeError: Key 'fused' is not in struct")
    )
    assert f"called from {file.rpartition('/')[2]}, build" in found.explanation
    assert step in steps(found)
    assert any("config.fused" in one.text for one in found.evidence)


def test_a_failed_test_is_run_with_the_variable_that_shows_the_kernel() -> None:
    lines = [
        "============================= test session starts ==============================",
        "collected 1 item",
        "tests/test_load.py::test_load FAILED",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "FAILED tests/test_load.py::test_load - RuntimeError: CUDA error: an illegal memory access was encountered",
        "======================= 1 failed in 9.31s =======================",
    ]
    found = root("\n".join(lines))
    assert found.id == "cuda-illegal-memory-access"
    assert "CUDA_LAUNCH_BLOCKING=1" in found.alternatives[0]
    assert "--enforce-eager" not in steps(found)


@pytest.mark.parametrize(
    ("missing", "part"),
    [
        ("{'visual.blocks.0.norm1.bias', 'visual.merger.norm.bias'}", "visual"),
        ("{'model.vision_tower.blocks.0.norm1.bias'}", "vision_tower"),
        ("{'visual.blocks.0.norm1.bias', 'lm_head.weight'}", ""),
    ],
)
def test_weights_that_are_all_of_an_encoder_are_left_out_with_it(missing: str, part: str) -> None:
    found = crashed(
        f"ValueError: Following weights were not initialized from checkpoint: {missing}", version="0.26.0"
    )
    assert found.id == "checkpoint-format-mismatch"
    assert found.title == (
        f"Checkpoint lacks the weights of its encoder: {part}"
        if part
        else "Checkpoint lacks weights of the model class"
    )
    assert ("--language-model-only" in found.alternatives[0]) is bool(part)


@pytest.mark.parametrize(("version", "builds"), [("0.1.dev1+g6804e1b81", True), ("0.11.0", False)])
def test_a_clean_environment_for_sources_is_one_in_which_they_are_built(version: str, builds: bool) -> None:
    found = crashed("ModuleNotFoundError: No module named 'compressed_tensors.compressors.packed'", version)
    assert ("build these sources" in steps(found)) is builds
    assert ("pip install vllm==" in steps(found)) is not builds


def test_code_that_was_loaded_from_the_cache_is_proven_by_the_line_that_says_so() -> None:
    loaded = "(EngineCore pid=9) INFO 05-01 10:00:03 [backends.py:115] Directly load the compiled graph for shape None from the cache"
    frame = (
        "/home/me/.cache/vllm/torch_compile_cache/58e2/rank_0_0/inductor_cache/ep/c.py",
        9,
        "call",
        "a, b = args",
    )
    error = raised(frame, error="ValueError: not enough values to unpack (expected 2, got 1)", above=loaded)
    found = root(error)
    assert found.id == "torch-compile-cache-stale"
    assert found.evidence[1].text == loaded


def test_a_client_that_failed_by_its_own_code_is_corrected_where_it_failed() -> None:
    served = [START.format("0.15.1"), "INFO:     Application startup complete."]
    code = '"memory": round(props.total_mem),'
    own = ("/home/me/bench/reproducibility.py", 124, "collect", code)
    error = raised(own, error="AttributeError: 'torch._C._Properties' object has no attribute 'total_mem'")
    stopped = "(APIServer pid=3) INFO:     Application shutdown complete."
    findings = diagnosis("\n".join([*served, error, stopped])).findings
    found = next(one for one in findings if "client" in one.title)
    assert "`AttributeError: 'torch._C._Properties' object has no attribute 'total_mem'`" in found.explanation
    assert [change.knob for change in found.changes] == ["correct the program at reproducibility.py:124"]


def test_a_request_that_workers_do_not_hold_is_first_given_an_id_of_its_own() -> None:
    worker = "/opt/site-packages/vllm/worker/worker.py"
    held, other = (
        root(
            raised(
                (worker, 387, "_execute_model_spmd", "new = self._get_cached_seq_group_metadata("),
                (worker, 357, "_get_cached_seq_group_metadata", code),
                error="AssertionError",
            )
        )
        for code in (
            "assert isinstance(metadata_or_delta, SequenceGroupMetadata)",
            "assert finished_request_ids",
        )
    )
    assert "id of its own" in held.alternatives[0]
    assert held.confidence == "medium"
    assert not any("id of its own" in step for step in other.alternatives)
