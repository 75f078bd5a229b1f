"""Performance findings: rules by topic, each a function of a case, in the order of what is most worth doing."""

from __future__ import annotations

from collections.abc import Callable

from vllm_logdoctor.rules.bottleneck import Bottleneck
from vllm_logdoctor.rules.load import Load, load_of
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.rules.performance import (
    accelerators,
    adapters,
    balance,
    caching,
    cpu,
    experts,
    graphs,
    host,
    hybrid_cache,
    kernels,
    memory_use,
    messages,
    multimodal,
    observing,
    offered,
    parallelism,
    pipeline,
    platforms,
    serving,
    speculation,
    startup,
    steps,
    transfers,
)
from vllm_logdoctor.rules.performance.context import RuleContext, rule_context
from vllm_logdoctor.rules.performance.order import ordered
from vllm_logdoctor.run.model import Run

Rule = Callable[[RuleContext], "Finding | None"]

RULES: tuple[Rule, ...] = (
    steps.engine_makes_no_progress,
    serving.kv_cache_preemption,
    serving.scheduler_limit_not_memory,
    balance.engines_loaded_unevenly,
    adapters.adapters_take_turns,
    transfers.requests_wait_for_remote_cache,
    serving.prefill_bound_queueing,
    serving.client_concurrency_bound,
    serving.benchmark_measures_cache,
    parallelism.inter_node_network_bound,
    steps.steps_slower_than_memory,
    parallelism.small_model_split_over_cards,
    pipeline.pipeline_stages_idle,
    parallelism.custom_allreduce_disabled,
    observing.every_call_traced,
    graphs.eager_mode,
    experts.graphs_off_for_expert_exchange,
    graphs.cuda_graphs_not_captured,
    graphs.captured_sizes_below_batch,
    graphs.cudagraph_mode_reduced,
    graphs.jit_compilation_while_serving,
    graphs.compile_cache_disabled,
    kernels.slow_quantization_kernel_selected,
    kernels.gguf_slow_path,
    kernels.quantization_not_optimized,
    kernels.quantization_emulated,
    kernels.mxfp4_without_flashinfer,
    offered.block_size_excludes_backends,
    offered.fp8_cache_without_flashinfer,
    offered.faster_expert_kernel_offered,
    accelerators.aiter_off,
    accelerators.ascend_parts_missing,
    accelerators.context_too_long_for_tpu_kernel,
    experts.experts_unbalanced,
    experts.expert_rebalancing_stalls,
    kernels.moe_kernel_untuned,
    kernels.block_kernel_untuned,
    kernels.sampler_in_pytorch,
    caching.prefix_caching_silently_off,
    caching.prefix_caching_switched_off,
    caching.chunked_prefill_off,
    caching.cache_reads_dominate,
    transfers.remote_cache_never_hits,
    speculation.spec_decode_not_profitable,
    speculation.speculative_decoding_eats_token_budget,
    memory_use.weights_in_32_bit,
    memory_use.weights_on_the_host,
    platforms.kv_cache_smaller_after_upgrade,
    cpu.cpu_backend_binding,
    cpu.cpu_libraries_not_preloaded,
    cpu.cpu_threads_not_bound,
    cpu.cpu_block_size_unsuited,
    platforms.pinned_memory_off,
    multimodal.slow_image_processor,
    observing.answered_with_server_errors,
    observing.request_logging,
    observing.profiled_while_serving,
    host.few_processor_cores,
    cpu.torch_threads_while_serving,
    host.slow_tokenizer,
    multimodal.multimodal_preprocessing,
    multimodal.multimodal_items_larger_than_cache,
    multimodal.multimodal_cache_off,
    host.async_scheduling_off,
    host.async_scheduling_unavailable,
    adapters.lora_kernel_untuned,
    hybrid_cache.window_layers_keep_whole_cache,
    startup.slow_startup_model_download,
    startup.slow_weight_loading_storage,
    startup.slow_startup_torch_compile,
    startup.slow_startup_graphs_and_dynamo,
    startup.slow_startup_encoder_profiling,
    memory_use.cache_larger_than_load,
    memory_use.few_full_length_requests_fit,
    messages.slower_paths_taken,
)


def performance_findings(
    run: Run, bottleneck: Bottleneck, objective: str = "balanced", load: Load | None = None
) -> tuple[Finding, ...]:
    """Judge the performance of a run.

    Args:
        run: the run.
        bottleneck: what limits it (`rules.bottleneck.bottleneck_of`).
        objective: balanced, throughput, latency, long-context, memory or startup; it changes the order and
            some proposals.
        load: its load, where it is known already.

    Returns:
        findings, what is most worth doing first.
    """
    if run.outcome == "crashed_at_startup":
        return ()
    case = rule_context(run, load or load_of(run), bottleneck, objective)
    return ordered(case, [found for rule in RULES if (found := rule(case)) is not None])
