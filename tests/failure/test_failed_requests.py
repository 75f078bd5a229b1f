"""Requests that fail lead the report when they are most of all."""

from __future__ import annotations

import pytest

from tests.failure.judging import diagnosis
from tests.run.lives_of_a_server import start, statistics
from vllm_logdoctor import RunView, analyze


def _served(good: int, bad: int, status: str) -> RunView:
    answers = ["200 OK"] * good + [status] * bad
    lines = [
        f'(APIServer pid=1) INFO:     127.0.0.1:5 - "POST /v1/completions HTTP/1.1" {one}' for one in answers
    ]
    return analyze([*start(), statistics(), *lines, statistics(clock="03-04 10:07:00")]).runs[0]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("400 Bad Request", "75 % of requests rejected with HTTP 4xx"),
        ("500 Internal Server Error", "75 % of requests answered with HTTP 5xx"),
    ],
)
def test_the_share_is_the_headline_when_most_requests_fail(status: str, words: str) -> None:
    assert f"# LIMITED: {words}" in _served(10, 30, status).to_markdown()


def test_a_few_refused_requests_are_no_headline() -> None:
    assert "LIMITED" not in _served(30, 10, "400 Bad Request").to_markdown().split("\n")[0]


def test_an_exception_that_the_web_server_logged_is_no_refused_request() -> None:
    answered = [
        f'(APIServer pid=1) INFO:     127.0.0.1:5 - "POST /v1/embeddings HTTP/1.1" {status}'
        for status in ("400 Bad Request",) * 4 + ("500 Internal Server Error",)
    ]
    raised = [
        "(APIServer pid=1) ERROR:    Exception in ASGI application", "(APIServer pid=1) Traceback (most recent call last):",
        '(APIServer pid=1)   File "/opt/lib/python3.12/site-packages/starlette/responses.py", line 189, in render',
        "(APIServer pid=1)     return json.dumps(content)", "(APIServer pid=1) ValueError: Circular reference detected",
    ]  # fmt: skip
    run = analyze([*start(), statistics(), *answered, *raised, statistics(clock="03-04 10:07:00")]).runs[0]
    fault, refused = [one for one in run.findings if one.id == "request-error-not-server-fault"]
    assert ["Circular reference" in one.explanation for one in (fault, refused)] == [True, False]
    assert ["4 with 400" in one.explanation for one in (fault, refused)] == [False, True]


def test_the_error_of_a_request_that_two_loggers_print_is_one_finding_by_its_cause() -> None:
    """Starlette prints a group that only counts its exceptions, then the exception of the request."""
    raised = [
        "ERROR:    Exception in ASGI application",
        "  + Exception Group Traceback (most recent call last):",
        '  |   File "/opt/lib/python3.12/site-packages/starlette/_utils.py", line 76, in collapse_excgroups',
        "  |     yield",
        "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        "Traceback (most recent call last):",
        '  File "/opt/lib/python3.12/site-packages/uvicorn/protocols/http/h11_impl.py", line 401, in run_asgi',
        "    result = await app(",
        '  File "/opt/lib/python3.12/site-packages/vllm/entrypoints/openai/protocol.py", line 513, in check_prompt',
        "    if data.get(key):",
        "RuntimeError: dictionary changed size during iteration",
    ]
    found = [one for one in analyze(raised).runs[0].findings if "processing a request" in one.title]
    assert len(found) == 1
    assert "RuntimeError" in found[0].explanation
    assert "goes on after such an error" in found[0].explanation
    assert "500" not in found[0].explanation
    logged = 'INFO:     10.0.0.7:5120 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error'
    said = [one.explanation for one in analyze([*raised, logged]).runs[0].findings]
    assert any("answered with status 500 and goes on" in one for one in said)


@pytest.mark.parametrize(
    ("given", "title", "of_header"),
    [
        ("bytes", "Request without Content-Type: application/json", True),
        ("list", "Request body is not a JSON object", False),
    ],
)
def test_a_body_of_another_type_is_told_from_json_that_is_no_object(
    given: str, title: str, of_header: bool
) -> None:
    raised = [
        "ERROR:    Exception in ASGI application",
        "Traceback (most recent call last):",
        '  File "/opt/lib/python3.12/site-packages/uvicorn/protocols/http/h11_impl.py", line 401, in run_asgi',
        "    result = await app(",
        '  File "/opt/lib/python3.12/site-packages/vllm/entrypoints/openai/protocol.py", line 513, in check_prompt',
        "    if data.get(key):",
        f"AttributeError: '{given}' object has no attribute 'get'",
    ]
    (found,) = [one for one in analyze(raised).runs[0].findings if one.title == title]
    assert ("Content-Type" in found.alternatives[0]) is of_header


def test_an_image_that_the_processor_refused_is_no_matter_of_the_prompts_length() -> None:
    raised = [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/vllm/v1/engine/async_llm.py", line 237, in add_request',
        "    prompt_str, request = self.processor.process_inputs(",
        '  File "/opt/vllm/vllm/inputs/registry.py", line 169, in call_hf_processor',
        "    output = hf_processor(**data, **merged_kwargs)",
        '  File "/opt/lib/transformers/image_utils.py", line 330, in infer_channels',
        '    raise ValueError("The image has no channels")',
        "ValueError: The image has no channels",
    ]
    report = analyze(raised).runs[0].to_markdown()
    assert "processor can't read an image" in report
    assert "max-model-len" not in report


_CALL_FAILED = [
    "NCCL error: internal error - please report this issue to the NCCL developers",
    'INFO:     127.0.0.1:5 - "POST /update_weights/ HTTP/1.1" 200 OK',
    "ERROR 03-04 10:07:10 [core.py:459] Invocation of collective_rpc method failed",
    "ERROR 03-04 10:07:10 [core.py:459] Traceback (most recent call last):",
    'ERROR 03-04 10:07:10 [core.py:459]   File "/opt/vllm/v1/engine/core.py", line 456, in _handle_client_request',
    "ERROR 03-04 10:07:10 [core.py:459]     output.result = method(",
]


def test_a_control_call_that_failed_in_the_engine_is_no_request() -> None:
    run = analyze(["INFO 03-04 10:07:00 [pynccl.py:69] vLLM is using nccl==2.21.5", *_CALL_FAILED]).runs[0]
    (root,) = [one for one in run.findings if one.role == "root"]
    assert (root.id, root.evidence[0].line) == ("nccl-error-unexplained", 2)
    assert "HEALTHY" not in run.to_markdown()
    assert "Error while processing a request" not in run.to_markdown()


def test_a_control_call_behind_which_tokens_are_made_did_not_end_the_server() -> None:
    run = analyze([*start(), statistics(), *_CALL_FAILED, statistics(clock="03-04 10:08:00")]).runs[0]
    assert not [one for one in run.findings if one.role == "root"]
    assert "Error while processing a request" in run.to_markdown()


def test_a_request_that_a_crash_cancelled_is_no_finding_of_its_own() -> None:
    cancelled = [
        "(APIServer pid=1) ERROR:    Exception in ASGI application", "(APIServer pid=1) Traceback (most recent call last):",
        '(APIServer pid=1)   File "/opt/lib/python3.12/site-packages/starlette/responses.py", line 232, in listen_for_disconnect',
        "(APIServer pid=1)     message = await receive()",
        "(APIServer pid=1) asyncio.exceptions.CancelledError: Cancelled by cancel scope 7f00",
        "(APIServer pid=1) ", "(APIServer pid=1) During handling of the above exception, another exception occurred:",
        "(APIServer pid=1) ", "(APIServer pid=1) Traceback (most recent call last):",
        '(APIServer pid=1)   File "/opt/lib/python3.12/site-packages/starlette/responses.py", line 252, in __call__',
        "(APIServer pid=1)     async with anyio.create_task_group() as task_group:",
        "(APIServer pid=1) exceptiongroup.ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)",
    ]  # fmt: skip
    head = "(EngineCore_DP0 pid=9) ERROR 03-04 10:06:59 [core.py:710] "
    crash = [
        "EngineCore encountered a fatal error.", "Traceback (most recent call last):",
        '  File "/opt/vllm/v1/worker/gpu_model_runner.py", line 1500, in execute_model', "    hidden = self.model(",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    ]  # fmt: skip
    failed = analyze([*start(), statistics(), *(head + line for line in crash), *cancelled]).runs[0]
    well = analyze([*start(), statistics(), *cancelled, statistics(clock="03-04 10:07:00")]).runs[0]
    assert "request-error-not-server-fault" not in [one.id for one in failed.findings]
    assert "request-error-not-server-fault" in [one.id for one in well.findings]


def test_a_model_that_the_server_does_not_have_is_named_where_its_clients_ask_for_it() -> None:
    asked = (
        "(APIServer pid=1) INFO:     Application startup complete.\n"
        "(APIServer pid=1) ERROR 02-23 13:48:05 [serving_chat.py:179] Error with model error=ErrorInfo(message='The model `other` does not exist.',"
        " type='NotFoundError', param=None, code=404)\n"
        '(APIServer pid=1) INFO:     172.17.0.1:34980 - "POST /v1/chat/completions HTTP/1.1" 404 Not Found\n'
    )
    refused = next(one for one in diagnosis(asked).findings if one.id == "request-error-not-server-fault")
    assert "The model `other` does not exist." in refused.explanation


def _report(text: str) -> str:
    return analyze(text.splitlines()).to_markdown()


def test_media_that_the_server_could_not_download_are_named_with_what_to_check() -> None:
    text = _report(
        "ERROR:    Exception in ASGI application\n"
        "Traceback (most recent call last):\n"
        '  File "/opt/lib/python3.11/site-packages/fastapi/routing.py", line 212, in run_endpoint_function\n'
        "    return await dependant.call(**values)\n"
        '  File "/opt/lib/python3.11/site-packages/vllm/connections.py", line 95, in async_get_bytes\n'
        "    return await r.read()\n"
        '  File "/opt/lib/python3.11/site-packages/aiohttp/helpers.py", line 671, in __exit__\n'
        "    raise asyncio.TimeoutError from exc_val\n"
        "TimeoutError\n"
    )
    assert text.startswith("# REQUEST ERROR: image or other media of a request could not be downloaded")
    assert "VLLM_IMAGE_FETCH_TIMEOUT" in text.split("## ")[0]
    assert text.lower().count("image or other media of a request could not be downloaded") == 1


def test_a_request_that_another_server_sends_on_and_vllm_refuses_is_that_program_s() -> None:
    text = _report(
        "ERROR:    Exception in ASGI application\n"
        "Traceback (most recent call last):\n"
        '  File "/opt/lib/python3.11/site-packages/starlette/routing.py", line 69, in app\n'
        "    await response(scope, receive, send)\n"
        '  File "gateway.py", line 99, in stream\n'
        "    answer = client.chat.completions.create(\n"
        '  File "/opt/lib/python3.11/site-packages/openai/_base_client.py", line 993, in _request\n'
        "    raise self._make_status_error_from_response(err.response) from None\n"
        "openai.BadRequestError: Error code: 400 - {'message': 'max_tokens must be at least 1, got -7.', 'code': 400}\n"
    )
    assert "a program's request was refused by the server" in text.splitlines()[0]
    assert (
        "probably the context minus the prompt" in text
    )  # The server computes max_tokens where a request has none.
    assert "7 tokens longer" in text
    assert "1. Shorten the prompt" in text


def test_one_failed_request_is_no_verdict_on_all_and_asks_nobody_to_read_what_is_shown() -> None:
    text = _report(
        "INFO 05-28 01:00:01 [async_llm.py:261] Added request chatcmpl-1.\n"
        "ERROR:    Exception in ASGI application\n"
        "Traceback (most recent call last):\n"
        '  File "/opt/lib/python3.11/site-packages/fastapi/routing.py", line 212, in run_endpoint_function\n'
        "    return await dependant.call(**values)\n"
        '  File "/opt/lib/python3.11/site-packages/vllm/assets/video.py", line 60, in load\n'
        "    assert i == num_frames, (\n"
        "AssertionError: Expected reading 32 frames, but only loaded 9 frames from video.\n"
        'INFO:     10.0.0.2:20037 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error\n'
    )
    assert text.startswith("# REQUEST FAILED: video of a request has unreadable frames")
    assert "only 9 could be decoded" in text
    assert "No request succeeded" not in text
    assert "Read the traceback" not in text


def _chat(exception: str, *statuses: str) -> RunView:
    raised = [
        "(APIServer pid=1) ERROR 03-04 10:06:00 [serving.py:218] Error in preprocessing prompt inputs",
        "(APIServer pid=1) ERROR 03-04 10:06:00 [serving.py:218] Traceback (most recent call last):",
        '(APIServer pid=1) ERROR 03-04 10:06:00 [serving.py:218]   File "/opt/lib/python3.12/site-packages/transformers/chat.py", line 9, in render',
        "(APIServer pid=1) ERROR 03-04 10:06:00 [serving.py:218]     return compiled.render()",
        f"(APIServer pid=1) ERROR 03-04 10:06:00 [serving.py:218] jinja2.exceptions.{exception}",
    ]
    answered = [
        f'(APIServer pid=1) INFO:     127.0.0.1:5 - "POST /v1/chat/completions HTTP/1.1" {status}'
        for status in statuses
    ]
    return analyze([*start(), *raised, *answered]).runs[0]


@pytest.mark.parametrize("statuses", [(), ("400 Bad Request",)])
@pytest.mark.parametrize(
    ("exception", "title", "step"),
    [
        ("TemplateSyntaxError: unexpected char '$' at 7", "Chat template has a syntax error", "Correct the template"),
        ("UndefinedError: 'dict object' has no attribute 'name'", "Chat template failed on the messages of a request", "Send the messages"),
        ("TemplateError: Only user and assistant roles are supported!", "Chat template failed on the messages of a request", "Send the messages"),
    ],
)  # fmt: skip
def test_an_error_of_the_chat_template_is_named_with_what_to_do(
    exception: str, title: str, step: str, statuses: tuple[str, ...]
) -> None:
    run = _chat(exception, *statuses)
    (found,) = [one for one in run.findings if one.id == "request-error-not-server-fault"]
    assert found.title == title
    assert exception.partition(": ")[2] in found.explanation
    assert ("1 with 400" in found.explanation) is bool(statuses)
    assert step in run.to_markdown().split("\n## ")[0]


def test_a_cache_without_a_home_directory_gets_a_folder():
    lines = [
        "ERROR 04-29 10:09:55 [registry.py:810] Error saving model info cache.",
        "ERROR 04-29 10:09:55 [registry.py:810] Traceback (most recent call last):",
        'ERROR 04-29 10:09:55 [registry.py:810]   File "/opt/lib/python3.12/pathlib.py", line 1311, in mkdir',
        "ERROR 04-29 10:09:55 [registry.py:810]     os.mkdir(self, mode)",
        "ERROR 04-29 10:09:55 [registry.py:810] PermissionError: [Errno 13] Permission denied: '/.cache'",
        "INFO 04-29 10:09:56 [model_runner.py:10] Starting to load model org/model...",
    ]
    found = [one for one in analyze(lines).runs[0].findings if one.id == "no-permission-for-path"]
    assert [one.kind for one in found] == ["configuration"]
    assert "`HOME`" in found[0].alternatives[0]


def test_a_traceback_without_its_exception_does_not_hide_what_the_other_says() -> None:
    head = "(APIServer pid=1) ERROR 05-01 10:00:00 "
    text = "\n".join([
        f"{head}[chat_utils.py:9] Traceback (most recent call last):",
        f'{head}[chat_utils.py:9]   File "/opt/site-packages/vllm/entrypoints/chat_utils.py", line 9, in apply',
        f"{head}[chat_utils.py:9] jinja2.exceptions.TemplateError: One tool only!",
        f"{head}[serving_chat.py:7] Error in preprocessing prompt inputs",
        f"{head}[serving_chat.py:7] Traceback (most recent call last):",
        f'{head}[serving_chat.py:7]   File "/opt/site-packages/vllm/entrypoints/chat_utils.py", line 9, in apply',
    ])  # fmt: skip
    report = analyze(text.splitlines()).to_markdown()
    assert "chat template failed" in report
    assert "One tool only! A template" in report
