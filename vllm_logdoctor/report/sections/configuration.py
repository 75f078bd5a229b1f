"""The effective configuration with the provenance of every value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from vllm_logdoctor.report.escape import code, prose
from vllm_logdoctor.report.figures import count, setting, table
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.run.model import Provenance, Run, Value

ORDER: tuple[Provenance, ...] = ("explicit", "adjusted", "derived", "reported")
MEANING: dict[Provenance, str] = {
    "explicit": "user",
    "adjusted": "vLLM changed it",
    "reported": "engine",
    "derived": "computed",
    "default": "default",
}
_FEW = 8
_MANY = 60
# what stays in the table where hundreds of settings were printed
_MAJOR = frozenset(
    (
        "async_scheduling", "attention_backend", "block_size", "compilation_config", "data_parallel_size", "dtype",
        "enable_chunked_prefill", "enable_expert_parallel", "enable_lora", "enable_prefix_caching", "enforce_eager",
        "gpu_memory_utilization", "kv_cache_dtype", "load_format", "max_model_len", "max_num_batched_tokens",
        "max_num_seqs", "model", "pipeline_parallel_size", "quantization", "speculative_config",
        "tensor_parallel_size",
    )
)  # fmt: skip
_EMPTY: tuple[Any, ...] = (None, "", [], {}, ())


def configuration(page: Page) -> list[str]:
    """Return the section as Markdown lines; nothing where no setting is known."""
    config = page.run.config
    variables = _variables(page)
    if not config:
        unknown = ["The log holds no configuration: it starts after the engine printed it.", ""]
        return [*(unknown if page.run.samples else []), *variables]
    before = _nearest(page)
    if before is not None:
        return [*_differences(page, before), "", *variables]
    shown = _ordered((name, value) for name, value in config.items() if _in_table(value))
    lines = (
        table(["setting", "value", "set by", "evidence"], [_row(page, *item) for item in shown])
        if shown
        else []
    )
    unset = sorted(
        name for name, value in config.items() if value.provenance in ORDER and not _in_table(value)
    )
    if unset:
        proof = page.cited((e for name in unset for e in config[name].evidence), 2)
        lines += ["", f"Printed as not set or empty{proof}: {', '.join(code(name) for name in unset)}."]
    return [*lines, *_defaults(config), "", *variables]


def _variables(page: Page) -> list[str]:
    """Return the environment variables that the log shows, in one sentence."""
    shown = [
        f"{code(name)} {_told(value)} ({MEANING[value.provenance]}){page.cited(value.evidence, 1)}"
        for name, value in sorted(page.run.environment.items())
    ]
    return [f"Environment variables in this log: {', '.join(shown)}."] if shown else []


def _nearest(page: Page) -> Run | None:
    """Return the earlier run that shares most settings, where it shares nearly all of them."""
    config = page.run.config
    ranked = [(len(_changed(config, other.run.config)), other.run) for other in reversed(page.earlier)]
    if not ranked:
        return None
    fewest, nearest = min(ranked, key=lambda item: item[0])
    return nearest if fewest <= _FEW else None


def _changed(config: Mapping[str, Value], other: Mapping[str, Value]) -> list[str]:
    names = sorted({*config, *other})
    return [
        name
        for name in names
        if name not in config or name not in other or config[name].value != other[name].value
    ]


def _differences(page: Page, before: Run) -> list[str]:
    config = page.run.config
    changed = _changed(config, before.config)
    if not changed:
        return [f"As in run {before.number}."]
    rows = [
        [
            code(name),
            _told(before.config[name]) if name in before.config else "not known",
            _told(config[name]) if name in config else "not known",
            page.cite(config[name].evidence, 2) if name in config else "",
        ]
        for name in changed
    ]
    here = f"run {page.run.number}"
    return [
        f"As in run {before.number}, but for:",
        "",
        *table(["setting", f"run {before.number}", here, "evidence"], rows),
    ]


def _ordered(items: Iterable[tuple[str, Value]]) -> list[tuple[str, Value]]:
    return sorted(items, key=lambda item: (ORDER.index(item[1].provenance), item[0]))


def _in_table(value: Value) -> bool:
    empty = any(
        value.value is one or value.value == one for one in _EMPTY if not isinstance(value.value, bool)
    )
    return value.provenance in ORDER and not (value.provenance == "reported" and empty)


def _is_minor(name: str, value: Value) -> bool:
    return value.provenance == "reported" and name not in _MAJOR


def _defaults(config: Mapping[str, Value]) -> list[str]:
    names = sorted(name for name, value in config.items() if value.provenance == "default")
    if not names:
        return []
    shown = ", ".join(f"{code(name)} {setting(config[name].value, 60)}" for name in names)
    return ["", f"{count(len(names), 'default')} of that version, not printed in this log: {shown}."]


def _row(page: Page, name: str, value: Value) -> list[str]:
    note = f"; {prose(value.note, 200)}" if value.note else ""
    return [code(name), _told(value), MEANING[value.provenance] + note, page.cite(value.evidence, 2)]


def _told(value: Value) -> str:
    if isinstance(value.value, dict):
        return code(spread(value.value), 300) or "nothing set"
    return setting(value.value)


def spread(value: Mapping[str, Any]) -> str:
    """Return a nested setting in one line, without what is not set.

    Example:
        >>> spread({"mode": 3, "backend": "", "pass_config": {"fuse_norm": True, "fuse_act": None}})
        'mode=3, pass_config.fuse_norm=True'
    """
    return ", ".join(f"{name}={item}" for name, item in _leaves(value))


def _leaves(value: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, Any]]:
    for name, item in value.items():
        if isinstance(item, Mapping):
            yield from _leaves(item, f"{before}{name}.")
        elif not any(item is one or item == one for one in _EMPTY if not isinstance(item, bool)):
            yield f"{before}{name}", item
