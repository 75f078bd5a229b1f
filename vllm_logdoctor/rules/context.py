"""What a rule looks at: a run with its load and its bottleneck; and how checks write changes and evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from vllm_logdoctor.catalogue.topics import Safety
from vllm_logdoctor.events import Event
from vllm_logdoctor.knowledge.flags import Flag, flag_spans
from vllm_logdoctor.knowledge.translation import Renamed, translate_flag
from vllm_logdoctor.knowledge.versions import number_of, release_number
from vllm_logdoctor.rules.bottleneck import RUN_SHARE, Bottleneck
from vllm_logdoctor.rules.intervals import time_by_limit
from vllm_logdoctor.rules.limits import BottleneckName, limits_of
from vllm_logdoctor.rules.load import Load, Span, evidence_of_sample, queue_first
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.run.model import Evidence, Run, Sample

# Releases in which an engine generation is the usual one; None: to the newest known.
_ENGINE_RELEASES: dict[str, tuple[str, str | None]] = {"V0": ("0.4.1", "0.7.3"), "V1": ("0.8.0", None)}
_ANY_RELEASE: tuple[str, str | None] = ("0.4.1", None)


class RuleContext(Struct, frozen=True):
    """A run with its load, what limits it, and what the advice is for."""

    run: Run
    load: Load
    bottleneck: Bottleneck
    limits: tuple[BottleneckName, ...]
    objective: str = "balanced"
    times: Mapping[BottleneckName, float] = {}

    @property
    def version(self) -> str | None:
        """The run's vLLM version as text, or None."""
        return self.run.release

    def spans(self, limit: BottleneckName) -> tuple[Span, ...]:
        """Return the samples that a limit held."""
        return tuple(span for span, name in zip(self.load.spans, self.limits, strict=True) if name == limit)

    def share(self, limit: BottleneckName) -> float:
        """Return the share of the busy time that a limit held."""
        return self.seconds(limit) / self.load.busy_seconds if self.load.busy_seconds else 0.0

    def seconds(self, limit: BottleneckName) -> float:
        """Return the seconds that a limit held, summed over engines."""
        return self.times.get(limit, 0.0)

    def extent(self, limit: BottleneckName) -> str:
        """Return in how many lines of the load a limit held, in words."""
        return self.load.extent_of(self.spans(limit))

    def is_brief(self, limit: BottleneckName) -> bool:
        """Return whether a limit held in so small a share of the busy time that it is not the run's."""
        return self.share(limit) < RUN_SHARE

    def event(self, *patterns: str) -> Event | None:
        """Return the first event of the first pattern that was seen."""
        return next(
            (self.run.messages[name].first[0] for name in patterns if name in self.run.messages), None
        )

    def switched_on(self, field: str) -> bool:
        """Return whether a setting is known to be on."""
        return self.run.setting(field) is True

    def asked_for(self, field: str) -> bool:
        """Return whether the user set a field."""
        value = self.run.config.get(field)
        return value is not None and value.provenance in ("explicit", "adjusted")


def rule_context(run: Run, load: Load, bottleneck: Bottleneck, objective: str) -> RuleContext:
    """Return the case of a run."""
    limits = limits_of(run, load)
    return RuleContext(run, load, bottleneck, limits, objective, time_by_limit(load.spans, limits))


def flag(
    case: RuleContext, name: str, before: Any, after: Any, safety: Safety = "safe", note: str = ""
) -> tuple[Change, ...]:
    """Return the change of a flag under the name that the run's version has for it, if it has one.

    `after` None drops the flag. Where the version is not known, a flag is given that every release has in which
    the run's engine is the usual one, or that the run's own arguments hold; for an untagged build any other is an
    action in words.
    """
    if release_number(case.version) is None:
        given = name.lstrip("-").replace("-", "_") in case.run.arguments
        if given or in_every_release_of(name, case.run.engine):
            return (Change(name, "flag", before, after, safety, note),)
        words = f"without {name}" if after is None else f"{name} {after}, as this build spells it"
        return (Change(words, "action", before, None, safety, note),) if case.version else ()
    found = translate_flag(name, case.version)
    if isinstance(found, Flag):
        return (Change(found.name, "flag", before, after, safety, note),)
    if isinstance(found, Renamed) and found.kind == "flag" and found.key is None and not found.inverted:
        return (Change(found.to, "flag", before, after, safety, note or f"{name} in other versions"),)
    return ()


def in_every_release_of(flag_name: str, engine: str | None) -> bool:
    """Return whether every release that has this engine generation as its usual one knows a flag.

    Example:
        >>> in_every_release_of("--max-num-seqs", None), in_every_release_of("--swap-space", "V1")
        (True, False)
    """
    first, last = _ENGINE_RELEASES.get(engine or "", _ANY_RELEASE)
    return any(
        number_of(span.since) <= number_of(first)
        and (span.until is None or (last is not None and number_of(last) <= number_of(span.until)))
        for span in flag_spans(flag_name)
    )


def action(
    words: str, note: str = "", safety: Safety = "safe", before: Any = None, after: Any = None
) -> Change:
    """Return a change that is made by hand."""
    return Change(words, "action", before, after, safety, note)


def message_lines(case: RuleContext, *patterns: str, most: int = 3) -> tuple[Evidence, ...]:
    """Return the first lines of the messages that were seen, in the order of the patterns."""
    run = case.run
    return tuple(
        run.evidence(run.messages[name].first[0].record) for name in patterns if name in run.messages
    )[:most]


def lines_of(case: RuleContext, pattern: str, most: int = 3) -> tuple[Evidence, ...]:
    """Return the first lines of a message that states one thing of several: each kernel, each card."""
    seen = case.run.seen(pattern)
    return tuple(case.run.evidence(event.record) for event in seen.first[:most]) if seen else ()


def last_line(case: RuleContext, pattern: str) -> tuple[Evidence, ...]:
    """Return the last line of a message: where a progress bar ended."""
    seen = case.run.seen(pattern)
    return (case.run.evidence(seen.last.record),) if seen and seen.last else ()


def setting_lines(case: RuleContext, *fields: str, most: int = 1) -> tuple[Evidence, ...]:
    """Return the lines that tell the value of settings or figures: so many of each, the user's own first."""
    values = [case.run.config.get(name) or case.run.measured.get(name) for name in fields]
    return tuple(line for value in values if value is not None for line in value.evidence[:most])


def sample_lines(
    case: RuleContext, spans: Iterable[Span], rank: Callable[[Sample], tuple[float, ...]] = queue_first
) -> tuple[Evidence, ...]:
    """Return three statistics lines of some spans: the one that ranks highest, the first, the last."""
    chosen = list(spans)
    if not chosen:
        return ()
    worst = max(chosen, key=lambda span: rank(span.sample))
    return distinct(evidence_of_sample(case.run, span.sample) for span in (worst, chosen[0], chosen[-1]))


def distinct(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Return evidence without repeated lines, in order; of a long line that shows several settings the part with the first one."""
    found: dict[tuple[str, int], Evidence] = {}
    for line in evidence:
        found.setdefault((line.file, line.line), line)
    return tuple(found.values())


def whole(value: Any) -> int | None:
    """Return a positive whole number, or None."""
    return (
        int(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None
    )


def plural(number: int, word: str, words: str = "") -> str:
    """Return a number with its word; `words` is the plural that is not the word with an s.

    Example:
        >>> plural(1, "request"), plural(1200, "request"), plural(2, "entry", "entries")
        ('1 request', '1,200 requests', '2 entries')
    """
    return f"{number:,} {word if number == 1 else words or word + 's'}"


def rounded(figure: float) -> str:
    """Return a figure as whole digits from a thousand on, else with three digits.

    Example:
        >>> rounded(1820.4), rounded(38.74), rounded(0.4)
        ('1,820', '38.7', '0.4')
    """
    return f"{figure:,.0f}" if figure >= 1000 else f"{figure:.3g}"
