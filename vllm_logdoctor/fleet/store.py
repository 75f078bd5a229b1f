"""A store: whole parts of Parquet tables; a part counts once its rows of the table `logs` are there.

    STORE/store.json                 number of the schema
    STORE/<table>/<part>.parquet     rows of one batch of logs
    STORE/.running/<batch>           the log that a worker reads at the moment

A worker writes its part of every table to a temporary name, renames it, and writes `logs` last: that file is the manifest, so
that there is no second state to disagree with. A part is named by the hash of its logs: a batch that is done twice replaces
itself. Of several rows of one log the newest counts, and with it the rows of the same part in all other tables.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.files import write_whole
from vllm_logdoctor.fleet.rows import Rows
from vllm_logdoctor.fleet.schema import DETAIL, FORGOTTEN, SCHEMA, TABLES, arrow_schema

MARKER = "store.json"
RUNNING = ".running"
_ENDING = ".parquet"


class Store:
    """The tables of a directory.

    Args:
        path: the directory; one that does not exist is an empty store.

    Raises:
        LogdoctorError: the directory holds something else, or a store of a newer schema (exit code 2).
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.abspath(path))
        marker = self.path / MARKER
        if marker.is_file():
            schema = _number(marker)
            if schema != SCHEMA:
                raise LogdoctorError(f"{path}: a store of schema {schema}, this logdoctor knows {SCHEMA}", 2)
        elif (self.path.is_dir() and any(self.path.iterdir())) or self.path.is_file():
            raise LogdoctorError(
                f"{path} is no store of logdoctor fleet, and not empty: name another directory", 2
            )

    def create(self) -> None:
        """Make the directory where it is not there.

        Raises:
            OSError: it can't be written.
        """
        (self.path / RUNNING).mkdir(parents=True, exist_ok=True)
        marker = self.path / MARKER
        if not marker.is_file():
            write_whole(marker, f"{json.dumps({'schema': SCHEMA})}\n".encode())

    @property
    def exists(self) -> bool:
        """Return whether anything was ever added."""
        return (self.path / MARKER).is_file()

    def parts(self, table: str = "logs") -> list[str]:
        """Return the names of a table's parts, in order."""
        try:
            with os.scandir(self.path / table) as entries:
                names = [entry.name for entry in entries]
        except FileNotFoundError:
            return []
        return sorted(
            name.removesuffix(_ENDING)
            for name in names
            if name.endswith(_ENDING) and not name.startswith(".")
        )

    def write_part(self, part: str, rows: Rows) -> None:
        """Write the rows of a batch: every table whole or not at all, `logs` last.

        Raises:
            OSError: no space, no permission; what was there stays valid.
        """
        for table in (*DETAIL, "logs"):
            if found := rows.get(table):
                whole = [{**row, "part": part} for row in found]
                self.write_table(table, part, pa.Table.from_pylist(whole, arrow_schema(table)))

    def write_table(self, table: str, part: str, rows: pa.Table) -> None:
        """Write a part of one table: a temporary file, then a rename."""
        folder = self.path / table
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f".{part}.{os.getpid()}.tmp"
        try:
            with open(temporary, "wb") as file:
                level = 9 if table == "documents" else 3
                pq.write_table(rows, file, compression="zstd", compression_level=level, store_schema=False)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.file(table, part))
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise

    def file(self, table: str, part: str) -> Path:
        """Return the file of a part of a table."""
        return self.path / table / f"{part}{_ENDING}"

    def dataset(self, table: str) -> ds.Dataset:
        """Return all rows of the parts that count, superseded ones too."""
        present = set(self.parts(table))
        parts = self.parts(table if table == "accounting" else "logs")
        files = [str(self.file(table, part)) for part in parts if part in present]
        schema = arrow_schema(table)
        if not files:
            return ds.dataset(schema.empty_table())
        return ds.dataset(files, schema=schema, format="parquet")

    def newest(self) -> pa.Table:
        """Return log, part, state, engine and status of the newest row of each log, forgotten ones left out."""
        columns = ["log", "part", "added", "state", "engine", "status"]
        rows = self.dataset("logs").to_table(columns=columns)
        rows = rows.sort_by([("log", "ascending"), ("added", "descending"), ("part", "descending")])
        rows = rows.filter(_first_of_each(rows["log"]))
        return rows.filter(pc.not_equal(rows["status"], FORGOTTEN))

    def table(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of a table that count.

        Raises:
            LogdoctorError: no such table (exit code 2).
        """
        if name not in TABLES:
            raise LogdoctorError(f"no table {name!r}; there are {', '.join(TABLES)}", 2)
        if name == "accounting":
            rows = self.dataset(name).to_table()
            rows = rows.sort_by([("job_number", "ascending"), ("added", "descending")])
            return rows.filter(_first_of_each(rows["job_number"]))
        wanted = None if columns is None else list(dict.fromkeys((*columns, "log", "part")))
        rows = self.dataset(name).to_table(columns=wanted)
        newest = self.newest()
        if rows.num_rows == 0 or newest.num_rows == self.dataset("logs").count_rows():
            return rows
        return rows_of(rows, newest)

    def documents(self, logs: Collection[str]) -> list[str]:
        """Return the JSON reports of logs."""
        newest = self.newest()
        parts = dict(zip(newest["log"].to_pylist(), newest["part"].to_pylist(), strict=True))
        rows = self.dataset("documents").to_table(filter=pc.field("log").isin(list(logs))).to_pylist()
        return [row["document"] for row in rows if parts.get(row["log"]) == row["part"]]

    def running(self, batch: str) -> Path:
        """Return the file that names the log which the worker of a batch reads."""
        return self.path / RUNNING / batch


TABLE_COLUMNS: Mapping[str, tuple[str, ...]] = {
    name: tuple(one.name for one in columns) for name, columns in TABLES.items()
}


def now() -> int:
    """Return milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def part_name(*words: Iterable[str]) -> str:
    """Return the name of a part by what it holds."""
    text = "\0".join(word for group in words for word in group)
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


def rows_of(rows: pa.Table, newest: pa.Table) -> pa.Table:
    """Return the rows that belong to the newest reading of their log."""
    valid, keys = (pc.binary_join_element_wise(one["log"], one["part"], "/") for one in (newest, rows))
    return rows.filter(pc.is_in(keys, valid.combine_chunks()))


def _first_of_each(keys: pa.ChunkedArray) -> pa.Array:
    """Return whether each of the sorted keys is the first of its kind."""
    if len(keys) == 0:
        return pa.array([], pa.bool_())
    combined = keys.combine_chunks()
    differs = pc.not_equal(combined.slice(1), combined.slice(0, len(combined) - 1))
    return pa.concat_arrays(
        [pa.array([True]), differs.combine_chunks() if isinstance(differs, pa.ChunkedArray) else differs]
    )


def _number(marker: Path) -> Any:
    try:
        return json.loads(marker.read_text("utf-8"))["schema"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LogdoctorError(f"can't read {marker}: {error}") from error
