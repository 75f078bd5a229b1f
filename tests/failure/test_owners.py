"""Whose code failed: the innermost frame that acts decides, not who called it or what an argument is named."""

import pytest

from tests.failure.judging import diagnosis, root
from vllm_logdoctor import analyze
from vllm_logdoctor.report.proof import carrying
from vllm_logdoctor.run.owners import owner_of

ENV = "/opt/envs/vllm/lib/python3.12"


def log_of(*lines: str, start: bool = True) -> str:
    banner = ["INFO 05-01 10:00:01 [api_server.py:1043] vLLM API server version 0.9.1"] if start else []
    return "\n".join([*banner, *lines])


def torn(*frames: tuple[str, str, str], ends: str = "") -> list[str]:
    lines = ["Traceback (most recent call last):"]
    for file, function, code in frames:
        lines += [f'  File "{file}", line 7, in {function}', f"    {code}"]
    return [*lines, *([ends] if ends else [])]


@pytest.mark.parametrize(
    ("file", "owner"),
    [
        (f"{ENV}/site-packages/torch/nn/modules/module.py", "torch"),
        (f"{ENV}/site-packages/vllm/v1/engine/core.py", "vllm"),
        (f"{ENV}/asyncio/runners.py", "python"),
        ("/workspace/vllm/vllm/worker/worker.py", "vllm"),
        ("/home/me/vllm-tests/serve.py", ""),
        ("/tmp/pip-build-env-x/overlay/lib/python3.12/site-packages/setuptools/build_meta.py", "build"),
        (r"C:\venv\Lib\site-packages\transformers\utils.py", "transformers"),
    ],
)
def test_the_owner_of_a_file_is_its_package(file, owner):
    assert owner_of(file) == owner


def test_an_environment_named_vllm_makes_no_code_of_vllm():
    log = log_of(
        *torn(
            ("/home/me/run.py", "<module>", "main()"),
            ("/home/me/run.py", "main", "names[3]"),
            ends="IndexError: list index out of range",
        )
    )
    found = root(log)
    assert found.id == "unclassified-failure"
    assert found.title == "IndexError in the program's own code"


def test_a_decorator_of_a_connector_is_no_failed_connector():
    wrapper = (
        f"{ENV}/site-packages/vllm/attention/utils/kv_transfer_utils.py",
        "wrapper",
        "return func(*args, **kwargs)",
    )
    inside = (
        f"{ENV}/site-packages/vllm/model_executor/layers/rotary.py",
        "forward",
        "cos = self.table[positions]",
    )
    log = log_of(
        *torn(
            (f"{ENV}/site-packages/vllm/worker/worker.py", "execute_model", "self.run()"),
            wrapper,
            inside,
            ends="IndexError: too many indices",
        )
    )
    assert root(log).id == "engine-code-bug"


def test_the_last_code_of_a_torn_traceback_tells_what_was_raised():
    place = (
        f"{ENV}/site-packages/vllm/model_executor/models/mllama.py",
        "forward",
        "assert actual_len >= last_group_len",
    )
    found = root(log_of(*torn(place)))
    assert (found.id, found.title) == ("engine-code-bug", "AssertionError in mllama.py, forward")


def test_arithmetic_is_no_refusal_of_an_attention_backend():
    place = (
        f"{ENV}/site-packages/vllm/attention/backends/blocksparse.py",
        "forward",
        "rows, columns = shape",
    )
    load = (f"{ENV}/site-packages/vllm/worker/worker.py", "profile_run", "self.execute()")
    log = log_of(*torn(load, place, ends="ValueError: too many values to unpack (expected 2)"))
    assert root(log).id != "attention-backend-incompatible"


def test_memory_that_other_processes_hold_is_named():
    text = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.44 GiB. GPU 0 has a total capacity of 80.00 GiB of which 3.14 GiB is free."
        " Process 12 has 11.00 GiB memory in use. Including non-PyTorch memory, this process has 64.50 GiB memory in use."
    )
    found = root(
        log_of(
            *torn(
                (
                    f"{ENV}/site-packages/vllm/worker/cache_engine.py",
                    "_allocate_kv_cache",
                    "torch.zeros(shape)",
                ),
                ends=text,
            )
        )
    )
    assert found.id == "gpu-memory-not-free-at-start"
    assert "11 GiB of this GPU's 80 GiB" in found.explanation


@pytest.mark.parametrize(
    "lines",
    [
        ["E           AssertionError: assert '' == 'SELECT 1'", "tests/test_output.py:9: AssertionError"],
        torn(
            ("/app/hermes_tool_parser.py", "extract_tool_calls", "call.get('x')"),
            ends="AttributeError: 'NoneType' object has no attribute 'get'",
        ),
    ],
    ids=["a test's own check", "a parser of the model's output"],
)
def test_what_the_server_outlives_is_no_failure_of_it(lines):
    assert [one.id for one in diagnosis(log_of(*lines)).findings if one.kind == "failure"] == []


def test_an_exception_of_a_test_run_is_read():
    log = log_of(
        "vllm/v1/worker/gpu_worker.py:40: in load_model", "    self.load()", "E       KeyError: 'lm_head'"
    )
    assert "KeyError: 'lm_head'" in root(log).evidence[0].text


def refused_by_compiler(error: str):
    build = (f"{ENV}/site-packages/setuptools/command/build_ext.py", "run", "subprocess.check_call(command)")
    log = log_of(
        "Building editable for vllm (pyproject.toml)",
        error,
        *torn(
            build,
            ends="subprocess.CalledProcessError: Command '['cmake', '--build', '.']' returned non-zero exit status 1.",
        ),
        start=False,
    )
    return root(log)


def test_the_first_error_of_the_compiler_leads_where_a_build_tool_failed():
    found = refused_by_compiler(
        "/src/csrc/cpu/attention.cpp:281:40: error: use of undeclared identifier 'row_stride_of'"
    )
    assert "row_stride_of" in found.evidence[0].text
    assert found.alternatives[0].startswith("Fix the first error")


def test_an_error_in_a_header_of_the_system_is_nothing_to_fix_there():
    found = refused_by_compiler(
        "/usr/include/c++/14/bits/stl_algo.h:3626:7: error: reference to a function of the host"
    )
    assert "headers that fit together" in found.alternatives[0]


def test_an_error_of_a_worker_that_only_another_process_quotes_leads():
    step = (
        f"{ENV}/site-packages/vllm/v1/executor/multiproc_executor.py",
        "collective_rpc",
        "raise RuntimeError(",
    )
    ends = "RuntimeError: Worker failed with error 'Expected result >= 0 to be true, but got false.', please check the stack trace above"
    found = root(log_of(*torn(step, ends=ends)))
    assert found.id == "unclassified-failure"
    assert "Expected result >= 0" in found.explanation


def test_parts_of_the_workers_tracebacks_are_shown_where_another_process_quotes_their_error():
    step = (
        f"{ENV}/site-packages/vllm/v1/executor/multiproc_executor.py",
        "get_response",
        "raise RuntimeError(",
    )
    ends = "RuntimeError: Worker failed with error 'Trying to create tensor with negative dimension -64', please check the stack trace above"
    head = "(VllmWorker rank=3 pid=41) ERROR 05-01 10:00:11 [multiproc_executor.py:527] "
    cache = "/home/u/.cache/vllm/torch_compile_cache/1c0ffee123"
    parts = [
        f'{head}  File "{ENV}/site-packages/vllm/compilation/compiler_interface.py", line 510, in compiled_graph',
        f"{head}    graph_output = inductor_compiled_graph(list_args)",
        f'{head}  File "{cache}/rank_3_0/inductor_cache/ab/cabc.py", line 88, in call',
        f"{head}    buf7 = empty_strided_cuda((s0 - 64, ), (1, ), torch.int32)",
    ]
    found = root(log_of(*torn(step, ends=ends), *parts))
    assert any("buf7 = " in one.text for one in found.evidence)
    assert "not in this log" not in " ".join(found.alternatives)
    assert "--enforce-eager" in found.alternatives[0]
    assert cache in found.alternatives[1]
    elsewhere = root(log_of(*torn(step, ends=ends), *parts[:2]))
    assert "compiler_interface.py" in elsewhere.explanation
    assert "--enforce-eager" not in " ".join(elsewhere.alternatives)


@pytest.mark.parametrize(
    "line",
    [
        "  Using cached vllm-0.6.3.post1.tar.gz (2.7 MB)",
        "The error is likely not a problem with poetry but with vllm (0.6.3.post1) not supporting PEP 517 builds",
    ],
)
def test_the_release_that_an_installer_names_is_the_version(line):
    version = diagnosis(
        log_of(line, "vllm: ValueError: x", "ValueError: no vllm here", start=False)
    ).run.version
    assert (version.value, version.provenance) == ("0.6.3.post1", "derived")


def test_an_excerpt_of_failed_requests_is_of_a_server_that_runs():
    lines = [
        "ERROR:    Exception in ASGI application",
        *torn(
            (f"{ENV}/site-packages/vllm/entrypoints/openai/api_server.py", "create", "run()"),
            ends="ValueError: x",
        ),
    ]
    assert diagnosis(log_of(*lines)).run.outcome == "running"


def test_a_device_fault_goes_before_the_timeout_that_waits_for_it():
    fault = "[rank1]:[E520 10:00:05.5 ProcessGroupNCCL.cpp:1896] Process group watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered"
    wait = (
        f"{ENV}/site-packages/vllm/v1/executor/multiproc_executor.py",
        "collective_rpc",
        "raise TimeoutError(",
    )
    ready = "INFO:     Application startup complete."
    loop = (f"{ENV}/site-packages/vllm/v1/engine/core.py", "run_busy_loop", "self._process_engine_step()")
    log = log_of(ready, fault, *torn(loop, wait, ends="TimeoutError: RPC call to execute_model timed out."))
    assert root(log).id == "cuda-illegal-memory-access"


def test_a_compiler_that_was_killed_ran_out_of_memory():
    build = (f"{ENV}/site-packages/torch/utils/cpp_extension.py", "_run_ninja_build", "subprocess.run(")
    lines = [
        "Building editable for vllm (pyproject.toml)",
        "[1/9] /usr/local/cuda/bin/nvcc -c kernel.cu",
        "Killed",
    ]
    log = log_of(
        *lines,
        *torn(
            build,
            ends="subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.",
        ),
        start=False,
    )
    assert root(log).id == "host-memory-exhausted"


def test_the_next_step_fits_the_owner():
    found = root(
        log_of(*torn(("/home/me/run.py", "<module>", "names[3]"), ends="IndexError: list index out of range"))
    )
    assert found.changes == ()
    assert "Correct the program at /home/me/run.py:7" in found.alternatives[0]


@pytest.mark.parametrize(
    ("message", "confidence"),
    [
        ("Tiered GLM requires 78 main and 21 indexer cache specs", "low"),
        ("This check requires that max_num_seqs is not larger than 64", "medium"),
    ],
)
def test_a_refusal_in_common_words_is_as_sure_as_the_setting_that_it_names(message, confidence):
    frames = (f"{ENV}/site-packages/vllm/v1/core/kv_cache_utils.py", "get_kv_cache_config", f"raise ValueError({message!r})")  # fmt: skip
    found = root(log_of(*torn(frames, ends=f"ValueError: {message}")))
    assert (found.id, found.confidence) == ("settings-refused", confidence)


@pytest.mark.parametrize(("platform", "title"), [("cuda", "CPU device requested from a GPU build of vLLM"), ("cpu", "TypeError in worker_base.py, init_worker")])  # fmt: skip
def test_code_of_the_cpu_backend_that_fails_in_a_build_for_gpus_is_of_the_wrong_build(platform, title):
    error = "TypeError: Worker.__init__() got an unexpected keyword argument 'kv_cache_dtype'"
    frames = [
        (f"{ENV}/site-packages/vllm/executor/cpu_executor.py", "_create_worker", "wrapper.init_worker(**kwargs)"),
        (f"{ENV}/site-packages/vllm/worker/worker_base.py", "init_worker", "self.worker = worker_class(*args, **kwargs)"),
    ]  # fmt: skip
    detected = f"INFO 05-01 10:00:02 [__init__.py:179] Automatically detected platform {platform}."
    found = root(log_of(detected, *torn(*frames, ends=error)))
    assert (found.title, found.confidence) == (title, "high" if platform == "cuda" else "medium")
    assert any(detected in one.text for one in carrying(found)) is (platform == "cuda")


def test_a_check_of_the_users_script_is_no_conflict_of_packages() -> None:
    log = """\
Collecting vllm==0.7.2
Traceback (most recent call last):
  File "<stdin>", line 3, in <module>
AssertionError: sympy is too old
INFO 05-15 04:50:41 __init__.py:190] Automatically detected platform cuda.
Traceback (most recent call last):
  File "<stdin>", line 4, in <module>
AttributeError: module 'sympy' has no attribute 'release_name'
"""
    run = analyze(log.splitlines()).runs[0]
    (root,) = [one for one in run.findings if one.role == "root"]
    assert root.id == "unclassified-failure"
    assert "release_name" in root.evidence[0].text
    assert "environment" not in " ".join(change.text for change in root.changes)
    assert "program's own code" in root.explanation
