"""Where the log decides between two causes or two remedies, the report gives that one and not both."""

from __future__ import annotations

import pytest

from tests.failure.judging import diagnosis, raised, root
from tests.failure.records import framed, traceback
from tests.failure.two_ranks import START, engine, text
from vllm_logdoctor import analyze

SIGTERM = "(EngineCore_DP0 pid=9) WARNING 05-01 10:00:05 [multiproc_executor.py:441] [shutdown] Executor: workers still running after grace period; sending SIGTERM count=1"
WAITED = "Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause."


def _of_worker(clock: str) -> list[str]:
    lines = [
        "WorkerProc failed to start.",
        *traceback(("load_model", "f.get_tensor(name)"), ends="ValueError: no shape"),
    ]
    return framed("Worker_TP1 pid=91", lines, "multiproc_executor.py:571", clock)


def test_what_a_worker_raises_after_sigterm_of_the_executor_is_no_cause() -> None:
    stopped = root(text(START, [SIGTERM], _of_worker("10:00:05"), engine(WAITED, "10:00:08")))
    assert stopped.id == "cause-not-in-log"
    assert "its error is not in this log" in stopped.title
    assert stopped.alternatives[0].startswith("Find out what ended the first worker")


def test_what_a_worker_raises_before_sigterm_of_the_executor_is_the_cause() -> None:
    found = root(text(START, _of_worker("10:00:00"), [SIGTERM], engine(WAITED, "10:00:08")))
    assert "no shape" in found.evidence[0].text


PARSER = "/opt/vllm/entrypoints/openai/tool_parsers/hermes_tool_parser.py"


def _tool_call(function: str, error: str) -> str:
    lines = [
        "Error in extracting tool call from response.",
        "Traceback (most recent call last):",
        f'  File "{PARSER}", line 87, in {function}',
        "    json.loads(found)",
        f"json.decoder.JSONDecodeError: {error}",
    ]
    found = diagnosis("\n".join(framed("", lines, "hermes_tool_parser.py:108"))).findings[0]
    return " ".join((found.explanation, *found.alternatives))


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ("Expecting value: line 1 column 1 (char 0)", "empty or does not begin with JSON"),
        ("Extra data: line 3 column 1 (char 56)", "a second object"),
    ],
)
def test_the_error_of_the_json_reader_says_what_was_wrong_with_a_tool_call(error: str, says: str) -> None:
    words = _tool_call("extract_tool_calls", error)
    assert says in words
    assert ("second object" in words) == ("Extra data" in error)
    assert "without `tool_calls`" in words


def test_the_answer_to_a_streamed_request_is_not_said_to_be_whole() -> None:
    words = _tool_call("extract_tool_calls_streaming", "Expecting value: line 1 column 1 (char 0)")
    assert "`content`" not in words
    assert "may be missing or incomplete" in words


@pytest.mark.parametrize(
    ("resources", "has_one"), [("'accelerator_type:TPU-V4': 1.0", True), ("'CPU': 8.0", False)]
)
def test_a_node_whose_accelerator_ray_lists_has_one(resources: str, has_one: bool) -> None:
    error = f"ValueError: Current node has no TPU available. current_node_resource={{{resources}}}. vLLM engine cannot start without TPU."
    place = ("/opt/vllm/executor/ray_utils.py", 300, "initialize_ray_cluster", "raise ValueError(")
    found = root(raised(place, error=error))
    assert ("has reserved it" in found.explanation) == has_one
    assert ("the node has none" in found.explanation) != has_one
    assert any("On a node without" in way for way in found.alternatives) != has_one


def test_a_script_that_fails_at_an_import_is_not_said_to_start_a_server() -> None:
    imports = [
        ("/home/me/collect_env.py", 15, "<module>", "from vllm.envs import environment_variables"),
        ("/home/me/vllm/vllm/platforms/cuda.py", 14, "<module>", "import vllm._C"),
    ]
    page = analyze(
        raised(*imports, error="ModuleNotFoundError: No module named 'vllm._C'").encode()
    ).to_markdown()
    assert page.startswith("# FAILED at import: ")


@pytest.mark.parametrize(
    ("code", "step"),
    [
        ("model_output = self.forward(*args)", "torch.compile"),
        ("return self.forward(*args)", "--enforce-eager"),
    ],
)
def test_code_that_torch_compile_made_is_left_out_by_its_own_setting(code: str, step: str) -> None:
    places = [
        ("/opt/vllm/worker/worker.py", 338, "_warm_up_model", "self.model_runner.capture_model(cache)"),
        ("/opt/vllm/worker/model_runner.py", 1560, "capture_model", "runner.capture()"),
        ("/opt/vllm/compilation/decorators.py", 245, "__call__", code),
        ("/opt/vllm/model_executor/models/new.py", 370, "forward", "def forward("),
    ]
    assert step in root(raised(*places, error="KeyError: 'masks'")).alternatives[0].split(":")[0]


def test_settings_of_a_fork_are_asked_of_its_maintainer() -> None:
    start = "(APIServer pid=1) INFO 05-01 10:00:00 [utils.py:200] non-default args: {'model': 'm', 'tiered_cache': True}"
    version = "(EngineCore_DP0 pid=9) INFO 05-01 10:00:01 [core.py:77] Initializing a V1 LLM engine (v0.23.1rc1.dev12+gffae5a399.d20260729) with config: model='m'"
    ends = "ValueError: Tiered cache requires 78 main specs"
    fault = framed("EngineCore_DP0 pid=9", traceback(("get_tiered_specs", "raise ValueError("), ends=ends))
    ways = root("\n".join([start, version, *fault])).alternatives
    assert ways[0].startswith("Ask whoever maintains this build")
    assert not any("drop" in way or "Meet the condition" in way for way in ways)


def test_alternatives_are_marked_as_such() -> None:
    worker = ("/opt/vllm/executor/ray_utils.py", 90, "execute_model_spmd", "return self.worker.run()")
    error = "AttributeError: 'SpecDecodeWorker' object has no attribute '_execute_model_spmd'"
    log = raised(worker, error=error)
    found = root(log)
    assert (found.title, found.confidence) == (
        "Speculative decoding does not work with Ray's SPMD workers",
        "high",
    )
    assert "2. Or start without speculative decoding." in analyze(log.encode()).to_markdown()


@pytest.mark.parametrize(
    ("library", "asks"), [("libvllm_ascend_kernels.so", False), ("libascendcl.so", True)]
)
def test_a_missing_library_of_vllm_ascend_is_not_looked_for_in_cann(library: str, asks: bool) -> None:
    above = (
        f"Failed to import vllm_ascend_C:{library}: cannot open shared object file: No such file or directory"
    )
    place = ("/opt/vllm_ascend/utils.py", 21, "weak_ref", "return torch.ops._C_ascend.weak_ref(x)")
    error = "AttributeError: '_OpNamespace' '_C_ascend' object has no attribute 'weak_ref'"
    found = root(raised(place, error=error, above=above))
    assert library in found.explanation
    assert ("set_env.sh" in " ".join(found.alternatives)) == asks


def test_a_build_for_windows_is_said_to_be_unsupported_without_doubt() -> None:
    copied = r"copying vllm\py.typed -> build\lib.win-amd64-cpython-311\vllm"
    place = (
        r"C:\Temp\pip-build-env-8\overlay\Lib\site-packages\setuptools\build_meta.py",
        345,
        "run",
        "build()",
    )
    found = root(raised(place, error="TypeError: expected string", above=copied))
    assert (found.id, found.confidence) == ("unsupported-os", "high")
    assert "another cause" not in found.explanation


def test_a_fault_of_a_kernel_is_not_tried_twice_without_graphs() -> None:
    place = ("/opt/vllm/v1/worker/gpu_model_runner.py", 1856, "profile_run", "self._dummy_run(n)")
    steps = root(
        raised(place, error="RuntimeError: CUDA error: an illegal memory access was encountered")
    ).alternatives
    assert sum("--enforce-eager" in step for step in steps) == 1


def _built(*lines: str) -> str:
    error = (
        "subprocess.CalledProcessError: Command '['cmake', '--build', '.']' returned non-zero exit status 1."
    )
    place = ("/usr/lib/python3/dist-packages/setuptools/build_ext.py", 9, "run", "check_call(args)")
    return root("\n".join([*lines, raised(place, error=error)])).explanation


def test_a_compiler_that_stopped_names_the_source_that_it_compiled() -> None:
    by_ninja = _built(
        "[9/12] Building CUDA object CMakeFiles/_C.dir/csrc/attention.cu.o",
        "FAILED: CMakeFiles/_C.dir/csrc/attention.cu.o",
        "ptxas terminated (signal: 11)",
    )
    by_note = _built(
        "/usr/include/c++/14/bits/stl_algo.h:3626:7: error: reference to __host__ function 'fail'",
        "/home/me/vllm/build/csrc/quant/int8.hip:35:14: note: called by 'to_int8'",
    )
    assert "stopped at attention.cu;" in by_ninja
    assert "stopped at csrc/quant/int8.hip;" in by_note
    assert "A compiler or build tool stopped" in _built("ptxas terminated (signal: 11)")


@pytest.mark.parametrize(("address", "by_client"), [("ray://10.0.0.1:10001", True), ("10.0.0.1:6379", False)])
def test_an_error_of_rays_workers_behind_ray_client_is_of_the_connection(
    address: str, by_client: bool
) -> None:
    above = f"2023-08-25 22:29:16,736 INFO worker.py:1313 -- Using address {address} set in the environment variable RAY_ADDRESS"
    place = ("/opt/vllm/engine/ray_utils.py", 21, "__getattr__", "return getattr(self.worker, name)")
    found = root(raised(place, error="RecursionError: maximum recursion depth exceeded", above=above))
    assert ("Ray Client" in found.title) == by_client


def test_a_framework_that_lists_no_such_model_is_to_be_replaced() -> None:
    error = "ValueError: Model architectures NewForCausalLM are not supported for now. Supported architectures: dict_keys(['OldForCausalLM'])"
    place = ("/opt/verl/third_party/vllm/loaders.py", 12, "_get_loader", "raise ValueError(")
    assert (
        root(raised(place, error=error))
        .alternatives[0]
        .startswith("Use a release of verl whose loaders.py lists")
    )


@pytest.mark.parametrize(("embeddings", "cut"), [(2074, False), (2075, True), (2550, True)])
def test_an_embedding_more_for_each_row_of_an_image_is_no_item_cut_by_a_step(
    embeddings: int, cut: bool
) -> None:
    error = f"ValueError: Attempted to assign 1 x {embeddings} = {embeddings} multimodal tokens to 2040 placeholders"
    place = ("/opt/vllm/model_executor/models/utils.py", 364, "_merge", "raise ValueError(")
    assert any("chunked prefill" in way for way in root(raised(place, error=error)).alternatives) == cut


@pytest.mark.parametrize(
    ("code", "kind"), [("sub_img = sub_img[:n]", "images"), ("video = video[:n]", "video")]
)
def test_requests_to_leave_out_are_those_that_the_code_is_about(code: str, kind: str) -> None:
    places = [
        ("/opt/vllm/engine/async_llm_engine.py", 40, "run_engine_loop", "await step()"),
        ("/opt/vllm/worker/model_runner.py", 50, "execute_model", "model()"),
        ("/opt/vllm/model_executor/models/phi3v.py", 60, "forward", code),
    ]
    found = root(raised(*places, error="TypeError: only integer tensors can be converted to an index"))
    assert any(f"Send no requests with {kind} meanwhile" in way for way in found.alternatives)


@pytest.mark.parametrize(
    ("place", "code", "error"),
    [
        ("vllm/model_executor/models/tiny.py", "assert self.total_num_kv_heads % tp_size == 0", "AssertionError"),
        ("vllm/v1/structured_output/tiny.py", "assert self.matchers[0].accept_token(token)", "AssertionError"),
        ("vllm/model_executor/models/tiny.py", "config.tiny_size", "AttributeError: 'TinyVisionConfig' object has no attribute 'tiny_size'"),
        ("vllm/model_executor/models/tiny.py", "p.get_audio()", "AttributeError: 'TinyProcessor' object has no attribute 'get_audio'"),
        ("vllm/transformers_utils/config.py", "raise e", "ValueError: The checkpoint you are trying to load has model type `tiny` but Transformers does not recognize this architecture."),
    ],
)  # fmt: skip
def test_what_the_error_or_its_check_states_is_not_called_probable(place: str, code: str, error: str) -> None:
    found = root(raised((f"/opt/site-packages/{place}", 7, "__init__", code), error=error))
    assert found.confidence == "high"


@pytest.mark.parametrize(
    ("line", "outcome"), [(842, "crashed_at_startup"), (844, "crashed_while_serving"), (850, "unknown")]
)
def test_the_place_of_the_logger_announces_a_traceback_whose_head_is_cut(line: int, outcome: str) -> None:
    rest = [
        '  File "/opt/site-packages/vllm/v1/utils.py", line 11, in fill',
        "    self.gpu = torch.zeros_like(self.cpu, device=device)",
        "torch.AcceleratorError: HIP error: invalid device function",
    ]
    seen = diagnosis("\n".join(framed("EngineCore_DP0 pid=9", rest, f"core.py:{line}")))
    assert seen.run.outcome == outcome


def test_a_line_of_another_part_between_does_not_hide_that_a_logger_quotes_the_traceback_below() -> None:
    error = "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU"
    lines = [
        "(APIServer pid=1) INFO:     Application startup complete.",
        'INFO:     127.0.0.1:5 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error',
        *framed(
            "",
            [
                f"RuntimeError('{error}')",
                "Traceback (most recent call last):",
                '  File "/opt/site-packages/vllm/engine/multiprocessing/engine.py", line 158, in start',
                "    self.run_engine_loop()",
                '  File "/opt/site-packages/vllm/spec_decode/metrics.py", line 132, in _copy_metrics',
                "    self._stream.wait_stream(torch.cuda.current_stream())",
                f"RuntimeError: {error}",
            ],
            "engine.py:160",
        ),
    ]
    found = root("\n".join(lines))
    assert found.title == "Speculative decoding called CUDA on a machine without it"
    assert found.confidence == "high"


@pytest.mark.parametrize(
    ("others", "confidence"), [("", "high"), ("Process 77 has 0.31 GiB memory in use. ", "medium")]
)
def test_weights_that_fill_a_card_by_themselves_are_the_cause(others: str, confidence: str) -> None:
    error = f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.10 GiB. GPU 0 has a total capacity of 15.00 GiB of which 201.00 MiB is free. {others}"
    lines = [
        *framed("EngineCore pid=9", ["EngineCore failed to start.", *traceback(("profile_run", "self._dummy_run()"), ends=error)], "core.py:842"),
    ]  # fmt: skip
    loaded = "(EngineCore pid=9) INFO 05-01 09:59:50 [gpu_model_runner.py:3259] Model loading took 14.2 GiB memory and 9.5 seconds"
    found = root("\n".join([loaded, *lines]))
    assert (found.title, found.confidence) == (
        "Out of memory after loading: the weights fill the card",
        confidence,
    )


def test_a_profiling_run_with_an_image_for_each_sequence_takes_fewer_sequences() -> None:
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.10 GiB. GPU 0 has a total capacity of 30.00 GiB of which 2.20 GiB is free."
    image = ("/opt/site-packages/vllm/model_executor/models/mllama.py", 70, "forward", "self.vision_model(x)")
    first = [
        root(
            raised(
                (f"/opt/site-packages/vllm/worker/{runner}.py", 50, "profile_run", "self.execute_model(x)"),
                image,
                error=error,
            )
        ).alternatives[0]
        for runner in ("enc_dec_model_runner", "model_runner")
    ]
    assert first[0].startswith("Lower `--max-num-seqs`")
    assert "`--limit-mm-per-prompt`" in first[1]


@pytest.mark.parametrize(("version", "logs"), [("0.6.4", False), ("0.8.1", True)])
def test_a_log_level_is_named_where_the_release_logs_more_at_it(version: str, logs: bool) -> None:
    start = f"INFO 05-01 10:00:01 [api_server.py:1043] vLLM API server version {version}"
    place = ("/opt/site-packages/vllm/config.py", 50, "__init__", "raise RuntimeError(")
    found = root(raised(place, error="RuntimeError: Failed to infer device type", above=start))
    assert any("VLLM_LOGGING_LEVEL=DEBUG" in one for one in found.alternatives) is logs


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ("kv_cache_dtype not supported, no sinks", "the reason `kv_cache_dtype not supported`. The draft model has `kv_cache_dtype=fp8_ds_mla`"),
        ("head_size not supported", "refused for a reason: {FLASH_ATTN: [kv_cache_dtype not supported], FLEX_ATTENTION: [head_size not supported]}."),
    ],
    ids=("one for all", "one each"),
)  # fmt: skip
def test_the_reason_that_all_attention_backends_share_is_named_with_the_setting(
    second: str, says: str
) -> None:
    start = "(EngineCore pid=9) INFO 05-01 10:00:00 [core.py:105] Initializing a V1 LLM engine (v0.23.0) with config: model='m', kv_cache_dtype=fp8_ds_mla"
    reasons = f"{{FLASH_ATTN: [kv_cache_dtype not supported], FLEX_ATTENTION: [{second}]}}"
    error = raised(
        ("/opt/vllm/v1/spec_decode/eagle.py", 15, "load_draft_model", "return get_model(config)"),
        ("/opt/vllm/platforms/cuda.py", 446, "get_attn_backend_cls", "raise ValueError(text)"),
        error=f"ValueError: No valid attention backend found for cuda with AttentionSelectorConfig(head_size=80). Reasons: {reasons}.",
    )
    found = root(f"{start}\n{error}")
    assert found.title == "Attention backend not supported for the draft model"
    assert says in found.explanation
