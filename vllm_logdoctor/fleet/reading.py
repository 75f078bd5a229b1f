"""Reads one log: its rows in all tables, with a status whatever is wrong with it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from msgspec import Struct

from vllm_logdoctor.catalogue.loading import load_all
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.fleet.inventory import Log
from vllm_logdoctor.fleet.jobs import HEAD_BYTES, TAIL_BYTES, job_of
from vllm_logdoctor.fleet.rows import Rows, joined, rows_of_run
from vllm_logdoctor.fleet.schema import SCHEMA, Status
from vllm_logdoctor.fleet.values import plain
from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.report.document.model import DocumentOut
from vllm_logdoctor.report.json import encoded
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.results import OF_A_DEFECT
from vllm_logdoctor.selection import split_by_kind
from vllm_logdoctor.source.inputs import OTHER_TEXT, Input, inputs_of_paths, may_be_of_vllm


class ReadOptions(Struct, frozen=True):
    """How logs are read.

    Attributes:
        time_limit: seconds after which the reading of a log ends; at four times that its process ends.
        memory_limit: bytes that a log may take beyond what the process has.
        documents: whether the JSON report is kept.
        patterns: packs of the user.
    """

    time_limit: float = 60.0
    memory_limit: int = 1 << 30
    documents: bool = True
    patterns: tuple[str, ...] = ()


def engine_of(reading: ReadOptions) -> str:
    """Return what reads: version of logdoctor, digest of its patterns, number of the schema."""
    try:
        release = version("vllm-logdoctor")
    except PackageNotFoundError:
        release = "0"
    index, _ = load_all([Path(place) for place in reading.patterns])
    return f"{release} {index.digest[:8]} {SCHEMA}"


def read_log(log: Log, reading: ReadOptions, engine: str = "") -> Rows:
    """Return the rows of a log; what it can't be read for is its status."""
    began = time.perf_counter()
    status: Status
    analysis: Analysis | None = None
    try:
        status, note, analysis = _analysed(log, reading)
    except MemoryError:
        status, note = "too-large", f"more than {reading.memory_limit >> 20} MiB"
    except OSError as error:
        status, note = "unreadable", error.strerror or type(error).__name__
    except Exception as error:
        # A table holds no text of a log: the words of an exception can quote one.
        status, note = "defect", f"{type(error).__name__} {_place(error)}"
    rows = _rows(log, reading, analysis) if analysis is not None else {}
    row = log_row(log, status, note, engine)
    row["seconds"] = round(time.perf_counter() - began, 4)
    if analysis is not None:
        coverage = analysis.coverage
        row |= {
            "runs": len(analysis.runs), "lines": coverage.lines, "vllm_lines": coverage.vllm_lines,
            "recognised": coverage.recognised,
        }  # fmt: skip
    return {
        **{table: [{**one, "log": log.key} for one in found] for table, found in rows.items()},
        "logs": [row],
    }


def log_row(log: Log, status: str, note: str, engine: str) -> dict[str, Any]:
    """Return the row of a log without figures of its content."""
    job = job_of(log.files, _edges(log) if status in ("ok", "partial") else b"")
    path = plain(log.files[0])
    return {
        "log": log.key,
        "path": path,
        "files": [plain(file) for file in log.files],
        "state": log.state,
        "bytes": log.bytes,
        "modified": log.modified_utc,
        "job": plain(job.key if job else f"log {path}"),
        "job_number": job.number if job else None,
        "job_from": job.source if job else None,
        "status": status,
        "note": plain(note, 300) if note else None,
        "engine": engine,
        "runs": 0,
    }


def _analysed(log: Log, reading: ReadOptions) -> tuple[Status, str, Analysis | None]:
    if not all(Path(file).is_file() for file in log.files):
        return "unreadable", "no such file", None
    if log.bytes == 0:
        return "empty", "", None
    inputs = [_sniffed(one) for one in inputs_of_paths(log.files)]
    options = Options(patterns=tuple(map(Path, reading.patterns)), time_limit=reading.time_limit)
    try:
        analysis = analyse(inputs, options)
    except LogdoctorError as error:
        return *_refusal(inputs, error), None
    if any(OF_A_DEFECT in note for note in analysis.coverage.notes):
        return "defect", "analysed in part", analysis
    noted = [one.note for one in analysis.sources if one.note and one.kind == "log"]
    if noted or any("time limit" in note for note in analysis.coverage.notes):
        return "partial", "cut or damaged" if noted else f"time limit of {reading.time_limit:g} s", analysis
    if not analysis.runs:
        kinds = {one.kind for one in analysis.sources if one.kind != "log"}
        return "other-tool", ", ".join(sorted(kinds)), None
    servers = {one.run.server for one in analysis.runs} - {"vllm"}
    if servers and len(servers) == len({one.run.server for one in analysis.runs}):
        return "other-tool", ", ".join(sorted(servers)), analysis
    return "ok", "", analysis


def _sniffed(source: Input) -> Input:
    """Skip a large text without a word of vLLM in its beginning, as for the files of a directory."""
    if source.path is None or may_be_of_vllm(source.path):
        return source
    return Input(source.name, source.path, kind=OTHER_TEXT)


def _refusal(inputs: Sequence[Input], error: LogdoctorError) -> tuple[Status, str]:
    if error.exit_code == 4:
        others = {one.kind for one in split_by_kind(inputs).others} - {OTHER_TEXT}
        return ("other-tool", ", ".join(sorted(others))) if others else ("not-vllm", "")
    reason = error.__cause__
    return "unreadable", (
        reason.strerror if isinstance(reason, OSError) else None
    ) or "cut or damaged before its first byte"


def _rows(log: Log, reading: ReadOptions, analysis: Analysis) -> Rows:
    written = datetime.fromtimestamp(log.modified)
    rows = joined([rows_of_run(one, written) for one in analysis.runs])
    if reading.documents:
        rows["documents"] = [{"document": encoded(DocumentOut.of_analysis(analysis)).decode()}]
    return rows


def _edges(log: Log) -> bytes:
    """Return the beginning and the end of the first file; of a packed one its beginning."""
    source = Input(log.files[0], Path(log.files[0]))
    try:
        with source.open() as stream:
            head = stream.read(HEAD_BYTES)
        if not source.plain_path or log.bytes <= HEAD_BYTES:
            return head
        with open(log.files[0], "rb") as file:
            file.seek(-TAIL_BYTES, 2)
            return head + file.read(TAIL_BYTES)
    except (OSError, ValueError, EOFError, LogdoctorError):
        return b""


def _place(error: BaseException) -> str:
    """Return file and line of this program at which an exception was raised."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        code = trace.tb_frame.f_code
        place = f"{Path(code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
