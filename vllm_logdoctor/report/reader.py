"""How Markdown is read back: the one parser that HTML, plain text and tests share."""

from __future__ import annotations

from functools import cache

from markdown_it import MarkdownIt

from vllm_logdoctor.lazy import lazy_pattern

_OFF = [
    "image",
    "autolink",
    "link",
    "reference",
    "html_inline",
    "html_block",
    "entity",
    "lheading",
    "hr",
    "blockquote",
]


_ANCHOR = lazy_pattern(r"#(?:e\d+-|run-)\d+")


@cache
def reader(linked: bool = False) -> MarkdownIt:
    """Return a parser of the report's own Markdown: no images, no HTML, no links but to runs and lines of evidence.

    Args:
        linked: whether links to runs and lines of evidence are read; no other link ever is.
    """
    parser = MarkdownIt("commonmark").enable("table").disable(_OFF)
    if linked:
        parser.enable("link")
        parser.validateLink = _leads_into_the_page  # type: ignore[method-assign]
    return parser


def _leads_into_the_page(url: str) -> bool:
    return _ANCHOR.fullmatch(url) is not None


def plain_words(markdown: str) -> str:
    """Return inline Markdown as plain words in one line.

    Example:
        >>> plain_words("**drop** `--enforce-eager`")
        'drop --enforce-eager'
    """
    children = [child for token in reader().parseInline(markdown) for child in token.children or []]
    return "".join(" " if child.type.endswith("break") else child.content for child in children).strip()
