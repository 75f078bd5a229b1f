"""The comparison of several engines as Markdown and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct, to_builtins

from vllm_logdoctor.engine_comparison.rows import NO_LOAD, Claims, Relation, Row, comparison_rows
from vllm_logdoctor.engine_comparison.side import Cell, Side, same_model
from vllm_logdoctor.report.escape import code, inline, prose
from vllm_logdoctor.report.figures import number, table


class EngineComparison(Struct, frozen=True):
    """Several sides with the rows of their table."""

    sides: tuple[Side, ...]
    claims: Claims
    rows: tuple[Row, ...]


def compare_engines(sides: Sequence[Side], claims: Claims | None) -> EngineComparison:
    """Compare several sides; the first one is the base of every ratio."""
    return EngineComparison(tuple(sides), claims or Claims(), tuple(comparison_rows(sides)))


def document(comparison: EngineComparison) -> dict[str, Any]:
    """Return the comparison as JSON."""
    return {"schema": "logdoctor-engines/1", **to_builtins(comparison)}


def render(comparison: EngineComparison) -> str:
    """Return the comparison as Markdown."""
    sides = comparison.sides
    lines = [f"# {' | '.join(inline(side.label, 80) for side in sides)}", ""]
    lines += [*_common(sides), ""]
    lines += [*_unknown(sides, comparison.claims), ""]
    header = ["", *(inline(side.label, 60) for side in sides), "result"]
    lines += table(header, [_row(row, sides) for row in comparison.rows])
    files = ", ".join(code(side.file, 160) for side in sides)
    lines += ["", f"Files: {files}. Ratios are to {inline(sides[0].label, 60)}."]
    return "\n".join(lines) + "\n"


def _common(sides: Sequence[Side]) -> Iterator[str]:
    """Yield what is the same, what differs, and what slows one side down."""
    same, differ = [], []
    for name, values in (
        ("model", [side.model for side in sides]),
        ("weights", [side.weights for side in sides]),
        ("KV cache type", [side.kv_dtype for side in sides]),
        ("devices", [side.devices for side in sides]),
        ("card", [side.card for side in sides]),
        ("speculative decoding", [None if side.drafts is None else (side.drafts or "off").lower() for side in sides]),
    ):  # fmt: skip
        known = [value for value in values if value is not None]
        if (
            name == "model"
            and len(known) == len(sides)
            and all(same_model(str(known[0]), str(one)) for one in known)
        ):
            known = known[:1] * len(sides)
        if len(known) == len(sides) and len(set(known)) == 1:
            same.append(f"{name} {inline(str(known[0]), 80)}")
        elif known and len(set(values)) > 1:
            shown = ", ".join(
                inline("not in the log" if value is None else str(value), 80) for value in values
            )
            differ.append(f"{name}: {shown}")
    if same:
        yield f"Same: {'; '.join(same)}."
    if differ:
        yield f"Different: {'; '.join(differ)}."
    for side in sides:
        if side.handicaps:
            yield f"Handicap of {inline(side.label, 60)}: {inline(', '.join(side.handicaps), 120)}."


def _unknown(sides: Sequence[Side], claims: Claims) -> Iterator[str]:
    """Yield what no log tells, and what the user says of it."""
    missing, flags = [], []
    if not claims.same_machine and any(side.card is None for side in sides):
        missing.append("the card")
        flags.append("--same-machine")
    if not claims.same_workload:
        missing.append("the prompts")
        flags.append("--same-workload")
    if missing:
        yield f"Not in the logs: {' and '.join(missing)}. Give {' '.join(flags)} if they were the same."
    said = [
        words
        for given, words in ((claims.same_machine, "one machine"), (claims.same_workload, "one workload"))
        if given
    ]
    if said:
        yield f"By your word, not by the logs: {' and '.join(said)}."


def _row(row: Row, sides: Sequence[Side]) -> list[str]:
    return [inline(row.name, 120), *(_cell(cell) for cell in row.cells), _result(row, sides)]


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return ""
    shown = number(cell.value) if isinstance(cell.value, int | float) else inline(cell.value, 60)
    note = cell.note if cell.note.startswith("±") else f"({inline(cell.note, 60)})" if cell.note else ""
    return " ".join(filter(None, (shown, note, f"[L{cell.line}]" if cell.line else "")))


def _result(row: Row, sides: Sequence[Side]) -> str:
    said = [_relation(one, sides) for one in row.relations]
    if row.kind == "compared":
        return f"compared: {'; '.join(one for one in said if one)}"
    reasons = [inline(one.reason, 200) for one in row.relations if one.reason]
    notes = [prose(row.note)] if row.note else []
    return ": ".join(filter(None, (row.kind, "; ".join(dict.fromkeys([*reasons, *notes])))))


def _relation(one: Relation, sides: Sequence[Side]) -> str:
    label = inline(sides[one.other].label.split(" (")[0], 60)
    if one.ratio is None:
        word = "" if one.reason == NO_LOAD else " refused"
        return f"{label}{word}: {inline(one.reason, 200)}" if one.reason else ""
    spread = f" ({one.low:.2f} to {one.high:.2f})" if one.low is not None and one.high is not None else ""
    verdict = f", {one.verdict}" if one.verdict else ""
    return f"{label} {one.ratio:.2f}{spread}{verdict}"
