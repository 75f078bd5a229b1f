"""The KV cache: what it holds, what other settings would make of it, and the decode limit of the memory bandwidth."""

from __future__ import annotations

from vllm_logdoctor.plan.model import WhatIf
from vllm_logdoctor.report.escape import code, prose
from vllm_logdoctor.report.figures import at_once, number, setting, table
from vllm_logdoctor.report.naming import accelerator_unit, accelerators, per_engine
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.rules.capacity.memory import memory_of

_GIB = 1024**3
_KIB = 1024
_OF_MEMORY = ("memory", "kv-cache")
_SHORT_OF_MEMORY = 50.0
"""Percent of the KV cache in use at the peak from which other sizes matter."""
_TAKES_MORE = frozenset({"gpu_memory_utilization"})
"""Settings that give the cache memory which a run that ran out of it did not have."""


def capacity(page: Page) -> list[str]:
    """Return the section; nothing where the log prints no size of the KV cache."""
    sizes = _sizes(page)
    asked = page.root is None or page.root.topic in _OF_MEMORY
    return [*sizes, *(_what_if(page) if sizes and asked else []), *_decode_limit(page)]


def _sizes(page: Page) -> list[str]:
    run = page.run
    tokens, room = run.measure("kv_cache_tokens"), run.measure("available_kv_cache_gib")
    full, length = run.measure("max_concurrency"), run.setting("max_model_len")
    each = f" per {accelerator_unit(run)}" if (accelerators(run) or 1) > 1 else ""
    memory = memory_of(run)
    parts = []
    if tokens is not None:
        kinds = ", counted as if every layer kept all of them" if memory and memory.hybrid else ""
        parts.append(f"{number(tokens)} tokens{per_engine(run)}{_proof(page, 'kv_cache_tokens')}{kinds}")
    if room is not None:
        parts.append(f"{number(room)} GiB{each}{_proof(page, 'available_kv_cache_gib')}")
    if memory and room:
        per = f" per token{each}" + (" of a full-length request" if memory.hybrid else "")
        parts.append(f"about {number(room * _GIB / memory.held / _KIB)} KiB{per}")
    if full is not None:
        of = f" of {number(length)} tokens" if isinstance(length, int) else " of full length"
        held = at_once(full)
        requests = "request" if held == "1" else "requests"
        parts.append(f"{held} {requests}{of} at once{_proof(page, 'max_concurrency')}")
    return [f"{'; '.join(parts)}.", ""] if parts else []


def _proof(page: Page, name: str) -> str:
    return page.cited(page.run.measured[name].evidence[:1])


def _what_if(page: Page) -> list[str]:
    """Return what other settings would make of a cache that is short of room: of each setting the value that gives it most."""
    run = page.run
    full, used = run.measure("max_concurrency"), run.extremes.kv_usage
    if not (full is not None and full < 2) and (used or 0.0) < _SHORT_OF_MEMORY:
        return []
    now = run.measure("kv_cache_tokens")
    out_of_memory = page.root is not None and page.root.exhausts == "device-memory"
    larger = {
        answer.knob: answer
        for answer in sorted(page.diagnosis.what_if, key=lambda one: one.kv_cache_tokens or 0)
        if (answer.kv_cache_tokens or 0) > (now or 0) and not (out_of_memory and answer.knob in _TAKES_MORE)
    }
    if not larger:
        return []
    header = ["change", "KV cache tokens (likely range)", "full-length requests", "assumption"]
    return [*table(header, [_row(one) for one in page.diagnosis.what_if if one in larger.values()]), ""]


def _row(answer: WhatIf) -> list[str]:
    tokens = number(answer.kv_cache_tokens)
    if answer.low != answer.high:
        tokens += f" ({number(answer.low)} to {number(answer.high)})"
    full = "" if answer.max_concurrency is None else number(answer.max_concurrency)
    change = f"{code(answer.knob)} {setting(answer.before)} → {setting(answer.after)}"
    return [change, tokens, full, prose(answer.basis)]


def _decode_limit(page: Page) -> list[str]:
    limit = page.diagnosis.ceiling
    if limit is None:
        return []
    rate = f"{number(limit.measured)} of at most {number(limit.ceiling)} tokens/s ({limit.of_limit})"
    return [
        f"Decode reaches {rate} of what the memory bandwidth allows{page.cited(limit.evidence)}: {prose(limit.formula)}."
    ]
