"""A sentence names the part that fails where the log shows it: a file of another version, code for GPUs on a CPU, memory that is used up."""

from __future__ import annotations

from tests.failure.judging import root
from tests.failure.records import framed, traceback
from tests.failure.two_ranks import START, text
from vllm_logdoctor import analyze


def failed(error: str, *above: str, function: str = "load_model") -> str:
    lines = framed(
        "EngineCore_DP0 pid=9", traceback((function, "self.rows = make()"), ends=error), "core.py:708"
    )
    return text([*START, *above], lines)


def test_a_name_that_a_present_file_of_vllm_lacks_shows_two_versions() -> None:
    found = root(
        failed(
            "ImportError: cannot import name 'row_plan' from 'vllm.vllm_flash_attn' (/src/vllm/vllm/vllm_flash_attn/__init__.py)"
        )
    )
    assert found.title == "Python files of vLLM from different versions"
    assert "/src/vllm/vllm/vllm_flash_attn/__init__.py is there" in found.explanation


def test_a_missing_compiled_extension_is_no_file_of_another_version() -> None:
    found = root(
        failed("ImportError: cannot import name 'vllm_ops' from 'vllm' (/src/vllm/vllm/__init__.py)")
    )
    assert found.title != "Python files of vLLM from different versions"


def test_code_for_gpus_on_the_cpu_backend_needs_no_other_build() -> None:
    chosen = "INFO 05-01 10:00:01 [__init__.py:239] Automatically detected platform cpu."
    found = root(failed("RuntimeError: Found no NVIDIA driver on your system.", chosen))
    assert found.title == "Code for GPUs called on the CPU backend"
    assert not any("install the build" in way for way in found.alternatives)


def test_memory_that_is_used_up_is_said_before_the_share_of_the_device() -> None:
    given = "INFO 05-01 10:00:01 [api_server.py:1044] args: Namespace(model='m', gpu_memory_utilization=0.4)"
    words = root(failed("ValueError: No available memory for the cache blocks.", given)).explanation
    assert words.startswith("Weights and the profiling run use all memory")


def test_that_cuda_reports_late_is_cited_by_the_line_that_says_so() -> None:
    late = "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect."
    log = failed(f"RuntimeError: CUDA error: an illegal memory access was encountered\n{late}")
    place = 1 + next(number for number, line in enumerate(log.splitlines()) if late in line)
    (sentence,) = [
        line for line in analyze(log.splitlines()).to_markdown().splitlines() if "at a later call" in line
    ]
    assert f"L{place}" in sentence.rpartition("[")[2]
