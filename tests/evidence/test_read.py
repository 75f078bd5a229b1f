"""Files beside the log are recognized by content, and give the values that a person would copy."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evidence.samples import READINGS, SAMPLES
from vllm_logdoctor.evidence.kinds import KINDS, kind_of
from vllm_logdoctor.evidence.read import MOST_READINGS, read_evidence

FIXTURES = sorted((Path(__file__).resolve().parents[2] / "fixtures").glob("*.log"))


def test_every_kind_has_a_sample_and_a_reading() -> None:
    assert {kind.name for kind in KINDS} == SAMPLES.keys()
    # A database is no text: tests of the profiles write one.
    assert SAMPLES.keys() - READINGS.keys() == {"nsys-sqlite"}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_kind_is_recognized_by_content(name: str) -> None:
    kind = kind_of(SAMPLES[name])
    assert kind is not None
    assert kind.name == name


@pytest.mark.parametrize("name", SAMPLES)
def test_no_other_kind_that_is_tried_earlier_claims_a_sample(name: str) -> None:
    claims = [kind.name for kind in KINDS if kind.recognizes(SAMPLES[name])]
    assert claims[0] == name


@pytest.mark.parametrize("name", READINGS)
def test_a_value_is_read_with_its_line(name: str) -> None:
    wanted, subject, value, line = READINGS[name]
    readings = read_evidence(name, SAMPLES[name].encode()).readings
    found = [one for one in readings if one.name == wanted and one.subject == subject]
    assert [(one.value, one.line) for one in found][:1] == [(value, line)]


@pytest.mark.parametrize("log", FIXTURES, ids=lambda path: path.stem)
def test_a_log_of_a_server_is_no_evidence(log: Path) -> None:
    head = log.read_text(encoding="utf-8", errors="replace")[:65536]
    kind = kind_of(head)
    # A client's result may lie in the log of its server: what such a file is, who gives it decides.
    assert kind is None or (kind.name == "vllm-bench-text" and "Benchmark Result" in head)


def test_a_quantile_is_the_bounds_of_its_bucket_and_never_a_point() -> None:
    readings = {one.name: one for one in read_evidence("m", SAMPLES["prometheus-text"].encode()).readings}
    assert readings["TTFT p95 lies in"].value == [0.1, 1.0]
    assert readings["TTFT mean"].value == 0.5


def test_busy_time_counts_overlapping_kernels_once() -> None:
    readings = {
        one.name: one.value for one in read_evidence("t", SAMPLES["torch-chrome-trace"].encode()).readings
    }
    assert (readings["kernel time"], readings["kernel span"]) == (20, 15)


def test_a_truncated_trace_gives_its_whole_events() -> None:
    whole = SAMPLES["torch-chrome-trace"]
    cut = whole[: whole.index('{"cat": "cpu_op"') + 8]
    readings = {one.name: one.value for one in read_evidence("t", cut.encode()).readings}
    assert readings["kernel events"] == 2


def test_packed_files_are_unpacked_and_truncated_ones_say_so() -> None:
    packed = gzip.compress(SAMPLES["free"].encode())
    assert read_evidence("free.gz", packed).kind == "free"
    assert read_evidence("free.gz", packed[:-6]).note == "truncated gz"


def test_secrets_of_an_environment_are_masked() -> None:
    text = SAMPLES["collect-env"] + "HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345\n"
    shown = str(read_evidence("env.txt", text.encode()).readings)
    assert "HF_TOKEN" in shown
    assert "abcdefghijkl" not in shown


def test_a_file_gives_at_most_so_many_readings_and_says_what_it_left_out() -> None:
    rows = "".join(f"{pid} root 20 0 1 1 1 S 1.0 1.0 0:01 python\n" for pid in range(30))
    cards = "".join(f"GPU {n}: T (UUID: x)\n\t Link 0: 26.5 GB/s\n" for n in range(60))
    assert len(read_evidence("top", (SAMPLES["top"] + rows).encode()).readings) < MOST_READINGS
    found = read_evidence("links", cards.encode())
    assert len(found.readings) == MOST_READINGS
    assert "left out" in found.note


@given(st.sampled_from(sorted(SAMPLES)), st.data())
def test_damaged_files_never_raise(name: str, data: st.DataObject) -> None:
    whole = SAMPLES[name].encode()
    start = data.draw(st.integers(0, len(whole)))
    length = data.draw(st.integers(0, 12))
    junk = data.draw(st.binary(max_size=12))
    damaged = whole[:start] + junk + whole[start + length :]
    assert len(read_evidence(name, damaged).readings) <= MOST_READINGS
