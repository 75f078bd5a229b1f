"""Words for the closed lists: outcomes, bottlenecks, phases, severities; and a run's title."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod

from vllm_logdoctor.knowledge.versions import parse_version
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.report.escape import inline
from vllm_logdoctor.rules.context import plural
from vllm_logdoctor.rules.offline import prints_answers
from vllm_logdoctor.rules.release_terms import options_of_fork, source_tree
from vllm_logdoctor.run.blockphase import phase_of_block
from vllm_logdoctor.run.blocks import blocks_of
from vllm_logdoctor.run.clock import duration
from vllm_logdoctor.run.identity import FROM_PATH, ONE_SITE, is_inferred, release_words
from vllm_logdoctor.run.job import words_of_limit
from vllm_logdoctor.run.lifecycle import crashed_natively, ends_engine, ends_progress, names_vllm, trail_of
from vllm_logdoctor.run.model import Outcome, Run
from vllm_logdoctor.run.other_programs import failed_tests
from vllm_logdoctor.run.owners import PROGRAM, owner_of
from vllm_logdoctor.run.servers import NAMES, VLLM
from vllm_logdoctor.run.termination import stops_in

_FORCED = "force killing"
OUTCOMES: dict[Outcome, str] = {
    "running": "end not in the log",  # A process that is killed writes no line either.
    "clean_shutdown": "clean shutdown",
    "crashed_at_startup": "crashed at start-up",
    "crashed_while_serving": "crashed while serving",
    "killed": "killed",
    "truncated": "log cut off",
    "unknown": "end not in the log",
}

BROKEN: tuple[Outcome, ...] = ("crashed_at_startup", "crashed_while_serving", "killed")

STATES: dict[Outcome, str] = {
    "crashed_at_startup": "FAILED at start-up",
    "crashed_while_serving": "FAILED while serving",
    "killed": "KILLED",
    "running": "REQUEST ERROR",
}
"""Where the log does not show that the run broke, its error is no more than an error."""

_STATES_BY_KIND = {
    "build": "BUILD FAILED",
    "test": "TESTS FAILED",
    "client": "CLIENT FAILED",
    "container": "CONTAINER NOT STARTED",
}
_TEXT_OF_OTHERS = {
    "build": "output of a build or an installation",
    "test": "output of pytest",
    "client": "output of a client",
    "container": "start of a container",
}
_BUILD_ENDS: dict[Outcome, str] = {"crashed_at_startup": "failed", "clean_shutdown": "succeeded"}

BOTTLENECKS: dict[str, str] = {
    "idle": "idle: no request arrived",
    "client-limited": "limited by the client: no request queued",
    "kv-cache-limited": "limited by the KV cache: requests queue or are preempted while it is full",
    "max-num-seqs-limited": "limited by max_num_seqs: requests queue while the KV cache has room",
    "prefill-limited": "limited by prefill: prompt processing takes the steps",
    "host-limited": "limited by very slow decode steps, whose cause the statistics lines do not show",
    "interconnect-limited": "limited by the interconnect between the GPUs",
    "startup-only": "no request in this log",
    "failed": "failed before serving",
    "none-clear": "no clear limit in this log",
}

# What limits a run, after "LIMITED: " or "HEALTHY: ".
LIMITS: dict[str, str] = {
    "idle": "idle, no requests",
    "client-limited": "the client sets the pace",
    "kv-cache-limited": "KV cache full",
    "max-num-seqs-limited": "max_num_seqs reached",
    "prefill-limited": "prefill",
    "host-limited": "slow decode steps",
    "interconnect-limited": "network between nodes",
    "startup-only": "no statistics lines in this log",
    "failed": "failed",
    "none-clear": "no clear limit",
}

# What an objective does to the order of the advice; "balanced" changes nothing.
OBJECTIVES: dict[str, str] = {
    "throughput": "Ordered for throughput: changes that raise the tokens of all requests together rank higher; single requests may get slower.",
    "latency": "Ordered for latency: changes that make single requests faster rank higher; larger prefill steps are not proposed.",
    "cost": "Ordered for cost: fewer cards and GPU-hours for the same work rank higher; cards that the load does not need are given back.",
    "long-context": "Ordered for long contexts: room for long requests and prefix caching rank higher; throughput of short requests may fall.",
    "memory": "Ordered for memory: changes that free GPU memory rank higher.",
    "startup": "Ordered for start-up: a shorter start ranks before serving speed; fewer CUDA graphs and eager mode slow down large batches.",
}

PHASES: dict[str, str] = {
    "imports": "before engine start",
    "engine-start": "engine and worker start",
    "placement": "waiting for Ray's placement group",
    "download": "model download",
    "load-weights": "weight loading",
    "dynamo": "Dynamo tracing",
    "inductor": "graph compilation",
    "compile": "torch.compile",
    "profiling": "memory profiling",
    "encoder-profiling": "multimodal profiling",
    "kv-cache": "KV cache",
    "graph-capture": "CUDA graph capture",
    "kernel-build": "kernel builds (JIT)",
    "autotune": "kernel autotuning (FlashInfer)",
    "engine-init": "profiling, KV cache, warm-up",
    "engine-load": "weight loading, profiling, KV cache, warm-up",
    "warm-up": "warm-up",
    "api-server": "API server",
    "startup": "start-up",
    "serving": "serving",
    "idle": "idle",
    "shutdown": "shutdown",
    "unexplained": "rest of the start-up",
}


def phase_words(name: str) -> str:
    """Return the name of a phase in words."""
    return PHASES.get(name, name.replace("-", " "))


METRICS: dict[str, str] = {
    "generation_throughput": "generation throughput",
    "prompt_throughput": "prompt throughput",
    "total_throughput": "throughput",
    "throughput": "throughput",
    "kv_cache_tokens": "KV cache tokens",
    "max_concurrency": "full-length requests at once",
    "startup_seconds": "start-up",
    "init_engine_seconds": "engine initialization",
    "load_seconds": "weight loading",
    "ttft": "time to first token",
    "itl": "inter-token latency",
}

_HUB_CACHE = lazy_pattern(r"models--([^/]+?)--([^/]+)(?:/|$)")

# .../qwen-3/8b/1   .../sft/checkpoint-900   .../Qwen3-8B/main: the name of a version, a size or a step, not of a model
_SAYS_LITTLE = lazy_pattern(
    r"v?\d+(?:\.\d+)*|\d+(?:\.\d+)?[bm]|[0-9a-f]{7,64}|(?:checkpoint|step|epoch|iter)[-_]?\w*|main|merged|final|latest|model|target|draft"
    r"|weights|snapshots?|default|output|transformers|safetensors|hf|fp16|bf16|fp8|int4|int8|awq|gptq|gguf",
    re.IGNORECASE,
)
_MOST_PARTS = 4


def is_client(run: Run) -> bool:
    """Return whether a log holds a benchmark's result and nothing of the engine that it measured but the server's command."""
    named = run.model and not (run.launched_by and run.kind == "server" and not run.engine_config)
    return bool(run.benchmarks) and not (run.startup_complete or run.samples or named or run.accesses)


def model_name(name: str) -> str:
    """Return a model's name without the folders that lead to it.

    Example:
        >>> model_name("/data/models/Qwen2.5-32B-Instruct/"), model_name("Qwen/Qwen3-8B")
        ('Qwen2.5-32B-Instruct', 'Qwen/Qwen3-8B')
        >>> model_name("/hub/models--Qwen--Qwen3-8B/snapshots/0123")
        'Qwen/Qwen3-8B'
        >>> model_name("/models/qwen-3/8b/1/"), model_name("/runs/sft/checkpoint-900"), model_name("/home/model")
        ('…/qwen-3/8b/1', '…/sft/checkpoint-900', '/home/model')
    """
    cached = _HUB_CACHE.search(name)
    if cached:
        return f"{cached.group(1)}/{cached.group(2)}"
    parts = [part for part in name.split("/") if part]
    if name.count("/") == 1 and len(parts) == 2 and parts[0] not in (".", "..", "~"):
        return name
    shown = parts[-_telling_parts(parts) :]
    if len(shown) < 2:
        return shown[0] if shown else name
    # Without its beginning a path of two folders would be a name on the Hub.
    return name if len(shown) == len(parts) else f"…/{'/'.join(shown)}"


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
    ranks = accelerators(run)
    if ranks is None:
        return ""
    if run.setting("enable_expert_parallel") is True:
        sizes.append(("EP", prod(size for letters, size in sizes if letters != "PP")))
    split = ", ".join(f"{letters}={size}" for letters, size in sizes if size > 1)
    words = plural(ranks, accelerator_unit(run))
    return f"{words} ({split})" if split else words


def accelerator_unit(run: Run) -> str:
    """Return what the run's ranks run on: "GPU", "NPU", "CPU rank" or "rank"."""
    # A build for GPUs accepts --device cpu too; where the engine's line names another device, that is what runs.
    if run.setting("device") == "cpu" and (run.engine_config.get("device_config") or "cpu") == "cpu":
        return "CPU rank"
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
    if not isinstance(tensor, int) or isinstance(tensor, bool) or run.has_unstated_engines:
        return None
    ranks = tensor
    for field in ("pipeline_parallel_size", "data_parallel_size"):
        size = run.setting(field)
        if isinstance(size, int) and not isinstance(size, bool) and size > 1:
            ranks *= size
    return ranks


def version_words(run: Run) -> str:
    """Return the engine and its version in words, escaped."""
    if run.server != VLLM:
        build = run.engine_log.value("build") if run.engine_log else None
        name = NAMES.get(run.server, run.server)
        return f"{name} {inline(str(build), 80)}" if build else f"{name}, release not in the log"
    if run.router:
        return "router before servers of vLLM"
    if run.version is None or run.version.value in (None, ""):
        return "vLLM, release not in the log"
    inferred = is_inferred(run.version) and run.kind != "build"
    prefix = "prefix of one line" if run.version.note.endswith(ONE_SITE) else "prefixes of the log's lines"
    # Sources have the lines of a release before and after it came out.
    beside = ", or a source build of that time" if inferred and source_tree(run) else ""
    source = f"{beside} (inferred from the {prefix})" if inferred else ""
    return f"vLLM {inline(release_words(run.version), 80)}{source or _of_build(run)}"


def _is_of_libraries(run: Run) -> bool:
    """Return whether a log shows tracebacks of libraries alone: who called them is not in it."""
    if run.recognised_records or names_vllm(run):
        return False
    raised = [one for block in blocks_of(trail_of(run)) for one in block.raised]
    owners = {owner_of(frame.file) for one in raised for frame in one.frames}
    return bool(owners) and PROGRAM not in owners


def _of_build(run: Run) -> str:
    """Return what a version says less than it seems to: that of changed sources, a number that is no release's, the name of a folder."""
    if run.version is None:
        return ""
    if options_of_fork(run):
        return " (modified)"
    if run.version.note == FROM_PATH:
        return f" ({FROM_PATH})"
    version = parse_version(str(run.version.value))
    return "" if version is None or version.names_a_release else " (a source build without a release number)"


def per_engine(run: Run) -> str:
    """Return " per engine" where several engines share the load, each with a cache of its own; else nothing."""
    engines = run.setting("data_parallel_size")
    return " per engine" if isinstance(engines, int) and engines > 1 else ""


def run_title(run: Run, *, failed: bool = False, known: bool = True) -> str:
    """Return one line that says what ran, on what, how long and how it ended; escaped.

    Args:
        run: what ran.
        failed: whether the state names the error that ended it: then an end that says no more is left out.
        known: whether a rule knows that error, as one of vLLM or of what it uses.
    """
    of_others = _TEXT_OF_OTHERS.get(run.kind, "")
    if not known and _is_of_libraries(run):
        of_others = "no line of vLLM in the log"
    parts = [version_words(run) if run.version is not None else of_others or version_words(run)]
    model = run.model.value if run.model is not None else client_asked(run).get("model")
    if model:
        parts.append(inline(model_name(str(model)), 120))
    if is_client(run):
        parts.append("benchmark client")
    elif (of_others and run.version is not None) or (
        run.kind == "offline" and (run.arguments or run.progress or run.startup_complete)
    ):
        parts.append(run.kind)
    spread = parallelism(run)
    if spread:
        parts.append(spread)
    parts += [] if failed and is_client(run) else _covered(run)
    end = how_it_ended(run)
    if not (failed and _says_no_more(run, end)):
        parts.append(end)
    return " · ".join(parts)


def _covered(run: Run) -> list[str]:
    """Return how long a log covers; nothing for lines copied from the middle of a run, whose length says nothing of it."""
    seconds = _seconds(run)
    if run.kind == "offline" and len(run.benchmarks) > 1:
        return []  # Pieces of several programs, whose loading prints no time.
    if seconds < 1 or not (start_seen(run) or shows_a_run(run)) or _ends_without_time(run):
        return []
    if is_client(run):
        return [f"benchmark of {duration(seconds)}"]
    return [f"log of {duration(seconds)}"]


def _ends_without_time(run: Run) -> bool:
    """Return whether an interrupt ended the log, whose traceback has no time: how long the run waited before is not in it."""
    return any(one.time is None and "KeyboardInterrupt" in one.message for one in run.tail[-2:])


def client_asked(run: Run) -> Mapping[str, str | float]:
    """Return what the client of the last benchmark sends; nothing where a log holds the engine's lines."""
    return run.benchmarks[-1].asked if is_client(run) else {}


def _seconds(run: Run) -> float:
    """Return how long the log covers.

    A benchmark's client prints no times while it sends: its results say how long it took.
    """
    if is_client(run):
        return sum(one.figures.get("Benchmark duration (s)", 0.0) for one in run.benchmarks)
    if run.started is None or run.ended is None or run.started == run.ended:
        return 0.0
    return run.ended - run.started


def shows_a_run(run: Run) -> bool:
    """Return True if a log shows a complete start, a load or its end, not only a piece between them."""
    seen = run.startup_complete or run.samples or run.progress or run.benchmarks or run.accesses
    return bool(seen or prints_answers(run)) or (run.outcome == "clean_shutdown" and start_seen(run))


def start_seen(run: Run) -> bool:
    """Return True if a log shows the beginning of a start: an excerpt shows nothing by where it ends."""
    reported = run.version is not None and run.version.provenance == "reported"
    return reported or bool(run.config or run.phases)


def was_interrupted(run: Run) -> bool:
    """Return True if Ctrl-C ended a program around an offline engine, which had not completed a batch: no orderly end."""
    if run.kind != "offline" or run.outcome != "clean_shutdown":
        return False
    trail = trail_of(run)
    stopped = any(stop.kind == "user" for stop in stops_in(trail))
    return stopped and not any(ends_progress(one.message) for one in trail)


def failed_state(run: Run) -> str:
    """Return the state of a run that failed, in capitals before a colon."""
    if run.kind == "build" and run.outcome == "unknown":
        return "BUILD"  # pip installs packages that do not fit together, and only says so.
    if run.kind == "offline" and run.outcome == "clean_shutdown":
        left = not run.progress and any(ends_engine(one.message) for one in trail_of(run))
        return f"PROGRAM FAILED after {'the engine had ended' if left else 'all prompts were answered'}"
    if _failed_at_import(run):
        return "FAILED at import"
    ended = (run.job is not None and run.job.exit_status) or any(map(crashed_natively, trail_of(run)))
    otherwise = "FAILED" if ended else "ERROR"
    return _STATES_BY_KIND.get(run.kind) or _of_kind(run, STATES.get(run.outcome, otherwise))


def _failed_at_import(run: Run) -> bool:
    """Return whether a program that shows nothing else of a run failed while it imported modules: it may not start an engine at all."""
    if run.kind != "unknown" or run.outcome != "crashed_at_startup" or start_seen(run):
        return False
    blocks = blocks_of(trail_of(run))
    return bool(blocks) and all(phase_of_block(one) == "import" for one in blocks)


def _of_kind(run: Run, words: str) -> str:
    """Return words on a run; an engine without a server, or of which a piece does not show one, did not serve."""
    return words.replace("while serving", "after start-up") if run.kind in ("offline", "unknown") else words


def _says_no_more(run: Run, end: str) -> bool:
    """Return whether the words on an end only repeat the state of a run that failed, or that the end is not in the log."""
    repeats = run.outcome in BROKEN and end == _end(run) and run.kind != "test"
    return repeats or end == OUTCOMES["unknown"]


def how_it_ended(run: Run) -> str:
    """Return how a run ended, with the batch system's limit, the signal or the exit status of its job where they are known."""
    job, outcome = run.job, _end(run)
    if job is None or (run.outcome.startswith("crashed") and not job.exit_status):
        return outcome
    if job.limit == "walltime":
        used = f" after {duration(job.elapsed)}" if job.elapsed is not None else ""
        return f"killed at the walltime{used}{f' of {duration(job.walltime)}' if used and job.walltime is not None else ''}"
    if job.limit:
        return f"killed {words_of_limit(job.limit)}"
    if job.signal is not None:
        # The shell's "Terminated" is all that the log says of it.
        outcome = "stopped" if run.outcome == "clean_shutdown" else outcome
        return f"{outcome} (job ended by signal {job.signal})"
    return f"{outcome} (job's exit status {job.exit_status})" if job.exit_status else outcome


def _end(run: Run) -> str:
    if run.kind == "build":
        return _BUILD_ENDS.get(run.outcome, OUTCOMES["unknown"])
    if run.kind == "container":
        return "not started"
    if run.kind == "test":
        failed = len(failed_tests(trail_of(run)))
        # The summary of a session with several engines belongs to its last one.
        return (
            f"{plural(failed or 1, 'test')} failed"
            if failed or run.outcome in BROKEN
            else OUTCOMES["unknown"]
        )
    if is_client(run) and run.outcome in ("truncated", "unknown"):
        return f"{plural(len(run.benchmarks), 'result')} in the log"
    if was_interrupted(run):
        return "interrupted"
    if run.kind == "offline" and run.outcome == "clean_shutdown" and (run.progress or prints_answers(run)):
        return "prompts completed"
    if run.outcome == "clean_shutdown" and any(_FORCED in one.message.casefold() for one in trail_of(run)):
        return "stopped, remaining processes killed"
    unsaid = run.outcome == "truncated" and not start_seen(run) and not shows_a_run(run)
    return _of_kind(run, OUTCOMES["unknown" if unsaid else run.outcome])
