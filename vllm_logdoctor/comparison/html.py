"""A comparison or verification as one HTML file, with the speed at equal load as a chart."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_logdoctor.comparison import markdown, verification_markdown
from vllm_logdoctor.comparison.comparison import Comparison
from vllm_logdoctor.comparison.verification import Verification
from vllm_logdoctor.report.body import HeadedText, block_html, blocks_in
from vllm_logdoctor.report.charts import Chart
from vllm_logdoctor.report.escape import shorten
from vllm_logdoctor.report.figures import number
from vllm_logdoctor.report.webpage import webpage
from vllm_logdoctor.rules.equal_load import EqualLoad, LevelPair

_FEWEST = 2


def render_comparison(comparison: Comparison) -> str:
    """Return a comparison as a self-contained HTML document."""
    blocks = blocks_in(markdown.render(comparison))
    for block in blocks:
        if block.title == markdown.LEVELS:
            block.charts = _charts(comparison.load)
    return _page(blocks)


def render_verification(verification: Verification) -> str:
    """Return a verification as a self-contained HTML document."""
    return _page(blocks_in(verification_markdown.render(verification)))


def _page(blocks: Sequence[HeadedText]) -> str:
    contents = [
        (block.name, shorten(block.title, 60) if position else "Verdict", block.level)
        for position, block in enumerate(blocks)
    ]
    verdict, *others = blocks
    body = f'{verdict.heading_html}<div class="verdict">{block_html(verdict, {})}</div>\n'
    return webpage(blocks, contents, body + "".join(one.heading_html + block_html(one, {}) for one in others))


def _charts(load: EqualLoad) -> list[Chart]:
    pairs = sorted(load.pairs, key=_running)
    if len(pairs) < _FEWEST:
        return []
    running = [_running(pair) for pair in pairs]
    before = [pair.before.generation[1] for pair in pairs]
    after = [pair.after.generation[1] for pair in pairs]
    return [
        Chart(
            "levels",
            "Generation throughput by running requests",
            "tokens/s, median of each level; drag to zoom",
            f"{len(pairs)} levels of running requests, {number(running[0])} to {number(running[-1])}.",
            {
                "kind": "lines",
                "unit": "tokens/s",
                "clock": False,
                "days": False,
                "x": "running",
                "data": [running, before, after],
                "series": [
                    {"label": "before", "colour": "orange", "fill": False},
                    {"label": "after", "colour": "blue", "fill": False},
                ],
            },
            ("running requests", "before, tokens/s", "after, tokens/s"),
            [
                (number(at), number(old), number(new))
                for at, old, new in zip(running, before, after, strict=True)
            ],
        )
    ]


def _running(pair: LevelPair) -> float:
    return round((pair.before.running + pair.after.running) / 2, 2)
