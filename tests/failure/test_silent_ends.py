"""Starts that were stopped while they waited, and logs that end without an error: what the last lines let one say."""

from __future__ import annotations

import pytest

from tests.failure.judging import diagnosis, root
from tests.failure.records import START

LOADED = START[0]
CORE = START[1]


def _waiting(stopped: str, *between: str) -> str:
    """Return a start that waits for a placement group at 10:00:30 and is interrupted; the next line with a time follows."""
    lines = [
        LOADED,
        *(
            f"INFO 05-01 10:00:{second} [ray_utils.py:233] Waiting for creating a placement group of specs for {second} seconds."
            " specs=[GPU, GPU]."
            for second in (10, 30)
        ),
        *between,
        "^C",
        "Traceback (most recent call last):",
        '  File "/opt/vllm/executor/ray_utils.py", line 200, in _wait_until_pg_ready',
        "    ready, _ = ray.wait([pg_ready_ref], timeout=wait_interval)",
        "KeyboardInterrupt",
        f"INFO 05-01 {stopped} [ray_distributed_executor.py:127] Shutting down Ray distributed executor.",
    ]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("stopped", "between", "rule"),
    [
        ("10:01:30", (), "ray-not-enough-gpus"),
        ("10:01:29", (), "stopped-by-user-or-script"),  # Less than a minute is no long wait.
        # Lines without a time tell nothing on how long it waited.
        ("10:01:30", ("(autoscaler) nothing to add",), "ray-not-enough-gpus"),
        ("10:01:29", ("(autoscaler) nothing to add",), "stopped-by-user-or-script"),
    ],
)
def test_a_start_that_is_stopped_after_a_minute_of_waiting_was_waiting(
    stopped: str, between: tuple[str, ...], rule: str
) -> None:
    assert root(_waiting(stopped, *between)).id == rule


def test_a_call_of_the_hub_that_failed_before_is_not_where_a_start_was_stopped() -> None:
    handled = [
        f"WARNING 05-01 10:00:01 [config.py:77] {line}"
        for line in (
            "Error retrieving file list: not found, retrying 1 of 2",
            "Traceback (most recent call last):",
            '  File "/opt/vllm/transformers_utils/config.py", line 90, in list_repo_files',
            "    return hf_list_repo_files(repo_id)",
            '  File "/opt/site-packages/huggingface_hub/hf_api.py", line 90, in list_repo_files',
            "    raise HfHubHTTPError(message)",
            "huggingface_hub.errors.HfHubHTTPError: 429 Client Error",
        )
    ]
    stopped = [
        "Traceback (most recent call last):",
        '  File "{place}", line 11, in wait',
        "    events = poller.poll(10000)",
        "KeyboardInterrupt",
    ]

    def ways(place: str) -> str:
        lines = [LOADED, *handled, CORE, *stopped]
        return " ".join(root("\n".join(lines).format(place=place, ranks=1)).alternatives)

    assert "HF_HUB_OFFLINE=1" in ways("/opt/site-packages/huggingface_hub/hf_api.py")
    assert "HF_HUB_OFFLINE=1" not in ways("/opt/vllm/v1/engine/utils.py")


@pytest.mark.parametrize(
    ("settings", "line", "rule"),
    [
        ("tensor_parallel_size=1", "", "cause-not-in-log"),
        ("tensor_parallel_size=2", "", "nccl-p2p-hang"),
        # Ranks of a pipeline show in the lines of NCCL.
        (
            "tensor_parallel_size=1, pipeline_parallel_size=2",
            "INFO 05-01 10:00:01 [pynccl.py:69] vLLM is using nccl==2.27.3",
            "nccl-p2p-hang",
        ),
    ],
)
def test_only_several_ranks_can_wait_for_each_other_before_the_first_token(
    settings: str, line: str, rule: str
) -> None:
    bar = "Processed prompts:   0%|          | 0/8 [00:00<?, ?it/s, est. speed input: 0.00 toks/s, output: 0.00 toks/s]"
    found = diagnosis("\n".join(one for one in (CORE.partition("tensor")[0] + settings, line, bar) if one))
    (first, *_) = found.findings
    assert first.id == rule
    assert found.run.outcome == "truncated"


STALLED = "(EngineCore_DP0 pid=9) INFO 05-01 10:{:02}:00 [shm_broadcast.py:466] No available shared memory broadcast block found in 60 seconds."


@pytest.mark.parametrize(
    ("stalls", "title"),
    [
        (10, "Possibly: Worker did not answer in time (RPC call timed out)"),
        (9, "Log ends before start-up completes"),  # Loading and compiling keep the workers busy, too.
    ],
)
def test_what_a_silent_end_only_may_be_is_called_possible(stalls: int, title: str) -> None:
    lines = [*START, *(STALLED.format(minute) for minute in range(1, stalls + 1))]
    (first, *_) = diagnosis("\n".join(lines).format(ranks=2)).findings
    assert (first.title, first.kind, first.confidence) == (title, "configuration", "low")
    waited = "If it hangs: A worker still computed, waited for another rank, or hung: the message of a wait of 60 s is 10 times in the log."
    assert first.explanation.endswith(waited) is (stalls == 10)


def test_a_start_that_is_stopped_behind_many_waits_for_a_worker_was_waiting_for_it() -> None:
    stop = "(APIServer pid=1) INFO 05-01 10:12:30 [launcher.py:99] Shutting down FastAPI HTTP server."
    lines = [*START, *(STALLED.format(minute) for minute in range(1, 11)), "^C", "KeyboardInterrupt", stop]
    finding = root("\n".join(lines).format(ranks=2))
    assert finding.id == "worker-hang-execute-model-timeout"
    assert finding.explanation.startswith(
        "A worker still computed, waited for another rank, or hung: the message of a wait"
    )


@pytest.mark.parametrize(("behind", "outcome"), [(20, "crashed_at_startup"), (60, "truncated")])
def test_an_error_far_above_the_end_of_a_long_piece_is_not_what_ended_it(behind: int, outcome: str) -> None:
    warnings = [
        f"(EngineCore_DP0 pid=9) WARNING 05-01 10:00:2{1 + number % 8} [tables.py:{number + 9}] Part {'abcdefgh'[number % 8] * 3} of the table is guessed"
        for number in range(behind)
    ]
    error = "(EngineCore_DP0 pid=9) ERROR 05-01 10:00:20 [tables.py:7] The table of experts could not be read"
    assert diagnosis("\n".join([LOADED, CORE, error, *warnings])).run.outcome == outcome
