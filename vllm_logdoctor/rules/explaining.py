"""What an id means, as Markdown: a rule with its page, a message with its verdict, and where all of it is written."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vllm_logdoctor.catalogue.index import Pattern
from vllm_logdoctor.catalogue.loading import load_index
from vllm_logdoctor.catalogue.locate import PACKAGE, builtin_root
from vllm_logdoctor.catalogue.message_ids import message_of_id
from vllm_logdoctor.catalogue.model import SampleEntry
from vllm_logdoctor.catalogue.pages import HEADINGS, RulePage, rule_names, rule_page
from vllm_logdoctor.catalogue.sources import PatternTexts
from vllm_logdoctor.catalogue.vllm_messages import pattern_of_message
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.knowledge.messages import message_table

if TYPE_CHECKING:
    from vllm_logdoctor.rules.rule import Rule

_VERDICTS = {
    "information": "Information: says what is, by itself neither good nor bad.",
    "harmless": "Harmless: nothing to do.",
    "needs-attention": "Outputs, a feature or memory may not be what was asked for.",
    "costs-performance": "Costs performance, or memory, where its part matters.",
    "will-break": "Works today, will break with a later release.",
    "cause-of-failure": "Cause of a failure, or close to it.",
}
_LEVELS = {
    "raise": "raised as an exception",
    "foreign": "printed by a program beside vLLM",
    "print": "printed without a log header",
}


def explain(name: str, extra: Sequence[Path] = ()) -> str:
    """Return what the rule or the message with an id means, as Markdown.

    Args:
        name: id of a rule (or an alias of it), or of a pattern.
        extra: directories or files of further packs.

    Example:
        >>> explain("eager-mode").startswith("#")
        True

    Raises LogdoctorError with the nearest ids for one that nobody knows.
    """
    return Explainer(extra).explain(name)


def known_ids(extra: Sequence[Path]) -> Mapping[str, str]:
    """Return the present id of each rule, alias of a rule, and pattern, by each of its names."""
    patterns = {pattern.id: pattern.id for pattern in load_index(extra).patterns}
    return {**patterns, **rule_names()}


def present_id(name: str, known: Mapping[str, str]) -> str | None:
    """Return the present id of what has a name: a known one, or a message that had a pattern up to release 0.1."""
    if name in known:
        return known[name]
    message = message_of_id(name)
    return None if message is None else message.id


def unknown(name: str, known: Sequence[str]) -> str:
    """Return one line on an id that nobody knows, with the nearest that are known."""
    near = difflib.get_close_matches(name, known, n=4, cutoff=0.5)
    hint = f"; did you mean {', '.join(near)}?" if near else "; logdoctor patterns list shows all"
    return f"no rule and no pattern has the id {name!r}{hint}"


class Explainer:
    """Explains ids of the packs that come with the tool and of further ones."""

    def __init__(self, extra: Sequence[Path] = ()) -> None:
        self._patterns = {pattern.id: pattern for pattern in load_index(extra).patterns}
        self._rules = rule_names()
        self._texts = PatternTexts([builtin_root(), *extra])

    def ids(self) -> list[str]:
        """Return all ids: of rules with their aliases, then of patterns."""
        return [*self._rules, *self._patterns]

    def explain(self, name: str) -> str:
        """Return what an id means, as `explain` does."""
        page = self._page(name)
        pattern = self._patterns.get(name)
        if page is None and pattern is None:
            pattern = _of_table(name)
        if page is None and pattern is None:
            raise LogdoctorError(unknown(name, self.ids()), 2)
        parts = [_page_lines(page)] if page else []
        rule = page
        if pattern is not None:
            text = self._texts.find(pattern.id)
            parts.append(_pattern_lines(pattern, text.entry.samples if text else []))
            if page is None and pattern.rule and (rule := self._page(pattern.rule)):
                parts.append(_page_lines(rule))
        places = list(self._places(rule, pattern))
        if places:
            parts.append(iter(["## Where it is", "", *places]))
        return "\n\n".join("\n".join(part) for part in parts) + "\n"

    def _places(self, page: RulePage | None, pattern: Pattern | None) -> Iterator[str]:
        """Yield the files of a rule and of its messages: page, check, patterns and tests."""
        from vllm_logdoctor.rules.registry import all_rules

        rule = all_rules()[page.id] if page else None
        if page is not None:
            yield f"- page: {_place(builtin_root() / 'rules' / f'{page.id}.md')}"
        named = [
            one.id
            for one in self._patterns.values()
            if rule and (one.rule == rule.id or one.id in rule.needs)
        ]
        if rule is not None and rule.source is not None:
            yield f"- check: {_place(*rule.source)}"
        elif page is not None and (page.signatures or named):
            yield f"- check: none; {'the page and its signatures are' if page.signatures else 'the pattern is'} the rule"
        for name in [pattern.id] if pattern else named:
            text = self._texts.find(name)
            if text is not None:
                yield f"- pattern: {_place(text.path, text.line)}"
        if rule is not None:
            yield from (f"- test: {place}" for place in self._tests_of(rule))

    @cached_property
    def _tests(self) -> dict[Path, str]:
        """The tests of rules in a checkout."""
        folders = (PACKAGE.parent / "tests" / name for name in ("rules", "failure"))
        return {
            path: path.read_text("utf-8") for folder in folders for path in sorted(folder.glob("test_*.py"))
        }

    def _tests_of(self, rule: Rule) -> Iterator[str]:
        """Yield the tests of a rule: those that name it or its check, most often first, and the example of its page."""
        named = re.compile(rf'"{rule.id}"|\b{rule.check.__name__}\b' if rule.check else f'"{rule.id}"')
        found = {path: list(named.finditer(text)) for path, text in self._tests.items()}
        for path in sorted(found, key=lambda path: -len(found[path])):
            if found[path]:
                yield _place(path, self._tests[path].count("\n", 0, found[path][0].start()) + 1)
        if self._tests and rule.page.example:
            yield "the example of the page, by `tests/failure/test_examples.py`"

    def _page(self, name: str) -> RulePage | None:
        return rule_page(self._rules[name]) if name in self._rules else None


def _of_table(name: str) -> Pattern | None:
    message = message_of_id(name)
    return None if message is None else pattern_of_message(message, message_table().versions)


def _place(path: Path, line: int | None = None) -> str:
    """Return a place in a file, below the checkout where it is in one."""
    root = PACKAGE.parent
    name = path.relative_to(root) if path.is_relative_to(root) else path
    return f"`{name}`" if line is None else f"`{name}:{line}`"


def _page_lines(page: RulePage) -> Iterator[str]:
    yield f"# {page.id}"
    yield ""
    yield f"{page.title}."
    yield ""
    yield f"- kind: {page.kind}"
    yield f"- severity: {page.severity}"
    yield f"- topic: {page.topic}"
    if page.aliases:
        yield f"- also known as: {', '.join(page.aliases)}"
    if page.knobs:
        yield f"- settings: {', '.join(f'`{knob}`' for knob in page.knobs)}"
    if page.since or page.until:
        yield f"- releases: {page.since or 'all'} to {page.until or 'now'}"
    for heading in HEADINGS:
        if page.sections.get(heading):
            yield ""
            yield f"## {heading}"
            yield ""
            yield page.sections[heading]


def _pattern_lines(pattern: Pattern, samples: Sequence[SampleEntry]) -> Iterator[str]:
    yield f"# {pattern.id}"
    yield ""
    yield pattern.meaning or "A line that states what is; see the fields for what is read from it."
    yield ""
    yield _VERDICTS[pattern.verdict]
    yield ""
    yield f"- severity: {pattern.severity}"
    yield f"- topic: {pattern.topic}"
    yield f"- level: {_LEVELS.get(pattern.level, pattern.level)}"
    if pattern.seen != "any":
        yield f"- releases: {pattern.seen}"
    if pattern.module:
        yield f"- printed by: `{pattern.module}`"
    if pattern.platform:
        yield f"- platform: {pattern.platform}"
    if pattern.rule:
        yield f"- rule: {pattern.rule}"
    yield f"- pack: {pattern.pack}"
    for field in pattern.fields:
        unit = f" in {field.unit}" if field.unit else ""
        yield f"- field `{field.name}`: {field.type}{unit}{', masked' if field.sensitive else ''}"
    for sample in samples[:2]:
        yield ""
        yield "```log"
        yield sample.text
        yield "```"
