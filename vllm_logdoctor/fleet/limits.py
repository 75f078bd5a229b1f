"""Limits of a worker process: time and memory of one log, and no life without the driver."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_POLL_SECONDS = 2.0


def end_with(driver: int) -> None:
    """End this process when the driver's process ends, however it ended.

    On Windows a worker ends with the driver's pipe: there is no signal 0, and `os.kill` would end the driver.
    """
    if sys.platform == "win32":
        return

    def watch() -> None:
        with suppress(AttributeError, OSError):
            import select

            poll = select.poll()
            poll.register(os.pidfd_open(driver), select.POLLIN)
            poll.poll()
            os._exit(1)
        while _lives(driver):
            time.sleep(_POLL_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def limited(seconds: float, memory: int) -> Iterator[None]:
    """Bound what the code inside may take: beyond the memory it gets a MemoryError, beyond the time the process ends.

    The end comes from a thread without the interpreter: an expression that runs for ever holds the lock of all others.
    """
    with open(os.devnull, "w") as nowhere, _bounded_memory(memory):
        faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()


@contextmanager
def _bounded_memory(memory: int) -> Iterator[None]:
    if sys.platform != "linux":
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = _address_space() + memory
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _address_space() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE")


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
