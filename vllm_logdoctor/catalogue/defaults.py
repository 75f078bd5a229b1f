"""What can be said of a message that nobody judged, from its level and its place in vLLM's sources alone."""

from __future__ import annotations

import re
from functools import cache

from msgspec import Struct

from vllm_logdoctor.catalogue.topics import Severity, Topic, Verdict
from vllm_logdoctor.knowledge.store import read_rows


class _Area(Struct, frozen=True):
    """A topic in words, and parts of the paths of vLLM's sources that are about it: the first row that fits decides."""

    topic: Topic
    area: str
    paths: str = ""


@cache
def _areas() -> dict[Topic, _Area]:
    return {row.topic: row for row in read_rows("topics", _Area)}


_ON_ITS_WAY_OUT = re.compile(r"[Dd]eprecat|will be removed in|is renamed|has been renamed")
_WARNINGS = frozenset({"warning", "warn"})
_ERRORS = frozenset({"error", "exception", "critical"})


def area_of(topic: Topic) -> str:
    """Return what a topic is about, in words."""
    return _areas()[topic].area


def default_topic(module: str, template: str = "", level: str = "") -> Topic:
    """Return the topic of a message, from the path of the file that prints it.

    Example:
        >>> default_topic("v1/core/sched/scheduler.py"), default_topic("envs.py")
        ('scheduler', 'configuration')
    """
    if level in _WARNINGS and _ON_ITS_WAY_OUT.search(template):
        return "deprecation"
    path = f"/{module}"
    rows = _areas().values()
    return next((row.topic for row in rows if any(part in path for part in row.paths.split())), "other")


def default_verdict(topic: Topic) -> Verdict:
    """Return the verdict on a message that nobody judged."""
    return "will-break" if topic == "deprecation" else "information"


def default_severity(level: str) -> Severity:
    """Return the severity of a message that nobody judged."""
    if level in _ERRORS or level == "raise":
        return "medium"
    return "low" if level in _WARNINGS else "info"


def default_meaning(level: str, topic: Topic) -> str:
    """Return what a level and a topic say of a message: no more than that.

    Example:
        >>> default_meaning("info", "kv-cache")
        'Note about the KV cache.'
    """
    area = area_of(topic)
    if topic == "deprecation":
        return (
            "Deprecated: this release accepts or ignores it, a later one rejects it. "
            "Change it before the next upgrade; the message names its replacement."
        )
    if level in _WARNINGS:
        return f"Warning about {area}, not classified; vLLM continued."
    if level == "raise":
        return f"Exception about {area}, not classified; the operation that raised it did not complete."
    if level in _ERRORS:
        return f"Error about {area}, not classified; the lines after it show whether the process continued."
    return f"{'Debug detail' if level == 'debug' else 'Note'} about {area}."
