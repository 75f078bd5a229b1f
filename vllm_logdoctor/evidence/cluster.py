"""What the machine and the scheduler say of a job: kernel log, docker inspect, kubectl, qstat, sacct, Ray's own logs."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from vllm_logdoctor.evidence.model import Lines, Reading, number_or_text
from vllm_logdoctor.evidence.tables import first_of_each, json_values

# Out of memory: Killed process 21394 (cicc) total-vm:10886376kB, anon-rss:7529332kB
_OOM = re.compile(r"\bKilled process (\d+) \(([^)]*)\)")
# oom-kill:constraint=CONSTRAINT_NONE,...,task=python,pid=576419,uid=1000
_CHOSEN = re.compile(r"\boom-kill:constraint=.*\btask=([^,]*),pid=(\d+)")
_RSS = re.compile(r"anon-rss:(\d+)kB")
# NVRM: Xid (PCI:0000:b3:00): 79, pid=1234, name=python, GPU has fallen off the bus.
_XID = re.compile(
    r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)(?:, pid='?(\d+|<unknown>)'?)?(?:, name=([^,]+))?"
)
# NVRM: The NVIDIA GPU 0000:b3:00.0
_DEVICE = re.compile(r"NVRM: The NVIDIA GPU ([0-9a-fA-F:.]+)")
_DRIVER = re.compile(r"NVRM: loading NVIDIA .*?\s(\d+\.\d+(?:\.\d+)?)\s")
# pt_main_thread[2536443]: segfault at 7f797fe00000 ip ... error 4 in libnccl.so.2[7f7c7ac00000+...]
_SEGFAULT = re.compile(r"(\S+)\[(\d+)\]: segfault at (\S+) .*? in (\S+?)(?:\[|$|\s)")
# [Mon Nov 22 10:00:01 2026] x     Aug 01 18:01:30 host kernel: x     kern  :warn  : 2025-01-21T04:41:44,285060+00:00 x
_CLOCK = re.compile(
    r"^(?:\[(\w{3} \w{3} +\d{1,2} [\d:]{8} \d{4})\]|(\w{3} +\d{1,2} [\d:]{8}) |(?:\w+ *:\w+ *: )?(\d{4}-\d\d-\d\dT[\d:]{8}))"
)
_MOST_LINES = 40
# systemd[1]: vllm.service: Main process exited, code=killed, status=9/KILL      systemd[1]: vllm.service: Failed with result 'oom-kill'.
_UNIT = re.compile(
    r"\bsystemd\[\d+\]: (\S+): (?:Main process exited, code=(\w+, status=\S+)|Failed with result '([\w-]+)'"
    r"|(A process of this unit has been killed by the OOM killer)|Scheduled restart job, restart counter is at (\d+))"
)
_OF_UNIT = ("main process ended", "unit failed", "unit message", "unit restarts")


def read_kernel_log(lines: Lines) -> Iterator[Reading]:
    """Yield who was killed for memory, faults of cards, crashes in native code, and how systemd's units ended; or that none is named."""
    shown = 0
    killed = {found[1] for text in lines if (found := _OOM.search(text))}
    for line, text in enumerate(lines, start=1):
        for reading in _kernel_line(text, line, killed):
            shown += 1
            if shown <= _MOST_LINES:
                clock = _CLOCK.match(text)
                yield replace(reading, time=next(filter(None, clock.groups())) if clock else "")
    if not shown:
        how = "no process killed, no fault of a card, no crash"
        yield Reading("faults", 0, "count", line=(1, len(lines)), how=how)


def _kernel_line(text: str, line: int, killed: Collection[str]) -> Iterator[Reading]:
    if found := _OOM.search(text):
        yield Reading("oom killed", f"{found[1]} {found[2]}", line=line)
    if (found := _CHOSEN.search(text)) and found[2] not in killed:
        yield Reading("oom killed", f"{found[2]} {found[1]}", line=line)
    if found := _RSS.search(text):
        yield Reading("anon-rss of the killed", number_or_text(found[1]), "kB", line=line)
    if found := _XID.search(text):
        yield Reading("xid", number_or_text(found[2]), "", f"gpu {found[1]}", line)
        if found[3]:
            yield Reading("xid process", f"{found[3]} {found[4] or ''}".strip(), "", f"gpu {found[1]}", line)
    if found := _DEVICE.search(text):
        yield Reading("device", found[1], line=line)
    if "fallen off the bus" in text:
        yield Reading("fallen off the bus", True, line=line)
    if found := _DRIVER.search(text):
        yield Reading("driver", found[1], line=line)
    if found := _SEGFAULT.search(text):
        yield Reading("segfault", f"{found[2]} {found[1]}", "", found[4], line)
    if found := _UNIT.search(text):
        named = zip(_OF_UNIT, found.groups()[1:], strict=True)
        yield from (
            Reading(name, number_or_text(value), "", found[1], line) for name, value in named if value
        )


_INSPECT = frozenset((
    "Status", "Running", "OOMKilled", "Dead", "ExitCode", "Error", "StartedAt", "FinishedAt", "RestartCount", "ShmSize", "IpcMode",
    "NetworkMode", "Memory", "MemorySwap", "NanoCpus", "CpusetCpus", "Image", "Name", "PidsLimit"
))  # fmt: skip


# "OOMKilled": false     a viewer of JSON shows OOMKilled:false
_KILLED = re.compile(r"""["'\s{,]OOMKilled"? ?:\s?(?:true|false)""")
_BARE_KEY = re.compile(r"^(\s*)(\w+):(?=[\w\"])")


def is_docker_inspect(head: str) -> bool:
    """Return whether a text holds the state of a container."""
    return _KILLED.search(head) is not None and ("ExitCode" in head or "State" in head)


def read_docker_inspect(lines: Lines) -> Iterator[Reading]:
    """Yield the state and the limits of a container."""
    yield from first_of_each(json_values([_BARE_KEY.sub(r'\1"\2":', line) for line in lines], _INSPECT))


_DESCRIBE = re.compile(
    r"^\s*(Name|Namespace|Node|Start Time|Status|Image|State|Last State|Reason|Exit Code|Started|Finished|Ready|Restart Count|QoS Class"
    r"|cpu|memory|nvidia\.com/gpu|amd\.com/gpu|Port):\s+(\S.*?)\s*$"
)
# deepseek-r1-5cc594fd46-hg5rw   0/1     CrashLoopBackOff   5 (2m30s ago)   13m
_POD = re.compile(r"^(\S+)\s+(\d+/\d+)\s+([A-Z]\w+)\s+(\d+)\s")
# reason: OOMKilled      "exitCode": 137,      of kubectl get pod -o yaml or json
_MEMBER = re.compile(
    r"""^[\s-]*"?(exitCode|reason|startedAt|finishedAt|restartCount|phase|image|memory|nvidia\.com/gpu)"?: "?([^"{[,]*[^"{[,\s])"?,?\s*$"""
)
_MEMBERS = {
    "exitCode": "exit code", "restartCount": "restart count", "startedAt": "started", "finishedAt": "finished", "phase": "status",
}  # fmt: skip
_COMMAND = re.compile(r"^\s+((?:[\w.]+\.)?(?:vllm|sglang)[\w.]*(?: .*)?)$")


def read_kubectl_describe(lines: Lines) -> Iterator[Reading]:
    """Yield status, restarts, image, limits and ends of a pod's containers."""
    for line, text in enumerate(lines[:400], start=1):
        if found := _POD.match(text):
            yield Reading("pod status", found[3], "", found[1], line)
            yield Reading("restarts", number_or_text(found[4]), "count", found[1], line)
        elif found := _DESCRIBE.match(text):
            yield Reading(found[1].lower(), number_or_text(found[2]), line=line)
        elif found := _COMMAND.match(text):
            yield Reading("command", found[1], line=line)
        elif text.rstrip().endswith("is waiting to start: CrashLoopBackOff"):
            yield Reading("reason", text.strip(), line=line)
        elif found := _MEMBER.match(text):
            yield Reading(_MEMBERS.get(found[1], found[1]), number_or_text(found[2]), line=line)
        elif _EVENT.search(text):
            yield _event(text, line)


# 25m (x3 over 25m)   Warning   Unhealthy   pod/...   Liveness probe failed
_EVENT = re.compile(r"\b(Normal|Warning)\s+([A-Z][A-Za-z]+)\s")


def read_kubectl_events(lines: Lines) -> Iterator[Reading]:
    """Yield the events of a pod, words joined by single spaces."""
    for line, text in enumerate(lines[:60], start=1):
        if _EVENT.search(text):
            yield _event(text, line)


def _event(text: str, line: int) -> Reading:
    return Reading("event", " ".join(text.split())[:400], "as printed", line=line)


class Trouble(NamedTuple):
    """What Kubernetes says that went wrong with a pod: in words, the step against it, and the reading that says it."""

    words: str
    step: str
    reading: Reading


# reason OOMKilled     event Warning FailedScheduling 34s default-scheduler 0/4 nodes are available: 3 Insufficient nvidia.com/gpu.
_TROUBLES = tuple(
    (re.compile(expression), words, step)
    for expression, words, step in (
        (
            r"^(?:last state |state )?reason OOMKilled|OOMKilling",
            "The container was killed for host memory (OOMKilled)",
            "Raise the container's memory limit: weights are read through it, and `/dev/shm` and a compile cache count as well.",
        ),
        (
            r"FailedScheduling\b.*?\bInsufficient (?P<what>[\w./-]+[\w])",
            "The pod is not scheduled: no node has enough {what} left",
            "Compare what the pod requests with `kubectl describe nodes` (Allocatable, Allocated): free it, ask for less, or add a node.",
        ),
        (
            r"FailedScheduling\b",
            "The pod is not scheduled: no node fits",
            "Read the event: it counts the nodes by taint, selector, affinity or volume; change that in the pod or on a node.",
        ),
        (
            r"Failed to pull image|\b(?:ErrImagePull|ImagePullBackOff|InvalidImageName)\b",
            "The image is not pulled",
            "Correct name and tag of the image, or give the pod a secret for its registry (`imagePullSecrets`).",
        ),
        (
            r"FailedMount|CreateContainerConfigError|\b(?:secret|configmap|persistentvolumeclaim) \"[^\"]{1,200}\" not found",
            "A volume, a secret or a configuration of the pod is missing",
            "Create what the event names in the pod's namespace, or correct its name in the pod.",
        ),
        (
            r"\bEvicted\b|The node was low on resource",
            "The pod was evicted from its node",
            "Request the resource that ran short (memory, ephemeral-storage), and put models and caches on a volume.",
        ),
        (
            r"failed (?P<what>startup|liveness) probe, will be restarted",
            "The container is restarted because its {what} probe fails",
            "Set a `startupProbe` that lasts longer than the start, and read the log of the life before: `kubectl logs --previous`.",
        ),
        (
            r"CrashLoopBackOff|Back-off restarting failed container|^exit code (?!0$)\d",
            "The container ends again and again",
            "Read its log of the life before: `kubectl logs --previous POD`; the cause is there.",
        ),
    )
)


# A pod that waited for a node, an image or a volume, and got it
_BEFORE_RUN = re.compile(r"FailedScheduling|Failed to pull|ErrImagePull|ImagePullBackOff|FailedMount")
_WENT_ON = re.compile(r"\bNormal (?:Scheduled|Pulled|Started)\b")


def trouble_of(readings: Iterable[Reading]) -> Trouble | None:
    """Return what went wrong with a pod, the most definite first, or None.

    Example:
        >>> trouble_of([Reading("reason", "OOMKilled", line=21)]).words
        'The container was killed for host memory (OOMKilled)'
    """
    listed = [(f"{one.name} {one.value}", one) for one in readings]
    ran = max((place for place, (text, _) in enumerate(listed) if _WENT_ON.search(text)), default=-1)
    for expression, words, step in _TROUBLES:
        for place, (text, reading) in enumerate(listed):
            if place < ran and _BEFORE_RUN.search(text):
                continue
            if found := expression.search(text):
                return Trouble(words.format(**found.groupdict()), step, reading)
    return None


_QSTAT = re.compile(r"^\s+(?:resources_used\.|Resource_List\.)?(\w+) = (.*)$")
_QSTAT_KEYS = frozenset((
    "Job_Name", "job_state", "queue", "cpupercent", "cput", "mem", "ncpus", "vmem", "walltime", "Exit_status", "exec_host", "comment",
    "ngpus", "select", "place", "run_count", "stime", "ctime", "mtime"
))  # fmt: skip


def read_qstat(lines: Lines) -> Iterator[Reading]:
    """Yield state, resources used and asked for, and the exit status of a PBS job."""
    for line, text in enumerate(lines, start=1):
        if text.startswith("Job Id:"):
            yield Reading("job", text.partition(":")[2].strip(), line=line)
        elif (found := _QSTAT.match(text)) and found[1] in _QSTAT_KEYS:
            asked = "asked for " if "Resource_List." in text else ""
            yield Reading(asked + found[1], number_or_text(found[2]), line=line)


# exit_status  137                  (Killed)
_QACCT = re.compile(
    r"^(jobname|jobnumber|hostname|failed|exit_status|start_time|end_time|ru_wallclock|maxvmem|ru_maxrss|slots)\s+(\S.*?)(?:\s{3,}\(\w.*\))?\s*$"
)


def read_qacct(lines: Lines) -> Iterator[Reading]:
    """Yield how a job of Grid Engine ended, what it used and where it ran."""
    for line, text in enumerate(lines, start=1):
        if found := _QACCT.match(text):
            yield Reading(found[1], number_or_text(found[2]), line=line)


# slurmstepd: error: Detected 1 oom_kill event in StepId=42.0.      srun: error: node7: task 0: Out Of Memory
_STEP = re.compile(
    r"\bStepId=([\w+]+(?:\.\w+)?)|\bSTEP (\S+) ON|\bJOB (\d+) ON|\bstep ([\d.]+(?:batch|extern)?)\b"
)
_HOST = re.compile(r"^srun: error: ([\w.-]+): |\bON (\S+) CANCELLED")
SLURM_WORDS = r"^(?:slurmstepd(?:-\S+)?|srun): "


def read_slurm_words(lines: Lines) -> Iterator[Reading]:
    """Yield what slurmstepd and srun say of a step, and the step and hosts that they name."""
    for line, text in enumerate(lines, start=1):
        if not re.match(SLURM_WORDS, text):
            continue
        yield Reading("message", text.partition(": ")[2][:300], "as printed", line=line)
        for name, expression in (("step", _STEP), ("host", _HOST)):
            if found := expression.search(text):
                yield Reading(name, next(filter(None, found.groups())), line=line)


_SACCT = frozenset((
    "State", "ExitCode", "DerivedExitCode", "Start", "End", "Elapsed", "Timelimit", "MaxRSS", "ReqMem", "NodeList"
))  # fmt: skip


def read_sacct(lines: Lines) -> Iterator[Reading]:
    """Yield state, exit code, elapsed time and memory of each job step, parsable or in columns."""
    header = next((index for index, text in enumerate(lines) if text.lstrip().startswith("JobID")), None)
    if header is None:
        return
    split = _columns_of(lines[header : header + 2])
    names = split(lines[header])
    for line, text in enumerate(lines[header + 1 : header + 21], start=header + 2):
        values = split(text)
        if set(text.strip()) <= set("- ") or len(values) != len(names):
            continue
        row = {name: value for name, value in zip(names, values, strict=True) if value}
        yield from (Reading(name, row[name], "", f"job {values[0]}", line) for name in row if name in _SACCT)


def _columns_of(head: Lines) -> Callable[[str], list[str]]:
    """Return what parts a row: at "|", under the dashes of the second line, where cells may be empty, or at spaces."""
    if "|" in head[0]:
        return lambda text: [cell.strip() for cell in text.split("|")]
    if len(head) > 1 and set(head[1].strip()) == set("- "):
        spans = [found.span() for found in re.finditer("-+", head[1])]
        return lambda text: _under(text, spans)
    return str.split


def _under(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """Return the words of a row, each in the column that it overlaps most."""
    cells = [""] * len(spans)
    for word in re.finditer(r"\S+", text):
        overlap = [min(end, word.end()) - max(begin, word.start()) for begin, end in spans]
        at = overlap.index(max(overlap))
        cells[at] = f"{cells[at]} {word[0]}".strip()
    return cells


# [2022-06-20 22:44:59,238 I 128931 128931] (raylet) io_service_pool.cc:35: IOServicePool is running
_RAY = re.compile(r"^\[[\d :,-]+ ([A-Z]) \d+ \d+\] (?:\(([\w-]+)\) )?([\w.]+:\d+):\s*(.*)$")


def read_ray(lines: Lines) -> Iterator[Reading]:
    """Yield the first lines of one of Ray's own logs, and those above plain information."""
    shown = 0
    for line, text in enumerate(lines, start=1):
        found = _RAY.match(text)
        if found and shown < _MOST_LINES and (shown < 4 or found[1] != "I"):
            shown += 1
            yield Reading("severity and source", f"{found[1]} {found[3]}", "", found[2] or "", line)
            if found[1] != "I":
                yield Reading("message", found[4][:300], "", found[2] or "", line)
