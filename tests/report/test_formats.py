"""Every other format shows log text as text and nothing else."""

from __future__ import annotations

import csv as csv_reader
import io
import json
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.console import Console

from tests.report.junit_schema import violations
from tests.report.synthetic import make_analysis
from tests.report.test_markdown import hostile_text
from vllm_logdoctor import analyze
from vllm_logdoctor.report import csv, github, html, junit, sarif, terminal, text
from vllm_logdoctor.report.csv import cell
from vllm_logdoctor.report.webpage import policy

quick = settings(max_examples=60, deadline=None)


def acts(rendered: str) -> list[str]:
    """Characters that a terminal or a bidirectional renderer would act upon."""
    return [
        c
        for c in rendered
        if (ord(c) < 32 and c not in "\r\n") or 0x7F <= ord(c) < 0xA0 or c in "\u202e\u2066\u2028\u2029"
    ]


@quick
@given(text_of_log=hostile_text, failure=st.booleans())
def test_plain_text_holds_nothing_that_acts(text_of_log, failure):
    assert acts(text.render(make_analysis(text_of_log, failure=failure))) == []


def test_plain_text_keeps_to_its_width(analysis_of):
    rendered = text.render(analysis_of("word " * 40, failure=True), width=80)
    assert max(len(line) for line in rendered.split("\n") if not line.startswith("    ")) <= 80


@quick
@given(text_of_log=hostile_text)
def test_terminal_view_knows_no_markup_in_log_text(text_of_log):
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=False, color_system=None)
    terminal.print_analysis(make_analysis(text_of_log, failure=True), console)
    assert acts(out.getvalue()) == []


@pytest.mark.parametrize("literal", ["[bold]x[/bold]", "[/tmp/x]", "[link=file:///etc/passwd]a", ":smile:"])
def test_terminal_view_shows_brackets_as_they_are(literal):
    out = io.StringIO()
    terminal.print_analysis(
        make_analysis(literal, failure=True), Console(file=out, width=200, color_system=None)
    )
    assert f"out of memory {literal}" in out.getvalue()


def test_terminal_view_has_verdict_findings_timeline_and_curves(analysis_of):
    out = io.StringIO()
    terminal.print_analysis(analysis_of(failure=True), Console(file=out, width=100, color_system=None))
    shown = out.getvalue()
    order = ["FAILED while serving: out of memory", "vLLM 0.18.1", "Because Qwen", "one seat Qwen"]
    assert [part for part in order if part not in shown] == []
    places = [shown.index(part) for part in order]
    assert places == sorted(places)


def test_terminal_view_has_no_colour_where_none_is_wanted(analysis, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    out = io.StringIO()
    terminal.print_analysis(analysis, Console(file=out, force_terminal=True, width=80))
    assert "\x1b[3" not in out.getvalue()


@quick
@given(text_of_log=hostile_text, runs=st.integers(1, 2))
def test_junit_is_well_formed_and_counts_right(text_of_log, runs):
    root = ElementTree.fromstring(junit.render(make_analysis(text_of_log, failure=True, runs=runs)).encode())
    suites = root.findall("testsuite")
    cases = root.findall("testsuite/testcase")
    assert root.tag == "testsuites"
    assert len(suites) == runs
    assert int(root.get("tests", "")) == len(cases) == 3 * runs
    assert int(root.get("failures", "")) == len(root.findall("testsuite/testcase/failure")) == 3 * runs
    assert violations(root) == []


def test_the_form_of_junit_files_refuses_what_jenkins_refuses():
    suites = '<testsuites skipped="1"><testsuite name="a" tests="0" failures="0" errors="0">x</testsuite></testsuites>'
    assert violations(ElementTree.fromstring(suites)) == [
        "testsuites may not carry skipped",
        "testsuite may hold no words",
    ]
    assert violations(ElementTree.fromstring("<testsuite><failure/></testsuite>")) == [
        *(f"testsuite lacks {name}" for name in ("errors", "failures", "name", "tests")),
        "failure is not allowed in testsuite",
    ]


def test_junit_of_a_run_without_findings_passes(analysis_of):
    analysis = analysis_of()
    analysis = replace(analysis, runs=(replace(analysis.runs[0], findings=()),))
    root = ElementTree.fromstring(junit.render(analysis).encode())
    assert (root.get("tests"), root.get("failures")) == ("1", "0")


@quick
@given(text_of_log=hostile_text)
def test_each_annotation_is_one_line_and_one_command(text_of_log):
    lines = github.render(make_analysis(text_of_log, failure=True)).split("\n")
    assert lines.pop() == ""
    assert len(lines) == 3
    for line in lines:
        command, properties = line.split(" ", 1)
        assert command in ("::error", "::warning", "::notice")
        names = [part.split("=")[0] for part in properties.split("::")[0].split(",")]
        assert names == ["file", "line", "title"]


@quick
@given(text_of_log=hostile_text)
def test_no_cell_of_the_table_is_a_formula(text_of_log):
    rows = list(csv_reader.reader(io.StringIO(csv.render(make_analysis(text_of_log, failure=True)))))
    assert rows[0] == list(csv.COLUMNS)
    assert len(rows) == 4
    for row in rows[1:]:
        assert len(row) == len(csv.COLUMNS)
        for value in row:
            assert not value.startswith(("=", "+", "-", "@", "\t", "\r"))


@given(value=st.text())
def test_a_cell_never_begins_a_formula(value):
    assert not cell(value).startswith(("=", "+", "-", "@", "\t", "\r", "\n"))


RESULT = {
    "ruleId",
    "ruleIndex",
    "level",
    "message",
    "locations",
    "relatedLocations",
    "partialFingerprints",
    "properties",
}


@quick
@given(text_of_log=hostile_text, runs=st.integers(1, 2))
def test_sarif_has_the_shape_of_its_standard(text_of_log, runs):
    log = json.loads(sarif.render(make_analysis(text_of_log, failure=True, runs=runs)))
    assert set(log) == {"$schema", "version", "runs"}
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for result in run["results"]:
        assert set(result) == RESULT
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("none", "note", "warning", "error")
        assert "](" not in result["message"]["text"]
        for location in (*result["locations"], *result["relatedLocations"]):
            place = location["physicalLocation"]
            assert place["region"]["startLine"] >= 1
            assert place["artifactLocation"]["uri"].isascii()
            assert " " not in place["artifactLocation"]["uri"]
        assert all(related["id"] >= 1 for related in result["relatedLocations"])


@quick
@given(text_of_log=hostile_text)
def test_html_holds_no_element_and_no_attribute_of_the_log(text_of_log):
    plain = html.render(make_analysis("Qwen", failure=True))
    page = html.render(make_analysis(text_of_log, failure=True))
    assert tags(page) <= tags(plain)
    assert acts(page) == []


def tags(page: str) -> set[str]:
    from html.parser import HTMLParser

    found: set[str] = set()

    class Collector(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.add(tag)
            found.update(f"{tag}.{name}" for name, _ in attrs)
            found.update(
                f"{tag}.{name}={value}"
                for name, value in attrs
                if name in ("href", "src") and value and value[0] != "#"
            )

    Collector().feed(page)
    return found


def test_html_forbids_all_that_is_not_its_own(analysis):
    page = html.render(analysis)
    assert "default-src 'none'" in page
    assert "unsafe" not in policy()
    assert "http://" not in page.replace("https://github.com/leeoniya/uPlot", "")


@pytest.mark.parametrize("log", ["vllm-0.32.0-two-runs-one-log.log", "vllm-0.11.2-kv-starved.log"])
def test_the_short_view_fits_forty_lines_of_eighty_columns(log):
    out = io.StringIO()
    console = Console(file=out, width=80, color_system=None, highlight=False, markup=False, emoji=False)
    terminal.print_analysis(analyze(f"fixtures/{log}").analysis, console)
    assert out.getvalue().count("\n") <= 40


@pytest.mark.parametrize("width", [80, 140])
def test_the_overview_of_many_runs_shows_each_state_in_one_piece(analysis_of, width):
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, highlight=False, markup=False, emoji=False)
    terminal.print_analysis(analysis_of(runs=12), console)
    shown = out.getvalue()
    assert shown.count("\n") <= 40
    assert re.search(r"^1 +LIMITED: one seat Qwen  vLLM", shown, re.MULTILINE)


def test_the_view_of_a_long_first_screen_leaves_findings_out_and_counts_them(analysis_of):
    analysis = analysis_of()
    (run,) = analysis.runs
    others = tuple(replace(run.findings[0], id=f"rule-{n}", changes=(), severity="low") for n in range(9))
    full = replace(analysis, runs=(replace(run, findings=(*run.findings, *others)),))
    out = io.StringIO()
    terminal.print_analysis(full, Console(file=out, width=60, color_system=None))
    assert out.getvalue().count("\n") <= 40
    assert re.search(r"\d more findings in the report", out.getvalue())
