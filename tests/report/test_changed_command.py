"""The launch command with the changes of a report: what it adds, and what it must leave as the log has it."""

from __future__ import annotations

import vllm_logdoctor
from tests.report.test_true_sentences import FAILED_LOAD, START, report

KEYS = "'compilation_config': {'mode': 3, 'compile_sizes': [2], 'pass_config': {'fuse_allreduce_rms': True, 'fuse_norm_quant': False}}"
FUSION_CRASH = [
    START[0],
    START[1].replace("'max_model_len': 4096", f"'max_model_len': 4096, {KEYS}"),
    START[2].replace("tensor_parallel_size=1", "tensor_parallel_size=2"),
    *FAILED_LOAD[4:6],
    '(EngineCore_DP0 pid=9) ERROR 05-01 10:05:20 [core.py:708]   File "/opt/vllm/compilation/passes/fusion/allreduce_rms_fusion.py", line 90, in call',
    "(EngineCore_DP0 pid=9) ERROR 05-01 10:05:20 [core.py:708] torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
]
OLD_GRAPHS = [
    START[0],
    START[1],
    START[2],
    *FAILED_LOAD[4:6],
    '(EngineCore_DP0 pid=9) ERROR 05-01 10:05:20 [core.py:708]   File "/srv/.cache/vllm/torch_compile_cache/1f2e3d/rank_0_0/inductor_cache/ab/cab.py", line 90, in call',
    "(EngineCore_DP0 pid=9) ERROR 05-01 10:05:20 [core.py:708]     arg0_1, arg1_1 = args",
    "(EngineCore_DP0 pid=9) ERROR 05-01 10:05:20 [core.py:708] ValueError: not enough values to unpack (expected 2, got 1)",
]
NO_KERNEL = [
    START[0],
    START[1].replace("'max_model_len': 4096", "'max_model_len': 4096, 'linear_backend': 'marlin'"),
    START[2],
    *FAILED_LOAD[4:6],
    '(EngineCore_DP0 pid=9) ERROR 05-01 10:05:20 [core.py:708]   File "/opt/vllm/model_executor/kernels/linear/__init__.py", line 57, in choose_scaled_mm_linear_kernel',
    "(EngineCore_DP0 pid=9) ERROR 05-01 10:05:20 [core.py:708]     raise ValueError(",
    "(EngineCore_DP0 pid=9) ERROR 05-01 10:05:20 [core.py:708] ValueError: Failed to find a kernel that can implement the ScaledMM linear layer. Reasons: ",
]
STOPPED = [
    START[0],
    START[1].replace("'max_model_len': 4096", "'max_model_len': 4096, 'enforce_eager': True"),
    START[2].replace("tensor_parallel_size=1", "tensor_parallel_size=1, enforce_eager=True"),
    "Traceback (most recent call last):",
    '  File "/opt/vllm/entrypoints/cli/serve.py", line 58, in cmd',
    "    uvloop.run(run_server(args))",
    "KeyboardInterrupt",
]


def of_release(lines: list[str], version: str) -> list[str]:
    return [line.replace("0.11.0", version) for line in lines]


def test_a_key_of_a_setting_is_changed_beside_the_keys_that_the_user_gave() -> None:
    text = report(of_release(FUSION_CRASH, "0.22.1"))
    command = text.split("## Launch command with the changed settings")[1].split("## ")[0]
    assert '"fuse_allreduce_rms": false' in command
    for kept in ('"compile_sizes": [2]', '"fuse_norm_quant": false', '"mode": 3', "--max-model-len 4096"):
        assert kept in command
    assert "in `--compilation-config`, beside its other keys" in text


def test_a_setting_that_was_not_given_takes_the_new_keys_alone() -> None:
    lines = [line.replace(f", {KEYS}", "") for line in of_release(FUSION_CRASH, "0.22.1")]
    config = "compilation_config={'pass_config': {'fuse_allreduce_rms': True}}, tensor_parallel_size"
    text = report([line.replace("tensor_parallel_size", config) for line in lines])
    command = text.split("## Launch command with the changed settings")[1].split("## ")[0]
    assert """--compilation-config '{"pass_config": {"fuse_allreduce_rms": false}}'""" in command


def test_a_run_that_was_stopped_gets_no_command_with_advice_that_its_report_leaves_out() -> None:
    analysis = vllm_logdoctor.analyze(STOPPED)
    assert "--enforce-eager" not in (analysis.runs[0].plan.command_after or "")
    text = analysis.to_markdown()
    assert text.startswith("# STOPPED")
    assert "What to change" not in text
    assert "Launch command" not in text


def test_of_two_remedies_the_command_makes_the_first_because_the_other_takes_its_place() -> None:
    lines = of_release(NO_KERNEL, "0.26.0")
    text = report(lines)
    assert "Set `VLLM_TEST_FORCE_FP8_MARLIN` to `1`" in text
    for command in (
        text.split("## Launch command with the changed settings")[1].split("## ")[0],
        vllm_logdoctor.analyze(lines).runs[0].plan.command_after or "",
    ):
        assert "--max-model-len 4096" in command
        assert "--linear-backend" not in command
        assert "VLLM_TEST_FORCE_FP8_MARLIN" not in command


def test_a_setting_that_is_to_find_out_more_is_in_no_command() -> None:
    text = report(OLD_GRAPHS)
    assert "VLLM_DISABLE_COMPILE_CACHE" in text
    assert "Launch command" not in text


def test_a_cut_off_start_whose_command_failed_before_is_not_repeated_with_tuning() -> None:
    tuning = "(APIServer pid=1) INFO 05-01 11:00:02 [awq_marlin.py:166] Detected that the model can run with awq_marlin, however you specified quantization=awq explicitly, so forcing awq. Use quantization=awq_marlin for faster inference"
    given = [
        line.replace("'max_model_len': 4096", "'max_model_len': 4096, 'quantization': 'awq'")
        for line in FAILED_LOAD
    ]
    again = [line.replace(" 10:", " 11:") for line in given[:2]]
    assert "## Launch command" in report([*again, tuning])
    assert "Launch command" not in report([*given, *again, tuning]).split("## Run 2")[1]
