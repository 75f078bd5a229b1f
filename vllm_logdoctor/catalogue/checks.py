"""Checks of packs beyond their format: each problem in one line with its place and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from vllm_logdoctor.catalogue.claims import Claims
from vllm_logdoctor.catalogue.compile import parse_pack, runtime_pattern
from vllm_logdoctor.catalogue.errors import PackError, Problem
from vllm_logdoctor.catalogue.index import Pattern
from vllm_logdoctor.catalogue.literal_coverage import ungated_shape
from vllm_logdoctor.catalogue.model import PackFile, PatternEntry, SampleEntry
from vllm_logdoctor.catalogue.positions import Positions
from vllm_logdoctor.catalogue.redos import blowup
from vllm_logdoctor.catalogue.regextree import ignores_case
from vllm_logdoctor.catalogue.values import field_values, match
from vllm_logdoctor.catalogue.versions import VersionRange, parse_ranges

SHORTEST_GATE = 6
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


class Neighbours(Struct, frozen=True):
    """Patterns that packs are loaded together with, and samples of theirs: (id, text)."""

    patterns: Sequence[Pattern] = ()
    samples: Sequence[tuple[str, str]] = ()


def check_packs(
    files: Sequence[Path], knob_exists: KnobExists | None = None, beside: Neighbours | None = None
) -> list[Problem]:
    """Return all problems of the packs in some files, in order of file and line.

    Args:
        files: the pack files that will be loaded together.
        knob_exists: says whether a flag or variable exists in one of some releases; None to skip.
        beside: patterns that are there already and are not checked themselves.
    """
    sources, problems = _read(files)
    for source in sources:
        problems += check_source(source, knob_exists)
    problems += _names_taken_twice(sources, beside or Neighbours())
    problems += shared_claims(sources, beside or Neighbours())
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
    if not _is_regex(entry.regex):
        yield ("regex",), f"is no regex: {_regex_error(entry.regex)}"
        return
    yield from _check_gates(entry)
    yield from _check_regex(entry)
    yield from _check_versions(entry, knob_exists)
    yield from _check_meaning(entry)
    pattern = runtime_pattern(entry, "")
    for number, sample in enumerate(entry.samples):
        yield from _check_sample(pattern, sample, ("samples", number))
    for number, counter in enumerate(entry.counter_samples):
        if match(pattern, counter.text):
            message = "matches, and must not; make the regex stricter or remove the counter-sample"
            yield ("counter_samples", number, "text"), message


def _check_gates(entry: PatternEntry) -> Iterator[Finding]:
    for gate in entry.gate:
        if len(gate) < SHORTEST_GATE:
            yield ("gate",), f"{gate!r} is too short; write {SHORTEST_GATE} characters of the message or more"
    if ignores_case(entry.regex):
        yield ("regex",), "ignores case, gates do not; write the letters as they are printed"
        return
    shape = ungated_shape(entry.regex, entry.gate)
    if shape is not None:
        yield ("gate",), f"is not in every match: {shape[:120]!r} has none; add a gate that it holds"


def _check_regex(entry: PatternEntry) -> Iterator[Finding]:
    problem = blowup(entry.regex, anywhere=entry.anywhere)
    if problem:
        yield ("regex",), f"can take very long: it {problem}"
    groups = re.compile(entry.regex).groupindex
    for name in entry.fields:
        if name not in groups:
            yield ("fields", name), f"is no group of the regex; write (?P<{name}>...) or remove it"


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
    if not any(gate in sample.text for gate in pattern.gates):
        yield (*place, "text"), "holds none of the gates; correct the gates"
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


def _names_taken_twice(sources: Sequence[Source], beside: Neighbours) -> Iterator[Problem]:
    packs: dict[str, Path | str] = {pattern.pack: "the tool" for pattern in beside.patterns}
    ids: dict[str, Path | str] = {pattern.id: f"pack {pattern.pack}" for pattern in beside.patterns}
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


def shared_claims(sources: Sequence[Source], beside: Neighbours) -> Iterator[Problem]:
    """Yield a problem for each sample that a pattern other than its own claims."""
    owners = [
        (source, number)
        for source in sources
        for number, entry in enumerate(source.pack.pattern)
        if _is_regex(entry.regex)
    ]
    entries = [source.pack.pattern[number] for source, number in owners]
    patterns = [runtime_pattern(entry, "") for entry in entries]
    claims = Claims([*patterns, *beside.patterns])
    for position, (source, number) in enumerate(owners):
        for each, sample in enumerate(entries[position].samples):
            for other in claims.of(sample.text):
                if other != position and _compete(patterns[position], claims.patterns[other]):
                    message = f"is claimed by {claims.patterns[other].id} too; make one of the two stricter"
                    yield source.problem(number, ("samples", each, "text"), message)
    yield from _claims_of_neighbours(owners, patterns, beside)


def _claims_of_neighbours(
    owners: Sequence[tuple[Source, int]], patterns: Sequence[Pattern], beside: Neighbours
) -> Iterator[Problem]:
    claims = Claims(patterns)
    by_id = {pattern.id: pattern for pattern in beside.patterns}
    for name, text in beside.samples:
        for position in claims.of(text):
            if name in by_id and _compete(patterns[position], by_id[name]):
                source, number = owners[position]
                message = f"claims a line of {name} too: {text[:80]!r}; make it stricter"
                yield source.problem(number, ("regex",), message)


def _compete(one: Pattern, other: Pattern) -> bool:
    """Say whether two patterns look at the same kind of text: records, or text without a record."""
    return (one.level == "foreign") == (other.level == "foreign")


def _is_regex(text: str) -> bool:
    return not _regex_error(text)


def _regex_error(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        return str(error) or type(error).__name__
    return ""
