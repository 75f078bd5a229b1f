"""Traffic of a memory and what it could be: perf stat, Nsight Compute's counters, dmidecode."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from vllm_logdoctor.evidence.model import Lines, Reading, number_or_text

#       12,345.67 MiB  uncore_imc/data_reads/           1,024      cycles    # 2.1 GHz      of -I with the seconds so far ahead of it
_COUNTED = re.compile(
    r"^\s+(?:(?P<time>\d+\.\d{9})\s+)?(?P<value>\d[\d,]*(?:\.\d+)?)\s+(?:(?P<unit>[KMGT]?i?B(?:/s)?|msec)\s+)?(?P<event>[\w./:-]*[a-z][\w./:-]*)"
)
# 1024.03,MiB,uncore_imc/data_reads/,1000327813,100.00,,      of -x, and of -x, -I
_SEPARATED = re.compile(
    r"^\s*(?:(?P<time>\d+\.\d{9}),)?(?P<value>\d+(?:\.\d+)?),(?P<unit>\w*),(?P<event>[\w./:-]+),\d+,"
)
# {"counter-value" : "0.93", "unit" : "MiB", "event" : "uncore_imc/data_reads/", "event-runtime" : 930316, ...
_JSON = re.compile(
    r'^\{(?:"interval" : (?P<time>\d+(?:\.\d+)?), )?"counter-value" : "(?P<value>\d+(?:\.\d+)?)"'
    r', "unit" : "(?P<unit>\w*)", "event" : "(?P<event>[^"]+)"'
)
# #   5,120.5 MB/s  umc_mem_bandwidth
_METRIC = re.compile(r"#\s+(\d[\d,]*(?:\.\d+)?)\s+([KMGT]?B/s)\s+(\w+)")
_ELAPSED = re.compile(r"^\s+(\d[\d,]*(?:\.\d+)?) seconds time elapsed")
_OF_MEMORY = re.compile(r"(?:data|cas).*(?:read|write|rd|wr)")
_MIB = {"KiB": 1 / 1024, "MiB": 1.0, "GiB": 1024.0}
_PER_SECOND = {"KB/s": 1e-6, "MB/s": 1e-3, "GB/s": 1.0, "TB/s": 1e3}
#     dram__bytes_read.sum                Mbyte           12.58
_DRAM = re.compile(r"\b(dram__bytes_(?:read|write))\.sum\W+([KMGT]?)byte\W+([\d.,]+)")
_BYTES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_MODULE_SPEED = re.compile(r"^\s+(?:Configured (?:Memory|Clock) Speed): (\d+) (?:MT/s|MHz)")
_MOST_COUNTERS = 40


def read_perf(lines: Lines) -> Iterator[Reading]:
    """Yield the counters of `perf stat` in each of its forms, and the bandwidth that they or a metric give."""
    moved = 0.0
    moved_lines: list[int] = []
    seconds: tuple[float, int] = (0.0, 0)
    for line, text in islice(enumerate(lines, start=1), 400):
        if found := _METRIC.search(text):
            rate = float(found[1].replace(",", "")) * _PER_SECOND[found[2]]
            yield Reading("memory bandwidth", round(rate, 2), "GB/s", line=line, how=f"metric {found[3]}")
        elif found := _ELAPSED.match(text):
            seconds = float(found[1].replace(",", "")), line
            yield Reading("time elapsed", seconds[0], "s", line=line)
        elif found := _COUNTED.match(text) or _SEPARATED.match(text) or _JSON.match(text):
            if line < _MOST_COUNTERS and found["event"] != "seconds":
                yield Reading(found["event"], number_or_text(found["value"]), found["unit"] or "", line=line)
            # -x and -j without -I print no time that passed: what they count as run is of all processors together.
            seconds = (float(found["time"]), line) if found["time"] else seconds
            if found["unit"] in _MIB and _OF_MEMORY.search(found["event"]):
                moved += float(found["value"].replace(",", "")) * _MIB[found["unit"]]
                moved_lines.append(line)
    if moved and seconds[0]:
        rate = moved * 2**20 / 1e9 / seconds[0]
        how = "traffic of the controllers over the time elapsed"
        yield Reading("memory bandwidth", round(rate, 2), "GB/s", line=(*moved_lines, seconds[1]), how=how)


def read_ncu(lines: Lines) -> Iterator[Reading]:
    """Yield how much all profiled kernels read from the memory of the card and wrote to it, and their number."""
    moved = {"dram__bytes_read": 0.0, "dram__bytes_write": 0.0}
    counted = 0
    for text in lines:
        for found in _DRAM.finditer(text):
            moved[found[1]] += float(found[3].replace(",", "")) * _BYTES[found[2]]
            counted += found[1] == "dram__bytes_read"
    yield Reading("profiled kernels", counted, "count", where="dram__bytes_read.sum", how="count")
    for name, total in moved.items():
        yield Reading(name, round(total), "bytes", where=f"{name}.sum", how="sum over the kernels")


def read_dmidecode(lines: Lines) -> Iterator[Reading]:
    """Yield the speed of each memory module that is plugged in, and what all of them could deliver at most."""
    speeds = [
        (int(found[1]), line)
        for line, text in enumerate(lines, start=1)
        if (found := _MODULE_SPEED.match(text))
    ]
    if not speeds:
        return
    yield Reading("memory modules", len(speeds), "count", line=tuple(line for _, line in speeds), how="count")
    yield from (Reading("speed of a module", speed, "MT/s", line=line) for speed, line in speeds[:1])
    # A module is 64 bits wide; two on one channel share it.
    most = sum(speed for speed, _ in speeds) * 8 / 1000
    how = "sum of 8 bytes a transfer, if each module has its channel"
    yield Reading("memory bandwidth at most", round(most, 1), "GB/s", line=speeds[0][1], how=how)
