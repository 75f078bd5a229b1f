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
    assert "| waiting for Ray's placement group | 10:00:10 | 30 min 10 s |" in text
    assert "not explained" not in text


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
    assert "GPU model" in report(FAILED_LOAD)
    assert "GPU model" not in report([listed, *FAILED_LOAD])


def test_an_offline_engine_is_not_asked_to_drop_a_flag_of_the_server() -> None:
    lines = [
        "INFO 05-01 10:00:01 [utils.py:233] non-default args: {'disable_log_stats': True, 'model': 'org/model'}",
        START[2],
        "Processed prompts: 100%|##| 8/8 [00:08<00:00, 1.00s/it, est. speed input: 100.00 toks/s, output: 50.00 toks/s]",
    ]
    text = report(lines)
    assert "--disable-log-stats" not in text
    assert "`LLM(..., disable_log_stats=False)`" in text


EMBEDDING = [
    "INFO 05-01 10:00:01 [utils.py:233] non-default args: {'runner': 'pooling', 'enforce_eager': True, 'model': 'org/embed'}",
    "(EngineCore_DP0 pid=9) INFO 05-01 10:00:10 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: model='org/embed',"
    " dtype=torch.float16, max_seq_len=2048, tensor_parallel_size=1, enforce_eager=True, pooler_config=PoolerConfig(pooling_type='LAST')",
    "(EngineCore_DP0 pid=9) INFO 05-01 10:00:20 [core.py:151] init engine (profile, create kv cache, warmup model) took 3.00 seconds",
]


def test_a_model_that_embeds_is_promised_no_generation_throughput_and_misses_no_kv_cache() -> None:
    text = report(EMBEDDING)
    assert "Drop `--enforce-eager`" in text
    assert "generation throughput" not in text
    assert "KV cache size" not in text
    generating = [line.replace("'runner': 'pooling', ", "").split(", pooler_config")[0] for line in EMBEDDING]
    assert "generation throughput" in report(generating)
    assert "KV cache size" in report(generating)


def test_what_a_flag_is_in_python_is_said_where_a_flag_is_named() -> None:
    text = report(EMBEDDING)
    assert "In Python, a flag is an argument of `LLM(...)`: `--enforce-eager` is `enforce_eager`." in text
    assert "Launch command" not in text
    assert "In Python" not in report([line.replace("True", "False") for line in EMBEDDING])


def test_a_cast_that_the_engine_s_own_type_contradicts_is_none() -> None:
    cast = "WARNING 05-01 10:00:02 [config.py:1454] Casting torch.bfloat16 to torch.float16."
    assert "Weights cast" not in report([START[0], cast, *START[1:]])
    assert "Weights cast" in report(
        [START[0], cast, START[1], START[2].replace("torch.bfloat16", "torch.float16")]
    )


def test_names_in_front_of_lines_may_be_those_of_containers() -> None:
    routes = [f"INFO 05-01 10:00:01 [launcher.py:36] Route: /v{n}, Methods: GET" for n in range(60)]
    text = report([f"serve-1  | {line}" for line in [START[0], *routes, *FAILED_LOAD[1:]]])
    assert "| hosts or containers | serve-1 |" in text


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
