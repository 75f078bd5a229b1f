"""SGLang's server log: launch arguments, KV cache, statistics of decode and prefill batches."""

from __future__ import annotations

import re
from datetime import datetime
from statistics import median

from vllm_logdoctor.engines.model import MOST_RATES, EngineLog, Rate

# [2026-03-11 01:17:04 DP1 TP8 EP8] , [14:39:31 TP4] , [gpu=0] , [gpu_id=0]
_CLOCK = re.compile(r"\[((?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d)((?: [A-Z]{2,3}\d+)*)\]")
_RANK = re.compile(r"\bDP(\d+)")
_WORKER = re.compile(r"\b(?:TP|gpu=|gpu_id=)(\d+)")
# Decode batch. #running-req: 1, #token: 120, token usage: 0.01, gen throughput (token/s): 58.10, #queue-req: 0
_BATCH = re.compile(r"(Decode|Prefill) batch[.,]? (#.*)$")
# tp_size=1, model_path='tiny', disable_cuda_graph=False
_ARGUMENT = re.compile(r"\b(\w+)=('[^']{0,300}'|[^,()\[\]{}' ]{1,60})")
_ARGUMENTS = frozenset((
    "model_path", "dtype", "quantization", "tp_size", "dp_size", "kv_cache_dtype", "mem_fraction_static", "chunked_prefill_size",
    "attention_backend", "disable_cuda_graph", "disable_radix_cache", "context_length", "max_running_requests", "speculative_algorithm",
    "disaggregation_mode"
))  # fmt: skip
# max_total_num_tokens=185897, chunked_prefill_size=8192, max_running_requests=48, context_len=65536
_CAPACITY = {
    "max_total_num_tokens": "kv tokens",
    "max_running_requests": "max running",
    "context_len": "context",
}
_FIGURE = re.compile(r"\b(\w+)=(\d+)\b")
# Load weight end. elapsed=109.33 s, type=LagunaForCausalLM, quant=compressed-tensors, avail mem=47.80 GB
_WEIGHTS = re.compile(r"Load weight end\. (.{1,300})$")
_WEIGHTS_PART = re.compile(r"\b(dtype|quant|mem usage|elapsed)=([\w.\-]+)")
# KV Cache is allocated. #tokens: 185897, K size: 1.2 GB ; dtype: torch.bfloat16
_KV = re.compile(r"KV Cache is allocated\.(.{1,200})$")
# Capture cuda graph end. Time elapsed: 10.70 s / elapsed=0.77 s
# Using KV cache dtype: torch.bfloat16
_KV_TYPE = re.compile(r"Using KV cache dtype: (\S+)")
_GRAPHS = re.compile(
    r"Capture (?:target |cuda graph|.{0,40}CUDA graph).{0,20}end\. (?:Time elapsed: |elapsed=)(\d+(?:\.\d+)?)"
)
_DEATHS = (
    "Scheduler hit an exception",
    "Received sigquit from a child proc",
    "Exception in ModelTpServer",
    "Watchdog timeout",
    "crashed with exit code",
)
_READY = "Application startup complete"
_WARMED = "fired up and ready to roll"
_GAP = 5.0
"""An interval so many times the usual one reaches back over idle time."""


class SGLangReader:
    """Reads lines of SGLang.

    Example:
        >>> reader = SGLangReader()
        >>> reader.add(1, "[2026-03-11 01:17:04 TP0] max_total_num_tokens=185897, max_running_requests=48, context_len=65536")
        >>> reader.result().value("kv tokens")
        185897
    """

    def __init__(self) -> None:
        self._log = EngineLog()
        self._began: float | None = None
        self._worker: dict[int, str] = {}
        self._prefilled: set[int] = set()
        self._before: dict[int, Rate] = {}
        self._cached = self._prompt = 0
        self._prefills: tuple[int, str] = (0, "")

    def add(self, line: int, text: str) -> None:
        """Take one line."""
        clock = _CLOCK.search(text, 0, 120)
        time = _seconds(clock[1]) if clock else None
        if self._began is None:
            self._began = time
        if found := _BATCH.search(text):
            self._batch(found[1], _members(found[2]), line, text, time)
        elif "ServerArgs(" in text:
            self._arguments(text, line)
        elif "max_total_num_tokens=" in text:
            for name, value in _FIGURE.findall(text):
                if name in _CAPACITY:
                    self._log.note(_CAPACITY[name], int(value), line, text)
        elif found := _WEIGHTS.search(text):
            self._log.note("load weight", found[1], line, text)
            for name, value in _WEIGHTS_PART.findall(found[1]):
                self._log.note(f"weights {name}", value, line, text)
        elif found := _KV.search(text):
            self._log.note("kv cache", found[1].strip(), line, text)
        elif found := _GRAPHS.search(text):
            self._log.note("graph capture s", float(found[1]), line, text, "s")
        elif found := _KV_TYPE.search(text):
            self._log.note("kv dtype", found[1], line, text)
        else:
            self._life(text, line, time)

    def result(self) -> EngineLog:
        """Return what was read so far."""
        log = self._log
        log.rates = _without_gaps(log)
        if self._prompt:
            line, text = self._prefills
            log.facts.pop("prefix hits", None)
            log.note("prefix hits", self._cached, line, text, f"of {self._prompt} prompt tokens")
        return log

    def _life(self, text: str, line: int, time: float | None) -> None:
        for word in _DEATHS:
            if word in text:
                self._log.note("died", word, line, text)
        if _READY in text or _WARMED in text:
            name = "warmed up" if _WARMED in text else "ready"
            self._log.note(name, "yes", line, text)
            if time is not None and self._began is not None:
                unit = "s since the first line with a clock"
                self._log.note(f"{name} s", round(time - self._began, 1), line, text, unit)

    def _arguments(self, text: str, line: int) -> None:
        for name, value in _ARGUMENT.findall(text.partition("ServerArgs(")[2]):
            if name in _ARGUMENTS and value != "None":
                self._log.note(name, value.strip("'"), line, text)

    def _batch(self, kind: str, members: dict[str, str], line: int, text: str, time: float | None) -> None:
        """Take a statistics line; all tensor-parallel workers of a rank print the same."""
        head = text.partition(" batch")[0]
        rank = int(found[1]) if (found := _RANK.search(head)) else 0
        worker = found[1] if (found := _WORKER.search(head)) else ""
        if self._worker.setdefault(rank, worker) != worker:
            return
        if kind == "Prefill":
            self._prefilled.add(rank)
            self._cached += int(_number(members.get("cached-token")))
            self._prompt += int(_number(members.get("new-token"))) + int(_number(members.get("cached-token")))
            self._prefills = line, text
            return
        speed = next((value for name, value in members.items() if name.startswith("gen throughput")), None)
        if speed is None:
            return
        acceptance = members.get("accept len")
        rate = Rate(
            time, line, rank, int(_number(members.get("running-req"))), int(_number(members.get("queue-req"))),
            _number(speed), _number(acceptance) if acceptance else None,
        )  # fmt: skip
        self._keep(rate, text)

    def _keep(self, rate: Rate, text: str) -> None:
        """Keep a rate whose whole interval was decoding: behind a prefill it holds the prefill, or idle time."""
        log = self._log
        before = self._before.get(rate.rank)
        self._before[rate.rank] = rate
        for name, value in (("most running", rate.running), ("most queued", rate.waiting)):
            if value > int(log.value(name) or -1):
                log.facts.pop(name, None)
                log.note(name, value, rate.line, text)
        behind_prefill = rate.rank in self._prefilled
        self._prefilled.discard(rate.rank)
        if not rate.running:
            log.drop("nothing was running at its end")
        elif behind_prefill:
            log.drop("first line after a prefill")
        elif before is None:
            log.drop("first line of the log")
        elif len(log.rates) >= MOST_RATES:
            log.drop(f"more than {MOST_RATES:,} lines")
        else:
            log.rates.append(rate)


def _without_gaps(log: EngineLog) -> list[Rate]:
    """Return the rates whose interval is no longer than usual at that number of requests."""
    steps = {
        rate.line: (rate.acceptance or 1.0) * rate.running / rate.tokens_per_second
        for rate in log.rates
        if rate.tokens_per_second > 0
    }
    if not steps:
        return []
    usual = median(steps.values())
    kept = [rate for rate in log.rates if rate.line in steps and steps[rate.line] <= _GAP * usual]
    for _ in range(len(log.rates) - len(kept)):
        log.drop("interval with idle time")
    return kept


def _members(text: str) -> dict[str, str]:
    """Return "#running-req: 1, gen throughput (token/s): 58.1" as names and values, in whatever order they come."""
    parts = (part.partition(":") for part in text.split(", "))
    return {name.strip().lstrip("#"): value.strip() for name, colon, value in parts if colon}


def _number(text: str | None) -> float:
    try:
        return float((text or "0").rstrip(",. %"))
    except ValueError:
        return 0.0


def _seconds(text: str) -> float:
    dated = len(text) > 8
    moment = datetime.strptime(text if dated else f"1970-01-01 {text}", "%Y-%m-%d %H:%M:%S")
    return (moment - datetime(1970, 1, 1)).total_seconds()
