"""What is found does not depend on whether routine lines are taken out one by one or by columns."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_logdoctor.scan import Prefilter, build_prefilter
from vllm_logdoctor.scan.debug_lines import DebugKind, DebugLines, without_digits
from vllm_logdoctor.scan.request_lines import RequestLines
from vllm_logdoctor.scan.scanner import LineFilter, Scanned, Scanner
from vllm_logdoctor.scan.vectorized import VectorScanner

pytest.importorskip("hyperscan", reason="no hyperscan wheel for this platform: columns are left alone there")

GATES = ("Avg prompt throughput: ", "KV cache size: ", "Evicted block", "Received ", "503 Service", "host=77")
STATISTICS, EVICTED, RECEIVED = 0, 2, 3
INTEREST = LineFilter(
    count_before=frozenset({STATISTICS}), signatures=frozenset({EVICTED}), bare=frozenset({EVICTED})
)

_HEADS = ("(APIServer pid=41) ", "(APIServer host=77) ", "", "10:00:01 web-1 ")
_ADDRESSES = ("10.0.0.9:5", "127.0.0.1:45988", "10.20.30.40:50606", "0.0.0.0:8000", "::1:4040", "client:80")
_ANSWERS = ("200 OK", "404 Not Found", "503 Service Unavailable", "500 Internal Server Error")
_PATHS = ("/v1/completions", "/health?full=1")
accesses = st.builds(
    '{}INFO:     {} - "POST {} HTTP/1.1" {}'.format,
    *(st.sampled_from(texts) for texts in (_HEADS, _ADDRESSES, _PATHS, _ANSWERS)),
)
_numbers = st.integers(0, 99999)
_times = st.builds("01-0{} 00:0{}:{}7".format, *(st.integers(1, 9),) * 2, st.sampled_from("0123:x"))
requests = st.builds(
    "(APIServer pid=41) INFO {} [logger.py:41] {} request {}{}".format,
    _times,
    st.sampled_from(("Received", "Added")),
    st.sampled_from(("chatcmpl-3fa9b1", "chatcmpl-0d11ee", "x", "an id of words", "i" * 300)),
    st.sampled_from((".", ": prompt: 'KV cache size: '", ": prompt: 'Added request and Received request '")),
)
debug = st.builds(
    "(EngineCore_DP0 pid=55) DEBUG {} [core.py:{}] {}".format,
    _times,
    _numbers,
    st.one_of(
        st.builds("Evicted block {} with hash ab{}".format, _numbers, _numbers),
        st.builds("Received {} outputs".format, _numbers),
        st.sampled_from(("GPU KV cache size: 7", "text", "ValueError: no", "Received 15 signal.")),
    ),
)
# No JSON records: one keeps gates from being narrowed in its piece, and then lines are found that no pattern takes.
others = st.sampled_from(
    (
        "(APIServer pid=41) INFO 01-01 00:01:01 [loggers.py:1] Engine 000: Avg prompt throughput: 1.0 tokens/s",
        "Evicted block 7", "Traceback (most recent call last):", "ValueError: no", "", "é", "text of no kind",
        "\r", "x" * 3000,
    )
)  # fmt: skip
lines = st.one_of(accesses, accesses, requests, requests, debug, debug, others)


@cache
def _gates() -> Prefilter:
    gates = build_prefilter(GATES)
    assert gates.narrow(RECEIVED, [r"Received (?P<signal>-?\d+) signal\."])
    return gates


def pieces_of(kinds: list[str], repeats: int, end: str) -> list[bytes]:
    """Pieces that are long enough for columns, the second one of lines that were met in the first."""
    text = "\n".join(kinds * repeats)
    return [
        f"{text}\n".encode(),
        (text + end).encode(),
        b"\n".join(sorted(text.encode().split(b"\n"))) + b"\n",
    ]


def scanned(pieces: list[bytes], long_log: int) -> list[Scanned]:
    scanner = Scanner(_gates(), INTEREST, long_log=long_log)
    return [scanner.scan(piece) for piece in pieces]


@settings(deadline=None, max_examples=200)
@given(st.lists(lines, min_size=1, max_size=12), st.integers(60, 200), st.sampled_from(("\n", "", "\n\n")))
def test_columns_change_nothing_that_is_found(kinds: list[str], repeats: int, end: str) -> None:
    pieces = pieces_of(kinds, repeats, end)
    assert scanned(pieces, long_log=1) == scanned(pieces, long_log=1 << 30)


ACCESS = '(APIServer pid=41) INFO:     10.0.0.9:45988 - "GET /health HTTP/1.1" 200 OK'
REQUEST = (
    "(APIServer pid=41) INFO 01-01 00:01:01 [logger.py:41] Received request chatcmpl-3fa9b1: prompt: 'hello'"
)
DEBUG = "(EngineCore_DP0 pid=55) DEBUG 01-01 00:15:46 [core.py:7] Sent 17 outputs to chatcmpl-3fa9b1"


COUNTED = "(EngineCore_DP0 pid=55) DEBUG 01-01 00:15:46 [core.py:7] GPU KV cache size: 17 blocks"
COUNTED_KIND = DebugKind(
    b"(EngineCore_DP0 pid=55) DEBUG ", b" [core.py:7] ", 44, without_digits(COUNTED.encode())
)


def columns_of(*kinds: DebugKind) -> VectorScanner:
    """Columns that know some kinds of DEBUG lines."""
    debug_lines = DebugLines()
    for kind in kinds:
        debug_lines.learn(kind)
    return VectorScanner(_gates(), INTEREST.bare, RequestLines(_gates().request_marks), debug_lines)


def test_of_debug_lines_that_are_only_counted_the_first_and_the_last_of_a_stretch_are_told() -> None:
    others = [
        COUNTED.replace(*change)
        for change in (("pid=55", "pid=56"), ("core.py:7", "core.py:8"), ("blocks", "pages"))
    ]
    text = "\n".join([*[COUNTED] * 70, *others, *[COUNTED.replace("17", "4711")] * 30, ""])
    found = columns_of(COUNTED_KIND).taken_out(text.encode())
    assert found.rest.decode().split("\n") == [*others, ""]
    stretches = [(one.kind, one.count) for one in found.stretches(0, found.total())]
    assert stretches == [(COUNTED_KIND, 100)]
    assert found.line(99, 1000) == (102, COUNTED.replace("17", "4711").encode())


@pytest.mark.parametrize("routine", [ACCESS, REQUEST, DEBUG])
def test_routine_lines_are_not_searched(routine: str) -> None:
    columns = columns_of()
    piece = f"{routine}\n".encode() * 500
    columns.taken_out(piece)
    assert len(columns.taken_out(piece).rest) < len(piece) / 50


@pytest.mark.parametrize(
    "line",
    [
        ACCESS.replace("pid=41", "host=77"),
        ACCESS.replace("200 OK", "503 Service Unavailable"),
        DEBUG.replace("Sent", "GPU KV cache size:"),
    ],
)
def test_a_line_with_a_gate_is_searched_among_lines_that_are_not(line: str) -> None:
    scanner = Scanner(_gates(), INTEREST, long_log=1)
    plain = f"{ACCESS}\n{DEBUG}\n".encode() * 300
    scanner.scan(plain)
    found = scanner.scan(plain + f"{line}\n".encode() + plain)
    assert [sight.data for sight in found.sights] == [line.encode()]


def test_where_a_gate_may_stand_in_an_address_all_addresses_are_searched() -> None:
    scanner = Scanner(build_prefilter(("0.0.0.0:8000",)), LineFilter(), long_log=1)
    plain = f"{ACCESS}\n".encode() * 300
    scanner.scan(plain)
    line = ACCESS.replace("10.0.0.9:45988", "0.0.0.0:8000").encode()
    assert [sight.data for sight in scanner.scan(plain + line + b"\n" + plain).sights] == [line]


def test_a_scanner_that_forgot_its_columns_says_the_same() -> None:
    pieces = [b'INFO:     10.0.0.9:5 - "GET /health HTTP/1.1" 200 OK\n' * 300] * 3
    scanner = Scanner(_gates(), INTEREST, long_log=1)
    before = [scanner.scan(piece) for piece in pieces]
    assert scanner.forget_columns()
    assert not scanner.forget_columns()
    assert [scanner.scan(piece) for piece in pieces] == before


def test_more_writers_than_codes_are_counted_each() -> None:
    pieces = [
        "".join(f"{REQUEST.replace('pid=41', f'pid={pid}')}\n" for pid in range(low, low + 150)).encode()
        for low in (0, 100, 200, 0)
    ]
    assert scanned(pieces, long_log=1) == scanned(pieces, long_log=1 << 30)


def test_pieces_of_other_things_are_searched_without_columns_and_say_the_same() -> None:
    other = ("text of no kind that is known here, long enough\n" * 300).encode()
    routine = f"{ACCESS}\n{REQUEST}\n".encode() * 100
    pieces = [*[other] * 12, *[routine] * 20]
    assert scanned(pieces, long_log=1) == scanned(pieces, long_log=1 << 30)
