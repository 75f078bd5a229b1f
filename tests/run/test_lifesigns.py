"""Lines that tell of a process: that it died, is up, serves, is done, left its launcher, or goes on."""

from __future__ import annotations

import pytest

from tests.failure.records import framed, records_of, traceback
from tests.tables import for_each
from vllm_logdoctor.catalogue.literal_coverage import uncovered_shape
from vllm_logdoctor.parse import NO_PROCESS, Process, Record
from vllm_logdoctor.run.blocks import Block, blocks_of
from vllm_logdoctor.run.lifecycle import (
    _DEATH,
    _DEATH_WORDS,
    Order,
    actor_writes_on,
    ends_progress,
    has_no_server,
    is_up,
    logs_on,
    program_left_engine,
    program_writes_on,
    says_death,
    serves,
    trail_of,
    was_caught,
    within_engine,
)
from vllm_logdoctor.run.model import Run


def record(
    message: str, level: str = "", site: str = "", line: int = 1, file: int = 0, time: float | None = None, process: Process = NO_PROCESS
) -> Record:  # fmt: skip
    return Record(
        file, line, process, level, time, None, False, (site, 1) if site else None, message, message
    )


def test_every_line_that_the_expression_takes_holds_one_of_its_words() -> None:
    assert uncovered_shape(_DEATH.pattern, list(_DEATH_WORDS)) is None


@pytest.mark.parametrize(
    ("message", "level", "reported"),
    [
        ("Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.", "ERROR", True),
        ("./serve.sh: line 9: 4711 Segmentation fault      (core dumped) vllm serve m", "", True),
        ("error: unrecognized arguments: --fast", "", True),
        ("Worker exited unexpectedly", "WARNING", True),
        ("Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.", "INFO", False),
        ("[0] ras/client_support.cc:160 NCCL WARN Call to bind failed: Address already in use", "", False),
        ("[Errno 98] error while attempting to bind on address: address already in use", "", True),
        ("the parrot of the second chapter died of old age", "", False),
        ("Avg prompt throughput: 1.0 tokens/s", "", False),
    ],
)
def test_death_is_known_by_its_own_words_and_by_no_remark(message: str, level: str, reported: bool) -> None:
    assert says_death(record(message, level)) is reported


def test_the_shell_says_that_native_code_ended_a_command_with_and_without_a_core_file() -> None:
    for words in ("Segmentation fault      (core dumped) vllm serve", "Bus error               vllm serve"):
        assert _DEATH.search(f"./serve.sh: line 9: 124064 {words}")
    for words in ("Terminated              vllm serve", "Killed                  vllm serve"):
        assert not _DEATH.search(f"./serve.sh: line 9: 124064 {words}")


@for_each(
    ("message", "level", "site", "served"),
    [
        # vLLM says so in the modules that handle requests, of a request, its prompt, or what all of them make.
        ("Received request chat-1: params", "INFO", "logger.py", False),
        ("Received request chat-1: params", "INFO", "request_logger.py", True),
        ("Added request chat-1.", "INFO", "entrypoints/request_logger.py", True),
        ("Error in preprocessing prompt inputs", "ERROR", "serving_chat.py", True),
        ("Avg prompt throughput: 0.0 tokens/s", "INFO", "loggers.py", True),
        ("generation throughput of the engine", "INFO", "loggers.py", True),
        ("Detected the chat template content format to be 'string'.", "INFO", "serving.py", True),
        ("Using default sampling params", "INFO", "serving_chat.py", False),
        ("Received request chat-1", "WARNING", "serving.py", False),
        ("Received request chat-1", "INFO", "core.py", False),
        ("Received request chat-1", "INFO", "preserving.py", False),
        # A front end of another program passed a request on and got an answer.
        ("http response sent status=200 latency_ms=14 method=POST uri=/v1/chat/completions", "", "", True),
        ("uri=/v1/embeddings status_code: 201", "", "", True),
        ("uri=/v1/embeddings status_code: 503", "", "", False),
        ('10.0.0.9 - - [01/May/2026:10:00:09 +0000] "POST /v1/completions HTTP/1.1" 200 512', "", "", True),
        ('10.0.0.9 - - [01/May/2026:10:00:09 +0000] "POST /v1/completions HTTP/1.1" 502 512', "", "", False),
        ('10.0.0.9 - - [01/May/2026:10:00:09 +0000] "GET /v1/models HTTP/1.1" 200 512', "", "", False),
        ('10.0.0.9 - - [01/May/2026:10:00:09 +0000] "POST /generate HTTP/1.1" 200 512', "", "", False),
    ],
)  # fmt: skip
def test_who_handles_requests_says_so(message: str, level: str, site: str, served: bool) -> None:
    assert serves(record(message, level, site)) is served


@for_each(
    ("message", "up"),
    [
        ("Application startup complete.", True), ("Uvicorn running on http://0.0.0.0:8000", True), ("Processed prompts:  12%|█", True), ("Avg prompt throughput: 1.0 tokens/s", True),
        ("It took 1.25 seconds to fall asleep.", True), ("It took 1 seconds to wake up tags {'weights'}.", True), ("Sleep mode freed 20 GiB", True), ("EngineCore loop active.", True),
        ("EngineCore waiting for work.", True), ("Waiting for application startup.", False), ("He said: It took 1 seconds to wake up", False), ("Processed prompts: none", False),
    ],
)  # fmt: skip
def test_only_what_is_up_writes_some_messages(message: str, up: bool) -> None:
    assert is_up(message) is up


@for_each(
    ("message", "done"),
    [
        ("Processed prompts: 100%|██████| 8/8", True), ("Adding requests:  100%|████| 8/8", True), ("generated 8 outputs", True),
        ("Processed prompts:  99%|██████| 7/8", False), ("Loading weights: 100%|███| 4/4", False), ("generated many outputs", False),
    ],
)  # fmt: skip
def test_an_offline_run_is_done_when_all_its_prompts_are_answered(message: str, done: bool) -> None:
    assert ends_progress(message) is done


def test_a_launcher_that_goes_on_is_told_from_its_last_twelve_lines() -> None:
    engine = record("Shutting down", "INFO", "core.py")
    for words in (
        "[NbConvertApp] Writing",
        "Exiting",
        "Job finished",
        "Done",
        "All done",
        "Finished processing",
    ):
        assert program_left_engine([engine, record(words), *[record("x")] * 11], offline=False)
        assert not program_left_engine([engine, record(words), *[record("x")] * 12], offline=False)
    assert not program_left_engine([engine, record("Downloading")], offline=False)


@for_each(
    ("words", "left"),
    [
        ("Completed successfully.", True), ("Evaluation finished successfully in 12 min", True), ("python bench.py exited with code 0", True), ("exit status: 0", True),
        ("successfully finished", True), ("exited with code 1", False), ("exit code 0.5", False), ("started successfully", False),
    ],
)  # fmt: skip
def test_a_program_around_an_offline_engine_says_that_it_succeeded(words: str, left: bool) -> None:
    """Behind the last line of the engine: what is above it was said of something else."""
    for engine in (
        record("Shutting down", "INFO", "core.py"),
        record("x", process=Process("Worker", "worker")),
    ):
        assert program_left_engine([engine, record(words)], offline=True) is left
        assert not program_left_engine([engine, record(words)], offline=False)
        assert not program_left_engine([record(words), engine, record("x")], offline=True)
    assert program_left_engine([record(words)], offline=True) is left


def test_a_program_of_its_own_has_the_arguments_of_a_server_and_no_server() -> None:
    main, front = Process("MainProcess"), Process("APIServer", "api-server")
    assert has_no_server(Run(processes=[main]), [record("Loading weights")])
    assert not has_no_server(Run(processes=[]), [])
    assert not has_no_server(Run(processes=[Process("EngineCore")]), [])
    assert not has_no_server(Run(processes=[main, front]), [])
    assert not has_no_server(Run(processes=[main], accesses={("GET", "/health", 200): 1}), [])
    for said in ("Started server process [7]", "Application startup complete."):
        assert not has_no_server(Run(processes=[main]), [record("x"), record(said)])


FAILED = traceback(("lookup", "return registry.lookup(name)"), ends="AttributeError: module 'registry' has no attribute 'lookup'")  # fmt: skip


def said(*lines: tuple[int, str, str]) -> list[Record]:
    """Return lines of vLLM with their numbers, levels and messages."""
    return [record(message, level, "gpu_model_runner.py", line) for line, level, message in lines]


@for_each(
    ("above", "behind", "level", "goes_on"),
    [(1, 3, "INFO", True), (1, 3, "WARNING", True), (1, 2, "INFO", False), (0, 5, "INFO", False), (1, 3, "ERROR", False)],
)  # fmt: skip
def test_vllm_goes_on_where_it_logs_three_lines_behind_an_error_of_a_library(
    above: int, behind: int, level: str, goes_on: bool
) -> None:
    blocks = [blocks_of(records_of("\n" * 9 + "\n".join(FAILED)))[0]]
    lines = [*range(1, 1 + above), *range(90, 90 + behind)]
    assert logs_on(blocks, said(*((line, level, "Loading weights") for line in lines))) is goes_on
    assert not logs_on(blocks, [record("Loading weights", level, line=line) for line in lines])


def block(*lines: str) -> Block:
    return blocks_of(records_of("\n".join(lines)))[0]


def test_an_exception_that_a_program_caught_begins_in_a_function() -> None:
    outermost = ('  File "/opt/app.py", line 3, in <module>', "    main()")
    spawned = (
        '  File "/usr/lib/python3.12/runpy.py", line 198, in _run_module_as_main',
        "    return _run_code()",
    )
    assert was_caught(block(*FAILED))
    assert not was_caught(block(FAILED[0], *outermost, *FAILED[1:]))
    assert not was_caught(block(FAILED[0], *spawned, *FAILED[1:]))
    assert not was_caught(block(*framed("EngineCore pid=9", FAILED)))
    assert not was_caught(block("ValueError: no traceback above it"))


def test_a_program_writes_on_behind_what_it_caught_or_as_it_did_before() -> None:
    engine = "(EngineCore pid=9) INFO 05-01 10:00:00 [core.py:77] Initializing a V1 LLM engine"
    ended = [FAILED[0], '  File "/opt/app.py", line 3, in <module>', "    main()", *FAILED[1:]]

    def writes_on(failed: list[str], above: str, behind: str) -> bool:
        trail = records_of("\n".join([engine, above, *failed]))
        (found,) = blocks_of(trail)
        inside = {id(one) for one in found.records}
        return program_writes_on(found, [*trail, record(behind, line=99)], inside)

    assert writes_on(FAILED, "question 1", "something else")
    assert not writes_on(FAILED, "question 1", "")
    for of_failure in (
        "An error occurred",
        "Aborted",
        "exit 1",
        "+ rm -r /scratch",
    ):
        assert not writes_on(FAILED, "question 1", of_failure)
    assert writes_on(ended, "question 1 of 9 answered", "question 2 of 9 answered")
    assert not writes_on(ended, "question 1 of 9 answered", "something else")
    assert not writes_on(ended, "", "question 2 of 9 answered")


def test_an_actor_writes_on_with_one_line_of_its_own_or_three_usual_ones_of_others() -> None:
    trail = records_of("\n".join(FAILED))
    (found,) = blocks_of(trail)
    other = Process("Worker_TP1", "worker")

    def writes_on(*behind: Record) -> bool:
        return actor_writes_on(found, [*trail, *behind], {id(one) for one in found.records})

    assert writes_on(record("whatever", line=99))
    assert not writes_on(record("", line=99), record(" ", line=99))
    usual = [record(f"step {line}", line=line, process=other) for line in (97, 98, 99)]
    assert writes_on(*usual)
    assert not writes_on(*usual[1:])
    assert not writes_on(*usual[1:], record("Worker exited", line=99, process=other))
    assert not actor_writes_on(found, [*usual, *trail][:2], set())


@for_each(
    ("lines", "within"),
    [
        (framed("EngineCore_DP0 pid=9", FAILED, "x.py:1"), True),
        (framed("Worker_TP1 pid=9", FAILED, "x.py:1"), True),
        (framed("APIServer pid=9", FAILED, "x.py:1"), False),
        (framed("", FAILED, "x.py:1"), False),
        (framed("", FAILED, "core.py:1"), True),
        (framed("", FAILED, "multiproc_executor.py:1"), True),
        (framed("", FAILED, "v1/engine/async_llm.py:1"), True),
        (framed("", FAILED, "score.py:1"), False),
        (framed("", ["AsyncLLM output_handler failed.", *FAILED], "x.py:1"), True),
        (framed("", ["Request failed.", *FAILED], "x.py:1"), False),
        (FAILED, False),
        (traceback(("run_busy_loop", "self.step()"), ends="ValueError: x"), True),
        (traceback(("EngineCore.run_engine_core", "self.step()"), ends="ValueError: x"), True),
        (traceback(("rerun_engine_core", "self.step()"), ends="ValueError: x"), False),
    ],
)
def test_what_the_engine_itself_raised(lines: list[str], within: bool) -> None:
    assert within_engine(block(*lines)) is within


def test_the_trail_has_the_last_lines_of_the_file_once_and_none_of_another_run() -> None:
    kept = [record("start", line=300), record("end", line=400)]
    tail = [record(f"line {line}", line=line) for line in (199, 200, 201, 299, 300, 301, 400, 401)]
    assert [one.line for one in trail_of(Run(records=kept, tail=tail))] == [300, 301, 400, 401]
    assert [one.line for one in trail_of(Run(records=[kept[1]], tail=tail))] == [400, 401]
    far = [record("start", line=1), record("end", line=400)]
    assert [one.line for one in trail_of(Run(records=far, tail=tail))] == [1, 201, 299, 300, 301, 400, 401]
    assert trail_of(Run(records=kept, tail=kept)) == kept
    assert trail_of(Run(records=[], tail=tail)) == tail


def test_records_of_several_files_are_in_order_of_time_where_each_has_a_clock() -> None:
    one = [record("a", file=0, line=1), record("b", file=0, line=2, time=5.0), record("c", file=0, line=3)]
    other = [record("d", file=1, line=1, time=3.0), record("e", file=1, line=2, time=6.0)]
    behind = record("f", file=1, line=3)
    before, elsewhere = record("g", file=1, line=1), record("h", file=0, line=9)
    trail = trail_of(Run(records=[*one, *other], tail=[before, elsewhere, behind]))
    assert [entry.message for entry in trail] == ["d", "a", "b", "c", "e", "f"]
    timeless = record("i", file=2, line=1)
    trail = trail_of(Run(records=[*one, *other, timeless], tail=[]))
    assert [entry.message for entry in trail] == ["a", "b", "c", "d", "e", "i"]


def test_order_is_that_of_lines_in_one_file_and_of_time_among_several() -> None:
    first, second = record("a", line=7), record("b", line=9)
    assert not Order([first, second]).several
    assert Order([first, second]).place(first) == (0, 7)
    other = record("c", file=1, line=1)
    order = Order([other, second])
    assert order.several
    assert [order.place(one) for one in (other, second, first)] == [(0, 0), (0, 1), (0, 2)]
