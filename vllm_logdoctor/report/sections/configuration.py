"""The effective configuration with the provenance of every value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from vllm_logdoctor.knowledge.flags import flag_for_field, flag_history
from vllm_logdoctor.report.escape import code, prose
from vllm_logdoctor.report.figures import capital, setting, table
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.run.model import Evidence, Provenance, Run, Value

ORDER: tuple[Provenance, ...] = ("explicit", "adjusted", "derived", "reported")
MEANING: dict[Provenance, str] = {
    "explicit": "arguments",
    "adjusted": "vLLM",
    "reported": "engine",
    "derived": "computed",
    "default": "default",
}
_FEW = 8
_LONG = 160
_WHOLE = 400
"""Characters of a nested setting from which what is off is left out, and at which it is cut."""
# Settings that the report shows although nobody set them.
_MAJOR = frozenset(
    (
        "async_scheduling", "attention_backend", "block_size", "compilation_config", "data_parallel_size", "dtype",
        "enable_chunked_prefill", "enable_expert_parallel", "enable_lora", "enable_prefix_caching", "enforce_eager",
        "gpu_memory_utilization", "kv_cache_dtype", "max_model_len", "max_num_batched_tokens", "max_num_seqs",
        "pipeline_parallel_size", "quantization", "speculative_config", "tensor_parallel_size",
    )
)  # fmt: skip
_EMPTY: tuple[Any, ...] = (None, "", [], {}, ())


_GENERATED = frozenset({"engine_id"})
"""Values that each process draws for itself."""


def configuration(page: Page) -> list[str]:
    """Return every value that is set, as a table, with the defaults below; nothing where no setting is known."""
    config = page.run.config
    shown = sorted((item for item in config.items() if _in_table(item[1])), key=_by_provenance)
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
        lines += ["", f"Not set{proof}: {', '.join(code(name) for name in unset)}."]
    defaults = sorted(name for name, value in config.items() if value.provenance == "default")
    if defaults:
        lines += ["", f"Defaults of this release: {_in_line(config, defaults)}."]
    return [*lines, *_variables(page)]


def configuration_summary(page: Page) -> list[str]:
    """Return what was set or changed as a table, and the values of the engine that matter most in a sentence."""
    config = page.run.config
    if not config:
        return _variables(page)
    before = _nearest(page)
    if before is not None:
        return [*_differences(page, before), *_variables(page)]
    set_here = [item for item in config.items() if _in_table(item[1]) and item[1].provenance != "reported"]
    idle = sorted(name for name, value in set_here if _is_default(page.run, name, value))
    chosen = [item for item in set_here if item[0] not in idle]
    rows = [_row(page, *item) for item in sorted(chosen, key=_by_provenance)]
    lines = table(["setting", "value", "set by", "evidence"], rows) if rows else []
    groups: tuple[tuple[Provenance, str], ...] = (
        ("reported", "in effect"),
        ("default", "defaults of this release, not printed"),
    )
    said = [words for provenance, name in groups if (words := _others(page, provenance, name))]
    if said:
        words = f"{'also ' if rows and said[0].startswith(groups[0][1]) else ''}{'; '.join(said)}"
        lines += ["", f"{capital(words)}."]
    if idle:
        proof = page.cited((e for name in idle for e in _proof(page.run, config[name])), 2)
        lines += ["", f"Set to the default value{proof}: {_in_line(config, idle)}."]
    return [*lines, *_variables(page)]


def _is_default(run: Run, name: str, value: Value) -> bool:
    """Return whether an argument has the value that its flag has when it is not given: in the run's release, else in all."""
    if value.provenance != "explicit" or value.resolved:
        return False
    flag = flag_for_field(name, run.release)
    eras = flag_history("--" + name.replace("_", "-")) if run.version is None else ()
    flags = [flag] if flag is not None else [era.flag for era in eras]
    return bool(flags) and all(
        one.default is not None and not one.default_is_source and one.default == value.value for one in flags
    )


def _others(page: Page, provenance: Provenance, name: str) -> str:
    """Return the settings that matter most and that nobody set, of one provenance, with their lines."""
    config = page.run.config
    # The CPU backend of V0 takes its cache from a variable.
    idle = {"gpu_memory_utilization"} if (page.run.platform, page.run.engine) == ("cpu", "V0") else set()
    names = sorted(
        one for one in _MAJOR - idle if one in config and _is_worth_a_word(config[one], provenance)
    )
    proof = page.cited((e for one in names for e in config[one].evidence), 2)
    return f"{name}{proof}: {_in_line(config, names)}" if names else ""


def already_right(page: Page) -> list[str]:
    """Return the optimizations that are on, in one sentence."""
    items = [
        f"{prose(one.name)} ({prose(one.state)}){page.cited(one.evidence, 1)}"
        for one in page.diagnosis.already_right
    ]
    return ["", f"Already right: {'; '.join(items)}."] if items else []


def _in_line(config: Mapping[str, Value], names: Sequence[str]) -> str:
    return ", ".join(
        f"{code(name)} {setting(config[name].value, 60)}{_resolved(config[name])}" for name in names
    )


def _resolved(value: Value) -> str:
    return f" (resolved to {code(value.resolved)})" if value.resolved else ""


def _by_provenance(item: tuple[str, Value]) -> tuple[int, str]:
    return ORDER.index(item[1].provenance), item[0]


def _is_worth_a_word(value: Value, provenance: Provenance) -> bool:
    """Return True for a value other than nothing, no and one: what is off or single is the rule."""
    shown = value.value
    return (
        value.provenance == provenance
        and _is_set(shown)
        and shown is not False
        and shown != 1
        and not isinstance(shown, Mapping)
    )


def _variables(page: Page) -> list[str]:
    """Return the environment variables that the log shows, in one sentence."""
    shown = [
        f"{code(name)} {_shown(value)}{' (set by vLLM)' if value.provenance == 'adjusted' else ''}{page.cited(value.evidence, 1)}"
        for name, value in sorted(page.run.environment.items())
    ]
    return ["", f"Environment: {', '.join(shown)}."] if shown else []


def _nearest(page: Page) -> Run | None:
    """Return the earlier run that shares most settings, where it shares nearly all of them."""
    config = page.run.config
    if (
        same := next((one.run for one in page.earlier if not _changed(config, one.run.config)), None)
    ) is not None:
        return same  # The first one prints them.
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
        # The first screen of the same failure names that run.
        return [] if before is page.failed_before else [f"As in run {before.number}."]
    rows = [
        [
            code(name),
            *_shown_apart(before.config.get(name), config.get(name)),
            page.cite(config[name].evidence, 2) if name in config else "",
        ]
        for name in changed
    ]
    here = f"run {page.run.number}"
    return [
        f"As in run {before.number}, except:",
        "",
        *table(["setting", f"run {before.number}", here, "evidence"], rows),
    ]


def _shown_apart(one: Value | None, other: Value | None) -> tuple[str, str]:
    """Return two values; of nested ones that are cut what differs, which else may be behind the cut."""
    if one is None or other is None:
        missing = "not in the log"
        return (missing if one is None else _shown(one), missing if other is None else _shown(other))
    if not (isinstance(one.value, Mapping) and isinstance(other.value, Mapping)):
        return _shown(one), _shown(other)
    if max(len(spread(one.value)), len(spread(other.value))) <= _LONG:
        return _shown(one), _shown(other)
    left, right = dict(_leaves(one.value)), dict(_leaves(other.value))
    return _only_in(left, right), _only_in(right, left)


def _only_in(leaves: Mapping[str, Any], others: Mapping[str, Any]) -> str:
    differing = (f"{name}={item}" for name, item in leaves.items() if others.get(name) != item)
    return code(", ".join(differing), _WHOLE) or "not set"


def _in_table(value: Value) -> bool:
    return value.provenance in ORDER and not (value.provenance == "reported" and not _is_set(value.value))


def _is_set(value: Any) -> bool:
    return isinstance(value, bool) or not any(value is one or value == one for one in _EMPTY)


def _row(page: Page, name: str, value: Value) -> list[str]:
    note = f" ({prose(value.note, 120)})" if value.note else ""
    given = page.run.arguments.get(name)
    if value.provenance == "explicit" and isinstance(given, Mapping) and spread(given):
        # The engine prints nested settings with its own names and with what it filled in.
        value = replace(value, value=dict(given))
    # An object that is printed whole, with what is not set, also holds what vLLM filled in.
    whole = isinstance(value.value, Mapping) and not all(map(_is_set, value.value.values()))
    completed = ", completed by vLLM" if whole and value.provenance == "explicit" else ""
    if completed:
        value = replace(value, value={key: one for key, one in value.value.items() if key not in _GENERATED})
    return [
        code(name),
        _shown(value),
        MEANING[value.provenance] + completed + note,
        page.cite(_proof(page.run, value), 2),
    ]


def _proof(run: Run, value: Value) -> tuple[Evidence, ...]:
    """Return the lines of a value; of a command wrapped over lines the one that holds the argument, which comes first."""
    wrapped = len(run.launched_by) > 1 and set(run.launched_by) <= set(value.evidence)
    return value.evidence[:1] if wrapped else value.evidence


def _shown(value: Value) -> str:
    if isinstance(value.value, dict):
        whole = spread(value.value)
        return (
            code(whole if len(whole) <= _LONG else spread(_without_zeros(value.value)), _WHOLE)
            or "nothing set"
        )
    return setting(value.value) + _resolved(value)


def _without_zeros(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a nested setting without what is off or zero: most of what the engine filled in."""
    return {
        name: _without_zeros(item) if isinstance(item, Mapping) else item
        for name, item in value.items()
        if item is not False and item != 0
    }


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
        elif _is_set(item):
            yield f"{before}{name}", item
