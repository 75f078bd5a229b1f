"""Logs made from a number: the same number gives the same bytes."""

from __future__ import annotations

from pathlib import Path
from random import Random

FIXTURES = sorted((Path(__file__).resolve().parents[2] / "fixtures").glob("*.log"))
SECRET = "Zq7mPlantedSecret9xK2"
MARKUP = "<img src=x onerror=alert(1)>"
_LONGEST = 60_000

_PREFIXES = (
    "", "(APIServer pid={p}) ", "(EngineCore_DP0 pid={p}) ", "(Worker_TP1 pid={p}) ", "(RayWorkerWrapper pid={p}, ip=10.0.7.2) ",
    "2026-03-{d:02}T05:{m:02}:07.187960600Z ", "Mar  4 05:{m:02}:07 host vllm[{p}]: ", "web-1  | ", "[rank{d}]: ", "9999-12-31T23:59:59Z ",
)  # fmt: skip
_HEADERS = (
    "", "INFO 03-{d:02} 10:{m:02}:{s:02} [core.py:{p}] ", "ERROR 03-{d:02} 10:{m:02}:{s:02} [engine.py:7] ", "DEBUG 12-31 23:59:{s:02} [a.py:1] ",
    "WARNING 2026-03-{d:02} 10:{m:02}:{s:02},123 [gpu/worker.py:64] ", "INFO 13-45 99:99:99 [x.py:1] ",
)  # fmt: skip
_MESSAGES = (
    "vLLM API server version 0.{d}.{m}", "non-default args: {{'model': 'org/m', 'port': {p}, 'api_key': '" + SECRET + "'}}",
    "Initializing a V1 LLM engine (v0.{d}.0) with config: model='org/m', dtype=torch.bfloat16, max_seq_len={p}",
    "Engine 00{d}: Avg prompt throughput: {p}.0 tokens/s, Avg generation throughput: -{m}.1 tokens/s, Running: {d} reqs, Waiting: -1 reqs, "
    "GPU KV cache usage: {p}.9%, Prefix cache hit rate: nan%",
    "GPU KV cache size: {p} tokens", "Maximum concurrency for {p} tokens per request: 0.00x", "Model loading took {p} GiB and -{s}.5 seconds",
    "init engine (profile, create kv cache, warmup model) took {p}.5 seconds", "Graph capturing finished in {s} secs, took 0.20 GiB",
    "Traceback (most recent call last):", '  File "/opt/vllm/v1/f{d}.py", line {p}, in step', "torch.OutOfMemoryError: CUDA out of memory.",
    "RuntimeError: Engine core initialization failed. " + MARKUP, 'INFO:     10.0.0.1:{p} - "POST /v1/{d} HTTP/1.1" 500 Internal Server Error',
    "INFO:     Application startup complete.", "INFO:     Finished server process [{p}]", "Killed", "[1]    {p} segmentation fault (core dumped)",
    "Received request cmpl-{p}: prompt: 'INFO 01-01 00:00:00 [a.py:1] " + MARKUP + "', params: SamplingParams(n=1).",
    "vllm serve org/m --api-key " + SECRET, '{{"message": "INFO 03-04 10:11:12 [core.py:93] text", "level": "INFO"}}', "\x1b[31mred\x1b[0m\r", "",
)  # fmt: skip


def composed(random: Random) -> bytes:
    """Return a log put together from prefixes, headers and messages."""
    lines = []
    for _ in range(random.randint(1, 60)):
        parts = random.choice(_PREFIXES) + random.choice(_HEADERS) + random.choice(_MESSAGES)
        numbers = {"p": random.choice((0, 1, 7, 4711, 10**12)), "d": random.randint(1, 28)}
        line = parts.format(**numbers, m=random.randint(0, 59), s=random.randint(0, 59))
        lines += [line] * random.choice((1, 1, 1, 2, 40))
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def mutated(random: Random) -> bytes:
    """Return a part of a fixture with lines and bytes changed."""
    data = random.choice(FIXTURES).read_bytes()[:_LONGEST]
    lines = data.split(b"\n")
    for _ in range(random.randint(1, 12)):
        at, other = random.randrange(len(lines)), random.randrange(len(lines))
        kind = random.randrange(6)
        if kind == 0:
            lines[at] = lines[other]
        elif kind == 1:
            lines[at : at + random.randint(1, 30)] = []
            lines = lines or [b""]
        elif kind == 2:
            lines.insert(at, composed(random)[:400])
        elif kind == 3:
            cut = random.randrange(len(lines[at]) + 1)
            lines[at] = lines[at][:cut] + random.randbytes(random.randint(0, 9)) + lines[at][cut:]
        elif kind == 4:
            lines[at] = lines[at] * random.choice((2, 50))
        else:
            lines[at] = lines[at].replace(b"1", random.choice((b"-1", b"99999999999999999999", b"0", b"nan")))
    return b"\n".join(lines)


def log_of(number: int) -> bytes:
    """Return the log of a number: two in three are composed."""
    random = Random(number)
    return mutated(random) if number % 3 == 0 else composed(random)
