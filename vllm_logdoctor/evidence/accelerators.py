"""Cards of other makers: rocm-smi and amd-smi in JSON, npu-smi."""

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
