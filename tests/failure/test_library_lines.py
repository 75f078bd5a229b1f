"""What libraries and compilers print: the device, the header or the library that is missing, a title without a prefix of its own, phases by their ends."""

from __future__ import annotations

import pytest

from tests.failure.judging import root
from tests.failure.records import framed
from vllm_logdoctor import analyze

TORN = framed(
    "",
    [
        "EngineCore failed to start.",
        "Traceback (most recent call last):",
        '  File "/opt/vllm/v1/engine/core.py", line 577, in run_engine_core',
        "    engine_core = EngineCoreProc(*args, **kwargs)",
    ],
    "core.py:586",
)
STARTED = "INFO 05-01 09:59:59 [nixl_connector.py:586] Registering KV_Caches: use_mla: False"
UCX = "[1760000000.123456] [pod-7:42   :0]    {file}:99   UCX  ERROR {text}"


def _after(line: str) -> str:
    return "\n".join([STARTED, line, *TORN])


def test_an_rdma_device_that_a_process_can_not_use_is_named_with_its_step() -> None:
    line = UCX.format(
        file="ib_mlx5dv_md.c",
        text="mlx5_3: ibv_modify_qp(UMR QP 0x1b2) failed to modify to RTR: No such device",
    )
    found = root(_after(line))
    assert "mlx5_3" in found.title
    assert "No such device" in found.title
    assert "`ibv_devinfo -d mlx5_3`" in found.alternatives[0]
    assert not any("rest of the traceback" in step for step in found.alternatives)


def test_memory_that_rdma_may_not_lock_is_no_device_that_is_missing() -> None:
    text = "ibv_reg_mr(address=0x7f00, length=4096, access=0xf) failed: Cannot allocate memory : Please set max locked memory"
    found = root(_after(UCX.format(file="ib_md.c", text=text)))
    assert found.alternatives[0].startswith("Allow the process to lock memory")


@pytest.mark.parametrize(
    "line",
    [
        UCX.format(file="ucp_worker.c", text="our transport gave up on its peer"),
        "E0501 10:00:00.123456 7 agent.cpp:1118] our transport gave up on its peer",
    ],
)
def test_a_title_begins_with_what_the_library_says(line: str) -> None:
    title = analyze(_after(line).split("\n")).to_markdown().split("\n")[0]
    assert title.endswith(": our transport gave up on its peer")


@pytest.mark.parametrize(("site", "named"), [("loader.py:226", True), ("other.py:226", False)])
def test_a_warning_of_the_file_in_which_a_traceback_is_cut_off_is_shown(site: str, named: bool) -> None:
    warned = f"WARNING 05-01 10:00:00 [{site}] Provided both one_dir and one_uri. Inferring the former."
    torn = [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/model_executor/loader.py", line 232, in __post_init__',
    ]
    found = root("\n".join([warned, *framed("", torn, "core.py:586")]))
    assert ("loader.py that is quoted here" in found.explanation) is named
    assert any("Provided both" in one.text for one in found.evidence) is named


@pytest.mark.parametrize(
    ("model", "first"), [("our_vl.py", "--limit-mm-per-prompt"), ("our_text.py", "CUDA_LAUNCH_BLOCKING")]
)
def test_the_dummy_images_of_profiling_may_exceed_the_length_of_the_model(model: str, first: str) -> None:
    failed = [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/worker/model_runner.py", line 1331, in profile_run',
        "    self.execute_model(model_input, kv_caches)",
        f'  File "/opt/vllm/model_executor/models/{model}", line 71, in forward',
        "    hidden_states = self.model(input_ids, positions)",
        "RuntimeError: CUDA error: device-side assert triggered",
    ]
    assert first in root("\n".join(framed("", failed, "engine.py:366"))).alternatives[0]


def _build(refused: str, compiler: str = "GNU 13.2.0") -> list[str]:
    return [
        "Building wheels for collected packages: vllm",
        f"  -- The CXX compiler identification is {compiler}",
        "  [1/8] Building CXX object CMakeFiles/_C.dir/csrc/cpu/attention.cpp.o",
        f"  {refused}",
        "  ninja: build stopped: subcommand failed.",
        "  ERROR: Failed building wheel for vllm",
    ]


UNDECLARED = "/src/csrc/cpu/attention.cpp:28:40: error: use of undeclared identifier 'omp_get_max_threads'"


@pytest.mark.parametrize(
    ("refused", "compiler", "step"),
    [
        (UNDECLARED, "AppleClang 16.0.0", "brew install libomp"),
        (UNDECLARED, "Clang 18.1.0", "libomp-dev"),
        ("clang: error: unsupported option '-fopenmp'", "AppleClang 16.0.0", "brew install libomp"),
        ("/src/csrc/ops.cpp:2:10: fatal error: 'omp.h' file not found", "Clang 18.1.0", "libomp-dev"),
        ("/src/csrc/ops.cpp:2:10: fatal error: 'cublas_v2.h' file not found", "Clang 18.1.0", "CUDA_HOME"),
        ("/src/csrc/ops.cpp:2:10: error: use of undeclared identifier 'our_name'", "GNU 13.2.0", "Fix the first error"),
    ],
)  # fmt: skip
def test_what_a_build_did_not_find_is_installed_for_the_platform(
    refused: str, compiler: str, step: str
) -> None:
    found = root("\n".join(_build(refused, compiler)))
    assert step in found.alternatives[0]
    assert "ninja" not in found.title


COMPILING = [
    "INFO 05-01 10:00:00 [core.py:53] Initializing a V1 LLM engine (v0.8.1) with config: model='org/m', tensor_parallel_size=1",
    "INFO 05-01 10:00:02 [gpu_model_runner.py:1164] Starting to load model org/m...",
    "INFO 05-01 10:00:20 [gpu_model_runner.py:1176] Model loading took 14.2 GB and 18.0 seconds",
    "INFO 05-01 10:00:31 [backends.py:419] Dynamo bytecode transform time: 11.24 s",
]


def test_a_line_that_a_phase_ends_with_is_no_phase_that_began() -> None:
    text = analyze(COMPILING).to_markdown()
    assert "the last phase that completed: Dynamo tracing" in text
    assert "the compilation of the traced graph follows" in text


@pytest.mark.parametrize(
    ("remark", "hangs"),
    [("(CELL HANGS HERE)", True), ("... it is stuck here forever", True), ("(end of the log)", False)],
)
def test_a_remark_that_the_process_hangs_is_no_copy_of_a_log(remark: str, hangs: bool) -> None:
    text = analyze([*COMPILING, remark]).to_markdown()
    assert ("The process hangs here" in text) is hangs
    assert ("the log was copied while the process ran" in text) is not hangs
