"""Links of the HTML report: each leads to a place of the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.report.synthetic import make_analysis
from vllm_logdoctor import analyze
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.run.model import Evidence

FIXTURES = sorted((Path(__file__).parents[2] / "fixtures").glob("*.log"))


@pytest.mark.parametrize("log", FIXTURES, ids=lambda log: log.stem)
def test_every_citation_leads_to_its_line(log: Path) -> None:
    """Lines of tables among them, and of several runs."""
    page = analyze(log).to_html()
    targets = set(re.findall(r'\bid="?([^"\s>]+)', page))
    links = re.findall(r'href="#([^"]+)"', page)
    assert links
    assert not [link for link in links if link not in targets]


def test_a_line_that_proves_two_things_is_cited_once_in_its_first_place() -> None:
    analysis = make_analysis("Qwen")
    page = Page(analysis, analysis.runs[0])
    lines = [Evidence(analysis.sources[0].file, number, "text") for number in (7, 3, 7, 5)]
    assert page.cite(lines) == "[L7, L3, L5]"
