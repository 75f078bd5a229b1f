"""Failures of NPUs, of containers' commands and of validation in the forms that people paste: often without a start, or in two lines."""

from __future__ import annotations

import pytest

from tests.failure.judging import diagnosis, root
from vllm_logdoctor import RunView, analyze

NPU = "RuntimeError: create:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:89 HCCL function error: HcclCommInitRootInfo(n, &i, r, &c), error code is 7"
WATCHDOG = (
    "[rank1]:[E324 13:00:25.428029551 compiler_depend.ts:574] [Rank 1] Watchdog caught collective operation timeout:"
    " WorkHCCL(SeqNum=196, OpType=ALLREDUCE, Timeout(ms)=3600000) ran for 3600185 milliseconds before timing out."
)
EXTRA = "  Extra inputs are not permitted [type=extra_forbidden, input_value=3, input_type=int]"


def title_of(run: RunView) -> str:
    return run.to_markdown().split("\n")[0]


@pytest.mark.parametrize(
    ("line", "title"),
    [(NPU, "HCCL error"), (WATCHDOG, "HCCL collective timeout")],
)
def test_a_failure_of_hccl_is_not_explained_by_nccl(line: str, title: str) -> None:
    text = analyze([line]).to_markdown()
    assert title in text.split("\n")[0]
    assert "NCCL" not in text.replace("HCCL", "")


def test_an_error_of_acl_gets_the_steps_of_ascend() -> None:
    text = analyze(["RuntimeError: ACL stream synchronize failed, error code:507018"]).to_markdown()
    assert "ASCEND_LAUNCH_BLOCKING" in text
    assert "NEURON" not in text


@pytest.mark.parametrize(
    "arguments",
    [
        "serve /models/org-7b",
        "vllm serve /models/org-7b",
        "/bin/bash -c python3 -m vllm.entrypoints.openai.api_server --model m",
    ],
)
def test_a_command_that_repeats_the_entrypoint_is_no_argument_of_another_release(arguments: str) -> None:
    run = analyze([f"vllm: error: unrecognized arguments: {arguments}"]).runs[0]
    assert title_of(run) == "# FAILED at start-up: Command repeats the container's entrypoint"


def test_the_field_that_a_configuration_does_not_know_is_named() -> None:
    run = analyze(
        [
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for EngineArgs",
            "block_sise",
            EXTRA,
        ]
    ).runs[0]
    assert "EngineArgs of this release has no field block_sise" in run.to_markdown()


@pytest.mark.parametrize(
    "reason", [EXTRA, "  Input should be 'auto' or 'fp8' [type=literal_error, input_value='x']"]
)
def test_a_validation_error_without_its_exception_is_a_refusal(reason: str) -> None:
    run = analyze(["1 validation error for CompilationConfig", "mode", reason]).runs[0]
    assert "Invalid configuration refused by vLLM" in title_of(run)


@pytest.mark.parametrize(
    "line",
    [
        "OSError: Can't load image processor for 'org/quantized-3'. If you were trying to load it from the Hub, make sure",
        "OSError: /models/q3 does not appear to have a file named preprocessor_config.json. Checkout the Hub for available files.",
    ],
)
def test_missing_files_of_a_processor_are_named(line: str) -> None:
    assert "Processor files of a multimodal model missing" in title_of(analyze([line]).runs[0])


def test_a_list_of_pods_says_that_a_container_ends_again_and_again() -> None:
    pods = [
        "NAME                        READY   STATUS             RESTARTS        AGE",
        "server-5cc594fd46-hg5rw     0/1     CrashLoopBackOff   5 (2m30s ago)   13m",
    ]
    assert "kubectl logs --previous" in analyze(pods).to_markdown()
    with_log = [*pods, "$ kubectl logs server-5cc594fd46-hg5rw", "/bin/sh: 1: vllm: Permission denied"]
    assert analyze(with_log).to_markdown().startswith("# ERROR: User may not execute vllm")


def test_the_command_of_an_offline_benchmark_gives_the_settings_of_its_engine() -> None:
    lines = [
        "VLLM_CPU_KVCACHE_SPACE=16 time python benchmarks/benchmark_throughput.py --model org/m --input-len 128 --device cpu",
        "WARNING 07-08 21:21:47 cpu_executor.py:119] CUDA graph is not supported on CPU, fallback to the eager mode.",
        "Processed prompts:   0%|          | 0/1000 [00:00<?, ?it/s][rank0]: Traceback (most recent call last):",
        '[rank0]:   File "/opt/lib/python3.11/site-packages/vllm/worker/cpu_model_runner.py", line 202, in _prepare_prompt',
        "[rank0]:     attn_metadata = self.attn_backend.make_metadata(",
        "[rank0]: TypeError: XFormersMetadata.__init__() got an unexpected keyword argument 'is_prompt'",
    ]
    run = analyze(lines).runs[0]
    assert (run.run.kind, run.run.setting("device"), run.run.setting("input_len")) == ("offline", "cpu", None)
    assert "Build for GPUs run with" in title_of(run)


RAY = "2023-12-20 08:58:56,879 WARNING worker.py:2074 -- A worker died or was killed while executing a task by an unexpected system error."


@pytest.mark.parametrize("wrapper", ["", "2023-12-20T08:{}Z ", "2023-12-20T16:{}Z "])
def test_a_run_lasts_until_the_last_line_of_ray_that_has_a_time(wrapper: str) -> None:
    """Who stamps each line once more does so a little later than it was written, or in another time zone."""
    stamps = [wrapper.format(time) for time in ("54:53.000000000", "55:28.000000000", "58:58.000000000")]
    lines = [
        f"{stamps[0]}INFO 12-20 08:54:51 llm_engine.py:223] # GPU blocks: 64920, # CPU blocks: 6553",
        f"{stamps[1]}INFO 12-20 08:55:26 model_runner.py:437] Graph capturing finished in 35 secs.",
        f"{stamps[2]}{RAY.partition('WARNING ')[2]}" if wrapper else RAY,
    ]
    run = analyze(lines).runs[0].run
    assert round(run.ended - run.started) == pytest.approx(245.0, abs=1)


def test_the_list_of_loaded_modules_is_no_last_word() -> None:
    lines = [
        RAY,
        "Fatal Python error: Aborted",
        "Extension modules: msgpack._cmsgpack, psutil._psutil_linux (total: 2)",
    ]
    assert "Last line" not in analyze(lines).to_markdown()


EXEC = (
    "docker: Error response from daemon: OCI runtime create failed: runc create failed: unable to start container process:"
    ' exec: "--model": executable file not found in $PATH: unknown.'
)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("RuntimeError: NPU function error: aclrtMallocAlign32, error code is 207001", "Out of memory on the NPU"),
        ("RuntimeError: PTA call acl api failed. alloc device memory failed, runtime result = 207001", "Out of memory on the NPU"),
        ("RuntimeError: Memory_Allocation_Failure(EL0004): Failed to allocate memory.", "Out of memory on the NPU"),
        ("RuntimeError: HcclAllReduce failed. HCCL_E_TIMEOUT", "HCCL error"),
        ("ImportError: libascend_hal.so: cannot open shared object file: No such file", "Library of Ascend's driver"),
        ("vllm: error: argument subparser: invalid choice: 'vllm' (choose from serve)", "repeats the container's entry"),
        ("ValueError: Unrecognized image processor in /models/vl. Should have a key", "Processor files of a multimodal"),
        ("server-0   0/1   CrashLoopBackOff   12 (68s ago)   51m", "The container ends again and again"),
        ('container "vllm" in pod "vllm-0" is waiting to start: CrashLoopBackOff', "The container ends again and again"),
        (EXEC, "Container's command is no program of the image"),
    ],
)  # fmt: skip
def test_a_single_line_names_its_cause(line: str, words: str) -> None:
    assert words in analyze([line]).to_markdown().split("\n")[0]


def test_an_address_of_hccl_that_is_taken_is_no_unexplained_error() -> None:
    taken = root(
        "RuntimeError: HCCL function error: hcclCommInitRootInfoConfig(...), error code is 7\n"
        "[ERROR] 2026-08-11-10:02:11 (PID:1203, Device:0, RankID:0) ERR02200 DIST call hccl api failed.\n"
        "Communication_Error_Bind_IP_Port(EI0020): Reason: The IP address 10.0.0.3 and port 16666 have already been bound.\n"
    )
    assert (taken.id, taken.title) == ("port-in-use", "HCCL: address already in use")
    assert "10.0.0.3 and port 16666" in taken.explanation


def test_compilers_of_ascend_that_lost_their_parent_are_not_why_a_worker_died() -> None:
    died = root(
        "(VllmWorker rank=0 pid=4) INFO 06-02 16:56:09 [model_runner_v1.py:1048] Encoder cache will be initialized\n"
        "Error:  TBE Subprocess[task_distribute] raise error[], main process disappeared!\n"
        "ERROR 06-02 17:15:31 [multiproc_executor.py:135] Worker proc VllmWorker-3 died unexpectedly, shutting down executor.\n"
    )
    assert "died unexpectedly" in died.evidence[0].text


def test_a_rank_whose_peer_closed_the_connection_is_sent_to_the_peers_log() -> None:
    gone = root(
        "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed.\n"
    )
    assert gone.id == "peer-rank-died"


def test_a_kernel_that_timed_out_on_an_npu_is_a_fault_without_a_traceback() -> None:
    fault = root(
        "INFO 04-27 17:01:09 [model_runner.py:949] Loading model weights took 27.8083 GB\n"
        "       Kernel task happen error, retCode=0x30, [vector core timeout].[FUNC:PreCheckTaskErr][FILE:task.cc][LINE:1]\n"
    )
    assert fault.id == "accelerator-runtime-fault"


def test_a_spyre_start_is_complete_when_all_shapes_are_warmed_up() -> None:
    started = [
        "INFO 05-01 10:00:00 llm_engine.py:176] Initializing an LLM engine (v0.5.3.post1) with config: model='/m', device_config=cpu",
        "[SpyreWorker] load model...",
        "[SpyreWorker] Start warming up 1 different prompt/decode-shape combinations.",
    ]
    done = "[SpyreWorker] All warmups for 1 different prompt/decode-shape combinations finished. Total warmup time 893.4s."
    half, whole = (diagnosis("\n".join(lines)).run for lines in (started, [*started, done]))
    assert half.outcome == "truncated"
    assert whole.startup_complete
    assert whole.outcome != "truncated"


def test_the_line_of_another_program_is_no_rest_of_the_line_above() -> None:
    command = "docker run --rm --gpus all --ipc=host vllm/vllm-openai:v0.10.0 --model org/m"
    refused = "docker: Error response from daemon: could not select device driver with capabilities: [[gpu]]."
    (finding,) = [one for one in analyze([command, refused]).runs[0].findings if one.role == "root"]
    assert [line.line for line in finding.evidence] == [2]


def test_a_release_that_no_index_has_is_no_conflict_of_packages() -> None:
    lines = [
        "ERROR: Could not find a version that satisfies the requirement vllm==0.99.0 (from versions: 0.8.5)",
        "ERROR: No matching distribution found for vllm==0.99.0",
    ]
    text = analyze(lines).to_markdown()
    assert text.startswith("# BUILD FAILED: Installer finds no such package")
    assert "have no vllm==0.99.0 for this Python" in text


def test_the_line_of_code_that_raises_is_not_the_error_of_a_client() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/srv/ask.py", line 40, in <module>',
        "    answer = client.chat.completions.create()",
        '  File "/opt/lib/python3.12/site-packages/openai/_base_client.py", line 1040, in request',
        "    raise APIConnectionError(request=request) from err",
        "openai.APIConnectionError: Connection error.",
    ]
    assert "`openai.APIConnectionError: Connection error.` [L6]" in analyze(lines).to_markdown()
