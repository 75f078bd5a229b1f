"""Ranges of vLLM releases as packs write them: `0.8.0-0.33.0`, several parted by commas."""

from __future__ import annotations

import re

from msgspec import Struct

_VERSION = re.compile(r"(?P<release>\d+(?:\.\d+)*)(?:\.post(?P<post>\d+))?$")

VersionKey = tuple[tuple[int, ...], int]


class VersionRange(Struct, frozen=True):
    """The releases from `first` to `last`, both included."""

    first: str
    last: str

    def __contains__(self, version: str) -> bool:
        return version_key(self.first) <= version_key(version) <= version_key(self.last)

    def __str__(self) -> str:
        return self.first if self.first == self.last else f"{self.first}-{self.last}"


def version_key(version: str) -> VersionKey:
    """Return the place of a release in the order of releases; raises ValueError where it is none.

    >>> version_key("0.10.1.1") < version_key("0.10.2") < version_key("0.10.2.post1")
    True
    """
    match = _VERSION.match(version.strip())
    if not match:
        raise ValueError(f"{version!r} is no release; write it like 0.10.2")
    release = tuple(map(int, match["release"].split(".")))
    return release + (0,) * (4 - len(release)), int(match["post"] or -1)


def parse_ranges(text: str) -> tuple[VersionRange, ...]:
    """Return the ranges that a text lists; raises ValueError with what to write instead.

    >>> [str(each) for each in parse_ranges("0.6.0, 0.8.0-0.33.0")]
    ['0.6.0', '0.8.0-0.33.0']
    """
    if text.strip() == "any":
        return (VersionRange("0", "9999"),)
    found = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        each = VersionRange(first, last if dash else first)
        if version_key(each.first) > version_key(each.last):
            raise ValueError(f"{part.strip()!r} ends before it starts; write the older release first")
        found.append(each)
    return tuple(found)
