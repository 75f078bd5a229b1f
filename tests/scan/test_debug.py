"""DEBUG lines are emptied only where nothing in them could matter."""

from __future__ import annotations

import pytest

from vllm_logdoctor.scan import gate_set
from vllm_logdoctor.scan.debug import DebugSieve
from vllm_logdoctor.scan.gates import PythonGates

GATES = ("KV cache size: ", "Evicted block")
BARE = frozenset({1})
DULL = (
    b"(EngineCore_DP0 pid=55) DEBUG 01-01 00:15:46 [block_pool.py:103] Evicted block 79650 with hash ab12\n"
)


def sifted(data: bytes) -> bytes:
    pytest.importorskip(
        "hyperscan", reason="no hyperscan wheel for this platform: nothing is sifted without it"
    )
    sieve = DebugSieve(gate_set(GATES), BARE)
    for _ in range(16):
        assert sieve.without_dull(DULL * 500).endswith(b"\n")
    return sieve.without_dull(data)


@pytest.mark.parametrize(
    "line",
    [
        b"(EngineCore_DP0 pid=55) DEBUG 01-01 00:15:46 [kv_cache_utils.py:1087] GPU KV cache size: 512 tokens\n",
        b"(EngineCore_DP0 pid=55) DEBUG 01-01 00:15:46 [core.py:9] ValueError: no such block\n",
        b"(EngineCore_DP0 pid=55) INFO 01-01 00:15:46 [core.py:9] text\n",
        b"DEBUG is on: Evicted block\n",
    ],
)
def test_what_may_matter_keeps_its_place(line: bytes) -> None:
    data = DULL * 300 + line + DULL * 300
    assert sifted(data) == b"\n" * 300 + line + b"\n" * 300


def test_coloured_pieces_are_left_alone() -> None:
    data = DULL * 300 + b"\x1b[33mDEBUG\x1b[0m text\n" + DULL * 300
    assert sifted(data) == data


def test_a_piece_with_few_debug_lines_is_left_alone() -> None:
    data = b"a line of another kind, long enough to be most of the bytes of this piece\n" * 900 + DULL
    assert sifted(data) == data


def test_pure_python_sifts_nothing() -> None:
    assert PythonGates(GATES).debug_hits(DULL, BARE) is None
