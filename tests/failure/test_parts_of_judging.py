"""Decisions of the judges one by one, over lines made by hand: which line explains, which is cited, where requests failed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from tests.rules.making import record
from tests.tables import for_each
from vllm_logdoctor.rules.failure.context import Observation
from vllm_logdoctor.rules.failure.judge import _in_a_test, _is_of_importlib
from vllm_logdoctor.rules.failure.matching import _begun_above, _wrapped
from vllm_logdoctor.rules.failure.requests import _place
from vllm_logdoctor.rules.failure.root import _explains, _repeats
from vllm_logdoctor.rules.model import Change, Finding
from vllm_logdoctor.run.blocks import Frame, Raised

VLLM, OTHER = "/opt/env/lib/python3.12/site-packages/vllm/v1/engine/core.py", "/opt/app/serve.py"
RAN_OUT = "ValueError: To serve at least one request with the model's max seq len (4096), (4.26 GiB KV cach"


def a_failure(*files: str) -> Raised:
    frames = tuple(Frame(file, 7, f"step_{place}", "go()", record("x")) for place, file in enumerate(files))
    return Raised("ValueError", "ValueError: odd", "", frames, record("x"), "first")


def seen(text: str = "x", line: int = 1, position: int = 0, level: str = "", **more: Any) -> Observation:
    return Observation(text, record(text, line, level), position, (0, line), **more)


@for_each(
    ("below", "file", "seconds", "explained"),
    [
        (120, 0, 90.0, True),
        (121, 0, 1.0, False),
        (1, 0, 90.5, False),
        (1, 1, 1.0, False),
        (1, 0, None, True),
        (None, 0, 1.0, False),
    ],
)
def test_a_line_explains_a_traceback_that_begins_soon_below_it_in_its_file(
    below: int | None, file: int, seconds: float | None, explained: bool
) -> None:
    line = replace(record("cause", 10), time=5.0)
    start = replace(record("Traceback", 10 + (below or 0)), file=file)
    context: Any = SimpleNamespace(trail=[line, start], time_at=lambda _: seconds and 5.0 + seconds)
    found = Observation("cause", line, 0, (0, 10))
    assert _explains(found, [1] if below else [], context) is explained
    undated = Observation("cause", record("cause", 10), 0, (0, 10))
    near = below is not None and below <= 120 and file == 0
    assert _explains(undated, [1] if below else [], context) is near, (
        "a line without a time is near by its place"
    )


def test_a_traceback_above_a_line_is_not_explained_by_it() -> None:
    trail = [record("Traceback", 1), record("cause", 2), record("Traceback", 3)]
    context: Any = SimpleNamespace(trail=trail, time_at=lambda _: None)
    after = Observation("cause", trail[1], 1, (0, 2))
    assert not _explains(after, [0], context)
    assert _explains(after, [0, 2], context)


@for_each(
    ("above", "rest", "more", "joined"),
    [
        (record(RAN_OUT, 1), "e is needed", {}, True),
        (record("ValueError: short", 1), "e is needed", {}, False),
        (record(RAN_OUT, 3), "e is needed", {}, False),
        (replace(record(RAN_OUT, 1), file=1), "e is needed", {}, False),
        (record(RAN_OUT, 1), "Error of another", {}, False),
        (record(RAN_OUT, 1), "ninja: build stopped", {}, False),
        (record(RAN_OUT, 1), "e is needed", {"level": "ERROR"}, False),
        (record(RAN_OUT, 1), "e is needed", {"raised": a_failure()}, False),
    ],
)
def test_a_line_that_a_terminal_broke_has_its_beginning_right_above(
    above: Any, rest: str, more: dict[str, Any], joined: bool
) -> None:
    context: Any = SimpleNamespace(trail=[above, record(rest, 2)])
    found = _begun_above(seen(rest, 2, 1, **more), context)
    assert found == ([above] if joined else [])


BROKEN = "ptxas app.ptx, line 9; fatal : Unsupported .version in the assembler"


@for_each(
    ("below", "more", "joined"),
    [
        (record("7.5; current version is '6.3'", 2, ""), {}, True),
        (record("of the assembler", 2, ""), {}, True),
        (record("7.5; current version", 2, "INFO"), {}, False),
        (record("7.5; current version", 3, ""), {}, False),
        (replace(record("7.5; current version", 2, ""), file=1), {}, False),
        (record("  7.5; current version", 2, ""), {}, False),
        (record("ninja: build stopped", 2, ""), {}, False),
        (record("Another line", 2, ""), {}, False),
        (record("7.5; current version", 2, ""), {"level": "ERROR"}, False),
        (record("7.5; current version", 2, ""), {"raised": a_failure()}, False),
        (record("7.5; current version", 2, ""), {"text": "fatal : short"}, False),
    ],
)
def test_a_bare_line_that_breaks_off_goes_on_in_the_next_one(
    below: Any, more: dict[str, Any], joined: bool
) -> None:
    context: Any = SimpleNamespace(trail=[record(BROKEN, 1, ""), below])
    found = _wrapped(seen(**{"text": BROKEN, **more}), context)
    assert found == ([below] if joined else [])


def test_an_indented_line_goes_on_in_an_indented_one_with_any_letter() -> None:
    below = record("  Another line", 2, "")
    context: Any = SimpleNamespace(trail=[record("x"), below])
    assert _wrapped(seen(f"  {BROKEN}"), context) == [below]


@for_each(
    ("failed", "place"),
    [
        ([(OTHER, VLLM)], "core.py, step_1"),
        ([(VLLM, OTHER)], "core.py, step_0"),
        ([(OTHER, VLLM), (VLLM, VLLM)], "core.py, step_1"),
        ([(VLLM,), (VLLM, VLLM)], None),
        ([(VLLM,), (OTHER,)], None),
        ([(OTHER,)], None),
        ([None, (VLLM,)], "core.py, step_0"),
        ([None], None),
        ([], None),
    ],
)
def test_requests_failed_in_a_place_where_all_of_them_did(
    failed: list[tuple[str, ...] | None], place: str | None
) -> None:
    texts = [seen(raised=a_failure(*files) if files is not None else None) for files in failed]
    assert _place(texts) == place


@for_each(
    ("steps", "changes", "kept", "of_test"),
    [
        (("Look at the quota.",), (), ("Look at the quota.",), False),
        (("Lower `--max-num-seqs`.", "Look."), (), ("Look.",), True),
        (("Run with `X=1` and `--enforce-eager`: it tells.",), (), ("Run with `X=1`: it tells.",), True),
        (("Look.",), ("flag",), ("Look.",), True),
        (("Look.",), ("env", "action"), ("Look.",), False),
    ],
)
def test_a_failed_test_has_no_step_that_sets_a_flag_and_one_of_the_test_in_its_place(
    steps: tuple[str, ...], changes: tuple[Any, ...], kept: tuple[str, ...], of_test: bool
) -> None:
    asked = tuple(Change(kind, kind, None, 1) for kind in changes)
    root = Finding("x", "failure", "high", "high", "", "", alternatives=steps, changes=asked, avoid="--seed")
    context: Any = SimpleNamespace(trail=[record("FAILED tests/test_a.py::test_b - ValueError: odd")])
    found = _in_a_test(root, context)
    assert found.alternatives[: len(kept)] == kept
    assert len(found.alternatives) == len(kept) + of_test
    assert all("test" in one for one in found.alternatives[len(kept) :])
    assert [one.kind for one in found.changes] == [kind for kind in changes if kind != "flag"]
    assert found.avoid == ""
    assert _in_a_test(replace(root, avoid="Do not."), context).avoid == "Do not."


def test_places_of_the_import_system_tell_nothing() -> None:
    assert _is_of_importlib(
        record('  File "<frozen importlib._bootstrap>", line 241, in _call_with_frames_removed')
    )
    assert not _is_of_importlib(record(f'  File "{VLLM}", line 241, in load'))


@for_each(
    ("above", "torn", "repeated"),
    [
        ({}, {}, True),
        ({"named": False}, {}, False),
        ({"process": "Other"}, {}, False),
        ({"end": 0}, {}, False),
        ({"fatal": False}, {}, False),
        ({}, {"named": True}, False),
        ({"process": ""}, {"process": ""}, False),
    ],
)
def test_a_torn_traceback_repeats_the_exception_that_its_process_raised_a_little_above(
    above: dict[str, Any], torn: dict[str, Any], repeated: bool
) -> None:
    def block(first: int, end: int, named: bool, process: str = "Worker", **_: Any) -> Any:
        raised = SimpleNamespace(type="ValueError" if named else "")
        lines = [record("x", first), record("x", end)]
        return SimpleNamespace(
            process=SimpleNamespace(name=process), last_raised=raised, records=lines, first=lines[0]
        )

    one, other = (
        {"first": 0, "end": 9000, "named": True, **above},
        {"first": 9010, "end": 9020, "named": False, **torn},
    )
    blocks = [block(**one), block(**other)]
    blocks[1].process = (
        blocks[0].process
        if torn.get("process", "Worker") == above.get("process", "Worker")
        else blocks[1].process
    )
    context: Any = SimpleNamespace(
        blocks=blocks, ending=SimpleNamespace(fatal=[0, 1] if above.get("fatal", True) else [1])
    )
    assert _repeats(context, 1) is repeated
