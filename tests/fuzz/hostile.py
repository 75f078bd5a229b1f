"""Logs that mean harm, and what analysing them costs: the table of docs/explanation/reliability.md.

python -m tests.fuzz.hostile --megabytes 200 [--only WORDS]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from random import Random

_START = (
    "(APIServer pid=5) INFO 03-04 10:11:10 [api_server.py:1289] vLLM API server version 0.11.2\n"
    "(EngineCore_DP0 pid=9) INFO 03-04 10:11:20 [core.py:93] Initializing a V1 LLM engine (v0.11.2) with config: model='org/m', max_seq_len=8192\n"
)
_SITE = "(EngineCore_DP0 pid=9) ERROR 03-04 10:12:00 [core.py:710] "


def _ordinary() -> Iterator[str]:
    """Yield statistics, requests, warnings and now and then a traceback of four workers."""
    random = Random(1)
    for at in count():
        head = f"03-04 {10 + at // 360_000 % 12}:{at // 6000 % 60:02}:{at // 100 % 60:02}"
        yield f'(APIServer pid=5) INFO:     10.0.0.1:{random.randrange(65_000)} - "POST /v1/completions HTTP/1.1" 200 OK'
        yield f"(APIServer pid=5) INFO {head} [async_llm.py:343] Added request cmpl-{random.getrandbits(128):032x}-0."
        if at % 20 == 0:
            yield (
                f"(APIServer pid=5) INFO {head} [loggers.py:127] Engine 000: Avg prompt throughput: {random.randrange(9000)}.3 tokens/s, Avg generation "
                f"throughput: {random.randrange(5000)}.0 tokens/s, Running: 64 reqs, Waiting: 3 reqs, GPU KV cache usage: 71.0%, Prefix cache hit rate: 8.1%"
            )
        if at % 50 == 0:
            worker = f"(Worker_TP{at // 50 % 4} pid=77) ERROR {head} [multiproc_executor.py:671] "
            yield worker + "Traceback (most recent call last):"
            yield from (
                f'{worker}  File "/opt/vllm/v1/worker/f{frame}.py", line {frame}, in step'
                for frame in range(12)
            )
            yield worker + "RuntimeError: NCCL error: unhandled system error"


def _numbered(form: Callable[[str], str]) -> Callable[[], Iterator[str]]:
    """Return lines made from a word of letters that is another one each time."""

    def lines() -> Iterator[str]:
        random = Random(2)
        while True:
            yield form("".join(random.choices("ghijklmnopqrstuvwxyz", k=12)))

    return lines


def _same(line: str) -> Callable[[], Iterator[str]]:
    def lines() -> Iterator[str]:
        while True:
            yield line

    return lines


_NESTED = "[" * 3000 + "]" * 3000
HOSTILE: Mapping[str, Callable[[], Iterator[str]]] = {
    "ordinary": _ordinary,
    "every line another process, file and message": _numbered(
        lambda word: f"({word} pid=7) ERROR 03-04 10:12:00 [{word[:6]}.py:7] {word} {word[::-1]} failed in {word[3:]}: {word[2:9]} {word[4:]} and {word[5:]}"
    ),
    "every line another message": _numbered(lambda word: f"{_SITE}{word} of {word[::-1]} is {word[2:]}: {word[:5]} {word[3:]} {word[1:9]} {word[4:]}"),
    "every line another exception": _numbered(lambda word: f"{word.title()}Error: {word} {word[::-1]} {word[2:]}"),
    "tracebacks, each of another place": _numbered(
        lambda word: f'({word} pid=7) ERROR 03-04 10:12:00 [{word}.py:7] Traceback (most recent call last):\n  File "/{word}.py", line 7, in {word}\n    {word}()\n{word.title()}Error: {word}'
    ),
    "tracebacks, each with its own exception": _numbered(
        lambda word: f'{_SITE}Traceback (most recent call last):\n{_SITE}  File "/f.py", line 7, in step\n{_SITE}{word.title()}Error: {word} {word[::-1]}'
    ),
    "plain words, no header": _numbered(lambda word: f"{word} {word[::-1]} {word[3:]} {word[2:]} {word[:7]} {word[5:]}"),
    "access lines, each of another path": _numbered(lambda word: f'INFO:     10.0.0.1:5 - "GET /{word}/{word[::-1]} HTTP/1.1" 404 Not Found'),
    "statistics, each of another engine": _numbered(
        lambda word: f"({word} pid=7) INFO 03-04 10:12:00 [loggers.py:127] Engine {sum(map(ord, word)) * 977 % 100_000}: Avg prompt throughput: 1.0 tokens/s, Avg generation "
        "throughput: 2.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%, Prefix cache hit rate: 0.0%"
    ),
    "a server started in every line": _numbered(lambda word: f"(APIServer pid=5) INFO 03-04 10:11:10 [api_server.py:1289] vLLM API server version 0.11.2{word[0]}"),
    "a server that starts and ends in every second line": _numbered(
        lambda word: f"(APIServer pid=5) INFO 03-04 10:11:10 [api_server.py:1289] vLLM API server version 0.11.2{word[0]}\n"
        "(APIServer pid=5) INFO:     Finished server process [5]"
    ),
    "arguments, each with another name": _numbered(lambda word: f"INFO 03-04 10:11:11 [utils.py:253] non-default args: {{'model': 'org/{word}', '{word}': '{word[::-1]}'}}"),
    "names of secrets without a secret": _same(_SITE + "api_key= token: password -> key | secret=None --api-key " * 8),
    "names of secrets at the end of the line": _same(_SITE + "the value of api_key:"),
    "names of secrets at the end, lines differ": _numbered(lambda word: f"{_SITE}{word} of {word[::-1]} is {word[2:]}: api_key="),
    "beginnings of a private key": _same(_SITE + "-----BEGIN PRIVATE KEY-----"),
    "an exception's beginning 300 times a line": _same("RuntimeError: " * 300 + "/xgrammar/"),
    "brackets, 6,000 of them a line": _same(f"INFO 03-04 10:11:11 [utils.py:253] non-default args: {_NESTED}"),
    "JSON in JSON": _numbered(lambda word: json.dumps({"log": json.dumps({"message": f"INFO 03-04 10:11:11 [a.py:1] {word}", word: {word: [word] * 9}})})),
    "colours around every letter": _same("".join(f"\x1b[3{n % 8}m{letter}\x1b[0m" for n, letter in enumerate("INFO 03-04 10:11:11 [a.py:1] text of a message " * 3))),
    "redraws, 200 of them a line": _same("\r".join(f"Loading safetensors checkpoint shards: {n}% Completed | {n}/100 [00:{n % 60:02}<00:09, 1.0s/it]" for n in range(200))),
    "rows of one width, as a terminal wraps them": _same("x" * 99 + "y"),
    "one line without an end": _same(""),
}  # fmt: skip


def write(kind: str, size: int, path: Path) -> None:
    """Write a log of a kind and of about so many bytes."""
    end = "" if kind == "one line without an end" else "\n"
    with path.open("w") as file:
        file.write(_START)
        if kind.startswith("rows of one width"):
            for _ in range(400):
                file.write(
                    (_SITE + "args: Namespace(host=None, port=8000, " + "a" * 99)[:100]
                    + "\n"
                    + "a" * 50
                    + "\n"
                )
        written, lines = 0, HOSTILE[kind]()
        while written < size:
            block = "".join((next(lines) or "INFO 03-04 text ") + end for _ in range(500))
            file.write(block)
            written += len(block)


def cost(path: Path, megabytes: float) -> tuple[float, float]:
    """Return CPU seconds and MiB of memory that analysing a log took, one process."""
    command = [sys.executable, "-m", "vllm_logdoctor", "analyze", str(path), "-q", "-o", f"{path}.json"]
    pid = os.posix_spawn(command[0], command, os.environ)
    _, status, used = os.wait4(pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        print(
            f"exit status {os.waitstatus_to_exitcode(status)} for {path} of {megabytes} MB", file=sys.stderr
        )
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    """Print what each kind costs, and against an ordinary log of the same size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=20)
    parser.add_argument("--only", default="", help="regular expression for the kind")
    options = parser.parse_args()
    print("| log | CPU | of an ordinary log | memory |\n|---|---|---|---|", flush=True)
    ordinary = 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vllm.log"
        for kind in HOSTILE:
            if kind != "ordinary" and not re.search(options.only, kind):
                continue
            write(kind, int(options.megabytes * 1e6), path)
            seconds, memory = cost(path, options.megabytes)
            ordinary = ordinary or seconds
            print(f"| {kind} | {seconds:.1f} s | {seconds / ordinary:.1f} x | {memory:.0f} MiB |", flush=True)


if __name__ == "__main__":
    main()
