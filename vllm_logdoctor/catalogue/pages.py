"""Rule pages: what a finding means, why it matters and what to do, one Markdown file per rule.

A page starts with TOML between two lines `+++`; then come sections with fixed headings:

    +++
    id = "kv-cache-too-small-for-max-model-len"
    kind = "failure"
    title = "KV cache too small for max_model_len"
    severity = "critical"
    topic = "kv-cache"
    knobs = ["--max-model-len", "--gpu-memory-utilization"]
    [[signature]]
    gate = ["larger than the available KV cache memory"]
    regex = 'To serve at least one request .* larger than the available KV cache memory'
    where = "exception"
    +++
    ## What it means
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from vllm_logdoctor.catalogue.errors import PackError, Problem
from vllm_logdoctor.catalogue.locate import builtin_root, page_files
from vllm_logdoctor.catalogue.topics import Resource, RuleKind, Severity, Topic

HEADINGS = (
    "What it means",
    "Why it matters",
    "What to do",
    "How to see that it worked",
    "When it does not apply",
)
KINDS = ("failure", "performance", "configuration", "security")
SEVERITIES = ("critical", "high", "medium", "low", "info")
_KNOWN = {
    "id": str,
    "kind": str,
    "title": str,
    "severity": str,
    "topic": str,
    "exhausts": str,
    "aliases": list,
    "knobs": list,
    "since": str,
    "until": str,
    "explain": str,
    "avoid": str,
    "watch": list,
    "signature": list,
    "change": list,
}
_NEEDED = ("id", "kind", "title", "severity", "topic")
_HEADING = re.compile(r"^## +(.+?) *$", re.MULTILINE)


class Signature(Struct, frozen=True):
    """One way in which a log shows a failure.

    Every text that `regex` matches holds at least one of the gates. `where` says which text is searched:
    "exception" (type and text of an exception), "message" (of a record), "native" (text without a
    record) or "any". `options` holds all further keys of the table, for the room that judges.
    """

    gates: tuple[str, ...]
    regex: str
    where: str = "any"
    options: Mapping[str, object] = field(default_factory=dict)


class RulePage(Struct, frozen=True):
    """One rule: its front matter and its sections by heading (Markdown).

    `options` holds the keys of the front matter that the rooms who judge read for themselves: `explain`,
    `avoid` and the tables `[[change]]`.
    """

    id: str
    kind: RuleKind
    title: str
    severity: Severity
    topic: Topic
    exhausts: Resource | None
    aliases: tuple[str, ...]
    knobs: tuple[str, ...]
    since: str
    until: str
    signatures: tuple[Signature, ...]
    sections: Mapping[str, str]
    options: Mapping[str, object] = field(default_factory=dict)

    @property
    def meaning(self) -> str:
        """What it means."""
        return self.sections.get("What it means", "")

    @property
    def why(self) -> str:
        """Why it matters."""
        return self.sections.get("Why it matters", "")

    @property
    def remedy(self) -> str:
        """What to do."""
        return self.sections.get("What to do", "")

    @property
    def verification(self) -> str:
        """How to see that it worked."""
        return self.sections.get("How to see that it worked", "")

    @property
    def exceptions(self) -> str:
        """When it does not apply."""
        return self.sections.get("When it does not apply", "")


def rule_ids() -> list[str]:
    """Return the ids of all rule pages."""
    return [path.stem for path in page_files(builtin_root())]


def rule_names() -> dict[str, str]:
    """Return the id of each rule by its id and by each of its aliases."""
    names = {rule_id: rule_id for rule_id in rule_ids()}
    for page in map(read_page, page_files(builtin_root())):
        names.update((alias, page.id) for alias in page.aliases)
    return names


def rule_page(rule_id: str) -> RulePage:
    """Return the page of a rule, by its id or one of its aliases; raises KeyError when there is none."""
    path = builtin_root() / "rules" / f"{rule_id}.md"
    # The id may come from a pack that others wrote: it must not lead out of the directory.
    if path.stem == rule_id and "/" not in rule_id and "\\" not in rule_id and path.is_file():
        return read_page(path)
    return read_page(builtin_root() / "rules" / f"{rule_names()[rule_id]}.md")


@lru_cache(maxsize=1024)
def read_page(path: Path) -> RulePage:
    """Return the page in a file; raises PackError that names file, line and key of each problem."""
    return parse_page(path, path.read_text(encoding="utf-8"))


def parse_page(path: Path, text: str) -> RulePage:
    """Return the page that a text holds; `path` is only for the place of problems."""
    front, sections = page_parts(path, text)
    problems = [Problem(path, 1, key, message) for key, message in page_problems(path.stem, front, sections)]
    if problems:
        raise PackError(problems)
    return _page(front, sections)


def page_parts(path: Path, text: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the front matter and the sections of a page, unchecked.

    A page with signatures is about a failure where it does not say otherwise. Raises PackError for a text
    without front matter.
    """
    from vllm_logdoctor.catalogue.toml import TOMLDecodeError, loads

    parts = text.split("+++\n", 2)
    if len(parts) < 3 or parts[0].strip():
        advice = "is missing; start the page with TOML between two lines +++"
        raise PackError([Problem(path, 1, "+++", advice)])
    try:
        front = loads(parts[1])
    except TOMLDecodeError as error:
        raise PackError([Problem(path, 1, "TOML", str(error))]) from error
    if "signature" in front:
        front.setdefault("kind", "failure")
    return front, split_sections(parts[2])


def page_gates(path: Path) -> list[str]:
    """Return the texts that a page wants to see: gates of its signatures, and `watch` for lines beside them.

    None where the page can't be read, which the checks report.
    """
    try:
        front, _ = page_parts(path, path.read_text(encoding="utf-8"))
    except PackError:
        return []
    tables = (table for table in front.get("signature", ()) if isinstance(table, dict))
    wanted = [gate for table in tables for gate in table.get("gate", ())] + list(front.get("watch", ()))
    return [gate for gate in wanted if isinstance(gate, str)]


def split_sections(body: str) -> dict[str, str]:
    """Return the text below each heading of the second level.

    >>> split_sections("## What it means\\nIt is slow.\\n")
    {'What it means': 'It is slow.'}
    """
    pieces = _HEADING.split(body)
    return {heading: text.strip() for heading, text in zip(pieces[1::2], pieces[2::2], strict=True)}


def page_problems(stem: str, front: Mapping[str, Any], sections: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return what is wrong with a page: key and advice."""
    found = [(key, "is missing; add it") for key in _NEEDED if key not in front]
    for key, value in front.items():
        if key not in _KNOWN:
            found.append((key, f"is no key of a rule page; write one of {', '.join(_KNOWN)}"))
        elif not isinstance(value, _KNOWN[key]):
            found.append((key, f"is {value!r}; write a {_KNOWN[key].__name__}"))
    if front.get("id", stem) != stem:
        found.append(("id", f"is {front['id']!r}; write the name of the file: {stem}"))
    if front.get("kind", KINDS[0]) not in KINDS:
        found.append(("kind", f"is {front['kind']!r}; write one of {', '.join(KINDS)}"))
    if front.get("severity", SEVERITIES[0]) not in SEVERITIES:
        found.append(("severity", f"is {front['severity']!r}; write one of {', '.join(SEVERITIES)}"))
    found += [(f"## {name}", "is missing; add the section") for name in HEADINGS if not sections.get(name)]
    for number, table in enumerate(front.get("signature", ())):
        if not isinstance(table, dict) or not table.get("gate") or not table.get("regex"):
            found.append((f"signature.{number}", "needs gate = [...] and regex = '...'"))
    return found


def _page(front: Mapping[str, Any], sections: Mapping[str, str]) -> RulePage:
    return RulePage(
        id=front["id"],
        kind=front["kind"],
        title=front["title"],
        severity=front["severity"],
        topic=front["topic"],
        exhausts=front.get("exhausts"),
        aliases=tuple(front.get("aliases", ())),
        knobs=tuple(front.get("knobs", ())),
        since=front.get("since", ""),
        until=front.get("until", ""),
        signatures=_signatures(front.get("signature", ())),
        sections=sections,
        options={key: front[key] for key in ("explain", "avoid", "change") if key in front},
    )


def _signatures(tables: Sequence[Mapping[str, Any]]) -> tuple[Signature, ...]:
    own = ("gate", "regex", "where")
    return tuple(
        Signature(
            gates=tuple(table["gate"]),
            regex=table["regex"],
            where=table.get("where", "any"),
            options={key: value for key, value in table.items() if key not in own},
        )
        for table in tables
    )
