"""Parts that the sections of the page share: rows with their jobs, hours, titles of rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from vllm_logdoctor.fleet.facts import Job
from vllm_logdoctor.fleet.jobreport import JobReport

Cell = str | int | float | None


class Line(Struct, frozen=True):
    """A row of a section, and the jobs that its numbers are of."""

    cells: tuple[Cell, ...]
    jobs: tuple[str, ...]


class Section(Struct, frozen=True):
    """A table of the page.

    Attributes:
        id, title, note: name, heading, and how to read it.
        columns: headings.
        lines: rows; all of them, or the first twenty.
        first: whether it is on the first screen.
    """

    id: str
    title: str
    note: str
    columns: tuple[str, ...]
    lines: list[Line]
    first: bool = False


def hours_of(jobs: Sequence[Job]) -> tuple[float | None, float | None, int]:
    """Return card hours and job hours of jobs, None where none of them has any, and how many have no hours."""
    cards = [job.card_hours for job in jobs if job.card_hours is not None]
    hours = [job.hours for job in jobs if job.hours is not None]
    return sum(cards) if cards else None, sum(hours) if hours else None, len(jobs) - len(hours)


def hours_words(hours: float) -> str:
    """Return hours with as many digits as they deserve.

    Example:
        >>> hours_words(12345.6), hours_words(3.21), hours_words(0.004)
        ('12,346', '3.2', '0.004')
    """
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.1f}" if hours >= 1 or not hours else f"{hours:.2g}"


def share(part: int, whole: int) -> str:
    """Return a share in percent.

    Example:
        >>> share(1, 3), share(0, 0)
        ('33 %', '-')
    """
    return f"{100 * part / whole:.0f} %" if whole else "-"


def rule_titles(sections: Iterable[Section], reports: Iterable[JobReport]) -> dict[str, str]:
    """Return the titles of the rules that a page names."""
    from vllm_logdoctor.catalogue.locate import builtin_root, page_files
    from vllm_logdoctor.catalogue.pages import read_pages

    named = {finding[0] for report in reports for run in report.runs for finding in run.findings}
    named |= {
        str(line.cells[0])
        for section in sections
        if section.id in ("broke", "periods")
        for line in section.lines
    }
    pages, _ = read_pages(page_files(builtin_root()))
    return {page.id: page.title for page in pages if page.id in named}
