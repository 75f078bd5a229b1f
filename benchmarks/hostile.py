"""Logs that nobody writes but anybody may hand in: each must stay within the time per byte and the memory of an honest one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

_HEAD = b"(APIServer pid=70) INFO 03-01 08:00:01 [api_server.py:1839] vLLM API server version 0.11.0\n"
_STATISTICS = (
    b"(APIServer pid=70) INFO 03-01 %02d:%02d:%02d [loggers.py:127] Engine 000: Avg prompt throughput: %d.0 tokens/s, Avg generation throughput: "
    b"%d.0 tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.5%%, Prefix cache hit rate: 20.0%%\n"
)


def one_line(size: int) -> Iterator[bytes]:
    """One line without an end."""
    yield _HEAD
    yield from _repeated(b"x" * 65536, size)


def all_nul(size: int) -> Iterator[bytes]:
    """Nothing but NUL behind the first line, as a crashed file system leaves it."""
    yield _HEAD
    yield from _repeated(b"\0" * 65536, size)


def only_statistics(size: int) -> Iterator[bytes]:
    """Every line is a statistics line."""
    yield _HEAD
    written = number = 0
    while written < size:
        second = number % 86400
        line = _STATISTICS % (second // 3600, second // 60 % 60, second % 60, number % 9000, number % 1700)
        yield line
        written += len(line)
        number += 1


def tracebacks(size: int) -> Iterator[bytes]:
    """Tracebacks that are all different."""
    yield _HEAD
    written = number = 0
    while written < size:
        piece = (
            b"(EngineCore_DP0 pid=81) ERROR 03-01 08:00:01 [core.py:%d] Traceback (most recent call last):\n"
            b'(EngineCore_DP0 pid=81) ERROR 03-01 08:00:01 [core.py:%d]   File "/opt/vllm/v1/f%d.py", line %d, in f%d\n'
            b"(EngineCore_DP0 pid=81) ERROR 03-01 08:00:01 [core.py:%d] Odd%xError: broken thing of kind %x\n"
        ) % ((number,) * 8)
        yield piece
        written += len(piece)
        number += 1


def runs(size: int) -> Iterator[bytes]:
    """Servers that start and end, one after the other."""
    written = number = 0
    while written < size:
        piece = (
            b"(APIServer pid=%d) INFO 03-01 08:00:01 [api_server.py:1839] vLLM API server version 0.11.0\n"
            b"(APIServer pid=%d) INFO:     Finished server process [%d]\n"
        ) % ((number % 90000 + 1,) * 3)
        yield piece
        written += len(piece)
        number += 1


def _repeated(block: bytes, size: int) -> Iterator[bytes]:
    for _ in range(max(1, size // len(block))):
        yield block


HOSTILE: dict[str, Callable[[int], Iterator[bytes]]] = {
    "one line": one_line, "all NUL": all_nul, "only statistics": only_statistics, "tracebacks": tracebacks, "runs": runs,
}  # fmt: skip
