"""The platform that a log shows rules its advice: PyTorch names devices of ROCm "CUDA", and so do texts of other platforms' errors."""

from __future__ import annotations

import re

import pytest

from tests.corpus.snapshot import LOGS, SMALL_LOGS, report_of
from tests.tables import for_each
from vllm_logdoctor import Report, analyze

OF_CUDA = re.compile(
    r"\b(?:builds?|built|wheels?|install\w*)\b[^.]*\bCUDA\b|CUDA_HOME|\bnvcc\b|\bnvidia-smi\b"
)
OF_EVERY_PLATFORM = re.compile(r"ROCm|HIP")


def steps_for_cuda(report: Report) -> list[str]:
    """Return the steps of runs on other platforms that install or set up something of CUDA."""
    steps = [
        step
        for one in report.analysis.runs
        if one.run.platform not in (None, "cuda") and one.run.kind != "build"
        for finding in one.findings
        for step in (*finding.alternatives, *(f"{change.knob} {change.after}" for change in finding.changes))
    ]
    return [step for step in steps if OF_CUDA.search(step) and not OF_EVERY_PLATFORM.search(step)]


@for_each("name", LOGS)
def test_no_step_for_a_fixture_of_another_platform_sets_up_cuda(name: str) -> None:
    assert steps_for_cuda(report_of(name)) == []


@pytest.mark.parametrize("area", SMALL_LOGS)
def test_no_step_for_a_small_log_of_another_platform_sets_up_cuda(area: str) -> None:
    logs = re.split(r"^§ .*\n", SMALL_LOGS[area].read_text(), flags=re.MULTILINE)[1:]
    assert [step for log in logs for step in steps_for_cuda(analyze(log.encode(), year=2025))] == []
