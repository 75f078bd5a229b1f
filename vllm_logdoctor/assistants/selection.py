"""The lines of a run that an excerpt shows: what proves the cause, the lines around it, and signs of life."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.report.model import Diagnosis
from vllm_logdoctor.report.naming import BROKEN
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.run.blocks import Block, Raised, blocks_of
from vllm_logdoctor.run.lifecycle import trail_of
from vllm_logdoctor.run.model import Evidence, Run
from vllm_logdoctor.run.sampling import template_of

COMFORTABLE = 52
"""Lines up to which context is shown; beyond it only what may prove the cause."""
_NEEDED = 3
"""Ranks up to this one may prove the cause."""
_FRAMES = 5
_TEXT = 6
_EXCEPTIONS = 14
_ERRORS = 16
_BEFORE, _AFTER = 6, 3
_TAIL = 4
_WARNINGS = 6
_OTHER_RUNS = 6
_SHORT = 40
"""A log of at most so many lines is shown as a whole."""
# Loading safetensors checkpoint shards:  50% Completed | 4/8 [00:52<00:41, 10.34s/it]      2%|2  | 10/499     ^^^^^^^^     ▄▄ ▄█ █
_SAYS_NOTHING = lazy_pattern(r"\d+%(?:\||\s+Completed)|^[^A-Za-z0-9]*$")
# What a line without a level says when something went wrong.
_TROUBLE = lazy_pattern(
    r"(?i)\berror\b|error:|exception|fail(?:ed|ure)|fatal|abort|kill(?:ed)?\b|denied|not found|no such|unrecognized"
    r"|unsupported|out of memory|cannot|can't|could not|invalid|refused|timed?[ -]?out\b|assert|panic|\bsignal\b|missing"
)
# What a process goes without, said long before it matters: Disabling Triton to prevent runtime errors.
_GOES_WITHOUT = lazy_pattern(
    r"(?i)\bdisabl(?:ing|ed)\b|\bfall(?:ing|s)? back\b|\bnot available\b|\bunavailable\b"
)
Ranked = tuple[int, Evidence]


def selected(diagnosis: Diagnosis, others: Sequence[Diagnosis], most: int) -> list[Evidence]:
    """Return the lines to show in order.

    Args:
        diagnosis: the run.
        others: the further runs of the log.
        most: lines that they take at most together with the marks of gaps.
    """
    run = diagnosis.run
    trail = trail_of(run)
    ranked = sorted(_candidates(diagnosis, others, trail), key=lambda one: one[0])
    kept: dict[tuple[str, int], Evidence] = {}
    for rank, line in ranked:
        place = (line.file, line.line)
        if place in kept or not line.text.strip():
            continue
        kept[place] = line
        if _height(kept) > (most if rank <= _NEEDED else min(most, COMFORTABLE)):
            del kept[place]
    order = {name: number for number, name in enumerate(run.files)}
    return sorted(kept.values(), key=lambda one: (order.get(one.file, 0), one.line))


def _height(kept: Iterable[tuple[str, int]]) -> int:
    """Return how many lines are shown, with one mark for each gap."""
    places = sorted(kept)
    gaps = sum(one[0] != other[0] or other[1] > one[1] + 1 for one, other in pairwise(places))
    return len(places) + gaps


def decisive_place(diagnosis: Diagnosis) -> tuple[int, int] | None:
    """Return file number and line of the first failure, or None for a run without one."""
    run = diagnosis.run
    for finding in _failures(diagnosis)[:1]:
        for one in finding.evidence[:1]:
            files = run.files or (run.first_file,)
            return (files.index(one.file) if one.file in files else 0), one.line
    return None


def last_sign_of_life(diagnosis: Diagnosis) -> Evidence | None:
    """Return the last line of ordinary work before the first failure, or None."""
    place = decisive_place(diagnosis)
    if place is None:
        return None
    alive = [one for one in diagnosis.run.records if one.level == "INFO" and (one.file, one.line) < place]
    return diagnosis.run.evidence(alive[-1]) if alive else None


def _failures(diagnosis: Diagnosis) -> list[Finding]:
    broken = diagnosis.run.outcome in BROKEN
    return [one for one in diagnosis.findings if one.kind == "failure" or (broken and one.role == "root")]


def _candidates(
    diagnosis: Diagnosis, others: Sequence[Diagnosis], trail: Sequence[Record]
) -> Iterator[Ranked]:
    run = diagnosis.run
    failures = _failures(diagnosis)
    yield from _proofs(failures or diagnosis.findings)
    for other in [one for one in others if _failures(one)][:_OTHER_RUNS]:
        yield from ((2, one) for finding in _failures(other)[:1] for one in finding.evidence[:2])
    blocks = blocks_of(trail)
    if failures or run.outcome not in ("running", "clean_shutdown"):
        yield from _blocks(run, blocks, failures)
        yield from _errors(run, trail, blocks, failures)
        yield from _neighbours(run, trail, blocks, failures)
        yield from _of_same_process(diagnosis, others)
    yield from ((4, run.evidence(one)) for one in _each_kind_once(run.tail)[-_TAIL:])
    yield from _signs_of_life(diagnosis)
    for message in diagnosis.messages[:_WARNINGS]:
        if message.verdict not in ("information", "harmless"):
            yield 5, message.evidence
    for value in (run.version, run.model):
        yield from ((5, one) for one in (value.evidence[:1] if value else ()))
    yield from ((6, one) for one in run.launched_by[:2])
    for measured in run.measured.values():
        yield from ((7, one) for one in measured.evidence[:1])
    if len(trail) <= _SHORT:
        yield from ((7, run.evidence(one)) for one in trail)


def _proofs(findings: Sequence[Finding]) -> Iterator[Ranked]:
    for number, finding in enumerate(findings):
        few = 6 if number == 0 else 2
        yield from ((0 if number == 0 else 2, one) for one in finding.evidence[:few])


def _root_block(run: Run, blocks: Sequence[Block], failures: Sequence[Finding]) -> Block | None:
    """Return the traceback that holds the first line of the proof that is in any, or the first one where nothing is proved."""
    proof = [(one.file, one.line) for finding in failures[:1] for one in finding.evidence]
    holders = {(run.evidence(one).file, one.line): block for block in blocks for one in block.records}
    return next(
        (holders[place] for place in proof if place in holders), None if proof else next(iter(blocks), None)
    )


def _blocks(run: Run, blocks: Sequence[Block], failures: Sequence[Finding]) -> Iterator[Ranked]:
    """Yield the lines of the traceback that broke the run, and the exceptions of the others, each once."""
    root = _root_block(run, blocks, failures)
    seen: set[str] = set()
    if root is not None:
        seen.update(one.statement for one in root.raised)
        yield from ((1, run.evidence(record)) for record in _lines_of(root))
    for block in blocks:
        for one in block.raised:
            if one.statement not in seen and len(seen) < _EXCEPTIONS:
                seen.add(one.statement)
                rank = 2 if block.process.role in ("engine-core", "worker") else 3
                yield from (
                    (rank, run.evidence(record)) for record in (one.record, *_text_of(one, block)[:2])
                )
                for frame in one.frames[-1:]:
                    places = (frame.record, *_next(frame.record, block))
                    yield from ((4, run.evidence(record)) for record in places)


def _lines_of(block: Block) -> Iterator[Record]:
    yield from block.native[-8:]
    if block.introduction is not None:
        yield block.introduction
    yield block.first
    for raised in block.raised[:4]:
        yield raised.record
        yield from _before(raised.record, block)
        yield from _text_of(raised, block)
        for frame in raised.frames[-_FRAMES:]:
            yield frame.record
            yield from _next(frame.record, block)


def _text_of(raised: Raised, block: Block) -> list[Record]:
    """Return the lines on which the text of an exception goes on."""
    rest = [line.strip() for line in raised.text.split("\n")[1:]]
    after = [one for one in block.records if one.line > raised.record.line]
    said = [one for one in after[: len(rest)] if not _SAYS_NOTHING.search(one.message)]
    return [one for one in said if any(line and line in one.message for line in rest)][:_TEXT]


def _before(record: Record, block: Block) -> list[Record]:
    """Return the line above that of an exception: the statement that raised it, also where its frame is printed in pieces."""
    above = [one for one in block.records if one.line < record.line and not _SAYS_NOTHING.search(one.message)]
    return above[-1:]


def _next(record: Record, block: Block) -> list[Record]:
    """Return the line below a frame, which shows its code."""
    return [one for one in block.records if one.file == record.file and one.line == record.line + 1]


def _errors(
    run: Run, trail: Sequence[Record], blocks: Sequence[Block], failures: Sequence[Finding]
) -> Iterator[Ranked]:
    """Yield lines outside of tracebacks that name a trouble, one of each kind, those near the cause first."""
    inside = {id(record) for block in blocks for record in block.records}
    middle = _decisive_line(failures) or (trail[-1].line if trail else 0)
    troubles: dict[str, Record] = {}
    for record in trail:
        if id(record) in inside or record.level == "DEBUG" or _SAYS_NOTHING.search(record.message):
            continue
        if record.level in ("ERROR", "CRITICAL") or _TROUBLE.search(record.message[:400]):
            troubles.setdefault(template_of(record.message), record)
    near = sorted(
        troubles.values(), key=lambda one: (one.level in ("INFO", "WARNING"), abs(one.line - middle))
    )
    yield from ((3, run.evidence(record)) for record in near[:_ERRORS])


def _decisive_line(failures: Sequence[Finding]) -> int:
    return failures[0].evidence[0].line if failures and failures[0].evidence else 0


def _neighbours(
    run: Run, trail: Sequence[Record], blocks: Sequence[Block], failures: Sequence[Finding]
) -> Iterator[Ranked]:
    """Yield the lines before and after the first failure."""
    root = _root_block(run, blocks, failures)
    first = root.first.line if root else _decisive_line(failures)
    last = root.records[-1].line if root else first
    before = [one for one in trail if one.line < first and not _SAYS_NOTHING.search(one.message)]
    after = [one for one in trail if one.line > last and not _SAYS_NOTHING.search(one.message)]
    for record in (*before[-_BEFORE:], *after[:_AFTER]):
        yield 4, run.evidence(record)


def _of_same_process(diagnosis: Diagnosis, others: Sequence[Diagnosis]) -> Iterator[Ranked]:
    """Yield what the process that failed said before, in this run or an earlier one of the log, that it has to go without."""
    place = decisive_place(diagnosis)
    run = diagnosis.run
    failed = next((one.process.pid for one in run.records if (one.file, one.line) == place), None)
    if place is None or failed is None:
        return
    # A run whose end is not in the log may be the beginning of this one: other processes wrote in between.
    begun = [one for one in others if one.run.number < run.number and one.run.outcome == "unknown"]
    for one in (*begun, diagnosis):
        own = (record for record in one.run.records if record.process.pid == failed)
        before = (record for record in own if (record.file, record.line) < place)
        without = _GOES_WITHOUT.search
        said = [record for record in before if without(record.message) or record.level == "WARNING"]
        yield from ((3, one.run.evidence(record)) for record in _each_kind_once(said)[-_BEFORE:])


def _each_kind_once(records: Sequence[Record]) -> list[Record]:
    """Return the last record of each kind that says something, in order."""
    latest = {template_of(one.message): (one.file, one.line) for one in records}
    said = [one for one in records if not _SAYS_NOTHING.search(one.message)]
    return [one for one in said if latest[template_of(one.message)] == (one.file, one.line)]


def _signs_of_life(diagnosis: Diagnosis) -> Iterator[Ranked]:
    """Yield the last line of ordinary work before the failure, and statistics: the fullest and the last."""
    run, alive = diagnosis.run, last_sign_of_life(diagnosis)
    if alive is not None:
        yield 3, alive
    if run.samples:
        files = run.files or (run.first_file,)
        busiest = max(run.samples, key=lambda one: ((one.waiting or 0), one.generation))
        for sample in (busiest, run.samples[-1]):
            yield 5, Evidence(files[sample.file], sample.line, sample.text)
