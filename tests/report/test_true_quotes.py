"""What of a failure is quoted, cited and named in a title, each on a small log of its own."""

from __future__ import annotations

from tests.report.test_true_failures import report
from vllm_logdoctor.report.proof import telling
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.run.model import Evidence


def test_a_copy_of_an_error_with_a_class_inside_its_text_is_no_further_line() -> None:
    error = "RuntimeError: Task error: IO Error: Disk quota exceeded (os error 122)"
    lines = (Evidence("a.log", 1, error), Evidence("a.log", 9, f"(EngineCore pid=4) {error}"))
    found = Finding("x", "failure", "high", "high", "t", "e", "root", lines)
    assert telling(found) == lines[:1]


def test_a_log_message_whose_text_was_left_out_proves_nothing() -> None:
    lines = (
        Evidence("a.log", 1, "RuntimeError: the sorted logits do not fit"),
        Evidence(
            "a.log",
            9,
            "(VllmWorker rank=1 pid=4) ERROR 04-14 14:24:52 [multiproc_executor.py:379] WorkerProc hit an exception: %s",
        ),
    )
    assert telling(Finding("x", "failure", "high", "high", "t", "e", "root", lines)) == lines[:1]


def test_a_bare_exception_in_a_build_is_called_by_its_assertion_and_by_whose_code_raised_it() -> None:
    lines = [
        "Collecting fastrope",
        "  Building wheel for fastrope (setup.py): started",
        "      Traceback (most recent call last):",
        '        File "<string>", line 2, in <module>',
        '        File "/tmp/pip-install-a1/fastrope_b2/setup.py", line 80, in <module>',
        "          setuptools.setup(",
        '        File "/opt/env/lib/python3.12/site-packages/torch/utils/cpp_extension.py", line 900, in _jit_flags',
        "          assert len(flags) > 0",
        "      AssertionError",
        "      [end of output]",
        "  ERROR: Failed building wheel for fastrope",
        "ERROR: Failed to build installable wheels for some pyproject.toml based projects (fastrope)",
    ]
    title = report(lines).partition("\n")[0]
    assert title.startswith("# BUILD FAILED: AssertionError: assert len(flags) > 0")
    assert title.endswith("raised in cpp_extension.py, `_jit_flags` (torch)")


def test_the_caller_that_a_sentence_names_is_cited_with_its_line() -> None:
    lines = [
        "INFO 05-01 10:00:01 [api_server.py:1289] vLLM API server version 0.14.1",
        "ERROR 05-01 10:00:31 [core.py:780] EngineCore failed to start.",
        "ERROR 05-01 10:00:31 [core.py:780] Traceback (most recent call last):",
        'ERROR 05-01 10:00:31 [core.py:780]   File "/opt/site-packages/vllm/v1/worker/gpu_worker.py", line 200, in warm_up',
        "ERROR 05-01 10:00:31 [core.py:780]     self.table.fill(rows)",
        'ERROR 05-01 10:00:31 [core.py:780]   File "/opt/site-packages/vllm/v1/worker/block_table.py", line 31, in fill',
        "ERROR 05-01 10:00:31 [core.py:780]     self.rows[row] = rows[row]",
        "ERROR 05-01 10:00:31 [core.py:780] IndexError: list index out of range",
    ]
    place = 1 + next(number for number, line in enumerate(lines) if "in warm_up" in line)
    (sentence,) = [line for line in report(lines).splitlines() if "alled from gpu_worker.py, warm_up" in line]
    assert f"L{place}" in sentence.rpartition("[")[2]


def test_what_broke_shows_no_normal_step_of_a_build_tool() -> None:
    lines = [
        "Processing /home/user/vllm",
        "  Installing build dependencies: started",
        "        Using cached http://packages.example/nvidia_rope_cu12-2.20.5-py3-none-manylinux2014_x86_64.whl (176.2 MB)",
        "      ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
        "error: subprocess-exited-with-error",
        "× pip subprocess to install build dependencies did not run successfully.",
    ]
    assert "# BUILD FAILED: No space left on device" in report(lines)
    assert "Using cached" not in report(lines)


def test_the_hugging_face_backend_of_a_benchmark_script_is_no_code_of_vllm() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/src/vllm/benchmarks/benchmark_throughput.py", line 154, in run_hf',
        "    ids = tokenizer(batch, padding=True)",
        '  File "/opt/site-packages/transformers/tokenization_utils_base.py", line 2734, in _padding',
        "    raise ValueError(text)",
        "ValueError: Asking to pad but the tokenizer does not have a padding token.",
    ]
    text = report(lines)
    assert "called from benchmark_throughput.py, run_hf. The benchmark ran its backend `hf`" in text
    assert "the traceback contains no vLLM code" in text
