"""The compare command where one side is another engine, a benchmark without a server, or there are more than two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vllm_logdoctor.engine_comparison.rows import Claims
    from vllm_logdoctor.engine_comparison.table import EngineComparison
    from vllm_logdoctor.report.writers import Result


def engines_compared(
    names: Sequence[str], claims: Claims, document_of: Callable[[str], dict[str, Any]]
) -> Result | None:
    """Return the comparison of several engines, or None for two runs of vLLM, which `comparison` compares in full.

    Raises:
        LogdoctorError: a side can't be read or holds no run.
    """
    from vllm_logdoctor.engine_comparison.reading import benchmark_in, is_report_of_vllm, sides_of
    from vllm_logdoctor.engine_comparison.table import compare_engines

    documents = {name: document_of(name) for name in dict.fromkeys(names) if benchmark_in(name) is None}
    if (
        len(names) == 2
        and len(documents) == len(set(names))
        and all(map(is_report_of_vllm, documents.values()))
    ):
        return None
    return _result(compare_engines(sides_of(names, documents.__getitem__), claims))


def _result(comparison: EngineComparison) -> Result:
    from vllm_logdoctor.engine_comparison.table import document, render
    from vllm_logdoctor.report.body import blocks_in
    from vllm_logdoctor.report.json import text_of
    from vllm_logdoctor.report.text import plain_text
    from vllm_logdoctor.report.writers import Result

    page, data = partial(render, comparison), partial(document, comparison)
    own: dict[str, Callable[[], str]] = {
        "markdown": page,
        "json": lambda: text_of(data()),
        "text": lambda: plain_text(page()),
        "html": lambda: _html(blocks_in(page())),
    }
    return Result(page, data, own)


def _html(blocks: Sequence[Any]) -> str:
    from vllm_logdoctor.report.body import block_html
    from vllm_logdoctor.report.webpage import webpage

    parts = [
        f'<h{one.level} id="{one.name}">{one.heading}</h{one.level}>\n{block_html(one, {})}' for one in blocks
    ]
    return webpage(blocks, [], "".join(parts))
