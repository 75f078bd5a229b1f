"""What a section writer gets: one run, all of the analysis, and the way evidence is cited."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from vllm_logdoctor.report.escape import inline
from vllm_logdoctor.report.model import Analysis, Diagnosis
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.rules.urgency import urgent_first
from vllm_logdoctor.run.model import Evidence, Run

CITED = 4
"""Lines cited for one statement; more are counted."""


class Page(Struct, frozen=True):
    """One run's part of the report.

    Attributes:
        analysis: everything.
        diagnosis: the run that the page is about.
        level: level of its title; sections are one deeper.
        linked: whether citations are links to the lines (HTML).
        earlier: the runs that the report has told of before this one.
    """

    analysis: Analysis
    diagnosis: Diagnosis
    level: int = 1
    linked: bool = False
    earlier: tuple[Diagnosis, ...] = ()

    @property
    def run(self) -> Run:
        """The run that the page is about."""
        return self.diagnosis.run

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Findings of kind failure, the root first."""
        found = [finding for finding in self.diagnosis.findings if finding.kind == "failure"]
        return tuple(sorted(found, key=lambda finding: finding.role != "root"))

    @property
    def ended_by(self) -> Finding | None:
        """What ended the run, a failure or not: to be stopped by a person is none."""
        return next((finding for finding in self.diagnosis.findings if finding.role == "root"), None)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings in the order in which they are told: what is urgent first, then by what they are worth."""
        return urgent_first(self.run, self.diagnosis.findings)

    @property
    def advice(self) -> tuple[Finding, ...]:
        """Findings that are no failure, in order of importance."""
        return tuple(finding for finding in self.findings if finding.kind != "failure")

    def cite(self, evidence: Iterable[Evidence], limit: int = CITED) -> str:
        """Return line numbers in brackets, "[L7, L12]", with file names where there are several files."""
        lines = list(dict.fromkeys((one.file, one.line) for one in evidence))
        if not lines:
            return ""
        named = [self._place(file, line) for file, line in lines[:limit]]
        more = len(lines) - len(named)
        return f"[{', '.join(named)}{f' and {more} more' if more > 0 else ''}]"

    def cited(self, evidence: Iterable[Evidence], limit: int = CITED) -> str:
        """Return line numbers with a space before them, or nothing."""
        text = self.cite(evidence, limit)
        return f" {text}" if text else ""

    def place(self, evidence: Evidence) -> str:
        """Return the place of a line as plain text, "L7" or "a.log L7"."""
        several = len(self.analysis.sources) > 1
        return f"{evidence.file} L{evidence.line}" if several else f"L{evidence.line}"

    def _place(self, file: str, line: int) -> str:
        words = f"{inline(file, 120)} L{line}" if len(self.analysis.sources) > 1 else f"L{line}"
        return f"[{words}](#{anchor(self.analysis, file, line)})" if self.linked else words

    def heading(self, text: str, deeper: int = 1) -> str:
        """Return a heading below the page's title; the text must be escaped."""
        return f"{'#' * (self.level + deeper)} {text}"


def anchor(analysis: Analysis, file: str, line: int) -> str:
    """Return the name under which a line stands in the HTML report."""
    names = [source.file for source in analysis.sources]
    return f"e{names.index(file) if file in names else len(names)}-{line}"
