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
