"""Expressions that are compiled when they are first used.

Compiling a regex takes 0.1 to 1 ms, and most logs never ask most expressions: a run that is well has no traceback to look
into. What every log needs is compiled at import with `re.compile`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

_METHODS = ("search", "match", "fullmatch", "finditer", "findall", "sub")


class LazyPattern:
    """A regex over text with the methods of a compiled one, which are bound at the first call of any.

    Example:
        >>> KILLED = LazyPattern(r"exit code (-?\\d+)")
        >>> KILLED.search("the job ended with exit code -9")[1]
        '-9'
    """

    __slots__ = (*_METHODS, "flags", "pattern")

    search: Callable[..., re.Match[str] | None]
    match: Callable[..., re.Match[str] | None]
    fullmatch: Callable[..., re.Match[str] | None]
    finditer: Callable[..., Iterator[re.Match[str]]]
    findall: Callable[..., list[Any]]
    sub: Callable[..., str]

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self.pattern = pattern
        self.flags = flags

    def __getattr__(self, name: str) -> object:
        # Reached only while the slot of a method is empty.
        if name not in _METHODS:
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self.flags)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(self, name)
