"""Statements on the load that reports on real logs got wrong, each on a small log of its own."""

from __future__ import annotations

import re

import pytest

import vllm_logdoctor
from tests.report.small_logs import ANSWER, START, decoding, report, statistics


def test_a_period_without_a_running_request_is_not_said_to_hold_up_to_0() -> None:
    """Short requests begin and end between two lines."""
    lines = [statistics(second, 0, 0, 0.0) for second in range(120, 240, 10)]
    full = [statistics(second, 256, 600, 20.0) for second in range(240, 360, 10)]
    text = report([*START, *lines, *full, *[ANSWER] * 300])
    assert "up to 0 running" not in text
    assert "each request ended before the next statistics line" in text


def test_the_time_of_generated_tokens_is_that_in_which_they_were_counted() -> None:
    """The tokens of the first line were generated before the stretch began."""
    line = "(APIServer pid=851) INFO 04-28 22:54:{:02} [loggers.py:257] Engine 000: Avg prompt throughput: 0.0 tokens/s,"
    gauges = " Avg generation throughput: 54.0 tokens/s, Running: 1 reqs, Waiting: 14 reqs, GPU KV cache usage: {}%, Prefix cache hit rate: 0.0%"
    lines = [
        line.format(second) + gauges.format(usage) for second, usage in ((32, 30.0), (42, 30.4), (52, 30.9))
    ]
    assert "generated 1,080 tokens in 20 s" in report(lines)


def test_the_first_line_of_an_excerpt_is_judged_as_the_next_one_of_the_same_load() -> None:
    text = report([decoding(10 * number, 70.0 + number) for number in range(1, 6)])
    assert "in all 5 statistics lines with load" in text
    assert "Otherwise limited" not in text
    assert "each got at most 1.04 tokens/s" in text


def test_load_does_not_begin_before_the_first_request() -> None:
    line = (
        "INFO 09-26 11:35:{second} metrics.py:351] Avg prompt throughput: {prompt} tokens/s, Avg generation throughput: 0.9 tokens/s,"
        " Running: {running} reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 0.1%, CPU KV cache usage: 0.0%."
    )
    lines = [line.format(second=second, prompt=0.0, running=1) for second in (26, 36, 46)]
    added = "INFO 09-26 11:35:13 engine.py:288] Added request chat-5."
    first = line.format(second=16, prompt=2.5, running=1)
    assert _seconds_of_load([added, first, *lines]) == 33
    # Another request ran before the log begins.
    earlier = first.replace("Running: 1", "Running: 2")
    assert _seconds_of_load([added, earlier, *lines]) == 40


def _seconds_of_load(lines: list[str]) -> float:
    periods = vllm_logdoctor.analyze(lines).periods
    return sum((one.end or 0.0) - (one.start or 0.0) for one in periods)


def test_no_rate_per_request_where_most_requests_ended_within_the_interval() -> None:
    """37 requests made the tokens of an interval at whose end one ran."""
    burst = [statistics(120, 37, 0, 2.9), statistics(130, 1, 0, 0.2), statistics(140, 0, 0, 0.0)]
    assert "per request" not in report([*START, *burst, *[ANSWER] * 37])


def test_the_rate_per_request_is_that_of_lines_with_as_many_requests_as_before() -> None:
    steady = [statistics(second, 100, 0, 9.9) for second in range(120, 240, 10)]
    assert "60 tokens/s per request at steady load (median)" in report(
        [*START, *steady, statistics(240, 1, 0, 0.1)]
    )


def test_no_rate_per_request_of_a_few_lines() -> None:
    steady = [statistics(second, 100, 0, 9.9) for second in range(120, 180, 10)]
    assert "per request" not in report([*START, *steady])


@pytest.mark.parametrize(("levels", "said"), [((100, 100, 100), True), ((4, 30, 100), False)])
def test_no_rate_per_request_over_a_sweep_of_loads(levels: tuple[int, ...], said: bool) -> None:
    steps = [statistics(120 + 10 * n, levels[n // 20], 0, 9.9) for n in range(60)]
    assert ("per request at steady load" in report([*START, *steps])) is said


def test_a_sweep_has_no_rate_per_request_where_one_or_two_came_and_went() -> None:
    """A client that sends one request a second: at most lines one runs, and how many ran in the mean no line tells."""
    steps = [statistics(120 + 10 * n, (1, 20, 100)[n // 5], 0, 9.9) for n in range(15)]
    text = report([*START, "+ vllm bench serve --model org/model --request-rate 1", *steps])
    assert "| 1 | 3 | 6,000 |  | 13,000 |" in text
    assert "Below 4 running requests the log does not tell how many ran between two lines" in text
    assert "| 100 | 3 | 6,000 | 60 | 13,000 |" in text
    assert "| 6,000 tokens/s in lines with 1 request, 6,000 peak |" in text


def test_positions_of_drafts_that_end_early_do_not_contradict_that_all_tokens_were_accepted() -> None:
    line = "(APIServer pid=1) INFO 05-01 10:02:0{} [metrics.py:100] SpecDecoding metrics: Mean acceptance length: 2.50, Accepted throughput: 9.00 tokens/s, Drafted throughput: 9.00 tokens/s, Accepted: 90 tokens, Drafted: {} tokens, Per-position acceptance rate: {}, Avg Draft acceptance rate: {}%"
    early = line.format(1, 90, "1.000, 0.500", "100.0")
    assert "by position of the draft 100 %, 50 % (some drafts were shorter)" in report([*START, early])
    full = line.format(1, 120, "1.000, 0.500", "75.0")
    assert "(some drafts were shorter)" not in report([*START, full])


_HEAD = "(APIServer pid=1) ERROR 05-01 10:03:0{} "
BAD_CALL = [
    "[hermes_tool_parser.py:110] Error in extracting tool call from response.",
    "[hermes_tool_parser.py:110] Traceback (most recent call last):",
    '[hermes_tool_parser.py:110]   File "/usr/lib/python3.12/site-packages/vllm/entrypoints/openai/tool_parsers/hermes_tool_parser.py", line 88, in extract',
    "[hermes_tool_parser.py:110] json.decoder.JSONDecodeError: Unterminated string starting at: line 2 column 10 (char 10)",
]
STOP = [
    "[launcher.py:100] [shutdown] API server: shutdown triggered",
    "[async_llm.py:600] AsyncLLM output_handler failed.",
    "[async_llm.py:600] Traceback (most recent call last):",
    "[async_llm.py:600] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
]


@pytest.mark.parametrize(
    ("event", "title"), [(STOP, "stopped by a signal"), (BAD_CALL, "tool call ends inside a string")]
)
def test_what_happened_comes_before_a_queue_that_two_lines_do_not_show(event: list[str], title: str) -> None:
    lines = [_HEAD.format(number) + text for number, text in enumerate(event)]
    text = report([*START, statistics(100, 4, 0, 0.5), ANSWER, *lines])
    assert text.startswith(f"# NO FAILURE: {title}")
    assert "At most 4 requests at once in the only statistics line with load, and none waited [" in text


def test_two_statistics_lines_do_not_show_who_set_the_pace() -> None:
    few, more = ([statistics(second, 4, 0, 0.5) for second in range(100, 100 + 10 * n, 10)] for n in (2, 6))
    text = report([*START, *few])
    assert "**At most 4 requests at once in both statistics lines with load, and none waited [" in text
    assert text.startswith("# NO FAILURE: no request waited in 2 statistics lines")
    assert "| up to 4 running, queue empty |" in text
    assert "2 statistics lines.\n\n| time | generation" in text
    assert "| mean |" not in text
    assert "Limited by the client" not in text
    assert "max_num_seqs (256" not in text
    assert "The client set the pace" in report([*START, *more])


def test_the_mean_of_a_burst_and_a_quiet_load_stands_beside_the_median() -> None:
    quiet = statistics(60, 1, 0, 1.0).replace("6000.0", "100.0")
    burst = [statistics(second, 90, 0, 20.0) for second in (70, 80)]
    assert " tokens/s mean, 100 median, 6,000 peak" in report([*START, *[quiet] * 8, *burst])
    assert " median, " not in report([*START, *burst])


@pytest.mark.parametrize(("prompt", "running", "hole"), [(0.0, 1, True), (90.0, 1, False), (90.0, 0, False)])
def test_a_hole_in_the_log_is_no_idle_time(prompt: float, running: int, hole: bool) -> None:
    """An idle engine prints nothing; a line with a request and without its prompt shows that lines are missing before it."""
    before = [statistics(second, 0, 0, 0.0) for second in (100, 110)]
    behind = statistics(290, running, 0, 33.4).replace(
        "prompt throughput: 13000.0", f"prompt throughput: {prompt}"
    )
    after = [statistics(second, 0, 0, 0.0) for second in (300, 310, 320)]
    text = report([*START, *before, behind, *after])
    said = "No statistics lines between 10:01:50 and 10:04:50, with requests running after: the log does not show the load of that time."
    assert (said in text) is hole


def test_lines_of_less_than_a_minute_show_who_set_the_pace_where_they_agree() -> None:
    line = "INFO 10-26 02:48:{:02} llm_engine.py:624] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 950.0 tokens/s,"
    gauges = " Running: 18 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 9.0%, CPU KV cache usage: 0.0%"
    few, enough = (report([line.format(2 + 5 * n) + gauges for n in range(count)]) for count in (5, 6))
    assert few.startswith("# NO FAILURE: no request waited in 5 statistics lines")
    assert "18 requests at once in all 5 statistics lines, 950 tokens/s: the client set the pace" in few
    assert "The client set the pace" in enough
    ended = report(
        [line.format(2) + gauges, line.format(7) + gauges, line.format(12) + gauges.replace("18", "0")]
    )
    begun = report(
        [
            line.format(2).replace("950.0", "0.0") + gauges,
            *(line.format(7 + 5 * n) + gauges for n in range(4)),
        ]
    )
    assert "18 requests at once in all 5 statistics lines, 950 tokens/s in 4 of them: the client" in begun
    assert "At most 18 requests at once in all 3 statistics lines with load, and none waited" in ended
    assert "the client set the pace" not in ended


def test_one_statistics_line_has_neither_a_mean_nor_a_peak() -> None:
    text = report([*START, statistics(120, 1, 0, 1.0)])
    assert "| 6,000 tokens/s in one statistics line |" in text


def test_one_endpoint_needs_no_table() -> None:
    refused = ANSWER.replace("200 OK", "400 Bad Request")
    text = report([*START, statistics(120, 1, 0, 1.0), ANSWER, ANSWER, refused])
    assert "3 HTTP responses (POST `/v1/completions`): 2 with 200, 1 with 400." in text
    assert "| endpoint |" not in text


def test_a_count_of_posts_says_so() -> None:
    text = report([*START, statistics(120, 1, 0, 1.0), ANSWER, ANSWER.replace("completions", "embeddings")])
    assert "2 HTTP responses to POST requests: all 200." in text


def test_a_stream_that_failed_after_its_status_is_counted() -> None:
    head = "(APIServer pid=851) ERROR 05-01 10:02:11 [serving.py:495]"
    failed = [
        f"{head} Error in completion stream generator.",
        f"{head} Traceback (most recent call last):",
        f'{head}   File "/opt/vllm/entrypoints/openai/completion/serving.py", line 333, in stream',
        f"{head}     async for res in results:",
        f"{head} vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
    ]
    text = report([*START, statistics(120, 1, 0, 1.0), ANSWER, ANSWER, *failed, *failed])
    assert "2 HTTP responses (POST `/v1/completions`): all 200." in text
    assert re.search(r"2 streams failed after that \[L\d+, L\d+\]\.", text)


def test_a_line_with_tokens_and_no_running_request_is_one_with_requests() -> None:
    """Its requests began and ended between two lines."""
    line = statistics(120, 0, 0, 0.0)
    alone = report([*START, line, ANSWER])
    assert "Only short requests in the only statistics line with load: none was running at the end" in alone
    assert "| generation |" not in alone.partition("## ")[0]
    idle = re.sub(r"[\d.]+ tokens/s", "0.0 tokens/s", statistics(150, 0, 0, 0.0))
    text = report([*START, statistics(120, 1, 0, 1.0), statistics(130, 0, 0, 0.0), idle, ANSWER])
    assert "3 statistics lines, 1 without load." in text
    assert "no request waited in 2 statistics lines" in text.partition("\n")[0]


def test_a_curve_whose_columns_are_means_gives_their_height_beside_the_peak_of_the_lines() -> None:
    steady = [statistics(120 + 10 * n, 40, 0, 9.9) for n in range(180)]
    assert re.search(
        r"^running .*  up to 80$", report([*START, *steady[:30], statistics(420, 80, 0, 9.9)]), re.M
    )
    steady[90] = statistics(1020, 100, 0, 9.9)
    assert re.search(r"^running .*  means up to 60, peak 100$", report([*START, *steady]), re.M)


@pytest.mark.parametrize(
    ("warning", "said"),
    [
        ("Found duplicate keys --max-num-seqs, --seed", "its last value counts"),
        ("min_p and logit_bias parameters won't work with speculative decoding.", "min_p or logit_bias"),
        ("The following fields were present in the request but ignored: {'num_beams'}", "no effect on the answer"),
        (
            "Your GPU does not have native support for FP4 computation but FP4 quantization is being used. Weight-only FP4"
            " compression will be used leveraging the Marlin kernel.",
            "whatever the card can do",
        ),
        ("Add 4 padding layers, may waste at most 42.86% KV cache memory", "leaves up to this share of the KV memory unused"),
        (
            "In NVFP4 linear, the input global scale is different for parallel layers (e.g. q_proj, k_proj, v_proj). This  will likely"
            " result in reduced accuracy.",
            "outputs can be less accurate",
        ),
        (
            "Error in chat_completion_full_generator - cannot determine if tools should be extracted. Returning a standard chat completion.",
            "without tools",
        ),
        (
            "SECURITY WARNING: Development endpoints are enabled! This should NOT be used in production!",
            "VLLM_SERVER_DEV_MODE",
        ),
    ],
)  # fmt: skip
def test_a_warning_that_an_operator_can_act_on_is_shown_with_what_it_means(warning: str, said: str) -> None:
    line = f"(APIServer pid=1) WARNING 05-01 10:01:00 [utils.py:12] {warning}"
    section = report([*START, line, ANSWER]).partition("## Warnings in the log")[2].partition("\n## ")[0]
    assert said in section


def test_the_rate_of_a_prompt_of_a_minute_is_said_to_be_that_of_one_line() -> None:
    line = (
        "(APIServer pid=851) INFO 04-28 22:{:02}:{:02} [loggers.py:257] Engine 000: Avg prompt throughput: {} tokens/s, Avg generation"
        " throughput: {} tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: {}%, Prefix cache hit rate: 0.0%"
    )
    lines = [
        text
        for minute in range(10, 16)
        for text in (line.format(minute, 1, 0.0, 0.0, 4.0), line.format(minute, 51, 12000.0, 0.8, 2.0))
    ]
    text = report(lines)
    assert "120,000 tokens in about 50 s (2,400 tokens/s) are shown as 12,000 tokens/s [L2]" in text
    assert "No statistics lines" not in text


def test_a_quoted_statistics_line_shows_the_cache_that_its_finding_is_about() -> None:
    text = report([*START, *[statistics(second, 18, 43, 95.9) for second in range(120, 240, 10)]])
    evidence = next(line for line in text.splitlines() if line.startswith("- Evidence:"))
    assert "GPU KV cache usage: 95.9%" in evidence


def test_a_benchmark_for_a_load_that_few_lines_show_says_that_more_may_have_run_between_them() -> None:
    start = [one.replace("'max_num_seqs': 256", "'enforce_eager': True") for one in START]
    probes = [ANSWER.replace("POST /v1/completions", "GET /health")] * 60
    few = [*start, *probes, statistics(60, 1, 0, 0.1), *[ANSWER] * 5, statistics(70, 0, 0, 0.0)]
    words = "sends up to 1 request at once, the most in a statistics line (more may have run between two lines: 5 were answered), with"
    assert words in report(few)
    shown = [*start, *probes, statistics(60, 8, 0, 0.1), *[ANSWER] * 5, statistics(70, 0, 0, 0.0)]
    assert "sends up to 8 requests at once, as in this log, with" in report(shown)
