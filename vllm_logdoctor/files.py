"""Files that are written whole or not at all, and read only where reading ends."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, data: bytes, mode: int | None = None) -> None:
    """Write a temporary file beside a path and rename it; a device or pipe is written directly.

    Args:
        path: the file.
        data: what it will hold.
        mode: its rights; None for those of the file that is there, or the usual ones.

    Raises:
        OSError: no right, no space, no such directory.
    """
    there = path.stat().st_mode if path.exists() else None
    if there is not None and not stat.S_ISREG(there):
        path.write_bytes(data)
        return
    part = path.parent / f".logdoctor-{os.urandom(8).hex()}"
    try:
        with open(part, "xb", opener=_for_the_owner_alone) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        usual = 0o666 & ~umask() if there is None else stat.S_IMODE(there)
        os.chmod(part, usual if mode is None else mode)
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise


def _for_the_owner_alone(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def umask() -> int:
    """Return the rights that new files do not get."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def kept_bytes(path: Path) -> bytes:
    """Return what an earlier start kept in a file.

    Raises:
        OSError: it can't be read, or is no regular file: nobody writes into a pipe, and a device has no end.
    """
    if not path.is_file():
        raise FileNotFoundError(path)
    return path.read_bytes()


def keep_bytes(path: Path, data: bytes) -> bool:
    """Keep bytes for later starts, readable by all; return False where that can't be done."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file():
            path.unlink(missing_ok=True)
        write_whole(path, data, 0o644)
    except OSError:
        return False
    return True
