"""Phases of the start that belong to the draft model of speculative decoding: it is read and compiled behind the served one."""

from __future__ import annotations

from vllm_logdoctor.events import Event
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.run.builder import RunBuilder

_COMPILED = frozenset({"dynamo-done", "graph-compiled", "compile-cache-hit", "compile-total", "warmup-run"})
_DIRECTORY = "compile-cache-directory"
# speculative_config=SpeculativeConfig(method='ngram', ...)   {'method': 'ngram', ...}: no weights
_WITHOUT_WEIGHTS = lazy_pattern(r"""method['"]?\s*[=:]\s*['"](?:\[?ngram\]?|ngram_gpu|suffix)\b""")


def is_of_draft_model(builder: RunBuilder, pattern: str, event: Event, number: int) -> bool:
    """Return whether a line on a phase is about the draft model.

    Args:
        builder: the run that is read.
        pattern: what the line says.
        event: the line.
        number: how many lines of this pattern its process printed before.
    """
    if pattern == "weights-read":
        return number > 0 and _has_draft_model(builder)
    return pattern in _COMPILED and _part_compiled(builder, event).endswith("_head")


def _has_draft_model(builder: RunBuilder) -> bool:
    """Return whether the configuration names a speculative method that loads weights."""
    given = builder.stated.engine.get(
        "speculative_config", builder.stated.arguments.get("speculative_config")
    )
    return given not in (None, "None") and not _WITHOUT_WEIGHTS.search(str(given))


def _part_compiled(builder: RunBuilder, event: Event) -> str:
    """Return the last directory of the compile cache that the process named before a line: backbone, eagle_head."""
    seen = builder.messages.get(_DIRECTORY)
    place, process = (event.record.file, event.record.line), event.record.process
    named = [
        one.text("path")
        for one in (seen.first if seen else ())
        if one.record.process == process and (one.record.file, one.record.line) < place
    ]
    return str(named[-1]).rpartition("/")[2] if named else ""
