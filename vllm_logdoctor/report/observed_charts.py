"""Charts of what files beside the log measured: kernel time by class, how busy the GPU was, and where a request's time went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from vllm_logdoctor.report.charts import Chart, spans_data
from vllm_logdoctor.report.escape import shorten, visible
from vllm_logdoctor.report.figures import number
from vllm_logdoctor.run.model import Run
from vllm_logdoctor.run.observed import Measured

_Bar = tuple[str, float, float, str]
"""Label, begin, end, colour."""
_STAGES = (
    ("queue", "queue time mean", "orange"),
    ("prefill", "prefill time mean", "sky"),
    ("decode", "decode time mean", "blue"),
)


def observed_charts(run: Run) -> list[Chart]:
    """Return the charts that the files have data for."""
    return [*_kernels(run), *_busy(run), *_request(run)]


def _kernels(run: Run) -> Iterator[Chart]:
    shares = [one for one in run.observed.of("kernels", "share", joined=False) if _figure(one)]
    first = [one for one in shares if one.file == shares[0].file]
    bars = [
        (one.subject, 0.0, _figure(one), "grey" if one.subject == "other" else "blue")
        for one in sorted(first, key=lambda one: -_figure(one))
    ]
    if len(bars) > 1:
        yield _chart(f"kernels-{run.number}", "Kernel time by class", "%", bars, first)


def _busy(run: Run) -> Iterator[Chart]:
    found = run.observed.of("kernels", "gpu busy share", joined=False)[:1]
    if found and 0 < _figure(found[0]) <= 1:
        busy = round(100 * _figure(found[0]), 1)
        bars: list[_Bar] = [("a kernel runs", 0.0, busy, "green"), ("none runs", busy, 100.0, "grey")]
        yield _chart(f"busy-{run.number}", "GPU busy in the profile", "%", bars, found)


def _request(run: Run) -> Iterator[Chart]:
    """Yield the mean stages of a request, one after the other."""
    found = {one.name: one for one in run.observed.of("latency")}
    used = [(label, found[name], colour) for label, name, colour in _STAGES if name in found]
    bars: list[_Bar] = []
    for label, one, colour in used:
        begin = bars[-1][2] if bars else 0.0
        bars.append((label, begin, begin + _figure(one), colour))
    if len(bars) > 1 and bars[-1][2] > 0:
        yield _chart(
            f"request-{run.number}", "Mean time of a request", "s", bars, [one for _, one, _ in used]
        )


def _chart(name: str, title: str, unit: str, bars: Sequence[_Bar], values: Sequence[Measured]) -> Chart:
    lengths = [f"{number(end - begin)} {unit}" for _, begin, end, _ in bars]
    doubt = "" if values[0].joined else "; not known to be of this run"
    longest = max(range(len(bars)), key=lambda at: bars[at][2] - bars[at][1])
    labels = [shorten(visible(bar[0]), 60) for bar in bars]
    spans = [
        {"label": label, "from": "", "length": length, "start": begin, "end": end, "colour": colour}
        for label, length, (_, begin, end, colour) in zip(labels, lengths, bars, strict=True)
    ]
    return Chart(
        name,
        title,
        f"from {shorten(visible(PurePath(values[0].file).name), 80)}{doubt}",
        f"The longest bar is {labels[longest]} with {lengths[longest]}.",
        spans_data((0.0, max(bar[2] for bar in bars)), spans, unit),
        ("", unit),
        list(zip(labels, lengths, strict=True)),
    )


def _figure(one: Measured) -> float:
    return float(one.value) if isinstance(one.value, int | float) else 0.0
