"""What files beside the log measured of a run: a table for each group."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from vllm_logdoctor.report.escape import code, inline
from vllm_logdoctor.report.figures import number, table
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.run.observed import Group, Measured

_TITLES: dict[Group, str] = {
    "fate": "How it ended",
    "latency": "Latency and lengths",
    "scheduler": "Scheduler",
    "client": "Seen by the client",
    "kernels": "Where the time goes",
    "gpus": "Cards",
    "links": "Links between the cards",
    "host": "Host",
}
_OF_CLASSES = ("share", "time per step", "time per layer", "class time", "class launches")
_MOST = 16


def measured_beside(page: Page) -> list[str]:
    """Return a table of each group that files beside the log measured."""
    lines: list[str] = []
    for group, title in _TITLES.items():
        values = page.run.observed.of(group, joined=False)
        shown = [one for one in values if one.name not in _OF_CLASSES]
        if group == "latency":
            lines += _latency(title, shown)
            continue
        if group == "kernels":
            lines += _classes(title, values)
            title = "The profile"
        # Who keeps a processor busy stands before what the host is.
        shown.sort(key=lambda one: group == "host" and not one.name.startswith("cpu of "))
        if shown:
            rows = [[_name(one), _value(one), _place(one)] for one in shown[:_MOST]]
            lines += ["", f"**{title}**", "", *table(["", "value", "source"], rows)]
            left = len(shown) - len(rows)
            lines += ["", f"{left} more in the JSON report."] if left > 0 else []
    return lines[1:]


def _classes(title: str, values: Sequence[Measured]) -> list[str]:
    """Return a row for each class of kernels of each profile: its share, and its time in a step and in a layer where the profile counts them."""
    found = {(one.file, one.subject, one.name): one for one in values}
    rows = []
    for one in values:
        if one.name == "share":
            times = [found.get((one.file, one.subject, name)) for name in ("time per step", "time per layer")]
            rows.append(
                [
                    inline(one.subject),
                    _value(one),
                    *(_value(time) if time else "" for time in times),
                    _place(one),
                ]
            )
    header = ["", "of kernel time", "a step", "a layer", "source"]
    return ["", f"**{title}**", "", *table(header, rows)] if rows else []


def _latency(title: str, values: Sequence[Measured]) -> list[str]:
    """Return a row for each quantity: its mean, and the bounds of the buckets that hold its quantiles."""
    found = {one.name: one for one in values}
    means = [one for one in values if one.name.endswith(" mean")]
    if not means:
        return []
    rows = []
    for one in means:
        name = one.name.removesuffix(" mean")
        quantiles = [found.get(f"{name} p{share} lies in") for share in (50, 95)]
        rows.append([inline(name), _value(one), *(_value(q) if q else "" for q in quantiles), _place(one)])
    share = found.get("waiting share")
    words = (
        [f"Waiting is {_value(share)} of a request's time: {inline(share.how, 120)}.", ""] if share else []
    )
    return [
        "",
        f"**{title}**",
        "",
        *words,
        *table(["", "mean", "p50 lies in", "p95 lies in", "source"], rows),
    ]


def _name(one: Measured) -> str:
    return inline(f"{one.subject}: {one.name}" if one.subject else one.name, 120)


def _value(one: Measured) -> str:
    shown = "µs" if one.unit == "us" else inline(one.unit, 20)
    unit = f" {shown}" if shown not in ("", "as printed", "count") else ""
    if isinstance(one.value, list) and len(one.value) == 2 and isinstance(one.value[0], int | float):
        low, high = one.value
        return f"{number(low)} to {number(high)}{unit}" if high is not None else f"over {number(low)}{unit}"
    if isinstance(one.value, int | float) and not isinstance(one.value, bool):
        return f"{number(one.value)}{unit}"
    return f"{code(str(one.value), 120)}{unit}"


def _place(one: Measured) -> str:
    place = f"L{one.line}" if one.line is not None else inline(one.where, 40)
    doubt = "" if one.joined else "; not known to be of this run"
    how = f" ({inline(one.how, 120)})" if one.how not in ("read", "bucket bounds", "of kernel time") else ""
    return f"{inline(PurePath(one.file).name, 120)} {place}{how}{doubt}"
