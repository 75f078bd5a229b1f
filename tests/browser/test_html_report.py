"""The HTML report in a real browser: draws, asks for nothing, obeys keys and mouse; log text never acts."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.report.synthetic import make_analysis
from vllm_logdoctor.report import html

HOSTILE = (
    "<script>window.taken=1</script><img src=x onerror=window.taken=1></script><svg onload=window.taken=1>"
    '![x](http://127.0.0.1:9/b.png) [y](javascript:window.taken=1) " onfocus=window.taken=1 autofocus x=" '
    "' --> ]]> {{7*7}} \u202eabc <a href=http://127.0.0.1:9>z</a> <style>*{display:none}</style> [L7](#e0-7)"
)


FAINT = """() => {
  const parts = (c) => c.match(/[\\d.]+/g).map(Number);
  const light = (c) => parts(c).slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0);
  const ground = (one) => { const c = getComputedStyle(one).backgroundColor, p = parts(c);
    return p.length < 4 || p[3] > 0 ? c : ground(one.parentElement); };
  const own = (one) => [...one.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  return [...document.body.querySelectorAll('*')]
    .filter(one => own(one) && one.checkVisibility() && !['SCRIPT', 'STYLE'].includes(one.tagName))
    .map(one => { const pair = [light(getComputedStyle(one).color), light(ground(one))].sort((a, b) => b - a);
      return [one.outerHTML.slice(0, 80), (pair[0] + 0.05) / (pair[1] + 0.05)]; })
    .filter(([, ratio]) => ratio < 4.5);
}"""
"""Elements whose text has less than the contrast of WCAG 2, level AA, against its ground."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(html.render(make_analysis("Qwen", failure=True, year_known=True)), encoding="utf-8")
    return path


def test_loads_without_a_word_on_the_console_and_asks_for_nothing(browser, page):
    browser.open(page)
    assert browser.console == []
    assert browser.requests == [page.resolve().as_uri()]


@pytest.mark.parametrize("dark", [False, True])
def test_all_text_stands_out_from_its_background(browser, page, dark):
    browser.open(page, dark=dark)
    browser.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert browser.evaluate(f"({FAINT})()") == []


def test_headings_leave_no_level_out_and_no_header_is_empty(browser, page):
    browser.open(page)
    levels = browser.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map(h => Number(h.tagName[1]))")
    assert levels[0] == 1
    assert all(deeper <= level + 1 for level, deeper in pairwise(levels))
    assert browser.evaluate("[...document.querySelectorAll('th')].every(th => th.textContent.trim())")


def test_what_scrolls_can_be_reached_by_key_and_has_a_name(browser, page):
    browser.open(page, width=390)
    assert browser.evaluate(
        "[...document.querySelectorAll('.scroll')].every(one => one.tabIndex === 0 && one.ariaLabel)"
    )


def test_of_many_charts_those_far_away_are_drawn_when_they_come_near(browser, tmp_path):
    path = tmp_path / "many.html"
    path.write_text(html.render(make_analysis("Qwen", runs=6)), encoding="utf-8")
    drawn = "document.querySelectorAll('.chart canvas').length"
    browser.open(path)
    places = browser.evaluate("document.querySelectorAll('.chart').length")
    assert places > 24
    assert browser.evaluate(drawn) < places
    browser.evaluate("[...document.querySelectorAll('.chart')].at(-1).focus()")
    browser.press("ArrowRight")
    assert browser.evaluate(
        "[...document.querySelectorAll('.chart')].at(-1).querySelector('canvas') !== null"
    )
    browser.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert browser.evaluate(drawn) == places
    assert browser.console == []


def test_every_chart_is_drawn(browser, page):
    browser.open(page)
    charts = browser.evaluate("document.querySelectorAll('.chart').length")
    assert charts == 7
    assert browser.evaluate("document.documentElement.dataset.charts") == str(charts)
    inked = browser.evaluate(
        "[...document.querySelectorAll('.chart canvas')].every(c => "
        "c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v > 0))"
    )
    assert inked is True


@pytest.mark.parametrize("width", [360, 700, 1300])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_is_wider_than_the_screen(browser, page, width, dark):
    browser.open(page, width=width, dark=dark)
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert browser.console == []


@pytest.mark.parametrize(("width", "is_open"), [(1280, True), (768, False), (390, False)])
def test_contents_beside_the_report_are_open_and_above_it_folded(browser, page, width, is_open):
    browser.open(page, width=width)
    assert browser.evaluate("document.querySelector('nav.contents details').open") is is_open
    assert (
        browser.evaluate(
            "document.querySelector('.verdict h1, .verdict h2, main h1').getBoundingClientRect().top"
        )
        < 120
    )


def test_dark_and_light_are_distinguished(browser, page):
    browser.open(page, dark=True)
    dark = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    browser.open(page, dark=False)
    assert dark != browser.evaluate("getComputedStyle(document.body).backgroundColor")


def test_keys_walk_along_the_values_and_say_them(browser, page):
    browser.open(page)
    browser.evaluate("document.querySelector('[data-chart=generation-1]').focus()")
    browser.press("ArrowRight")
    browser.press("ArrowRight")
    spoken = browser.evaluate(
        "document.querySelector('[data-chart=generation-1]').parentElement.querySelector('output').textContent"
    )
    assert "generation 50 tokens/s" in spoken


def test_without_a_cursor_the_legend_has_the_last_values(browser, page):
    browser.open(page)
    values = browser.evaluate(
        "[...document.querySelectorAll('[data-chart=generation-1] .u-legend .u-value')].map(v => v.textContent)"
    )
    assert len(values) == 2
    assert all(value.strip() not in ("", "--", "-") for value in values)


def test_dragging_zooms_and_escape_shows_all_again(browser, page):
    ticks = (
        "JSON.stringify([...document.querySelectorAll('[data-chart=generation-1] canvas')]"
        ".map(c => c.toDataURL().length + ':' + c.toDataURL().slice(-200)))"
    )
    browser.open(page, height=4000)
    before = browser.evaluate(ticks)
    left, top, width = browser.evaluate(
        "(() => { const over = document.querySelector('[data-chart=generation-1] .u-over');"
        " const b = over.getBoundingClientRect();"
        " return [b.left, b.top + b.height / 2, b.width]; })()"
    )
    browser.drag((left + width * 0.25, top), (left + width * 0.5, top))
    browser.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    zoomed = browser.evaluate(ticks)
    assert zoomed != before
    browser.evaluate("document.querySelector('[data-chart=generation-1]').focus()")
    browser.press("Escape")
    browser.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert browser.evaluate(ticks) != zoomed


def test_a_value_without_neighbors_is_drawn_as_a_dot_and_keys_step_over_the_silence(browser, tmp_path):
    path = tmp_path / "silence.html"
    analysis = make_analysis("Qwen")
    run = analysis.runs[0].run
    first = run.samples[0]
    times = [*(10.0 * n for n in range(70)), 2000.0]
    run.samples = [
        replace(first, time=time, line=n, generation=100.0 + n) for n, time in enumerate(times, start=1)
    ]
    path.write_text(html.render(analysis), encoding="utf-8")
    browser.open(path)
    inked = browser.evaluate(
        "(() => { const c = document.querySelector('[data-chart=generation-1] canvas');"
        " const over = document.querySelector('[data-chart=generation-1] .u-over');"
        " const left = over.offsetLeft, wide = over.clientWidth;"
        " const part = (from, to) => [...c.getContext('2d').getImageData("
        "left + wide * from, over.offsetTop, wide * (to - from), over.clientHeight).data].some("
        "(v, n, all) => n % 4 === 2 && v > all[n - 2] + 80);"
        " return [part(0.1, 0.3), part(0.4, 0.95), part(0.98, 1)]; })()"
    )
    assert inked == [True, False, True]
    browser.evaluate("document.querySelector('[data-chart=generation-1]').focus()")
    for _ in range(8):
        browser.press("PageDown")
    spoken = browser.evaluate(
        "document.querySelector('[data-chart=generation-1]').parentElement.querySelector('output').textContent"
    )
    assert "generation 171 tokens/s" in spoken


def test_a_citation_leads_to_its_line(browser, page):
    browser.open(page)
    broken = browser.evaluate(
        "[...document.querySelectorAll('a[href^=\"#\"]')]"
        ".filter(a => !document.getElementById(a.hash.slice(1))).length"
    )
    assert broken == 0


def test_has_what_a_screen_reader_needs(browser, page):
    browser.open(page)
    assert browser.evaluate("document.documentElement.lang") == "en"
    assert browser.evaluate("document.querySelectorAll('h1').length") == 1
    assert browser.evaluate(
        "[...document.querySelectorAll('.chart')].every(c => c.getAttribute('aria-label').length > 40)"
    )
    assert browser.evaluate(
        "[...document.querySelectorAll('button')].every(b => b.getAttribute('aria-label'))"
    )
    unscoped = "[...document.querySelectorAll('th:not(.uplot th)')].filter(h => h.scope !== 'col').length"
    assert browser.evaluate(unscoped) == 0
    assert browser.evaluate("document.querySelectorAll('figure details table').length") == 7
    levels = browser.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map(h => Number(h.tagName[1]))")
    assert all(after - before <= 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("runs", [1, 2])
def test_hostile_log_text_is_text_and_nothing_else(browser, tmp_path, runs):
    path = tmp_path / "hostile.html"
    path.write_text(html.render(make_analysis(HOSTILE, failure=True, runs=runs)), encoding="utf-8")
    browser.open(path)
    assert browser.evaluate("window.taken") is None
    assert browser.console == []
    assert browser.requests == [path.resolve().as_uri()]
    assert (
        browser.evaluate(
            "document.querySelectorAll('img, svg, iframe, object, main script, main style').length"
        )
        == 0
    )
    assert browser.evaluate(
        "[...document.querySelectorAll('a')].every(a => a.getAttribute('href').startsWith('#'))"
    )
    assert browser.evaluate(
        "document.querySelector('main').textContent.includes('<script>window.taken=1</script>')"
    )
    assert browser.evaluate(
        "[...document.querySelectorAll('*')]"
        ".every(e => ![...e.attributes].some(a => a.name.startsWith('on')))"
    )


def test_prints(browser, page, tmp_path):
    browser.open(page, media="print")
    assert browser.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    browser.open(page)
    browser.pdf(tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
