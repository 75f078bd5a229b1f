"""Prometheus text of vLLM's /metrics, V0 and V1 names: counters, means of histograms, bounds of their quantiles."""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from vllm_logdoctor.evidence.model import Lines, Reading, Scalar, number_or_text

# vllm:time_to_first_token_seconds_bucket{engine="0",le="0.001",model_name="tiny"} 0.0
_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

COUNTERS = {
    "vllm:num_preemptions_total": ("preemptions", "count"),
    "vllm:prompt_tokens_total": ("prompt tokens", "tokens"),
    "vllm:generation_tokens_total": ("generation tokens", "tokens"),
    "vllm:request_success_total": ("requests finished", "count"),
    "vllm:prefix_cache_queries_total": ("prefix cache queries", "tokens"),
    "vllm:prefix_cache_hits_total": ("prefix cache hits", "tokens"),
    "vllm:gpu_prefix_cache_queries_total": ("prefix cache queries", "blocks"),
    "vllm:gpu_prefix_cache_hits_total": ("prefix cache hits", "blocks"),
    "vllm:spec_decode_num_drafts_total": ("drafts", "count"),
    "vllm:spec_decode_num_draft_tokens_total": ("draft tokens", "tokens"),
    "vllm:spec_decode_num_accepted_tokens_total": ("accepted draft tokens", "tokens"),
}
GAUGES = {
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:kv_cache_usage_perc": "kv cache usage",
    "vllm:gpu_cache_usage_perc": "kv cache usage",
    "process_start_time_seconds": "process start",
    "vllm:gen_throughput": "generation throughput",
    "vllm:cache_hit_rate": "prefix cache hit rate",
    "vllm:max_total_num_tokens": "kv cache tokens",
}
HISTOGRAMS = {
    "vllm:time_to_first_token_seconds": "TTFT",
    "vllm:inter_token_latency_seconds": "ITL",
    "vllm:time_per_output_token_seconds": "TPOT",
    "vllm:e2e_request_latency_seconds": "e2e latency",
    "vllm:request_queue_time_seconds": "queue time",
    "vllm:request_prefill_time_seconds": "prefill time",
    "vllm:request_decode_time_seconds": "decode time",
    "vllm:request_prompt_tokens": "prompt length",
    "vllm:request_generation_tokens": "answer length",
}
_OF_SGLANG = {
    "num_running_reqs": "num_requests_running",
    "num_queue_reqs": "num_requests_waiting",
    "token_usage": "kv_cache_usage_perc",
    "queue_time_seconds": "request_queue_time_seconds",
}
"""Metrics of SGLang that mean the same as one of vLLM by another name."""
CONFIG = ("block_size", "num_gpu_blocks", "gpu_memory_utilization", "cache_dtype", "enable_prefix_caching")
QUANTILES = (0.5, 0.95)

_Row = tuple[int, dict[str, str], float]
"""Line, labels and value of a sample."""
_Samples = dict[str, list[_Row]]


def read_prometheus(lines: Lines) -> Iterator[Reading]:
    """Yield what one scrape says of the engine since its start; counters of several engines are added up."""
    samples: _Samples = defaultdict(list)
    for line, text in enumerate(lines, start=1):
        if text.startswith("#") or not (found := _SAMPLE.match(text)):
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        samples[_name_of(found[1])].append((line, dict(_LABEL.findall(found[2] or "")), value))
    for metric, (name, unit) in COUNTERS.items():
        yield from _added(name, unit, samples.get(metric, []))
    for metric, name in GAUGES.items():
        yield from _each(name, samples.get(metric, []))
    for metric, name in HISTOGRAMS.items():
        yield from _histogram(name, metric, samples)
    for line, labels, _ in samples.get("vllm:cache_config_info", []):
        yield from (Reading(key, labels[key], line=line) for key in CONFIG if key in labels)
    # Triton's backend for vLLM calls the label "model".
    models = {
        labels.get("model_name") or labels["model"]: line
        for rows in samples.values()
        for line, labels, _ in rows
        if "model_name" in labels or "model" in labels
    }
    yield from (Reading("model", name, line=line) for name, line in sorted(models.items()))


def _name_of(metric: str) -> str:
    """Return vLLM's name of a metric.

    Example:
        >>> _name_of("sglang:num_queue_reqs"), _name_of("sglang:gen_throughput"), _name_of("vllm:prompt_tokens")
        ('vllm:num_requests_waiting', 'vllm:gen_throughput', 'vllm:prompt_tokens')
    """
    prefix, own, name = metric.partition("sglang")
    return f"vllm:{_OF_SGLANG.get(name[1:], name[1:])}" if own and not prefix else metric


def _added(name: str, unit: str, rows: list[_Row]) -> Iterator[Reading]:
    if len(rows) == 1:
        yield Reading(name, _plain(rows[0][2]), unit, line=rows[0][0])
    elif rows:
        total, lines = sum(value for _, _, value in rows), tuple(line for line, _, _ in rows)
        yield Reading(name, _plain(total), unit, line=lines, how="sum of the lines")


def _each(name: str, rows: list[_Row]) -> Iterator[Reading]:
    for line, labels, value in rows[:8]:
        subject = f"engine {labels['engine']}" if "engine" in labels else ""
        yield Reading(name, _plain(value), subject=subject, line=line)


def _histogram(name: str, metric: str, samples: _Samples) -> Iterator[Reading]:
    sums, counts = samples.get(f"{metric}_sum", []), samples.get(f"{metric}_count", [])
    count = sum(value for _, _, value in counts)
    if not sums or not count:
        return
    unit = "tokens" if "length" in name else "s"
    lines = tuple(line for line, _, _ in (*sums, *counts))
    mean = sum(value for _, _, value in sums) / count
    yield Reading(f"{name} mean", round(mean, 6), unit, line=lines, how="sum over count")
    yield from _added(f"{name} count", "count", counts)
    for share in QUANTILES:
        bounds = _quantile(samples.get(f"{metric}_bucket", []), share * count)
        if bounds is not None:
            low, high, line = bounds
            title = f"{name} p{100 * share:.0f} lies in"
            yield Reading(title, [low, high], unit, line=line, how="bucket bounds")


def _quantile(buckets: list[_Row], rank: float) -> tuple[float, float | None, int] | None:
    """Return the bounds of the bucket that holds an observation by its rank, None for no upper bound, and the bucket's line."""
    below: dict[float, tuple[float, int]] = {}
    for line, labels, value in buckets:
        bound = float(labels.get("le", "inf"))
        below[bound] = (below.get(bound, (0.0, line))[0] + value, line)
    low = 0.0
    for bound, (value, line) in sorted(below.items()):
        if value >= rank:
            return low, None if bound == float("inf") else bound, line
        low = bound
    return None


def _plain(value: float) -> int | float:
    return int(value) if value.is_integer() else value


_LABELS = ("engine", "instance", "pod", "le", "model_name")


def read_api(lines: Lines) -> Iterator[Reading]:
    """Yield the last value of each series, and its values over time where there are several."""
    text = "\n".join(lines)
    # A script in Python may have printed the answer as a dict.
    document = ast.literal_eval(text.strip()) if "'resultType'" in text else json.loads(text)
    found = document.get("data", document) if isinstance(document, Mapping) else {}
    models = set()
    for at, series in enumerate(found.get("result") or ()):
        labels: Mapping[str, Any] = series.get("metric") or {}
        where = f"data.result[{at}]"
        subject = ", ".join(
            f"{name} {labels[name]}" for name in _LABELS if name in labels and name != "model_name"
        )
        values = [
            value for _, value in series.get("values") or ([series["value"]] if "value" in series else [])
        ]
        if not values:
            continue
        name = str(labels.get("__name__", "value"))
        yield Reading(name, number_or_text(str(values[-1])), "last value", subject, where=where)
        if len(values) > 1:
            numbers: list[Scalar] = [number_or_text(str(value)) for value in values[:200]]
            yield Reading(name, numbers, "series", subject, where=where)
        models |= {str(labels["model_name"])} if "model_name" in labels else set()
    yield from (Reading("model", model, where="data.result") for model in sorted(models))
