"""Access lines counted in blocks: they are most of a busy server's log and none of them needs a record."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

AccessKey = tuple[str, str, int]
"""(method, path without query, status)."""

# INFO:     127.0.0.1:45988 - "POST /v1/completions HTTP/1.1" 200 OK     (colours around the parts on a terminal)
_COLOUR = r"(?:\x1b?\[[0-9;]{0,8}m)?"
# Quoted once more in JSON, CSV and HTML.
_QUOTE = r'(?:\\?"|""|&quot;)'
_REQUEST = r'([A-Z]{3,7}) ([^" \n]{1,4000}) HTTP/[0-9.]{1,3}'
_ACCESS = re.compile(f"( - {_QUOTE}{_COLOUR}{_REQUEST}{_COLOUR}{_QUOTE} {_COLOUR}([0-9]{{3}}))".encode())
_MARK = b" HTTP/"
_LEVEL = b"INFO:"
_KNOWN_LIMIT = 16
_PATH_LIMIT = 64


class AccessCounter:
    """Counts access lines in spans of bytes; remembers the line ends seen so far, so that most are counted by search."""

    def __init__(self) -> None:
        self._known: dict[bytes, AccessKey] = {}

    def count(self, data: bytes, start: int, end: int) -> Counter[AccessKey]:
        """Count the access lines in data[start:end]."""
        counts: Counter[AccessKey] = Counter()
        total = data.count(_MARK, start, end)
        if not total:
            return counts
        found = 0
        for tail, key in self._known.items():
            number = data.count(tail, start, end)
            if number:
                counts[key] += number
                found += number
        if found == total and found:
            return counts
        return self._count_each(data, start, end)

    def _count_each(self, data: bytes, start: int, end: int) -> Counter[AccessKey]:
        counts: Counter[AccessKey] = Counter()
        raw = Counter(_ACCESS.findall(data, start, end))
        for (tail, method, target, status), number in raw.items():
            key = _key(method, target, status)
            counts[key] += number
            if len(self._known) < _KNOWN_LIMIT:
                self._known[tail] = key
        return counts


def access_keys(text: bytes) -> list[AccessKey]:
    """Return what the access lines in a text ask for, in order.

    Example:
        >>> access_keys(b'10.0.0.9:5 - "GET /health?full=1 HTTP/1.1" 200 OK')
        [('GET', '/health', 200)]
    """
    return [_key(method, target, status) for _, method, target, status in _ACCESS.findall(text)]


def _key(method: bytes, target: bytes, status: bytes) -> AccessKey:
    return method.decode(), _path(target), int(status)


def _path(target: bytes) -> str:
    return target.split(b"?", 1)[0].decode("utf-8", "replace")


class AccessBlock(Counter[AccessKey]):
    """Access lines counted together; who wrote which is looked up only where several servers write to one log.

    Args:
        counts: how many there are of each.
        place: number of the file, and of the first line.
        lines: returns the lines that they are among.
        paths: keeps the first paths apart.

    Example:
        >>> line = b'(APIServer pid=1) INFO:     10.0.0.9:5 - "GET /health HTTP/1.1" 200 OK'
        >>> block = AccessBlock({("GET", "/health", 200): 1}, (0, 1), lambda: [line], PathLimit())
        >>> block.split(0, 1)
        (Counter(), {b'(APIServer pid=1) ': Counter({('GET', '/health', 200): 1})})
        >>> block.split(0, 2)
        (Counter({('GET', '/health', 200): 1}), {})
    """

    def __init__(
        self,
        counts: Counter[AccessKey] | dict[AccessKey, int],
        place: tuple[int, int],
        lines: Callable[[], Sequence[bytes]],
        paths: PathLimit,
    ) -> None:
        super().__init__()
        # A counter adds up one by one; here each key comes once.
        dict.update(self, counts)
        self._file, self._first = place
        self._lines = lines
        self._paths = paths

    def split(self, file: int, line: int) -> tuple[Counter[AccessKey], dict[bytes, Counter[AccessKey]]]:
        """Return the counts of the lines before a line of a file, and those of the others by what precedes their level."""
        before = max(0, line - self._first) if file == self._file else 0
        lines = self._lines()
        earlier = self._by_prefix(lines[:before])
        return sum(earlier.values(), Counter()), self._by_prefix(lines[before:])

    def _by_prefix(self, lines: Sequence[bytes]) -> dict[bytes, Counter[AccessKey]]:
        prefixes: dict[bytes, Counter[AccessKey]] = {}
        for line in lines:
            for tail, method, target, status in _ACCESS.findall(line) if _MARK in line else ():
                prefix = line[: max(0, line.rfind(_LEVEL, 0, line.find(tail)))]
                prefixes.setdefault(prefix, Counter())[_key(method, target, status)] += 1
        return {prefix: Counter(self._paths.limited(counts)) for prefix, counts in prefixes.items()}


class PathLimit:
    """Keeps the first paths that were met apart and counts the rest together: paths are a client's text."""

    def __init__(self) -> None:
        self._paths: set[str] = set()

    def limited(self, counts: Mapping[AccessKey, int]) -> dict[AccessKey, int]:
        """Return counts in which paths beyond the limit are one."""
        out: dict[AccessKey, int] = {}
        for (method, path, status), number in counts.items():
            if path not in self._paths:
                if len(self._paths) < _PATH_LIMIT:
                    self._paths.add(path)
                else:
                    path = "(other paths)"
            key = method, path, status
            out[key] = out.get(key, 0) + number
        return out
