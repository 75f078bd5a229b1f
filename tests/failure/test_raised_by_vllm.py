"""A check of vLLM's own is named by what it says: neither the folder of its file nor one word of it is a cause."""

import pytest

from tests.failure.judging import root

LOG = """\
INFO 05-01 10:00:00 [__init__.py:239] Automatically detected platform cuda.
(APIServer pid=11) INFO 05-01 10:00:01 [api_server.py:1289] vLLM API server version {release}
(EngineCore_DP0 pid=12) ERROR 05-01 10:00:31 [core.py:780] EngineCore failed to start.
(EngineCore_DP0 pid=12) ERROR 05-01 10:00:31 [core.py:780] Traceback (most recent call last):
(EngineCore_DP0 pid=12) ERROR 05-01 10:00:31 [core.py:780]   File "/opt/site-packages/vllm/v1/engine/core.py", line 771, in run_engine_core
(EngineCore_DP0 pid=12) ERROR 05-01 10:00:31 [core.py:780]     engine_core = EngineCoreProc(*args, **kwargs)
(EngineCore_DP0 pid=12) ERROR 05-01 10:00:31 [core.py:780]   File "/opt/site-packages/vllm/v1/worker/gpu_worker.py", line 300, in load_model
(EngineCore_DP0 pid=12) ERROR 05-01 10:00:31 [core.py:780]     self.model_runner.load_model()
(EngineCore_DP0 pid=12) ERROR 05-01 10:00:31 [core.py:780]   File "/opt/site-packages/vllm/{file}", line 123, in {function}
(EngineCore_DP0 pid=12) ERROR 05-01 10:00:31 [core.py:780]     {code}
(EngineCore_DP0 pid=12) ERROR 05-01 10:00:31 [core.py:780] {exception}
"""


def named(
    file: str, exception: str, function: str = "check", code: str = "raise error", release: str = "0.10.2"
) -> str:
    finding = root(LOG.format(release=release, file=file, function=function, code=code, exception=exception))
    return f"{finding.id} {finding.confidence}"


@pytest.mark.parametrize(
    ("exception", "indivisible"),
    [
        ("AssertionError: num_heads=40 must be divisible by tp_size=6.", True),
        (
            "ValueError: Shared-expert intermediate size 1408 must be divisible by tensor-parallel size 3.",
            True,
        ),
        ("AssertionError: 40 is not divisible by 6", True),
        (
            "ValueError: hidden_size must be divisible by num_heads (got `hidden_size`: 4096 and `num_heads`: 30).",
            False,
        ),
        ("ValueError: chunk_len must be divisible by block_size.", False),
        ("AssertionError: t=7 is not divisible by patch_size=2", False),
    ],
)
def test_only_a_number_of_ranks_makes_a_parallel_size_indivisible(exception, indivisible):
    assert (
        named("model_executor/models/some_model.py", exception).startswith("parallel-size-indivisible")
        is indivisible
    )


@pytest.mark.parametrize(
    ("file", "exception", "attention"),
    [
        (
            "v1/attention/backends/mla/triton_mla.py",
            "NotImplementedError: TritonMLAImpl does not support alibi_slopes",
            True,
        ),
        (
            "v1/attention/backends/flashinfer.py",
            "NotImplementedError: FlashInfer does not support KV-sharing layers",
            True,
        ),
        (
            "model_executor/layers/fused_moe/experts/aiter.py",
            "ValueError: AITER does not support activation: gelu",
            False,
        ),
        (
            "v1/sample/ops/topk_topp_sampler.py",
            "AssertionError: FlashInfer does not support returning logprobs",
            False,
        ),
    ],
)
def test_a_library_of_many_kernels_is_an_attention_backend_only_in_attention(file, exception, attention):
    assert (named(file, exception) == "attention-backend-incompatible high") is attention


@pytest.mark.parametrize(
    ("file", "exception", "sure"),
    [
        (
            "model_executor/models/llama_eagle.py",
            "RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x4096 and 5120x64)",
            True,
        ),
        ("model_executor/models/llama_eagle.py", "AssertionError: rope scaling is not initialized", False),
        ("model_executor/models/eagle2_5_vl.py", "AssertionError: This line should be unreachable.", False),
    ],
)
def test_an_assertion_in_a_drafter_is_no_misconfigured_speculation(file, exception, sure):
    assert (named(file, exception) == "spec-decode-misconfigured high") is sure


@pytest.mark.parametrize(
    ("file", "exception", "never"),
    [
        (
            "distributed/shm_object_storage.py",
            "MemoryError: Not enough space in the data buffer, try calling free_buf()",
            "host-memory-exhausted",
        ),
        ("_ipex_ops.py", "ValueError: IPEX CPU does not support logits_soft_cap", "cpu-isa-not-supported"),
        (
            "layers/fused_moe/deepep_v2.py",
            "ValueError: DeepEP v2 combine requires bfloat16 input, got float16",
            "optional-kernel-package-missing",
        ),
        (
            "platforms/interface.py",
            "NotImplementedError: num_compute_units is not implemented for this platform.",
            "platform-not-detected",
        ),
        (
            "model_executor/models/some_model.py",
            "AssertionError: Only support GQA",
            "checkpoint-format-mismatch",
        ),
    ],
)
def test_one_word_or_one_type_is_no_cause(file, exception, never):
    assert not named(file, exception, function="load_weights").startswith(never)


@pytest.mark.parametrize(
    ("exception", "title"),
    [
        (
            "ValueError: Too large swap space. 512.00 GiB out of the 128.00 GiB total CPU memory is allocated for the swap space.",
            "Swap space larger than the host's memory",
        ),
        ("ValueError: Unknown dtype: fp12", "Unknown data type"),
        (
            "ValueError: torch.bfloat16 is not supported for quantization method awq. Supported dtypes: [torch.float16]",
            "Data type not supported by the quantization method",
        ),
        (
            "ValueError: The model type gemma2 does not support float16. Reason: Numerical instability.",
            "Model does not support float16",
        ),
        (
            "ValueError: fp8_e5m2 kv-cache is not supported with fp8 checkpoints.",
            "KV cache type does not go with an FP8 checkpoint",
        ),
    ],
)
def test_a_refused_type_or_size_is_not_blamed_on_the_card(exception, title):
    text = LOG.format(
        release="0.9.2", file="config/model.py", function="verify", code="raise error", exception=exception
    )
    assert root(text).title == title


def test_a_shape_that_torch_refuses_is_no_condition_of_vllm():
    quoted = "Worker failed with error 'shape '[64, 64]' is invalid for input of size 8192', please check the stack trace above"
    assert not named("v1/executor/multiproc_executor.py", f"RuntimeError: {quoted}").startswith(
        "settings-refused"
    )


@pytest.mark.parametrize(
    ("first", "second", "leads"),
    [
        ("KeyError: <vllm.config.ModelConfig object at 0x7f0011>", "KeyError: 'No limits for this model. Did you set them?'", True),
        ("KeyError: 'spiral'", "ValueError: No embedding has the name 'spiral' here", True),
        ("KeyError: 'spiral'", "ValueError: the embeddings were not made", False),
        ("TypeError: 4 values for 3 places", "RuntimeError: the layers of the model were not made", False),
    ],
)  # fmt: skip
def test_an_exception_that_explains_the_one_that_it_was_raised_from_leads(first, second, leads):
    head = "(EngineCore_DP0 pid=12) ERROR 05-01 10:00:31 [core.py:780] "
    frame = '  File "/opt/site-packages/vllm/multimodal/tables.py", line {}, in find'
    lines = [
        *("Traceback (most recent call last):", frame.format(7), "    return self.rows[key]", first, ""),
        *("The above exception was the direct cause of the following exception:", ""),
        *("Traceback (most recent call last):", frame.format(9), "    raise error from exc", second),
    ]
    log = "\n".join(
        [*LOG.split("\n")[:2], f"{head}EngineCore failed to start.", *(head + one for one in lines)]
    )
    assert root(log).evidence[0].text.endswith(second if leads else first)
