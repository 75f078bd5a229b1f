"""What the KV cache would hold with other settings, from the log's own numbers.

Each setting that moves the cache has a law: a function from the memory of a rank to the memory after the
change, or to the reason why the log can't tell. Settings that leave the cache alone are listed; any other
gets no answer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from vllm_logdoctor.errors import LogdoctorError, unknown_choice
from vllm_logdoctor.knowledge.dtypes import kv_cache_bytes
from vllm_logdoctor.knowledge.flags import flag_for_field, flags_of
from vllm_logdoctor.rules.capacity.laws import LAWS, UNRELATED, ChangedSetting
from vllm_logdoctor.rules.capacity.memory import START_FAILS, Memory, memory_of
from vllm_logdoctor.run.model import Run

_BOUNDS: dict[str, tuple[float | None, float]] = {
    **dict.fromkeys(
        (
            "max_model_len", "max_num_seqs", "max_num_batched_tokens", "tensor_parallel_size", "pipeline_parallel_size",
            "data_parallel_size", "num_gpu_blocks_override", "kv_cache_memory", "kv_cache_memory_bytes", "block_size",
        ),
        (1, math.inf),
    ),
    "gpu_memory_utilization": (0.01, 1),
    "cpu_offload_gb": (0, math.inf),
}  # fmt: skip
"""Least and highest value of the settings that have a law."""


class Figure(Struct, frozen=True):
    """A figure before and after with its range; `after` is None where `basis` says why it is not known."""

    before: float | None
    after: float | None
    low: float | None
    high: float | None
    basis: str


class CacheForecast(Struct, frozen=True):
    """What becomes of the KV cache: its tokens, and how many requests of max_model_len it holds."""

    kv_cache_tokens: Figure
    max_concurrency: Figure


def what_if(run: Run, settings: Mapping[str, Any]) -> CacheForecast:
    """Answer what the KV cache holds with other settings.

    Args:
        run: the run whose log gives the numbers.
        settings: new values by EngineArgs field; spelled as a flag is understood too.

    Returns:
        tokens and concurrency before and after; `after` is None with the reason in `basis` where the log
        can't tell.
    """
    before = memory_of(run)
    if before is None:
        return _unanswered(None, "the log does not print how many tokens the KV cache holds")
    memory = before
    for name, value in in_order_of_application(settings):
        outcome = applied(memory, ChangedSetting(run, name, value))
        if isinstance(outcome, str):
            return _unanswered(before, outcome)
        memory = outcome
    return _answer(before, memory)


def memory_with(run: Run, settings: Mapping[str, Any]) -> Memory | str | None:
    """Return the memory of a run with other settings as far as the laws can tell; a setting without an answer is left out.

    A text says why the start would fail. None where the log does not tell the size of the cache.
    """
    memory = memory_of(run)
    if memory is None:
        return None
    for name, value in in_order_of_application(settings):
        outcome = applied(memory, ChangedSetting(run, name, value))
        if isinstance(outcome, Memory):
            memory = outcome
        elif START_FAILS in outcome:
            return outcome
    return memory


def concurrency_of(before: Memory, after: Memory) -> float | None:
    """Return how many requests of max_model_len the cache holds after a change, or None where the log does not tell."""
    return _concurrency(before, after, "").after


def in_order_of_application(settings: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return settings by field name in the order in which they are applied, fixed sizes last.

    Example:
        >>> in_order_of_application({"--num-gpu-blocks-override": 100, "max-model-len": 4096})
        [('max_model_len', 4096), ('num_gpu_blocks_override', 100)]
    """
    last = ("kv_cache_memory", "kv_cache_memory_bytes", "num_gpu_blocks_override")
    named = {name.lstrip("-").replace("-", "_"): value for name, value in settings.items()}
    return sorted(named.items(), key=lambda item: (item[0] in last, item[0]))


def applied(memory: Memory, settings: ChangedSetting) -> Memory | str:
    """Return the memory after one change, or why it is not known."""
    law = LAWS.get(settings.name)
    if law is not None:
        return law(memory, settings)
    if settings.name in UNRELATED:
        return memory.scaled(1, 1, 1, f"{settings.name} does not enter the size of the cache")
    return f"no law is known for {settings.name}: it may or may not change the cache"


def parse_setting(text: str) -> tuple[str, Any]:
    """Read one NAME=VALUE.

    Example:
        >>> parse_setting("gpu_memory_utilization=0.95"), parse_setting("kv_cache_dtype=fp8")
        (('gpu_memory_utilization', 0.95), ('kv_cache_dtype', 'fp8'))

    Raises:
        ValueError: there is no "=".
    """
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise ValueError(f"expected NAME=VALUE, got {text!r}; write for example gpu_memory_utilization=0.95")
    return name.strip(), parse_value(value.strip())


def parse_value(text: str) -> Any:
    """Read a value as a command line or a JSON document writes it."""
    words = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return json.loads(text)
    except ValueError:
        return text


def check_setting(name: str, value: Any, version: str | None) -> None:
    """Check one setting of a what-if.

    Raises:
        LogdoctorError: no release has such a setting, or vLLM would refuse the value (exit code 2).
    """
    field = name.lstrip("-").replace("-", "_")
    flag = flag_for_field(field, version) if version else None
    if field not in LAWS and field not in UNRELATED and flag is None:
        fields = sorted({*LAWS, *UNRELATED, *(one[2:].replace("-", "_") for one in flags_of(version))})
        import difflib

        near = difflib.get_close_matches(field, fields, n=1, cutoff=0.6)
        hint = f" (did you mean {near[0]}?)" if near else "; logdoctor config LOG lists those of a run"
        raise LogdoctorError(f"unknown setting {name!r}{hint}", 2)
    choices = flag.choices if flag else ()
    if choices and value is not None and str(value) not in map(str, choices):
        raise unknown_choice(f"value of {field}:", str(value), map(str, choices))
    if field == "kv_cache_dtype" and not choices and kv_cache_bytes(str(value), "bfloat16") is None:
        raise LogdoctorError(
            f"unknown value of {field}: {str(value)!r}; write for example fp8 or bfloat16", 2
        )
    low, high = _BOUNDS.get(field, (None, math.inf))
    if low is None or value is None:
        return
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not low <= value <= high or math.isinf(value):
        wanted = f"a number between 0 and {high:g}" if high < math.inf else f"a number from {low:g}"
        raise LogdoctorError(f"{field}={value}: write {wanted}", 2)


def _answer(before: Memory, after: Memory) -> CacheForecast:
    basis = "; ".join(after.steps) or "nothing changes"
    block = after.block or 1
    tokens = Figure(
        int(before.tokens),
        _down(after.tokens, block),
        _down(after.low, block),
        _down(after.high, block),
        basis,
    )
    return CacheForecast(tokens, _concurrency(before, after, basis))


def _concurrency(before: Memory, after: Memory, basis: str) -> Figure:
    if not before.concurrency or not after.length or not before.length:
        return Figure(before.concurrency, None, None, None, "the log does not print the longest request")
    # What vLLM prints is rounded; of layers of several kinds it is all that is known.
    exact = before.concurrency if before.hybrid else before.tokens / before.length
    ratio = before.length / after.length * exact / before.tokens
    if before.hybrid and after.length != before.length:
        basis += (
            "; layers of several kinds share the cache, so that concurrency over another length is an"
            " estimate"
        )
    figures = [round(tokens * ratio, 2) for tokens in (after.tokens, after.low, after.high)]
    return Figure(before.concurrency, figures[0], figures[1], figures[2], basis)


def _unanswered(before: Memory | None, reason: str) -> CacheForecast:
    tokens = int(before.tokens) if before else None
    return CacheForecast(
        Figure(tokens, None, None, None, reason),
        Figure(before.concurrency if before else None, None, None, None, reason),
    )


def _down(tokens: float, block: int) -> int:
    # The engine counts whole blocks; half a token of rounding must not cost one.
    return int((tokens + 0.5) // block * block)
