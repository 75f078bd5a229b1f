"""Sentences on starts that reports on real logs got wrong: cut arguments, waits, cards, the last line."""

from __future__ import annotations

import vllm_logdoctor
from tests.report.test_true_sentences import FAILED_LOAD, START, report


def test_a_cut_line_of_arguments_claims_no_defaults_and_no_value_that_it_cut() -> None:
    """A terminal wrapped the line: what is behind its edge may set anything."""
    lines = [
        START[0],
        "INFO 05-01 10:00:01 [utils.py:233] non-default args: {'port': 8081, 'model': 'org",
        "/model', 'tensor_parallel_size': 2}",
    ]
    config = vllm_logdoctor.analyze(lines).runs[0].config
    assert config.value("port").value == 8081
    assert {"model", "gpu_memory_utilization", "tensor_parallel_size"}.isdisjoint(config)
    assert "GPU" not in report(lines).split("\n")[2]


def test_memory_that_other_processes_hold_is_the_card_s_less_what_is_free() -> None:
    error = (
        "ValueError: Free memory on device (16.0/93.0 GiB) on startup is less than desired GPU memory utilization (0.8, 74.4 GiB)."
        " Decrease GPU memory utilization or reduce GPU memory used by other processes."
    )
    text = report([*FAILED_LOAD[:-1], f"(EngineCore_DP0 pid=9) ERROR 05-01 10:05:20 [core.py:708] {error}"])
    assert "77 GiB were in use already; 58.4 GiB are missing" in text


def test_a_start_that_waited_for_ray_spent_no_gpu_hours_and_says_what_it_waited_for() -> None:
    lines = [
        *START[:1],
        START[1].replace("'max_model_len': 4096", "'tensor_parallel_size': 16"),
        START[2].replace("tensor_parallel_size=1", "tensor_parallel_size=16"),
        "INFO 05-01 10:00:20 [__init__.py:239] Automatically detected platform cuda.",
        *(
            f"INFO 05-01 10:{minute}:20 [ray_utils.py:233] Waiting for creating a placement group of specs for {wait} seconds. specs=[{{'GPU': 1.0}}]"
            for minute, wait in (("01", 70), ("30", 1800))
        ),
        "ValueError: Cannot provide a placement group of placement_group_specs=[{'GPU': 1.0}] within 1800 seconds.",
    ]
    text = report(lines)
    assert "GPU-hours" not in text
    assert "| waiting for Ray's placement group | 10:00:10 | 30 min 10 s, no line shows its end |" in text
    assert "rest of the start-up" not in text


def test_the_last_line_is_none_before_the_error() -> None:
    """The last words of this log are the error itself; a line of code before it is not what the log ends with."""
    text = report(
        [*FAILED_LOAD[:-1], "    param = params_dict[the_name]", "KeyError: 'layers.0.attention.wk.weight'"]
    )
    assert "Last line" not in text


def test_cards_of_different_kinds_that_vllm_lists_are_not_called_missing() -> None:
    listed = (
        "WARNING 05-01 10:00:00 [cuda.py:682] Detected different devices in the system: NVIDIA H100 NVL, NVIDIA RTX A400."
        " Please make sure to set `CUDA_DEVICE_ORDER=PCI_BUS_ID` to avoid unexpected behavior."
    )
    assert "GPU model:" in report(START)
    assert "GPU model:" not in report([listed, *START])


def test_an_offline_engine_is_not_asked_to_drop_a_flag_of_the_server() -> None:
    lines = [
        "INFO 05-01 10:00:01 [utils.py:233] non-default args: {'disable_log_stats': True, 'model': 'org/model'}",
        START[2].replace("v0.11.0", "v0.11.2"),
        "Processed prompts: 100%|##| 8/8 [00:08<00:00, 1.00s/it, est. speed input: 100.00 toks/s, output: 50.00 toks/s]",
    ]
    text = report(lines)
    assert "--disable-log-stats" not in text
    assert "`LLM(..., disable_log_stats=False)`" not in text  # The bar shows the load.
    assert "`LLM(..., disable_log_stats=False)`" in report(lines[:2])


EMBEDDING = [
    "INFO 05-01 10:00:01 [utils.py:233] non-default args: {'runner': 'pooling', 'enforce_eager': True, 'model': 'org/embed'}",
    "(EngineCore_DP0 pid=9) INFO 05-01 10:00:10 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: model='org/embed',"
    " dtype=torch.float16, max_seq_len=2048, tensor_parallel_size=1, enforce_eager=True, pooler_config=PoolerConfig(pooling_type='LAST')",
    "(EngineCore_DP0 pid=9) INFO 05-01 10:00:20 [core.py:151] init engine (profile, create kv cache, warmup model) took 3.00 seconds",
]


def test_a_start_alone_is_promised_no_generation_throughput_and_a_model_that_embeds_misses_no_kv_cache() -> (
    None
):
    text = report(EMBEDDING)
    assert "Drop `enforce_eager=True`" in text
    assert "generation throughput" not in text
    assert "KV cache size" not in text
    generating = [line.replace("'runner': 'pooling', ", "").split(", pooler_config")[0] for line in EMBEDDING]
    assert "generation throughput" not in report(generating)
    assert "KV cache size" in report(generating)


def test_a_program_in_python_gets_arguments_and_a_benchmark_gets_flags() -> None:
    text = report(EMBEDDING)
    assert "Drop `enforce_eager=True`" in text
    assert "`--enforce-eager`" not in text
    assert "Launch command" not in text
    command = "$ vllm bench throughput --model org/m --enforce-eager --input-len 128"
    assert "Drop `--enforce-eager`" in report([command, *EMBEDDING])


def test_a_cast_that_the_engine_s_own_type_contradicts_is_none() -> None:
    cast = "WARNING 05-01 10:00:02 [config.py:1454] Casting torch.bfloat16 to torch.float16."
    assert "Weights cast" not in report([START[0], cast, *START[1:]])
    assert "Weights cast" in report(
        [START[0], cast, START[1], START[2].replace("torch.bfloat16", "torch.float16")]
    )


def test_names_in_front_of_lines_may_be_those_of_containers() -> None:
    routes = [f"INFO 05-01 10:00:01 [launcher.py:36] Route: /v{n}, Methods: GET" for n in range(60)]
    text = report([f"serve-1  | {line}" for line in [START[0], *routes, *FAILED_LOAD[1:]]])
    assert "| hosts or containers in line prefixes | serve-1 | [L1] |" in text


def test_an_unsupported_shape_is_not_called_a_regression() -> None:
    """Nothing in the log shows that an earlier release loaded the model."""
    text = report(
        [
            *FAILED_LOAD[:-3],
            '  File "/opt/vllm/model_executor/layers/quantization/utils/marlin_utils.py", line 170, in marlin_permute_scales',
            "    s = s.reshape((-1, len(scale_perm_single)))[:, scale_perm_single]",
            "RuntimeError: shape '[-1, 32]' is invalid for input of size 1",
        ]
    )
    assert "Quantization scales have an unsupported shape" in text
    assert "egression" not in text


NAMESPACE = (
    "INFO 05-01 10:00:01 api_server.py:638] args: Namespace(host='0.0.0.0', port=8000, allowed_origins=['*'], model='org/model',"
    " trust_remote_code=True, max_paddings=256, block_size=16, gpu_memory_utilization=0.9, swap_space=4, max_num_seqs=256)"
)


def test_a_dump_of_all_arguments_without_a_release_does_not_say_that_its_defaults_were_set() -> None:
    config = vllm_logdoctor.analyze([NAMESPACE]).runs[0].config
    explicit = {name for name in config if config.value(name).provenance == "explicit"}
    assert explicit == {"host", "model", "trust_remote_code"}


def test_a_nested_argument_is_shown_as_given_and_several_names_of_a_model_are_all_the_arguments() -> None:
    lines = [
        START[0],
        START[1].replace("'max_model_len': 4096", "'served_model_name': ['fast', 'deep']"),
        START[2].replace("tensor_parallel_size=1", "served_model_name=fast"),
    ]
    text = report(lines)
    assert "| `speculative_config` | `method=mtp, num_speculative_tokens=3` | arguments |" in text
    assert """| `served_model_name` | `["fast", "deep"]` | arguments |""" in text


def test_a_load_that_names_its_quantization_alone_and_one_that_failed_follow_the_engine_s_start() -> None:
    engine = "INFO 06-01 10:00:00 llm_engine.py:161] Initializing an LLM engine (v0.5.0) with config: model='org/m', dtype=torch.float16"
    loaded = [
        engine,
        "INFO 06-01 10:00:02 loader.py:744] Loading weights with BitsAndBytes quantization.  May take a while ...",
        "INFO 06-01 10:00:08 model_runner.py:160] Loading model weights took 5.3128 GB",
        "INFO 06-01 10:00:50 model_runner.py:965] Graph capturing finished in 30 secs.",
        "INFO:     Application startup complete.",
    ]
    phases = {phase.name: phase.seconds for phase in vllm_logdoctor.analyze(loaded).runs[0].phases}
    assert (phases["engine-start"], phases["load-weights"], phases["engine-init"]) == (2, 6, 42)
    failed = vllm_logdoctor.analyze(FAILED_LOAD).runs[0].phases
    assert {phase.name: phase.seconds for phase in failed}["engine-start"] == 10


def test_a_single_time_is_no_length_of_a_run() -> None:
    line = (
        "INFO 07-19 16:09:21 metrics.py:295] Avg prompt throughput: 84.8 tokens/s, Avg generation throughput: 0.1 tokens/s,"
        " Running: 1 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 0.3%, CPU KV cache usage: 0.0%."
    )
    assert "10 s" not in report([line]).split("\n")[2]
    assert "10 s" in report([line, line.replace("16:09:21", "16:09:31")]).split("\n")[2]


def test_a_row_of_a_printed_array_proves_no_cause() -> None:
    lines = [
        "ERROR 02-27 18:50:20 engine.py:389] RuntimeError: Failed to apply OurProcessor on data={'videos': [array([[[0., 0.],",
        "ERROR 02-27 18:50:20 engine.py:389]          [0., 0., 0.],",
        "ERROR 02-27 18:50:20 engine.py:389]          [0., 0., 0.]]])]}",
    ]
    assert "[L2]" not in report(lines)


def test_requests_that_an_excerpt_shows_are_counted() -> None:
    text = report(
        [
            "INFO 02-01 04:31:38 async_llm_engine.py:385] Received request cmpl-1: prompt: None, prefix_pos: None"
        ]
    )
    assert "1 received request and no statistics lines" in text


def test_the_seconds_of_a_slow_reading_are_proved_by_its_own_line_and_divided_unrounded() -> None:
    """A draft model is read from the page cache after the model."""
    lines = [
        "0, NVIDIA H100 80GB HBM3, 81559 MiB, 535.86.10",
        START[0],
        START[1],
        START[2],
        "(EngineCore_DP0 pid=9) INFO 05-01 10:00:11 [weight_utils.py:904] Filesystem type for checkpoints: EXT4. Checkpoint size: 15.30 GiB. Available RAM: 89.61 GiB.",
        "(EngineCore_DP0 pid=9) INFO 05-01 10:02:12 [default_loader.py:268] Loading weights took 120.01 seconds",
        "(EngineCore_DP0 pid=9) Loading safetensors checkpoint shards: 100% Completed | 1/1 [00:00<00:00, 1342.18it/s]",
        "(EngineCore_DP0 pid=9) INFO 05-01 10:02:18 [default_loader.py:268] Loading weights took 5.92 seconds",
        "(EngineCore_DP0 pid=9) INFO 05-01 10:02:19 [gpu_model_runner.py:2653] Model loading took 17.1 GiB and 128.0 seconds",
        "(EngineCore_DP0 pid=9) INFO 05-01 10:02:40 [core.py:210] init engine (profile, create kv cache, warmup model) took 20.00 seconds",
        "INFO:     Application startup complete.",
    ]
    text = report(lines)
    assert "8 to 24 x faster weight loading" in text
    assert "1342" not in text


def test_an_argument_with_the_default_value_is_no_setting_that_was_chosen() -> None:
    lines = [
        "$ vllm serve org/model --port 8000 --max-num-seqs 32",
        "INFO 05-01 10:00:00 [api_server.py:1043] vLLM API server version 0.16.0",
    ]
    text = report(lines)
    assert "| `port` |" not in text
    assert "| `max_num_seqs` | `32` |" in text
    assert "Set to the default value [L1]: `port` `8000`." in text
    assert "`port` `8000`" in report(lines[:1])


def test_an_argument_of_a_wrapped_command_is_cited_by_its_own_line() -> None:
    text = report(["$ vllm serve org/model \\", "  --max-num-seqs 32 \\", "  --port 8123", *START[:1]])
    row = next(line for line in text.splitlines() if line.startswith("| `max_num_seqs`"))
    assert row.endswith("| [L2] |")


def test_a_start_whose_end_is_not_in_the_log_has_no_length() -> None:
    text = report([*START, FAILED_LOAD[len(START)]])
    assert "CUT OFF" in text
    assert "| start-up |" not in text
    assert "**start-up**" not in text


def test_the_share_of_memory_is_read_from_vllm_s_hint_on_graph_memory() -> None:
    lines = [
        START[0],
        "(EngineCore pid=9) INFO 05-01 10:00:49 [gpu_worker.py:470] In v0.19, CUDA graph memory profiling will be enabled by default"
        " (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=1). To try it now, set it and increase --gpu-memory-utilization from 0.5500 to 0.5705.",
    ]
    assert vllm_logdoctor.analyze(lines).runs[0].config.value("gpu_memory_utilization").value == 0.55


TAIL = """(EngineCore pid=260) INFO 06-14 06:08:03 [multiproc_executor.py:139] DP group leader: node_rank=0, world_size=1, local_world_size=1
(Worker pid=273) INFO 06-14 06:08:22 [model_runner.py:274] Loading model from scratch...
(Worker pid=273) INFO 06-14 06:08:57 [model_runner.py:295] Model loading took 7.71 GiB and 35.5 seconds
(EngineCore pid=260) INFO 06-14 06:09:24 [kv_cache_utils.py:1733] GPU KV cache size: 61,424 tokens
(EngineCore pid=260) INFO 06-14 06:09:38 [core.py:309] init engine (profile, create kv cache, warmup model) took 40.40 s
(APIServer pid=240) INFO 06-14 06:09:44 [api_server.py:596] Starting vLLM server on http://127.0.0.1:8001
(APIServer pid=240) INFO:     Application startup complete.
"""
REFUSED = (
    "wait 3 ConnectionError(MaxRetryError(\"HTTPConnectionPool(host='127.0.0.1', port=8001): Max retries exceeded with url: /v1/models "
    "(Caused by NewConnectionError('Failed to establish a new connection: [Errno 111] Connection refused'))\"))\n"
)


def test_a_log_that_begins_in_the_middle_of_a_start_does_not_say_how_long_it_took() -> None:
    text = report(TAIL.splitlines())
    assert "start-up |" not in text
    assert "engine and worker start" not in text
    assert "| weight loading |" in text
    launched = "(APIServer pid=240) INFO 06-14 06:07:40 [api_server.py:1300] vLLM API server version 0.22.0\n"
    assert "| **start-up** |" in report((launched + TAIL).splitlines())


def test_a_program_that_waited_for_the_server_is_no_warning_and_one_that_lost_it_is() -> None:
    assert "did not reach it" not in report(TAIL.replace("(Worker", REFUSED + "(Worker", 1).splitlines())
    assert "did not reach it" in report((TAIL + REFUSED).splitlines())
