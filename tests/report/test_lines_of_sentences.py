"""A sentence on a failure cites the lines that show what it says: places, the phase, the words that announced it."""

from __future__ import annotations

from collections.abc import Sequence

from tests.report.test_true_failures import report

SERVER = "INFO 05-01 10:00:01 [api_server.py:1289] vLLM API server version 0.14.1"


def cited(lines: Sequence[str], sentence: str) -> str:
    """Return the citation of the paragraph of the report that holds a text."""
    (found,) = [line for line in report(list(lines)).splitlines() if sentence in line and "[L" in line]
    return found.rpartition("[")[2]


def place(lines: Sequence[str], text: str) -> str:
    return f"L{1 + next(number for number, line in enumerate(lines) if text in line)}"


def test_the_place_of_a_library_that_raised_and_its_caller_are_cited_by_their_frames() -> None:
    core = "ERROR 05-01 10:00:31 [core.py:780] "
    lines = [
        SERVER,
        core + "EngineCore failed to start.",
        core + "Traceback (most recent call last):",
        core + '  File "/opt/site-packages/vllm/v1/worker/block_table.py", line 42, in fill',
        core + "    info = grammars.TableInfo.from_tokenizer(",
        core + '  File "/opt/site-packages/rowlib/rows.py", line 219, in is_table',
        core + '    "rows" in tokenizer.row_files',
        core + "AttributeError: 'PlainRows' object has no attribute 'row_files'",
    ]
    found = cited(lines, "called from block_table.py")
    assert place(lines, "in is_table") in found
    assert place(lines, "/block_table.py") in found


def test_the_phase_that_a_sentence_names_is_cited_by_the_frame_that_shows_it() -> None:
    core = "ERROR 05-01 10:00:31 [core.py:780] "
    lines = [
        SERVER,
        core + "EngineCore failed to start.",
        core + "Traceback (most recent call last):",
        core + '  File "/opt/site-packages/vllm/v1/worker/gpu_model_runner.py", line 200, in profile_run',
        core + "    self.table.fill(rows)",
        core + '  File "/opt/site-packages/vllm/v1/worker/block_table.py", line 31, in fill',
        core + "    self.rows[row] = rows[row]",
        core + "IndexError: list index out of range",
    ]
    assert place(lines, "in profile_run") in cited(lines, "during memory profiling")


def test_the_frame_by_which_a_rule_knows_a_failure_is_cited() -> None:
    lines = [
        SERVER,
        "Traceback (most recent call last):",
        '  File "/opt/site-packages/vllm/distributed/kv_transfer/kv_connector/v1/nixl_connector.py", line 8, in register_kv_caches',
        "    self.wrapper.register_memory(rows)",
        '  File "/opt/site-packages/nixl/_api.py", line 266, in register_memory',
        "    self.agent.registerMem(rows)",
        "nixl._bindings.nixlBackendError: NIXL_ERR_BACKEND",
    ]
    assert place(lines, "in register_kv_caches") in cited(lines, "the memory of the KV cache")


def test_a_quoted_announcement_is_cited_with_its_line() -> None:
    lines = [
        SERVER,
        "INFO:     Application startup complete.",
        "ERROR:    Exception in ASGI application",
        "Traceback (most recent call last):",
        '  File "/opt/site-packages/starlette/responses.py", line 252, in __call__',
        "    async with anyio.create_task_group() as task_group:",
        "exceptiongroup.ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)",
    ]
    assert place(lines, "Exception in ASGI") in cited(lines, "The server logged")


def test_the_setting_above_that_a_sentence_names_is_cited() -> None:
    core = "ERROR 05-01 10:00:31 [core.py:780] "
    config = "INFO 05-01 10:00:09 [core.py:58] Initializing a V1 LLM engine (v0.14.1) with config: model='m', compilation_config="
    lines = [
        SERVER,
        config + "{'pass_config': {'fuse_allreduce_rms': True}}",
        core + "EngineCore failed to start.",
        core + "Traceback (most recent call last):",
        core
        + '  File "/opt/site-packages/vllm/v1/worker/gpu_worker.py", line 200, in compile_or_warm_up_model',
        core + "    self.model_runner.warm()",
        core + "RuntimeError: CUDA error: an illegal memory access was encountered",
    ]
    assert place(lines, "fuse_allreduce_rms") in cited(lines, "`fuse_allreduce_rms` is on")


def test_an_error_that_ends_the_traceback_above_announces_nothing() -> None:
    lines = [
        SERVER,
        "INFO 05-01 10:00:02 api_server.py:194] Started engine process with PID 38",
        "Task exception was never retrieved",
        "Traceback (most recent call last):",
        '  File "/opt/site-packages/zmq/_future.py", line 400, in poll',
        "    raise _zmq.ZMQError(_zmq.ENOTSUP)",
        "zmq.error.ZMQError: Operation not supported",
        "Traceback (most recent call last):",
        '  File "/opt/site-packages/vllm/entrypoints/openai/api_server.py", line 210, in build_async_engine_client_from_engine_args',
        "    raise RuntimeError(",
        "RuntimeError: Engine process failed to start. See stack trace for the root cause.",
    ]
    found = report(lines)
    assert "# FAILED at start-up: Engine process ended without an error message" in found
    assert "ZMQError" not in found.partition("## What was read")[0]


def test_a_box_shows_the_line_of_code_and_no_part_of_a_broken_path() -> None:
    lines = [
        "INFO 05-01 10:00:01 [llm_engine.py:237] Initializing a V1 LLM engine (v0.11.0) with config: model='m'",
        "Processed prompts: 100%|##########| 1/1 [00:01<00:00,  1.11s/it, est. speed input: 7.07 toks/s, output: 40.40 toks/s]",
        "[rank0]: ╭───────── Traceback (most recent call last) ──────────╮",
        "[rank0]: │ /data/projects/reader-of-papers/src/run_papers      │",
        "[rank0]: │ .py:290 in run                                       │",
        "[rank0]: │                                                      │",
        "[rank0]: │   289 │   pages = len(papers)                        │",
        "[rank0]: │ ❱ 290 │   spent = time.perf_counter() - begun        │",
        "[rank0]: ╰──────────────────────────────────────────────────────╯",
        "[rank0]: UnboundLocalError: local variable 'begun' referenced before assignment",
    ]
    text = report(lines)
    assert ".py:290 in run │" not in text
    assert "L8: spent = time.perf_counter() - begun" in text


def test_a_compilers_error_in_many_lines_of_a_file_is_said_once() -> None:
    lines = [
        "vllm\\csrc\\rows.cu(41): error: expression must be a pointer to a complete object type",
        "vllm\\csrc\\rows.cu(96): error: expression must have a constant value",
        "vllm\\csrc\\rows.cu(97): error: expression must have a constant value",
    ]
    assert report(lines).count("expression must have a constant value") == 1


def test_a_line_end_that_a_viewer_wrote_out_is_no_part_of_a_message() -> None:
    core = "ERROR 05-01 10:00:31 [core.py:780] "
    lines = [
        SERVER,
        core + "EngineCore hit an exception: Traceback (most recent call last):^M",
        core + '  File "/opt/site-packages/vllm/v1/worker/block_table.py", line 31, in fill^M',
        core + "    self.rows[row] = rows[row]^M",
        core + "IndexError: list index out of range^M",
    ]
    text = report(lines)
    assert "`IndexError: list index out of range` [L5]" in text
    assert "EngineCore hit an exception" not in text.partition("## What broke")[2]


def test_what_stands_above_an_error_without_a_traceback_is_cited_where_the_rule_knows_it_by_that() -> None:
    lines = [
        "Building wheels for collected packages: vllm",
        "  -- The CUDA compiler identification is unknown",
        "  Compiler: /usr/bin/nvcc",
        "  ptxas tmp/Id.ptx, line 9; fatal   : Unsupported .version 7.5; current version is '6.3'",
        "  error: subprocess-exited-with-error",
    ]
    found = cited(lines, "with nvcc of the distribution")
    assert place(lines, "/usr/bin/nvcc") in found
    assert place(lines, "Unsupported .version") in found


def test_a_normal_step_of_a_build_above_a_full_disk_is_not_cited() -> None:
    lines = [
        "Collecting rowlib==1.0",
        "  Using cached http://packages.example/rowlib-1.0-py3-none-any.whl (176.2 MB)",
        "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
    ]
    assert place(lines, "Using cached") not in cited(lines, "file system is full")
