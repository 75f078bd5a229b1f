"""An excerpt as Markdown, text or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vllm_logdoctor.assistants.excerpt import CitedFact, Conclusion, Excerpt, LogLine
from vllm_logdoctor.report.escape import code, fence, inline
from vllm_logdoctor.report.json import text_of
from vllm_logdoctor.report.text import plain_text
from vllm_logdoctor.report.writers import format_named
from vllm_logdoctor.rules.context import plural

FORMATS = ("markdown", "text", "json")
_WIDTH = 100_000
"""Text is not wrapped: an excerpt has as many lines in every form."""


def rendered(excerpt: Excerpt, format_name: str = "markdown") -> str:
    """Return an excerpt in a format.

    Raises:
        LogdoctorError: no such format (exit code 2).
    """
    chosen = format_named(format_name, FORMATS)
    if chosen == "json":
        return text_of(excerpt)
    page = "\n".join(_markdown(excerpt)) + "\n"
    return page if chosen == "markdown" else plain_text(page, _WIDTH)


def facts_text(excerpt: Excerpt) -> str:
    """Return all of an excerpt but the lines of the log, as plain text."""
    return plain_text("\n".join(_frame(excerpt)), _WIDTH).strip()


def _markdown(excerpt: Excerpt) -> Iterator[str]:
    yield from _frame(excerpt)
    yield ""
    yield from fence("\n".join(_log_lines(excerpt.lines)), "text")
    yield ""
    names = ", ".join(
        f"{number}: {code(name)}" if len(excerpt.files) > 1 else code(name)
        for number, name in enumerate(excerpt.files[:12], start=1)
    )
    yield (
        f"{len(excerpt.lines)} of {plural(excerpt.lines_in_log, 'line')} of {names}, with their line numbers;"
        " secrets masked by logdoctor."
    )


def _frame(excerpt: Excerpt) -> Iterator[str]:
    yield f"### {inline(excerpt.state)}"
    yield ""
    several = f" Run {excerpt.run} of {excerpt.runs}." if excerpt.runs > 1 else ""
    yield f"{inline(excerpt.ran)}.{several}"
    yield ""
    if excerpt.launch:
        yield from fence(excerpt.launch, "sh")
    yield from _facts("Set or changed", excerpt.settings)
    yield from _facts("Environment", excerpt.environment)
    yield from _facts("Before the end", excerpt.signs)
    yield from _facts("Load", excerpt.load)
    yield from map(_conclusion, excerpt.concluded)
    if not excerpt.concluded:
        yield "- logdoctor found nothing to name."
    if excerpt.not_known:
        yield f"- Not known: {inline(' '.join(excerpt.not_known), 800)}"


def _facts(title: str, facts: Sequence[CitedFact]) -> Iterator[str]:
    if facts:
        shown = ", ".join(
            f"{code(one.name)} {code(one.value) or 'not set'}{_cited(one.lines)}" for one in facts
        )
        yield f"- {title}: {shown}"


def _conclusion(one: Conclusion) -> str:
    role = f"{one.role} {one.kind}" if one.role else one.kind
    return f"- Concluded ({role}, confidence {one.confidence}): {inline(one.text)}{_cited(one.lines)}"


def _cited(lines: Sequence[str]) -> str:
    return f" [{', '.join(f'L{line}' for line in lines)}]" if lines else ""


def _log_lines(lines: Sequence[LogLine]) -> Iterator[str]:
    width = max((len(one.at) for one in lines), default=1)
    before: LogLine | None = None
    for one in lines:
        if before is not None and not _follows(one.at, before.at):
            yield f"{'...':>{width}}"
        yield f"{one.at:>{width}}  {one.text}"
        before = one


def _follows(place: str, before: str) -> bool:
    file, _, line = place.rpartition(":")
    other, _, earlier = before.rpartition(":")
    return file == other and int(line) <= int(earlier) + 1
