"""The follow command: reads a growing log, says what is new, ends with the report."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from vllm_logdoctor.cli.baseline import Filtered
from vllm_logdoctor.cli.exit_codes import ExitCode
from vllm_logdoctor.cli.parameters import Objective
from vllm_logdoctor.errors import LogdoctorError

if TYPE_CHECKING:
    from rich.console import Console

    from vllm_logdoctor.pipeline import Analyser
    from vllm_logdoctor.report.model import Analysis
    from vllm_logdoctor.source.growing import Growing


def follow(
    log: Annotated[str, typer.Argument(metavar="LOG", help="Log that is being written, or - for a pipe.")],
    objective: Objective = None,
    every: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Time between two updates.")] = 2.0,
) -> None:
    """Watch a growing log; Ctrl-C prints the report so far."""
    from vllm_logdoctor.cli.options import accepted_left_out, options_of, settings_here, warn
    from vllm_logdoctor.cli.settings import with_known_findings
    from vllm_logdoctor.pipeline import Analyser, nothing_of_vllm
    from vllm_logdoctor.report.escape import visible
    from vllm_logdoctor.source.growing import growing

    settings = with_known_findings(settings_here())
    analyser = Analyser(options_of(settings, objective))
    name = "<stdin>" if log == "-" else log
    source = growing(log)
    if not source.there:
        sys.stderr.write(f"logdoctor: {visible(name)} is not there yet: waiting for it, Ctrl-C ends that\n")
    feed = Feed(analyser, name, lambda analysis: accepted_left_out(analysis, settings))
    _watch(source, feed, every, EndRequest())
    for piece in source.close():
        feed.take(piece.part, piece.first_line, piece.data)
    left = feed.whole() if source.ended else feed.so_far()
    analysis = left.analysis
    if not source.there:
        raise LogdoctorError(f"{name} did not come", ExitCode.UNREADABLE)
    if not analysis.runs:
        raise LogdoctorError(nothing_of_vllm(analysis.sources), ExitCode.NOTHING_OF_VLLM)
    warn(left.warnings)
    _print_report(analysis)


class EndRequest:
    """Ctrl-C and SIGTERM as a wish to end: the look under way is finished first; a second one ends at once.

    Attributes:
        wanted: whether one has come.
        wake: descriptor from which there is something to read as soon as one has.
    """

    def __init__(self) -> None:
        self.wanted = False
        self.wake, self._ring = os.pipe()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._come)

    def _come(self, *_: object) -> None:
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True
        os.write(self._ring, b"\0")


class Feed:
    """Hands pieces of a growing log to an analyser; each file that took the name is a file of its own.

    Args:
        analyser: what takes the chunks.
        name: how evidence names the log.
        leave_out: takes the findings away that are accepted.
    """

    def __init__(
        self, analyser: Analyser, name: str, leave_out: Callable[[Analysis], Filtered] = Filtered
    ) -> None:
        self._analyser = analyser
        self._name = name
        self._leave_out = leave_out
        self._numbers = [analyser.open(name)]

    def take(self, part: int, first_line: int, data: bytes) -> None:
        """Take the next bytes of a part.

        Raises:
            LogdoctorError: they are packed (exit code 3).
        """
        from vllm_logdoctor.source import Chunk
        from vllm_logdoctor.source.compression import compression_of

        if first_line == 1 and (kind := compression_of(data)):
            how = (
                "unpack it before the pipe" if self._name == "<stdin>" else f"logdoctor analyze {self._name}"
            )
            raise LogdoctorError(f"{self._name} is packed ({kind}) and does not grow line by line: {how}")
        while len(self._numbers) <= part:
            suffix = f" (after rotation {len(self._numbers)})"
            self._numbers.append(self._analyser.open(self._name + suffix))
        number = self._numbers[part]
        reading = self._analyser.reading(number)
        reading.bytes += len(data)
        reading.lines = first_line - 1 + data.count(b"\n") + (not data.endswith(b"\n"))
        self._analyser.feed(Chunk(number, first_line, data))

    def whole(self) -> Filtered:
        """Return what is known of a log that has ended."""
        return self._leave_out(self._analyser.analysis())

    def so_far(self) -> Filtered:
        """Return what is known so far of a log that goes on."""
        from vllm_logdoctor.cli.follow_view import still_written

        return self._leave_out(still_written(self._analyser.analysis()))

    def analysis(self) -> Analysis:
        """Return the same, without what is wrong with the suppressions."""
        return self.so_far().analysis


def _watch(source: Growing, feed: Feed, every: float, stop: EndRequest) -> None:
    if sys.stdout.isatty():
        from rich.console import Console

        console = Console(highlight=False, markup=False, emoji=False)
        # A terminal that can't move its cursor back gets lines, as a pipe does.
        if not console.is_dumb_terminal:
            _watch_on_terminal(source, feed, every, stop, console)
            return
    from vllm_logdoctor.cli.follow_view import Reported, new_lines

    reported = Reported()

    def show(analysis: Analysis) -> None:
        for line in new_lines(analysis, reported):
            print(line, flush=True)

    _look_again_and_again(source, feed, every, stop, show)


def _watch_on_terminal(source: Growing, feed: Feed, every: float, stop: EndRequest, console: Console) -> None:
    from rich.live import Live
    from rich.text import Text

    from vllm_logdoctor.cli.follow_view import screen

    with Live(console=console, auto_refresh=False, screen=False, transient=True) as live:

        def show(analysis: Analysis) -> None:
            # One line is left free: the cursor is below the last one.
            lines = screen(analysis, console.width, console.height - 1)
            live.update(Text("\n".join(lines)), refresh=True)

        _look_again_and_again(source, feed, every, stop, show)


def _look_again_and_again(
    source: Growing, feed: Feed, every: float, stop: EndRequest, show: Callable[[Analysis], None]
) -> None:
    while not stop.wanted:
        came = False
        for piece in source.read():
            feed.take(piece.part, piece.first_line, piece.data)
            came = True
            if stop.wanted:
                return
        if came:
            show(feed.analysis())
        if source.ended:
            return
        source.wait(every, stop.wake)


def _print_report(analysis: Analysis) -> None:
    if sys.stdout.isatty():
        from vllm_logdoctor.report.terminal import print_analysis

        print_analysis(analysis)
        return
    from vllm_logdoctor.report.markdown import render

    sys.stdout.write("\n" + render(analysis))
    sys.stdout.flush()
