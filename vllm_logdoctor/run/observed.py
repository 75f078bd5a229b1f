"""What files beside the log measured of a run: latency, scheduler, cards, links, kernels, host, client, and who ended it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from vllm_logdoctor.evidence.model import EvidenceFile, Reading
from vllm_logdoctor.evidence.prometheus import HISTOGRAMS

Group = Literal["client", "latency", "scheduler", "gpus", "links", "kernels", "host", "fate"]
GROUPS: tuple[Group, ...] = ("client", "latency", "scheduler", "gpus", "links", "kernels", "host", "fate")
_MOST = 90
_BUSY_THREAD = 30.0


_MEMORIES = frozenset(("memory used / total", "memory total", "memory.total [MiB]", "device memory"))
# 1024MiB / 97871MiB    97871 MiB    95.6 GiB
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([MG]iB)\s*$")


class Measured(Struct, frozen=True):
    """One value with the file that holds it.

    Attributes:
        name, value, unit, subject, line, where, how: as in a reading.
        file: the file.
        joined: whether something in the file says that it is of this run; values of other files are shown and decide nothing.
    """

    name: str
    value: object
    unit: str
    subject: str
    file: str
    line: int | None
    where: str
    how: str
    joined: bool


class Observed(Struct):
    """What was measured of a run, by group."""

    groups: dict[Group, list[Measured]] = field(default_factory=dict)

    def of(self, group: Group, name: str = "", joined: bool = True) -> list[Measured]:
        """Return the values of a group, of one name or all; those of files that surely or likely are of this run."""
        return [
            one
            for one in self.groups.get(group, ())
            if (not name or one.name == name) and (one.joined or not joined)
        ]

    def number(self, group: Group, name: str, subject: str = "") -> float | None:
        """Return the first number of a name, or None."""
        found = (one.value for one in self.of(group, name) if not subject or one.subject == subject)
        return next((float(value) for value in found if isinstance(value, int | float)), None)

    def card_memory(self, joined: bool = True) -> float | None:
        """Return the memory of a card in GiB, as its driver reports it, or None."""
        for one in (*self.of("gpus", joined=joined), *self.of("kernels", "device memory", joined)):
            if one.name in _MEMORIES and (found := _SIZE.search(f"{one.value} {one.unit}")):
                return float(found[1]) / (1 if found[2] == "GiB" else 1024)
        return None

    def kills_for_memory(self) -> list[Measured]:
        """Return what says that a process, the container or the job of the run was ended for host memory."""
        return [one for one in self.of("fate") if _is_kill_for_memory(one)]


def _is_kill_for_memory(one: Measured) -> bool:
    """Return whether a value of a kernel, Docker (a truth value), Kubernetes (OOMKilled) or Slurm (OUT_OF_MEMORY) says so."""
    return (
        one.name == "oom killed"
        or (one.name == "OOMKilled" and one.value is True)
        or (one.name in ("reason", "State") and str(one.value).startswith(("OOMKilled", "OUT_OF_ME")))
    )


def observed(files: Iterable[tuple[EvidenceFile, bool]]) -> Observed:
    """Return what files measured; each comes with whether it is joined to the run."""
    # Values that are only shown never take the place of those that count.
    given = sorted(files, key=lambda one: not one[1])
    found = Observed()
    scrapes = [one for one, joined in given if joined and one.kind == "prometheus-text"]
    last = _last(scrapes)
    for file, joined in given:
        if file.kind == "prometheus-text" and file is not last:
            continue
        for group, wanted in _SELECTIONS.get(file.kind, ()):
            if len(found.groups.get(group, ())) < _MOST:
                for reading in wanted(file):
                    _add(found, group, reading, file, joined)
    first = _first_of_same_life(scrapes)
    if last is not None:
        for reading in _latency(last, first):
            _add(found, "latency", reading, last, True)
    return found


def _add(found: Observed, group: Group, reading: Reading, file: EvidenceFile, joined: bool) -> None:
    kept = found.groups.setdefault(group, [])
    line = reading.line[0] if isinstance(reading.line, tuple) and reading.line else reading.line
    if len(kept) < _MOST:
        kept.append(
            Measured(
                reading.name, reading.value, reading.unit, reading.subject, file.file,
                line if isinstance(line, int) else None, reading.where, reading.how, joined,
            )
        )  # fmt: skip


def _value(file: EvidenceFile, name: str) -> float | None:
    found = (one.value for one in file.readings if one.name == name)
    return next((float(value) for value in found if isinstance(value, int | float)), None)


def _last(scrapes: Sequence[EvidenceFile]) -> EvidenceFile | None:
    """Return the scrape that counted most: counters only grow while a server lives."""
    return max(scrapes, key=lambda one: _value(one, "generation tokens") or 0.0, default=None)


def _first_of_same_life(scrapes: Sequence[EvidenceFile]) -> EvidenceFile | None:
    """Return an earlier scrape of the same process, or None: counters of two lives are never subtracted."""
    last = _last(scrapes)
    began = _value(last, "process start") if last is not None else None
    same = [
        one
        for one in scrapes
        if one is not last and began is not None and _value(one, "process start") == began
    ]
    return min(same, key=lambda one: _value(one, "generation tokens") or 0.0, default=None)


def _latency(last: EvidenceFile, first: EvidenceFile | None) -> Iterator[Reading]:
    """Yield means over the window between two scrapes of one life, or since the start, and the bounds of the quantiles since the start."""
    for name in HISTOGRAMS.values():
        mean, count = _value(last, f"{name} mean"), _value(last, f"{name} count")
        if mean is None or not count or (name == "TTFT" and _observed_again(last)):
            continue
        how = "since the server's start"
        mean_before, before = (
            _value(first, f"{name} {what}") if first else None for what in ("mean", "count")
        )
        if first is not None and mean_before is not None and before and count > before:
            mean, count = (mean * count - mean_before * before) / (count - before), count - before
            how = f"between {first.file} and {last.file}"
        source = next(one for one in last.readings if one.name == f"{name} mean")
        how = f"{int(count):,} observations {how}"
        yield Reading(f"{name} mean", round(mean, 6), source.unit, line=source.line, how=how)
        yield from (one for one in last.readings if one.name.startswith(f"{name} p"))
    yield from _waiting_share(last)


def _waiting_share(last: EvidenceFile) -> Iterator[Reading]:
    queue, whole = _value(last, "queue time mean"), _value(last, "e2e latency mean")
    if queue is not None and whole:
        source = next(one for one in last.readings if one.name == "queue time mean")
        how = "mean queue time over mean end-to-end time"
        yield Reading("waiting share", round(100 * queue / whole, 1), "%", line=source.line, how=how)


def _observed_again(last: EvidenceFile) -> bool:
    """Return whether V0 observed the first token again after preemptions: more of them than requests."""
    firsts, done = _value(last, "TTFT count"), _value(last, "e2e latency count")
    open_requests = (_value(last, "running") or 0.0) + (_value(last, "waiting") or 0.0)
    return (
        firsts is not None
        and done is not None
        and firsts > done + open_requests
        and bool(_value(last, "preemptions"))
    )


def _named(*names: str) -> Callable[[EvidenceFile], Iterator[Reading]]:
    wanted = frozenset(names)
    return lambda file: (one for one in file.readings if one.name in wanted)


def _all(file: EvidenceFile) -> Iterator[Reading]:
    yield from file.readings[:20]


def _kernels(file: EvidenceFile) -> Iterator[Reading]:
    """Yield share and time of each class of kernels, in a step and in a layer where these were counted, then launches and the busy share."""
    steps, layers = _value(file, "steps"), _value(file, "layers")
    times = [one for one in file.readings if one.name == "class time" and isinstance(one.value, int | float)]
    total = sum(float(one.value) for one in times if isinstance(one.value, int | float))
    for one in times:
        if not total or not isinstance(one.value, int | float):
            continue
        share = round(100 * one.value / total, 1)
        yield replace(one, name="share", value=share, unit="%", how="of kernel time")
        if steps:
            each = one.value / steps
            yield replace(one, name="time per step", value=round(each, 2), how="class time over steps")
        if steps and layers and one.subject not in _OUTSIDE_LAYERS:
            of_layer = round(each / layers, 3)
            yield replace(one, name="time per layer", value=of_layer, how="class time over steps and layers")
    yield from (one for one in file.readings if one.name in _OF_KERNELS)


_OUTSIDE_LAYERS = ("sampling", "copy", "other")
_OF_KERNELS = frozenset((
    "class time", "class launches", "kernel time", "kernel span", "gpu busy share", "time between kernels", "launches", "graph launches", "steps",
    "layers", "operators", "device", "device memory", "overhead of a launch",
))  # fmt: skip


def _threads(file: EvidenceFile) -> Iterator[Reading]:
    """Yield load, the threads that keep a processor busy and those of vLLM, the busiest first."""
    yield from (one for one in file.readings if one.name.startswith("load average"))
    # Of two frames the later one counts.
    share = {
        one: float(one.value)
        for one in {one.subject: one for one in file.readings if one.name.startswith("cpu of ")}.values()
        if isinstance(one.value, int | float)
    }
    busy = sorted(share, key=lambda one: -share[one])
    least = min(_BUSY_THREAD, share[busy[0]]) if busy else 0.0
    yield from [one for one in busy if share[one] >= least or "VLLM" in one.name][:12]


def _ends(file: EvidenceFile) -> Iterator[Reading]:
    """Yield what says how something ended; `false` ended nothing."""
    for one in file.readings:
        if one.name in _FATES and one.value not in (False, None, "", "false"):
            yield one


_FATES = frozenset(
    (
        "oom killed", "xid", "xid process", "fallen off the bus", "segfault", "OOMKilled", "ExitCode", "Error", "FinishedAt", "RestartCount",
        "reason", "exit code", "last state", "restart count", "pod status", "event", "State", "Exit_status", "comment", "job_state",
        "exit_status", "failed", "message", "main process ended", "unit failed", "unit message",
    )
)  # fmt: skip
_CARD = (
    "name", "product", "driver", "driver_version", "memory used / total", "memory used", "memory total", "memory.used [MiB]", "memory.total [MiB]",
    "utilization", "gpu utilization", "gpu util", "utilization.gpu [%]", "power draw", "average power draw", "power limit", "enforced power limit",
    "power.draw [W]", "power.limit [W]", "enforced.power.limit [W]", "sm clock", "sm clock max", "temperature", "gpu temperature",
    "sw power cap", "hw thermal slowdown", "sw thermal slowdown", "hw power brake slowdown", "pcie gen current", "pcie gen max",
    "pcie width current", "pcie width max", "pcie.link.width.current", "pcie.link.width.max",
    "GPU use (%)", "GPU%", "VRAM%", "Power", "AvgPwr", "Temp", "PwrCap",
    "GPU Utilization (%)", "GPU Power (W)", "GPU Memory Used (MiB)", "HBM used", "HBM total", "AICore",
    "power", "health", "gfx_activity", "socket_power", "market_name",
)  # fmt: skip


_OF_CARD = ("memory of process ", "DCGM_FI_DEV_", "clocks_event_reasons.", "clocks_throttle_reasons.")


def _cards(file: EvidenceFile) -> Iterator[Reading]:
    for one in file.readings:
        if one.name in _CARD or one.name.startswith(_OF_CARD):
            yield one


def _flashinfer(file: EvidenceFile) -> Iterator[Reading]:
    """Yield the release of FlashInfer, or that the list of packages has none."""
    packages = [one for one in file.readings if one.name.startswith("package ")]
    found = [one for one in packages if "flashinfer" in one.name]
    yield from found
    if packages and not found:
        yield replace(
            packages[0], name="package flashinfer", value="not installed", how="not in the list of packages"
        )


_SCHEDULER = _named(
    "preemptions", "prompt tokens", "generation tokens", "requests finished", "prefix cache queries", "prefix cache hits",
    "drafts", "draft tokens", "accepted draft tokens",
)  # fmt: skip
OF_CARDS = (
    "nvidia-smi-table", "nvidia-smi-q", "nvidia-smi-xml", "nvidia-smi-csv", "rocm-smi-json", "rocm-smi", "amd-smi", "amd-smi-json",
    "npu-smi", "xpu-smi", "dcgm-exporter", "nvidia-smi-list",
)  # fmt: skip
"""Kinds that name cards and say how they are."""
_Wanted = Callable[[EvidenceFile], Iterator[Reading]]
_SELECTIONS: dict[str, tuple[tuple[Group, _Wanted], ...]] = {
    "prometheus-text": (("scheduler", _SCHEDULER),),
    **dict.fromkeys(
        (
            "vllm-bench-json", "vllm-bench-text", "guidellm-json", "llmperf-json", "aiperf-text", "aiperf-json", "aiperf-csv", "aisbench-text",
            "llama-benchy", "guidellm-text", "vllm-bench-offline-text", "vllm-bench-offline-json",
        ), (("client", _all),)
    ),
    **dict.fromkeys(OF_CARDS, (("gpus", _cards),)),
    "dcgmi-dmon": (("gpus", _all),),
    "nvidia-smi-dmon": (("gpus", _named("pwr", "sm", "mem", "pclk")),),
    **dict.fromkeys(("nvidia-smi-topo", "nvidia-smi-nvlink"), (("links", _named("link", "links", "gpus")),)),
    **dict.fromkeys(
        ("nsys-stats-text", "nsys-stats-csv", "nsys-sqlite", "torch-key-averages", "torch-chrome-trace"), (("kernels", _kernels),)
    ),
    "ncu": (("kernels", _all),),
    **dict.fromkeys(("top", "pidstat"), (("host", _threads),)),
    "mpstat": (("host", lambda file: (one for one in _named("%idle")(file) if one.subject == "cpu all")),),
    "vmstat": (("host", _named("r", "swpd", "si", "so")),),
    "meminfo": (("host", _named("MemTotal", "MemAvailable")),),
    "numactl": (("host", _named("numa nodes", "processors allowed", "cpus")),),
    "folded-stacks": (("host", _named("share of a step")),),
    "perf-stat": (("host", _named("memory bandwidth")),),
    "dmidecode": (("host", _named("memory modules", "speed of a module", "memory bandwidth at most")),),
    "lscpu": (("host", _named("cpus", "model", "numa nodes")),),
    "free": (("host", _named("mem total", "mem available", "swap used")),),
    "collect-env": (("gpus", _named("name")), ("host", _flashinfer)),
    **dict.fromkeys(
        ("dmesg", "docker-inspect", "kubectl-describe", "kubectl-events", "sacct", "qstat-f", "qacct", "slurm-messages"),
        (("fate", _ends),),
    ),
}  # fmt: skip
