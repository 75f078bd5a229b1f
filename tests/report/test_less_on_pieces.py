"""What a report leaves out where a piece of a log does not show it."""

from __future__ import annotations

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
    assert text.startswith("# FAILED while processing requests: ")
    assert "serving" not in text.split("\n", 4)[2]
    assert "crashed" not in text


def test_the_bar_of_a_batch_makes_an_engine_without_a_server() -> None:
    worker = "(RayWorkerVllm pid=9) "
    text = report(
        f"Processed prompts:  80%|{'#' * 300}\n"
        f"{worker}/src/aten/src/ATen/native/hip/Indexing.hip:12: indexSelectLargeIndex: Device-side assertion `srcIndex < srcSelectDimSize' failed.\n"
        f"{worker}*** SIGABRT received at time=1712868846 on cpu 107 ***\n"
        f"{worker}Fatal Python error: Aborted"
    )
    assert text.startswith("# FAILED while processing prompts: Device-side assert")


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
    assert "the traceback contains no vLLM code" in text


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
    assert "parser could not read" in text
    assert "goes on with the request" in text


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
