"""Cards of other makers, and of all by other tools: rocm-smi, amd-smi, npu-smi, xpu-smi, DCGM."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vllm_logdoctor.evidence.model import Lines, Reading, number_or_text
from vllm_logdoctor.evidence.tables import cells, json_values

_ROCM_CARD = re.compile(r'"(card\d+|system)"\s*:\s*\{')
_ROCM = re.compile(
    r"^(?:Card [Ss]eries|Card model|Device Name|GPU (?:memory )?use \(%\)|GPU Memory Allocated.*|.*Graphics Package Power \(W\)"
    r"|VRAM Total.*Memory \(B\)"
    r"|Temperature \(Sensor .*\) \(C\)|PCIe Replay Count|Driver version|GFX Version|Performance Level"
    r"|temperature_\w+ \(C\)|average_\w+_(?:activity|power) \(.*\)|pcie_link_\w+ \(.*\))$"
)
# GPU[0]		: GPU use (%): 97
_ROCM_LINE = re.compile(r"^GPU\[(\d+)\]\s*: (.+?): (\S.*?)\s*$")
# "60.0°C", "319.0W", "2203Mhz", "0%"
_WITH_UNIT = re.compile(r"^(-?\d+(?:\.\d+)?)(°C|c|W|Mhz|%)$")
# 0       2     0x75a0,   24959  60.0°C      319.0W    NPS1, DPX, 0        2203Mhz
_ROCM_GAP = re.compile(r"(?<![,\s])\s{2,}")
# | npu-smi 23.0.6                   Version: 23.0.6                                               |
_NPU_VERSION = re.compile(r"\bnpu-smi (\S+)\s+Version:")
# | 1     910B4               | OK            | 95.9        39                0    / 0             |
_NPU = re.compile(r"^\|\s*(\d+)\s+(\S+)\s*\|\s*(\S+)\s*\|\s*(\d+(?:\.\d+)?|-)\s+(\d+|-)\s")
# | 0       0                 | 632268        | python3.1          | 197                   | NA                      |
_NPU_PROCESS = re.compile(r"^\|\s*(\d+)\s+\d+\s*\|\s*(\d+)\s*\|\s*(\S.*?)\s*\|\s*(\d+)\s*\|")
# | 0                         | 0000:01:00.0  | 0           0    / 0          2826 / 32768         |
_NPU_MEMORY = re.compile(
    r"^\|\s*\d+\s*(?:\d+\s*)?\|\s*[0-9A-Fa-f:.]+\s*\|\s*(\S+)\s+\d+\s*/\s*\d+\s+(\d+)\s*/\s*(\d+)\s*\|"
)


def read_rocm(lines: Lines) -> Iterator[Reading]:
    """Yield what rocm-smi --json says of each card, on one line or on many."""
    card = ""
    for line, text in enumerate(lines, start=1):
        before, *named = _ROCM_CARD.split(text)
        for name, part in ((card, before), *zip(named[::2], named[1::2], strict=True)):
            card = name
            found = (one for one in json_values([part]) if _ROCM.match(one.name))
            yield from (Reading(one.name, one.value, "", card, line) for one in found)


def read_rocm_text(lines: Lines) -> Iterator[Reading]:
    """Yield what rocm-smi prints: its table of all cards, and lines "GPU[0] : name: value"."""
    names: list[str] = []
    for line, text in enumerate(lines, start=1):
        row = _ROCM_GAP.split(text.strip())
        if found := _ROCM_LINE.match(text):
            if _ROCM.match(found[2]):
                yield Reading(found[2], number_or_text(found[3]), "", f"gpu {found[1]}", line)
        elif "Temp" in text and "MCLK" in text:
            names = row
        elif names and row[0].isdigit() and len(row) >= len(names):
            for name, value in zip(names[1:], row[1:], strict=False):
                if measured := _WITH_UNIT.match(value):
                    yield Reading(name, number_or_text(measured[1]), measured[2], f"gpu {row[0]}", line)


def read_xpu(lines: Lines) -> Iterator[Reading]:
    """Yield the rows of `xpu-smi stats` and `xpu-smi discovery` that have a value."""
    card = ""
    for line, text in enumerate(lines, start=1):
        row = cells(text)
        if len(row) == 2 and row[0] == "Device ID":
            card = f"gpu {row[1]}"
        elif len(row) == 2 and row[1] and (row[0].endswith(")") or row[1].startswith("Device Name:")):
            name, _, value = row[1].rpartition(": ")
            yield Reading(name or row[0], number_or_text(value), "", card or f"gpu {row[0]}", line)


def read_npu(lines: Lines) -> Iterator[Reading]:
    """Yield what npu-smi info says of each device."""
    device = ""
    for line, text in enumerate(lines, start=1):
        if found := _NPU_VERSION.search(text):
            yield Reading("npu-smi", found[1], line=line)
        elif found := _NPU_MEMORY.match(text):
            yield Reading("AICore", number_or_text(found[1]), "%", device, line)
            yield Reading("HBM used", number_or_text(found[2]), "MB", device, line)
            yield Reading("HBM total", number_or_text(found[3]), "MB", device, line)
        elif found := _NPU_PROCESS.match(text):
            held = number_or_text(found[4])
            yield Reading(f"memory of process {found[2]} {found[3]}", held, "MB", f"npu {found[1]}", line)
        elif found := _NPU.match(text):
            device = f"npu {found[1]}"
            yield Reading("name", found[2], "", device, line)
            yield Reading("health", found[3], "", device, line)
            yield Reading("power", number_or_text(found[4]), "W", device, line)
            yield Reading("temperature", number_or_text(found[5]), "C", device, line)


_AMD = frozenset((
    "market_name", "gfx_activity", "umc_activity", "mm_activity", "socket_power", "average_socket_power", "max_power_limit",
    "socket_power_limit", "hotspot", "edge", "mem", "total_vram", "used_vram", "free_vram", "size", "width", "max_pcie_width", "speed",
    "version", "clk", "throttle_status"
))  # fmt: skip
# GPU: 0
_AMD_CARD = re.compile(r"^\s*GPU: (\d+)\s*$")
#         GFX_ACTIVITY: 97 %
_AMD_KEY = re.compile(r"^\s+([A-Z_0-9]+): (\S.*?)\s*$")


def read_amd(lines: Lines) -> Iterator[Reading]:
    """Yield what matters of `amd-smi metric` and `amd-smi static` as text."""
    card = ""
    for line, text in enumerate(lines, start=1):
        if found := _AMD_CARD.match(text):
            card = f"gpu {found[1]}"
        elif (found := _AMD_KEY.match(text)) and found[1].lower() in _AMD and found[2] != "N/A":
            name, (number, _, unit) = found[1].lower(), found[2].partition(" ")
            value = number_or_text(number)
            if isinstance(value, str) or len(unit) >= 8:
                value, unit = found[2], ""
            yield Reading(name, value, unit, card, line)


def read_amd_json(lines: Lines) -> Iterator[Reading]:
    """Yield the same of `amd-smi --json`: a value is a number, or an object with value and unit on lines of their own."""
    card = key = ""
    for line, text in enumerate(lines, start=1):
        if found := re.match(r'^\s*"gpu":\s*(\d+)', text):
            card = f"gpu {found[1]}"
        elif found := re.match(r'^\s*"(\w+)":\s*\{', text):
            key = found[1]
        elif (found := re.match(r'^\s*"(\w+)":\s*("?)([^",{}]+)\2,?\s*$', text)) and found[3] != "N/A":
            name = key if found[1] == "value" else found[1]
            if name in _AMD:
                yield Reading(name, number_or_text(found[3]), "", card, line)


# DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",modelName="NVIDIA H100 80GB HBM3",Hostname="node"} 98
_DCGM = re.compile(r"^(DCGM_FI_\w+)\{([^}]*)\} (\S+)")
_DCGM_LABEL = re.compile(r'(\w+)="([^"]*)"')


def read_dcgm(lines: Lines) -> Iterator[Reading]:
    """Yield the metrics of NVIDIA's DCGM exporter by card, each card named once."""
    named: set[str] = set()
    for line, text in enumerate(lines, start=1):
        if not (found := _DCGM.match(text)):
            continue
        labels = dict(_DCGM_LABEL.findall(found[2]))
        card = f"gpu {labels.get('gpu', '?')}"
        if card not in named and "modelName" in labels:
            named.add(card)
            yield Reading("name", labels["modelName"], "", card, line)
        yield Reading(found[1], number_or_text(found[3]), "", card, line)


def read_dcgmi(lines: Lines) -> Iterator[Reading]:
    """Yield the columns of `dcgmi dmon` and the last row of each card, and how busy its memory was in the mean."""
    names: list[str] = []
    last: dict[str, tuple[int, list[str]]] = {}
    active: dict[str, list[float]] = {}
    for line, text in enumerate(lines, start=1):
        parts = text.lstrip("#").split()
        if text.lstrip("# ").startswith("Entity"):
            names = parts[1:]
            yield Reading("columns", list(names), line=line)
        elif len(parts) == len(names) + 2 and parts[0] in ("GPU", "GPU-I"):
            last[f"gpu {parts[1]}"] = line, parts[2:]
            share = number_or_text(dict(zip(names, parts[2:], strict=True)).get("DRAMA", ""))
            if isinstance(share, int | float):
                active.setdefault(f"gpu {parts[1]}", []).append(float(share))
    for card, (line, values) in last.items():
        yield from (
            Reading(name, number_or_text(value), "", card, line)
            for name, value in zip(names, values, strict=True)
        )
        if shares := active.get(card):
            mean = round(100 * sum(shares) / len(shares), 1)
            yield Reading("memory active", mean, "%", card, line, how=f"mean of {len(shares)} samples")
