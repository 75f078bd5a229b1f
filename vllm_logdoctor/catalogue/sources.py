"""The text of a pattern in its pack file, found without reading whole packs as TOML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from vllm_logdoctor.catalogue.locate import pack_files
from vllm_logdoctor.catalogue.model import PatternEntry
from vllm_logdoctor.catalogue.packs import parse_pack

_TABLE = "[[pattern]]"
_ID = re.compile(r'^id = "(?P<id>[^"]+)"\s*$', re.MULTILINE)


class PatternText(Struct, frozen=True):
    """One pattern as it is in a pack file, with the line at which it starts."""

    path: Path
    line: int
    text: str

    @property
    def entry(self) -> PatternEntry:
        """The pattern as a model."""
        header = '[pack]\nname = "shown"\ntitle = "shown"\n'
        return parse_pack(self.path, header + self.text).pattern[0]


class PatternTexts:
    """The texts of all patterns below some directories or files; files are read when first asked for."""

    def __init__(self, roots: Iterable[Path]) -> None:
        self._roots: Sequence[Path] = tuple(roots)

    def find(self, pattern_id: str) -> PatternText | None:
        """Return the text of the pattern with this id, or None."""
        place = self._places.get(pattern_id)
        return _block(place[0], self._texts[place[0]], place[1]) if place else None

    @cached_property
    def _texts(self) -> dict[Path, str]:
        return {path: path.read_text(encoding="utf-8") for root in self._roots for path in pack_files(root)}

    @cached_property
    def _places(self) -> dict[str, tuple[Path, int]]:
        return {
            found["id"]: (path, found.start())
            for path, text in self._texts.items()
            for found in _ID.finditer(text)
        }


def _block(path: Path, text: str, position: int) -> PatternText:
    start = text.rfind(_TABLE, 0, position)
    end = text.find(f"\n{_TABLE}", position)
    block = text[start : end if end >= 0 else len(text)].rstrip() + "\n"
    return PatternText(path, text.count("\n", 0, start) + 1, block)
