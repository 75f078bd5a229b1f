"""How a run ended, by what its log shows."""

import pytest

from tests.failure.judging import diagnosis
from tests.failure.records import framed, raw, traceback
from vllm_logdoctor import analyze

START = [
    "(APIServer pid=1) INFO 05-01 10:00:01 [api_server.py:1300] vLLM API server version 0.18.0",
    "(EngineCore pid=9) INFO 05-01 10:00:20 [core.py:97] Initializing a V1 LLM engine (v0.18.0) with config: model='m'",
]
READY = ["(APIServer pid=1) INFO:     Application startup complete."]
SERVED = ['(APIServer pid=1) INFO:     127.0.0.1:5 - "POST /v1/completions HTTP/1.1" 200 OK']
GONE = [
    "(APIServer pid=1) INFO:     Application shutdown complete.",
    "(APIServer pid=1) INFO:     Finished server process [1]",
]
SIGTERM = [
    "(EngineCore pid=9) INFO 05-01 10:41:12 [core.py:1201] [shutdown] EngineCore: trigger received signal=SIGTERM"
]
DEAD = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue."
ENGINE_DEAD = framed(
    "APIServer pid=1",
    ["AsyncLLM output_handler failed.", *traceback(("get_output_async", "raise error"), ends=DEAD)],
    "async_llm.py:700",
    "10:41:13",
)
ASSERTION = traceback(("schedule", "assert blocks"), ends="AssertionError: no blocks")
OFFLINE = ["INFO 05-01 10:00:20 [core.py:70] Initializing a V1 LLM engine (v0.11.2) with config: model='m'"]


def outcome(*parts):
    return diagnosis("\n".join(line for part in parts for line in part)).run.outcome


def test_a_log_that_ends_while_it_serves():
    assert outcome(START, READY, SERVED) == "running"


def test_a_server_that_was_shut_down():
    stop = ["(APIServer pid=1) INFO 05-01 10:41:12 [launcher.py:110] Shutting down FastAPI HTTP server."]
    assert outcome(START, READY, SERVED, stop, GONE) == "clean_shutdown"


def test_an_engine_core_that_its_own_program_ends_was_not_stopped_from_outside():
    assert "Stopped by a signal" not in analyze([*OFFLINE, *SIGTERM]).to_markdown()
    assert "Stopped by a signal" in analyze([*START, *READY, *SERVED, *SIGTERM, *GONE]).to_markdown()


def test_engine_dead_after_a_signal_is_noise_of_the_stop():
    assert outcome(START, READY, SERVED, SIGTERM, ENGINE_DEAD, GONE) == "clean_shutdown"


def test_engine_dead_without_a_signal_is_a_crash():
    fatal = framed(
        "EngineCore pid=9", ["EngineCore encountered a fatal error.", *ASSERTION], "core.py:1000", "10:41:12"
    )
    assert outcome(START, READY, SERVED, fatal, ENGINE_DEAD, GONE) == "crashed_while_serving"


def test_an_error_that_the_server_outlives_is_no_death():
    lines = [
        f"INFO 05-01 10:0{n}:00 metrics.py:295] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 12.0 tokens/s, "
        "Running: 1 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 9.1%, CPU KV cache usage: 0.0%."
        for n in range(2)
    ]
    group = ["exceptiongroup.ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)"]
    assert outcome(group, lines) == "running"
    assert outcome(lines[:1], group) != "running"


def test_an_error_before_it_serves_is_a_crash_at_startup():
    failed = framed("EngineCore pid=9", ["EngineCore failed to start.", *ASSERTION], "core.py:1000")
    assert outcome(START, failed) == "crashed_at_startup"


def test_an_engine_that_waited_for_work_had_started():
    waiting = ["(EngineCore pid=9) DEBUG 05-01 10:00:30 [core.py:875] EngineCore waiting for work."]
    program = traceback(("next_batch", "raise RuntimeError("), ends="RuntimeError: the loader is gone")
    assert outcome(START, program) == "crashed_at_startup"
    assert outcome(START, waiting, program) != "crashed_at_startup"


HANDSHAKE = framed(
    "Worker pid=10",
    [
        "Handshake with 51c2-engine failed",
        *traceback(("_nixl_handshake", "raise RuntimeError("), ends="RuntimeError: Remote NIXL agent engine ID mismatch."),
    ],
    "nixl_connector.py:1100",
)  # fmt: skip


def test_a_handshake_that_failed_does_not_end_a_start():
    result = diagnosis("\n".join([*START, *HANDSHAKE]))
    assert result.run.outcome == "truncated"
    assert [finding.kind for finding in result.findings if finding.id == "kv-connector-failure"] == [
        "configuration"
    ]
    assert outcome(START, READY, SERVED, HANDSHAKE) == "running"


def test_a_transfer_that_the_engine_dies_of_is_its_end():
    fatal = framed("EngineCore pid=9", ["EngineCore encountered a fatal error.", *ASSERTION], "core.py:1000")
    assert outcome(START, READY, SERVED, HANDSHAKE, fatal) == "crashed_while_serving"


def test_an_error_of_another_part_in_the_start_is_no_transfer():
    failed = framed("EngineCore pid=9", ["Error loading the model", *ASSERTION], "core.py:1000")
    assert outcome(START, failed) == "crashed_at_startup"


def test_a_child_that_its_failing_parent_ends_is_no_stop():
    uncaught = raw(
        "APIServer pid=1", traceback(("init_app_state", "load()"), ends="ValueError: no vocabulary")
    )
    assert outcome(START, SIGTERM, uncaught) == "crashed_at_startup"


def test_interrupt_before_it_serves():
    interrupt = raw("APIServer pid=1", traceback(("wait", "poll()"), ends="KeyboardInterrupt"))
    assert outcome(START, interrupt) == "killed"


@pytest.mark.parametrize(
    "line",
    [
        "slurmstepd: error: *** JOB 54 ON n1 CANCELLED AT 2025-12-15T23:32:26 DUE TO TIME LIMIT ***",
        "=>> PBS: job killed: walltime 3633 exceeded limit 3600",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=54.0. Some of the step tasks have been OOM Killed.",
        "./serve.sh: line 193: 124064 Killed                  vllm serve m",
        "vllm.service: Main process exited, code=killed, status=9/KILL",
        "command terminated with exit code 137",
        "srun: error: gpu07: task 0: Killed",
        "srun: error: gpu07: tasks 0-3: Out Of Memory",
    ],
)
def test_ends_by_scheduler_kernel_or_shell(line):
    assert outcome(START, READY, SERVED, [line]) == "killed"


def test_a_stop_that_waits_for_connections_and_never_ends():
    waits = [
        "(APIServer pid=1) INFO 05-01 10:41:12 [launcher.py:110] Shutting down FastAPI HTTP server.",
        "(APIServer pid=1) INFO:     Waiting for connections to close. (CTRL+C to force quit)",
    ]
    assert outcome(START, READY, SERVED, waits) == "killed"


def test_an_offline_run_whose_engine_goes_last():
    done = [
        "Processed prompts: 100%|##########| 300/300 [00:17<00:00]",
        "ERROR 05-01 10:07:59 [core_client.py:598] Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.",
    ]
    assert outcome(OFFLINE, done) == "clean_shutdown"


@pytest.mark.parametrize("words", ["EngineCore interrupted.", "EngineCore exiting."])
def test_an_offline_run_whose_engine_says_that_it_leaves(words):
    graphs = [
        "INFO 05-01 10:00:50 [gpu_model_runner.py:1436] Graph capturing finished in 15 secs, took 0.49 GiB"
    ]
    left = [f"DEBUG 05-01 10:00:53 [core.py:336] {words}"]
    assert outcome(OFFLINE, graphs, left) == "clean_shutdown"


def test_an_offline_run_that_breaks_while_it_generates():
    broken = [
        "Processed prompts:   3%|#         | 9/300 [00:17<09:00]",
        *traceback(("_run_engine", "self.step()"), ends="AssertionError"),
    ]
    assert outcome(OFFLINE, broken) == "crashed_while_serving"


def test_a_log_that_ends_during_startup():
    assert outcome(START) == "truncated"


def test_an_optional_part_that_fails_while_serving_goes_on():
    broken = raw(
        "EngineCore pid=9", traceback(("fused_op", "torch.ops.x()"), ends="RuntimeError: op not available")
    )
    stats = [
        f"(APIServer pid=1) INFO 05-01 10:0{n}:00 [loggers.py:259] Engine 000: Avg prompt throughput: 9.0 tokens/s, "
        "Avg generation throughput: 50.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.1%"
        for n in range(2, 8)
    ]
    assert outcome(START, READY, SERVED, broken, stats) == "running"


def test_a_port_that_is_taken_is_found_after_loading_but_before_serving():
    taken = [
        "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use"
    ]
    assert outcome(START, READY, taken) == "crashed_at_startup"


@pytest.mark.parametrize(
    "line",
    [
        "Segmentation fault (core dumped)",
        "./serve.sh: line 9: 4711 Aborted                 (core dumped) vllm serve m",
        "Fatal Python error: Segmentation fault",
        "terminate called after throwing an instance of 'c10::DistBackendError'",
        "vllm-1 exited with code 139",
        "Synapse detected a device critical error that requires a restart. Killing process in 5 seconds (hl: 6) 10:29:11",
    ],
)
def test_a_process_that_native_code_ends_is_a_crash(line):
    assert outcome(START, READY, SERVED, [line]) == "crashed_while_serving"


def test_native_code_that_fails_after_a_stop_is_noise_of_the_stop():
    assert outcome(START, READY, SERVED, SIGTERM, GONE, ["Aborted (core dumped)"]) == "clean_shutdown"


SYSTEMD = "May 01 10:41:12 gpu-host systemd[1]: "


def test_a_unit_that_systemd_stops_shuts_down():
    stop = [SYSTEMD + "Stopping vllm.service - vLLM..."]
    assert outcome(START, READY, SERVED, stop, GONE) == "clean_shutdown"


def test_a_unit_that_does_not_stop_in_time_is_killed():
    stop = [
        SYSTEMD + "Stopping vllm.service - vLLM...",
        SYSTEMD + "vllm.service: Main process exited, code=killed, status=9/KILL",
    ]
    assert outcome(START, READY, SERVED, stop) == "killed"


def test_a_call_that_the_engine_answers_with_an_error_ends_nothing():
    wake_up = framed(
        "EngineCore pid=9",
        [
            "Invocation of wake_up method failed",
            *traceback(("_invoke_utility_method", "result = get_result()"), ends="RuntimeError: CUDA Error: out of memory at /src/csrc/cumem_allocator.cpp:175"),
        ],
        "core.py:1449",
        "10:40:12",
    )  # fmt: skip
    stop = ["(APIServer pid=1) INFO 05-01 10:41:12 [launcher.py:110] Shutting down FastAPI HTTP server."]
    log = "\n".join([*START, *READY, *SERVED, *wake_up, *SERVED, *stop, *GONE])
    found = diagnosis(log)
    assert found.run.outcome == "clean_shutdown"
    assert [finding.id for finding in found.findings if finding.role == "root"] == ["sleep-mode-wake-up-oom"]


def test_a_worker_that_its_parent_ended_is_a_consequence_of_the_parents_error():
    died = [
        "ERROR 10-15 02:47:20 multiproc_worker_utils.py:117] Worker VllmWorkerProcess pid 17 died, exit code: -15"
    ]
    failed = traceback(("load_model", "torch.empty(size)"), ends="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.59 GiB.")  # fmt: skip
    assert outcome(OFFLINE, died, failed) == "crashed_at_startup"
    assert outcome(OFFLINE, died) == "killed"


def test_an_error_behind_which_prompts_are_finished_ended_nothing():
    def bar(done):
        return f"Processed prompts: {10 * done:3}%|###       | {done}/10 [00:0{done}<00:05,  1.20it/s, est. speed input: 1.00 toks/s, output: 1.00 toks/s]"

    failed = framed("EngineCore pid=9", ["Error in a step", *ASSERTION], "core.py:1000", "10:00:30")
    assert outcome(OFFLINE, [bar(2)], failed, [bar(3), bar(9)]) != "crashed_while_serving"
    assert outcome(OFFLINE, [bar(2)], failed, [bar(3)]) == "crashed_while_serving"


def test_a_container_that_was_not_killed_for_memory_is_no_sign_of_its_end():
    state = [
        '        "State": {',
        '            "OOMKilled": false,',
        '            "ExitCode": 1,',
        "        }",
    ]
    found = diagnosis("\n".join([*START, *READY, *SERVED, *state]))
    assert found.run.outcome != "killed"
    assert not [one for one in found.findings if one.id == "host-memory-exhausted"]


@pytest.mark.parametrize(
    ("place", "code"),
    [
        (("/opt/env/site-packages/vllm/v1/engine/core.py", "__init__"), "self.scheduler = Scheduler("),
        (
            ("/opt/env/site-packages/vllm/model_executor/models/x.py", "__init__"),
            "self.layers = make_layers(",
        ),
        (("/home/me/batch.py", "main"), "llm = LLM(model='m')"),
        (("/home/me/batch.py", "<module>"), "from vllm import LLM"),
        (
            ("/opt/env/site-packages/vllm/v1/worker/gpu_worker.py", "load_model"),
            "self.model_runner.load_model()",
        ),
    ],
)
def test_a_traceback_alone_is_of_the_start_where_its_frames_are(place, code):
    assert outcome(_piece(place, code)) == "crashed_at_startup"


def test_a_traceback_alone_is_of_the_serving_where_its_frames_are():
    place = ("/opt/env/site-packages/vllm/v1/engine/core.py", "run_busy_loop")
    assert outcome(_piece(place, "self._process_engine_step()")) == "crashed_while_serving"


def test_a_traceback_whose_frames_show_no_phase_ended_nobody_knows_what():
    found = diagnosis(
        "\n".join(_piece(("/opt/env/site-packages/vllm/attention/layer.py", "forward"), "check(x)"))
    )
    assert found.run.outcome == "unknown"
    assert [finding.role for finding in found.findings if finding.kind == "failure"][:1] == ["root"]


def test_a_failure_that_only_a_start_can_have_tells_the_phase():
    line = "ValueError: The model's max seq len (29000) is larger than the maximum number of tokens that can be stored in KV cache (23648)."
    assert outcome([line]) == "crashed_at_startup"


def test_an_engine_that_failed_to_start_is_no_crash_of_the_server_beside_it():
    failed = framed(
        "EngineCore pid=9", ["EngineCore failed to start.", *ASSERTION], "core.py:1000", "10:41:12"
    )
    assert outcome(START, READY, failed) == "crashed_at_startup"


def _piece(place, code):
    file, function = place
    return [
        "Traceback (most recent call last):",
        f'  File "{file}", line 12, in {function}',
        f"    {code}",
        '  File "/opt/env/site-packages/vllm/utils.py", line 7, in check',
        '    raise RuntimeError("x")',
        "RuntimeError: no such thing",
    ]


def test_a_start_that_failed_in_the_log_of_a_server_that_answers_is_another_command():
    failed = [
        "Process SpawnProcess-1:",
        *traceback(
            ("_bootstrap", "self.run()"),
            ends="ValueError: Cannot provide a placement group of placement_group_specs=[{'GPU': 1.0}]",
        ),
        "RuntimeError: Engine process failed to start. See stack trace for the root cause.",
    ]
    statistics = [
        f"(APIServer pid=1) INFO 05-01 10:0{minute}:01 [loggers.py:236] Engine 000: Avg prompt throughput: 9.0 tokens/s, "
        "Avg generation throughput: 50.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.1%"
        for minute in (1, 2, 3)
    ]
    assert outcome(START, failed) == "crashed_at_startup"
    assert outcome(START, failed, SERVED, statistics) == "running"


NO_KERNELS = "(EngineCore pid=9) Failed to get device capability: SM 12.x requires CUDA >= 12.9."
LOADS = [
    "(EngineCore pid=9) INFO 05-01 10:00:25 [weight_utils.py:869] Filesystem type for checkpoints: EXT4."
]


def test_a_warning_that_the_engine_outlives_until_the_log_is_cut_off_is_no_crash():
    assert outcome(START, [NO_KERNELS], LOADS) == "truncated"
    assert outcome(START, [NO_KERNELS]) == "crashed_at_startup"
    report = analyze([*START, NO_KERNELS, *LOADS]).to_markdown()
    assert report.startswith("# CUT OFF, possible failure: CUDA too old for this GPU")
    assert "Possible cause: " in report


ENDED = "[rank0]:[W731 16:21:51.9 ProcessGroupNCCL.cpp:1479] Warning: WARNING: destroy_process_group() was not called before program exit"
TEARDOWN = [
    "Exception ignored in: <function RayGPUExecutor.__del__ at 0x7ff2>",
    *traceback(("__del__", "self.forward_dag.teardown()"), ends="AttributeError: 'Worker' object has no attribute 'core'"),
]  # fmt: skip


def test_a_program_whose_torch_says_that_it_exits_is_not_running():
    up = [
        "INFO 05-01 10:00:50 [core.py:193] init engine (profile, create kv cache, warmup model) took 3.5 seconds"
    ]
    supported = ["INFO 05-01 10:00:51 [llm.py:306] Supported_tasks: ['encode', 'embed']"]
    assert outcome(OFFLINE, up, supported) == "running"
    assert outcome(OFFLINE, up, supported, [ENDED]) == "clean_shutdown"


@pytest.mark.parametrize("shell", ["[1]    3100 segmentation fault (core dumped)  python bench.py"])
def test_a_program_that_the_shell_calls_crashed_did_not_end_well(shell):
    assert outcome(TEARDOWN) == "clean_shutdown"
    assert outcome(TEARDOWN, [shell]) != "clean_shutdown"
    assert "HEALTHY" not in analyze([*TEARDOWN, shell]).to_markdown()


def test_the_first_line_of_the_next_start_is_not_the_last_one_of_a_failed_start():
    failed = framed("EngineCore pid=9", ["EngineCore failed to start.", *ASSERTION], "core.py:1000")
    detected = "INFO 05-01 10:30:00 [__init__.py:216] Automatically detected platform cuda."
    again = [
        line.replace("10:00:", "10:30:").replace("pid=1)", "pid=31)").replace("pid=9)", "pid=39)")
        for line in START
    ]
    first, second = analyze([*START, *failed, detected, *again, *READY]).runs
    assert (first.duration or 0) < 60
    assert second.outcome == "running"


def _answer_not_read(process, line):
    return (
        f"({process}) ERROR:2026-03-26 21:59:{line},526:Traceback (most recent call last):\n"
        f'({process})   File "/srv/agent/env.py", line 270, in read_answer\n'
        f"({process})     action, x, y = extractor(text)\n"
        f"({process}) TypeError: cannot unpack non-iterable NoneType object\n"
    )


def test_an_actor_of_a_trainer_that_fails_and_of_which_the_driver_hears_nothing_lives_on():
    head = "(WorkerDict pid=9) INFO 03-26 21:50:00 [model_runner.py:12] Loading model weights took 3.5 GB\n"
    actor = "AgentWorker pid=577"
    errors = "".join(
        _answer_not_read(actor, line) + "(TaskRunner pid=3) step: score 0.5\n" * 30 for line in (10, 20, 30)
    )
    assert not diagnosis(head + errors).run.outcome.startswith("crashed")
    driver = (
        "Traceback (most recent call last):\n"
        '  File "/srv/train.py", line 62, in <module>\n'
        "    ray.get(task.remote(config))\n"
        "ray.exceptions.RayTaskError(TypeError): ray::AgentWorker.run() (pid=577, ip=10.0.0.1)\n"
        "TypeError: cannot unpack non-iterable NoneType object\n"
    )
    assert any(one.role == "root" for one in diagnosis(head + errors + driver).findings)


@pytest.mark.parametrize(
    ("behind", "lives"), [("ERROR:2026-03-26 22:00:01,527:no action for item 9", True), ("", False)]
)
def test_an_actor_that_writes_on_has_caught_its_exception(behind, lives):
    head = "(WorkerDict pid=9) INFO 03-26 21:50:00 [model_runner.py:12] Loading model weights took 3.5 GB\n"
    error = _answer_not_read("AgentWorker pid=577", 10)
    log = f"{head}(AgentWorker pid=577) Error: no action\n{error}(AgentWorker pid=577) {behind}\n"
    assert any(one.kind == "failure" for one in diagnosis(log).findings) is not lives


def test_an_actor_does_not_live_on_because_another_one_failed_long_before():
    head = "(WorkerDict pid=9) INFO 03-26 21:50:00 [model_runner.py:12] Loading model weights took 3.5 GB\n"
    steps = "(TaskRunner pid=3) step: score 0.5\n" * 60
    first, last = _answer_not_read("RewardWorker pid=80", 10), _answer_not_read("AgentWorker pid=577", 20)
    assert diagnosis(head + first + steps).run.outcome != "crashed_while_serving"
    roots = [
        one.evidence[0].line for one in diagnosis(head + first + steps + last).findings if one.role == "root"
    ]
    assert roots == [1 + first.count("\n") + 60 + last.count("\n")]


@pytest.mark.parametrize(("lines", "goes_on"), [(3, True), (0, False)])
def test_a_start_that_goes_on_behind_the_words_of_a_library_has_not_failed(lines, goes_on):
    printed = ["AttributeError: module 'registry' has no attribute 'lookup'"] * 2
    steps = [
        f"(EngineCore pid=9) INFO 05-01 10:00:3{number} [weight_utils.py:{number}] Filesystem type for checkpoints: NFS"
        for number in range(lines)
    ]
    found = diagnosis("\n".join([*START, *printed, *steps])).findings
    assert any(one.kind == "failure" for one in found) is not goes_on
