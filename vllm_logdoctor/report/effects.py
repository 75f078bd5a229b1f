"""Changes and their expected effect in words."""

from __future__ import annotations

from vllm_logdoctor.report.escape import code, prose
from vllm_logdoctor.report.figures import number, setting
from vllm_logdoctor.report.naming import METRICS
from vllm_logdoctor.rules.model import Change, Effect, Safety

ORIGINS = {"measured": "measured in this log", "computed": "computed", "published": "measured elsewhere"}

SAFETY: dict[Safety, str] = {
    "safe": "safe",
    "needs-test": "test it: it may cost something or fail",
    "changes-results": "answers may differ",
}


def change_words(change: Change) -> str:
    """Return a change in words, as Markdown.

    Example:
        >>> change_words(Change("--max-num-seqs", "flag", 1, 32))
        '`--max-num-seqs` `1` → `32`'
        >>> change_words(Change("--enforce-eager", "flag", True, None))
        'drop `--enforce-eager`'
        >>> change_words(Change("--async-scheduling", "flag", False, None))
        'drop `--no-async-scheduling`'
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
    if change.before is None:
        return f"set {knob} to {_value(change.after)}"
    return f"{knob} {setting(change.before)} → {setting(change.after)}"


def negated(flag: str) -> str:
    """Return how a flag of two states is given to switch it off.

    Example:
        >>> negated("--async-scheduling")
        '--no-async-scheduling'
    """
    return f"--no-{flag.lstrip('-')}"


def _value(value: object) -> str:
    # words that stand for a value ("the toolkit's directory") are no code
    if isinstance(value, str) and " " in value and value[0] not in "{[\"'-":
        return prose(value)
    return setting(value)


def effect_words(effect: Effect | None) -> str:
    """Return the expected effect with where the range is from, as Markdown, or an empty text."""
    if effect is None:
        return ""
    basis = prose(effect.basis)
    origin = ORIGINS[effect.origin]
    return f"{effect_range(effect)} ({origin}{': ' + basis if basis else ''})"


def effect_range(effect: Effect) -> str:
    """Return the range alone.

    Example:
        >>> effect_range(Effect("generation_throughput", 1.05, 1.3, "published", ""))
        'generation throughput × 1.05 to 1.3'
        >>> effect_range(Effect("startup_seconds", 0.25, 0.5, "computed", ""))
        'start-up time 2 to 4 × shorter'
    """
    metric = METRICS.get(effect.metric, effect.metric.replace("_", " "))
    low, high = float(effect.low), float(effect.high)
    if effect.metric.endswith("seconds"):
        metric = METRICS.get(
            effect.metric, effect.metric.removesuffix("_seconds").replace("_", " ") + " time"
        )
        if 0 < low <= high < 1:
            return f"{prose(metric)} {_span(1 / high, 1 / low)} × shorter"
        if 1 < low <= high:
            return f"{prose(metric)} {_span(low, high)} × longer"
    return f"{prose(metric)} × {_span(low, high)}"


def _span(low: float, high: float) -> str:
    return number(low) if number(low) == number(high) else f"{number(low)} to {number(high)}"
