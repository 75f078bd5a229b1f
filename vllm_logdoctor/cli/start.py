"""Where the command line starts: plain calls are read here, all else by typer; errors become exit codes.

Importing typer and building its parameters takes longer than the diagnosis of a small log. The calls that
hooks and people make most, `logdoctor analyze LOG --format json` and `logdoctor --version`, are
plain enough to be read without it. Whatever is not plain (help, an unknown option, a wrong value) goes to
typer, which answers as it always does.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from typing import TYPE_CHECKING

from vllm_logdoctor.cli.exit_codes import ExitCode
from vllm_logdoctor.errors import LogdoctorError

if TYPE_CHECKING:
    from vllm_logdoctor.cli.analyze import AnalyzeArguments


def plain_call(arguments: Sequence[str]) -> AnalyzeArguments | None:
    """Read the arguments behind `logdoctor` as a plain call of analyze, or return None where typer has to.

    Example:
        >>> plain_call(["analyze", "vllm.log", "--format", "json"]).format
        'json'
        >>> plain_call(["analyze", "--help"]) is None
        True
    """
    if not arguments or arguments[0] != "analyze":
        return None
    from vllm_logdoctor.cli.analyze import AnalyzeArguments
    from vllm_logdoctor.cli.analyze_options import OPTIONS, SWITCHES, WITH_VALUE

    call = AnalyzeArguments()
    waiting = iter(arguments[1:])
    for argument in waiting:
        if argument in SWITCHES:
            setattr(call, SWITCHES[argument], True)
        elif argument in WITH_VALUE:
            value = next(waiting, None)
            if (
                value is None
                or (value.startswith("-") and value != "-")
                or not _take(call, WITH_VALUE[argument], value, OPTIONS[WITH_VALUE[argument]].many)
            ):
                return None
        elif argument.startswith("-") and argument != "-":
            return None
        else:
            call.paths.append(argument)
    return call if call.paths or call.job else None


def _take(call: AnalyzeArguments, name: str, value: str, many: bool) -> bool:
    if many:
        getattr(call, name).append(value)
    elif name == "jobs":
        if not (value.isascii() and value.isdigit() and int(value) >= 1):
            return False
        call.jobs = int(value)
    else:
        setattr(call, name, value)
    return True


def _is_empty(argument: str) -> bool:
    return not argument or (argument.startswith("--") and argument.endswith("="))


def _run(arguments: Sequence[str]) -> int:
    if list(arguments) == ["--version"]:
        from importlib.metadata import version

        sys.stdout.write(f"logdoctor {version('vllm-logdoctor')}\n")
        return ExitCode.OK
    # A report at the end of a job is no reason for an exit status: `hook run` says in a line what it can't do.
    if arguments[:1] != ["hook"] and any(map(_is_empty, arguments)):
        raise LogdoctorError(
            "an argument is empty: name a file or a value; is a variable of the shell not set?", 2
        )
    call = plain_call(arguments)
    if call is None:
        from vllm_logdoctor.cli.app import app

        app()
        return ExitCode.OK
    from vllm_logdoctor.cli.analyze import run_analyze

    return run_analyze(call)


class _ClosedOutput:
    """Standard output of a process that was started without one: to write there is an error, all else is not."""

    encoding = "utf-8"

    @property
    def buffer(self) -> _ClosedOutput:
        return self

    def write(self, _: object) -> int:
        raise LogdoctorError("standard output is closed: name a file with -o")

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False


def _open_standard_streams() -> None:
    """Put the null device in place of closed standard streams: the next file opened would take their descriptors."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = _ClosedOutput()


def _write_as_utf8() -> None:
    """Let commands that write text write what reports are written in, whatever a system's own code page can hold."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.encoding.lower() not in ("utf-8", "utf8"):
            stream.reconfigure(encoding="utf-8", errors="replace")


def _discard_output() -> None:
    """Send what is left for standard output nowhere: the interpreter would fail on it again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _print_error(*lines: str) -> None:
    """Print lines on standard error; what they name, a path or a value, may hold control characters."""
    from vllm_logdoctor.report.escape import visible

    with suppress(OSError):
        sys.stderr.write("logdoctor: " + "\n".join(map(visible, lines)) + "\n")
        sys.stderr.flush()


def main() -> None:
    """Run the command line; a bad input gets one line and a documented exit code, never a traceback."""
    # What is imported at the start stays until the end: looking through it for garbage is time lost.
    gc.set_threshold(50_000, 20, 50)
    _open_standard_streams()
    _write_as_utf8()
    try:
        sys.exit(_run(sys.argv[1:]))
    except LogdoctorError as error:
        _print_error(*error.lines)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        _discard_output()
        sys.exit(ExitCode.OK)
    except KeyboardInterrupt:
        _print_error("interrupted")
        sys.exit(ExitCode.INTERRUPTED)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            _discard_output()
            _print_error(f"can't write: {error.strerror}")
            sys.exit(ExitCode.UNREADABLE)
        if isinstance(error, OSError) and error.filename:
            _print_error(f"can't use {error.filename}: {error.strerror}")
            sys.exit(ExitCode.UNREADABLE)
        if isinstance(error, FileNotFoundError) and not error.filename:
            # Of all calls, only the one for the working directory names no file.
            _print_error("the working directory is gone: change to one that exists")
            sys.exit(ExitCode.UNREADABLE)
        if os.environ.get("LOGDOCTOR_TRACEBACK"):
            raise
        reason = f"internal error ({type(error).__name__}: {error})"
        _print_error(f"{reason}; please report it; LOGDOCTOR_TRACEBACK=1 shows where")
        sys.exit(ExitCode.INTERNAL)
    finally:
        # The end of the process gives all memory back: the interpreter need not look for garbage before.
        # DuckDB calls what it finds then a leak, on standard error.
        if "duckdb" not in sys.modules:
            gc.freeze()
