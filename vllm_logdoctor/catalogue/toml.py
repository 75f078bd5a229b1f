"""The TOML reader of this Python."""

from __future__ import annotations

import sys
from pathlib import Path

from vllm_logdoctor.catalogue.errors import Problem

if sys.version_info >= (3, 11):
    from tomllib import TOMLDecodeError, loads
else:
    from tomli import TOMLDecodeError, loads

__all__ = ["TOMLDecodeError", "loads", "toml_problem"]


def toml_problem(path: Path, error: TOMLDecodeError, above: int = 0) -> Problem:
    """Return why a text is no TOML, at its line in the file; `above` lines of the file come before the text."""
    text = str(error)
    place = text.rpartition("(at line ")[2].partition(",")[0]
    line = above + (int(place) if place.isdigit() else 1)
    return Problem(path, line, "TOML", f"{text.partition(' (at ')[0]}; write regexes between single quotes")
