"""A log whose name and directory act in some reader: every command names them as text and nothing else."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

import vllm_logdoctor
from tests.commands import analyse_in_forks
from tests.report.junit_schema import violations
from tests.report.test_formats import acts, tags
from tests.report.test_hostile_log import PAYLOADS, hostile_log
from tests.tables import for_each
from vllm_logdoctor import Report
from vllm_logdoctor.cli.config import markdown_text
from vllm_logdoctor.cli.follow import Feed
from vllm_logdoctor.cli.follow_view import Reported, new_lines, screen
from vllm_logdoctor.cli.start import main
from vllm_logdoctor.comparison.snapshot import snapshot_of
from vllm_logdoctor.comparison.verification import verify
from vllm_logdoctor.comparison.writers import result_of_comparison, result_of_verification
from vllm_logdoctor.hooks.engine import run_hook
from vllm_logdoctor.hooks.request import HookRequest
from vllm_logdoctor.report.reader import reader
from vllm_logdoctor.report.terminal import print_analysis
from vllm_logdoctor.report.terminal_page import print_page
from vllm_logdoctor.report.writers import FORMATS, render, render_result

NAMES = [payload.replace("/", "_").encode("utf-8", "surrogatepass")[:200].decode() for payload in PAYLOADS]


@pytest.fixture(scope="module", params=range(len(NAMES)), ids=lambda number: f"name{number}")
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of that name with two logs of that name: every citation has to name its file."""
    name = NAMES[request.param]
    made = tmp_path_factory.mktemp("hostile") / name
    made.mkdir()
    lines = hostile_log("x").splitlines(keepends=True)
    (made / f"{name}.log").write_bytes(b"".join(lines[:-2]))
    (made / f"{name}\n2.log").write_bytes(b"".join(lines[-2:]))
    return made


@pytest.fixture(scope="module")
def report(folder: Path) -> Report:
    return vllm_logdoctor.analyze(folder)


@pytest.fixture(scope="module")
def pages(report: Report) -> dict[str, list[str]]:
    """The report, a comparison and a verification in each format."""
    side = snapshot_of(report.to_dict())
    checked = verify(side, side)
    return {
        name: [
            render(report.analysis, name),
            render_result(result_of_comparison(checked.comparison), name),
            render_result(result_of_verification(checked), name),
        ]
        for name in FORMATS
    }


@for_each("name", ["markdown", "text", "html", "csv", "github", "junit"])
def test_nothing_acts_in_a_format_for_people(pages: dict[str, list[str]], name: str) -> None:
    assert [acts(page) for page in pages[name]] == [[], [], []]


def test_markdown_and_html_hold_no_markup_of_it(pages: dict[str, list[str]]) -> None:
    for page in pages["markdown"]:
        rendered = reader().render(page).lower()
        assert not [part for part in ("<script", "<img", "<a ", "<style") if part in rendered]
    for page in pages["html"]:
        assert not [tag for tag in tags(page) if ".on" in tag or tag.endswith(".src") or "href=" in tag]
        assert page.count("<script") - page.split("<main")[1].split("</main>")[0].count("<script") == 3


def test_machines_read_what_they_expect(pages: dict[str, list[str]]) -> None:
    for page in (*pages["json"], *pages["sarif"]):
        json.loads(page)
    for page in pages["junit"]:
        assert violations(ElementTree.fromstring(page.encode())) == []
    for line in (line for page in pages["github"] for line in page.splitlines()):
        assert line.split(" ", 1)[0] in ("::error", "::warning", "::notice")
    cells = [cell for page in pages["csv"] for row in csv.reader(io.StringIO(page)) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]


def test_addresses_in_sarif_are_addresses(pages: dict[str, list[str]]) -> None:
    for page in pages["sarif"]:
        places = [
            place["physicalLocation"]["artifactLocation"]["uri"]
            for result in json.loads(page)["runs"][0]["results"]
            for place in result["locations"]
        ]
        assert all(place.isascii() and not set(place) & set(" <>\"'`\n") for place in places)


def test_screens_show_it_as_text(report: Report, pages: dict[str, list[str]]) -> None:
    out = io.StringIO()
    console = Console(file=out, width=100, color_system=None)
    print_analysis(report.analysis, console)
    for page in pages["markdown"]:
        print_page(page, console)
    assert acts(out.getvalue()) == []


def test_notebooks_show_it_as_text(report: Report) -> None:
    shown = [report, report.runs[0]]
    assert [acts(one._repr_html_()) for one in shown] == [[], []]
    assert [acts(one._repr_markdown_()) for one in shown] == [[], []]
    assert not [tag for one in shown for tag in tags(one._repr_html_()) if tag.startswith(("script", "img"))]


def test_the_configuration_names_it_as_text(report: Report) -> None:
    assert acts(markdown_text(report.analysis, report.analysis.runs[0])) == []


def test_follow_names_it_as_text(folder: Path) -> None:
    from vllm_logdoctor.pipeline import Analyser, Options

    feed = Feed(Analyser(Options()), str(folder / "vllm.log"))
    lines = hostile_log("x").splitlines(keepends=True)
    feed.take(0, 1, b"".join(lines[:12]))
    feed.take(1, 1, b"".join(lines[12:]))
    printed = [*new_lines(feed.analysis(), Reported()), *screen(feed.analysis(), 100)]
    assert acts("".join(printed)) == []
    assert not [line for line in printed if "\n" in line]


def test_a_hook_names_it_in_three_lines(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    analyse_in_forks(monkeypatch)
    log = next(path for path in sorted(folder.iterdir()) if "\n" in path.name)
    lines = run_hook(HookRequest(logs=(log,)), {})
    assert acts("".join(lines)) == []
    assert not [line for line in lines if "\n" in line]


@pytest.mark.parametrize(
    "arguments",
    [
        lambda name: ["analyze", name],
        lambda name: ["compare", name, name],
        lambda name: ["follow", name],
        lambda name: ["whatif", name, "--set", "kv_cache_dtype=fp8"],
        lambda name: ["analyze", "-f", name, "vllm.log"],
    ],
    ids=["analyze", "compare", "follow", "whatif", "format"],
)
def test_an_error_names_it_in_one_line(
    arguments: Callable[[str], list[str]],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = str(folder / "absent\n" / folder.name)
    monkeypatch.setattr("sys.argv", ["logdoctor", *arguments(name)])
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr().err
    assert acts(said) == []
    assert said.count("\n") == 1
