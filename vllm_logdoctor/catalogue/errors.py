"""Problems of pack files, each with its place and what to write instead."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from vllm_logdoctor.errors import LogdoctorError


class Problem(Struct, frozen=True, order=True):
    """One problem in a pack file or rule page: where it is, what is wrong and what to write instead."""

    file: Path
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.key}: {self.message}"


class PackError(LogdoctorError):
    """A pack can't be used; `problems` says why, one line each."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.lines = tuple(map(str, problems))
        self.problems = tuple(problems)
