"""The page: static, self-contained, every number opens its jobs, every job its report; nothing of a log acts in it."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pytest

from tests.browser.chromium import Chromium, chromium_path
from tests.fleet.conftest import STARVED
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.fleet.changes import expected_effect
from vllm_logdoctor.fleet.facts import jobs_of
from vllm_logdoctor.fleet.library import Fleet
from vllm_logdoctor.fleet.schema import arrow_schema
from vllm_logdoctor.fleet.sections import hours_of
from vllm_logdoctor.fleet.writers import rendered

needs_chromium = pytest.mark.skipif(chromium_path() is None, reason="no Chromium on this host")


def test_the_first_line_counts_every_log_by_its_status(fleet: Fleet) -> None:
    assert fleet.picture().headline == "7 logs, 7 jobs, 4 runs, 1 partial, 1 empty, 1 not-vllm, 1 other-tool"


def test_hours_say_where_they_are_from(fleet: Fleet) -> None:
    assert "0 % from accounting" in fleet.picture().hours


def test_hours_of_accounting_alone_are_no_lower_bound(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("job,elapsed\n101,3600\n202,3600\n303,3600\n")
    fleet.add_accounting(tmp_path / "jobs.csv")
    jobs = [job for job in jobs_of(fleet.store) if job.hours is not None]
    others = [job.logs[0]["path"] for job in jobs if job.hours_from != "accounting"]
    fleet.forget(others)
    assert "all from accounting; " in fleet.picture().hours


def test_the_hours_of_a_row_are_the_sums_of_its_jobs(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("job,elapsed\n101,3600\n202,7200\n303,3600\n")
    fleet.add_accounting(tmp_path / "jobs.csv")
    jobs = jobs_of(fleet.store)
    known = [job.hours for job in jobs if job.hours is not None]
    assert len(known) > 1
    cards, hours, unknown = hours_of(jobs)
    assert hours == sum(known)
    assert cards == sum(job.card_hours for job in jobs if job.card_hours is not None)
    assert unknown == len(jobs) - len(known)
    assert hours_of([]) == (None, None, 0)


def test_a_change_with_several_metrics_shows_the_two_of_most_jobs() -> None:
    ranges = [("generation_throughput", 1.1, 1.3), ("latency", 0.8, 0.9), ("start_up", 0.5, 0.6)]
    rows = [
        {"metric": metric, "low": low, "high": high, "origin": "published"}
        for position, (metric, low, high) in enumerate(ranges)
        for _ in range(3 - position)
    ]
    assert (
        expected_effect(rows)
        == "generation throughput x 1.1 to 1.3 (published, n=3); latency x 0.8 to 0.9 (published, n=2)"
    )


def test_the_actions_of_a_rule_are_one_row(fleet: Fleet) -> None:
    rows = fleet.table("changes").to_pylist()
    store = fleet.store
    twice = [{**row, "after": f"#{row['after']}"} for row in rows if row["kind"] == "action"]
    assert twice
    part = rows[0]["part"]
    store.write_table("changes", part, pa.Table.from_pylist([*rows, *twice], arrow_schema("changes")))
    section = next(one for one in fleet.picture().sections if one.id == "changes")
    names = [line.cells[0] for line in section.lines]
    assert len(names) == len(set(names))


def test_every_job_of_a_number_has_a_report(fleet: Fleet) -> None:
    picture = fleet.picture()
    named = {job for section in picture.sections for line in section.lines for job in line.jobs}
    assert named
    assert named <= set(picture.reports)


def test_a_flag_that_is_set_is_shown_without_a_value(fleet: Fleet) -> None:
    rows = fleet.table("changes").to_pylist()
    given = [{**row, "knob": "--trust-remote-code", "kind": "flag", "after": "True"} for row in rows]
    part = fleet.store.parts("changes")[0]
    fleet.store.write_table("changes", part, pa.Table.from_pylist(given, arrow_schema("changes")))
    section = next(one for one in fleet.picture().sections if one.id == "changes")
    assert {str(line.cells[0]) for line in section.lines} == {"--trust-remote-code"}


def test_the_formats_hold_the_same_sections(fleet: Fleet) -> None:
    picture = fleet.picture()
    titles = [section.title for section in picture.sections]
    assert [one["title"] for one in json.loads(rendered(picture, "x.json"))["sections"]] == titles
    assert re.findall(r"^## (.*)$", rendered(picture, "x.md"), re.MULTILINE) == titles
    assert all(title in rendered(picture, "x.html") for title in titles)
    with pytest.raises(LogdoctorError, match=r"\.html, \.md or \.json"):
        rendered(picture, "x.pdf")


def test_the_page_asks_nothing_of_the_network_and_runs_its_own_script_only(fleet: Fleet) -> None:
    page = fleet.to_html()
    assert "default-src 'none'" in page
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", page)


def test_a_hash_in_place_of_a_text_is_not_shown(fleet: Fleet) -> None:
    hashed = re.compile(r"text:[0-9a-f]{8}")
    assert any(hashed.match(row["after"] or "") for row in fleet.table("changes").to_pylist())
    assert hashed.search(fleet.to_html()) is None


def test_names_of_files_are_text(tmp_path: Path) -> None:
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    folder.mkdir()
    shutil.copy(STARVED, folder / "a.log")
    fleet = Fleet(tmp_path / "store")
    fleet.add([folder], jobs=1)
    page = fleet.to_html()
    assert "<img" not in page
    assert "\\u003cimg" in page


def test_since_leaves_out_what_began_before(fleet: Fleet) -> None:
    from datetime import datetime

    assert fleet.picture(datetime(2999, 1, 1)).headline == "0 logs, 0 jobs, 0 runs"


def test_an_empty_store_has_a_page(tmp_path: Path) -> None:
    assert "0 logs" in Fleet(tmp_path / "nothing").to_html()


def test_the_first_screen_has_columns_of_its_sections(fleet: Fleet) -> None:
    first = {section.id: section for section in fleet.picture().sections if section.first}
    assert list(first) == ["broke", "changes", "starts", "outliers"]
    assert all(set(section.first) < set(section.columns) for section in first.values())


@needs_chromium
def test_the_first_screen_is_one_screen_and_wide_tables_scroll_in_their_boxes(
    fleet: Fleet, tmp_path: Path
) -> None:
    page = tmp_path / "fleet.html"
    page.write_text(fleet.to_html(), "utf-8")
    with Chromium(str(chromium_path()), tmp_path / "profile") as browser:
        browser.open(page, 1280, 900)
        assert browser.evaluate("document.querySelector('.tiles').getBoundingClientRect().bottom") < 900
        browser.open(page, 390, 844)
        assert browser.evaluate("document.documentElement.scrollWidth") == 390
        outside = (
            "[...document.querySelectorAll('table')].filter(t => !t.parentElement.matches('.box')).length"
        )
        assert browser.evaluate(outside) == 0


@needs_chromium
def test_a_number_opens_its_jobs_and_a_job_its_report(fleet: Fleet, tmp_path: Path) -> None:
    page = tmp_path / "fleet.html"
    page.write_text(fleet.to_html(), "utf-8")
    with Chromium(str(chromium_path()), tmp_path / "profile") as browser:
        began = time.monotonic()
        browser.open(page)
        assert time.monotonic() - began < 30
        browser.evaluate("document.querySelector('#statuses td.n a').click()")
        assert (
            browser.evaluate(
                "new Promise(r => setTimeout(() => r(document.querySelector('#drill h2').textContent), 100))"
            )
            == "ok: 3 jobs"
        )
        browser.evaluate("document.querySelector('#drill td a').click()")
        assert "Run 1" in browser.evaluate(
            "new Promise(r => setTimeout(() => r(document.querySelector('#drill').textContent), 100))"
        )
        assert browser.console == []
        assert browser.requests == [page.as_uri()]


@needs_chromium
def test_words_and_numbers_of_a_list_are_not_broken(fleet: Fleet, tmp_path: Path) -> None:
    page = tmp_path / "fleet.html"
    page.write_text(fleet.to_html(), "utf-8")
    broken = """
        const lines = td => { const text = document.createRange(); text.selectNodeContents(td); return text.getClientRects().length; };
        [...document.querySelectorAll("#drill td:nth-child(n+3):not(:last-child)")].filter(td => !/[\\s-]/.test(td.textContent) && lines(td) > 1).length
    """
    with Chromium(str(chromium_path()), tmp_path / "profile") as browser:
        browser.open(page, 910, 900)
        browser.evaluate("location.hash = 'all'")
        browser.evaluate("new Promise(r => setTimeout(r, 100))")
        assert browser.evaluate("document.querySelectorAll('#drill td').length") > 8
        assert browser.evaluate(broken) == 0
