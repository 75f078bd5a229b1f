"""How a batch job ended, from what PBS and Slurm print."""

from __future__ import annotations

import pytest

from tests.tables import for_each
from vllm_logdoctor.run.job import (
    JobEnd,
    bytes_of_size,
    combined,
    job_end_in_text,
    pbs_job_end,
    shell_job_end,
    slurm_job_end,
)


@pytest.mark.parametrize(
    ("status", "limit", "signal", "exit_status"),
    [
        ("-29", "walltime", None, None),
        ("-27", "memory", None, None),
        ("271", "", 15, None),
        ("137", "", 9, None),
        ("7", "", None, 7),
        ("0", "", None, 0),
        ("", "", None, None),
    ],
)
def test_the_exit_status_of_pbs(status: str, limit: str, signal: int | None, exit_status: int | None) -> None:
    end = pbs_job_end({"Exit_status": status})
    assert (end.limit, end.signal, end.exit_status) == (limit, signal, exit_status)


@pytest.mark.parametrize(
    ("state", "code", "limit", "signal", "exit_status"),
    [
        ("TIMEOUT", "0:0", "walltime", None, 0),
        ("OUT_OF_MEMORY", "0:125", "memory", 125, None),
        ("CANCELLED by 1000", "0:15", "", 15, None),
        ("FAILED", "7:0", "", None, 7),
        ("RUNNING", "0:0", "", None, None),
    ],
)
def test_the_state_of_slurm(
    state: str, code: str, limit: str, signal: int | None, exit_status: int | None
) -> None:
    end = slurm_job_end({"State": state, "ExitCode": code})
    assert (end.limit, end.signal, end.exit_status) == (limit, signal, exit_status)


@pytest.mark.parametrize(
    ("line", "limit"),
    [
        ("=>> PBS: job killed: walltime 35 exceeded limit 30", "walltime"),
        ("=>> PBS: job killed: mem 104857600kb exceeded limit 102400000kb", "memory"),
        (
            "slurmstepd: error: *** JOB 54 ON n1 CANCELLED AT 2025-12-15T23:32:26 DUE TO TIME LIMIT ***",
            "walltime",
        ),
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=54.0. Some of the step tasks have been OOM Killed.",
            "memory",
        ),
    ],
)
def test_the_words_of_the_batch_system(line: str, limit: str) -> None:
    end = job_end_in_text(f"some output\nsrun: Job step aborted: Waiting up to 12 seconds\n{line}\n")
    assert end is not None
    assert end.limit == limit


def test_output_without_such_words_says_nothing() -> None:
    assert job_end_in_text("some output\n") is None


def test_what_two_sources_know_is_put_together() -> None:
    end = combined(shell_job_end(143, "PBS job 1"), JobEnd(limit="walltime", elapsed=7.0, walltime=5.0))
    assert end is not None
    assert (end.signal, end.limit, end.walltime) == (15, "walltime", 5.0)


def test_one_source_alone_is_all_that_is_known() -> None:
    end = shell_job_end(7, "job.sh")
    assert combined(end, None) is combined(None, end) is end
    assert combined(None, None) is None


def test_an_exit_status_above_128_is_a_signal_that_the_shell_of_the_job_saw() -> None:
    end = slurm_job_end({"JobState": "FAILED", "ExitCode": "137:0"})
    assert (end.signal, end.exit_status, end.limit) == (9, None, "")


@for_each(
    ("text", "size"),
    [("5", 5), ("5b", 5), ("5w", 40), ("5k", 5 * 2**10), ("6972kb", 6972 * 2**10), ("4M", 4 * 2**20), ("4G", 4 * 2**30), ("2tb", 2 * 2**41 // 2), ("1p", 2**50), ("2kw", 2**14), ("15.8G", 15 * 2**30), ("n/a", None), ("", None)],
)  # fmt: skip
def test_sizes_as_batch_systems_write_them(text: str, size: int | None) -> None:
    assert bytes_of_size(text) == size


@pytest.mark.parametrize(
    ("status", "signal", "exit_status"),
    [(7, None, 7), (128, None, 128), (129, 1, None), (143, 15, None), (192, 64, None), (193, None, 193), (256, None, 256), (257, 1, None), (271, 15, None), (320, 64, None), (321, None, 321)],
)  # fmt: skip
def test_the_exit_status_of_a_shell(status: int, signal: int | None, exit_status: int | None) -> None:
    found = shell_job_end(status)
    assert (found.signal, found.exit_status) == (signal, exit_status)
