"""SQL over the tables: one query of DuckDB, read-only, without access to anything else."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.fleet.facts import job_rows, jobs_of
from vllm_logdoctor.fleet.schema import TABLES
from vllm_logdoctor.fleet.store import Store


def ask(store: Store, query: str) -> pa.Table:
    """Return the answer to one SELECT over the tables and the view `jobs` (one row per job, hours by accounting).

    Raises:
        LogdoctorError: duckdb is not installed, or the query is no single SELECT or fails (exit code 2).
    """
    try:
        import duckdb
    except ImportError as error:
        raise LogdoctorError("fleet ask needs duckdb: pip install 'vllm-logdoctor[fleet]'", 2) from error
    settings: dict[str, Any] = {
        "enable_external_access": "false",
        "autoload_known_extensions": "false",
        "autoinstall_known_extensions": "false",
    }
    with duckdb.connect(":memory:", config=settings) as connection:
        try:
            statements = connection.extract_statements(query)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise LogdoctorError("fleet ask takes one SELECT", 2)
            words = query.lower()
            for name in TABLES:
                if name in words:
                    connection.register(name, store.table(name))
            if "jobs" in words:
                connection.register("jobs", _jobs(store))
            connection.execute("SET lock_configuration = true")
            return connection.sql(query).to_arrow_table()
        except duckdb.Error as error:
            raise LogdoctorError(
                f"SQL: {str(error).splitlines()[0]}; the tables are {', '.join(TABLES)}, jobs", 2
            ) from error


def _jobs(store: Store) -> Any:
    schema = pa.schema(
        [
            ("job", pa.string()), ("job_number", pa.string()), ("path", pa.string()), ("user", pa.string()), ("logs", pa.int64()),
            ("runs", pa.int64()), ("outcome", pa.string()), ("root", pa.string()), ("model", pa.string()), ("release", pa.string()),
            ("started", pa.timestamp("ms")), ("hours", pa.float64()), ("card_hours", pa.float64()), ("hours_from", pa.string()),
        ]
    )  # fmt: skip
    return pa.Table.from_pylist(job_rows(jobs_of(store)), schema)
