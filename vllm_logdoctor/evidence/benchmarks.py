"""What clients measured: vllm bench and SGLang's bench_serving, GuideLLM, AIPerf, llmperf, llama-bench."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from msgspec.structs import replace

from vllm_logdoctor.evidence.model import Lines, Reading, number
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
        inside = inside or bool(_HEAD.search(text) or _FIRST.match(text))
        if not (found := _RESULT.match(text)):
            continue
        name = found[1].strip()
        if inside or name in _BEFORE:
            yield Reading(name, number(found[3]), found[2] or "", line=line)
        if text.startswith("====") and inside and not _HEAD.search(text):
            inside = False


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
            yield Reading(f"{section} {found[1]}", number(found[2]), line=line)


def read_aiperf(lines: Lines) -> Iterator[Reading]:
    """Yield mean, p99 and p50 of each metric of a table of AIPerf, GenAI-Perf or AISBench, which prints units in the cells."""
    names: list[str] = []
    for line, text in enumerate(lines, start=1):
        row = cells(text)
        if {"avg", "Average", "Statistic"} & set(row):
            names = row
        elif names and len(row) == len(names) and row[0]:
            for name in ("avg", "p99", "p50", "Average", "P99", "Median"):
                value, _, unit = row[names.index(name)].partition(" ") if name in names else ("", "", "")
                if isinstance(number(value), int | float):
                    yield Reading(f"{row[0]} {name}", number(value), unit, line=line)


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
                found.append(Reading(f"{metric} {name}", number(value), "", line=line))
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
                if isinstance(value := number(cells_of.get(name, "")), int | float):
                    yield Reading(f"{metric} {name}", value, cells_of.get("Unit") or unit or "", line=line)


def is_results_text(head: str) -> bool:
    """Return whether a client's benchmark result is in a text."""
    return bool(_HEAD.search(head) or re.search(rf"^{_FIRST.pattern}", head, re.MULTILINE))


def is_sglang(head: str) -> bool:
    """Return whether a benchmark result has the rows that only SGLang's bench_serving prints."""
    return is_results_text(head) and bool(
        re.search(
            r"generated tokens \(retokenized\)|^Max reqeuest concurrency:|^Backend:\s+(?!vllm|openai)\S|sglang\.bench_serving",
            head,
            re.MULTILINE,
        )
    )
