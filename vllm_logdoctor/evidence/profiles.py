"""Profiles: nsys stats as text, the torch profiler's table, Chrome traces."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from vllm_logdoctor.evidence.model import Lines, Reading, number
from vllm_logdoctor.evidence.tables import cells

# ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):
_NSYS = re.compile(r"\*\* .* \((\w+)\):")
_MOST_NAMES = 20
# "Self CUDA time total: 124.210ms"
_TOTAL = re.compile(r"^(Self \w+ time total): (\S+)")
_GAP = re.compile(r"\s{2,}")


def read_nsys(lines: Lines) -> Iterator[Reading]:
    """Yield share, time and count of the first kernels, calls or ranges of each report."""
    names: list[str] = []
    rows = 0
    for line, text in enumerate(lines, start=1):
        if found := _NSYS.search(text):
            rows, names = 0, []
            yield Reading("report", found[1], line=line)
        elif "Time (%)" in text or "Total (MB)" in text:
            names = _nsys_cells(text)
        elif names and rows < _MOST_NAMES:
            values = _nsys_cells(text)
            if len(values) == len(names) and isinstance(number(values[0]), int | float):
                rows += 1
                yield from (
                    Reading(name, number(value), name, values[-1][:120], line)
                    for name, value in list(zip(names, values, strict=True))[:3]
                )


def _nsys_cells(text: str) -> list[str]:
    return cells(text) if text.lstrip().startswith("|") else _GAP.split(text.strip())


def read_torch_table(lines: Lines) -> Iterator[Reading]:
    """Yield own device time, its share and the calls of the first rows of `key_averages().table()`, and the totals.

    Rows of annotations may exceed 100 %: they hold the kernels of other rows.
    """
    names: list[str] = []
    shown = 0
    for line, text in enumerate(lines, start=1):
        if found := _TOTAL.match(text.strip()):
            yield Reading(found[1], found[2], line=line)
            continue
        parts = _GAP.split(text.strip())
        if "Self CPU %" in parts and "# of Calls" in parts:
            names, shown = parts, 0
        elif names and len(parts) == len(names) and shown < 22:
            shown += 1
            row = dict(zip(names, parts, strict=True))
            device = next((name for name in ("Self CUDA", "Self XPU") if name in row), "Self CPU")
            yield from (
                Reading(name, number(row[name]), "", parts[0], line)
                for name in (device, f"{device} %", "# of Calls")
                if name in row
            )


def read_trace(lines: Lines) -> Iterator[Reading]:
    """Yield kernels of a Chrome trace: number, time by name, span, and the share of the span that one ran at least."""
    document = _document("\n".join(lines))
    where = "traceEvents"
    events = [event for event in document.get("traceEvents", []) if isinstance(event, dict)]
    kernels = [event for event in events if event.get("cat") == "kernel" and "dur" in event and "ts" in event]
    yield Reading("events", len(events), "count", where=where, how="count of traceEvents")
    yield Reading("kernel events", len(kernels), "count", where=where, how="cat is kernel")
    launches = sum("GraphLaunch" in str(event.get("name")) for event in events)
    yield Reading("graph launches", launches, "count", where=where, how="events named GraphLaunch")
    for name, key in (("rank", "rank"), ("world size", "world_size")):
        if (value := (document.get("distributedInfo") or {}).get(key)) is not None:
            yield Reading(name, value, where="distributedInfo")
    if kernels:
        yield from _kernel_time(kernels, where)
    for device in (document.get("deviceProperties") or [])[:1]:
        yield Reading("device", device.get("name"), where="deviceProperties")


def _document(text: str) -> dict[str, Any]:
    """Return a trace, or what a truncated one holds up to its last whole event."""
    try:
        found = json.loads(text)
    except ValueError:
        end = text.rfind("},")
        try:
            found = json.loads(text[: end + 1] + "]}") if end > 0 else {}
        except ValueError:
            found = {}
    if isinstance(found, list):
        return {"traceEvents": found}
    return found if isinstance(found, dict) else {}


def _kernel_time(kernels: list[dict[str, Any]], where: str) -> Iterator[Reading]:
    spans = sorted((float(event["ts"]), float(event["ts"]) + float(event["dur"])) for event in kernels)
    total = sum(end - start for start, end in spans)
    length = max(end for _, end in spans) - spans[0][0]
    busy, reached = 0.0, spans[0][0]
    for start, end in spans:
        busy += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    yield Reading("kernel time", round(total), "us", where=where, how="sum of dur")
    yield Reading("kernel span", round(length), "us", where=where, how="last end minus first start")
    if length:
        yield Reading(
            "gpu busy share",
            round(busy / length, 4),
            "share",
            where=where,
            how="union of kernel intervals over the span",
        )
    times: dict[str, float] = defaultdict(float)
    for event in kernels:
        times[str(event.get("name"))] += float(event["dur"])
    for name, time in sorted(times.items(), key=lambda one: -one[1])[:_MOST_NAMES]:
        yield Reading("time", round(time), "us", name[:120], where=where, how="sum of dur")
