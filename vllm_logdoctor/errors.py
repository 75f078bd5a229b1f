"""The one exception class of the project: its text says what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterable


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


def unknown_choice(what: str, value: str, choices: Iterable[str]) -> LogdoctorError:
    """Return the error for a value that is none of a list, with the nearest one.

    Example:
        >>> print(unknown_choice("format", "jsn", ("json", "text")))
        unknown format 'jsn' (did you mean json?); choose one of json, text
    """
    import difflib

    known = list(choices)
    near = difflib.get_close_matches(value.lower(), known, n=1, cutoff=0.6)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return LogdoctorError(f"unknown {what} {value!r}{hint}; choose one of {', '.join(known)}", 2)
