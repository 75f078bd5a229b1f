"""What a cause says holds for this log: the device, the build and the phase that it names are the log's."""

from __future__ import annotations

import pytest

import vllm_logdoctor
from tests.failure.judging import ENGINE, raised, root


def test_a_worker_of_ray_without_a_tpu_is_not_said_to_lack_a_gpu() -> None:
    frame = (
        "/opt/vllm-0.6.2.post1/vllm/executor/ray_utils.py",
        300,
        "initialize_ray_cluster",
        "raise ValueError(",
    )
    text = raised(
        frame, error="ValueError: Current node has no TPU available. current_node_resource={'CPU': 8.0}"
    )
    report = vllm_logdoctor.analyze(text.splitlines()).to_markdown()
    assert "no TPU" in report
    assert "GPU" not in report
    assert "vLLM 0.6.2.post1" in report


def test_a_call_with_a_wrong_keyword_is_no_refused_setting() -> None:
    frame = (
        "/opt/site-packages/vllm/entrypoints/api_server.py",
        9,
        "<module>",
        'parser.add_argument("--port", le=9)',
    )
    assert (
        root(raised(frame, error="TypeError: Action.__init__() got an unexpected keyword argument 'le'")).id
        != "settings-refused"
    )


def test_a_debugger_that_torch_compile_traces_is_named() -> None:
    frames = (
        (
            "/opt/site-packages/vllm/compilation/decorators.py",
            238,
            "__call__",
            "self.compiled_callable(*args)",
        ),
        ("_pydevd_sys_monitoring_cython.pyx", 505, "_get_code_line_info", ""),
        ("/opt/site-packages/torch/_dynamo/exc.py", 297, "unimplemented", "raise Unsupported(msg)"),
    )
    found = root(raised(ENGINE, *frames, error="torch._dynamo.exc.Unsupported: generator"))
    assert "debugger" in found.title
    assert found.alternatives[0] == "Start without the debugger."


def test_a_python_stack_that_the_log_has_is_not_asked_for() -> None:
    text = "\n".join([
        "(Worker pid=7) *** SIGSEGV received at time=1722289279 on cpu 1 ***",
        "(Worker pid=7) Fatal Python error: Segmentation fault",
        "(Worker pid=7) Stack (most recent call first):",
        '(Worker pid=7)   File "/opt/site-packages/vllm/distributed/pynccl.py", line 9 in all_reduce',
    ])  # fmt: skip
    found = root(text)
    assert not any(change.knob == "PYTHONFAULTHANDLER" for change in found.changes)
    assert "stack" in found.explanation


def test_an_operation_of_an_extension_that_was_not_imported() -> None:
    frame = ("/opt/site-packages/vllm/_custom_ops.py", 106, "rms_norm", "vllm_ops.rms_norm(out)")
    assert (
        "not loaded" in root(raised(ENGINE, frame, error="NameError: name 'vllm_ops' is not defined")).title
    )


@pytest.mark.parametrize("setting", ["CUDA_LAUNCH_BLOCKING=1 ", ""])
def test_a_variable_that_is_set_is_not_proposed(setting: str) -> None:
    frame = (
        "/opt/site-packages/vllm/_custom_ops.py",
        6,
        "cutlass_scaled_mm",
        "torch.ops._C.cutlass_scaled_mm(out, a)",
    )
    text = raised(ENGINE, frame, error="RuntimeError: Error Internal", above=f"$ {setting}vllm serve org/m")
    assert any("CUDA_LAUNCH_BLOCKING" in way for way in root(text).alternatives) is not bool(setting)


def test_an_error_in_an_unknown_step_of_a_start_is_not_ascribed_to_requests() -> None:
    frame = (
        "/opt/site-packages/xgrammar/tokenizer_info.py",
        107,
        "_is_tiktoken",
        'names["vocab"]',
    )
    text = raised(ENGINE, frame, error="KeyError: 'vocab'")
    found = root(f"INFO 05-01 10:00:01 [api_server.py:1043] vLLM API server version 0.8.1\n{text}")
    assert "during start-up" in found.explanation
    assert not any("request" in way for way in found.alternatives)


def test_an_offline_log_that_ends_before_its_first_result_is_not_healthy() -> None:
    lines = [
        "INFO 05-01 10:00:01 [core.py:54] Initializing a V1 LLM engine (v0.8.3) with config: model='org/m', tensor_parallel_size=1",
        "INFO 05-01 10:01:00 [core.py:162] init engine (profile, create kv cache, warmup model) took 8.69 seconds",
        "Processed prompts:   0%|          | 0/1 [00:00<?, ?it/s, est. speed input: 0.00 toks/s, output: 0.00 toks/s]",
    ]
    assert vllm_logdoctor.analyze(lines).to_markdown().startswith("# CUT OFF: no result in the log")


def test_a_device_other_than_cuda_in_a_forked_process_is_named() -> None:
    error = "RuntimeError: Cannot re-initialize NPU in forked subprocess. To use NPU with multiprocessing, you must use the 'spawn' start method"
    found = root(raised(ENGINE, error=error))
    assert found.explanation.startswith("NPU was already in use")
    assert "CUDA" not in found.title


def test_a_small_step_is_not_proposed_where_more_memory_is_missing() -> None:
    lines = [
        "INFO 03-09 12:54:57 [api_server.py:1043] vLLM API server version 0.11.0",
        "INFO 03-09 12:54:57 [utils.py:238] non-default args: {'model': 'org/m', 'gpu_memory_utilization': 0.3}",
        "INFO 03-09 12:56:44 [gpu_worker.py:424] Available KV cache memory: -8.59 GiB",
        raised(
            ENGINE,
            error="ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.",
        ),
    ]
    assert not any(change.knob == "--gpu-memory-utilization" for change in root("\n".join(lines)).changes)


def test_the_budget_for_an_item_is_at_least_its_tokens() -> None:
    error = "ValueError: The decoder prompt contains a(n) image item with length 6105, which exceeds the pre-allocated encoder cache size 6084."
    found = root(raised(ENGINE, error=error))
    assert [change.after for change in found.changes if change.knob == "--max-num-batched-tokens"] == [6144]


def test_a_time_before_a_process_is_no_part_of_an_error() -> None:
    text = raised(ENGINE, error="OSError: no such model")
    stamped = [f"2026-04-19 12:51:56.342 | (APIServer pid=1) {line}" for line in text.splitlines()]
    report = vllm_logdoctor.analyze(stamped).to_markdown()
    assert report.startswith("# FAILED at start-up: OSError: no such model\n")
    assert report.count("OSError: no such model") == 1  # The title quotes the whole line.


@pytest.mark.parametrize(
    ("error", "rule"),
    [
        ("TypeError: 'NoneType' object is not iterable", "engine-code-bug"),
        ("TypeError: forward() got an unexpected keyword argument 'lengths'", "platform-library-version-mismatch"),
    ],
)  # fmt: skip
def test_only_what_tells_of_another_interface_is_a_plug_in_that_does_not_fit(error: str, rule: str) -> None:
    where = (
        "Traceback (most recent call last):\n"
        '  File "/opt/env/lib/python3.11/site-packages/vllm/v1/engine/core.py", line 80, in _initialize_kv_caches\n'
        "    available = self.model_executor.determine_available_memory()\n"
        '  File "/opt/env/lib/python3.11/site-packages/vllm_ascend/worker/worker.py", line 254, in determine_available_memory\n'
        "    self.model_runner.profile_run()\n"
    )
    assert root(f"{where}{error}\n").id == rule


def test_a_grammar_that_the_check_of_a_request_refuses_did_not_crash_the_engine() -> None:
    refused = root(
        "ERROR 04-03 06:53:16 [backend_xgrammar.py:137] Failed to advance FSM for request 0 for tokens 17. Please file an issue.\n"
        "Processed prompts: 100%|##########| 1/1 [00:01<00:00,  1.2s/it]\n"
        "Traceback (most recent call last):\n"
        '  File "/home/me/ask.py", line 78, in <module>\n'
        "    outputs = llm.generate(prompts, params)\n"
        '  File "/opt/env/lib/python3.11/site-packages/vllm/entrypoints/llm.py", line 457, in generate\n'
        "    self._validate_and_add_requests(\n"
        '  File "/opt/env/lib/python3.11/site-packages/vllm/v1/structured_output/utils.py", line 287, in validate_structured_output_request_xgrammar\n'
        "    raise ValueError(\n"
        "ValueError: Failed to convert the grammar from Lark to EBNF.\n"
    )
    assert refused.title.startswith("Request refused")
    assert "Lark" in refused.evidence[0].text


def test_an_account_that_the_hub_refuses_is_not_asked_for_a_token() -> None:
    refused = root(
        "Traceback (most recent call last):\n"
        '  File "/opt/env/lib/python3.11/site-packages/vllm/transformers_utils/config.py", line 40, in get_config\n'
        "    raise e\n"
        "OSError: You are trying to access a gated repo.\n"
        "403 Client Error. (Request ID: Root=1-0)\n"
        "Your request to access model lab/big-model is awaiting a review from the repo authors.\n"
    )
    assert "account has no access" in refused.explanation
    assert "is awaiting a review" in refused.explanation
    assert "reject" not in refused.explanation
    assert not any("HF_TOKEN" in one for one in (*map(str, refused.changes), *refused.alternatives))


def test_an_extra_that_vllm_asks_for_is_named() -> None:
    missing = root(
        "Traceback (most recent call last):\n"
        '  File "/opt/env/lib/python3.11/site-packages/vllm/utils/import_utils.py", line 324, in __getattr__\n'
        "    raise ImportError(msg) from exc\n"
        "ImportError: Please install vllm[otherloader] for otherloader support\n"
    )
    assert missing.id == "optional-kernel-package-missing"
    assert "otherloader" in str(missing.alternatives)


def test_a_pair_of_features_that_is_currently_not_supported_is_named() -> None:
    refused = root(
        'ERROR 03-03 16:00:46 [engine.py:141]   File "/opt/vllm_ascend/attention.py", line 609, in forward\n'
        "ERROR 03-03 16:00:46 [engine.py:141]     raise RuntimeError(\n"
        "ERROR 03-03 16:00:46 [engine.py:141] RuntimeError: Prefix cache and chunked prefill are currently not supported.\n"
    )
    assert refused.id == "feature-incompatible-with-model"
    assert any("--no-enable-prefix-caching" in one for one in refused.alternatives)


def test_a_card_that_a_profiler_of_rocm_watched_is_tried_without_it() -> None:
    text = (
        "INFO 04-15 01:47:06 [core.py:283] init engine (profile, create kv cache, warmup model) took 10.58 seconds\n"
        "(EngineCore pid=7) ERROR 04-15 01:47:07 [core.py:1110] torch.AcceleratorError: CUDA error: unspecified launch failure\n"
        "(EngineCore pid=7) ERROR 04-15 01:47:07 [core.py:1110] Search for `hipErrorLaunchFailure' in the manual.\n"
    )
    assert not any("without the profiler" in one for one in root(text).alternatives)
    assert "without the profiler" in root(f"Enabling API Tracing\n{text}").alternatives[0]


def test_code_of_neither_vllm_nor_a_package_is_what_is_to_be_corrected() -> None:
    own = root(
        "Traceback (most recent call last):\n"
        '  File "/opt/env/lib/python3.11/site-packages/vllm/v1/engine/core.py", line 133, in __init__\n'
        "    kv_cache_config = self._initialize_kv_caches(vllm_config)\n"
        '  File "/srv/changes/fixed_head.py", line 78, in check\n'
        "    raise ValueError(\n"
        "ValueError: fixed head takes 16 rows, got 32\n"
    )
    assert own.alternatives[0].startswith("Correct the code at /srv/changes/fixed_head.py:78")


def test_what_a_desktop_holds_of_a_small_card_leaves_the_rest_to_vllm() -> None:
    full = root(
        "(EngineCore pid=80) ERROR 04-22 21:15:19 [core.py:1108] ValueError: Free memory on device cuda:0 (3.22/4.0 GiB) on startup is less than"
        " desired GPU memory utilization (0.9, 3.6 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"
    )
    assert [one.after for one in full.changes if one.knob == "--gpu-memory-utilization"] == [0.79]


def test_bytes_of_a_memory_check_are_not_called_gibibytes() -> None:
    check = "AssertionError: Error in memory profiling. Initial free memory {}, current free memory {}. This happens when memory was not cleaned up.\n"
    assert "39909924864" not in root(check.format("39909924864", "47541829632")).explanation
    assert "37.2 GiB before and 44.3 GiB after" in root(check.format("37.2 GiB", "44.3 GiB")).explanation


def test_an_operation_on_memory_of_the_host_says_nothing_of_the_processor() -> None:
    missing = root(
        "AttributeError: '_OpNamespace' '_C' object has no attribute 'get_cuda_view_from_cpu_tensor'\n"
    )
    assert missing.id == "stale-or-partial-build"


def test_a_backend_that_is_not_for_the_format_of_the_weights_is_named() -> None:
    refused = root("ValueError: moe_backend='flashinfer_b12x' is not supported for FP8 MoE.\n")
    assert refused.title == "Kernel backend not usable for this model or card"


def test_a_field_that_a_model_s_code_in_vllm_misses_is_no_matter_of_the_model_s_own_code() -> None:
    missing = root(
        "Traceback (most recent call last):\n"
        '  File "/opt/lib/python3.11/site-packages/vllm/model_executor/models/orca.py", line 923, in get_patch_size\n'
        "    return self.vision_config.merge_size\n"
        '  File "/opt/lib/python3.11/site-packages/transformers/configuration_utils.py", line 210, in __getattribute__\n'
        "    return super().__getattribute__(key)\n"
        "AttributeError: 'OrcaVisionConfig' object has no attribute 'merge_size'\n"
    )
    assert missing.title == "Model configuration lacks a field that vLLM reads"
    assert "`merge_size`" in missing.explanation
    assert not any("--code-revision" in one for one in missing.alternatives)


def test_the_model_itself_is_loaded_before_its_drafter() -> None:
    frame = (
        "/opt/site-packages/vllm/model_executor/models/llama.py",
        479,
        "load_weights",
        "param = params_dict[name]",
    )
    set_up = "INFO 05-01 10:00:01 [core.py:70] Initializing a V1 LLM engine (v0.11.0) with config: model='o/m', speculative_config=SpeculativeConfig(method='eagle', model='o/e', num_spec_tokens=3)"
    found = root(raised(ENGINE, frame, error="KeyError: 'layers.0.mlp.up_proj.qweight'", above=set_up))
    assert found.id == "checkpoint-format-mismatch"
    assert "raft" not in found.title + found.explanation


@pytest.mark.parametrize(
    ("module", "asked_by", "way"),
    [
        ("vllm_ascend.compilation", "/opt/vllm/vllm/compilation/backends.py", "--enforce-eager"),
        ("vllm_gaudi.platform", "/opt/vllm/vllm/platforms/__init__.py", "pip show vllm vllm_gaudi"),
    ],
)
def test_a_module_that_a_plug_in_lacks_is_told_from_a_package_that_is_missing(
    module: str, asked_by: str, way: str
) -> None:
    frame = (asked_by, 9, "load", "importlib.import_module(name)")
    found = root(raised(ENGINE, frame, error=f"ModuleNotFoundError: No module named '{module}'"))
    assert found.title == "Module of a vLLM plug-in missing"
    assert any(way in one for one in found.alternatives)
    package = module.partition(".")[0]
    missing = root(raised(ENGINE, frame, error=f"ModuleNotFoundError: No module named '{package}'"))
    assert missing.title == f"Python package missing: {package}"


def test_a_process_that_sees_no_device_is_asked_what_torch_sees() -> None:
    frame = (
        "/opt/vllm/vllm/config.py",
        484,
        "__init__",
        'raise RuntimeError("No supported device detected.")',
    )
    found = root(raised(ENGINE, frame, error="RuntimeError: No supported device detected."))
    assert found.id == "platform-not-detected"
    assert "torch.cuda.is_available()" in found.alternatives[0]


def test_a_message_that_never_came_names_the_rank_that_had_to_send_it() -> None:
    frames = (
        ("/opt/site-packages/trl/trainer/grpo_trainer.py", 872, "_move_model_to_vllm", "client.update(name)"),
        ("/opt/site-packages/vllm/distributed/utils.py", 216, "barrier", "self.broadcast_obj(None, src=i)"),
        ("/opt/site-packages/vllm/distributed/utils.py", 197, "broadcast_obj", "self.store.get(key)"),
    )
    error = "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /broadcast_from/1/7"
    found = root(raised(*frames, error=error))
    assert "rank 1 of the group" in found.explanation
    assert "nitialization" not in found.title
    assert not found.changes


def test_a_rank_that_its_launcher_saw_killed_is_the_cause() -> None:
    start = "INFO 05-01 10:00:00 [__init__.py:239] Automatically detected platform cuda."
    steps = [f"step {n}: loss 0.5" for n in range(60)]
    api = "torch/distributed/elastic/multiprocessing/api.py"
    ends = [
        f"W0501 10:21:46.435000 39416 {api}:897] Sending process 43 closing signal SIGTERM",
        f"E0501 10:21:47.588000 39416 {api}:869] failed (exitcode: -9) local_rank: 2 (pid: 42) of binary: /usr/bin/python3",
    ]
    frame = (
        "/opt/site-packages/torch/distributed/launcher/api.py",
        269,
        "launch_agent",
        "raise ChildFailedError(",
    )
    error = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "
    run = vllm_logdoctor.analyze([start, *steps, *ends, *raised(frame, error=error).split("\n")]).runs[0]
    assert run.outcome == "killed"
    (cause,) = (one for one in run.findings if one.role == "root")
    assert "local rank 2" in cause.explanation
    assert "dmesg" in cause.alternatives[0]


def test_operators_of_a_plug_in_from_another_build_are_named_as_the_plug_in_s() -> None:
    frame = ("/opt/vllm-ascend/vllm_ascend/ops/norm.py", 27, "forward", "torch.ops._C_ascend.npu_fused(x)")
    error = "RuntimeError: _C_ascend::npu_fused() Expected a value of type 'List[int]' for argument 'lens' but instead found type 'Tensor'."
    found = root(raised(ENGINE, frame, error=error))
    assert found.id == "stale-or-partial-build"
    assert all("vllm-ascend" in way for way in found.alternatives)


def test_a_cuda_function_that_gets_another_device_is_named() -> None:
    frame = ("/opt/site-packages/torch/cuda/_utils.py", 34, "_get_device_index", "raise ValueError(")
    found = root(raised(ENGINE, frame, error="ValueError: Expected a cuda device, but got: xpu:1"))
    assert found.title == "CUDA function called for another device"
    assert "`xpu`" in found.explanation


@pytest.mark.parametrize(("missing", "read_before"), [("/models/m", True), ("/models/drafter", False)])
def test_a_configuration_that_was_read_before_is_not_called_missing(missing: str, read_before: bool) -> None:
    above = "\n".join([
        "INFO 05-01 10:00:00 [utils.py:241] non-default args: {'model': '/models/m', 'api_server_count': 4}",
        "INFO 05-01 10:00:04 [model.py:623] Resolved architecture: OPTForCausalLM",
    ])  # fmt: skip
    frame = ("/opt/site-packages/vllm/transformers_utils/config.py", 249, "parse", "get_config_dict(model)")
    error = f"FileNotFoundError: [Errno 2] No such file or directory: '{missing}/config.json'"
    found = root(raised(frame, error=error, above=above))
    assert found.id == "model-path-not-found"
    assert ("readable before" in found.title) == read_before


@pytest.mark.parametrize(
    ("error", "gated"),
    [
        ("requests.exceptions.HTTPError: 403 Client Error: Forbidden for url: https://huggingface.co/api/models/o/m", False),
        ("huggingface_hub.errors.HfHubHTTPError: 403 Forbidden: None.\nCannot access content at: https://huggingface.co/api/models/o/m.", False),
        ("huggingface_hub.errors.GatedRepoError: 403 Client Error: Forbidden for url: https://huggingface.co/o/m\nAccess to model o/m is restricted.", True),
    ],
)  # fmt: skip
def test_a_refusal_of_the_hub_is_called_gated_where_it_says_so(error: str, gated: bool) -> None:
    frame = (
        "/opt/site-packages/huggingface_hub/utils/_http.py",
        473,
        "hf_raise_for_status",
        "raise _format(e)",
    )
    found = root(raised(ENGINE, frame, error=error))
    assert found.id == "hf-gated-or-unauthorized"
    assert ("license" in " ".join([*found.alternatives, *(one.knob for one in found.changes)])) == gated


def test_a_build_tool_that_is_not_on_the_path_is_the_only_one_to_install() -> None:
    frame = ("/opt/site-packages/flashinfer/jit/cpp_ext.py", 368, "run_ninja", "subprocess.run(")
    found = root(
        raised(ENGINE, frame, error="FileNotFoundError: [Errno 2] No such file or directory: 'ninja'")
    )
    assert "pip install ninja" in found.alternatives[0]
    assert not any("gcc" in way for way in found.alternatives)


def test_a_constructor_of_torch_that_refuses_what_vllm_passes_is_of_another_release() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/opt/lib/python3.11/site-packages/vllm/distributed/utils.py", line 9, in make_group',
        "    group = ProcessGroup(store, rank, size)",
        "TypeError: __init__(): incompatible constructor arguments. The following argument types are supported:",
        "    1. torch._C._distributed_c10d.ProcessGroup(arg0: int, arg1: int)",
        "",
        "Invoked with: <torch.distributed.PrefixStore object at 0xfff>, 1, 2",
    ]
    found = root("\n".join(lines))
    assert found.id == "torch-abi-mismatch"
    assert "newer release" not in " ".join(found.alternatives)


_LOCKED = "AssertionError: Pool must be locked but allocation requires 0.5 MB"
_GROW = ("vllm\\v1\\worker\\workspace.py", 9, "_grow", "raise AssertionError(")


@pytest.mark.parametrize(
    ("above", "refused"), [("", False), ("INFO 05-01 10:00:00 [core.py:9] Starting to load model m...", True)]
)
def test_a_check_without_a_sign_of_a_start_has_stopped_none(above: str, refused: bool) -> None:
    file = "C:\\py\\Lib\\site-packages\\" + _GROW[0]
    found = root(raised((file, *_GROW[1:]), error=_LOCKED, above=above))
    assert (found.id == "settings-refused") is refused
    said = f"{found.title} {found.explanation}"
    assert "workspace.py, _grow" in said
    assert "C:" not in said


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("NotImplementedError", "implementation of your own in verl"),
        ("KeyError: 'x'", "See in reward.py what verl checks"),
    ],
)
def test_code_of_a_framework_that_failed_is_not_said_to_be_too_old(error: str, words: str) -> None:
    above = "INFO 05-01 10:00:00 [core.py:9] Starting to load model m..."
    found = root(
        raised(("/src/verl/verl/utils/reward.py", 37, "compute", "raise x"), error=error, above=above)
    )
    assert words in found.alternatives[0]
    assert not found.alternatives[0].startswith("Use a release")


def test_an_error_that_a_worker_is_quoted_with_asks_for_the_worker_s_own_traceback() -> None:
    frame = (
        "/opt/site-packages/vllm/v1/executor/multiproc_executor.py",
        358,
        "get_response",
        "raise RuntimeError(",
    )
    text = "RuntimeError: Worker failed with error ''OrcaNorm' object has no attribute 'act'', please check the stack trace"
    assert "worker's own traceback" in root(raised(frame, error=text)).alternatives[0]


@pytest.mark.parametrize(("free", "more"), [("18.50 GiB", True), ("500.00 MiB", False)])
def test_memory_that_was_free_is_not_said_to_have_run_out(free: str, more: bool) -> None:
    frame = ("/opt/site-packages/vllm/v1/engine/core.py", 9, "somewhere", "x = y()")
    text = f"torch.OutOfMemoryError: HIP out of memory. Tried to allocate 12.00 GiB. GPU 0 has a total capacity of 127.00 GiB of which {free} is free."
    assert ("which is more" in root(raised(frame, error=text)).explanation) is more


@pytest.mark.parametrize(("tree", "named"), [("/workspace/vllm", False), ("/home/me/vllm", True)])
def test_the_tree_of_vllm_in_an_image_is_not_taken_for_the_user_s(tree: str, named: bool) -> None:
    found = root(
        raised((f"{tree}/vllm/v1/core/scheduler.py", 7, "schedule", "x = y[0]"), error="IndexError: x")
    )
    assert (tree in " ".join(found.alternatives)) is named
