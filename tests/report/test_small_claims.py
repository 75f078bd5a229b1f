"""Small sentences of the first screen: each says what the log shows, with its line."""

from __future__ import annotations

import vllm_logdoctor
from tests.report.test_true_sentences import START

IGNORED = """\
Exception ignored in: <function TCPStore.__del__ at 0x7f00aa11bb22>
Traceback (most recent call last):
  File "/opt/lib/python3.10/site-packages/cupyx/distributed/_store.py", line 59, in __del__
TypeError: 'NoneType' object is not callable
""".splitlines()


def page(lines: list[str]) -> str:
    return vllm_logdoctor.analyze(lines).to_markdown()


def test_an_exception_that_python_ignored_at_the_end_of_a_program_is_called_harmless_with_its_line() -> None:
    answers = [f"Prompt: 'Number {n} is', Generated text: ' large and odd'" for n in range(4)]
    text = page([*answers, *IGNORED])
    assert text.startswith("# COMPLETED")
    assert "destructor, which is harmless" in text
    assert "[L1, L4, L5]" in text
    engine = "INFO 05-01 10:00:00 llm_engine.py:87] Initializing an LLM engine with config: model='org/m'"
    assert "harmless" not in page([engine, *answers])


def test_a_piece_that_shows_only_sigterm_is_titled_by_it() -> None:
    lines = [
        "*** SIGTERM received at time=1750000000 on cpu 8 ***",
        "PC: @     0x7fe000000117  (unknown)  (unknown)",
        "2026-05-01 10:00:00,342 INFO compiled_dag_node.py:1867 -- Tearing down compiled DAG",
        "2026-05-01 10:00:00,342 INFO compiled_dag_node.py:1872 -- Cancelling compiled worker on actor: Actor(RayWorkerWrapper, a1)",
        "2026-05-01 10:00:01,080 INFO compiled_dag_node.py:1894 -- Teardown complete",
    ]
    assert page(lines).startswith("# STOPPED: the process received SIGTERM\n")


def test_a_process_that_crashed_in_native_code_failed_and_an_exception_alone_is_an_error() -> None:
    crashed = [
        "[2026-05-01 10:00:00,100 E 59 59] logging.cc:440: *** SIGSEGV received at time=1750000000 on cpu 61 ***",
        "Fatal Python error: Segmentation fault",
        'File "/opt/vllm/distributed/device_communicators/pynccl.py", line 120 in all_reduce',
    ]
    assert page(crashed).startswith("# FAILED")
    raised = [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/worker/worker.py", line 12, in step',
        "    self.step()",
        "ValueError: no such step",
    ]
    assert page(raised).startswith("# ERROR")


def test_the_shutdown_right_behind_an_offline_start_is_cited() -> None:
    lines = [
        "INFO 05-01 10:00:00 [llm.py:300] Initializing an LLM",
        "INFO 05-01 10:00:05 [core.py:70] Initializing a V1 LLM engine (v0.10.1.1) with config: model='org/m', dtype=torch.bfloat16, max_seq_len=4096",
        "INFO 05-01 10:00:20 [core.py:214] init engine (profile, create kv cache, warmup model) took 12.00 seconds",
        "INFO 05-01 10:00:20 [llm.py:298] Supported_tasks: ['generate']",
        "[rank0]:[W501 10:00:21.5 ProcessGroupNCCL.cpp:1479] Warning: WARNING: destroy_process_group() was not called before program exit",
    ]
    verdict = next(one for one in page(lines).splitlines() if one.startswith("**The engine"))
    assert "shut down within 2 s [L3, L5]" in verdict


def test_another_backend_of_vllm_s_benchmark_is_said_to_be_no_engine_of_vllm() -> None:
    def failed(function: str) -> str:
        return page(
            [
                "Traceback (most recent call last):",
                '  File "/src/vllm/benchmarks/benchmark_throughput.py", line 219, in main',
                f"    elapsed_time = {function}(requests, args.model)",
                f'  File "/src/vllm/benchmarks/benchmark_throughput.py", line 154, in {function}',
                '    input_ids = tokenizer(batch, return_tensors="pt")',
                '  File "/opt/lib/python3.10/site-packages/transformers/tokenization_utils_base.py", line 2734, in _pad',
                "    raise ValueError(",
                "ValueError: No padding token is set.",
            ]
        )

    assert "backend `hf`: vLLM's engine did not run" in failed("run_hf")
    assert "did not run" not in failed("run_vllm")


def test_a_variable_before_a_program_that_starts_the_launch_is_listed() -> None:
    command = "VLLM_CPU_KVCACHE_SPACE=16 time numactl -C 0-31 vllm serve org/m --device cpu"
    run = vllm_logdoctor.analyze([command, *START]).runs[0].run
    assert run.environment["VLLM_CPU_KVCACHE_SPACE"].value == "16"
