"""What a report quotes and cites of a failure: whole messages, and only lines that carry the statement."""

from __future__ import annotations

import vllm_logdoctor

START = [
    "INFO 05-01 10:00:01 [api_server.py:1043] vLLM API server version 0.8.3",
    "INFO 05-01 10:00:10 [gpu_model_runner.py:918] Loading model weights took 2.8875 GB",
]
FAILED = "ERROR 05-01 10:00:20 [core.py:208]"


def report(lines: list[str]) -> str:
    return vllm_logdoctor.analyze(lines).to_markdown()


def core(*lines: str) -> list[str]:
    return [*START, *(f"{FAILED} {line}" for line in lines)]


def test_an_exception_that_was_being_handled_is_not_what_broke() -> None:
    handled = [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/cache.py", line 9, in lookup',
        "    return table[name]",
        "KeyError: 'blue'",
    ]
    failed = [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/v1/engine/core.py", line 200, in run_engine_core',
        "    engine_core = EngineCoreProc(config)",
        '  File "/opt/vllm/v1/engine/core.py", line 153, in __init__',
        "    self.rows = shelf.count",
        "AttributeError: 'Shelf' object has no attribute 'count'",
    ]
    link = "During handling of the above exception, another exception occurred:"
    assert "blue" not in report(core(*handled, "", link, "", *failed))
    cause = "The above exception was the direct cause of the following exception:"
    assert "blue" in report(core(*handled, "", cause, "", *failed))


def test_a_message_that_a_tool_wrapped_is_quoted_whole() -> None:
    lines = [
        "  Building editable for vllm (pyproject.toml) ... error",
        "  error: subprocess-exited-with-error",
        "      CMake Error at /tmp/cmake/Modules/CMakeDetermineCompilerId.cmake:814 (message):",
        "        Compiling the CUDA compiler identification source file failed.",
        "        ptxas tmp/CMakeCUDACompilerId.ptx, line 9; fatal : Unsupported .version",
        "        7.5; current version is '6.3'",
        "",
        "ERROR: Failed building editable for vllm",
    ]
    text = report(lines)
    assert "Unsupported .version 7.5; current version is '6.3'` [L5, L6]" in text
    assert "CMake Error at" not in text.split("## What broke")[-1]


def test_a_line_of_its_own_below_the_decisive_one_is_no_part_of_it() -> None:
    lines = [
        *START,
        "INFO:     Started server process [7]",
        "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use",
        "INFO:     Waiting for application shutdown.",
    ]
    assert "address already in use` [L4]" in report(lines)


def test_a_quote_that_is_too_long_ends_with_a_sentence() -> None:
    processes = " ".join(f"Process 77{number} has 1.25 GiB memory in use." for number in range(9))
    said = f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.44 GiB. GPU 0 has 3.14 GiB free. {processes}"
    lines = core(
        "Traceback (most recent call last):",
        '  File "/opt/vllm/worker/worker.py", line 2, in f',
        "    x()",
        said,
    )
    quote = next(line for line in report(lines).split("\n") if line.startswith("`torch.Out"))
    assert quote.rpartition(" [")[0].endswith("memory in use. …`")


def test_the_middle_of_a_statement_is_not_quoted_and_its_first_line_is_marked() -> None:
    def failing(*code: str) -> str:
        return report(
            core(
                "Traceback (most recent call last):",
                '  File "/opt/vllm/model_executor/models/x.py", line 2, in forward',
                *(f"    {line}" for line in code),
                "IndexError: list index out of range",
            )
        )

    assert "or table.numel()" not in failing("or table.numel() == 0, \\")
    assert "output = self.shelf.pick(rows,…" in failing("output = self.shelf.pick(rows,")
    assert "output = self.shelf[row]\n" in failing("output = self.shelf[row]")


def test_a_cause_that_the_title_calls_probable_is_not_stated_flatly() -> None:
    lines = core(
        "EngineCore failed to start.",
        "Traceback (most recent call last):",
        '  File "/opt/vllm/distributed/kv_transfer/kv_transfer_state.py", line 20, in ensure_kv_transfer_initialized',
        "    if (vllm_config.kv_transfer_config.is_kv_transfer_instance",
        "AttributeError: 'dict' object has no attribute 'is_kv_transfer_instance'",
    )
    text = report(lines)
    assert ", probable cause: KV connector" in text.split("\n")[0]
    assert "**Probable cause: the configuration of the KV connector was given as a dict" in text
