"""Snapshots of reports without their prose: headings, figures, citations, code, tables, and the sentences in each line.

`python -m tests.corpus.snapshot` writes them anew below `tests/corpus/snapshots/`, after a change that is meant: read
the difference before it is committed.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from tests.failure.judging import examples
from vllm_logdoctor import Report, analyze, compare, verify
from vllm_logdoctor.report.terminal import print_analysis
from vllm_logdoctor.report.writers import render

HERE = Path(__file__).parent
FIXTURES = HERE.parents[1] / "fixtures"
SNAPSHOTS = HERE / "snapshots"
LOGS = {
    path.stem: path
    for folder in (FIXTURES, HERE.parent / "rules" / "logs")
    for path in sorted(folder.glob("*.log"))
}
SMALL_LOGS = {path.stem: path for path in sorted((HERE / "small_logs").glob("*.txt"))}
"""By area, logs of a few lines, each below its name: together they reach most branches of that area."""
EXAMPLES = "examples-of-rule-pages"
DOCUMENTS = "documents-beside-the-report"
COMPARED = [
    "vllm-0.11.2-kv-starved", "vllm-0.32.0-kv-starved", "vllm-0.32.0-prefix-cache-off", "vllm-0.32.0-prefix-cache", "vllm-0.32.0-spec-ngram",
    "vllm-0.32.0-offline-batch", "vllm-0.8.5-healthy-serve", "vllm-0.32.0-kill-worker-tp2", "gpt-oss-gb10", "gpt-oss-two-cards",
]  # fmt: skip
"""Logs that are compared, each with the next one; every third is written in other formats."""
KEPT = re.compile(
    r"^(?:\d+\.|-)(?= )"  # an item of a list
    r"|`[^`]+`"  # code
    r"|\[L\d[^\]]*\]"  # a citation
    r"|(?<![\w-])[-+]?\d[\d,.:]*(?<=\d)(?: ?%)?"  # a figure
    r"|\.(?=\s|$)"  # the end of a sentence
)
COLOUR_OR_KEPT = re.compile(rf"\x1b\[[\d;]*m|[▁-█]+|{KEPT.pattern}")
WORDS_OF_A_CELL = 4


@cache
def report_of(name: str) -> Report:
    """Return the report of a log by the name of its file; bytes have neither a path nor a date of their own."""
    return analyze(LOGS[name].read_bytes(), year=2025)


def without_prose(page: str) -> str:
    """Return a page in Markdown without its prose, line by line."""
    lines, code = [], False
    for line in page.splitlines():
        if line.startswith("```"):
            code = not code
            lines.append(line)
        elif code or line.startswith("#"):
            lines.append(line)
        elif line.startswith("|"):
            lines.append("|".join(map(_cell, line.split("|"))))
        elif line:
            lines.append(" ".join(KEPT.findall(line)) or "~")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text if len(text.split()) <= WORDS_OF_A_CELL else " ".join(KEPT.findall(text))


def of_report(report: Report) -> str:
    """Return the outcome of each run and the page without its prose."""
    outcomes = ", ".join(run.outcome for run in report.runs)
    return f"outcome: {outcomes}\n{without_prose(report.to_markdown())}"


def of_small_logs(area: str) -> str:
    """Return the snapshots of the small logs of an area, each below the log's name."""
    text = SMALL_LOGS[area].read_text()
    logs = [part.partition("\n") for part in re.split(r"^§ ", text, flags=re.MULTILINE)[1:]]
    return "\n".join(f"§ {name}\n{of_report(analyze(log.encode(), year=2025))}" for name, _, log in logs)


def of_examples() -> str:
    """Return the outcome, the head and the findings of the example of each rule page, one below the other."""
    parts = []
    for name, text in sorted(examples().items()):
        report = analyze(text.encode())
        run = report.runs[0]
        head = re.split(r"^(?:##|1\.) ", report.to_markdown(), maxsplit=1, flags=re.MULTILINE)[0]
        findings = [
            f"{one.role or one.kind} {one.id} {[e.line for e in one.evidence]}" for one in run.findings
        ]
        parts.append(f"§ {name}: {run.outcome}\n{without_prose(head)}" + "\n".join(findings) + "\n")
    return "\n".join(parts)


def of_documents() -> str:
    """Return comparisons, verifications, excerpts, charts, other formats and lists of findings without their prose."""
    return "\n".join(f"§ {name}\n{text}" for name, text in _documents())


def _documents() -> Iterator[tuple[str, str]]:
    for one, other in pairwise(COMPARED):
        before, after = report_of(one), report_of(other)
        yield f"{other} compared with {one}", without_prose(compare(before, after).to_markdown())
        if before.runs[-1].run.kind == after.runs[-1].run.kind:
            yield f"{other} verified against {one}", without_prose(verify(after, before).to_markdown())
    for name in COMPARED[::3]:
        report = report_of(name)
        charts = re.search(r'id="chart-data">(.*?)</script>', report.to_html(), re.DOTALL)
        rows = csv.reader(render(report.analysis, "csv").splitlines())
        yield f"tags of {name} as HTML", _tags_of(report.to_html())
        yield f"{name} in a terminal", _in_terminal(report)
        yield f"excerpt of {name}", _of_document(msgspec.to_builtins(report.excerpt()))
        yield f"charts of {name}", _of_document(json.loads(charts[1]) if charts else {})
        yield f"{name} as CSV", "".join(f"{'|'.join(map(_cell, row))}\n" for row in rows)
        yield f"{name} as SARIF", _of_document(json.loads(render(report.analysis, "sarif"))["runs"][0])


def _tags_of(page: str) -> str:
    """Return how often each tag with its attributes stands in the body of a page; of long attributes the figures."""
    body = re.sub(r"<(script|style)\b.*?</\1>", "", page.partition("<body")[2], flags=re.DOTALL)
    tags = Counter(
        re.sub(r'"([^"]*)"', lambda match: f'"{_cell(match[1])}"', tag)
        for tag in re.findall(r"<[a-z][^>]*>", body)
    )
    return "".join(f"{count} {tag}\n" for tag, count in sorted(tags.items()))


def _in_terminal(report: Report) -> str:
    """Return the view of a terminal without its prose, with its colours; it is so wide that words move no line."""
    out = StringIO()
    print_analysis(
        report.analysis, Console(file=out, width=400, color_system="standard", force_terminal=True)
    )
    return "".join(
        " ".join(COLOUR_OR_KEPT.findall(line)).replace("\x1b", "") + "\n"
        for line in out.getvalue().splitlines()
    )


def _of_document(document: dict[str, Any]) -> str:
    return "".join(
        f"{name}: {json.dumps(_value(value), ensure_ascii=False)}\n" for name, value in document.items()
    )


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _value(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_value(one) for one in value]
    return _cell(value) if isinstance(value, str) else value


def main() -> None:
    """Write all snapshots."""
    SNAPSHOTS.mkdir(exist_ok=True)
    for name in LOGS:
        (SNAPSHOTS / f"{name}.txt").write_text(of_report(report_of(name)))
    for area in SMALL_LOGS:
        (SNAPSHOTS / f"small-logs-{area}.txt").write_text(of_small_logs(area))
    (SNAPSHOTS / f"{EXAMPLES}.txt").write_text(of_examples())
    (SNAPSHOTS / f"{DOCUMENTS}.txt").write_text(of_documents())


if __name__ == "__main__":
    main()
