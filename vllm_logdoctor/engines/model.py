"""What a log of another engine says: facts with their lines, decode rates, requests."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct, field

MOST_RATES = 20_000
"""Rates and requests that are kept of one log; further ones are counted."""
_MOST_FACTS = 60


class EngineFact(Struct, frozen=True):
    """One value of a log with the line that holds it.

    Example:
        >>> EngineFact("kv tokens", 185897, "tokens", 169, "max_total_num_tokens=185897").value
        185897
    """

    name: str
    value: str | int | float
    unit: str
    line: int | None
    text: str


class Rate(Struct, frozen=True):
    """Decode speed of one engine over an interval.

    Attributes:
        time: end of the interval in seconds on the log's clock, or None.
        line: line that prints it.
        rank: data-parallel rank.
        running, waiting: requests.
        tokens_per_second: of all running requests together.
        acceptance: tokens per step under speculative decoding, or None.
    """

    time: float | None
    line: int
    rank: int
    running: int
    waiting: int
    tokens_per_second: float
    acceptance: float | None = None


class Request(Struct, frozen=True):
    """Times of one request that a server printed: `end` in seconds on its clock, or None."""

    line: int
    prompt_tokens: int
    prompt_seconds: float
    tokens: int
    seconds: float
    end: float | None = None

    @property
    def rate(self) -> float:
        """Tokens per second of this request alone; the first token costs no decode step."""
        return self.tokens / self.seconds


class EngineLog(Struct):
    """What was read of one life of an engine that is not vLLM.

    Attributes:
        facts: by name, the first line that says it.
        rates: steady decode intervals, in order.
        requests: requests with their own times, in order.
        dropped: rates left out, by reason.
        ready_seconds: from the first line with a clock to "ready to answer", or None.
    """

    facts: dict[str, EngineFact] = field(default_factory=dict)
    rates: list[Rate] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)

    def note(self, name: str, value: str | int | float, line: int, text: str, unit: str = "") -> None:
        """Keep a fact unless its name is known."""
        if name not in self.facts and len(self.facts) < _MOST_FACTS:
            self.facts[name] = EngineFact(name, value, unit, line, text.strip()[:300])

    def drop(self, reason: str) -> None:
        """Count a rate that says nothing about the speed."""
        self.dropped[reason] = self.dropped.get(reason, 0) + 1

    def value(self, name: str) -> str | int | float | None:
        """Return the value of a fact, or None."""
        return self.facts[name].value if name in self.facts else None


class EngineReader(Protocol):
    """Takes the lines of a log in order and says what they hold."""

    def add(self, line: int, text: str) -> None:
        """Take one line."""

    def result(self) -> EngineLog:
        """Return what was read so far."""
