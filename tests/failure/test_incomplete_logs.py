"""The root of a failure whose traceback is cut off, missing, or quoted by another process."""

from __future__ import annotations

import pytest

from tests.failure.judging import diagnosis, root
from tests.failure.records import framed, raw, traceback
from tests.failure.two_ranks import START, engine, text


def test_a_negative_room_for_the_cache_above_a_traceback_that_is_cut_off():
    room = (
        "(EngineCore_DP0 pid=9) INFO 05-01 09:59:58 [gpu_worker.py:436] Available KV cache memory: -0.85 GiB"
    )
    cut = framed("EngineCore_DP0 pid=9", ["EngineCore failed to start.", *traceback(("run_engine_core", "EngineCoreProc()"), ends="")[:-1]], "core.py:708")  # fmt: skip
    finding = root(text(START, [room], cut))
    assert (finding.id, finding.confidence) == ("no-memory-left-for-kv-cache", "medium")
    assert "-0.85 GiB are left" in finding.explanation


def test_ucx_that_loses_its_peer_is_a_failure_without_a_traceback():
    lost = "W0613 08:28:11.555796    7053 ucx_utils.cpp:43] Unexpected UCX error: Endpoint timeout"
    assert root(text(START, [lost])).title == "UCX error in the KV transfer"


def test_the_announcement_of_a_traceback_that_is_cut_off_says_what_was_raised():
    announced = "TokenizersBackend has no attribute all_special_tokens_extended"
    cut = framed("", [announced, *traceback(("from_engine_args", "return cls(ipc_path=ipc_path,"), ends="")[:-1]], "engine.py:366")  # fmt: skip
    finding = root(text(START, cut))
    assert finding.id == "transformers-version-mismatch"
    assert announced in finding.evidence[0].text


def test_a_dead_engine_that_quotes_the_original_error_is_judged_by_it():
    quoted = "vllm.engine.multiprocessing.MQEngineDeadError: Engine loop is not running. Inspect the stacktrace to find the original error: "
    error = "NotImplementedError(\"Could not run 'vllm::scaled_op' with arguments from the 'CPU' backend.\")."
    lines = [
        "Error in chat completion stream generator.",
        *traceback(("_process_request", "raise out"), ends=quoted + error),
    ]
    found = root(text(framed("", lines, "serving_chat.py:677")))
    assert found.id == "kernel-backend-unsupported-on-arch"


def test_a_torn_traceback_below_an_exception_of_its_process_repeats_it():
    whole = engine("Exception: WorkerProc initialization failed due to an exception in a background process.")
    torn = raw(
        "EngineCore_DP0 pid=9",
        ["Process EngineCore_DP0:", *traceback(("run", "self._target()"), ends="")[:-1]],
    )
    assert "cut off" not in root(text(whole, torn)).title


def test_what_another_program_logs_as_an_error_right_above_a_cut_traceback_is_its_error():
    lines = [
        "2026-05-01 10:00:00.262558+08:00 - manager.worker.serve - INFO - Starting vLLM model instance: chat-1",
        "2026-05-01 10:00:02.262558+08:00 - manager.worker.serve - ERROR - Error starting chat-1: Failed to find an image of vLLM",
        "Traceback (most recent call last):",
        '  File "/usr/local/lib/python3.11/dist-packages/manager/worker/backends/vllm.py", line 51, in start',
        "    self._handle_error(e)",
    ]
    found = root(text(lines))
    assert (found.id, found.evidence[0].line) == ("unclassified-failure", 2)


def test_an_error_of_the_engine_without_its_traceback_is_the_root():
    lines = [
        "INFO 05-01 10:00:01 selector.py:134] Using ROCmFlashAttention backend.",
        "ERROR 05-01 10:00:02 engine.py:366] HIP error: invalid argument",
    ]
    found = root(text(lines))
    assert (found.id, found.confidence) == ("unclassified-failure", "low")


def test_out_of_memory_without_a_phase_is_named_without_one():
    found = root("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.08 GiB.")
    assert "does not show" in found.title
    assert found.confidence == "low"


def _cut_below(*lines: str, stream: str = "") -> str:
    cut = framed("", ["EngineCore failed to start.", *traceback(("run_engine_core", "EngineCoreProc()"), ends="")[:-1]], "core.py:708")  # fmt: skip
    return text(f"{stream}{line}" for line in (*lines, *cut))


def test_an_error_that_the_process_logged_right_above_a_traceback_that_is_cut_off_leads():
    logged = "ERROR 05-01 09:59:59 [paged_store.py:77] The page table of device 3 is frozen."
    found = root(_cut_below(logged, stream="2026-05-01T10:00:00.123456789Z stdout F "))
    assert (found.id, found.confidence) == ("unclassified-failure", "low")
    assert "The page table of device 3 is frozen." in found.explanation
    assert "page table" in found.evidence[0].text


def test_such_an_error_that_a_rule_knows_is_named_by_it_and_less_surely():
    found = root(_cut_below("ERROR 05-01 09:59:59 [nixl/worker.py:205] NIXL is not available"))
    assert (found.id, found.confidence) == ("kv-connector-failure", "medium")


def test_an_error_of_a_request_of_an_earlier_minute_or_of_another_process_is_no_cause_of_a_cut_off_traceback():
    for line in (
        "ERROR 05-01 09:59:59 [serving_chat.py:77] The page table of device 3 is frozen.",
        "ERROR 05-01 09:51:00 [paged_store.py:77] The page table of device 3 is frozen.",
        "(Worker_TP1 pid=7) ERROR 05-01 09:59:59 [paged_store.py:77] The page table of device 3 is frozen.",
        "WARNING 05-01 09:59:59 [paged_store.py:77] The page table of device 3 is frozen.",
    ):
        assert root(_cut_below(line)).id == "cause-not-in-log", line


@pytest.mark.parametrize(
    "remark",
    [
        "WARNING 05-01 10:00:00 [system_utils.py:271] Found ulimit of 20000 and failed to automatically increase. This can cause fd limit"
        " errors like `OSError: [Errno 24] Too many open files`. Consider increasing with ulimit -n",
        "INFO 05-01 10:00:00 [api_server.py:441] args: Namespace(model_tag='org/model', tokenizer_mode='auto', port=8000)",
        "WARNING 05-01 10:00:00 [_custom_ops.py:14] Failed to import from vllm._C with ImportError('libcudart.so.12: cannot open')",
    ],
)
def test_a_remark_or_a_warning_right_above_a_cut_off_traceback_is_not_what_broke(remark):
    cut = [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/scripts.py", line 37, in serve',
        "    asyncio.run(run_server(args))",
    ]
    finding = root(text([remark], cut))
    assert (finding.id, finding.title) == ("cause-not-in-log", "Traceback is cut off")


_ENGINE_CUT = framed("EngineCore_DP0 pid=9", ["EngineCore failed to start.", *traceback(("barrier", "barrier()"), ends="")[:-1]], "core.py:708")  # fmt: skip


@pytest.mark.parametrize(
    "printed",
    [
        "[1731412345.123456] [node7:12:0]    ib_mlx5_log.c:171  UCX  ERROR Remote operation error on mlx5_0:1/IB",
        "E0511 10:00:00.123456 1234 nixl_agent.cpp:1118] createXferReq: no potential backend found",
        "rocblas error: Cannot read /opt/rocm/lib/rocblas/library/TensileLibrary.dat",
        "hipBLASLt error: Heuristic Fetch Failed!",
        "F0511 10:00:00.123456 1234 rdma_context.cpp:77] Failed to register a region of 40 GiB",
    ],
)
def test_an_error_that_a_native_library_printed_right_above_a_cut_off_traceback_leads(printed):
    found = root(text(START, ["Backend X was instantiated", printed, "Initialized agent"], _ENGINE_CUT))
    assert (found.id, found.confidence) == ("unclassified-failure", "low")
    assert found.evidence[0].text.split() == printed.split()
    assert "rest of the traceback" in found.alternatives[0]


@pytest.mark.parametrize(
    "printed",
    [
        "node7:12:34 [0] transport/net_ib.cc:1234 NCCL WARN NET/IB : Got completion from peer with status=12",
        "libfabric:12:17::efa:ep_ctrl:efa_base_ep_construct_qp():225<warn> Unable to create QP: Cannot allocate memory",
    ],
)
def test_a_warning_of_a_native_library_there_is_shown_and_is_no_cause(printed):
    found = root(text(START, [printed], _ENGINE_CUT))
    assert (found.id, found.title) == (
        "cause-not-in-log",
        "EngineCore failed to start, its traceback is cut off",
    )
    assert found.evidence[0].text.split() == printed.split()


def test_what_a_known_warning_of_a_native_library_means_is_said_as_a_possible_reason():
    warned = "[1746690477.974497] [node7:611:0] ucp_context.c:1268 UCX  WARN  transports 'cuda_ipc' are not available, please use one or more of: tcp"
    assert "may be the reason: UCX has none of" in root(text(START, [warned], _ENGINE_CUT)).explanation


@pytest.mark.parametrize(
    "printed",
    [
        "NCCL version 2.27.3+cuda12.9",
        "/opt/torch/cuda/__init__.py:61: FutureWarning: pynvml is deprecated: error: none",
    ],
)
def test_a_remark_of_a_library_or_a_warning_of_python_there_is_not_shown(printed):
    assert "cut off" in root(text(START, [printed], _ENGINE_CUT)).explanation
    assert "barrier" in root(text(START, [printed], _ENGINE_CUT)).evidence[0].text


def test_an_error_that_a_warning_quotes_is_none_in_a_row_of_its_own_either():
    rows = [
        "WARNING 05-01 10:00:00 [system_utils.py:271] Found ulimit of 20000 and failed to automatically increase. This can cause fd limit er",
        "rors like `OSError: [Errno 24] Too many open files`. Consider increasing with ulimit -n",
    ]
    cut = [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/entrypoints/cli/main.py", line 120, in main',
    ]
    assert root(text(rows, cut)).id != "thread-or-process-limit"


def test_the_part_that_cmake_did_not_find_explains_the_error_behind_it() -> None:
    stops = "CMake Error at cmake/own.cmake:3 (message):\n  No interpreter fits:\n  /srv/env/bin/python.\n-- Configuring incomplete, errors occurred!\n"
    headers = root(
        f'-- Could NOT find Python3 (missing: Development.Module) (found version "3.11.4")\n{stops}'
    )
    assert "missing: Development.Module" in headers.explanation
    assert "python3.11-dev" in headers.alternatives[0]
    other = root(f"-- Could NOT find OpenMP (missing: OpenMP_CXX_FLAGS)\n{stops}")
    assert other.alternatives[0].startswith("Install OpenMP with its headers")
    alone = root(stops)
    assert "did not find" not in alone.explanation


def test_what_cmake_did_not_find_and_could_do_without_is_no_error() -> None:
    found = diagnosis(
        "-- Could NOT find Threads (missing: CMAKE_HAVE_LIBC_PTHREAD)\n-- Build files have been written to: /srv/build\nSuccessfully installed vllm-0.11.0\n"
    )
    assert not [one for one in found.findings if one.role == "root"]


def test_what_a_silent_end_may_be_is_said_under_a_condition() -> None:
    lines = [
        f"(VllmWorker rank={rank} pid={rank + 7}) INFO 05-28 17:47:14 [pynccl.py:69] vLLM is using nccl==2.21.5"
        for rank in range(2)
    ]
    (found,) = [one for one in diagnosis("\n".join(lines) + "\n").findings if one.id == "nccl-init-hang"]
    assert found.confidence == "low"
    assert found.explanation.startswith("The log ends here without an error")
    assert found.explanation.index("If it hangs") < found.explanation.index("does not come")


def test_an_engine_process_that_prints_no_exception_beside_the_servers_was_ended_from_outside():
    started = "INFO 11-01 10:00:02 api_server.py:194] Started engine process with PID 76"
    failed = "RuntimeError: Engine process failed to start. See stack trace for the root cause."
    lines = traceback(("build_async_engine_client", "raise RuntimeError("), ends=failed)
    silent, unknown = root(text([started], lines)), root(text(lines))
    assert (silent.id, silent.confidence) == ("cause-not-in-log", "medium")
    assert silent.title == "Engine process ended without an error message"
    assert unknown.title == "Cause of the failure is not in this log"


@pytest.mark.parametrize(
    ("header", "leads"),
    [
        ("ERROR 05-01 09:59:50 [paged_store.py:77]", True),  # Ten seconds are the same moment.
        ("ERROR 05-01 09:59:49 [paged_store.py:77]", False),
        ("ERROR [paged_store.py:77]", True),  # A line without a clock is as close as it stands.
    ],
)
def test_an_error_above_a_cut_off_traceback_is_of_the_same_seconds(header: str, leads: bool) -> None:
    found = root(_cut_below(f"{header} The page table of device 3 is frozen."))
    assert ("The page table of device 3 is frozen." in found.explanation) is leads


def test_the_rest_of_a_cut_off_traceback_is_asked_for_where_it_can_be_found() -> None:
    """A build's first error is above it, and a run's is below."""
    build = [
        "Collecting vllm",
        "Building wheels for collected packages: vllm",
        "Traceback (most recent call last):",
        '  File "/tmp/build/setup.py", line 37, in <module>',
        "    run_setup(args)",
    ]
    run = ["Traceback (most recent call last):", '  File "/opt/vllm/scripts.py", line 37, in serve', "    asyncio.run(run_server(args))"]  # fmt: skip
    assert "Keep the whole output of the build" in root(text(build)).alternatives[0]
    assert "Get the rest of the traceback" in root(text(run)).alternatives[0]
