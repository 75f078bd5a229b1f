"""What to read: paths, directories, rotated sets, standard input, bytes or lines in memory."""

from __future__ import annotations

import io
import os
import re
import stat
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, cast

from msgspec import Struct
from msgspec.structs import replace

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.source.compression import compression_of, decompressed
from vllm_logdoctor.source.iterator_io import IteratorIO

PathLike = str | os.PathLike[str]

_LOG_SUFFIXES = (".log", ".txt", ".out", ".err", ".jsonl", ".json", ".csv", ".OU", ".ER")
_PACKED_SUFFIXES = (".gz", ".xz", ".bz2", ".zst")
# vllm.log.2.gz, vllm.log.1, vllm.log-20260101, vllm.log
_ROTATED = re.compile(r"^(?P<stem>.+?\.(?:log|txt|out|err))(?:[.-](?P<number>\d+))?(?:\.(?:gz|xz|bz2|zst))?$")
_OF_VLLM = re.compile(
    rb"v\0?l\0?l\0?m|VLLM|vLLM|(?:INFO|WARNING|ERROR) \d\d-\d\d \d\d:|throughput: |Uvicorn|Traceback"
)
OTHER_TEXT = "text without a line of vLLM"
OTHER_FILE = "file of a folder whose name is not that of a log"
_SNIFFED_BYTES = 1 << 18
_WORTH_A_THREAD = 1 << 16
"""Packed bytes on disk from which unpacking gets a thread of its own."""
# A PBS output file: name.o12345 or name.e12345
_PBS_OUTPUT = re.compile(r"\.[oe]\d+(?:\.\d+)?$")


class Input(Struct, frozen=True):
    """One thing to read: a name for evidence and where its bytes come from.

    Attributes:
        name: how evidence names it.
        path: file to open, or None.
        data: bytes in memory, or None; with neither, `stream` or standard input is read.
        begin: bytes that were taken from it before.
        kind: what it is, where its name or place says that it is no log; "" for what may be one.
    """

    name: str
    path: Path | None = None
    data: bytes | None = None
    kind: str = ""
    begin: bytes = b""
    stream: Any = None
    """An open pipe: it can be read once."""

    @property
    def size(self) -> int | None:
        """Bytes on disk (packed size for packed files), or None where that is not known ahead."""
        if self.data is not None:
            return len(self.data)
        try:
            return self.path.stat().st_size if self.path and self.path.is_file() else None
        except OSError:
            return None

    @property
    def plain_path(self) -> str:
        """The path of a file whose bytes are the log, or "" for packed files and everything that can't be read twice."""
        try:
            if self.path is None or self.data is not None or not self.path.is_file():
                return ""
            with self.path.open("rb") as file:
                return "" if compression_of(file.read(8)) else str(self.path)
        except OSError:
            return ""

    def opened_once(self) -> Input:
        """Return the input with what can be read once open: <(kubectl logs pod).

        Raises:
            LogdoctorError: it can't be opened.
        """
        if self.path is None or not self.path.is_fifo():
            return self
        return replace(self, path=None, stream=_opened(self.path))

    def open(self) -> BinaryIO:
        """Open for reading, decompressed by content.

        Raises:
            LogdoctorError: the file can't be opened.
        """
        if self.data is not None:
            raw: BinaryIO = io.BytesIO(self.data)
        elif self.path is None:
            if self.stream is None and sys.stdin is None:
                raise LogdoctorError("standard input is closed: name a log, or pipe one in")
            raw = self.stream or sys.stdin.buffer
            if self.begin:
                rest = iter(partial(getattr(raw, "read1", raw.read), 1 << 17), b"")
                raw = cast(BinaryIO, IteratorIO(chain((self.begin,), rest), raw.close))
        else:
            raw = _opened(self.path)
        peekable = raw if hasattr(raw, "peek") else io.BufferedReader(raw, 1 << 17)  # type: ignore[type-var]
        head = peekable.peek(8)[:8]
        stream = decompressed(peekable, head)
        if stream is peekable or (self.size or 0) < _WORTH_A_THREAD or self.path is None:
            return stream
        from vllm_logdoctor.source.prefetch import prefetched

        return prefetched(stream)


def _opened(path: Path) -> BinaryIO:
    try:
        file = path.open("rb", buffering=1 << 17)
        if _has_no_end(file):
            file.close()
            raise LogdoctorError(f"can't read {path}: it is a device, not a log; name a file or a pipe")
        return file
    except OSError as error:
        raise LogdoctorError(
            f"can't read {path}: {error.strerror or error}; check path and rights"
        ) from error


def _has_no_end(file: BinaryIO) -> bool:
    """Return whether a file is a device such as /dev/zero or a disk; what is typed on a terminal ends, and so does /dev/null."""
    found = os.fstat(file.fileno())
    if not stat.S_ISCHR(found.st_mode):
        return stat.S_ISBLK(found.st_mode)
    return found.st_rdev != os.stat(os.devnull).st_rdev and not file.isatty()


def inputs_from(
    source: PathLike | bytes | Iterable[str] | Iterable[bytes] | Sequence[PathLike],
) -> list[Input]:
    """Turn what a user named into inputs in reading order.

    Args:
        source: a path, "-" for standard input, a directory, several paths, bytes, or lines.

    Returns:
        One or more inputs; a rotated set is in order of time (oldest first).

    Raises:
        LogdoctorError: a path does not exist, or a directory holds no log.

    Example:
        >>> [i.name for i in inputs_from(b"INFO 01-01 00:00:00 [a.py:1] x")]
        ['<bytes>']
    """
    if isinstance(source, bytes | bytearray):
        return [Input("<bytes>", data=bytes(source))]
    if isinstance(source, str | os.PathLike):
        return inputs_of_paths([source])
    items = list(source)
    if items and (all(isinstance(item, os.PathLike) for item in items) or _name_files(items)):
        return inputs_of_paths(items)  # type: ignore[arg-type]
    return [Input("<lines>", data=_joined_lines(items))]


def inputs_of_paths(paths: Sequence[PathLike]) -> list[Input]:
    """Turn paths into inputs in reading order.

    Raises:
        LogdoctorError: a path does not exist (exit code 3), or a directory holds no log (4).
    """
    return _in_rotation_order([found for path in paths for found in _inputs_of_path(path)])


def _name_files(items: Sequence[object]) -> bool:
    """Return whether text items are paths: all of them exist, or one is a file and none could be a line of a log."""
    texts = [
        item if isinstance(item, str) else os.fspath(item)
        for item in items
        if isinstance(item, str | os.PathLike)
    ]
    if len(texts) < len(items) or any("\n" in text or len(text) >= 4096 for text in texts):
        return False
    there = [text == "-" or os.path.exists(text) for text in texts]
    return all(there) or (any(map(os.path.isfile, texts)) and not any(" " in text for text in texts))


def _joined_lines(items: Sequence[object]) -> bytes:
    joined = bytearray()
    for item in items:
        line = item if isinstance(item, bytes) else str(item).encode("utf-8", "surrogateescape")
        joined += line if line.endswith(b"\n") else line + b"\n"
    return bytes(joined)


def _inputs_of_path(source: PathLike) -> list[Input]:
    text = os.fspath(source)
    if text == "-":
        return [Input("<stdin>")]
    if not text:
        raise LogdoctorError("'' is no path; name a log, a directory, or - for standard input", 2)
    path = Path(text)
    # Functions of os.path: a path that is too long is one that is not there.
    if os.path.isdir(text):
        return _inputs_of_directory(path)
    if not os.path.exists(text):
        raise LogdoctorError(
            f"no such file: {text}; give the path of a log, a directory, or - for standard input"
        )
    return [Input(text, path=path)]


def _inputs_of_directory(folder: Path) -> list[Input]:
    if not os.access(folder, os.R_OK | os.X_OK):
        raise LogdoctorError(f"can't read {folder}: Permission denied; check path and rights")
    files = sorted(path for path in folder.rglob("*") if os.path.isfile(path))
    found = [Input(str(path), path=path, kind=_kind_by_name(path)) for path in files]
    if not found:
        raise LogdoctorError(f"no log of vLLM in directory {folder}; name the files themselves", 4)
    return _in_rotation_order(found)


def _kind_by_name(path: Path) -> str:
    """Return what a file of a folder may be: content decides on one whose name is not that of a log."""
    if not looks_like_log(path.name):
        return OTHER_FILE
    return "" if may_be_of_vllm(path) else OTHER_TEXT


def may_be_of_vllm(path: Path) -> bool:
    """Look at the first bytes only: a directory may hold a thousand other texts. What can't be read is kept and reported."""
    try:
        with Input(str(path), path=path).open() as stream:
            return bool(_OF_VLLM.search(stream.read(_SNIFFED_BYTES)))
    except Exception:
        return True


def looks_like_log(name: str) -> bool:
    """Return whether a directory's file is read as a log, by its name."""
    plain = name
    for suffix in _PACKED_SUFFIXES:
        plain = plain.removesuffix(suffix)
    return bool(plain.endswith(_LOG_SUFFIXES) or _ROTATED.match(name) or _PBS_OUTPUT.search(plain))


def rotation_of(name: str) -> str:
    """Return the name that all members of a rotated set share.

    Example:
        >>> rotation_of("vllm.log.2.gz"), rotation_of("vllm.log")
        ('vllm.log', 'vllm.log')
    """
    match = _ROTATED.match(name)
    return match["stem"] if match else name


def _in_rotation_order(inputs: list[Input]) -> list[Input]:
    """Put members of one rotated set oldest first; keep the order in which the sets were met."""
    order: dict[str, int] = {}

    def key(item: tuple[int, Input]) -> tuple[int, int, int]:
        position, entry = item
        match = _ROTATED.match(entry.name)
        if not match:
            return (order.setdefault(entry.name, position), 0, position)
        number = match["number"]
        # .3 is older than .1, but -20260102 is newer than -20260101; the bare name is the newest.
        age = 0 if number is None else -int(number) if len(number) < 6 else int(number) - 10**12
        return (order.setdefault(match["stem"], position), age, position)

    return [entry for _, entry in sorted(enumerate(inputs), key=key)]
