"""Questions to the batch system's own commands, bounded, and answered with "" where there is no answer."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence

Query = Callable[[Sequence[str]], str]
"""A command to its standard output; "" where the command is not there, fails or takes too long."""

_SECONDS = 5.0
_LONGEST_ANSWER = 1 << 20


def ask(command: Sequence[str]) -> str:
    """Run a command of the batch system and return what it printed.

    Args:
        command: program and arguments; no shell sees them.

    Returns:
        Its standard output, at most 1 MiB; "" where it is missing, fails, or takes more than 5 seconds.

    Example:
        >>> ask(["no-such-program-here"])
        ''
    """
    try:
        done = subprocess.run(
            list(command), stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout[:_LONGEST_ANSWER].decode("utf-8", "replace")
