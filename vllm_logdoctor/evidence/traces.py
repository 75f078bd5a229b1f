"""Profiles that are streamed: Chrome traces of the torch profiler, and nsys databases; memory does not grow with the file."""

from __future__ import annotations

import gzip
import heapq
import re
import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import nullcontext, suppress
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import Any, BinaryIO, cast

from vllm_logdoctor.evidence.kernels import KernelTimes, class_of
from vllm_logdoctor.evidence.model import Reading

WHERE = "traceEvents"
_HEAD = 1 << 16
"""Ranks and devices come before the events, which are read several times faster when nothing else is asked for."""
_OF_DEVICE = ("deviceProperties.item.name", "deviceProperties.item.totalGlobalMem")
_MOST_NAMES = 50_000
_OUT_OF_ORDER = 200_000
"""Kernels that wait to be put in order of time: those of several streams are written one after the other."""
_MOST_DEVICES = 64
# execute_context_0(0)_generation_4(4): a step of vLLM's model runner that the profiler annotates; one of nothing is none
STEP = re.compile(r"^execute_(?!context_0\(0\)_generation_0\(0\))(?:context_\d|new_\d|\d)")
# nn.Module: LlamaDecoderLayer_31: printed where the profiler records stacks
_LAYER = re.compile(r"^nn\.Module: \w*(?:DecoderLayer|TransformerBlock)_(\d+)$")


class Union:
    """Length of the union of intervals that come roughly in order, in bounded memory.

    Example:
        >>> union = Union()
        >>> for start, end in ((0, 10), (5, 15), (20, 30)):
        ...     union.add(start, end)
        >>> union.close(), union.first, union.last
        (25.0, 0, 30)
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[float, float]] = []
        self._reached = float("-inf")
        self._busy = 0.0
        self.first = float("inf")
        self.last = float("-inf")

    def add(self, start: float, end: float, most: int = _OUT_OF_ORDER) -> None:
        """Take an interval; at most so many wait for earlier ones."""
        self.first, self.last = min(self.first, start), max(self.last, end)
        heapq.heappush(self._waiting, (start, end))
        while len(self._waiting) > most:
            self._take(*heapq.heappop(self._waiting))

    def close(self) -> float:
        """Return the length of the union."""
        while self._waiting:
            self._take(*heapq.heappop(self._waiting))
        return self._busy

    def _take(self, start: float, end: float) -> None:
        self._busy += max(0.0, end - max(start, self._reached))
        self._reached = max(self._reached, end)


class Devices:
    """When each device ran a kernel: what one of them does fills no gap of another.

    Example:
        >>> devices = Devices()
        >>> for device, start, end in ((0, 0, 10), (0, 30, 40), (1, 10, 20)):
        ...     devices.add(device, start, end)
        >>> {one.name: one.value for one in devices.readings("x", "")}
        {'kernel time': 30, 'kernel span': 40, 'gpu busy share': 0.6, 'time between kernels': 6.67}
    """

    def __init__(self) -> None:
        self._unions: dict[Any, Union] = {}
        self._total = 0.0
        self._kernels = 0

    def add(self, device: Any, start: float, end: float) -> None:
        """Take a kernel, in microseconds."""
        if device not in self._unions:
            device = device if len(self._unions) < _MOST_DEVICES else next(iter(self._unions))
        union = self._unions.setdefault(device, Union())
        union.add(start, end, _OUT_OF_ORDER // len(self._unions))
        self._total += end - start
        self._kernels += 1

    def readings(self, where: str, how: str) -> Iterator[Reading]:
        """Yield time and span of the kernels, the share of its span in which a device ran one, and the mean gap between two."""
        unions = list(self._unions.values())
        if not unions:
            return
        ran = sum(union.close() for union in unions)
        spans = sum(union.last - union.first for union in unions)
        span = max(union.last for union in unions) - min(union.first for union in unions)
        each = f" of each of {len(unions)} devices" if len(unions) > 1 else ""
        yield Reading("kernel time", round(self._total), "us", where=where, how=how)
        yield Reading("kernel span", round(span), "us", where=where, how="last end minus first start")
        if spans:
            of_span = f"union of kernel intervals over the span{each}"
            yield Reading("gpu busy share", round(ran / spans, 4), "share", where=where, how=of_span)
            between = round((spans - ran) / self._kernels, 2)
            idle = f"idle time over kernels{each}"
            yield Reading("time between kernels", between, "us", where=where, how=idle)


class TraceTotals:
    """What is kept of a trace while its events pass by."""

    def __init__(self) -> None:
        self.events = self.kernels = self.graphs = self.launches = 0
        self.times = KernelTimes()
        self.operators = KernelTimes()
        self.devices = Devices()
        self.steps = self.layers = 0
        self.head: dict[str, Any] = {}
        self.device: dict[str, Any] = {}
        self._open: dict[Any, list[list[Any]]] = {}

    def take(self, event: dict[str, Any]) -> None:
        """Take one event."""
        self.events += 1
        kind, name = event.get("cat"), str(event.get("name", ""))
        if "GraphLaunch" in name:
            self.graphs += 1
        if "LaunchKernel" in name or "GraphLaunch" in name:
            self.launches += 1
        if "dur" not in event or "ts" not in event:
            return
        start, length = float(event["ts"]), float(event["dur"])
        if kind == "kernel":
            self.kernels += 1
            self.devices.add(_device_of(event), start, start + length)
            if len(self.times.times) < _MOST_NAMES or name in self.times.times:
                self.times.add(name, length)
        elif kind == "cpu_op":
            self._operator(event.get("tid"), name, start, length)
        elif kind == "user_annotation" and STEP.match(name):
            self.steps += 1
        elif kind == "python_function" and (found := _LAYER.match(name)):
            self.layers = max(self.layers, int(found[1]) + 1)

    def _operator(self, thread: Any, name: str, start: float, length: float) -> None:
        """Give an operator its own time: what operators inside it take is theirs."""
        stack = self._open.setdefault(thread, [])
        while stack and stack[-1][1] <= start:
            stack.pop()
        if len(self.operators.times) < _MOST_NAMES or name in self.operators.times:
            self.operators.add(name, length)
            if stack:
                self.operators.times[stack[-1][0]] -= length  # type: ignore[assignment]
        if len(stack) < 200:
            stack.append([name, start + length])


def read_trace(file: BinaryIO) -> Iterator[Reading]:
    """Yield kernels of a trace: number, time by class and by name, span, and the share of the span in which one ran.

    Args:
        file: JSON, unpacked; a truncated one gives what it holds up to its last whole event.
    """
    totals = TraceTotals()
    truncated = _stream(file, totals)
    yield Reading("events", totals.events, "count", where=WHERE, how="count of traceEvents")
    yield Reading("kernel events", totals.kernels, "count", where=WHERE, how="cat is kernel")
    yield Reading("graph launches", totals.graphs, "count", where=WHERE, how="events named GraphLaunch")
    for name, key in (("rank", "rank"), ("world size", "world_size")):
        if (value := totals.head.get(key)) is not None:
            yield Reading(name, value, where="distributedInfo")
    yield from totals.devices.readings(WHERE, "sum of dur")
    how = "events named LaunchKernel or GraphLaunch"
    yield Reading("launches", totals.launches, "count", where=WHERE, how=how)
    if totals.steps:
        yield Reading("steps", totals.steps, "count", where=WHERE, how="annotations of vLLM's model runner")
    yield from _layers(totals)
    if totals.device.get("name"):
        yield Reading("device", str(totals.device["name"]), where="deviceProperties")
    if memory := totals.device.get("totalGlobalMem"):
        yield Reading("device memory", round(float(memory) / 2**30, 1), "GiB", where="deviceProperties")
    chosen = totals.times if totals.kernels else totals.operators
    if not totals.kernels and totals.operators.times:
        yield Reading("operators", "CPU", where=WHERE, how="no kernel: operators by their own time")
    yield from chosen.readings(WHERE)
    yield from chosen.longest(WHERE)
    if truncated:
        yield Reading("truncated", True, where=WHERE, how="the JSON ends early")


def _layers(totals: TraceTotals) -> Iterator[Reading]:
    """Yield the number of layers: as modules of a stack, else by the kernel that writes the KV cache once a layer in each step."""
    if totals.layers:
        yield Reading("layers", totals.layers, "count", where=WHERE, how="modules of the stacks")
        return
    writes = max(
        (count for name, count in totals.times.counts.items() if class_of(name) == "KV cache write"),
        default=0,
    )
    if totals.steps and writes and writes % totals.steps == 0:
        how = "one kernel that writes the KV cache for each"
        yield Reading("layers", writes // totals.steps, "count", where=WHERE, how=how)


def _device_of(event: dict[str, Any]) -> Any:
    arguments = event.get("args")
    device = arguments.get("device") if isinstance(arguments, dict) else None
    return device if isinstance(device, int | str) else None


def _stream(file: BinaryIO, totals: TraceTotals) -> bool:
    """Feed the events of a trace, an object or a bare list; return whether it ends early."""
    import ijson

    begin = file.read(_HEAD)
    file.seek(0)
    is_list = begin.lstrip().startswith(b"[")
    with suppress(ijson.JSONError):
        for place, event, value in ijson.parse(BytesIO(begin), use_float=True):
            if (place, event) == ("traceEvents", "start_array"):
                break
            if place.startswith("distributedInfo.") and event in ("number", "string"):
                totals.head[place.partition(".")[2]] = value
            elif place in _OF_DEVICE:
                totals.device.setdefault(place.rpartition(".")[2], value)
    try:
        for one in ijson.items(file, "item" if is_list else "traceEvents.item", use_float=True):
            if isinstance(one, dict):
                totals.take(one)
    except (ijson.JSONError, EOFError, OSError, UnicodeDecodeError):
        return True
    return False


def read_trace_file(path: Path) -> Iterator[Reading]:
    """Yield the readings of a trace on disk, packed or not."""
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        with gzip.GzipFile(fileobj=raw) if packed else nullcontext(raw) as file:
            yield from read_trace(cast(BinaryIO, file))


_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
_GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"


def read_nsys_sqlite(path: Path) -> Iterator[Reading]:
    """Yield kernels of an nsys export by class and by name, and the share of their span in which one ran.

    Raises:
        ValueError: not a database of nsys, or of a version whose tables are named otherwise.
    """
    # The file is somebody's: opened for reading only, and nothing in it is run.
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    try:
        tables = {
            str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
        if _KERNELS not in tables or "StringIds" not in tables:
            raise ValueError(f"no table {_KERNELS}: no kernels were traced, or another version of nsys")
        yield from _of_database(connection.execute, tables)
    except sqlite3.Error as error:
        raise ValueError(f"not readable as a database of nsys: {error}") from error
    finally:
        connection.close()


def _of_database(execute: Callable[[str], sqlite3.Cursor], tables: Collection[str]) -> Iterator[Reading]:
    columns = {row[1] for row in execute(f"PRAGMA table_info({_KERNELS})")}
    name = next((one for one in ("demangledName", "shortName", "mangledName") if one in columns), None)
    if name is None or not {"start", "end"} <= columns:
        raise ValueError(f"columns of {_KERNELS} are of another version of nsys")
    rows = execute(
        f"SELECT s.value, SUM(k.end - k.start) / 1000.0, COUNT(*) FROM {_KERNELS} k "
        f"JOIN StringIds s ON s.id = k.{name} GROUP BY s.value"
    )
    times = KernelTimes()
    for kernel, time, count in rows:
        times.add(str(kernel), float(time), int(count))
    if not times.times:
        return
    yield Reading("kernel events", sum(times.counts.values()), "count", where=_KERNELS, how="count of rows")
    devices = Devices()
    device = "deviceId" if "deviceId" in columns else "0"
    for number, start, end in execute(f"SELECT {device}, start, end FROM {_KERNELS} ORDER BY start"):
        devices.add(number, start / 1000, end / 1000)
    yield from devices.readings(_KERNELS, "sum of end minus start, all processes")
    if _GRAPHS in tables:
        count = execute(f"SELECT COUNT(*) FROM {_GRAPHS}").fetchone()[0]
        yield Reading("graph launches", count, "count", where=_GRAPHS, how="count of rows")
    if _CALLS in tables:
        yield from _launches(execute)
    yield from times.readings(_KERNELS)
    yield from times.longest(_KERNELS)


def _launches(execute: Callable[[str], sqlite3.Cursor]) -> Iterator[Reading]:
    """Yield how many kernels and graphs the host launched, and what the median call took."""
    spent = sorted(
        length / 1000
        for (length,) in execute(
            f"SELECT r.end - r.start FROM {_CALLS} r JOIN StringIds s ON s.id = r.nameId "
            "WHERE s.value LIKE '%LaunchKernel%' OR s.value LIKE '%GraphLaunch%'"
        )
    )
    if spent:
        how, overhead = "calls named LaunchKernel or GraphLaunch", round(median(spent), 2)
        yield Reading("launches", len(spent), "count", where=_CALLS, how=how)
        yield Reading("overhead of a launch", overhead, "us", where=_CALLS, how="median of the calls")
