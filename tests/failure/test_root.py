"""The root of a failure: first in time, deepest in cause, never a wrapper, a request or noise."""

import pytest

from tests.failure.judging import diagnosis, failures, root
from tests.failure.records import framed, raw, traceback
from tests.failure.two_ranks import OOM, READY, RESET, START, engine, server, text, worker


def test_the_worker_goes_before_those_who_repeat_it():
    log = text(
        START,
        worker(0, OOM),
        engine("Exception: WorkerProc initialization failed due to an exception in a background process."),
        server(),
    )
    assert root(log).id == "oom-weights-load"
    assert root(log).evidence[0].text.endswith("1.10 GiB is free.")


def test_the_rank_that_failed_first_is_the_root_and_the_others_one_finding():
    log = text(START, worker(1, OOM), worker(0, RESET, "10:00:01"), engine("EOFError"), server())
    found = failures(log)
    assert [(one.id, one.role) for one in found[:1]] == [("oom-weights-load", "root")]
    assert [one.role for one in found].count("cascade") == 1
    assert "Worker_TP1" in root(log).evidence[0].text


def test_a_broken_connection_is_an_echo_even_when_it_is_printed_first():
    log = text(START, worker(0, RESET), worker(1, OOM, "10:00:01"), server())
    assert root(log).id == "oom-weights-load"


def test_only_the_echo_of_another_rank():
    log = text(START, worker(0, RESET), engine("EOFError"), server())
    assert root(log).id == "peer-rank-died"


def test_only_wrappers_name_no_cause():
    finding = root(text(START, server()))
    assert (finding.id, finding.confidence) == ("cause-not-in-log", "medium")
    assert "Engine core initialization failed" in finding.evidence[0].text


def test_the_cause_inside_of_a_compiler_error():
    ends = (
        "torch._inductor.exc.InductorError: OSError: [Errno 122] Disk quota exceeded: '/home/u/.cache/vllm'"
    )
    assert root(text(START, engine(ends), server())).id == "disk-full-or-quota"


def test_the_cause_in_a_chain_is_the_known_one():
    inner = traceback(("getitem", "return self[key]"), ends="KeyError: 'newkind'")
    outer = traceback(
        ("_verify", "raise ValueError("),
        ends="ValueError: Unknown quantization method: newkind. Must be one of ['awq'].",
    )
    chain = [*inner, "", "During handling of the above exception, another exception occurred:", "", *outer]
    assert root(text(START, raw("APIServer pid=1", chain))).id == "quantization-scheme-unsupported"


def test_text_of_native_code_above_a_traceback_explains_it():
    assertion = "/pytorch/aten/IndexKernel.cu:402: masked_scatter_size_check: block: [0,0,0] Assertion `totalElements <= srcSize` failed."
    fatal = framed(
        "EngineCore_DP0 pid=9",
        [
            "EngineCore encountered a fatal error.",
            *traceback(
                ("run_busy_loop", "step()"),
                ends="torch.AcceleratorError: CUDA error: device-side assert triggered",
            ),
        ],
        "core.py:781",
    )
    finding = root(text(START, READY, [assertion], fatal))
    assert finding.id == "mm-item-larger-than-batch-budget"
    assert any("masked_scatter" in one.text for one in finding.evidence)


def test_refused_requests_are_counted_and_no_failure():
    refused = framed(
        "APIServer pid=1",
        [
            "Error in preprocessing prompt inputs",
            *traceback(
                ("_validate_input", "raise ValueError("),
                ends="ValueError: This model's maximum context length is 4096 tokens.",
            ),
        ],
        "serving_chat.py:300",
    )
    answers = [
        '(APIServer pid=1) INFO:     127.0.0.1:5 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request'
    ] * 7
    log = text(START, READY, refused * 3, answers)
    assert failures(log) == []
    finding = next(one for one in diagnosis(log).findings if one.id == "request-error-not-server-fault")
    assert "7" in finding.explanation


def test_a_request_error_long_before_a_crash_is_not_its_root():
    refused = framed(
        "APIServer pid=1",
        [
            "Error in preprocessing prompt inputs",
            *traceback(
                ("_validate_input", "raise ValueError("),
                ends="ValueError: This model's maximum context length is 4096 tokens.",
            ),
        ],
        "serving_chat.py:300",
    )
    fatal = framed(
        "EngineCore_DP0 pid=9",
        [
            "EngineCore encountered a fatal error.",
            *traceback(("run_busy_loop", "step()"), ends="AssertionError: no blocks"),
        ],
        "core.py:781",
        "11:00:00",
    )
    assert root(text(START, READY, refused, fatal)).id == "engine-code-bug"


def test_advice_that_names_a_setting_is_no_evidence():
    hints = [
        "INFO 05-01 10:00:00 [x.py:1] CUDA graphs can take additional memory. If you are running out of memory, set `enforce_eager=True`.",
        "WARNING 05-01 10:00:00 [x.py:2] This can cause errors like `OSError: [Errno 24] Too many open files`.",
        "WARNING 05-01 10:00:00 [x.py:3] Failed to import from vllm._C with ImportError('libcuda.so.1: cannot open shared object file')",
    ]
    assert failures(text(START, hints, READY)) == []
    assert root(text(START, hints, worker(0, OOM), server())).id == "oom-weights-load"


def test_a_prompt_with_a_traceback_breaks_nothing():
    request = "INFO 05-01 10:00:00 [logger.py:43] Received request cmpl-1: prompt: 'Explain:"
    foreign = traceback(
        ("main", "x()"), ends="RuntimeError: CUDA error: an illegal memory access was encountered"
    )
    served = ['INFO:     127.0.0.1:5 - "POST /v1/completions HTTP/1.1" 200 OK']
    assert failures(text(START, READY, [request], foreign, ["', params: SamplingParams(n=1)"], served)) == []


def test_a_process_that_is_gone_without_a_word_was_killed():
    gone = [
        "(APIServer pid=1) ERROR 05-01 10:41:12 [core_client.py:564] Engine core proc EngineCore_DP0 died unexpectedly, shutting down client."
    ]
    echo = framed(
        "APIServer pid=1",
        [
            "AsyncLLM output_handler failed.",
            *traceback(
                ("get_output_async", "raise"),
                ends="vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
            ),
        ],
        "async_llm.py:480",
    )
    assert root(text(START, READY, gone, echo)).id == "process-killed-externally"


def test_an_unknown_error_is_named_by_itself():
    finding = root(
        text(
            START,
            raw(
                "APIServer pid=1", traceback(("somewhere", "call()"), ends="StrangeError: the moon is wrong")
            ),
        )
    )
    assert (finding.id, finding.confidence) == ("unclassified-failure", "low")
    assert "StrangeError: the moon is wrong" in finding.explanation
    assert "somewhere" in finding.explanation


def test_stop_after_signal_explains_the_noise():
    signal = [
        "(EngineCore_DP0 pid=9) INFO 05-01 10:41:12 [core.py:1201] [shutdown] EngineCore: trigger received signal=SIGTERM"
    ]
    noise = framed(
        "APIServer pid=1",
        [
            "AsyncLLM output_handler failed.",
            *traceback(
                ("get_output_async", "raise"),
                ends="vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
            ),
        ],
        "async_llm.py:480",
        "10:41:13",
    )
    log = text(START, READY, signal, noise, ["(APIServer pid=1) INFO:     Application shutdown complete."])
    assert failures(log) == []
    finding = root(log)
    assert (finding.id, finding.kind, finding.severity) == (
        "stopped-by-user-or-script",
        "configuration",
        "info",
    )
    assert "trigger received signal=SIGTERM" in finding.evidence[0].text


def test_a_probe_that_ends_a_slow_start_gets_its_budget():
    killed = raw(
        "APIServer pid=1",
        traceback(
            ("signal_handler", 'raise KeyboardInterrupt("terminated")'), ends="KeyboardInterrupt: terminated"
        ),
    )
    late = ["(EngineCore_DP0 pid=9) INFO 05-01 10:03:20 [weight_utils.py:392] Time spent downloading weights"]
    finding = root(text(START, late, killed))
    assert finding.id == "killed-by-orchestrator"
    assert finding.title == "Ended by a signal during start-up"
    assert any("seconds" in str(change.after) for change in finding.changes)


@pytest.mark.parametrize(
    ("said", "asked", "other"),
    [
        ("=>> PBS: job killed: walltime 3610 exceeded limit 3600", "#PBS -l walltime", "#SBATCH"),
        ("slurmstepd: error: *** JOB 9 ON n1 CANCELLED AT 2026-05-01T11:00:00 DUE TO TIME LIMIT ***", "#SBATCH --time", "#PBS"),
    ],
)  # fmt: skip
def test_a_time_limit_is_asked_for_in_the_words_of_the_batch_system_that_set_it(said, asked, other):
    steps = str(root(text(START, READY, [said])).alternatives)
    assert asked in steps
    assert other not in steps


@pytest.mark.parametrize("times", [1, 3])
def test_a_queue_that_waits_while_loading_is_harmless(times):
    wait = "(EngineCore_DP0 pid=9) INFO 05-01 10:0{}:00 [shm_broadcast.py:466] No available shared memory broadcast block found in 60 seconds."
    assert failures(text(START, [wait.format(n) for n in range(times)], READY)) == []


def _working(clock, tokens):
    return (
        f"(APIServer pid=1) INFO 05-01 {clock} [loggers.py:127] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation "
        f"throughput: {tokens} tokens/s, Running: 2 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.7%"
    )


WAIT = "(EngineCore_DP0 pid=9) INFO 05-01 10:0{}:40 [shm_broadcast.py:466] No available shared memory broadcast block found in 60 seconds."


def test_requests_that_run_and_a_worker_that_never_answers_are_a_hang():
    waits = [WAIT.format(n) for n in range(2, 8)]
    log = text(START, READY, [_working("10:01:00", 20.0), _working("10:01:10", 0.0)], waits)
    finding = root(log)
    assert finding.id == "worker-hang-execute-model-timeout"
    assert "6 times" in finding.explanation


def test_waits_of_a_server_that_works_on_afterwards_are_no_hang():
    waits = [WAIT.format(n) for n in range(2, 8)]
    assert (
        failures(text(START, READY, [_working("10:01:00", 0.0)], waits, [_working("10:09:00", 50.0)])) == []
    )


def test_what_an_error_says_is_not_read_from_the_code_that_raised_it():
    frames = [
        '    raise RuntimeError(f"NCCL error: {error_str}")',
        "RuntimeError: NCCL error: unhandled system error",
    ]
    log = text(START, [*traceback(("NCCL_CHECK", "x"), ends="")[:-1], *frames])
    finding = root(log)
    assert "unhandled system error" in finding.explanation
    assert "{" not in finding.explanation


def test_a_worker_that_ray_kills_for_memory_ran_out_of_host_memory():
    killed = "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory."
    assert root(text(START, traceback(("get", "raise value"), ends=killed))).id == "host-memory-exhausted"


def test_a_driver_is_named_by_the_cuda_release_that_it_offers():
    old = "RuntimeError: The NVIDIA driver on your system is too old (found version 12020). Please update your GPU driver"
    assert (
        "CUDA 12.2"
        in root(text(START, traceback(("_lazy_init", "torch._C._cuda_init()"), ends=old))).explanation
    )


def test_a_second_command_that_fails_beside_a_running_server_is_reported_and_no_failure():
    frames = ['  File "/opt/env/bin/vllm", line 8, in <module>', "    sys.exit(main())"]
    second = [*traceback(("x", "y"), ends="")[:1], *frames, "RuntimeError: Failed to infer device type"]
    stats = [
        f"INFO 05-01 10:0{n}:00 [loggers.py:122] Engine 000: Avg prompt throughput: 9.0 tokens/s, Avg generation "
        "throughput: 50.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.1%"
        for n in range(6)
    ]
    log = text(second, stats)
    assert failures(log) == []
    finding = next(one for one in diagnosis(log).findings if one.id == "platform-not-detected")
    assert (finding.kind, finding.role) == ("configuration", None)
    full = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 112.00 MiB. GPU 0 has a total capacity of 44.55 GiB of which"
        " 73.31 MiB is free. Process 234500 has 40.41 GiB memory in use. Including non-PyTorch memory, this process has 4.06 GiB"
        " memory in use. Of the allocated memory 3.75 GiB is allocated by PyTorch"
    )
    loading = '  File "/opt/vllm/model_executor/model_loader/loader.py", line 324, in load_model'
    beside = diagnosis(text([*second[:-1], loading, "    model = f()", full], stats))
    held = next(one for one in beside.findings if "second command" in one.title)
    assert "Stop the process" not in repr(held), "it is the server that is well"
    assert "probably this run" in held.explanation
    assert "40.41 GiB" in held.explanation


NOTEBOOK = """\
INFO 05-01 09:59:20 [llm_engine.py:237] Initializing a V1 LLM engine (v0.11.0) with config: model='m', tensor_parallel_size=1
Processed prompts: 100%|##########| 8/8 [00:04<00:00,  2.00it/s, est. speed input: 100.00 toks/s, output: 50.00 toks/s]
Traceback (most recent call last):
  File "/opt/papermill/execute.py", line 131, in execute_notebook
    raise_for_execution_errors(nb, output_path)
AttributeError: 'Factory' object has no attribute 'Prototype'"""


def test_an_error_around_the_engine_is_said_to_be_none_of_its_own():
    assert "the program's own code" in root(NOTEBOOK).explanation
    assert "the program's own code" not in root(NOTEBOOK.replace("papermill/", "vllm/")).explanation


XID = "NVRM: Xid (PCI:0000:b3:00): 79, pid=1234, name={name}, GPU has fallen off the bus."
BROKEN = [
    "INFO 11-12 10:00:01 [api_server.py:1043] vLLM API server version 0.9.1",
    "ERROR 11-12 10:01:12 [core.py:500] EngineCore failed to start.",
    "ERROR 11-12 10:01:12 [core.py:500] Traceback (most recent call last):",
    'ERROR 11-12 10:01:12 [core.py:500]   File "/opt/vllm/v1/worker/gpu_worker.py", line 140, in init_device',
    "ERROR 11-12 10:01:12 [core.py:500]     torch.cuda.set_device(self.device)",
    "ERROR 11-12 10:01:12 [core.py:500] RuntimeError: CUDA error: unspecified launch failure",
]


@pytest.mark.parametrize(
    ("stamp", "name", "named"),
    [
        ("[Wed Nov 12 10:01:10 2025] ", "python3", True),
        ("[Sat Nov  1 03:12:44 2025] ", "python3", False),
        ("Nov 12 10:01:10 node3 kernel: ", "VLLM::Worker", True),
        ("Oct 30 08:00:00 node3 kernel: ", "VLLM::Worker", False),
        ("2025-11-01T03:12:44,100000+01:00 ", "python3", False),
        ("[Wed Nov 12 10:01:10 2025] ", "Xorg", False),
    ],
)
def test_what_the_kernel_says_of_another_day_or_program_is_no_root(stamp, name, named):
    log = "\n".join(
        [
            *BROKEN[:1],
            stamp + XID.format(name=name).replace("GPU has fallen off the bus", "GPU failed"),
            *BROKEN[1:],
        ]
    )
    assert (root(log).id == "gpu-hardware-or-driver-fault") is named


@pytest.mark.parametrize(("bus", "named"), [("b3000", True), ("1b000", False)])
def test_what_the_kernel_says_of_a_card_that_no_rank_uses_is_no_root(bus, named):
    rank = f"node3:90:90 [0] NCCL INFO ncclCommInitRank comm 0x55 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId {bus} commId 0x9 - Init START"
    failed = XID.format(name="python3").replace("GPU has fallen off the bus", "GPU failed")
    log = "\n".join([*BROKEN[:1], rank, "[Wed Nov 12 10:01:10 2025] " + failed, *BROKEN[1:]])
    assert (root(log).id == "gpu-hardware-or-driver-fault") is named


def test_a_network_error_that_was_retried_with_success_is_no_cause():
    retried = "(APIServer pid=1) ERROR 05-01 09:59:05 [repo_utils.py:47] Error retrieving file list: [Errno -3] Temporary failure in name resolution, retrying 1 of 2"
    went_on = "(APIServer pid=1) INFO 05-01 09:59:08 [model.py:549] Resolved architecture: LlamaForCausalLM"
    log = text(START[:1], [retried, went_on], START[1:], worker(0, OOM), server())
    assert [finding.id for finding in failures(log)] == ["oom-weights-load", "errors-that-followed"]


def test_a_network_error_after_the_last_try_is_the_cause():
    retried = "(APIServer pid=1) ERROR 05-01 09:59:05 [repo_utils.py:47] Error retrieving file list: [Errno -3] Temporary failure in name resolution, retrying 2 of 2"
    error = traceback(("file_exists", "raise"), ends="OSError: We couldn't connect to 'https://huggingface.co' to load the files")  # fmt: skip
    assert root(text(START[:1], [retried], raw("APIServer pid=1", error))).id == "hf-network-unreachable"


def test_an_error_that_the_engine_quotes_goes_before_the_death_of_its_worker():
    quoted = "RuntimeError: Worker failed with error 'index 0 is out of bounds for dimension 0 with size 0', please check the stack trace above for the root cause"
    died = framed("EngineCore_DP0 pid=9", ["Worker proc VllmWorker-0 died unexpectedly, shutting down executor."], "multiproc_executor.py:154", "10:00:14")  # fmt: skip
    cut = raw("EngineCore_DP0 pid=9", ["Process EngineCore_DP0:", *traceback(("run", "self._target()"), ends="")[:-1]])  # fmt: skip
    finding = root(text(START, engine(quoted), died, cut))
    assert finding.title == "Error of a worker that no rule names"
    assert "index 0 is out of bounds" in finding.explanation


def test_several_requests_that_are_too_long_have_one_finding_on_their_length():
    refused = "vllm.exceptions.VLLMValidationError: This model's maximum context length is 2048 tokens. However, you requested 1800 output tokens and your prompt contains at least {prompt} input tokens, for a total of at least {total} tokens."
    config = "(APIServer pid=1) INFO 05-01 09:59:02 [utils.py:233] non-default args: {'max_model_len': 2048}"
    errors = [
        line
        for prompt in (249, 900, 1300)
        for line in [
            *framed("APIServer pid=1", ["Error in preprocessing prompt inputs", *traceback(("create_chat_completion", "raise"), ends=refused.format(prompt=prompt, total=1800 + prompt))], "serving_chat.py:250", "10:00:00"),
            '(APIServer pid=1) INFO:     10.0.0.1:5000 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request',
        ]
    ]  # fmt: skip
    findings = diagnosis(text(START[:1], [config], START[1:], READY, errors)).findings
    changes = {one.id: [change.knob for change in one.changes] for one in findings}
    assert "request-error-not-server-fault" not in changes
    assert changes["requests-beyond-context"] == ["set max_tokens to at most the context less the prompt, or leave it out"]  # fmt: skip


def test_graphs_get_no_room_from_a_cache_that_holds_nothing():
    cache = "(EngineCore_DP0 pid=9) INFO 05-01 09:59:58 [gpu_worker.py:436] Available KV cache memory: {} GiB"
    asked = "(APIServer pid=1) INFO 05-01 09:59:02 [utils.py:233] non-default args: {'gpu_memory_utilization': 0.9, 'max_num_seqs': 256}"
    capture = framed("EngineCore_DP0 pid=9", ["EngineCore failed to start.", *traceback(("capture_model", "self._capture_cudagraphs()"), ends=OOM)], "core.py:708")  # fmt: skip
    for gib, utilization in (("0.20", False), ("12.0", True)):
        finding = root(text(START[:1], [asked], START[1:], [cache.format(gib)], capture))
        knobs = [change.knob for change in finding.changes]
        assert finding.id == "oom-cudagraph-capture"
        assert ("--gpu-memory-utilization" in knobs, "--max-num-seqs" in knobs) == (utilization, True)


def test_a_file_that_hides_a_package_is_renamed_and_nothing_is_installed():
    ends = "ModuleNotFoundError: No module named 'vllm.engine'; 'vllm' is not a package"
    found = root(text(traceback(("enter", "from vllm.engine.arg_utils import AsyncEngineArgs"), ends=ends)))
    assert "`vllm.py`" in found.alternatives[0]
    assert not any("install" in change.knob for change in found.changes)


def test_an_abort_of_the_driver_below_a_wrapper_is_the_root() -> None:
    log = """\
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Value error, Model architectures ['LlamaForCausalLM'] failed to be inspected. Please check the logs for more details.
Abort was called at 77 line in file:
./shared/source/os_interface/linux/os_context.cpp
serve.sh: line 4:    31 Aborted                 (core dumped) python3 -m vllm.entrypoints.openai.api_server --model org/m
"""
    found = root(log)
    assert (found.id, found.evidence[0].line) == ("worker-crash-native", 3)
    assert found.confidence == "medium"
    assert "sycl-ls" in found.alternatives[0]
