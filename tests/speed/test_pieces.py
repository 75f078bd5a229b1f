"""However a log is cut and whoever scans it, the report is the same to the byte."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.hostile import HOSTILE
from benchmarks.logs import MIXES, Mix, Truth, pieces
from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.report.json import render
from vllm_logdoctor.source import Input, inputs_from
from vllm_logdoctor.source.chunks import LONGEST_LINE

FIXTURES = sorted((Path(__file__).resolve().parents[2] / "fixtures").glob("*.log"))
slow = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))


def report(source: Path | bytes, **options: object) -> str:
    inputs = inputs_from(str(source)) if isinstance(source, Path) else [Input("vllm.log", data=source)]
    return render(analyse(inputs, Options(**options)))  # type: ignore[arg-type]


def mixed(mix: Mix, megabytes: float = 0.12) -> tuple[bytes, Truth]:
    truth = Truth()
    return b"".join(pieces(megabytes, mix, truth)), truth


@pytest.mark.parametrize("fixture", FIXTURES[::12], ids=lambda path: path.stem)
def test_two_processes_with_tiny_pieces_report_what_one_does(fixture: Path) -> None:
    assert report(fixture, jobs=2, chunk_bytes=700) == report(fixture)


@pytest.mark.parametrize("mix", MIXES)
def test_processes_report_what_one_does_when_gates_are_narrowed_on_the_way(mix: Mix, tmp_path: Path) -> None:
    log = tmp_path / "big.log"
    # Enough pieces for routine lines to be found by columns.
    log.write_bytes(mixed(mix, 0.4)[0])
    alone = report(log)
    assert report(log, jobs=3, chunk_bytes=9_000) == alone
    assert report(log, chunk_bytes=5_000) == alone


def test_bytes_that_no_process_can_read_again_are_handed_over(tmp_path: Path) -> None:
    data = mixed("requests")[0]
    packed = tmp_path / "vllm.log.gz"
    packed.write_bytes(gzip.compress(data))
    assert report(packed, jobs=2, chunk_bytes=20_000) == report(packed)
    assert report(data, jobs=2, chunk_bytes=20_000) == report(data)


@pytest.mark.parametrize(
    "odd", [b"\0" * 7, "\u00a0".encode(), b"x" * 70_000 + b"\n", b"y" * (LONGEST_LINE + 5) + b"\n", b""]
)
def test_odd_bytes_in_the_middle_and_at_the_end_change_no_report(odd: bytes, tmp_path: Path) -> None:
    data = mixed("access")[0]
    half = data.index(b"\n", len(data) // 2) + 1
    log = tmp_path / "vllm.log"
    log.write_bytes(data[:half] + odd + data[half:].rstrip(b"\n") + odd)
    assert report(log, jobs=2, chunk_bytes=20_000) == report(log)


@pytest.mark.parametrize("mix", MIXES)
def test_counts_are_exact(mix: Mix) -> None:
    data, truth = mixed(mix)
    document = json.loads(report(data))
    serving = document["runs"][0]["serving"]
    assert document["sources"][0]["lines"] == truth.lines
    assert serving["samples"] == truth.statistics
    assert {str(status): count for status, count in serving["requests"]["by_status"].items()} == dict(
        truth.status
    )
    assert document["coverage"]["tracebacks"] == truth.tracebacks


@pytest.mark.parametrize("mix", ["requests", "debug", "trace"])
def test_hyperscan_and_pure_python_say_the_same(mix: Mix) -> None:
    data = mixed(mix, 0.03)[0]
    assert report(data, pure_python=True) == report(data)


@slow
@given(
    st.lists(st.sampled_from(mixed("requests", 0.02)[0].splitlines(keepends=True)), max_size=40),
    st.integers(1, 300),
)
def test_request_lines_in_any_order_are_counted_alike_for_any_chunk_size(
    lines: list[bytes], chunk_bytes: int
) -> None:
    data = mixed("requests", 0.001)[0] + b"".join(lines)
    assert report(data, chunk_bytes=chunk_bytes) == report(data)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_logs_get_a_report(name: str) -> None:
    assert json.loads(report(b"".join(HOSTILE[name](40_000))))["runs"]


def test_a_thousand_runs_are_counted_and_the_report_says_so() -> None:
    document = json.loads(report(b"".join(HOSTILE["runs"](60_000))))
    told, note = len(document["runs"]), document["coverage"]["notes"][0]
    assert told == 200
    assert "more runs" in note


def test_a_line_longer_than_the_longest_is_cut_at_the_same_place_for_any_chunk_size() -> None:
    data = mixed("access", 0.001)[0] + b"x" * (3 << 20) + b" GPU KV cache size: 5 tokens\n"
    assert report(data, chunk_bytes=100_003) == report(data) == report(data, chunk_bytes=1 << 22)
