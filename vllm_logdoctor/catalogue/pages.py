"""Rule pages: what a finding means, why it matters and what to do, one Markdown file per rule.

A page starts with TOML between two lines `+++`; then come sections with fixed headings:

    +++
    id = "kv-cache-too-small-for-max-model-len"
    title = "KV cache too small for max_model_len"
    severity = "critical"
    topic = "kv-cache"
    exhausts = "device-memory"
    knobs = ["--max-model-len", "--gpu-memory-utilization"]
    [[signature]]
    literal = ["larger than the available KV cache memory"]
    regex = 'To serve at least one request .* larger than the available KV cache memory'
    where = "exception"
    +++
    ## What it means

`catalogue.validation` proves what the types of these records can't: that literals cover expressions, and that no text
takes long to search.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from string import Formatter
from typing import Any, Literal, get_args

from msgspec import Struct, ValidationError, convert, field
from msgspec.inspect import type_info

from vllm_logdoctor.catalogue.errors import PackError, Problem
from vllm_logdoctor.catalogue.locate import builtin_root, page_files
from vllm_logdoctor.catalogue.topics import Resource, RuleKind, Safety, Severity, Topic

HEADINGS = (
    "What it means",
    "Why it matters",
    "What to do",
    "How to see that it worked",
    "When it does not apply",
)
KINDS: tuple[RuleKind, ...] = get_args(RuleKind)
Where = Literal["exception", "message", "native", "frames", "any"]
Rank = Literal["cause", "symptom", "echo"]
_HEADING = re.compile(r"^## +(.+?) *$", re.MULTILINE)
_LOG = re.compile(r"^```log\n(.*?)^```", re.MULTILINE | re.DOTALL)
_POINT = re.compile(r"^(?:[-*]|\d+\.) +", re.MULTILINE)
# Object contains unknown field `priorty` - at `$.signature[0]`      Expected `str`, got `int` - at `$.title`
_WRONG = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<place>[^`]*)`)?")
_NAMED = re.compile(r"(?:unknown|required) field `(?P<name>[^`]+)`")


class Signature(Struct, frozen=True, forbid_unknown_fields=True):
    """One way in which a log shows a failure.

    Attributes:
        literal: texts of which one is in everything that `regex` matches (the prefilter); pages of earlier releases
            call that key `gate`.
        mentions: in place of `literal`, where `regex` says what to quote and not what to look for: texts of which the
            failure or the places of its traceback must hold one.
        regex: searched in the text; its named groups are values for words and changes.
        where: which text: "exception" (class and text), "frames" (places and code of a traceback), "message"
            (a logger's record), "native" (text without a logger) or "any" (all but frames).
        type: must be found in the class of the exception.
        frames, not_frames: must, must not be found among the places of the traceback; where `regex` takes any message and
            `raised_in` does not name the place of the fault, among the innermost ones.
        raised_in: must be found in the deepest place of the traceback that is vLLM's own.
        near: must be found in a line above, at most `within` lines away (0: anywhere in the run).
        without: must not be found in the text, nor in the lines above within `within` that are no plain information.
        phase: what the process was doing (`run.blockphase`), one of these.
        serving: whether the engine had begun to serve.
        platform: one of these.
        facts: conditions on settings and figures: {"weights_share": ">=0.7"}.
        rank: "cause", "symptom" (something else may be behind it) or "echo" (of another process' failure).
        priority: which signature names a text that several know; the higher one.
        confidence: how sure the name is.
        decisive: "text" or "near": which line proves it.
        alone: whether a line without a traceback is a failure by itself.
        explain: words for this case; "" for the page's.
        title: title of this case; "" for the page's. One with a title of its own explains itself, too.
        verify: how to see that the remedy worked; "" for the page's.
        remedy: what to do in this case, in place of the page's list and of its changes that need no value from the log.
        shown: no condition: expressions for lines that show what the words say beside the error, the nearest one above its end.
    """

    regex: str
    literal: tuple[str, ...] = ()
    mentions: tuple[str, ...] = ()
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
    platform: tuple[str, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)
    rank: Rank = "cause"
    priority: int = 50
    confidence: Literal["high", "medium", "low"] = "high"
    decisive: Literal["text", "near"] = "text"
    alone: bool = False
    explain: str = ""
    title: str = ""
    verify: str = ""
    remedy: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()

    @property
    def literals(self) -> tuple[str, ...]:
        """Texts of which one must be there before the expression is tried."""
        return self.literal or self.mentions


class Case(Struct, frozen=True, forbid_unknown_fields=True):
    """What a failure means where its text says which of the things it is that a page is about.

    Attributes:
        regex: searched in the failure and the exceptions of its traceback.
        frames: must be found among the places of the tracebacks.
        explain: words for this case, in place of what the page means.
        title: title of this case; "" for the page's.
        remedy, shown: what to do in this case, and lines that show what its words say, as in a signature.
    """

    regex: str
    explain: str
    title: str = ""
    frames: str = ""
    remedy: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()


class ChangeTemplate(Struct, frozen=True, forbid_unknown_fields=True):
    """A change in a page: knob, kind, and a value with names in braces that the log fills in."""

    knob: str
    kind: Literal["flag", "env", "setting", "action"]
    to: Any = None
    safety: Safety = "safe"
    note: str = ""
    needs: tuple[str, ...] = ()


class RulePage(Struct, frozen=True, forbid_unknown_fields=True):
    """One rule: its front matter, and its sections by heading (Markdown).

    Attributes:
        id: the name of the file.
        title: the problem in the words that people search for.
        severity: how bad it is, where the rule does not work it out from the run.
        topic: what it is about.
        kind: what kind of finding it gives.
        exhausts: what a failure used up, or what is full.
        aliases: ids that it had before.
        knobs: flags and variables that the page speaks of.
        since, until: releases that it is about; "" for all.
        explain, avoid: words of its finding, with names in braces that the log fills in.
        computed: names in templates and conditions of this page that are neither groups nor settings: code gives them.
        watch: literals of lines that are read beside those of the signatures.
        cases: what the failure means by what its text says; the first that fits counts.
        signatures: how a log shows the failure; none where code decides.
        changes: what to change.
        sections: text below each heading.
    """

    id: str
    title: str
    severity: Severity
    topic: Topic
    kind: RuleKind = "failure"
    exhausts: Resource | None = None
    aliases: tuple[str, ...] = ()
    knobs: tuple[str, ...] = ()
    since: str = ""
    until: str = ""
    explain: str = ""
    avoid: str = ""
    computed: tuple[str, ...] = ()
    watch: tuple[str, ...] = ()
    cases: tuple[Case, ...] = field(default=(), name="case")
    signatures: tuple[Signature, ...] = field(default=(), name="signature")
    changes: tuple[ChangeTemplate, ...] = field(default=(), name="change")
    sections: dict[str, str] = field(default_factory=dict)

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

    @property
    def example(self) -> str:
        """The log of its section "Example"; "" without one."""
        found = _LOG.search(self.sections.get("Example", ""))
        return found[1] if found else ""


def rule_ids() -> list[str]:
    """Return the ids of all rule pages."""
    return [path.stem for path in page_files(builtin_root())]


@cache
def rule_names() -> Mapping[str, str]:
    """Return the id of each rule by its id and by each of its aliases."""
    files = page_files(builtin_root())
    names = {path.stem: path.stem for path in files}
    for page in read_pages(files)[0]:
        names.update((alias, page.id) for alias in page.aliases)
    return names


def rule_page(rule_id: str) -> RulePage:
    """Return the page of a rule, by its id or one of its aliases; raises KeyError when there is none."""
    path = builtin_root() / "rules" / f"{rule_id}.md"
    # The id may come from a pack that others wrote: it must not lead out of the directory.
    if path.stem == rule_id and "/" not in rule_id and "\\" not in rule_id and path.is_file():
        return read_page(path)
    if rule_id not in rule_names():
        raise KeyError(f"no page of the rule {rule_id!r}; write patterns/rules/{rule_id}.md")
    return read_page(builtin_root() / "rules" / f"{rule_names()[rule_id]}.md")


def read_pages(files: Iterable[Path]) -> tuple[list[RulePage], list[Problem]]:
    """Return the pages in some files, and what is wrong with those that can't be used: a broken page costs its own rule."""
    pages: list[RulePage] = []
    problems: list[Problem] = []
    for path in files:
        try:
            pages.append(read_page(path))
        except PackError as error:
            problems += error.problems
    return pages, problems


@lru_cache(maxsize=1024)
def read_page(path: Path) -> RulePage:
    """Return the page in a file; raises PackError that names file, line and key of each problem."""
    return parse_page(path, path.read_text(encoding="utf-8"))


def parse_page(path: Path, text: str) -> RulePage:
    """Return the page that a text holds; `path` is only for the place of problems."""
    front, sections = page_parts(path, text)
    for table in front.get("signature", ()):
        if isinstance(table, dict) and "gate" in table:
            table.setdefault("literal", table.pop("gate"))
    try:
        page = convert({**front, "sections": sections}, RulePage)
    except ValidationError as error:
        raise PackError([_problem_of(path, text, str(error))]) from error
    problems = [problem(path, text, key, message) for key, message in _missing(path, page)]
    if problems:
        raise PackError(problems)
    return page


def page_parts(path: Path, text: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the front matter and the sections of a page, unchecked; raises PackError for a text without front matter."""
    from vllm_logdoctor.catalogue.toml import TOMLDecodeError, loads, toml_problem

    parts = text.split("+++\n", 2)
    if len(parts) < 3 or parts[0].strip():
        advice = "is missing; start the page with TOML between two lines +++"
        raise PackError([Problem(path, 1, "+++", advice)])
    try:
        return loads(parts[1]), split_sections(parts[2])
    except TOMLDecodeError as error:
        raise PackError([toml_problem(path, error, above=1)]) from error


def page_literals(path: Path) -> list[str]:
    """Return the literals of a page: of its signatures, and `watch` for lines beside them; none of a broken page."""
    try:
        page = read_page(path)
    except PackError:
        return []
    return [*(literal for signature in page.signatures for literal in signature.literals), *page.watch]


def placeholders(template: str) -> list[str]:
    """Return the names in braces of a template; raises ValueError for a brace left open, or with more than a name.

    >>> placeholders("{free} GiB of {total} GiB are free.")
    ['free', 'total']
    """
    parts = [part for part in Formatter().parse(template) if part[1] is not None]
    if any(spec or conversion for _, _, spec, conversion in parts):
        raise ValueError("braces hold more than a name")
    return [name or "" for _, name, _, _ in parts]


def split_sections(body: str) -> dict[str, str]:
    """Return the text below each heading of the second level.

    >>> split_sections("## What it means\\nIt is slow.\\n")
    {'What it means': 'It is slow.'}
    """
    pieces = _HEADING.split(body)
    return {heading: text.strip() for heading, text in zip(pieces[1::2], pieces[2::2], strict=True)}


def first_paragraph(text: str) -> str:
    """Return the first paragraph of a section on one line."""
    return " ".join(text.strip().split("\n\n", 1)[0].split())


def points(text: str) -> tuple[str, ...]:
    r"""Return the points of a list, each as one line; without a list, the first paragraph.

    >>> points("- Lower it.\n- Or use\n  another.\n")
    ('Lower it.', 'Or use another.')
    """
    pieces = _POINT.split(text)
    return tuple(first_paragraph(piece) for piece in (pieces[1:] or pieces) if piece.strip())


def problem(path: Path, text: str, key: tuple[int | str, ...], message: str) -> Problem:
    """Return a problem of a page at the line of its key."""
    from vllm_logdoctor.catalogue.positions import Positions

    line = 1 + Positions(text.split("+++\n", 2)[1]).line_of(key)
    return Problem(path, line, ".".join(map(str, key)), message)


def _problem_of(path: Path, text: str, error: str) -> Problem:
    """Return what the reader of the types says, with the line of the key."""
    found = _WRONG.fullmatch(error)
    what, place = (found["what"], found["place"] or "") if found else (error, "")
    key: list[int | str] = [int(part) if part.isdigit() else part for part in re.findall(r"\w+", place)]
    named = _NAMED.search(what)
    if what.startswith("Invalid enum value"):
        what += f"; write one of {', '.join(_choices(key))}"
    return problem(path, text, (*key, *([named["name"]] if named else [])), what)


def _choices(key: Iterable[int | str]) -> Iterable[str]:
    """Return the values that a key of a page can have."""
    kind: Any = type_info(RulePage)
    for part in key:
        if isinstance(part, int):
            kind = kind.item_type
        else:
            kind = next(one.type for one in kind.fields if one.encode_name == part)
    return next(one.values for one in getattr(kind, "types", (kind,)) if hasattr(one, "values"))


def _missing(path: Path, page: RulePage) -> list[tuple[tuple[int | str, ...], str]]:
    """Return what is wrong with a page whose types are right: key and advice."""
    found: list[tuple[tuple[int | str, ...], str]] = []
    if page.id != path.stem:
        found.append((("id",), f"is {page.id!r}; write the name of the file: {path.stem}"))
    found += [
        ((f"## {name}",), "is missing; add the section") for name in HEADINGS if not page.sections.get(name)
    ]
    found += [
        (("signature", number), "needs literal = [...] or mentions = [...], and not both")
        for number, signature in enumerate(page.signatures)
        if bool(signature.literal) == bool(signature.mentions)
    ]
    return found
