"""Hyperscan and the search in pure Python find the same, wherever chunks are cut."""

from __future__ import annotations

import os
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_logdoctor.scan import Prefilter, WantedLine, build_prefilter
from vllm_logdoctor.scan.accesses import AccessCounter
from vllm_logdoctor.scan.line_selection import HEAD_LINES, Selector
from vllm_logdoctor.scan.prefilter import PythonPrefilter
from vllm_logdoctor.scan.scanner import LineFilter, Scanner
from vllm_logdoctor.source import Chunk

LITERALS = ("KV cache size: ", "cache size: ", "Avg prompt throughput: ", "throughput: 9")
PIECES = [
    "GPU KV cache size: 5,120 tokens\n",
    "INFO 03-04 10:11:12 [core.py:93] text\n",
    "ValueError: no\n",
    "Traceback (most recent call last)\n",
    '{"message": "x"}\n',
    "nothing of interest\n",
    'INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 200 OK\n',
    "Avg prompt throughput: 9.0\n",
    "\x1b[32mINFO\x1b[0m 03-04 10:11:12 [core.py:93] text\n",
    "INFO:vllm.engine:text\n",
    "\r\n",
    "é\n",
]
texts = st.lists(st.sampled_from(PIECES), max_size=30).map(lambda pieces: "".join(pieces).encode())


@cache
def _automaton() -> Prefilter:
    return build_prefilter(LITERALS)


@settings(deadline=None)
@given(texts)
def test_pure_python_finds_what_hyperscan_finds(data: bytes) -> None:
    pytest.importorskip(
        "hyperscan", reason="no hyperscan wheel for this platform: the fallback is all there is"
    )
    fast, slow = _automaton(), PythonPrefilter(LITERALS)

    def lines(hits: list[tuple[int, int]]) -> set[tuple[int, int]]:
        return {(data.count(b"\n", 0, max(end - 1, 0)), number) for end, number in hits}

    assert lines(fast.scan(data)) == lines(slow.scan(data))


def test_a_line_full_of_hits_gives_one_of_each_kind() -> None:
    pytest.importorskip("hyperscan")
    line = b"ValueError: KV cache size: throughput: 9 cache size: " * 300 + b"\n"
    data = b"ValueError: first\n" + line * 20
    hits = _automaton().scan(data)
    assert len(hits) < 200
    assert {(data.count(b"\n", 0, end - 1), number) for end, number in hits} == {
        (data.count(b"\n", 0, max(end - 1, 0)), number)
        for end, number in PythonPrefilter(LITERALS).scan(data)
    }


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_in_the_place_of_a_kept_automaton_is_replaced(tmp_path: Path) -> None:
    pytest.importorskip("hyperscan")
    build_prefilter(LITERALS, tmp_path, digest="d")
    (kept,) = tmp_path.iterdir()
    kept.unlink()
    os.mkfifo(kept)
    build_prefilter(LITERALS, tmp_path, digest="d")
    assert kept.is_file()


def selected(data: bytes, size: int) -> list[tuple[int, bytes]]:
    selector = Selector(Scanner(PythonPrefilter(LITERALS), LineFilter()))
    found: list[tuple[int, bytes]] = []
    first, number = 0, 1
    while first < len(data):
        end = data.find(b"\n", min(first + size, len(data)) - 1) + 1 or len(data)
        piece = data[first:end]
        found += [
            (item.number, item.data)
            for item in selector.select(Chunk(0, number, piece))
            if isinstance(item, WantedLine)
        ]
        first, number = end, number + piece.count(b"\n")
    return found


@settings(max_examples=40, deadline=None)
@given(texts, st.integers(1, 200))
def test_the_same_lines_are_wanted_wherever_chunks_are_cut(data: bytes, size: int) -> None:
    whole = b"plain line\n" * (HEAD_LINES + 5) + data
    assert selected(whole, size) == selected(whole, len(whole))


def test_the_head_of_a_file_is_wanted_whatever_it_says() -> None:
    found = selected(b"#!/bin/bash\nnvidia-smi\n", 100)
    assert [data for _, data in found] == [b"#!/bin/bash", b"nvidia-smi"]


def test_a_line_of_no_interest_costs_nothing_behind_the_head() -> None:
    data = b"nothing of interest\n" * (HEAD_LINES + 500)
    assert len(selected(data, 1000)) == HEAD_LINES


@given(
    st.lists(
        st.sampled_from([b"POST /v1/completions 200", b"GET /health 200", b"POST /v1/chat/completions 400"]),
        max_size=50,
    )
)
def test_access_lines_are_counted_by_method_path_and_status(requests: list[bytes]) -> None:
    data, counter = b"", AccessCounter()
    for number, request in enumerate(requests):
        method, path, status = request.split()
        data += b'INFO:     10.0.0.1:%d - "%s %s?q=%d HTTP/1.1" %s OK\n' % (
            number,
            method,
            path,
            number,
            status,
        )
    counted = counter.count(data, 0, len(data))
    expected = Counter(
        (m.decode(), p.decode(), int(s)) for m, p, s in (request.split() for request in requests)
    )
    assert counted == expected
