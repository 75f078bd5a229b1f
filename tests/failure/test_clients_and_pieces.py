"""What clients, offline programs and pieces of a log show is said, and nothing of them is called a healthy server."""

from __future__ import annotations

import json

import pytest

from vllm_logdoctor import RunView, analyze
from vllm_logdoctor.errors import LogdoctorError

UP = [
    "INFO:     Started server process [41]",
    "INFO:     Application startup complete.",
    "INFO:     Uvicorn running on http://10.0.0.5:8000 (Press CTRL+C to quit)",
]
CLIENT = [
    "",
    "Traceback (most recent call last):",
    '  File "/home/me/ask/main.py", line 31, in <module>',
    "    answer = chat(prompt)",
    '  File "/opt/conda/lib/python3.11/site-packages/openai/api_requestor.py", line 765, in _interpret_response_line',
    "    raise error.APIError(",
    "openai.error.APIError: HTTP code 502 from API (<!DOCTYPE HTML PUBLIC",
]
IGNORED = [
    "Exception ignored in: <function Store.__del__ at 0x7f930d38e8c0>",
    "Traceback (most recent call last):",
    '  File "/opt/lib/python3.10/dist-packages/store/_store.py", line 59, in __del__',
    "TypeError: 'NoneType' object is not callable",
]
BENCHMARK = [
    "Traceback (most recent call last):",
    '  File "/srv/vllm/benchmarks/benchmark_serving.py", line 324, in benchmark',
    "    raise ValueError(",
    "ValueError: Initial test run failed. Error: Traceback (most recent call last):",
    '  File "/srv/venv/lib/python3.10/site-packages/aiohttp/streams.py", line 312, in _wait',
    "    await waiter",
    "aiohttp.client_exceptions.ClientPayloadError: Response payload is not completed: <TransferEncodingError: 400>",
]


def run_of(lines: list[str]) -> RunView:
    return analyze(lines).runs[0]


def title_of(lines: list[str]) -> str:
    return run_of(lines).to_markdown().split("\n")[0]


def test_the_error_of_a_client_in_the_log_of_a_server_is_in_the_verdict() -> None:
    text = run_of([*UP, *CLIENT]).to_markdown()
    assert "and this error of a client: `openai.error.APIError: HTTP code 502" in text
    assert "a proxy between the two did" in text


def test_a_client_without_its_data_set_in_offline_mode_is_told_how_to_get_it() -> None:
    missing = "ConnectionError: Couldn't reach 'org/questions' on the Hub (OfflineModeIsEnabled)"
    text = run_of([*UP, *CLIENT[:-1], missing]).to_markdown()
    assert "1. **Load the data set once with network and the same HF_HOME" in text


def test_a_program_that_ended_without_a_start_in_the_log_is_no_healthy_server() -> None:
    assert title_of(IGNORED).startswith("# EXCERPT")
    assert "Python ignored an exception" in run_of(IGNORED).to_markdown()


@pytest.mark.parametrize("answer", ["Prompt: 'Hello', Generated text: ' Anna and'", "Output:    ' Anna and'"])
def test_printed_answers_are_a_completed_offline_run(answer: str) -> None:
    text = run_of([answer, answer, *IGNORED]).to_markdown()
    assert text.startswith("# COMPLETED")
    assert "prompts completed" in text
    assert "The program printed 2 answers" in text


def test_answers_that_a_client_prints_beside_a_server_do_not_make_it_an_offline_engine() -> None:
    assert run_of([*UP, "Prompt: 'Hello', Generated text: ' Anna and'"]).kind == "server"


def test_a_piece_with_a_signal_says_which() -> None:
    piece = [
        "*** SIGTERM received at time=1739834838 on cpu 88 ***",
        "2025-02-17 15:27:18,342 INFO compiled_dag_node.py:1867 -- Tearing down compiled DAG",
        "2025-02-17 15:27:19,080 INFO compiled_dag_node.py:1894 -- Teardown complete",
    ]
    assert title_of(piece) == "# STOPPED: the process received SIGTERM"
    assert "[L1]" in run_of(piece).to_markdown()


def test_a_crash_below_an_ignored_exception_is_seen_and_said_to_be_of_the_exit() -> None:
    """The shell's line is no further text of the exception above it."""
    shell = "[1]    31046 segmentation fault (core dumped)  python benchmarks/throughput.py --input-len 100"
    assert "Segmentation fault while objects were freed" in title_of([*IGNORED, shell])


def test_a_response_that_ends_early_is_no_server_that_was_not_reached() -> None:
    assert title_of(BENCHMARK) == "# CLIENT FAILED: The server's response ended early"


def test_a_request_that_ended_in_an_exception_group_is_said() -> None:
    frame = '  File "/opt/lib/python3.10/dist-packages/starlette/{}.py", line {}, in {}'
    cancelled = [
        "ERROR:    Exception in ASGI application",
        "Traceback (most recent call last):",
        frame.format("responses", 232, "listen_for_disconnect"),
        "    message = await receive()",
        "asyncio.exceptions.CancelledError: Cancelled by cancel scope 7f20",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        "Traceback (most recent call last):",
        frame.format("routing", 75, "app"),
        "    await response(scope, receive, send)",
        frame.format("responses", 252, "__call__"),
        "    async with anyio.create_task_group() as task_group:",
        "exceptiongroup.ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)",
    ]
    text = run_of(cancelled).to_markdown()
    assert "1. Send the same request without `stream`" in text
    assert "The exception behind it is not in this log" in text
    assert "Most frequent" not in text


def test_what_joins_two_tracebacks_is_not_what_the_server_logged() -> None:
    frame = '  File "/opt/lib/python3.12/site-packages/starlette/{}.py", line {}, in {}'
    chained = [
        "ERROR:    Exception in ASGI application",
        "Traceback (most recent call last):",
        frame.format("_utils", 76, "collapse_excgroups"),
        "ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)",
        "",
        "During handling of the above exception, another exception occurred:",
        "Traceback (most recent call last):",
        frame.format("routing", 75, "app"),
        "AttributeError: 'bytes' object has no attribute 'get'",
    ]
    assert "The server logged: During" not in run_of(chained).to_markdown()


def test_tests_that_end_an_offline_run_are_failed_tests() -> None:
    lines = [
        "INFO 05-27 12:32:18 [llm_engine.py:230] Initializing a V0 LLM engine (v0.9.1) with config: model='org/model', max_seq_len=512",
        "Processed prompts: 100%|##########| 66/66 [00:00<00:00, 2941.53it/s, est. speed input: 0.00 toks/s, output: 0.00 toks/s]",
        "=========================== short test summary info ===========================",
        "FAILED tests/test_load.py::test_load - AttributeError: 'PoolerConfig' object has no attribute 'norm'",
        "========================= 1 failed, 1 passed in 64.00s =========================",
    ]
    assert title_of(lines).startswith("# TESTS FAILED: AttributeError")


def test_an_empty_output_is_a_warning() -> None:
    lines = [
        "Processed prompts: 100%|##########| 2/2 [00:00<00:00,  8.93it/s, est. speed input: 17.86 toks/s, output: 35.72 toks/s]",
        "Generated text: ''",
    ]
    text = run_of(lines).to_markdown()
    assert "printed an empty output" in text
    assert "2 tokens in, 4 out per prompt" in text


@pytest.mark.parametrize(
    ("rate", "said"),
    [("35.72", "why the 4 tokens that each prompt got leave no text"), ("0.00", "no token was generated")],
)
def test_empty_outputs_are_explained_by_the_tokens_that_the_bar_counts(rate: str, said: str) -> None:
    bar = "Processed prompts: 100%|##########| 2/2 [00:00<00:00,  8.93it/s, est. speed input: 17.86 toks/s, output: {} toks/s]"
    assert said in run_of([bar.format(rate), *["Generated text: ''"] * 2]).to_markdown()


def test_a_copy_of_vllm_in_another_project_is_not_vllm() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/src/trainer/third_party/vllm/vllm_spmd/weight_loaders.py", line 374, in _get_model_weight_loader',
        '    raise ValueError(f"Model architectures {arch} are not supported for now. "',
        "ValueError: Model architectures NewForConditionalGeneration are not supported for now. Supported architectures: dict_keys(['GPT2LMHeadModel'])",
    ]
    root = next(one for one in run_of(lines).findings if one.role == "root")
    assert root.id == "unclassified-failure"
    assert "Use a release of trainer" in root.alternatives[0]


def test_a_download_that_times_out_during_an_installation_is_named() -> None:
    frame = '        File "C:\\py\\Lib\\site-packages\\pip\\_vendor\\urllib3\\response.py", line 443, in _error_catcher'
    lines = [
        "Collecting vllm",
        "  Installing build dependencies ... error",
        "  error: subprocess-exited-with-error",
        "      Collecting torch==2.4.0",
        "      Traceback (most recent call last):",
        frame,
        '          raise ReadTimeoutError(self._pool, None, "Read timed out.")',
        "      pip._vendor.urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool(host='packages.example', port=443): Read timed out.",
    ]
    assert title_of(lines) == "# BUILD FAILED: Download of a package failed during the installation"


def test_a_request_that_an_engine_in_another_server_refused_is_no_crash() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/opt/dynamo/lib/python3.12/site-packages/dynamo/runtime/__init__.py", line 85, in wrapper',
        "    async for item in func(*args_list, **kwargs):",
        '  File "/opt/vllm/vllm/v1/engine/async_llm.py", line 309, in generate',
        "    q = await self.add_request(",
        '  File "/opt/vllm/vllm/inputs/registry.py", line 187, in call_hf_processor',
        "    raise ValueError(msg) from exc",
        "ValueError: Failed to apply Processor on data",
    ]
    text = run_of(lines).to_markdown()
    assert text.startswith("# REQUEST ERROR: the model's processor can't read")
    assert "1. Send the image" in text
    assert "crashed" not in text


def test_a_check_of_a_build_script_is_not_said_to_lack_the_compilers_output() -> None:
    lines = [
        "Building wheels for collected packages: xformers",
        "  error: subprocess-exited-with-error",
        "      Traceback (most recent call last):",
        '        File "/env/lib/python3.12/site-packages/torch/utils/cpp_extension.py", line 2409, in _write_ninja_file',
        "          assert len(sources) > 0",
        "      AssertionError",
        "  ERROR: Failed building wheel for xformers",
    ]
    text = run_of(lines).to_markdown()
    assert "not in this log" not in text
    assert "--only-binary" in text


def test_a_pooling_run_has_no_speed_of_output() -> None:
    bar = "Processed prompts: 100%|##########| 4/4 [00:00<00:00, 55.18it/s, est. speed input: 0.00 toks/s, output: 0.00 toks/s]"
    assert "output tokens/s" not in run_of([bar]).to_markdown()


def test_the_first_line_of_a_compiled_function_proves_nothing() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/vllm/model_executor/models/gemma3.py", line 370, in forward',
        "    def forward(",
        "KeyError: 'local_attn_masks'",
    ]
    assert "def forward(" not in run_of(lines).to_markdown()


def test_a_warning_that_is_printed_at_each_start_asks_for_no_change() -> None:
    warning = (
        "WARNING 12-02 23:35:07 arg_utils.py:1075] [DEPRECATED] Block manager v1 has been removed, and setting --use-v2-block-manager"
        " to True or False has no effect on vLLM behavior."
    )
    assert "remove it from the command" not in run_of([warning]).to_markdown()


def test_a_prompt_without_a_placeholder_is_not_to_lose_its_placeholders() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/vllm/multimodal/processing.py", line 1423, in _validate_mm_placeholders',
        "    raise RuntimeError(",
        "RuntimeError: Expected there to be 1 prompt updates corresponding to 1 audio items, but instead found 0 prompt updates! Either",
    ]
    text = run_of(lines).to_markdown()
    assert "No placeholder found for the multimodal input" in text
    assert "either the prompt has none, or" in text
    assert "placeholder tokens out of the prompt" not in text


def test_only_placeholders_without_an_embedding_are_taken_out_of_a_prompt() -> None:
    def advice(embeddings: int, places: int) -> str:
        words = (
            f"Attempted to assign 1 x {embeddings} = {embeddings} multimodal tokens to {places} placeholders"
        )
        return run_of([f"ERROR 12-02 23:35:07 engine.py:140] ValueError('{words}')"]).to_markdown()

    assert "without an embedding here: 8" in advice(100, 108)
    assert "placeholder tokens out of the prompt" not in advice(108, 100)
    assert "8 embeddings were without one" in advice(108, 100)


def test_a_request_without_a_placeholder_is_explained_while_the_server_goes_on() -> None:
    head = "ERROR 12-02 23:35:07 [serving_chat.py:664] "
    lines = [
        f"{head}Error in chat completion stream generator.",
        f"{head}Traceback (most recent call last):",
        f'{head}  File "/opt/vllm/vllm/entrypoints/openai/serving_chat.py", line 362, in chat_completion_stream_generator',
        f"{head}    async for res in result_generator:",
        f'{head}  File "/opt/vllm/vllm/multimodal/processing.py", line 1423, in _validate_mm_placeholders',
        f"{head}    raise RuntimeError(",
        f"{head}RuntimeError: Expected there to be 1 prompt updates corresponding to 1 audio items, but instead found 0 prompt updates! Either",
    ]
    text = run_of(lines).to_markdown()
    assert text.startswith("# REQUEST ERROR: no placeholder found for the")
    assert "Leave out `--chat-template`" in text


def test_a_download_of_a_build_on_windows_asks_for_linux_and_for_variables() -> None:
    lines = [
        "Collecting vllm",
        "  Installing build dependencies ... error",
        "  error: subprocess-exited-with-error",
        "      Downloading torch-2.4.0-cp310-cp310-win_amd64.whl (197.9 MB)",
        "      pip._vendor.urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool(host='files.example', port=443): Read timed out.",
    ]
    steps = run_of(lines).to_markdown()
    assert "1. Install on Linux" in steps
    assert "PIP_DEFAULT_TIMEOUT" in steps
    assert "--retries" not in steps
    elsewhere = [line.replace("win_amd64", "manylinux1_x86_64") for line in lines]
    assert "Install on Linux" not in run_of(elsewhere).to_markdown()


def test_a_piece_of_pytest_names_the_check_that_failed() -> None:
    lines = [
        "    def test_lora(files):",
        "        llm = vllm.LLM(MODEL_PATH)",
        ">           assert output[i] == expected[i]",
        "E           AssertionError: assert '' == 'SELECT count(*) FROM singer'",
    ]
    text = run_of(lines).to_markdown()
    assert text.startswith("# TEST FAILED: test_lora\n")
    assert (
        "**`test_lora` failed at `assert output[i] == expected[i]`: `AssertionError: assert '' == 'SELECT count(*)"
        in text
    )
    assert "# TEST FAILED: an assertion\n" in run_of(lines[1:]).to_markdown()


def test_failed_tests_with_several_errors_are_counted_by_error() -> None:
    """None of the errors is the cause of all, also where a rule knows one of them."""
    refused = "  Value error, User-specified max_model_len (512) is greater than the derived max_model_len (max_position_embeddings=128)."
    wrapped = "FAILED a/test_b.py::test_c[{}] - RuntimeError: Engine core initialization failed. See root cause above."
    lines = [
        "FAILED a/test_b.py::test_d[x y] - pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
        refused,
        wrapped.format(1),
        wrapped.format(2),
    ]
    text = run_of(lines).to_markdown()
    assert text.startswith("# TESTS FAILED: 3 tests of a/test_b.py with 2 different errors\n")
    assert "2 with `RuntimeError: Engine core initialization failed." in text
    assert "1 with `User-specified max_model_len (512)" in text
    assert "pytest -s 'a/test_b.py::test_d[x y]'" in text


def test_the_message_of_a_tests_own_wrapper_is_not_its_error() -> None:
    line = "FAILED a/test_b.py::test_c[{}] - AssertionError: function <function test_c at 0x7f4699a1cea0> failed when called with args ()"
    text = run_of([line.format(1), line.format(2)]).to_markdown()
    assert text.startswith("# TESTS FAILED: 2 tests of a/test_b.py; the error is not in this log\n")
    assert "whole output of pytest" in text


@pytest.mark.parametrize("captured", [True, False])
def test_captured_output_is_to_be_read_where_the_log_has_it(captured: bool) -> None:
    lines = [
        ">       assert close(a, b)",
        "E       AssertionError: not close",
        *(["------- Captured log call -------", "WARNING  attention"] if captured else []),
        "FAILED a/test_b.py::test_c - AssertionError: not close",
    ]
    text = run_of(lines).to_markdown()
    assert ("captured output" in text) is captured
    assert "The test failed at `assert close(a, b)`" in text


def test_a_captured_warning_is_quoted_and_a_message_of_several_lines_is_headed_by_its_check() -> None:
    lines = [
        "a/test_b.py:69: in _run",
        "    check(a, b)",
        "_ _ _ _ _ _ _ _ _ _ _ _",
        "",
        "    def check(a, b):",
        ">       assert close(a, b), text",
        "E       AssertionError: Case 2:",
        "E       left: [0.25, 0.5]",
        "E       right: [0.25, 0.75]",
        "",
        "a/test_b.py:32: AssertionError",
        "------- Captured log call -------",
        "WARNING  vllm.model_executor.layers.rope:logger.py:32 Falling back to the slow rope.",
        "INFO     vllm.model_executor.layers.rope:logger.py:32 Ready.",
        "======= short test summary info =======",
        "FAILED a/test_b.py::test_c - AssertionError: Case 2:",
    ]
    text = run_of(lines).to_markdown()
    assert text.startswith("# TESTS FAILED: assert close(a, b), text\n")
    assert "explains it: `Falling back to the slow rope`." in text
    assert "L13: WARNING" in text


def test_an_error_that_explains_itself_needs_no_captured_output() -> None:
    lines = [
        ">       assert config.pooling_norm",
        "E       AttributeError: 'PoolerConfig' object has no attribute 'pooling_norm'",
        "------- Captured stdout call -------",
        "INFO 05-27 12:31:33 [__init__.py:31] Available plugins for group vllm.general_plugins:",
        "FAILED a/test_b.py::test_c - AttributeError: 'PoolerConfig' object has no attribute 'pooling_norm'",
    ]
    assert "captured output" not in run_of(lines).to_markdown()


def test_a_piece_with_a_logged_error_names_it() -> None:
    site = "ERROR 04-29 10:09:55 [registry.py:810]"
    lines = [
        f"{site} Error saving model info cache.",
        f"{site} Traceback (most recent call last):",
        f"{site} FileNotFoundError: [Errno 2] No such file or directory: '/.cache/vllm/modelinfos'",
    ]
    assert "FileNotFoundError: [Errno 2] No such file" in run_of(lines).to_markdown().replace("\\", "")


def test_the_prompt_of_the_next_command_proves_nothing() -> None:
    lines = [
        "me@node7:~/vllm (main) ❯ python -m vllm.entrypoints.openai.api_server --model org/m",
        "Traceback (most recent call last):",
        '  File "/home/me/vllm/vllm/entrypoints/openai/api_server.py", line 17, in <module>',
        "    from fastchat.model.model_adapter import get_conversation_template",
        "ModuleNotFoundError: No module named 'fastchat.model.model_adapter'",
        "",
        "me@node7:~/vllm (main) ❯ python -m vllm.entrypoints.api_server",
    ]
    (root,) = [one for one in run_of(lines).findings if one.role == "root"]
    assert [one.line for one in root.evidence] == [5, 4]


def test_a_traceback_in_the_log_is_not_to_be_looked_for() -> None:
    lines = [
        "ERROR:    Exception in ASGI application",
        "Traceback (most recent call last):",
        '  File "/opt/vllm/vllm/multimodal/video.py", line 136, in load_bytes',
        "    assert i == num_frames, (",
        "AssertionError: Expected reading 32 frames, but only loaded 17 frames from video.",
        'INFO:     10.1.1.8:20037 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error',
    ]
    assert "look for the traceback" not in run_of(lines).to_markdown().lower()


def test_the_error_that_an_evaluation_logs_beside_its_server_is_of_a_client() -> None:
    raised = (
        'Traceback (most recent call last):\n  File "/home/me/eval/run.py", line 104, in run\n'
        "    metrics = run_arc()\nConnectionError: no Hub"
    )
    record = {
        "ts": "2026-02-28 11:39:27,951",
        "level": "ERROR",
        "logger": "__main__",
        "message": "evaluation failed",
        "exc_info": raised,
    }
    text = run_of([*UP, json.dumps(record)]).to_markdown()
    assert "and this error of a client: `ConnectionError: no Hub`" in text


def test_an_offline_program_has_no_clients() -> None:
    done = "Processed prompts: 100%|##########| 4/4 [00:00<00:00, 55.18it/s, est. speed input: 9.00 toks/s, output: 9.00 toks/s]"
    assert "client of the server" not in run_of([done, *CLIENT, done]).to_markdown()


def test_a_trainer_that_did_not_reach_its_server_is_a_client() -> None:
    lines = [
        "ConnectionError: The vLLM server can't be reached at 10.0.0.5:8000 after 120.0 seconds. Make sure the server is running."
    ]
    assert "did not reach the server" in title_of(lines)


def test_an_argument_that_the_openai_package_refuses_reached_no_server() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/home/me/ask.py", line 12, in <module>',
        "    answer = client.chat.completions.create(",
        '  File "/opt/lib/python3.10/site-packages/openai/_utils/_utils.py", line 275, in wrapper',
        "    return func(*args, **kwargs)",
        "TypeError: Completions.create() got an unexpected keyword argument 'top_k'",
    ]
    with pytest.raises(LogdoctorError, match=r"sent no request; give it as extra_body=\{'top_k': VALUE\}"):
        analyze(lines)
