"""A comparison and a verification in a real browser: they draw, ask for nothing, and fit a phone."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_logdoctor import analyze
from vllm_logdoctor.comparison.html import render_comparison, render_verification
from vllm_logdoctor.comparison.snapshot import Snapshot, snapshot_of
from vllm_logdoctor.comparison.verification import Verification, verify

from .chromium import Chromium

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"


def side(name: str) -> Snapshot:
    return snapshot_of(analyze(FIXTURES / name).to_dict())


@pytest.fixture(scope="module")
def result() -> Verification:
    """One plan held against the next run, with requests at the same levels in both."""
    return verify(side("vllm-0.8.5-kv-starved.log"), side("vllm-0.11.2-kv-starved.log"))


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("which", ["comparison", "verification"])
def test_the_page_draws_fits_and_asks_for_nothing(
    browser: Chromium, result: Verification, tmp_path: Path, which: str, width: int
) -> None:
    page = tmp_path / f"{which}.html"
    text = render_comparison(result.comparison) if which == "comparison" else render_verification(result)
    page.write_text(text, encoding="utf-8")
    browser.open(page, width=width)
    assert browser.console == []
    assert browser.requests == [page.resolve().as_uri()]
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
    charts = 1 if which == "comparison" else 0
    assert browser.evaluate("document.documentElement.dataset.charts") == str(charts)
    assert browser.evaluate("document.querySelectorAll('h1').length") == 1


def test_keys_say_both_speeds_of_a_level(browser: Chromium, result: Verification, tmp_path: Path) -> None:
    page = tmp_path / "comparison.html"
    page.write_text(render_comparison(result.comparison), encoding="utf-8")
    browser.open(page)
    browser.evaluate("document.querySelector('[data-chart=levels]').focus()")
    browser.press("ArrowRight")
    spoken = browser.evaluate("document.querySelector('output.spoken').textContent")
    assert spoken.startswith("running ")
    assert "before" in spoken
    assert "after" in spoken
