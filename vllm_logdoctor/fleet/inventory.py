"""What is to be read: paths to logs, each with the files that belong together and a hash of their state."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from hashlib import blake2b
from itertools import chain

from msgspec import Struct

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.source.inputs import looks_like_log
from vllm_logdoctor.source.sets import set_name


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


def logs_of(
    paths: Iterable[str], listed: Iterable[str] = (), leave_out: str = "", skipped: list[str] | None = None
) -> Iterator[Log]:
    """Yield the logs that paths name, each once.

    Args:
        paths: files, globs and directories.
        listed: paths of a list; one that is not there any more is a log that can't be read, not an error.
        leave_out: directory that is not entered (the store).
        skipped: takes what is no file though its name is that of a log, in a directory or of a glob, with the reason.

    Raises:
        LogdoctorError: a path of `paths` is no file, or a glob matches nothing (exit code 3).
    """
    families: dict[str, list[str]] = {}
    seen: set[str] = set()
    left_out = [] if skipped is None else skipped
    named = (found for path in paths for found in _named(path, leave_out, left_out))
    for path in chain(named, _listed(listed, leave_out, left_out)):
        if path not in seen:
            seen.add(path)
            families.setdefault(set_name(path), []).append(path)
    seen.clear()
    for family in list(families):
        yield _log(family, sorted(families.pop(family)))


def key_of(path: str) -> str:
    """Return the key of the log that a file belongs to."""
    return _hash(set_name(os.path.abspath(path)))


def _named(path: str, leave_out: str, skipped: list[str]) -> Iterator[str]:
    """Yield the files of what a user named: a file, a directory or a glob."""
    if os.path.isdir(path):
        yield from _below(os.path.abspath(path), leave_out, skipped)
        return
    reason = _no_file(path)
    if not reason:
        yield os.path.abspath(path)
    elif glob.has_magic(path) and (found := sorted(glob.iglob(path, recursive=True))):
        for one in found:
            if os.path.isdir(one):
                yield from _below(os.path.abspath(one), leave_out, skipped)
            elif reason := _no_file(one):
                skipped.append(f"{one}: {reason}")
            else:
                yield os.path.abspath(one)
    elif os.path.lexists(path):
        raise LogdoctorError(f"can't read {path}: {reason}; give logs, globs or directories")
    else:
        raise LogdoctorError(f"no such file: {path}; give logs, globs or directories")


def _listed(paths: Iterable[str], leave_out: str, skipped: list[str]) -> Iterator[str]:
    for path in paths:
        if os.path.isdir(path):
            yield from _below(os.path.abspath(path), leave_out, skipped)
        else:
            yield os.path.abspath(path)


def _below(folder: str, leave_out: str, skipped: list[str]) -> Iterator[str]:
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
                    elif not looks_like_log(entry.name):
                        continue
                    elif not entry.is_file(follow_symlinks=False) and (reason := _no_file(entry.path)):
                        skipped.append(f"{entry.path}: {reason}")
                    else:
                        yield entry.path
        except OSError as error:
            raise LogdoctorError(f"can't read directory {folder}: {error.strerror or error}") from error


def _no_file(path: str) -> str:
    """Return why a path is no file that could be read: a link in a circle, a device, a pipe; "" for a file."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        return error.strerror or str(error)
    except ValueError as error:
        return str(error)
    return "" if stat.S_ISREG(mode) else "not a file"


def _log(family: str, files: Sequence[str]) -> Log:
    sizes = []
    modified = 0.0
    for file in files:
        try:
            found = os.stat(file)
        except (OSError, ValueError):
            sizes.append((-1, -1))
            continue
        sizes.append((found.st_size, found.st_mtime_ns))
        modified = max(modified, found.st_mtime)
    state = _hash(repr((files, sizes)))
    return Log(_hash(family), tuple(files), state, sum(max(size, 0) for size, _ in sizes), modified)


def _hash(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
