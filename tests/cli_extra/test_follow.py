"""follow says each thing once, in the order in which the log tells it, and ends with the report."""

from __future__ import annotations

import gzip
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from vllm_logdoctor.cli.follow import EndRequest, Feed, follow
from vllm_logdoctor.cli.follow_view import Reported, new_lines, screen
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.pipeline import Analyser, Options

START = """\
INFO 03-02 10:00:00 [__init__.py:216] Automatically detected platform cuda.
(APIServer pid=11) INFO 03-02 10:00:05 [api_server.py:1839] vLLM API server version 0.11.2
(APIServer pid=11) INFO 03-02 10:00:05 [utils.py:233] non-default args: {'model': 'org/tiny'}
"""
READY = "(APIServer pid=11) INFO:     Application startup complete.\n"


def sample(second: int, generation: float, running: int) -> str:
    return (
        f"(APIServer pid=11) INFO 03-02 10:01:{second:02} [loggers.py:127] Engine 000: "
        f"Avg prompt throughput: 10.0 tokens/s, Avg generation throughput: {generation} tokens/s, "
        f"Running: {running} reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%, Prefix cache hit rate: 0.0%\n"
    )


class Followed:
    """A log fed piece by piece."""

    def __init__(self) -> None:
        self.feed = Feed(Analyser(Options()), "vllm.log")
        self.told = Reported()
        self.lines = 0

    def say(self, text: str) -> list[str]:
        self.feed.take(0, self.lines + 1, text.encode())
        self.lines += text.count("\n")
        return new_lines(self.feed.analysis(), self.told)


def test_each_thing_is_said_once_as_it_appears() -> None:
    followed = Followed()
    assert followed.say(START) == ["run 1: vLLM 0.11.2, org/tiny"]
    assert any(line.startswith("run 1: ready") for line in followed.say(READY))
    rates = followed.say(sample(10, 50.0, 2))
    assert any("50 generation tokens/s, 2 running, 0 waiting, KV cache 1 %" in line for line in rates)
    assert followed.say("noise of another program\n") == []
    assert len([line for line in followed.say(sample(20, 51.0, 2)) if "ready" in line]) == 0


def test_a_start_that_goes_on_is_no_failure() -> None:
    followed = Followed()
    for part in START.splitlines(keepends=True):
        assert not [line for line in followed.say(part) if line.startswith("finding")]
    assert followed.feed.analysis().runs[-1].run.outcome == "running"


def test_a_second_run_in_the_log_is_announced() -> None:
    followed = Followed()
    followed.say(START + READY + "(APIServer pid=11) INFO:     Finished server process [11]\n")
    again = START.replace("pid=11", "pid=99").replace(" 10:", " 11:")
    assert any(line.startswith("run 2: vLLM 0.11.2") for line in followed.say(again))


def test_the_screen_shows_rates_and_counts_lines() -> None:
    followed = Followed()
    followed.say(START + READY + sample(10, 50.0, 2) + sample(20, 100.0, 4))
    shown = "\n".join(screen(followed.feed.analysis(), 80))
    assert "vLLM 0.11.2, org/tiny" in shown
    assert "generation       100 tokens/s" in shown
    assert "6 lines read" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_the_screen_of_nothing_says_so() -> None:
    assert screen(Analyser(Options()).analysis(), 80)[0] == "nothing of vLLM so far"


def test_escapes_of_a_hostile_log_reach_neither_pipe_nor_screen() -> None:
    followed = Followed()
    hostile = START.replace("org/tiny", "x\\x1b]0;owned\\x07[bold]y[/bold]")
    lines = followed.say(hostile + READY)
    shown = [*lines, *screen(followed.feed.analysis(), 200)]
    assert not any(ord(character) < 32 for line in shown for character in line)
    assert any("[bold]y[/bold]" in line for line in shown)


def test_a_run_is_announced_once_its_lines_say_what_runs() -> None:
    followed = Followed()
    first, *rest = START.splitlines(keepends=True)
    assert followed.say(first) == []
    assert followed.say("".join(rest)) == ["run 1: vLLM 0.11.2, org/tiny"]


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Puts text into standard input and ends it, as a writer that is gone."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=stream))
        monkeypatch.setattr("signal.signal", lambda *_: None)

        def put(text: str) -> None:
            os.write(writing, text.encode())
            os.close(writing)

        yield put


def test_a_pipe_is_followed_to_its_end_and_the_report_comes_last(
    piped: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    piped(START + READY + sample(10, 50.0, 2))
    follow("-")
    told, _, report = capsys.readouterr().out.partition("\n\n")
    assert told.startswith("run 1: vLLM 0.11.2, org/tiny\n")
    assert "50 generation tokens/s" in told
    assert report.startswith("# NO FAILURE: no request waited in 1 statistics line\n\nvLLM 0.11.2")


def test_what_the_settings_accept_is_reported_neither_while_the_log_grows_nor_in_the_report(
    piped: Callable[[str], None],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = tmp_path / "logdoctor.toml"
    settings.write_text('[[suppress]]\nfinding = "eager-mode"\nreason = "known"\nuntil = 2999-01-01\n')
    monkeypatch.setenv("LOGDOCTOR_CONFIG", str(settings))
    piped(START.replace("'org/tiny'}", "'org/tiny', 'enforce_eager': True}") + READY)
    follow("-")
    out = capsys.readouterr().out
    assert "--enforce-eager" not in out.partition("## Effective configuration")[0]
    assert "suppressed until 2999-01-01: eager-mode (known)" in out


def test_a_pipe_of_nothing_ends_in_one_line(piped: Callable[[str], None]) -> None:
    piped("")
    with pytest.raises(LogdoctorError, match="<stdin>: empty"):
        follow("-")


@pytest.mark.parametrize("name", ["<stdin>", "vllm.log.gz"])
def test_a_packed_log_is_refused_with_what_to_do(name: str) -> None:
    feed = Feed(Analyser(Options()), name)
    with pytest.raises(LogdoctorError, match=r"packed \(gz\)") as told:
        feed.take(0, 1, gzip.compress(START.encode()))
    assert ("unpack it before the pipe" if name == "<stdin>" else f"logdoctor analyze {name}") in str(
        told.value
    )
    assert told.value.exit_code == 3


def waiting(second: int) -> str:
    return sample(second, 50.0, 1).replace("Waiting: 0", "Waiting: 9")


def test_after_a_rotation_a_line_is_cited_with_its_file() -> None:
    followed = Followed()
    followed.say(START + READY)
    followed.feed.take(1, 1, "".join(waiting(second) for second in range(10, 60, 5)).encode())
    lines = [*new_lines(followed.feed.analysis(), followed.told), *screen(followed.feed.analysis(), 200)]
    findings = [line for line in lines if "[" in line]
    assert findings
    assert all("vllm.log (after rotation 1) L" in line for line in findings)


@pytest.mark.parametrize("height", [1, 3, 8, 9, 10, 11, 40])
def test_the_screen_fits_the_height_of_the_terminal(height: int) -> None:
    followed = Followed()
    followed.say(START + READY + "".join(waiting(second) for second in range(10, 60, 5)))
    shown = screen(followed.feed.analysis(), 80, height)
    assert len(shown) <= height
    assert "lines read" in shown[-1]


def test_ctrl_c_waits_for_the_look_under_way_and_a_second_one_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handlers: dict[int, Callable[..., None]] = {}
    monkeypatch.setattr("signal.signal", lambda number, handler: handlers.update({number: handler}))
    stop = EndRequest()
    assert set(handlers) == {signal.SIGINT, signal.SIGTERM}
    handlers[signal.SIGTERM](signal.SIGTERM, None)
    assert stop.wanted
    assert os.read(stop.wake, 1) == b"\0"
    with pytest.raises(KeyboardInterrupt):
        handlers[signal.SIGINT](signal.SIGINT, None)
