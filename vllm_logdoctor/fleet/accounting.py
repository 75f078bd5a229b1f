"""Accounting of the batch system: sacct, qstat -xf, accounting logs of PBS or a CSV, one row per job."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.fleet.schema import arrow_schema
from vllm_logdoctor.fleet.store import Store, now, part_name
from vllm_logdoctor.run.job import pbs_job_end, seconds_of_time, slurm_job_end

Row = dict[str, Any]

_MOST_BYTES = 1 << 30
# gres/gpu:a100=4,gres/gpu=4
_TRES_CARDS = re.compile(r"gres/gpu(?::(?P<card>[\w.-]+))?=(?P<count>\d+)")
# 1:ngpus=4:ncpus=32+1:ncpus=1
_NGPUS = re.compile(r"(?:^|\+)(?:(\d+):)?[^+]*?\bngpus=(\d+)")
# 11/23/2026 00:20:21;E;7.head;user=ada start=1795393215 end=1795393221 Exit_status=0 resources_used.walltime=00:00:06
_PBS_RECORD = re.compile(
    r"^\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;(?P<type>\w+);(?P<job>[^;\n]*);(?P<fields>.*)$", re.MULTILINE
)
_TIMES = ("%Y-%m-%dT%H:%M:%S", "%a %b %d %H:%M:%S %Y", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d")


def add_accounting(store: Store, path: str) -> int:
    """Read a file of accounting into the store; return the number of jobs.

    Raises:
        LogdoctorError: can't be read, or is none of the known forms.
    """
    rows = read_accounting(path)
    if rows:
        added = now()
        store.create()
        table = pa.Table.from_pylist([{**row, "added": added} for row in rows], arrow_schema("accounting"))
        store.write_table(
            "accounting", part_name(sorted(str(sorted(row.items(), key=str)) for row in rows)), table
        )
    return len(rows)


def read_accounting(path: str) -> list[Row]:
    """Return one row per job of a file of accounting."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(_MOST_BYTES)
    except OSError as error:
        raise LogdoctorError(f"can't read {path}: {error.strerror or error}") from error
    reader = _reader(text)
    if reader is None:
        raise LogdoctorError(
            f"{path}: neither sacct -P, qstat -xf, an accounting log of PBS nor a CSV with the columns job and elapsed",
            2,
        )
    return [row for row in reader(text) if row["job_number"]]


def _reader(text: str) -> Callable[[str], Iterator[Row]] | None:
    head = text[:4096].lstrip()
    first = head.partition("\n")[0]
    if first.startswith("JobID") or "|JobID" in first:
        return _sacct
    if head.startswith("Job Id:"):
        return _qstat
    if _PBS_RECORD.match(head):
        return _pbs_log
    if head.startswith("{") and '"Jobs"' in head:
        return _qstat_json
    return _csv if {"job", "elapsed"} <= {name.strip().lower() for name in first.split(",")} else None


def _sacct(text: str) -> Iterator[Row]:
    lines = text.lstrip().splitlines()
    for fields in _split(lines):
        if "." in fields.get("JobID", ""):
            continue
        end = slurm_job_end(fields)
        cards, card = _of_tres(fields.get("AllocTRES") or fields.get("ReqTRES") or "")
        yield {
            "job_number": fields.get("JobID", "").strip(), "system": "slurm", "user": fields.get("User") or None,
            "state": fields.get("State") or None,
            "started": _time(fields.get("Start")), "ended": _time(fields.get("End")), "elapsed_s": end.elapsed, "cards": cards, "card": card,
            "nodes": _count(fields.get("NNodes") or fields.get("AllocNodes")),
        }  # fmt: skip


def _split(lines: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """Yield the rows of sacct: parsable, or in columns under a line of dashes."""
    if "|" in lines[0]:
        names = lines[0].split("|")
        for line in lines[1:]:
            yield dict(zip(names, line.split("|"), strict=False))
    elif len(lines) > 1 and set(lines[1]) <= {"-", " "}:
        spans = [found.span() for found in re.finditer(r"-+", lines[1])]
        names = [lines[0][start:end].strip() for start, end in spans]
        for line in lines[2:]:
            yield {name: line[start:end].strip() for name, (start, end) in zip(names, spans, strict=True)}


def _qstat(text: str) -> Iterator[Row]:
    # Long values go on in the next line, behind a tab.
    for block in text.replace("\n\t", "").split("Job Id:")[1:]:
        lines = block.splitlines()
        pairs = (line.partition(" = ") for line in lines[1:])
        yield _pbs_row(lines[0].strip(), {name.strip(): value.strip() for name, _, value in pairs})


def _qstat_json(text: str) -> Iterator[Row]:
    try:
        jobs = json.loads(text)["Jobs"]
    except (ValueError, KeyError, TypeError) as error:
        raise LogdoctorError(f"qstat -F json: {error}", 2) from error
    for name, job in jobs.items():
        fields = {key: str(value) for key, value in job.items() if not isinstance(value, dict)}
        for group in ("resources_used", "Resource_List"):
            fields |= {f"{group}.{key}": str(value) for key, value in job.get(group, {}).items()}
        yield _pbs_row(name, fields)


def _pbs_log(text: str) -> Iterator[Row]:
    """Yield the jobs that ended, of which the log of a PBS server has one record each."""
    for record in _PBS_RECORD.finditer(text):
        if record["type"] == "E":
            pairs = (part.partition("=") for part in record["fields"].split())
            yield _pbs_row(record["job"], {name: value for name, _, value in pairs})


def _pbs_row(name: str, fields: Mapping[str, str]) -> Row:
    end = pbs_job_end(fields)
    started = _time(fields.get("stime") or fields.get("start"))
    return {
        "job_number": name.partition(".")[0], "system": "pbs", "user": fields.get("user") or fields.get("Job_Owner", "").partition("@")[0] or None,
        "state": f"{fields.get('job_state', '')} {end.words}".strip() or None, "started": started,
        "ended": _time(fields.get("end") or fields.get("obittime") or fields.get("mtime")) if started else None, "elapsed_s": end.elapsed,
        "cards": _pbs_cards(fields), "card": fields.get("Resource_List.gpu_type") or None, "nodes": _count(fields.get("Resource_List.nodect")),
    }  # fmt: skip


def _pbs_cards(fields: Mapping[str, str]) -> int | None:
    if (total := _count(fields.get("Resource_List.ngpus"))) is not None:
        return total
    chunks = _NGPUS.findall(fields.get("Resource_List.select", ""))
    return sum(int(number or 1) * int(cards) for number, cards in chunks) if chunks else None


def _csv(text: str) -> Iterator[Row]:
    rows = csv.reader(text.splitlines())
    names = [name.strip().lower() for name in next(rows)]
    for values in rows:
        row = dict(zip(names, (value.strip() for value in values), strict=False))
        yield {
            "job_number": row.get("job", "").partition(".")[0], "system": "csv", "user": row.get("user") or None, "state": row.get("state") or None,
            "started": _time(row.get("start")), "ended": _time(row.get("end")), "elapsed_s": seconds_of_time(row.get("elapsed", "")),
            "cards": _count(row.get("cards")), "card": row.get("card") or None, "nodes": _count(row.get("nodes")),
        }  # fmt: skip


def _of_tres(text: str) -> tuple[int | None, str | None]:
    found = [(match["card"], int(match["count"])) for match in _TRES_CARDS.finditer(text)]
    named = next((card for card, _ in found if card), None)
    return max((count for _, count in found), default=0 if "cpu=" in text else None), named


def _time(text: str | None) -> datetime | None:
    if text and text.isdigit() and len(text) < 12:
        return datetime.fromtimestamp(int(text))
    for form in _TIMES if text else ():
        try:
            return datetime.strptime(str(text), form)
        except ValueError:
            continue
    return None


def _count(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() and len(text) < 9 else None
