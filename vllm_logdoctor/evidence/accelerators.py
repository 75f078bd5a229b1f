"""Cards of other makers, and of all by other tools: rocm-smi, amd-smi, npu-smi, DCGM."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vllm_logdoctor.evidence.model import Lines, Reading, number
from vllm_logdoctor.evidence.tables import json_values

_ROCM_CARD = re.compile(r'^\s*"(card\d+|system)"\s*:')
_ROCM = re.compile(
    r"^(?:Card [Ss]eries|Card model|Device Name|GPU (?:memory )?use \(%\)|GPU Memory Allocated.*|.*Graphics Package Power \(W\)"
    r"|VRAM Total.*Memory \(B\)"
    r"|Temperature \(Sensor .*\) \(C\)|PCIe Replay Count|Driver version|GFX Version|Performance Level)$"
)
# | npu-smi 23.0.6                   Version: 23.0.6                                               |
_NPU_VERSION = re.compile(r"\bnpu-smi (\S+)\s+Version:")
# | 1     910B4               | OK            | 95.9        39                0    / 0             |
_NPU = re.compile(r"^\|\s*(\d+)\s+(\S+)\s*\|\s*(\S+)\s*\|\s*([\d.]+|-)\s+(\d+|-)\s")
# | 0                         | 0000:01:00.0  | 0           0    / 0          2826 / 32768         |
_NPU_MEMORY = re.compile(
    r"^\|\s*\d+\s*(?:\d+\s*)?\|\s*[0-9A-Fa-f:.]+\s*\|\s*(\S+)\s+\d+\s*/\s*\d+\s+(\d+)\s*/\s*(\d+)\s*\|"
)


def read_rocm(lines: Lines) -> Iterator[Reading]:
    """Yield what rocm-smi --json says of each card."""
    card = ""
    starts = {line: found[1] for line, text in enumerate(lines, start=1) if (found := _ROCM_CARD.match(text))}
    for reading in json_values(lines):
        card = next((name for line, name in reversed(starts.items()) if line <= (reading.line or 0)), card)  # type: ignore[operator]
        if _ROCM.match(reading.name):
            yield Reading(reading.name, reading.value, "", card, reading.line)


def read_npu(lines: Lines) -> Iterator[Reading]:
    """Yield what npu-smi info says of each device."""
    device = ""
    for line, text in enumerate(lines, start=1):
        if found := _NPU_VERSION.search(text):
            yield Reading("npu-smi", found[1], line=line)
        elif found := _NPU_MEMORY.match(text):
            yield Reading("AICore", number(found[1]), "%", device, line)
            yield Reading("HBM used", number(found[2]), "MB", device, line)
            yield Reading("HBM total", number(found[3]), "MB", device, line)
        elif found := _NPU.match(text):
            device = f"npu {found[1]}"
            yield Reading("name", found[2], "", device, line)
            yield Reading("health", found[3], "", device, line)
            yield Reading("power", number(found[4]), "W", device, line)
            yield Reading("temperature", number(found[5]), "C", device, line)


_AMD = frozenset((
    "market_name", "gfx_activity", "umc_activity", "mm_activity", "socket_power", "average_socket_power", "max_power_limit",
    "socket_power_limit", "hotspot", "edge", "mem", "total_vram", "used_vram", "free_vram", "size", "width", "max_pcie_width", "speed",
    "version", "clk"
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
            value, _, unit = found[2].partition(" ")
            measured = isinstance(number(value), int | float) and len(unit) < 8
            yield Reading(
                found[1].lower(),
                number(value) if measured else found[2],
                unit if measured else "",
                card,
                line,
            )


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
                yield Reading(name, number(found[3]), "", card, line)


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
        yield Reading(found[1], number(found[3]), "", card, line)


def read_dcgmi(lines: Lines) -> Iterator[Reading]:
    """Yield the columns of `dcgmi dmon` and the last row of each card."""
    names: list[str] = []
    last: dict[str, tuple[int, list[str]]] = {}
    for line, text in enumerate(lines, start=1):
        parts = text.lstrip("#").split()
        if text.lstrip("# ").startswith("Entity"):
            names = parts[1:]
            yield Reading("columns", list(names), line=line)
        elif len(parts) == len(names) + 2 and parts[0] in ("GPU", "GPU-I"):
            last[f"gpu {parts[1]}"] = line, parts[2:]
    for card, (line, values) in last.items():
        yield from (
            Reading(name, number(value), "", card, line) for name, value in zip(names, values, strict=True)
        )
