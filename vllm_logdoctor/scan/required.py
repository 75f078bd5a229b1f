"""Literal texts that every match of a regex contains."""

from __future__ import annotations

import re

_SHORTEST = 4
# A quantifier may leave out what precedes it; a group, a class or an escape of letters is no text.
_TOKEN = re.compile(
    r"(?P<group>\()|(?P<close>\))|(?P<any>\[\^?\]?(?:\\.|[^\]\\])*\]|\\[A-Za-z0-9]|[.^$])|\\(?P<escaped>[^A-Za-z0-9])"
    r"|(?P<repeat>[*?]|\{[0-9,]*\})|(?P<more>\+)|(?P<or>\|)|(?P<plain>.)",
    re.DOTALL,
)


def required_texts(regex: str) -> tuple[str, ...]:
    """Return texts of four characters or more that every match of a regex contains outside of its groups.

    Example:
        >>> required_texts(r"Received (?P<signal>-?[0-9]+) signals? from \\(init\\)")
        ('Received ', ' signal', ' from (init)')
        >>> required_texts(r"one|other"), required_texts(r"(?i)text")
        ((), ())
    """
    if regex.startswith("(?i") or re.match(r"\(\?[a-zA-Z]+\)", regex):
        return ()
    texts: list[str] = []
    text, depth = "", 0
    for token in _TOKEN.finditer(regex):
        kind = token.lastgroup
        if kind in ("group", "close"):
            depth += 1 if kind == "group" else -1
        if depth or kind == "close":
            texts, text = [*texts, text], ""
        elif kind == "or":
            return ()
        elif kind == "repeat":
            texts, text = [*texts, text[:-1]], ""
        elif kind in ("escaped", "plain"):
            text += token["escaped"] or token["plain"]
        else:
            texts, text = [*texts, text], ""
    return tuple(one for one in (*texts, text) if len(one) >= _SHORTEST)


def mentions_parser_marks(regex: str) -> bool:
    """Return whether a regex looks for what the parser puts into a text: masks of secrets, notes on what was cut.

    Example:
        >>> mentions_parser_marks(r"api_key=\\*\\*\\*"), mentions_parser_marks("api_key=")
        (True, False)
    """
    plain = regex.replace("\\", "")
    return "characters>" in plain or "***" in plain
