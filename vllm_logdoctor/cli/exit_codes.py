"""Exit codes of the command line."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the exit status says."""

    OK = 0
    FINDINGS = 1
    USAGE = 2
    UNREADABLE = 3
    NOTHING_OF_VLLM = 4
    INTERNAL = 70
    INTERRUPTED = 130
