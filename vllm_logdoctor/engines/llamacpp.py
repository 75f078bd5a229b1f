"""llama.cpp: what its server and its command line print of model, context, slots and the times of each request."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from vllm_logdoctor.engines.model import MOST_RATES, EngineLog, Rate, Request

# 0.31.376.339 I slot ... : minutes, seconds, milliseconds, microseconds since the start; a router puts the port of its server ahead
_CLOCK = re.compile(r"^(?:\[\d+\] )?(\d+)\.(\d\d)\.(\d{3})\.(\d{3}) [IWED] ")
_FACTS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(expression))
    for name, expression in (
        # srv    load_model: loading model '/models/tiny.gguf'
        ("model file", r"loading model '([^']+)'|loaded meta data with .* from (\S+) \("),
        # llama_model_loader: - kv   2:  general.name str = Qwen2.5 14B Instruct
        ("model", r"(?:- kv +\d+: +general\.name +str +=|(?:print_info|llm_load_print_meta): general\.name +=) *(\S.*?) *$"),
        ("quantization", r"(?:file type +=|model ftype +=) *(\S.*?) *$"),
        # print_info: file size   = 2.31 GiB (5.12 BPW)
        ("size", r"(?:print_info: file size|llm_load_print_meta: model size) +=? *(\d+(?:\.\d+)? [MG]iB)"),
        ("params", r"model params +=? *(\d+(?:\.\d+)? [KMBT])"),
        # load_tensors: offloaded 0/35 layers to GPU
        ("offload", r"offloaded (\d+/\d+) layers"),
        ("context", r"(?:llama_context|llama_new_context_with_model|llama_init_from_model): n_ctx +=? *(\d+)|new slot,? n_ctx = (\d+)"),
        ("context per slot", r"n_ctx_per_seq +=? *(\d+)|n_ctx_slot = (\d+)"),
        ("n_batch", r"(?:llama_\w+): n_batch +=? *(\d+)"),
        ("n_ubatch", r"(?:llama_\w+): n_ubatch +=? *(\d+)"),
        ("flash attention", r"(?:llama_\w+): flash_attn +=? *(\w+)"),
        # llama_kv_cache_unified:  CPU KV buffer size = 80.00 MiB
        ("kv buffer", r"(\S+) KV buffer size = +(\d+(?:\.\d+)? MiB)"),
        ("kv type", r"KV (?:self )?size *= .*?K \((\w+)\)|llama_kv_cache\w*: .*type_k = '?(\w+)"),
        ("kv cells", r"\((?: *|.*?) *(\d+) cells|size = (\d+) cells|kv_size = (\d+)"),
        ("slots", r"n_slots = (\d+)"),
        ("device", r"(?:Device \d+: |- CUDA\d+ +: |using device \S+ \()([^,(]+?)(?:,| \(|\))"),
        ("build", r"build:? *=? (\d+ \([0-9a-f]+\))|\bbuild: ([0-9a-f]+ \(\d+\))"),
        ("listening", r"(server (?:is )?listening (?:on|at) \S+)"),
    )
)  # fmt: skip
# eval time =    1097.25 ms /   192 tokens (    5.71 ms per token,   174.98 tokens per second)
_TIMES = re.compile(r"\b(prompt eval|eval) time *= *(\d+(?:\.\d+)?) ms */ *(\d+) (?:tokens|runs)")
_SLOT = re.compile(r"slot +\S+: id +(\d+) \|")
# n_decoded =   1081, tg =  12.93 t/s    n_gen = 276, tg = 28.66 t/s: printed every few seconds while a request runs
_PROGRESS = re.compile(r"\bn_(?:decoded|gen) = +(\d+), tg = +(\d+(?:\.\d+)?) t/s")
_FEWEST_TOKENS = 16
"""Requests of fewer tokens say nothing about a speed: one token takes 0.00 ms."""
_WINDOW = 5.0
"""Seconds over which the rate of all busy slots is taken; shorter in a log of a few seconds."""


class LlamaCppReader:
    """Reads lines of llama.cpp.

    Example:
        >>> reader = LlamaCppReader()
        >>> reader.add(1, "llama_print_timings:        eval time =  9365.17 ms /   250 runs   (   37.46 ms per token)")
        >>> round(reader.result().requests[0].rate, 2)
        26.69
    """

    def __init__(self) -> None:
        self._log = EngineLog()
        self._prompt: tuple[int, float] = (0, 0.0)
        self._slot = ""
        self._unfinished: dict[str, Request] = {}

    def add(self, line: int, text: str) -> None:
        """Take a record, which may hold the lines that follow it without a head of their own."""
        for number, one in enumerate(text.split("\n"), start=line):
            self._line(number, one)

    def result(self) -> EngineLog:
        """Return what was read so far."""
        log = self._log
        log.rates = rates_of(log.requests)
        shown = (*log.requests, *self._unfinished.values())
        long = [request for request in shown if request.tokens >= _FEWEST_TOKENS]
        for name, values in (
            ("decode tok/s per request", [request.rate for request in long]),
            (
                "prompt tok/s per request",
                [one.prompt_tokens / one.prompt_seconds for one in log.requests if one.prompt_tokens >= _FEWEST_TOKENS and one.prompt_seconds > 0],
            ),
        ):  # fmt: skip
            log.facts.pop(name, None)
            if values:
                several = f"median of {len(values)} requests" if len(values) > 1 else "one request"
                unit = f"tok/s, {several} with {_FEWEST_TOKENS} tokens or more"
                log.note(name, round(median(values), 2), (long or log.requests)[0].line, "", unit)
        return log

    def _line(self, line: int, text: str) -> None:
        if found := _SLOT.search(text):
            self._slot = found[1]
        if found := _TIMES.search(text):
            self._request(found, line, _clock(text))
            return
        if (found := _PROGRESS.search(text)) and (rate := float(found[2])):
            tokens = int(found[1])
            self._unfinished[self._slot] = Request(line, 0, 0.0, tokens, tokens / rate)
        for name, expression in _FACTS:
            if name not in self._log.facts and (found := expression.search(text)):
                value = " ".join(group for group in found.groups() if group)
                self._log.note(name, int(value) if value.isdigit() else value, line, text)
        if "server is listening" in text and (clock := _clock(text)) is not None:
            self._log.note("ready s", clock, line, text, "s since the process began")

    def _request(self, found: re.Match[str], line: int, time: float | None) -> None:
        tokens, seconds = int(found[3]), float(found[2]) / 1000
        if found[1] == "prompt eval":
            self._prompt = tokens, seconds
            return
        prompt, self._prompt = self._prompt, (0, 0.0)
        self._unfinished.pop(self._slot, None)
        if tokens < 2 or seconds <= 0:
            self._log.drop("request of one token")
        elif len(self._log.requests) >= MOST_RATES:
            self._log.drop(f"more than {MOST_RATES:,} requests")
        else:
            self._log.requests.append(Request(line, *prompt, tokens, seconds, time))


def rates_of(requests: Sequence[Request]) -> list[Rate]:
    """Return the rate of all slots together, over windows of equal length.

    A request gives its tokens evenly over its decode time; how many decode at once is the mean over the window.
    """
    timed = [request for request in requests if request.end is not None]
    if not timed:
        return []
    spans = [
        (request.end - request.seconds, request.end, request) for request in timed if request.end is not None
    ]
    first, last = min(start for start, _, _ in spans), max(end for _, end, _ in spans)
    window = min(_WINDOW, max((last - first) / 10, 0.5))
    count = min(int((last - first) / window), MOST_RATES)
    edges = [first + window * number for number in range(count + 1)]
    tokens, busy, lines = [0.0] * count, [0.0] * count, [0] * count
    for start, end, request in spans:
        for at in range(max(0, int((start - first) / window)), min(count, int((end - first) / window) + 1)):
            shared = min(end, edges[at + 1]) - max(start, edges[at])
            if shared > 0:
                tokens[at] += request.rate * shared
                busy[at] += shared
                lines[at] = lines[at] or request.line
    return [
        Rate(high, lines[at], 0, round(busy[at] / window), 0, tokens[at] / window)
        for at, (low, high) in enumerate(pairwise(edges))
        if busy[at] >= (high - low) * 0.9
    ]


def _clock(text: str) -> float | None:
    found = _CLOCK.match(text)
    if not found:
        return None
    return int(found[1]) * 60 + int(found[2]) + int(found[3]) / 1e3 + int(found[4]) / 1e6
