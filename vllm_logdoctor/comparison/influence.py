"""Which figures a setting can move: a change explains an effect only if it can move it."""

from __future__ import annotations

from typing import Literal

Subject = Literal["weights", "memory", "start-up", "speed", "capacity"]

EVERYTHING: frozenset[Subject] = frozenset({"weights", "memory", "start-up", "speed", "capacity"})
_MEMORY: frozenset[Subject] = frozenset({"memory", "capacity"})

# Settings by EngineArgs field; a dotted name falls back to what precedes its last dot.
_INFLUENCE: dict[str, frozenset[Subject]] = {
    "model": EVERYTHING,
    "revision": EVERYTHING,
    "dtype": EVERYTHING,
    "quantization": EVERYTHING,
    "tensor_parallel_size": EVERYTHING,
    "pipeline_parallel_size": EVERYTHING,
    "data_parallel_size": EVERYTHING,
    "enable_expert_parallel": EVERYTHING,
    "decode_context_parallel_size": EVERYTHING,
    "gpu_memory_utilization": frozenset({"memory", "capacity", "speed"}),
    "kv_cache_memory_bytes": frozenset({"memory", "capacity", "speed", "start-up"}),
    "kv_cache_dtype": frozenset({"capacity", "speed"}),
    "block_size": frozenset({"capacity", "speed"}),
    "cpu_offload_gb": frozenset({"weights", "memory", "capacity", "speed"}),
    "num_gpu_blocks_override": frozenset({"capacity"}),
    "max_model_len": _MEMORY,
    "max_num_seqs": frozenset({"memory", "capacity", "speed", "start-up"}),
    "max_num_batched_tokens": frozenset({"memory", "capacity", "speed"}),
    "enforce_eager": frozenset({"memory", "capacity", "speed", "start-up"}),
    "compilation_config": frozenset({"memory", "capacity", "speed", "start-up"}),
    "optimization_level": frozenset({"memory", "capacity", "speed", "start-up"}),
    "cudagraph_capture_sizes": frozenset({"memory", "capacity", "speed", "start-up"}),
    "cuda_graph_sizes": frozenset({"memory", "capacity", "speed", "start-up"}),
    "max_cudagraph_capture_size": frozenset({"memory", "capacity", "speed", "start-up"}),
    "speculative_config": EVERYTHING,
    "limit_mm_per_prompt": _MEMORY,
    "enable_lora": EVERYTHING,
    "max_loras": frozenset({"memory", "capacity"}),
    "max_lora_rank": frozenset({"memory", "capacity"}),
    "enable_prefix_caching": frozenset({"speed"}),
    "enable_chunked_prefill": frozenset({"memory", "capacity", "speed"}),
    "async_scheduling": frozenset({"speed"}),
    "attention_backend": frozenset({"memory", "capacity", "speed"}),
    "moe_backend": frozenset({"memory", "speed"}),
    "disable_custom_all_reduce": frozenset({"memory", "speed"}),
    "scheduling_policy": frozenset({"speed"}),
    "stream_interval": frozenset({"speed"}),
    "api_server_count": frozenset({"speed"}),
    "disable_log_requests": frozenset({"speed"}),
    "enable_log_requests": frozenset({"speed"}),
    "load_format": frozenset({"start-up"}),
    "download_dir": frozenset({"start-up"}),
    "model_loader_extra_config": frozenset({"start-up"}),
    "safetensors_load_strategy": frozenset({"start-up"}),
    "max_parallel_loading_workers": frozenset({"start-up"}),
    "VLLM_USE_V1": EVERYTHING,
    "VLLM_USE_V2_MODEL_RUNNER": EVERYTHING,
    "VLLM_ATTENTION_BACKEND": frozenset({"memory", "capacity", "speed"}),
    "VLLM_CPU_KVCACHE_SPACE": _MEMORY,
    "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": _MEMORY,
    "VLLM_CACHE_ROOT": frozenset({"start-up"}),
    "VLLM_DISABLE_COMPILE_CACHE": frozenset({"start-up"}),
    "VLLM_WORKER_MULTIPROC_METHOD": frozenset({"start-up"}),
    "VLLM_USE_DEEP_GEMM": frozenset({"memory", "speed", "start-up"}),
    "VLLM_USE_FLASHINFER_SAMPLER": frozenset({"memory", "speed"}),
    "VLLM_CPU_OMP_THREADS_BIND": frozenset({"speed"}),
    "OMP_NUM_THREADS": frozenset({"speed"}),
    "CUDA_VISIBLE_DEVICES": EVERYTHING,
    "NCCL_P2P_DISABLE": frozenset({"speed"}),
    "PYTORCH_CUDA_ALLOC_CONF": _MEMORY,
}

# Settings that let more requests run at once.
_ROOM = frozenset({
    "max_num_seqs", "gpu_memory_utilization", "kv_cache_memory_bytes", "kv_cache_dtype",
    "quantization", "max_model_len", "tensor_parallel_size", "pipeline_parallel_size",
    "data_parallel_size", "num_gpu_blocks_override", "cpu_offload_gb",
})  # fmt: skip

# Places, names and addresses: they differ from run to run and move no figure.
_WITHOUT_EFFECT = frozenset({
    "port", "host", "uds", "root_path", "api_key", "allowed_origins", "allowed_methods",
    "allowed_headers", "ssl_keyfile", "ssl_certfile", "ssl_ca_certs", "served_model_name",
    "uvicorn_log_level", "log_config_file", "master_port", "master_addr", "data_parallel_address",
    "data_parallel_rpc_port", "instance_id", "engine_id", "debug_dump_path", "cache_dir",
    "local_cache_dir", "otlp_traces_endpoint", "chat_template", "response_role", "seed",
    "VLLM_LOGGING_LEVEL", "VLLM_HOST_IP", "VLLM_PORT", "VLLM_NO_USAGE_STATS",
})  # fmt: skip

_SUBJECT_OF_FIGURE: dict[str, Subject] = {
    "model_weights_gib": "weights",
    "available_kv_cache_gib": "memory",
    "graph_capture_gib": "memory",
    "kv_cache_tokens": "capacity",
    "max_concurrency": "capacity",
    "preemptions": "speed",
    "prefix_cache_hit_rate": "speed",
    "generation_throughput": "speed",
    "prompt_throughput": "speed",
    "generation_throughput_busy_mean": "speed",
    "prompt_throughput_busy_mean": "speed",
    "generation_throughput_p95": "speed",
    "prompt_throughput_p95": "speed",
}


def influence_of(setting: str) -> frozenset[Subject]:
    """Return the subjects that a setting can move; empty for one of which that is not known.

    Example:
        >>> sorted(influence_of("compilation_config.cudagraph_mode"))
        ['capacity', 'memory', 'speed', 'start-up']
        >>> influence_of("port")
        frozenset()
    """
    name = setting
    while name:
        if name in _INFLUENCE:
            return _INFLUENCE[name]
        name = name.rpartition(".")[0]
    return frozenset()


def makes_room(setting: str) -> bool:
    """Return whether a setting lets more requests run at once."""
    return setting in _ROOM


def without_effect(setting: str) -> bool:
    """Return whether a setting is a place, a name or an address that moves no figure."""
    return setting.rpartition(".")[2] in _WITHOUT_EFFECT or setting in _WITHOUT_EFFECT


def subject_of(figure: str) -> Subject | None:
    """Return the subject of a figure.

    Example:
        >>> subject_of("torch_compile_seconds"), subject_of("kv_cache_tokens")
        ('start-up', 'capacity')
    """
    if figure.endswith("_seconds"):
        return "start-up"
    return _SUBJECT_OF_FIGURE.get(figure)
