"""Statements on failures that reports on real logs got wrong, each on a small log of its own."""

from __future__ import annotations

import vllm_logdoctor

LOADING = [
    "INFO 12-08 05:00:54 llm_engine.py:73] Initializing an LLM engine with config: model='org/model', dtype=torch.float16, max_seq_len=2048)",
    "Special tokens have been added in the vocabulary.",
    "Traceback (most recent call last):",
    '  File "/opt/vllm/worker/model_runner.py", line 36, in load_model',
    "    self.model = get_model(self.model_config)",
    '  File "/opt/vllm/model_executor/models/codegen.py", line 282, in load_weights',
    "    param = params_dict[name]",
    "KeyError: 'transformer.h.0.attn.causal_mask'",
]
BOXED = [
    "│ /opt/lib/python3.11/site-packages/vllm/engine/llm_engine.py:305 in step         │",
    "│                                                                                 │",
    "│   304 │   │   # the step of a batch                                             │",
    "│ ❱ 305 │   │   output = self._run_workers(                                       │",
    "│                                                                                 │",
    "│ /opt/lib/python3.11/site-packages/vllm/model_executor/layers/attention.py:399   │",
    "│ in multi_query_kv_attention                                                     │",
    "│                                                                                 │",
    "│   398 │   │   │   end = start + prompt_len                                      │",
    "│ ❱ 399 │   │   │   out = xops.memory_efficient_attention_forward(                │",
    "╰─────────────────────────────────────────────────────────────────────────────────╯",
    "RuntimeError: attn_bias is not correctly aligned",
]
PROFILING = [
    "INFO 05-01 10:00:01 [api_server.py:1043] vLLM API server version 0.11.0",
    "(EngineCore_DP0 pid=9) INFO 05-01 10:00:10 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: model='org/model'",
    "(EngineCore_DP0 pid=9) INFO 05-01 10:00:40 [gpu_model_runner.py:2653] Model loading took 21.5 GiB and 20.1 seconds",
    "(EngineCore_DP0 pid=9) ERROR 05-01 10:00:45 [core.py:708] EngineCore failed to start.",
    "(EngineCore_DP0 pid=9) ERROR 05-01 10:00:45 [core.py:708] Traceback (most recent call last):",
    '(EngineCore_DP0 pid=9) ERROR 05-01 10:00:45 [core.py:708]   File "/opt/vllm/v1/worker/gpu_worker.py", line 263, in determine_available_memory',
    "(EngineCore_DP0 pid=9) ERROR 05-01 10:00:45 [core.py:708]     self.model_runner.profile_run()",
    "(EngineCore_DP0 pid=9) ERROR 05-01 10:00:45 [core.py:708] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB."
    " GPU 0 has a total capacity of 23.64 GiB of which 201.50 MiB is free. Process 77 has 23.44 GiB memory in use.",
]


def report(lines: list[str]) -> str:
    return vllm_logdoctor.analyze(lines).to_markdown()


def test_a_line_that_happens_to_precede_a_traceback_proves_nothing() -> None:
    text = report(LOADING)
    assert "Special tokens" not in text
    announced = [*LOADING[:1], "ERROR 12-08 05:00:58 engine.py:387] Loading failed", *LOADING[2:]]
    assert "Loading failed" in report(announced)


def test_a_line_of_a_box_without_a_place_proves_nothing() -> None:
    """A frame that the box wraps leaves its function alone on a line."""
    assert "No known cause matches this error [L12, L1]." in report(BOXED)
    wrapped = [line.replace(".py:305 in step         ", ".py:305 in              ") for line in BOXED]
    wrapped.insert(1, "│ step                                                                            │")
    assert "│ step" not in report(wrapped)


def test_memory_that_runs_out_while_profiling_is_not_said_to_run_out_while_loading() -> None:
    text = report(PROFILING)
    assert "Out of memory while loading weights" not in text
    assert (
        "# FAILED at start-up, probable cause: Out of memory after loading: the weights fill the card" in text
    )


def test_an_attribute_of_a_processor_may_be_missing_in_the_model_s_own_code() -> None:
    lines = [
        *LOADING[:1],
        "Traceback (most recent call last):",
        '  File "/opt/vllm/model_executor/models/minicpmo.py", line 231, in get_audio_prompt_texts',
        "    return self.info.get_hf_processor().get_audio_placeholder(",
        "AttributeError: 'ModelProcessor' object has no attribute 'get_audio_placeholder'",
    ]
    text = report(lines)
    assert "Processor or tokenizer incompatible with vLLM" in text
    assert "does not exist in the installed transformers" not in text


def test_advice_names_no_peer_where_the_error_names_none() -> None:
    lines = [
        "(VllmWorkerProcess pid=7) ERROR 08-22 13:50:25 [worker_base.py:148] Error executing method start_worker_execution_loop.",
        "(VllmWorkerProcess pid=7) ERROR 08-22 13:50:25 [worker_base.py:148] Traceback (most recent call last):",
        '(VllmWorkerProcess pid=7) ERROR 08-22 13:50:25 [worker_base.py:148]   File "/opt/torch/distributed/distributed_c10d.py", line 2144, in broadcast',
        "(VllmWorkerProcess pid=7) ERROR 08-22 13:50:25 [worker_base.py:148]     work.wait()",
        "(VllmWorkerProcess pid=7) ERROR 08-22 13:50:25 [worker_base.py:148] RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer",
    ]
    assert "the peer that is named" not in report(lines)


def test_a_phase_that_began_before_a_cut_log_is_not_placed_before_its_first_line() -> None:
    lines = [
        "(VllmWorker rank=0 pid=9) INFO 05-19 22:24:25 [monitor.py:33] torch.compile takes 10.50 s in total",
        *[line.replace("05-01 10:00:45", "05-19 22:24:29") for line in PROFILING[3:]],
    ]
    text = report(lines)
    assert "| 22:24:14 |" not in text
    assert "22:24:15 |" not in text


def test_the_sources_that_pytest_lists_are_no_text_of_an_error() -> None:
    """The reason of a skipped test is no error."""
    lines = [
        "_______________________ test_load _______________________",
        ">           assert code == 0",
        "E           AssertionError: function test_load failed when called with args ()",
        "",
        "utils.py:747: AssertionError",
        "_______________________ test_offload _______________________",
        '    @pytest.mark.skipif(not is_quant_method_supported("gptq_marlin"),',
        '                        reason="gptq_marlin is not supported on this GPU type.")',
        "    def test_offload(monkeypatch):",
        "E                   RuntimeError: Server exited unexpectedly.",
        "utils.py:161: RuntimeError",
        "FAILED quantization/test_offload.py::test_load - AssertionError: function test_load failed in vllm",
        "FAILED quantization/test_offload.py::test_offload - RuntimeError: Server exited unexpectedly.",
    ]
    assert "does not support this GPU architecture" not in report(lines)


def test_a_header_that_a_build_does_not_find_is_no_missing_compiler() -> None:
    lines = [
        "pip install . --no-build-isolation",
        "Processing /home/user/vllm",
        "  Building wheel for vllm (pyproject.toml): started",
        "  /opt/torch/include/ATen/cuda/CUDAContextLight.h:7:10: fatal error: cusparse.h: No such file or directory",
        "  error: subprocess-exited-with-error",
        "ERROR: Failed to build installable wheels for some pyproject.toml based projects (vllm)",
    ]
    text = report(lines)
    assert "# BUILD FAILED: Header file not found in a build of kernels" in text
    assert "VLLM_USE_FLASHINFER_SAMPLER" not in text


def test_a_start_that_is_cut_off_names_the_last_phase_that_completed_or_the_one_that_began() -> None:
    lines = [
        "INFO 02-24 13:59:23 api_server.py:912] vLLM API server version 0.7.3",
        "INFO 02-24 13:59:34 llm_engine.py:234] Initializing a V0 LLM engine (v0.7.3) with config: model='org/model', dtype=torch.bfloat16",
        "INFO 02-24 13:59:35 model_runner.py:1110] Starting to load model org/model...",
    ]
    loaded = "INFO 02-24 14:01:32 model_runner.py:1115] Loading model weights took 13.9231 GB"
    waiting = "DEBUG 02-24 14:01:32 client.py:192] Waiting for output from MQLLMEngine."
    assert "the last phase that completed: weight loading [L4]" in report([*lines, loaded])
    assert "the last phase that began: weight loading [L3]" in report([*lines, waiting])


def test_a_loading_that_one_of_two_ranks_completed_is_not_called_complete() -> None:
    lines = [
        "INFO 02-24 13:59:23 api_server.py:912] vLLM API server version 0.7.3",
        "INFO 02-24 13:59:34 llm_engine.py:234] Initializing a V0 LLM engine (v0.7.3) with config: model='org/model', dtype=torch.bfloat16",
        "INFO 02-24 13:59:35 model_runner.py:1110] Starting to load model org/model...",
        "(VllmWorkerProcess pid=71) INFO 02-24 13:59:35 model_runner.py:1110] Starting to load model org/model...",
        "(VllmWorkerProcess pid=71) INFO 02-24 14:01:32 model_runner.py:1115] Loading model weights took 6.9231 GB",
    ]
    assert "the last phase that began: weight loading" in report(lines)


def test_an_exception_group_of_the_error_that_ended_the_run_is_no_request_that_it_survived() -> None:
    lines = [
        'INFO:     127.0.0.1:60772 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error',
        "ERROR:    Exception in ASGI application",
        "  + Exception Group Traceback (most recent call last):",
        '  |   File "/opt/starlette/_utils.py", line 87, in collapse_excgroups',
        "  |     yield",
        "  | exceptiongroup.ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)",
        "  +-+---------------- 1 ----------------",
        "    | Traceback (most recent call last):",
        '    |   File "/opt/vllm/worker/neuron_worker.py", line 87, in execute_model',
        "    |     output = self.model_runner.execute_model(seq_group_metadata_list)",
        '    |   File "/opt/vllm/worker/neuron_model_runner.py", line 72, in _prepare_prompt',
        "    |     assert len(block_table) == 1",
        "    | AssertionError",
        "    +------------------------------------",
    ]
    text = report(lines)
    assert "FAILED while serving" not in text or "Error while processing a request" not in text


def test_the_marked_line_of_a_notebook_proves_where_an_error_was_raised() -> None:
    lines = [
        "AssertionError                            Traceback (most recent call last)",
        "Cell In[16], line 11",
        '     10 prompts = ["Hello"]',
        '---> 11 llm = LLM(model="org/model")',
        "",
        "File /opt/lib/python3.10/site-packages/vllm/distributed/parallel_state.py:116, in initialize_model_parallel(size)",
        "    114 global _DATA_PARALLEL_GROUP",
        "    115 # one group for each rank",
        '--> 116 assert _DATA_PARALLEL_GROUP is None, "data parallel group is already initialized"',
        "",
        "AssertionError: data parallel group is already initialized",
    ]
    proof = report(lines).split("## What broke")[1]
    assert "global _DATA_PARALLEL_GROUP" not in proof


def test_a_line_of_the_normal_course_announces_no_error() -> None:
    normal = "2023-08-25 10:00:00,737 INFO client.py:23 -- Passing on the arguments of the client: ignore_reinit_error"
    assert "ignore_reinit_error" not in report([*LOADING[:1], normal, *LOADING[2:]])


def test_what_passes_a_call_on_is_not_quoted_as_what_broke() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/model_executor/layers/quantization/moe_wna16.py", line 20, in create_weights',
        "    w2_qweight = torch.nn.Parameter(torch.empty(",
        '  File "/opt/lib/python3.11/site-packages/torch/utils/_device.py", line 104, in __torch_function__',
        "    return func(*args, **kwargs)",
        PROFILING[-1].partition("] ")[2],
    ]
    text = report(lines)
    proof = text.split("## What broke")[1]
    assert "return func(" not in proof
    assert "w2_qweight" in proof
    assert "quantized checkpoint" not in text, "it is quantized"
    assert "quantized checkpoint" in report(
        [lines[0], lines[1].replace("moe_wna16", "utils/layer"), *lines[2:]]
    )


def test_a_copy_of_the_root_and_a_torn_traceback_are_no_errors_that_followed() -> None:
    at = "[2025-03-05 10:00:{:02d},820] [ERROR] [MainThread] [vllm.worker.worker_base] >>> "
    failed = [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/v1/worker/gpu_worker.py", line 102, in init_device',
        "    torch.cuda.set_device(self.device)",
        "RuntimeError: CUDA error: invalid device ordinal",
    ]
    text = report([at.format(second) + line for second in (5, 6, 7, 30) for line in failed])
    assert "invalid device ordinal" in text
    assert "Follow-up errors" not in text


def test_a_kernel_of_vllm_itself_is_not_asked_for_its_origin() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/attention/ops/triton_attention.py", line 29, in attention',
        "    kernel_attention[(",
        '  File "/opt/lib/python3.12/site-packages/triton/runtime/jit.py", line 330, in <lambda>',
        "    return lambda *args, **kwargs: self.run(grid=grid, warmup=False, *args, **kwargs)",
        "triton.compiler.errors.CompilationError: at 67:13:",
    ]
    assert "generates the kernel" not in report(lines)
    generated = [line.replace("/opt/vllm/attention/ops/", "/tmp/torchinductor_me/") for line in lines]
    assert "generates the kernel" in report(generated)


def test_a_vocabulary_of_openai_harmony_is_no_tokenizer_of_the_model() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/entrypoints/harmony_utils.py", line 37, in get_encoding',
        "    _harmony_encoding = load_harmony_encoding(",
        "openai_harmony.HarmonyError: error downloading or loading vocab file: failed to download or load vocab file",
    ]
    text = report(lines)
    assert "--tokenizer" not in text
    assert "Download the repository" not in text
    assert "1. Download `o200k_base.tiktoken`" in text


def test_a_call_without_end_that_a_library_passes_back_is_a_fault_of_vllm() -> None:
    wrapper = [
        '  File "/opt/lib/python3.10/site-packages/vllm/engine/ray_utils.py", line 21, in __getattr__',
        "    return getattr(self.worker, name)",
    ]
    library = [
        '  File "/opt/lib/python3.10/site-packages/ray/util/tracing/tracing_helper.py", line 464, in _resume_span',
        "    return method(self, *_args, **_kwargs)",
    ]
    last = [
        '  File "/opt/lib/python3.10/site-packages/ray/util/tracing/tracing_helper.py", line 463, in _resume_span',
        "    if not _is_tracing_enabled():",
    ]
    text = vllm_logdoctor.analyze(
        [LOADING[0], LOADING[2], *wrapper, *library, *wrapper, *last, "RecursionError: maximum recursion depth exceeded"]
    ).to_markdown()  # fmt: skip
    assert "RecursionError in ray_utils.py" in text.split("\n")[0]
    assert "another model" not in text


def test_a_backend_that_the_draft_model_lacks_is_no_matter_of_the_model() -> None:
    head = "(Worker_TP0 pid=9) ERROR 05-01 10:02:00 [multiproc_executor.py:901] "
    lines = [
        "WorkerProc failed to start.", "Traceback (most recent call last):",
        '  File "/opt/vllm/v1/worker/gpu/spec_decode/speculator.py", line 156, in load_model',
        "    self.model = self.load_draft_model(target_model)",
        '  File "/opt/vllm/platforms/cuda.py", line 446, in get_attn_backend_cls', "    raise ValueError(",
        "ValueError: No valid attention backend found for cuda with AttentionSelectorConfig(head_size=80, kv_cache_dtype=fp8_ds_mla)",
    ]  # fmt: skip
    text = vllm_logdoctor.analyze([*PROFILING[:2], *(head + line for line in lines)]).to_markdown()
    assert "Attention backend not supported for the draft model" in text
    assert "1. Start without `--speculative-config`" in text


def test_a_cut_traceback_is_shown_with_what_a_library_warned_of_above() -> None:
    warning = "[1760000000.123456] [node1:42   :0]     ucp_context.c:1300 UCX  WARN  transports 'cuda_ipc','cuda_copy' are not available, please use one or more of: tcp"
    head = "ERROR 05-01 10:00:57 [core.py:396] "
    lines = ["EngineCore failed to start.", "Traceback (most recent call last):", '  File "/opt/vllm/v1/engine/core.py", line 64, in __init__', "    self.model_executor = executor_class(vllm_config)"]  # fmt: skip
    text = vllm_logdoctor.analyze([warning, *(head + line for line in lines)]).to_markdown()
    assert "# FAILED at start-up: EngineCore failed to start, its traceback is cut off" in text
    assert "can't transfer GPU memory" in text


def test_an_error_in_a_library_that_vllm_calls_asks_for_its_release_not_for_other_sizes() -> None:
    head = "ERROR 05-01 10:00:57 [core.py:324] "
    lines = [
        "EngineCore hit an exception: Traceback (most recent call last):",
        '  File "/opt/lib/python3.12/site-packages/vllm/v1/engine/core.py", line 65, in __init__',
        "    self.table = oracle.Table.of(",
        '  File "/opt/lib/python3.12/site-packages/oracle/table.py", line 107, in of',
        "    return cls(rows, width=1)",
        "TypeError: __init__() got an unexpected keyword argument 'width'",
    ]
    text = vllm_logdoctor.analyze([head + line for line in lines]).to_markdown()
    assert "Compare the installed release of oracle" in text
    assert "another model" not in text


def test_an_engine_without_a_server_crashes_while_it_processes_prompts() -> None:
    lines = [
        "Traceback (most recent call last):", '  File "/home/me/score.py", line 9, in <module>', "    llm.generate(prompts)",
        '  File "/opt/lib/python3.10/site-packages/vllm/entrypoints/llm.py", line 560, in generate', "    outputs = self._run_engine()",
        '  File "/opt/lib/python3.10/site-packages/vllm/worker/model_runner.py", line 1600, in execute_model', "    hidden = self.model(",
        "IndexError: list index out of range",
    ]  # fmt: skip
    text = vllm_logdoctor.analyze([LOADING[0], *lines]).to_markdown()
    assert text.startswith("# FAILED after start-up")
    assert "serving" not in text


def test_the_end_of_what_pip_shows_of_a_failed_step_is_of_a_build() -> None:
    lines = ["      RuntimeError:", "      The detected CUDA version (12.4) mismatches the version that was used to compile", "      PyTorch (11.8). Please make sure to use the same CUDA versions.", "      ", "      [end of output]"]  # fmt: skip
    text = vllm_logdoctor.analyze(lines).to_markdown()
    assert text.startswith("# BUILD FAILED: CUDA version mismatch")
    assert "Missing from this log" not in text


def test_of_a_program_that_answered_its_prompts_nothing_is_claimed_of_a_shutdown() -> None:
    bar = "Processed prompts: 100%|██████████| 4/4 [00:00<00:00, 55.18it/s, est. speed input: 0.00 toks/s, output: 0.00 toks/s]"
    text = vllm_logdoctor.analyze([bar, "0-th embeddings: torch.Size([7, 2560])"]).to_markdown()
    assert "offline · prompts completed" in text
    assert "shutdown" not in text


WRAPPED = [
    "INFO 05-01 10:00:10 [core.py:77] Initializing a V1 LLM engine (v0.8.2) with config: model='org/model'",
    "ERROR 05-01 10:00:45 [core.py:343] EngineCore hit an exception: Traceback (most recent call last):",
    'ERROR 05-01 10:00:45 [core.py:343]   File "/opt/vllm/v1/engine/core.py", line 335, in run_engine_core',
    "ERROR 05-01 10:00:45 [core.py:343]     engine_core = EngineCoreProc(*args, **kwargs)",
    'ERROR 05-01 10:00:45 [core.py:343]   File "/opt/vllm/model_executor/models/wide.py", line 90, in embed',
    "ERROR 05-01 10:00:45 [core.py:343]     part = part[:count]",
    'ERROR 05-01 10:00:45 [core.py:343]   File "/opt/vllm/utils/__init__.py", line 20, in inner',
    "ERROR 05-01 10:00:45 [core.py:343]     return fn(*args, **kwargs)",
    "ERROR 05-01 10:00:45 [core.py:343] TypeError: only integer tensors of a single element can be converted to an index",
    "ERROR 05-01 10:00:45 [core.py:343]",
    "ERROR 05-01 10:00:45 [core.py:343] The above exception was the direct cause of the following exception:",
    "ERROR 05-01 10:00:45 [core.py:343]",
    "ERROR 05-01 10:00:45 [core.py:343] ray.exceptions.RayTaskError(TypeError): ray::Worker.execute() (pid=16, ip=10.0.0.8)",
]


def test_the_lines_that_show_a_failure_are_no_wrappers() -> None:
    """Of this log the code of the model adds something to the error; who announces it, passes it on or repeats it does not."""
    shown = report(WRAPPED).split("```\n")[1]
    assert shown.strip() == "L6: part = part[:count]"


def test_lines_without_indentation_show_the_code_of_a_frame() -> None:
    """A mail or a ticket strips it."""
    lines = [line.replace("]     ", "] ").replace("]   File", "] File") for line in WRAPPED]
    assert "L6: part = part[:count]" in report(lines)


def test_a_check_that_refuses_is_quoted_once() -> None:
    lines = [
        *WRAPPED[:4],
        'ERROR 05-01 10:00:45 [core.py:343]   File "/opt/vllm/model_executor/models/wide.py", line 90, in embed',
        "ERROR 05-01 10:00:45 [core.py:343]     raise ValueError(msg)",
        "ERROR 05-01 10:00:45 [core.py:343] ValueError: the width of the model is odd",
    ]
    assert "## What broke" not in report(lines)
    assert "RuntimeError: worker failed" not in report(
        [*lines, "RuntimeError: worker failed: the width of the model is odd"]
    )


def test_the_frame_by_which_a_rule_knows_a_failure_proves_it() -> None:
    lines = [
        "ValueError                                Traceback (most recent call last)",
        "Cell In[5], line 6",
        "---> 6 llm = LLM(model=MODEL, speculative_model=DRAFT)",
        "",
        "File ~/env/lib/python3.12/site-packages/vllm/spec_decode/spec_decode_worker.py:324, in SpecDecodeWorker.init_device(self)",
        "    [323](vscode-resource://x/spec_decode_worker.py:323) self.scorer_worker.load_model()",
        "--> [324](vscode-resource://x/spec_decode_worker.py:324) self.proposer_worker.load_model()",
        "",
        "File ~/env/lib/python3.12/site-packages/vllm/model_executor/models/utils.py:226, in AutoWeightsLoader._load_module(self)",
        "--> [226](vscode-resource://x/utils.py:226) raise ValueError(msg)",
        "",
        "ValueError: There is no module or parameter named 'lm_head.qweight_type' in Qwen2ForCausalLM",
    ]
    text = report(lines)
    assert "L7: self.proposer_worker.load_model()" in text
    assert "has no counterpart in the model class that it is loaded into [L12, L5, L7]" in text


SERVED = [
    "INFO 05-01 10:00:01 [api_server.py:1043] vLLM API server version 0.6.2",
    "ERROR 05-01 10:41:12 async_llm_engine.py:61] Engine background task failed",
    "ERROR 05-01 10:41:12 async_llm_engine.py:61] Traceback (most recent call last):",
    'ERROR 05-01 10:41:12 async_llm_engine.py:61]   File "/opt/vllm/engine/async_llm_engine.py", line 638, in run_engine_loop',
    "ERROR 05-01 10:41:12 async_llm_engine.py:61]     result = task.result()",
    'ERROR 05-01 10:41:12 async_llm_engine.py:61]   File "/opt/vllm/model_executor/models/wide_vl.py", line 153, in forward',
    "ERROR 05-01 10:41:12 async_llm_engine.py:61]     vision = self.vision_embed_tokens(pixels)",
    'ERROR 05-01 10:41:12 async_llm_engine.py:61]   File "/opt/vllm/attention/backends/sparse.py", line 40, in forward',
    "ERROR 05-01 10:41:12 async_llm_engine.py:61]     part = part[:count]",
    "ERROR 05-01 10:41:12 async_llm_engine.py:61] TypeError: only integer tensors of a single element can be converted to an index",
]


def test_an_exception_of_vllm_is_named_by_its_place_and_the_model() -> None:
    """The class of an exception is no cause."""
    first = report(SERVED).split("\n")[0]
    assert first.endswith(": TypeError in sparse.py, forward (model wide_vl)")
    assert "cause" not in first


def test_the_steps_after_an_exception_of_the_engine_follow_from_its_frames() -> None:
    text = report(SERVED)
    assert "1. Restart the server: its engine has stopped, and every later request fails." in text
    assert "Send no requests with images or video" in text
    assert "LoRA" not in text
    assert "fork" not in text
    assert "--max-model-len" not in report(
        [line.replace("run_engine_loop", "profile_run") for line in SERVED]
    )


def test_of_a_failure_only_what_its_steps_need_is_missing() -> None:
    text = report(SERVED[2:])
    assert "vLLM release: run `pip show vllm`" in text
    assert "Configuration: keep" not in text
    assert "KV cache size" not in text
    assert "GPU model" not in text


def test_a_ray_serve_replica_reserves_its_cards_itself() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/opt/lib/python3.11/site-packages/ray/serve/_private/replica.py", line 671, in initialize',
        "    self.app = await self.load()",
        '  File "/opt/lib/python3.11/site-packages/vllm/executor/uniproc_executor.py", line 30, in _init_executor',
        '    self.collective_rpc("init_device")',
        '  File "/opt/lib/python3.11/site-packages/torch/cuda/__init__.py", line 319, in _lazy_init',
        "    torch._C._cuda_init()",
        "RuntimeError: No CUDA GPUs are available",
    ]
    text = report(lines)
    assert "ray_actor_options=dict(num_gpus=1)" in text
    assert "placement group" not in text


def test_an_illegal_memory_access_without_a_sign_of_flashinfer_does_not_name_its_sampler() -> None:
    lines = [
        *SERVED[:3],
        *SERVED[7:9],
        SERVED[9].partition("] ")[0] + "] RuntimeError: CUDA error: an illegal memory access was encountered",
    ]
    text = report(lines)
    assert "`CUDA_LAUNCH_BLOCKING=1` and `--enforce-eager`" in text
    assert "FLASHINFER_SAMPLER" not in text
    assert "What broke" not in text
    sampled = "INFO 05-01 10:00:00 topk_topp_sampler.py:38] Using FlashInfer for top-p & top-k sampling."
    assert "`VLLM_USE_FLASHINFER_SAMPLER=0`" in report(
        [lines[0].replace("0.6.2", "0.9.1"), sampled, *lines[1:]]
    )


def test_the_beginning_of_a_statement_proves_nothing_and_an_assertion_does() -> None:
    def of(code: str) -> str:
        lines = [
            "Traceback (most recent call last):",
            '  File "/opt/site-packages/vllm/model_executor/layers/linear.py", line 90, in weight_loader',
            f"    {code}",
            "RuntimeError: start (0) + length (1792) exceeds dimension size (896).",
        ]
        return vllm_logdoctor.analyze(lines).to_markdown()

    for code in ("weight = weight.narrow(", "self.narrow(", "import torch"):
        assert code not in of(code)
    assert "assert size % parts == 0" in of("assert size % parts == 0")
