"""The checks of packs and rule pages: each problem in one line with its file, line and key, and what to write instead.

Both kinds of files state expressions with literals, and are held to the same: `catalogue.expressions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from vllm_logdoctor.catalogue.errors import PackError, Problem
from vllm_logdoctor.catalogue.expressions import problems_of_expression, problems_of_search, regex_error
from vllm_logdoctor.catalogue.index import Pattern
from vllm_logdoctor.catalogue.model import PackFile, PatternEntry, SampleEntry
from vllm_logdoctor.catalogue.packs import parse_pack, runtime_pattern
from vllm_logdoctor.catalogue.pages import RulePage, Signature, parse_page, placeholders, problem, rule_names
from vllm_logdoctor.catalogue.positions import Positions
from vllm_logdoctor.catalogue.values import compiled, field_values, match
from vllm_logdoctor.knowledge.flags import flag_spans
from vllm_logdoctor.knowledge.variables import variable_spans
from vllm_logdoctor.knowledge.versions import VersionRange, parse_ranges, parse_version
from vllm_logdoctor.texts import TextIndex

Found = tuple[tuple[int | str, ...], str]
"""A key below the pattern or page and what is wrong with it."""

SHORTEST_OF_PAGES = 5
_OF_CONTAINERS = frozenset({"--ipc", "--pids-limit", "--shm-size"})
# Conditions of a signature that are expressions too; they are tried where its own expression was found.
CONDITIONS = ("near", "without", "type", "frames", "not_frames", "raised_in")

# What every run gives to templates and conditions, beside its settings: `rules.failure`.
_OF_ALL_RUNS = frozenset(
    {
        *("engine", "kind", "model_kind", "named_settings", "fork_settings", "place"),
        *("layer_call", "platform", "raised", "raised_in", "ranks", "version", "weights_share"),
    }
)


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


def check_files(files: Sequence[Path], beside: Sequence[Path] = ()) -> list[Problem]:
    """Return all problems of packs and rule pages, in order of file and line.

    Args:
        files: the pack files and pages that will be loaded together.
        beside: further pack files that will be loaded, and are not checked themselves.
    """
    packs = [path for path in files if path.suffix != ".md"]
    pages = [path for path in files if path.suffix == ".md"]
    return sorted([*_check_packs(packs, beside), *_check_pages(pages)])


def _check_packs(files: Iterable[Path], beside: Iterable[Path]) -> list[Problem]:
    sources, problems = _read(files)
    others, _ = _read(beside)
    for source in sources:
        for number, entry in enumerate(source.pack.pattern):
            problems += (source.problem(number, place, message) for place, message in _check_pattern(entry))
    problems += _names_taken_twice(sources, others)
    problems += _shared_lines(sources, others)
    return problems


def _check_pages(files: Iterable[Path]) -> list[Problem]:
    found: list[Problem] = []
    for path in files:
        text = path.read_text(encoding="utf-8")
        try:
            page = parse_page(path, text)
        except PackError as error:
            found += error.problems
            continue
        found += [problem(path, text, key, message) for key, message in _check_page(page)]
    return found


def _check_pattern(entry: PatternEntry) -> Iterator[Found]:
    """Yield the problems that a pattern has by itself."""
    yield from problems_of_expression(entry.regex, entry.literal, anywhere=entry.anywhere)
    if regex_error(entry.regex):
        return
    yield from _check_fields(entry)
    yield from _check_versions(entry)
    yield from _check_rule(entry)
    yield from _check_meaning(entry)
    pattern = runtime_pattern(entry, "")
    for number, sample in enumerate(entry.samples):
        yield from _check_sample(pattern, sample, ("samples", number))
    for number, counter in enumerate(entry.counter_samples):
        if match(pattern, counter.text):
            message = "matches, and must not; make the regex stricter or remove the counter-sample"
            yield ("counter_samples", number, "text"), message


def _check_page(page: RulePage) -> Iterator[Found]:
    for number, case in enumerate(page.cases):
        for name in ("regex", "frames"):
            for message in problems_of_search(getattr(case, name)):
                yield ("case", number, name), message
    for number, signature in enumerate(page.signatures):
        for key, message in _check_signature(signature):
            yield ("signature", number, *key), message
    yield from _check_templates(page)
    for knob in sorted({*page.knobs} - _OF_CONTAINERS):
        if not knob_exists(knob.replace("--no-", "--"), parse_ranges("any")):
            yield ("knobs",), f"{knob} exists in no release; correct its name"


def _check_signature(signature: Signature) -> Iterator[Found]:
    if signature.literal:
        yield from problems_of_expression(signature.regex, signature.literal, shortest=SHORTEST_OF_PAGES)
    else:
        for message in problems_of_search(signature.regex):
            yield ("regex",), message
    for name in CONDITIONS:
        for message in problems_of_search(getattr(signature, name)):
            yield (name,), message


def _check_templates(page: RulePage) -> Iterator[Found]:
    """Yield the templates and conditions of a page with a name that nothing gives a value."""
    if "{" in page.title:
        yield ("title",), "the title of a page is not filled in: write it without { and }"
    for place, template, groups in _templates(page):
        try:
            names = placeholders(template)
        except ValueError as error:
            yield place, f"can't be filled in: {error}; write {{{{ and }}}} for braces"
            continue
        for name in names:
            if not (name in groups or name in page.computed or name in _OF_ALL_RUNS or _is_setting(name)):
                advice = f"write (?P<{name}>...), or list it in `computed` where code gives it a value"
                yield place, f"{{{name}}} is no group of the regex and no setting; {advice}"


def _templates(page: RulePage) -> Iterator[tuple[tuple[int | str, ...], str, frozenset[str]]]:
    """Yield each template and each name of a condition with its key, and the groups that can fill it in."""
    own = [_groups(one.regex) | _groups(one.near) for one in page.signatures]
    groups = frozenset[str]().union(*own)
    yield ("explain",), page.explain, groups
    for number, signature in enumerate(page.signatures):
        conditions = (("facts", f"{{{name}}}") for name in signature.facts)
        stated = (("title", signature.title), ("explain", signature.explain))
        words = (*stated, *(("remedy", way) for way in signature.remedy))
        yield from ((("signature", number, key), text, own[number]) for key, text in (*words, *conditions))
    for number, case in enumerate(page.cases):
        yield from ((("case", number, "remedy"), way, groups) for way in case.remedy)
    for number, change in enumerate(page.changes):
        written = (("to", change.to if isinstance(change.to, str) else ""), ("note", change.note))
        needs = (("needs", f"{{{name}}}") for name in change.needs)
        yield from ((("change", number, key), text, groups) for key, text in (*written, *needs))


def _groups(regex: str) -> frozenset[str]:
    return frozenset() if regex_error(regex) else frozenset(compiled(regex).groupindex)


def _is_setting(name: str) -> bool:
    return bool(flag_spans(f"--{name.replace('_', '-')}"))


def _check_fields(entry: PatternEntry) -> Iterator[Found]:
    groups = compiled(entry.regex).groupindex
    for name in entry.fields:
        if name not in groups:
            yield ("fields", name), f"is no group of the regex; write (?P<{name}>...) or remove it"


def _check_rule(entry: PatternEntry) -> Iterator[Found]:
    if entry.rule is not None and entry.rule not in rule_names():
        advice = f"write patterns/rules/{entry.rule}.md, or the id of a rule that has one"
        yield ("rule",), f"names no page of a rule; {advice}"


def _check_versions(entry: PatternEntry) -> Iterator[Found]:
    try:
        ranges = parse_ranges(entry.seen)
    except ValueError as error:
        yield ("seen",), str(error)
        return
    for knob in entry.knobs:
        if not knob_exists(knob, ranges):
            advice = "correct its name or the releases"
            yield ("knobs",), f"{knob} exists in none of the releases {entry.seen}; {advice}"


def knob_exists(knob: str, ranges: Sequence[VersionRange]) -> bool:
    """Return whether a flag or a variable of vLLM exists in a release of some ranges; true for any other knob.

    >>> knob_exists("--swap-space", parse_ranges("0.8.0-0.9.2"))
    True
    >>> knob_exists("--swap-space", parse_ranges("0.20.0"))
    False
    """
    name = knob.partition("=")[0].partition(" ")[0]
    if not name.startswith(("--", "VLLM_")):
        return True
    spans = flag_spans(name) if name.startswith("--") else variable_spans(name)
    dated = ((parse_version(span.since), span.until and parse_version(span.until)) for span in spans)
    return any(
        since is not None and since <= each.last and (not until or each.first <= until)
        for since, until in dated
        for each in ranges
    )


def _check_meaning(entry: PatternEntry) -> Iterator[Found]:
    if entry.level in ("warning", "error", "critical", "raise") and not entry.meaning.strip():
        yield ("meaning",), "is missing; say in one sentence what the message means and whether it harms"
    if not entry.samples:
        yield ("samples",), "is missing; add [[pattern.samples]] with the text of a real message"


def _check_sample(pattern: Pattern, sample: SampleEntry, place: tuple[int | str, ...]) -> Iterator[Found]:
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


def _read(files: Iterable[Path]) -> tuple[list[Source], list[Problem]]:
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
                compete = other is not one and _compete(one.pattern, other.pattern)
                if not compete or not match(other.pattern, sample.text):
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
