"""What a few lines tell: errors without a traceback, output of installers and tests, lines of libraries."""

from __future__ import annotations

import json

from tests.failure.judging import diagnosis, root
from vllm_logdoctor import analyze

HEAD = "(EngineCore_DP0 pid=9) "


def test_a_list_of_what_may_have_ended_a_process_is_no_evidence_of_it() -> None:
    found = diagnosis(
        'Traceback (most recent call last):\n  File "/opt/trainer/server.py", line 5, in sleep\n    await gather(tasks)\n'
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
        "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: end of file."
        " Some common causes include: (1) the process was killed by the OOM killer due to high memory usage, (2) it crashed.\n"
    )
    assert [one.id for one in found.findings if one.role == "root"] == ["peer-rank-died"]
    assert found.run.outcome != "killed"


def test_a_process_that_is_gone_without_a_word_was_not_surely_killed() -> None:
    gone = root(
        "(APIServer pid=1) INFO:     Application startup complete.\n"
        f"{HEAD}ERROR 05-13 10:46:43 [multiproc_executor.py:283] Worker proc VllmWorker-0 died unexpectedly, shutting down executor.\n"
    )
    assert "killed" not in gone.title.lower()
    assert "native code" in gone.explanation


def test_the_message_above_a_traceback_that_is_cut_off_is_the_error() -> None:
    cut = root(
        "ERROR 05-26 00:17:47 [engine.py:448] 'ParallelLinear' object has no attribute 'scale'\n"
        "ERROR 05-26 00:17:47 [engine.py:448] Traceback (most recent call last):\n"
        'ERROR 05-26 00:17:47 [engine.py:448]   File "/opt/vllm/engine/multiprocessing/engine.py", line 436, in run_mp_engine\n'
        "ERROR 05-26 00:17:47 [engine.py:448]     engine = MQLLMEngine.from_vllm_config(\n"
    )
    assert "'ParallelLinear' object has no attribute 'scale'" in cut.explanation
    assert cut.confidence == "low"


def test_an_announcement_that_names_no_error_is_none() -> None:
    cut = root(
        "ERROR 05-26 00:17:47 [core.py:448] EngineCore failed to start.\n"
        "ERROR 05-26 00:17:47 [core.py:448] Traceback (most recent call last):\n"
        'ERROR 05-26 00:17:47 [core.py:448]   File "/opt/vllm/v1/engine/core.py", line 436, in run_engine_core\n'
        "ERROR 05-26 00:17:47 [core.py:448]     engine_core = EngineCoreProc(\n"
    )
    assert cut.id == "cause-not-in-log"


def test_a_piece_that_ends_with_an_error_line_is_led_by_it() -> None:
    last = root(
        f"{HEAD}INFO 05-26 00:17:47 [gpu_worker.py:12] something was done\n"
        f"{HEAD}ERROR 05-26 00:17:48 [gpu_worker.py:99] The frobnicator of rank 0 is out of order\n"
    )
    assert (last.id, last.confidence) == ("unclassified-failure", "low")
    assert "frobnicator" in last.evidence[0].text


def test_an_error_of_a_connector_in_one_line_ends_nothing() -> None:
    found = diagnosis(
        "E20260106 06:43:02.966156  5793 direct_transport.cpp:820] Failed to connect to target: 10.0.0.16:25482, status: 103900\n"
        f"{HEAD}ERROR 01-06 06:43:02 [mooncake_connector.py:330] Failed to transfer KV cache for request cmpl-1: ret: -1\n"
    )
    (finding,) = [one for one in found.findings if one.id == "kv-connector-failure"]
    assert (finding.kind, finding.role) == ("configuration", None)


def test_the_state_that_an_engine_dumps_is_of_a_step_that_failed() -> None:
    dumped = diagnosis(
        "ERROR 07-07 02:22:12 [dump_input.py:76] Dumping scheduler output for model execution: SchedulerOutput(scheduled_new_reqs=[])\n"
    )
    assert dumped.run.outcome == "crashed_while_serving"
    assert [one.id for one in dumped.findings if one.role == "root"] == ["cause-not-in-log"]


def test_a_warning_of_torch_on_the_driver_names_it_where_nothing_else_does() -> None:
    old = root(
        "/opt/torch/cuda/__init__.py:180: UserWarning: CUDA initialization: The NVIDIA driver on your system is too old"
        " (found version 12080). Please update your GPU driver.\n"
        "INFO 06-03 08:39:32 [nixl_utils.py:20] Setting UCX_RCACHE_MAX_UNRELEASED to '1024'\n"
    )
    assert (old.id, "12.8" in old.explanation) == ("driver-too-old", True)


def test_what_uv_can_not_resolve_is_a_failed_build(tmp_path) -> None:
    log = tmp_path / "uv.log"
    log.write_text(
        "  × No solution found when resolving dependencies:\n"
        "  ╰─▶ Because there is no version of alpha==0.1 and vllm==0.99 depends on alpha==0.1, we can conclude that vllm cannot be used.\n"
    )
    (run,) = analyze(log).runs
    (found,) = [one for one in run.findings if one.role == "root"]
    assert (run.kind, run.outcome, found.id) == ("build", "crashed_at_startup", "python-dependency-conflict")
    assert "no version of alpha" in found.explanation


def test_a_compiler_that_the_kernel_killed_ran_out_of_memory(tmp_path) -> None:
    log = tmp_path / "docker.log"
    log.write_text(
        '3039.4     File "<string>", line 242, in build_extensions\n'
        '3039.4     File "/opt/conda/lib/python3.11/subprocess.py", line 413, in check_call\n'
        "3039.4       raise CalledProcessError(retcode, cmd)\n"
        "3039.4 subprocess.CalledProcessError: Command '['cmake', '--build', '.', '-j=15']' returned non-zero exit status 137.\n"
    )
    (run,) = analyze(log).runs
    assert [one.id for one in run.findings if one.role == "root"] == ["host-memory-exhausted"]


def test_the_output_of_pytest_is_a_run_of_tests(tmp_path) -> None:
    log = tmp_path / "ci.log"
    log.write_text(
        "[2025-02-23T04:29:50Z] =========== short test summary info ===========\n"
        "[2025-02-23T04:29:50Z] FAILED metrics/test_metrics.py::test_tag[a] - AssertionError: tag is wrong! expect: 'x'\n"
        "[2025-02-23T04:29:50Z] FAILED metrics/test_metrics.py::test_tag[b] - AssertionError: tag is wrong! expect: 'x'\n"
    )
    (run,) = analyze(log).runs
    (found,) = [one for one in run.findings if one.role == "root"]
    assert (run.kind, run.outcome, found.title) == (
        "test",
        "unknown",
        "2 tests of metrics/test_metrics.py failed",
    )
    assert "test_tag[a]" in found.evidence[0].text


def test_what_a_server_answered_a_client_is_the_clients_failure(tmp_path) -> None:
    log = tmp_path / "client.log"
    log.write_text(
        "Error generating response: Error code: 400 - {'object': 'error', 'message': 'the prompt is too long', 'code': 400}. Sleep\n"
    )
    (run,) = analyze(log).runs
    (found,) = [one for one in run.findings if one.role == "root"]
    assert (run.kind, found.id, found.confidence) == ("client", "request-error-not-server-fault", "high")
    assert "400" in found.title


def test_an_architecture_that_the_message_lists_as_supported_is_not_too_new() -> None:
    listed = root(
        "ValueError: Model architectures ['LlamaForCausalLM'] are not supported for now. "
        "Supported architectures: ['AquilaModel', 'LlamaForCausalLM', 'MambaForCausalLM']\n"
    )
    assert listed.id == "stale-or-partial-build"


def test_memory_that_ends_while_a_model_is_built_was_for_its_weights() -> None:
    found = root(
        '  File "/opt/env/lib/python3.9/site-packages/vllm/model_executor/models/llama.py", line 200, in __init__\n'
        "    self.layers = nn.ModuleList([\n"
        '  File "/opt/env/lib/python3.9/site-packages/vllm/model_executor/layers/linear.py", line 272, in __init__\n'
        "    self.weight = Parameter(torch.empty(\n"
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 160.00 MiB (GPU 0; 79.35 GiB total capacity)\n"
    )
    assert (found.id, found.title) == ("oom-weights-load", "Out of memory while loading weights")


def test_a_traceback_whose_lines_are_fields_of_a_log_format_is_read() -> None:
    head = 'ts=2026-01-02T10:00:01Z level=error component=vllm msg="'
    found = root(
        f'{head}Traceback (most recent call last):"\n'
        f'{head}  File \\"/opt/env/lib/python3.12/site-packages/vllm/worker/worker.py\\", line 545, in load_model\\"\n'
        f'{head}ValueError: the frobnicator is not ready"\n'
    )
    assert "the frobnicator is not ready" in found.explanation


def test_an_exception_behind_words_of_a_program_is_judged_like_one_of_a_traceback() -> None:
    stated = root("[launcher] worker 3 gave up: ValueError: num_heads 20 is not divisible by tp_size 8\n")
    assert (stated.id, stated.confidence) == ("parallel-size-indivisible", "medium")
    unknown = root("[launcher] vllm worker 3 gave up: ValueError: the moon is too bright\n")
    assert (unknown.id, unknown.confidence) == ("unclassified-failure", "low")
    assert "the moon is too bright" in unknown.evidence[0].text


def test_a_class_that_could_not_be_inspected_is_known_and_its_error_is_elsewhere() -> None:
    piece = root(
        "(APIServer pid=1) pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
        "(APIServer pid=1)   Value error, Model architectures ['NewForCausalLM'] failed to be inspected. Please check the logs for more details.\n"
    )
    assert piece.id == "cause-not-in-log"


def test_what_a_library_said_right_above_a_cut_off_traceback_leads() -> None:
    cut = root(
        "2025:01:01-10:00:00:(9) |CCL_ERROR| exchange.cpp:2 send_fd: condition ret failed\n"
        "ERROR 01-01 10:00:00 worker_base.py:386] Traceback (most recent call last):\n"
        'ERROR 01-01 10:00:00 worker_base.py:386]   File "/opt/vllm/worker/worker_base.py", line 378, in execute_method\n'
        "ERROR 01-01 10:00:00 worker_base.py:386]     return executor(*args, **kwargs)\n"
    )
    assert (cut.confidence, "CCL_ERROR" in cut.evidence[0].text) == ("low", True)


def test_the_object_file_that_a_build_tool_could_not_make_is_a_failed_build() -> None:
    failed = diagnosis(
        "FAILED: CMakeFiles/_C.dir/csrc/attention.cu.o\n/usr/bin/nvcc -c attention.cu -o attention.cu.o\n"
    )
    assert failed.run.kind == "build"
    assert [one.id for one in failed.findings if one.role == "root"] == ["cause-not-in-log"]


def test_an_object_used_as_a_text_is_no_matter_of_releases() -> None:
    handed = root(
        'Traceback (most recent call last):\n  File "/home/me/run.py", line 3, in <module>\n    llm = LLM("m", tokenizer=tokenizer)\n'
        '  File "/opt/lib/python3.12/site-packages/vllm/utils.py", line 16, in is_remote\n    return name.lower().startswith("x")\n'
        '  File "/opt/lib/python3.12/site-packages/transformers/tokenization_utils_base.py", line 9, in __getattr__\n'
        '    raise AttributeError(f"{self.__class__.__name__} has no attribute {key}")\n'
        "AttributeError: SomeTokenizerFast has no attribute lower\n"
    )
    assert (handed.id, handed.confidence) == ("unclassified-failure", "low")
    assert any("call in the program" in way for way in handed.alternatives)


def test_json_that_no_loader_of_model_files_read_is_no_model_file() -> None:
    ends = "json.decoder.JSONDecodeError: Unterminated string starting at: line 1 column 3 (char 2)\n"
    head = "Traceback (most recent call last):\n"
    loader = '  File "/opt/lib/python3.12/site-packages/transformers/configuration_utils.py", line 3, in from_pretrained\n    json.loads(text)\n'
    caller = '  File "/home/me/vllm_check.py", line 3, in <module>\n    json.loads(text)\n'
    assert root(head + caller + loader + ends).id == "model-files-corrupt-or-incomplete"
    assert root(head + caller + ends).id == "unclassified-failure"


def test_what_is_constructed_at_the_start_is_no_request() -> None:
    start = root(
        "ERROR 03-10 03:06:35 [core.py:324] EngineCore hit an exception: Traceback (most recent call last):\n"
        'ERROR 03-10 03:06:35 [core.py:324]   File "/opt/vllm/v1/engine/core.py", line 65, in __init__\n'
        "ERROR 03-10 03:06:35 [core.py:324]     self.manager = StructuredOutputManager(vllm_config)\n"
        'ERROR 03-10 03:06:35 [core.py:324]   File "/opt/vllm/v1/structured_output/__init__.py", line 44, in __init__\n'
        "ERROR 03-10 03:06:35 [core.py:324]     info = xgr.TokenizerInfo.from_huggingface(\n"
        'ERROR 03-10 03:06:35 [core.py:324]   File "/opt/lib/python3.12/site-packages/xgrammar/tokenizer_info.py", line 188, in from_huggingface\n'
        "ERROR 03-10 03:06:35 [core.py:324]     raise ValueError(msg)\n"
        "ERROR 03-10 03:06:35 [core.py:324] ValueError: The vocabulary is too small\n"
    )
    assert start.id == "unclassified-failure"


def test_the_diagnostic_of_a_compiler_alone_leads_a_piece() -> None:
    alone = root(
        "error: some_kernel.py:211:0: stack frame size (277288) exceeds limit (262136) in function 'fwd'\n"
    )
    assert (alone.id, alone.confidence) == ("unclassified-failure", "low")


def test_a_test_that_failed_around_an_engine_that_ended_well_is_reported() -> None:
    run = diagnosis(
        "INFO 07-13 00:09:49 llm_engine.py:174] Initializing an LLM engine (v0.5.1) with config: model='facebook/opt-125m'\n"
        "Processed prompts: 100%|##########| 8/8 [00:00<00:00, 24.04it/s]\n"
        "FAILED tests/samplers/test_logprobs.py::test_scalars[a] - AssertionError: Scalars are not close!\n"
    )
    (failed,) = [one for one in run.findings if one.role == "root"]
    assert (run.run.kind, failed.title) == ("test", "A test failed")


def test_a_journal_with_a_cut_off_traceback_of_vllm_is_a_log_though_systemd_writes_there_too() -> None:
    head = "Jan 28 10:40:07 node3 bash[3]: "
    cut = root(
        f'{head}  File "/opt/lib/python3.12/site-packages/vllm/entrypoints/openai/api_server.py", line 223, in build\n'
        f"{head}    raise RuntimeError(\n{head}RuntimeError: Engine process failed to start. See stack trace for the root cause.\n"
        "Jan 28 10:40:08 node3 systemd[1]: llm.service: Main process exited, code=exited, status=1/FAILURE\n"
    )
    assert cut.id == "cause-not-in-log"


def test_a_failure_of_a_test_is_no_crash_of_a_start() -> None:
    report = analyze(
        [
            ">               rv = reductor(4)",
            "E               torch._inductor.exc.InductorError: TypeError: cannot pickle 'torch._C.DispatchKeySet' object",
            "",
            "../lib/python3.12/copy.py:151: InductorError",
            "======================== warnings summary ========================",
        ]
    ).runs[0]
    assert report.outcome == "unknown"
    assert report.to_markdown().startswith("# TESTS FAILED: torch.compile failed")


PYBIND = (
    "At:\n"
    "  /opt/venv/lib/python3.11/site-packages/vllm/model_executor/models/llama.py(80): forward\n"
    "  /opt/venv/lib/python3.11/site-packages/vllm/worker/model_runner.py(1719): execute_model\n"
    "  /opt/venv/lib/python3.11/site-packages/vllm/worker/worker.py(240): determine_num_available_blocks\n"
)


def test_the_stack_below_an_exception_says_in_which_phase_it_was_raised() -> None:
    full = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.68 GiB of which 812.00 MiB is free."
    assert root(f"RuntimeError: {full}\n\n{PYBIND}").id == "oom-warmup"


def test_an_exception_of_python_that_ends_native_code_is_the_root() -> None:
    ended = root(
        "terminate called after throwing an instance of 'pybind11::error_already_set'\n"
        f"  what():  ValueError: too many values to unpack (expected 2)\n\n{PYBIND}\nAborted (core dumped)\n"
    )
    assert (ended.id, ended.evidence[0].line) == ("engine-code-bug", 2)


def test_the_log_that_a_deployment_quotes_in_its_status_is_judged() -> None:
    quoted = json.dumps(
        {
            "deployment": "chat",
            "status": "UNHEALTHY",
            "message": "The replica failed to start. Last lines:\n"
            "INFO 11-03 10:12:01 [api_server.py:1839] vLLM API server version 0.11.0\n"
            "ERROR 11-03 10:12:44 [core.py:708] EngineCore failed to start.\n"
            "ERROR 11-03 10:12:44 [core.py:708] Traceback (most recent call last):\n"
            'ERROR 11-03 10:12:44 [core.py:708]   File "/opt/vllm/v1/worker/gpu_worker.py", line 179, in init_device\n'
            "ERROR 11-03 10:12:44 [core.py:708]     raise ValueError(\n"
            "ERROR 11-03 10:12:44 [core.py:708] ValueError: Free memory on device (3.2/79.1 GiB) on startup is less than desired GPU memory "
            "utilization (0.9, 71.19 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n",
        }
    )
    assert root(f"{quoted}\n").id == "gpu-memory-not-free-at-start"
    served = 'applications:\n  llm:\n    status: DEPLOY_FAILED\n    message: "Deploying app failed with exception:\\nTraceback (most recent call last):\\n'
    raised = "ValueError: Model architectures ['NewForCausalLM'] are not supported for now. Supported architectures: dict_keys(['LlamaForCausalLM'])"
    assert (
        root(f'{served}  File \\"/opt/ray/serve/state.py\\", line 1, in build\\n{raised}\\n"\n').id
        == "model-arch-not-supported-by-version"
    )


def test_an_error_behind_which_the_server_starts_as_usual_is_no_failure() -> None:
    error = "ERROR 01-28 06:35:44 [gpt_oss_triton_kernels_moe.py:34] Failed to import Triton kernels. Error: No module named 'triton_kernels.routing'\n"
    banner = "".join(
        f"(APIServer pid=34) INFO 01-28 06:35:46 [utils.py:346]  {row}\n"
        for row in ("▄▄ ▄█ █  version 0.15.0", "█▄█▀ █  model   org/m", "non-default")
    )
    assert not [
        one for one in diagnosis(error + banner).findings if one.role == "root" and one.kind == "failure"
    ]
    assert root(f"{banner}{error}").id == "unclassified-failure"


def test_the_error_of_a_worker_with_which_a_log_ends_keeps_it_from_being_healthy() -> None:
    report = analyze(
        [
            'INFO:     127.0.0.1:50084 - "GET /health/ HTTP/1.1" 200 OK',
            'INFO:     127.0.0.1:50088 - "POST /init_communicator/ HTTP/1.1" 200 OK',
            "(VllmWorker rank=1 pid=8) INFO 08-20 09:48:31 [utils.py:1045] Found nccl from environment variable VLLM_NCCL_SO_PATH=/opt/libnccl.so.2",
            "(VllmWorker rank=1 pid=8) ERROR 08-20 09:48:31 [pynccl_wrapper.py:229] Failed to load NCCL library from /opt/libnccl.so.2.",
        ]
    ).runs[0]
    assert (report.outcome, report.findings[0].id) == ("unknown", "unclassified-failure")


def test_a_heading_above_a_traceback_that_is_cut_off_is_no_error() -> None:
    cut = root(
        "2026-02-02 12:53:27,515 ERROR exceptions.py:81 -- Full stack trace:\n"
        "Traceback (most recent call last):\n"
        '  File "/opt/vllm/engine/llm_engine.py", line 49, in step\n'
        "    return fn(*args, **kwargs)\n"
    )
    assert (cut.id, cut.title) == ("cause-not-in-log", "Traceback is cut off")


def test_the_report_of_a_process_that_died_in_the_handshake_is_no_cause() -> None:
    head = "(APIServer pid=3) "
    frames = f'{head}Traceback (most recent call last):\n{head}  File "/opt/vllm_omni/stage.py", line 6, in handshake\n{head}    raise RuntimeError(text)\n'
    run = diagnosis(f"{frames}{head}RuntimeError: StageProc died during handshake (exit code 1)\n")
    (found,) = [one for one in run.findings if one.role == "root"]
    assert (found.id, run.run.outcome) == ("cause-not-in-log", "crashed_at_startup")


def test_a_paragraph_below_an_exception_without_text_is_not_its_text() -> None:
    raised = root(
        'Traceback (most recent call last):\n  File "/opt/vllm/reward.py", line 37, in compute\n    raise NotImplementedError\n'
        "NotImplementedError\n\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n"
    )
    assert "HYDRA" not in raised.explanation


def test_errors_that_lmcache_s_own_logger_prints_are_failed_transfers() -> None:
    head = "[2025-09-04 01:00:51,159] LMCache"
    found = diagnosis(
        f"{head} ERROR: get failed: 'Store' object has no attribute 'get' (mooncakestore_connector.py:360:lmcache.v1.connector.mooncakestore_connector)\n"
        f"{head} INFO : Retrieved 0 out of 239 tokens (cache_engine.py:499:lmcache.v1.cache_engine)\n"
        f"{head} ERROR: Num retrieved tokens: 0 (vllm_v1_adapter.py:755:lmcache.integration.vllm.vllm_v1_adapter)\n"
    )
    (transfers,) = [one for one in found.findings if one.id == "kv-connector-failure"]
    assert [one.line for one in transfers.evidence] == [1, 3]
    assert transfers.explanation.startswith("2 messages report a failed transfer")


def test_an_answer_that_names_settings_of_the_server_asks_for_them() -> None:
    refused = root(
        "2025-03-09 17:31:06 | ERROR | app.llm:ask - API error: Error code: 400 - {'object': 'error', 'message': "
        "'\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', 'code': 400}\n"
    )
    assert "`--enable-auto-tool-choice` and `--tool-call-parser`" in refused.alternatives[0]


def test_a_build_that_make_ends_has_failed() -> None:
    report = analyze(
        [
            "88.34 Traceback (most recent call last):",
            '88.34   File "/app/lib/TensileCreateLibrary.py", line 733, in main',
            "88.34     first = list(libraries.values())[0]",
            "88.34 IndexError: list index out of range",
            "88.71 make[2]: *** [library/CMakeFiles/TENSILE.dir/build.make:74: Tensile/library] Error 1",
            "88.72 Building wheel for vllm (pyproject.toml): started",
        ]
    ).runs[0]
    assert (report.kind, report.outcome) == ("build", "crashed_at_startup")


def test_a_traceback_out_of_the_server_s_main_coroutine_is_of_the_start() -> None:
    run = diagnosis(
        'Traceback (most recent call last):\n  File "/opt/vllm/entrypoints/cli/serve.py", line 148, in cmd\n'
        "    uvloop.run(run_server(args))\n"
        "TypeError: unsupported operand type(s) for +: 'Tensor' and 'Tensor'\n"
    )
    assert run.run.outcome == "crashed_at_startup"


COMMAND = "vllm serve org/m --tensor-parallel-size 2\n"


def test_a_launch_command_above_what_a_client_was_answered_makes_no_server() -> None:
    run = diagnosis(
        f"{COMMAND}Traceback (most recent call last):\n"
        '  File "/home/me/ask.py", line 12, in <module>\n    client.chat.completions.create(model=m, messages=m)\n'
        "openai.BadRequestError: Error code: 400 - {'object': 'error', 'message': 'no such model', 'code': 400}\n"
    )
    assert (run.run.kind, [one.id for one in run.findings if one.role == "root"]) == (
        "client",
        ["request-error-not-server-fault"],
    )


def test_a_container_that_docker_does_not_start_is_shown() -> None:
    refused = root(
        "$ docker run --gpus all vllm/vllm-openai:v0.11.0 --model org/m\n"
        'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].\n'
    )
    assert (refused.id, refused.evidence[0].line) == ("container-not-started", 2)


def test_what_somebody_writes_around_a_log_is_no_evidence_beside_it() -> None:
    head = "ERROR 11-03 10:12:44 [core.py:708] "
    found = diagnosis(
        "I get this since 0.11.0, with 0.10.2 it was torch.OutOfMemoryError: CUDA out of memory.\n\n"
        f'{head}Traceback (most recent call last):\n{head}  File "/opt/vllm/v1/worker/gpu_worker.py", line 179, in init_device\n'
        f"{head}    raise ValueError(\n{head}ValueError: Free memory on device (3.2/79.1 GiB) on startup is less than desired GPU memory "
        "utilization (0.9, 71.19 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n\n"
        "I also tried --enforce-eager, then I get RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
    )
    (broken,) = [one for one in found.findings if one.kind == "failure"]
    assert broken.id == "gpu-memory-not-free-at-start"
    assert not {one.line for one in broken.evidence} & {1, 8}


def test_a_journal_with_lines_of_an_api_server_is_a_log() -> None:
    assert (
        root(
            "Feb 22 06:55:47 box python3.12[16233]: (APIServer pid=16233)     raise RuntimeError(\n"
            "Feb 22 06:55:47 box python3.12[16233]: (APIServer pid=16233) RuntimeError: Engine core initialization failed."
            " See root cause above. Failed core proc(s): {}\n"
            "Feb 22 06:55:47 box systemd[1643]: llm.service: Main process exited, code=exited, status=1/FAILURE\n"
            "Feb 22 06:55:53 box systemd[1643]: llm.service: Scheduled restart job, restart counter is at 76.\n"
        ).id
        == "cause-not-in-log"
    )


def test_a_shell_that_finds_no_vllm_is_more_than_the_schedulers_words() -> None:
    job = "/usr/bin/bash: line 1: vllm: command not found\nsrun: error: n010: task 0: Exited with exit code 127\n"
    assert root(job).title == "vLLM not installed in this environment"


def test_a_socket_whose_path_is_too_long_is_named() -> None:
    long = root(
        "OSError: AF_UNIX path length cannot exceed 107 bytes: /scratch/jobs/very/deep/ray/session_1/sockets/plasma_store\n"
    )
    assert long.title == "Path of a socket too long"


def test_a_message_whose_line_was_broken_on_the_way_is_read_as_one() -> None:
    broken = root(
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig\n"
        "  Value error, Total number of attention heads (64) must be divisible by tensor\n"
        "  parallel size (3).\n"
    )
    assert broken.id == "parallel-size-indivisible"
