"""Command line flags of `vllm serve` and the API server: when each existed, its default, its forms."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Literal

from msgspec import Struct

from vllm_logdoctor.knowledge.history import ReleaseSpan, exists, facts_at, spans
from vllm_logdoctor.knowledge.store import Facts, eras, read_table
from vllm_logdoctor.knowledge.versions import VersionLike, number_of, release_number

Form = Literal["value", "switch", "switch-pair", "boolean"]
"""value: takes one; switch: only turns on; switch-pair: also as --no-...; boolean: takes true or false."""

# What vLLM itself prints under another name than its flag: the engine's configuration line, config classes.
_OTHER_NAMES = {
    "max_seq_len": "max_model_len",
    "max_seq_len_to_capture": "max_seq_len_to_capture",
    "cache_dtype": "kv_cache_dtype",
    "model_tag": "model",
    "decode_context_parallel": "decode_context_parallel_size",
    "kv_cache_memory": "kv_cache_memory_bytes",
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
}


class Flag(Struct, frozen=True):
    """One flag as one release has it.

    `default`: the value when not given, None where the engine computes it; when `default_is_source` it is
    source text instead. `field`: "Class.field" it fills, if known. `owner`: "engine" or "server".
    """

    name: str
    form: Form
    default: Any
    default_is_source: bool
    choices: tuple[Any, ...]
    aliases: tuple[str, ...]
    deprecated: bool
    field: str | None
    owner: str

    def arguments(self, value: Any) -> tuple[str, ...] | None:
        """Words of a command line that set `value`: () where none is needed, None where nothing can.

        >>> flag_at("--lora-modules", "0.11.2").arguments([{"name": "a", "base_model_name": None}])
        ('--lora-modules', '{"name": "a", "base_model_name": null}')
        """
        if self.form == "boolean":
            return (self.name, str(bool(value)).lower())
        if self.form in ("switch", "switch-pair"):
            if value:
                return (self.name,)
            if self.form == "switch-pair":
                return ("--no-" + self.name.removeprefix("--"),)
            return None if self.default is True else ()
        if isinstance(value, (list, tuple)):
            return (self.name, *(json.dumps(item) if isinstance(item, dict) else str(item) for item in value))
        return (self.name, json.dumps(value) if isinstance(value, dict) else str(value))


OF_V0_ONLY = (
    "swap_space", "num_scheduler_steps", "multi_step_stream_outputs", "scheduler_delay_factor",
    "preemption_mode", "max_seq_len_to_capture", "num_lookahead_slots", "use_v2_block_manager",
    "tokenizer_pool_size", "disable_async_output_proc",
)  # fmt: skip
"""Arguments that releases still took while their V1 engine ignored them."""


class FlagEra(Struct, frozen=True):
    """Releases over which a flag did not change; `until` is included."""

    since: str
    until: str
    flag: Flag


def flag_at(flag: str, version: VersionLike) -> Flag | None:
    """The flag in that version, by name, alias or --no- form; None when absent or the version is not known.

    >>> flag_at("-O", "0.11.2").name, flag_at("-O", "0.12.0").name
    ('--compilation-config', '--optimization-level')
    """
    name = canonical_name(flag, version)
    if name is None:
        return None
    facts = facts_at("flags", name, version)
    return None if facts is None else _flag(name, facts)


def flag_exists(flag: str, version: VersionLike) -> bool | None:
    """Return whether that version accepts the flag; None when the version is not known.

    >>> flag_exists("--swap-space", "0.17.1"), flag_exists("--swap-space", "0.18.0")
    (True, False)
    """
    if release_number(version) is None:
        return None
    return flag_at(flag, version) is not None


def flag_default(flag: str, version: VersionLike) -> Any:
    """Default on that version's command line; None where it is computed, absent or not a plain value.

    `defaults.default_of` gives the value that a run without the flag really has.

    >>> flag_default("--gpu-memory-utilization", "0.19.1"), flag_default("--gpu-memory-utilization", "0.20.0")
    (0.9, 0.92)
    """
    found = flag_at(flag, version)
    return None if found is None or found.default_is_source else found.default


def flags_of(version: VersionLike) -> dict[str, Flag]:
    """Every flag of that version by name; empty when the version is not known."""
    return {
        name: _flag(name, facts)
        for name in read_table("flags")
        if (facts := facts_at("flags", name, version))
    }


def whole_flag(given: str) -> str:
    """Return the flag that a command line abbreviates, as argparse reads it; what is none of a release stays as it is.

    Example:
        >>> whole_flag("--max-num-seq"), whole_flag("--max-model-len"), whole_flag("--tensor"), whole_flag("--of-a-plugin")
        ('--max-num-seqs', '--max-model-len', '--tensor-parallel-size', '--of-a-plugin')
        >>> whole_flag("--max-num")
        '--max-num'
    """
    known = read_table("flags")
    longer = [name for name in known if name.startswith(given)]
    return longer[0] if given not in known and len(longer) == 1 else given


def flag_history(flag: str) -> tuple[FlagEra, ...]:
    """The flag through the known releases, oldest first; empty when no known release has it.

    >>> [(era.since, era.flag.default) for era in flag_history("--cuda-graph-sizes")]
    [('0.9.0', [512]), ('0.10.0', []), ('0.11.1', None)]
    """
    name = long_name(flag)
    return tuple(FlagEra(era.first, era.last, _flag(name, era.facts)) for era in eras("flags", name))


def defaults_of_any_release(field: str) -> tuple[Any, ...]:
    """The defaults that the flag of a field has had, over all known releases.

    >>> defaults_of_any_release("gpu_memory_utilization")
    (0.9, 0.92)
    """
    found: list[Any] = []
    for era in flag_history("--" + field.replace("_", "-")):
        if era.flag.default is not None and era.flag.default not in found:
            found.append(era.flag.default)
    return tuple(found)


def flag_spans(flag: str) -> tuple[ReleaseSpan, ...]:
    """When the flag existed.

    >>> flag_spans("--swap-space")
    (ReleaseSpan(since='0.4.1', until='0.17.1'),)
    """
    return spans("flags", long_name(flag))


def field_of(knob: str) -> str:
    """Return the EngineArgs field that a flag sets.

    Example:
        >>> field_of("--no-enable-prefix-caching"), field_of("--compilation-config.cudagraph_mode")
        ('enable_prefix_caching', 'compilation_config.cudagraph_mode')
    """
    return knob.removeprefix("--no-").lstrip("-").replace("-", "_")


def flag_for_field(field: str, version: VersionLike) -> Flag | None:
    """The flag that sets an EngineArgs field, or a name the engine prints for it; None where there is none.

    >>> flag_for_field("max_seq_len", "0.11.2").name
    '--max-model-len'
    """
    for candidate in (field, _OTHER_NAMES.get(field, field)):
        found = flag_at("--" + candidate.replace("_", "-"), version)
        if found is not None:
            return found
    return None


def long_name(flag: str) -> str:
    """The flag as vLLM writes it: leading dashes, dashes for underscores, no value, no dotted key.

    >>> long_name("max_num_seqs"), long_name("--compilation-config.cudagraph_mode=NONE")
    ('--max-num-seqs', '--compilation-config')
    """
    bare = flag.split("=", 1)[0].split(".", 1)[0]
    if bare.startswith("-") and not bare.startswith("--"):
        return bare
    # Two flags of old releases were really spelt with an underscore.
    spelt = "--" + bare.removeprefix("--")
    return spelt if spelt in read_table("flags") else spelt.replace("_", "-")


def canonical_name(flag: str, version: VersionLike) -> str | None:
    """Name under which that version knows the flag (aliases, -O3, --no-x resolved); None when it does not."""
    name = long_name(flag)
    if exists("flags", name, version):
        return name
    if name.startswith("--no-"):
        positive = "--" + name.removeprefix("--no-")
        facts = facts_at("flags", positive, version)
        return positive if facts is not None and facts["form"] == "switch-pair" else None
    if name.startswith("-O"):
        return _optimization_flag(name, flag, version)
    number = release_number(version)
    for owner, first, last in _aliases().get(name, ()):
        if number is not None and number_of(first) <= number <= number_of(last):
            return owner
    return None


def _optimization_flag(name: str, flag: str, version: VersionLike) -> str | None:
    # -O3 and -O 3 changed owner in 0.12.0; the dotted form -O.key stayed with the compilation configuration.
    levels = exists("flags", "--optimization-level", version)
    dotted = flag.startswith("-O.")
    owner = "--optimization-level" if levels and not dotted else "--compilation-config"
    is_level = name == "-O" or name[2:].isdigit()
    return owner if is_level and exists("flags", owner, version) else None


@cache
def _aliases() -> dict[str, list[tuple[str, str, str]]]:
    found: dict[str, list[tuple[str, str, str]]] = {}
    for name in read_table("flags"):
        for era in eras("flags", name):
            for alias in era.facts.get("aliases", ()):
                found.setdefault(alias, []).append((name, era.first, era.last))
    return found


def _listed(choices: Any) -> tuple[Any, ...]:
    """Return choices that the facts list; source text that computes them lists none."""
    return tuple(choices) if isinstance(choices, list) else ()


def _flag(name: str, facts: Facts) -> Flag:
    return Flag(
        name=name,
        form=facts["form"],
        default=facts["default"],
        default_is_source=facts.get("default_is_source", False),
        choices=_listed(facts.get("choices")),
        aliases=tuple(facts.get("aliases", ())),
        deprecated=facts.get("deprecated", False),
        field=facts.get("field"),
        owner=facts["owner"],
    )
