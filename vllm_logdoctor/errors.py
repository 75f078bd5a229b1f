"""The one exception class of the project: its text says what is wrong and what to do."""

from __future__ import annotations


class LogdoctorError(Exception):
    """An input or a setting that the tool can't work with.

    Args:
        message: one line that says what is wrong and what to do about it.
        exit_code: exit status of the command line: 2 usage, 3 input can't be read, 4 nothing of vLLM in it.

    Attributes:
        lines: what to say, one line each; more than one only where several things are wrong at once.

    Example:
        >>> LogdoctorError("no such file: a.log; check the path").exit_code
        3
    """

    def __init__(self, message: str, exit_code: int = 3) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.lines: tuple[str, ...] = (message,)
