"""What a section writer gets: one run, all of the analysis, and the way evidence is cited."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from vllm_logdoctor.report.escape import inline
from vllm_logdoctor.report.model import Analysis, Diagnosis
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.rules.performance.order import by_gain
from vllm_logdoctor.rules.urgency import urgent_first
from vllm_logdoctor.run.model import Evidence, Run

CITED = 3
"""Lines cited for one statement; more are counted."""


class Page(Struct, frozen=True):
    """One run's part of the report.

    Attributes:
        analysis: everything.
        diagnosis: the run that the page is about.
        level: level of its title; sections are one deeper.
        links: where citations are links (HTML), the lines that were cited so far, by their anchors; else None.
        earlier: the runs before this one in the report.
    """

    analysis: Analysis
    diagnosis: Diagnosis
    level: int = 1
    links: dict[str, Evidence] | None = None
    earlier: tuple[Diagnosis, ...] = ()

    @property
    def run(self) -> Run:
        """The run that the page is about."""
        return self.diagnosis.run

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Findings of kind failure, the root first."""
        return self.diagnosis.failures

    @property
    def root(self) -> Finding | None:
        """The failure that comes first, or what ended a broken run; None for a run that did not fail."""
        return self.diagnosis.root

    @property
    def shown_root(self) -> Finding | None:
        """The root, unless it is hidden."""
        return self.diagnosis.shown_root

    @property
    def failed_before(self) -> Run | None:
        """The first run that failed with the same cause and, but for numbers, the same line: a server that is restarted in vain."""
        return self.analysis.repeated.get(self.run.number) if self.earlier else None

    @property
    def linked(self) -> bool:
        """Return whether citations are links to the lines (HTML)."""
        return self.links is not None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings: urgent ones first, then by gain."""
        return urgent_first(self.run, self.diagnosis.findings)

    @property
    def advice(self) -> tuple[Finding, ...]:
        """Findings that are no failure, in the order in which to act on them."""
        return by_gain(finding for finding in self.findings if finding.kind != "failure")

    def refused(self, finding: Finding) -> list[tuple[str, str]]:
        """Return the settings of a finding that the plan leaves out, each with the reason."""
        plan = self.diagnosis.plan
        planned = {one.change.knob for one in plan.changes if finding.id in one.findings}
        left_out = {change.knob for change in finding.changes} - planned
        return [(knob, reason) for knob, reason in plan.refused if knob in left_out]

    def put_off(self, finding: Finding) -> bool:
        """Return True if the plan contains none of a finding's changes."""
        return len(self.refused(finding)) == len(finding.changes) > 0

    def cite(self, evidence: Iterable[Evidence], limit: int = CITED) -> str:
        """Return line numbers in brackets, "[L7, L12]", with file names where there are several files."""
        found: dict[tuple[str, int], Evidence] = {}
        for one in evidence:
            found.setdefault((one.file, one.line), one)
        lines = list(found.values())
        if not lines:
            return ""
        shown = lines[: limit + (len(lines) == limit + 1)]  # "and 1 more" is no shorter than the line.
        before = ["", *(one.file for one in shown)]
        named = [self._place(one, one.file != last) for one, last in zip(shown, before, strict=False)]
        more = len(lines) - len(named)
        return f"[{', '.join(named)}{f' and {more} more' if more > 0 else ''}]"

    def cited(self, evidence: Iterable[Evidence], limit: int = CITED) -> str:
        """Return line numbers with a space before them, or nothing."""
        text = self.cite(evidence, limit)
        return f" {text}" if text else ""

    def place(self, evidence: Evidence) -> str:
        """Return the place of a line as plain text, "L7" or "a.log L7"."""
        name = file_name(self.analysis, evidence.file)
        return f"{name} L{evidence.line}" if name else f"L{evidence.line}"

    def _place(self, evidence: Evidence, named: bool) -> str:
        name = file_name(self.analysis, evidence.file) if named else ""
        words = f"{inline(name, 120)} L{evidence.line}" if name else f"L{evidence.line}"
        if self.links is None:
            return words
        target = anchor(self.analysis, evidence.file, evidence.line)
        self.links.setdefault(target, evidence)
        return f"[{words}](#{target})"

    def heading(self, text: str, deeper: int = 1) -> str:
        """Return a heading below the page's title; the text must be escaped."""
        return f"{'#' * (self.level + deeper)} {text}"


def file_name(analysis: Analysis, file: str) -> str:
    """Return a file's name below the folder that all inputs share; nothing for the only input, the last part for a file beside it."""
    if analysis.file_numbers.get(file, len(analysis.sources)) >= len(analysis.sources):
        return file.rpartition("/")[2]
    return "" if len(analysis.sources) < 2 else file.removeprefix(analysis.shared_folder)


def anchor(analysis: Analysis, file: str, line: int) -> str:
    """Return the anchor of a line in the HTML report."""
    return f"e{analysis.file_numbers.get(file, len(analysis.file_numbers))}-{line}"
