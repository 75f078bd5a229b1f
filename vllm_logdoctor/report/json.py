"""The analysis as one JSON document."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, json, to_builtins

from vllm_logdoctor.report.document.model import DocumentOut, RunOut
from vllm_logdoctor.report.model import Analysis, Diagnosis


def render(analysis: Analysis, indent: int | None = 2) -> str:
    """Return the JSON document as text: valid UTF-8, no NaN, the same bytes for the same analysis."""
    return text_of(DocumentOut.of_analysis(analysis), indent)


def document(analysis: Analysis) -> dict[str, Any]:
    """Return the JSON document as dictionaries, lists and plain values."""
    return dict(json.decode(encoded(DocumentOut.of_analysis(analysis))))


def run_document(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return one run of the JSON document as dictionaries, lists and plain values."""
    return dict(json.decode(encoded(RunOut.of_diagnosis(diagnosis))))


def text_of(part: Struct | dict[str, Any], indent: int | None = 2) -> str:
    """Return a document as JSON text that ends with a line end."""
    return json.format(encoded(part), indent=indent or 0).decode() + "\n"


def encoded(part: Struct | dict[str, Any]) -> bytes:
    """Return a document as JSON; half of a surrogate pair, which no UTF-8 has, becomes a question mark."""
    try:
        return json.encode(part)
    except UnicodeEncodeError:
        return json.encode(_without_surrogates(to_builtins(part, str_keys=True)))


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_surrogates(item) for item in value]
    return value
