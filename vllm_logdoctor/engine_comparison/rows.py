"""The rows of the comparison: each is compared, shown side by side, refused with a reason, or not in the log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from vllm_logdoctor.engine_comparison.side import Cell, Side, same_model
from vllm_logdoctor.rules.context import plural
from vllm_logdoctor.rules.equal_load import EqualLoad, LoadLevel, band, equal_load

Kind = Literal["compared", "side by side", "refused", "not in the log"]
NO_LOAD = "no such load on one side"
_FEWEST = 2
_TOKENS_OF_A_TEST = (32, 128)
_MOST_ALONE = 4
"""Levels that are shown where no two sides share one."""


class Claims(Struct, frozen=True):
    """What the user says of all sides, printed as the user's word."""

    same_machine: bool = False
    same_workload: bool = False


class Relation(Struct, frozen=True):
    """Side `other` against the first side: a ratio with its range, or the reason why there is none."""

    other: int
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""
    verdict: str = ""


class Row(Struct, frozen=True):
    """One line of the table.

    Attributes:
        name: what is shown.
        kind: whether the sides are set in relation.
        cells: a cell of each side, None where it has none.
        relations: of each other side to the first.
        note: the reason of a refusal, or what would measure it.
    """

    name: str
    kind: Kind
    cells: tuple[Cell | None, ...]
    relations: tuple[Relation, ...] = ()
    note: str = ""


def refusal(one: Side, other: Side) -> str:
    """Return why the speeds of two sides may not be set in relation, or "".

    Example:
        >>> refusal(Side("vllm", "vLLM", "a", None, "bf16"), Side("llama.cpp", "llama.cpp", "b", None, "q4_k_m"))
        'weights bf16 against q4_k_m'
    """
    if one.engine in _DURATIONS_ONLY or other.engine in _DURATIONS_ONLY:
        return "the log prints durations of requests and no tokens"
    if one.model and other.model and not same_model(one.model, other.model):
        return f"different models: {one.model} and {other.model}"
    if one.weights and other.weights and not _same_format(one.weights, other.weights):
        return f"weights {_with_size(one)} against {_with_size(other)}"
    if one.drafts is not None and other.drafts is not None and bool(one.drafts) != bool(other.drafts):
        return "only one side uses speculative decoding"
    if one.part != other.part:
        return f"one half of a disaggregated pair ({one.part or other.part}) against a whole server"
    return ""


_DURATIONS_ONLY = frozenset({"ollama"})


_SIXTEEN_BITS = frozenset({"bf16", "f16"})


def _same_format(one: str, other: str) -> bool:
    """Return whether weights of two formats move the same bytes."""
    return one == other or {one, other} <= _SIXTEEN_BITS


def _with_size(side: Side) -> str:
    return f"{side.weights}" + (f" {side.weight_gib:.2f} GiB" if side.weight_gib else "")


def comparison_rows(sides: Sequence[Side]) -> list[Row]:
    """Return the table of several sides, the first of which is the base of every ratio."""
    drafts = any(side.drafts for side in sides)
    return [
        *_level_rows(sides, "tok/s", lambda side: side.levels, drafts),
        *(_level_rows(sides, "steps/s", lambda side: side.step_levels, False) if drafts else ()),
        *_acceptance(sides),
        *_per_request(sides),
        *_tests(sides),
        *_single(sides, "start to ready, s", "ready", compared=True),
        *_single(sides, "KV cache, tokens", "kv tokens", compared=False),
        *_single(sides, "context per request, tokens", "context per request", compared=False),
        *_traffic(sides),
        _prompt_speed(sides),
        *_shares(sides),
    ]


def _level_rows(
    sides: Sequence[Side], unit: str, levels: Callable[[Side], Sequence[LoadLevel]], drafts: bool
) -> Iterator[Row]:
    """Yield a row for each number of running requests that two sides have, and one for all of them together."""
    by_side = [{band(level.low): level for level in levels(side)} for side in sides]
    shared = sorted(number for number in set().union(*by_side) if sum(number in one for one in by_side) > 1)
    alone = "per accepted length below" if drafts else ""
    for number in shared or sorted(set().union(*by_side))[:_MOST_ALONE]:
        here = [one.get(number) for one in by_side]
        cells = tuple(
            Cell(level.generation[1], note=plural(level.samples, "sample")) if level else None
            for level in here
        )
        relations = tuple(
            Relation(at, reason=reason) if (reason := _why_not(sides, at, here, alone)) else Relation(at, *_ratio(here[0], here[at]))
            for at in range(1, len(sides))
        )  # fmt: skip
        low, high = min(one.low for one in here if one), max(one.high for one in here if one)
        running = f"{low}" if low == high else f"{low} to {high}"
        yield Row(f"decode {unit}, {running} running", _kind_of(relations), cells, relations)
    if shared and not drafts:
        yield _all_levels(sides, unit, levels)


def _ratio(before: LoadLevel | None, after: LoadLevel | None) -> tuple[float | None, None, None]:
    if before is None or after is None or not before.generation[1]:
        return None, None, None
    return after.generation[1] / before.generation[1], None, None


def _why_not(sides: Sequence[Side], at: int, here: Sequence[LoadLevel | None], alone: str) -> str:
    first, other = here[0], here[at]
    if first is None or other is None:
        return NO_LOAD
    reason = refusal(sides[0], sides[at])
    if not reason and min(first.samples, other.samples) < _FEWEST:
        reason = f"fewer than {_FEWEST} samples"
    return reason or alone


def _all_levels(sides: Sequence[Side], unit: str, levels: Callable[[Side], Sequence[LoadLevel]]) -> Row:
    relations = []
    for at, side in enumerate(sides[1:], start=1):
        reason = refusal(sides[0], side)
        found = EqualLoad() if reason else equal_load(levels(sides[0]), levels(side))
        why = reason or (found.warnings[0] if found.ratio is None and found.warnings else "")
        relations.append(
            Relation(at, found.ratio, found.low, found.high, why, found.verdict if found.ratio else "")
        )
    return Row(f"all equal loads, {unit}", _kind_of(relations), (None,) * len(sides), tuple(relations))


def _kind_of(relations: Sequence[Relation]) -> Kind:
    if any(one.ratio is not None for one in relations):
        return "compared"
    reasons = {one.reason for one in relations} - {"per accepted length below", NO_LOAD}
    return "refused" if reasons else "side by side"


def _acceptance(sides: Sequence[Side]) -> Iterator[Row]:
    if any(side.acceptance for side in sides):
        cells = tuple(Cell(side.acceptance) if side.acceptance else None for side in sides)
        yield Row("acceptance length, median", "side by side", cells)


def _per_request(sides: Sequence[Side]) -> Iterator[Row]:
    cells = tuple(side.single.get("decode tok/s per request") for side in sides)
    if any(cells):
        note = "of one request, others may have run beside it: never against a total"
        yield Row("decode tok/s per request", "side by side", cells, note=note)


def _tests(sides: Sequence[Side]) -> Iterator[Row]:
    """Yield a row for each benchmark without a server; tg32 and tg128 always, with what would fill them."""
    names = list(dict.fromkeys(name for side in sides for name in side.tests))
    names = [*(f"tg{number}" for number in _TOKENS_OF_A_TEST if f"tg{number}" not in names), *names]
    for name in sorted(names, key=lambda one: (not one.startswith("tg"), names.index(one))):
        cells = tuple(side.tests.get(name) for side in sides)
        relations = tuple(
            Relation(at, reason=refusal(sides[0], side))
            if refusal(sides[0], side)
            else Relation(at, float(cells[at].value) / float(cells[0].value))  # type: ignore[union-attr]
            for at, side in enumerate(sides)
            if at and cells[0] and cells[at]
        )
        tokens = name.removeprefix("tg").partition(" ")[0]
        missing = name.startswith("tg") and not all(cells)
        why = (
            f"{tokens} tokens are a part of one statistics window of a server; measure all with "
            f"llama-benchy --tg {tokens} (or llama-bench -n {tokens}, bench_one_batch)"
            if missing
            else ""
        )
        kind: Kind = (
            _kind_of(relations) if relations else "refused" if missing and not any(cells) else "side by side"
        )
        yield Row(f"{name} tok/s, one request, no server", kind, cells, relations, why)


def _single(sides: Sequence[Side], name: str, key: str, compared: bool) -> Iterator[Row]:
    cells = tuple(side.single.get(key) for side in sides)
    if not any(cells):
        return
    relations = tuple(
        Relation(at, float(cell.value) / float(cells[0].value))
        for at, cell in enumerate(cells)
        if compared and at and cell and cells[0] and float(cells[0].value)
    )
    yield Row(name, "compared" if relations else "side by side", cells, relations)


def _traffic(sides: Sequence[Side]) -> Iterator[Row]:
    """Yield weight bytes times tok/s of one request: what the memory moved, whatever the format of the weights."""
    cells = tuple(_moved(side) for side in sides)
    if sum(cell is not None for cell in cells) > 1:
        note = "one request; a mixture of experts reads less"
        yield Row("weight bytes x tok/s, GB/s", "side by side", cells, note=note)


_GENERATES = re.compile(r"\btg\d")


def _moved(side: Side) -> Cell | None:
    alone = next((level.generation[1] for level in side.levels if level.high == 1), None)
    generating = [float(cell.value) for name, cell in side.tests.items() if _GENERATES.search(name)]
    rate = max(generating, default=alone)
    if rate is None or side.weight_gib is None or side.acceptance:
        return None
    return Cell(round(side.weight_gib * 1.0737 * rate), note="computed")


def _prompt_speed(sides: Sequence[Side]) -> Row:
    hits = [f"{side.hit_rate:g} % ({side.label})" for side in sides if side.hit_rate]
    reason = f"prefix cache hits {', '.join(hits)}; " if hits else "prefix cache hits not known to be 0; "
    if all(side.hit_rate == 0 for side in sides):
        reason = "a window of statistics holds decoding and idle time as well; "
    of_sglang = any(side.engine == "sglang" for side in sides)
    reason += "and SGLang's input throughput holds idle time" if of_sglang else "measure with cold prompts"
    return Row("prompt tok/s", "refused", (None,) * len(sides), note=reason)


_PROFILES = {
    "MoE": "nsys or a torch profile",
    "attention": "nsys or a torch profile",
    "CPU of the busiest thread": "top -H during decoding",
}


def _shares(sides: Sequence[Side]) -> Iterator[Row]:
    for name, tool in _PROFILES.items():
        cells = tuple(side.shares.get(name) for side in sides)
        kind: Kind = "side by side" if any(cells) else "not in the log"
        yield Row(f"{name}, %", kind, cells, note="" if all(cells) else f"{tool} beside the log tells it")
