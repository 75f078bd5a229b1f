"""Figures of a run in matplotlib, made to be shown: every axis has its unit, every figure its origin."""

from __future__ import annotations

import io
from collections.abc import Callable

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.report.clock import clock, iso
from vllm_logdoctor.report.escape import shorten, visible
from vllm_logdoctor.report.figures import number
from vllm_logdoctor.report.naming import phase_words, run_title
from vllm_logdoctor.report.reader import plain_words
from vllm_logdoctor.report.series import Point, points_of, unbroken_parts
from vllm_logdoctor.run.clock import duration
from vllm_logdoctor.run.model import Phase, Run

try:
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator
except ImportError as missing:
    raise LogdoctorError("matplotlib is not installed; pip install 'vllm-logdoctor[plot]'", 2) from missing

# Okabe and Ito's palette: distinct for most colour-blind readers and in grey print
BLUE, ORANGE, GREEN, RED, SKY, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#777777"
_CONTROL_PICTURES = lazy_pattern("[\u2400-\u2421\ufffd]")
_SIZE = (9.0, 4.2)
_DPI = 150
_BINS = 240
_FEWEST_ROWS = 3
_MINUTE = 60.0
_HOUR = 3600.0


class Plot(Figure):
    """A matplotlib figure that shows itself in a notebook, whatever its backend."""

    def _repr_png_(self) -> bytes:
        out = io.BytesIO()
        self.savefig(out, format="png", dpi=_DPI)
        return out.getvalue()


class Plots:
    """The figures of one run; each method returns a new matplotlib figure."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def throughput(self) -> Plot:
        """Generation and prompt throughput over time in tokens/s, engines in sum; of long runs mean, range."""
        figure, (upper, lower) = _figure(self._run, "Throughput", rows=2)
        points = _series(self._run)
        _line(upper, self._run, points, lambda point: point.generation, BLUE, "generation", filled=True)
        _line(lower, self._run, points, lambda point: point.prompt, ORANGE, "prompt", filled=True)
        _finish(upper, "generation, tokens/s", bool(points))
        _finish(lower, "prompt, tokens/s", bool(points))
        _time_axis(lower, self._run)
        return figure

    def kv_cache(self) -> Plot:
        """KV cache use in percent, with running and waiting requests below."""
        figure, (upper, lower) = _figure(self._run, "KV cache and queue", rows=2)
        points = _series(self._run)
        _line(upper, self._run, points, lambda point: point.kv_usage, BLUE, "KV cache usage", filled=True)
        _line(lower, self._run, points, lambda point: point.running, GREEN, "running", filled=True)
        _line(lower, self._run, points, lambda point: point.waiting, RED, "waiting")
        _finish(upper, "KV cache usage, %", bool(points))
        lower.yaxis.set_major_locator(MaxNLocator(integer=True))
        _finish(lower, "requests", bool(points))
        upper.set_ylim(0, 105)
        _time_axis(lower, self._run)
        return figure

    def startup(self) -> Plot:
        """Start-up phases as bars over time, one row per phase and process."""
        return _bars(self._run, "Start-up", ("startup", "serving", "idle", "shutdown"))

    def timeline(self) -> Plot:
        """The whole run: phases as bars, throughput below, on one time axis."""
        figure, (upper, lower) = _figure(self._run, "Timeline", rows=2)
        scale, _ = _time_scale(self._run)
        outer = [
            phase
            for phase in _drawable(self._run)
            if phase.parent in ("", "startup") and phase.name != "startup"
        ]
        points = _series(self._run)
        _line(lower, self._run, points, lambda point: point.generation, BLUE, "generation", filled=True)
        _finish(lower, "generation, tokens/s", bool(points))
        _time_axis(lower, self._run)
        _draw_phases(upper, outer, self._run, scale, lower.get_xlim()[1])
        _across(upper)
        return figure

    def requests(self) -> Plot:
        """Answered requests per minute, stacked by status class."""
        figure, (axes,) = _figure(self._run, "Answered requests")
        scale, _ = _time_scale(self._run)
        start = self._run.started or 0.0
        minutes = {minute: by for minute, by in sorted(self._run.accesses_by_minute.items()) if minute >= 0}
        times = [(minute * _MINUTE - start) / scale for minute in minutes]
        bottom = [0] * len(times)
        for family, colour in ((2, GREEN), (3, SKY), (4, ORANGE), (5, RED)):
            heights = [
                sum(c for status, c in by.items() if status // 100 == family) for by in minutes.values()
            ]
            if any(heights):
                width = (0.9 if len(times) < _BINS else 1.0) * _MINUTE / scale
                axes.bar(times, heights, width, bottom, color=colour, label=f"{family}xx", align="edge")
                bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        _finish(axes, "requests per minute", bool(times))
        _time_axis(axes, self._run)
        return figure


def _figure(run: Run, title: str, rows: int = 1, height: float = _SIZE[1]) -> tuple[Plot, list[Axes]]:
    figure = Plot(figsize=(_SIZE[0], height if rows == 1 else height * 1.3), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, 1, sharex=True, squeeze=False)
    axes: list[Axes] = [row[0] for row in grid]
    # The second line keeps the place for what ran, in smaller letters.
    heading = figure.suptitle(f"{title}\n ", x=0.01, ha="left", fontsize=14, fontweight="bold")
    title = _literal(shorten(plain_words(run_title(run)), 130))
    ran = axes[0].annotate(
        title, (0, 0.12), xycoords=heading, fontsize=9, color=GREY, va="bottom", annotation_clip=False
    )
    ran.set_in_layout(False)
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        one.grid(True, axis="y", color="#dddddd", linewidth=0.6)
        one.set_axisbelow(True)
    return figure, axes


def _literal(text: str) -> str:
    """Return text in which matplotlib finds no formula and no character that its font lacks."""
    return _CONTROL_PICTURES.sub("·", visible(text)).replace("$", r"\$")


def _finish(axes: Axes, label: str, drawn: bool) -> None:
    """Name the values, and each curve where there are several; say so where there is none."""
    axes.set_ylabel(label)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(float(value))))
    if not drawn:
        axes.set_yticks([])
        words = "the log holds nothing of this"
        axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", color=GREY)
        return
    axes.set_ylim(0, max(1.0, axes.get_ylim()[1]))
    if len(axes.get_legend_handles_labels()[1]) > 1:
        axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 0.98), ncols=4, fontsize=9)


def _time_axis(axes: Axes, run: Run) -> None:
    """Show the whole run, from its start, and say when that was."""
    scale, unit = _time_scale(run)
    length = _since(run, run.ended) / scale
    axes.set_xlim(0, max(length, 1.0) * 1.02)
    axes.set_xlabel(_since_when(run, unit))


def _since_when(run: Run, unit: str) -> str:
    started = iso(run.started, run.year_known) or clock(run.started)
    return f"{unit} since the start of the run{f', {started}' if started else ''}".replace("T", " ")


def _across(axes: Axes) -> None:
    axes.grid(False, axis="y")
    axes.grid(True, axis="x", color="#dddddd", linewidth=0.6)


def _time_scale(run: Run) -> tuple[float, str]:
    length = (run.ended or 0.0) - (run.started or 0.0)
    if length > 3 * _HOUR:
        return _HOUR, "hours"
    if length > 5 * _MINUTE:
        return _MINUTE, "minutes"
    return 1.0, "seconds"


def _since(run: Run, time: float | None) -> float:
    return (time or 0.0) - (run.started or 0.0)


def _series(run: Run) -> list[Point]:
    return [
        point for point in points_of(run, most=4000) if point.time is not None and run.started is not None
    ]


def _line(
    axes: Axes,
    run: Run,
    points: list[Point],
    pick: Callable[[Point], float | None],
    colour: str,
    label: str,
    filled: bool = False,
) -> None:
    scale, _ = _time_scale(run)
    size = -(-len(points) // _BINS)
    for number_of, stretch in enumerate(unbroken_parts(points)):
        known = [
            (_since(run, point.time) / scale, value)
            for point in stretch
            if (value := pick(point)) is not None
        ]
        if known:
            _curve(axes, known, size, colour, "" if number_of else label, filled)


def _curve(
    axes: Axes, known: list[tuple[float, float]], size: int, colour: str, label: str, filled: bool
) -> None:
    """Draw one curve without a gap: of long runs the mean of `size` neighbours, with their range."""
    bins = _bins(known, size)
    times, means = [time for time, *_ in bins], [mean for _, mean, *_ in bins]
    if size > 1:
        low, high = [low for *_, low, _ in bins], [high for *_, high in bins]
        axes.fill_between(times, low, high, color=colour, alpha=0.25, linewidth=0)
    elif filled:
        axes.fill_between(times, means, color=colour, alpha=0.15, linewidth=0)
    marker = "." if (len(known) < 40 and size == 1) or len(bins) == 1 else ""
    axes.plot(times, means, color=colour, label=label or None, linewidth=1.6, marker=marker)


def _bins(known: list[tuple[float, float]], size: int) -> list[tuple[float, float, float, float]]:
    """Return (time, mean, low, high) of `size` neighbours, so that a long run stays a curve that can be read."""
    out = []
    for at in range(0, len(known), size):
        values = [value for _, value in known[at : at + size]]
        out.append((known[at][0], sum(values) / len(values), min(values), max(values)))
    return out


def _drawable(run: Run) -> list[Phase]:
    known = [phase for phase in run.phases if phase.start is not None and phase.seconds]
    return sorted(known, key=lambda phase: (phase.start or 0.0, -(phase.seconds or 0.0)))


def _bars(run: Run, title: str, without: tuple[str, ...]) -> Plot:
    phases = [phase for phase in _drawable(run) if phase.name not in without]
    figure, (axes,) = _figure(run, title, height=max(2.8, 0.36 * len(phases) + 1.5))
    if not phases:
        _finish(axes, "", False)
        return figure
    _draw_phases(
        axes, phases, run, 1.0, max(_since(run, phase.start) + (phase.seconds or 0) for phase in phases)
    )
    axes.set_xlabel(_since_when(run, "seconds"))
    _across(axes)
    return figure


def _draw_phases(axes: Axes, phases: list[Phase], run: Run, scale: float, end: float) -> None:
    """Draw phases as bars up to `end`, each with its length beside it, or in it where there is no room."""
    colours = {"unexplained": "#cccccc", "startup": GREY, "idle": "#eeeeee"}
    for row, phase in enumerate(phases):
        left = _since(run, phase.start) / scale
        width = (phase.seconds or 0.0) / scale
        colour = colours.get(phase.name, SKY if phase.parent not in ("", "startup") else BLUE)
        axes.barh(row, width, left=left, color=colour, height=0.7)
        inside = left + width > 0.8 * end and width > 0.2 * end
        dark = inside and colour == BLUE
        axes.annotate(
            duration(phase.seconds),
            (left + width, row),
            (-4 if inside else 4, 0),
            textcoords="offset points",
            va="center",
            ha="right" if inside else "left",
            color="white" if dark else "black",
            fontsize=8,
        )
    axes.set_yticks(range(len(phases)), [_literal(_label(phase)) for phase in phases], fontsize=9)
    axes.set_ylim(max(len(phases), _FEWEST_ROWS) - 0.5, -0.5)
    axes.set_xlim(0, end * (1.0 if scale != 1.0 else 1.08))


def _label(phase: Phase) -> str:
    name = phase_words(phase.name)
    return shorten(f"{name} · {phase.process}" if phase.process else name, 48)
