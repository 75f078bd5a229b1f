"""Changes and their expected effect in words."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.report.alternatives import in_full
from vllm_logdoctor.report.escape import code, prose
from vllm_logdoctor.report.figures import number, setting
from vllm_logdoctor.report.naming import METRICS
from vllm_logdoctor.rules.model import Change, Effect

ORIGINS = {"measured": "measured in this log", "computed": "computed", "published": "published measurements"}

LEAST_GAIN = 1.01
MOST_OF_THE_RUN = 0.9
"""Share of the busy time from which a gain is the run's."""

# pip install --force-reinstall vllm==<version>      rm -r ~/.cache/vllm/torch_compile_cache
_COMMAND = lazy_pattern(
    r"(?!.* (?:shows?|must|the|after|into) )(?:pip|rm|ls|dmesg|nvidia-smi|python3?|ray|df|lscpu|nvcc|ss) [^;,`]*"
)


def change_words(change: Change) -> str:
    """Return a change in words, as Markdown.

    Example:
        >>> change_words(Change("--max-num-seqs", "flag", 1, 32))
        '`--max-num-seqs` `1` → `32`'
        >>> change_words(Change("--enforce-eager", "flag", True, None))
        'drop `--enforce-eager`'
        >>> change_words(Change("--async-scheduling", "flag", False, None))
        'drop `--no-async-scheduling`'

    Of a setting that is a whole dictionary only the new value is shown; keys written as JSON leave its others.
    """
    if change.kind == "action":
        return prose(change.knob)
    knob = code(change.knob)
    if change.after is None and change.kind == "flag":
        return f"drop {code(negated(change.knob)) if change.before is False else knob}"
    if change.after is None:
        return f"unset {knob}"
    if change.after is True and change.before in (None, False):
        return f"add {knob}"
    if isinstance(change.before, dict) and isinstance(change.after, str) and change.after.startswith("{"):
        return f"set {_value(change.after)} in {knob}, beside its other keys"
    if change.before is None or isinstance(change.before, dict):
        return f"set {knob} to {_value(change.after)}"
    return f"{knob} {setting(change.before)} → {setting(change.after)}"


def action_words(change: Change, ways: Sequence[str] = ()) -> str:
    """Return a change with its note; an action in the full words of the other ways that repeat it.

    Example:
        >>> action_words(Change("--max-model-len", "flag", 8192, 4096, note="longer prompts are refused"))
        '`--max-model-len` `8192` → `4096`: longer prompts are refused'
    """
    way = in_full(change, ways) if change.kind == "action" else None
    if way:
        words = prose(way.removeprefix("Or ").rstrip("."))
    elif change.kind == "action" and isinstance(change.after, str):
        after = code(change.after) if _COMMAND.fullmatch(change.after) else prose(change.after)
        words = f"{prose(change.knob)}: {after}"
    else:
        words = change_words(change)
    return words + (f": {prose(change.note).rstrip('.')}" if change.note else "")


def negated(flag: str) -> str:
    """Return how a flag of two states is given to switch it off.

    Example:
        >>> negated("--async-scheduling")
        '--no-async-scheduling'
    """
    return f"--no-{flag.lstrip('-')}"


def _value(value: object) -> str:
    # words in place of a value ("the toolkit's directory") are no code
    if isinstance(value, str) and " " in value and value[0] not in "{[\"'-":
        return prose(value)
    return setting(value)


def effect_words(effect: Effect | None) -> str:
    """Return the expected effect with where the range is from, as Markdown, or an empty text."""
    if effect is None:
        return ""
    if gains_little(effect):
        return "less than 1 % more generation throughput over the run"
    basis = prose(effect.basis)
    origin = ORIGINS[effect.origin]
    return f"{effect_range(effect)} ({origin}{': ' + basis if basis else ''})"


def origin_words(effect: Effect) -> str:
    """Return where a gain is from; of published measurements what was measured, which comes behind their number.

    Example:
        >>> origin_words(Effect("generation_throughput", 1.1, 1.9, "published", "6 pairs; twice the requests; 7B"))
        'published measurements: twice the requests'
    """
    measured = effect.basis.split("; ")[1:2] if effect.origin == "published" else []
    return ": ".join((ORIGINS[effect.origin], *map(prose, measured)))


def effect_range(effect: Effect) -> str:
    """Return the range alone.

    Example:
        >>> effect_range(Effect("generation_throughput", 1.05, 1.3, "published", ""))
        '1.05 to 1.3 x generation throughput'
        >>> effect_range(Effect("startup_seconds", 0.25, 0.5, "computed", ""))
        '2 to 4 x faster start-up'
        >>> effect_range(Effect("generation_throughput", 1.5, 2.0, "computed", "", share=0.05))
        '1.5 to 2 x generation throughput while requests queue'
    """
    metric = METRICS.get(effect.metric, effect.metric.replace("_", " "))
    low, high = float(effect.low), float(effect.high)
    if effect.metric.endswith("seconds"):
        metric = METRICS.get(effect.metric, effect.metric.removesuffix("_seconds").replace("_", " "))
        if 0 < low <= high < 1:
            return f"{_span(1 / high, 1 / low)} x faster {prose(metric)}"
        if 1 < low <= high:
            return f"{_span(low, high)} x slower {prose(metric)}"
    over = ""
    if effect.share < MOST_OF_THE_RUN and effect.metric == "generation_throughput":
        over = " while requests queue"
    return f"{_span(low, high)} x {prose(metric)}{over}"


def gains_little(effect: Effect) -> bool:
    """Return True if a change that acts in a part of the load gains less than a percent over the run."""
    return effect.share < MOST_OF_THE_RUN and effect.over_run(float(effect.high)) < LEAST_GAIN


def _span(low: float, high: float) -> str:
    return number(low) if number(low) == number(high) else f"{number(low)} to {number(high)}"
