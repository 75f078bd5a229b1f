"""The lines that show what the words on a failure say beside the error itself: places, the phase, what announced it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.rules.failure.matching import RuleMatch, place_of
from vllm_logdoctor.rules.failure.signatures import expression
from vllm_logdoctor.run.blockphase import phase_shown
from vllm_logdoctor.run.blocks import Frame, Raised
from vllm_logdoctor.run.owners import acting_frames, is_own
from vllm_logdoctor.run.places import file_and_function

_SEARCHED = 4000
_NAME = lazy_pattern(r"[A-Za-z]{5,}")
# CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
_LATER, _REPORTED_LATER = "at a later call", "might be asynchronously reported"
_ENDS = (" ", ",", ")", ".")
_BY_LIBRARY = ("Raised by ", "(called from ")


def lines_shown(words: str, named: RuleMatch, known_by: str) -> Iterator[Record]:
    """Yield the lines of a traceback that show what is said of it.

    Args:
        words: title and explanation of the finding.
        named: what was seen, and the rule that knows it.
        known_by: the expression by which the rule knows its frames, "" where it needs none.
    """
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
    if any(one in words for one in _BY_LIBRARY):
        yield from (frame.record for frame in raised.frames[-1:])
    yield from (one.record for one in _known_by(known_by, frames, raised))
    yield from [one for one in block.records if _LATER in words and _REPORTED_LATER in one.message][:1]
    phase = str(named.values.get("phase_words") or "")
    shown = phase_shown(block)[1] if phase and phase in words else None
    if shown is not None:
        yield shown


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
