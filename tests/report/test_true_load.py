"""Statements on load, memory and release that reports on real logs got wrong, each on a small log of its own."""

from __future__ import annotations

import re

import pytest

import vllm_logdoctor

ARGUMENTS = "(APIServer pid=1) INFO 05-01 10:00:01 [utils.py:233] non-default args: {'model': 'org/model', 'max_num_seqs': 256}"
START = [
    "(APIServer pid=1) INFO 05-01 10:00:00 [api_server.py:1043] vLLM API server version 0.15.1",
    ARGUMENTS,
    "(EngineCore_DP0 pid=9) INFO 05-01 10:00:10 [core.py:77] Initializing a V1 LLM engine (v0.15.1) with config:"
    " model='org/model', dtype=torch.bfloat16, max_seq_len=4096, tensor_parallel_size=1, device_config=cuda",
    "(EngineCore_DP0 pid=9) INFO 05-01 10:00:40 [gpu_model_runner.py:4130] Model loading took 27.57 GiB memory and 27.4 seconds",
    "(EngineCore_DP0 pid=9) INFO 05-01 10:00:50 [gpu_worker.py:356] Available KV cache memory: 27.95 GiB",
    "(EngineCore_DP0 pid=9) INFO 05-01 10:00:50 [kv_cache_utils.py:1307] GPU KV cache size: 152,624 tokens",
    "(APIServer pid=1) INFO:     Application startup complete.",
]
ANSWER = '(APIServer pid=1) INFO:     127.0.0.1:40004 - "POST /v1/completions HTTP/1.1" 200 OK'


def statistics(second: int, running: int, waiting: int, kv: float) -> str:
    return (
        f"(APIServer pid=1) INFO 05-01 10:{second // 60:02}:{second % 60:02} [loggers.py:257] Engine 000: Avg prompt throughput:"
        f" 13000.0 tokens/s, Avg generation throughput: 6000.0 tokens/s, Running: {running} reqs, Waiting: {waiting} reqs,"
        f" GPU KV cache usage: {kv}%, Prefix cache hit rate: 0.0%"
    )


def report(lines: list[str]) -> str:
    return vllm_logdoctor.analyze(lines).to_markdown()


def test_the_memory_that_nvidia_smi_lists_is_that_of_the_device() -> None:
    """The usual sizes of cards hold 79.2 GiB as the next one for this engine, the card of the log has 63.7."""
    full = [statistics(second, 120, 80, 99.9) for second in range(120, 240, 10)]
    cards = [f"{number}, NVIDIA H100, 65247 MiB, 535.86.10" for number in range(4)]
    text = report([*cards, *START, *full, *[ANSWER] * 300])
    assert "79.2 GiB" not in text
    assert "GiB usable, estimated from the 63.7 GiB that nvidia-smi prints" in text


def test_a_listed_card_that_is_too_small_for_the_engine_is_another_one() -> None:
    full = [statistics(second, 120, 80, 99.9) for second in range(120, 240, 10)]
    text = report(["0, NVIDIA L4, 23034 MiB, 550.54.15", *START, *full, *[ANSWER] * 300])
    assert "79.2 GiB" in text
    assert "22.5 GiB on the device" not in text


@pytest.mark.parametrize(("running", "taken"), [(246, "at least 246 of the 256"), (256, "all 256")])
def test_slots_are_counted_as_the_statistics_lines_show_them(running: int, taken: str) -> None:
    lines = [statistics(second, running, 600, 20.0) for second in range(120, 240, 10)]
    assert f"{taken} max_num_seqs slots were taken" in report(START + lines)


def test_the_cache_of_several_kinds_of_layers_is_measured_in_requests() -> None:
    """The printed tokens count the blocks of all kinds; the printed concurrency says how much fits."""
    fits = "(EngineCore_DP0 pid=9) INFO 05-01 10:00:50 [kv_cache_utils.py:1312] Maximum concurrency for 4,096 tokens per request: {}x"
    assert "152,624 tokens, " in report([*START, fits.format("37.26"), statistics(60, 1, 0, 1.0)])
    text = report([*START, fits.format("74.52"), statistics(60, 1, 0, 1.0)])
    assert "| 74.52 requests of 4,096 tokens, " in text
    assert "152,624 tokens [L6] if every layer kept all of them" in text


def test_the_length_of_a_log_is_that_between_its_first_and_last_time() -> None:
    slow = (
        "INFO 06-25 03:10:{:02} [metrics.py:540] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 73.0 tokens/s,"
        " Running: 32 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 28.1%, CPU KV cache usage: 0.0%."
    )
    text = report([slow.format(second) for second in (10, 19, 27, 36, 44)])
    assert " · log of 34 s · still running" in text
    assert "in all 5 statistics lines with load" in text


def test_a_period_without_a_running_request_is_not_said_to_hold_up_to_0() -> None:
    """Short requests begin and end between two lines."""
    lines = [statistics(second, 0, 0, 0.0) for second in range(120, 240, 10)]
    full = [statistics(second, 256, 600, 20.0) for second in range(240, 360, 10)]
    text = report([*START, *lines, *full, *[ANSWER] * 300])
    assert "up to 0 running" not in text
    assert "each request ended before the next statistics line" in text


def test_a_release_that_several_fit_is_a_range() -> None:
    """Both lines stand at the same place in the sources of several releases."""
    lines = [
        "INFO 08-30 03:22:42 multiproc_worker_utils.py:136] Terminating local vLLM worker processes",
        "(VllmWorkerProcess pid=9476) INFO 08-30 03:22:42 multiproc_worker_utils.py:237] Worker exiting",
    ]
    text = report(lines)
    assert "vLLM 0.5.0 to 0.6.1.post2 (from the source line numbers in the log)" in text
    assert "Exact vLLM release: run `pip show vllm`." in text


def test_seconds_of_a_short_batch_keep_their_fraction() -> None:
    bar = "Processed prompts: 100%|█████| 1/1 [00:01<00:00,  1.52s/it, est. speed input: 1192.65 toks/s, output: 26.96 toks/s]"
    text = report(
        [bar, "INFO 08-30 03:22:42 multiproc_worker_utils.py:136] Terminating local vLLM worker processes"]
    )
    assert "1 prompt completed in 1.5 s," in text
    assert "keep the engine core's lines" not in text


def test_a_planned_figure_names_the_finding_by_its_title() -> None:
    """Levels of the run itself say what more requests at once bring."""
    levels = [
        statistics(120 + 10 * n, running, 0, running / 12)
        for n, running in enumerate((8, 16, 32, 64, 128) * 3)
    ]
    full = [statistics(280 + 10 * n, 256, 600, 22.0) for n in range(30)]
    text = report(START + levels + full)
    assert "scheduler-limit-not-memory" not in text


def test_the_time_of_generated_tokens_is_that_in_which_they_were_counted() -> None:
    """The tokens of the first line were generated before the stretch began."""
    line = "(APIServer pid=851) INFO 04-28 22:54:{:02} [loggers.py:257] Engine 000: Avg prompt throughput: 0.0 tokens/s,"
    gauges = " Avg generation throughput: 54.0 tokens/s, Running: 1 reqs, Waiting: 14 reqs, GPU KV cache usage: {}%, Prefix cache hit rate: 0.0%"
    lines = [
        line.format(second) + gauges.format(usage) for second, usage in ((32, 30.0), (42, 30.4), (52, 30.9))
    ]
    assert "generated 1,080 tokens in 20 s" in report(lines)


def decoding(second: int, kv: float) -> str:
    return (
        f"INFO 01-23 06:33:{second:02} metrics.py:396] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 16.7 tokens/s,"
        f" Running: 16 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: {kv}%, CPU KV cache usage: 0.0%."
    )


def test_the_first_line_of_an_excerpt_is_judged_as_the_next_one_of_the_same_load() -> None:
    text = report([decoding(10 * number, 70.0 + number) for number in range(1, 6)])
    assert "in all 5 statistics lines with load" in text
    assert "Otherwise limited" not in text
    assert "each got at most 1.04 tokens/s" in text


def test_a_limit_that_only_a_gpu_would_show_is_no_title_where_no_device_is_known() -> None:
    text = report([decoding(10 * number, 70.0 + number) for number in range(1, 6)])
    assert text.startswith("# LIMITED: slow decode steps")
    assert "so on a GPU the step waits" in text


def test_failed_requests_alone_are_no_limit_of_the_server() -> None:
    text = report([*START, ANSWER.replace("200 OK", "500 Internal Server Error")])
    assert text.startswith("# REQUEST FAILED: the only one answered")
    text = report([*START, *[ANSWER.replace("200 OK", "500 Internal Server Error")] * 3])
    assert text.startswith("# REQUESTS FAILED: no request succeeded")


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


def test_failed_requests_are_in_the_first_sentence_and_come_before_a_slow_start() -> None:
    """Five of 45 requests failed, and the first screen spoke of a slow start alone."""
    failed = ANSWER.replace("200 OK", "500 Internal Server Error")
    slow = "(EngineCore_DP0 pid=9) INFO 05-01 10:00:39 [default_loader.py:268] Loading weights took 300.00 seconds"
    text = report([*START[:3], slow, *START[3:], *[ANSWER] * 40, *[failed] * 5])
    assert "**5 of 45 POST requests (11.1 %) got a server error (HTTP 5xx)" in text
    assert text.index("11 % of requests answered with HTTP 5xx") < text.index("Slow start-up")


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
    assert "the host (CPU) is the likely limit" not in text


def test_the_load_is_repeated_by_the_command_of_the_log() -> None:
    full = [statistics(second, 256, 600, 20.0) for second in range(120, 240, 10)]
    command = "vllm bench serve --model org/model --num-prompts 1000 --request-rate inf"
    text = report([*START, f"+ {command}", *full, *[ANSWER] * 300])
    assert f"Send the load before and after with the command of this log [L{len(START) + 1}]" in text
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


def test_a_hit_rate_is_not_shown_of_a_cache_that_is_off() -> None:
    off = ARGUMENTS.replace("'max_num_seqs': 256", "'enable_prefix_caching': False")
    lines = [statistics(second, 4, 0, 1.0) for second in range(120, 240, 10)]
    assert "Prefix cache hit rate 0 % at the end" in report([*START, *lines])
    assert "Prefix cache hit rate 0 % at the end" not in report([START[0], off, *START[2:], *lines])


def test_raising_the_cache_is_not_called_useless_where_it_is_nearly_full() -> None:
    """Sixteen requests of a device that makes one token per second and request, and a cache that fills."""
    head = "INFO 01-23 06:33:{:02} metrics.py:396] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 16.7 tokens/s, Running: 16 reqs,"
    gauges = " Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: {}%, CPU KV cache usage: 0.0%."
    for usage, avoided in {93.0: False, 23.0: True}.items():
        text = report([head.format(second) + gauges.format(usage) for second in range(30, 55, 5)])
        assert ("Avoid: raising capacity" in text) == avoided
        assert "the log shows neither the cause nor the device" in text


def test_the_interval_before_the_log_is_no_part_of_its_length() -> None:
    head = "INFO 10-26 02:48:{:02} llm_engine.py:624] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 950.0 tokens/s,"
    gauges = " Running: 18 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 9.0%, CPU KV cache usage: 0.0%"
    lines = [head.format(second) + gauges for second in range(25, 55, 5)]
    text = report(["$ vllm serve org/m --max-model-len 8192", *lines])
    assert " · log of 25 s · " in text
    assert "6 statistics lines.\n" in text
    assert "KV cache size: keep the log from its first line." in text
    assert "in all 6 statistics lines with load" in text


def test_a_gain_of_a_short_burst_is_one_range_with_the_share_of_the_time_and_no_simulated_load() -> None:
    burst = [statistics(second, 256, 700, 8.0) for second in range(120, 150, 10)]
    calm = [statistics(second, 5, 0, 1.0) for second in range(150, 900, 10)]
    text = report([*START, *burst, *calm, *[ANSWER] * 300])
    assert re.search(r"x generation throughput in 3\.\d+ % of the busy time \(published", text)
    for simulated in (
        "over the run",
        "Expected effect",
        "requests at once, at most",
        "of the cache.",
        "With the changed settings the limit",
    ):
        assert simulated not in text
    assert "`Waiting` falls at the same load." in text


def test_no_rate_per_request_where_most_requests_ended_within_the_interval() -> None:
    """37 requests made the tokens of an interval at whose end one ran."""
    burst = [statistics(120, 37, 0, 2.9), statistics(130, 1, 0, 0.2), statistics(140, 0, 0, 0.0)]
    assert "per request" not in report([*START, *burst, *[ANSWER] * 37])


def test_the_rate_per_request_is_that_of_lines_with_as_many_requests_as_before() -> None:
    steady = [statistics(second, 100, 0, 9.9) for second in range(120, 240, 10)]
    assert "60 per request at steady load (median)" in report([*START, *steady, statistics(240, 1, 0, 0.1)])


def test_no_rate_per_request_of_a_few_lines() -> None:
    steady = [statistics(second, 100, 0, 9.9) for second in range(120, 180, 10)]
    assert "per request" not in report([*START, *steady])


@pytest.mark.parametrize(("levels", "said"), [((100, 100, 100), True), ((4, 30, 100), False)])
def test_no_rate_per_request_over_a_sweep_of_loads(levels: tuple[int, ...], said: bool) -> None:
    steps = [statistics(120 + 10 * n, levels[n // 20], 0, 9.9) for n in range(60)]
    assert ("per request at steady load" in report([*START, *steps])) is said


def test_two_statistics_lines_do_not_show_who_set_the_pace() -> None:
    few, more = ([statistics(second, 4, 0, 0.5) for second in range(100, 100 + 10 * n, 10)] for n in (2, 6))
    text = report([*START, *few])
    assert "**No request waited in both statistics lines with load [" in text
    assert text.startswith("# NO FAILURE: no request waited in 2 statistics lines")
    assert "| up to 4 running, queue empty |" in text
    assert "2 statistics lines.\n\n| time | generation" in text
    assert "| mean |" not in text
    assert "Limited by the client" not in text
    assert "max_num_seqs (256" not in text
    assert "the client set the pace" in report([*START, *more])


def test_the_flash_attention_of_a_draft_model_is_not_the_models() -> None:
    """The model runs on another backend, the small model that drafts for it on FlashAttention."""
    flash = "(EngineCore_DP0 pid=9) INFO 05-01 10:00:41 [flash_attn.py:598] Using FlashAttention version 2"
    other, own = (
        f"(EngineCore_DP0 pid=9) INFO 05-01 10:00:11 [cuda.py:275] Using {name} attention backend out of potential backends: ['{name}']."
        for name in ("TRITON_ATTN", "FLASH_ATTN")
    )
    assert "| FlashAttention | 2 |" not in report([*START[:3], other, *START[3:4], flash, *START[4:]])
    assert "| FlashAttention | 2 |" in report([*START[:3], own, *START[3:4], flash, *START[4:]])


def test_a_command_without_the_flag_that_saves_its_result_gets_it() -> None:
    full = [statistics(second, 256, 600, 20.0) for second in range(120, 240, 10)]
    command = "vllm bench serve --model org/model --num-prompts 300 --result-filename a.json"
    text = report([*START, command, *full, *[ANSWER] * 300])
    assert f"{command} --save-result\n" in text
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
    assert "Send 100 of the 300 requests before and after with the command of this log" in report(
        [*START, command, *queue, *[ANSWER] * 300]
    )
    assert "Send the load before and after with the command of this log" in report(
        [*START, command, *queue, *[ANSWER] * 100]
    )


def test_commands_that_sent_fewer_requests_than_the_results_count_are_a_part() -> None:
    result = ["============ Serving Benchmark Result ============", "Successful requests:                     90        ", "Benchmark duration (s):                  12.5      "]  # fmt: skip
    eager = ["vllm serve org/model --enforce-eager", *[""] * 90]
    command = "vllm bench serve --model org/model --dataset-name random --num-prompts 90"
    assert "Send 90 of the 180 requests before and after with the command" in report(
        [*eager, command, *result, "", *result]
    )
    assert "Send the load before and after with the command" in report([*eager, command, *result])


@pytest.mark.parametrize(("engines", "servers", "set_by_hand"), [(1, 1, False), (4, 4, False), (1, 3, True)])
def test_the_number_of_api_servers_that_vllm_fills_in_is_no_argument(
    engines: int, servers: int, set_by_hand: bool
) -> None:
    """Before it prints what differs from the defaults, vLLM sets the number of API servers to that of engines."""
    printed = ARGUMENTS.replace("{", f"{{'api_server_count': {servers}, 'data_parallel_size': {engines}, ")
    text = report([START[0], printed, *START[2:]])
    assert ("api_server_count" in text) == set_by_hand


def test_a_number_of_engines_that_is_null_costs_nothing() -> None:
    printed = ARGUMENTS.replace("{", "{'data_parallel_size': None, ")
    text = report([START[0], printed, *START[2:]])
    assert "defect" not in text
    assert "org/model" in text


def test_the_mean_of_a_burst_and_a_quiet_load_stands_beside_the_median() -> None:
    quiet = statistics(60, 1, 0, 1.0).replace("6000.0", "100.0")
    burst = [statistics(second, 90, 0, 20.0) for second in (70, 80)]
    assert " tokens/s mean, 100 median, 6,000 peak" in report([*START, *[quiet] * 8, *burst])
    assert " median, " not in report([*START, *burst])


def test_an_argument_of_an_untagged_build_is_kept_where_the_log_prints_only_what_was_set() -> None:
    untagged = [line.replace("version 0.15.1", "version 0.1.dev18496+gd4e0675a7") for line in START]
    untagged = [line.replace("(v0.15.1)", "(v0.1.dev18496+gd4e0675a7)") for line in untagged]
    set_here = "'max_num_seqs': 4, 'async_scheduling': False}"
    full = [statistics(second, 4, 80, 2.0) for second in range(120, 240, 10)]
    text = report([*(line.replace("'max_num_seqs': 256}", set_here) for line in untagged), *full])
    assert "--no-async-scheduling" in text


@pytest.mark.parametrize(("option", "modified"), [("own_cache", True), ("max_num_seqs", False)])
def test_a_build_with_options_that_no_release_has_is_called_modified(option: str, modified: bool) -> None:
    text = report(
        [
            "INFO 01-06 15:46:27 api_server.py:647] vLLM API server version 0.23.1rc1.dev12+gd08eebad1.d20260717",
            f"INFO 01-06 15:46:27 api_server.py:648] non-default args: {{'model': 'org/m', '{option}': 3}}",
        ]
    )
    assert ("d20260717 (modified)" in text) is modified
    assert ("| modified: options that no release has | `--own-cache` | [L2] |" in text) is modified


def test_a_part_of_two_compilations_is_shown_below_the_nearer_one() -> None:
    """The tracing of a draft model begins, by clocks of whole seconds, before its compilation does."""
    compiled = [
        "(EngineCore_DP0 pid=9) INFO 05-01 10:00:42 [backends.py:1155] Dynamo bytecode transform time: 1.20 s",
        "(EngineCore_DP0 pid=9) INFO 05-01 10:00:44 [monitor.py:53] torch.compile took 3.40 s in total",
        "(EngineCore_DP0 pid=9) INFO 05-01 10:00:47 [backends.py:1155] Dynamo bytecode transform time: 0.70 s",
        "(EngineCore_DP0 pid=9) INFO 05-01 10:00:49 [monitor.py:53] torch.compile took 2.00 s in total",
    ]
    text = report([*START[:4], *compiled, *START[4:]])
    [rows] = [part.split("\n\n")[0] for part in text.split("| phase |")[1:]]
    assert rows.index("| 2 s |") < rows.index("0.7 s")


def test_lengths_are_not_computed_where_the_prefix_cache_holds_the_prompts() -> None:
    """Releases leave the tokens from the cache out of the prompt throughput: the mean prompt looks like a few tokens."""
    full = [statistics(second, 256, 80, 20.0) for second in range(120, 240, 10)]
    assert "--random-input-len 520" in report([*START, *full, *[ANSWER] * 3000])
    cached = [line.replace("hit rate: 0.0%", "hit rate: 99.5%") for line in full]
    assert "fill in your own lengths" in report([*START, *cached, *[ANSWER] * 3000])


def test_the_tokens_of_a_step_are_proved_by_the_line_that_holds_in_the_end() -> None:
    default = (
        "INFO 05-01 09:59:59 [scheduler.py:216] Chunked prefill is enabled with max_num_batched_tokens=2048."
    )
    own = "(APIServer pid=1) INFO 05-01 10:00:02 [scheduler.py:216] Chunked prefill is enabled with max_num_batched_tokens=8192."
    engine = START[2].replace("device_config=cuda", "device_config=cuda, enable_chunked_prefill=True")
    text = report([default, *START[:2], own, engine, *START[3:], statistics(120, 1, 0, 1.0)])
    assert "chunked prefill (on) [L4 and 1 more]" in text


def test_graphs_that_seem_to_free_memory_are_shown_without_it() -> None:
    captured = "(EngineCore_DP0 pid=9) INFO 05-01 10:00:52 [gpu_model_runner.py:4244] Graph capturing finished in 4 secs, took {} GiB"
    assert "CUDA graphs (captured in 4 s)" in report([*START, captured.format("-0.41")])
    assert "CUDA graphs (captured in 4 s, 0.41 GiB)" in report([*START, captured.format("0.41")])


def test_a_limit_that_the_log_does_not_show_is_called_probable_in_the_first_lines() -> None:
    """A constant number of requests beside a queue: the value of max_num_seqs is in no line."""
    line = (
        "INFO 06-25 03:10:{second} [loggers.py:116] Engine 000: Avg prompt throughput: 300.0 tokens/s, Avg generation throughput: 3100.0 tokens/s,"
        " Running: 600 reqs, Waiting: 4475 reqs, GPU KV cache usage: 59.2%, Prefix cache hit rate: 0.0%"
    )
    text = report([line.format(second=second) for second in (10, 20, 30)])
    assert text.startswith("# LIMITED: max_num_seqs reached (probable)\n")
    assert "**Probably max_num_seqs reached" in text
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
    assert "**Lower n, best_of or the beam width" in text


@pytest.mark.parametrize(("second", "empty"), [("", True), (" Paris", False)])
def test_a_batch_whose_printed_outputs_are_all_empty_is_not_called_healthy(second: str, empty: bool) -> None:
    bar = "Processed prompts: 100%|██████████| 2/2 [00:00<00:00,  8.93it/s, est. speed input: 17.86 toks/s, output: 35.72 toks/s]"
    text = report(
        [bar, "Prompt: 'Hello', Generated text: ''", f"Prompt: 'The capital', Generated text: '{second}'"]
    )
    assert text.startswith("# TO CHECK: every printed output is empty") is empty
    assert ("**Every output that the program printed is empty. 2 prompts completed" in text) is empty


@pytest.mark.parametrize(("prompt", "running", "hole"), [(0.0, 1, True), (90.0, 1, False), (90.0, 0, False)])
def test_a_hole_in_the_log_is_no_idle_time(prompt: float, running: int, hole: bool) -> None:
    """An idle engine prints nothing; a line with a request and without its prompt shows that lines are missing before it."""
    before = [statistics(second, 0, 0, 0.0) for second in (100, 110)]
    behind = statistics(290, running, 0, 33.4).replace(
        "prompt throughput: 13000.0", f"prompt throughput: {prompt}"
    )
    after = [statistics(second, 0, 0, 0.0) for second in (300, 310, 320)]
    text = report([*START, *before, behind, *after])
    assert (
        "No statistics lines from 10:01:50 to 10:04:40, with requests running on both sides" in text
    ) is hole


def test_lines_of_less_than_a_minute_show_who_set_the_pace_where_they_agree() -> None:
    line = "INFO 10-26 02:48:{:02} llm_engine.py:624] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 950.0 tokens/s,"
    gauges = " Running: 18 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 9.0%, CPU KV cache usage: 0.0%"
    few, enough = (report([line.format(2 + 5 * n) + gauges for n in range(count)]) for count in (5, 6))
    assert few.startswith("# NO FAILURE: no request waited in 5 statistics lines")
    assert "18 requests at once in all 5 statistics lines, 950 tokens/s: the client set the pace" in few
    assert "the client set the pace" in enough
    ended = report(
        [line.format(2) + gauges, line.format(7) + gauges, line.format(12) + gauges.replace("18", "0")]
    )
    assert "No request waited in all 3 statistics lines with load" in ended
    assert "the client set the pace" not in ended


def test_one_statistics_line_has_neither_a_mean_nor_a_peak() -> None:
    text = report([*START, statistics(120, 1, 0, 1.0)])
    assert "| 6,000 tokens/s in one statistics line |" in text


def test_one_endpoint_needs_no_table() -> None:
    refused = ANSWER.replace("200 OK", "400 Bad Request")
    text = report([*START, statistics(120, 1, 0, 1.0), ANSWER, ANSWER, refused])
    assert "3 answered requests (POST `/v1/completions`): 2 with 200, 1 with 400." in text
    assert "| endpoint |" not in text


@pytest.mark.parametrize(("concurrency", "held"), [("188.68", "188.68"), ("12.90", "12.9"), ("6.47", "6.47")])
def test_requests_that_the_cache_holds_are_those_that_the_log_prints(concurrency: str, held: str) -> None:
    line = f"(EngineCore_DP0 pid=9) INFO 05-01 10:00:50 [kv_cache_utils.py:1312] Maximum concurrency for 4,096 tokens per request: {concurrency}x"
    assert f"{held} requests of 4,096 tokens at once" in report([*START[:-1], line, START[-1]])


def test_an_exit_hook_of_the_server_is_no_client() -> None:
    hook = [
        "Traceback (most recent call last):",
        '  File "/usr/lib/python3.12/weakref.py", line 666, in _exitfunc',
        "    f()",
        '  File "/usr/local/lib/python3.12/dist-packages/torch/library.py", line 663, in _del_library',
        "    _clear_torch_ops_cache(op_defs)",
        "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xd2 in position 181: invalid continuation byte",
    ]
    client = [
        "Traceback (most recent call last):",
        '  File "/home/me/evaluate.py", line 12, in <module>',
        "    data = load(name)",
        "ValueError: Expected at least one tool call",
    ]
    served = [*START, statistics(120, 4, 0, 3.0), ANSWER]
    assert "A client of the server failed" in report([*served, *client, ANSWER])
    for prefix in ("", "(APIServer pid=1) "):
        assert "A client of the server failed" not in report(
            [*served, *(prefix + line for line in hook), ANSWER]
        )


def test_no_benchmark_of_random_text_for_a_load_of_images() -> None:
    text = [statistics(second, 256, 80, 20.0) for second in range(120, 240, 10)]
    images = [f"{line}, MM cache hit rate: 10.0%" for line in text]
    assert "--dataset-name random" in report([*START, *text, *[ANSWER] * 3000])
    assert "--dataset-name" not in report([*START, *images, *[ANSWER] * 3000])


def test_a_line_with_tokens_and_no_running_request_is_one_with_requests() -> None:
    """Its requests began and ended between two lines."""
    line = statistics(120, 0, 0, 0.0)
    assert "No request waited in the only statistics line with load" in report([*START, line, ANSWER])
    idle = re.sub(r"[\d.]+ tokens/s", "0.0 tokens/s", statistics(150, 0, 0, 0.0))
    text = report([*START, statistics(120, 1, 0, 1.0), statistics(130, 0, 0, 0.0), idle, ANSWER])
    assert "3 statistics lines, 1 without load." in text
    assert "no request waited in 2 statistics lines" in text.partition("\n")[0]


def test_a_run_whose_transfers_fail_again_and_again_is_not_called_healthy() -> None:
    failed = "(EngineCore_DP0 pid=9) ERROR 05-01 10:01:{}0 [nixl_connector.py:1830] NIXL transfer failure: xfer_state=ERR | Context: {{'req_id': 'cmpl-{}'}}"
    load = [statistics(60 + 10 * n, 2, 0, 1.0) for n in range(8)]
    once, often = (report([*START, *load, *[failed.format(n, n) for n in range(count)]]) for count in (1, 4))
    assert once.startswith("# HEALTHY")
    assert "KV transfers failed" in once
    assert often.startswith("# TO CHECK: KV transfers failed")


def test_a_shutdown_that_kills_processes_is_no_clean_one() -> None:
    stop = [
        "(APIServer pid=1) INFO 05-01 10:03:00 [launcher.py:100] [shutdown] API server: shutdown triggered",
        "(APIServer pid=1) INFO:     Shutting down",
        "(APIServer pid=1) INFO:     Application shutdown complete.",
    ]
    forced = "(APIServer pid=1) WARNING 05-01 10:03:00 [utils.py:626] [shutdown] Process manager: force killing remaining processes count=1"
    served = [*START, statistics(120, 1, 0, 1.0), ANSWER]
    clean, killed = (report([*served, stop[0], *more, *stop[1:]]) for more in ([], [forced]))
    assert "clean shutdown" in clean
    assert "clean shutdown" not in killed
    assert "stopped, remaining processes killed" in killed


@pytest.mark.parametrize(("line", "logged"), [("metrics.py:229", True), ("metrics.py:334", False)])
def test_only_releases_that_log_preemptions_log_one_in_fifty(line: str, logged: bool) -> None:
    version = "0.4.3" if logged else "0.4.2"
    start = f"INFO 05-01 09:55:00 llm_engine.py:100] Initializing an LLM engine (v{version}) with config: model='org/model', dtype=torch.float16, max_seq_len=4096, tensor_parallel_size=1"
    text = (
        "INFO 05-01 09:55:{:02} {}] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 2100.0 tokens/s,"
        " Running: {} reqs, Swapped: 0 reqs, Pending: {} reqs, GPU KV cache usage: 99.9%, CPU KV cache usage: 0.0%"
    )
    full = [text.format(30 + 5 * n, line, 247 - 7 * n, 740 + 7 * n) for n in range(5)]
    found = report([start, *full])
    assert "Preempted requests return to the queue" in found
    assert ("one preemption in fifty" in found) is logged


def test_an_answer_that_a_crash_broke_off_is_not_called_answered() -> None:
    """The status is logged when an answer begins."""
    died = [
        "(EngineCore_DP0 pid=9) ERROR 05-01 10:02:05 [core.py:710] EngineCore encountered a fatal error.",
        "(EngineCore_DP0 pid=9) ERROR 05-01 10:02:05 [core.py:710] Traceback (most recent call last):",
        '(EngineCore_DP0 pid=9) ERROR 05-01 10:02:05 [core.py:710]   File "/usr/lib/vllm/v1/engine/core.py", line 701, in run_engine_core',
        "(EngineCore_DP0 pid=9) ERROR 05-01 10:02:05 [core.py:710] RuntimeError: CUDA error: an illegal memory access was encountered",
    ]
    served = [*START, statistics(120, 1, 0, 1.0), ANSWER, ANSWER]
    said = "A status is logged when the answer begins"
    assert said not in report(served)
    assert said in report([*served, *died])
