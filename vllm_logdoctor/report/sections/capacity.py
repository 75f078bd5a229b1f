"""Capacity: what the KV cache holds, and what other settings would make of it."""

from __future__ import annotations

from vllm_logdoctor.plan.model import WhatIf
from vllm_logdoctor.report.escape import code, prose
from vllm_logdoctor.report.figures import number, setting, table
from vllm_logdoctor.report.naming import accelerator_unit, accelerators
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.run.model import Evidence

_GIB = 1024**3
_KIB = 1024


def capacity(page: Page) -> list[str]:
    """Return the section as Markdown lines; nothing where the log tells no size of the KV cache."""
    return [*_sizes(page), *_what_if(page)]


def _sizes(page: Page) -> list[str]:
    run = page.run
    tokens, room = run.measure("kv_cache_tokens"), run.measure("available_kv_cache_gib")
    full = run.measure("max_concurrency")
    lines, on_each = [], _on_each(page)
    if tokens is not None:
        lines.append(
            f"- {number(tokens)} tokens fit the KV cache{page.cited(_proof(page, 'kv_cache_tokens')[:1])}"
        )
    if room is not None:
        lines.append(
            f"- {number(room)} GiB for it{on_each}{page.cited(_proof(page, 'available_kv_cache_gib')[:1])}"
        )
    if tokens and room:
        each = room * _GIB / tokens
        lines.append(
            f"- {number(each / _KIB)} KiB per token{on_each} (computed: {number(room)} GiB / {number(tokens)} tokens)"
        )
    if full is not None:
        length = run.setting("max_model_len")
        of = f" of {number(length)} tokens" if isinstance(length, int) else ""
        proof = page.cited(_proof(page, "max_concurrency")[:1])
        lines.append(
            f"- {number(full)} requests of full length{of} at once{proof}; shorter ones in proportion more"
        )
    return [*lines, ""] if lines else []


def _on_each(page: Page) -> str:
    """Return the words for figures that hold for one rank of several."""
    ranks = accelerators(page.run) or 1
    return f" on each {accelerator_unit(page.run)}" if ranks > 1 else ""


def _proof(page: Page, name: str) -> tuple[Evidence, ...]:
    return page.run.measured[name].evidence


def _what_if(page: Page) -> list[str]:
    answers = page.diagnosis.what_if
    if not answers:
        return []
    header = ["if", "from", "to", "KV cache tokens", "full-length requests", "from what"]
    return ["What it would be:", "", *table(header, [_row(answer) for answer in answers])]


def _row(answer: WhatIf) -> list[str]:
    tokens = "can't be told" if answer.kv_cache_tokens is None else number(answer.kv_cache_tokens)
    if answer.low is not None and answer.high is not None and answer.low != answer.high:
        tokens += f" ({number(answer.low)} to {number(answer.high)})"
    full = "" if answer.max_concurrency is None else number(answer.max_concurrency)
    return [
        code(answer.knob),
        setting(answer.before),
        setting(answer.after),
        tokens,
        full,
        prose(answer.basis),
    ]
