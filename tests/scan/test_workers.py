"""Processes find in pieces what one process finds, and hand it back in order."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from benchmarks.logs import MIXES, Mix, Truth, pieces
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.scan import LineFilter, Prefilter, Scanned, Scanner, build_prefilter
from vllm_logdoctor.scan.workers import Workers, dumps, loads
from vllm_logdoctor.source import Chunk, FileSlice

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes inherit nothing here")
LITERALS = ("Avg prompt throughput: ", "KV cache", "Evicted block", "HTTP/1.1")
INTEREST = LineFilter(count_before=frozenset({0}))


def scanner(prefilter: Prefilter | None = None) -> Scanner:
    return Scanner(prefilter or build_prefilter(LITERALS), INTEREST)


def text(mix: Mix = "requests", megabytes: float = 0.2) -> bytes:
    return b"".join(pieces(megabytes, mix, Truth()))


def chunks_of(data: bytes, lines: int = 4) -> list[Chunk]:
    split = data.splitlines(keepends=True)
    return [Chunk(0, at + 1, b"".join(split[at : at + lines])) for at in range(0, len(split), lines)]


def found_by(workers: int, chunks: list[Chunk]) -> list[Scanned]:
    prefilter = build_prefilter(LITERALS)
    with Workers(workers, scanner(prefilter)) as pool:
        return [scanned for _, scanned in pool.scan(chunks)]


@pytest.mark.parametrize("workers", [1, 3])
def test_answers_come_in_order_and_are_those_of_one_scanner(workers: int) -> None:
    chunks = chunks_of(text())
    assert len(chunks) > 20
    assert found_by(workers, chunks) == list(map(scanner().scan, (chunk.data for chunk in chunks)))


def test_a_file_that_is_open_is_read_by_who_scans_it(tmp_path: Path) -> None:
    path = tmp_path / "vllm.log"
    chunks = chunks_of(text())
    path.write_bytes(b"".join(chunk.data for chunk in chunks))
    prefilter = build_prefilter(LITERALS)
    with path.open("rb") as file:
        places, offset = [], 0
        for chunk in chunks:
            places.append(Chunk(0, chunk.first_line, FileSlice(file.fileno(), offset, chunk.size)))
            offset += chunk.size
        with Workers(2, scanner(prefilter)) as pool:
            path.unlink()
            found = [scanned for _, scanned in pool.scan(places)]
    assert found == found_by(1, chunks)


def test_a_piece_that_is_too_large_to_be_handed_over_is_scanned_here() -> None:
    large = Chunk(0, 1, b"Evicted block\n" * 80_000)
    chunks = [large, *chunks_of(text()), large]
    assert found_by(1, chunks) == list(map(scanner().scan, (chunk.data for chunk in chunks)))


@pytest.mark.parametrize("mix", MIXES)
def test_what_was_found_survives_the_way_between_processes(mix: Mix) -> None:
    scanned = scanner().scan(text(mix))
    assert scanned.matches
    assert loads(dumps(scanned)) == scanned


def test_a_process_that_is_gone_is_reported_in_one_line() -> None:
    prefilter = build_prefilter(LITERALS)
    before = set(multiprocessing.active_children())
    with Workers(1, scanner(prefilter)) as pool:
        (worker,) = set(multiprocessing.active_children()) - before
        worker.kill()
        worker.join()
        with pytest.raises(LogdoctorError, match="ended before its work"):
            list(pool.scan(chunks_of(text())))


def test_no_process_is_left_when_nobody_wants_the_rest() -> None:
    prefilter = build_prefilter(LITERALS)
    before = set(multiprocessing.active_children())
    with Workers(2, scanner(prefilter)) as pool:
        next(pool.scan(chunks_of(text())))
    assert set(multiprocessing.active_children()) == before
