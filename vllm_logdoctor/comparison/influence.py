"""Which figures a setting can move, as data/influence.csv says: a change explains an effect only if it can move it."""

from __future__ import annotations

from functools import cache
from typing import Literal

from msgspec import Struct

from vllm_logdoctor.knowledge.store import read_rows

Subject = Literal["weights", "memory", "start-up", "speed", "capacity"]

EVERYTHING: frozenset[Subject] = frozenset({"weights", "memory", "start-up", "speed", "capacity"})
_SUBJECT_OF_FIGURE: dict[str, Subject] = {
    "model_weights_gib": "weights",
    "available_kv_cache_gib": "memory",
    "graph_capture_gib": "memory",
    "kv_cache_tokens": "capacity",
    "max_concurrency": "capacity",
    "preemptions": "speed",
    "prefix_cache_hit_rate": "speed",
}


class _Influence(Struct, frozen=True):
    """A setting by its EngineArgs field or variable, the subjects that it moves, and whether it lets more requests run at once.

    What moves nothing is a place, a name or an address.
    """

    setting: str
    moves: str
    room: bool = False


@cache
def _settings() -> dict[str, _Influence]:
    return {row.setting: row for row in read_rows("influence", _Influence)}


def influence_of(setting: str) -> frozenset[Subject]:
    """Return the subjects that a setting can move, a dotted one those of what precedes its last dot; empty where not known.

    Example:
        >>> sorted(influence_of("compilation_config.cudagraph_mode"))
        ['capacity', 'memory', 'speed', 'start-up']
        >>> influence_of("port")
        frozenset()
    """
    name = setting
    while name:
        if name in _settings():
            moves = _settings()[name].moves
            return EVERYTHING if moves == "everything" else EVERYTHING & set(moves.split())
        name = name.rpartition(".")[0]
    return frozenset()


def makes_room(setting: str) -> bool:
    """Return whether a setting lets more requests run at once."""
    row = _settings().get(setting)
    return row is not None and row.room


def without_effect(setting: str) -> bool:
    """Return whether a setting is a place, a name or an address that moves no figure."""
    row = _settings().get(setting.rpartition(".")[2])
    return row is not None and row.moves == "nothing"


def subject_of(figure: str) -> Subject | None:
    """Return the subject of a figure.

    Example:
        >>> subject_of("torch_compile_seconds"), subject_of("kv_cache_tokens"), subject_of("generation_throughput_p95")
        ('start-up', 'capacity', 'speed')
    """
    if figure.endswith("_seconds"):
        return "start-up"
    if figure.startswith(("generation_throughput", "prompt_throughput")):
        return "speed"
    return _SUBJECT_OF_FIGURE.get(figure)
