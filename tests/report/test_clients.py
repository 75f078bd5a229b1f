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


def failed_requests(*errors: str) -> list[str]:
    """Return what a client prints of failed requests above its result."""
    tracebacks = (
        [
            f"Error {number}: Traceback (most recent call last):",
            '  File "/venv/lib/python3.12/site-packages/vllm/benchmarks/lib/endpoint_request_func.py", line 90, in async_request_openai_completions',
            "    async with session.post(url=url, json=body) as response:",
            '  File "/venv/lib/python3.12/site-packages/aiohttp/streams.py", line 70, in read',
            "    await self._waiter",
            error,
            "",
        ]
        for number, error in enumerate(errors)
    )
    return [
        "Failed requests during benchmark run detected (capping to 10):",
        *(line for one in tracebacks for line in one),
    ]


_DISCONNECTED = "aiohttp.client_exceptions.ServerDisconnectedError: Server disconnected"


def with_failures(succeeded: float, failed: float, *errors: str) -> list[str]:
    arguments, result = client("inf", successful=succeeded)[1:2], client("inf", successful=succeeded)[2:]
    return [
        SAMPLING,
        *arguments,
        *failed_requests(*errors),
        result[0],
        result[1],
        f"Failed requests:    {failed}",
        *result[2:],
    ]


def test_a_complete_result_is_the_outcome_of_a_benchmark_and_its_failed_requests_are_a_finding() -> None:
    text = report(*with_failures(99.0, 1.0, _DISCONNECTED))
    assert text.startswith("# BENCHMARK CLIENT: results")
    assert "| Failed requests | 1 |" in text
    assert "**1 of 100 requests of the benchmark failed**" in text
    assert "closed the connection before its answer was complete" in text


def test_many_failed_requests_of_a_benchmark_have_a_step() -> None:
    text = report(*with_failures(60.0, 40.0, _DISCONNECTED, _DISCONNECTED))
    assert "40 of 100 requests of the benchmark failed" in text
    assert "Read the log of the server" in text


@pytest.mark.parametrize(
    "head", [(), ("INFO 03-04 10:00:00 [__init__.py:241] Automatically detected platform cuda.",)]
)
def test_a_benchmark_without_a_succeeded_request_failed_by_its_error(head: tuple[str, ...]) -> None:
    text = report(*head, *with_failures(0.0, 100.0, _DISCONNECTED))
    assert not text.startswith("# BENCHMARK CLIENT")
    assert text.startswith("# CLIENT FAILED: The server's response ended early")
    assert "requests of the benchmark failed" not in text


def test_an_error_behind_the_result_of_a_benchmark_is_not_counted_in_it() -> None:
    text = report(*client("inf"), *failed_requests(_DISCONNECTED))
    assert not text.startswith("# BENCHMARK CLIENT")
