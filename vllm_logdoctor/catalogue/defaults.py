"""What can be said of a message that nobody judged, from its level and its place in vLLM's sources alone."""

from __future__ import annotations

import re

from vllm_logdoctor.catalogue.topics import Severity, Topic, Verdict

AREAS: dict[Topic, str] = {
    "attention": "attention",
    "bench": "benchmarking",
    "compile": "compilation and CUDA graphs",
    "configuration": "the configuration",
    "deprecation": "deprecated names and settings",
    "engine": "the engine and its processes",
    "environment": "the environment",
    "foreign": "a library beside vLLM",
    "hardware": "device and driver",
    "host": "the host",
    "kernels": "kernels",
    "kv-cache": "the KV cache",
    "kv-transfer": "KV transfer and offloading",
    "lifecycle": "start and stop",
    "logging": "logging",
    "lora": "LoRA adapters",
    "memory": "device memory",
    "model-loading": "model loading",
    "moe": "mixture-of-experts layers",
    "multimodal": "images, audio and video",
    "other": "vLLM",
    "parallelism": "parallelism and communication between processes",
    "platform": "the platform",
    "quantization": "quantization",
    "sampling": "sampling",
    "scheduler": "the scheduler",
    "security": "security",
    "serving": "requests and endpoints",
    "speculative-decoding": "speculative decoding",
    "statistics": "statistics",
    "tokenizer": "tokenizer, chat template and input handling",
}
"""What a topic is about, in words."""

_PARTS_OF_PATHS: tuple[tuple[Topic, tuple[str, ...]], ...] = (
    ("kv-transfer", ("kv_transfer", "ec_transfer", "offload", "kv_connector")),
    ("lora", ("/lora",)),
    ("speculative-decoding", ("spec_decode", "speculative", "eagle", "medusa", "ngram")),
    ("moe", ("fused_moe", "eplb", "expert")),
    ("quantization", ("quantization", "kernels/linear", "scalar_type", "_quant")),
    ("multimodal", ("multimodal", "image", "audio", "video", "vision")),
    ("attention", ("attention", "flash_attn", "mla", "mamba", "gdn")),
    ("compile", ("compilation", "cudagraph", "inductor", "warmup", "triton_utils", "/ir/")),
    ("model-loading", ("model_loader", "weight", "transformers_utils", "/models/")),
    ("sampling", ("sample", "sampling", "logits", "structured_output", "guided_decoding")),
    ("scheduler", ("core/sched", "scheduler")),
    ("kv-cache", ("kv_cache", "block_manager", "cache_engine", "block_pool", "core/block")),
    ("parallelism", ("distributed", "executor", "ray", "parallel")),
    ("statistics", ("metrics", "tracing", "usage", "stat")),
    ("tokenizer", ("tokenizer", "chat_utils", "renderers", "tool_parsers", "reasoning", "parser")),
    ("bench", ("benchmarks",)),
    ("serving", ("entrypoints", "grpc")),
    ("logging", ("logging", "logger")),
    ("memory", ("device_allocator", "mem_utils", "mem_constants")),
    (
        "platform",
        (
            "platforms",
            "_custom_ops",
            "_ipex",
            "_aiter",
            "cuda",
            "rocm",
            "xpu",
            "tpu",
            "hpu",
            "neuron",
            "openvino",
        ),
    ),
    ("configuration", ("config", "arg_utils", "envs", "argparse")),
    ("engine", ("engine", "worker", "core")),
)
_ON_ITS_WAY_OUT = re.compile(r"[Dd]eprecat|will be removed in|is renamed|has been renamed")
_WARNINGS = frozenset({"warning", "warn"})
_ERRORS = frozenset({"error", "exception", "critical"})


def default_topic(module: str, template: str = "", level: str = "") -> Topic:
    """Return the topic of a message, from the path of the file that prints it.

    Example:
        >>> default_topic("v1/core/sched/scheduler.py"), default_topic("envs.py")
        ('scheduler', 'configuration')
    """
    if level in _WARNINGS and _ON_ITS_WAY_OUT.search(template):
        return "deprecation"
    path = f"/{module}"
    return next((topic for topic, parts in _PARTS_OF_PATHS if any(part in path for part in parts)), "other")


def default_verdict(topic: Topic) -> Verdict:
    """Return the verdict on a message that nobody judged."""
    return "will-break" if topic == "deprecation" else "information"


def default_severity(level: str) -> Severity:
    """Return the severity of a message that nobody judged."""
    if level in _ERRORS or level == "raise":
        return "medium"
    return "low" if level in _WARNINGS else "info"


def default_meaning(level: str, topic: Topic) -> str:
    """Return what a level and a topic say of a message: no more than that.

    Example:
        >>> default_meaning("info", "kv-cache")
        'Note about the KV cache.'
    """
    area = AREAS[topic]
    if topic == "deprecation":
        return (
            "Deprecated: this release accepts or ignores it, a later one rejects it. "
            "Change it before the next upgrade; the message names its replacement."
        )
    if level in _WARNINGS:
        return f"Warning about {area}, not classified; vLLM continued."
    if level == "raise":
        return f"Exception about {area}, not classified; the operation that raised it did not complete."
    if level in _ERRORS:
        return f"Error about {area}, not classified; the lines after it show whether the process continued."
    return f"{'Debug detail' if level == 'debug' else 'Note'} about {area}."
