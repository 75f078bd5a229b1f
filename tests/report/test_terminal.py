"""The view on a terminal: what is beside each other, which run is shown, and how much fits."""

from __future__ import annotations

import io
import re
from itertools import pairwise

import pytest
from msgspec.structs import replace
from rich.console import Console

from tests.report.synthetic import make_analysis
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.report.terminal import print_analysis
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.run.model import Coverage, Evidence, Phase, Unknown


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


def with_more_advice(analysis: Analysis, titles: list[str], severity: str = "low") -> Analysis:
    line = Evidence("vllm.log", 31, "WARNING what   was\tprinted")
    more = tuple(
        Finding(f"rule-{number}", "performance", severity, "high", title, "", evidence=(line, line))  # type: ignore[arg-type]
        for number, title in enumerate(titles)
    )
    first = analysis.runs[0]
    return replace(analysis, runs=(replace(first, findings=(*first.findings, *more)),))


def begun(analysis: Analysis, **seconds: float) -> Analysis:
    """Return an analysis whose start of a hundred seconds has these parts."""
    run = analysis.runs[0].run
    parts = [
        Phase(name.replace("_", "-"), "", None, None, long, (), "startup") for name, long in seconds.items()
    ]
    run.phases = [run.phases[0], *parts]
    return analysis


def test_the_start_has_its_five_longest_parts_in_their_order_with_their_share() -> None:
    shown = lines_of(
        begun(
            make_analysis(),
            imports=2.0,
            load_weights=50.0,
            compile=20.0,
            profiling=3.0,
            graph_capture=15.0,
            kv_cache=4.0,
        )
    )
    at = shown.index("Start-up: 1 min 40 s")
    table = [re.split(r" {2,}", line.strip()) for line in shown[at + 1 : at + 6]]
    assert [(name, share, bar.count("█")) for name, _, share, bar in table] == [
        ("weight loading", "50 %", 12), ("torch.compile", "20 %", 5), ("memory profiling", "3 %", 1), ("CUDA graph capture", "15 %", 4),
        ("KV cache", "4 %", 1),
    ]  # fmt: skip
    assert not shown[at + 6].strip()


def test_a_failed_run_shows_neither_its_start_nor_its_load() -> None:
    good, bad = (lines_of(make_analysis(failure=failed)) for failed in (False, True))
    for title in ("Start-up: ", "Load: "):
        assert any(line.startswith(title) for line in good)
        assert not any(line.startswith(title) for line in bad)


def test_a_start_without_a_length_or_parts_is_not_shown() -> None:
    for phases in ([], make_analysis().runs[0].run.phases[:1], make_analysis().runs[0].run.phases[1:]):
        analysis = make_analysis()
        analysis.runs[0].run.phases = phases
        assert not any(line.startswith("Start-up") for line in lines_of(analysis))


def test_findings_below_the_first_screen_are_four_and_the_others_are_counted() -> None:
    plain = begun(make_analysis())  # Without its start there is room.
    titles = [f"finding {number}" for number in range(6)]
    shown = lines_of(with_more_advice(plain, titles))
    assert [line.split("  ")[-1].strip() for line in shown if "finding " in line and "low" in line] == titles[
        :4
    ]
    assert "2 more findings in the report" in shown
    assert "1 more finding in the report" in lines_of(with_more_advice(plain, titles[:5]))
    assert not any("more finding" in line for line in lines_of(with_more_advice(plain, titles[:4])))


def test_a_finding_has_one_line_of_the_log_with_its_place() -> None:
    shown = lines_of(with_more_advice(begun(make_analysis()), ["slow storage"]))
    at = next(number for number, line in enumerate(shown) if "slow storage" in line)
    assert shown[at].split() == ["low", "slow", "storage"]
    assert shown[at + 1].strip() == "vllm.log L31 WARNING what was printed"
    assert "printed" not in shown[at + 2]


def test_what_is_only_said_is_no_finding_of_the_view() -> None:
    assert not any(
        "by the way" in line for line in lines_of(with_more_advice(make_analysis(), ["by the way"], "info"))
    )


@pytest.mark.parametrize(("text", "width", "listed"), [("Qwen", 100, 12), ("word " * 30, 60, 3)])
def test_of_several_runs_as_many_are_listed_as_there_is_room_for_and_at_least_three(
    text: str, width: int, listed: int
) -> None:
    shown = lines_of(make_analysis(text, failure=True, runs=12), width)
    assert [line.split()[0] for line in shown if re.match(r"\d+ +FAILED", line)] == [
        str(number) for number in range(1, listed + 1)
    ]
    assert shown[0] == ("12 runs" if listed == 12 else f"12 runs; the first {listed}")


@pytest.mark.parametrize(
    ("coverage", "words"),
    [
        (
            Coverage(1200, 120, 100, 0, (Unknown("WARNING", "x", 2, Evidence("vllm.log", 3, "WARNING x")),)),
            "1,200 lines read, 1 unknown warning. Full report",
        ),
        (Coverage(1200, 0, 0, 0, (), ("One  file was cut", "twice")), "1,200 lines read. One file was cut twice. Full report"),
        (Coverage(1, 1, 1, 0, ()), "1 line read. Full report"),
    ],
)  # fmt: skip
def test_the_last_line_counts_what_was_read_and_what_was_not_known(coverage: Coverage, words: str) -> None:
    text = " ".join(" ".join(lines_of(replace(make_analysis(), coverage=coverage))).split())
    assert f" {words}" in text


def test_what_one_run_leaves_of_the_screen_is_for_findings() -> None:
    """Of a failed run, which has neither curves nor parts of a start, four are shown; below both there is room for none."""
    titles = [f"finding {number}" for number in range(9)]
    for analysis in (make_analysis(), make_analysis(failure=True)):
        shown = lines_of(with_more_advice(analysis, titles))
        assert len(shown) <= 40
        counted = next(line for line in shown if "more finding" in line)
        listed = sum(title in line for line in shown for title in titles)
        assert int(counted.split()[0]) >= 9 - listed
        assert shown[shown.index(counted) + 1].strip() == ""


def test_blocks_of_the_first_screen_are_parted_by_one_empty_line() -> None:
    for failure in (False, True):
        shown = [line.strip() for line in lines_of(make_analysis(failure=failure))]
        assert not any(one == two == "" for one, two in pairwise(shown))
        assert shown[2] == ""
        assert shown[3]


def test_a_failed_run_quotes_the_line_and_says_what_it_means_and_what_to_do() -> None:
    shown = lines_of(make_analysis(failure=True))
    quote, meaning, step = (
        next(number for number, line in enumerate(shown) if line.startswith(begin))
        for begin in ("WARNING 0 Qwen", "Because Qwen", "1 ")
    )
    assert 2 < quote < meaning < step


def test_figures_are_beside_each_other_in_their_order() -> None:
    def figures(width: int) -> list[str]:
        shown = lines_of(make_analysis(), width)
        begin = next(number for number, line in enumerate(shown) if "generation  " in line)
        return [re.split(r" {2,}", line.strip())[::2] for line in shown[begin : shown.index("", begin)]]  # type: ignore[misc]

    narrow, wide = figures(109), figures(110)
    assert [name for row in narrow for name in row] == [name for row in wide for name in row]
    assert {len(row) for row in narrow} == {1}
    assert {len(row) for row in wide[:-1]} == {2}


def test_a_part_of_a_part_is_no_row_of_the_start() -> None:
    analysis = make_analysis()  # Its compilation is a part of the engine's initialization.
    shown = lines_of(analysis)
    at = shown.index("Start-up: 1 min 40 s")
    assert [line.split("  ")[0].strip() for line in shown[at + 1 : at + 3]] == [
        "weight loading",
        "profiling, KV cache, warm-up",
    ]
    assert not shown[at + 3].strip()


def test_the_curves_of_the_load_begin_right_below_their_title() -> None:
    shown = lines_of(make_analysis())
    title = next(number for number, line in enumerate(shown) if line.startswith("Load: "))
    assert shown[title].endswith("30 statistics lines")
    assert shown[title + 1].strip().startswith("generation")
