"""Expressions that are compiled when they are first used.

To compile all of them takes a third of the analysis of a small log, which asks one in four of them.
"""

from __future__ import annotations

import re
from typing import Any, cast


class _LazyPattern:
    """A regex that compiles itself at the first question."""

    def __init__(self, regex: str, flags: int) -> None:
        self._given = regex, flags
        self.pattern = regex

    def __getattr__(self, name: str) -> Any:
        # Reached only while the attribute is not set: it is kept for the next time.
        compiled = re.compile(*self._given)
        value = getattr(compiled, name)
        for method in ("search", "match", "fullmatch", "finditer", "findall", "sub", "split"):
            setattr(self, method, getattr(compiled, method))
        return value


def lazy_pattern(regex: str, flags: int = 0) -> re.Pattern[str]:
    """Return an expression with the methods of a compiled one; it is compiled when the first of them is asked for.

    Example:
        >>> killed = lazy_pattern(r"exit code (-?\\d+)")
        >>> killed.search("the job ended with exit code -9")[1]
        '-9'
    """
    return cast("re.Pattern[str]", _LazyPattern(regex, flags))
