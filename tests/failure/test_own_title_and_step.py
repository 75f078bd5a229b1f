"""What a frame, a line of code or a setting of the log decides is said without an alternative, and its step comes first."""

from __future__ import annotations

from typing import NamedTuple

from tests.failure.judging import raised, root
from tests.tables import for_each

SITE = "/opt/env/lib/python3.12/site-packages"
ARGUMENTS = "INFO 05-01 09:59:10 [utils.py:233] non-default args: {{'model': 'org/m', {}}}"


class Decided(NamedTuple):
    """A failure by its innermost frame and its error, and what is said of it."""

    file: str
    function: str
    code: str
    error: str
    title: str
    first: str
    """How the first step begins."""
    above: str = ""


BNB = "'load_format': 'bitsandbytes', 'quantization': 'bitsandbytes'"
ENGINE_ID = "0a1b2c3d-aaaa-4bbb-8ccc-0123456789ab"
CASES = [
    Decided(
        f"{SITE}/torch/cuda/__init__.py", "_check_capability", "capability = get_device_capability(d)",
        'RuntimeError: device >= 0 && device < num_gpus INTERNAL ASSERT FAILED at "CUDAContext.cpp":49, please report. device=1, num_gpus=\x01',
        "List of visible GPUs changed after CUDA had started in this process", "Find what uses CUDA in the process",
    ),
    Decided(
        f"{SITE}/pynvml.py", "wrapper", "return res.decode()", "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xe4 in position 2: invalid start byte",
        "NVML returned bytes that are no text", "See whether `nvidia-smi -L` prints",
    ),
    Decided(
        f"{SITE}/huggingface_hub/hf_api.py", "__init__", "SomeInfo(**some_info)", "TypeError: SomeInfo.__init__() got an unexpected keyword argument 'parts'",
        "huggingface_hub is older than the hub's answer", "Upgrade huggingface_hub",
    ),
    Decided(
        f"{SITE}/torch/cuda/memory.py", "mem_get_info", "return torch.cuda.cudart().cudaMemGetInfo(device)",
        "RuntimeError: HIP error: invalid argument", "First call to the GPU failed", "Run the same call without vLLM",
    ),
    Decided(
        f"{SITE}/xgrammar/compiler.py", "compile_regex", "return self._handle.compile_regex(regex)",
        "RuntimeError: [10:00:55] /project/cpp/regex_converter.cc:73: Regex parsing error at position 9: The group is not closed.",
        "Regular expression of a request crashed the engine", "Correct the expression",
    ),
    Decided(
        f"{SITE}/vllm/spec_decode/spec_decode_worker.py", "_vocab_size", "assert all(vocab_sizes[0] == vocab_size for vocab_size in vocab_sizes)",
        "AssertionError", "Draft model has another vocabulary than the served model", "Use a draft model with exactly",
    ),
    Decided(
        f"{SITE}/triton/compiler/compiler.py", "make_ttgir", "pm.run(mod)", "RuntimeError: PassManager::run failed",
        "Triton does not know this card", "Try the newest release of vLLM",
        'python3: /project/AccelerateMatmul.cpp:40: int getMMAVersionSafe(int, DotOp): Assertion `false && "computeCapability not supported"\' failed.',
    ),
    Decided(
        f"{SITE}/vllm/distributed/kv_transfer/kv_connector/utils.py", "block_size_ratio", "size = self.remote_block_size[engine]",
        f"KeyError: '{ENGINE_ID}'", "NIXL handshake with the other engine failed", "See in the log of the other engine",
        "(Worker pid=9) ERROR 05-01 09:59:10 [nixl_connector.py:1263] NIXL transfer failure: handshake_setup_failed | Context: {'failure_type': 'handshake_setup_failed'}",
    ),
    Decided(
        f"{SITE}/vllm/lora/models.py", "from_local_checkpoint", "with open(lora_config_path) as f:",
        "FileNotFoundError: [Errno 2] No such file or directory: 'org/m-lora/adapter_config.json'",
        "LoRA adapter not found", "If it is a name of the hub, download it (`hf download org/m-lora`)",
    ),
    Decided(
        f"{SITE}/vllm/model_executor/layers/linear.py", "weight_loader", "assert param_data.shape == loaded_weight.shape",
        "AssertionError", "Model class cannot load weights with bitsandbytes", "Start without", ARGUMENTS.format(BNB),
    ),
    Decided(
        f"{SITE}/vllm/attention/backends/torch_sdpa.py", "forward", "import intel_extension_for_pytorch.llm.modules as ipex_modules",
        "ModuleNotFoundError: No module named 'intel_extension_for_pytorch'",
        "Chunked prefill and prefix caching on CPU need a package of Intel", "Switch both off",
    ),
    Decided(
        f"{SITE}/vllm/entrypoints/api_server.py", "<module>", "from fastchat.model.adapter import x",
        "ModuleNotFoundError: No module named 'fastchat.model.adapter'",
        "Installed fschat lacks the module fastchat.model.adapter", "Upgrade it",
    ),
    Decided(
        f"{SITE}/vllm/entrypoints/api_server.py", "<module>", "from fastchat import x",
        "ModuleNotFoundError: No module named 'fastchat'", "Python package fschat missing", "Install it",
    ),
    Decided(
        f"{SITE}/torch/library.py", "_load", "use(op)", "RuntimeError: operator torchaudio::resample does not exist",
        "torchaudio does not match the installed torch", "Install the torchaudio release",
    ),
    Decided(
        f"{SITE}/vllm/model_executor/models/some_moe.py", "load_weights", "param = params_dict[name]",
        "KeyError: 'layers.3.mlp.up_proj.weight.quant_map'",
        "bitsandbytes checkpoint loaded without `--quantization bitsandbytes`", "Start with `--quantization bitsandbytes`",
    ),
    Decided(
        f"{SITE}/vllm/model_executor/models/some_moe.py", "load_weights", "param = params_dict[name]",
        "KeyError: 'layers.3.mlp.up_proj.qzeros'",
        "Quantized checkpoint does not match the model class", "Name the method of the checkpoint: `--quantization awq`",
    ),
    Decided(
        f"{SITE}/vllm/worker/model_runner.py", "_prepare_decode", "input_block_tables[i, :len(block_table)] = block_table",
        "ValueError: could not broadcast input array from shape (129,) into shape (128,)",
        "Block table too long for the CUDA graphs of the V0 engine", "Set `--max-seq-len-to-capture`",
    ),
    Decided(
        f"{SITE}/vllm/attention/backends/utils.py", "build", "input_block_tables[i, :len(block_table)] = block_table",
        "ValueError: could not broadcast input array from shape (700,) into shape (128,)",
        "Block table too long for the CUDA graphs of the V0 engine", "Set `--max-seq-len-to-capture`",
    ),
    Decided(
        f"{SITE}/vllm/v1/core/kv_cache_utils.py", "unify_kv_cache_spec_page_size", "raise NotImplementedError(",
        "NotImplementedError: The page size of the layer is not divisible by the maximum page size. Cannot unify by adjusting block_size.",
        "KV cache page sizes of target and draft model cannot be unified", "Start without `--speculative-config`",
        ARGUMENTS.format("'speculative_config': {'method': 'eagle', 'model': 'org/d'}"),
    ),
    Decided(
        f"{SITE}/vllm/v1/core/kv_cache_utils.py", "unify_kv_cache_spec_page_size", "raise NotImplementedError(",
        "NotImplementedError: The page size of the layer is not divisible by the maximum page size. Cannot unify by adjusting block_size.",
        "KV cache page sizes of the layers cannot be unified", "Set `--kv-cache-dtype auto`",
        ARGUMENTS.format("'kv_cache_dtype': 'fp8'"),
    ),
    Decided(
        f"{SITE}/vllm/model_executor/models/our_moe.py", "__init__", "assert isinstance(layer, OurDecoderLayer)",
        "AssertionError", "Pipeline parallelism fails in this model's code", "Start without `--pipeline-parallel-size`",
    ),
    Decided(
        f"{SITE}/vllm/entrypoints/api_server.py", "<module>", 'parser.add_argument("--port", type=int, ge=1024)',
        "TypeError: _StoreAction.__init__() got an unexpected keyword argument 'ge'",
        "vllm.entrypoints.api_server does not start in this release", "Start the OpenAI-compatible server",
    ),
]  # fmt: skip


@for_each("case", CASES)
def test_a_cause_that_the_log_decides_has_its_own_title_and_first_step(case: Decided) -> None:
    found = root(raised((case.file, 9, case.function, case.code), error=case.error, above=case.above))
    assert found.title == case.title
    assert found.alternatives[0].startswith(case.first)


@for_each(
    ("prompt", "dummy"),
    [
        ("<|image_pad|><|image_pad|><|video_pad|>", True),
        ("<image>", False),
        ("<image><image>Which is red?", False),
    ],
)
def test_a_prompt_of_placeholders_only_is_that_of_memory_profiling(prompt: str, dummy: bool) -> None:
    error = f"RuntimeError: Failed to apply OurProcessor on data={{'text': '{prompt}', 'images': []}} with kwargs={{}}"
    found = root(
        raised(
            (f"{SITE}/vllm/inputs/registry.py", 9, "call_hf_processor", "raise RuntimeError(msg)"),
            error=error,
        )
    )
    assert ("start-up" in found.title) is ("dummy inputs" in found.explanation) is dummy


@for_each("layer", ["indexer.k_cache", "attn"])
def test_a_cache_of_a_fixed_type_is_not_asked_for_another_type(layer: str) -> None:
    error = f"NotImplementedError: Layer model.layers.3.self_attn.{layer}: page size is not divisible by the maximum page size and cannot be padded."
    given = ARGUMENTS.format(
        "'kv_cache_dtype': 'fp8', 'speculative_config': {'method': 'eagle', 'model': 'org/d'}"
    )
    place = (
        f"{SITE}/vllm/v1/core/kv_cache_utils.py",
        9,
        "unify_kv_cache_spec_page_size",
        "raise NotImplementedError(",
    )
    found = root(raised(place, error=error, above=given))
    assert f"`model.layers.3.self_attn.{layer}`" in found.explanation
    assert any("speculative_config" in one.text for one in found.evidence)
    assert ("`--kv-cache-dtype auto`" in " ".join(found.alternatives)) is (layer == "attn")


def test_a_block_table_that_speculation_made_too_long_is_no_longer_sequence() -> None:
    found = root(
        raised(
            (f"{SITE}/vllm/spec_decode/batch_expansion.py", 9, "score_proposals", "self._scorer_worker.execute_model("),
            (f"{SITE}/vllm/worker/model_runner.py", 9, "_prepare_model_input", "input_block_tables[i, :len(block_table)] = block_table"),
            error="ValueError: could not broadcast input array from shape (129,) into shape (128,)",
        )
    )  # fmt: skip
    assert found.title.startswith("Speculative decoding reserves more blocks")
    assert "without speculative decoding" in found.alternatives[1]
    assert "max-seq-len-to-capture" not in " ".join((found.explanation, *found.alternatives))


def test_a_prompt_of_memory_profiling_gets_shorter_by_more_sequences() -> None:
    found = root(
        raised(
            (f"{SITE}/vllm/worker/enc_dec_model_runner.py", 9, "profile_run", "self.execute_model(model_input)"),
            (f"{SITE}/vllm/model_executor/models/mllama.py", 9, "forward", "assert actual_len >= last_group_len"),
            error="AssertionError",
        )
    )  # fmt: skip
    assert found.title == "Mllama's dummy image is shorter than the prompt of memory profiling"
    assert "raise `--max-num-seqs`" in found.alternatives[1]


def test_a_library_that_refuses_the_class_of_an_argument_is_compared_with_what_the_release_requires() -> None:
    error = (
        "TypeError: Received a CachedFooTokenizer for argument tokenizer, but a FooTokenizer was expected."
    )
    called = (f"{SITE}/vllm/transformers_utils/processor.py", 9, "get_processor", "AutoProcessor.load(model)")
    check = (f"{SITE}/transformers/processing_utils.py", 9, "check_argument", "raise TypeError(")
    assert (
        root(raised(called, check, error=error))
        .alternatives[0]
        .startswith("Compare the installed release of transformers")
    )


def test_an_answer_in_one_piece_is_told_from_a_streamed_one() -> None:
    file = f"{SITE}/vllm/entrypoints/openai/tool_parsers/some_tool_parser.py"
    error = "json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
    whole, streamed = (
        root(raised((file, 78, function, "call = loads(text)"), error=error))
        for function in ("extract_tool_calls", "extract_tool_calls_streaming")
    )
    assert "The client gets the answer as text" in whole.explanation
    assert "Without `stream`" not in whole.explanation
    assert not any("stream" in one for one in whole.alternatives)
    assert "as text" not in streamed.explanation
