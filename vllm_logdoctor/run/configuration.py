"""Effective configuration: explicit arguments, the engine's own line, later adjustments, defaults of the version."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from vllm_logdoctor.events import Event
from vllm_logdoctor.knowledge.flags import defaults_of_any_release, flag_spans
from vllm_logdoctor.run.launches import field_of_flag
from vllm_logdoctor.run.model import Evidence, Value
from vllm_logdoctor.run.repr_parser import read_pairs, read_value

# Names of the engine's configuration line that EngineArgs calls otherwise.
_ENGINE_NAMES = {"max_seq_len": "max_model_len", "chunked_prefill_enabled": "enable_chunked_prefill"}
_NOT_SETTINGS = frozenset({"device_config", "use_cached_outputs", "skip_tokenizer_init"})
_UNSET = (None, False, "", "auto")
# Each engine core of a data parallel server prints 1: it runs alone.
_FRONT_END_KNOWS = frozenset({"data_parallel_size"})
# Arguments of the server that are not settings of the engine keep their names; these are the same thing twice.
_ARGUMENT_NAMES = {"model_tag": "model"}
_PRINTED_NAMES = {name: printed for printed, name in _ENGINE_NAMES.items()}
# Parts of nested settings that the engine prints under another name than the arguments.
_PRINTED_PARTS = {"num_spec_tokens": "num_speculative_tokens"}
# max_model_len=8192      "max_model_len": 8192      but not config.max_model_len=
_ASSIGNS = re.compile(r"['\"]?\s?[=:]")
_PART_OF_NAME = re.compile(r"[\w.]")
# Of an overlong line evidence shows its head and what is around the setting.
_HEAD = 160
_BEFORE = 40
_BEHIND = 240


class ConfigSources(Struct):
    """What the log states of the configuration, by source.

    Attributes:
        arguments, arguments_evidence: what the user set, or all arguments.
        arguments_text, engine_text: the whole messages that evidence cuts.
        arguments_complete: whether the dump holds all arguments, not only those that differ from their default.
        arguments_cut: whether the dump ends before its last argument.
        arguments_call: the line of the program's call that the arguments are read from, "" where something printed them.
        command, command_evidence: what a launch command in the log sets beside the arguments that the server printed.
        engine, engine_evidence: the engine's configuration line.
        adjusted: settings that a later line changes.
        forced: settings that the platform changes after the engine has printed them.
        resolved: what the engine chose for settings that are left open, as "auto" is.
        mentioned: settings that a line on something else names, rounded at times: they are used where nothing else names them.
    """

    arguments: dict[str, Any] = field(default_factory=dict)
    arguments_evidence: tuple[Evidence, ...] = ()
    arguments_text: str = ""
    arguments_complete: bool = False
    arguments_cut: bool = False
    arguments_call: str = ""
    command: dict[str, Any] = field(default_factory=dict)
    command_evidence: tuple[Evidence, ...] = ()
    engine: dict[str, Any] = field(default_factory=dict)
    engine_evidence: tuple[Evidence, ...] = ()
    engine_text: str = ""
    adjusted: dict[str, Value] = field(default_factory=dict)
    forced: dict[str, Value] = field(default_factory=dict)
    resolved: dict[str, Value] = field(default_factory=dict)
    mentioned: dict[str, Value] = field(default_factory=dict)


# Namespace(subparser='serve', dispatch_function=<function ServeSubcommand.cmd at 0x7f0000000000>, ...)
_PARSERS_OWN = frozenset({"subparser", "dispatch_function"})


def arguments_of(event: Event) -> tuple[dict[str, Any], bool]:
    """Read an argument dump: (values by name, whether it holds all arguments or only the non-default ones)."""
    text = event.text("arguments")
    complete = event.pattern.id == "arguments-namespace"
    found = read_pairs(text.removesuffix(")")) if complete else read_value(text)
    values = dict(found) if isinstance(found, dict) else {}
    if values and is_cut(event):
        values.popitem()
    # vLLM sets it to the number of engines before it prints what differs from the defaults.
    if not complete and values.get("api_server_count") == values.get("data_parallel_size", 1):
        values.pop("api_server_count", None)
    return {name: value for name, value in values.items() if name not in _PARSERS_OWN}, complete


def is_cut(event: Event) -> bool:
    """Return whether an argument dump ends before its closing bracket: its last value may be a piece, others are missing."""
    return not event.text("arguments").rstrip("\"', ").endswith(("}", ")"))


def engine_config_of(event: Event) -> dict[str, Any]:
    """Read the engine's configuration line."""
    return read_pairs(event.text("config"))


def effective_configuration(
    stated: ConfigSources,
    default_of: Callable[[str], tuple[Any, str] | None],
    fields: Iterable[str],
    untagged: bool = False,
) -> dict[str, Value]:
    """Merge what is stated into one value per field.

    Args:
        stated: what the log says.
        default_of: gives (value, note) of a field's default in this version, or None where it is not known.
        fields: fields for which a default is wanted.
        untagged: whether the release is unknown, or the build lies between two: then the default of any release counts as one.
    """
    config: dict[str, Value] = {}
    for name, value in _arguments(stated).items():
        if value is None and stated.arguments_complete:
            continue  # Nobody set it: what then applies is a default, and seldom "off".
        unset = stated.arguments_complete and _is_default(name, value, default_of, untagged)
        lines = evidence_at(_naming_first(stated.arguments_evidence, name), stated.arguments_text, name)
        config[name] = Value(plain_value(value), "reported" if unset else "explicit", lines)
    for name, value in stated.engine.items():
        if name not in _NOT_SETTINGS:
            lines = evidence_at(stated.engine_evidence, stated.engine_text, name)
            _merge_engine_value(config, _ENGINE_NAMES.get(name, name), plain_value(value), lines)
    final = {_ENGINE_NAMES.get(name, name) for name in stated.engine}
    for name, adjusted in stated.adjusted.items():
        before = config.get(name)
        if before is not None and name in final and before.value is not None:
            continue
        if before is None or before.value in (None, "auto") or before.provenance != "explicit":
            config[name] = adjusted
        elif before.value != adjusted.value:
            lines = before.evidence + adjusted.evidence
            config[name] = Value(adjusted.value, "adjusted", lines, f"was {before.value}")
    config.update(_forced(config, stated.forced))
    for name, resolved in stated.resolved.items():
        open_value = config.get(name)
        if open_value is not None and open_value.value in (None, "auto"):
            evidence = open_value.evidence + resolved.evidence
            config[name] = replace(open_value, evidence=evidence, resolved=str(resolved.value))
    for name, mentioned in {**_step_tokens(stated), **stated.mentioned}.items():
        if name not in config or config[name].value is None:
            config[name] = mentioned
    for name in fields:
        if name not in config or config[name].value is None:
            default = default_of(name)
            if default is not None and default[0] is not None and default[0] == stated.command.get(name):
                config[name] = Value(default[0], "explicit", _naming_first(stated.command_evidence, name))
            elif default is not None and default[0] is not None:
                config[name] = Value(default[0], "default", (), default[1])
    return config


def _forced(config: Mapping[str, Value], forced: Mapping[str, Value]) -> Iterator[tuple[str, Value]]:
    """Yield the settings that the platform changes, with what they were before."""
    for name, value in forced.items():
        before = config.get(name)
        given = before is not None and before.provenance == "explicit" and before.value != value.value
        if before is not None and given:
            evidence = before.evidence + value.evidence
            yield name, Value(value.value, "adjusted", evidence, f"was {before.value}")
        else:
            yield name, value


_COMPILED_RANGES = ("compile_ranges_endpoints", "compile_ranges_split_points")


def _step_tokens(stated: ConfigSources) -> dict[str, Value]:
    """Return max_num_batched_tokens, up to which the engine compiles: the last end of its ranges, which it prints without the name."""
    compiled = stated.engine.get("compilation_config")
    for name in _COMPILED_RANGES:
        ends = compiled.get(name) if isinstance(compiled, Mapping) else None
        if isinstance(ends, list) and ends and isinstance(ends[-1], int):
            lines = evidence_at(stated.engine_evidence, stated.engine_text, name)
            return {"max_num_batched_tokens": Value(ends[-1], "reported", lines)}
    return {}


def evidence_at(evidence: tuple[Evidence, ...], text: str, name: str) -> tuple[Evidence, ...]:
    """Return evidence that shows a setting: of a line too long to show, its head and the part with the setting."""
    if not evidence or len(text) <= len(evidence[0].text):
        return evidence
    names = {name, _PRINTED_NAMES.get(name, name)}
    shown = evidence[0].text
    if any(next(_places(one, shown[:-_BEFORE]), None) for one in names):
        return evidence
    found = min((place for one in names for place in islice(_places(one, text), 1)), default=None)
    if found is None:
        return evidence
    quoted = text[max(0, found[0] - 1)] in "'\""
    part = _until_separator(text, found[0] - quoted, found[1] + _BEHIND)
    return (replace(evidence[0], text=f"{_until_separator(shown, 0, _HEAD)} ... {part} ..."), *evidence[1:])


def _until_separator(text: str, start: int, end: int) -> str:
    """Return a part of a line that ends before a space: half a value is another value."""
    part = text[start:end]
    kept = part if end >= len(text) else part.rpartition(" ")[0]
    return kept if len(kept) > len(part) // 2 else part


def _places(name: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield where a text assigns a setting: hundreds of names are looked for in one line of a server's arguments."""
    start = text.find(name)
    while start >= 0:
        assigns = _ASSIGNS.match(text, start + len(name))
        if assigns is not None and (start == 0 or _PART_OF_NAME.match(text, start - 1) is None):
            yield start, assigns.end()
        start = text.find(name, start + 1)


def _naming_first(evidence: tuple[Evidence, ...], name: str) -> tuple[Evidence, ...]:
    """Return the lines of a command with those first that name the setting."""
    if len(evidence) < 2:
        return evidence
    named = re.compile(rf"(?<![\w-])(?:--)?{re.escape(name).replace('_', '[-_]')}(?![\w-])")
    if not any(named.search(line.text) for line in evidence):  # Abbreviated, negated, or a letter.
        fields = {
            line: {(field_of_flag(word) or "").removeprefix("no_") for word in line.text.split()}
            for line in evidence
        }
        return tuple(sorted(evidence, key=lambda line: name not in fields[line]))
    return tuple(sorted(evidence, key=lambda line: named.search(line.text) is None))


def _is_default(
    name: str, value: Any, default_of: Callable[[str], tuple[Any, str] | None], untagged: bool
) -> bool:
    """A dump of all arguments holds the ones that nobody set: unset ones, and those at the parser's default."""
    if value in _UNSET or value in ([], {}, [""]):
        return True
    if untagged:
        # An argument that no known release has is of one before them, whose defaults are not known.
        unknown = not flag_spans(f"--{name.replace('_', '-')}")
        if unknown or plain_value(value) in defaults_of_any_release(name):
            return True
    default = default_of(name)
    return default is not None and plain_value(default[0]) == plain_value(value)


def _merge_engine_value(
    config: dict[str, Value], name: str, value: Any, evidence: tuple[Evidence, ...]
) -> None:
    before = config.get(name)
    if name in _FRONT_END_KNOWS and before is not None and isinstance(before.value, int) and before.value > 1:
        return
    if before is not None and before.provenance == "explicit" and before.value not in (None, "auto"):
        if _is_first_of(before.value, value):
            config[name] = replace(before, evidence=before.evidence + evidence)
        elif _same_setting(before.value, value):
            config[name] = Value(value, "explicit", before.evidence + evidence)
        else:
            given = _unlike(before.value, value)
            config[name] = Value(value, "adjusted", before.evidence + evidence, f"arguments: {given}")
        return
    config[name] = Value(value, "reported", evidence)


def _arguments(stated: ConfigSources) -> Mapping[str, Any]:
    named: dict[str, Any] = {}
    for name, value in stated.arguments.items():
        name = _ARGUMENT_NAMES.get(name, name)
        if value is not None or name not in named:
            named[name] = value
    return named


def plain_value(value: Any) -> Any:
    """Return a value without the class that prints it: torch.bfloat16 -> bfloat16, LoadFormat.AUTO -> auto."""
    if isinstance(value, str):
        if value.startswith("torch."):
            return value[6:]
        head, _, tail = value.rpartition(".")
        if head and head.isidentifier() and head[0].isupper() and tail.isidentifier() and tail.isupper():
            return tail.lower()
    return value


def _is_first_of(names: Any, printed: Any) -> bool:
    """Return whether the engine printed the first of several names, as of those under which it serves a model."""
    return isinstance(names, list) and len(names) > 1 and names[0] == printed


def _same_setting(a: Any, b: Any) -> bool:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return not _unlike(a, b)
    if isinstance(a, list) and len(a) == 1 and not isinstance(b, list):
        return _same_setting(a[0], b)
    short = {"half": "float16", "float": "float32"}
    left, right = (short.get(str(x).lower(), str(x).lower()) for x in (a, b))
    return left == right


def _unlike(a: Any, b: Any) -> Any:
    """Return the settings of an object that another one has otherwise, without those that are not set; another value as it is."""
    if not (isinstance(a, Mapping) and isinstance(b, Mapping)):
        return a
    printed = {_PRINTED_PARTS.get(name, name): value for name, value in b.items()}
    unset: tuple[Any, ...] = (None, "", "auto", [], {})
    return {
        name: _unlike(value, printed[name])
        for name, value in a.items()
        # A count of 0 in an object that is printed whole is one that vLLM fills in.
        if name in printed and value not in unset and (value != 0 or value is False)
        if not _same_setting(value, printed[name])
    }
