"""Answers of Prometheus' HTTP API: query and query_range on vLLM's metrics, one reading a series."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from typing import Any

from vllm_logdoctor.evidence.model import Lines, Reading, Scalar, number

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
        yield Reading(name, number(str(values[-1])), "last value", subject, where=where)
        if len(values) > 1:
            numbers: list[Scalar] = [number(str(value)) for value in values[:200]]
            yield Reading(name, numbers, "series", subject, where=where)
        models |= {str(labels["model_name"])} if "model_name" in labels else set()
    yield from (Reading("model", model, where="data.result") for model in sorted(models))
