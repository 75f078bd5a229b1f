"""A long input shows how much of it is read, on a terminal alone."""

from __future__ import annotations

import io
import re
import sys

import pytest

from vllm_logdoctor.cli import analyze
from vllm_logdoctor.source import Input


class Terminal(io.StringIO):
    """A stream of errors that is a terminal."""

    def isatty(self) -> bool:
        """Say that it is one."""
        return True


def shown(
    patch: pytest.MonkeyPatch,
    sizes: list[int | None],
    read: int,
    *,
    quiet: bool = False,
    terminal: bool = True,
) -> str:
    """Return what is written while so many bytes of inputs of these sizes are read."""
    patch.setenv("TERM", "xterm")
    stream = Terminal() if terminal else io.StringIO()
    patch.setattr(sys, "stderr", stream)
    patch.setattr(analyze, "_LONG_INPUT", 50)
    inputs = [Input("-") if size is None else Input("a.log", data=bytes(size)) for size in sizes]
    with analyze._progress(inputs, quiet) as advance:
        if advance is not None:
            advance(read)
    return stream.getvalue()


@pytest.mark.parametrize(("read", "share"), [(0, "0%"), (50, "25%"), (200, "100%")])
def test_the_share_that_is_read_is_of_all_inputs_of_known_size(
    read: int, share: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert re.search(rf"(?<!\d){share}", shown(monkeypatch, [100, None, 100], read))


def test_a_short_input_a_quiet_call_and_a_file_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, [50], 1)
    assert not shown(monkeypatch, [49], 1)
    assert not shown(monkeypatch, [50], 1, quiet=True)
    assert not shown(monkeypatch, [50], 1, terminal=False)
