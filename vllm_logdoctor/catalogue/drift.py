"""What a release changes against what the packs and the knowledge of flags and variables know."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path

from msgspec import Struct, field

from vllm_logdoctor.catalogue.assembling import assemble, candidate_of
from vllm_logdoctor.catalogue.catalogue import Message
from vllm_logdoctor.catalogue.claims import Claims
from vllm_logdoctor.catalogue.drafting import literal_text, sample_text
from vllm_logdoctor.catalogue.index import Pattern, load_index
from vllm_logdoctor.catalogue.model import PackFile, PackHeader
from vllm_logdoctor.catalogue.versions import parse_ranges, version_key
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.knowledge.extract.command_line import extract_flags
from vllm_logdoctor.knowledge.extract.environment import extract_variables
from vllm_logdoctor.knowledge.extract.messages import MessageTemplate, extract_messages
from vllm_logdoctor.knowledge.extract.package import own_version
from vllm_logdoctor.knowledge.extract.release import ReleaseFacts
from vllm_logdoctor.knowledge.history import facts_at
from vllm_logdoctor.knowledge.store import Facts, read_table
from vllm_logdoctor.knowledge.versions import known_versions

NEAR = 0.6
"""Likeness of two texts from which one counts as the other's new wording."""
_LOUD = ("warning", "error", "critical")


class Gone(Struct, frozen=True):
    """A pattern whose message the release does not print, with the message most like it."""

    pattern: Pattern
    nearest: Message | None


class Names(Struct, frozen=True):
    """Flags or variables that a release adds, removes or gives another default (name: before -> after)."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[tuple[str, str, str], ...]


class Drift(Struct, frozen=True):
    """What a release changes.

    Attributes:
        release, before: its version, and the one that it is compared with.
        messages: how many message templates it holds, and `counts` per level.
        gone: patterns whose message it does not print any more, or prints in other words.
        uncovered: its messages that no pattern recognises, loud ones first.
        flags, variables: what it changes there.
    """

    release: str
    before: str
    messages: int
    gone: tuple[Gone, ...]
    uncovered: tuple[Message, ...]
    flags: Names
    variables: Names
    counts: Mapping[str, int] = field(default_factory=dict)


def drift_of(package: Path, against: Path | None = None, release: str | None = None) -> Drift:
    """Compare an unpacked vLLM package with what is known.

    Args:
        package: folder named vllm of an unpacked wheel or source distribution.
        against: the same of an older release; without it, exceptions are left out of `uncovered`, because
            most of them never meet a user and no pattern is wanted.
        release: its version where the package does not say it.

    Raises LogdoctorError for a folder that is no vLLM package.
    """
    facts = _facts(package, release)
    older = _facts(against, None) if against else None
    patterns = list(load_index().patterns)
    old = {each.template for each in extract_messages(against)} if against else None
    messages = [_message(each, facts.version) for each in extract_messages(package)]
    claims = Claims(patterns)
    taken: set[int] = set()
    uncovered: dict[str, Message] = {}
    for message in messages:
        numbers = _takers(message, claims)
        taken.update(numbers)
        if not numbers and _wanted(message, old):
            uncovered.setdefault(message.template, message)
    before = older.version if older else _newest_before(facts.version)
    return Drift(
        release=facts.version,
        before=before,
        messages=len(messages),
        gone=tuple(_gone(patterns, taken, package, list(uncovered.values()))),
        uncovered=tuple(sorted(uncovered.values(), key=_urgency)),
        flags=_names("flags", facts.flags, before, older.flags if older else None),
        variables=_names("variables", facts.variables, before, older.variables if older else None),
        counts=_counts(messages),
    )


def draft_pack(drift: Drift) -> PackFile:
    """Return a draft pack with a pattern and a sample for each message that nothing covers."""
    entries = assemble(drift.uncovered, list(load_index().patterns), releases=[drift.release])
    name = f"draft-{drift.release.replace('.', '-')}"
    return PackFile(pack=PackHeader(name=name, title=f"New in {drift.release}"), pattern=entries)


def drift_lines(drift: Drift) -> Iterator[str]:
    """Yield the comparison as Markdown."""
    yield f"# vLLM {drift.release} against {drift.before} and the packs"
    yield ""
    levels = ", ".join(f"{number} {level}" for level, number in drift.counts.items())
    yield f"{drift.messages} message templates: {levels}"
    yield ""
    yield f"## Patterns whose message is gone or reworded ({len(drift.gone)})"
    for gone in drift.gone:
        yield f"- `{gone.pattern.id}` ({gone.pattern.pack})"
        if gone.nearest is not None:
            yield f"  now perhaps: {_one_line(gone.nearest.template)} ({gone.nearest.module})"
    yield ""
    yield f"## Messages that nothing covers ({len(drift.uncovered)})"
    for message in drift.uncovered:
        yield f"- {message.level}: {_one_line(message.template)} ({message.module})"
    for title, names in (("Flags", drift.flags), ("Variables", drift.variables)):
        yield ""
        yield f"## {title}"
        yield f"- added: {', '.join(names.added) or 'none'}"
        yield f"- removed: {', '.join(names.removed) or 'none'}"
        for name, before, after in names.changed:
            yield f"- default of {name}: {before} -> {after}"


def _facts(package: Path, release: str | None) -> ReleaseFacts:
    """Return version, flags and variables of a package."""
    try:
        version = release or own_version(package)
        return ReleaseFacts(version, flags=extract_flags(package), variables=extract_variables(package))
    except (OSError, ValueError, SyntaxError) as error:
        advice = "give the folder named vllm of an unpacked wheel, and --release where it has no version"
        raise LogdoctorError(f"{error}; {advice}") from error


def _message(found: MessageTemplate, release: str) -> Message:
    level = "error" if found.level == "exception" else found.level
    way = found.kind if found.kind in ("warnings.warn", "assert") else ""
    return Message(found.template, found.style, level, (), (release,), found.file, way=way)


def _takers(message: Message, claims: Claims) -> set[int]:
    samples = (sample_text(message.pieces), sample_text(message.pieces, "8"))
    return {number for sample in samples for number in claims.of(sample)}


def _wanted(message: Message, old: set[str] | None) -> bool:
    """Say whether a pattern is wanted for a message: it has text enough, and is new if it is an exception."""
    if message.level == "raise" and (old is None or message.template in old or message.way == "assert"):
        return False
    return candidate_of(message) is not None


def _urgency(message: Message) -> tuple[int, str]:
    order = [*_LOUD, "raise", "info", "print", "debug"]
    return order.index(message.level), message.module


def _gone(
    patterns: Sequence[Pattern], taken: set[int], package: Path, uncovered: Sequence[Message]
) -> Iterator[Gone]:
    """Yield the patterns of the newest release that nothing in the package prints any more.

    A text that is put together while the program runs is found by its gates in the source.
    """
    newest = max((key for pattern in patterns if (key := _last_seen(pattern))), default=None)
    missing = [
        pattern
        for number, pattern in enumerate(patterns)
        if number not in taken and _last_seen(pattern) == newest is not None and pattern.level != "foreign"
    ]
    source = "\n".join(path.read_text("utf-8", "replace") for path in sorted(package.rglob("*.py")))
    for pattern in missing:
        if not any(gate.strip() in source for gate in pattern.gates):
            yield Gone(pattern, _nearest(pattern, uncovered))


def _last_seen(pattern: Pattern) -> tuple[tuple[int, ...], int] | None:
    if pattern.seen == "any" or pattern.level == "foreign":
        return None
    return max(version_key(each.last) for each in parse_ranges(pattern.seen))


def _nearest(pattern: Pattern, messages: Iterable[Message]) -> Message | None:
    words = re.sub(r"\(\?[^)]*\)|[\\^$.*+?{}()\[\]|]", " ", pattern.regex).lower().split()
    best, nearest = NEAR, None
    for message in messages:
        matcher = SequenceMatcher(a=words, b=literal_text(message.pieces).lower().split(), autojunk=False)
        if matcher.real_quick_ratio() > best and matcher.ratio() > best:
            best, nearest = matcher.ratio(), message
    return nearest


def _newest_before(release: str) -> str:
    known = [str(version) for version in known_versions()]
    older = [version for version in known if version_key(version) < version_key(release)]
    return older[-1] if older else known[-1]


def _names(table: str, now: Mapping[str, Facts], before: str, older: Mapping[str, Facts] | None) -> Names:
    if older is None:
        at = {name: facts_at(table, name, before) for name in read_table(table)}
        older = {name: facts for name, facts in at.items() if facts is not None}
    changed = tuple(
        (name, str(older[name].get("default")), str(now[name].get("default")))
        for name in sorted(now.keys() & older.keys())
        if now[name].get("default") != older[name].get("default")
    )
    return Names(tuple(sorted(now.keys() - older.keys())), tuple(sorted(older.keys() - now.keys())), changed)


def _counts(messages: Iterable[Message]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for message in messages:
        counts[message.level] = counts.get(message.level, 0) + 1
    return dict(sorted(counts.items()))


def _one_line(text: str) -> str:
    shown = " ".join(text.split())
    return f"`{shown[:160].replace('`', chr(39))}`"
