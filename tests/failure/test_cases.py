"""Cases that share a page with others and are distinguished: a title that is true, a first action that helps, the line that proves it."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.failure.judging import diagnosis, failures, root
from tests.failure.records import READY, START, framed, traceback
from tests.tables import for_each
from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.report import markdown
from vllm_logdoctor.source import inputs_from

NCCL = "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)"


class RuleContext(NamedTuple):
    ends: str
    """What the traceback ends with."""
    id: str
    title: str
    action: str
    """Words of the first thing to do."""
    above: str = ""
    """A line above the traceback."""
    proof: str = ""
    """Words of the decisive line; "" for the exception's."""
    ranks: int = 1


CASES = {
    "a parser that is not there": RuleContext(
        "KeyError: \"Reasoning parser 'oracle' not found. Available parsers: qwen3, step3\"",
        "settings-refused", "Unknown tool or reasoning parser", "list in the message",
    ),
    "a parser by its old wording": RuleContext(
        "KeyError: 'invalid tool call parser: oracle (chose from { hermes,mistral })'",
        "settings-refused", "Unknown tool or reasoning parser", "list in the message",
    ),
    "a parser of another family": RuleContext(
        "RuntimeError: Oracle Tool parser could not locate tool call start/end tokens in the tokenizer!",
        "settings-refused", "Tool or reasoning parser does not match the model", "leave the option out",
    ),
    "a chat template outside of the container": RuleContext(
        "ValueError: The supplied chat template (/t/oracle.jinja) looks like a file path, but it failed to be opened. Reason: [Errno 2]",
        "settings-refused", "Chat template could not be read", "as the server's own process sees it",
    ),
    "a condition that is asserted": RuleContext(
        "AssertionError: Host offloading requires pinned memory support",
        "settings-refused", "Check failed: Host offloading requires pinned memory support", "Host offloading requires",
    ),
    "an adapter that was named in a quoted list": RuleContext(
        'ValueError: Loading lora ["sql failed: No adapter found for /adapters/sql/step-9"]',
        "lora-adapter-not-found", "LoRA adapter not found: its name or path holds brackets and quotes", "without brackets",
    ),
    "an adapter that is not there": RuleContext(
        "ValueError: Loading lora sql failed: No adapter found for /adapters/sql/step-9",
        "lora-adapter-not-found", "LoRA adapter not found", "Check the path",
    ),
    "an adapter for other modules": RuleContext(
        "ValueError: Call to add_lora method failed: While loading /a/b, expected target modules in ['o_proj'] but received ['gate'].",
        "lora-adapter-unfit", "LoRA adapter does not match the model", "adapter_config.json",
    ),
    "two quantizations": RuleContext(
        "ValueError: Quantization method specified in the model config (fp8) does not match the quantization method specified in the"
        " `quantization` argument (awq).",
        "quantization-scheme-unsupported", "--quantization does not match the checkpoint", "Leave `--quantization` out",
    ),
    "a GGUF file of a new family": RuleContext(
        "RuntimeError: Unknown gguf model_type: oracle",
        "checkpoint-format-mismatch", "GGUF not supported for this model", "Hugging Face format",
    ),
    "the size of a drafter": RuleContext(
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig\n"
        "  Value error, speculative_draft_tensor_parallel_size=2 cannot be other value than 1 or target model tensor_parallel_size"
        " [type=value_error, input_value=ArgsKwargs(()), input_type=ArgsKwargs]",
        "spec-decode-misconfigured", "Invalid speculative decoding configuration", "draft_tensor_parallel_size",
        proof="Value error, speculative_draft",
    ),
    "a field that a checkpoint's quantization brings along": RuleContext(
        "pydantic_core._pydantic_core.ValidationError: 2 validation errors for VllmConfig\n"
        "zp_dtype\n  Extra inputs are not permitted [type=extra_forbidden, input_value=None, input_type=NoneType]",
        "settings-refused", "Unknown setting in the configuration (extra inputs not permitted)", "the checkpoint's `config.json`",
    ),
    "a connector that is not installed": RuleContext(
        "RuntimeError: NIXL is not available",
        "kv-connector-failure", "KV connector package not installed", "Install the connector's package",
    ),
    "a transfer engine without its network": RuleContext(
        "nixl._bindings.nixlBackendError: NIXL_ERR_BACKEND",
        "kv-connector-failure", "NIXL transport failed", "before the error",
    ),
    "a fabric that is not up": RuleContext(
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized",
        "gpu-hardware-or-driver-fault", "NVSwitch not initialized (fabric manager)", "Fabric Manager",
    ),
    "a multicast that can't be bound": RuleContext(
        NCCL, "gpu-hardware-or-driver-fault", "NVSwitch fabric misconfigured", "nvidia-fabricmanager",
        above="n1:77:90 [2] transport/nvls.cc:409 NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size 4096 : CUDA error 401",
        proof="NVLink SHARP",
    ),
    "a link that is down": RuleContext(
        NCCL, "nccl-network-fault", "InfiniBand or RoCE network fault between ranks", "ibstat",
        above="n1:77:90 [0] misc/ibvwrap.cc:262 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_9:1",
        proof="ibv_modify_qp",
    ),
    "a reason that NCCL gives": RuleContext(
        NCCL, "nccl-error-unexplained", "NCCL error", "Follow what NCCL says",
        above="n1:77:90 [0] init.cc:1100 NCCL WARN Mismatched collective detected, please check your collective calls",
        proof="Mismatched collective",
    ),
    "a segment of another rank that is not there": RuleContext(
        NCCL, "nccl-containers-on-one-host", "NCCL: shared memory of another rank not found", "NCCL_CUMEM_HOST_ENABLE=0",
        above="n1:77:90 [4] misc/shmutils.cc:132 NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl-aBcDeF (size 0),"
        " error: No such file or directory (2)",
        proof="attaching to shared memory",
    ),
    "a call that graph capture forbids": RuleContext(
        "RuntimeError: Worker failed with error 'NPU function error: AclrtSynchronizeStream, error code is 107027\n"
        "       rtStreamSynchronize execute failed, reason=[stream is captured][FUNC:FuncErrorReason]'",
        "accelerator-runtime-fault", "NPU graph capture failed: operation not allowed during capture", "--enforce-eager", proof="reason=[stream is captured]",
    ),
    "shapes that an operator of CANN refuses": RuleContext(
        "RuntimeError: call aclnnAdd failed, detail:EZ1001: [PID: 77] 2025-05-07-16:27:13.714.340 64 and 128 cannot broadcast.",
        "accelerator-runtime-fault", "NPU operator refused its arguments", "release of vllm-ascend",
    ),
    "a symbol of CANN that the plug-in lacks": RuleContext(
        "AssertionError: camem allocator is not available",
        "platform-library-version-mismatch", "Compiled library of vllm-ascend not loaded", "installed CANN",
        above="WARNING 11-05 13:27:54 [camem.py:64] Failed to import vllm_ascend_C:/opt/vllm_ascend_C.so: undefined symbol:"
        " _ZN2ge13PlatFormInfosD1Ev. Sleep mode will be disabled.",
        proof="undefined symbol",
    ),
    "no reason at all": RuleContext(
        NCCL, "nccl-error-unexplained", "NCCL error without a logged cause", "NCCL_DEBUG",
    ),
    "a collective library of another release": RuleContext(
        "AttributeError: /usr/lib/libnccl.so.2: undefined symbol: ncclCommWindowRegister",
        "cuda-library-mismatch", "CUDA libraries do not match PyTorch", "LD_LIBRARY_PATH",
    ),
    "experts that wait": RuleContext(
        "RuntimeError: DeepEP error: timeout (dispatch CPU)",
        "nccl-collective-timeout", "Timeout in the expert-parallel all-to-all", "Find the rank",
    ),
    "a front-end that is not there": RuleContext(
        "RuntimeError: Did not receive response from front-end process within 5 minutes",
        "nccl-init-hang", "Engine start-up handshake timed out", "front-end's own log",
    ),
    "more ranks than cards": RuleContext(
        "torch.AcceleratorError: CUDA error: invalid device ordinal",
        "gpu-visibility-env-conflict", "CUDA error: invalid device ordinal (GPU not visible to this process)", "torch.cuda.device_count()",
    ),
    "a kernel too wide for the card": RuleContext(
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 147456, Hardware limit: 101376.",
        "kernel-shape-unsupported", "Out of shared memory in a GPU kernel", "Choose another backend",
    ),
    "a share that Marlin can't cut": RuleContext(
        "RuntimeError: size_n = 5472 is not divisible by tile_n_size = 64",
        "quant-shape-indivisible-by-tp", "Quantized weight shape not divisible by the tensor parallel size", "--tensor-parallel-size",
        ranks=4,
    ),
    "a tokenizer of newer transformers": RuleContext(
        "ValueError: Tokenizer class OracleBackend does not exist or is not currently imported.",
        "transformers-too-old", "transformers too old for this tokenizer", "newer transformers",
    ),
    "Neuron cores that can't be opened": RuleContext(
        "RuntimeError: The PyTorch Neuron Runtime could not be initialized.",
        "accelerator-runtime-fault", "Accelerator could not be opened", "neuron-ls",
    ),
    "a graph that Gaudi's compiler refuses": RuleContext(
        "RuntimeError: [Rank:0] FATAL ERROR :: MODULE:PT_BRIDGE Exception in Launch thread...\nGraph compile failed. synStatus=synStatus 26 [Generic failure].",
        "accelerator-compiler-failure", "Accelerator compiler failed on the model", "Change the shapes that are compiled",
        proof="Graph compile failed",
    ),
    "a compiler whose session ended": RuleContext(
        "subprocess.CalledProcessError: Command '' died with <Signals.SIGHUP: 1>.",
        "accelerator-compiler-failure", "Compiler ended by SIGHUP", "detached from the terminal",
        above="INFO 05-01 09:59:30 [loader.py:7] Writing the graph to /tmp/model.hlo",
    ),
    "a package for a newer Python": RuleContext(
        "TypeError: type 'array.array' is not subscriptable",
        "python-dependency-conflict", "Package needs a newer Python", "newer Python",
    ),
    "a data loader that was killed": RuleContext(
        "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.",
        "process-killed-externally", "DataLoader worker killed (SIGKILL)", "dmesg",
    ),
    "ranks of Ascend that miss each other": RuleContext(
        "RuntimeError: HCCL function error: HcclCommInitRootInfo(numRanks, &rootInfo), error code is 7\n"
        "EI0006: 2025-05-01-10:00:00.1 Getting socket times out. Reason: Remote Rank did not send the data in time.",
        "nccl-init-hang", "HCCL: a rank waits for another one in vain", "Find the rank",
        proof="EI0006",
    ),
    "a cache without the model, offline": RuleContext(
        "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files in the disk cache and outgoing traffic has been disabled.",
        "hf-network-unreachable", "Model files not in the local cache (offline mode)", "HF_HOME",
    ),
    "a proxy's certificate": RuleContext(
        "requests.exceptions.SSLError: HTTPSConnectionPool(host='huggingface.co', port=443): [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed",
        "hf-network-unreachable", "SSL certificate of the model hub not trusted", "REQUESTS_CA_BUNDLE",
    ),
    "a program without a main guard": RuleContext(
        "RuntimeError: \n        An attempt has been made to start a new process before the\n        current process has finished its bootstrapping phase.",
        "cuda-reinit-in-fork", "Missing main guard: multiprocessing spawn re-imports the script", "__main__",
        proof="An attempt has been made",
    ),
    "a cache that no attention takes": RuleContext(
        "ValueError: No valid attention backend found for cuda with AttentionSelectorConfig(head_size=64). Reasons: {FLASH_ATTN: [kv_cache_dtype not supported]}.",
        "attention-backend-incompatible", "No valid attention backend for this configuration", "--kv-cache-dtype auto",
    ),
    "a socket file in use, and no port": RuleContext(
        "zmq.error.ZMQError: Address already in use (addr='ipc:///tmp/lake_rpc_0')",
        "port-in-use", "Socket file already in use", "ss -xlp",
    ),
    "a condition that is raised": RuleContext(
        "ValueError: Model Runner V2 requires Triton.",
        "settings-refused", "Check failed: Model Runner V2 requires Triton.", "Model Runner V2 requires Triton",
    ),
    "more ranks than a node shows": RuleContext(
        "ValueError: Not enough resources to allocate 8 DP ranks on DP master node 10.0.0.7, possible to fit 4 DP ranks.",
        "gpu-visibility-env-conflict", "More ranks than visible GPUs on this node", "nvidia-smi -L",
    ),
    "a shard that is not there": RuleContext(
        "FileNotFoundError: Weight files referenced in index but missing: ['model-00002-of-00004.safetensors']",
        "model-files-corrupt-or-incomplete", "Model files missing", "download the model again",
    ),
    "no loopback": RuleContext(
        "RuntimeError: Neither 127.0.0.1 nor ::1 are bound to a local interface. Set the VLLM_LOOPBACK_IP environment variable explicitly.",
        "multi-node-wrong-network-interface", "Container has no loopback address", "VLLM_LOOPBACK_IP",
    ),
    "a barrier that is not reached": RuleContext(
        "RuntimeError: Barrier timed out after 300.0 seconds",
        "nccl-collective-timeout", "Barrier between ranks timed out", "Find the rank",
    ),
    "code that can't be traced": RuleContext(
        "torch._dynamo.exc.Unsupported: Graph break under GenericContextWrappingVariable",
        "torch-compile-failure", "torch.compile cannot trace the model code", "--enforce-eager",
    ),
    "a peer that closed its connection": RuleContext(
        "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.4]:5213",
        "peer-rank-died", "Another rank or worker closed the connection first", "",
    ),
    "a Ray of another release": RuleContext(
        "RuntimeError: Version mismatch: The cluster was started with:\n    Ray: 2.44.0\n    Python: 3.10.12\nThis process was started with:\n    Ray: 2.48.0",
        "python-dependency-conflict", "Ray version mismatch", "one image",
    ),
    "nodes of one address": RuleContext(
        "RuntimeError: Every node should have a unique IP address. Got 2 nodes with node ids ['a', 'b'] and 1 unique IP addresses {'127.0.0.1'}.",
        "multi-node-wrong-network-interface", "Nodes announce the same address", "VLLM_HOST_IP",
    ),
    "a bucket that is closed": RuleContext(
        "botocore.exceptions.NoCredentialsError: Unable to locate credentials",
        "hf-gated-or-unauthorized", "Access denied by the model store", "credentials",
    ),
    "a build that the kernel killed": RuleContext(
        "RuntimeError: Ninja build failed. Ninja output:\n[1/9] nvcc -c gemm.cu\nFAILED: gemm.cuda.o\nKilled\nninja: build stopped: subcommand failed.",
        "host-memory-exhausted", "Host out of memory during compilation", "MAX_JOBS=2",
        proof="Killed",
    ),
}  # fmt: skip


def report(log: str) -> str:
    """Return the report of a log as Markdown."""
    return markdown.render(analyse(inputs_from(log.encode()), Options()))


def log_of(case: RuleContext) -> str:
    start = "\n".join(START).format(ranks=case.ranks)
    broken = framed(
        "EngineCore_DP0 pid=9",
        [
            "EngineCore failed to start.",
            *traceback(("load_model", "raise ValueError("), ends=case.ends),
        ],
        "core.py:708",
    )
    return "\n".join([start, *([case.above] if case.above else []), *broken])


def first_action(log: str) -> str:
    """Return the first thing that the report says is to do."""
    finding = root(log)
    if finding.changes:
        change = finding.changes[0]
        return f"{change.knob} {change.after} {change.note}"
    return finding.alternatives[0]


@for_each("name", CASES)
def test_case_is_distinguished(name: str) -> None:
    case = CASES[name]
    finding = root(log_of(case))
    assert (finding.id, finding.title) == (case.id, case.title)
    assert (case.proof or case.ends.split("\n")[0][:60]) in finding.evidence[0].text
    assert case.action in first_action(log_of(case))


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2025-05-01T10:00:00 DUE TO TIME LIMIT ***", "Killed at the job's time limit"),
        ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2025-05-01T10:00:00 DUE TO PREEMPTION ***", "Preempted by the scheduler"),
        ("Warning   Evicted   pod/vllm-0   The node was low on resource: ephemeral-storage.", "Evicted from the node"),
        ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2025-05-01T10:00:00 ***", "Job or job step cancelled"),
    ],
)  # fmt: skip
def test_an_end_from_above_is_called_by_its_reason(line: str, title: str) -> None:
    finding = root("\n".join([*START, *READY, line]).format(ranks=1))
    assert finding.title == title
    assert "a probe of Kubernetes" not in finding.explanation


@pytest.mark.parametrize(
    "line", ["Evicted stale remote engine prefill-2 (inactive for 310.0s).", "Evicted 128 blocks"]
)
def test_a_cache_entry_that_is_evicted_ends_no_pod(line: str) -> None:
    logged = "(EngineCore_DP0 pid=9) INFO 05-01 10:00:00 [base_worker.py:90] " + line
    assert failures("\n".join([*START, *READY, logged]).format(ranks=1)) == []


def test_a_preempted_start_is_not_advised_to_be_patient() -> None:
    late = "(EngineCore_DP0 pid=9) INFO 05-01 10:10:00 [core.py:90] Starting to load model m..."
    line = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2025-05-01T10:10:00 DUE TO {} ***".format(
        "PREEMPTION"
    )
    assert not root("\n".join([*START, late, line]).format(ranks=1)).changes


def test_a_native_stack_is_no_exception_of_its_own() -> None:
    died = [
        "!!!!!!! Segfault encountered !!!!!!!",
        '  File "<unknown>", line 0, in ncclAllReduce',
        '  File "<unknown>", line 0, in _PyEval_EvalFrameDefault',
        "(EngineCore_DP0 pid=9) ERROR 05-01 10:00:00 [multiproc_executor.py:154] Worker proc VllmWorker-1 died unexpectedly, shutting down executor.",
    ]
    finding = root("\n".join([*START, *READY, *died]).format(ranks=2))
    assert finding.id == "worker-crash-native"
    assert "Segfault encountered" in finding.evidence[0].text


def test_a_program_that_asks_for_what_is_refused_is_reported() -> None:
    refused = [
        "Traceback (most recent call last):",
        '  File "/home/u/batch.py", line 9, in <module>',
        "    params = SamplingParams(temperature=-1)",
        '  File "/opt/vllm/sampling_params.py", line 400, in _verify_args',
        "    raise ValueError(",
        "ValueError: temperature must be non-negative, got -1.0.",
    ]
    finding = root("\n".join([START[1], *refused]).format(ranks=1))
    assert finding.id == "request-error-not-server-fault"
    assert "temperature must be non-negative, got -1.0" in finding.explanation


def test_a_start_that_a_person_stopped_is_reported_as_that() -> None:
    stopped = [
        "^C(APIServer pid=1) Traceback (most recent call last):",
        '(APIServer pid=1)   File "/opt/vllm/v1/engine/utils.py", line 784, in wait_for_engine_startup',
        "(APIServer pid=1)     events = poller.poll(10000)",
        "(APIServer pid=1) KeyboardInterrupt",
    ]
    text = report("\n".join([*START, *stopped]).format(ranks=1))
    assert text.startswith("# STOPPED by a signal (SIGINT/SIGTERM)\n")


@pytest.mark.parametrize("signal", ["*** SIGTERM received at time=1748300290 on cpu 8 ***", "^C"])
def test_a_start_stopped_while_it_waits_for_devices_names_what_it_waited_for(signal: str) -> None:
    waiting = [
        "INFO 05-01 10:00:{:02d} [ray_utils.py:233] Waiting for creating a placement group of specs for {} seconds."
        " specs=[GPU, GPU].".format(*step)
        for step in ((10, 10), (30, 30))
    ]
    stop = [
        signal,
        "Traceback (most recent call last):",
        '  File "/opt/vllm/executor/ray_utils.py", line 200, in _wait_until_pg_ready',
        "    ready, _ = ray.wait([pg_ready_ref], timeout=wait_interval)",
        "KeyboardInterrupt",
        "INFO 05-01 10:03:00 [ray_distributed_executor.py:127] Shutting down Ray distributed executor.",
    ]
    finding = root("\n".join([START[0].format(ranks=2), *waiting, *stop]))
    assert finding.id == "ray-not-enough-gpus"
    assert finding.confidence == "medium"


def test_memory_that_runs_out_in_native_code_before_a_shutdown_is_a_crash() -> None:
    log = [
        *READY,
        "[rank1]:[E716 19:47:26.324588983 shim_common.cpp:523] Exception in aoti_torch: CUDA out of memory. Tried to"
        " allocate 2.00 GiB. GPU 1 has a total capacity of 95.00 GiB of which 1.91 GiB is free.",
        "INFO:     Shutting down",
        "INFO:     Application shutdown complete.",
    ]
    text = "\n".join([*START, *log]).format(ranks=2)
    assert diagnosis(text).run.outcome == "crashed_while_serving"
    assert root(text).id == "oom-runtime-headroom"


def test_a_torch_of_another_platform_is_the_cause_of_missing_classes() -> None:
    log = [
        "WARNING 05-01 10:00:01 _core_ext.py:180] Failed to import from vllm._core_C with"
        " ImportError('libtorch_hip.so: cannot open shared object file: No such file or directory')",
        "Traceback (most recent call last):",
        '  File "/opt/vllm/_core_ext.py", line 182, in <module>',
        "    ScalarType = torch.classes._core_C.ScalarType",
        "RuntimeError: Tried to instantiate class '_core_C.ScalarType', but it does not exist! Ensure that it is"
        " registered via torch::class_",
    ]
    finding = root("\n".join(log))
    assert finding.id == "torch-abi-mismatch"
    assert "libtorch_hip.so" in finding.explanation
    assert finding.evidence[0].line == 1


def test_a_command_that_is_not_there_is_no_start() -> None:
    log = "+ vllm serve org/m --port 8000\n/var/spool/job7/script: line 14: vllm: command not found"
    assert diagnosis(log).run.outcome == "crashed_at_startup"
    assert root(log).title == "vLLM not installed in this environment"


def test_a_container_s_exit_code_says_that_native_code_died() -> None:
    finding = root("\n".join([*START, "\x1b[Kvllm-1 exited with code 139"]).format(ranks=1))
    assert finding.id == "worker-crash-native"
    assert "139 is a segmentation fault" in finding.explanation


def test_a_server_that_waits_for_connections_until_it_is_killed_was_stopped() -> None:
    waiting = [
        "INFO:     Shutting down",
        "INFO:     Waiting for connections to close. (CTRL+C to force quit)",
    ]
    text = report("\n".join([*START, *READY, *waiting]).format(ranks=1))
    assert text.startswith("# KILLED, probable cause: Stopped by a signal (SIGINT/SIGTERM)\n")


def test_argument_values_are_not_called_unknown_arguments() -> None:
    usage = "vllm serve: error: argument --max-model-len: Value {} cannot be converted to <function human>."
    unknown = "vllm serve: error: unrecognized arguments: --oracle"
    assert root(usage.format("lots")).title == "Invalid value for a command-line argument"
    assert root(unknown).title == "Unrecognized command-line argument"
    assert root(usage.format("lots")).id == root(unknown).id


def test_a_smaller_split_is_advised_only_where_heads_can_be_split_so() -> None:
    ends = "ValueError: Weight input_size_per_partition = 3696 is not divisible by min_thread_k = 128."
    case = RuleContext(ends, "", "", "", ranks=8)
    assert "--tensor-parallel-size" not in {change.knob for change in root(log_of(case)).changes}


def test_a_server_that_runs_out_of_files_is_reported_first() -> None:
    served = (
        "(APIServer pid=1) INFO 05-01 10:00:{} [loggers.py:127] Engine 000: Avg prompt throughput: 10.0 tokens/s, "
        "Avg generation throughput: 90.0 tokens/s, Running: 9 reqs, Waiting: 0 reqs, GPU KV cache usage: 2.0%"
    )
    refused = "OSError: [Errno 24] Too many open files"
    lines = [*START, *READY, served.format(10), refused, refused, served.format(20), served.format(30)]
    found = diagnosis("\n".join(lines).format(ranks=1))
    finding = next(one for one in found.findings if one.id == "thread-or-process-limit")
    assert (found.run.outcome, finding.kind, finding.role) == ("running", "configuration", None)
    assert "2 times" in finding.explanation
    assert [change.knob for change in finding.changes] == ["raise the limit on open files"]


def test_what_ray_counts_up_is_no_evidence() -> None:
    raylet = "(raylet) Raylet is terminated. Possible reasons include: (1) SIGKILL by the OOM killer, (2) SIGSEGV or SIGBUS"
    lost = "[2025-05-01 10:03:00,1 C 1 88] gcs_rpc_client.h:617: Failed to connect to GCS within 60 seconds. GCS may have been killed. The program will terminate."
    log = "\n".join([*START, *READY, raylet, lost]).format(ranks=1)
    assert diagnosis(log).run.outcome == "crashed_while_serving"
    assert (root(log).id, root(log).title) == ("peer-rank-died", "Ray head node lost")
    assert "Failed to connect to GCS" in root(log).evidence[0].text


def test_a_start_that_a_line_without_a_time_ended_had_run_for_at_least_the_time_that_the_log_covers() -> None:
    begun = [START[0].format(ranks=1), "INFO 05-01 10:00:44 [weight_utils.py:1] Loading"]
    ended = "(APIServer pid=1) KeyboardInterrupt: terminated"
    frames = [
        "(APIServer pid=1) Traceback (most recent call last):",
        '(APIServer pid=1)   File "/opt/vllm/v1/engine/utils.py", line 7, in wait',
    ]
    text = report("\n".join([*begun, *frames, ended]))
    assert "The start had run for at least 103 seconds" in text
    assert "seconds until then" not in report("\n".join([begun[0], *frames, ended]))
