"""What a scanner found, as bytes for another process; flat rows, because each object costs more than all of its text."""

from __future__ import annotations

import marshal
from collections import Counter
from itertools import starmap

from vllm_logdoctor.scan.scanner import LineMatch, Repeat, Scanned


def dumps(scanned: Scanned) -> bytes:
    """Return what a piece contains as bytes.

    Example:
        >>> loads(dumps(Scanned(lines=3))) == Scanned(lines=3)
        True
    """
    return marshal.dumps(
        (
            scanned.lines,
            list(map(tuple, scanned.matches)),
            [(place, dict(counts)) for place, counts in scanned.counts],
            [(place, tuple(repeat)) for place, repeat in scanned.repeats],
        )
    )


def loads(data: bytes) -> Scanned:
    """Return what `dumps` was given; it comes from a process of our own."""
    lines, matches, counts, repeats = marshal.loads(data)
    return Scanned(
        lines,
        list(starmap(LineMatch, matches)),
        [(place, Counter(counts)) for place, counts in counts],
        [(place, Repeat(*repeat)) for place, repeat in repeats],
    )
