"""An engine that stops: what shows it where its last line is the only one without a token."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rules.making import a_run, advice, load
from tests.tables import for_each
from vllm_logdoctor import analyze
from vllm_logdoctor.api import RunView
from vllm_logdoctor.parse import NO_PROCESS, Record
from vllm_logdoctor.rules.load import Span
from vllm_logdoctor.rules.stalls import silence_behind, stalled
from vllm_logdoctor.run.model import Run, Sample

STALL = "engine-makes-no-progress"
LINE = (
    "INFO 05-18 02:{at} [loggers.py:118] Engine 000: Avg prompt throughput: {prompt} tokens/s, Avg generation throughput: {rate} tokens/s,"
    " Running: 31 reqs, Waiting: 0 reqs, GPU KV cache usage: 12.0%, Prefix cache hit rate: 40.2%"
)
BUSY = LINE.format(at="10:04", prompt=5210.4, rate=88.1)
STILL = LINE.format(at="10:14", prompt=0.0, rate=0.0)
RAISED = (
    "    raise output",
    "vllm.v1.engine.exceptions.RequestError: the engine gave no more output",
)
WAITED = ("    await self.ready.wait()", "asyncio.exceptions.CancelledError")


def error_of_a_request(
    at: str, end: tuple[str, ...] = RAISED, file: str = "output_processor.py"
) -> list[str]:
    """The traceback of a streamed answer whose output came out of the engine's queue."""
    texts = (
        "Error in chat completion stream generator.",
        "Traceback (most recent call last):",
        '  File "/opt/vllm/vllm/entrypoints/openai/serving_chat.py", line 520, in chat_completion_stream_generator',
        "    async for res in result_generator:",
        '  File "/opt/vllm/vllm/v1/engine/async_llm.py", line 320, in generate',
        "    out = q.get_nowait() or await q.get()",
        f'  File "/opt/vllm/vllm/v1/engine/{file}", line 57, in get',
        *end,
    )
    return [f"ERROR 05-18 02:{at} [serving_chat.py:900] {text}" for text in texts]


def only(lines: list[str]) -> RunView:
    (run,) = analyze(lines).runs
    return run


def ids(lines: list[str]) -> list[str]:
    return [one.id for one in only(lines).findings]


def test_running_requests_that_fail_after_minutes_without_a_line_were_in_a_stalled_engine() -> None:
    run = only([BUSY, STILL, *error_of_a_request("15:02")])
    found = next(one for one in run.findings if one.id == STALL)
    assert "For 4 min 58 s, 31 requests ran" in found.explanation
    assert [one.line for one in found.evidence] == [2, 3]
    assert found.confidence == "medium"
    assert run.bottleneck == "none-clear"
    assert any("no token computed" in one.reason for one in run.diagnosis.bottleneck.periods)
    assert "py-spy dump" in run.to_markdown().split("## ")[0]
    assert run.to_markdown().startswith("# LIMITED: Engine stalled")


@pytest.mark.parametrize(
    "behind",
    [
        error_of_a_request("10:21"),
        [BUSY.replace("10:04", "10:24"), *error_of_a_request("15:02")],
        error_of_a_request("15:02", WAITED),
        error_of_a_request("15:02", ("    raise ValueError(text)", "ValueError: too long"), "processor.py"),
        ["INFO:     Shutting down", *error_of_a_request("15:02")],
    ],
    ids=["at-once", "tokens-again", "cancelled", "refused", "while-stopping"],
)
def test_errors_that_say_nothing_of_the_time_before_make_no_stall(behind: list[str]) -> None:
    assert STALL not in ids([BUSY, STILL, *behind])


NONE_RUNS = {"running": 0, "kv": 0.0, "generation": 0.0}


def test_waiting_requests_of_which_none_runs_through_a_last_interval_are_a_stall() -> None:
    samples = load((1, {**NONE_RUNS, "waiting": 9, "generation": 4.0}), (1, {**NONE_RUNS, "waiting": 17}))
    found = advice(a_run(samples=samples))[STALL]
    assert found.title == "Engine stalled: requests wait and none runs"
    assert "up to 17 requests waited, none ran" in found.explanation
    assert found.confidence == "medium"


def test_waiting_requests_of_which_none_runs_for_half_a_minute_are_a_stall_wherever_it_is() -> None:
    samples = load((4, {**NONE_RUNS, "waiting": 9}), (9, {"running": 9, "kv": 4.0}))
    assert "Later lines show tokens again" in advice(a_run(samples=samples))[STALL].explanation


@pytest.mark.parametrize(
    ("samples", "given"),
    [
        (load((1, {"running": 8, "kv": 2.0}), (1, {**NONE_RUNS, "waiting": 17})), {}),
        (load((1, {**NONE_RUNS, "waiting": 9}), (1, {**NONE_RUNS, "waiting": 2})), {}),
        (load((2, {**NONE_RUNS, "waiting": 9}), (3, {"running": 9, "kv": 4.0})), {}),
        (load((2, {**NONE_RUNS, "waiting": 9})), {"kv_transfer_config": {"kv_connector": "NixlConnector"}}),
    ],
    ids=["just-came", "queue-shrinks", "goes-on", "waits-for-another-engine"],
)
def test_a_queue_that_moves_or_has_just_begun_is_no_stall(samples: list, given: dict) -> None:
    assert STALL not in advice(a_run(set=given, samples=samples))


def still(line: int, seconds: float = 10.0, **more: Any) -> Span:
    """Return a statistics line without a token."""
    figures: dict[str, Any] = {"running": 8, "waiting": 0, "kv_usage": 12.0, "engine": 0, "prompt": 0.0, "generation": 0.0, **more}  # fmt: skip
    return Span(Sample(100.0 + 10 * line, line, **figures), seconds)


def moving(line: int, **more: Any) -> Span:
    return still(line, generation=9.0, **more)


def lines_of(spans: list[Span], run: Run | None = None) -> list[int]:
    return sorted(line for _, line in stalled(run or a_run(), spans))


@for_each(
    ("spans", "lines"),
    [
        # Four lines and half a minute in which nothing changes.
        ([*map(still, range(4)), moving(4)], [0, 1, 2, 3]),
        ([*map(still, range(3)), moving(3)], []),
        ([*(still(n, 7.5) for n in range(4)), moving(4)], [0, 1, 2, 3]),
        ([*(still(n, 7.4) for n in range(4)), moving(4)], []),
        ([still(0), still(1), still(2, kv_usage=12.1), still(3, kv_usage=12.1), moving(4)], []),
        ([still(0), still(1), still(2, running=7), still(3, running=7), moving(4)], []),
        ([still(0), still(1), moving(2), still(3), still(4), moving(5)], []),
        ([*(still(n, prompt=5.0) for n in range(4)), moving(4)], []),
        ([*(still(n, running=0) for n in range(4)), moving(4)], []),
        ([*(still(n, running=0, waiting=3) for n in range(4)), moving(4)], [0, 1, 2, 3]),
        ([*(still(n, running=0, waiting=3, swapped=1) for n in range(4)), moving(4)], []),
        # Each engine is a series of its own.
        ([one for n in range(4) for one in (still(2 * n), moving(2 * n + 1, engine=1))], [0, 2, 4, 6]),
        ([still(n, engine=n % 2) for n in range(6)], []),
    ],
)
def test_nothing_moves_for_four_lines_and_half_a_minute(spans: list[Span], lines: list[int]) -> None:
    assert lines_of(spans) == lines


@for_each(
    ("spans", "lines"),
    [
        ([still(0, running=0, waiting=3), still(1, running=0, waiting=3)], [1]),
        ([still(0, running=0, waiting=3), still(1, running=0, waiting=9)], [1]),
        ([still(0, running=0, waiting=4), still(1, running=0, waiting=3)], []),
        ([moving(0, running=0, waiting=3), still(1, running=0, waiting=3)], [1]),
        ([still(0, running=0, waiting=3)], []),
        ([still(0), still(1, running=0, waiting=3)], []),
        ([still(0, running=0, waiting=3), still(1, running=0, waiting=3, swapped=1)], []),
    ],
)
def test_a_queue_that_does_not_shrink_in_the_last_interval_stands(
    spans: list[Span], lines: list[int]
) -> None:
    assert [line for line in lines_of(spans) if line] == lines


def behind(seconds: float, line: int = 2, level: str = "ERROR", file: int = 0) -> list[Record]:
    """Return the error of a running request, so many seconds behind the second line of statistics."""
    return [
        Record(file, line + number, NO_PROCESS, level, 110.0 + seconds, None, False, ("serving_chat.py", 900), text, text)
        for number, text in enumerate(one.partition("] ")[2] for one in error_of_a_request("15:02"))
    ]  # fmt: skip


@for_each(
    ("records", "seconds"),
    [
        (behind(30.0), 30.0), (behind(29.9), None), (behind(40.0, level="CRITICAL"), 40.0), (behind(40.0, level="WARNING"), None), (behind(40.0, line=-9), None),
        (behind(40.0, line=0, file=1), 40.0), (behind(5.0)[:1] + behind(40.0, line=3), None),
    ],
)  # fmt: skip
def test_an_error_of_a_running_request_ends_a_silence_of_half_a_minute(
    records: list[Record], seconds: float | None
) -> None:
    run = a_run()
    run.records = records
    found = silence_behind(run, [moving(0), still(1)])
    assert (found.seconds if found else None) == seconds
    assert found is None or found.failed
    assert silence_behind(run, [still(0), moving(1)]) is None
    assert silence_behind(run, [moving(0), still(1, running=0, waiting=3)]) is None
    assert silence_behind(run, []) is None
    assert lines_of([moving(0), still(1)], run) == ([1] if seconds else [])
