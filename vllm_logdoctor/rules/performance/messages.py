"""Findings that messages make by themselves: those whose pattern names a rule page, and one for all slower ways without a rule."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import partial

from vllm_logdoctor.catalogue.pages import RulePage, rule_names, rule_page
from vllm_logdoctor.catalogue.topics import Severity
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.context import RuleContext, message_lines
from vllm_logdoctor.rules.rule import Advice, Rule
from vllm_logdoctor.run.model import Run

# Messages that rules of this room read themselves.
_READ_ELSEWHERE = frozenset(
    {
        "eager-mode-in-effect",
        "engine-v0-fallback",
        "preempted",
        "configuration-not-warmed-up",
        "custom-allreduce-disabled",
        "graph-memory-equivalent",
        "environment-variable-unknown",
        "using-slow-tokenizer-cause-significant-slowdown-consider",
        "hybrid-kv-cache-manager-disabled-hybrid-model",
    }
)
_TOPICS = frozenset(
    {
        "attention",
        "compile",
        "engine",
        "kv-cache",
        "kv-transfer",
        "lora",
        "memory",
        "moe",
        "multimodal",
        "parallelism",
        "platform",
        "hardware",
        "quantization",
        "sampling",
        "scheduler",
        "serving",
        "speculative-decoding",
        "tokenizer",
        "logging",
    }
)
MOST_SHOWN = 5
_POINT = lazy_pattern(r"^(?:[-*]|\d+\.) +", re.MULTILINE)


def slower_paths_taken(case: RuleContext) -> Advice | None:
    """vLLM says that something runs in a slower way. Needs its messages, as the packs judge them."""
    ids = [
        name
        for name, seen in case.run.messages.items()
        if seen.first[0].pattern.verdict == "costs-performance"
        and seen.first[0].pattern.rule is None
        and seen.first[0].pattern.topic in _TOPICS
        and not seen.first[0].pattern.pack.startswith("advice-")
        and name not in _READ_ELSEWHERE
    ]
    if not ids:
        return None
    patterns = [case.run.messages[name].first[0].pattern for name in ids]
    meanings = list(dict.fromkeys(pattern.meaning for pattern in patterns if pattern.meaning))[:MOST_SHOWN]
    more = f" And {len(ids) - MOST_SHOWN} more." if len(ids) > MOST_SHOWN else ""
    serious = any(pattern.severity in ("high", "medium") for pattern in patterns)
    severity: Severity = "low" if serious else "info"
    text = (
        "vLLM reports slower code paths: "
        + " ".join(meanings)
        + more
        + " The log does not show how much each costs."
    )
    return Advice(
        text,
        message_lines(case, *ids, most=MOST_SHOWN),
        confidence="medium",
        severity=severity,
        verify="no such lines at start-up.",
    )


RULES = (Rule("slower-paths-taken", slower_paths_taken),)


def rules_of_patterns(run: Run, checked: Collection[str]) -> Iterator[Rule]:
    """Yield a rule for each page that a seen pattern names and no check in Python decides.

    Args:
        run: the run.
        checked: ids of the rules that have a check. A pattern of the tool leaves the finding to it; one of a pack of
            others makes the finding by itself, because the check knows nothing of it.
    """
    ids: dict[str, list[str]] = {}
    candidates = {
        seen.first[0].pattern.rule
        for seen in run.messages.values()
        if not (seen.first[0].pattern.trusted and seen.first[0].pattern.rule in checked)
    } - {None}
    # Reading all pages for their aliases takes longer than a small analysis.
    names = rule_names() if candidates else {}
    for message, seen in run.messages.items():
        pattern = seen.first[0].pattern
        rule_id = names.get(pattern.rule or "")
        if rule_id and not (pattern.trusted and rule_id in checked) and rule_page(rule_id).kind != "failure":
            ids.setdefault(rule_id, []).append(message)
    for rule_id, messages in ids.items():
        yield Rule(rule_id, partial(_advice_of_page, page=rule_page(rule_id), messages=tuple(messages)))


def _advice_of_page(case: RuleContext, page: RulePage, messages: tuple[str, ...]) -> Advice:
    """Return what a page advises where a message shows that it applies."""
    patterns = [case.run.messages[name].first[0].pattern for name in messages]
    others = sorted({pattern.pack for pattern in patterns if not pattern.trusted})
    meanings = list(dict.fromkeys(pattern.meaning for pattern in patterns if pattern.meaning))
    source = [f"So says the pack {pack}, which is not part of logdoctor." for pack in others]
    return Advice(
        " ".join([*(meanings or [_first_paragraph(page.meaning)]), *source]),
        message_lines(case, *messages, most=MOST_SHOWN),
        confidence="medium" if others else "high",
        alternatives=_points(page.remedy),
        verify=_first_paragraph(page.verification),
    )


def _points(text: str) -> list[str]:
    """Return the points of a list, each as one line; without a list, the first paragraph."""
    pieces = _POINT.split(text)
    return [_first_paragraph(piece) for piece in (pieces[1:] or pieces) if piece.strip()]


def _first_paragraph(text: str) -> str:
    return " ".join(text.strip().split("\n\n", 1)[0].split())
