"""Which release wrote a log, inferred from where messages are printed: ``[core.py:187] init engine ...``."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from heapq import nsmallest

from msgspec import Struct

from vllm_logdoctor.knowledge.messages import VllmMessage, base_name, message_table
from vllm_logdoctor.knowledge.templates import could_print
from vllm_logdoctor.knowledge.versions import Version, known_versions, number_of
from vllm_logdoctor.lazy import lazy_pattern

# Below this share of the judged sites the log is of a fork or of a release not known here.
_LEAST_SHARE = 0.6
_MESSAGES_PER_PLACE = 4
# One site tells the releases where so few neighbours have it at that line.
_FEW_RELEASES = 4
_FIRST_WITH_BRACKET = "0.8.0"
# Traceback (most recent call last):        File "/opt/vllm/v1/engine/core.py", line 8, in step          x = y      ValueError: no
_OF_TRACEBACK = lazy_pattern(r"Traceback \(most|  +\S|[\w.]*(?:Error|Exception)(?:: |$)")


class FittingReleases(Struct, frozen=True):
    """The releases whose sources fit the observed call sites best.

    `first` and `last`: ends of the range; `releases`: those of it that fit best. `supporting`: sites that
    they explain; `tried`: different sites whose message some known release prints from that file.
    """

    first: Version
    last: Version
    releases: tuple[Version, ...]
    supporting: int
    tried: int


def versions_for_call_sites(
    sites: Iterable[tuple[str, int, str]], *, bracketed: bool | None = None
) -> FittingReleases | None:
    """Releases that print these messages at these lines.

    Args:
        sites: (file name, line number, message) as in ``[file.py:LINE] message``; the name may have folders.
            A file and line counts once, however many messages it printed.
        bracketed: whether a bracket opens before the file, as it does since 0.8.0; None where that is not known.

    Returns:
        The best fitting releases, or None when too few sites could be judged or too few agree.
    """
    votes = [0] * len(known_versions())
    tried = 0
    for (base, line), messages in _by_place(sites).items():
        judged = [releases_for_call_site(base, line, message) for message in messages]
        candidates = [numbers for numbers in judged if numbers is not None]
        tried += bool(candidates)
        for number in frozenset().union(*candidates):
            votes[number] += 1
    if bracketed is not None:
        first = number_of(_FIRST_WITH_BRACKET)
        votes = [count if (number >= first) is bracketed else 0 for number, count in enumerate(votes)]
    return _best(votes, tried)


def _by_place(sites: Iterable[tuple[str, int, str]]) -> dict[tuple[str, int], list[str]]:
    """A few messages of each file and line: a line that printed a thousand texts is still one call site."""
    places: dict[tuple[str, int], set[str]] = {}
    for name, line, message in sites:
        places.setdefault((base_name(name), line), set()).add(message)
    return {place: nsmallest(_MESSAGES_PER_PLACE, messages) for place, messages in sorted(places.items())}


def releases_for_call_site(name: str, line: int, message: str) -> frozenset[int] | None:
    """Places in `known_versions()` of the releases that print it there; None where none ever prints it."""
    sites = _sites_of(base_name(name))
    printing = [site for site in sites if could_print(site.parts, message)]
    if not printing and _OF_TRACEBACK.match(message):
        # A line of a traceback, whose message is not in the log or is at another place.
        printing = [site for site in sites if site.level in ("exception", "error")]
    if not printing:
        return None
    return frozenset(
        number
        for site in printing
        for first, last, *lines in site.spans
        if line in lines
        for number in range(first, last + 1)
    )


@cache
def traceback_announced_at(name: str, line: int) -> str:
    """Return the message above the tracebacks that vLLM prints at a line of a file; "" where its releases have several there, or none.

    >>> traceback_announced_at("core.py", 842), traceback_announced_at("core.py", 1233)
    ('EngineCore failed to start.', '')
    """
    there = [
        site
        for site in _sites_of(base_name(name))
        if site.level in ("exception", "error") and any(line in lines for _, _, *lines in site.spans)
    ]
    return there[0].template if len(there) == 1 and there[0].level == "exception" else ""


def _best(votes: list[int], tried: int) -> FittingReleases | None:
    most = max(votes)
    if not most or most < _LEAST_SHARE * tried:
        return None
    known = known_versions()
    numbers = [number for number, count in enumerate(votes) if count == most]
    # One site alone may be a chance where many releases have it.
    if most == 1 and numbers[-1] - numbers[0] >= _FEW_RELEASES:
        return None
    releases = tuple(known[number] for number in numbers)
    return FittingReleases(releases[0], releases[-1], releases, most, tried)


@cache
def _sites_of(base: str) -> tuple[VllmMessage, ...]:
    """Return the messages of a file whose lines are known."""
    return tuple(
        message for message in message_table().logged_by(base) if any(len(span) > 2 for span in message.spans)
    )
