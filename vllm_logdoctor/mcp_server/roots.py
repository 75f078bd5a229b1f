"""The folders that a server may read, and nothing outside them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.report.escape import visible
from vllm_logdoctor.source import Input, inputs_of_paths
from vllm_logdoctor.source.inputs import looks_like_log, may_be_of_vllm

_LONGEST_PATH = 4096
MOST_FILES = 200
"""Files of one folder that are analysed together."""
_DESCRIPTORS = Path("/proc/self/fd")
"""Where an open file can be opened again by its number, on systems that have it."""
_CAN_WALK = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW") and _DESCRIPTORS.is_dir()


class Roots:
    """Resolves the paths that a client names.

    Args:
        folders: the folders that may be read; symbolic links in them are resolved once, now.

    Raises:
        LogdoctorError: one of them is no folder (exit code 2).
    """

    def __init__(self, folders: Sequence[str]) -> None:
        for name in folders:
            if not os.path.isdir(name):
                raise LogdoctorError(f"--root {name}: no such folder", 2)
        self.folders = tuple(Path(os.path.realpath(name)) for name in folders)

    def files(self, name: str) -> list[Path]:
        """Return the log with a name, or the logs of a folder, in reading order.

        What a symbolic link leads to counts, not where it is: it must be below a root as well.

        Args:
            name: a path below a root: absolute, or relative to the first root that has it.

        Raises:
            LogdoctorError: it is outside of the roots, is not there, or is no regular file.
        """
        path = self._resolved(name)
        if not path.is_dir():
            return [_regular(path, name)]
        inside = self._logs_in(path)
        if not inside:
            raise LogdoctorError(f"no log of vLLM in {visible(name)}")
        if len(inside) > MOST_FILES:
            raise LogdoctorError(
                f"{visible(name)} holds {len(inside):,} logs, more than {MOST_FILES}: name one, or a smaller folder"
            )
        return [one.path for one in inputs_of_paths(inside) if one.path is not None]

    @contextmanager
    def opened(self, files: Sequence[Path]) -> Iterator[list[Input]]:
        """Open files that `files` returned, for as long as they are read.

        A link may have been put in the place of a file or a folder since then: none is followed on the way.

        Raises:
            LogdoctorError: one is no regular file any more.
            OSError: one can't be opened.
        """
        with ExitStack() as stack:
            inputs = []
            for path in files:
                source = path
                if _CAN_WALK:
                    descriptor = self._descriptor(path)
                    stack.callback(os.close, descriptor)
                    source = _DESCRIPTORS / str(descriptor)
                inputs.append(Input(str(path), path=_regular(source, path.name)))
            yield inputs

    def _descriptor(self, path: Path) -> int:
        root = next(one for one in self.folders if one in path.parents)
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            for part in path.relative_to(root).parts[:-1]:
                inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
                os.close(folder)
                folder = inner
            return os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        finally:
            os.close(folder)

    def _logs_in(self, folder: Path) -> list[Path]:
        """Return the logs below a folder by what their links lead to; what is outside is not even opened."""
        named = sorted(path for path in folder.rglob("*") if looks_like_log(path.name))
        real = dict.fromkeys(Path(os.path.realpath(path)) for path in named)
        inside = [path for path in real if self._holds(path) and path.is_file()]
        return [path for path in inside if may_be_of_vllm(path)]

    def _resolved(self, name: str) -> Path:
        if not name or len(name) > _LONGEST_PATH or "\0" in name:
            raise LogdoctorError("path: name a log below a root", 2)
        places = [Path(name)] if os.path.isabs(name) else [root / name for root in self.folders]
        real = [Path(os.path.realpath(place)) for place in places]
        inside = [one for one in real if self._holds(one)]
        for one in inside:
            if one.exists():
                return one
        shown = ", ".join(map(str, self.folders))
        # Whether something outside is there is nobody's business.
        problem = "no such file" if inside else "outside of the roots"
        raise LogdoctorError(f"{visible(name)}: {problem}; logs below {shown} can be read")

    def _holds(self, path: Path) -> bool:
        return any(path == root or root in path.parents for root in self.folders)


def _regular(path: Path, name: str) -> Path:
    if not stat.S_ISREG(path.stat().st_mode):
        raise LogdoctorError(f"{visible(name)} is no regular file")
    return path
