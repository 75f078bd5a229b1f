"""Execution mode in effect: which of a launch's settings switch CUDA graphs or compilation off."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from vllm_logdoctor.run.model import Run

_NONE = ("none", "0")
_MODES = ("mode", "level", "cudagraph_mode")
"""Keys of a compilation configuration that switch compilation or graphs off; "level" is the name before 0.11.1."""


class SwitchedOff(Struct, frozen=True):
    """A flag that keeps graphs or compilation off, its value, and the value that takes them back (None: drop it)."""

    flag: str
    before: Any
    after: Any


def switched_off(run: Run) -> tuple[SwitchedOff, ...]:
    """Return every flag of a launch that keeps CUDA graphs off: to drop one of them alone changes nothing.

    Example:
        >>> run = Run(arguments={"optimization_level": "0", "compilation_config": {"mode": 0, "backend": "eager"}})
        >>> [one.flag for one in switched_off(run)]
        ['--optimization-level', '--compilation-config']
    """
    found = []
    if run.arguments.get("enforce_eager") is True or run.setting("enforce_eager") is True:
        found.append(SwitchedOff("--enforce-eager", True, None))
    level = run.arguments.get("optimization_level")
    if level is not None and _is_none(level):
        found.append(SwitchedOff("--optimization-level", level, None))
    config = run.arguments.get("compilation_config")
    if isinstance(config, dict):
        off = {
            name for name in _MODES if name in config and config[name] is not None and _is_none(config[name])
        }
        rest = {name: value for name, value in config.items() if name not in off and value is not None}
        if off:
            found.append(SwitchedOff("--compilation-config", config, rest or None))
    return tuple(found)


def compiles(run: Run) -> bool:
    """Return whether only the graphs are switched off: the compilation configuration says so and leaves its mode alone."""
    off = switched_off(run)
    asked = run.arguments.get("compilation_config")
    mode = asked.get("mode", asked.get("level")) if isinstance(asked, dict) else None
    return [one.flag for one in off] == ["--compilation-config"] and (mode is None or not _is_none(mode))


def _is_none(value: Any) -> bool:
    return str(value).rpartition(".")[2].lower() in _NONE
