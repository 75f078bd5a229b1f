"""The index of patterns: each pattern, and which patterns each literal leads to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from vllm_logdoctor.catalogue.topics import Severity, Topic, Verdict


class Field(Struct, frozen=True, array_like=True):
    """One named group of a pattern, with the type and unit of its value."""

    name: str
    type: str
    unit: str | None
    sensitive: bool


class Pattern(Struct, frozen=True, array_like=True, kw_only=True):
    """How one message is recognised and what it means.

    `trusted` is false for packs that did not come with the tool: their expressions run with a time limit
    (`vllm_logdoctor.catalogue.foreign`).
    """

    id: str
    literals: tuple[str, ...] = ()
    regex: str = ""
    anywhere: bool = False
    fields: tuple[Field, ...] = ()
    event: str
    level: str
    seen: str
    module: str
    topic: Topic
    platform: str | None = None
    verdict: Verdict
    severity: Severity
    rule: str | None = None
    meaning: str
    pack: str
    trusted: bool = True


class PackIndex(Struct, frozen=True):
    """Every pattern, the unique literals in order, and for each literal the numbers of its patterns.

    Attributes:
        digest: changes whenever the literals do: a key for what others compile from them.
        signatures: numbers of the literals that rule pages need to see, whether or not a pattern takes their lines.
    """

    patterns: tuple[Pattern, ...]
    literals: tuple[str, ...]
    patterns_by_literal: tuple[tuple[int, ...], ...]
    digest: str
    signatures: frozenset[int]

    def by_id(self, pattern_id: str) -> Pattern | None:
        """Return the pattern with this id, or None."""
        return next((pattern for pattern in self.patterns if pattern.id == pattern_id), None)


def build_index(patterns: Sequence[Pattern], signatures: Iterable[str] = ()) -> PackIndex:
    """Return the index over patterns.

    Args:
        patterns: in the order in which they are tried.
        signatures: literals that select a line without a pattern behind them (signatures of rule pages).

    Example:
        >>> build_index((), ["CUDA error"]).literals
        ('CUDA error',)
    """
    from hashlib import blake2b

    wanted = frozenset(signatures)
    by_literal: dict[str, list[int]] = {literal: [] for literal in wanted}
    for number, pattern in enumerate(patterns):
        for literal in pattern.literals:
            by_literal.setdefault(literal, []).append(number)
    literals = tuple(sorted(by_literal))
    return PackIndex(
        patterns=tuple(patterns),
        literals=literals,
        patterns_by_literal=tuple(tuple(by_literal[literal]) for literal in literals),
        digest=blake2b("\0".join(literals).encode(), digest_size=12).hexdigest(),
        signatures=frozenset(number for number, literal in enumerate(literals) if literal in wanted),
    )


def join_indexes(indexes: Sequence[PackIndex]) -> PackIndex:
    """Return one index over the patterns of several, numbered one after the other."""
    signatures = (index.literals[number] for index in indexes for number in index.signatures)
    return build_index([pattern for index in indexes for pattern in index.patterns], signatures)
