"""What the tests of lines that are read in one step share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from hypothesis import strategies as st

from vllm_logdoctor.events import RequestReader, StatisticsReader
from vllm_logdoctor.pipeline import Analyser, Options
from vllm_logdoctor.report.json import render
from vllm_logdoctor.run.builder import RunBuilder
from vllm_logdoctor.source import Chunk

Drawn = list[tuple[str, int, int, int]]

OTHERS = (
    "INFO 03-01 {clock} [metrics.py:471] Prefix cache hit rate: GPU: {c}%, CPU: 0.00%",
    "({who}) INFO:     10.0.0.1:4000 - \"POST /v1/completions HTTP/1.1\" 200 OK",
    "({who}) ERROR 03-01 {clock} [core.py:700] ValueError: step {n} went wrong",
    "({who}) INFO 03-01 {clock} [logger.py:41] Received request cmpl-{n}: prompt: 'hello', params: SamplingParams(n=1), lora_request: None.",
    "({who}) INFO 03-01 {clock} [api_server.py:1839] vLLM API server version 0.11.0",
    "({who}) INFO:     Finished server process [41]",
)  # fmt: skip


def line_of(shape: str, second: int, seed: int, who: int) -> str:
    minute, rest = divmod(second, 60)
    return shape.format(
        who=("APIServer pid=41", "APIServer_1 pid=42", "EngineCore_DP0 pid=55")[who],
        clock=f"{8 + minute // 60:02d}:{minute % 60:02d}:{rest:02d}",
        engine=seed % 2,
        a=seed * 7 % 900 / 10,
        b=seed * 13 % 900 / 10,
        c=seed * 3 % 1000 / 10,
        n=seed % 50,
        m=seed % 3,
    )


def drawn_lines(shapes: Sequence[str], longest_step: int) -> st.SearchStrategy[Drawn]:
    """Draw (shape, seconds since the last line, seed, who) among shapes of the lane and other lines."""
    return st.lists(
        st.tuples(
            st.sampled_from((*shapes,) * 3 + OTHERS),
            st.integers(0, longest_step),
            st.integers(0, 10_000),
            st.integers(0, 2),
        ),
        max_size=120,
    )


def written(drawn: Drawn, second: int) -> list[str]:
    """Return the lines that were drawn, from a second on; a day's clock starts anew."""
    lines: list[str] = []
    for shape, step, seed, who in drawn:
        second += step
        lines.append(line_of(shape, second % 50_000, seed, who))
    return lines


def report_of(lines: list[str], chunk_lines: int = 10_000) -> str:
    analyser = Analyser(Options())
    number = analyser.open("vllm.log")
    for at in range(0, len(lines), chunk_lines):
        data = "".join(f"{line}\n" for line in lines[at : at + chunk_lines]).encode()
        analyser.feed(Chunk(number, at + 1, data))
    return render(analyser.analysis())


def report_the_regular_way(lines: list[str], reader: type[RequestReader | StatisticsReader]) -> str:
    with patch.object(reader, "read", lambda *line: None):
        return report_of(lines)


@contextmanager
def records_counted() -> Iterator[list[int]]:
    """Collect an entry for each record that a run takes."""
    told: list[int] = []
    long_way = RunBuilder.add

    def counted(self: RunBuilder, record: object, event: object, count: int = 1) -> None:
        told.append(1)
        long_way(self, record, event, count)  # type: ignore[arg-type]

    with patch.object(RunBuilder, "add", counted):
        yield told
