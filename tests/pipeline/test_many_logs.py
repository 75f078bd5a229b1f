"""Many logs in one process: what recognises lines is built once; a time limit ends the reading of one log."""

from __future__ import annotations

from tests.tables import for_each
from vllm_logdoctor.pipeline import Analyser, Options, _no_log, analyse
from vllm_logdoctor.run.model import SourceSummary
from vllm_logdoctor.source import Chunk, inputs_from

LINE = b"INFO 07-16 12:29:43 [api_server.py:1289] vLLM API server version 0.8.5\n"


def test_analyses_of_one_thread_share_what_recognises_lines() -> None:
    first, second = Analyser(Options()), Analyser(Options())
    assert second.index is first.index
    assert second.prefilter is first.prefilter


def test_the_pure_python_search_is_not_mixed_up_with_the_fast_one() -> None:
    plain, fast = Analyser(Options(pure_python=True)), Analyser(Options())
    assert not plain.prefilter.is_fast
    assert fast.prefilter is not plain.prefilter


def test_a_second_analysis_gives_what_the_first_one_gave() -> None:
    def read() -> tuple[object, ...]:
        analyser = Analyser(Options())
        analyser.feed(Chunk(analyser.open("vllm.log"), 1, LINE))
        [diagnosis] = analyser.analysis().runs
        return diagnosis.run.version, diagnosis.run.outcome, diagnosis.findings

    assert read() == read()


def test_reading_stops_at_the_time_limit_and_says_so() -> None:
    log = LINE + b"INFO 07-16 12:29:44 [api_server.py:1] hello\n" * 200_000
    analysis = analyse(inputs_from(log), Options(time_limit=0.0, chunk_bytes=1 << 16))
    assert 0 < analysis.coverage.lines < 200_001
    assert len(analysis.runs) == 1
    assert "reading stopped at the time limit of 0 s; what came before is analysed" in analysis.coverage.notes


def test_without_a_time_limit_all_is_read() -> None:
    analysis = analyse(inputs_from(LINE * 3), Options())
    assert analysis.coverage.lines == 3
    assert analysis.coverage.notes == ()


@for_each(
    ("kinds", "said"),
    [
        ([], "no log of vLLM among these files; name the log itself"),
        (["csv"], "no log of vLLM: f0 (csv)"),
        (["csv"] * 3, "no log of vLLM: f0 (csv), f1 (csv), f2 (csv)"),
        (["csv"] * 5, "no log of vLLM: f0 (csv), f1 (csv), f2 (csv) and 2 more"),
        (["report (JSON) of logdoctor"], "no log of vLLM: f0 (report (JSON) of logdoctor); give the log that the report was made of"),
        (["report (JSON) of logdoctor", "csv"], "no log of vLLM: f0 (report (JSON) of logdoctor), f1 (csv)"),
    ],
)  # fmt: skip
def test_files_without_a_log_are_named_with_their_kinds(kinds: list[str], said: str) -> None:
    refused = _no_log([SourceSummary(f"f{n}", 9, 0, "skipped", kind) for n, kind in enumerate(kinds)])
    assert str(refused) == said
    assert refused.exit_code == (3 if "give the log" in said else 4)
