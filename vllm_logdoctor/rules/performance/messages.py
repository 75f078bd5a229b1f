"""Findings that messages make by themselves: those whose pattern names a rule page, and one for all slower ways without a rule."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

from vllm_logdoctor.catalogue.pages import RulePage, first_paragraph, points, rule_names, rule_page
from vllm_logdoctor.catalogue.topics import Severity
from vllm_logdoctor.events import Event
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.rules.context import RuleContext, message_lines
from vllm_logdoctor.rules.failure.wording import changes_of, filled_lines, other_ways, shown
from vllm_logdoctor.rules.rule import Advice, Rule
from vllm_logdoctor.run.builds import compiler_error
from vllm_logdoctor.run.model import Run

# Messages that rules of this package read themselves.
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
        "attention", "compile", "engine", "kv-cache", "kv-transfer", "lora", "memory", "moe", "multimodal", "parallelism",
        "platform", "hardware", "quantization", "sampling", "scheduler", "serving", "speculative-decoding", "tokenizer",
        "logging",
    }
)  # fmt: skip
MOST_SHOWN = 5
_BUILD = "Ninja build failed"
_FOLDERS = lazy_pattern(r"^\s*/\S*/(?=\S+: )")


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
    refused = _not_compiled(case, ids)
    # nvcc names a file with all its folders, which the cited line shows.
    compiler = (
        f" A kernel could not be built; the first error of its build: `{shown(_FOLDERS.sub('', refused.message))}`."
        if refused
        else ""
    )
    return Advice(
        f"{' '.join(meanings)}{more}{compiler}",
        (*message_lines(case, *ids, most=MOST_SHOWN), *([case.run.evidence(refused)] if refused else ())),
        confidence="medium",
        severity=severity,
        verify="no such lines at start-up.",
    )


def _not_compiled(case: RuleContext, ids: Sequence[str]) -> Record | None:
    """Return the first error of a compiler in the output that follows the message of a slower way, several lines long."""
    heads = [case.run.messages[name].first[0].record for name in ids]
    head = next((one for one in heads if _BUILD in one.message), None)
    return (
        compiler_error([one for one in case.run.records if head and one.line > head.line]) if head else None
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
    """Return what a page advises where a message shows that it applies; fields of messages fill in its words."""
    seen = [event for name in messages for event in case.run.messages[name].first]
    others = sorted({event.pattern.pack for event in seen if not event.pattern.trusted})
    values = _values(seen)
    meanings = dict.fromkeys(event.pattern.meaning for event in seen if event.pattern.meaning)
    words = filled_lines(page.explain, values) or " ".join(meanings) or first_paragraph(page.meaning)
    source = [f"So says the pack {pack}, which is not part of logdoctor." for pack in others]
    changes = changes_of(page.changes, case.run, values)
    return Advice(
        " ".join([words, *source]),
        message_lines(case, *messages, most=MOST_SHOWN),
        confidence="medium" if others else "high",
        changes=changes,
        alternatives=other_ways(points(page.remedy), changes, case.run),
        avoid=page.avoid,
        verify=first_paragraph(page.verification),
    )


def _values(events: Sequence[Event]) -> dict[str, Any]:
    """Return the fields of messages by name; texts that differ are listed."""
    names = dict.fromkeys(name for event in events for name in event.fields)
    found = {name: list(dict.fromkeys(e.fields[name] for e in events if name in e.fields)) for name in names}
    return {
        name: ", ".join(map(str, values)) if isinstance(values[0], str) else values[0]
        for name, values in found.items()
    }
