"""Results that `vllm bench` prints into the log it loads: blocks of figures, read line by line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from vllm_logdoctor.events import Event
from vllm_logdoctor.run.launches import asked_of
from vllm_logdoctor.run.model import Benchmark, Evidence
from vllm_logdoctor.run.repr_parser import read_pairs

_ASKED = (
    "model", "backend", "dataset_name", "num_prompts", "random_input_len", "random_output_len", "random_range_ratio",
    "request_rate", "max_concurrency", "burstiness", "ignore_eos",
)  # fmt: skip
"""Arguments of the client that say what it sent."""
_BLOCK_LINES = 120
_MOST = 500


class _OpenTable(Struct):
    kind: str
    file: int
    line: int
    first: Evidence
    last: Evidence
    figures: dict[str, float] = field(default_factory=dict)


class BenchmarkReader:
    """Collects results; figures count only behind the head of a result, so that a prompt that quotes one changes nothing."""

    def __init__(self) -> None:
        self._found: list[Benchmark] = []
        self._open: _OpenTable | None = None
        self._asked: dict[str, str | float] = {}
        self._asked_in: tuple[Evidence, ...] = ()

    def add(self, event: Event, evidence: Evidence) -> None:
        """Take a line of a result."""
        record = event.record
        if record.level:
            return
        if event.name == "benchmark-arguments":
            self._close()
            self._asked = _asked(read_pairs(event.text("arguments")))
            self._asked_in = (evidence,)
        elif event.name == "benchmark-serving-begins":
            self._close()
            self._open = _OpenTable("serve", record.file, record.line, evidence, evidence)
        elif event.name == "benchmark-figure":
            self._note("serve", event, evidence, {event.text("label"): event.number("value")}, starts=False)
        elif event.name == "benchmark-throughput":
            self._close()
            names = {"requests": "requests/s", "total": "total tokens/s", "output": "output tokens/s"}
            figures = {words: event.number(name) for name, words in names.items()}
            self._note("throughput", event, evidence, figures, starts=True)
            self._close()
        else:
            which = "average" if event.text("average") else f"p{int(event.number('percentile') or 0)}"
            figures = {f"{which} latency (s)": event.number("seconds")}
            self._note("latency", event, evidence, figures, starts=True)

    def results(self, commands: Sequence[Evidence] = ()) -> list[Benchmark]:
        """Return the results so far, the open one as well; what the client did not print of its load, the command before it says."""
        found = list(self._found)
        if self._open is not None and self._open.figures:
            found.append(self._result(self._open))
        last = 0
        for position, one in enumerate(found):
            first = one.evidence[0]
            before = [line for line in commands if line.file == first.file and last < line.line < first.line]
            if before and one.kind == "serve" and not one.asked:
                found[position] = replace(
                    one, asked=_asked(asked_of(before[-1].text)), evidence=(before[-1], *one.evidence)
                )
            last = one.evidence[-1].line
        return found

    def _note(
        self, kind: str, event: Event, evidence: Evidence, figures: dict[str, float | None], starts: bool
    ) -> None:
        record, block = event.record, self._open
        if block is not None:
            same = (block.kind, block.file) == (kind, record.file)
            block = block if same and record.line - block.line <= _BLOCK_LINES else None
        if block is None:
            if not starts:
                return
            self._close()
            block = self._open = _OpenTable(kind, record.file, record.line, evidence, evidence)
        printed = {name: value for name, value in figures.items() if value is not None}
        block.figures.update({name: value for name, value in printed.items() if math.isfinite(value)})
        block.last = evidence

    def _close(self) -> None:
        if self._open is not None and self._open.figures and len(self._found) < _MOST:
            self._found.append(self._result(self._open))
        self._open = None

    def _result(self, block: _OpenTable) -> Benchmark:
        """Return a result with the requested load."""
        lines = (block.first,) if block.first == block.last else (block.first, block.last)
        asked = self._asked if block.kind == "serve" else {}
        return Benchmark(block.kind, dict(block.figures), (*(self._asked_in if asked else ()), *lines), asked)  # type: ignore[arg-type]


def _asked(given: Mapping[str, Any]) -> dict[str, str | float]:
    """Return the arguments that say what a client sent; those that sample a fixed data set have no lengths."""
    random = given.get("dataset_name") == "random"
    return {
        name: given[name]
        for name in _ASKED
        if isinstance(given.get(name), str | int | float) and (random or not name.startswith("random_"))
    }
