"""Validation of packs: each problem in one line with its file, line and key, and what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from vllm_logdoctor.catalogue.errors import PackError, Problem
from vllm_logdoctor.catalogue.expressions import problems_of_expression, regex_error
from vllm_logdoctor.catalogue.index import Pattern
from vllm_logdoctor.catalogue.model import PackFile, PatternEntry, SampleEntry
from vllm_logdoctor.catalogue.packs import parse_pack, runtime_pattern
from vllm_logdoctor.catalogue.pages import rule_names
from vllm_logdoctor.catalogue.positions import Positions
from vllm_logdoctor.catalogue.values import compiled, field_values, match
from vllm_logdoctor.catalogue.versions import VersionRange, parse_ranges
from vllm_logdoctor.texts import TextIndex

KnobExists = Callable[[str, Sequence[VersionRange]], bool]
Finding = tuple[tuple[int | str, ...], str]
"""A key below the pattern and what is wrong with it."""


class Source(Struct, frozen=True):
    """A pack with the file and the lines that it was read from."""

    path: Path
    pack: PackFile
    positions: Positions

    def problem(self, number: int, place: tuple[int | str, ...], message: str) -> Problem:
        """Return a problem of one pattern of this file."""
        key = ".".join(str(part) for part in place)
        line = self.positions.line_of(("pattern", number, *place))
        return Problem(self.path, line, f"{self.pack.pattern[number].id}: {key}", message)


class _Owned(NamedTuple):
    """A pattern with the pack that holds it and its number there."""

    source: Source
    number: int
    entry: PatternEntry
    pattern: Pattern


def validate_packs(
    files: Sequence[Path], knob_exists: KnobExists | None = None, beside: Sequence[Path] = ()
) -> list[Problem]:
    """Return all problems of the packs in some files, in order of file and line.

    Args:
        files: the pack files that will be loaded together.
        knob_exists: says whether a flag or variable exists in one of some releases; None to skip.
        beside: further pack files that will be loaded, and are not checked themselves.
    """
    sources, problems = _read(files)
    others, _ = _read(beside)
    for source in sources:
        problems += check_source(source, knob_exists)
    problems += _names_taken_twice(sources, others)
    problems += _shared_lines(sources, others)
    return sorted(problems)


def check_source(source: Source, knob_exists: KnobExists | None = None) -> list[Problem]:
    """Return the problems that the patterns of one pack have by themselves."""
    return [
        source.problem(number, place, message)
        for number, entry in enumerate(source.pack.pattern)
        for place, message in check_pattern(entry, knob_exists)
    ]


def check_pattern(entry: PatternEntry, knob_exists: KnobExists | None = None) -> Iterator[Finding]:
    """Yield the problems that a pattern has by itself."""
    problems = problems_of_expression(entry.regex, entry.literal, anywhere=entry.anywhere)
    yield from problems
    if regex_error(entry.regex):
        return
    yield from _check_fields(entry)
    yield from _check_versions(entry, knob_exists)
    yield from _check_rule(entry)
    yield from _check_meaning(entry)
    pattern = runtime_pattern(entry, "")
    for number, sample in enumerate(entry.samples):
        yield from _check_sample(pattern, sample, ("samples", number))
    for number, counter in enumerate(entry.counter_samples):
        if match(pattern, counter.text):
            message = "matches, and must not; make the regex stricter or remove the counter-sample"
            yield ("counter_samples", number, "text"), message


def _check_fields(entry: PatternEntry) -> Iterator[Finding]:
    groups = compiled(entry.regex).groupindex
    for name in entry.fields:
        if name not in groups:
            yield ("fields", name), f"is no group of the regex; write (?P<{name}>...) or remove it"


def _check_rule(entry: PatternEntry) -> Iterator[Finding]:
    if entry.rule is not None and entry.rule not in rule_names():
        yield (
            ("rule",),
            f"names no page of a rule: {entry.rule!r}; write the id of one (docs/reference/rules.md)",
        )


def _check_versions(entry: PatternEntry, knob_exists: KnobExists | None) -> Iterator[Finding]:
    try:
        ranges = parse_ranges(entry.seen)
    except ValueError as error:
        yield ("seen",), str(error)
        return
    for knob in entry.knobs if knob_exists else ():
        if knob_exists and not knob_exists(knob, ranges):
            advice = "correct its name or the releases (logdoctor patterns drift shows renamed flags)"
            yield ("knobs",), f"{knob} exists in none of the releases {entry.seen}; {advice}"


def _check_meaning(entry: PatternEntry) -> Iterator[Finding]:
    if entry.level in ("warning", "error", "critical", "raise") and not entry.meaning.strip():
        yield ("meaning",), "is missing; say in one sentence what the message means and whether it harms"
    if not entry.samples:
        yield ("samples",), "is missing; add [[pattern.samples]] with the text of a real message"


def _check_sample(pattern: Pattern, sample: SampleEntry, place: tuple[int | str, ...]) -> Iterator[Finding]:
    found = match(pattern, sample.text)
    if not found:
        yield (*place, "text"), "does not match the regex; correct one of the two"
        return
    if not any(literal in sample.text for literal in pattern.literals):
        yield (*place, "text"), "holds none of the literals; correct the literals"
    got = field_values(pattern, found.groupdict())
    for name, wanted in sample.values.items():
        if name not in got:
            yield (*place, "values"), f"{name} is no named group of the regex; remove it"
        elif got[name] != wanted or type(got[name]) is not type(wanted):
            advice = "correct the regex, the type or the value"
            yield (*place, "values"), f"{name} comes out as {got[name]!r}, not {wanted!r}; {advice}"


def _read(files: Sequence[Path]) -> tuple[list[Source], list[Problem]]:
    sources: list[Source] = []
    problems: list[Problem] = []
    for path in files:
        text = path.read_text(encoding="utf-8")
        try:
            sources.append(Source(path, parse_pack(path, text), Positions(text)))
        except PackError as error:
            problems.extend(error.problems)
    return sources, problems


def _names_taken_twice(sources: Sequence[Source], others: Sequence[Source]) -> Iterator[Problem]:
    packs: dict[str, Path] = {source.pack.pack.name: source.path for source in others}
    ids: dict[str, Path] = {entry.id: source.path for source in others for entry in source.pack.pattern}
    for source in sources:
        name = source.pack.pack.name
        if packs.setdefault(name, source.path) != source.path:
            line = source.positions.line_of(("pack", "name"))
            message = f"{name!r} is taken by {packs[name]}; choose another"
            yield Problem(source.path, line, "pack.name", message)
        for number, entry in enumerate(source.pack.pattern):
            if entry.id in ids:
                message = f"is taken by a pattern in {ids[entry.id]}; choose another"
                yield source.problem(number, ("id",), message)
            ids.setdefault(entry.id, source.path)


def _shared_lines(sources: Sequence[Source], others: Sequence[Source]) -> Iterator[Problem]:
    """Yield a problem for each sample that a pattern other than its own takes too."""
    checked, beside = _owned(sources), _owned(others)
    takers = [*checked, *beside]
    index = TextIndex([literal for one in takers for literal in one.pattern.literals])
    owners = [one for one in takers for _ in one.pattern.literals]
    own = {id(one) for one in checked}
    for one in takers:
        for each, sample in enumerate(one.entry.samples):
            found = {id(owners[literal]): owners[literal] for literal in sorted(index.found_in(sample.text))}
            for key, other in found.items():
                if (
                    other is one
                    or not _compete(one.pattern, other.pattern)
                    or not match(other.pattern, sample.text)
                ):
                    continue
                if id(one) in own:
                    message = f"is taken by {other.pattern.id} too; make one of the two stricter"
                    yield one.source.problem(one.number, ("samples", each, "text"), message)
                elif key in own:
                    message = f"takes a line of {one.pattern.id} too: {sample.text[:80]!r}; make it stricter"
                    yield other.source.problem(other.number, ("regex",), message)


def _owned(sources: Sequence[Source]) -> list[_Owned]:
    return [
        _Owned(source, number, entry, runtime_pattern(entry, source.pack.pack.name))
        for source in sources
        for number, entry in enumerate(source.pack.pattern)
        if not regex_error(entry.regex)
    ]


def _compete(one: Pattern, other: Pattern) -> bool:
    """Return whether two patterns look at the same kind of text: records, or text without a record."""
    return (one.level == "foreign") == (other.level == "foreign")
