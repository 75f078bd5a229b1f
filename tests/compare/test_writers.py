"""A comparison and a verification in every format: what fails a build, and log text that is only text."""

from __future__ import annotations

import csv
import io
import json
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from compare_samples import finding, planned, samples, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

from tests.report.junit_schema import violations
from tests.report.test_formats import acts
from tests.report.test_markdown import hostile_text
from vllm_logdoctor.cli.app import app
from vllm_logdoctor.comparison import markdown, verification_markdown
from vllm_logdoctor.comparison.comparison import compare
from vllm_logdoctor.comparison.json import comparison_document
from vllm_logdoctor.comparison.verification import Verification, verify
from vllm_logdoctor.comparison.writers import result_of_comparison, result_of_verification
from vllm_logdoctor.plan.model import Plan
from vllm_logdoctor.report.terminal_page import print_page
from vllm_logdoctor.report.webpage import policy
from vllm_logdoctor.report.writers import FORMATS, render_result
from vllm_logdoctor.rules.model import Effect

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"


def checked(text: str = "a") -> Verification:
    """A verification in which every free text is `text`: one change made, one not; the cache shrank."""
    effect = Effect("kv_cache_tokens", 1.2, 1.4, "computed", text)
    plan = Plan(
        (planned("--max-num-seqs", 1, 32, "a"), planned("--kv-cache-dtype", "auto", f"fp8{text}", "b"))
    )
    before = snapshot(
        {"max_num_seqs": 1, "kv_cache_dtype": "auto", "served_model_name": text},
        {"kv_cache_tokens": 1000},
        [*samples(4, 100, 30), *samples(16, 300, 30)],
        (finding("one-sequence", "--max-num-seqs", effect), finding("stays")),
        plan=plan,
    )
    after = snapshot(
        {"max_num_seqs": 32, "kv_cache_dtype": "auto", "served_model_name": f"x{text}"},
        {"kv_cache_tokens": 800},
        [*samples(4, 50, 30), *samples(16, 150, 30)],
        (finding(f"worse{text}"), finding("stays")),
    )
    return verify(before, after)


def rendered(result: Verification, format_name: str) -> list[str]:
    return [
        render_result(result_of_comparison(result.comparison), format_name),
        render_result(result_of_verification(result), format_name),
    ]


def test_junit_fails_on_what_is_new_or_worse_and_on_what_was_not_done() -> None:
    comparison, verification = (ElementTree.fromstring(text) for text in rendered(checked(), "junit"))
    assert failed(comparison) == ["worsea", "speed-at-equal-load", "kv_cache_tokens"]
    assert failed(verification) == ["--kv-cache-dtype", "one-sequence"]
    for root in (comparison, verification):
        cases = root.findall("testsuite/testcase")
        assert int(root.get("tests", "")) == len(cases)
        assert int(root.get("failures", "")) == len(root.findall("testsuite/testcase/failure"))
        for suite in root.findall("testsuite"):
            assert int(suite.get("skipped", "")) == len(suite.findall("testcase/skipped"))


def failed(root: ElementTree.Element) -> list[str]:
    cases = root.findall("testsuite/testcase")
    return [case.get("name", "") for case in cases if case.find("failure") is not None]


def test_annotations_are_the_checks_that_failed() -> None:
    comparison, verification = rendered(checked(), "github")
    assert [line.split("title=")[1].split("::")[0] for line in comparison.splitlines()] == [
        "finding%3A worsea",
        "speed%3A speed-at-equal-load",
        "figure%3A kv_cache_tokens",
    ]
    assert len(verification.splitlines()) == 2


def test_sarif_says_which_finding_is_new_and_which_is_gone() -> None:
    log = json.loads(render_result(result_of_comparison(checked().comparison), "sarif"))
    states = {one["ruleId"]: one.get("baselineState") for one in log["runs"][0]["results"]}
    assert states["one-sequence"] == "absent"
    assert states["worsea"] == "new"
    assert states["stays"] == "unchanged"
    assert states["figure/kv_cache_tokens"] is None


def test_json_has_the_note_of_a_figure_or_null() -> None:
    noted, plain = (compare(snapshot(startup=120), snapshot(startup=end)) for end in (50, 120))
    notes = [comparison_document(one)["figures"][0]["note"] for one in (noted, plain)]
    assert "warm cache" in notes[0]
    assert notes[1] is None


def test_a_spreadsheet_has_a_row_for_each_check() -> None:
    rows = list(csv.DictReader(io.StringIO(render_result(result_of_comparison(checked().comparison), "csv"))))
    cache = next(row for row in rows if row["name"] == "kv_cache_tokens")
    assert (cache["verdict"], cache["before"], cache["after"], cache["ratio"]) == (
        "failed",
        "1,000 tokens",
        "800 tokens",
        "0.8",
    )


def test_a_prediction_has_what_was_wanted_what_came_and_their_ratio() -> None:
    rows = list(csv.DictReader(io.StringIO(render_result(result_of_verification(checked()), "csv"))))
    came = next(row for row in rows if row["group"] == "prediction")
    assert (came["verdict"], came["before"], came["after"], came["ratio"]) == (
        "failed",
        "KV cache tokens × 1.2 to 1.4",
        "× 0.8",
        "0.8",
    )


def test_html_draws_the_speed_at_equal_load() -> None:
    page = render_result(result_of_comparison(checked().comparison), "html")
    data = json.loads(page.split('id="chart-data">')[1].split("</script>")[0])
    assert data["levels"]["data"] == [[4.0, 16.0], [100.0, 300.0], [50.0, 150.0]]
    assert policy() in page


@pytest.mark.parametrize("format_name", FORMATS)
@settings(max_examples=25, deadline=None)
@given(text=hostile_text)
def test_log_text_acts_in_no_format(format_name: str, text: str) -> None:
    for page in rendered(checked(text), format_name):
        shown = json.dumps(json.loads(page)) if format_name in ("json", "sarif") else page
        assert acts(shown) == []
        if format_name == "html":
            assert tags(page) <= tags(render_result(result_of_comparison(checked().comparison), "html"))
        if format_name == "junit":
            assert violations(ElementTree.fromstring(page.encode())) == []
        if format_name == "csv":
            cells = [cell for row in csv.reader(io.StringIO(page)) for cell in row]
            assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]


def tags(page: str) -> set[str]:
    found: set[str] = set()

    class Collector(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.update([tag, *(f"{tag}.{name}" for name, _ in attrs)])

    Collector().feed(page)
    return found


@settings(max_examples=25, deadline=None)
@given(text=hostile_text, width=st.integers(40, 120))
def test_the_terminal_shows_log_text_as_text_in_its_width(text: str, width: int) -> None:
    result = checked(text)
    for page in (markdown.render(result.comparison), verification_markdown.render(result)):
        out = io.StringIO()
        print_page(page, Console(file=out, width=width, color_system=None))
        assert acts(out.getvalue()) == []


def test_the_terminal_shows_brackets_as_they_are() -> None:
    out = io.StringIO()
    page = markdown.render(checked("[bold]b[/bold] :smile:").comparison)
    print_page(page, Console(file=out, width=200, color_system=None))
    assert "[bold]b[/bold] :smile:" in out.getvalue()


def test_plain_text_keeps_what_moved_below_its_change() -> None:
    lines = render_result(result_of_comparison(checked().comparison), "text").splitlines()
    change = next(number for number, line in enumerate(lines) if line.startswith("- max_num_seqs"))
    assert lines[change + 1].startswith("  - ")


@pytest.mark.parametrize("command", ["compare", "verify"])
def test_the_ending_of_the_file_tells_the_format_and_several_can_be_asked_for(
    command: str, tmp_path: Path
) -> None:
    before = str(FIXTURES / "vllm-0.11.2-kv-starved.log")
    after = str(FIXTURES / "vllm-0.11.2-prefix-cache.log")
    sides = [before, after] if command == "compare" else [after, "--against", before]
    html, junit = tmp_path / "page.html", tmp_path / "checks.xml"
    result = CliRunner().invoke(app, [command, *sides, "-o", str(html), "-o", str(junit)])
    assert result.exit_code == 0, result.output
    assert html.read_text("utf-8").startswith("<!DOCTYPE html>")
    assert ElementTree.parse(junit).getroot().tag == "testsuites"


def test_an_unknown_format_is_refused_in_one_line() -> None:
    log = str(FIXTURES / "vllm-0.11.2-kv-starved.log")
    result = CliRunner().invoke(app, ["compare", log, log, "--format", "pdf"])
    assert "choose one of markdown, json, text, html" in str(result.exception)
