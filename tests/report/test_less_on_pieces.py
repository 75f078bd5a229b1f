"""What a report leaves out where a piece of a log does not show it."""

from __future__ import annotations

import re

import pytest

from vllm_logdoctor import analyze

SITE = "/opt/env/lib/python3.12/site-packages"


def report(text: str) -> str:
    return analyze(text.splitlines()).to_markdown()


def torn(*frames: tuple[str, str, str], ends: str, before: str = "") -> str:
    lines = [
        f'{before}  File "{file}", line 7, in {function}\n{before}    {code}'
        for file, function, code in frames
    ]
    return "\n".join([f"{before}Traceback (most recent call last):", *lines, f"{before}{ends}"])


def test_a_loop_of_an_engine_alone_shows_no_server_and_no_dead_process() -> None:
    text = report(
        torn(
            (
                f"{SITE}/vllm/worker/worker_base.py",
                "start_worker_execution_loop",
                "output = self.execute_model()",
            ),
            (f"{SITE}/torch/distributed/distributed_c10d.py", "broadcast", "work.wait()"),
            ends="RuntimeError: [/src/gloo/transport/tcp/pair.cc:500] Connection closed by peer",
        )
    )
    assert text.startswith("# FAILED after start-up: ")
    assert "serving" not in text.split("\n", 4)[2]
    assert "crashed" not in text


def test_an_error_whose_run_may_have_gone_on_is_not_called_a_failure_of_it() -> None:
    error = "AttributeError: Can't pickle local object 'made.<locals>.Made'"
    alone = report(torn(("/usr/lib/python3.11/multiprocessing/queues.py", "_feed", "dumps(obj)"), ends=error))
    assert alone.startswith("# ERROR")
    request = torn(
        (f"{SITE}/starlette/routing.py", "app", "response = await f(request)"),
        (f"{SITE}/torch/utils/cpp_extension.py", "_jit_compile", "torch.ops.load_library(path)"),
        ends="OSError: /home/user/.cache/torch_extensions/x/x.so: cannot open shared object file: No such file or directory",
    )
    assert report(f"ERROR:    Exception in ASGI application\n{request}").startswith("# REQUEST ERROR: JIT")


def test_a_phase_is_told_by_the_frames_and_not_by_the_last_announcement() -> None:
    start = "INFO 08-25 22:29:19 llm_engine.py:70] Initializing an LLM engine with config: model='m'"
    frames = [(f"{SITE}/vllm/engine/ray_utils.py", "__getattr__", "return getattr(self.worker, name)")] * 3
    text = report(f"{start}\n{torn(*frames, ends='RecursionError: maximum recursion depth exceeded')}")
    assert "during start-up" in text
    assert "ranks were initialized" not in text


def test_a_build_on_windows_is_cited_by_a_line_that_shows_it() -> None:
    folder = "C:\\py\\Lib\\site-packages"
    text = report(
        torn(
            (f"{folder}\\pip\\_vendor\\pyproject_hooks\\_in_process.py", "build_wheel", "backend()"),
            (f"{folder}\\packaging\\version.py", "parse", "return Version(version)"),
            ends="TypeError: expected string or bytes-like object, got 'NoneType'",
        )
        + "\nERROR: Failed building wheel for vllm"
    )
    assert re.search(r"where vLLM can't be built \[L[24]\b", text)


def test_the_bar_of_a_batch_makes_an_engine_without_a_server() -> None:
    worker = "(RayWorkerVllm pid=9) "
    text = report(
        f"Processed prompts:  80%|{'#' * 300}\n"
        f"{worker}/src/aten/src/ATen/native/hip/Indexing.hip:12: indexSelectLargeIndex: Device-side assertion `srcIndex < srcSelectDimSize' failed.\n"
        f"{worker}:0:rocdevice.cpp :2726: Queue 0x7e aborting with error : HSA_STATUS_ERROR_EXCEPTION: An operation failed. code: 0x1016\n"
        f"{worker}*** SIGABRT received at time=1712868846 on cpu 107 ***\n"
        f"{worker}Fatal Python error: Aborted"
    )
    assert text.startswith("# FAILED after start-up: Device-side assert")
    assert "ROCm" not in text  # The abort of the queue follows from the assertion.


def test_a_state_that_names_the_failure_is_not_followed_by_the_same_end() -> None:
    text = report(
        "ERROR 05-26 00:17:47 [core.py:448] EngineCore failed to start.\n"
        + torn(
            (f"{SITE}/vllm/v1/engine/core.py", "run_engine_core", "engine_core = EngineCoreProc()"),
            ends="RuntimeError: the frobnicator is out of order",
            before="ERROR 05-26 00:17:47 [core.py:448] ",
        )
    )
    assert text.startswith("# FAILED at start-up")
    assert text.count("start-up") - text.count("during start-up") == 1


@pytest.mark.parametrize(
    "ends", ["openai.InternalServerError: Error code: 500", "openai.NotFoundError: Error code: 404"]
)
def test_a_client_without_the_text_of_the_answer_is_a_client_and_lacks_no_release(ends: str) -> None:
    text = report(
        torn(
            ("/home/me/ask.py", "<module>", "client.chat.completions.create("),
            (
                f"{SITE}/openai/_base_client.py",
                "request",
                "raise self._make_status_error_from_response(err.response)",
            ),
            ends=ends,
        )
    )
    assert text.startswith("# CLIENT FAILED: The server answered with status ")
    assert "Missing from this log" not in text


def test_a_traceback_without_code_of_vllm_asks_for_no_release_of_it() -> None:
    text = report(
        torn(
            ("/home/me/trainer/fsdp_vllm.py", "__enter__", "load_weights()"),
            ("/home/me/trainer/third_party/vllm/loaders.py", "loader", 'raise ValueError("no such loader")'),
            ends="ValueError: no such loader",
        )
    )
    assert "Missing from this log" not in text
    assert "calls vLLM" not in text
    assert "release of trainer" in text


PARSER = torn(
    (
        f"{SITE}/vllm/entrypoints/openai/tool_parsers/hermes_tool_parser.py",
        "extract_tool_calls",
        "json.loads(match[0])",
    ),
    ("/usr/lib/python3.12/json/decoder.py", "raw_decode", "raise JSONDecodeError(s)"),
    ends="json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
    before="ERROR 05-26 00:17:47 [hermes_tool_parser.py:119] ",
)


def test_an_error_that_a_parser_handled_fails_no_request() -> None:
    text = report(
        f"ERROR 05-26 00:17:47 [hermes_tool_parser.py:119] Error in extracting tool call from response.\n{PARSER}"
    )
    assert "Error while processing a request" not in text
    assert "tool call in an answer could not be parsed" in text
    assert "vLLM logs the error and goes on" in text
    assert "Other findings" not in text


def test_a_traceback_with_its_last_line_first_has_the_places_below_it() -> None:
    text = report(
        "IndexError: pop from empty list\n"
        '  File "/opt/env/lib/python3.12/site-packages/json_pieces/core.py", line 50, in fix\n'
        "    char = stack.pop()\n"
        f'  File "{SITE}/vllm/entrypoints/openai/tool_parsers/hermes_tool_parser.py", line 241, in extract_tool_calls\n'
        "    call = loads(portion)\n"
    )
    assert text.startswith("# REQUEST ERROR: error in the tool parser")
    assert "hermes_tool_parser.py, extract_tool_calls" in text
    assert "without `stream`" not in text


def test_what_a_message_says_to_do_is_the_step() -> None:
    text = report(
        torn(
            (f"{SITE}/vllm/v1/worker/gpu_worker.py", "check_reserve", "raise RuntimeError("),
            ends="RuntimeError: The free reserve is too small: 13 bytes available, 15 required. Replan more layers into host memory.",
        )
    )
    assert "1. Do what the message says: Replan more layers into host memory." in text
    assert "Search vLLM's issues" not in text


def test_the_release_of_a_source_tree_is_in_the_path_of_its_benchmarks() -> None:
    text = report(
        torn(
            ("/src/vllm-0.3.3/benchmarks/benchmark_throughput.py", "<module>", "main(args)"),
            (f"{SITE}/transformers/base.py", "pad", "raise ValueError("),
            ends="ValueError: no padding token",
        )
    )
    assert "vLLM 0.3.3" in text


def test_a_line_of_code_whose_traceback_begins_before_the_piece_is_no_unexplained_message() -> None:
    text = report(f"ERROR 05-26 00:17:46 [worker.py:9]     return func(*args, **kwargs)\n{PARSER}")
    assert "without an explanation" not in text


def test_a_section_without_a_line_of_the_failure_is_not_called_what_broke() -> None:
    text = report(
        "ERROR 06-13 08:28:11 [core.py:517] nixl._bindings.nixlBackendError: NIXL_ERR_BACKEND\n"
        "ERROR 06-13 08:28:11 [async_llm.py:420] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue."
    )
    assert "## What broke" not in text


def test_steps_for_a_failed_test_set_no_flag_of_a_server() -> None:
    text = report(
        "FAILED tests/models/test_embedding.py::test_models[a] - ValueError: refused\n"
        "  Value error, User-specified max_model_len (512) is greater than the derived max_model_len (max_position_embeddings=128"
        " or model_max_length=None in model's config.json). This may lead to incorrect model outputs or CUDA errors.\n"
        "FAILED tests/models/test_embedding.py::test_models[b] - ValueError: refused"
    )
    assert text.startswith("# TESTS FAILED")
    assert "`--max-model-len`" not in text.split("## ")[0]


def test_a_failed_test_is_run_alone_without_a_guess_at_its_cause() -> None:
    text = report(
        "FAILED tests/a.py::test_a[1] - AssertionError: group is up\nFAILED tests/a.py::test_a[2] - AssertionError: group is up"
    )
    assert "Run one failed test alone" in text
    assert "earlier test" not in text


def test_a_test_that_uses_a_name_which_this_vllm_lacks_is_of_another_commit() -> None:
    lines = (
        "____________________ test_pooler ____________________",
        "    def test_pooler(runner):",
        ">           assert runner.pooler.norm_kind",
        "E           AttributeError: 'PoolerSettings' object has no attribute 'norm_kind'",
        "{file}:43: AttributeError",
        "------------------------ Captured stdout call ------------------------",
        "INFO 05-27 12:31:33 [__init__.py:31] Available plugins for group vllm.general_plugins:",
        "FAILED tests/models/test_pooler.py::test_pooler - AttributeError: 'PoolerSettings' object has no attribute 'norm_kind'",
    )
    text = report("\n".join(lines).format(file="tests/models/test_pooler.py"))
    assert "one commit: the installed code has no `norm_kind`" in text
    assert "Run the test alone" not in text
    raised_by_vllm = report("\n".join(lines).format(file="vllm/model_executor/layers/pooler.py"))
    assert "one commit" not in raised_by_vllm


def test_requests_without_statistics_or_answers_do_not_make_a_healthy_server() -> None:
    added = "INFO 02-14 11:57:3{second} engine.py:275] Added request chatcmpl-1af15bd86d5f413683cd727e1028852{second}."
    text = report("\n".join(added.format(second=second) for second in range(9)))
    assert text.startswith("# EXCERPT: requests without statistics")
    assert "**The engine received 9 requests" in text


def test_the_rest_of_a_traceback_that_is_cut_off_is_all_there_is_to_get() -> None:
    text = report(
        "ERROR 05-26 00:17:47 [core.py:448] EngineCore failed to start.\n"
        "ERROR 05-26 00:17:47 [core.py:448] Traceback (most recent call last):\n"
        f'ERROR 05-26 00:17:47 [core.py:448]   File "{SITE}/vllm/v1/engine/core.py", line 436, in run_engine_core\n'
        "ERROR 05-26 00:17:47 [core.py:448]     engine_core = EngineCoreProc("
    )
    assert "1. Get the rest of the traceback" in text
    assert "sacct" not in text


def test_a_few_lines_with_gaps_between_them_count_for_the_interval_that_vllm_prints_in() -> None:
    line = (
        "INFO 08-20 02:{clock} metrics.py:411] Avg prompt throughput: 900.0 tokens/s, Avg generation throughput: 100.0 tokens/s,"
        " Running: 2 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 0.4%, CPU KV cache usage: 0.0%."
    )
    text = report(
        "\n".join(
            line.format(clock=clock) for clock in ("39:37", "39:42", "40:09", "40:29", "40:34", "40:39")
        )
    )
    assert "in all 6 statistics lines with load" in text


def test_an_answer_with_a_server_error_is_shown_by_its_line() -> None:
    text = report(
        "INFO:     Application startup complete.\n"
        'INFO:     127.0.0.1:43553 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error'
    )
    assert "HTTP 5xx) [L2]" in text or "HTTP 5xx [L2])" in text


def test_the_exception_of_a_cell_that_papermill_quotes_is_the_programs() -> None:
    text = report(
        "INFO 05-01 09:59:20 [llm_engine.py:237] Initializing a V1 LLM engine (v0.11.0) with config: model='m', tensor_parallel_size=1\n"
        f"Processed prompts: 100%|{'#' * 10}| 8/8 [00:04<00:00,  2.00it/s, est. speed input: 100.00 toks/s, output: 50.00 toks/s]\n"
        + torn(
            ("<string>", "<module>", "execute()"),
            (f"{SITE}/papermill/execute.py", "raise_for_execution_errors", "raise error"),
            ends='papermill.exceptions.PapermillExecutionError:\n---------\nException encountered at "In [3]":\n---------\n'
            "AttributeError                            Traceback (most recent call last)\n"
            "AttributeError: 'Factory' object has no attribute 'Prototype'",
        )
    )
    assert text.startswith("# PROGRAM FAILED after all prompts were answered")
    assert "Search vLLM's issues" not in text


def test_a_blank_line_ends_a_command_whose_last_line_has_a_backslash() -> None:
    result = "============ Serving Benchmark Result ============\nSuccessful requests:                     30"
    text = [
        "vllm serve org/m --enforce-eager",
        *(
            line
            for count, end in ((1, ""), (5, " \\\n"))
            for line in (
                f"python3 benchmark_serving.py --model org/m \\\n  --max-concurrency {count} \\\n  --num-prompts 30{end}",
                result,
            )
        ),
    ]
    commands = analyze("\n".join(text).splitlines()).runs[0].run.load_commands
    assert [one.text.split()[-3] for one in commands] == ["1", "5"]


def test_the_header_of_a_formatter_with_a_process_number_is_read() -> None:
    text = report(
        "2024-11-08 09:37:39,378 vllm.executor.distributed_gpu_executor 849 INFO     # GPU blocks: 31800, # CPU blocks: 9362\n"
        "2024-11-08 09:37:39,378 vllm.executor.distributed_gpu_executor 849 INFO     Maximum concurrency for 32768 tokens per request: 15.53x"
    )
    assert "508,800 tokens" in text


def test_the_code_of_a_frame_above_a_cut_off_traceback_is_no_error() -> None:
    before = "ERROR 11-25 08:17:34 [engine.py:448] "
    text = report(
        f"{before}    self._init_executor()\n"
        f'{before}  File "{SITE}/vllm/worker/worker_base.py", line 621, in execute_method\n'
        f"{before}    raise e"
    )
    assert "Traceback is cut off" in text
    assert "Search vLLM's issues" not in text


def test_an_inner_error_that_ascend_reported_above_is_not_in_a_piece_without_it() -> None:
    text = report(
        torn(
            (f"{SITE}/vllm/model_executor/custom_op.py", "forward", "return self._forward_method()"),
            (f"{SITE}/torch/_ops.py", "__call__", "return self._op(*args)"),
            ends="RuntimeError: The Inner error is reported as above. The process exits for this inner error.",
        )
    )
    assert "Cause of the failure is not in this log" in text
    assert "pip show torch" not in text


def test_a_request_whose_traceback_lacks_its_end_has_no_exception_to_quote() -> None:
    before = "(APIServer pid=9) ERROR 02-21 11:34:27 [serving.py:120] "
    text = report(
        f"{before}Error in preprocessing prompt inputs\n{before}Traceback (most recent call last):\n"
        f'{before}  File "{SITE}/vllm/entrypoints/renderer.py", line 263, in render'
    )
    assert "its traceback cut off" in text
    assert "Exception: " not in text


def test_requests_that_wait_while_none_runs_wait_for_no_prefill() -> None:
    line = (
        "INFO 09-18 16:1{clock} metrics.py:351] Avg prompt throughput: {prompt} tokens/s, Avg generation throughput: 5.6 tokens/s,"
        " Running: 0 reqs, Swapped: 0 reqs, Pending: {waiting} reqs, GPU KV cache usage: 0.0%, CPU KV cache usage: 0.0%."
    )
    text = report(
        "\n".join(line.format(clock=f"0:{10 + 5 * n}", prompt=70.6, waiting=12 + n) for n in range(3))
    )
    assert text.startswith("# LIMITED: requests wait, the cause is not in the log")
    assert "prefill" not in text


def test_a_traceback_of_the_server_beside_the_output_of_a_test_is_no_failed_test() -> None:
    text = report(
        "============================= test session starts =============================\n"
        "test_guided.py:29: in <module>\n"
        "E   openai.InternalServerError: Internal Server Error\n"
        "test_guided.py:29: InternalServerError\n"
        "ERROR:    Exception in ASGI application\n"
        + torn(
            (
                f"{SITE}/vllm/model_executor/guided_decoding/xgrammar_decoding.py",
                "<module>",
                "import xgrammar as xgr",
            ),
            (f"{SITE}/torch/_ops.py", "load_library", "ctypes.CDLL(path)"),
            ends="OSError: /srv/cache/torch_extensions/py310_cu124/xgrammar/xgrammar.so: cannot open shared object file: No such file or directory",
        )
    )
    assert "TESTS FAILED" not in text
    assert "output of pytest" not in text


def test_what_broke_shows_no_line_that_only_says_that_an_error_was_raised() -> None:
    text = report(
        "ERROR 05-26 00:17:47 [core.py:448] Traceback (most recent call last):\n"
        f'ERROR 05-26 00:17:47 [core.py:448]   File "{SITE}/vllm/model_executor/models/orca.py", line 43, in pick\n'
        "ERROR 05-26 00:17:47 [core.py:448]     raise ValueError(\n"
        "ERROR 05-26 00:17:47 [core.py:448] ValueError: LoRA is not supported for OrcaForCausalLM\n"
        "a sentence that somebody wrote below the log\n"
    )
    assert "raise ValueError(" not in text
    assert "Last line" not in text


def test_a_message_that_says_what_to_do_is_its_own_cause() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/home/me/bench.py", line 154, in run_hf',
        "    tokens = tokenizer(prompts, padding=True)",
        '  File "/opt/lib/python3.11/site-packages/transformers/tokenization_utils_base.py", line 2443, in _pad',
        "    raise ValueError(",
        "ValueError: Asking to pad but the tokenizer has no padding token. Please select a token to use as `pad_token`.",
    ]
    text = report("\n".join(lines))
    assert "Do what the message says" in text
    assert "No known cause" not in text


def test_a_hint_that_every_error_of_cuda_ends_with_proves_nothing() -> None:
    hint = "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."
    lines = [
        "INFO 05-01 10:00:00 [core.py:107] Initializing a V1 LLM engine (v0.15.1) with config: model='org/m'",
        "ERROR 05-01 10:00:09 [core.py:708] EngineCore failed to start.",
        "ERROR 05-01 10:00:09 [core.py:708] Traceback (most recent call last):",
        'ERROR 05-01 10:00:09 [core.py:708]   File "/opt/vllm/v1/worker/gpu_model_runner.py", line 2443, in _dummy_run',
        "ERROR 05-01 10:00:09 [core.py:708]     outputs = self.model(input_ids)",
        "ERROR 05-01 10:00:09 [core.py:708] RuntimeError: CUDA error: device-side assert triggered",
        f"ERROR 05-01 10:00:09 [core.py:708] {hint}",
    ]
    assert hint not in report("\n".join(lines))
