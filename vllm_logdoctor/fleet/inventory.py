"""What is to be read: paths to logs, each with the files that belong together and a hash of their state."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from hashlib import blake2b

from msgspec import Struct

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.source.inputs import looks_like_log
from vllm_logdoctor.source.sets import family_of


class Log(Struct, frozen=True):
    """One log to read.

    Attributes:
        key: hash of the name that its files share; it stays when the log grows or is rotated.
        files: absolute paths.
        state: hash of sizes and times of change.
        bytes: size of the files.
        modified: last change, seconds since 1970.
    """

    key: str
    files: tuple[str, ...]
    state: str
    bytes: int
    modified: float

    @property
    def modified_utc(self) -> datetime:
        """Last change as a naive UTC time."""
        return datetime.fromtimestamp(self.modified, timezone.utc).replace(tzinfo=None)


def logs_of(paths: Iterable[str], listed: Iterable[str] = (), leave_out: str = "") -> Iterator[Log]:
    """Yield the logs that paths name, each once.

    Args:
        paths: files, globs and directories.
        listed: paths of a list; one that is not there any more is a log that can't be read, not an error.
        leave_out: directory that is not entered (the store).

    Raises:
        LogdoctorError: a path of `paths` does not exist, or a glob matches nothing (exit code 3).
    """
    families: dict[str, list[str]] = {}
    seen: set[str] = set()
    for path in (*_expanded(paths, leave_out), *_expanded(listed, leave_out, listed=True)):
        if path not in seen:
            seen.add(path)
            families.setdefault(family_of(path), []).append(path)
    seen.clear()
    for family in list(families):
        yield _log(family, sorted(families.pop(family)))


def key_of(path: str) -> str:
    """Return the key of the log that a file belongs to."""
    return _hash(family_of(os.path.abspath(path)))


def _expanded(paths: Iterable[str], leave_out: str, *, listed: bool = False) -> Iterator[str]:
    for path in paths:
        if os.path.isdir(path):
            yield from _below(os.path.abspath(path), leave_out)
        elif listed or os.path.lexists(path):
            yield os.path.abspath(path)
        elif glob.has_magic(path) and (found := sorted(glob.iglob(path, recursive=True))):
            for one in found:
                yield from _expanded([one], leave_out)
        else:
            raise LogdoctorError(f"no such file: {path}; give logs, globs or directories")


def _below(folder: str, leave_out: str) -> Iterator[str]:
    """Yield the log files below a directory; links to directories are not followed."""
    waiting = [folder]
    while waiting:
        folder = waiting.pop()
        if folder == leave_out:
            continue
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif looks_like_log(entry.name) and entry.is_file():
                        yield entry.path
        except OSError as error:
            raise LogdoctorError(f"can't read directory {folder}: {error.strerror or error}") from error


def _log(family: str, files: Sequence[str]) -> Log:
    sizes = []
    modified = 0.0
    for file in files:
        try:
            found = os.stat(file)
        except OSError:
            sizes.append((-1, -1))
            continue
        sizes.append((found.st_size, found.st_mtime_ns))
        modified = max(modified, found.st_mtime)
    state = _hash(repr((files, sizes)))
    return Log(_hash(family), tuple(files), state, sum(max(size, 0) for size, _ in sizes), modified)


def _hash(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
