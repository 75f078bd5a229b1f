"""Reads the sides of a comparison: logs of any engine, reports, benchmarks without a server, folders with evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vllm_logdoctor.engine_comparison.side import Cell, Side, side_of_benchmark, side_of_run
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.evidence.read import read_evidence_file
from vllm_logdoctor.run.servers import VLLM

BENCHMARKS = frozenset((
    "llama-bench-text", "llama-bench-csv", "llama-bench-json", "llama-bench-sql", "llama-batched-bench", "sglang-bench-one-batch"
))  # fmt: skip
"""Kinds of files that hold the speed of an engine without a server."""


def benchmark_in(name: str) -> Side | None:
    """Return the side of a file that holds a benchmark without a server, or None for a log."""
    path = Path(name)
    if not path.is_file():
        return None
    try:
        found = read_evidence_file(path)
    except OSError as error:
        raise LogdoctorError(f"can't read {name}: {error.strerror}", 3) from error
    return side_of_benchmark(found) if found.kind in BENCHMARKS else None


def sides_of(names: Sequence[str], document_of: Callable[[str], Mapping[str, Any]]) -> list[Side]:
    """Return a side for each name.

    Raises:
        LogdoctorError: a side can't be read or holds no run.
    """
    return [benchmark_in(name) or _side(name, document_of(name)) for name in names]


def _side(name: str, document: Mapping[str, Any]) -> Side:
    runs = document["runs"]
    if not runs:
        raise LogdoctorError(f"{name} holds no run of an engine", 4)
    ready = [run for run in runs if run["startup_complete"] or run["serving"]["levels"]]
    return side_of_run((ready or runs)[-1], _shares(document), _card(document))


def _shares(document: Mapping[str, Any]) -> dict[str, Cell]:
    """Return the share of kernel classes and of the busiest thread, from files beside the log."""
    found: dict[str, Cell] = {}
    for run in document["runs"]:
        beside = run.get("beside") or {}
        for one in beside.get("kernels") or ():
            if one["name"] == "share":
                name = "MoE" if one["subject"].startswith("MoE") else one["subject"]
                before = float(found[name].value) if name in found else 0.0
                found[name] = Cell(round(before + one["value"], 1), one["line"], one["where"] or "")
        threads = [one for one in beside.get("host") or () if str(one["name"]).startswith("cpu of ")]
        # Another server on the machine has threads of the same names.
        ours = {f"thread {one['pid']}" for one in run.get("processes") or ()}
        threads.sort(key=lambda one: (one["subject"] not in ours, -one["value"]))
        if threads:
            found["CPU of the busiest thread"] = Cell(
                threads[0]["value"], threads[0]["line"], threads[0]["name"]
            )
    return found


def _card(document: Mapping[str, Any]) -> str | None:
    for one in document.get("evidence") or ():
        for reading in one["readings"]:
            if reading["name"] in ("product", "name") and str(reading["subject"]).lower().startswith("gpu"):
                return str(reading["value"])
    return None


def is_report_of_vllm(document: Mapping[str, Any]) -> bool:
    """Return whether every run of a report is vLLM's."""
    return all(run.get("server", VLLM) == VLLM for run in document["runs"])
