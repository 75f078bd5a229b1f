"""Logs made from a number: the same number gives the same bytes."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random

from tests.fuzz.grammar import MARKUP, SECRET, lines_of_server, soup

__all__ = ["MARKUP", "SECRET", "log_of"]
FIXTURES = sorted((Path(__file__).resolve().parents[2] / "fixtures").glob("*.log"))
_LONGEST = 60_000
_SHORTEST = 3_000


@cache
def _fixture(path: Path) -> tuple[bytes, ...]:
    return tuple(path.read_bytes()[:_LONGEST].split(b"\n"))


def composed(random: Random) -> bytes:
    """Return lines of any kind in any order."""
    return "\n".join(soup(random, random.randint(1, 16))).encode("utf-8", "surrogatepass")


def served(random: Random) -> bytes:
    """Return the lives of one to three servers by grammar: in order, cut, repeated or side by side."""
    count = random.choice((1, 1, 1, 1, 1, 2, 3))
    swapped = random.random() < 0.1
    shuffled = count > 1 and random.random() < 0.5
    lives = [lines_of_server(random, whole=not (shuffled or swapped)) for _ in range(count)]
    if shuffled:
        lines = [line for life in lives for line in life]
        random.shuffle(lines)
    else:
        lines = [line for life in lives for line in life]
    if swapped:
        # Threads and buffers: each line is printed up to some lines late.
        order = [number + random.uniform(0, 6) for number in range(len(lines))]
        lines = [line for _, line in sorted(zip(order, lines, strict=True))]
    end = random.choice(("\n", "\n", "\n", "\r\n", "\n\n", "\r"))
    return end.join(lines).encode("utf-8", "surrogatepass")


def mutated(random: Random) -> bytes:
    """Return a part of a fixture with lines and bytes changed."""
    whole = _fixture(random.choice(FIXTURES))
    first = random.choice((0, 0, random.randrange(len(whole))))
    lines = list(whole[first : first + random.choice((10, 30, 60))])
    for _ in range(random.randint(1, 12)):
        at, other = random.randrange(len(lines)), random.randrange(len(lines))
        kind = random.randrange(7)
        if kind == 0:
            lines[at] = lines[other]
        elif kind == 1:
            lines[at : at + random.randint(1, 30)] = []
            lines = lines or [b""]
        elif kind == 2:
            lines.insert(at, composed(random)[:400])
        elif kind == 3:
            cut = random.randrange(len(lines[at]) + 1)
            lines[at] = lines[at][:cut] + random.randbytes(random.randint(0, 9)) + lines[at][cut:]
        elif kind == 4:
            lines[at] = lines[at] * random.choice((2, 50))
        elif kind == 5:
            lines[at], lines[other] = lines[other], lines[at]
        else:
            lines[at] = lines[at].replace(b"1", random.choice((b"-1", b"99999999999999999999", b"0", b"nan")))
    return b"\n".join(lines)


def log_of(number: int) -> bytes:
    """Return the log of a number: of twenty, one is a changed fixture, one is any lines, eighteen are the lives of servers."""
    random = Random(number)
    make = {0: mutated, 10: composed}.get(number % 20, served)
    return make(random)
