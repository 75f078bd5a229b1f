"""Which of several candidates is the root: by what they are, by when they happened, and by how surely they are named."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from tests.rules.making import record
from tests.tables import for_each
from vllm_logdoctor.catalogue.pages import Signature
from vllm_logdoctor.rules.failure.context import Observation
from vllm_logdoctor.rules.failure.matching import RuleMatch
from vllm_logdoctor.rules.failure.root import (
    _CAUSE,
    _ECHO,
    _SYMPTOM,
    _WRAPPER,
    KILLED,
    _announces_retry,
    _Candidate,
    _chosen,
    _contributing,
    _guessed,
    _is_close,
    _only_warns,
    _retried,
    _same_incident,
    _says_the_same,
    _settled,
    _tier,
)

CONTEXT: Any = SimpleNamespace()
UNNAMED = "unclassified-failure"
RULES: dict[str, Any] = {}


def rule(id: str) -> Any:
    return RULES.setdefault(id, SimpleNamespace(id=id))


def at(
    line: int, time: float | None = None, file: int = 0, text: str = "an error", **more: Any
) -> Observation:
    level = more.pop("level", "")
    return Observation(
        text, replace(record(text, line, level), time=time, file=file), line, (file, line), **more
    )


def named(
    id: str, seen: Observation, priority: int = 50, title: str = "", rank: Any = "cause", regex: str = "x"
) -> RuleMatch:
    signature = Signature(regex, priority=priority, title=title, rank=rank)
    return RuleMatch(rule(id), signature, seen, seen.record, {}, ())


def candidate(
    tier: int, line: int, id: str = "", time: float | None = None, file: int = 0, **more: Any
) -> _Candidate:
    seen = at(line, time, file)
    return _Candidate(tier, seen, named(id, seen, **more) if id else None, (file, line))


def chosen(*candidates: _Candidate) -> int:
    """Return the line of the root."""
    ordered = sorted(candidates, key=lambda one: (one.place, one.tier))
    return _chosen(ordered, CONTEXT).observation.record.line


@for_each(
    ("candidates", "line"),
    [
        # The first cause leads; a symptom or an echo before it does not.
        ((candidate(_CAUSE, 10, "a"), candidate(_CAUSE, 20, "b")), 10),
        ((candidate(_SYMPTOM, 10, "a"), candidate(_CAUSE, 20, "b")), 20),
        ((candidate(_ECHO, 10, "a"), candidate(_CAUSE, 20, "b")), 20),
        ((candidate(_ECHO, 10, "a"), candidate(_SYMPTOM, 20)), 20),
        # A cause of another incident is not that of the first symptom.
        ((candidate(_SYMPTOM, 10, "a"), candidate(_CAUSE, 510, "b")), 510),
        ((candidate(_SYMPTOM, 10, "a"), candidate(_CAUSE, 511, "b")), 10),
        ((candidate(_SYMPTOM, 10, "a", 5.0), candidate(_CAUSE, 900, "b", 95.0)), 900),
        ((candidate(_SYMPTOM, 10, "a", 5.0), candidate(_CAUSE, 20, "b", 95.5)), 10),
        ((candidate(_SYMPTOM, 10, "a"), candidate(_CAUSE, 9000, "b", file=1)), 9000),
        # Where nothing else is there, the first echo goes before a wrapper.
        ((candidate(_WRAPPER, 10), candidate(_ECHO, 20), candidate(_ECHO, 30)), 20),
        ((candidate(_WRAPPER, 10), candidate(_WRAPPER, 20)), 10),
        # Of symptoms the one that a rule knows best, of those alike the first; unless it is of another incident.
        ((candidate(_SYMPTOM, 10), candidate(_SYMPTOM, 20, "a"), candidate(_SYMPTOM, 30, "b", priority=60)), 30),
        ((candidate(_SYMPTOM, 10), candidate(_SYMPTOM, 20, "a"), candidate(_SYMPTOM, 30, "b")), 20),
        ((candidate(_SYMPTOM, 10), candidate(_SYMPTOM, 20, UNNAMED, priority=60)), 10),
        ((candidate(_SYMPTOM, 10), candidate(_SYMPTOM, 511, "a")), 10),
        # A process that was gone before an error that no rule knows well is what it follows from.
        ((candidate(_ECHO, 5, KILLED), candidate(_SYMPTOM, 10, "a", priority=39)), 5),
        ((candidate(_ECHO, 5, KILLED), candidate(_SYMPTOM, 10, "a", priority=40)), 10),
        ((candidate(_ECHO, 15, KILLED), candidate(_SYMPTOM, 10, "a", priority=39)), 10),
        ((candidate(_ECHO, 5, "other"), candidate(_SYMPTOM, 10)), 10),
        # The line that names the same cause by words of its own case.
        ((candidate(_CAUSE, 10, "a"), candidate(_CAUSE, 20, "a", priority=51, title="Own case")), 20),
        ((candidate(_CAUSE, 10, "a"), candidate(_CAUSE, 20, "a", priority=51)), 10),
        ((candidate(_CAUSE, 10, "a"), candidate(_CAUSE, 20, "a", priority=50, title="Own case")), 10),
        ((candidate(_CAUSE, 10, "a"), candidate(_CAUSE, 20, "b", priority=51, title="Own case")), 10),
        ((candidate(_CAUSE, 10, "a"), candidate(_SYMPTOM, 20, "a", priority=51, title="Own case")), 10),
        ((candidate(_CAUSE, 10, "a"), candidate(_CAUSE, 511, "a", priority=51, title="Own case")), 10),
    ],
)  # fmt: skip
def test_the_root_of_candidates(candidates: tuple[_Candidate, ...], line: int) -> None:
    assert chosen(*candidates) == line


@for_each(
    ("one", "other", "same"),
    [
        (candidate(0, 1, time=5.0), candidate(0, 900, time=95.0), True),
        (candidate(0, 900, time=95.1), candidate(0, 1, time=5.0), False),
        (candidate(0, 1), candidate(0, 501, time=5.0), True),
        (candidate(0, 502), candidate(0, 1), False),
        (
            candidate(0, 1, time=5.0),
            candidate(0, 1, time=500.0, file=1),
            True,
        ),  # No order between files is known.
    ],
)
def test_an_incident_lasts_for_a_minute_and_a_half_or_some_hundred_lines(
    one: _Candidate, other: _Candidate, same: bool
) -> None:
    assert _same_incident(one, other) is same
    assert _same_incident(other, one) is same


@for_each(
    ("root", "others", "ids"),
    [
        (candidate(_CAUSE, 10, "a"), (candidate(_CAUSE, 20, "b"), candidate(_CAUSE, 30, "c"), candidate(_CAUSE, 40, "d")), ["b", "c"]),
        (candidate(_CAUSE, 10, "a"), (candidate(_CAUSE, 20, "a"), candidate(_CAUSE, 30, "b"), candidate(_CAUSE, 31, "b")), ["b"]),
        # Beside a cause a symptom is none, and beside a symptom an echo is none.
        (candidate(_CAUSE, 10, "a"), (candidate(_SYMPTOM, 20, "b"),), []),
        (candidate(_SYMPTOM, 10, "a"), (candidate(_SYMPTOM, 20, "b"), candidate(_ECHO, 30, "c")), ["b"]),
        (candidate(_SYMPTOM, 10), (candidate(_SYMPTOM, 20, "b"),), ["b"]),
        (candidate(_CAUSE, 10, "a"), (candidate(_CAUSE, 20, UNNAMED), candidate(_CAUSE, 30)), []),
        (candidate(_CAUSE, 10, "a"), (candidate(_CAUSE, 511, "b"),), []),
    ],
)  # fmt: skip
def test_what_contributed_is_another_cause_of_the_same_incident(
    root: _Candidate, others: tuple[_Candidate, ...], ids: list[str]
) -> None:
    assert [one.rule.id for one in _contributing((root, *others), root)] == ids


def test_causes_of_one_traceback_contribute_nothing_to_each_other() -> None:
    block: Any = SimpleNamespace()
    first, second = (at(line, block=block) for line in (10, 20))
    root = _Candidate(_CAUSE, first, named("a", first), (0, 10))
    inner = _Candidate(_CAUSE, second, named("b", second), (0, 20))
    assert list(_contributing((root, inner), root)) == []


@for_each(
    ("seen", "match", "tier"),
    [
        (at(1), None, _SYMPTOM),
        (at(1, wrapper=True), None, _WRAPPER),
        (at(1, echo=True), None, _ECHO),
        (at(1), "cause", _CAUSE),
        (at(1), "symptom", _SYMPTOM),
        (at(1), "echo", _ECHO),
        (at(1, wrapper=True), "cause", _ECHO),
        (at(1, echo=True), "cause", _CAUSE),
    ],
)
def test_what_an_observation_is(seen: Observation, match: Any, tier: int) -> None:
    assert _tier(seen, named("a", seen, rank=match, regex="disk is full") if match else None) == tier


def test_what_names_no_cause_is_an_echo_and_in_a_wrapper_less_than_that() -> None:
    seen, wrapper = at(1), at(1, wrapper=True)
    assert _tier(seen, named("cause-not-in-log", seen)) == _ECHO
    assert _tier(wrapper, named("cause-not-in-log", wrapper)) == _WRAPPER
    # A signature that takes any message names nothing in an exception that repeats another process's.
    echo = at(1, echo=True)
    assert _tier(echo, named("a", echo, regex="")) == _ECHO


def test_the_look_of_a_wrapper_names_nothing() -> None:
    seen, wrapper = at(1), at(1, wrapper=True)
    assert not _guessed(named("a", seen, rank="symptom"), seen)
    assert _guessed(named("a", wrapper, rank="symptom"), wrapper)
    assert _guessed(named("a", wrapper, regex=""), wrapper)
    assert not _guessed(named("a", wrapper, regex="disk is full"), wrapper)


def test_a_match_agrees_with_the_root_by_its_rule_and_of_last_resort_by_its_words() -> None:
    one, same, other = (at(line, text=text) for line, text in ((1, "x"), (2, "x"), (3, "y")))
    assert _says_the_same(named("a", one), named("a", other))
    assert not _says_the_same(named("a", one), named("b", same))
    assert _says_the_same(named(UNNAMED, one), named(UNNAMED, same))
    assert not _says_the_same(named(UNNAMED, one), named(UNNAMED, other))


@for_each(
    ("text", "framed", "level", "warns"),
    [
        ("/opt/x.py:12: UserWarning: the disk is full", False, "", True),
        ("UserWarning: CUDA initialization: the driver is too old", False, "", False),
        ("[rank0]:[W405 23:43:54 file.cpp:1] the disk is full", False, "", True),
        ("node7:12:12 [0] NCCL WARN the disk is full", False, "", False),
        ("node7:12:12 [0] NCCL INFO the disk is full", False, "", True),
        ("a WARN of something", False, "", True),
        ("the disk is full", False, "", False),
        ("the disk is full", True, "INFO", True),
        ("the disk is full", True, "WARNING", True),
        ("the disk is full", True, "ERROR", False),
        ("the disk is full", True, "CRITICAL", False),
    ],
)
def test_a_warning_is_no_error(text: str, framed: bool, level: str, warns: bool) -> None:
    line = record(text, 1, level)
    seen = Observation(text, replace(line, call_site=("a.py", 3)) if framed else line, 0, (0, 1))
    assert seen.framed is framed
    assert _only_warns(seen) is warns


@for_each(
    ("text", "again"),
    [
        ("Error retrieving file list: no name, retrying 1 of 2", True),
        ("no name, will retry", True),
        ("no name, will be retried", True),
        ("no name, retry 1 of 3", True),
        ("no name, retries are off", False),
        ("no retry", False),
    ],
)
def test_an_error_announces_another_try(text: str, again: bool) -> None:
    assert _announces_retry(text) is again


@for_each(
    ("following", "settled"),
    [
        ({}, True),
        ({"level": "ERROR"}, False),
        ({"call_site": None}, False),
        ({"process": "other"}, False),
    ],
)
def test_what_was_tried_again_is_settled_once_its_process_goes_on(
    following: dict[str, Any], settled: bool
) -> None:
    error = at(1, text="no name, retrying 1 of 2")
    other = replace(error.record.process, role="worker")
    given = {"level": "INFO", "call_site": ("a.py", 3), **following}
    given |= {"process": other} if "process" in following else {}
    after = replace(record("went on", 3), **given)
    trail = [record("before", 0), error.record, record("between", 2), after, record("Traceback", 4)]
    context: Any = SimpleNamespace(trail=trail)
    assert _retried(error, context, [4]) is settled
    assert not _retried(error, context, [3]), "what follows the traceback is too late"
    assert not _retried(at(1, text="no name"), context, [4])


def _context(**more: Any) -> Any:
    ending = {"ready": None, "stop": None, "failed": False, **more.pop("ending", {})}
    given = {"day": False, "card": False, "complete": True, **more}
    return SimpleNamespace(
        ending=SimpleNamespace(**ending),
        run=SimpleNamespace(startup_complete=given["complete"]),
        is_of_another_day=lambda _: given["day"],
        is_of_another_card=lambda _: given["card"],
        place=lambda one: (one.file, one.line),
    )


STOP_AT_5 = {"stop": SimpleNamespace(record=record("stopped", 5))}
FRAMED = replace(at(5), record=replace(record("x", 5, "ERROR"), call_site=("a.py", 3)))


@for_each(
    ("seen", "context", "settled"),
    [
        (at(5), _context(), False),
        (at(5), _context(day=True), True),
        (at(5), _context(card=True), True),
        (FRAMED, _context(day=True, card=True), False),  # A line of vLLM's own logger is of this run.
        (at(6), _context(ending=STOP_AT_5), True),
        (at(5), _context(ending=STOP_AT_5), False),
        # The server was ready after it, and did not fail.
        (at(5), _context(ending={"ready": (0, 6)}), True),
        (at(5), _context(ending={"ready": (0, 5)}), False),
        (at(5), _context(ending={"ready": (0, 6), "failed": True}), False),
        (at(5), _context(ending={"ready": (0, 6)}, complete=False), False),
        # What a request says is no error.
        (at(5, text="Received request cmpl-1: an error", level="INFO"), _context(), True),
        (at(5, text="Received request cmpl-1: an error", level="ERROR"), _context(), False),
        (at(5, text="An error", level="INFO"), _context(), False),
    ],
)  # fmt: skip
def test_what_the_run_outlived_is_settled(seen: Observation, context: Any, settled: bool) -> None:
    assert _settled(seen, context) is settled


@for_each(("line", "close"), [(80, True), (79, False)])
def test_a_line_is_close_to_the_first_traceback_within_twenty_lines(line: int, close: bool) -> None:
    context: Any = SimpleNamespace(trail=[record("x", 1), record("Traceback", 100), record("Traceback", 900)])
    assert _is_close(at(line), [1, 2], context) is close
