"""Drafts, KV transfers, offline batches and benchmark results: summed up, cited, in Markdown and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.report import json, markdown
from vllm_logdoctor.report.clock import moment_of
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.report.series import requests_by_time
from vllm_logdoctor.report.throughput_detail import drafts_of, transfers_of
from vllm_logdoctor.report.writers import render
from vllm_logdoctor.run.metrics import MOST_GAUGES, offline_batches
from vllm_logdoctor.run.model import Benchmark, Evidence, Progress, Run, Speculation, Transfer
from vllm_logdoctor.source import inputs_from

LINE = Evidence("vllm.log", 7, "INFO line")


def drafted(accepted: int, of: int, length: float, *per_position: float) -> Speculation:
    return Speculation(None, LINE, accepted, of, 100 * accepted / of, length, per_position)


def bar(done: int, total: int, seconds: float = 10.0) -> Progress:
    return Progress(LINE, done, total, seconds, 100.0, 20.0)


def test_drafted_tokens_are_summed_not_their_rates() -> None:
    found = drafts_of(Run(speculation=[drafted(10, 20, 1.5, 0.5), drafted(90, 100, 1.9, 0.9)]))
    assert found is not None
    assert (found.accepted, found.drafted) == (100, 120)
    assert found.acceptance == pytest.approx(83.33, abs=0.01)
    assert found.mean_length == pytest.approx((1.5 * 20 + 1.9 * 100) / 120)
    assert found.per_position == pytest.approx(((50 * 20 + 90 * 100) / 120,))


def test_v0_counts_from_the_start_so_that_its_last_line_holds_all() -> None:
    lines = [Speculation(None, LINE, n, 2 * n, 50.0, efficiency=0.4) for n in (10, 20)]
    found = drafts_of(Run(speculation=lines))
    assert found is not None
    assert (found.accepted, found.drafted, found.acceptance) == (20, 40, 50.0)


def test_a_thinned_series_keeps_its_rate_and_tells_no_totals() -> None:
    found = drafts_of(Run(speculation=[drafted(10, 20, 1.5)] * MOST_GAUGES))
    assert found is not None
    assert (found.accepted, found.drafted, found.acceptance) == (None, None, 50.0)


def test_without_such_lines_nothing_is_reported() -> None:
    assert drafts_of(Run()) is None
    assert offline_batches(Run()) == []
    assert transfers_of(Run()) == []


def test_each_progress_bar_is_a_batch_and_its_last_state_counts() -> None:
    states = [bar(0, 8), bar(4, 8), bar(8, 8), bar(0, 8), bar(8, 8), bar(3, 5), bar(0, 9)]
    assert [(one.done, one.total) for one in offline_batches(Run(progress=states))] == [
        (8, 8),
        (8, 8),
        (3, 5),
    ]


def test_figures_of_a_connector_are_known_by_their_own_names() -> None:
    lines = [Transfer(None, LINE, {"Throughput (MB/s)": value}) for value in (1.0, 5.0, 3.0)]
    (figure,) = transfers_of(Run(transfers=lines))
    assert (figure.name, figure.mean, figure.highest, figure.last) == ("Throughput (MB/s)", 3.0, 5.0, 3.0)


def test_a_log_of_months_is_reported_in_longer_steps() -> None:
    run = Run(accesses_by_minute={minute: Counter({200: 1}) for minute in range(100_000)})
    counted = requests_by_time(run)
    assert len(counted) <= 1500
    assert {length for _, length, _ in counted} == {67}
    assert sum(sum(counts.values()) for _, _, counts in counted) == 100_000


def test_markdown_tells_all_of_it_with_lines(analysis_of: Callable[..., Analysis]) -> None:
    page = markdown.render(analysis_of())
    section = page.split("## Load")[1].split("\n## ")[0]
    assert "60 % of the drafted tokens accepted (300 of 500), mean acceptance length 1.6" in section
    assert "by position of the draft 80 %, 40 % [L7]" in section
    assert "KV transfers between engines, 3 lines [L7]:" in section
    assert "| Throughput Qwen | 10 | 20 | 20 |" in section
    assert "2 batches with 16 prompts in 8 s" in section
    assert "1 result of a serving benchmark in this log:" in section
    assert "| Mean TTFT Qwen | 12.5 |" in section


def test_the_last_results_of_many_are_side_by_side(analysis: Analysis) -> None:
    run = analysis.runs[0].run
    run.benchmarks = [Benchmark("throughput", {"requests/s": float(n)}, (LINE,)) for n in range(9)]
    section = markdown.render(analysis)
    assert "9 results of a throughput benchmark in this log, the last 6:" in section
    assert "| requests/s | 3 | 4 | 5 | 6 | 7 | 8 |" in section


def test_json_holds_the_same(analysis: Analysis) -> None:
    run = json.document(analysis)["runs"][0]
    assert run["serving"]["speculation"]["acceptance"] == 60.0
    assert run["serving"]["transfers"]["figures"]["Throughput Qwen"]["highest"] == 20.0
    assert run["serving"]["offline"]["batches"] == 2
    assert run["benchmarks"][0]["figures"] == {"Mean TTFT Qwen": 12.5}


CLIENT = """\
<frozen importlib._bootstrap_external>:1297: FutureWarning: The cuda.nvrtc module is deprecated and will be removed in a future release.
Namespace(subparser='bench', bench_type='serve', dataset_name='random', num_prompts=40, model='org/m', random_input_len=900, max_concurrency=4)
INFO 03-04 10:00:02 [utils.py:90] Sampling input_len from [90, 900] and output_len from [9, 90]
============ Serving Benchmark Result ============
Successful requests:                     40
Benchmark duration (s):                  125.00
Median TTFT (ms):                        40.00
==================================================
"""


def test_a_benchmark_client_says_what_it_sent_and_how_long_it_took() -> None:
    report = render(analyse(inputs_from(CLIENT.encode()), Options()), "markdown")
    assert "org/m · benchmark client · benchmark of 2 min 5 s" in report
    assert "`num_prompts=40`, `random_input_len=900`" in report
    assert "Configuration: keep the log" not in report
    assert "Warnings in the log" not in report


def test_the_lowest_value_of_a_series_that_was_thinned_out_is_not_given() -> None:
    line = "INFO 03-04 {h:02d}:{m:02d}:{s:02d} [loggers.py:259] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: {g} tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%, Prefix cache hit rate: 0.0%\n"
    log = "".join(
        line.format(h=at // 3600, m=at // 60 % 60, s=at % 60, g=90.0 if number == 3001 else 10.0 + number % 2)
        for number, at in enumerate(range(0, 80000, 10))
    )
    report = render(analyse(inputs_from(log.encode()), Options()), "markdown")
    assert "| mean | median | max |" in report
    assert "| 90 |" in report


PIECE = """\
== waiting for the server ==
(EngineCore pid=451) INFO 08-01 00:40:44 [kv_cache_utils.py:2296] GPU KV cache size: 652,465 tokens
(EngineCore pid=451) INFO 08-01 00:40:44 [kv_cache_utils.py:2297] Maximum concurrency for 500,000 tokens per request: 1.30x
"""


def test_a_script_that_quotes_a_start_and_writes_on_is_no_start_that_was_cut_off() -> None:
    log = PIECE + "".join(f"probe {number} done\n" for number in range(60))
    report = render(analyse(inputs_from(log.encode()), Options()), "markdown")
    assert report.startswith("# EXCERPT: the log shows neither a complete start nor statistics of a load")
    assert "profiling, KV cache, warm-up" not in report


def test_times_of_a_run_over_midnight_have_their_day() -> None:
    assert moment_of(Run(started=86400.0 - 30, ended=86400.0 + 20), 86400.0) == "01-02 00:00:00"
    assert moment_of(Run(started=86400.0, ended=86400.0 + 20), 86400.0) == "00:00:00"


def test_a_sum_of_drafts_cites_every_line_that_it_adds_up() -> None:
    lines = [replace(drafted(10, 20, 1.5), evidence=replace(LINE, line=n)) for n in (4, 5, 6)]
    found = drafts_of(Run(speculation=lines))
    assert found is not None
    assert [one.line for one in found.evidence] == [4, 5, 6]
