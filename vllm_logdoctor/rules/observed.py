"""Rules on what files beside the log measured; without such files none of them says anything."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from vllm_logdoctor.rules.context import RuleContext, action, rounded
from vllm_logdoctor.rules.rule import Advice, Rule
from vllm_logdoctor.run.model import Evidence
from vllm_logdoctor.run.observed import Measured

_WAITING = 50.0
_WAITING_SECONDS = 1.0
_COMMUNICATION = 20.0
_BUSY = 0.7
_LAUNCHES = 200
_THREAD = 95.0
_OF_VLLM = ("VLLM::", "vllm", "EngineCore")
_ACTIVE = ("Active", "active", "ACTIVE")
# sw power cap    clocks_event_reasons.hw_thermal_slowdown
_SLOWED = re.compile(r"(?:^|\.)(?:sw power cap|[hs]w (?:thermal |power brake )?slowdown)$")


def requests_wait_in_queue(case: RuleContext) -> Advice | None:
    """Most of a request's time is spent in the queue. Needs /metrics of the run."""
    observed = case.run.observed
    share, queue = observed.number("latency", "waiting share"), observed.number("latency", "queue time mean")
    if share is None or queue is None or share < _WAITING or queue < _WAITING_SECONDS:
        return None
    words = f"Requests spend {share:.0f} % of their time in the queue: {rounded(queue)} s on average before they run."
    ttft = observed.number("latency", "TTFT mean")
    words += f" The mean time to first token is {rounded(ttft)} s." if ttft is not None else ""
    return Advice(
        words,
        _lines(observed.of("latency", "waiting share") + observed.of("latency", "queue time mean")),
        "high",
        alternatives=("more replicas, or fewer requests at once",),
        verify="queue time in /metrics falls below the prefill time",
    )


def communication_between_gpus_dominates(case: RuleContext) -> Advice | None:
    """Collective operations take a large part of the kernel time. Needs a profile of the run."""
    found = [
        one
        for one in case.run.observed.of("kernels", "share")
        if one.subject == "communication"
        and isinstance(one.value, int | float)
        and one.value >= _COMMUNICATION
    ]
    if not found:
        return None
    return Advice(
        f"Communication between GPUs takes {found[0].value} % of the kernel time.",
        _lines(found),
        "medium",
        changes=(action("use fewer tensor-parallel ranks, or GPUs with a faster link"),),
    )


def gpu_idle_between_kernels(case: RuleContext) -> Advice | None:
    """The GPU waits for the host between kernels. Needs a profile of the run with enough launches."""
    observed = case.run.observed
    busy, launches = observed.number("kernels", "gpu busy share"), observed.number("kernels", "launches")
    steps = observed.number("kernels", "steps")
    if busy is None or busy >= _BUSY or (launches or 0) < _LAUNCHES:
        return None
    each = f", {rounded((launches or 0) / steps)} launches a step" if steps else ""
    return Advice(
        f"A kernel runs in {100 * busy:.0f} % of the profiled time only{each}: the host launches them too slowly, or had no request.",
        _lines(observed.of("kernels", "gpu busy share")),
        "medium",
        alternatives=("CUDA graphs, if they are off", "async scheduling"),
    )


def one_thread_is_busy(case: RuleContext) -> Advice | None:
    """A main thread of the run saturates one CPU core. Needs `top -H` of the run: another server's threads have the same names."""
    known = {str(process.pid) for process in case.run.processes}
    found = [
        one
        for one in case.run.observed.of("host")
        if one.name.startswith("cpu of ")
        and any(word in one.name for word in _OF_VLLM)
        and (not known or one.subject.rpartition(" ")[2] in known)
        and isinstance(one.value, int | float)
        and one.value >= _THREAD
    ]
    if not found:
        return None
    return Advice(
        f"{found[0].name.removeprefix('cpu of ')} ({found[0].subject}) uses {found[0].value} % of one processor. The engine polls while it"
        " has requests, so this alone is no fault; it is one where the GPU waits at the same time.",
        _lines(found[:3]),
        "low",
    )


def gpu_power_capped(case: RuleContext) -> Advice | None:
    """The driver lowers the clock to hold the power limit, or the temperature. Needs `nvidia-smi -q` under load."""
    return _active(
        case,
        lambda one: one.value in _ACTIVE and _SLOWED.search(one.name.replace("_", " ")) is not None,
        "The driver lowers the clock of {subject}: {name} is active.",
        "check the power limit (`nvidia-smi -q -d POWER`) and the cooling",
    )


def pcie_link_narrow(case: RuleContext) -> Advice | None:
    """A card runs on fewer PCIe lanes than it has. Needs `nvidia-smi -q`."""
    cards = case.run.observed.of("gpus")
    widest = {
        one.subject: str(one.value) for one in cards if one.name in ("pcie width max", "pcie.link.width.max")
    }
    return _active(
        case,
        lambda one: (
            one.name in ("pcie width current", "pcie.link.width.current")
            and 0 < _lanes(str(one.value)) * 2 <= _lanes(widest.get(one.subject, ""))
        ),
        "{subject} runs on {value} PCIe lanes of " + "/".join(sorted(set(widest.values()))) + ".",
        "move the card to a slot with all lanes; tensor parallelism without NVLink depends on them",
    )


def killed_for_host_memory(case: RuleContext) -> Advice | None:
    """A process, the container or the job of this run was killed for host memory. Needs the kernel's or the scheduler's words on it."""
    found = case.run.observed.kills_for_memory()
    if not found or case.run.outcome == "clean_shutdown":
        return None
    first = found[0]
    words = (
        f"The kernel's out-of-memory killer ended process {first.value}."
        if first.name == "oom killed"
        else f"The container or the job was ended at its memory limit: {first.name} is {first.value}."
    )
    return Advice(
        words,
        _lines(found),
        "high",
        changes=(action("give the host or the container more memory, or lower what the run holds in it"),),
    )


def _active(case: RuleContext, holds: Callable[[Measured], bool], words: str, advice: str) -> Advice | None:
    found = [one for one in case.run.observed.of("gpus") if holds(one)]
    if not found:
        return None
    first = found[0]
    card = f"gpu {first.subject}" if first.subject.isdigit() else first.subject or "the card"
    said = words.format(subject=card, name=first.name.rpartition(".")[2].replace("_", " "), value=first.value)
    return Advice(said, _lines(found[:3]), "medium", changes=(action(advice),))


def _lanes(text: str) -> int:
    digits = text.rstrip("x")
    return int(digits) if digits.isdigit() else 0


def _lines(found: Sequence[Measured]) -> tuple[Evidence, ...]:
    """Return the places of values; a file without lines counts as its first line."""
    return tuple(
        Evidence(one.file, one.line or 1, f"{one.subject}: {one.name}: {one.value} {one.unit}".strip(": "))
        for one in found
    )


RULES = (
    Rule("requests-wait-in-queue", requests_wait_in_queue, objectives=("latency",)),
    Rule("communication-between-gpus-dominates", communication_between_gpus_dominates),
    Rule("gpu-idle-between-kernels", gpu_idle_between_kernels),
    Rule("one-thread-is-busy", one_thread_is_busy),
    Rule("gpu-power-capped", gpu_power_capped),
    Rule("pcie-link-narrow", pcie_link_narrow),
    Rule("killed-for-host-memory", killed_for_host_memory),
)
