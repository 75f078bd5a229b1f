"""The folders that a server may read, and nothing outside them."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.report.escape import visible
from vllm_logdoctor.source import inputs_of_paths

_LONGEST_PATH = 4096
MOST_FILES = 200
"""Files of one folder that are analysed together."""


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

        What a symbolic link leads to counts, not where it is: the target must be below a root as well.

        Args:
            name: a path below a root: absolute, or relative to the first root that has it.

        Raises:
            LogdoctorError: it is outside of the roots, is not there, or is no regular file.
        """
        path = self._resolved(name)
        if not path.is_dir():
            return [self._regular(path, name)]
        found = [one.path for one in inputs_of_paths([path]) if one.path is not None and not one.kind]
        inside = [real for real in (Path(os.path.realpath(one)) for one in found) if self._holds(real)]
        if not inside:
            raise LogdoctorError(f"no log of vLLM in {visible(name)}")
        if len(inside) > MOST_FILES:
            raise LogdoctorError(
                f"{visible(name)} holds {len(inside):,} logs, more than {MOST_FILES}: name one, or a smaller folder"
            )
        return [self._regular(one, one.name) for one in inside]

    def file(self, name: str) -> Path:
        """Return the one file with a name.

        Raises:
            LogdoctorError: as `files`, or it is a folder.
        """
        path = self._resolved(name)
        if path.is_dir():
            raise LogdoctorError(f"{visible(name)} is a folder: name a log in it")
        return self._regular(path, name)

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

    def _regular(self, path: Path, name: str) -> Path:
        if not stat.S_ISREG(path.stat().st_mode):
            raise LogdoctorError(f"{visible(name)} is no regular file")
        return path
