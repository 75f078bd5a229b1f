"""A grammar of what servers print: launches, engines, statistics, requests, failures and ends, with values that nobody expects."""

from __future__ import annotations

import json
import re
from functools import cache
from random import Random

from vllm_logdoctor.catalogue.locate import builtin_root
from vllm_logdoctor.knowledge.messages import message_table

SECRET = "Zq7mPlantedSecret9xK2"
MARKUP = "<img src=x onerror=alert(1)>"

_PREFIXES = (
    "", "", "(APIServer pid={p}) ", "(EngineCore_DP0 pid={p}) ", "(Worker_TP1 pid={p}) ", "(RayWorkerWrapper pid={p}, ip=10.0.7.2) ",
    "2026-03-{d:02}T05:{m:02}:07.187960600Z ", "Mar  4 05:{m:02}:07 host vllm[{p}]: ", "web-1  | ", "[rank{d}]: ", "9999-12-31T23:59:59Z ",
    "\x1b[1;36m(EngineCore_0 pid={p})\x1b[0;0m ", "node{d}: ", "{p}: ",
)  # fmt: skip
_HEADERS = (
    "", "INFO 03-{d:02} 10:{m:02}:{s:02} [core.py:{p}] ", "ERROR 03-{d:02} 10:{m:02}:{s:02} [engine.py:7] ", "DEBUG 12-31 23:59:{s:02} [a.py:1] ",
    "WARNING 2026-03-{d:02} 10:{m:02}:{s:02},123 [gpu/worker.py:64] ", "INFO 13-45 99:99:99 [x.py:1] ", "CRITICAL 02-29 24:60:60 [x.py:0] ",
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
    'INFO:     10.0.0.1:{p} - "GET /{d} HTTP/0.9" 200', "INFO:     Application startup complete.", "INFO:     Finished server process [{p}]", "Killed",
    "[1]    {p} segmentation fault (core dumped)", "slurmstepd: error: *** JOB {p} ON n1 CANCELLED AT 2026-03-{d:02}T10:{m:02}:00 DUE TO TIME LIMIT ***",
    "=>> PBS: job killed: walltime {p} exceeded limit {d}", "Received request cmpl-{p}: prompt: 'INFO 01-01 00:00:00 [a.py:1] " + MARKUP + "', params: x.",
    "vllm serve org/m --api-key " + SECRET, "export HF_TOKEN=" + SECRET, "https://user:" + SECRET + "@host/x",
    '{{"message": "INFO 03-04 10:11:12 [core.py:93] text", "level": "INFO"}}', "\x1b[31mred\x1b[0m\r", "", "-----BEGIN RSA PRIVATE KEY-----",
)  # fmt: skip
_VALUES = (
    "0", "1", "-1", "4711", "1000000000000", "0.9", "nan", "inf", "-0.0", "1e309", "None", "True", "[]", "{}", "''", "org/model", "cuda:0", MARKUP, "%s", "{}",
    "'", '"', "\\", "a: b", "$(id)", "`id`", "\u202e", "é", "x" * 300, "\t", "=1+1", "~", "#", "../../etc/passwd", "\x00", "***", "```", "|",
)  # fmt: skip
_FLAGS = (
    "max_num_seqs", "max_model_len", "gpu_memory_utilization", "tensor_parallel_size", "port", "served_model_name", "enforce_eager", "dtype",
    "speculative_config", "enable_prefix_caching", "kv_cache_dtype", "chat_template", "model", "max_num_batched_tokens", "a\nb", "x y", "compilation_config",
)  # fmt: skip
_ARGUMENTS: tuple[object, ...] = (
    None, True, False, 0, -1, 1, 64, 10**20, 0.95, 1.5, "auto", "org/m", [], ["a", "b'c"], {"method": "ngram", "n": 3}, "yes", "0x1F", "1_000", "a b",
    "$HOME", "%h", "line\nend", "it's", 'say "x"', "back\\slash", "#c", ": ", "\u2028", "\x1b[31m", MARKUP, float("inf"), float("nan"), "***", "@x", "!x", "-x",
    "é" * 9, "<<EOF", "5e-324", "2026-01-01", "12:30:45", "null", "",
)  # fmt: skip


# Secrets over more than one line: what precedes them, and what they are in.
_SPLIT_SECRETS = (
    ("-----BEGIN PRIVATE KEY-----", SECRET * 3, "-----END PRIVATE KEY-----"), ("args: api_key=", SECRET), ("  - name: DB_PASSWORD", f"    value: {SECRET}"),
    ("    - --api-key", f"    - {SECRET}"), ("api-key:", f"  - {SECRET}", "port: 8000"), ("password:", f"  {SECRET}"), ("api_key=", "", SECRET),
    ("\x1b[31mHF_TOKEN\x1b[0m:", f"\x1b[32m{SECRET}\x1b[0m"), ("      HF_TOKEN:", f"        value: {SECRET}"), ('"api_key":', f'"{SECRET}",'),
    ("api_key", f"  Input is wrong [input_value='{SECRET}', input_type=str]"),
)  # fmt: skip
# Last words of shells, batch systems and launchers.
_LAST_WORDS = (
    "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-03-04T10:00:00 DUE TO TIME LIMIT ***", "=>> PBS: job killed: walltime 3605 exceeded limit 3600",
    "srun: error: n1: task 0: Killed", "srun: error: n2: task 1: Exited with exit code 1", "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
    "slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch. Some of the step tasks have been OOM Killed.", "Terminated", "Killed",
    "/var/spool/slurmd/job7/slurm_script: line 9: 4711 Killed                  vllm serve org/m", "=>> PBS: job killed: mem 629145600 exceeded limit 314572800",
    "E0304 10:00:00.000000 7 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) local_rank: 1 (pid: 7) of binary: python", "command terminated with exit code 137",
)  # fmt: skip


@cache
def _samples() -> tuple[str, ...]:
    """Return what the tables of patterns give as samples: one of each message with a meaning."""
    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    found = []
    for path in sorted(builtin_root().rglob("*.toml")):
        for pattern in tomllib.loads(path.read_text()).get("pattern", ()):
            sample = pattern.get("sample") or pattern.get("example") or ""
            found += [sample] if isinstance(sample, str) and sample else []
    return tuple(found)


@cache
def _templates() -> tuple[str, ...]:
    return tuple(message.template for message in message_table().logged)


def message(random: Random) -> str:
    """Return the text of one message: written here, a sample of a pattern, or a template of vLLM with values filled in."""
    kind = random.randrange(4)
    if kind == 0 and _samples():
        return random.choice(_samples())
    if kind == 1:
        template = random.choice(_templates())
        return re.sub(r"%[-0-9.]*[sdrfxg]|\{[^{}]{0,40}\}", lambda _: random.choice(_VALUES), template)
    numbers = {"p": random.choice((0, 1, 7, 4711, 10**12)), "d": random.randint(1, 28)}
    return random.choice(_MESSAGES).format(**numbers, m=random.randint(0, 59), s=random.randint(0, 59))


def _filled(text: str, random: Random) -> str:
    return text.format(
        p=random.choice((0, 1, 7, 4711, 10**12)),
        d=random.randint(1, 28),
        m=random.randint(0, 59),
        s=random.randint(0, 59),
    )


def soup(random: Random, count: int) -> list[str]:
    """Return so many lines of any kind, some of them repeated."""
    lines: list[str] = []
    for _ in range(count):
        line = (
            _filled(random.choice(_PREFIXES), random)
            + _filled(random.choice(_HEADERS), random)
            + message(random)
        )
        lines += [line] * random.choice((1, 1, 1, 1, 1, 1, 2, 20))
    return lines


def arguments(random: Random) -> dict[str, object]:
    """Return the arguments of a launch."""
    chosen = random.sample(_FLAGS, random.randint(0, 6))
    return {"model": "org/m", **{name: random.choice(_ARGUMENTS) for name in chosen}, "api_key": [SECRET]}


class _Clock:
    """Times that go on, jump, or go back."""

    def __init__(self, random: Random) -> None:
        self.random, self.now = random, random.randrange(86_000)

    def header(self, level: str, site: str) -> str:
        self.now += self.random.choice((0, 1, 1, 10, 10, 10, 10, 3600, 200_000, -5, -7200))
        day, second = 4 + self.now // 86_400, self.now % 86_400
        return f"{level} 03-{day:02} {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02} [{site}] "


def lines_of_server(random: Random, whole: bool = True) -> list[str]:
    """Return the life of one server: start, load, statistics, requests, failure and end, each of which may be missing.

    Args:
        random: decides.
        whole: the lines stay together, so that a secret may be in several.
    """
    clock, server, engine = _Clock(random), random.randrange(1, 40_000), random.randrange(1, 40_000)
    host = random.choice(
        (
            "",
            "",
            "",
            f"node{random.randint(1, 3)}: ",
            f"{random.randint(0, 3)}: ",
            f"[{random.randint(0, 1)}] ",
        )
    )
    api = host + random.choice((f"(APIServer pid={server}) ", ""))
    core = host + random.choice(
        (f"(EngineCore_DP{random.choice((0, 0, 1, 7))} pid={engine}) ", "", f"(EngineCore_0 pid={engine}) ")
    )
    version = f"0.{random.choice((6, 8, 9, 10, 11, 12, 15))}.{random.randint(0, 3)}"
    lines: list[str] = []
    if random.random() < 0.9:
        lines.append(f"{api}{clock.header('INFO', 'api_server.py:1839')}vLLM API server version {version}")
    if random.random() < 0.8:
        lines.append(f"{api}{clock.header('INFO', 'utils.py:233')}non-default args: {arguments(random)!r}")
    if random.random() < 0.7:
        extra = ", ".join(
            f"{name}={random.choice(_VALUES)}"
            for name in random.sample(("dtype", "max_seq_len", "tensor_parallel_size", "quantization"), 2)
        )
        lines.append(
            f"{core}{clock.header('INFO', 'core.py:93')}Initializing a V1 LLM engine (v{version}) with config: model='org/m', {extra}"
        )
    if random.random() < 0.7:
        lines.append(
            f"{core}{clock.header('INFO', 'kv_cache_utils.py:1087')}GPU KV cache size: {random.choice(('100,000', '0', '17', '9' * 20))} tokens"
        )
    lines += _middle(random, clock, api, core)
    if whole and random.random() < 0.2:
        before = random.choice(("", "", api, core + clock.header("INFO", "core.py:7")))
        lines += [before + line for line in random.choice(_SPLIT_SECRETS)]
    lines += _end(random, clock, api, core)
    if random.random() < 0.2:
        lines += random.sample(_LAST_WORDS, random.choice((1, 1, 2)))
    if random.random() < 0.3:
        del lines[random.randrange(len(lines) + 1) :]
    return lines


def _middle(random: Random, clock: _Clock, api: str, core: str) -> list[str]:
    lines: list[str] = []
    if random.random() < 0.7:
        lines.append(f"{api}INFO:     Application startup complete.")
    for _ in range(random.choice((0, 1, 2, 9))):
        running, waiting = random.choice(((1, 0), (4, 9), (256, 1000), (0, 0)))
        lines.append(
            f"{api}{clock.header('INFO', 'loggers.py:127')}Engine 00{random.choice((0, 0, 0, 1))}: Avg prompt throughput: {random.choice(('9.0', '0.0', 'nan', '1e9'))} tokens/s, "
            f"Avg generation throughput: {random.randrange(5000)}.0 tokens/s, Running: {running} reqs, Waiting: {waiting} reqs, "
            f"GPU KV cache usage: {random.choice(('1.0', '99.9', '100.0', '140.0'))}%, Prefix cache hit rate: {random.choice(('0.0', '87.5'))}%"
        )
        if random.random() < 0.4:
            path = random.choice(
                (
                    "/v1/completions",
                    "/health?x=" + SECRET[:2],
                    "/" + "a" * random.choice((3, 90)),
                    f"/x?api_key={SECRET}",
                )
            )
            lines.append(
                f'{api}INFO:     10.0.0.1:5 - "POST {path} HTTP/1.1" {random.choice((200, 404, 500, 999))} OK'
            )
        if random.random() < 0.2:
            lines.append(
                f"{api}{clock.header('INFO', 'logger.py:40')}Received request cmpl-{clock.now}: prompt: {json.dumps(message(random))}, params: x"
            )
        if random.random() < 0.3:
            lines.append(
                f"{random.choice((api, core))}{clock.header(random.choice(('INFO', 'WARNING', 'ERROR')), 'core.py:1')}{message(random)}"
            )
    return lines


def _end(random: Random, clock: _Clock, api: str, core: str) -> list[str]:
    kind = random.randrange(5)
    if kind == 0:
        return [f"{api}INFO:     Shutting down", f"{api}INFO:     Finished server process [{clock.now}]"]
    if kind == 1:
        head = f"{core}{clock.header('ERROR', 'core.py:710')}"
        frames = [f'  File "/v/f{n}.py", line {n}, in f' for n in range(random.choice((1, 3, 30)))]
        error = random.choice(
            (
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9 GiB.",
                "ValueError: " + random.choice(_VALUES),
                "KeyError: 'x'",
            )
        )
        return [
            head + "Traceback (most recent call last):",
            *(head + frame for frame in frames),
            head + error,
        ]
    return soup(random, random.randint(1, 4)) if kind < 4 else []
