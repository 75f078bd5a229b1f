"""Prints figures as lines of one table, each as soon as it is known."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    Attributes:
        figure: what was measured, on which input.
        mine: what logdoctor took, with the unit.
        other: what the other one took; "" where there is none.
        ratio: the figure itself; None where it could not be measured.
        note: "exact" or what is wrong, or why it was not measured.
    """

    figure: str
    mine: str = ""
    other: str = ""
    ratio: float | None = None
    note: str = ""


def print_head() -> None:
    """Print the names of the columns."""
    print(f"{'figure':44} {'logdoctor':>12} {'other':>12} {'ratio':>8}  note")


def print_row(row: Row) -> None:
    """Print one line."""
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    print(f"{row.figure:44} {row.mine:>12} {row.other:>12} {ratio:>8}  {row.note}".rstrip(), flush=True)


def seconds(value: float) -> str:
    """Return seconds as a column shows them."""
    return f"{value:.2f} s"


def mebibytes(value: float) -> str:
    """Return resident memory as a column shows it."""
    return f"{value:.0f} MiB"
