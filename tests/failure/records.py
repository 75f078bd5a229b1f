"""Makes records of log text without the selection of lines, and writes tracebacks as loggers do."""

from __future__ import annotations

from collections.abc import Iterable

from vllm_logdoctor.parse import Record, RecordParser
from vllm_logdoctor.scan import WantedLine

START = [
    "(APIServer pid=1) INFO 05-01 09:59:01 [api_server.py:1300] vLLM API server version 0.11.0",
    "(EngineCore_DP0 pid=9) INFO 05-01 09:59:20 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: model='m', tensor_parallel_size={ranks}",
]  # fmt: skip
READY = ["(APIServer pid=1) INFO:     Application startup complete."]


def records_of(text: str) -> list[Record]:
    """Return the records of all lines."""
    parser = RecordParser()
    lines = enumerate(text.split("\n"), 1)
    return [
        record
        for number, line in lines
        if line.strip()
        for record in parser.parse(WantedLine(0, number, line.encode(), ()))
    ]


def traceback(*frames: tuple[str, str], ends: str) -> list[str]:
    """Return the lines of a traceback through (function, code) places of vLLM."""
    lines = ["Traceback (most recent call last):"]
    for number, (function, code) in enumerate(frames, 10):
        lines += [f'  File "/opt/vllm/v1/{function}.py", line {number}, in {function}', f"    {code}"]
    return [*lines, *ends.split("\n")]


def framed(
    process: str, lines: Iterable[str], site: str = "multiproc_executor.py:488", clock: str = "10:00:00"
) -> list[str]:
    """Return lines as vLLM's logger frames them: each with the header and the name of the process."""
    head = f"({process}) " if process else ""
    return [f"{head}ERROR 05-01 {clock} [{site}] {line}" for line in lines]


def raw(process: str, lines: Iterable[str]) -> list[str]:
    """Return lines of standard error with the name of the process before them."""
    return [f"({process}) {line}" for line in lines]
