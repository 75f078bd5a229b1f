"""Keeps a store in order: finds what is damaged or left over, joins small parts, deletes logs."""

from __future__ import annotations

import fnmatch
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct, field

from vllm_logdoctor.fleet.inventory import key_of
from vllm_logdoctor.fleet.schema import DETAIL, FORGOTTEN, TABLES, arrow_schema
from vllm_logdoctor.fleet.store import RUNNING, TABLE_COLUMNS, Store, now, part_name, rows_of

_LOGS_IN_PART = 50_000
_STALE_SECONDS = 86_400.0


class Health(Struct):
    """State of a store.

    Attributes:
        parts, logs, superseded: parts that count, logs in them, rows that a newer reading replaced.
        bytes: by table.
        statuses: logs by status.
        problems: what is damaged, one line each.
        left_over: files without a manifest, of a worker that ended before it was done; they count nowhere.
    """

    parts: int = 0
    logs: int = 0
    superseded: int = 0
    bytes: dict[str, int] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    left_over: list[str] = field(default_factory=list)


def check(store: Store) -> Health:
    """Return the state of a store; nothing is changed."""
    health = Health(left_over=[str(path) for path in _left_over(store)])
    valid = set(store.parts("logs"))
    for table in TABLES:
        for part in store.parts(table):
            file = store.file(table, part)
            health.bytes[table] = health.bytes.get(table, 0) + file.stat().st_size
            try:
                found = pq.read_schema(file)
            except (OSError, pa.ArrowException) as error:
                health.problems.append(
                    f"{file}: {type(error).__name__}: damaged; delete it and its part of logs, then add again"
                )
                continue
            retyped = [
                one.name
                for one in found
                if one.name in TABLE_COLUMNS[table] and one.type != arrow_schema(table).field(one.name).type
            ]
            health.problems += [f"{file}: column {name} has another type" for name in retyped]
    if not health.problems:
        rows = store.dataset("logs").count_rows()
        newest = store.newest()
        health.parts, health.logs, health.superseded = len(valid), newest.num_rows, rows - newest.num_rows
        health.statuses = dict(Counter(newest["status"].to_pylist()).most_common())
    return health


def compact(store: Store) -> int:
    """Join parts, drop superseded, forgotten and left-over rows; return the number of parts before.

    The new part is complete before the manifests of the old ones go: a reader, or an `add` at the same time, sees each log once.
    """
    for path in _left_over(store, older_than=_STALE_SECONDS):
        with suppress(OSError):
            os.unlink(path)
    parts = store.parts("logs")
    newest = store.newest()
    counts = Counter(newest["part"].to_pylist())
    for group in _groups(parts, counts):
        if len(group) > 1 or _has_dropped(store, group[0], counts[group[0]]):
            _join(store, group, newest)
    _compact_accounting(store)
    return len(parts)


def forget(store: Store, paths: Iterable[str]) -> list[str]:
    """Delete all rows of logs; return the paths of those that were there.

    Args:
        paths: a file of the log, a directory, or a glob over the paths as the store has them.
    """
    logs = store.table("logs", ["path", "files"])
    gone: dict[str, str] = {}
    patterns = [(key_of(path), os.path.abspath(path)) for path in paths]
    for row in logs.to_pylist():
        for key, path in patterns:
            below = row["path"].startswith(path.rstrip("/") + "/")
            if row["log"] == key or below or path in row["files"] or fnmatch.fnmatchcase(row["path"], path):
                gone[row["log"]] = row["path"]
    if gone:
        added = now()
        rows = [{"log": log, "status": FORGOTTEN, "added": added} for log in gone]
        store.write_part(part_name(gone, [str(added)]), {"logs": rows})
        compact(store)
    return sorted(gone.values())


def _join(store: Store, group: Sequence[str], newest: pa.Table) -> None:
    name = part_name(["compact"], group, [str(now())])
    for table in (*DETAIL, "logs"):
        present = [part for part in group if store.file(table, part).exists()]
        kept = [found for part in present if (found := _kept(store, table, part, newest, name)).num_rows]
        if kept:
            store.write_table(table, name, pa.concat_tables(kept))
    for table in ("logs", *DETAIL):
        for part in group:
            store.file(table, part).unlink(missing_ok=True)


def _kept(store: Store, table: str, part: str, newest: pa.Table, name: str) -> pa.Table:
    schema = arrow_schema(table)
    rows = rows_of(pq.read_table(store.file(table, part), schema=schema), newest)
    return rows.set_column(
        schema.get_field_index("part"), schema.field("part"), pa.array([name] * rows.num_rows, pa.string())
    )


def _groups(parts: Sequence[str], counts: Counter[str]) -> Iterator[list[str]]:
    group: list[str] = []
    logs = 0
    for part in parts:
        if group and logs + counts[part] > _LOGS_IN_PART:
            yield group
            group, logs = [], 0
        group.append(part)
        logs += counts[part]
    if group:
        yield group


def _has_dropped(store: Store, part: str, kept: int) -> bool:
    return bool(pq.read_metadata(store.file("logs", part)).num_rows != kept)


def _compact_accounting(store: Store) -> None:
    parts = store.parts("accounting")
    if len(parts) > 1:
        store.write_table("accounting", part_name(parts), store.table("accounting"))
        for part in parts:
            store.file("accounting", part).unlink(missing_ok=True)


def _left_over(store: Store, older_than: float = 0.0) -> Iterator[str]:
    """Yield temporary files, parts without a manifest, and notes of workers that are gone."""
    manifests = set(store.parts("logs"))
    before = time.time() - older_than
    for table in (*TABLES, RUNNING):
        folder = store.path / table
        for name in sorted(os.listdir(folder)) if folder.is_dir() else ():
            part = name.removesuffix(".parquet")
            is_left = name.startswith(".") or table == RUNNING or (table in DETAIL and part not in manifests)
            with suppress(OSError):
                if is_left and (folder / name).stat().st_mtime <= before:
                    yield str(folder / name)
