"""A launch: model, flags and environment of one server, read from a run's arguments and changed by a plan."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from vllm_logdoctor.knowledge.flags import Flag, canonical_name, flag_for_field, flag_history, long_name
from vllm_logdoctor.knowledge.variables import variable_known
from vllm_logdoctor.knowledge.versions import at_least, release_number
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.capacity.memory import arguments_are_whole
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.run.configuration import plain_value
from vllm_logdoctor.run.model import Run

# Names in an argument dump that are no flags.
_NOT_FLAGS = frozenset(
    {"subparser", "model_tag", "model", "config", "dispatch_function", "func", "command", "headless_config"}
)
# Fields that a printed compilation configuration has and that the constructor refuses.
_NOT_SETTABLE = frozenset(
    {
        "local_cache_dir", "static_all_moe_layers", "enabled_custom_ops", "disabled_custom_ops", "traced_files",
        "compilation_time", "static_forward_context", "bs_to_padded_graph_size",
    }
)  # fmt: skip
_UNSET_ITEMS: tuple[Any, ...] = (None, "", {})
# An empty list says "none" here, elsewhere it is the default.
_EMPTY_LIST_COUNTS = frozenset({"splitting_ops", "cudagraph_capture_sizes"})
MASK = "***"
# vLLM and its libraries read these secrets from the environment by themselves: a command line is visible to every user.
_OWN_VARIABLES = {"--hf-token": "HF_TOKEN", "--api-key": "VLLM_API_KEY"}
_LONGEST_NAME = 100
_VARIABLE_NAME = lazy_pattern(r"[A-Z][A-Z0-9_]*\Z")
# Defaults that the parser computes, by the source text that the facts keep of them.
_COMPUTED_DEFAULTS = {"int(ssl.CERT_NONE)": 0}


class SecretVariable(str):
    """Name of the variable in place of a word that the log masks."""


class Launch(Struct, frozen=True):
    """How a server is started.

    Attributes:
        model: name or path.
        flags: value by flag name, in the order of the log; True for a switch that is on, False for one that
            is off.
        environment: variables to set.
        version: vLLM version, or None.
        cards: cards that the server takes.
        platform: "cuda", "rocm", "cpu" ..., or None where the log does not tell.
    """

    model: str
    flags: Mapping[str, Any]
    environment: Mapping[str, str] = field(default_factory=dict)
    version: str | None = None
    cards: int = 1
    platform: str | None = None


def launch_of(run: Run) -> Launch | None:
    """Return the launch of a server, or None where the log does not hold its arguments, all of them.

    A batch (`vllm run-batch`) prints its arguments too, with every setting written out: it starts no server.
    """
    if (
        run.kind == "offline"
        or "input_file" in run.arguments
        or not run.arguments
        or not arguments_are_whole(run)
    ):
        return None
    model = (
        run.arguments.get("model_tag")
        or run.arguments.get("model")
        or (run.model.value if run.model else None)
    )
    if not model:
        return None
    version = run.release
    # An untagged build has no defaults to compare with: what it prints as set is set.
    tagged = version is not None and release_number(version) is not None
    whole = tagged or run.seen("arguments-non-default") is None
    flags = {
        flag: accepted_value(name, plain_value(value))
        for name, value in run.arguments.items()
        if (flag := _flag_name(name, plain_value(value), version, whole)) and not _is_default(run, name)
    }
    return Launch(str(model), flags, _variables(run), version, cards_of(flags), run.platform)


def _is_default(run: Run, name: str) -> bool:
    """Return whether the configuration knows a printed argument as one that nobody set."""
    value = run.config.get(name)
    return value is not None and value.provenance == "reported"


def accepted_value(name: str, value: Any) -> Any:
    """Return a value as a launch accepts it: of a printed configuration object only what a user can set.

    Example:
        >>> accepted_value("compilation_config", {"mode": "VLLM_COMPILE", "cache_dir": "", "local_cache_dir": None})
        {'mode': 'VLLM_COMPILE'}
        >>> accepted_value("compilation_config", {"splitting_ops": [], "custom_ops": []})
        {'splitting_ops': []}
    """
    if name != "compilation_config" or not isinstance(value, dict):
        return value
    return {
        key: accepted_value(name, item)
        for key, item in value.items()
        if key not in _NOT_SETTABLE and item not in _UNSET_ITEMS and (item != [] or key in _EMPTY_LIST_COUNTS)
    }


def _variables(run: Run) -> dict[str, str]:
    """Return the variables of vLLM that the launch set, as far as the log shows them."""
    return {
        name: str(value.value)
        for name, value in run.environment.items()
        if value.provenance == "explicit" and name.startswith("VLLM_") and _VARIABLE_NAME.match(name)
    }


def changed(launch: Launch, changes: Iterable[Change]) -> Launch:
    """Return the launch with changes of flags and variables made; actions change no command."""
    flags, environment = dict(launch.flags), dict(launch.environment)
    for change in changes:
        if change.kind == "flag":
            name = canonical_name(change.knob, launch.version) or long_name(change.knob)
            if change.after is None:
                flags.pop(name, None)
            else:
                flags[name] = _with_keys(flags.get(name), change.after)
        elif change.kind == "env" and change.after is None:
            environment.pop(change.knob, None)
        elif change.kind == "env":
            environment[change.knob] = str(change.after)
    return replace(launch, flags=flags, environment=environment, cards=cards_of(flags))


def _with_keys(before: Any, after: Any) -> Any:
    """Return the new value of a flag; keys that are written as JSON change an object and leave its other keys.

    Example:
        >>> _with_keys({"mode": 3, "pass_config": {"fuse_a": True}}, '{"pass_config": {"fuse_b": false}}')
        {'mode': 3, 'pass_config': {'fuse_a': True, 'fuse_b': False}}
    """
    keys = _json_object(after)
    present = _json_object(before) if isinstance(before, str) else before
    return _merged(present, keys) if isinstance(present, dict) and isinstance(keys, dict) else after


def _json_object(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) and text.startswith("{") else None
    except ValueError:
        return None


def _merged(before: Mapping[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    both = {
        name: _merged(before[name], value)
        for name, value in keys.items()
        if isinstance(value, dict) and isinstance(before.get(name), dict)
    }
    return {**before, **keys, **both}


def flag_words(launch: Launch) -> list[tuple[str, ...]]:
    """Return the words of each flag as a command line takes them; secrets become variables, or are left to them."""
    words: list[tuple[str, ...]] = []
    left_out = flags_read_from_environment(launch)
    for name, value in launch.flags.items():
        if name in left_out:
            continue
        known = flag_for_field(name.removeprefix("--").replace("-", "_"), launch.version)
        found = known.arguments(value) if known is not None else words_of_unknown_flag(name, value)
        if found:
            words.append(tuple(_without_masks(found, name)))
    return words


def _without_masks(words: Sequence[str], flag: str) -> Iterator[str]:
    """Yield words, each that holds a mask as a variable of its own: VLLM_API_KEY, VLLM_API_KEY_2."""
    number = 0
    for word in words:
        if MASK in word:
            number += 1
            yield SecretVariable(_variable(flag) + (f"_{number}" if number > 1 else ""))
        else:
            yield word


def flags_read_from_environment(launch: Launch) -> dict[str, str]:
    """Return the variable of each flag with one masked value that this release reads from a variable as well.

    Example:
        >>> flags_read_from_environment(Launch("m", {"--api-key": ["***"], "--port": 1}, {}, "0.11.2"))
        {'--api-key': 'VLLM_API_KEY'}
        >>> flags_read_from_environment(Launch("m", {"--api-key": ["***", "***"]}, {}, "0.11.2"))
        {}
    """
    return {
        flag: variable
        for flag, variable in _OWN_VARIABLES.items()
        if launch.flags.get(flag) in (MASK, [MASK])
        and (variable == "HF_TOKEN" or variable_known(variable, launch.version or "") is not False)
    }


def secret_variables(launch: Launch) -> list[str]:
    """Return the variables in place of what the log masks, each once: who starts the launch must set them."""
    words = [*program(launch), *(word for found in flag_words(launch) for word in found)]
    masked = [name for name, value in launch.environment.items() if MASK in value]
    masked += flags_read_from_environment(launch).values()
    return list(dict.fromkeys([*masked, *(str(word) for word in words if isinstance(word, SecretVariable))]))


def open_environment(launch: Launch) -> dict[str, str]:
    """Return the variables of a launch whose values the log does not mask."""
    return {name: value for name, value in launch.environment.items() if MASK not in value}


def words_of_unknown_flag(name: str, value: Any) -> tuple[str, ...]:
    """Return the words of a flag that the version is not known to have.

    Example:
        >>> words_of_unknown_flag("--enforce-eager", True), words_of_unknown_flag("--port", 8000)
        (('--enforce-eager',), ('--port', '8000'))
    """
    if value is True:
        return (name,)
    if value is False:
        return ("--no-" + name.removeprefix("--"),)
    return Flag(name, "value", None, False, (), (), False, None, "engine").arguments(value) or ()


def program(launch: Launch) -> tuple[str, ...]:
    """Return the words before the flags: `vllm serve MODEL`, or the module of releases before 0.6."""
    model = SecretVariable("VLLM_MODEL") if MASK in launch.model else launch.model
    if at_least(launch.version, "0.6.0") is False:
        return ("python", "-m", "vllm.entrypoints.openai.api_server", "--model", model)
    return ("vllm", "serve", model)


def cards_of(flags: Mapping[str, Any]) -> int:
    """Return how many cards a launch takes.

    Example:
        >>> cards_of({"--tensor-parallel-size": 2, "--data-parallel-size": 2})
        4
    """
    number = 1
    for name in ("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size"):
        value = flags.get(name)
        number *= value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 1
    return number


def _flag_name(name: str, value: Any, version: str | None, whole: bool) -> str | None:
    """Return the flag of an argument, or None where it is not a flag or has its default value.

    Args:
        name, value: the argument.
        version: the release, as far as the log names one.
        whole: whether the log prints the defaults among the arguments too.
    """
    # A name that is none may hold a line end, and with it lines of a file that is written from it; YAML reads no key of 1,024 characters.
    if not name.isidentifier() or not name.isascii() or len(name) > _LONGEST_NAME:
        return None
    if name in _NOT_FLAGS or value is None or value in ("", [], {}):
        return None
    flag = flag_for_field(name, version)
    if flag is None:
        spelt = "--" + name.replace("_", "-")
        return None if whole and _is_default_elsewhere(spelt, value) else spelt
    # --no-x where the engine decides by itself is the user's word: only a plain switch is off when not given.
    off = flag.default is None and value is False and flag.form != "switch-pair"
    if not flag.default_is_source and (flag.default == value or off):
        return None
    # A computed default of a namespace dump is "auto" or an empty text.
    computed = ("auto", flag.default, _COMPUTED_DEFAULTS.get(str(flag.default)))
    return None if flag.default_is_source and value in computed else flag.name


def _is_default_elsewhere(flag: str, value: Any) -> bool:
    """Return whether a flag that this version is not known to have has its default value in one that has it: a build between two."""
    eras = flag_history(flag)
    return any(era.flag.default == value for era in eras if not era.flag.default_is_source) or (
        value is False and any(era.flag.form.startswith("switch") for era in eras)
    )


def _variable(flag: str) -> str:
    return _OWN_VARIABLES.get(flag) or "VLLM_" + flag.removeprefix("--").replace("-", "_").upper()
