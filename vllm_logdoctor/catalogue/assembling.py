"""Patterns from many messages: same texts made one, texts that others know left out, no line claimed "
"twice."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, field

from vllm_logdoctor.catalogue.catalogue import Message
from vllm_logdoctor.catalogue.claims import Claims
from vllm_logdoctor.catalogue.compile import runtime_pattern
from vllm_logdoctor.catalogue.drafting import Draft, draft, escape, literal_text, sample_text
from vllm_logdoctor.catalogue.index import Pattern
from vllm_logdoctor.catalogue.judging import Judgement, judge
from vllm_logdoctor.catalogue.literal_coverage import ungated_shape
from vllm_logdoctor.catalogue.model import FieldEntry, PatternEntry, SampleEntry
from vllm_logdoctor.catalogue.naming import pattern_id
from vllm_logdoctor.catalogue.redos import blowup
from vllm_logdoctor.catalogue.values import field_values, match
from vllm_logdoctor.catalogue.versions import VersionRange

FEWEST_LETTERS = 10
"""A message with fewer letters of its own says too little to be recognised."""
WEAK_LETTERS = 18
"""A pattern with fewer letters gives way to one that knows the same line by more."""
_LOUDNESS = ("critical", "error", "warning", "info", "print", "raise", "debug")
_PASSES = 6

Judge = Callable[[Message], Judgement]


class Candidate(Struct):
    """A drafted pattern on its way: what it comes from and what it still may lose or take in."""

    message: Message
    draft: Draft
    judgement: Judgement
    versions: set[str]
    level: str
    letters: int
    samples: list[str] = field(default_factory=list)
    not_before: list[str] = field(default_factory=list)
    whole: bool = False

    @property
    def regex(self) -> str:
        """The regex, with the beginnings that it leaves to others, and its end where it needs one."""
        left_out = "".join(f"(?!{escape(text)})" for text in self.not_before)
        return left_out + self.draft.regex + ("$" if self.whole else "")

    def likeness(self) -> tuple[object, ...]:
        """Return what two candidates must share so that one may stand for both."""
        return (self.judgement, self.level)


def assemble(
    messages: Iterable[Message],
    known: Sequence[Pattern] = (),
    known_samples: Iterable[str] = (),
    judgement_of: Judge = judge,
    releases: Sequence[str] = (),
) -> list[PatternEntry]:
    """Return patterns for messages that no known pattern recognises.

    Args:
        messages: newest wording first where several are alike.
        known: patterns that are there already; their lines are left to them.
        known_samples: samples of these patterns.
        judgement_of: says what a message means.
        releases: all releases in order, to write ranges; those of the messages when empty.
    """
    candidates = _grouped(messages, judgement_of)
    candidates = _left_by(candidates, known, list(known_samples))
    candidates = _disjoint(candidates)
    order = list(releases) or sorted({version for each in candidates for version in each.versions})
    taken = {pattern.id for pattern in known}
    entries = []
    for candidate in candidates:
        entry = _entry(candidate, pattern_id(literal_text(candidate.message.pieces), taken), order)
        taken.add(entry.id)
        entries.append(entry)
    return entries


def _grouped(messages: Iterable[Message], judgement_of: Judge) -> list[Candidate]:
    """Make one candidate of the messages with the same text."""
    found: dict[str, Candidate] = {}
    for message in messages:
        if message.level == "reason":
            continue
        candidate = candidate_of(message, judgement_of)
        if candidate is None:
            continue
        key = re.sub(r"\?P<\w+>|\\[0-9]+", "", candidate.regex)
        if key in found:
            _take_in(found[key], candidate)
        else:
            found[key] = candidate
    return list(found.values())


def candidate_of(message: Message, judgement_of: Judge = judge) -> Candidate | None:
    """Return the candidate for one message; None where its text tells too little."""
    pieces = message.pieces
    letters = sum(character.isalpha() for character in literal_text(pieces))
    drafted = draft(pieces)
    if drafted is None or letters < FEWEST_LETTERS:
        return None
    if blowup(drafted.regex) or ungated_shape(drafted.regex, [drafted.gate]):
        return None
    return Candidate(
        message,
        drafted,
        judgement_of(message),
        set(message.versions),
        message.level,
        letters,
        [drafted.sample],
    )


def _take_in(one: Candidate, other: Candidate, *, with_sample: bool = False) -> None:
    one.versions |= other.versions
    one.level = min(one.level, other.level, key=_LOUDNESS.index)
    if with_sample:
        one.samples += other.samples


def _left_by(
    candidates: Iterable[Candidate], known: Sequence[Pattern], known_samples: Sequence[str]
) -> list[Candidate]:
    """Leave out what known patterns recognise, and what would recognise their samples."""
    theirs = Claims(known)
    left = [each for each in candidates if not _known(each, theirs)]
    for number in _meddling(left, known_samples):
        left[number].whole = left[number].draft.closed
    meddling = _meddling(left, known_samples)
    return [each for number, each in enumerate(left) if number not in meddling]


def _meddling(candidates: Sequence[Candidate], known_samples: Iterable[str]) -> set[int]:
    """Return the candidates that would recognise samples of known patterns."""
    ours = Claims([_pattern(each) for each in candidates])
    return {number for sample in known_samples for number in ours.of(sample)}


def _known(candidate: Candidate, theirs: Claims) -> bool:
    """Say whether others take a message; a place for a text may also hold a number."""
    samples = (candidate.draft.sample, sample_text(candidate.message.pieces, "8"))
    return any(True for sample in samples for _ in theirs.of(sample))


def _disjoint(candidates: list[Candidate]) -> list[Candidate]:
    """Settle who takes a line that several claim, until each sample has one taker."""
    for _ in range(_PASSES):
        shared = _shared(candidates)
        if not shared:
            break
        gone: set[int] = set()
        for number, other in shared:
            if not {number, other} & gone:
                gone |= _settle(candidates, number, other)
        candidates = [each for number, each in enumerate(candidates) if number not in gone]
    # What is still shared after that: the later one goes.
    left = {max(pair) for pair in _shared(candidates)}
    return [each for number, each in enumerate(candidates) if number not in left]


def _shared(candidates: Sequence[Candidate]) -> list[tuple[int, int]]:
    """Return (number, number of another that claims one of its samples)."""
    claims = Claims([_pattern(each) for each in candidates])
    return [
        (number, other)
        for number, candidate in enumerate(candidates)
        for sample in candidate.samples
        for other in claims.of(sample)
        if other != number
    ]


def _settle(candidates: Sequence[Candidate], number: int, other: int) -> set[int]:
    """Settle that `other` claims a sample of `number`; return which of the two goes."""
    special, general = candidates[number], candidates[other]
    if general.draft.closed and not general.whole and len(general.samples) == 1:
        general.whole = True
        return set()
    if general.letters > special.letters:
        # The one with more text of its own stays; it just happens to fit the shorter one's sample.
        if special.letters < WEAK_LETTERS or special.likeness() == general.likeness():
            _take_in(general, special)
            return {number}
        return {other} if general.level in ("raise", "debug") else {number}
    if general.letters < WEAK_LETTERS:
        return {other}
    if special.likeness() == general.likeness() or special.level in ("raise", "debug"):
        _take_in(general, special, with_sample=len(general.samples) < 4)
        return {number}
    opening = _opening(special)
    if opening and not any(sample.startswith(opening) for sample in general.samples):
        if opening not in general.not_before:
            general.not_before.append(opening)
        return set()
    return {other} if general.level in ("raise", "debug") else {number}


def _opening(candidate: Candidate) -> str:
    """Return the literal text that a message begins with, where it is long enough to tell."""
    first = candidate.message.pieces[0]
    text = first.partition("\n")[0] if isinstance(first, str) else ""
    return text[:60] if len(text) >= 8 else ""


def _pattern(candidate: Candidate) -> Pattern:
    return runtime_pattern(_entry(candidate, "candidate", []), "")


def _entry(candidate: Candidate, name: str, releases: Sequence[str]) -> PatternEntry:
    judgement = candidate.judgement
    anywhere = candidate.message.way == "warnings.warn" and blowup(candidate.regex, anywhere=True) is None
    entry = PatternEntry(
        id=name,
        gate=[candidate.draft.gate],
        regex=candidate.regex,
        anywhere=anywhere,
        level=candidate.level,  # type: ignore[arg-type]
        seen=seen_text(candidate.versions, releases) or "any",
        module=candidate.message.module,
        topic=judgement.topic,  # type: ignore[arg-type]
        platform=judgement.platform,
        verdict=judgement.verdict,  # type: ignore[arg-type]
        severity=judgement.severity,  # type: ignore[arg-type]
        meaning=judgement.meaning,
        fields={key: FieldEntry(type=kind) for key, kind in candidate.draft.fields if kind != "str"},  # type: ignore[arg-type]
    )
    samples = [_sample(entry, text) for text in candidate.samples if match(runtime_pattern(entry, ""), text)]
    return entry.model_copy(update={"samples": samples})


def _sample(entry: PatternEntry, text: str) -> SampleEntry:
    pattern = runtime_pattern(entry, "")
    found = match(pattern, text)
    values = field_values(pattern, found.groupdict()) if found else {}
    return SampleEntry(
        text=text, values={name: values[name] for name in entry.fields if values.get(name) is not None}
    )


def seen_text(versions: Iterable[str], releases: Sequence[str]) -> str:
    """Return releases as ranges over the releases that there are.

    >>> seen_text({"0.8.0", "0.8.1", "0.9.0"}, ["0.8.0", "0.8.1", "0.8.2", "0.9.0"])
    '0.8.0-0.8.1, 0.9.0'
    """
    ranges: list[VersionRange] = []
    wanted = set(versions)
    open_range = False
    for release in releases:
        if release not in wanted:
            open_range = False
        elif open_range:
            ranges[-1] = VersionRange(ranges[-1].first, release)
        else:
            ranges.append(VersionRange(release, release))
            open_range = True
    return ", ".join(map(str, ranges))
