"""What files beside the log measured of a run: latency, scheduler, cards, links, kernels, host, client, and who ended it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct, field

from vllm_logdoctor.evidence.model import EvidenceFile, Reading

Group = Literal["client", "latency", "scheduler", "gpus", "links", "kernels", "host", "fate"]
GROUPS: tuple[Group, ...] = ("client", "latency", "scheduler", "gpus", "links", "kernels", "host", "fate")
_MOST = 60
_BUSY_THREAD = 30.0


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
    given = list(files)
    found = Observed()
    scrapes = [one for one, joined in given if joined and one.kind == "prometheus-text"]
    for file, joined in given:
        select = _SELECTIONS.get(file.kind)
        if select is not None and (file.kind != "prometheus-text" or file is _last(scrapes)):
            group, wanted = select
            for reading in wanted(file):
                _add(found, group, reading, file, joined)
    last, first = _last(scrapes), _first_of_same_life(scrapes)
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


_TIMES = (
    "TTFT",
    "ITL",
    "TPOT",
    "e2e latency",
    "queue time",
    "prefill time",
    "decode time",
    "prompt length",
    "answer length",
)


def _latency(last: EvidenceFile, first: EvidenceFile | None) -> Iterator[Reading]:
    """Yield means over the window between two scrapes of one life, or since the start, and the bounds of the quantiles since the start."""
    for name in _TIMES:
        mean, count = _value(last, f"{name} mean"), _value(last, f"{name} count")
        if mean is None or not count or (name == "TTFT" and _observed_again(last)):
            continue
        how = "since the server's start"
        before = (
            (_value(first, f"{name} mean"), _value(first, f"{name} count"))
            if first is not None
            else (None, None)
        )
        if before[0] is not None and before[1] and first is not None and count > before[1]:
            mean, count = (mean * count - before[0] * before[1]) / (count - before[1]), count - before[1]
            how = f"between {first.file} and {last.file}"
        source = next(one for one in last.readings if one.name == f"{name} mean")
        yield Reading(
            f"{name} mean",
            round(mean, 6),
            source.unit,
            line=source.line,
            how=f"{int(count):,} observations {how}",
        )
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
    """Yield the share of each class of kernels, then launches, steps and the busy share."""
    times = [one for one in file.readings if one.name == "class time" and isinstance(one.value, int | float)]
    total = sum(float(one.value) for one in times if isinstance(one.value, int | float))
    for one in times:
        if total and isinstance(one.value, int | float):
            yield Reading(
                "share",
                round(100 * one.value / total, 1),
                "%",
                one.subject,
                one.line,
                one.where,
                "of kernel time",
            )
    yield from (one for one in file.readings if one.name in _OF_KERNELS)


_OF_KERNELS = frozenset((
    "class time", "class launches", "kernel time", "kernel span", "gpu busy share", "launches", "graph launches", "steps", "operators", "device"
))  # fmt: skip


def _threads(file: EvidenceFile) -> Iterator[Reading]:
    """Yield load and the threads that keep a processor busy, the busiest first."""
    yield from (one for one in file.readings if one.name.startswith("load average"))
    # Of two frames the later one counts.
    share = {
        one: float(one.value)
        for one in {one.subject: one for one in file.readings if one.name.startswith("cpu of ")}.values()
        if isinstance(one.value, int | float)
    }
    busy = sorted(share, key=lambda one: -share[one])[:12]
    yield from (one for one in busy if share[one] >= min(_BUSY_THREAD, share[busy[0]]))


def _ends(file: EvidenceFile) -> Iterator[Reading]:
    """Yield what says how something ended; `false` ended nothing."""
    for one in file.readings:
        if one.name in _FATES and one.value not in (False, None, "", "false"):
            yield one


_FATES = frozenset(
    (
        "oom killed", "xid", "xid process", "fallen off the bus", "segfault", "OOMKilled", "ExitCode", "Error", "FinishedAt", "RestartCount",
        "reason", "exit code", "last state", "restart count", "pod status", "event", "State", "Exit_status", "comment", "job_state",
    )
)  # fmt: skip
_CARD = (
    "name", "product", "driver", "driver_version", "memory used / total", "memory used", "memory total", "memory.used [MiB]", "memory.total [MiB]",
    "utilization", "gpu utilization", "gpu util", "utilization.gpu [%]", "power draw", "average power draw", "power limit", "enforced power limit",
    "power.draw [W]", "power.limit [W]", "enforced.power.limit [W]", "sm clock", "sm clock max", "temperature", "gpu temperature",
    "sw power cap", "hw thermal slowdown", "sw thermal slowdown", "hw power brake slowdown", "pcie gen current", "pcie gen max",
    "pcie width current", "pcie width max", "clocks_event_reasons.sw_power_cap", "clocks_throttle_reasons.sw_power_cap",
    "GPU use (%)", "GPU%", "VRAM%", "Power", "AvgPwr", "Temp", "PwrCap",
    "GPU Utilization (%)", "GPU Power (W)", "GPU Memory Used (MiB)", "HBM used", "HBM total", "AICore",
    "power", "health", "gfx_activity", "socket_power", "market_name",
)  # fmt: skip


def _cards(file: EvidenceFile) -> Iterator[Reading]:
    for one in file.readings:
        if one.name in _CARD or one.name.startswith(("memory of process ", "DCGM_FI_DEV_")):
            yield one


_SCHEDULER = _named(
    "preemptions", "prompt tokens", "generation tokens", "requests finished", "prefix cache queries", "prefix cache hits",
    "drafts", "draft tokens", "accepted draft tokens",
)  # fmt: skip
OF_CARDS = (
    "nvidia-smi-table", "nvidia-smi-q", "nvidia-smi-xml", "nvidia-smi-csv", "rocm-smi-json", "rocm-smi", "amd-smi", "amd-smi-json",
    "npu-smi", "xpu-smi", "dcgm-exporter",
)  # fmt: skip
"""Kinds that name cards and say how they are."""
_SELECTIONS: dict[str, tuple[Group, Callable[[EvidenceFile], Iterator[Reading]]]] = {
    "prometheus-text": ("scheduler", _SCHEDULER),
    **dict.fromkeys(("vllm-bench-json", "vllm-bench-text", "guidellm-json", "llmperf-json", "aiperf-text", "aisbench-text"), ("client", _all)),
    **dict.fromkeys(OF_CARDS, ("gpus", _cards)),
    **dict.fromkeys(("nvidia-smi-topo", "nvidia-smi-nvlink"), ("links", _named("link", "links", "gpus"))),
    **dict.fromkeys(
        ("nsys-stats-text", "nsys-stats-csv", "nsys-sqlite", "torch-key-averages", "torch-chrome-trace"), ("kernels", _kernels)
    ),
    "top": ("host", _threads),
    "lscpu": ("host", _named("cpus", "model", "numa nodes")),
    "free": ("host", _named("mem total", "mem available", "swap used")),
    **dict.fromkeys(
        ("dmesg", "docker-inspect", "kubectl-describe", "kubectl-events", "sacct", "qstat-f"), ("fate", _ends)
    ),
}  # fmt: skip
