"""What the log holds beside the statistics lines."""

from __future__ import annotations

import pytest

from tests.unseen.lives import life
from tests.unseen.reading import only_run
from vllm_logdoctor.run.model import Run

SPECULATION = {
    "0.8.4": "SpecDecoding metrics: Draft acceptance rate: 40.0%, Accepted: 120 tokens, Drafted: 300 tokens",
    "0.9.2": "SpecDecoding metrics: Draft acceptance rate: 40.0%, Mean acceptance length: 2.20, "
    "Accepted: 120 tokens, Drafted: 300 tokens, Per-position acceptance rate: 0.600, 0.200",
    "0.20.0": "SpecDecoding metrics: Mean acceptance length: 2.20, Accepted throughput: 12.00 tokens/s, "
    "Drafted throughput: 30.00 tokens/s, Accepted: 120 tokens, Drafted: 300 tokens, "
    "Per-position acceptance rate: 0.600, 0.200, Avg Draft acceptance rate: 40.0%",
}


def with_line(message: str, site: str = "metrics.py:90") -> Run:
    return only_run(life() + f"(APIServer pid=1) INFO 06-01 10:02:00 [{site}] {message}\n")


@pytest.mark.parametrize("version", SPECULATION)
def test_speculation_of_each_version(version: str) -> None:
    (found,) = with_line(SPECULATION[version]).speculation
    assert (found.accepted, found.drafted, found.acceptance) == (120, 300, 40.0)
    assert found.per_position == ((0.6, 0.2) if version != "0.8.4" else ())
    assert found.mean_length == (2.2 if version != "0.8.4" else None)


def test_speculation_of_v0_counts_from_the_start() -> None:
    (found,) = with_line(
        "Speculative metrics: Draft acceptance rate: 0.650, System efficiency: 0.500, "
        "Number of speculative tokens: 5, Number of accepted tokens: 13, Number of draft tokens: 20."
    ).speculation
    assert (found.accepted, found.drafted, found.acceptance, found.efficiency) == (13, 20, 65.0, 0.5)


def test_nothing_drafted_is_no_acceptance() -> None:
    line = "SpecDecoding metrics: Draft acceptance rate: nan%, Accepted: 0 tokens, Drafted: 0 tokens"
    assert with_line(line).speculation == []


def test_figures_of_a_kv_connector_keep_their_names() -> None:
    line = (
        "KV Transfer metrics: Num successful transfers=12, Avg xfer time (ms)=4.2, Throughput (MB/s)=1300.5"
    )
    (found,) = with_line(line).transfers
    assert found.figures == {
        "Num successful transfers": 12,
        "Avg xfer time (ms)": 4.2,
        "Throughput (MB/s)": 1300.5,
    }


def test_offline_progress_is_read_from_a_redrawn_bar() -> None:
    bar = "\r".join(
        f"Processed prompts: {percent:3d}%|###| {done}/40 [00:{seconds:02d}<00:01,  1.00it/s, "
        f"est. speed input: 10.50 toks/s, output: {rate:.2f} toks/s]"
        for percent, done, seconds, rate in ((25, 10, 3, 5.0), (100, 40, 12, 9.25))
    )
    *_, last = only_run(life("0.9.1", named=False).split("INFO:  ")[0] + bar + "\n").progress
    assert (last.done, last.total, last.seconds, last.input, last.output) == (40, 40, 12.0, 10.5, 9.25)


SERVING = """\
============ Serving Benchmark Result ============
Successful requests:                     40
Benchmark duration (s):                  6.72
Request throughput (req/s):              5.95
---------------Time to First Token----------------
Mean TTFT (ms):                          6145.27
P99 TTFT (ms):                           6192.64
==================================================
"""


def test_results_of_a_client_in_the_same_file() -> None:
    run = only_run(life() + SERVING + SERVING.replace("40\n", "80\n"))
    assert [(one.kind, one.figures["Successful requests"]) for one in run.benchmarks] == [
        ("serve", 40),
        ("serve", 80),
    ]
    first = run.benchmarks[0]
    assert first.figures["P99 TTFT (ms)"] == 6192.64
    assert [line.text for line in first.evidence] == [SERVING.splitlines()[0], SERVING.splitlines()[6]]


def test_results_of_throughput_and_latency() -> None:
    run = only_run(
        life()
        + "Throughput: 1.75 requests/s, 2017.64 total tokens/s, 224.17 output tokens/s\n"
        + "Avg latency: 1.25 seconds\n10% percentile latency: 1.2 seconds\n"
        + "99% percentile latency: 1.5 seconds\n"
    )
    assert [one.kind for one in run.benchmarks] == ["throughput", "latency"]
    assert run.benchmarks[0].figures["output tokens/s"] == 224.17
    assert run.benchmarks[1].figures == {
        "average latency (s)": 1.25,
        "p10 latency (s)": 1.2,
        "p99 latency (s)": 1.5,
    }


def test_figures_without_the_head_of_a_result_are_no_result() -> None:
    assert only_run(life() + "Mean TTFT (ms):           12.0\nSuccessful requests: 3\n").benchmarks == []


def test_a_result_quoted_in_a_prompt_is_no_result() -> None:
    quoted = SERVING.replace("\n", "\\n")
    request = f"Received request cmpl-1: prompt: '{quoted}', params: S(n=1)."
    assert with_line(request, "logger.py:41").benchmarks == []


def test_requests_by_minute_keep_endpoint_and_status() -> None:
    run = only_run(life())
    total = sum((counts for counts in run.requests_by_minute.values()), start=type(run.accesses)())
    assert total == run.accesses
    assert set(total) == {("POST", "/v1/chat/completions", 200)}
