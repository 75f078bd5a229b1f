"""Statements on memory, release, settings and outcome that reports on real logs got wrong, each on a small log of its own."""

from __future__ import annotations

import pytest

from tests.report.small_logs import ANSWER, ARGUMENTS, START, report, statistics


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


def test_the_cache_of_several_kinds_of_layers_is_measured_in_requests() -> None:
    """The printed tokens count the blocks of all kinds; the printed concurrency says how much fits."""
    fits = "(EngineCore_DP0 pid=9) INFO 05-01 10:00:50 [kv_cache_utils.py:1312] Maximum concurrency for 4,096 tokens per request: {}x"
    assert "152,624 tokens, " in report([*START, fits.format("37.26"), statistics(60, 1, 0, 1.0)])
    text = report([*START, fits.format("74.52"), statistics(60, 1, 0, 1.0)])
    assert "| 74.52 requests of 4,096 tokens, " in text
    assert "152,624 tokens [L6], counted as if every layer kept all of them" in text


def test_the_length_of_a_log_is_that_between_its_first_and_last_time() -> None:
    slow = (
        "INFO 06-25 03:10:{:02} [metrics.py:540] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 73.0 tokens/s,"
        " Running: 32 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 28.1%, CPU KV cache usage: 0.0%."
    )
    text = report([slow.format(second) for second in (10, 19, 27, 36, 44)])
    assert text.splitlines()[2].endswith(" · log of 34 s · end not in the log")
    assert "in all 5 statistics lines with load" in text


def test_a_release_that_several_fit_is_a_range() -> None:
    """Both lines are at the same place in the sources of several releases."""
    lines = [
        "INFO 08-30 03:22:42 multiproc_worker_utils.py:136] Terminating local vLLM worker processes",
        "(VllmWorkerProcess pid=9476) INFO 08-30 03:22:42 multiproc_worker_utils.py:237] Worker exiting",
    ]
    text = report(lines)
    assert "vLLM 0.5.0 to 0.6.1.post2 (inferred from the prefixes of the log's lines)" in text
    assert "Exact vLLM release: run `pip show vllm`." in text


@pytest.mark.parametrize(
    ("folder", "said"), [("/opt/venv/lib/python3.10/site-packages", False), ("/srv/vllm-main", True)]
)
def test_a_release_told_by_lines_may_be_a_source_build_where_frames_lie_in_a_source_tree(
    folder: str, said: bool
) -> None:
    lines = [
        "INFO 08-30 03:22:42 multiproc_worker_utils.py:136] Terminating local vLLM worker processes",
        "(VllmWorkerProcess pid=9476) INFO 08-30 03:22:42 multiproc_worker_utils.py:237] Worker exiting",
        "Traceback (most recent call last):",
        f'  File "{folder}/vllm/engine/llm_engine.py", line 331, in __init__',
        "    self.model_executor = executor_class(",
        "ValueError: no such executor",
    ]
    assert (", or a source build of that time (inferred" in report(lines)) is said


def test_seconds_of_a_short_batch_keep_their_fraction() -> None:
    bar = "Processed prompts: 100%|█████| 1/1 [00:01<00:00,  1.52s/it, est. speed input: 1192.65 toks/s, output: 26.96 toks/s]"
    text = report(
        [bar, "INFO 08-30 03:22:42 multiproc_worker_utils.py:136] Terminating local vLLM worker processes"]
    )
    assert "1 prompt completed in 1.5 s," in text
    assert text.count("completed in") == 1  # The section has only what the verdict leaves out.
    assert "1,193 input tokens/s" in text
    assert "keep the engine core's lines" not in text


def test_failed_requests_alone_are_no_limit_of_the_server() -> None:
    text = report([*START, ANSWER.replace("200 OK", "500 Internal Server Error")])
    assert text.startswith("# REQUEST FAILED: the only answered one to the model")
    text = report([*START, *[ANSWER.replace("200 OK", "500 Internal Server Error")] * 3])
    assert text.startswith("# REQUESTS FAILED: no request succeeded")


def test_failed_requests_are_in_the_first_sentence_and_come_before_a_slow_start() -> None:
    """Five of 45 requests failed, and the first screen spoke of a slow start alone."""
    failed = ANSWER.replace("200 OK", "500 Internal Server Error")
    slow = "(EngineCore_DP0 pid=9) INFO 05-01 10:00:39 [default_loader.py:268] Loading weights took 300.00 seconds"
    before = [line.replace("05-01 10:", "05-01 09:") for line in START[:3]]
    text = report([*before, slow, *START[3:], *[ANSWER] * 40, *[failed] * 5])
    assert "**5 of 45 POST requests (11.1 %) got a server error (HTTP 5xx)" in text
    assert text.index("11 % of requests answered with HTTP 5xx") < text.index("Slow start-up")


def test_a_hit_rate_is_not_shown_of_a_cache_that_is_off() -> None:
    off = ARGUMENTS.replace("'max_num_seqs': 256", "'enable_prefix_caching': False")
    lines = [statistics(second, 4, 0, 1.0) for second in range(120, 240, 10)]
    assert "Prefix cache hit rate 0 % at the end" in report([*START, *lines])
    assert "Prefix cache hit rate 0 % at the end" not in report([START[0], off, *START[2:], *lines])


def test_the_interval_before_the_log_is_no_part_of_its_length() -> None:
    head = "INFO 10-26 02:48:{:02} llm_engine.py:624] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 950.0 tokens/s,"
    gauges = " Running: 18 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 9.0%, CPU KV cache usage: 0.0%"
    lines = [head.format(second) + gauges for second in range(25, 55, 5)]
    text = report(["$ vllm serve org/m --max-model-len 8192", *lines])
    assert " · log of 25 s · " in text
    assert "6 statistics lines.\n" in text
    assert "KV cache size: keep the log from its first line." in text
    assert "in all 6 statistics lines with load" in text


def test_the_flash_attention_of_a_draft_model_is_not_the_models() -> None:
    """The model runs on another backend, the small model that drafts for it on FlashAttention."""
    flash = "(EngineCore_DP0 pid=9) INFO 05-01 10:00:41 [flash_attn.py:598] Using FlashAttention version 2"
    other, own = (
        f"(EngineCore_DP0 pid=9) INFO 05-01 10:00:11 [cuda.py:275] Using {name} attention backend out of potential backends: ['{name}']."
        for name in ("TRITON_ATTN", "FLASH_ATTN")
    )
    assert "| FlashAttention | 2 |" not in report([*START[:3], other, *START[3:4], flash, *START[4:]])
    assert "| FlashAttention | 2 |" in report([*START[:3], own, *START[3:4], flash, *START[4:]])


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


def test_the_tokens_of_a_step_are_proved_by_the_line_that_holds_in_the_end() -> None:
    default = (
        "INFO 05-01 09:59:59 [scheduler.py:216] Chunked prefill is enabled with max_num_batched_tokens=2048."
    )
    own = "(APIServer pid=1) INFO 05-01 10:00:02 [scheduler.py:216] Chunked prefill is enabled with max_num_batched_tokens=8192."
    engine = START[2].replace("device_config=cuda", "device_config=cuda, enable_chunked_prefill=True")
    text = report([default, *START[:2], own, engine, *START[3:], statistics(120, 1, 0, 1.0)])
    assert "chunked prefill (on) [L4, L5]" in text


def test_graphs_that_seem_to_free_memory_are_shown_without_it() -> None:
    captured = "(EngineCore_DP0 pid=9) INFO 05-01 10:00:52 [gpu_model_runner.py:4244] Graph capturing finished in 4 secs, took {} GiB"
    assert "CUDA graphs (captured in 4 s)" in report([*START, captured.format("-0.41")])
    assert "CUDA graphs (captured in 4 s, 0.41 GiB)" in report([*START, captured.format("0.41")])


@pytest.mark.parametrize(("second", "empty"), [("", True), (" Paris", False)])
def test_a_batch_whose_printed_outputs_are_all_empty_is_not_called_healthy(second: str, empty: bool) -> None:
    bar = "Processed prompts: 100%|██████████| 2/2 [00:00<00:00,  8.93it/s, est. speed input: 17.86 toks/s, output: 35.72 toks/s]"
    text = report(
        [bar, "Prompt: 'Hello', Generated text: ''", f"Prompt: 'The capital', Generated text: '{second}'"]
    )
    assert text.startswith("# TO CHECK: every printed output is empty") is empty
    assert ("**Every output that the program printed is empty. 2 prompts completed" in text) is empty


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
    loaded = [*START, *[statistics(100 + 10 * n, 4, 0, 3.0) for n in range(9)], ANSWER]
    assert report([*loaded, *client, ANSWER]).startswith("# HEALTHY, but a client of the server failed\n")
    own = [client[0], client[1], client[3]]
    assert "1. **Correct the program at evaluate.py:12**" in report([*loaded, *own, ANSWER])
    cache = "ConnectionError: Couldn't reach 'org/questions' on the Hub (OfflineModeIsEnabled)"
    announced = report([*loaded, *client[:-1], cache, ANSWER])
    assert "1. **Load the data set once with network" in announced, (
        "what the title announces is the first step"
    )
    assert announced.count("lient of the server failed") == 2, "the step does not name it a third time"
    answered = [*client[:-1], "openai.InternalServerError: Internal Server Error"]
    assert "A client of the server failed" not in report([*served, *answered, ANSWER])
    for prefix in ("", "(APIServer pid=1) "):
        assert "A client of the server failed" not in report(
            [*served, *(prefix + line for line in hook), ANSWER]
        )


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
    assert said not in report([line.replace("200 OK", "400 Bad Request") for line in [*served, *died]])


@pytest.mark.parametrize(("size", "said"), [(2, "all engines in sum"), (8, "2 of 8 engines in sum")])
def test_lines_of_a_part_of_the_engines_are_not_called_those_of_all(size: int, said: str) -> None:
    start = [line.replace("'max_num_seqs': 256", f"'data_parallel_size': {size}") for line in START]
    lines = [statistics(120, 9, 0, 9.9).replace("hit rate: 0.0", "hit rate: 66.0")]
    text = report([*start, *lines, *[line.replace("Engine 000", "Engine 001") for line in lines]])
    assert f"; {said}." in text
    assert ("tokens/s in one statistics line (2 of 8 engines)" in text) is (size == 8)
    assert "hit rate 66" not in text, "one engine's"


def test_what_sleep_mode_freed_and_how_long_the_wake_up_took_are_facts_of_the_run() -> None:
    text = report(
        [
            "INFO 05-01 10:00:00 [gpu_worker.py:175] Sleep mode freed 61.5 GiB memory, 3.25 GiB memory is still in use.",
            "INFO 05-01 10:00:01 [abstract.py:320] It took 1.402113 seconds to fall asleep.",
            "INFO 05-01 10:05:00 [abstract.py:338] It took 0.731110 seconds to wake up tags {'weights', 'kv_cache'}.",
        ]
    )
    assert "| first sleep in the log | 61.5 GiB freed, 3.25 GiB still in use on the card | [L1] |" in text
    assert "| first wake-up in the log | 0.73 s | [L3] |" in text
