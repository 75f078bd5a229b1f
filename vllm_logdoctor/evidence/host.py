"""The host: top, pidstat, mpstat, vmstat, iostat, free, /proc/meminfo, lscpu, stacks of py-spy, series in CSV."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from vllm_logdoctor.evidence.model import Lines, Reading, number_or_text
from vllm_logdoctor.evidence.tables import columns, comma_separated, keyed

# top - 22:12:34 up 3 days,  9:49,  0 users,  load average: 10.32, 7.18, 3.86
_LOAD = re.compile(r"load average: (\d+(?:\.\d+)?)")
# Threads: 105 total,   1 running
_TASKS = re.compile(r"^(Threads|Tasks):\s+(\d+) total")
# %Cpu(s): 12.5 us,  2.1 sy
_CPU = re.compile(r"^%Cpu\S*\s*(\d+(?:\.\d+)?)\s*us")
_THREADS = re.compile(r"\bPID\b.* %CPU .*\bCOMMAND\b")
_MOST_THREADS = 30
_MOST_PROCESSES = 5000
# Process 1868783: VLLM::EngineCore
_PROCESS = re.compile(r"Process (\d+): (.{1,120})")
# Thread 1868783 (idle): "MainThread"    Thread 0x7F1C (active+gil): "ray_worker"
_THREAD = re.compile(r'Thread (\w+) \(([\w+]{1,20})\)(?:: "(.{0,80})")?')
# poll (zmq/sugar/poll.py:106)
_FRAME = re.compile(r"    (\S.{0,200} \(\S+:\d+\))$")
# wait (vllm/distributed/device_communicators/shm_broadcast.py:183)
_LINE_OF_FRAME = re.compile(r":\d+\)$")
_MOST_FRAMES = 20
_LONGEST_FRAME = 200


def read_top(lines: Lines) -> Iterator[Reading]:
    """Yield load, number of threads, CPU of the machine, and the busiest threads."""
    for line, text in enumerate(lines[:8], start=1):
        if found := _LOAD.search(text):
            yield Reading("load average 1 min", number_or_text(found[1]), line=line)
        elif found := _TASKS.match(text):
            yield Reading(found[1].lower(), number_or_text(found[2]), "count", line=line)
        elif found := _CPU.match(text):
            yield Reading("user cpu of the machine", number_or_text(found[1]), "%", line=line)
    headers = (line for line, text in enumerate(lines) if _THREADS.search(text))
    # The first frame of `top -n 2` is of a moment, the second of the whole interval.
    for header in islice(headers, 2):
        for line, row in islice(columns(lines, header), _MOST_THREADS):
            used, thread = number_or_text(row["%CPU"]), f"thread {row['PID']}"
            yield Reading(f"cpu of {row['COMMAND']}", used, "%", thread, line)


def _rows(lines: Lines, words: tuple[str, ...], most: int) -> Iterator[tuple[int, list[str], list[str]]]:
    """Yield line, names and values of the first rows under the header that holds some words."""
    header = next((at for at, text in enumerate(lines) if all(word in text for word in words)), None)
    if header is None:
        return
    names = lines[header].lstrip("#").split()
    for line, text in enumerate(lines[header + 1 : header + 1 + most], start=header + 2):
        if not text.strip():
            return
        yield line, names, text.split()


def read_pidstat(lines: Lines) -> Iterator[Reading]:
    """Yield the CPU of the busiest processes, or of their threads, and the other columns of the first ones."""
    rows: list[tuple[Reading, dict[str, str]]] = []
    for line, names, values in _rows(lines, ("UID", "%usr"), _MOST_PROCESSES):
        at = names.index("UID")
        row = dict(zip(names[at:-1], values[at:], strict=False))
        thread = row.get("TID", "-")
        who = f"pid {row.get('PID') or row.get('TGID')}" if thread == "-" else f"thread {thread}"
        name = f"cpu of {' '.join(values[len(names) - 1 :]).removeprefix('|__')}"
        # Of -t the threads of a process follow it.
        if "%CPU" in row and (thread != "-" or "PID" in row):
            rows.append((Reading(name, number_or_text(row["%CPU"]), "%", who, line), row))
    busiest = sorted(
        rows, key=lambda one: -float(one[0].value) if isinstance(one[0].value, int | float) else 0.0
    )
    yield from (one for one, _ in busiest[:_MOST_THREADS])
    for one, row in rows[:2]:
        kept = (name for name in row if name not in ("UID", "PID", "TGID", "TID", "%CPU"))
        yield from (Reading(name, number_or_text(row[name]), "", one.subject, one.line) for name in kept)


def read_mpstat(lines: Lines) -> Iterator[Reading]:
    """Yield how the time of each processor was spent."""
    for line, names, values in _rows(lines, ("CPU", "%usr", "%idle"), 7):
        if len(values) != len(names):
            return
        at = names.index("CPU")
        for name, value in zip(names[at + 1 :], values[at + 1 :], strict=True):
            yield Reading(name, number_or_text(value), "%", f"cpu {values[at]}", line)


def read_vmstat(lines: Lines) -> Iterator[Reading]:
    """Yield the first rows of vmstat."""
    for line, names, values in _rows(lines, (" r ", " swpd "), 3):
        kept = (name for name in names if name.islower() and len(name) < 8)
        yield from (
            Reading(name, number_or_text(value), line=line) for name, value in zip(kept, values, strict=False)
        )


def read_iostat(lines: Lines) -> Iterator[Reading]:
    """Yield the lines of the first report as printed: devices and columns differ with each release."""
    for line, text in enumerate(lines[:40], start=1):
        if text.strip():
            yield Reading("line", text.strip(), "as printed", line=line)


def read_free(lines: Lines) -> Iterator[Reading]:
    """Yield memory and swap."""
    for line, names, (kind, *values) in _rows(lines, ("total", "used", "free"), 2):
        of = kind.rstrip(":").lower()
        yield from (
            Reading(f"{of} {name}", number_or_text(value), line=line)
            for name, value in zip(names, values, strict=False)
        )


_MEMINFO = re.compile(
    r"^(Mem\w+|Swap\w+|HugePages_\w+|Shmem|Hugepagesize|Committed_AS|Cached):\s+(\d+)(?: (kB))?"
)


def read_meminfo(lines: Lines) -> Iterator[Reading]:
    """Yield the lines of /proc/meminfo on memory that is left, swap, shared and huge pages."""
    for line, text in enumerate(lines, start=1):
        if found := _MEMINFO.match(text):
            yield Reading(found[1], number_or_text(found[2]), found[3] or "count", line=line)


LSCPU = {
    "CPU(s)": "cpus",
    "Model name": "model",
    "Socket(s)": "sockets",
    "Core(s) per socket": "cores per socket",
    "Thread(s) per core": "threads per core",
    "NUMA node(s)": "numa nodes",
    "CPU max MHz": "max MHz",
    "L3 cache": "L3 cache",
}


# "field": "CPU(s):",   the value is on the next line, or the same one
_FIELD = re.compile(r'"field":\s*"([^"]+)"')
_DATA = re.compile(r'"data":\s*"([^"]*)"')


def read_lscpu(lines: Lines) -> Iterator[Reading]:
    """Yield processors, sockets, NUMA nodes, of the table, of JSON, or counted in the list of `lscpu -e`."""
    yield from keyed(lines, LSCPU)
    yield from _listed_processors(lines)
    key = ""
    for line, text in enumerate(lines, start=1):
        key = found[1].rstrip(":") if (found := _FIELD.search(text)) else key
        if key in LSCPU and (value := _DATA.search(text)):
            yield Reading(LSCPU[key], number_or_text(value[1]), line=line)


def _listed_processors(lines: Lines) -> Iterator[Reading]:
    header = next((at for at, text in enumerate(lines) if text.startswith("CPU ") and " CORE " in text), None)
    # One that is offline has no core.
    rows = [one for one in columns(lines, header) if one[1]["CORE"].isdecimal()] if header is not None else []
    if rows:
        place = (rows[0][0], rows[-1][0])
        cores = {(row.get("SOCKET"), row["CORE"]) for _, row in rows}
        sockets, nodes = ({row[name] for _, row in rows if name in row} for name in ("SOCKET", "NODE"))
        counted = {"cpus": rows, "cores": cores, "sockets": sockets, "numa nodes": nodes}
        for name, found in counted.items():
            if found:
                yield Reading(name, len(found), "count", line=place, how="count")


def read_series(lines: Lines) -> Iterator[Reading]:
    """Yield columns, number of rows and the largest value of each column with its line."""
    header = next((line for line, text in enumerate(lines, start=1) if text.strip()), 1)
    names = [name.strip() for name in lines[header - 1].split(",")] if lines else []
    yield Reading("columns", list(names), line=header)
    rows = list(comma_separated(lines))
    lines_of = (rows[0][0], rows[-1][0]) if rows else None
    yield Reading("rows", len(rows), "count", line=lines_of, how="count")
    for name in names:
        values = [
            (value, line)
            for line, row in rows
            if isinstance(value := number_or_text(row.get(name, "")), int | float)
        ]
        if values:
            highest = max(value for value, _ in values)
            line = next(line for value, line in values if value == highest)
            yield Reading(f"max {name}", highest, line=line, how="first line with the maximum")


def read_stacks(lines: Lines) -> Iterator[Reading]:
    """Yield the process, and the state and the innermost frame of each thread."""
    thread = state = ""
    for line, text in enumerate(lines, start=1):
        if found := _PROCESS.match(text):
            yield Reading("process", f"{found[1]} {found[2]}", "pid name", line=line)
        elif found := _THREAD.match(text):
            thread, state = f"thread {found[1]} {found[3] or ''}".rstrip(), found[2]
        elif state and (found := _FRAME.match(text)):
            yield Reading(f"{state} in", found[1], subject=thread, line=line)
            state = ""


# EngineCore.step (vllm/v1/engine/core.py:667)
_CORE_STEP = re.compile(r"\bstep(?:_with_batch_queue)? \(\S*v1/engine/core\.py")
_WITHIN_STEP = {
    # Scheduler.schedule (vllm/v1/core/sched/scheduler.py:700)
    "scheduling": re.compile(r"\b(?:schedule|update_from_output) \(\S*v1/core/sched/"),
    "serialization": re.compile(r"\benqueue \(\S*shm_broadcast\.py|\(\S*(?:serial_utils|msgspec|pickle)\b"),
}


def read_folded_stacks(lines: Lines) -> Iterator[Reading]:
    """Yield what part of the engine's steps scheduling and serialization take, then the functions in which most samples ended."""
    leaves: Counter[str] = Counter()
    steps = 0
    within: Counter[str] = Counter()
    for text in lines:
        stack, _, samples = text.rpartition(" ")
        if not samples.isdecimal():
            continue
        leaves[_LINE_OF_FRAME.sub(")", stack.rpartition(";")[2][:_LONGEST_FRAME])] += int(samples)
        if _CORE_STEP.search(stack):
            steps += int(samples)
            within.update({name: int(samples) for name, work in _WITHIN_STEP.items() if work.search(stack)})
    for name in _WITHIN_STEP if steps else ():
        share, how = round(100 * within[name] / steps, 1), f"samples of {steps:,} in the engine's step"
        yield Reading("share of a step", share, "%", name, where="stacks", how=how)
    for frame, times in leaves.most_common(_MOST_FRAMES):
        yield Reading("samples in", round(100 * times / leaves.total(), 1), "%", frame, how="share")


# physcpubind: 0 1 2 3    policy: bind
_SHOWN = {"policy": "policy", "physcpubind": "processors allowed", "membind": "memory nodes allowed"}
# node 0 cpus: 0 1 2 3
_NODE = re.compile(r"\bnode (\d+) (?:(cpus):([ \d]*)|(size|free): (\d+) MB)")


def read_numactl(lines: Lines) -> Iterator[Reading]:
    """Yield number of NUMA nodes, and processors and memory of each; of `--show` the policy and what a process may use."""
    yield from keyed(lines, _SHOWN)
    for line, text in enumerate(lines, start=1):
        if text.startswith("available:"):
            yield Reading("numa nodes", number_or_text(text.split()[1]), "count", line=line)
        for found in _NODE.finditer(text):
            node = f"node {found[1]}"
            if found[2]:
                yield Reading("cpus", len(found[3].split()), "count", node, line, how="count")
            else:
                yield Reading(found[4], number_or_text(found[5]), "MB", node, line)
