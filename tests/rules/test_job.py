"""The batch job that a run was a part of."""

from __future__ import annotations

import pytest

from tests.rules.making import a_run
from vllm_logdoctor.rules.bottleneck import bottleneck_of
from vllm_logdoctor.rules.context import rule_context
from vllm_logdoctor.rules.job import RULES, job_killed_at_limit
from vllm_logdoctor.rules.load import load_of
from vllm_logdoctor.rules.rule import Advice
from vllm_logdoctor.run.job import JobEnd


def advised(job: JobEnd | None) -> Advice | None:
    run = a_run(job=job, phases=(("startup", 1500.0),))
    return job_killed_at_limit(rule_context(run, load_of(run), bottleneck_of(run), "balanced"))


def test_a_job_at_its_walltime_says_how_much_of_it_the_start_took() -> None:
    found = advised(JobEnd(limit="walltime", elapsed=3600.0, walltime=3600.0))
    assert found is not None
    assert found.explanation == "Killed at the walltime after 1 h of 1 h; start-up took 25 min of them."
    assert next(iter(found.changes)).knob.startswith("shorten the start-up")


def test_a_job_at_its_memory_limit_says_what_it_used() -> None:
    found = advised(JobEnd(limit="memory", memory=64 << 30, used_memory=64 << 30))
    assert found is not None
    assert found.title == "Job killed at its memory limit"
    assert "64.0 GiB of 64.0 GiB of host memory" in found.explanation


@pytest.mark.parametrize("job", [None, JobEnd(exit_status=0), JobEnd(signal=9)])
def test_a_job_that_ended_otherwise_reached_no_limit(job: JobEnd | None) -> None:
    assert advised(job) is None


def test_the_finding_has_its_page() -> None:
    assert [rule.page.id for rule in RULES] == ["job-killed-at-limit"]
