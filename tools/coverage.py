"""How many of vLLM's messages somebody has judged, and how many are recognised by the table alone.

python -m tools.coverage [--release VERSION]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence

from vllm_logdoctor.catalogue.index import Pattern
from vllm_logdoctor.catalogue.loading import load_index
from vllm_logdoctor.catalogue.values import match
from vllm_logdoctor.knowledge.messages import MessageTable, VllmMessage, message_table
from vllm_logdoctor.texts import TextIndex

LEVELS = ("critical", "error", "exception", "warning", "info", "debug", "raise")
_MADE_UP = ("8", "value")
"""What stands for a value: a number, and a text."""


def coverage(table: MessageTable, patterns: Sequence[Pattern], release: str) -> dict[str, tuple[int, int]]:
    """Return, by level, how many messages a release holds and how many of them a pattern takes."""
    number = table.versions.index(release)
    owners = [pattern for pattern in patterns for _ in pattern.literals]
    index = TextIndex([literal for pattern in patterns for literal in pattern.literals])
    counts = dict.fromkeys(LEVELS, (0, 0))
    for message in _of_release(table, number):
        if message.level in counts:
            judged = any(
                match(owners[found], text) for text in samples_of(message) for found in index.found_in(text)
            )
            messages, known = counts[message.level]
            counts[message.level] = messages + 1, known + judged
    return counts


def samples_of(message: VllmMessage) -> tuple[str, ...]:
    """Return the first lines that a message prints with made-up values.

    >>> from vllm_logdoctor.knowledge.messages import VllmMessage
    >>> samples_of(VllmMessage("a.py", "took %s s", "percent", "info", (), ("took ", " s")))
    ('took 8 s', 'took value s')
    """
    return tuple(value.join(message.parts).strip("\n").split("\n", 1)[0] for value in _MADE_UP)


def coverage_lines(counts: dict[str, tuple[int, int]], release: str) -> Iterator[str]:
    """Yield the figures as a Markdown table."""
    yield f"| level, {release} | messages | judged by a pattern |"
    yield "|---|---|---|"
    yield from (f"| {level} | {messages} | {judged} |" for level, (messages, judged) in counts.items())


def _of_release(table: MessageTable, number: int) -> Iterable[VllmMessage]:
    return (each for each in table if any(first <= number <= last for first, last, *_ in each.spans))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures of a release."""
    table = message_table()
    parser = argparse.ArgumentParser(prog="python -m tools.coverage", description=__doc__)
    parser.add_argument("--release", metavar="VERSION", choices=table.versions, default=table.versions[-1])
    release = parser.parse_args(arguments).release
    print("\n".join(coverage_lines(coverage(table, load_index().patterns, release), release)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
