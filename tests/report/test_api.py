"""The library as a notebook uses it."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.report.synthetic import make_analysis
from tests.report.test_formats import acts, tags
from tests.report.test_markdown import HOSTILE
from vllm_logdoctor.api import Report, analyze
from vllm_logdoctor.errors import LogdoctorError

STATS = (
    "INFO 2025-07-16 12:29:53 [loggers.py:111] Engine 000: Avg prompt throughput: 10.0 tokens/s, "
    "Avg generation throughput: 20.0 tokens/s, Running: 2 reqs, Waiting: 0 reqs, "
    "GPU KV cache usage: 1.5%, Prefix cache hit rate: 0.0%"
)
LINES = [
    "INFO 2025-07-16 12:29:43 [api_server.py:1289] vLLM API server version 0.8.5",
    STATS,
    'INFO:     127.0.0.1:45988 - "POST /v1/completions HTTP/1.1" 200 OK',
]


@pytest.fixture
def report() -> Report:
    return Report(make_analysis("Qwen", failure=True, year_known=True))


def test_plain_attributes_need_no_pandas():
    script = (
        "import sys\n"
        "sys.modules['pandas'] = None\n"
        "from vllm_logdoctor.api import analyze\n"
        f"run = analyze({LINES!r}).runs[0]\n"
        "assert run.version == '0.8.5', run.version\n"
        "assert run.stats[0].generation == 20.0\n"
        "assert list(run.findings) == list(run.diagnosis.findings)\n"
        "assert run.stats._repr_html_() is None\n"
        "try:\n    run.stats.to_frame()\n"
        "except Exception as error:\n    assert 'pip install' in str(error), error\n"
        "else:\n    raise AssertionError\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_bytes_lines_and_paths_give_the_same(tmp_path):
    text = "\n".join(LINES) + "\n"
    path = tmp_path / "vllm.log"
    path.write_text(text)
    views = [analyze(source).runs[0] for source in (text.encode(), LINES, str(path), path)]
    assert len({(run.version, len(run.stats), run.title) for run in views}) == 1


def test_nothing_of_vllm_is_an_error_that_says_so():
    with pytest.raises(LogdoctorError, match="nothing that vLLM writes") as caught:
        analyze(["hello"])
    assert caught.value.exit_code == 4


def test_frames_have_units_and_types(report):
    pytest.importorskip("pandas")
    run = report.runs[0]
    stats = run.stats.to_frame()
    assert str(stats["time"].dtype) == "datetime64[ns]"
    assert stats["seconds"].iloc[1] == 10.0
    assert str(stats["running"].dtype) == "Int64"
    assert stats.attrs["units"]["generation"] == "tokens/s"
    assert len(stats) == 30
    assert list(run.phases.to_frame()["name"]) == ["startup", "load-weights", "engine-init", "compile"]
    assert run.config.to_frame().set_index("name").loc["max_model_len", "value"] == 32768
    assert run.findings.to_frame()["role"].tolist()[:2] == ["root", "cascade"]
    assert run.requests.to_frame()["count"].sum() == 100
    assert run.requests_by_minute.to_frame()["count"].sum() == 100
    assert run.events.to_frame().empty


def test_times_without_a_year_stay_unknown_and_seconds_do_not():
    pytest.importorskip("pandas")
    stats = Report(make_analysis()).runs[0].stats.to_frame()
    assert stats["time"].isna().all()
    assert stats["seconds"].notna().all()


def test_config_answers_by_name_with_provenance(report):
    config = report.runs[0].config
    assert config["tensor_parallel_size"] == 4
    assert config.value("tensor_parallel_size").provenance == "explicit"
    assert config.get("no_such_setting") is None


@cache
def tags_of_a_plain_log(runs):
    plain = Report(make_analysis("Qwen", failure=True, runs=runs))
    return tags(plain._repr_html_()), tags(plain.runs[0]._repr_html_())


@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.parametrize("text", HOSTILE)
def test_a_notebook_shows_hostile_text_as_text(text, runs):
    hostile = Report(make_analysis(text, failure=True, runs=runs))
    run, shown = hostile.runs[0], hostile._repr_html_()
    of_report, of_run = tags_of_a_plain_log(runs)
    assert tags(shown) <= of_report | {"pre", "code"}
    assert acts(shown) == []
    assert not tags(shown) & {"script", "img", "a", "iframe"}
    assert tags(run._repr_html_()) <= of_run | {"pre", "code"}
    for rows in (run.findings, run.config, run.stats, run.requests):
        assert tags(rows._repr_html_() or "") <= {
            "style",
            "div",
            "div.class",
            "table",
            "tr",
            "th",
            "th.title",
            "td",
            "p",
        }


@pytest.mark.parametrize("runs", [1, 2])
def test_a_cell_folds_each_section_beside_the_one_before(runs):
    shown = Report(make_analysis("Qwen", failure=True, runs=runs))._repr_html_()
    before = [shown[: found.start()] for found in re.finditer("<details><summary>", shown)]
    assert len(before) > 4
    assert [text.count("<details") - text.count("</details>") for text in before] == [0] * len(before)
    # The heading of the page, and of each run where there are several.
    assert shown.count("<h3>") == 1
    assert (shown.count("<h4>") >= runs) is (runs > 1)


def test_rows_say_how_many_they_are(report):
    assert repr(report.runs[0].stats).startswith("<30 rows;")


def test_a_report_says_what_it_is(report):
    assert repr(report).startswith("<report of 1 run: vLLM 0.18.1 · Qwen")
    assert report.runs[0].to_markdown().startswith("# FAILED while serving: ")
    assert report.to_dict()["runs"][0]["outcome"] == "crashed_while_serving"


@pytest.mark.parametrize("name", ["timeline", "throughput", "kv_cache", "startup", "requests"])
def test_figures_are_drawn(report, name):
    pytest.importorskip("matplotlib")
    figure = getattr(report.runs[0].plot, name)()
    picture = figure._repr_png_()
    assert picture.startswith(b"\x89PNG")
    assert all(axes.get_ylabel() or axes.get_yticklabels() for axes in figure.axes)


@pytest.mark.parametrize("name", ["timeline", "throughput", "kv_cache", "startup", "requests"])
def test_figures_of_an_empty_run_say_so(name):
    pytest.importorskip("matplotlib")
    run = analyze(LINES[:1]).runs[0]
    assert getattr(run.plot, name)()._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize("text", ["$x$ \\frac{a}{b} ${", "\x1b[31m\u202e"])
def test_figures_take_log_text_as_text(text):
    pytest.importorskip("matplotlib")
    run = Report(make_analysis(text)).runs[0]
    assert run.plot.startup()._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "name",
    ["stats", "phases", "config", "measured", "findings", "events", "requests", "requests_by_minute"],
)
def test_frames_have_the_columns_that_the_page_on_notebooks_names(report, name):
    page = (Path(__file__).resolve().parents[2] / "docs/how-to/notebook.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith("|") and f"`run.{name}`" in line)
    frame = getattr(report.runs[0], name).to_frame()
    assert re.findall(r"`(\w+)`", row.split("|")[3]) == list(frame.columns)
    for column, kind in frame.dtypes.items():
        assert str(kind) in ("string", "object", "Int64", "float64", "datetime64[ns]"), column
