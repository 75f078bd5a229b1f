"""Proves that a regex takes time in proportion to the text, whatever the text.

The backtracking of `re` costs more than that when two open-ended parts can share out the same
characters in many ways. The rules here are stricter than need be, and simple enough to say which
part to change:

1. A part of changing length may be in a repeat only where each round has a character that
   nothing else in it can take, so that a text falls into rounds in one way.
2. Two open-ended parts may not touch when they can take the same character, unless the regex ends
   with the second.
3. A part that can run over the text after it (`.*?` before a literal) tries every place of that
   text. Every open-ended part behind it must stop there: it may not be able to take all characters
   of that text. At the very end of the regex, where nothing can fail any more, everything goes.
4. With `anywhere`, rule 3 counts from the start of the regex.

A repeat of at most 16 rounds counts as closed. Parts of at most 256 rounds are spared from rule 3 as
long as their rounds don't multiply to many tries for the places at which the regex can begin. `(?=(...))\\1` never gives back what it took, so
what it holds is judged by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from vllm_logdoctor.catalogue.regextree import (
    ALPHABET,
    OTHER,
    Again,
    Chars,
    Choice,
    Look,
    Node,
    Repetition,
    tree,
)

CLOSED_ROUNDS = 16
BOUNDED_ROUNDS = 256
MOST_TRIES = 50_000
MOST_TRIES_PER_PLACE = 1_000
_MOST_WAYS = 2048


class _OpenPart(Struct, frozen=True):
    """An open-ended part: the characters that it can take, and its rounds where they have a limit."""

    allowed: frozenset[int]
    rounds: int | None = None


_Part = _OpenPart | Chars | Look


class TooComplexError(Exception):
    """The regex has more ways than the check looks at."""


def superlinear_reason(regex: str, *, anywhere: bool = False) -> str | None:
    """Return why a regex may take more than linear time and what to write instead; None when it can't.

    >>> superlinear_reason(r"(\\w+\\s*)+x") is not None
    True
    >>> superlinear_reason(r"took (?P<seconds>[0-9.]+) seconds on (?P<device>.*)") is None
    True
    """
    nodes = tree(regex)
    nested = _nested(nodes)
    if nested:
        return nested
    try:
        ways = list(_ways(nodes))
    except TooComplexError:
        return "has too many alternatives to be checked; write two patterns"
    # `\A` is found at one place only.
    anywhere = anywhere and not regex.startswith("\\A")
    return next((found for way in ways if (found := _way_problem(way, anywhere=anywhere))), None)


def _nested(nodes: Sequence[Node]) -> str | None:
    """Return the problem of rule 1."""
    for node in nodes:
        for body in _bodies(node):
            found = _nested(body)
            if found:
                return found
        if isinstance(node, Repetition) and node.most > 1 and not _one_way(node.body):
            return "repeats a part of changing length; end each round with a character that it can't take"
    return None


def _one_way(body: Sequence[Node]) -> bool:
    """Return whether a text can be cut into rounds of a body in one way only."""
    if not _changing(body):
        return True
    if len(body) == 1 and isinstance(body[0], Choice):
        firsts = [_first(alternative) for alternative in body[0].bodies]
        apart = not any(a & b for n, a in enumerate(firsts) for b in firsts[:n])
        return apart and not any(_changing(alternative) for alternative in body[0].bodies)
    return any(
        isinstance(node, Chars) and not node.allowed & _alphabet([*body[:number], *body[number + 1 :]])
        for number, node in enumerate(body)
    )


def _changing(body: Sequence[Node]) -> bool:
    """Return whether a body can match texts of several lengths, or one text in several ways."""
    return any(
        isinstance(node, (Choice, Again))
        or (isinstance(node, Repetition) and (node.least != node.most or _changing(node.body)))
        for node in body
    )


def _opens(nodes: Sequence[Node]) -> list[_OpenPart]:
    found = []
    for node in nodes:
        if isinstance(node, Repetition) and _open_ended(node):
            found.append(_opened(node))
        elif isinstance(node, Again):
            found.append(_OpenPart(ALPHABET))
        else:
            for body in _bodies(node):
                found.extend(_opens(body))
    return found


def _open_ended(node: Repetition) -> bool:
    return node.most > 1 and node.most * len(node.body) > CLOSED_ROUNDS


def _opened(node: Repetition) -> _OpenPart:
    width = node.most * len(node.body)
    return _OpenPart(_alphabet(node.body), width if width <= BOUNDED_ROUNDS else None)


def _ways(nodes: Sequence[Node]) -> Iterator[list[_Part]]:
    """Yield the sequences of parts that the alternatives of a regex make."""
    ways: list[list[_Part]] = [[]]
    for node in nodes:
        pieces = list(_piece_ways(node))
        ways = [way + piece for way in ways for piece in pieces]
        if len(ways) > _MOST_WAYS:
            raise TooComplexError
    yield from ways


def _piece_ways(node: Node) -> Iterator[list[_Part]]:
    if isinstance(node, (Chars, Look)):
        yield [node]
    elif isinstance(node, Choice):
        for body in node.bodies:
            yield from _ways(body)
    elif isinstance(node, Again):
        # Only as long as what a group took, and without a choice.
        yield []
    elif node.most <= 1:
        yield from _ways(node.body)
        if node.least == 0:
            yield []
    elif _open_ended(node):
        yield [_opened(node)]
        if node.least == 0:
            yield []
    else:
        yield [part for way in _ways(node.body) for part in way][:CLOSED_ROUNDS] if node.least else []


def _way_problem(way: Sequence[_Part], *, anywhere: bool) -> str | None:
    """Return the problem of rules 2 to 4 in one sequence of parts."""
    for part in way:
        if isinstance(part, Look):
            for inner in _ways(part.body):
                found = _way_problem(inner, anywhere=False)
                if found:
                    return found
    stops = [_delimiter(way, 0)] if anywhere else []
    tries = 1
    for number, part in enumerate(way):
        if isinstance(part, Chars) or (isinstance(part, _OpenPart) and number == len(way) - 1):
            continue
        touching = way[number + 1 : number + 2] if number + 1 < len(way) - 1 else []
        found = _touch_problem(part, touching) or _restart_problem(part, stops)
        if found:
            return found
        if isinstance(part, Look):
            continue
        stop = _delimiter(way, number + 1)
        # Where an open-ended part follows, rule 2 has made sure that it takes other characters.
        parted = isinstance(way[number + 1], _OpenPart)
        if not parted and not _ends(part.allowed, stop):
            if part.rounds is None:
                stops.append(stop)
            tries *= part.rounds or 1
    most = MOST_TRIES_PER_PLACE * _period(stops[0]) if stops else MOST_TRIES
    if tries > most:
        return f"has limits that multiply to {tries} tries; let a part exclude what follows it"
    return None


def _touch_problem(part: _OpenPart | Look, following: Sequence[_Part]) -> str | None:
    """Return the problem of rule 2."""
    if not following or isinstance(part, Look):
        return None
    after = following[0]
    if isinstance(after, _OpenPart) and after.allowed & part.allowed:
        return "has two open-ended parts in touch that can take the same character; part them by a literal"
    if isinstance(after, Look) and _reach(after) & part.allowed:
        return "looks ahead right behind an open-ended part; part them by a literal"
    return None


def _restart_problem(part: _OpenPart | Look, stops: Sequence[Sequence[Chars]]) -> str | None:
    """Return the problem of rule 3: a part that runs over a text from whose every place it is tried."""
    if isinstance(part, _OpenPart) and part.rounds is not None:
        return None
    reach = part.allowed if isinstance(part, _OpenPart) else _reach(part)
    for stop in stops:
        if reach and not _ends(reach, stop):
            text = "".join(chars.literal or "?" for chars in stop) or "anything"
            return f"tries each place of {text!r} to the end; let what follows exclude one of its characters"
    return None


def _ends(reach: frozenset[int], stop: Sequence[Chars]) -> bool:
    """Return whether a part can't run over a text: one of its characters is not among the part's."""
    return any(not chars.allowed & reach for chars in stop)


def _delimiter(way: Sequence[_Part], start: int) -> list[Chars]:
    """Return the fixed characters from a place on."""
    found = []
    for part in way[start:]:
        if isinstance(part, Look):
            continue
        if not isinstance(part, Chars):
            break
        found.append(part)
    return found


def _period(start: Sequence[Chars]) -> int:
    """Return the least distance of two places at which a text can begin: a literal of ten characters can't at each place."""
    for shift in range(1, len(start)):
        if all(one.allowed & other.allowed for one, other in zip(start, start[shift:], strict=False)):
            return shift
    return max(1, len(start))


def _reach(look: Look) -> frozenset[int]:
    """Return the characters over which the parts without a limit in a look ahead can run."""
    return frozenset[int]().union(*(part.allowed for part in _opens(look.body) if part.rounds is None))


def _bodies(node: Node) -> tuple[tuple[Node, ...], ...]:
    if isinstance(node, Choice):
        return node.bodies
    return (node.body,) if isinstance(node, (Repetition, Look)) else ()


def _alphabet(nodes: Sequence[Node]) -> frozenset[int]:
    found = frozenset[int]()
    for node in nodes:
        if isinstance(node, Chars):
            found |= node.allowed
        elif isinstance(node, Again):
            return ALPHABET
        for body in _bodies(node):
            found |= _alphabet(body)
    return found


def _first(nodes: Sequence[Node]) -> frozenset[int]:
    """Return the characters that a body can start with."""
    found = frozenset[int]()
    for node in nodes:
        if isinstance(node, Chars):
            return found | node.allowed
        if isinstance(node, Again):
            return ALPHABET
        for body in _bodies(node):
            found |= _first(body)
        if not isinstance(node, Look) and not (isinstance(node, Repetition) and node.least == 0):
            return found
    return found or frozenset({OTHER})
