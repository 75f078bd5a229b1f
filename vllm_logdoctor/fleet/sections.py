"""Parts that the sections of the page share: rows with their jobs, hours, titles of rules."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from msgspec import Struct

from vllm_logdoctor.fleet.facts import JobSummary

ON_FIRST_SCREEN = 5
"""Rows of a section on the first screen."""

Cell = str | int | float | None
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class SectionRow(Struct, frozen=True):
    """A row of a section, and the jobs that its numbers are of."""

    cells: tuple[Cell, ...]
    jobs: tuple[str, ...]


class Section(Struct, frozen=True):
    """A table of the page.

    Attributes:
        id, title, note: name, heading, and how to read it.
        columns: headings.
        lines: rows; all of them, or the first ones.
        first: the columns on the first screen; none: the section is below it.
        total: how many rows there are.
    """

    id: str
    title: str
    note: str
    columns: tuple[str, ...]
    lines: list[SectionRow]
    first: tuple[str, ...] = ()
    total: int = 0


def hours_line(name: Cell, jobs: Sequence[JobSummary], *more: Cell) -> SectionRow:
    """Return the row of a group of jobs: their name, how many, card hours, job hours, and what else there is to say."""
    return SectionRow((name, len(jobs), *hours_of(jobs)[:2], *more), job_names(jobs))


def job_names(jobs: Iterable[JobSummary]) -> tuple[str, ...]:
    """Return the names of jobs, each once."""
    return tuple(dict.fromkeys(job.key for job in jobs))


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return items by a key, in the order in which the keys are met."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def sorted_by(lines: Iterable[SectionRow], *columns: int) -> list[SectionRow]:
    """Return rows with the largest figures first, by one column after the other."""
    return sorted(lines, key=lambda line: tuple(-_number(line.cells[column]) for column in columns))


def _number(cell: Cell) -> float:
    return float(cell) if isinstance(cell, int | float) else 0.0


def range_words(low: float, high: float) -> str:
    """Return a range, or the one value that it is."""
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"


def hours_of(jobs: Sequence[JobSummary]) -> tuple[float | None, float | None, int]:
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
