"""What a page states without its prose: headings, figures, citations, code, tables, and how many sentences stand where.

`python -m tests.corpus.skeleton` writes them anew below `tests/corpus/pages/`, after a change that is meant: read
the difference before it is committed.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tests.failure.judging import examples
from vllm_logdoctor import Report, analyze

HERE = Path(__file__).parent
FIXTURES = HERE.parents[1] / "fixtures"
PAGES = HERE / "pages"
LOGS = {
    path.stem: path
    for folder in (FIXTURES, HERE.parent / "rules" / "logs")
    for path in sorted(folder.glob("*.log"))
}
WAYS = {path.stem: path for path in sorted((HERE / "ways").glob("*.txt"))}
"""Small logs of the tests of other rooms, each below its name: together they take most ways through reader and judgement."""
EXAMPLES = "examples-of-rule-pages"
STATED = re.compile(
    r"^(?:\d+\.|-)(?= )"  # an item of a list
    r"|`[^`]+`"  # code
    r"|\[L\d[^\]]*\]"  # a citation
    r"|(?<![\w-])[-+]?\d[\d,.:]*(?<=\d)(?: ?%)?"  # a figure
    r"|\.(?=\s|$)"  # the end of a sentence
)
WORDS_OF_A_CELL = 4


@cache
def report_of(name: str) -> Report:
    """Return the report of a log by the name of its file; bytes have neither a path nor a date of their own."""
    return analyze(LOGS[name].read_bytes(), year=2025)


def skeleton(page: str) -> str:
    """Return what a page in Markdown states, one line for each of its lines."""
    lines, code = [], False
    for line in page.splitlines():
        if line.startswith("```"):
            code = not code
        elif code or line.startswith("#"):
            lines.append(line)
        elif line.startswith("|"):
            lines.append("|".join(map(_cell, line.split("|"))))
        elif line:
            lines.append(" ".join(STATED.findall(line)) or "~")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text if len(text.split()) <= WORDS_OF_A_CELL else " ".join(STATED.findall(text))


def of_report(report: Report) -> str:
    """Return the outcome of each run and the skeleton of the page."""
    outcomes = ", ".join(run.outcome for run in report.runs)
    return f"outcome: {outcomes}\n{skeleton(report.to_markdown())}"


def of_ways(room: str) -> str:
    """Return the skeletons of the small logs of a room, each below its name."""
    logs = [part.partition("\n") for part in re.split(r"^§ ", WAYS[room].read_text(), flags=re.MULTILINE)[1:]]
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
        parts.append(f"§ {name}: {run.outcome}\n{skeleton(head)}" + "\n".join(findings) + "\n")
    return "\n".join(parts)


def main() -> None:
    """Write all skeletons."""
    PAGES.mkdir(exist_ok=True)
    for name in LOGS:
        (PAGES / f"{name}.txt").write_text(of_report(report_of(name)))
    for room in WAYS:
        (PAGES / f"ways-{room}.txt").write_text(of_ways(room))
    (PAGES / f"{EXAMPLES}.txt").write_text(of_examples())


if __name__ == "__main__":
    main()
