"""What can be said of a message from its kind and place alone: topic, verdict, severity, meaning.

These are the general words for messages that nobody has judged one by one; they claim no more than
the kind of a message gives away.
"""

from __future__ import annotations

import re

from msgspec import Struct

from vllm_logdoctor.catalogue.catalogue import Message


class Judgement(Struct, frozen=True):
    """Topic, platform, verdict, severity and meaning of a message."""

    topic: str
    platform: str | None
    verdict: str
    severity: str
    meaning: str


def judge(message: Message) -> Judgement:
    """Return what the kind and place of a message say about it."""
    topic = topic_of(message)
    area = AREAS[topic]
    platform = platform_of(message)
    if message.kind:
        verdict, severity, meaning = _performance(message, area)
    elif message.level == "raise" or (message.category and message.level != "warning"):
        verdict, severity, meaning = _failure(message, area)
    else:
        verdict, severity, meaning = _other(message, area)
    return Judgement(topic, platform, verdict, severity, meaning)


AREAS = {
    "attention": "attention",
    "bench": "benchmarking",
    "compile": "compilation and CUDA graphs",
    "configuration": "the configuration",
    "deprecation": "names and settings on their way out",
    "engine": "the engine and its processes",
    "foreign": "a library beside vLLM",
    "hardware": "device and driver",
    "kv-cache": "the KV cache",
    "kv-transfer": "KV transfer and offloading",
    "lifecycle": "start and stop",
    "logging": "logging",
    "lora": "LoRA adapters",
    "memory": "device memory",
    "model-loading": "the model and its loading",
    "moe": "mixture-of-experts layers",
    "multimodal": "images, audio and video",
    "other": "vLLM",
    "parallelism": "parallelism and the links between processes",
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

_CATALOGUE_TOPICS = {
    "cudagraph-compile": "compile",
    "attention-backend": "attention",
    "parallelism-communication": "parallelism",
    "tokenizer-input-api": "tokenizer",
    "kv-transfer-offload": "kv-transfer",
    "model-loading": "model-loading",
    "multimodal": "multimodal",
    "platform": "platform",
    "sampling": "sampling",
    "speculative-decoding": "speculative-decoding",
    "lora": "lora",
}
_CATEGORIES = {
    "config": "configuration",
    "serving": "serving",
    "model": "model-loading",
    "parallelism": "parallelism",
    "hardware": "hardware",
    "engine": "engine",
    "memory": "memory",
    "cli": "configuration",
}
_MODULES: tuple[tuple[str, str], ...] = (
    (r"kv_transfer|ec_transfer|kv_offload|offload|kv_connector", "kv-transfer"),
    (r"(^|/)lora", "lora"),
    (r"spec_decode|speculative|eagle|medusa|ngram", "speculative-decoding"),
    (r"fused_moe|eplb|expert", "moe"),
    (r"quantization|kernels/linear|scalar_type|_quant", "quantization"),
    (r"multimodal|image|audio|video|vision", "multimodal"),
    (r"attention|flash_attn|mla|mamba|gdn", "attention"),
    (r"compilation|cudagraph|inductor|warmup|triton_utils|(^|/)ir/", "compile"),
    (r"model_loader|weight|transformers_utils|model_executor/models|(^|/)models/", "model-loading"),
    (r"sample|sampling|logits|structured_output|guided_decoding", "sampling"),
    (r"core/sched|core/scheduler|scheduler", "scheduler"),
    (r"kv_cache|block_manager|cache_engine|block_pool|core/block", "kv-cache"),
    (r"distributed|executor|ray|parallel", "parallelism"),
    (r"metrics|tracing|usage|stat", "statistics"),
    (r"tokenizer|chat_utils|renderers|tool_parsers|reasoning|parser", "tokenizer"),
    (r"benchmarks", "bench"),
    (r"entrypoints|grpc", "serving"),
    (r"logging|logger", "logging"),
    (r"device_allocator|mem_utils|mem_constants", "memory"),
    (r"platforms|_custom_ops|_ipex|_aiter|cuda|rocm|xpu|tpu|hpu|neuron|openvino", "platform"),
    (r"config|arg_utils|envs|argparse", "configuration"),
    (r"engine|worker|core", "engine"),
)


def topic_of(message: Message) -> str:
    """Return the topic of a message: by its catalogue, else by the module that prints it."""
    text = f"{message.template} {message.module}".lower()
    if message.topic == "kv-cache-scheduler":
        return "kv-cache" if re.search(r"kv.?cache|block|prefix|memory|page|mamba", text) else "scheduler"
    if message.topic == "quantization-moe":
        return "moe" if re.search(r"moe\b|_moe|moe_|expert|routing|routed", text) else "quantization"
    if message.topic == "security-deprecation":
        return "security" if message.kind == "security" else "deprecation"
    if message.topic in _CATALOGUE_TOPICS:
        return _CATALOGUE_TOPICS[message.topic]
    if message.category in _CATEGORIES and message.level != "warning":
        return _CATEGORIES[message.category]
    return next((topic for part, topic in _MODULES if re.search(part, message.module)), "other")


_PLATFORMS = (
    ("rocm", r"rocm|(^|/)amd|aiter|quark"),
    ("tpu", r"tpu|pallas"),
    ("xpu", r"xpu|ipex"),
    ("hpu", r"hpu|habana|gaudi"),
    ("neuron", r"neuron"),
    ("openvino", r"openvino"),
    ("cpu", r"(^|[/_])cpu([/_.]|$)"),
)


def platform_of(message: Message) -> str | None:
    """Return the platform that a message belongs to; None for one of all platforms."""
    scope = message.scope.removeprefix("platform:") if message.scope.startswith("platform:") else ""
    known = [name for name, _ in _PLATFORMS]
    if scope in known:
        return scope
    return next((name for name, part in _PLATFORMS if re.search(part, message.module)), None)


def _performance(message: Message, area: str) -> tuple[str, str, str]:
    loud = message.level in ("warning", "error")
    if message.kind == "deprecation":
        return (
            "will-break",
            "low",
            (
                "A name or setting that this release still takes, or already ignores, and that a later one will "
                "not know: change it before the next upgrade; the text names what replaces it."
            ),
        )
    if message.kind == "security":
        return (
            "information",
            "high" if loud else "medium",
            (
                "A setting that bears on who can reach or run what: read the text, and make sure that it is "
                "meant."
            ),
        )
    if not loud:
        return "information", "info", _QUIET.get(message.kind, "A detail of {area}.").format(area=area)
    verdict, meaning = _LOUD.get(message.kind, ("information", "A warning of {area}; vLLM goes on after it."))
    severity = "low" if message.kind in ("selection", "info", "timing") else "medium"
    return verdict, severity, meaning.format(area=area)


_QUIET = {
    "selection": "States what vLLM chose for {area}.",
    "timing": "A duration in {area}.",
    "capacity": "A size or limit of {area}.",
    "disabled": "States what is off, overridden or skipped in {area}.",
    "fallback": "States what vLLM took in {area} where its first choice did not fit.",
    "suboptimal": "A hint of vLLM at a faster way in {area}.",
    "unsupported": "States what {area} can't do here.",
    "accuracy": "A note on the accuracy of {area}.",
}
_LOUD = {
    "fallback": (
        "costs-performance",
        "vLLM could not use its first choice in {area} and went on with another; it is meant to give the "
        "same results, speed or memory use may be worse.",
    ),
    "disabled": (
        "costs-performance",
        "Something in {area} that was asked for, or is on by default, is off, overridden or skipped here; "
        "the run "
        "goes on without it. Matters where that part was counted on.",
    ),
    "suboptimal": (
        "costs-performance",
        "vLLM says that {area} is slower or less well used than it could be; the text names the reason.",
    ),
    "capacity": (
        "costs-performance",
        "A size or limit of {area} is not what was asked for, or leaves little room; the figures are in the "
        "text.",
    ),
    "unsupported": (
        "information",
        "What was asked for in {area} is not supported here; vLLM goes on without it where it can.",
    ),
    "accuracy": (
        "information",
        "vLLM warns that results can differ from the reference because of {area}; compare outputs once.",
    ),
}

_FAILURES = {
    "config": "vLLM refuses these settings together, or for this model or machine: the start ends here; the "
    "text "
    "names the setting to change.",
    "cli": "The command line or its values are refused: the process ends before anything is loaded.",
    "model": "The model, its files or its code don't fit what vLLM expects: loading, or the request that "
    "needs "
    "it, ends here.",
    "parallelism": "The layout over processes or devices, or the link between them, can't be set up or used "
    "as "
    "asked: the start, or the step, ends here.",
    "hardware": "The device, its driver or a compiled part does not support what was asked for.",
    "engine": "The engine's own processes can't go on from the state that they are in; the cause may stand "
    "earlier, in the lines of another process.",
    "memory": "Memory could not be had or managed as asked: the start, or the step, ends here.",
    "serving": "Raised while a request or an endpoint is handled: that request fails; the server goes on "
    "unless "
    "its start was still under way.",
}


def _failure(message: Message, area: str) -> tuple[str, str, str]:
    general = "An error in {area}: what was being done when it was raised does not complete."
    meaning = _FAILURES.get(message.category, general.format(area=area))
    severities = {"critical": "critical", "error": "high", "warning": "medium"}
    severity = severities.get(message.severity, "high")
    if severity == "critical" and message.category == "serving":
        severity = "high"
    return "cause-of-failure", severity, meaning


def _other(message: Message, area: str) -> tuple[str, str, str]:
    if message.level == "warning":
        return (
            "information",
            "low",
            (f"A warning of vLLM about {area}, not rated one by one; the process went on after it."),
        )
    if message.level in ("error", "critical"):
        return (
            "information",
            "medium",
            (
                f"An error that vLLM logged in {area}, not rated one by one: what it was doing there did not "
                f"work; the "
                "lines after it show whether the process went on."
            ),
        )
    if message.level == "debug":
        return "information", "info", f"A detail for debugging {area}."
    return "information", "info", f"A note of vLLM about {area}."
