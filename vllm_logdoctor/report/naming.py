"""Words for the closed lists: outcomes, bottlenecks, phases, severities; and a run's title."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vllm_logdoctor.report.clock import duration
from vllm_logdoctor.report.escape import inline
from vllm_logdoctor.report.figures import count
from vllm_logdoctor.run.model import Outcome, Run

OUTCOMES: dict[Outcome, str] = {
    "running": "still running where the log ends",
    "clean_shutdown": "clean shutdown",
    "crashed_at_startup": "crashed at start-up",
    "crashed_while_serving": "crashed while serving",
    "killed": "killed",
    "truncated": "log cut off",
    "unknown": "end not known",
}

BROKEN: tuple[Outcome, ...] = ("crashed_at_startup", "crashed_while_serving", "killed")

BOTTLENECKS: dict[str, str] = {
    "idle": "nobody asked: the server stood idle",
    "client-limited": "the client is the limit: the server took all that came and had room for more",
    "kv-cache-limited": "the KV cache is the limit: requests wait or are preempted while it is full",
    "max-num-seqs-limited": "the number of seats is the limit: requests wait while the KV cache has room",
    "prefill-limited": "prefill is the limit: prompts take the steps that decode would use",
    "host-limited": "the host is the limit: the accelerators wait for the CPU",
    "interconnect-limited": "the links between the accelerators are the limit",
    "startup-only": "the log ends before any request was served",
    "failed": "the run failed before it could be limited by anything",
    "none-clear": "no clear limit shows in this log",
}

# What an objective does to the order of the advice; "balanced" does nothing to it.
OBJECTIVES: dict[str, str] = {
    "throughput": "In order for throughput: what raises the tokens of all requests together counts half as much again; a"
    " single request may get slower.",
    "latency": "In order for latency: what makes a single request faster counts twice, and larger steps for prompts are not proposed:"
    " they would hold up running requests. Ranks that speed up single streams stay.",
    "long-context": "In order for long contexts: room for long requests and prompts that are computed once count twice;"
    " throughput of short ones may fall.",
    "memory": "In order for memory: what gives device memory back or needs less of it counts twice; a cache that is kept"
    " small lets a larger load wait.",
    "startup": "In order for the start: seconds of the start count before the speed of serving; fewer captured graphs are"
    " proposed, which slow down large batches, and eager mode stays where it was chosen.",
}

PHASES: dict[str, str] = {
    "imports": "imports and arguments",
    "engine-start": "engine and workers start",
    "download": "download of the weights",
    "load-weights": "weights",
    "dynamo": "Dynamo tracing",
    "inductor": "Inductor compilation",
    "compile": "torch.compile",
    "profiling": "memory profiling",
    "encoder-profiling": "profiling with images or sound",
    "kv-cache": "KV cache",
    "graph-capture": "CUDA graph capture",
    "engine-init": "profile, KV cache, warm-up",
    "warm-up": "warm-up",
    "api-server": "API server",
    "startup": "start-up in all",
    "serving": "serving",
    "idle": "idle",
    "shutdown": "shutdown",
    "unexplained": "not explained by any line",
}

METRICS: dict[str, str] = {
    "generation_throughput": "generation throughput",
    "prompt_throughput": "prompt throughput",
    "total_throughput": "throughput",
    "throughput": "throughput",
    "kv_cache_tokens": "KV cache tokens",
    "max_concurrency": "requests of full length at once",
    "startup_seconds": "start-up time",
    "load_seconds": "time to load the weights",
    "ttft": "time to first token",
    "itl": "time between tokens",
}

_HUB_CACHE = re.compile(r"models--([^/]+?)--([^/]+)(?:/|$)")

# .../qwen-3/8b/1   .../sft/checkpoint-900   .../Qwen3-8B/main: the name of a version, a size or a step, not of a model
_SAYS_LITTLE = re.compile(
    r"v?\d+(?:\.\d+)*|\d+(?:\.\d+)?[bm]|[0-9a-f]{7,64}|(?:checkpoint|step|epoch|iter)[-_]?\w*|main|merged|final|latest|model"
    r"|weights|snapshots?|default|output|transformers|safetensors|hf|fp16|bf16|fp8|int4|int8|awq|gptq|gguf",
    re.IGNORECASE,
)
_MOST_PARTS = 4


def is_client(run: Run) -> bool:
    """Say whether a log holds a benchmark's result and nothing of the engine that it measured."""
    return bool(run.benchmarks) and not (run.startup_complete or run.samples or run.model or run.accesses)


def model_name(name: str) -> str:
    """Return a model's name without the folders that lead to it.

    Example:
        >>> model_name("/data/models/Qwen2.5-32B-Instruct/"), model_name("Qwen/Qwen3-8B")
        ('Qwen2.5-32B-Instruct', 'Qwen/Qwen3-8B')
        >>> model_name("/hub/models--Qwen--Qwen3-8B/snapshots/0123")
        'Qwen/Qwen3-8B'
        >>> model_name("/models/qwen-3/8b/1/"), model_name("/runs/sft/checkpoint-900"), model_name("/models/Qwen3-8B/main")
        ('qwen-3/8b/1', 'sft/checkpoint-900', 'Qwen3-8B/main')
    """
    cached = _HUB_CACHE.search(name)
    if cached:
        return f"{cached.group(1)}/{cached.group(2)}"
    parts = [part for part in name.split("/") if part]
    if name.count("/") == 1 and len(parts) == 2 and parts[0] not in (".", "..", "~"):
        return name
    return "/".join(parts[-_telling_parts(parts) :]) if parts else name


def _telling_parts(parts: Sequence[str]) -> int:
    """Return how many folders at the end of a path are needed to say which model it is."""
    needed = 1
    while needed < min(len(parts), _MOST_PARTS) and _SAYS_LITTLE.fullmatch(parts[-needed]):
        needed += 1
    return needed


def parallelism(run: Run) -> str:
    """Return the number of accelerators and how the model is spread over them, or an empty text."""
    sizes = []
    for letters, field in (("TP", "tensor"), ("PP", "pipeline"), ("DP", "data")):
        size = run.setting(f"{field}_parallel_size")
        if isinstance(size, int) and not isinstance(size, bool):
            sizes.append((letters, size))
    if not any(letters == "TP" for letters, _ in sizes):
        return ""
    ranks = accelerators(run) or 1
    split = ", ".join(f"{letters}={size}" for letters, size in sizes if size > 1)
    words = count(ranks, accelerator_unit(run))
    return f"{words} ({split})" if split else words


def accelerator_unit(run: Run) -> str:
    """Return what the run's ranks run on: "GPU", "NPU", "CPU rank" or "rank"."""
    units = {
        "cuda": "GPU",
        "rocm": "GPU",
        "xpu": "XPU",
        "tpu": "TPU",
        "hpu": "HPU",
        "npu": "NPU",
        "cpu": "CPU rank",
    }
    return units.get(run.platform or "", "rank")


def accelerators(run: Run) -> int | None:
    """Return how many accelerators the run used, by its parallel sizes, or None where they are not known."""
    tensor = run.setting("tensor_parallel_size")
    if not isinstance(tensor, int) or isinstance(tensor, bool):
        return None
    ranks = tensor
    for field in ("pipeline_parallel_size", "data_parallel_size"):
        size = run.setting(field)
        if isinstance(size, int) and not isinstance(size, bool) and size > 1:
            ranks *= size
    return ranks


def version_words(run: Run) -> str:
    """Return the vLLM version in words, escaped."""
    if run.version is None or run.version.value in (None, ""):
        return "vLLM of unknown version"
    told = "" if run.version.provenance == "reported" else " (told from its messages)"
    return f"vLLM {inline(str(run.version.value), 80)}{told}"


def run_title(run: Run) -> str:
    """Return one line that says what ran, on what, how long and how it ended; escaped."""
    parts = [version_words(run)]
    if run.model is not None and run.model.value:
        parts.append(inline(model_name(str(run.model.value)), 120))
    if is_client(run):
        parts.append("benchmark client")
    elif run.kind == "offline":
        parts.append("offline")
    spread = parallelism(run)
    if spread:
        parts.append(spread)
    if run.started is not None and run.ended is not None and run.ended - run.started >= 1:
        parts.append(duration(run.ended - run.started))
    ended = "results at the end" if is_client(run) and run.outcome in ("truncated", "unknown") else None
    parts.append(ended or OUTCOMES[run.outcome])
    return " · ".join(parts)
