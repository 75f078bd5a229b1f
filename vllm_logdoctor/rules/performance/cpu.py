"""Rules on the CPU backend: its threads, its libraries, its blocks."""

from __future__ import annotations

from vllm_logdoctor.rules.context import (
    RuleContext,
    action,
    flag,
    message_lines,
    plural,
    sample_lines,
    setting_lines,
    whole,
)
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.rules.placement import runs_on_cpu
from vllm_logdoctor.rules.rule import Advice, Rule

BINDING = "cpu-thread-binding"
NO_BINDING = ("auto-thread-binding-not-supported-due-lack",)
BLOCKS = "cpu-backend-prefers-block-size-multiples-32"
BIND = "VLLM_CPU_OMP_THREADS_BIND"
NO_KERNELS = "failed-import-vllm-c-library"
OF_LIBRARY = {"libnuma.so.1": "libnuma1"}
# The kernel of the CPU backend takes the tokens of a block so many at a time.
BLOCK = 32


def cpu_backend_thread_or_memory_binding(case: RuleContext) -> Advice | None:
    """The CPU backend makes less than a token per second and request. Needs statistics lines of a CPU run."""
    held = case.spans("host-limited")
    if case.bottleneck.name != "host-limited" or not held or not runs_on_cpu(case.run):
        return None
    text = (
        f"With {plural(round(case.load.running), 'request')} running the CPU backend made {case.load.generation:g}"
        " tokens/s in the median. Memory bandwidth sets its speed: threads bound to the wrong cores, or"
        " memory of another socket, cost most of it."
    )
    return Advice(
        text,
        (*sample_lines(case, held), *message_lines(case, "cpu-pinned-memory-off", "cpu-preload-missing")),
        confidence="medium",
        changes=(
            action("set VLLM_CPU_OMP_THREADS_BIND to the cores of one socket, one thread a core"),
            action(
                "check the container's CPU and memory limits, and that the weights fit the memory of one socket"
            ),
        ),
        verify="more tokens/s at the same load.",
    )


def cpu_threads_not_bound(case: RuleContext) -> Advice | None:
    """Threads of the CPU backend are not bound to cores.

    Needs the engine's line that says that it can't bind them, or that it skipped it.
    """
    binding = case.event(BINDING)
    skipped = binding is not None and binding.text("skipped") == "True"
    if not skipped and case.event(*NO_BINDING) is None:
        return None
    asked = binding is not None and binding.text("bind") == "nobind"
    text = (
        "Threads of the CPU backend are not bound to cores: the system moves them, and with them the memory they are near"
        " to. On one socket that costs little, on several a lot; the log does not show how many there are."
    )
    changes: tuple[Change, ...] = (
        action("install numa and psutil, so that vLLM can bind threads, or set the cores"),
    )
    if asked:
        changes = (
            Change(
                BIND, "env", "nobind", "auto", "needs-test", "right in a container with cores of its own too"
            ),
        )
    return Advice(
        text,
        message_lines(case, BINDING, *NO_BINDING),
        confidence="low",
        changes=changes,
        verify="`auto_setup=True` or a list of cores where threads are bound, and more tokens/s at the same load.",
    )


def cpu_block_size_unsuited(case: RuleContext) -> Advice | None:
    """Blocks of the cache have a size that the CPU kernel is not made for. Needs the engine's warning."""
    if case.event(BLOCKS) is None:
        return None
    size = whole(case.run.setting("block_size"))
    text = (
        f"The CPU backend takes {BLOCK} tokens of a block at a time; blocks of {size} tokens"
        if size
        else f"The CPU backend takes {BLOCK} tokens of a block at a time; the blocks of this run"
    ) + " leave a part of each pass empty. vLLM chooses a fitting size where none is given."
    return Advice(
        text,
        (*message_lines(case, BLOCKS), *setting_lines(case, "block_size")),
        confidence="medium",
        changes=flag(case, "--block-size", size, None, "safe", "vLLM then chooses"),
        verify="no such warning at the start.",
    )


def torch_threads_while_serving(case: RuleContext) -> Advice | None:
    """Several threads of PyTorch spin beside the engine of a card. Needs vLLM's warning, printed since 0.28."""
    event = case.event("omp-num-threads-set-leaving-torch-threads")
    threads = event.number("get_num_threads") if event else None
    if threads is None or threads < 2 or runs_on_cpu(case.run):
        return None
    text = (
        f"OMP_NUM_THREADS keeps PyTorch at {threads:g} threads while serving. vLLM warns that they spin while they wait for"
        " each other and eat the processor time that a container may use; without the variable it takes one."
    )
    return Advice(
        text,
        message_lines(case, "omp-num-threads-set-leaving-torch-threads"),
        confidence="low",
        changes=(action("unset OMP_NUM_THREADS for the server", safety="needs-test"),),
        verify="`Reducing Torch threads from N to 1 for serving` at the start.",
    )


def cpu_kernels_not_loaded(case: RuleContext) -> Advice | None:
    """The CPU backend could not load its compiled kernels for want of a library of the system. Needs its warning, by the CPU backend itself."""
    warned = case.event(NO_KERNELS)
    if warned is None or (warned.record.call_site or ("",))[0] != "cpu.py":
        return None
    library = warned.text("library")
    package = (
        f"`{OF_LIBRARY[library]}`" if library in OF_LIBRARY else "the package of the system that holds it"
    )
    text = (
        f"The compiled kernels of the CPU backend were not loaded: they need `{library}`, which is not installed. vLLM only"
        " warns here; the engine fails at the first of these kernels that it calls, with an error that does not name the library."
    )
    return Advice(
        text,
        message_lines(case, NO_KERNELS),
        confidence="high",
        changes=(action(f"install {package}"),),
        verify="no warning `Failed to import from vllm._C`.",
    )


RULES = (
    Rule("cpu-kernels-not-loaded", cpu_kernels_not_loaded),
    Rule(
        "cpu-backend-thread-or-memory-binding", cpu_backend_thread_or_memory_binding, removes="host-limited"
    ),
    Rule("cpu-threads-not-bound", cpu_threads_not_bound),
    Rule("cpu-block-size-unsuited", cpu_block_size_unsuited),
    Rule("torch-threads-while-serving", torch_threads_while_serving),
)
