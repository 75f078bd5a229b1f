"""The view on a terminal: what is beside each other, which run is shown, and how much fits."""

from __future__ import annotations

import io

from msgspec.structs import replace
from rich.console import Console

from tests.report.synthetic import make_analysis
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.report.terminal import print_analysis


def lines_of(analysis: Analysis, width: int = 100) -> list[str]:
    out = io.StringIO()
    print_analysis(analysis, Console(file=out, width=width, color_system=None))
    return out.getvalue().splitlines()


def test_figures_stand_in_two_columns_where_there_is_room() -> None:
    narrow, wide = (lines_of(make_analysis(), width) for width in (109, 110))
    assert len(wide) < len(narrow)


def test_the_view_fits_a_screen_however_many_runs_there_are() -> None:
    for runs in (1, 2, 30):
        assert len(lines_of(make_analysis(failure=True, runs=runs))) <= 41


def test_several_runs_are_listed_and_the_one_that_failed_is_shown() -> None:
    good, bad = make_analysis(runs=3), make_analysis(failure=True, runs=3)
    shown = lines_of(replace(good, runs=(good.runs[0], bad.runs[1], good.runs[2])))
    assert shown[0].startswith("3 runs")
    assert any(line.startswith(" Run 2: FAILED") for line in shown)
    last = lines_of(good)
    assert any(line.startswith(" Run 3: ") for line in last)


def test_what_does_not_fit_the_list_of_runs_is_counted() -> None:
    shown = lines_of(make_analysis(runs=30))
    assert shown[0] == "30 runs; the first 12"
    assert "the first" not in lines_of(make_analysis(runs=2))[0]


def test_one_run_has_no_number() -> None:
    assert not any("Run 1" in line for line in lines_of(make_analysis(failure=True)))


def test_the_last_line_says_what_was_read() -> None:
    text = " ".join(" ".join(lines_of(make_analysis())[-3:]).split())
    assert " read" in text
    assert text.endswith("Full report: logdoctor analyze LOG -o report.md (or .html)")
