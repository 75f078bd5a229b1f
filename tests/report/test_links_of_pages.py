"""Links of the HTML report: each leads to a place of the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vllm_logdoctor import analyze

FIXTURES = sorted((Path(__file__).parents[2] / "fixtures").glob("*.log"))


@pytest.mark.parametrize("log", FIXTURES, ids=lambda log: log.stem)
def test_every_citation_leads_to_its_line(log: Path) -> None:
    """Lines of tables among them, and of several runs."""
    page = analyze(log).to_html()
    targets = set(re.findall(r'\bid="?([^"\s>]+)', page))
    links = re.findall(r'href="#([^"]+)"', page)
    assert links
    assert not [link for link in links if link not in targets]
