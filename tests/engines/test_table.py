"""The page of several engines side by side: what is the same, what differs, what no log tells, and each relation in words."""

from __future__ import annotations

from typing import Any

from tests.tables import for_each
from vllm_logdoctor.engine_comparison.rows import NO_LOAD, Claims, Relation, Row, comparison_rows
from vllm_logdoctor.engine_comparison.side import Cell, Side
from vllm_logdoctor.engine_comparison.table import EngineComparison, render
from vllm_logdoctor.rules.equal_load import LoadLevel


def side(label: str = "vLLM (1)", **more: Any) -> Side:
    given = {
        "engine": "vllm",
        "label": label,
        "file": "a.log",
        "model": "org/Model-8B",
        "weights": "bf16",
        "card": "H100",
        **more,
    }
    return Side(**given)


def page(*sides: Side, rows: tuple[Row, ...] = (), **claims: bool) -> str:
    return render(EngineComparison(sides or (side(), side("SGLang (2)")), Claims(**claims), rows))


@for_each(
    ("first", "second", "said"),
    [
        ({}, {}, "Same: model org/Model-8B; weights bf16; card H100."),
        # Names of one model in two spellings are that of the first.
        ({}, {"model": "/models/model-8b-q4_k_m.gguf"}, "Same: model org/Model-8B; "),
        ({}, {"model": "org/Model-14B"}, "Different: model: org/Model-8B, org/Model-14B."),
        ({}, {"model": None}, "Different: model: org/Model-8B, not in the log."),
        ({}, {"weights": "fp8"}, "Different: weights: bf16, fp8."),
        # Only a model has names that hold each other.
        ({"card": "H100"}, {"card": "H100 80GB"}, "Different: card: H100, H100 80GB."),
        ({"card": None}, {"card": "H100"}, "Different: card: not in the log, H100."),
        ({"drafts": ""}, {"drafts": "Eagle"}, "Different: speculative decoding: off, eagle."),
        ({"drafts": "EAGLE"}, {"drafts": "eagle"}, "speculative decoding eagle."),
        ({"devices": 2}, {"devices": 2}, "devices 2"),
    ],
)
def test_what_is_the_same_and_what_differs(first: dict[str, Any], second: dict[str, Any], said: str) -> None:
    assert said in page(side(**first), side("SGLang (2)", **second))


def test_what_no_log_tells_is_in_neither_list() -> None:
    text = page(side(weights=None), side("SGLang (2)", weights=None))
    assert "weights" not in text


def test_what_slows_a_side_down_is_told() -> None:
    text = page(side(handicaps=("eager", "tracing")), side("SGLang (2)"))
    assert "Handicap of vLLM (1): eager, tracing." in text
    assert text.count("Handicap") == 1


@for_each(
    ("card", "claims", "missing", "said"),
    [
        ("H100", {}, "Not in the logs: the prompts. Give --same-workload if they were the same.", None),
        (
            None,
            {},
            "Not in the logs: the card and the prompts. Give --same-machine --same-workload if they were the same.",
            None,
        ),
        (
            None,
            {"same_machine": True},
            "Not in the logs: the prompts. Give --same-workload",
            "By your word, not by the logs: one machine.",
        ),
        (
            None,
            {"same_machine": True, "same_workload": True},
            None,
            "By your word, not by the logs: one machine and one workload.",
        ),
    ],
)
def test_what_no_log_tells_is_asked_for_or_taken_from_the_user(
    card: str | None, claims: dict[str, bool], missing: str | None, said: str | None
) -> None:
    text = page(side(), side("SGLang (2)", card=card), **claims)
    assert ("Not in the logs" in text) is (missing is not None)
    assert ("By your word" in text) is (said is not None)
    assert (missing or "") in text
    assert (said or "") in text


def result(*relations: Relation, kind: Any = "compared", note: str = "") -> str:
    row = Row("tok/s", kind, (None, None), relations, note)
    shown = next(one for one in page(rows=(row,)).split("\n") if one.startswith("| tok/s"))
    return shown.strip("| ").split("|")[-1].strip()


@for_each(
    ("relations", "kind", "note", "said"),
    [
        ((Relation(1, 0.9, 0.85, 0.95, verdict="slower"),), "compared", "", "compared: SGLang 0.90 (0.85 to 0.95), slower"),
        ((Relation(1, 0.9),), "compared", "", "compared: SGLang 0.90"),
        ((Relation(1, 0.9, 0.85),), "compared", "", "compared: SGLang 0.90"),
        ((Relation(1, reason="other weights"),), "compared", "", "compared: SGLang refused: other weights"),
        ((Relation(1, reason=NO_LOAD),), "compared", "", f"compared: SGLang: {NO_LOAD}"),
        ((Relation(1),), "compared", "", "compared:"),
        ((Relation(1, reason="other weights"),), "side by side", "", "side by side: other weights"),
        ((Relation(1, reason="other weights"), Relation(0, reason="other weights")), "side by side", "a note", "side by side: other weights; a note"),
        ((), "side by side", "", "side by side"),
    ],
)  # fmt: skip
def test_a_relation_in_words(relations: tuple[Relation, ...], kind: Any, note: str, said: str) -> None:
    assert result(*relations, kind=kind, note=note) == said


@for_each(
    ("cell", "shown"),
    [
        (None, ""),
        (Cell(1234.5), "1,235"),
        (Cell("auto"), "auto"),
        (Cell(12, line=7), "12 [L7]"),
        (Cell(12, note="median", line=7), "12 (median) [L7]"),
        (Cell(12, note="± 3"), "12 ± 3"),
    ],
)
def test_a_cell_has_its_note_and_its_line(cell: Cell | None, shown: str) -> None:
    row = Row("tok/s", "side by side", (cell, None), ())
    found = next(one for one in page(rows=(row,)).split("\n") if one.startswith("| tok/s"))
    assert found.split("|")[2].strip().replace("\\", "") == shown


ALONE = (
    LoadLevel(1, 1, 1.0, 9, (70.0, 80.0, 90.0), 5.0),
    LoadLevel(2, 2, 2.0, 9, (140.0, 160.0, 180.0), 5.0),
)


@for_each(
    ("first", "second", "shown"),
    [
        # 10 GiB a token, 100 tokens/s.
        ({}, {}, [1074, 1074]),
        ({}, {"tests": {"tg128": Cell(50.0), "tg256": Cell(60.0), "pp512": Cell(900.0)}}, [1074, 644]),
        ({}, {"weight_gib": None}, None),
        ({}, {"tests": {"pp512": Cell(900.0)}}, None),
        ({}, {"acceptance": 2.1}, None),  # A step makes several tokens.
        # Without a benchmark the median of one running request tells it, of several it does not.
        ({}, {"tests": {}, "levels": ALONE}, [1074, 859]),
        ({}, {"tests": {}, "levels": ALONE[1:]}, None),
    ],
)
def test_what_the_memory_moved_is_shown_where_two_sides_tell_it(
    first: dict[str, Any], second: dict[str, Any], shown: list[int] | None
) -> None:
    given = {"weight_gib": 10.0, "tests": {"tg128": Cell(100.0)}}
    sides = [side(**{**given, **first}), side("SGLang (2)", **{**given, **second})]
    found = [row for row in comparison_rows(sides) if "weight bytes" in row.name]
    assert ([cell.value for cell in found[0].cells if cell] if found else None) == shown


@for_each(
    ("weights", "relation"),
    [("bf16", Relation(1, 100.0 / 150.0)), ("q4_k_m", Relation(1, reason="weights bf16 against q4_k_m"))],
)
def test_benchmarks_without_a_server_are_in_relation_where_the_weights_are_of_one_format(
    weights: str, relation: Relation
) -> None:
    sides = [
        side(tests={"tg128": Cell(150.0, 5)}),
        side("SGLang (2)", weights=weights, tests={"tg128": Cell(100.0, 3)}),
    ]
    row = next(one for one in comparison_rows(sides) if one.name.startswith("tg128"))
    assert row.relations == (relation,)
    assert row.kind == ("refused" if relation.reason else "compared")
