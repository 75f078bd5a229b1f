"""Patterns of packs that others wrote: their regexes run with a time limit and can't stop an analysis."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import import_module
from typing import Any

from msgspec import Struct, field

from vllm_logdoctor.catalogue.index import Pattern

TIME_LIMIT = 0.1
"""Seconds that one regex may take for one message; a regex in linear time takes a thousandth of that."""
LONGEST_TEXT = 8192
"""Characters of a message that these regexes see."""


class ForeignMatcher(Struct):
    """Matches patterns of packs that did not come with the tool.

    A pattern that runs into the time limit, or whose regex is none, is left out for the rest of the run.

    Attributes:
        disabled: for each pattern left out, its id and why, for the report.
    """

    time_limit: float = TIME_LIMIT
    disabled: dict[str, str] = field(default_factory=dict)

    def match(self, pattern: Pattern, text: str) -> re.Match[str] | None:
        """Return the match of a message, or None; never raises and never takes longer than the limit."""
        if pattern.id in self.disabled:
            return None
        try:
            return match_with_timeout(pattern, text, self.time_limit)
        except TimeoutError:
            reason = f"took longer than {self.time_limit:g} s for one message"
        except Exception as error:
            # `regex` has more ways to refuse a pattern than its own error class.
            reason = f"is no regex: {error}"
        name = f"pattern {pattern.id} of pack {pattern.pack}"
        self.disabled[pattern.id] = f"{name} {reason}; left out of this run"
        return None


def match_with_timeout(pattern: Pattern, text: str, time_limit: float = TIME_LIMIT) -> re.Match[str] | None:
    """Match a text against a pattern in at most `time_limit` seconds.

    Raises TimeoutError when the limit is reached, and regex.error for a regex that is none.
    """
    expression = _compiled(pattern.regex)
    method = expression.search if pattern.anywhere else expression.match
    found: re.Match[str] | None = method(text[:LONGEST_TEXT], timeout=time_limit)
    return found


@lru_cache(maxsize=1024)
def _compiled(text: str) -> Any:
    # Imported late: a run without other people's packs does without it.
    regex = import_module("regex")
    return regex.compile(text, regex.DOTALL)
