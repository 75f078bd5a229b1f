"""What clients and offline benchmarks measured: vllm bench and SGLang's bench_serving, GuideLLM, AIPerf, llmperf, llama-bench."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

from msgspec.structs import replace

from vllm_logdoctor.catalogue.loading import load_index
from vllm_logdoctor.evidence.model import Lines, Reading, number_or_text
from vllm_logdoctor.evidence.tables import cells, first_of_each, json_values

# "Request throughput (req/s):              0.21      "
_RESULT = re.compile(
    r"^(.*?[A-Z][^:|{}\[\]=]*?)(?: \(([^()]*)\))?:\s+(-?[\d.,]+(?=\s+<|\s*$)|[\w.-]+(?=\s*$))"
)
_HEAD = re.compile(r"= (?:Serving|Offline Throughput|Throughput|Latency) Benchmark Result =")
_FIRST = re.compile(r"(?:Successful requests|Mean TTFT \(ms\)): +\d")
_BEFORE = {"Traffic request rate", "Maximum request concurrency", "Backend", "Burstiness factor"}


def read_results_text(lines: Lines) -> Iterator[Reading]:
    """Yield the rows of "Serving Benchmark Result", and the requested load above it."""
    inside = False
    for line, text in enumerate(lines, start=1):
        inside = bool(_HEAD.search(text) or _FIRST.match(text)) or (inside and not text.startswith("===="))
        if not (found := _RESULT.match(text)):
            continue
        name = found[1].strip()
        if inside or name in _BEFORE:
            yield Reading(name, number_or_text(found[3]), found[2] or "", line=line)


_VLLM_BENCH = frozenset((
    "model_id", "backend", "num_prompts", "request_rate", "max_concurrency", "duration", "completed", "failed", "total_input_tokens",
    "total_output_tokens", "request_throughput", "request_goodput", "output_throughput", "total_token_throughput", "mean_ttft_ms",
    "median_ttft_ms", "p95_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "median_tpot_ms", "p99_tpot_ms", "mean_itl_ms", "median_itl_ms",
    "p99_itl_ms", "mean_e2el_ms", "p99_e2el_ms", "max_output_tokens_per_s", "max_concurrent_requests", "rps", "burstiness"
))  # fmt: skip


def read_vllm_json(lines: Lines) -> Iterator[Reading]:
    """Yield the figures of a result file of `vllm bench serve`."""
    yield from json_values(lines, _VLLM_BENCH)


_GUIDELLM = frozenset((
    "guidellm_version", "kind", "target", "model", "request_format", "rate", "max_seconds", "max_requests"
))  # fmt: skip


def read_guidellm(lines: Lines) -> Iterator[Reading]:
    """Yield what was benchmarked and the first figures of a GuideLLM report."""
    yield from first_of_each(one for one in json_values(lines, _GUIDELLM) if one.value is not None)


# |===|===|    -----|-----    =====
_RULE = re.compile(r"[|\s]*(?:=[=|\s]*|-[-|\s]*)")
# "model": "tiny",    backend validated with model tiny
_MODEL = re.compile(r"""["']model["']: ["']([^"']+)["']|backend validated with model (\S+)""")
_OF_TABLES = (
    "Req Latency",
    "Request Latency",
    "TTFT",
    "ITL",
    "TPOT",
    "Request Stats",
    "Requests",
    "Out Tok",
    "Output Tokens",
)
_UNITS = {"Sec": "s", "sec": "s", "ms": "ms"}
_STATISTIC = {"Mdn": "median", "Mean": "mean"}


def is_guidellm_text(head: str) -> bool:
    """Return whether the tables that GuideLLM prints are in a text."""
    return bool(
        re.search(r"^Metadata *\| Request Stats|^\| Benchmark *\| Request Latency *\|\|", head, re.MULTILINE)
    )


def read_guidellm_text(lines: Lines) -> Iterator[Reading]:
    """Yield the model, then latency and throughput of each benchmark, the first benchmark first."""
    named = ((line, _MODEL.search(text)) for line, text in enumerate(lines, start=1))
    model = next(((line, found) for line, found in named if found), None)
    if model is not None:
        yield Reading("model", model[1][1] or model[1][2], line=model[0])
    found: list[tuple[int, Reading]] = []
    names: list[tuple[str, str]] = []
    head: list[list[str]] = []
    seen: Counter[str] = Counter()
    for line, text in enumerate(lines, start=1):
        if _RULE.fullmatch(text):
            names = _columns_of(head) if "-" in text else []
            head, seen = [], Counter()
        elif "|" in text and not names:
            head.append(cells(text))
        elif len(row := cells(text)) == len(names) > 1:
            seen[row[0]] += 1
            # A sweep has several benchmarks of one strategy.
            subject = row[0] if seen[row[0]] == 1 else f"{row[0]} {seen[row[0]]}"
            for (name, unit), cell in zip(names[1:], row[1:], strict=True):
                value, wanted = number_or_text(cell), name.startswith(_OF_TABLES) and "Per Req" not in name
                if wanted and not isinstance(value, str):
                    found.append((seen.total(), Reading(name, value, unit, subject, line)))
    yield from (one for _, one in sorted(found, key=lambda one: one[0]))


def _columns_of(head: list[list[str]]) -> list[tuple[str, str]]:
    """Return name and unit of each column under several rows of heads; a head over several columns has empty cells behind it."""
    width = max(map(len, head), default=0)
    for row in head[:-1]:
        row += [""] * (width - len(row))
        for at in range(1, width):
            row[at] = row[at] or row[at - 1]
    found = []
    for parts in zip(*head, strict=False):
        unit = next((_UNITS[part] for part in parts if part in _UNITS), "")
        name = " ".join(_STATISTIC.get(part, part) for part in parts if part and part not in _UNITS)
        if inside := re.search(r" \((ms|sec)\)", name):
            name, unit = name.replace(inside[0], ""), _UNITS[inside[1]]
            # Early releases print seconds under this head.
            unit = "s" if name.startswith("Req Latency") else unit
        found.append((name, unit))
    return found


@cache
def _printed(pattern: str) -> re.Pattern[str]:
    """Return what finds a line of `vllm bench` in a log."""
    found = load_index().by_id(pattern)
    assert found is not None
    return re.compile(found.regex)


def read_offline_text(lines: Lines) -> Iterator[Reading]:
    """Yield what `vllm bench throughput` and `vllm bench latency` print."""
    throughput, latency = _printed("benchmark-throughput"), _printed("benchmark-latency")
    for line, text in enumerate(lines, start=1):
        if found := throughput.search(text):
            for name, unit in (("requests", "requests/s"), ("total", "tokens/s"), ("output", "tokens/s")):
                if found[name]:
                    yield Reading(f"{name} throughput", number_or_text(found[name]), unit, line=line)
        elif found := latency.search(text):
            name = "average latency" if found["average"] else f"p{found['percentile']} latency"
            yield Reading(name, number_or_text(found["seconds"]), "s", line=line)
        elif found := re.match(r"(Total num (?:prompt|output) tokens): +(\d+)", text):
            yield Reading(found[1], number_or_text(found[2]), "tokens", line=line)
        elif found := re.match(r"Namespace\(.*\bmodel='([^']+)'", text):
            yield Reading("model", found[1], line=line)


_OFFLINE = {
    "elapsed_time": "s", "num_requests": "count", "total_num_tokens": "tokens", "total_input_tokens": "tokens", "total_output_tokens": "tokens",
    "requests_per_second": "requests/s", "tokens_per_second": "tokens/s", "output_tokens_per_second": "tokens/s", "avg_latency": "s",
}  # fmt: skip


def read_offline_json(lines: Lines) -> Iterator[Reading]:
    """Yield the figures that `vllm bench throughput` and `vllm bench latency` write with --output-json."""
    for one in json_values(lines):
        if one.name in _OFFLINE:
            yield replace(one, unit=_OFFLINE[one.name])
        elif one.name.isdecimal():
            yield replace(one, name=f"p{one.name} latency", unit="s")


_OF_LLMPERF = ("model", "num_concurrent_requests", "version")


def read_llmperf(lines: Lines) -> Iterator[Reading]:
    """Yield the figures of llmperf's summary."""
    for reading in json_values(lines):
        if reading.name.startswith("results_") or reading.name in _OF_LLMPERF:
            yield reading
    section = ""
    for line, text in enumerate(lines, start=1):
        if found := re.match(r'^\s*"(results\w*|\w+_s|quantiles)"\s*:\s*\{', text):
            section = found[1]
        elif section and (found := re.match(r'^\s*"(p\d+|mean|min|max|stddev)"\s*:\s*([-\d.eE]+)', text)):
            yield Reading(f"{section} {found[1]}", number_or_text(found[2]), line=line)


def read_aiperf(lines: Lines) -> Iterator[Reading]:
    """Yield mean, p99 and p50 of each metric of a table of AIPerf, GenAI-Perf or AISBench, which prints units in the cells."""
    names: list[str] = []
    for line, text in enumerate(lines, start=1):
        row = cells(text)
        if {"avg", "Average", "Statistic"} & set(row):
            names = row
        elif names and len(row) == len(names) and row[0]:
            for name in ("avg", "p99", "p50", "Average", "P99", "Median"):
                text, _, unit = row[names.index(name)].partition(" ") if name in names else ("", "", "")
                if isinstance(value := number_or_text(text), int | float):
                    yield Reading(f"{row[0]} {name}", value, unit, line=line)


# "time_to_first_token": {      "avg": 42.7,      "unit": "ms"
_MEMBER = re.compile(r'"(\w+)"\s*:\s*(?:(\{)|(-?\d[\d.eE+-]*)|"([^"]*)")')
_STATISTICS = ("avg", "p50", "p99")


def read_aiperf_json(lines: Lines) -> Iterator[Reading]:
    """Yield mean, p50 and p99 of each metric of AIPerf's and GenAI-Perf's JSON; the unit may stand before or behind them."""
    metric, unit = "", ""
    found: list[Reading] = []
    for line, text in enumerate(lines, start=1):
        for name, opens, value, word in _MEMBER.findall(text):
            if opens:
                yield from (replace(one, unit=unit) for one in found)
                metric, unit, found = name, "", []
            elif name == "unit":
                unit = word
            elif name in _STATISTICS and value:
                found.append(Reading(f"{metric} {name}", number_or_text(value), "", line=line))
    yield from (replace(one, unit=unit) for one in found)


def read_aiperf_csv(lines: Lines) -> Iterator[Reading]:
    """Yield mean, p50 and p99 of each metric of their CSV, and what has one value only."""
    names: list[str] = []
    for line, row in enumerate(csv.reader(lines), start=1):
        if row[:1] == ["Metric"]:
            names = row
        elif names and len(row) == len(names):
            cells_of = dict(zip(names, row, strict=True))
            metric, unit = re.fullmatch(r"(.*?)(?: \(([^()]*)\))?", row[0]).groups()  # type: ignore[union-attr]
            for name in (*_STATISTICS, "Value"):
                if isinstance(value := number_or_text(cells_of.get(name, "")), int | float):
                    yield Reading(f"{metric} {name}", value, cells_of.get("Unit") or unit or "", line=line)


def is_results_text(head: str) -> bool:
    """Return whether a client's benchmark result is in a text."""
    return bool(_HEAD.search(head) or re.search(rf"^{_FIRST.pattern}", head, re.MULTILINE))


_SGLANG = re.compile(
    r"generated tokens \(retokenized\)|^Max reqeuest concurrency:|^Backend:\s+(?!vllm|openai)\S|sglang\.bench_serving",
    re.MULTILINE,
)


def is_sglang(head: str) -> bool:
    """Return whether a benchmark result has the rows that only SGLang's bench_serving prints."""
    return is_results_text(head) and _SGLANG.search(head) is not None
