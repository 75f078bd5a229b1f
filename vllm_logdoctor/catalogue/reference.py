"""Program that writes the reference pages of the packs: what each warning and error of vLLM means.

python -m vllm_logdoctor.catalogue.reference docs/reference [--catalogue FILE ...]
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from vllm_logdoctor.catalogue.catalogue import messages_of, read_rows
from vllm_logdoctor.catalogue.coverage import cover, coverage_lines, own_share, share_lines
from vllm_logdoctor.catalogue.index import Pattern, load_index
from vllm_logdoctor.catalogue.judging import AREAS
from vllm_logdoctor.catalogue.locate import builtin_root
from vllm_logdoctor.catalogue.schema import schema_text
from vllm_logdoctor.catalogue.sources import PatternTexts

SHOWN_LEVELS = ("warning", "error", "critical", "foreign")
LONGEST_MESSAGE = 150
_VERDICTS = ("cause-of-failure", "will-break", "costs-performance", "harmless", "information")
_FIGURES = re.compile(r"(?<=<!-- figures -->\n).*?(?=<!-- end of figures -->)", re.DOTALL)


def write_reference(folder: Path) -> list[Path]:
    """Write the page of each topic and the schema below a folder; return the files."""
    pages = {"pack.schema.json": schema_text(), **reference_pages()}
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in pages]


def reference_pages() -> dict[str, str]:
    """Return the page of each topic by the name of its file."""
    samples: dict[str, str] = {}
    for name, text in PatternTexts([builtin_root()]).samples():
        samples.setdefault(name, text)
    pages = topic_pages(load_index().patterns, samples)
    return {f"patterns-{topic}.md": text for topic, text in pages.items()}


def topic_pages(patterns: Iterable[Pattern], samples: Mapping[str, str]) -> dict[str, str]:
    """Return, for each topic, a page with its warnings and errors by verdict and meaning.

    Args:
        patterns: all patterns.
        samples: a sample of each pattern, by id.
    """
    by_topic: dict[str, list[Pattern]] = {}
    for pattern in patterns:
        if pattern.level in SHOWN_LEVELS and pattern.meaning:
            by_topic.setdefault(pattern.topic, []).append(pattern)
    return {
        topic: "\n".join(_topic_lines(topic, by_topic[topic], samples)) + "\n" for topic in sorted(by_topic)
    }


def figures(catalogues: Sequence[Path], patterns: Sequence[Pattern]) -> str:
    """Return the coverage tables as Markdown: of vLLM's own log messages, then of some catalogues."""
    parts = ["\n".join(share_lines(own_share(patterns)))]
    for path in catalogues:
        tallies, _ = cover(messages_of(read_rows(path)), patterns)
        parts.append("\n".join([f"`{path.name}`:", "", *coverage_lines(tallies)]))
    return "\n\n".join(parts) + "\n"


def with_figures(page: str, text: str) -> str:
    """Return a page with the text between its marks for figures replaced."""
    return _FIGURES.sub(lambda _: text, page, count=1)


def _topic_lines(topic: str, patterns: Sequence[Pattern], samples: Mapping[str, str]) -> Iterator[str]:
    area = AREAS[topic]
    yield f"# {area[0].upper()}{area[1:]}: warnings and errors"
    yield ""
    yield "Made by `python -m vllm_logdoctor.catalogue.reference`; `logdoctor explain ID` shows one of them."
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the reference pages; 0 when written."""
    parser = argparse.ArgumentParser(prog="python -m vllm_logdoctor.catalogue.reference")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--catalogue", type=Path, action="append", default=[])
    options = parser.parse_args(arguments)
    written = write_reference(options.folder)
    if options.catalogue:
        page = options.folder / "patterns.md"
        text = figures(options.catalogue, list(load_index().patterns))
        page.write_text(with_figures(page.read_text(encoding="utf-8"), text), encoding="utf-8")
        written.append(page)
    print(f"{len(written)} files written to {options.folder}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
