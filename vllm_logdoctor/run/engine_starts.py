"""Whether a start in a file is of another engine or server than that of the run above it."""

from __future__ import annotations

from vllm_logdoctor.events import Event
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Process, Record
from vllm_logdoctor.run.builder import RunBuilder

_AT_ONCE = 5.0
"""Seconds within which two engines of one name were started side by side: a start takes longer than that to get there."""
_BEFORE = 1.0
"""Seconds by which a line is older than another one, whatever buffers did to their order."""
_INDEX = lazy_pattern(r"\d+")
_ADDRESS = lazy_pattern(r"[\d.]+|[\da-fA-F:]*:[\da-fA-F:]*")


def is_new_engine(run: RunBuilder, event: Event) -> bool:
    """Return whether an engine's configuration line is of another life than the engine of a run."""
    record, process = event.record, event.record.process
    if _is_other_kind(run, event):
        return True
    same_name = run.openers.get(f"engine {process.name}")
    if same_name is not None and in_other_container(same_name, process):
        return True
    if same_name is None or _is_repeated(run, record) or _is_started_beside(run, same_name, record):
        return False
    if same_name.rank != process.rank and same_name.rank and process.rank:
        return False
    return same_name.pid == process.pid or not siblings(same_name, process)


def is_older(run: RunBuilder, record: Record) -> bool:
    """Return whether a start began before the engine of a run, or before all of a piece that served or failed.

    Then lines of another server follow those of the run: a dump of the logs of several containers.
    """
    unnamed = (
        record.process.pid is not None and not record.process.name
    )  # Ray's actors, before they have a name.
    if unnamed or run.clock.backwards:
        return False
    engine = run.messages.get("engine-config")
    if engine is None and not had_a_life(run):
        return False
    first = engine.first[0].record.time if engine is not None else run.clock.oldest
    if first is None or record.time is None:
        return False
    return record.time + run.year_shift < first - _BEFORE


def in_other_container(a: Process, b: Process) -> bool:
    """Return whether wrappers name two containers or nodes; Ray names other nodes of the same server by their address."""
    named = all(one.host and not _ADDRESS.fullmatch(one.host) for one in (a, b))
    return named and a.host != b.host


def had_a_life(run: RunBuilder) -> bool:
    """Return whether a log begins in the middle of a server that served or failed; prose before a log is no life."""
    served = run.ready and bool(run.vllm_records or run.accesses)
    return served or "uvicorn-stopping" in run.messages or (run.troubled and run.vllm_records > 0)


def siblings(a: Process, b: Process) -> bool:
    """Return whether two processes are of one run: API servers, Ray actors or ranks with the same kind of name and another number."""
    if a.name == b.name:
        return bool(a.rank and b.rank and a.rank != b.rank)
    return _INDEX.sub("#", a.name) == _INDEX.sub("#", b.name)


def _is_other_kind(run: RunBuilder, event: Event) -> bool:
    """Return whether an engine is of another release than that of a run, or its core has a name of another kind."""
    seen = run.messages.get("engine-config")
    if seen is None:
        return False
    both = (seen.first[0], event)
    releases = {one.text("version") for one in both} - {""}
    cores = [one.record.process for one in both if one.record.process.role == "engine-core"]
    return len(releases) > 1 or len({_INDEX.sub("#", core.name) for core in cores}) > 1


def _is_repeated(run: RunBuilder, record: Record) -> bool:
    """Return whether the same line was written at the same second: by two captures of one stream, or by two ranks."""
    seen = run.messages.get("engine-config")
    before = seen.last.record if seen and seen.last else None
    if before is None or before.message != record.message:
        return False
    time = None if record.time is None else record.time + run.year_shift
    return before.time == time


def _is_started_beside(run: RunBuilder, first: Process, record: Record) -> bool:
    """Return whether an engine of the same model begins while the first of its name is starting: servers of one Ray job."""
    seen = run.messages.get("engine-config")
    before = seen.last.record if seen and seen.last else None
    if before is None or run.troubled or None in (before.time, record.time, first.pid, record.process.pid):
        return False
    time = (record.time or 0.0) + run.year_shift
    same_model = before.message.partition(", ")[0] == record.message.partition(", ")[0]
    return same_model and first.pid != record.process.pid and 0 <= time - (before.time or 0.0) <= _AT_ONCE
