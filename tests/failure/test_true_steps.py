"""Steps and words hold for this log: the compiler, the nodes, the plug-in and the program that it shows."""

from __future__ import annotations

import pytest

from tests.failure.judging import diagnosis, failures, raised, root
from tests.failure.records import framed
from tests.tables import for_each
from vllm_logdoctor import analyze

SITE = "/opt/env/lib/python3.12/site-packages"
TRITON = (f"{SITE}/triton/runtime/build.py", 40, "_build", "subprocess.check_call(cc_cmd)")
INDUCTOR = (f"{SITE}/torch/_inductor/codecache.py", 9, "load", "result = self.load(source)")
ENGINE = (f"{SITE}/vllm/v1/worker/gpu_model_runner.py", 60, "profile_run", "self._dummy_run()")
GCC = "subprocess.CalledProcessError: Command '['/usr/lib64/ccache/gcc', '/tmp/t/main.c']' returned non-zero exit status 1."


@for_each(
    ("header", "title", "step"),
    [
        ("stddef.h", "Compiler does not find a header of its own", "set `CC`"),
        ("stdlib.h", "Headers of the C library not found", "libc6-dev"),
        ("Python.h", "Headers of Python not found (Python.h)", "python3-dev"),
    ],
)
def test_a_missing_header_is_got_from_who_brings_it(header: str, title: str, step: str) -> None:
    said = f"/usr/include/stdlib.h:31:10: fatal error: {header}: No such file or directory"
    found = root(raised(ENGINE, INDUCTOR, TRITON, error=GCC, above=said))
    assert found.title == title
    assert step in " ".join(found.alternatives)
    assert not any("nvcc" in one or "FLASHINFER" in one for one in found.alternatives)


def test_switches_of_flashinfer_are_for_its_own_builds() -> None:
    flashinfer = (f"{SITE}/flashinfer/jit/core.py", 9, "build", "run_ninja()")
    error = "RuntimeError: Could not find nvcc and default cuda_home='/usr/local/cuda' doesn't exist"
    with_it, without = (
        " ".join(root(raised(ENGINE, frame, error=error)).alternatives) for frame in (flashinfer, INDUCTOR)
    )
    assert ("FLASHINFER" in with_it, "FLASHINFER" in without) == (True, False)
    assert ("--enforce-eager" in with_it, "--enforce-eager" in without) == (False, True)


def _ends_in_nccl(arguments: str) -> str:
    return "\n".join(
        [
            f"INFO 05-01 10:00:00 [api_server.py:1289] non-default args: {{'model': 'org/m', 'tensor_parallel_size': 2{arguments}}}",
            "INFO 05-01 10:00:10 [core.py:70] Initializing a V1 LLM engine (v0.9.1) with config: model='org/m', tensor_parallel_size=2, data_parallel_size=1, seed=0",
            "(VllmWorker rank=0 pid=227) INFO 05-01 10:00:16 [pynccl.py:70] vLLM is using nccl==2.26.2",
            "(VllmWorker rank=1 pid=228) INFO 05-01 10:00:16 [pynccl.py:70] vLLM is using nccl==2.26.2",
        ]
    )


@pytest.mark.parametrize(("executor", "several"), [("mp", False), ("ray", True)])
def test_ports_between_nodes_are_no_matter_of_one_node(executor: str, several: bool) -> None:
    finding = next(
        one
        for one in diagnosis(_ends_in_nccl(f", 'distributed_executor_backend': '{executor}'")).findings
        if one.id == "nccl-init-hang"
    )
    assert any("nodes" in one for one in finding.alternatives) is several


def test_a_start_that_hangs_has_no_load_to_compare() -> None:
    assert "Send the same load" not in analyze(_ends_in_nccl("").splitlines()).to_markdown()


def test_a_job_that_served_until_its_limit_has_no_start_to_shorten() -> None:
    found = root(
        "INFO 05-01 10:00:01 [api_server.py:1300] vLLM API server version 0.11.0\n"
        "INFO:     Application startup complete.\n"
        "slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-05-01T14:00:00 DUE TO TIME LIMIT ***"
    )
    assert found.title == "Killed at the job's time limit"
    assert not any("horten the start" in one for one in found.alternatives)


def test_steps_do_not_repeat_each_other() -> None:
    found = root(
        "INFO 05-01 10:00:01 [api_server.py:1300] vLLM API server version 0.9.0\n"
        "node1:7:7 [0] NCCL WARN Error while creating shared memory segment /dev/shm/nccl-aBcDeF (size 9637888)"
    )
    steps = [*(f"{one.knob} {one.after}" for one in found.changes), *found.alternatives]
    assert sum("--shm-size" in one for one in steps) == 1


PLUGIN = (
    "/src/vllm-ascend/vllm_ascend/worker/worker.py",
    429,
    "load_model",
    "self.model_runner.load_model()",
)
LINEAR = (
    "/src/vllm/vllm/model_executor/layers/linear.py",
    743,
    "weight_loader",
    "raise NotImplementedError(",
)
WEIGHTS = ("/src/vllm/vllm/model_executor/models/some_moe.py", 430, "load_weights", "weight_loader(param)")
LACKING = "NotImplementedError: Shard id with several parts is not supported in weight_loader"


def test_what_vllm_lacks_for_a_plugin_is_a_matter_of_their_releases() -> None:
    found = root(raised(PLUGIN, WEIGHTS, LINEAR, error=LACKING))
    assert found.id == "engine-code-bug"
    assert "documentation of vllm-ascend names" in found.alternatives[0]
    assert root(raised(WEIGHTS, LINEAR, error=LACKING)).id == "feature-incompatible-with-model"


REFUSAL = (
    "ValueError: `use_cache` was set to `True` but the loaded model only supports `use_cache=False`. Please load it with"
    " `use_cache=False` or export the original model once again with `use_cache=True` when calling `from_pretrained`. More text."
)


def test_a_check_of_a_library_is_called_one_and_its_own_remedy_is_the_step() -> None:
    own = (f"{SITE}/vllm/model_executor/model_loader/openvino.py", 137, "__init__", "Model.from_pretrained(")
    check = (f"{SITE}/optimum/modeling.py", 159, "raise_error", "raise ValueError(")
    start = (f"{SITE}/vllm/engine/llm_engine.py", 249, "__init__", "self.model_executor = executor_class(")
    found = root(raised(start, own, check, error=REFUSAL))
    assert "A check in optimum (called from openvino.py, __init__)" in found.explanation
    assert found.alternatives == (
        "Do what the message says: Please load it with `use_cache=False` or export the original model once again with"
        " `use_cache=True` when calling `from_pretrained`.",
    )


def test_a_parser_is_known_by_the_line_of_its_logger_where_the_traceback_is_cut_off() -> None:
    error = framed(
        "APIServer pid=1",
        ["json.decoder.JSONDecodeError: Extra data: line 3 column 1 (char 56)"],
        "hermes_tool_parser.py:148",
    )
    answered = '(APIServer pid=1) INFO:     10.0.0.1:3 - "POST /v1/chat/completions HTTP/1.1" 200 OK'
    statistics = "(APIServer pid=1) INFO 05-01 10:00:10 [loggers.py:123] Engine 000: Avg prompt throughput: 37.9 tokens/s, Avg generation throughput: 2.1 tokens/s, Running: 0 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%, Prefix cache hit rate: 55.4%"
    text = analyze([*error, answered, statistics]).to_markdown()
    first_screen = text.partition("\n## ")[0]
    assert first_screen.startswith("# NO FAILURE: tool call in an answer could not be parsed")
    assert "the client gets the answer as text" in first_screen
    assert "1. Check that `--tool-call-parser`" in first_screen


def test_a_client_of_a_benchmark_has_no_start() -> None:
    above = "INFO 08-17 16:58:36 [__init__.py:241] Automatically detected platform cuda."
    ready = ("/src/vllm/vllm/benchmarks/lib/ready_checker.py", 72, "wait_for_endpoint", "await request()")
    sends = ("/src/vllm/vllm/benchmarks/lib/endpoint_request_func.py", 9, "request", "json.dumps(payload)")
    text = analyze(
        raised(ready, sends, error="TypeError: a value is not JSON serializable", above=above).splitlines()
    ).to_markdown()
    assert text.startswith("# ERROR: TypeError in endpoint_request_func.py, request")
    assert "start-up" not in text


def test_functions_of_a_trainer_tell_no_phase_of_the_engine() -> None:
    trainer = (f"{SITE}/trainer/ray/engine.py", 58, "init_process_group", "self.llm.collective_rpc(")
    own = (
        f"{SITE}/vllm/entrypoints/llm.py",
        495,
        "collective_rpc",
        "executor = self.llm_engine.model_executor",
    )
    found = root(
        raised(trainer, own, error="AttributeError: 'LLMEngine' object has no attribute 'model_executor'")
    )
    assert "devices and ranks" not in found.explanation


def test_an_interrupt_without_a_time_gives_the_log_no_length() -> None:
    server = [
        "(APIServer pid=8) INFO 05-25 10:54:26 [api_server.py:1300] vLLM API server version 0.21.0",
        "(APIServer pid=8) INFO 05-25 10:54:28 [importing.py:45] Triton is installed but 0 active driver(s) found (expected 1). Disabling Triton to prevent runtime errors.",
        "(APIServer pid=8) Traceback (most recent call last):",
        f'(APIServer pid=8)   File "{SITE}/vllm/entrypoints/openai/api_server.py", line 579, in signal_handler',
        '(APIServer pid=8)     raise KeyboardInterrupt("terminated")',
        "(APIServer pid=8) KeyboardInterrupt: terminated",
    ]
    text = analyze(server).to_markdown()
    assert "log of" not in text
    assert "nvidia-smi" not in text, "the start saw no driver of a card"
    assert failures("\n".join(server)) == []


def test_a_layer_is_split_only_among_several_cards() -> None:
    kernel = (
        f"{SITE}/vllm/_custom_ops.py",
        9,
        "cutlass_scaled_mm",
        "assert (b.shape[0] % 16 == 0 and b.shape[1] % 16 == 0)",
    )
    linear = (
        f"{SITE}/vllm/model_executor/layers/quantization/fp8.py",
        9,
        "apply",
        "ops.cutlass_scaled_mm(x)",
    )
    one_card = (f"{SITE}/vllm/executor/uniproc_executor.py", 9, "collective_rpc", "run_method(args)")
    several = (f"{SITE}/vllm/v1/executor/multiproc_executor.py", 9, "worker_busy_loop", "func(*args)")
    alone, split = (root(raised(one, linear, kernel, error="AssertionError")) for one in (one_card, several))
    assert "multiples of 16" in alone.explanation
    assert not any("--tensor-parallel-size" in step for step in alone.alternatives)
    assert any("--tensor-parallel-size" in step for step in split.alternatives)


def test_a_layer_of_an_encoder_is_named_by_its_call_and_by_that_of_the_encoder() -> None:
    model = f"{SITE}/vllm/model_executor/models/our_vl.py"
    found = root(
        raised(
            (model, 900, "_process_image_input", "embeds = self.visual(pixels)"),
            (model, 190, "forward", "gate, _ = self.gate_proj(x)"),
            (
                f"{SITE}/vllm/model_executor/layers/quantization/fp8.py",
                9,
                "apply",
                "ops.cutlass_scaled_mm(x)",
            ),
            (f"{SITE}/vllm/_custom_ops.py", 9, "cutlass_scaled_mm", "assert (b.shape[0] % 16 == 0)"),
            error="AssertionError",
        )
    )
    for call in ("embeds = self.visual(pixels)", "gate, _ = self.gate_proj(x)"):
        assert f"`{call}`" in found.explanation
        assert any(call in one.text for one in found.evidence)


def test_a_draft_model_that_refuses_its_inputs_is_named_with_both_sizes() -> None:
    draft = (f"{SITE}/vllm/model_executor/models/medusa.py", 40, "forward", "x = x + self.act(layer(x))")
    error = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (1x6144 and 4096x4096)"
    found = root(raised(ENGINE, draft, error=error))
    assert (found.title, found.confidence) == ("Draft model does not match the served model", "high")
    assert "4,096" in found.explanation
    assert "6,144" in found.explanation


def test_a_connector_configured_with_a_dict_is_named_by_the_error_itself() -> None:
    state = (
        f"{SITE}/vllm/distributed/kv_transfer/kv_transfer_state.py",
        40,
        "ensure_kv_transfer_initialized",
        "x()",
    )
    found = root(raised(ENGINE, state, error="AttributeError: 'dict' object has no attribute 'kv_connector'"))
    assert (found.title, found.confidence) == ("KV connector configured with a dict", "high")
    assert "asdict()" in found.alternatives[0]
    assert not any("command line" in step for step in found.alternatives)


@for_each(("destructor", "ray"), [("RayDistributedExecutor.__del__", True), ("LLMEngine.__del__", False)])
def test_ray_is_shut_down_where_its_executor_was_freed(destructor: str, ray: bool) -> None:
    lines = [
        "INFO 05-01 10:00:00 llm_engine.py:234] Initializing a V0 LLM engine (v0.6.0) with config: model='org/m'",
        "Processed prompts: 100%|##########| 8/8 [00:04<00:00,  2.0it/s]",
        f"Exception ignored in: <function {destructor} at 0x7f00>",
        "Traceback (most recent call last):",
        '  File "/opt/vllm/vllm/executor/gpu_executor.py", line 40, in __del__',
        "    self.close()",
        "AttributeError: 'Worker' object has no attribute 'core'",
        "[1] 310 segmentation fault (core dumped) python bench.py",
    ]
    found = root("\n".join(lines))
    assert found.confidence == "high"
    assert ("ray.shutdown()" in " ".join(found.alternatives)) == ray


@for_each(
    ("content_format", "first"),
    [("openai", "--chat-template-content-format string"), ("auto", "Put the model's audio placeholder")],
)
def test_a_template_of_the_launch_gets_its_placeholder_from_vllm_in_text(
    content_format: str, first: str
) -> None:
    arguments = f"{{'model': 'org/m', 'chat_template': '/t.jinja', 'chat_template_content_format': '{content_format}'}}"
    start = [
        f"INFO 05-01 10:00:00 [api_server.py:1289] non-default args: {arguments}",
        "INFO:     Application startup complete.",
        "ERROR:    Exception in ASGI application",
    ]
    processing = (
        f"{SITE}/vllm/multimodal/processing.py",
        40,
        "_validate_mm_placeholders",
        "raise RuntimeError(",
    )
    error = "RuntimeError: Expected there to be 1 prompt updates corresponding to 1 audio items, but instead found 0 prompt updates!"
    said = raised(processing, error=error)
    found = next(one for one in diagnosis("\n".join([*start, said])).findings if "placeholder" in one.title)
    assert first in found.alternatives[0]


def test_a_lookup_beyond_a_table_is_named_by_its_kernel() -> None:
    line = "/src/aten/native/hip/Indexing.hip:1294: indexSelectLargeIndex: Device-side assertion `srcIndex < srcSelectDimSize' failed."
    found = root("\n".join([*_READY, line, "*** SIGABRT received at time=1712868846 on cpu 107 ***"]))
    assert "lookup" in found.explanation


def test_a_tool_call_whose_json_breaks_the_parser_is_the_models_output() -> None:
    hermes = (
        f"{SITE}/vllm/entrypoints/openai/tool_parsers/hermes_tool_parser.py",
        9,
        "extract_tool_calls",
        "loads(x)",
    )
    partial = (f"{SITE}/partial_json_parser/core/complete.py", 9, "fix", "stack.pop()")
    said = raised(hermes, partial, error="IndexError: pop from empty list")
    text = "\n".join(
        [
            *_READY,
            "ERROR 05-01 10:00:01 [hermes_tool_parser.py:9] Error in extracting tool call from response.",
            said,
        ]
    )
    found = next(one for one in diagnosis(text).findings if "ool call" in one.title)
    assert "JSON" in found.title
    assert "content" in found.alternatives[0]


_READY = [
    "INFO 05-01 10:00:00 [api_server.py:1300] vLLM API server version 0.11.0",
    "INFO:     Application startup complete.",
]


@for_each(
    ("code", "first"),
    [
        ("offs_m = tl.arange(0, BLOCK_Q * num_queries_per_kv)", "Use 0.9.0 or newer"),
        ("offs_n = tl.arange(0, BLOCK_SIZE)", "Use a newer release"),
    ],
)
def test_a_kernel_that_a_release_mended_names_that_release(code: str, first: str) -> None:
    refused = (f"{SITE}/triton/language/semantic.py", 9, "arange", "raise ValueError(message)")
    attention = (
        f"{SITE}/vllm/attention/ops/triton_unified_attention.py", 9, "unified_attention",
        "kernel_unified_attention_2d[(",
    )  # fmt: skip
    backend = (
        f"{SITE}/vllm/v1/attention/backends/triton_attn.py", 9, "forward", "unified_attention("
    )  # fmt: skip
    inner = raised(refused, error="ValueError: arange's range must be a power of 2")
    outer = raised(
        backend,
        attention,
        error=f"triton.compiler.errors.CompilationError: at 7:3:\n    {code}\n             ^",
    )
    both = "\n\n".join([inner, "The above exception was the direct cause of the following exception:", outer])
    steps = root(both).alternatives
    assert steps[0].startswith(first)
    assert not any("NAME" in step for step in steps)


@for_each(("function", "named"), [("forward", True), ("load_weights", False)])
def test_a_layer_whose_quantization_fails_is_named_by_the_call_of_the_model(
    function: str, named: bool
) -> None:
    models = f"{SITE}/vllm/model_executor/models/tiny.py"
    kernel = f"{SITE}/vllm/model_executor/layers/quantization/bitsandbytes.py"
    found = root(
        raised(
            (models, 211, function, "logits, _ = self.head(hidden)"),
            (kernel, 247, "_apply_8bit_weight", "offsets = weight.bnb_offsets"),
            error="AttributeError: 'Int8Params' object has no attribute 'bnb_offsets'",
        )
    )
    assert found.title == "Error in the code for bitsandbytes weights"
    assert ("`logits, _ = self.head(hidden)` in tiny.py, forward" in found.explanation) is named


def test_a_peer_of_lmcache_that_closes_the_connection_is_named() -> None:
    connected = "[2025-05-01 10:00:29,100] LMCache DEBUG: Peer connection created at 10.1.0.9:8311 (naive_server.py:153:lmcache.v1.distributed_server.naive_server)"
    recv = (
        "/srv/lmcache/v1/distributed_server/naive_server.py",
        169,
        "issue_get",
        "data = client_socket.recv(16)",
    )
    found = root(raised(ENGINE, recv, error="ConnectionResetError: [Errno 104] Connection reset by peer", above=connected))  # fmt: skip
    assert "10.1.0.9:8311" in found.alternatives[0]
    assert "NIXL" not in " ".join([found.explanation, *found.alternatives])


@for_each(("file", "offline"), [("entrypoints/llm.py", True), ("entrypoints/openai/serving_chat.py", False)])
def test_placeholders_of_a_program_are_no_matter_of_chat_requests(file: str, offline: bool) -> None:
    call = (f"{SITE}/vllm/{file}", 469, "generate", "outputs = self._run_engine(use_tqdm=use_tqdm)")
    error = "ValueError: Attempted to assign 900 + 900 = 1800 multimodal tokens to 2200 placeholders"
    steps = " ".join(root(raised(call, ENGINE, error=error)).alternatives)
    assert ("mm_processor_kwargs" in steps, "chat" in steps) == (offline, not offline)


def test_mistrals_tokenizer_in_a_processor_of_transformers_shows_the_mode() -> None:
    call = (
        f"{SITE}/transformers/models/pixtral/processing_pixtral.py",
        9,
        "__call__",
        "self.tokenizer.init_kwargs",
    )
    found = root(raised(ENGINE, call, error="AttributeError: 'MistralTokenizer' object has no attribute 'init_kwargs'"))  # fmt: skip
    assert "processor" in found.title
    assert found.alternatives[0] == "Start without `--tokenizer-mode mistral`."


@pytest.mark.parametrize(("executor", "several"), [("mp", False), ("ray", True)])
def test_a_collective_that_timed_out_asks_for_the_network_where_there_may_be_one(
    executor: str, several: bool
) -> None:
    ran_out = "[rank1]:[E501 10:41:12.100000000 ProcessGroupNCCL.cpp:629] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=77, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600010 milliseconds before timing out."
    log = _ends_in_nccl(f", 'distributed_executor_backend': '{executor}'")
    steps = root(f"{log}\n{ran_out}").alternatives
    assert any("NCCL_SOCKET_IFNAME" in one for one in steps) is several
    assert any("NCCL_P2P_DISABLE" in one for one in steps)


def test_a_warning_of_python_below_an_exception_is_no_part_of_what_broke() -> None:
    warned = "(env) me@node:~$ /opt/env/lib/python3.12/multiprocessing/resource_tracker.py:224: UserWarning: resource_tracker: There appear to be 9 leaked semaphore objects"
    log = f"{raised(ENGINE, error='RuntimeError: the rows do not fit the table')}\n{warned}"
    assert not any("leaked" in one.text for one in root(log).evidence)
