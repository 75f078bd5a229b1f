"""The compiled packs: every pattern by number, and which patterns each gate leads to.

Patterns become objects when they are asked for (`vllm_logdoctor.catalogue.stored`), so that loading costs the same for a
hundred as for ten thousand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

from msgspec import Struct

from vllm_logdoctor.catalogue.stored import Stored, StoredRows
from vllm_logdoctor.catalogue.topics import Severity, Topic, Verdict


class Field(Struct, frozen=True):
    """One named group of a pattern, with the type and unit of its value."""

    name: str
    type: str
    unit: str | None
    sensitive: bool


class Pattern(Struct, frozen=True):
    """How one message is recognised and what it means.

    `trusted` is false for packs that did not come with the tool: their regexes run with a time limit
    (`vllm_logdoctor.catalogue.foreign`).
    """

    id: str
    gates: tuple[str, ...]
    regex: str
    anywhere: bool
    fields: tuple[Field, ...]
    event: str
    level: str
    seen: str
    module: str
    topic: Topic
    platform: str | None
    verdict: Verdict
    severity: Severity
    rule: str | None
    meaning: str
    pack: str
    trusted: bool


class Patterns(Sequence[Pattern]):
    """All patterns in order; each is built from its row when it is first asked for."""

    __slots__ = ("_built", "_rows", "_trusted")

    def __init__(self, rows: StoredRows, trusted: bool) -> None:
        self._rows = rows
        self._trusted = trusted
        self._built: dict[int, Pattern] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, number: int) -> Pattern: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Pattern, ...]: ...
    def __getitem__(self, number: int | slice) -> Pattern | tuple[Pattern, ...]:
        if isinstance(number, slice):
            return tuple(self[n] for n in range(*number.indices(len(self))))
        if number < 0:
            number += len(self)
        pattern = self._built.get(number)
        if pattern is None:
            row = self._rows.row(number)
            pattern = self._built[number] = _pattern(row, self._rows.shared, self._trusted)
        return pattern

    def __iter__(self) -> Iterator[Pattern]:
        return (self[number] for number in range(len(self)))


class JoinedPatterns(Sequence[Pattern]):
    """The patterns of several indexes, one after the other."""

    __slots__ = ("_parts", "_starts")

    def __init__(self, parts: Sequence[Sequence[Pattern]]) -> None:
        self._parts = parts
        starts = [0]
        for part in parts:
            starts.append(starts[-1] + len(part))
        self._starts = starts

    def __len__(self) -> int:
        return self._starts[-1]

    @overload
    def __getitem__(self, number: int) -> Pattern: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Pattern, ...]: ...
    def __getitem__(self, number: int | slice) -> Pattern | tuple[Pattern, ...]:
        if isinstance(number, slice):
            return tuple(self[n] for n in range(*number.indices(len(self))))
        if number < 0:
            number += len(self)
        for part, start in zip(self._parts, self._starts, strict=False):
            if start <= number < start + len(part):
                return part[number - start]
        raise IndexError(number)


class PackIndex(Struct, frozen=True):
    """Every pattern, the unique gates in order, and for each gate the numbers of its patterns.

    `digest` changes whenever the gates do: a key for what others compile from them. `signatures` are the
    numbers of the gates that rule pages need to see, whether or not a pattern takes their lines.
    """

    patterns: Sequence[Pattern]
    gates: Sequence[str]
    patterns_by_gate: Sequence[tuple[int, ...]]
    digest: str
    signatures: frozenset[int] = frozenset()

    def by_id(self, pattern_id: str) -> Pattern | None:
        """Return the pattern with this id, or None."""
        return next((pattern for pattern in self.patterns if pattern.id == pattern_id), None)


def load_index(extra: Sequence[Path] = ()) -> PackIndex:
    """Return the compiled packs of the tool and of the directories or files in `extra`.

    The packs of the tool are compiled ahead and only read here; they are compiled anew when a pack file
    of a checkout changed. Raises `vllm_logdoctor.catalogue.errors.PackError` for a pack that can't be used.

    >>> index = load_index()
    >>> len(index.gates) == len(index.patterns_by_gate)
    True
    """
    from vllm_logdoctor.catalogue import cache

    builtin = parse_index(cache.builtin_index(), trusted=True)
    if not extra:
        return builtin
    others = [parse_index(cache.extra_index(path), trusted=False) for path in extra]
    return join_indexes([builtin, *others])


def parse_index(data: bytes, *, trusted: bool) -> PackIndex:
    """Return the index that a compiled file holds."""
    found = Stored(data)
    return PackIndex(Patterns(found.rows, trusted), found.gates, found.leads, found.digest, found.signatures)


def join_indexes(indexes: Sequence[PackIndex]) -> PackIndex:
    """Return one index over the patterns of several, numbered one after the other."""
    by_gate: dict[str, list[int]] = {}
    signatures = {index.gates[number] for index in indexes for number in index.signatures}
    start = 0
    for index in indexes:
        for gate, numbers in zip(index.gates, index.patterns_by_gate, strict=True):
            by_gate.setdefault(gate, []).extend(number + start for number in numbers)
        start += len(index.patterns)
    gates = tuple(sorted(by_gate))
    return PackIndex(
        patterns=JoinedPatterns([index.patterns for index in indexes]),
        gates=gates,
        patterns_by_gate=tuple(tuple(by_gate[gate]) for gate in gates),
        digest=gates_digest(gates),
        signatures=frozenset(number for number, gate in enumerate(gates) if gate in signatures),
    )


def gates_digest(gates: Iterable[str]) -> str:
    """Return a key for a set of gates."""
    from hashlib import blake2b

    return blake2b("\0".join(gates).encode(), digest_size=12).hexdigest()


def _pattern(row: list[Any], shared: Sequence[str], trusted: bool) -> Pattern:
    """Build a pattern from its line; `encode_pattern` in compile.py is the other direction."""
    (ident, gates, regex, anywhere, fields, event, rule, *numbers) = row
    level, seen, module, topic, platform, verdict, severity, meaning, pack = (shared[n] for n in numbers)
    return Pattern(
        id=ident,
        gates=tuple(gates),
        regex=regex,
        anywhere=bool(anywhere),
        fields=tuple(map(_field, fields)),
        event=event or ident,
        level=level,
        seen=seen,
        module=module,
        topic=topic,
        platform=platform or None,
        verdict=verdict,
        severity=severity,
        rule=rule,
        meaning=meaning,
        pack=pack,
        trusted=trusted,
    )


def _field(row: Any) -> Field:
    if isinstance(row, str):
        return Field(row, "str", None, False)
    name, kind, unit, sensitive = row
    return Field(name, kind, unit, bool(sensitive))
