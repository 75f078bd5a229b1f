"""Profiles as text: nsys stats (text, boxes, CSV), the torch profiler's table."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from vllm_logdoctor.evidence.kernels import KernelTimes
from vllm_logdoctor.evidence.model import MOST_READINGS, Lines, Reading, number_or_text
from vllm_logdoctor.evidence.tables import cells
from vllm_logdoctor.evidence.traces import STEP

# ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):
_NSYS = re.compile(r"\*\* .* \((\w+)\):")
_MOST_NAMES = 20
_MOST_ROWS = 18
# "Self CUDA time total: 124.210ms"
_TOTAL = re.compile(r"^(Self \w+ time total): (\S+)")
# cudaLaunchKernel, cuLaunchKernelEx, cudaLaunchKernelExC_v11060, hipLaunchKernel
_LAUNCH = re.compile(r"(?:cuda|cu|hip)(?:Module)?LaunchKernel")
_GAP = re.compile(r"\s{2,}")


def read_nsys(lines: Lines) -> Iterator[Reading]:
    """Yield the time of each class of kernels, then share, time and count of the first kernels, calls or ranges of each report."""
    names: list[str] = []
    rows: list[Reading] = []
    shown = 0
    kernels = KernelTimes()
    for line, text in enumerate(lines, start=1):
        if found := _NSYS.search(text):
            shown, names = 0, []
            rows.append(Reading("report", found[1], line=line))
        elif "Time (%)" in text or "Total (MB)" in text:
            names, shown = _nsys_cells(text), 0
        elif names:
            values = _nsys_cells(text)
            if len(values) != len(names) or not isinstance(number_or_text(values[0]), int | float):
                continue
            row = dict(zip(names, values, strict=True))
            _add_kernel(kernels, row)
            spent = number_or_text(row.get("Med (ns)", ""))
            if _LAUNCH.match(row.get("Name", "")) and isinstance(spent, int | float):
                how = "median of the call"
                rows.append(Reading("overhead of a launch", spent / 1000, "us", row["Name"], line, how=how))
            shown += 1
            if shown <= _MOST_NAMES:
                rows += [
                    Reading(name, number_or_text(value), name, values[-1][:120], line)
                    for name, value in list(zip(names, values, strict=True))[:3]
                ]
    classes = list(kernels.readings(where="cuda_gpu_kern_sum"))
    yield from (*rows[: MOST_READINGS - len(classes)], *classes)


def _add_kernel(kernels: KernelTimes, row: dict[str, str]) -> None:
    """Add a row of the report on kernels: only that one counts instances."""
    time, count = number_or_text(row.get("Total Time (ns)", "")), number_or_text(row.get("Instances", ""))
    name = row.get("Name", "")
    # Ranges of NVTX have instances too, and a style.
    if isinstance(time, int | float) and isinstance(count, int) and name and "Style" not in row:
        kernels.add(name, time / 1000, count)


def _nsys_cells(text: str) -> list[str]:
    if text.lstrip().startswith("|"):
        return cells(text)
    if text.count(",") > 4 and not _GAP.search(text.strip()):
        return next(csv.reader([text.strip()]))
    return _GAP.split(text.strip())


def read_torch_table(lines: Lines) -> Iterator[Reading]:
    """Yield own device time, its share and the calls of the first rows of `key_averages().table()`, the totals, time by class.

    Rows of annotations may exceed 100 %: they hold the kernels of other rows.
    """
    names: list[str] = []
    shown = 0
    kernels = KernelTimes()
    for line, text in enumerate(lines, start=1):
        if found := _TOTAL.match(text.strip()):
            yield Reading(found[1], found[2], line=line)
            continue
        parts = _GAP.split(text.strip())
        if "Self CPU %" in parts and "# of Calls" in parts:
            names, shown = parts, 0
        elif names and len(parts) == len(names):
            row = dict(zip(names, parts, strict=True))
            # The same annotation has a row for each stream of the GPU, which took no time of the CPU.
            if STEP.match(parts[0]) and _microseconds(row.get("Self CPU", "")):
                how = "annotations of vLLM's model runner"
                yield Reading("steps", number_or_text(row["# of Calls"]), "count", line=line, how=how)
            device = next((name for name in ("Self CUDA", "Self XPU") if name in row), "Self CPU")
            _add_row(kernels, row, device)
            shown += 1
            if shown <= _MOST_ROWS:
                yield from (
                    Reading(name, number_or_text(row[name]), "", parts[0], line)
                    for name in (device, f"{device} %", "# of Calls")
                    if name in row
                )
    yield from kernels.readings(where="key_averages")


def _add_row(kernels: KernelTimes, row: dict[str, str], device: str) -> None:
    """Add a row that is a kernel: it took no time of the CPU. On a CPU each operator's own time counts."""
    time = _microseconds(row[device])
    own = _microseconds(row.get("Self CPU", ""))
    if time is None or (device != "Self CPU" and own):
        return
    if _ANNOTATION.match(row.get("Name", "")):
        return
    count = number_or_text(row["# of Calls"])
    kernels.add(row.get("Name", ""), time, count if isinstance(count, int) else 0)


# execute_context_0(0)_generation_1(1), ProfilerStep*, ## Call CompiledFxGraph: they hold the kernels of other rows
_ANNOTATION = re.compile(r"execute_|ProfilerStep|##|(?:gpu_model_runner|gpu_worker|nccl):")
_TIME = re.compile(r"^(\d+(?:\.\d+)?)(us|ms|s)$")
_UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6}


def _microseconds(text: str) -> float | None:
    found = _TIME.match(text)
    return float(found[1]) * _UNITS[found[2]] if found else None
