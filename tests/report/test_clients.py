"""Logs of benchmark clients: what they show of the load, and that they are no logs of a server."""

from __future__ import annotations

import pytest

import vllm_logdoctor

SAMPLING = "INFO 03-04 10:00:00 [datasets.py:703] Sampling input_len from [8, 8] and output_len from [8, 8]"
COMMAND = "$ vllm bench serve --model org/m --num-prompts 100"
FIGURES = {
    "Successful requests": 100.0,
    "Benchmark duration (s)": 1000.0,
    "Total generated tokens": 10_000.0,
    "Request throughput (req/s)": 0.1,
    "Median TTFT (ms)": 400_000.0,
    "P50 TTFT (ms)": 400_000.0,
    "Mean TTFT (ms)": 400_000.0,
    "Mean TPOT (ms)": 50.0,
}
QUEUED = "more load than the server took"


def client(rate: str = "1.0", most: int | None = None, **changed: float) -> list[str]:
    """Return the output of a client; `changed` has figures by their first letters."""
    figures = {
        name: next(
            (value for key, value in changed.items() if name.lower().startswith(key.replace("_", " "))), known
        )
        for name, known in FIGURES.items()
    }
    return [
        SAMPLING,
        f"Namespace(subparser='bench', dataset_name='random', num_prompts=100, model='org/m', request_rate={rate},"
        f" max_concurrency={most}, goodput=None)",
        "============ Serving Benchmark Result ============",
        *(f"{name + ':':40} {value:<10}" for name, value in figures.items()),
    ]


def report(*lines: str) -> str:
    return vllm_logdoctor.analyze(list(lines)).to_markdown()


@pytest.mark.parametrize(
    ("lines", "queued"),
    [
        (client(), True),
        (client(median_ttft=40_000.0), False),  # As long as its last answers took.
        (client(request=0.6), False),
        (client("inf"), True),
        (client("inf", median_ttft=9_000.0), False),
        (client("1.0", 25), True),  # 0.1 a second of 405 s each are 40 at once.
        (client("1.0", 50), False),
        (client("inf", 25), False),  # A closed loop.
        (client(successful=0.0), False),
    ],
)
def test_a_client_that_offers_more_than_the_server_takes_is_told_so(lines: list[str], queued: bool) -> None:
    text = report(*lines)
    assert text.startswith("# BENCHMARK CLIENT")
    assert (QUEUED in text, "server's log shows what limits it" in text) == (queued, queued)


def test_the_command_of_a_server_above_a_client_s_output_is_no_start_that_was_cut_off() -> None:
    text = report("$ vllm serve org/m --enforce-eager", COMMAND, *client("inf"))
    assert text.startswith("# BENCHMARK CLIENT")
    assert "py-spy" not in text
    assert "Drop `--enforce-eager`" in text


def test_the_log_of_a_client_lacks_no_first_line_and_shows_a_median_once() -> None:
    text = report(*client())
    assert "keep the log from its first line" not in text
    assert "| Median TTFT (ms)" in text
    assert "| P50 TTFT (ms)" not in text


def test_starts_of_a_client_are_told_apart_by_what_differs() -> None:
    text = report(*client("0.5"), *client("1.0"))
    assert "| `request_rate` | 0.5 | 1.0 |" in text
    assert "`model=org/m`" in text
    assert "request_rate=" not in text
