"""What a new release of vLLM changes: messages, the patterns that lose theirs, flags and variables.

python -m tools.drift PACKAGE [--release VERSION]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path

from msgspec import Struct

from tools.extract.package import release_from_package
from tools.extract.release import PrintedMessage, ReleaseFacts
from vllm_logdoctor.catalogue.index import Pattern
from vllm_logdoctor.catalogue.loading import load_index
from vllm_logdoctor.knowledge.history import facts_at
from vllm_logdoctor.knowledge.messages import message_table
from vllm_logdoctor.knowledge.store import Facts, read_table
from vllm_logdoctor.knowledge.versions import Version, known_versions, parse_ranges, parse_version

NEAR = 0.6
"""Likeness of two texts from which one counts as the other's new wording."""
_ORDER = ("critical", "error", "exception", "warning", "warn", "raise", "info", "print", "debug", "trace")


class Names(Struct, frozen=True):
    """Flags or variables that a release adds, removes or gives another default (name, before, after)."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[tuple[str, str, str], ...]


class Drift(Struct, frozen=True):
    """What a release changes.

    Attributes:
        release, before: its version, and the known one that it is compared with.
        gone: messages that it does not print any more, each with its new wording if there is one.
        new: messages that are new and no new wording of another.
        patterns: patterns of the release before of which no literal is in the sources any more.
        flags, variables: what it changes there.
    """

    release: str
    before: str
    gone: tuple[tuple[PrintedMessage, PrintedMessage | None], ...]
    new: tuple[PrintedMessage, ...]
    patterns: tuple[Pattern, ...]
    flags: Names
    variables: Names


def drift_of(package: Path, release: str | None = None) -> Drift:
    """Compare an unpacked vLLM package with what is known.

    Args:
        package: folder named vllm of an unpacked wheel or source distribution.
        release: its version where the package does not state it.

    Raises ValueError for a folder that is no vLLM package.
    """
    facts = release_from_package(package, release)
    before = _newest_before(facts.version)
    known = set(_messages_of(before))
    now = {_key(message): message for message in facts.messages}
    gone = sorted(
        (message for message in known if _key(message) not in now and message.module in _modules(facts)),
        key=_urgency,
    )
    known_keys = {_key(message) for message in known}
    new = sorted((message for key, message in now.items() if key not in known_keys), key=_urgency)
    pairs = tuple((message, _nearest(message, new)) for message in gone)
    reworded = {nearest for _, nearest in pairs}
    return Drift(
        release=facts.version,
        before=before,
        gone=pairs,
        new=tuple(message for message in new if message not in reworded),
        patterns=tuple(_patterns_gone(load_index().patterns, package)),
        flags=_names("flags", facts.flags, before),
        variables=_names("variables", facts.variables, before),
    )


def drift_lines(drift: Drift) -> Iterator[str]:
    """Yield the comparison as Markdown."""
    yield f"# vLLM {drift.release} against {drift.before}"
    yield ""
    yield f"## Patterns whose message is gone or reworded ({len(drift.patterns)})"
    yield from (f"- `{pattern.id}` ({pattern.pack})" for pattern in drift.patterns)
    yield ""
    yield f"## Messages gone or reworded ({len(drift.gone)})"
    for message, nearest in drift.gone:
        yield f"- {_described(message)}"
        if nearest is not None:
            yield f"  now: {_one_line(nearest.template)}"
    yield ""
    yield f"## New messages ({len(drift.new)})"
    yield from (f"- {_described(message)}" for message in drift.new)
    for title, names in (("Flags", drift.flags), ("Variables", drift.variables)):
        yield ""
        yield f"## {title}"
        yield f"- added: {', '.join(names.added) or 'none'}"
        yield f"- removed: {', '.join(names.removed) or 'none'}"
        yield from (f"- default of {name}: {old} -> {new}" for name, old, new in names.changed)


def _messages_of(version: str) -> Iterator[PrintedMessage]:
    table = message_table()
    number = table.versions.index(version)
    for each in table:
        if any(first <= number <= last for first, last, *_ in each.spans):
            yield PrintedMessage(each.module, each.template, each.style, each.level)


def _modules(facts: ReleaseFacts) -> set[str]:
    return {message.module for message in facts.messages}


def _key(message: PrintedMessage) -> tuple[str, str, str]:
    return message.base, message.template, message.level


def _urgency(message: PrintedMessage) -> tuple[int, str, str]:
    return _ORDER.index(message.level), message.module, message.template


def _nearest(message: PrintedMessage, new: Iterable[PrintedMessage]) -> PrintedMessage | None:
    words = message.template.lower().split()
    best, nearest = NEAR, None
    for other in new:
        if other.base != message.base or other.level != message.level:
            continue
        matcher = SequenceMatcher(a=words, b=other.template.lower().split(), autojunk=False)
        if matcher.real_quick_ratio() > best and matcher.ratio() > best:
            best, nearest = matcher.ratio(), other
    return nearest


def _patterns_gone(patterns: Sequence[Pattern], package: Path) -> Iterator[Pattern]:
    """Yield the patterns of the newest known release that nothing in the package prints any more.

    A text that is put together while the program runs is found by its literals in the source.
    """
    dated = [pattern for pattern in patterns if pattern.seen != "any" and pattern.level != "foreign"]
    newest = max((_last_seen(pattern) for pattern in dated), default=None)
    source = "\n".join(path.read_text("utf-8", "replace") for path in sorted(package.rglob("*.py")))
    for pattern in dated:
        if _last_seen(pattern) == newest and not any(text.strip() in source for text in pattern.literals):
            yield pattern


def _last_seen(pattern: Pattern) -> Version:
    return max(each.last for each in parse_ranges(pattern.seen))


def _newest_before(release: str) -> str:
    version = parse_version(release)
    older = [known for known in known_versions() if version is not None and known < version]
    return str((older or known_versions())[-1])


def _names(table: str, now: Mapping[str, Facts], before: str) -> Names:
    at = {name: facts_at(table, name, before) for name in read_table(table)}
    older = {name: facts for name, facts in at.items() if facts is not None}
    changed = tuple(
        (name, str(older[name].get("default")), str(now[name].get("default")))
        for name in sorted(now.keys() & older.keys())
        if now[name].get("default") != older[name].get("default")
    )
    return Names(tuple(sorted(now.keys() - older.keys())), tuple(sorted(older.keys() - now.keys())), changed)


def _described(message: PrintedMessage) -> str:
    return f"{message.level}: {_one_line(message.template)} ({message.module})"


def _one_line(text: str) -> str:
    shown = " ".join(text.split())
    return f"`{shown[:160].replace('`', chr(39))}`"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what a release changes; 2 for a folder that is no package."""
    parser = argparse.ArgumentParser(prog="python -m tools.drift", description=__doc__)
    parser.add_argument(
        "package", type=Path, metavar="PACKAGE", help="folder named vllm of an unpacked wheel"
    )
    parser.add_argument("--release", metavar="VERSION", help="its version where it does not state its own")
    options = parser.parse_args(arguments)
    try:
        found = drift_of(options.package, options.release)
    except (OSError, ValueError, SyntaxError) as error:
        print(f"no comparison: {error}", file=sys.stderr)
        return 2
    print("\n".join(drift_lines(found)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
