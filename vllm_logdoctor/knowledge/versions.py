"""vLLM's release numbers: how they are written in logs, how they order, and which of them this package knows."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache, lru_cache

from msgspec import Struct

from vllm_logdoctor.knowledge.store import read_table

# 0.11.2   v0.9.1.dev287+g89b1388d8   0.6.4.post2.dev22+g47826cac   0.32.0+cpu   0.8.5rc1
_VERSION = re.compile(
    r"\s*v?(?P<release>\d{1,4}(?:\.\d{1,5}){1,3})"
    r"(?:[-_.]?(?P<pre>a|b|rc)[-_.]?(?P<pre_number>\d{1,6}))?"
    r"(?:\.?post(?P<post>\d{1,6}))?"
    r"(?:\.?dev(?P<dev>\d{1,9}))?"
    r"(?:\+(?P<local>[A-Za-z0-9._-]{1,80}))?\s*",
)
_PRE_RANK = {"a": 0, "b": 1, "rc": 2}
_FINAL = 3
# An unfinished build sorts before everything that its number announces.
_UNFINISHED = -1


class Version(Struct, frozen=True, eq=False):
    """A vLLM version as printed; orders as packages do (dev < rc < release < post) and ignores a local label.

    Attributes: `release` numbers; `pre` kind and number of a pre-release; `post`, `dev` numbers or None;
    `local` label after "+" (a commit, "cpu", "rocm"); `text` as it was written.
    """

    release: tuple[int, ...]
    pre: tuple[str, int] | None
    post: int | None
    dev: int | None
    local: str | None
    text: str

    @property
    def names_a_release(self) -> bool:
        """False for a build without tags ("0.1.dev15917+g0a6396b45", "0.0.0+g0a6396b45"), whose number says nothing."""
        return self.release[:2] != (0, 0) and not (self.dev is not None and self.release[:2] == (0, 1))

    @property
    def sort_key(self) -> tuple[tuple[int, ...], int, int, int, float]:
        """Key under which versions order as PEP 440 says."""
        numbers = self.release + (0,) * (4 - len(self.release))
        post = -1 if self.post is None else self.post
        dev = float("inf") if self.dev is None else float(self.dev)
        if self.pre is not None:
            return (numbers, _PRE_RANK[self.pre[0]], self.pre[1], post, dev)
        if self.dev is not None and self.post is None:
            return (numbers, _UNFINISHED, 0, post, dev)
        return (numbers, _FINAL, 0, post, dev)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self.sort_key == other.sort_key

    def __lt__(self, other: Version) -> bool:
        return self.sort_key < other.sort_key

    def __le__(self, other: Version) -> bool:
        return self.sort_key <= other.sort_key

    def __hash__(self) -> int:
        return hash(self.sort_key)

    def __str__(self) -> str:
        return self.text


VersionLike = Version | str | None
"""What the functions of this package take for a version; None and unreadable text mean "not known"."""


def parse_version(text: str) -> Version | None:
    """Read one version as vLLM prints it; None when the text is not one.

    >>> parse_version("0.6.4.post2.dev22+g47826cac") > parse_version("0.6.4.post1")
    True
    """
    match = _VERSION.fullmatch(text)
    if match is None:
        return None
    pre = (match["pre"], int(match["pre_number"])) if match["pre"] else None
    return Version(
        release=tuple(int(number) for number in match["release"].split(".")),
        pre=pre,
        post=int(match["post"]) if match["post"] else None,
        dev=int(match["dev"]) if match["dev"] else None,
        local=match["local"],
        text=text.strip().removeprefix("v"),
    )


class VersionRange(Struct, frozen=True):
    """The releases from `first` to `last`, both included."""

    first: Version
    last: Version

    def __contains__(self, version: Version) -> bool:
        return self.first <= version <= self.last


_ANY = VersionRange(
    Version((0,), None, None, None, None, "0"), Version((9999,), None, None, None, None, "9999")
)


def parse_ranges(text: str) -> tuple[VersionRange, ...]:
    """Return the ranges that a text lists, "any" for all; raises ValueError with what to write instead.

    >>> [str(each.last) for each in parse_ranges("0.6.0, 0.8.0-0.33.0")]
    ['0.6.0', '0.33.0']
    """
    if text.strip() == "any":
        return (_ANY,)
    found = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        each = VersionRange(_release(first), _release(last if dash else first))
        if each.first > each.last:
            raise ValueError(f"{part.strip()!r} ends before it starts; write the older release first")
        found.append(each)
    return tuple(found)


def _release(text: str) -> Version:
    version = parse_version(text)
    if version is None:
        raise ValueError(f"{text!r} is no release; write it like 0.10.2")
    return version


@cache
def known_versions() -> tuple[Version, ...]:
    """Every release this package has facts about, oldest first.

    >>> str(known_versions()[0])
    '0.4.1'
    """
    texts: list[str] = read_table("versions")["versions"]
    return tuple(version for text in texts if (version := parse_version(text)) is not None)


@lru_cache(maxsize=256)
def nearest_release(version: VersionLike) -> Version | None:
    """The newest known release that is not above `version`.

    None where nothing can be said: no version, text that is none, a build without tags, or one older than
    every known release.

    >>> str(nearest_release("0.9.1.dev287+g89b1388d8"))
    '0.9.0.1'
    """
    parsed = parse_version(version) if isinstance(version, str) else version
    if parsed is None or not parsed.names_a_release:
        return None
    known = known_versions()
    place = bisect_right(known, parsed)
    return known[place - 1] if place else None


def release_number(version: VersionLike) -> int | None:
    """Place in `known_versions()` of the release nearest to `version`, or None where there is none."""
    nearest = nearest_release(version)
    return None if nearest is None else number_of(str(nearest))


@cache
def _numbers() -> dict[str, int]:
    return {str(version): number for number, version in enumerate(known_versions())}


def number_of(release: str) -> int:
    """Place of a known release in `known_versions()`; KeyError when it is not a known one."""
    return _numbers()[release]


def at_least(version: VersionLike, release: str) -> bool | None:
    """Return whether `version` is the given known release or later; None when the version is not known.

    >>> at_least("0.11.2", "0.11.0"), at_least("0.9.1.dev3", "0.9.1"), at_least(None, "0.9.1")
    (True, False, None)
    >>> at_least("0.3.3", "0.6.0")
    False
    """
    number = release_number(version)
    if number is None:
        return False if is_older_than_known(version) else None
    return number >= number_of(release)


def is_older_than_known(version: VersionLike) -> bool:
    """Return whether a version names a release before the oldest known one.

    >>> is_older_than_known("0.3.3"), is_older_than_known("0.1.dev15917+g0a6396b45")
    (True, False)
    """
    parsed = parse_version(version) if isinstance(version, str) else version
    return parsed is not None and parsed.names_a_release and parsed < known_versions()[0]
