"""A log that means harm costs itself: time and memory stay in proportion, and the other files are reported."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from vllm_logdoctor import results, streams
from vllm_logdoctor.parse import RecordParser
from vllm_logdoctor.parse.clock import with_year_of
from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.report.json import render
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.run import segments
from vllm_logdoctor.run.builder import RunBuilder
from vllm_logdoctor.run.sampling import RecordBudget, RecordSampler
from vllm_logdoctor.scan import WantedLine
from vllm_logdoctor.source import Input
from vllm_logdoctor.source.unwrap import unwrapped

VERSION = "(APIServer pid={pid}) INFO 03-01 08:00:{second:02d} [api_server.py:1839] vLLM API server version 0.11.0\n"
STATISTICS = (
    "(APIServer pid=1) INFO 03-01 08:01:{second:02d} [loggers.py:127] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 91.2 "
    "tokens/s, Running: {running} reqs, Waiting: 4 reqs, GPU KV cache usage: 99.9%, Prefix cache hit rate: 33.2%\n"
)


def analysed(*logs: str, **options: object) -> Analysis:
    inputs = [Input(f"job-{number}.log", data=log.encode()) for number, log in enumerate(logs)]
    return analyse(inputs, Options(**options))  # type: ignore[arg-type]


def wrapped_log(rows: int) -> bytes:
    """Return a copy of a terminal of 100 columns whose last record never ends."""
    head = "INFO 07-16 12:29:43 [api_server.py:1289] args: Namespace(" + "a" * 93
    return f"{head[:100]}\n{head[100:]}\n".encode() * 400 + (b"x" * 99 + b"y\n") * rows


def test_a_record_that_is_wrapped_without_an_end_is_cut() -> None:
    data = wrapped_log(9_000)
    out = b"".join(unwrapped([data[at : at + 50_000] for at in range(0, len(data), 50_000)]))
    assert max(map(len, out.split(b"\n"))) < 300_000
    assert out.count(b"\n") == data.count(b"\n")


@pytest.mark.parametrize("size", [1, 64, 999, 100_000])
def test_rows_are_joined_alike_wherever_blocks_are_cut(size: int) -> None:
    data = wrapped_log(30) + b"z" * 5_000 + b"\nINFO 07-16 12:29:43 [a.py:1] text\n" + b"w" * 2_000
    first = data[:90_000]  # The width follows from the first block.
    blocks = [first, *(data[at : at + size] for at in range(len(first), len(data), size))]
    assert b"".join(unwrapped(blocks)) == b"".join(unwrapped([data]))


def test_a_wrapper_at_the_end_of_time_leaves_a_time_without_year_alone() -> None:
    last = 252_455_615_999.9  # 9999-12-31T23:59:59.9
    assert with_year_of(100.0, last * 10) == 100.0
    assert analysed("9999-12-31T23:59:59.999999999Z " + VERSION.format(pid=1, second=1)).runs


def test_a_figure_below_zero_is_not_known() -> None:
    log = (
        VERSION.format(pid=1, second=1)
        + STATISTICS.format(second=1, running=64)
        + STATISTICS.format(second=11, running=-1)
    )
    found = analysed(log)
    assert [sample.running for sample in found.runs[0].run.samples] == [64, None]


def test_who_answers_does_not_depend_on_chunks_where_a_server_ends_later() -> None:
    log = (
        VERSION.format(pid=1, second=1)
        + "(APIServer pid=1) INFO 03-01 08:00:02 [utils.py:233] non-default args: {'model': 'org/a', 'port': 8000}\n"
        + VERSION.format(pid=2, second=3)
        + "(APIServer pid=2) INFO 03-01 08:00:04 [utils.py:233] non-default args: {'model': 'org/b', 'port': 8001}\n"
        + 'INFO:     10.0.0.1:43888 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error\n'
        + "INFO:     Finished server process [1]\n"
    )
    whole = render(analysed(log))
    assert all(render(analysed(log, chunk_bytes=size)) == whole for size in (1, 50, 300))


def test_processes_are_listed_up_to_a_number_and_the_coverage_says_so() -> None:
    lines = [f"(Worker_{n:x}q pid={n}) INFO 03-01 08:00:01 [gpu_worker.py:7] text\n" for n in range(1, 2_500)]
    found = analysed(VERSION.format(pid=1, second=1) + "".join(lines))
    assert len(found.runs[0].run.processes) == 2_000
    assert results.PROCESSES_LEFT_OUT in found.coverage.notes


def test_claims_of_processes_are_bounded() -> None:
    with patch.object(segments, "_MOST_CLAIMS", 5):
        segmenter = segments.Segmenter(["vllm.log"])
        parser = RecordParser()
        for number in range(20):
            for record in parser.parse(WantedLine(0, number, VERSION.format(pid=number, second=1).encode())):
                segmenter.add(record, None)
    assert len(list(segmenter._by_pid.owners())) == 5


def test_runs_share_a_budget_of_records() -> None:
    budget = RecordBudget(500)
    samplers = [RecordSampler(budget) for _ in range(20)]
    (record,) = RecordParser().parse(WantedLine(0, 1, VERSION.format(pid=1, second=1).encode()))
    for sampler in samplers:
        for _ in range(2_000):
            sampler.add(record, serious=True)
    kept = [len(sampler.records()) for sampler in samplers]
    assert sum(kept) <= 500 + 20 * 3 * 80
    assert all(sampler.left_out + number == 2_000 for sampler, number in zip(samplers, kept, strict=True))


def test_runs_beyond_the_limit_are_counted_by_outcome_and_their_failures_named() -> None:
    with patch.object(results, "MOST_RUNS_IN_DETAIL", 3):
        found = analysed(*(VERSION.format(pid=number, second=1) for number in range(1, 9)))
    assert len(found.runs) == 3
    assert any(
        note.startswith("5 more runs were analysed and only counted: 5 ") for note in found.coverage.notes
    )


def test_files_beyond_the_limit_are_one_entry() -> None:
    with patch.object(results, "_MOST_SOURCES", 2):
        found = analysed(*(VERSION.format(pid=number, second=1) for number in range(1, 6)))
    assert [source.file for source in found.sources] == ["job-0.log", "job-1.log", "(3 more files)"]
    assert found.sources[-1].lines == 3


def test_a_file_on_which_the_program_fails_costs_itself_and_is_named() -> None:
    add = RunBuilder.add

    def failing(self: RunBuilder, record: object, event: object, count: int = 1) -> None:
        if "poison" in record.message:  # type: ignore[attr-defined]
            raise ZeroDivisionError("no")
        add(self, record, event, count)  # type: ignore[arg-type]

    poisoned = VERSION.format(pid=1, second=1) + "ERROR 03-01 08:00:02 [a.py:1] poison\n"
    with patch.object(RunBuilder, "add", failing):
        found = analysed(VERSION.format(pid=1, second=1), poisoned, VERSION.format(pid=2, second=1))
    assert len(found.runs) == 3
    assert [note for note in found.coverage.notes if "job-1.log" in note and "ZeroDivisionError" in note]


def test_a_run_that_can_not_be_judged_costs_itself() -> None:
    judge = results.diagnosed

    def failing(run: object, objective: str) -> object:
        if run.first_file == "job-0.log":  # type: ignore[attr-defined]
            raise OverflowError("no")
        return judge(run, objective)  # type: ignore[arg-type]

    with patch.object(results, "diagnosed", failing):
        found = analysed(VERSION.format(pid=1, second=1), VERSION.format(pid=2, second=1))
    assert [one.run.first_file for one in found.runs] == ["job-1.log"]
    assert any("OverflowError" in note for note in found.coverage.notes)


def test_beyond_a_number_of_kinds_lines_without_known_text_are_counted_and_the_last_ones_read() -> None:
    letters = "ghijklmnop"
    words = ["".join(letters[int(digit)] for digit in f"{number:04}") for number in range(300)]
    log = VERSION.format(pid=1, second=1) + "".join(
        f"(APIServer pid=1) ERROR 03-01 08:00:02 [x.py:7] {word} fails\n" for word in words
    )
    with patch("vllm_logdoctor.scan.line_selection._MOST_KINDS", 100):
        found = analysed(log)
    [note] = found.coverage.notes
    assert note.startswith("81 lines without known text")
    assert words[-1] in render(found)


@pytest.mark.parametrize("line", ["INFO 03-01 08:00:02 [utils.py:233] non-default args: {{'model': 'org/{0}', '{0}': 1}}\n",
    "({0} pid=1) " + STATISTICS[18:].format(second=7, running=1)])  # fmt: skip
def test_of_starts_and_statistics_the_first_kinds_are_read_and_no_failure_is_lost(line: str) -> None:
    words = ["".join("ghijklmnop"[int(digit)] for digit in f"{number:04}") for number in range(300)]
    broken = "(EngineCore_DP0 pid=9) ERROR 03-01 08:00:09 [core.py:708] torch.OutOfMemoryError: CUDA out of memory.\n"
    end = "INFO 03-01 08:00:10 [a.py:1] text\n" * 80
    log = VERSION.format(pid=1, second=1) + "".join(map(line.format, words)) + broken + end
    with patch("vllm_logdoctor.scan.line_selection._MOST_KINDS", 100):
        found = analysed(log)
        assert render(found) == render(analysed(log, chunk_bytes=999))
    [note] = found.coverage.notes
    assert note.startswith("201 lines without known text, or of starts and statistics")
    assert any("out of memory" in record.message for one in found.runs for record in one.run.records)


def test_starts_beyond_any_number_that_a_server_reaches_are_not_read_and_the_coverage_says_so() -> None:
    pair = VERSION + "(APIServer pid={pid}) INFO:     Finished server process [{pid}]\n"
    log = "".join(pair.format(pid=number + 1, second=number) for number in range(5))
    with patch.object(streams, "_MOST_STARTS", 3):
        analysis = analysed(log + "(APIServer pid=5) ERROR 03-01 08:00:09 [core.py:1] boom\n")
    assert len(analysis.runs) == 3
    assert any(note.startswith("2 lines") and note.endswith("not read") for note in analysis.coverage.notes)
