"""The rules of failures: what the front matter of their pages says, compiled into one file that loads at once."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Literal

from msgspec import Struct, field

from vllm_logdoctor.catalogue.topics import Resource, RuleKind, Severity, Topic
from vllm_logdoctor.texts import TextIndex

Where = Literal["exception", "message", "native", "frames", "any"]
Rank = Literal["cause", "symptom", "echo"]


class Signature(Struct, frozen=True):
    """One way in which a log shows a failure.

    Attributes:
        gates: texts of which one stands in everything that `regex` matches.
        regex: searched in the text; its named groups are values for words and changes.
        where: which text: "exception" (class and text), "frames" (places and code of a traceback), "message"
            (a logger's record), "native" (text without a logger) or "any" (all but frames).
        type: must be found in the class of the exception.
        frames, not_frames: must, must not be found among the places of the traceback.
        raised_in: must be found in the deepest place of the traceback that is vLLM's own.
        near: must be found in a line above, at most `within` lines away (0: anywhere in the run).
        without: must not be found in the text, nor in the lines above within `within` that are no plain information.
        phase: what the process was doing (`run.blockphase`), one of these.
        serving: whether the engine had begun to serve.
        versions: releases, "0.17.0-0.18.1".
        platform: one of these.
        facts: conditions on settings and figures: {"weights_share": ">=0.7"}.
        rank: "cause", "symptom" (something else may be behind it) or "echo" (of another process' failure).
        priority: which signature names a text that several know; the higher one.
        confidence: how sure the name is.
        decisive: "text" or "near": which line proves it.
        alone: whether a line without a traceback is a failure by itself.
        explain: words for this case; "" for the page's.
        title: title of this case; "" for the page's.
        remedy: what to do in this case, in place of the page's list and of its changes that need no value from the log.
    """

    gates: tuple[str, ...]
    regex: str
    where: Where = "any"
    type: str = ""
    frames: str = ""
    not_frames: str = ""
    raised_in: str = ""
    near: str = ""
    within: int = 80
    without: str = ""
    phase: tuple[str, ...] = ()
    serving: bool | None = None
    versions: str = ""
    platform: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    rank: Rank = "cause"
    priority: int = 50
    confidence: Literal["high", "medium", "low"] = "high"
    decisive: Literal["text", "near"] = "text"
    alone: bool = False
    explain: str = ""
    title: str = ""
    remedy: tuple[str, ...] = ()


class ChangeTemplate(Struct, frozen=True):
    """A change in a page: knob, kind, and a value with names in braces that the log fills in."""

    knob: str
    kind: Literal["flag", "env", "setting", "action"]
    to: Any = None
    safety: Literal["safe", "needs-test", "changes-results"] = "safe"
    note: str = ""
    needs: tuple[str, ...] = ()


class FailureRule(Struct, frozen=True):
    """What the page of a failure says, as far as a finding needs it."""

    id: str
    kind: RuleKind
    title: str
    severity: Severity
    topic: Topic
    exhausts: Resource | None
    explain: str
    avoid: str
    verify: str
    meaning: str
    changes: tuple[ChangeTemplate, ...]
    alternatives: tuple[str, ...]
    signatures: tuple[Signature, ...]


class FailureRules:
    """All rules of failures, with the way from a text to the signatures that may know it."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rules = {row["id"]: row for row in rows}
        self._built: dict[str, FailureRule] = {}
        # Every rank prints the same traceback.
        self._places_in = lru_cache(maxsize=256)(self._search)

    def __contains__(self, rule_id: str) -> bool:
        return rule_id in self._rules

    def rule(self, rule_id: str) -> FailureRule:
        """Return a rule; raises KeyError where no page has that id."""
        if rule_id not in self._built:
            self._built[rule_id] = rule_of(self._rules[rule_id])
        return self._built[rule_id]

    def candidates(self, text: str) -> list[tuple[FailureRule, Signature]]:
        """Return the signatures with a gate in the text."""
        return [
            (self.rule(rule_id), self.rule(rule_id).signatures[number])
            for rule_id, number in sorted(self._places_in(text))
        ]

    @cached_property
    def _gates(self) -> list[tuple[str, str, int]]:
        """Each gate with its rule and the number of its signature; a run that is well never asks for them."""
        return [
            (gate, row["id"], number)
            for row in self._rules.values()
            for number, table in enumerate(row["signatures"])
            for gate in table["gates"]
        ]

    @cached_property
    def _index(self) -> TextIndex[str]:
        return TextIndex([gate for gate, _, _ in self._gates])

    def _search(self, text: str) -> set[tuple[str, int]]:
        """Return rule and number of the signatures with a gate in the text."""
        return {self._gates[number][1:] for number in self._index.found_in(text)}


def rule_of(row: Mapping[str, Any]) -> FailureRule:
    """Build a rule from its compiled row."""
    return FailureRule(
        **{
            name: row[name]
            for name in (
                "id",
                "kind",
                "title",
                "severity",
                "topic",
                "exhausts",
                "explain",
                "avoid",
                "verify",
                "meaning",
            )
        },
        changes=tuple(
            ChangeTemplate(**{**change, "needs": tuple(change.get("needs", ()))}) for change in row["changes"]
        ),
        alternatives=tuple(row["alternatives"]),
        signatures=tuple(_signature(table) for table in row["signatures"]),
    )


def _signature(table: Mapping[str, Any]) -> Signature:
    listed = ("gates", "phase", "platform", "remedy")
    values: dict[str, Any] = {key: tuple(value) if key in listed else value for key, value in table.items()}
    return Signature(**values)


@lru_cache(maxsize=1)
def failure_rules() -> FailureRules:
    """Return the rules of the pages that come with the tool, compiled ahead."""
    from vllm_logdoctor.rules.failure.compiled import rules_text

    return FailureRules(json.loads(rules_text()))


@lru_cache(maxsize=2048)
def expression(regex: str) -> re.Pattern[str]:
    """Return a compiled regex of a page."""
    return re.compile(regex, re.DOTALL)
