"""The page and the answers of SQL as text: what a cell looks like, which rows are left out, and what the script of the page is given."""

from __future__ import annotations

import csv
import json
import re
from typing import Any

import pyarrow as pa
import pytest

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.fleet.jobreport import JobReport, RunReport
from vllm_logdoctor.fleet.picture import Picture
from vllm_logdoctor.fleet.sections import Cell, Section, SectionRow
from vllm_logdoctor.fleet.writers import rendered, table_text

COLUMNS = ("cause", "jobs", "card hours")


def report(path: str, *figures: tuple[str, float]) -> JobReport:
    run = RunReport("vLLM 0.11.2", "killed", "", list(figures), [("engine-dead", "high", 7)], [])
    return JobReport([(path, "ok", None)], "2026-03-04 10:00", 1.5, 2, "log", None, None, [run])


def section(*rows: tuple[Cell, ...], first: tuple[str, ...] = (), total: int = 0) -> Section:
    lines = [SectionRow(row, ("job a", "job b")[: number + 1]) for number, row in enumerate(rows)]
    return Section("broke", "What broke", "", COLUMNS, lines, first, total or len(rows))


def picture(*sections: Section) -> Picture:
    reports = {"job b": report("/logs/b.log", ("length, s", 1.5)), "job a": report("/logs/a.log")}
    return Picture("2 logs", "3.0 card hours", list(sections), reports, {"engine-dead": "The engine <died>"})


def part(page: str, begin: str, end: str = "</section>") -> str:
    return page.split(begin, 1)[1].split(end, 1)[0]


def data_of(page: str) -> dict[str, Any]:
    """Return what the script of a page is given."""
    found: dict[str, Any] = json.loads(part(page, 'id="data">', "</script>"))
    return found


@pytest.mark.parametrize(
    ("name", "begin"), [("-", "# Fleet"), ("x.md", "# Fleet"), ("a.b.HTML", "<!DOCTYPE"), ("x.json", "{")]
)
def test_the_format_is_that_of_the_ending_and_markdown_on_standard_output(name: str, begin: str) -> None:
    assert rendered(picture(), name).startswith(begin)


def test_another_ending_is_refused() -> None:
    with pytest.raises(LogdoctorError) as refused:
        rendered(picture(), "x.txt")
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (1234, "1,234"), (True, "True"), (None, ""), ("a|b", r"a\|b"), (99.94, "99.9"), (100.0, "100"), (1234.5, "1,234"),
        (0.00123, "0.00123"), (0, "0"), (0.0, "0"),
    ],
)  # fmt: skip
def test_a_cell_has_the_digits_that_a_person_reads(cell: Cell, text: str) -> None:
    row = rendered(picture(section((cell, 1, 1))), "x.md").splitlines()[-1]
    assert re.split(r"(?<!\\)\|", row)[1].strip() == text


def test_a_section_without_rows_says_so() -> None:
    found = rendered(picture(section()), "x.md")
    assert "## What broke\n\nNone." in found
    assert "| cause" not in found
    assert "| cause" in rendered(picture(section(("x", 1, 1.0))), "x.md")


def test_the_document_has_the_figures_themselves_with_their_jobs() -> None:
    found = json.loads(rendered(picture(section(("engine-dead", 1234, None))), "x.json"))
    assert found["sections"][0]["rows"] == [{"cells": ["engine-dead", 1234, None], "jobs": ["job a"]}]
    assert found["jobs"]["job b"]["runs"][0]["figures"] == [["length, s", 1.5]]
    assert found["jobs"]["job b"]["hours"] == 1.5


def test_a_number_of_the_page_is_a_link_to_its_row_and_a_text_is_none() -> None:
    page = rendered(picture(section(("engine-dead", 2, 1.5), ("other", 1, None))), "x.html")
    rows = re.findall("<tr><td.*?</tr>", part(page, '<section id="broke">'))
    assert [re.findall('href="(.*?)"', row) for row in rows] == [["#broke/0", "#broke/0"], ["#broke/1"]]
    assert ">engine-dead" in rows[0]


def test_the_rule_of_a_row_has_its_title_and_no_other_cell_has_one() -> None:
    page = rendered(picture(section(("engine-dead", "engine-dead", 1))), "x.html")
    assert page.count("The engine &lt;died&gt;</span>") == 1
    assert "dim" not in part(rendered(picture(section(("x", 1, 1))), "x.html"), "<tbody>")


def test_short_texts_of_the_page_are_not_broken() -> None:
    page = rendered(picture(section(("a" * 12, 1, 1), ("a" * 13, 1, 1))), "x.html")
    assert re.findall(r"<tr><td( class=s)?>a", part(page, '<section id="broke">')) == [" class=s", ""]


@pytest.mark.parametrize(
    ("rows", "total", "tile", "note"),
    [(7, 7, "all 7", ""), (7, 1007, "first 7 of 1,007", "The first 7 of 1,007."), (0, 0, "", "")],
)
def test_rows_that_are_left_out_are_counted(rows: int, total: int, tile: str, note: str) -> None:
    lines = [(f"cause {number}", 1, 1.0) for number in range(rows)]
    page = rendered(picture(section(*lines, first=("cause", "jobs"), total=total)), "x.html")
    first = part(page, "<div class=tiles><section>")
    assert re.findall('href="#broke">(.*?)</a>', first) == ([tile] if tile else [])
    assert first.count("<tr><td") == min(rows, 5)
    assert re.findall("<th>(.*?)</th>", first) == (["cause", "jobs"] if rows else [])
    whole = part(page, '<section id="broke">')
    assert (whole.count("<tr><td"), re.findall("<p class=note>(The first.*?)</p>", whole)) == (
        rows,
        [note] * bool(note),
    )


def test_the_script_of_the_page_finds_the_jobs_of_a_row_and_the_words_of_a_report() -> None:
    """Texts are numbered from -1 downwards, a figure is a list of one."""
    data = data_of(rendered(picture(section(("engine-dead", 1234, 1), ("other", 1, 1))), "x.html"))
    assert [[words, [data["keys"][job] for job in jobs]] for words, jobs in data["lists"]["broke"]] == [
        ["engine-dead", ["job a"]], ["other", ["job a", "job b"]],
    ]  # fmt: skip
    texts, *packed = data["jobs"]

    def unpacked(value: Any) -> Any:
        if isinstance(value, int):
            return texts[-1 - value]
        if value is None:
            return None
        if len(value) == 1 and isinstance(value[0], int | float) and value[0] >= 0:
            return value[0]
        return [unpacked(one) for one in value]

    reports = dict(zip(data["keys"], packed, strict=True))
    logs, date, hours, cards, source, user, state, runs = (unpacked(one) for one in reports["job b"])
    assert (logs, date, hours, cards, source) == (
        [["/logs/b.log", "ok", None]],
        "2026-03-04 10:00",
        1.5,
        2,
        "log",
    )
    assert (user, state) == (None, None)
    assert runs[0][0] == "vLLM 0.11.2"
    assert runs[0][3] == [["length, s", 1.5]]
    assert runs[0][4] == [["engine-dead", "high", 7]]
    assert len(texts) == len(set(texts))


def test_nothing_of_a_log_ends_the_data_of_the_page() -> None:
    hostile = "</script><b>\u2028\u2029"
    page = rendered(picture(section((hostile, 1, 1))), "x.html")
    assert data_of(page)["lists"]["broke"][0][0] == hostile
    assert page.count("</script>") == 2


ROWS = pa.table({"name": ["a", "b\nc" + "x" * 80, None], "n": [1234, 5, None], "share": [0.5, 123.456, None]})


def test_an_answer_in_columns_is_aligned_and_no_cell_is_wider_than_sixty() -> None:
    head, rule, first, second, last = table_text(ROWS, "text").splitlines()
    assert head.split() == ["name", "n", "share"]
    assert [len(dashes) for dashes in rule.split("  ")] == [60, 5, 5]
    assert first.split() == ["a", "1,234", "0.5"]
    assert (first.index("1,234"), second.index("5 "), head.index("n  ")) == (62, 62, 62)
    assert second.endswith("123")
    assert last == ""


def test_answers_for_programs_have_the_values_themselves() -> None:
    assert json.loads(table_text(ROWS, "json"))[0] == {"name": "a", "n": 1234, "share": 0.5}
    names, *rows = csv.reader(table_text(ROWS, "csv").splitlines(keepends=True))
    assert names == ["name", "n", "share"]
    assert (rows[0], rows[1][0][:3], rows[2]) == (["a", "1234", "0.5"], "b\nc", ["", "", ""])
