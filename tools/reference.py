"""The reference pages of the patterns: what each judged warning and error means, topic by topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from vllm_logdoctor.catalogue.defaults import area_of
from vllm_logdoctor.catalogue.index import Pattern
from vllm_logdoctor.catalogue.locate import builtin_root, pack_files
from vllm_logdoctor.catalogue.packs import read_pack, runtime_pattern
from vllm_logdoctor.catalogue.topics import Topic

SHOWN_LEVELS = ("warning", "error", "critical", "foreign")
LONGEST_MESSAGE = 150
_VERDICTS = ("cause-of-failure", "will-break", "costs-performance", "harmless", "information")


def reference_pages() -> dict[str, str]:
    """Return the page of each topic by the name of its file."""
    packs = [read_pack(file) for file in pack_files(builtin_root())]
    entries = [(entry, pack.pack.name) for pack in packs for entry in pack.pattern]
    samples = {entry.id: entry.samples[0].text for entry, _ in entries if entry.samples}
    pages = topic_pages((runtime_pattern(entry, pack) for entry, pack in entries), samples)
    return {f"patterns-{topic}.md": text for topic, text in pages.items()}


def topic_pages(patterns: Iterable[Pattern], samples: Mapping[str, str]) -> dict[str, str]:
    """Return, for each topic, a page with its warnings and errors by verdict and meaning.

    Args:
        patterns: all patterns.
        samples: a sample of each pattern, by id.
    """
    by_topic: dict[Topic, list[Pattern]] = {}
    for pattern in patterns:
        if pattern.level in SHOWN_LEVELS and pattern.meaning:
            by_topic.setdefault(pattern.topic, []).append(pattern)
    return {
        topic: "\n".join(_topic_lines(topic, by_topic[topic], samples)) + "\n" for topic in sorted(by_topic)
    }


def _topic_lines(topic: Topic, patterns: Sequence[Pattern], samples: Mapping[str, str]) -> Iterator[str]:
    area = area_of(topic)
    yield f"# {area[0].upper()}{area[1:]}: warnings and errors"
    yield ""
    yield "Made by `python docs/generate.py`; `logdoctor explain ID` shows one of them."
    for verdict in _VERDICTS:
        chosen = [pattern for pattern in patterns if pattern.verdict == verdict]
        if not chosen:
            continue
        yield ""
        yield f"## {verdict}"
        for meaning, group in _by_meaning(chosen).items():
            yield ""
            yield meaning
            yield ""
            yield from (_row(pattern, samples.get(pattern.id, "")) for pattern in group)


def _by_meaning(patterns: Iterable[Pattern]) -> dict[str, list[Pattern]]:
    groups: dict[str, list[Pattern]] = {}
    for pattern in patterns:
        groups.setdefault(pattern.meaning, []).append(pattern)
    return groups


def _row(pattern: Pattern, sample: str) -> str:
    text = " ".join(sample.split())
    shown = text if len(text) <= LONGEST_MESSAGE else text[:LONGEST_MESSAGE].rstrip() + " ..."
    seen = "" if pattern.seen == "any" else f", {pattern.seen}"
    # Two back ticks more than the text holds would do; no message holds two.
    return f"- `{pattern.id}` ({pattern.severity}{seen}): `` {shown} ``"
