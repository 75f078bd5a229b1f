"""Charts of the HTML report: their data, and the place, caption and table that each has in the page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from msgspec import Struct

from vllm_logdoctor.report.clock import clock, time_of_day
from vllm_logdoctor.report.escape import shorten, visible
from vllm_logdoctor.report.figures import number
from vllm_logdoctor.report.model import Diagnosis
from vllm_logdoctor.report.naming import LIMITS, phase_words
from vllm_logdoctor.report.series import Point, Reading, minutes_of, points_of, unbroken_parts
from vllm_logdoctor.rules.limits import SERVER_LIMITS
from vllm_logdoctor.run.clock import duration
from vllm_logdoctor.run.model import Phase, Run

_DAY = 86400
_ROWS = 40
_NEAR = 4
_FIRST = ("generation", "queue", "kv")
_FAMILIES = ((5, "5xx", "red"), (4, "4xx", "orange"), (3, "3xx", "sky"), (2, "2xx", "green"))


class Chart(Struct, frozen=True):
    """One chart.

    Attributes:
        name: unique in the page.
        title, note: caption.
        spoken: what a screen reader says in place of the picture.
        data: what the script draws.
        header, rows: the same as a table.
    """

    name: str
    title: str
    note: str
    spoken: str
    data: dict[str, Any]
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


def startup_charts(run: Run) -> list[Chart]:
    """Return the chart of the start-up phases, or none."""
    apart = ("startup", "serving", "idle", "shutdown")
    known = [p for p in run.phases if p.start is not None and p.seconds is not None and p.name not in apart]
    phases = sorted(known, key=lambda phase: (phase.start or 0.0, -(phase.seconds or 0.0)))[:_ROWS]
    if all(phase.name == "unexplained" for phase in phases):
        return []
    names = Counter(phase.name for phase in phases)
    low = min(phase.start or 0.0 for phase in phases)
    high = max((phase.start or 0.0) + (phase.seconds or 0.0) for phase in phases)
    longest = max(phases, key=lambda phase: phase.seconds or 0.0)
    return [
        Chart(
            f"startup-{run.number}",
            "Start-up phases",
            "bars begin where the phase began; a part of another phase is lighter",
            f"{len(phases)} phases; the longest is {_label(longest)} with {duration(longest.seconds)}.",
            spans_data(
                (low, max(high, low + 1)),
                [_span(phase, _label(phase, names[phase.name] > 1)) for phase in phases],
                clock=True,
            ),
            ("phase", "from", "time"),
            [(_label(phase), time_of_day(phase.start), duration(phase.seconds)) for phase in phases],
        )
    ]


def spans_data(
    reach: tuple[float, float], spans: list[dict[str, Any]], unit: str = "", clock: bool = False
) -> dict[str, Any]:
    """Return the data of a chart of bars from one place to another."""
    data = [list(reach), [None, None]]
    return {
        "kind": "spans",
        "unit": unit,
        "clock": clock,
        "days": False,
        "data": data,
        "series": [],
        "spans": spans,
    }


def first_charts(diagnosis: Diagnosis) -> list[Chart]:
    """Return the charts of the first screen: generation, queue and KV cache use with what limited them, start-up."""
    bands = _bands(diagnosis)
    main = [chart for chart in serving_charts(diagnosis.run, bands) if chart.name.split("-")[0] in _FIRST]
    return [*main, *startup_charts(diagnosis.run)]


def more_charts(run: Run) -> list[Chart]:
    """Return the charts that follow in the section on the load."""
    return [chart for chart in serving_charts(run) if chart.name.split("-")[0] not in _FIRST]


def serving_charts(run: Run, bands: Sequence[dict[str, Any]] = ()) -> list[Chart]:
    """Return the charts of throughput, queue, KV cache use and requests that the log has data for."""
    points = points_of(run)
    charts = []
    if len(points) > 1:
        charts += [chart for chart in _sampled(run, points, bands) if chart is not None]
    return [*charts, *(chart for chart in (_drafts(run), _requests(run)) if chart is not None)]


def _bands(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """Return the periods in which the server was the limit."""
    return [
        {"start": period.start, "end": period.end, "label": LIMITS[period.name]}
        for period in diagnosis.bottleneck.periods
        if period.name in SERVER_LIMITS and period.start is not None and period.end is not None
    ]


def chart_data(charts: Sequence[Chart]) -> str:
    """Return the data of all charts as JSON that no HTML parser sees an end of script in."""
    text = json.dumps({chart.name: chart.data for chart in charts}, ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def chart_html(chart: Chart) -> str:
    """Return the place of a chart: caption, buttons, canvas, spoken values and the table alternative."""
    name, title = escape(chart.name), escape(chart.title)
    buttons = "".join(
        f'<button type="button" data-zoom="{factor}" aria-label="{words}: {title}">{sign}</button>'
        for factor, words, sign in (("0.5", "Zoom in", "+"), ("2", "Zoom out", "−"), ("0", "Show all", "all"))
    )
    hint = "Arrow keys move along the values, plus and minus zoom, Escape shows all."
    return (
        f'<figure class="chart-figure"><figcaption>{title} <small>{escape(chart.note)}</small>'
        f'<span class="tools">{buttons}</span></figcaption>'
        f'<div class="chart" data-chart="{name}" tabindex="0" role="application" aria-roledescription="chart" '
        f'aria-label="{title}. {escape(chart.spoken)} {hint}"></div>'
        f'<output class="spoken" aria-live="polite"></output>'
        f'<details class="values"><summary>{title} as a table</summary>{_table(chart)}</details></figure>\n'
    )


def _table(chart: Chart) -> str:
    rows = chart.rows
    step = -(-len(rows) // _ROWS)
    shown = rows[:: max(1, step)]
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in chart.header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in shown)
    left = f"<p>Every {step}th of {len(rows):,} points.</p>" if step > 1 else ""
    opened = f'<div class="scroll" role="group" tabindex="0" aria-label="Table: {escape(chart.title)}">'
    return f"{opened}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{left}"


def _label(phase: Phase, with_process: bool = True) -> str:
    name = phase_words(phase.name)
    process = " ".join(visible(phase.process).split())
    return shorten(f"{visible(name)} · {process}" if process and with_process else visible(name), 60)


def _span(phase: Phase, label: str) -> dict[str, Any]:
    start, seconds = phase.start or 0.0, phase.seconds or 0.0
    colours = {"unexplained": "grey", "startup": "grey"}
    return {
        "label": label,
        "from": time_of_day(start),
        "length": duration(seconds),
        "start": start,
        "end": start + seconds,
        "colour": colours.get(phase.name, "sky" if phase.parent not in ("", "startup") else "blue"),
    }


def _sampled(run: Run, points: Sequence[Point], bands: Sequence[dict[str, Any]]) -> list[Chart | None]:
    timed = all(point.time is not None for point in points)
    places = _with_gaps(points) if timed else [(float(n), point) for n, point in enumerate(points)]
    xs = _rising([x for x, _ in places])
    frame = _ChartFrame(run, xs, timed, f"samples-{run.number}", points[0].lines, bands if timed else ())

    def column(pick: Callable[[Point], float | None]) -> list[float | None]:
        return [None if point is None else pick(point) for _, point in places]

    generation, prompt = column(lambda point: point.generation), column(lambda point: point.prompt)
    running, waiting = column(lambda point: point.running), column(lambda point: point.waiting)
    queue: list[Line] = [("running", "green", True, running), ("waiting", "red", False, waiting)]
    used: list[Line] = [("used", "blue", True, column(lambda point: point.kv_usage))]
    return [
        frame.chart(
            "generation", "Generation throughput", "tokens/s", [("generation", "blue", True, generation)]
        ),
        frame.chart("prompt", "Prompt throughput", "tokens/s", [("prompt", "orange", True, prompt)]),
        frame.chart("queue", "Requests running and waiting", "", queue, _slots(run)),
        frame.chart("kv", "KV cache usage", "%", used),
    ]


def _with_gaps(points: Sequence[Reading]) -> list[tuple[float, Reading | None]]:
    """Return points by time, with a place without values where lines are missing."""
    places: list[tuple[float, Reading | None]] = []
    for stretch in unbroken_parts(points):
        first = stretch[0].time or 0.0
        if places:
            places.append(((places[-1][0] + first) / 2, None))
        places += [(point.time or 0.0, point) for point in stretch]
    return places


Line = tuple[str, str, bool, Sequence[float | None]]
Limit = dict[str, Any]


def _slots(run: Run) -> Limit | None:
    """Return max_num_seqs as a limit across the queue, unless it is far above what ran."""
    max_num_seqs, most = run.setting("max_num_seqs"), run.extremes.running or 0
    near = isinstance(max_num_seqs, int) and max_num_seqs <= _NEAR * most
    return {"value": max_num_seqs, "label": f"max_num_seqs {max_num_seqs:,}"} if near else None


class _ChartFrame(Struct, frozen=True):
    """What the sampled charts of a run share: the time axis and the cursor."""

    run: Run
    xs: list[float]
    timed: bool
    sync: str
    merged: int
    bands: Sequence[dict[str, Any]] = ()

    def chart(
        self, name: str, title: str, unit: str, lines: Sequence[Line], limit: Limit | None = None
    ) -> Chart | None:
        """Return a chart of lines, with a limit across it, or None where no value is known."""
        known = [(label, colour, fill, values) for label, colour, fill, values in lines if _any(values)]
        if not known:
            return None
        days = self.timed and self.xs[-1] - self.xs[0] > _DAY
        highest = ", ".join(f"{label} {number(_highest(values))}" for label, _, _, values in known)
        rows = [
            (self._at(x), *(_cell(values[n]) for _, _, _, values in known))
            for n, x in enumerate(self.xs)
            if any(values[n] is not None for _, _, _, values in known)
        ]
        return Chart(
            f"{name}-{self.run.number}",
            title,
            self._note(unit, len(rows), limit),
            f"Highest: {highest} {unit}.",
            {
                "kind": "lines",
                "unit": unit,
                "clock": self.timed,
                "days": days,
                "sync": self.sync,
                "bands": list(self.bands),
                "limit": limit,
                "data": [self.xs, *(list(values) for _, _, _, values in known)],
                "series": [{"label": label, "colour": c, "fill": fill} for label, c, fill, _ in known],
            },
            ("time" if self.timed else "sample", *(f"{label} {unit}".strip() for label, _, _, _ in known)),
            rows,
        )

    def _note(self, unit: str, points: int, limit: Limit | None) -> str:
        of_rates = "mean" if unit == "tokens/s" else "highest"
        each = f", each the {of_rates} of {self.merged}" if self.merged > 1 else ""
        shaded = " and ".join(dict.fromkeys(band["label"] for band in self.bands))
        marks = [f"shaded: {shaded}"] if shaded else []
        marks += [f"dashed: {limit['label']}"] if limit else []
        return "; ".join([f"{unit + ', ' if unit else ''}{points:,} points{each}", *marks])

    def _at(self, x: float) -> str:
        return (clock(x) or "") if self.timed else number(x)


def _drafts(run: Run) -> Chart | None:
    lines = [line for line in run.speculation if line.acceptance is not None]
    if len(lines) < 2:
        return None
    timed = all(line.time is not None for line in lines)
    places = _with_gaps(lines) if timed else [(float(n), line) for n, line in enumerate(lines)]
    frame = _ChartFrame(run, _rising([x for x, _ in places]), timed, f"samples-{run.number}", 1)
    accepted = [None if line is None else line.acceptance for _, line in places]
    return frame.chart("drafts", "Drafted tokens accepted", "%", [("accepted", "green", True, accepted)])


def _requests(run: Run) -> Chart | None:
    minutes = minutes_of(run)
    if len(minutes) < 2:
        return None
    present = [family for family in _FAMILIES if any(minute.by_family.get(family[0]) for minute in minutes)]
    own = {family: [minute.by_family.get(family, 0) for minute in minutes] for family, _, _ in present}
    stacked = [
        [sum(own[f][n] for f, _, _ in present[at:]) for n in range(len(minutes))]
        for at in range(len(present))
    ]
    xs = [minute.time for minute in minutes]
    total = sum(sum(values) for values in own.values())
    return Chart(
        f"requests-{run.number}",
        "Answered requests by minute",
        "stacked by HTTP status; drag to zoom",
        f"{total:,} requests in {len(minutes):,} minutes.",
        {
            "kind": "bars",
            "unit": "",
            "clock": True,
            "days": xs[-1] - xs[0] > _DAY,
            "data": [xs, *stacked],
            "series": [{"label": label, "colour": c, "own": own[family]} for family, label, c in present],
        },
        ("minute", *(label for _, label, _ in present)),
        [(clock(x) or "", *(f"{own[f][n]:,}" for f, _, _ in present)) for n, x in enumerate(xs)],
    )


def _rising(xs: list[float]) -> list[float]:
    """Return times that never go back, as the chart library needs them."""
    out: list[float] = []
    for x in xs:
        out.append(max(x, out[-1]) if out else x)
    return out


def _any(values: Sequence[float | None]) -> bool:
    return any(value is not None for value in values)


def _highest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _cell(value: float | None) -> str:
    return "" if value is None else number(value)
