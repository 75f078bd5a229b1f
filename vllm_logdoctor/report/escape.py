"""Log text is a stranger's text: how each of it is shown as text and as nothing else.

Markdown: `inline` for running text, `prose` for our own sentences that quote log values (backticks stay code
spans), `code` for quoted values, `fence` for blocks. All go through `visible` first.
"""

from __future__ import annotations

import re
import unicodedata

from vllm_logdoctor.lazy import lazy_pattern

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_INVISIBLE = frozenset(
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b\u200c\u200d\u2060\u2061\u2062\u2063\u2064\ufeff"
)
_PLAIN = lazy_pattern(r"[\x20-\x7e]*\Z")
# A bracket makes a link only where one closes before a parenthesis, another bracket or a colon; the first one of a line may define a name.
_SPECIAL = lazy_pattern(r"[\\`*<|~$]|\](?=[(\[:])|&(?=[#A-Za-z])|(?<![^\W_])_|_(?![^\W_])")
_LEADING = lazy_pattern(r"([#>+\-=\[])|(\d{1,9})([.)])(?=\s|$)")
_TICKS = lazy_pattern(r"`+")
_FULL_STOPS = lazy_pattern(r"(?<=[\w)`\"'])\.\.(?=\s|$)")
_CODE = lazy_pattern(r"`([^`]+)`")
# what Markdown viewers turn into a link or a mention by themselves; and flags, __names__, ~/paths and *.patterns, which read better as code
_LINK = lazy_pattern(
    r"(?<!\S)\S*(?:://|www\.|@|(?<!\w)#\d|\w[.+-]*:[/\\])\S*|(?<!\S)--[a-z][a-z0-9.-]*[a-z0-9]"
    r"|(?<![\w.])_+[a-z]\w*(?:\(\))?|(?<!\S)~/[\w./-]*\w|(?<!\S)\*\.[\w-]+",
    re.IGNORECASE,
)


def visible(text: str, newline: str = " ") -> str:
    """Return text in which nothing acts: control, bidirectional and invisible characters become marks.

    Example:
        >>> visible("a\\x1b[31mb\\u202ec")
        'a\u241b[31mb\\\\u202ec'
    """
    if _PLAIN.match(text):
        return text
    text = text.replace("\r\n", "\n").replace("\n", newline)
    return "".join(character if newline == character else _shown(character) for character in text)


def _shown(character: str) -> str:
    code = ord(character)
    if code == 9:
        return " "
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    if code < 0x7F:
        return character
    category = unicodedata.category(character)
    if category in ("Cs", "Cn"):
        return "\ufffd"
    if character in _BIDI or character in _INVISIBLE or category in ("Cc", "Cf", "Zl", "Zp", "Co"):
        return f"\\u{code:04x}"
    return " " if category == "Zs" else character


def shorten(text: str, limit: int) -> str:
    """Return text of at most `limit` characters, cut with an ellipsis.

    Example:
        >>> shorten("abcdef", 4)
        'abc…'
    """
    return text if len(text) <= limit else text[: limit - 1] + "…"


def code(text: str, limit: int = 400) -> str:
    """Return text as a code span that nothing in it can close.

    Example:
        >>> code("a`b")
        '``a`b``'
    """
    text = shorten(" ".join(visible(text).split()), limit)
    if not text:
        return ""
    longest = max((len(run) for run in _TICKS.findall(text)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if text[0] == "`" or text[-1] == "`" else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def inline(text: str, limit: int = 2000) -> str:
    """Return text that Markdown shows as it is; addresses and flags become code, so that none is a link.

    Example:
        >>> inline("*a* [b](c) max_num_seqs")
        '\\\\*a\\\\* [b\\\\](c) max_num_seqs'
        >>> inline("see http://x.example/")
        'see `http://x.example/`'
        >>> inline("__init__() in torch._C")
        '`__init__()` in torch.\\\\_C'
    """
    text = shorten(" ".join(visible(text).split()), limit)
    parts: list[str] = []
    end = 0
    for match in _LINK.finditer(text):
        parts += [_escaped(text[end : match.start()]), code(match.group())]
        end = match.end()
    parts.append(_escaped(text[end:]))
    joined = "".join(parts)
    leading = _LEADING.match(joined)
    return _escape_leading(leading) + joined[leading.end() :] if leading else joined


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda match: "\\" + match.group(), text)


def _escape_leading(match: re.Match[str]) -> str:
    return f"\\{match.group(1)}" if match.group(1) else f"{match.group(2)}\\{match.group(3)}"


def prose(text: str, limit: int = 4000) -> str:
    """Return a sentence of ours, in which pairs of backticks are code spans and all else is text.

    Example:
        >>> prose("raise `--max-num-seqs`, not <b>that</b>")
        'raise `--max-num-seqs`, not \\\\<b>that\\\\</b>'
    """
    text = _FULL_STOPS.sub(".", shorten(" ".join(visible(text).split()), limit))
    joined, end = "", 0
    for match in _CODE.finditer(text):
        joined = _beside(joined, _kept_spaces(text[end : match.start()]))
        joined = _beside(joined, code(match.group(1)))
        end = match.end()
    return _beside(joined, _kept_spaces(text[end:]))


def _beside(before: str, after: str) -> str:
    """Join, with a space where two code spans would run into one."""
    return f"{before} {after}" if before.endswith("`") and after.startswith("`") else before + after


def _kept_spaces(text: str) -> str:
    if not text.strip():
        return " " if text else ""
    before = " " if text[0].isspace() else ""
    after = " " if text[-1].isspace() else ""
    return f"{before}{inline(text, len(text) + 1)}{after}"


def fence(text: str, language: str = "") -> list[str]:
    """Return the lines of a fenced block whose fence is longer than any run of backticks in the text."""
    shown = visible(text, newline="\n").split("\n")
    longest = max((len(run) for line in shown for run in _TICKS.findall(line)), default=0)
    ticks = "`" * max(3, longest + 1)
    return [ticks + language, *shown, ticks]
