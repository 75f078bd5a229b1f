"""What nvidia-smi prints: the table, -q, XML, CSV queries, dmon, pmon, topo -m, nvlink --status."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vllm_logdoctor.evidence.model import Lines, Reading, number_or_text
from vllm_logdoctor.evidence.tables import columns, comma_separated

# | NVIDIA-SMI 590.48.01              Driver Version: 590.48.01      CUDA Version: 13.1     |
_VERSIONS = re.compile(
    r"NVIDIA-SMI \S+\s+(?:KMD Version|Driver Version): ?(\S+)\s+CUDA (?:UMD )?Version: ?(\S+)"
)
# |   0  NVIDIA H200                    On  |   00000000:83:00.0 Off |                    0 |
_CARD = re.compile(
    r"^\s*\|\s{1,4}(\d{1,3})\s{1,4}(\S.*?)\s+(?:On|Off|N/A|TCC|WDDM|MCDM)\s+\|\s+([0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]+)"
)
# | N/A   52C    P0            628W /  700W |   32362MiB / 143771MiB |    100%      Default |
_STATE = re.compile(
    r"^\s*\|\s*\S+\s+(\d+|N/A|ERR!)C?\s+\S+\s+(\S+?)W?\s*/\s*(\S+?)W?\s*\|\s*(\S+(?: */ +\S+)?|Not Supported)\s*\|\s*(\S+?)%?\s+\S+"
)
# |    0   N/A  N/A           10291      C   /root/tools/memhog                     2566MiB |
_PROCESS = re.compile(
    r"^\s*\|\s+(\d+)\s+(?:\S+\s+\S+\s+)?(\d+)\s+(C\+G|C|G|M\+C)\s+(\S.*?)\s+(\d+MiB|N/A)\s*\|"
)
#     |   32362MiB / 143771MiB |    100%      Default |
_MEMORY = re.compile(
    r"\|\s*\d+MiB\s*/\s*\d+MiB\s*\|\s*(?:\d+%|N/A)\s+(?:Default|E\. Process|Prohibited)\s*\|"
)
#  Link 0: 26.562 GB/s
_LINK = re.compile(r"^\s+Link (\d+): (?:(\d+(?:\.\d+)?) GB/s|<inactive>)")
_GPU = re.compile(r"^GPU (\d+): (.*?) \(UUID")
_MOST_PROCESSES = 20


def read_smi_table(lines: Lines) -> Iterator[Reading]:
    """Yield driver, cards, their state, and who holds their memory."""
    card = ""
    processes = 0
    for line, text in enumerate(lines, start=1):
        if found := _VERSIONS.search(text):
            yield Reading("driver", found[1], line=line)
            yield Reading("cuda", found[2], line=line)
        elif found := _CARD.match(text):
            card = f"gpu {found[1]}"
            yield Reading("name", found[2], subject=card, line=line)
            yield Reading("bus", found[3], subject=card, line=line)
        elif card and (found := _STATE.match(text)):
            for (name, unit), value in zip(_OF_STATE, found.groups(), strict=True):
                yield Reading(name, number_or_text(value), unit, card, line)
        elif processes < _MOST_PROCESSES and (found := _PROCESS.match(text)):
            processes += 1
            held = number_or_text(found[5].removesuffix("MiB"))
            yield Reading(f"memory of process {found[2]} {found[4]}", held, "MiB", f"gpu {found[1]}", line)


_OF_STATE = (
    ("temperature", "C"),
    ("power draw", "W"),
    ("power limit", "W"),
    ("memory used / total", ""),
    ("utilization", "%"),
)
_QUERY = {
    "Product Name": "product",
    "PCIe Generation/Current": "pcie gen current",
    "PCIe Generation/Max": "pcie gen max",
    "Link Width/Current": "pcie width current",
    "Link Width/Max": "pcie width max",
    "SW Power Cap": "sw power cap",
    "HW Thermal Slowdown": "hw thermal slowdown",
    "HW Power Brake Slowdown": "hw power brake slowdown",
    "SW Thermal Slowdown": "sw thermal slowdown",
    "GPU Current Temp": "gpu temperature",
    "Memory Current Temp": "memory temperature",
    "Utilization/Gpu": "gpu utilization",
    "Utilization/GPU": "gpu utilization",
    "Utilization/Memory": "memory utilization",
    "FB Memory Usage/Used": "memory used",
    "FB Memory Usage/Total": "memory total",
    "Clocks/SM": "sm clock",
    "Max Clocks/SM": "sm clock max",
    "Performance State": "performance state",
    "Process ID": "process",
    "Used GPU Memory": "process memory",
}
_POWER = re.compile(r"^(?:GPU )?Power Readings$")
_POWER_KEYS = {
    "Average Power Draw": "average power draw",
    "Instantaneous Power Draw": "power draw",
    "Power Draw": "power draw",
    "Current Power Limit": "power limit",
    "Power Limit": "power limit",
    "Enforced Power Limit": "enforced power limit",
}
_MEASURE = re.compile(r"^(-?\d+(?:\.\d+)?) (\S+)$")


def read_query(lines: Lines) -> Iterator[Reading]:
    """Yield what matters of `nvidia-smi -q`, by section and key."""
    sections: list[tuple[int, str]] = []
    card = ""
    for line, text in enumerate(lines, start=1):
        stripped = text.strip()
        if not stripped:
            continue
        depth = len(text) - len(text.lstrip())
        while sections and sections[-1][0] >= depth:
            sections.pop()
        key, colon, value = (part.strip() for part in stripped.partition(" : "))
        if not colon:
            sections.append((depth, stripped))
            card = stripped if stripped.startswith("GPU 0") else card
            continue
        if key in ("Driver Version", "CUDA Version"):
            yield Reading(key.split()[0].lower(), value, line=line)
        elif name := _query_name(key, sections):
            yield _measured(name, value, card, line)
        # "Process ID : 7" heads the keys of that process.
        sections.append((depth, key))


def _query_name(key: str, sections: list[tuple[int, str]]) -> str | None:
    above = sections[-1][1] if sections else ""
    if _POWER.match(above):
        return _POWER_KEYS.get(key)
    return _QUERY.get(f"{above}/{key}") or _QUERY.get(key)


def _measured(name: str, value: str, subject: str, line: int) -> Reading:
    """Return a value with its unit apart: "52 C" -> 52, C."""
    if found := _MEASURE.match(value):
        return Reading(name, number_or_text(found[1]), found[2], subject, line)
    return Reading(name, number_or_text(value), "", subject, line)


_XML = {
    "driver_version": "driver",
    "cuda_version": "cuda",
    "product_name": "product",
    "current_link_gen": "pcie gen current",
    "max_link_gen": "pcie gen max",
    "current_link_width": "pcie width current",
    "max_link_width": "pcie width max",
    "gpu_temp": "temperature",
    "memory_temp": "memory temperature",
    "gpu_util": "gpu util",
    "memory_util": "memory util",
    "power_draw": "power draw",
    "instant_power_draw": "power draw",
    "power_limit": "power limit",
    "current_power_limit": "power limit",
    "sm_clock": "sm clock",
    **{
        f"clocks_{word}_reason_{reason}": reason.replace("_", " ")
        for word in ("event", "throttle")
        for reason in (
            "sw_power_cap",
            "hw_thermal_slowdown",
            "sw_thermal_slowdown",
            "hw_power_brake_slowdown",
        )
    },
}
_ELEMENT = re.compile(r"^\s*<(\w+)>([^<]*)</\1>")
_XML_SECTION = re.compile(r"^\s*<(/?)(fb_memory_usage|max_clocks|supported_clocks)>")
_XML_CARD = re.compile(r'^\s*<gpu id="([^"]*)">')


def read_xml(lines: Lines) -> Iterator[Reading]:
    """Yield what matters of `nvidia-smi -q -x`, element by element: no parser, so that no entity is ever expanded."""
    card = section = ""
    for line, text in enumerate(lines, start=1):
        if found := _XML_SECTION.match(text):
            section = "" if found[1] else found[2]
        elif found := _XML_CARD.match(text):
            card = f"GPU {found[1]}"
        elif found := _ELEMENT.match(text):
            name = _XML.get(found[1]) if not section else None
            if section == "fb_memory_usage" and found[1] in ("used", "total"):
                name = f"memory {found[1]}"
            if name:
                yield Reading(name, found[2], subject=card, line=line)


_CSV = (
    "name", "gpu_name", "utilization.gpu", "utilization.memory", "memory.used", "memory.total", "power.draw",
    "enforced.power.limit", "power.limit", "clocks.current.sm", "clocks.sm", "clocks.current.memory", "clocks.mem", "temperature.gpu",
    "clocks_event_reasons.sw_power_cap", "clocks_event_reasons.hw_slowdown", "clocks_throttle_reasons.sw_power_cap",
    "clocks_throttle_reasons.hw_slowdown", "clocks_event_reasons.hw_thermal_slowdown", "clocks_throttle_reasons.hw_thermal_slowdown",
    "clocks_event_reasons.sw_thermal_slowdown", "clocks_throttle_reasons.sw_thermal_slowdown",
    "pcie.link.gen.current", "pcie.link.width.current", "pcie.link.width.max", "driver_version", "process_name", "pid",
    "used_gpu_memory",
)  # fmt: skip
_MOST_ROWS = 16


def read_csv(lines: Lines) -> Iterator[Reading]:
    """Yield the columns that matter of the last rows of a query, as printed."""
    rows = list(comma_separated(lines))[-_MOST_ROWS:]
    kept = max(3, 80 // max(1, len(rows)))
    for line, row in rows:
        values = [(name, value) for name, value in row.items() if name.split(" [")[0] in _CSV]
        subject = row.get("index") or row.get("uuid") or row.get("gpu_uuid") or ""
        yield from (Reading(name, value, "as printed", subject, line) for name, value in values[:kept])


def read_monitor(lines: Lines) -> Iterator[Reading]:
    """Yield the columns of `dmon` or `pmon`, how many rows, and the last ones of them."""
    header = next((index for index, text in enumerate(lines) if text.startswith("# gpu")), None)
    if header is None:
        return
    names = lines[header].lstrip("#").split()
    rows = [(line, row) for line, row in columns(lines, header) if row[names[0]].isdigit()]
    yield Reading("columns", list(names), line=header + 1)
    place = tuple(dict.fromkeys((rows[0][0], rows[-1][0]))) if rows else header + 1
    yield Reading("rows", len(rows), "count", line=place, how="count")
    first = rows[: 60 if "pid" in names else 0]
    for line, row in first:
        who = f"{row.get('command', row.get('name', ''))} ({row['pid']})"
        yield Reading(f"sm of {who}", number_or_text(row.get("sm", "-")), "%", f"gpu {row['gpu']}", line)
    if "pid" not in names:
        for line, row in rows[-4:]:
            yield from (
                Reading(name, number_or_text(row[name]), "", f"gpu {row[names[0]]}", line)
                for name in names[1:]
            )


def read_topology(lines: Lines) -> Iterator[Reading]:
    """Yield the link between each two cards of `nvidia-smi topo -m`."""
    table = [(line, text.split()) for line, text in enumerate(lines, start=1)]
    header = next((row for _, row in table if row[:1] == ["GPU0"] and "X" not in row), [])
    cards = [name for name in header if re.fullmatch(r"GPU\d+", name)]
    rows = [
        (line, row)
        for line, row in table
        if row and row[0] in cards and "X" in row[1 : 1 + len(cards)] and len(row) > len(cards)
    ]
    yield Reading("gpus", len(rows), "count", line=tuple(line for line, _ in rows) or None, how="count")
    for line, values in rows:
        own = int(values[0][3:])
        for other in cards[own + 1 :]:
            yield Reading("link", values[1 + cards.index(other)], "", f"{values[0]}-{other}", line)


def read_nvlink(lines: Lines) -> Iterator[Reading]:
    """Yield the links of each card with their speed."""
    card, links = "", 0
    for line, text in enumerate(lines, start=1):
        if found := _GPU.match(text):
            card, links = f"gpu {found[1]}", 0
            yield Reading("name", found[2], subject=card, line=line)
        elif found := _LINK.match(text):
            links += 1
            if links <= 4:
                yield Reading(f"link {found[1]}", number_or_text(found[2] or "inactive"), "GB/s", card, line)
        following = lines[line] if line < len(lines) else ""
        if links and not _LINK.match(following) and _LINK.match(text):
            yield Reading("links", links, "count", card, line, how="count")


# GPU 0: NVIDIA H200 (UUID: GPU-5269b708-...)        MIG 1g.18gb     Device  3: (UUID: MIG-...)
_LISTED = re.compile(r"^\s*(?:GPU (\d+): (.+?)|(MIG \S+) +Device +(\d+):) +\(UUID: ([\w-]+)\)")


def read_list(lines: Lines) -> Iterator[Reading]:
    """Yield the cards of `nvidia-smi -L`, and the parts into which they are divided."""
    card = ""
    for line, text in enumerate(lines, start=1):
        if found := _LISTED.match(text):
            card = f"gpu {found[1]}" if found[1] else card
            subject = card if found[1] else f"{card} device {found[4]}"
            yield Reading("name" if found[1] else "part of the card", found[2] or found[3], "", subject, line)
            yield Reading("uuid", found[5], "", subject, line)


def is_table(head: str) -> bool:
    """Return whether a text holds nvidia-smi's table."""
    return bool(_VERSIONS.search(head) and "Volatile Uncorr" in head) or bool(_MEMORY.search(head))


def is_topology(head: str) -> bool:
    """Return whether a text holds the matrix of `topo -m`."""
    header = re.search(r"^\s*GPU0\s+.*(?:CPU Affinity|GPU1)", head, re.MULTILINE)
    return header is not None and re.search(r"^GPU0\b.*\bX\b", head, re.MULTILINE) is not None
