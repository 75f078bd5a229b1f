"""Figures of a run in matplotlib, made to be shown: every axis has its unit, every figure its origin."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.report.clock import duration
from vllm_logdoctor.report.escape import shorten, visible
from vllm_logdoctor.report.figures import number
from vllm_logdoctor.report.naming import PHASES, run_title
from vllm_logdoctor.report.series import Point, points_of
from vllm_logdoctor.report.text import plain_text
from vllm_logdoctor.run.model import Phase, Run

try:
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator
except ImportError as missing:
    raise LogdoctorError("matplotlib is not installed; pip install 'vllm-logdoctor[plot]'", 2) from missing

# Okabe and Ito's palette: told apart by most colour-blind readers and in grey print
BLUE, ORANGE, GREEN, RED, SKY, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#777777"
_CONTROL_PICTURES = re.compile("[\u2400-\u2421\ufffd]")
_SIZE = (9.0, 4.2)
_DPI = 150
_BINS = 240
_MINUTE = 60.0
_HOUR = 3600.0


class Chart(Figure):
    """A matplotlib figure that shows itself in a notebook, whatever its backend."""

    def _repr_png_(self) -> bytes:
        out = io.BytesIO()
        self.savefig(out, format="png", dpi=_DPI)
        return out.getvalue()


class Plots:
    """The figures of one run; each method returns a new matplotlib figure.

    Args:
        run: the run to draw.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    def throughput(self) -> Chart:
        """Generation and prompt throughput over time in tokens/s, engines in sum; of long runs mean, range."""
        figure, (upper, lower) = _figure(self._run, "Throughput", rows=2)
        _, unit = _time_scale(self._run)
        points = _series(self._run)
        _line(upper, self._run, points, lambda point: point.generation, BLUE, "generation", filled=True)
        _line(lower, self._run, points, lambda point: point.prompt, ORANGE, "prompt", filled=True)
        for axes in (upper, lower):
            axes.set_ylabel("tokens/s")
        _finish(upper, "", bool(points))
        _finish(lower, unit, bool(points))
        return figure

    def kv_cache(self) -> Chart:
        """KV cache use in percent, with running and waiting requests below."""
        figure, (upper, lower) = _figure(self._run, "KV cache and queue", rows=2)
        _, unit = _time_scale(self._run)
        points = _series(self._run)
        _line(upper, self._run, points, lambda point: point.kv_usage, BLUE, "KV cache usage", filled=True)
        _line(lower, self._run, points, lambda point: point.running, GREEN, "running", filled=True)
        _line(lower, self._run, points, lambda point: point.waiting, RED, "waiting")
        upper.set_ylabel("%")
        lower.set_ylabel("requests")
        lower.yaxis.set_major_locator(MaxNLocator(integer=True))
        _finish(upper, "", bool(points))
        _finish(lower, unit, bool(points))
        upper.set_ylim(0, 105)
        return figure

    def startup(self) -> Chart:
        """Start-up phases as bars over time, one row per phase and process."""
        return _bars(self._run, "Start-up", ("startup", "serving", "idle", "shutdown"))

    def timeline(self) -> Chart:
        """The whole run: phases as bars, throughput below, on one time axis."""
        figure, (upper, lower) = _figure(self._run, "Timeline", rows=2)
        scale, unit = _time_scale(self._run)
        outer = [
            phase
            for phase in _drawable(self._run)
            if phase.parent in ("", "startup") and phase.name != "startup"
        ]
        _draw_phases(upper, outer, self._run, scale)
        points = _series(self._run)
        _line(lower, self._run, points, lambda point: point.generation, BLUE, "generation", filled=True)
        lower.set_ylabel("generation, tokens/s")
        _finish(upper, "", True, legend=False)
        _finish(lower, unit, bool(points))
        lower.set_xlim(left=0)
        upper.grid(False, axis="y")
        upper.grid(True, axis="x", color="#dddddd", linewidth=0.6)
        return figure

    def requests(self) -> Chart:
        """Answered requests per minute, stacked by status class."""
        figure, (axes,) = _figure(self._run, "Answered requests")
        scale, unit = _time_scale(self._run)
        start = self._run.started or 0.0
        minutes = {minute: by for minute, by in sorted(self._run.accesses_by_minute.items()) if minute >= 0}
        times = [(minute * _MINUTE - start) / scale for minute in minutes]
        bottom = [0] * len(times)
        for family, colour in ((2, GREEN), (3, SKY), (4, ORANGE), (5, RED)):
            heights = [
                sum(c for status, c in by.items() if status // 100 == family) for by in minutes.values()
            ]
            if any(heights):
                width = 0.9 * _MINUTE / scale
                axes.bar(times, heights, width, bottom, color=colour, label=f"{family}xx", align="edge")
                bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
        axes.set_ylabel("requests per minute")
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        _finish(axes, unit, bool(times))
        return figure


def _figure(run: Run, title: str, rows: int = 1, height: float = _SIZE[1]) -> tuple[Chart, list[Axes]]:
    figure = Chart(figsize=(_SIZE[0], height if rows == 1 else height * 1.3), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, 1, sharex=True, squeeze=False)
    axes: list[Axes] = [row[0] for row in grid]
    figure.suptitle(title, x=0.01, ha="left", fontsize=14, fontweight="bold")
    subtitle = shorten(plain_text(run_title(run), 10_000).strip(), 130)
    axes[0].set_title(_literal(subtitle), loc="left", fontsize=9, color=GREY)
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        one.grid(True, axis="y", color="#dddddd", linewidth=0.6)
        one.set_axisbelow(True)
    return figure, axes


def _literal(text: str) -> str:
    """Return text in which matplotlib finds no formula and no character that its font lacks."""
    return _CONTROL_PICTURES.sub("·", visible(text)).replace("$", r"\$")


def _finish(axes: Axes, unit: str, drawn: bool, legend: bool = True) -> None:
    if unit:
        axes.set_xlabel(unit)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(float(value)))) if legend else None
    if not drawn:
        axes.text(
            0.5, 0.5, "the log holds nothing of this", transform=axes.transAxes, ha="center", color=GREY
        )
    elif legend:
        axes.set_ylim(0, axes.get_ylim()[1] * 1.12)
        axes.legend(frameon=False, loc="upper left", ncols=4, fontsize=9)


def _time_scale(run: Run) -> tuple[float, str]:
    length = (run.ended or 0.0) - (run.started or 0.0)
    if length > 3 * _HOUR:
        return _HOUR, "hours since the start of the run"
    if length > 5 * _MINUTE:
        return _MINUTE, "minutes since the start of the run"
    return 1.0, "seconds since the start of the run"


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
    known = [
        (_since(run, point.time) / scale, value) for point in points if (value := pick(point)) is not None
    ]
    if not known:
        return
    bins = _bins(known)
    times, means = [time for time, *_ in bins], [mean for _, mean, *_ in bins]
    if len(known) > len(bins):
        low, high = [low for *_, low, _ in bins], [high for *_, high in bins]
        axes.fill_between(times, low, high, color=colour, alpha=0.25, linewidth=0)
    elif filled:
        axes.fill_between(times, means, color=colour, alpha=0.15, linewidth=0)
    axes.plot(times, means, color=colour, label=label, linewidth=1.6, marker="." if len(known) < 40 else "")


def _bins(known: list[tuple[float, float]]) -> list[tuple[float, float, float, float]]:
    """Return (time, mean, low, high) of neighbours, so that a long run stays a curve that can be read."""
    size = -(-len(known) // _BINS)
    out = []
    for at in range(0, len(known), size):
        values = [value for _, value in known[at : at + size]]
        out.append((known[at][0], sum(values) / len(values), min(values), max(values)))
    return out


def _drawable(run: Run) -> list[Phase]:
    known = [phase for phase in run.phases if phase.start is not None and phase.seconds]
    return sorted(known, key=lambda phase: (phase.start or 0.0, -(phase.seconds or 0.0)))


def _bars(run: Run, title: str, without: tuple[str, ...]) -> Chart:
    phases = [phase for phase in _drawable(run) if phase.name not in without]
    figure, (axes,) = _figure(run, title, height=max(2.4, 0.36 * len(phases) + 1.4))
    _draw_phases(axes, phases, run, 1.0)
    _finish(axes, "seconds since the start of the run", bool(phases), legend=False)
    axes.grid(True, axis="x", color="#dddddd", linewidth=0.6)
    axes.grid(False, axis="y")
    return figure


def _draw_phases(axes: Axes, phases: list[Phase], run: Run, scale: float) -> None:
    start = run.started or 0.0
    colours = {"unexplained": "#cccccc", "startup": GREY, "idle": "#eeeeee"}
    for row, phase in enumerate(phases):
        left = ((phase.start or 0.0) - start) / scale
        width = (phase.seconds or 0.0) / scale
        colour = colours.get(phase.name, SKY if phase.parent not in ("", "startup") else BLUE)
        axes.barh(row, width, left=left, color=colour, height=0.7)
        axes.annotate(
            duration(phase.seconds),
            (left + width, row),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    axes.set_yticks(range(len(phases)), [_literal(_label(phase)) for phase in phases], fontsize=9)
    axes.invert_yaxis()
    axes.margins(x=0.12)


def _label(phase: Phase) -> str:
    name = PHASES.get(phase.name, phase.name.replace("-", " "))
    return shorten(f"{name} · {phase.process}" if phase.process else name, 48)
