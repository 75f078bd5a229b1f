"""Rules on the host and the platform: CPU backend, WSL, image preparation, logging."""

from __future__ import annotations

from vllm_logdoctor.findings.bottleneck import runs_on_cpu
from vllm_logdoctor.findings.capacity.memory import counted_graphs, memory_of
from vllm_logdoctor.findings.model import Change, Effect, Finding
from vllm_logdoctor.findings.performance.case import (
    Case,
    action,
    finding,
    flag,
    message_lines,
    sample_lines,
    setting_lines,
)

# Graphs that take this share of what could be cache are worth a line even without a load.
LARGE_GRAPHS = 0.25
# Logged requests per second of serving from which formatting prompts costs the API server's one thread.
MANY_LOGGED = 1.0


def cpu_backend_binding(case: Case) -> Finding | None:
    """The CPU backend makes less than a token per second and request. Needs statistics lines of a CPU run."""
    held = case.spans("host-limited")
    if case.bottleneck.name != "host-limited" or not held or not runs_on_cpu(case.run):
        return None
    text = (
        f"With {case.load.running:.0f} request(s) running the CPU backend made {case.load.generation:g}"
        " tokens/s in the median. Memory bandwidth sets its speed: threads bound to the wrong cores, or"
        " memory of another socket, cost most of it."
    )
    return finding(
        case,
        "cpu-backend-thread-or-memory-binding",
        "high",
        "medium",
        text,
        (*sample_lines(case, held), *message_lines(case, "cpu-pinned-memory-off", "cpu-preload-missing")),
        changes=(
            action("set VLLM_CPU_OMP_THREADS_BIND to the cores of one socket, one thread a core"),
            action("the container's CPU and memory limits; weights that fit the memory of one socket"),
        ),
        verify="more tokens/s at the same load.",
    )


def cpu_libraries_not_preloaded(case: Case) -> Finding | None:
    """The CPU backend misses the libraries it is tuned for. Needs its warnings."""
    seen = case.run.seen("cpu-preload-missing")
    if seen is None:
        return None
    names = sorted({event.text("library") for event in seen.first})
    text = (
        f"{' and '.join(names)} not preloaded: the CPU backend is tuned for this allocator and this OpenMP"
        " runtime. How much it gains depends on the host."
    )
    return finding(
        case,
        "cpu-libraries-not-preloaded",
        "low",
        "medium",
        text,
        message_lines(case, "cpu-preload-missing"),
        changes=(action("set LD_PRELOAD to the paths of libtcmalloc_minimal and libiomp5"),),
        verify="no such warning at the start.",
    )


def pinned_memory_off(case: Case) -> Finding | None:
    """WSL can't pin host memory. Needs vLLM's warning."""
    if case.event("pinned-memory-off-wsl") is None:
        return None
    text = (
        "The run is under WSL, which can't pin host memory: copies to the card take longer. Nothing in vLLM"
        " changes that; Linux on the machine itself does."
    )
    return finding(
        case,
        "pinned-memory-off",
        "info",
        "high",
        text,
        message_lines(case, "pinned-memory-off-wsl"),
        alternatives=("Linux without WSL, where the last per cent count",),
        verify="no such warning on plain Linux.",
    )


def slow_image_processor(case: Case) -> Finding | None:
    """Images are prepared by the slow processor. Needs Transformers' line."""
    if case.event("slow-image-processor") is None:
        return None
    text = (
        "Images are prepared by the slow processor of Transformers, on the processor of the host, before the"
        " card sees them."
    )
    setting = flag(
        case,
        "--mm-processor-kwargs",
        None,
        '{"use_fast": true}',
        "changes-results",
        "pixels can differ in the last digits",
    )
    return finding(
        case,
        "slow-image-processor",
        "low",
        "medium",
        text,
        message_lines(case, "slow-image-processor"),
        changes=setting,
        alternatives=("more API server processes (--api-server-count), where images are many",),
        verify="no such line at the start.",
    )


def kv_cache_smaller_after_upgrade(case: Case) -> Finding | None:
    """Graphs are counted inside the budget and take a large part of it.

    Needs the engine's two lines about it.
    """
    event, memory = case.event("graph-memory-equivalent"), memory_of(case.run)
    estimated = case.event("graph-memory-estimated")
    graphs = counted_graphs(case.run) or (estimated.number("gib") if estimated else None)
    available = case.run.measure("available_kv_cache_gib")
    if event is None or not graphs or not available or graphs < LARGE_GRAPHS * available:
        return None
    now, before = event.number("utilization"), event.number("equivalent")
    text = (
        f"{graphs:g} GiB are set aside for CUDA graphs inside the budget and {available:g} GiB are left for"
        f" the KV cache. Releases before 0.21 took the graphs from outside: gpu_memory_utilization {now:g}"
        f" gives the cache what {before:g} gave then."
        if now and before
        else f"{graphs:g} GiB are set aside for CUDA graphs and {available:g} GiB are left for the KV cache."
    )
    changes: tuple[Change, ...] = ()
    if (now and before and memory is not None) or (now and before):
        target = min(0.95, round(now + (now - before), 2))
        changes = (
            flag(
                case,
                "--gpu-memory-utilization",
                now,
                target,
                "needs-test",
                "the same cache as before; the device must have it free",
            )
            if target > now
            else ()
        )
    gain = (available + graphs) / available
    return finding(
        case,
        "kv-cache-smaller-after-upgrade",
        "medium",
        "high",
        text,
        message_lines(case, "graph-memory-equivalent", "graph-memory-estimated", "kv-cache-memory-available"),
        changes=changes,
        effect=Effect(
            "kv_cache_tokens",
            1.0,
            round(gain, 3),
            "computed",
            f"({available:g} + {graphs:g}) / {available:g} GiB, if all of it is given back",
        ),
        alternatives=("fewer capture sizes (--max-cudagraph-capture-size): smaller graphs",),
        verify="a larger `Available KV cache memory`.",
    )


def request_logging(case: Case) -> Finding | None:
    """Every request is logged with its prompt. Needs such lines, and a load."""
    seen = case.run.seen("request-received")
    if seen is None or case.load.busy_seconds < 60 or seen.count / case.load.busy_seconds < MANY_LOGGED:
        return None
    rate = seen.count / case.load.busy_seconds
    text = (
        f"{seen.count:,} requests are logged with their parameters and prompts ({rate:.1f} a second of load):"
        " the API server formats and writes them in its one thread, and prompts end up in the log."
    )
    change = flag(case, "--disable-log-requests", None, True, "safe") or flag(
        case, "--enable-log-requests", True, None, "safe"
    )
    return finding(
        case,
        "requests-logged",
        "low",
        "medium",
        text,
        (*message_lines(case, "request-received"), *setting_lines(case, "enable_log_requests")),
        changes=change,
        verify="no `Received request` lines.",
    )
