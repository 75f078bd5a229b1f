"""How much of what vLLM wrote is recognised: files that no release has are not vLLM's, requests in JSON are."""

from __future__ import annotations

from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.report.markdown import render
from vllm_logdoctor.run.model import Coverage
from vllm_logdoctor.source import inputs_from

START = "INFO 05-01 10:00:00 [api_server.py:1043] vLLM API server version 0.11.2"


TRACEBACK = ['  File "/opt/vllm/v1/engine/core.py", line 7, in step', "    self.run()"]


def shown(lines: list[str]) -> str:
    return render(analyse(inputs_from("\n".join(lines).encode()), Options()))


def coverage(*lines: str) -> Coverage:
    return analyse(inputs_from("\n".join([START, *lines]).encode()), Options()).coverage


def counted(*lines: str) -> tuple[int, int]:
    found = coverage(*lines)
    return found.vllm_lines, found.recognised


def test_a_file_that_no_release_has_is_of_a_fork_or_a_plugin() -> None:
    assert counted("INFO 05-01 10:00:01 [site_swapper.py:12] moved 7 blocks") == (1, 1)


def test_another_program_names_no_call_site_where_vllm_does() -> None:
    assert counted("[2026-05-01 10:00:01] INFO: waiting for the server") == (1, 1)


def test_an_unknown_text_of_a_file_of_vllm_is_vllms() -> None:
    assert counted("INFO 05-01 10:00:01 [scheduler.py:12] moved 7 blocks") == (2, 1)


def test_a_warning_of_a_plugin_is_still_listed() -> None:
    found = coverage("WARNING 05-01 10:00:01 [site_swapper.py:12] pool is full")
    assert [one.template for one in found.unknown] == ["pool is full"]


def test_requests_in_json_are_recognised() -> None:
    line = '{"levelname": "INFO", "name": "uvicorn.access", "message": "10.0.0.9:5 - \\"POST /v1/completions HTTP/1.1\\" 200"}'
    assert counted(line, line) == (3, 3)


def test_a_message_that_a_value_breaks_is_recognised_with_its_further_lines() -> None:
    header = "WARNING 05-01 10:00:01 [flashinfer_all_reduce.py:72]"
    lines = (
        f"{header} Failed to initialize FlashInfer All Reduce workspace: Ninja build failed. Output:",
        f"{header} [1/3] nvcc --generate-dependencies-with-compile",
    )
    assert counted(*lines) == (3, 3)


def test_a_report_does_not_measure_the_tool() -> None:
    """How many messages the tool knows is in the JSON document; a reader of the report can do nothing with it."""
    unknown = "INFO 05-01 10:00:01 [gpu_worker.py:12] moved 7 blocks"
    text = shown([*[START] * 50, unknown])
    assert "51 lines read.\n" in text
    assert "%" not in text.partition("51 lines read.")[2]


def test_data_sets_of_another_library_from_its_cache_are_no_unexplained_warnings() -> None:
    lines = (
        "WARNING:datasets.load:Using the latest cached version of the dataset since org/questions couldn't be found on the Hub",
        "WARNING:datasets.packaged_modules.cache.cache:Found the latest cached dataset configuration 'default' at /cache/org___questions",
    )
    assert "without an explanation" not in shown([*[START] * 5, *lines])


def test_lines_of_a_traceback_are_no_messages() -> None:
    header = "ERROR 05-01 10:00:01 [core.py:708]"
    lines = [
        "EngineCore failed to start.",
        "Traceback (most recent call last):",
        *TRACEBACK * 12,
        "ValueError: text",
    ]
    assert counted(*(f"{header} {line}" for line in lines)) == (2, 2)
