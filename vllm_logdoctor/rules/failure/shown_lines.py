"""The lines that show what the words on a failure say beside the error itself: places, the phase, what announced it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.rules.failure.matching import RuleMatch, place_of
from vllm_logdoctor.rules.failure.signatures import expression
from vllm_logdoctor.run.blockphase import phase_shown
from vllm_logdoctor.run.blocks import Block, Frame, Raised
from vllm_logdoctor.run.lifecycle import trail_of
from vllm_logdoctor.run.model import Run
from vllm_logdoctor.run.owners import acting_frames, is_own
from vllm_logdoctor.run.places import file_and_function
from vllm_logdoctor.run.platform_detection import hints_in

_SEARCHED = 4000
_NAME = lazy_pattern(r"[A-Za-z]{5,}")
# CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
_LATER, _REPORTED_LATER = "at a later call", "might be asynchronously reported"
_LISTED_LINES = 16
"""A notebook lists the lines of code around a frame."""
_ENDS = (" ", ",", ")", ".")
_BY_LIBRARY = ("Raised by ", "(called from ")


def lines_shown(
    words: str, named: RuleMatch, known_by: str, wanted: Sequence[str], run: Run
) -> Iterator[Record]:
    """Yield the lines that show what is said of a failure: of its traceback, of the platform, those that its page names.

    Args:
        words: title and explanation of the finding.
        named: what was seen, and the rule that knows it.
        known_by: the expression by which the rule knows its frames, "" where it needs none.
        wanted: expressions of the page for further lines.
        run: the run.
    """
    yield from named.shown
    yield from _lines_above(words, named, wanted, run)
    block, raised = named.observation.block, named.observation.raised
    if named.signature.near:
        above = expression(named.signature.near)
        for one in named.supporting:
            found = above.search(one.message[:_SEARCHED])
            # What a build tool prints of its normal work tells where an error was, and shows nothing of what the words say.
            if found and (block is not None or any(name in words for name in _NAME.findall(found[0]))):
                yield one
    if block is None or raised is None:
        return
    frames = [frame for one in block.raised for frame in one.frames]
    yield from frames_named(words, frames)
    yield from (code_line(one, block) for one in frames if one.code and f"`{one.code}`" in words)
    if any(one in words for one in _BY_LIBRARY):
        yield from (frame.record for frame in raised.frames[-1:])
    yield from (one.record for one in _known_by(known_by, frames, raised))
    yield from [one for one in block.records if _LATER in words and _REPORTED_LATER in one.message][:1]
    phase = str(named.values.get("phase_words") or "")
    shown = phase_shown(block)[1] if phase and phase in words else None
    if shown is not None:
        yield shown


def _lines_above(words: str, named: RuleMatch, wanted: Sequence[str], run: Run) -> Iterator[Record]:
    """Yield the nearest line above the end of an error for each expression, and the one that shows the platform which words name."""
    platform = run.platform if named.signature.platform and (run.platform or "-") in words.lower() else None
    if not wanted and platform is None:
        return
    end, stated = named.observation.record, [one.line for one in run.platform_evidence]
    above = [one for one in reversed(trail_of(run)) if one.file == end.file and one.line <= end.line]
    for one in map(expression, wanted):
        yield from [record for record in above if one.search(record.message[:_SEARCHED])][:1]
    if platform is not None:
        said = [one for one in above if one.line in stated] or [
            one for one in above if platform in hints_in(one)
        ]
        yield from said[:1]


def _known_by(regex: str, frames: Sequence[Frame], raised: Raised) -> Sequence[Frame]:
    """Return the innermost frame that an expression of a rule knows, vLLM's or the program's first; by its code the one that raised."""
    if not regex:
        return ()
    wanted = expression(regex)
    known = [one for one in frames if wanted.search(place_of(one))]
    raising = acting_frames(raised.frames)[-1:]
    by_code = [one for one in raising if wanted.search(f"{place_of(one)}: {one.code}")]
    return ([one for one in known if is_own(one.file)] or known or by_code)[-1:]


def frames_named(words: str, frames: Iterable[Frame]) -> list[Record]:
    """Return the line of each place that words name, the innermost call of it."""
    text = f"{words} "
    places = {file_and_function(one.file, one.function): one.record for one in frames if one.function}
    return [record for place, record in places.items() if any(place + end in text for end in _ENDS)]


def code_line(frame: Frame, block: Block) -> Record:
    """Return the line below a frame that shows its code, or the frame's own line; a notebook marks it among its neighbors."""
    start = next((number for number, one in enumerate(block.records) if one is frame.record), None)
    if start is None or not frame.code:
        return frame.record
    below = block.records[start : start + _LISTED_LINES]
    return next((one for one in below if one.message.rstrip(" │").endswith(frame.code)), frame.record)
