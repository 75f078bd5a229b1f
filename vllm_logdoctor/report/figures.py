"""Numbers and values as text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.report.escape import code

_BAR = lazy_pattern(r"(?<!\\)\|")


_HALF = 1e-12


def number(value: float | None) -> str:
    """Return a number with thousands separators and no more digits than say something.

    Example:
        >>> number(85760), number(351.72), number(27.95), number(0.0521), number(None)
        ('85,760', '352', '28', '0.052', 'unknown')
    """
    if value is None or not math.isfinite(value):
        return "unknown"
    if isinstance(value, float):
        value *= 1 + _HALF  # A printed half is rounded up: in binary 27.95 is a little less.
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        text = f"{value:.1f}"
    elif abs(value) >= 1:
        text = f"{value:.2f}"
    else:
        text = f"{value:.2g}"
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def percent(value: float | None) -> str:
    """Return a figure that is in percent.

    Example:
        >>> percent(34.96), percent(None)
        ('35 %', 'unknown')
    """
    if value is None or not math.isfinite(value):
        return "unknown"
    return f"{value:.1f} %".replace(".0 %", " %")


def share(part: float, whole: float) -> str:
    """Return a share of a whole in percent, or an empty text where there is no whole.

    Example:
        >>> share(1, 3), share(1, 0)
        ('33.3 %', '')
    """
    return percent(100 * part / whole) if whole else ""


def statuses(by_status: Mapping[int, int]) -> str:
    """Return HTTP statuses with their counts in words.

    Example:
        >>> statuses({200: 56}), statuses({200: 1}), statuses({200: 3, 404: 1})
        ('all 200', 'status 200', '3 with 200, 1 with 404')
    """
    if len(by_status) == 1:
        status, amount = next(iter(by_status.items()))
        return f"{'all' if amount > 1 else 'status'} {status}"
    return ", ".join(f"{amount:,} with {status}" for status, amount in sorted(by_status.items()))


def setting(value: Any, limit: int = 160) -> str:
    """Return the value of a knob as a code span for text and tables.

    Example:
        >>> setting(None), setting(True), setting("auto"), setting({"method": "ngram"})
        ('not set', '`True`', '`auto`', '`{"method": "ngram"}`')
    """
    if value is None:
        return "not set"
    if isinstance(value, str):
        return code(value, limit) if value.strip() else "empty"
    if isinstance(value, dict | list):
        return code(json.dumps(value, default=str, ensure_ascii=False), limit)
    return code(repr(value) if isinstance(value, float) else str(value), limit)


def at_once(requests: float) -> str:
    """Return how many full-length requests the cache holds, with the decimals that vLLM prints and never more than it does.

    Example:
        >>> at_once(188.68), at_once(12.9), at_once(0.998)
        ('188.68', '12.9', '0.99')
    """
    return f"{math.floor(round(100 * requests, 6)) / 100:,.2f}".rstrip("0").rstrip(".")


def capital(text: str) -> str:
    """Return text with its first letter large; a name of code is left as it is.

    Example:
        >>> capital("nothing waited"), capital("max_num_seqs reached")
        ('Nothing waited', 'max_num_seqs reached')
    """
    first = text.partition(" ")[0]
    return text if text.startswith("vLLM") or "_" in first else text[:1].upper() + text[1:]


def enumeration(words: list[str]) -> str:
    """Return words as an enumeration.

    Example:
        >>> enumeration(["a", "b", "c"])
        'a, b and c'
    """
    return " and ".join(words) if len(words) < 3 else ", ".join(words[:-1]) + " and " + words[-1]


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    """Return a Markdown table; cells must be escaped already but for the bars of their code spans.

    Example:
        >>> table(["a"], [["`x|y`"]])
        ['| a |', '|---|', '| `x\\\\|y` |']
    """
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return [*lines, *("| " + " | ".join(_BAR.sub("\\\\|", cell) for cell in row) + " |" for row in rows)]
