"""Writes large logs of a vLLM server in four mixes, the same bytes for the same arguments, with the truth about them.

    python -m benchmarks.logs --mb 100 --mix access > big.log

The traffic is invented; the forms of the lines are those of vLLM 0.11. The truth (lines, statistics lines, access lines
by status, tracebacks) goes to standard error as JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, get_args

Mix = Literal["access", "requests", "debug", "trace"]
MIXES: tuple[Mix, ...] = get_args(Mix)

_START = """\
(APIServer pid=70) INFO {day} 08:00:01 [api_server.py:1839] vLLM API server version 0.11.0
(APIServer pid=70) INFO {day} 08:00:01 [utils.py:233] non-default args: {{'model_tag': 'org/small', 'model': 'org/small', 'tensor_parallel_size': 2}}
(APIServer pid=70) INFO {day} 08:00:07 [model.py:1510] Using max model len 16384
(EngineCore_DP0 pid=81) INFO {day} 08:00:31 [kv_cache_utils.py:1087] GPU KV cache size: 812,320 tokens
(EngineCore_DP0 pid=81) INFO {day} 08:00:31 [kv_cache_utils.py:1091] Maximum concurrency for 16,384 tokens per request: 49.58x
(EngineCore_DP0 pid=81) INFO {day} 08:00:40 [core.py:210] init engine (profile, create kv cache, warmup model) took 8.90 seconds
(APIServer pid=70) INFO:     Application startup complete.
"""
_WORDS = [
    "alpha",
    "river",
    "stone",
    "window",
    "memory",
    "paper",
    "error",
    "green",
    "seven",
    "cache",
    "market",
    "cloud",
    "timeout",
    "number",
    "garden",
    "letter",
]
_STATUS = ("200 OK",) * 40 + ("400 Bad Request", "404 Not Found", "500 Internal Server Error")
_FRAMES = (
    '  File "/opt/venv/lib/python3.12/site-packages/vllm/v1/worker/gpu_worker.py", line {line}, in execute_model',
    "    output = self.model_runner.execute_model(scheduler_output)",
)
_REQUESTS_PER_SECOND: dict[Mix, int] = {"access": 40, "requests": 6, "debug": 8, "trace": 8}


@dataclass(slots=True)
class Truth:
    """What stands in a written log."""

    lines: int = 0
    statistics: int = 0
    tracebacks: int = 0
    status: Counter[str] = field(default_factory=Counter)

    def as_json(self) -> str:
        """Return the truth as one line of JSON."""
        found = {"lines": self.lines, "statistics": self.statistics, "tracebacks": self.tracebacks}
        return json.dumps({**found, "status": dict(sorted(self.status.items()))})


def pieces(megabytes: float, mix: Mix, truth: Truth, seed: int = 7) -> Iterator[bytes]:
    """Yield a log second by second until it has so many megabytes; `truth` is filled on the way."""
    choice = random.Random(seed)
    left = int(megabytes * 1_000_000)
    second = 8 * 3600 + 60
    piece = _START.format(day="03-01").encode()
    while True:
        truth.lines += piece.count(b"\n")
        left -= len(piece)
        yield piece
        if left <= 0:
            return
        second += 1
        piece = ("\n".join(_second(choice, second, mix, truth)) + "\n").encode()


def _second(choice: random.Random, second: int, mix: Mix, truth: Truth) -> Iterator[str]:
    day, rest = divmod(second, 86400)
    stamp = (
        f"{3 + day // 28 % 9:02d}-{1 + day % 28:02d} {rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    )
    if second % 10 == 0:
        truth.statistics += 1
        yield (
            f"(APIServer pid=70) INFO {stamp} [loggers.py:127] Engine 000: Avg prompt throughput: {choice.random() * 8000:.1f} tokens/s, "
            f"Avg generation throughput: {choice.random() * 1500:.1f} tokens/s, Running: {choice.randint(1, 48)} reqs, "
            f"Waiting: {choice.randint(0, 2)} reqs, GPU KV cache usage: {choice.random() * 70:.1f}%, Prefix cache hit rate: 41.0%"
        )
    usual = _REQUESTS_PER_SECOND[mix]
    for _ in range(choice.randint(usual // 2, usual * 3 // 2)):
        yield from _request(choice, stamp, mix, truth)
    if mix == "trace" and second % 3 == 0:
        yield from _tracebacks(choice, stamp, truth)


def _request(choice: random.Random, stamp: str, mix: Mix, truth: Truth) -> Iterator[str]:
    status = choice.choice(_STATUS)
    truth.status[status[:3]] += 1
    yield f'(APIServer pid=70) INFO:     10.1.0.{choice.randint(1, 250)}:{choice.randint(1024, 65000)} - "POST /v1/completions HTTP/1.1" {status}'
    name = f"cmpl-{choice.getrandbits(96):024x}"
    if mix == "requests":
        prompt = " ".join(choice.choices(_WORDS, k=choice.randint(40, 280)))
        yield (
            f"(APIServer pid=70) INFO {stamp} [logger.py:41] Received request {name}: prompt: '{prompt}', params: SamplingParams(n=1, "
            "temperature=0.7, max_tokens=256), prompt_token_ids: None, prompt_embeds shape: None, lora_request: None."
        )
    if mix == "debug":
        for _ in range(6):
            count = choice.randint(1, 90000)
            yield f"(EngineCore_DP0 pid=81) DEBUG {stamp} [{choice.choice(_DEBUG).format(line=choice.randint(90, 900), count=count, name=name)}"


_DEBUG = (
    "shm_broadcast.py:{line}] Dequeued message of {count} bytes",
    "scheduler.py:{line}] Scheduled {count} tokens for request {name}",
    "core_client.py:{line}] Received {count} outputs",
    "block_pool.py:{line}] Evicted block {count}",
)


def _tracebacks(choice: random.Random, stamp: str, truth: Truth) -> Iterator[str]:
    """One traceback of four workers, interleaved line by line."""
    truth.tracebacks += 4
    frames = [line.format(line=choice.randint(10, 4000)) for _ in range(20) for line in _FRAMES]
    for line in (
        "Traceback (most recent call last):",
        *frames,
        "ValueError: step 17 was refused by the sampler",
    ):
        for rank in range(4):
            yield f"(Worker_TP{rank} pid={90 + rank}) ERROR {stamp} [multiproc_executor.py:671] {line}"


def main() -> None:
    """Write a log to standard output."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mb", type=float, default=100)
    parser.add_argument("--mix", choices=MIXES, default="access")
    asked = parser.parse_args()
    truth = Truth()
    for piece in pieces(asked.mb, asked.mix, truth):
        sys.stdout.buffer.write(piece)
    print(truth.as_json(), file=sys.stderr)


if __name__ == "__main__":
    main()
