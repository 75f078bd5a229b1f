"""Names of failures in words that differ from release to release and from library to library."""

import pytest
from msgspec import Struct

from tests.failure.judging import diagnosis, root
from tests.failure.records import framed, raw
from tests.tables import for_each

START = [
    "(APIServer pid=1) INFO 05-01 09:59:01 [api_server.py:1300] vLLM API server version {version}",
    "(EngineCore_DP0 pid=9) INFO 05-01 09:59:20 [core.py:77] Initializing a V1 LLM engine (v{version}) with config: "
    "model='org/m', quantization=None, tensor_parallel_size={size}, device_config=cuda",
]
READY = [
    "(EngineCore_DP0 pid=9) INFO 05-01 09:59:50 [core.py:210] init engine (profile, create kv cache, warmup model) took 20.1 seconds",
    "(APIServer pid=1) INFO:     Application startup complete.",
]
WRAPPED = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"


class Place(Struct, frozen=True):
    """Where an exception is raised: file, function and the code there."""

    file: str
    function: str
    code: str = "..."

    def lines(self) -> list[str]:
        return [f'  File "/opt/{self.file}", line 7, in {self.function}', f"    {self.code}"]


INIT = Place("vllm/v1/worker/gpu_worker.py", "init_device")
LOAD = Place("vllm/v1/worker/gpu_worker.py", "load_model")
PROFILE = Place("vllm/v1/worker/gpu_worker.py", "determine_available_memory")
CAPTURE = Place("vllm/v1/worker/gpu_model_runner.py", "capture_model")
SERVE = Place("vllm/v1/engine/core.py", "run_busy_loop")
IMPORT = Place("vllm/__init__.py", "<module>")


def trace(places: list[Place], ends: str) -> list[str]:
    return ["Traceback (most recent call last):", *(line for place in places for line in place.lines()), *ends.split("\n")]  # fmt: skip


def at_start(ends: str, *places: Place, version: str = "0.11.0", size: int = 1) -> str:
    """A server whose engine core fails before it serves."""
    head = [line.format(version=version, size=size) for line in START]
    broken = framed("EngineCore_DP0 pid=9", ["EngineCore failed to start.", *trace([*places], ends)], "core.py:708")  # fmt: skip
    return "\n".join([*head, *broken, *raw("APIServer pid=1", trace([], WRAPPED))])


def while_serving(ends: str, *places: Place, version: str = "0.11.0") -> str:
    """A server whose engine core breaks after it served."""
    head = [line.format(version=version, size=1) for line in START]
    lines = ["EngineCore encountered a fatal error.", *trace([SERVE, *places], ends)]
    dead = ["AsyncLLM output_handler failed.", *trace([], "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.")]  # fmt: skip
    broken = framed("EngineCore_DP0 pid=9", lines, "core.py:710")
    return "\n".join([*head, *READY, *broken, *framed("APIServer pid=1", dead, "async_llm.py:480")])


NAMES = [
    ("parallel-size-indivisible", "AssertionError: 151655 is not divisible by 2", [LOAD]),
    ("parallel-size-indivisible", "AssertionError", [LOAD, Place("vllm/model_executor/models/x.py", "__init__", "assert self.total_num_heads % tp_size == 0")]),
    ("cuda-library-mismatch", "ImportError: libtorch_cuda.so: undefined symbol: ncclCommRegister", [IMPORT]),
    ("platform-not-detected", "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory", [IMPORT]),
    ("kernel-backend-unsupported-on-arch", "RuntimeError: FlashAttention only supports Ampere GPUs or newer.", [PROFILE]),
    ("kernel-backend-unsupported-on-arch", "RuntimeError: Error in function 'Run' at /x/prefill.cuh:21: FlashInfer Internal Error: Invalid configuration", [PROFILE]),
    ("optional-kernel-package-missing", "RuntimeError: DeepGEMM backend is not available or outdated. Please install it.", [PROFILE]),
    ("accelerator-runtime-fault", "RuntimeError: NPU function error: aclrtSynchronizeStream, error code is 507015", [PROFILE]),
    ("accelerator-runtime-fault", "RuntimeError: call aclnnMatmul failed, detail:EZ1001: the axes differ", [PROFILE]),
    ("jit-cuda-home-wrong", "RuntimeError: Could not find CUDA installation. Please set CUDA_HOME environment variable.", [PROFILE]),
    ("jit-cuda-home-wrong", "AssertionError", [PROFILE, Place("deep_gemm/__init__.py", "_find_cuda_home", "assert cuda_home is not None")]),
    ("lora-rank-exceeds-limit", "pydantic_core._pydantic_core.ValidationError: 1 validation error for LoRAConfig\nmax_lora_rank\n  Input should be 8, 16, 32 or 64 [type=literal_error, input_value=48, input_type=int]", []),
    ("python-dependency-conflict", "ImportError: Numba needs NumPy 2.2 or less. Got NumPy 2.4.", [IMPORT]),
    ("python-dependency-conflict", "RuntimeError: operator torchvision::nms does not exist", [IMPORT]),
    ("transformers-version-mismatch", "AttributeError: LlamaTokenizer has no attribute special_tokens_extended", [Place("vllm/tokenizers/hf.py", "get_tokenizer")]),
    ("attention-backend-incompatible", "NotImplementedError: FlashMLA with FP8 KV cache not yet supported", [LOAD, Place("vllm/v1/attention/backends/mla/flashmla.py", "__init__")]),
    ("nccl-error-unexplained", "RuntimeError: create_config:x.ts:149 HCCL function error: hcclCommInitRootInfo(n), error code is 7", [Place("vllm/distributed/parallel_state.py", "init_distributed_environment")]),
    ("kernel-backend-unsupported-on-arch", "RuntimeError: Currently, scaled gemm is not implemented for Blackwell", [PROFILE]),
    ("accelerator-runtime-fault", "RuntimeError: [Rank:0] FATAL ERROR :: MODULE:PT_LAZY Error, tensor is empty", [PROFILE]),
    ("accelerator-runtime-fault", "RuntimeError: TT_FATAL @ /src/program.cpp:106: tt::exception", [PROFILE]),
    ("torch-compile-failure", "RuntimeError: Worker failed with error 'RuntimeError when making fake tensor call\n  Explanation: Dynamo failed to run FX node with fake tensors", [PROFILE]),
    ("cuda-p2p-ipc-unavailable", "RuntimeError: CUDA driver error: invalid argument", [Place("torch/distributed/_symmetric_memory/__init__.py", "rendezvous")]),
    ("cuda-library-mismatch", "RuntimeError: CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling `cublasGemmEx(handle)`", [PROFILE]),
    ("kernel-backend-unsupported-on-arch", "NotImplementedError: No compiled nvfp4 mm kernel for SM 121", [PROFILE]),
    ("stale-or-partial-build", "AttributeError: module 'vllm._custom_ops' has no attribute 'scan_fwd'", [PROFILE]),
    ("quant-shape-indivisible-by-tp", "ValueError: Weight output_size_per_partition = 5472 is not divisible by  min_thread_n = 64.", [LOAD]),
    ("tokenizer-files-missing-or-corrupt", "TypeError: not a string", [Place("sentencepiece/__init__.py", "LoadFromFile")]),
    ("host-memory-exhausted", "RuntimeError: Ninja build failed. Ninja output:\n[1/9] nvcc a.cu\nKilled\nninja: build stopped: subcommand failed.", [PROFILE]),
    ("oom-warmup", "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", [PROFILE]),
    ("oom-warmup", "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 224.00 MiB.", [PROFILE]),
    ("cuda-reinit-in-fork", "RuntimeError: CUDA error: initialization error", [INIT]),
    ("platform-not-detected", "AssertionError: Torch not compiled with CUDA enabled", [INIT]),
    ("platform-not-detected", "RuntimeError: CUDA driver initialization failed, you might not have a CUDA gpu.", [INIT]),
    ("shm-too-small", "RuntimeError: unable to allocate shared memory(shm) for file </torch_9_1_0>: Success (0)", [INIT]),
    ("multi-node-wrong-network-interface", "socket.gaierror: [Errno -2] Name or service not known", [INIT, Place("torch/distributed/rendezvous.py", "_create_c10d_store")]),
    ("transformers-version-mismatch", "AttributeError: 'LlamaConfig' object has no attribute 'rope_theta'", [LOAD]),
    ("model-arch-not-supported-by-version", "AttributeError: 'OrcaConfig' object has no attribute 'vision_config'", [LOAD]),
    ("multimodal-token-count-bug", "AssertionError: Failed to apply prompt replacement for mm_items['video'][1]", [PROFILE]),
    ("transformers-version-mismatch", "TypeError: XImageProcessor.__init__() got an unexpected keyword argument 'size'", [Place("vllm/transformers_utils/processor.py", "get_processor")]),
    ("model-files-corrupt-or-incomplete", 'FileNotFoundError: No such file or directory: "/models/x/model-00003-of-00008.safetensors"', [LOAD]),
    ("gpu-visibility-env-conflict", "RuntimeError: The number of CUDA devices has changed since the first call to torch.cuda.device_count().", [INIT]),
    ("optional-kernel-package-missing", "RuntimeError: DeepGEMM is not available", [PROFILE]),
    ("quantization-scheme-unsupported", "ValueError: Prequant BitsAndBytes models with TP is not supported.Please try with PP.", [LOAD]),
    ("quantization-scheme-unsupported", "ValueError: Marlin does not support weight_bits = 3. Only weight_bits = 4 are supported.", [LOAD]),
    ("kernel-backend-unsupported-on-arch", "RuntimeError: FlashInfer does not support compute capability 6.1, unset VLLM_USE_FLASHINFER_SAMPLER=1.", [PROFILE]),
    ("cause-not-in-log", "RuntimeError: WorkerProc failed to start.", [INIT]),
    ("cause-not-in-log", "RuntimeError: Worker failed", [INIT]),
    ("oom-weights-load", "torch._inductor.exc.InductorError: RuntimeError: Failed to run autotuning code block: CUDA out of memory. Tried to allocate 1.02 GiB.", [PROFILE, Place("torch/_inductor/codegen/wrapper.py", "generate")]),
]  # fmt: skip


@for_each(("slug", "ends", "places"), NAMES)
def test_a_failure_of_the_start_has_its_name(slug, ends, places):
    assert root(at_start(ends, *places)).id == slug


NOT_IMPORTED = [
    ("torch-abi-mismatch", "ImportError('/opt/vllm/_C.abi3.so: undefined symbol: _ZN3c103hip9getStreamEa')"),
    ("cuda-library-mismatch", "ImportError('libcudart.so.13: cannot open shared object file: No such file or directory')"),
    ("glibc-too-old", "ImportError(\"/lib64/libc.so.6: version `GLIBC_2.34' not found (required by /opt/vllm/_C.abi3.so)\")"),
]  # fmt: skip


@pytest.mark.parametrize(("slug", "reason"), NOT_IMPORTED)
@pytest.mark.parametrize("ends", ["AttributeError: '_OpNamespace' '_C' object has no attribute 'rms_norm'", "ModuleNotFoundError: No module named 'vllm._C'"])  # fmt: skip
def test_why_the_extension_was_not_imported_goes_before_what_is_missing_for_it(slug, reason, ends):
    warned = f"WARNING 05-01 09:58:59 [_custom_ops.py:20] Failed to import from vllm._C with {reason}"
    finding = root(f"{warned}\n{at_start(ends, PROFILE)}")
    assert finding.id == slug
    assert finding.evidence[0].text == warned


def test_an_error_that_leaves_the_loop_of_the_engine_ends_it_whoever_prints_it():
    lines = [line.format(version="0.6.3", size=1) for line in START]
    lines += [*READY, *trace([Place("vllm/engine/async_llm_engine.py", "run_engine_loop")], "RuntimeError: CUDA error: an illegal memory access was encountered")]  # fmt: skip
    seen = diagnosis("\n".join(lines))
    assert seen.run.outcome == "crashed_while_serving"
    assert root("\n".join(lines)).id == "cuda-illegal-memory-access"


def test_a_library_that_says_out_of_memory_explains_the_error_that_follows():
    warned = "gpu07:80:80 [0] alloc.h:55 NCCL WARN Cuda failure 2 'out of memory'"
    log = at_start("RuntimeError: NCCL error: unhandled cuda error", INIT).split("\n")
    finding = root("\n".join([*log[:2], warned, *log[2:]]))
    assert finding.id == "gpu-memory-not-free-at-start"
    assert finding.evidence[0].text == warned


def test_what_a_library_prints_right_before_a_traceback_is_seen():
    warned = "gpu07:80:80 [0] init.cc:943 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 41000"
    lines = [
        warned,
        *trace([INIT], "RuntimeError: NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)"),
    ]
    assert root("\n".join(lines)).id == "nccl-containers-on-one-host"


def test_a_model_that_can_not_be_split_by_layers_is_not_to_be_split_so():
    log = at_start("NotImplementedError: Pipeline parallelism is not supported for this model.", LOAD)
    finding = root(log.replace("tensor_parallel_size=1", "tensor_parallel_size=1, pipeline_parallel_size=2"))
    assert finding.id == "feature-incompatible-with-model"
    assert ("--pipeline-parallel-size", 1) in [(change.knob, change.after) for change in finding.changes]


def test_figures_in_the_second_line_of_a_text_are_shown():
    ends = "torch.OutOfMemoryError: CUDA out of memory.\n    Tried to allocate 136.00 MiB. GPU 0 has a total capacity of 22.36 GiB."
    assert any("Tried to allocate" in one.text for one in root(at_start(ends, CAPTURE)).evidence)


def test_a_setting_above_a_failure_speaks_against_no_cause():
    log = at_start("AssertionError: 49155 is not divisible by 4", LOAD, size=4)
    assert "quantization=None" in log
    assert root(log).id == "parallel-size-indivisible"


@pytest.mark.parametrize(("size", "slug"), [(2, "tp-sharding-bug"), (1, "checkpoint-format-mismatch")])
def test_sizes_that_differ_by_the_number_of_ranks_were_split_wrongly(size, slug):
    ends = "RuntimeError: The size of tensor a (1280) must match the size of tensor b (2560) at non-singleton dimension 1"
    log = at_start(ends, LOAD, Place("vllm/model_executor/models/x.py", "load_weights"), size=size)
    assert root(log).id == slug


@pytest.mark.parametrize(
    ("model", "slug"),
    [("./checkpoints/seven", "model-path-not-found"), ("checkpoints/seven", "model-path-not-found"),
     ("org/seven", "hf-network-unreachable")],
)  # fmt: skip
def test_a_path_that_is_not_there_is_no_trouble_of_the_network(model, slug):
    arguments = (
        f"(APIServer pid=1) INFO 05-01 09:59:02 [utils.py:233] non-default args: {{'model': '{model}'}}"
    )
    ends = "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached files."
    lines = [START[0].format(version="0.11.0"), arguments, *trace([Place("vllm/config/model.py", "__post_init__")], ends)]  # fmt: skip
    assert root("\n".join(lines)).id == slug


@pytest.mark.parametrize("kind", ["ValueError", "RuntimeError", "IndexError"])
def test_an_error_of_the_engine_while_it_serves_is_its_own(kind):
    log = while_serving(f"{kind}: no such block", Place("vllm/v1/core/sched/scheduler.py", "schedule"))
    finding = root(log)
    assert finding.id == "engine-code-bug"
    assert "scheduler.py, schedule" in finding.title


def test_an_error_where_tokens_are_drafted_advises_to_leave_drafting_out():
    log = while_serving("IndexError: index 9 is out of bounds", Place("vllm/v1/spec_decode/ngram_proposer.py", "propose"))  # fmt: skip
    assert [(change.knob, change.after) for change in root(log).changes if change.kind == "flag"] == [("--speculative-config", None)]  # fmt: skip


def test_an_option_of_drafting_that_is_off_by_default_is_left_out_before_drafting_as_a_whole():
    log = while_serving("AssertionError", Place("vllm/v1/spec_decode/base_proposer.py", "prepare_inputs"), version="0.20.0")  # fmt: skip
    arguments = (
        "(APIServer pid=1) INFO 05-01 09:59:02 [utils.py:233] non-default args: {'model': 'org/m', 'speculative_config': {'method':"
        " 'eagle3', 'model': 'org/d', 'num_speculative_tokens': 2, 'disable_padded_drafter_batch': True}}"
    )
    first, second = root(f"{arguments}\n{log}").changes[:2]
    assert first.after == {"method": "eagle3", "model": "org/d", "num_speculative_tokens": 2}
    assert "without `disable_padded_drafter_batch`, off by default" in first.note
    assert second.knob == "if it fails again, start without `--speculative-config`"


def test_the_flag_for_drafting_is_that_of_the_release():
    arguments = "INFO 05-01 09:59:02 api_server.py:459] args: Namespace(model='org/m', speculative_model='[ngram]', num_speculative_tokens=4)"
    log = while_serving("IndexError: index 9 is out of bounds", Place("vllm/spec_decode/ngram_worker.py", "sampler_output"), version="0.6.2")  # fmt: skip
    flags = [change.knob for change in root(f"{arguments}\n{log}").changes if change.kind == "flag"]
    assert flags == ["--speculative-model"]


def test_a_queue_that_had_to_give_up_is_no_cause():
    log = while_serving(
        "RuntimeError: cancelled", Place("vllm/distributed/device_communicators/shm_broadcast.py", "dequeue")
    )
    assert root(log).id == "cause-not-in-log"


def test_a_death_without_a_traceback_is_reported():
    lines = [line.format(version="0.11.0", size=1) for line in START]
    lines += [*READY, "(Worker_TP0 pid=80) ERROR 05-01 10:00:00 [multiproc_executor.py:671] WorkerProc hit an exception."]  # fmt: skip
    finding = root("\n".join(lines))
    assert finding.id == "cause-not-in-log"
    assert "WorkerProc hit an exception" in finding.evidence[0].text


REFUSED = "vllm.exceptions.VLLMValidationError: The decoder prompt (length 4099) is longer than the maximum model length of 2048."
OFFLINE = ["INFO 05-01 10:00:20 [core.py:70] Initializing a V1 LLM engine (v0.11.2) with config: model='org/m'",
           "Adding requests:  12%|#2        | 12/100 [00:00<00:01, 70.3it/s]"]  # fmt: skip


def test_a_refused_request_ends_a_program_that_calls_the_engine_itself():
    script = Place("home/u/batch.py", "<module>", "llm.generate(prompts)")
    lines = trace([script, Place("vllm/entrypoints/llm.py", "generate")], REFUSED)
    seen = diagnosis("\n".join([*OFFLINE, *lines]))
    assert seen.run.outcome == "crashed_while_serving"
    assert next(one for one in seen.findings if one.role == "root").id == "request-error-not-server-fault"


def test_a_client_in_the_same_log_ends_no_server():
    client = trace([Place("home/u/client.py", "<module>"), Place("openai/_base_client.py", "request")],
                   "openai.BadRequestError: Error code: 400 - This model's maximum context length is 2048 tokens.")  # fmt: skip
    lines = [line.format(version="0.11.0", size=1) for line in START]
    seen = diagnosis("\n".join([*lines, *READY, *client]))
    assert seen.run.outcome == "running"
    assert all(one.role != "root" for one in seen.findings)


@pytest.mark.parametrize("mark", ["#033[1;36m(Worker_TP0 pid=80)#033[0;0m ", "\x1b[1;36m(Worker_TP0 pid=80)\x1b[0;0m ", "3: ", " 12: "])  # fmt: skip
def test_what_a_collector_puts_before_raw_lines_hides_no_traceback(mark):
    lines = trace([LOAD], "RuntimeError: CUDA error: invalid device ordinal")
    found = root("\n".join([START[0].format(version="0.11.0"), *(mark + line for line in lines)]))
    assert found.id == "gpu-visibility-env-conflict"
    assert found.evidence[0].text.endswith("invalid device ordinal")


@pytest.mark.parametrize(("clock", "severity"), [("09:59:40", "low"), ("10:31:40", "medium")])
def test_a_young_start_that_goes_on_is_reported_mildly(clock, severity):
    lines = [line.format(version="0.11.0", size=1) for line in START]
    lines += [f"(EngineCore_DP0 pid=9) INFO 05-01 {clock} [gpu_model_runner.py:2392] Starting to load model org/m..."]  # fmt: skip
    finding = root("\n".join(lines))
    assert (finding.kind, finding.severity) == ("configuration", severity)


def test_an_error_of_hccl_is_not_sent_to_nccl_s_log():
    error = (
        "RuntimeError: create_config:x.ts:149 HCCL function error: hcclCommInitRootInfo(n), error code is 7"
    )
    finding = root(
        "\n".join(
            [
                *START,
                *framed(
                    "EngineCore_DP0 pid=9",
                    [
                        "EngineCore failed to start.",
                        "Traceback (most recent call last):",
                        *INIT.lines(),
                        error,
                    ],
                ),
            ]
        )
    )
    assert {change.knob for change in finding.changes} == {"ASCEND_GLOBAL_LOG_LEVEL"}


def test_a_watchdog_that_gave_up_has_ended_the_run():
    stuck = " [36m(RayWorkerVllm pid=5) [0m [E ProcessGroupNCCL.cpp:475] [Rank 4] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE) ran for 1800270 milliseconds before timing out."
    idle = "INFO 02-03 13:14:04 llm_engine.py:706] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 1 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 0.0%, CPU KV cache usage: 0.0%"
    found = diagnosis("\n".join([idle, stuck]))
    assert found.run.outcome == "crashed_while_serving"
    assert found.findings[0].id == "nccl-collective-timeout"


def test_an_engine_that_is_not_ready_in_time_is_not_a_step_that_hangs():
    late = "TimeoutError: Timed out waiting for engines to send initial message on input socket."
    lines = [
        "Process ApiServer_0:",
        "Traceback (most recent call last):",
        *Place("vllm/v1/engine/core_client.py", "__init__", "raise TimeoutError(").lines(),
        late,
    ]
    finding = root(
        "\n".join([line.format(version="0.15.0", size=1) for line in START] + raw("ApiServer_0 pid=3", lines))
    )
    assert finding.explanation.startswith("The API server waited for the engine to start")
    assert "VLLM_ENGINE_READY_TIMEOUT_S" in {change.knob for change in finding.changes}
    assert "socket.." not in finding.explanation


def test_names_in_a_line_of_code_prove_no_cause():
    place = Place("vllm/v1/worker/gpu_model_runner.py", "execute_model", "if self.kv_connector_workers:")
    missing = "AttributeError: 'GPUModelRunner' object has no attribute 'kv_connector_workers'"
    finding = root(while_serving(missing, place))
    assert (finding.id, finding.title) == (
        "engine-code-bug",
        "AttributeError in gpu_model_runner.py, execute_model",
    )


def test_a_tensor_library_that_refuses_a_value_points_to_the_code_that_passed_it():
    numpy = Place("env/site-packages/numpy/_core/_methods.py", "_amax", "return umr_maximum(a, axis)")
    runner = Place("vllm/v1/worker/gpu_model_runner.py", "execute_model", "n = np.max(lengths)")
    finding = root(while_serving("ValueError: zero-size array to reduction operation maximum", runner, numpy))
    assert "Raised by numpy, called from gpu_model_runner.py, execute_model" in finding.explanation


def test_a_library_between_vllm_and_torch_is_the_one_that_raised():
    called = Place(
        "vllm/attention/backends/xformers.py", "forward", "out = xops.memory_efficient(query, bias)"
    )
    library = Place(
        "env/site-packages/xformers/ops/fmha/cutlass.py", "apply", "out = cls.OPERATOR(query, bias)"
    )
    operator = Place("env/site-packages/torch/_ops.py", "call", "return self._op(query, bias)")
    finding = root(while_serving("RuntimeError: bias is not aligned to 8", called, library, operator))
    assert finding.title == "RuntimeError in xformers, called by vLLM"
    assert (
        "Raised by xformers (cutlass.py, apply), called from xformers.py, forward of vLLM"
        in finding.explanation
    )


def test_a_newer_release_is_advised_where_the_log_shows_an_older_one():
    place = Place("vllm/v1/core/sched/scheduler.py", "schedule")
    known = root(while_serving("IndexError: no such block", place))
    assert any("newer release" in way for way in known.alternatives)
    log = (
        "Traceback (most recent call last):\n"
        + '  File "/opt/vllm/v1/core/sched/scheduler.py", line 9, in schedule\n    block = blocks[n]\nIndexError: no such block\n'
    )
    assert not any("newer release" in way for way in root(log).alternatives)


def test_a_variable_that_forces_a_backend_is_the_one_to_unset():
    kernel = Place("env/site-packages/flashinfer/decode.py", "begin_forward", "self._wrapper.begin_forward(")
    error = "RuntimeError: Wrapper::BeginForward(at::Tensor)::<lambda()> failed to dispatch data type Byte"
    log = while_serving(error, Place("vllm/attention/backends/flashinfer.py", "begin_forward"), kernel)
    ways = root(f"me@host:/src$ VLLM_ATTENTION_BACKEND=FLASHINFER python3 /src/run.py\n{log}").alternatives
    assert any("`VLLM_ATTENTION_BACKEND`, which is FLASHINFER" in way for way in ways)
    assert not any("Unset" in way for way in root(log).alternatives)


def test_a_field_that_the_model_s_configuration_lacks():
    place = Place("vllm/transformers_utils/config.py", "get_hf_text_config", 'assert hasattr(config.text_config, "num_attention_heads")')  # fmt: skip
    finding = root(at_start("AssertionError", place))
    assert finding.id == "transformers-version-mismatch"
    assert "config.text_config" in finding.explanation


def test_a_missing_package_is_installed_by_its_name():
    finding = root(at_start("ModuleNotFoundError: No module named 'partial_json_parser'", IMPORT))
    assert finding.id == "python-dependency-conflict"
    assert "pip install partial_json_parser" in finding.alternatives[0]
    assert not finding.changes


def test_a_missing_requirement_of_a_build_is_no_reason_to_install_vllm_again():
    hook = Place("pip/_vendor/pyproject_hooks/_in_process/_in_process.py", "main", "hook(**hook_input)")
    build = ["Obtaining file:///src/vllm", "  error: subprocess-exited-with-error"]
    lines = [
        *build,
        *("      " + line for line in trace([hook], "ModuleNotFoundError: No module named 'packaging'")),
    ]
    finding = root("\n".join(lines))
    assert finding.title == "Build requirement missing"
    assert "pip install packaging" in finding.alternatives[0]


def test_an_operator_of_an_npu_that_refuses_a_data_type():
    refused = "[PID: 465] AclNN_Parameter_Error(EZ1001): Tensor scale not implemented for DT_FLOAT16, should be in dtype support list [DT_BFLOAT16,DT_FLOAT,]."
    error = f"RuntimeError: NPU function error: call aclnnQuantMatmul failed, error code is 161002\n{refused}"
    finding = root(at_start(error, PROFILE))
    assert finding.title == "NPU operator does not support the data type"
    assert "DT_BFLOAT16" in finding.explanation


def test_a_ray_worker_that_is_gone_is_not_said_to_have_run_out_of_memory():
    gone = "(raylet) A worker died or was killed while executing a task by an unexpected system error. There are some potential root causes. (1) The process is killed by SIGKILL by OOM killer due to high memory usage."
    idle = (
        "(LLMRayActor pid=7) INFO 06-20 01:37:11 executor_base.py:219] It took 1.462464 seconds to wake up."
    )
    finding = root("\n".join([idle, gone]))
    assert (finding.id, finding.title) == ("peer-rank-died", "Ray worker process died")
