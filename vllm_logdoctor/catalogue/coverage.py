"""How much of a catalogue of messages the packs know, with the right topic and severity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from vllm_logdoctor.catalogue.assembling import candidate_of
from vllm_logdoctor.catalogue.catalogue import Message
from vllm_logdoctor.catalogue.claims import Claims
from vllm_logdoctor.catalogue.drafting import sample_text
from vllm_logdoctor.catalogue.index import Pattern
from vllm_logdoctor.catalogue.judging import topic_of
from vllm_logdoctor.catalogue.versions import version_key
from vllm_logdoctor.knowledge.store import read_table
from vllm_logdoctor.knowledge.versions import known_versions

JUDGED_KINDS = frozenset({"fallback", "disabled", "suboptimal", "capacity", "deprecation"})
FIRST_V1 = "0.8.0"

# A catalogue names some topics more broadly than packs do.
_TOPICS = {
    "kv-cache-scheduler": {"kv-cache", "scheduler", "memory"},
    "quantization-moe": {"quantization", "moe"},
    "security-deprecation": {"security", "deprecation"},
    "cudagraph-compile": {"compile"},
    "attention-backend": {"attention"},
    "parallelism-communication": {"parallelism"},
    "tokenizer-input-api": {"tokenizer", "serving"},
    "kv-transfer-offload": {"kv-transfer"},
}
_CATEGORY_TOPICS = {
    "config": {"configuration"},
    "cli": {"configuration"},
    "model": {"model-loading"},
}
_PERFORMANCE_SEVERITIES = {
    "loud": {"low", "medium", "high"},
    "quiet": {"info", "low", "medium"},
}
_FAILURE_SEVERITIES = {
    "critical": {"critical", "high"},
    "error": {"critical", "high", "medium"},
    "warning": {"high", "medium", "low"},
}


class Class(Struct, frozen=True):
    """A class of catalogue rows with the share of them that must be known."""

    name: str
    wanted: float
    holds: Callable[[Message], bool]


class Tally(Struct):
    """Rows of one class: how many there are, are recognised, and are recognised rightly."""

    rows: int = 0
    recognised: int = 0
    right_topic: int = 0
    right_severity: int = 0
    right: int = 0

    @property
    def share(self) -> float:
        """Share of the rows that are recognised with the right topic and severity."""
        return self.right / self.rows if self.rows else 1.0


class Miss(Struct, frozen=True):
    """A row that is not recognised, or with another topic or severity than the catalogue's."""

    row: Message
    pattern: Pattern | None


def classes() -> tuple[Class, ...]:
    """Return the classes that coverage is reported for."""
    return (
        Class("core, judged kinds, since 0.8", 0.95, lambda row: _judged(row) and _since_v1(row)),
        Class("core, judged kinds, only before 0.8", 0.70, lambda row: _judged(row) and not _since_v1(row)),
        Class("failures, start and serving", 0.90, lambda row: bool(row.category)),
        Class("of one platform", 0.90, lambda row: row.scope.startswith("platform:")),
        Class("everything else", 0.0, _other),
    )


def cover(rows: Iterable[Message], patterns: Sequence[Pattern]) -> tuple[dict[str, Tally], list[Miss]]:
    """Count, per class, which rows of a catalogue the patterns know.

    Returns:
        the tally of each class by name, and each row that is not known rightly.
    """
    claims = Claims(patterns)
    tallies = {each.name: Tally() for each in classes()}
    misses: list[Miss] = []
    for row in rows:
        tally = tallies[next(each.name for each in classes() if each.holds(row))]
        pattern = _taker(row, claims)
        if not _count(tally, row, pattern):
            misses.append(Miss(row, pattern))
    return tallies, misses


def samples_of(row: Message) -> Iterator[str]:
    """Yield a row's first printed line with made-up values; a place for a text may also hold a number."""
    yield sample_text(row.pieces)
    yield sample_text(row.pieces, "8")


def right_topic(row: Message, topic: str) -> bool:
    """Say whether a topic is what a catalogue says of a row; a row that says nothing takes any."""
    if row.topic:
        return row.topic == "other" or topic in _TOPICS.get(row.topic, {row.topic})
    if row.category:
        return row.category == "other" or topic in _CATEGORY_TOPICS.get(
            row.category, {row.category, topic_of(row)}
        )
    return True


def right_severity(row: Message, pattern: Pattern) -> bool:
    """Say whether a severity fits what a catalogue says of a row.

    A message that somebody judged to be harmless may be of low severity whatever its level.
    """
    if row.category:
        return pattern.severity in _FAILURE_SEVERITIES.get(row.severity, {pattern.severity})
    if pattern.verdict in ("harmless", "information") and pattern.severity in ("info", "low"):
        return True
    loud = row.level in ("warning", "error")
    return pattern.severity in _PERFORMANCE_SEVERITIES["loud" if loud else "quiet"]


def _taker(row: Message, claims: Claims) -> Pattern | None:
    return next((claims.patterns[n] for sample in samples_of(row) for n in claims.of(sample)), None)


def _count(tally: Tally, row: Message, pattern: Pattern | None) -> bool:
    tally.rows += 1
    if pattern is None:
        return False
    # What belongs to one platform need only be recognised, with whatever topic.
    topic = row.scope.startswith("platform:") or right_topic(row, pattern.topic)
    severity = right_severity(row, pattern)
    tally.recognised += 1
    tally.right_topic += topic
    tally.right_severity += severity
    tally.right += topic and severity
    return topic and severity


def _judged(row: Message) -> bool:
    return row.scope == "core" and row.kind in JUDGED_KINDS


def _since_v1(row: Message) -> bool:
    return not row.versions or version_key(row.versions[-1]) >= version_key(FIRST_V1)


def _other(row: Message) -> bool:
    return True


def coverage_lines(tallies: Mapping[str, Tally]) -> Iterator[str]:
    """Yield the figures as a Markdown table, one line per class with rows."""
    yield "| class | rows | recognised | topic right | severity right | both right | wanted |"
    yield "|---|---|---|---|---|---|---|"
    for each in classes():
        tally = tallies[each.name]
        if not tally.rows:
            continue
        wanted = f"{each.wanted:.0%}" if each.wanted else "-"
        counts = f"{tally.rows} | {tally.recognised} | {tally.right_topic} | {tally.right_severity}"
        yield f"| {each.name} | {counts} | {tally.share:.1%} | {wanted} |"


def miss_line(miss: Miss) -> str:
    """Return one row that is not known rightly, and how it is known, parted by tabs."""
    row, pattern = miss.row, miss.pattern
    known = f"{pattern.id} ({pattern.topic}, {pattern.severity})" if pattern else "not recognised"
    wanted = f"{row.topic or row.category} {row.kind or row.severity}".strip()
    return "\t".join([row.level, wanted, known, " ".join(row.template.split())[:160]])


class Share(Struct, frozen=True):
    """How many of the log messages of some releases the packs recognise."""

    name: str
    rows: int
    recognised: int
    wanted: float


def own_share(patterns: Sequence[Pattern]) -> list[Share]:
    """Return what the packs recognise of the log messages that the knowledge room holds.

    These are the texts of logger calls of all known releases, without level or topic; those with too little
    text of their own to be told apart are left out.
    """
    claims = Claims(patterns)
    newest = str(known_versions()[-1])
    counts = {name: [0, 0] for name in (f"log messages of {newest}", "log messages of all known releases")}
    for row in _own_messages():
        if candidate_of(row) is None:
            continue
        known = _taker(row, claims) is not None
        for name, tally in counts.items():
            if newest in row.versions or name.startswith("log messages of all"):
                tally[0] += 1
                tally[1] += known
    return [Share(name, rows, recognised, 0.98) for name, (rows, recognised) in counts.items()]


def share_lines(shares: Iterable[Share]) -> Iterator[str]:
    """Yield shares as a Markdown table."""
    yield "| of | rows | recognised | share | wanted |"
    yield "|---|---|---|---|---|"
    for each in shares:
        share = f"{each.recognised / each.rows:.1%}" if each.rows else "-"
        yield f"| {each.name} | {each.rows} | {each.recognised} | {share} | {each.wanted:.0%} |"


def _own_messages() -> Iterator[Message]:
    table = read_table("call_sites")
    releases: list[str] = (
        table["versions"] if "versions" in table else [str(each) for each in known_versions()]
    )
    for base, stored in table["files"].items():
        for template, style, spans in stored:
            seen = tuple(releases[n] for first, last, *_ in spans for n in range(first, last + 1))
            yield Message(template, style, "info", (), seen, base)
