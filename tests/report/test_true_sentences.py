"""Sentences that reports on real logs got wrong, each on a small log of its own."""

from __future__ import annotations

import vllm_logdoctor
from vllm_logdoctor.report.effects import effect_range
from vllm_logdoctor.report.steps import avoidance
from vllm_logdoctor.rules.capacity.card import device_name
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.rules.performance.published import COMPILE_CACHE_WARM

START = [
    "INFO 05-01 10:00:00 [api_server.py:1043] vLLM API server version 0.11.0",
    "INFO 05-01 10:00:01 [utils.py:233] non-default args: {'model': 'org/model', 'max_model_len': 4096,"
    " 'speculative_config': {'method': 'mtp', 'num_speculative_tokens': 3}}",
    "(EngineCore_DP0 pid=9) INFO 05-01 10:00:10 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config:"
    " model='org/model', speculative_config=SpeculativeConfig(method='mtp', num_spec_tokens=3), dtype=torch.bfloat16,"
    " max_seq_len=4096, tensor_parallel_size=1",
]
FAILED_LOAD = [
    *START,
    "(EngineCore_DP0 pid=9) INFO 05-01 10:05:10 [default_loader.py:268] Loading weights took 290.00 seconds",
    "(EngineCore_DP0 pid=9) ERROR 05-01 10:05:20 [core.py:708] EngineCore failed to start.",
    "(EngineCore_DP0 pid=9) ERROR 05-01 10:05:20 [core.py:708] Traceback (most recent call last):",
    '(EngineCore_DP0 pid=9) ERROR 05-01 10:05:20 [core.py:708]   File "/opt/vllm/model_executor/models/llama.py", line 430, in load_weights',
    "(EngineCore_DP0 pid=9) ERROR 05-01 10:05:20 [core.py:708]     param = params_dict[name]",
    "(EngineCore_DP0 pid=9) ERROR 05-01 10:05:20 [core.py:708] KeyError: 'layers.0.attention.wk.weight'",
]
TOOL_PARSER = [
    "ERROR 03-20 16:44:04 [hermes_tool_parser.py:338] Error trying to handle streaming tool call.",
    "ERROR 03-20 16:44:04 [hermes_tool_parser.py:338] Traceback (most recent call last):",
    'ERROR 03-20 16:44:04 [hermes_tool_parser.py:338]   File "/opt/vllm/entrypoints/openai/tool_parsers/hermes_tool_parser.py", line 227, in extract_tool_calls_streaming',
    'ERROR 03-20 16:44:04 [hermes_tool_parser.py:338]     name = call.get("name")',
    "ERROR 03-20 16:44:04 [hermes_tool_parser.py:338] AttributeError: 'NoneType' object has no attribute 'get'",
]


def report(lines: list[str]) -> str:
    return vllm_logdoctor.analyze(lines).to_markdown()


def test_the_verdict_of_a_failure_explains_and_does_not_repeat_its_decisive_line() -> None:
    text = report([line.replace("speculative_config", "load_config") for line in FAILED_LOAD])
    screen = text.split("## What broke")[0]
    assert screen.count("layers.0.attention.wk.weight") == 1
    assert "under a name that the model class of this release does not have" in screen


def test_a_part_of_a_load_that_failed_is_not_called_unexplained() -> None:
    phases = {phase.name: phase for phase in vllm_logdoctor.analyze(FAILED_LOAD).runs[0].phases}
    assert phases["read-weights"].parent == "startup"
    assert (phases["unexplained"].seconds or 0) < 30


def test_a_nested_setting_that_the_engine_prints_with_other_names_is_not_called_changed() -> None:
    config = vllm_logdoctor.analyze(START).runs[0].config
    assert config.value("speculative_config").provenance == "explicit"


def test_an_exception_of_a_request_without_a_4xx_is_not_called_one() -> None:
    text = report(TOOL_PARSER)
    assert "4xx" not in text
    assert "Error while processing a request" not in text  # The parser logs it and the request goes on.


def test_the_head_of_a_traceback_is_no_unknown_warning() -> None:
    old = [line.replace("[hermes_tool_parser.py:338]", "engine.py:366]") for line in TOOL_PARSER[1:]]
    assert "`Traceback (most recent call last):`" not in report(old)


def test_a_card_that_the_job_script_listed_is_named() -> None:
    text = report(["GPU 0: NVIDIA L4 (UUID: GPU-5c1d0a52-1111)", *START])
    assert "GPU model" not in text
    run = vllm_logdoctor.analyze(["0, NVIDIA L4, 23034 MiB, 550.54.15", *START]).runs[0].run
    assert (named := device_name(run)) is not None
    assert named[0] == "NVIDIA L4"


def test_parts_of_torch_compile_are_indented_below_it() -> None:
    compiled = [
        "(EngineCore_DP0 pid=9) INFO 05-01 10:00:20 [gpu_model_runner.py:2653] Model loading took 2.9 GiB and 5.0 seconds",
        "(EngineCore_DP0 pid=9) INFO 05-01 10:00:26 [backends.py:559] Dynamo bytecode transform time: 5.00 s",
        "(EngineCore_DP0 pid=9) INFO 05-01 10:00:30 [monitor.py:34] torch.compile takes 9.00 s in total",
        "(EngineCore_DP0 pid=9) INFO 05-01 10:00:40 [core.py:210] init engine (profile, create kv cache, warmup model) took 20.00 seconds",
        "INFO:     Application startup complete.",
    ]
    text = report([*START, *compiled])
    assert "| · torch.compile |" in text
    assert "| · · Dynamo tracing |" in text


def test_an_excerpt_is_not_said_to_end_during_start_up() -> None:
    text = report(
        [
            "INFO 05-01 10:00:00 [cumem.py:174] Sleep mode freed 23.74 GiB memory, 1.20 GiB memory is still in use."
        ]
    )
    assert "ends during start-up" not in text
    assert "log ends before start-up completed" not in text


def test_a_first_sentence_of_a_failure_is_more_than_a_path() -> None:
    full = "OSError: [Errno 28] No space left on device: '/scratch/cache/a.bin'"
    screen = report(
        [*FAILED_LOAD[:-1], FAILED_LOAD[-1].replace("KeyError: 'layers.0.attention.wk.weight'", full)]
    )
    verdict = next(line for line in screen.splitlines() if line.startswith("**"))
    assert verdict.startswith("**A file system is full")


STATISTICS = (
    "(APIServer pid=8) INFO 04-28 22:54:{second} [loggers.py:257] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation"
    " throughput: 5.4 tokens/s, Running: 1 reqs, Waiting: 14 reqs, GPU KV cache usage: {usage}%, Prefix cache hit rate: 92.0%"
)
HELD = [STATISTICS.format(second=12 + 10 * n, usage=76.5 + n / 10) for n in range(4)]


def test_a_cache_that_one_request_holds_is_not_called_full() -> None:
    text = report(HELD)
    assert text.startswith("# LIMITED: KV cache held by few large requests")
    assert "KV cache full" not in text
    assert "KV cache (never above" not in text


def test_a_start_that_failed_has_no_shares_of_a_whole() -> None:
    made = "(EngineCore_DP0 pid=9) INFO 05-01 10:05:30 [core.py:210] init engine (profile, create kv cache, warmup model) took 5.00 seconds"
    text = report(
        [*FAILED_LOAD[:4], made, *(line.replace("10:05:20", "10:05:40") for line in FAILED_LOAD[4:])]
    )
    assert "rest of the start-up" not in text
    assert "until the failure" in text
    assert "after that" not in text
    assert "100 %" not in text


def test_a_long_time_between_the_last_phase_and_the_failure_has_a_row() -> None:
    compiled = "(EngineCore_DP0 pid=9) INFO 05-01 10:05:15 [default_loader.py:268] Model loading took 9.1 GiB and 300.000000 seconds"
    shown, hidden = (
        report([*FAILED_LOAD[:4], compiled, *(line.replace("10:05:20", time) for line in FAILED_LOAD[4:])])
        for time in ("10:06:45", "10:05:18")
    )
    assert "| from there to the failure | " in shown
    assert "1 min 30 s" in shown
    assert "from there" not in hidden


def test_a_start_failed_at_the_line_of_its_error_not_at_the_last_line() -> None:
    early = [line.replace("EngineCore failed to start.", "Engine broke.") for line in FAILED_LOAD]
    late = "(EngineCore_DP0 pid=9) INFO 05-01 10:09:59 [core.py:900] Waiting for the threads of the loader."
    whole, longer = (
        next(line for line in report(lines).splitlines() if "until the failure" in line)
        for lines in (early, [*early, late])
    )
    assert whole == longer


def test_a_list_of_platforms_names_none() -> None:
    text = report(["  ValueError: Unsupported platform, please use CUDA, ROCm, Neuron, OpenVINO, or CPU."])
    assert "rocm" not in text


def test_a_build_is_not_checked_by_an_import() -> None:
    text = report(
        [
            "  Building wheel for vllm (pyproject.toml) ... error",
            "  CMake Error at CMakeLists.txt:3 (project):",
            "    Running",
            "     '/tmp/pip-build-env-ab12/overlay/bin/ninja' '--version'",
            "    failed with:",
            "     no such file or directory",
            "  ERROR: Failed building wheel for vllm",
        ]
    )
    assert "different builds" not in text
    assert "gets past `cmake`" in text


def test_a_kernel_cache_of_torch_is_not_moved_by_a_variable_of_triton() -> None:
    text = report(
        [
            *START,
            "Traceback (most recent call last):",
            '  File "/opt/env/lib/python3.10/site-packages/torch/_ops.py", line 1350, in load_library',
            "    ctypes.CDLL(path)",
            "OSError: /var/cache/torch_extensions/py310_cu124/k/k.so: cannot open shared object file: No such file or directory",
        ]
    )
    assert "JIT-compiled extension missing" in text
    assert "Set `TRITON_CACHE_DIR`" not in text


def test_a_line_of_marks_is_no_unknown_error() -> None:
    text = report(
        [*FAILED_LOAD[:4], "(EngineCore_DP0 pid=9) ERROR 05-01 10:05:20 [core.py:708]      ^^^^^^^^"]
    )
    assert "Warnings and errors that this report does not explain" not in text


def test_a_stamp_before_an_exception_is_no_other_line() -> None:
    lines = [
        f"[2025-05-21T18:59:44Z] {line}"
        for line in (
            "Traceback (most recent call last):",
            '  File "/opt/vllm/v1/engine/core.py", line 4, in step',
        )
    ]
    fault = "RuntimeError: CUDA error: an illegal memory access was encountered"
    text = report(
        [
            *START,
            *FAILED_LOAD[4:8],
            FAILED_LOAD[8].split("]")[0] + "] " + fault,
            *lines,
            f"[2025-05-21T18:59:44Z] {fault}",
        ]
    )
    assert "[2025-05-21T18:59:44Z] RuntimeError" not in text


def test_an_illegal_instruction_is_no_illegal_memory_access() -> None:
    text = report(
        [
            *START,
            "(EngineCore pid=9) ERROR 05-01 10:09:12 [core.py:1134] EngineCore encountered a fatal error.",
            "(EngineCore pid=9) ERROR 05-01 10:09:12 [core.py:1134] Traceback (most recent call last):",
            '(EngineCore pid=9) ERROR 05-01 10:09:12 [core.py:1134]   File "/opt/vllm/v1/worker/gpu_model_runner.py", line 269, in get_output',
            "(EngineCore pid=9) ERROR 05-01 10:09:12 [core.py:1134] torch.AcceleratorError: CUDA error: an illegal instruction was encountered",
        ]
    )
    assert "# FAILED while serving: CUDA error: an illegal instruction was encountered\n" in text
    assert "llegal memory access" not in text


def test_an_engine_step_that_timed_out_is_no_missed_heartbeat() -> None:
    text = report(
        [
            "INFO 07-19 16:08:00 metrics.py:295] Avg prompt throughput: 84.8 tokens/s, Avg generation throughput: 0.1 tokens/s,"
            " Running: 1 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 0.3%, CPU KV cache usage: 0.0%.",
            "Traceback (most recent call last):",
            '  File "/opt/vllm/engine/async_llm_engine.py", line 603, in run_engine_loop',
            "    async with asyncio_timeout(ENGINE_ITERATION_TIMEOUT_S):",
            '  File "/opt/vllm/engine/async_timeout.py", line 178, in _do_exit',
            "    raise asyncio.TimeoutError",
            "asyncio.exceptions.TimeoutError",
        ]
    )
    assert "VLLM_ENGINE_ITERATION_TIMEOUT_S" in text
    assert "VLLM_RPC_TIMEOUT" not in text
    assert "robable cause" not in text  # The traceback shows which time was over.


def test_defaults_in_the_arguments_of_an_untagged_build_are_not_called_set() -> None:
    text = report(
        [
            "INFO 01-06 15:46:27 api_server.py:647] vLLM API server version 0.1.dev3896+ga491d6f",
            "INFO 01-06 15:46:27 api_server.py:648] args: Namespace(model='org/m', port=8000, max_lora_rank=16, swap_space=4,"
            " max_num_seqs=3)",
        ]
    )
    assert "`max_num_seqs` | `3` | arguments" in text
    assert "| `max_lora_rank`" not in text


def test_the_line_of_a_command_that_names_a_setting_proves_it() -> None:
    text = report(["$ vllm serve org/m \\", "  --max-model-len 4096 \\", "  --enforce-eager", START[0]])
    assert "- Evidence: `--enforce-eager` [L3]; `$ vllm serve" in text


def test_a_server_whose_requests_all_failed_is_not_called_healthy() -> None:
    text = report(
        [*START, 'INFO:     10.0.0.1:2003 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error']
    )
    assert "HEALTHY" not in text


def test_a_tool_call_that_could_not_be_parsed_is_no_failed_request() -> None:
    text = report(
        [*START, *TOOL_PARSER, 'INFO:     10.0.0.1:2003 - "POST /v1/chat/completions HTTP/1.1" 200 OK']
    )
    assert "Requests failed" not in text
    assert "tool parser failed on an answer. " in text
    assert text.count("Use a newer release") == 1


def test_the_standard_library_is_no_package_to_compare() -> None:
    text = report(
        [
            *START,
            "Traceback (most recent call last):",
            '  File "/opt/vllm/entrypoints/cli/main.py", line 4, in main',
            "    run()",
            '  File "/usr/lib/python3.12/ssl.py", line 10, in read',
            "    return self._sslobj.read(len, buffer)",
            "TimeoutError: The read operation timed out",
        ]
    )
    assert "pip show python" not in text
    assert "package python" not in text


def test_a_header_in_brackets_of_a_users_own_formatter_is_read() -> None:
    head = "[2025-03-05 14:28:3{}] [{}] [MainThread] [vllm.{}] >>> {}"
    engine = "Initializing a V1 LLM engine (v0.7.4) with config: model='org/m', dtype=torch.bfloat16, tensor_parallel_size=8"
    text = report(
        [
            head.format("0,815", "INFO", "platforms", "Automatically detected platform cuda."),
            head.format("7,801", "INFO", "v1.engine.core", engine),
            head.format("9,138", "ERROR", "worker.worker_base", "Traceback (most recent call last):"),
            head.format(
                "9,138",
                "ERROR",
                "worker.worker_base",
                '  File "/opt/vllm/worker/worker_base.py", line 3, in run',
            ),
            head.format("9,138", "ERROR", "worker.worker_base", "    torch.cuda.set_device(device)"),
            head.format(
                "9,138", "ERROR", "worker.worker_base", "RuntimeError: CUDA error: invalid device ordinal"
            ),
        ]
    )
    assert "vLLM 0.7.4 · org/m · 8 GPUs (TP=8)" in text
    assert "`RuntimeError: CUDA error: invalid device ordinal` [L6]" in text
    assert "Warnings and errors that this report does not explain" not in text


def test_an_exception_that_ended_the_program_is_no_http_answer() -> None:
    text = report(
        [
            START[2],
            "(EngineCore_DP0 pid=9) INFO 05-01 10:02:10 [core.py:162] init engine (profile, create kv cache, warmup model) took 8 seconds",
            "Traceback (most recent call last):",
            '  File "/home/me/run.py", line 7, in <module>',
            "    llm.generate(prompts)",
            '  File "/opt/vllm/entrypoints/llm.py", line 700, in _validate_and_add_requests',
            "    raise ValueError(",
            "ValueError: The decoder prompt (length 200) is longer than the maximum model length of 100",
        ]
    )
    assert "Request refused: exception not caught by the program" in text
    assert "4xx" not in text


def test_a_batch_that_began_is_no_start_that_did_not_complete() -> None:
    text = report(
        [
            *START,
            "(EngineCore_DP0 pid=9) INFO 05-01 10:02:10 [core.py:162] engine core ready",
            "Processed prompts:   0%|          | 0/1 [00:00<?, ?it/s, est. speed input: 0.00 toks/s, output: 0.00 toks/s]",
        ]
    )
    assert "Log ends before start-up completes" not in text


def test_a_test_that_is_skipped_on_rocm_names_no_platform() -> None:
    lines = [
        "@pytest.mark.skipif(current_platform.is_rocm(),",
        '    reason="Xformers backend is not supported on ROCm.")',
    ]
    assert "`nvidia-smi -L` or `rocm-smi --showproductname`" in report([*lines, *START])


def test_what_to_avoid_keeps_the_name_of_a_variable() -> None:
    finding = Finding(
        "x", "failure", "high", "high", "t", "e", avoid="VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 removes the check"
    )
    assert avoidance(finding) == "Avoid: VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 removes the check."


def test_the_median_of_seconds_is_a_multiple_as_the_range_is() -> None:
    effect = COMPILE_CACHE_WARM.effect("init_engine_seconds")
    assert effect_range(effect) == "1.75 to 5.56 x faster engine initialization"
    assert "median 2.33 x" in effect.basis


def test_the_phases_of_a_short_start_add_up() -> None:
    run = vllm_logdoctor.analyze("fixtures/vllm-0.11.2-kv-starved.log").runs[0].run
    whole = next(phase.seconds or 0.0 for phase in run.phases if phase.name == "startup")
    parts = sum(phase.seconds or 0.0 for phase in run.phases if phase.parent == "startup")
    assert 0.98 * whole <= parts <= 1.02 * whole


def test_marks_of_pytest_are_no_part_of_an_error() -> None:
    failed = [
        *START,
        "Traceback (most recent call last):",
        '  File "/opt/tests/test_pooler.py", line 83, in test_pooler',
        "_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _",
        "E       AttributeError: 'PoolerConfig' object has no attribute 'norm'. Did you mean: 'type'?",
    ]
    text = report(failed)
    assert "E AttributeError" not in text
    assert "_ _ _" not in text
    assert "Did you mean" not in text.splitlines()[0]


def test_an_encoder_without_a_cache_is_not_limited_by_one() -> None:
    """A classifier keeps no KV cache: vLLM gives it one block, which statistics lines call 100 % full."""
    busy = "(APIServer pid=1) INFO 05-01 10:{:02}:00 [loggers.py:123] Engine 000: Avg prompt throughput: 11146.3 tokens/s,"
    gauges = " Avg generation throughput: 0.0 tokens/s, Running: 2 reqs, Waiting: 0 reqs, GPU KV cache usage: 100.0%, Prefix cache hit rate: 0.0%"
    encoder = "(EngineCore_0 pid=9) INFO 05-01 10:00:30 [core.py:118] Disabling chunked prefill for model without KVCache"
    load = [busy.format(minute) + gauges for minute in range(2, 9)]
    ready = "(APIServer pid=1) INFO:     Application startup complete."
    assert "KV cache full" in report([*START, ready, *load])
    text = report([*START, encoder, ready, *load])
    assert "KV cache full" not in text
    assert "KV cache, %" not in text


def test_an_error_that_the_cause_cites_is_not_listed_as_unknown() -> None:
    lines = [
        line.replace(
            "KeyError: 'layers.0.attention.wk.weight'",
            "Error while deserializing header: InvalidHeaderDeserialization",
        )
        for line in FAILED_LOAD
    ]
    assert "InvalidHeaderDeserialization" in report(lines).split("## What was read")[0]
    assert "InvalidHeaderDeserialization" not in report(lines).split("## What was read")[1]


def test_the_command_after_a_failure_holds_its_repair_and_no_tuning() -> None:
    """--enforce-eager costs speed: that is no matter of a log whose report advises on the failure alone."""
    lines = [
        START[0],
        START[1].replace("'max_model_len': 4096", "'max_model_len': 4096, 'enforce_eager': True"),
        START[2].replace("tensor_parallel_size=1", "tensor_parallel_size=1, enforce_eager=True"),
        "(APIServer pid=1) INFO:     Application startup complete.",
        *FAILED_LOAD[-5:-1],
        "(EngineCore_DP0 pid=9) ERROR 05-01 10:05:20 [core.py:708] RuntimeError: Check failed: (status == cudaSuccess) is false:"
        " BatchPrefillWithPagedKVCache failed with error invalid argument",
    ]
    lines = [line.replace("v0.11.0", "v0.22.1").replace("version 0.11.0", "version 0.22.1") for line in lines]
    command = report(lines).split("## Launch command with the changed settings")[1].split("## ")[0]
    assert "--attention-backend" in command
    assert "--enforce-eager" in command


def test_a_log_that_ends_in_a_download_says_so_and_names_what_to_do() -> None:
    text = report(
        [
            "INFO 11-22 22:04:27 api_server.py:638] args: Namespace(host='0.0.0.0', port=8000, model='org/model-34b', seed=0)",
            "Downloading:   0%|          | 0.00/9.29G [00:00<?, ?B/s]",
        ]
    )
    assert "The log ends while the model is being downloaded [L2]" in text
    assert "give the path of a local copy" in text
    assert "keep the log from its first line" not in text


BUILD = [
    "      Traceback (most recent call last):",
    '        File "<string>", line 220, in configure',
    '        File "/usr/lib/python3.12/subprocess.py", line 413, in check_call',
    "          raise CalledProcessError(retcode, cmd)",
    "      subprocess.CalledProcessError: Command '['cmake', '/src/vllm', '-G', 'Ninja']' returned non-zero exit status 1.",
    "      [end of output]",
    "  ERROR: Failed building editable for vllm",
]


def test_a_build_whose_log_has_no_compiler_is_to_be_repeated_with_its_output() -> None:
    assert "Keep the whole output of the build" in report(
        ["Building wheels for collected packages: vllm", *BUILD]
    )


def test_a_check_that_asks_for_what_the_server_has_is_of_the_draft_model() -> None:
    speculation = (
        "'speculative_config': {'method': 'eagle', 'model': 'org/draft', 'num_speculative_tokens': 4}"
    )
    text = report(
        [
            "(APIServer pid=1) INFO 05-01 09:59:10 [api_server.py:90] vLLM API server version 0.22.1",
            "(APIServer pid=1) INFO 05-01 09:59:10 [utils.py:233] non-default args: {'model': 'org/m', 'kv_cache_dtype': 'fp8_ds_mla', "
            + speculation
            + "}",
            "(EngineCore pid=9) ERROR 05-01 10:01:12 [core.py:708] EngineCore failed to start.",
            "(EngineCore pid=9) ERROR 05-01 10:01:12 [core.py:708] Traceback (most recent call last):",
            '(EngineCore pid=9) ERROR 05-01 10:01:12 [core.py:708]   File "/opt/vllm/v1/worker/gpu/spec_decode/utils.py", line 23, in load_model',
            "(EngineCore pid=9) ERROR 05-01 10:01:12 [core.py:708]     draft = replace(config)",
            "(EngineCore pid=9) ERROR 05-01 10:01:12 [core.py:708] pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig",
            "(EngineCore pid=9) ERROR 05-01 10:01:12 [core.py:708]   Value error, Tiered MoE requires kv_cache_dtype=fp8_ds_mla [type=value_error]",
        ]
    )
    assert "Start with `--kv-cache-dtype" not in text
    assert "1. Start without `--speculative-config`" in text
    assert "leave out Tiered MoE, if the model fits the GPUs without it" in text


def test_a_step_of_the_first_screen_names_two_of_its_lines_and_counts_the_others() -> None:
    screen = vllm_logdoctor.analyze("fixtures/vllm-0.11.2-kv-starved.log").to_markdown().split("\n## ")[0]
    step = next(line for line in screen.splitlines() if line.startswith("1. "))
    assert "(KV cache full: requests queue or are preempted [L129, L103 and 3 more])" in step


def test_a_list_of_models_is_no_answered_load() -> None:
    text = report([*START, 'INFO:     10.0.0.1:2003 - "GET /v1/models HTTP/1.1" 200 OK'])
    assert "answered" not in text
