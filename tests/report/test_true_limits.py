"""Statements on limits and advice that reports on real logs got wrong, each on a small log of its own."""

from __future__ import annotations

import pytest

from tests.report.small_logs import ANSWER, START, decoding, report, statistics


@pytest.mark.parametrize(("running", "taken"), [(246, "at least 246 of the 256"), (256, "all 256")])
def test_slots_are_counted_as_the_statistics_lines_show_them(running: int, taken: str) -> None:
    lines = [statistics(second, running, 600, 20.0) for second in range(120, 240, 10)]
    assert f"{taken} max_num_seqs slots were taken" in report(START + lines)


def test_a_planned_figure_names_the_finding_by_its_title() -> None:
    """Levels of the run itself say what more requests at once bring."""
    levels = [
        statistics(120 + 10 * n, running, 0, running / 12)
        for n, running in enumerate((8, 16, 32, 64, 128) * 3)
    ]
    full = [statistics(280 + 10 * n, 256, 600, 22.0) for n in range(30)]
    text = report(START + levels + full)
    assert "scheduler-limit-not-memory" not in text


def test_a_limit_that_only_a_gpu_would_show_is_no_title_where_no_device_is_known() -> None:
    text = report([decoding(10 * number, 70.0 + number) for number in range(1, 6)])
    assert text.startswith("# LIMITED: slow decode steps")
    assert "No GPU needs that long" in text


@pytest.mark.parametrize(
    "warning",
    [
        "(EngineCore_DP0 pid=9) WARNING 05-01 10:00:45 [kv_cache.py:86] Using KV cache scaling factor 1.0 for fp8_e4m3. This may"
        " cause accuracy issues. Please make sure k/v_scale scaling factors are available in the fp8 checkpoint.",
        "(APIServer pid=1) WARNING 05-01 10:00:45 [serving_chat.py:86] No chat template provided. Chat API will not work.",
    ],
)
def test_a_warning_about_results_is_one_to_check_and_no_slower_code_path(warning: str) -> None:
    text = report([*START, warning, *[statistics(second, 20, 0, 9.9) for second in range(120, 240, 10)]])
    assert "| to check |" in text
    assert "Slower code paths" not in text


def test_offloaded_weights_are_named_as_the_limit_not_the_processor_of_the_host() -> None:
    """Each step copied 30 GiB of weights, and the report called the host's CPU the likely limit."""
    slow = [
        statistics(second, 1, 0, 0.8)
        .replace("generation throughput: 6000.0", "generation throughput: 0.1")
        .replace("prompt throughput: 13000.0", "prompt throughput: 0.0")
        for second in range(120, 240, 10)
    ]
    offloaded = [line.replace("'max_num_seqs': 256", "'cpu_offload_gb': 30.0") for line in START]
    text = report([*offloaded, *slow])
    assert text.startswith("# LIMITED: CPU offload of weights")
    assert "do not show why" not in text


def test_the_load_is_repeated_by_the_command_of_the_log() -> None:
    full = [statistics(second, 256, 600, 20.0) for second in range(120, 240, 10)]
    command = "vllm bench serve --model org/model --num-prompts 1000 --request-rate inf"
    text = report([*START, f"+ {command}", *full, *[ANSWER] * 300])
    assert f"Repeat the command of this log [L{len(START) + 1}] before and after, change" in text
    assert f"{command}\nlogdoctor compare" in text
    assert "--random-input-len" not in text


def test_changes_have_the_numbers_of_the_first_screen() -> None:
    """A burst of a minute in an hour: what the cache needs comes behind what the cards that idle cost."""
    cards = [f"{number}, NVIDIA H100, 65247 MiB, 535.86.10" for number in range(4)]
    burst = [statistics(second, 250, 700, 99.0) for second in range(120, 200, 10)]
    calm = [statistics(second, 5, 0, 1.0) for second in range(200, 3500, 10)]
    text = report([*cards, *START, *burst, *calm, *[ANSWER] * 300])
    first = text.split("\n1. **")[1].split("**")[0]
    assert first.lower() in text.split("### 1. ")[1].split("### 2. ")[0].lower()


def test_raising_the_cache_is_not_called_useless_where_it_is_nearly_full() -> None:
    """Sixteen requests of a device that makes one token per second and request, and a cache that fills."""
    head = "INFO 01-23 06:33:{:02} metrics.py:396] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 16.7 tokens/s, Running: 16 reqs,"
    gauges = " Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: {}%, CPU KV cache usage: 0.0%."
    for usage, avoided in {93.0: False, 23.0: True}.items():
        text = report([head.format(second) + gauges.format(usage) for second in range(30, 55, 5)])
        assert ("Avoid: raising capacity" in text) == avoided
        assert "the log shows neither the cause nor the device" in text


def test_a_gain_of_a_short_burst_is_one_range_for_the_lines_of_the_verdict_and_no_simulated_load() -> None:
    burst = [statistics(second, 256, 700, 8.0) for second in range(120, 150, 10)]
    calm = [statistics(second, 5, 0, 1.0) for second in range(150, 900, 10)]
    text = report([*START, *burst, *calm, *[ANSWER] * 300])
    assert "max_num_seqs (3 lines)" in text.split("## ")[0]
    assert "x generation throughput while requests queue (published" in text
    assert "busy time" not in text
    for simulated in (
        "over the run",
        "Expected effect",
        "requests at once, at most",
        "of the cache.",
        "With the changed settings the limit",
    ):
        assert simulated not in text
    assert "`Waiting` falls at the same load." in text


def test_a_command_without_the_flag_that_saves_its_result_gets_it() -> None:
    full = [statistics(second, 256, 600, 20.0) for second in range(120, 240, 10)]
    command = "vllm bench serve --model org/model --num-prompts 300 --result-filename a.json"
    text = report([*START, command, *full, *[ANSWER] * 300])
    assert f"{command} --save-result\n" in text
    assert "change one thing at a time, with another result file each time, and compare" in text
    assert "the benchmark writes no result file" in text


def test_the_key_of_a_server_is_a_variable_of_the_benchmark() -> None:
    full = [statistics(second, 256, 80, 20.0) for second in range(120, 240, 10)]
    guarded = [
        line.replace("'max_num_seqs': 256", "'max_num_seqs': 256, 'api_key': ['s3cr3t']") for line in START
    ]
    text = report([*guarded, *full, *[ANSWER] * 3000])
    assert 'OPENAI_API_KEY="$VLLM_API_KEY" vllm bench serve' in text
    assert "s3cr3t" not in text
    assert "--ignore-eos" in text
    assert "OPENAI_API_KEY" not in report([*START, *full, *[ANSWER] * 3000])


def test_a_benchmark_is_not_asked_to_send_more_requests() -> None:
    quiet = [statistics(second, 3, 0, 1.0) for second in range(120, 240, 10)]
    assert "Send twice as many requests at once" in report([*START, *quiet, *[ANSWER] * 50])
    command = "vllm bench serve --model org/model --num-prompts 50 --request-rate 1"
    text = report([*START, command, *quiet, *[ANSWER] * 50])
    assert "Send twice as many requests at once" not in text
    assert "come from a benchmark in this log" in text


def test_a_command_that_sent_a_part_of_the_load_repeats_that_part() -> None:
    command = (
        "vllm bench serve --model org/model --dataset-name random --num-prompts 100 --max-concurrency 200"
    )
    queue = [statistics(second, 256, 80, 40.0) for second in range(120, 240, 10)]
    assert "(100 of the 300 requests in the log), change" in report(
        [*START, command, *queue, *[ANSWER] * 300]
    )
    assert "] before and after, change one thing" in report([*START, command, *queue, *[ANSWER] * 100])


def test_commands_that_sent_fewer_requests_than_the_results_count_are_a_part() -> None:
    result = ["============ Serving Benchmark Result ============", "Successful requests:                     90        ", "Benchmark duration (s):                  12.5      "]  # fmt: skip
    eager = ["vllm serve org/model --enforce-eager", *[""] * 90]
    command = "vllm bench serve --model org/model --dataset-name random --num-prompts 90"
    assert "before and after (90 of the 180 requests in the log), change" in report(
        [*eager, command, *result, "", *result]
    )
    assert "] before and after, change one thing" in report([*eager, command, *result])


def test_lengths_are_not_computed_where_the_prefix_cache_holds_the_prompts() -> None:
    """Releases leave the tokens from the cache out of the prompt throughput: the mean prompt looks like a few tokens."""
    full = [statistics(second, 256, 80, 20.0) for second in range(120, 240, 10)]
    assert "--random-input-len 520" in report([*START, *full, *[ANSWER] * 3000])
    cached = [line.replace("hit rate: 0.0%", "hit rate: 99.5%") for line in full]
    assert "with lengths that you fill in" in report([*START, *cached, *[ANSWER] * 3000])


def test_a_limit_that_the_log_does_not_show_is_called_probable_in_the_first_lines() -> None:
    """A constant number of requests beside a queue: the value of max_num_seqs is in no line."""
    line = (
        "INFO 06-25 03:10:{second} [loggers.py:116] Engine 000: Avg prompt throughput: 300.0 tokens/s, Avg generation throughput: 3100.0 tokens/s,"
        " Running: 600 reqs, Waiting: 4475 reqs, GPU KV cache usage: 59.2%, Prefix cache hit rate: 0.0%"
    )
    text = report([line.format(second=second) for second in (10, 20, 30)])
    assert text.startswith("# LIMITED: max_num_seqs reached (probable)\n")
    assert "**Probably max_num_seqs reached" in text
    assert "- Confidence in this finding: medium." in text, "one scale: probable is no low confidence"
    assert "912 requests would fill about 90 % of the KV cache." in text
    known = "INFO 06-25 03:10:00 [utils.py:253] non-default args: {'model': 'org/m', 'max_num_seqs': 600}"
    text = report([known, *(line.format(second=second) for second in (10, 20, 30))])
    assert text.startswith("# LIMITED: max_num_seqs reached\n")


def test_requests_of_several_sequences_are_not_said_to_be_too_large_for_the_rest_of_the_cache() -> None:
    """Two requests at 7,000 tokens/s are many sequences: each counts against max_num_seqs."""
    line = (
        "INFO 10-28 11:16:{second} metrics.py:349] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 7100.0 tokens/s,"
        " Running: 2 reqs, Swapped: 0 reqs, Pending: 98 reqs, GPU KV cache usage: 86.1%, CPU KV cache usage: 0.0%."
    )
    text = report([line.format(second=second) for second in (30, 35, 40, 45)])
    assert "2 requests of several sequences each held up to 86.1 % of the KV cache" in text
    assert "has the same effect" not in text
    assert text.startswith("# LIMITED: Many sequences per request (probable)\n")
    assert "- Confidence in this finding: medium." in text
    assert "took all max_num_seqs slots" in text
    assert "free part" not in text
    assert "**Lower n, best_of or the beam width" in text
    assert "more cards" not in text


def test_no_benchmark_of_random_text_for_a_load_of_images() -> None:
    text = [statistics(second, 256, 80, 20.0) for second in range(120, 240, 10)]
    images = [f"{line}, MM cache hit rate: 10.0%" for line in text]
    assert "--dataset-name random" in report([*START, *text, *[ANSWER] * 3000])
    assert "--dataset-name" not in report([*START, *images, *[ANSWER] * 3000])


@pytest.mark.parametrize(("times", "shown"), [(1, True), (8, False)])
def test_limits_over_time_are_a_table_of_a_few_periods(times: int, shown: bool) -> None:
    waits = [256, 256, 256, 5, 5, 5, 5, 5, 5] * times
    lines = [
        statistics(120 + 10 * n, running, 700 if running > 5 else 0, 8.0) for n, running in enumerate(waits)
    ]
    text = report([*START, *lines, *[ANSWER] * 300])
    assert ("Limits over time:" in text) is shown
    assert ("| max_num_seqs reached |" in text) is shown


FORCED = (
    "(EngineCore_DP0 pid=9) INFO 05-01 10:00:12 [awq_marlin.py:162] Detected that the model can run with awq_marlin, however you"
    " specified quantization=awq explicitly, so forcing awq. Use quantization=awq_marlin for faster inference"
)
SLOW_KERNEL = "Slow quantization kernel forced by `--quantization`"


def single_stream(lines: int) -> list[str]:
    one = [statistics(120 + 10 * number, 1, 0, 0.8) for number in range(lines)]
    return [line.replace("13000.0", "0.0").replace("6000.0", "40.0") for line in one]


@pytest.mark.parametrize("lines", [0, 2])
def test_a_setting_whose_cost_no_load_shows_is_an_option_and_no_limit(lines: int) -> None:
    text = report([*START, FORCED, *single_stream(lines)])
    assert text.startswith(("# STARTED: no request in this log", "# NO FAILURE: no request waited"))
    assert f"({SLOW_KERNEL} [L8]" in text


def test_a_setting_that_slows_down_the_requests_of_the_log_is_named_as_the_limit() -> None:
    text = report([*START, FORCED, *single_stream(12)])
    assert text.startswith(f"# LIMITED: {SLOW_KERNEL}\n")
    assert "The client set the pace in all 12 statistics lines" in text.split("## ")[0]


def test_a_fallback_to_the_old_engine_limits_nothing_while_no_request_waits() -> None:
    fallback = "WARNING 05-01 10:00:05 [arg_utils.py:1731] --kv-cache-dtype is not supported by the V1 Engine. Falling back to V0."
    old = [line.replace("0.15.1", "0.8.5") for line in [*START[:2], fallback, *START[3:], *single_stream(12)]]
    text = report(old)
    assert text.startswith("# HEALTHY\n")
    assert "(Fallback to the V0 engine" in text
