"""Which knob took over from which, written down by hand; when each exists is in the package data."""

from __future__ import annotations

from msgspec import Struct


class Rename(Struct, frozen=True):
    """One knob that took over from another.

    `key`: JSON key inside the value of `to`, as "Class.key" where a configuration class owns it (that
    key must exist in the release too); `value`: fixed value to give; `inverted`: the meaning is the opposite.
    """

    name: str
    to: str
    key: str | None = None
    value: str | None = None
    inverted: bool = False
    note: str = ""


_SPECULATIVE = "part of the JSON of --speculative-config"
_GUIDED = "part of the JSON of --structured-outputs-config"
_EPLB = "part of the JSON of --eplb-config"
_ROPE = "part of the JSON of --hf-overrides"

FLAG_RENAMES: tuple[Rename, ...] = (
    # Forward: flags that went, with what replaced them. Newest replacement first where there were several.
    Rename("--cuda-graph-sizes", "--cudagraph-capture-sizes"),
    Rename("--max-context-len-to-capture", "--max-seq-len-to-capture"),
    Rename("--max-seq_len-to-capture", "--max-seq-len-to-capture", note="spelling corrected"),
    Rename("--preemption_mode", "--preemption-mode", note="spelling corrected"),
    Rename("--worker-use-ray", "--distributed-executor-backend", value="ray"),
    *(
        Rename(name, "--structured-outputs-config", key=f"StructuredOutputsConfig.{key}", note=_GUIDED)
        for name, key in (
            ("--guided-decoding-backend", "backend"),
            ("--guided-decoding-disable-fallback", "disable_fallback"),
            ("--guided-decoding-disable-any-whitespace", "disable_any_whitespace"),
            ("--guided-decoding-disable-additional-properties", "disable_additional_properties"),
        )
    ),
    *(
        Rename(name, "--speculative-config", key=f"SpeculativeConfig.{key}", note=_SPECULATIVE)
        for name, key in (
            ("--speculative-model", "model"),
            ("--num-speculative-tokens", "num_speculative_tokens"),
            ("--speculative-model-quantization", "quantization"),
            ("--speculative-draft-tensor-parallel-size", "draft_tensor_parallel_size"),
            ("--speculative-max-model-len", "max_model_len"),
            ("--speculative-disable-by-batch-size", "disable_by_batch_size"),
            ("--speculative-disable-mqa-scorer", "disable_mqa_scorer"),
            ("--ngram-prompt-lookup-max", "prompt_lookup_max"),
            ("--ngram-prompt-lookup-min", "prompt_lookup_min"),
            ("--spec-decoding-acceptance-method", "acceptance_method"),
            ("--disable-logprobs-during-spec-decoding", "disable_logprobs"),
            ("--spec-model", "model"),
            ("--spec-method", "method"),
            ("--spec-tokens", "num_speculative_tokens"),
        )
    ),
    *(
        Rename(name, "--eplb-config", key=f"EPLBConfig.{key}", note=_EPLB)
        for name, key in (
            ("--num-redundant-experts", "num_redundant_experts"),
            ("--eplb-window-size", "window_size"),
            ("--eplb-step-interval", "step_interval"),
            ("--eplb-log-balancedness", "log_balancedness"),
        )
    ),
    Rename("--enable-reasoning", "--reasoning-parser", note="the parser alone turns reasoning on"),
    Rename(
        "--disable-log-requests",
        "--enable-log-requests",
        inverted=True,
        note="requests are not logged unless asked for",
    ),
    Rename("--disable-mm-preprocessor-cache", "--mm-processor-cache-gb", value="0"),
    Rename("--mm-cache-preprocessor", "--disable-mm-preprocessor-cache", inverted=True),
    Rename("--enable-multimodal-encoder-data-parallel", "--mm-encoder-tp-mode", value="data"),
    Rename("--task", "--runner", note="together with --convert where the model is converted"),
    Rename("--override-pooler-config", "--pooler-config"),
    Rename("--rope-scaling", "--hf-overrides", key="rope_scaling", note=_ROPE),
    Rename("--rope-theta", "--hf-overrides", key="rope_theta", note=_ROPE),
    Rename(
        "--logits-processor-pattern",
        "--logits-processors",
        note="the new option names classes, not a pattern",
    ),
    Rename("--chat-template-text-format", "--chat-template-content-format"),
    Rename(
        "--expand-tools-even-if-tool-choice-none",
        "--exclude-tools-when-tool-choice-none",
        inverted=True,
        note="tools are included by default",
    ),
    Rename("--use-gpu-for-pooling-score", "--enable-flash-late-interaction", note="related, not the same"),
    Rename("--log-config-file", "--logging-config", key="LoggingConfig.pylogging_config_file"),
    Rename(
        "--optimization-level", "--compilation-config", key="level", note="before 0.12.0 -O<n> set this level"
    ),
    # Backward: what to write in an older release for a newer flag.
    Rename("--cudagraph-capture-sizes", "--cuda-graph-sizes"),
    Rename("--cudagraph-capture-sizes", "--compilation-config", key="cudagraph_capture_sizes"),
    Rename(
        "--max-cudagraph-capture-size",
        "--cuda-graph-sizes",
        note="one number given there is the largest size",
    ),
    Rename("--attention-backend", "VLLM_ATTENTION_BACKEND"),
    Rename("--all2all-backend", "VLLM_ALL2ALL_BACKEND"),
    Rename("--structured-outputs-config", "--guided-decoding-backend", note="only its backend"),
    Rename("--enable-log-requests", "--disable-log-requests", inverted=True),
    Rename("--mm-processor-cache-gb", "--disable-mm-preprocessor-cache", note="only 0 has a counterpart"),
    Rename(
        "--mm-encoder-tp-mode", "--enable-multimodal-encoder-data-parallel", note="only for the mode data"
    ),
    Rename("--runner", "--task"),
    Rename("--pooler-config", "--override-pooler-config"),
    Rename("--distributed-executor-backend", "--worker-use-ray", note="only for ray"),
)

_ATTENTION = ("--attention-config", "part of the JSON of --attention-config")
_PROFILER = ("--profiler-config", "part of the JSON of --profiler-config")
_MOE = "the backend is chosen by name"

VARIABLE_RENAMES: tuple[Rename, ...] = (
    Rename("VLLM_ATTENTION_BACKEND", "--attention-backend"),
    *(
        Rename(name, _ATTENTION[0], key=f"AttentionConfig.{key}", note=_ATTENTION[1])
        for name, key in (
            ("VLLM_FLASH_ATTN_VERSION", "flash_attn_version"),
            ("VLLM_FLASH_ATTN_MAX_NUM_SPLITS_FOR_CUDA_GRAPH", "flash_attn_max_num_splits_for_cuda_graph"),
            ("VLLM_DISABLE_FLASHINFER_PREFILL", "disable_flashinfer_prefill"),
            ("VLLM_FLASHINFER_DISABLE_Q_QUANTIZATION", "disable_flashinfer_q_quantization"),
            ("VLLM_USE_CUDNN_PREFILL", "use_cudnn_prefill"),
            ("VLLM_USE_TRTLLM_ATTENTION", "use_trtllm_attention"),
            ("VLLM_USE_TRTLLM_RAGGED_DEEPSEEK_PREFILL", "use_trtllm_ragged_deepseek_prefill"),
            ("VLLM_V1_USE_PREFILL_DECODE_ATTENTION", "use_prefill_decode_attention"),
        )
    ),
    *(
        Rename(name, _PROFILER[0], key=f"ProfilerConfig.{key}", note=_PROFILER[1])
        for name, key in (
            ("VLLM_TORCH_PROFILER_DIR", "torch_profiler_dir"),
            ("VLLM_TORCH_PROFILER_RECORD_SHAPES", "torch_profiler_record_shapes"),
            ("VLLM_TORCH_PROFILER_WITH_FLOPS", "torch_profiler_with_flops"),
            ("VLLM_TORCH_PROFILER_WITH_PROFILE_MEMORY", "torch_profiler_with_memory"),
            ("VLLM_TORCH_PROFILER_WITH_STACK", "torch_profiler_with_stack"),
            ("VLLM_TORCH_PROFILER_USE_GZIP", "torch_profiler_use_gzip"),
            ("VLLM_TORCH_PROFILER_DUMP_CUDA_TIME_TOTAL", "torch_profiler_dump_cuda_time_total"),
            ("VLLM_TORCH_PROFILER_DISABLE_ASYNC_LLM", "ignore_frontend"),
            ("VLLM_PROFILER_DELAY_ITERS", "delay_iterations"),
            ("VLLM_PROFILER_MAX_ITERS", "max_iterations"),
        )
    ),
    *(
        Rename(name, "--moe-backend", note=_MOE)
        for name in (
            "VLLM_FLASHINFER_MOE_BACKEND",
            "VLLM_USE_FLASHINFER_MOE_FP16",
            "VLLM_USE_FLASHINFER_MOE_FP4",
            "VLLM_USE_FLASHINFER_MOE_FP8",
            "VLLM_USE_FLASHINFER_MOE_MXFP4_BF16",
            "VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8",
            "VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8_CUTLASS",
        )
    ),
    Rename("VLLM_MXFP4_USE_MARLIN", "--moe-backend", value="marlin"),
    Rename("VLLM_NVFP4_GEMM_BACKEND", "--linear-backend", note="the backend is chosen by name"),
    Rename("VLLM_ALL2ALL_BACKEND", "--all2all-backend"),
    Rename("VLLM_MM_INPUT_CACHE_GIB", "--mm-processor-cache-gb"),
    Rename("VLLM_MM_HASHER_ALGORITHM", "--mm-hasher-algorithm"),
    Rename("VLLM_PREFIX_CACHE_RETENTION_INTERVAL", "--prefix-cache-retention-interval"),
    Rename("VLLM_DISABLE_NCCL_FOR_DP_SYNCHRONIZATION", "--disable-nccl-for-dp-synchronization"),
    Rename("VLLM_TRITON_ATTN_USE_TD", "VLLM_TRITON_USE_TD"),
    Rename("VLLM_USE_AITER_UNIFIED_ATTENTION", "VLLM_ROCM_USE_AITER_UNIFIED_ATTENTION"),
    Rename("VLLM_USE_TRTLLM_DECODE_ATTENTION", "VLLM_USE_TRTLLM_ATTENTION"),
)

REMOVAL_NOTES: dict[str, str] = {
    "--swap-space": "the V1 engine preempts by recomputing and has no CPU swap space",
    "--preemption-mode": "an option of the V0 engine; V1 preempts by recomputing only",
    "--scheduler-delay-factor": "an option of the V0 engine",
    "--num-scheduler-steps": "multi-step scheduling was a feature of the V0 engine",
    "--multi-step-stream-outputs": "multi-step scheduling was a feature of the V0 engine",
    "--disable-async-output-proc": "an option of the V0 engine",
    "--disable-frontend-multiprocessing": "an option of the V0 engine",
    "--max-seq-len-to-capture": "V1 is ruled by the cudagraph capture sizes instead",
    "--use-v2-block-manager": "it became the only implementation in 0.6.3",
    "--num-lookahead-slots": "removed with nothing in its place",
    "--lora-extra-vocab-size": "removed with nothing in its place",
    "--enable-lora-bias": "removed with nothing in its place",
    "--tokenizer-pool-size": "the tokenizer pool is gone",
    "--tokenizer-pool-type": "the tokenizer pool is gone",
    "--tokenizer-pool-extra-config": "the tokenizer pool is gone",
    "--device": "the platform is detected",
    "--engine-use-ray": "removed with nothing in its place",
    "--quantization-param-path": "scales of an fp8 KV cache come from the checkpoint",
    "--calculate-kv-scales": "scales come from the checkpoint, otherwise they are 1.0",
    "--max-num-partial-prefills": "concurrent partial prefill is gone; --long-prefill-token-threshold stays",
    "--max-long-partial-prefills": "concurrent partial prefill is gone; --long-prefill-token-threshold stays",
    "--enable-prompt-adapter": "prompt adapters are gone",
    "--override-neuron-config": "the Neuron backend left the tree",
    "--enable-bf16x3-router-gemm": "the kernel is chosen automatically",
    "VLLM_USE_V1": "the V1 engine is the only one",
    "VLLM_USE_TRITON_FLASH_ATTN": "removed; the attention backend decides",
}
