"""The store: parts count with their manifest; check, compact, forget; nothing else is taken for a store."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.fleet.library import Fleet
from vllm_logdoctor.fleet.rows import rows_of_run
from vllm_logdoctor.fleet.schema import TABLES, arrow_schema
from vllm_logdoctor.fleet.store import Store
from vllm_logdoctor.pipeline import analyse
from vllm_logdoctor.source import Input

STARVED = Path(__file__).parents[2] / "fixtures" / "vllm-0.11.2-kv-starved.log"


def test_a_directory_of_other_files_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(LogdoctorError, match="no store"):
        Store(tmp_path)


def test_a_store_of_a_newer_schema_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store.json").write_text('{"schema": 99}')
    with pytest.raises(LogdoctorError, match="schema 99"):
        Store(tmp_path)


def test_a_part_without_its_manifest_counts_nowhere_and_is_named(fleet: Fleet) -> None:
    runs = fleet.table("runs").num_rows
    part = fleet.store.parts("runs")[0]
    fleet.store.file("logs", part).rename(fleet.store.path / "aside")
    assert fleet.table("runs").num_rows < runs
    assert any(part in path for path in fleet.check().left_over)


def test_compacting_joins_parts_and_keeps_all_rows(fleet: Fleet, logs: Path) -> None:
    (logs / "more.log").write_text(
        "INFO 07-16 12:29:43 [api_server.py:1289] vLLM API server version 0.11.2\n"
    )
    fleet.add([logs], jobs=1)
    before = {table: fleet.table(table).num_rows for table in TABLES}
    assert len(fleet.store.parts()) > 1
    fleet.compact()
    assert len(fleet.store.parts()) == 1
    assert {table: fleet.table(table).num_rows for table in TABLES} == before
    assert fleet.add([logs], jobs=1).read == 0


def test_compacting_drops_what_a_newer_reading_replaced(fleet: Fleet, logs: Path) -> None:
    with (logs / "slurm-101.out").open("a") as file:
        file.write("\n")
    fleet.add([logs], jobs=1)
    assert fleet.check().superseded == 1
    fleet.compact()
    assert fleet.check().superseded == 0
    assert fleet.store.dataset("logs").count_rows() == 7


def test_forgotten_logs_are_gone_from_every_file(fleet: Fleet, logs: Path) -> None:
    assert fleet.forget([logs / "slurm-101.out"]) == [str(logs / "slurm-101.out")]
    assert fleet.table("logs").num_rows == 6
    for table in TABLES:
        for part in fleet.store.parts(table):
            assert b"slurm-101" not in fleet.store.file(table, part).read_bytes()


def test_a_column_that_a_later_version_adds_is_null_in_older_parts(fleet: Fleet) -> None:
    part = fleet.store.parts("runs")[0]
    rows = fleet.store.dataset("runs").to_table().drop_columns(["ceiling_share"])
    fleet.store.write_table("runs", part, rows)
    assert fleet.table("runs")["ceiling_share"].null_count == rows.num_rows


def test_damage_is_named(fleet: Fleet) -> None:
    part = fleet.store.parts("runs")[0]
    fleet.store.file("runs", part).write_bytes(b"PAR1 no")
    assert "damaged" in fleet.check().problems[0]


def test_every_column_has_a_type_and_the_key(tmp_path: Path) -> None:
    for table in TABLES:
        schema = arrow_schema(table)
        assert len(schema) == len(TABLES[table])
        assert table == "accounting" or schema.field("log").type == pa.string()


def row_of_change(**fields: object) -> dict[str, Any]:
    """Return the row of a plan with one change."""
    (diagnosis, *_) = analyse([Input(str(STARVED), STARVED)]).runs
    (first, *_) = diagnosis.plan.changes
    plan = replace(diagnosis.plan, changes=(replace(first, change=replace(first.change, **fields)),))
    (row,) = rows_of_run(replace(diagnosis, plan=plan), datetime(2026, 11, 1))["changes"]
    return row


def test_a_change_of_a_mapping_is_written_as_on_the_command_line() -> None:
    row = row_of_change(
        kind="flag", knob="--speculative-config", after={"method": "ngram", "num_speculative_tokens": 2}
    )
    assert row["after"] == '{"method": "ngram", "num_speculative_tokens": 2}'


def test_what_an_action_is_about_is_a_hash() -> None:
    row = row_of_change(kind="action", knob="update the model", after="'A' object has no attribute 'b'")
    assert row["after"].startswith("text:")
