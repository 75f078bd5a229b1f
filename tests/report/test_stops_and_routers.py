"""What a report says of a server that was stopped, and of a router before servers."""

from __future__ import annotations

from vllm_logdoctor import analyze

START = [
    "INFO 05-01 10:00:00 [api_server.py:1300] vLLM API server version 0.11.0",
    "INFO 05-01 10:00:02 [api_server.py:1301] args: Namespace(model='org/m')",
]
READY = ["INFO:     Application startup complete."]
STOPPED = [
    "Traceback (most recent call last):",
    '  File "/opt/vllm/entrypoints/openai/api_server.py", line 77, in signal_handler',
    '    raise KeyboardInterrupt("terminated")',
    "KeyboardInterrupt: terminated",
]
LATER = [
    "Traceback (most recent call last):",
    '  File "/opt/vllm/v1/engine/core_client.py", line 899, in get_output_async',
    "    raise outputs",
    "RuntimeError: the queue is gone",
]
CLOSING = [
    "INFO:     Shutting down",
    "INFO:     Waiting for connections to close. (CTRL+C to force quit)",
]
ROUTER = [
    "[2026-05-01 10:00:00,000] INFO: httpx AsyncClient instantiated. Id 77 (httpx_client.py:31:vllm_router.httpx_client)",
    *READY,
    'INFO:     10.0.0.1:4242 - "POST /v1/chat/completions HTTP/1.0" 200 OK',
    *CLOSING,
    "INFO:     Waiting for application shutdown.",
    "[2026-05-01 10:09:00,000] INFO: httpx AsyncClient closed (httpx_client.py:43:vllm_router.httpx_client)",
]


def _report(*parts: list[str]) -> str:
    return analyze([line for part in parts for line in part]).to_markdown()


def test_the_traceback_of_a_signal_is_no_error_after_it() -> None:
    assert "Errors after the signal" not in _report(START, READY, STOPPED)
    assert "Errors after the signal belong to the shutdown: 1 error." in _report(START, READY, STOPPED, LATER)


def test_a_start_that_was_stopped_while_it_asked_the_hub_gets_a_step_for_that() -> None:
    asking = [
        STOPPED[0],
        '  File "/opt/site-packages/huggingface_hub/hf_api.py", line 77, in list_repo_tree',
        "    for path in paginate(url):",
        *STOPPED[1:],
    ]
    asked, compiled = _report(START, asking), _report(START, STOPPED)
    assert "HF_HUB_OFFLINE=1" in asked
    assert "compiling take minutes" not in asked
    assert "HF_HUB_OFFLINE=1" not in compiled


def test_who_is_stopped_during_the_start_is_told_to_look_for_who_did_it() -> None:
    early, late = _report(START, STOPPED), _report(START, READY, STOPPED, LATER)
    assert "1. Find out what sent the signal before the start was done" in early
    assert "Find out what sent the signal before the start" not in late


def test_a_section_on_what_broke_is_left_out_where_it_has_nothing_to_say() -> None:
    report = _report(START, STOPPED)
    assert "## What broke" not in report
    assert "## To check after the fix" not in report
    assert "Last line: `raise" not in report


def test_a_shutdown_that_has_no_connection_left_is_no_kill_where_the_log_ends() -> None:
    waiting = analyze([*START, *READY, *CLOSING])
    closed = analyze([*START, *READY, *CLOSING, "INFO:     Waiting for application shutdown."])
    assert [waiting.runs[0].outcome, closed.runs[0].outcome] == ["killed", "clean_shutdown"]


def test_a_router_is_named_and_lacks_nothing_of_an_engine() -> None:
    report = _report(ROUTER)
    assert report.startswith(
        "# ROUTER: no error\n\nrouter before servers of vLLM · log of 9 min · clean shutdown"
    )
    assert "Missing from this log" not in report


def test_a_server_that_speaks_of_a_router_is_a_server() -> None:
    report = _report(START, READY, ["INFO 05-01 10:00:05 [launcher.py:12] behind vllm_router.app"])
    assert "router before servers" not in report
    assert "vLLM 0.11.0" in report


def test_a_trainer_that_was_interrupted_is_not_called_healthy() -> None:
    engine = [
        "INFO 05-01 10:00:00 [core.py:93] Initializing a V1 LLM engine (v0.12.0) with config: model='org/m'",
        "INFO 05-01 10:01:00 [core.py:254] init engine (profile, create kv cache, warmup model) took 51.22 seconds",
        "INFO 05-01 10:01:01 [llm.py:343] Supported tasks: ['generate']",
    ]
    interrupted = [
        "[2026-05-01 10:09:08,014] [INFO] [launch.py:344:sigkill_handler] Main process received SIGINT, exiting",
        "Traceback (most recent call last):",
        '  File "/opt/site-packages/deepspeed/launcher/runner.py", line 646, in main',
        "    result.wait()",
        "KeyboardInterrupt",
    ]
    report = _report(engine, interrupted)
    assert report.startswith("# STOPPED by a signal (SIGINT/SIGTERM)\n")
    assert "interrupted" in report.split("\n")[2]


def test_what_the_server_itself_raises_at_its_exit_is_no_client_s_error() -> None:
    def raised(process: str, *frame: str) -> list[str]:
        said = "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xd2 in position 181: invalid continuation byte"
        return [f"{process}{line}" for line in ("Traceback (most recent call last):", *frame, said)]

    at_exit = ('  File "/usr/lib/python3.12/weakref.py", line 666, in _exitfunc', "    f()")
    of_program = ('  File "/home/user/ask.py", line 12, in <module>', "    print(answer.decode())")
    ended = [*CLOSING[:1], "INFO:     Application shutdown complete."]
    client = "A client of the server failed"
    assert client not in _report(START, READY, ended, raised("(APIServer pid=51) ", *at_exit))
    assert client not in _report(START, READY, raised("", *at_exit), ended)
    assert client in _report(START, READY, raised("", *of_program), ended)
