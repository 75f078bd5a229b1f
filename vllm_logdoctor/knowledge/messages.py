"""What vLLM prints: every message template of every known release, with the lines at which it is logged.

The table is made by `python -m tools.build_catalogue` and never edited. Nothing of it is read before somebody asks:
it is decompressed once, and parsed file by file.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from functools import cache, cached_property, lru_cache

from msgspec import Struct

from vllm_logdoctor.knowledge.store import DATA_FOLDER, GZIP
from vllm_logdoctor.knowledge.templates import literal_parts

_FILE = DATA_FOLDER / "messages.jsonl.gz"
_KEY = 6
"""Bytes of a literal by which exceptions are looked up."""


@lru_cache(maxsize=4096)
def base_name(file: str) -> str:
    """Return the name of a source file without folders."""
    return file.replace("\\", "/").rpartition("/")[2]


class VllmMessage(Struct, frozen=True, gc=False):
    """One message template of one source file.

    Attributes:
        module: path of the file inside the package, that of the newest release.
        template: text with placeholders.
        style: plain, percent or brace (`vllm_logdoctor.knowledge.templates`).
        level: level of the log ("exception" is an error with a traceback); "warn" for the warnings module,
            "print", or "raise" for an exception.
        spans: (number of the first release, of the last, lines in these); the lines are known for what is logged.
        parts: the texts between the placeholders.
    """

    module: str
    template: str
    style: str
    level: str
    spans: tuple[tuple[int, ...], ...]
    parts: tuple[str, ...]

    @property
    def base(self) -> str:
        """Name of the file without folders, as a log shows it."""
        return self.module.rpartition("/")[2]

    @property
    def id(self) -> str:
        """Name of the message: the file and a hash of the template."""
        return f"catalogue:{self.base}:{zlib.crc32(self.template.encode()):08x}"


class MessageTable:
    """The table of all messages; see `message_table`.

    Args:
        data: two gzip members of JSON lines. The first one holds the releases, then [module, messages] for what is
            logged; the second one [longest literal, module, message ...] for what is raised.
    """

    def __init__(self, data: bytes) -> None:
        member = zlib.decompressobj(GZIP)
        self._logged = member.decompress(data)
        self._packed_raised = member.unused_data
        self._by_base: dict[str, tuple[VllmMessage, ...]] = {}
        self._by_literal: dict[str, tuple[VllmMessage, ...]] = {}

    @cached_property
    def versions(self) -> tuple[str, ...]:
        """All releases, oldest first; spans name them by number."""
        [versions] = json.loads(self._logged[: self._logged.index(b"\n")])
        return tuple(versions)

    @property
    def logged(self) -> Iterator[VllmMessage]:
        """All that is logged, warned of and printed."""
        return (message for line in self._logged.splitlines()[1:] for message in _logged_messages(line))

    def logged_by(self, base: str) -> tuple[VllmMessage, ...]:
        """Return what the files with a name log, warn of and print."""
        found = self._by_base.get(base)
        if found is None:
            lines = self._lines.get(base.encode("utf-8", "replace"), ())
            if not lines:
                return ()
            found = self._by_base[base] = tuple(
                message for line in lines for message in _logged_messages(line)
            )
        return found

    def logged_with(self, literal: str) -> tuple[VllmMessage, ...]:
        """Return what is logged by a template with a literal text; rule pages name few of them, many times."""
        if literal not in self._by_literal:
            encoded = json.dumps(literal, ensure_ascii=False)[1:-1].encode("utf-8", "replace")
            lines = (line for line in self._logged.splitlines()[1:] if encoded in line)
            self._by_literal[literal] = tuple(
                one for line in lines for one in _logged_messages(line) if literal in one.template
            )
        return self._by_literal[literal]

    def logs_from(self, base: str) -> bool:
        """Return whether a release logs, warns of or prints anything in a file with a name."""
        return base.encode("utf-8", "replace") in self._lines

    def last_with(self, module: str) -> int | None:
        """Return the number of the last release in which a file logs or raises anything; None of a file that never does."""
        logged = (one for one in self.logged_by(base_name(module)) if one.module == module)
        ends = [one.spans[-1][1] for one in logged]
        raised = self._raised_until.get(module)
        return max([*ends, *([raised] if raised is not None else [])], default=None)

    def raised_in(self, text: str) -> Iterator[VllmMessage]:
        """Yield the exceptions of vLLM whose longest literal text occurs in a text, the longest literals first."""
        encoded = json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")
        keys = {encoded[place : place + _KEY] for place in range(len(encoded) - _KEY + 1)}
        lines = [line for key in keys & self._raised.keys() for line in self._raised[key]]
        for line in sorted(lines, key=lambda line: (-line.index(b'",'), line)):
            if line[2 : line.index(b'",')] in encoded:
                yield _raised_message(line)

    def __iter__(self) -> Iterator[VllmMessage]:
        """Yield all messages."""
        yield from self.logged
        for lines in self._raised.values():
            yield from map(_raised_message, lines)

    @cached_property
    def _raised(self) -> dict[bytes, list[bytes]]:
        """Lines of what is raised by the first bytes of their literal."""
        found: dict[bytes, list[bytes]] = {}
        for line in zlib.decompress(self._packed_raised, wbits=GZIP).splitlines():
            found.setdefault(line[2 : 2 + _KEY], []).append(line)
        return found

    @cached_property
    def _raised_until(self) -> dict[str, int]:
        """Number of the last release in which each file raises anything."""
        found: dict[str, int] = {}
        for lines in self._raised.values():
            for line in lines:  # A quote inside of a text has a backslash before it.
                module, last = line.split(b'","', 2)[1].decode(), int(line.rstrip(b"]").rpartition(b",")[2])
                found[module] = max(found.get(module, 0), last)
        return found

    @cached_property
    def _lines(self) -> dict[bytes, list[bytes]]:
        """Lines of what is logged by the name of their file: ["v1/engine/core.py",[["Reserved %s GiB.", ...]]]."""
        found: dict[bytes, list[bytes]] = {}
        for line in self._logged.splitlines()[1:]:
            module = line[2 : line.index(b'"', 2)]
            found.setdefault(module.rpartition(b"/")[2], []).append(line)
        return found


def _logged_messages(line: bytes) -> Iterator[VllmMessage]:
    module, rows = json.loads(line)
    for template, style, level, spans in rows:
        yield VllmMessage(
            module, template, style, level, tuple(map(tuple, spans)), literal_parts(template, style)
        )


def _raised_message(line: bytes) -> VllmMessage:
    _, module, template, style, spans = json.loads(line)
    return VllmMessage(
        module, template, style, "raise", tuple(map(tuple, spans)), literal_parts(template, style)
    )


@cache
def message_table() -> MessageTable:
    """Return the table that comes with the tool."""
    return MessageTable(_FILE.read_bytes())
