"""How a run ended, in words: what its batch system says goes before what the log shows."""

from __future__ import annotations

import pytest

from vllm_logdoctor.report.naming import how_it_ended
from vllm_logdoctor.run.job import JobEnd
from vllm_logdoctor.run.model import Run


@pytest.mark.parametrize(
    ("outcome", "job", "words"),
    [
        ("clean_shutdown", None, "clean shutdown"),
        ("clean_shutdown", JobEnd(), "clean shutdown"),
        ("clean_shutdown", JobEnd(exit_status=3), "clean shutdown (job's exit status 3)"),
        ("clean_shutdown", JobEnd(exit_status=0), "clean shutdown"),
        ("clean_shutdown", JobEnd(signal=15), "stopped (job ended by signal 15)"),
        ("killed", JobEnd(signal=9), "killed (job ended by signal 9)"),
        ("killed", JobEnd(limit="memory", signal=9), "killed at the memory limit of its job"),
        ("killed", JobEnd(limit="node failure"), "killed by a failure of its node"),
        ("killed", JobEnd(limit="walltime"), "killed at the walltime"),
        ("killed", JobEnd(limit="walltime", elapsed=7210.0), "killed at the walltime after 2 h"),
        ("killed", JobEnd(limit="walltime", elapsed=7210.0, walltime=7200.0), "killed at the walltime after 2 h of 2 h"),
        ("killed", JobEnd(limit="walltime", walltime=7200.0), "killed at the walltime"),
        # What broke in the server ended it, whatever the batch system did then.
        ("crashed_while_serving", JobEnd(limit="walltime"), "crashed while serving"),
        ("crashed_while_serving", JobEnd(exit_status=1), "crashed while serving (job's exit status 1)"),
    ],
)  # fmt: skip
def test_a_run_ends_as_its_job_says(outcome: str, job: JobEnd | None, words: str) -> None:
    run = Run(kind="server", outcome=outcome)  # type: ignore[arg-type]
    run.job = job
    assert how_it_ended(run) == words
