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
