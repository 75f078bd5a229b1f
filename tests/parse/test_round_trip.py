"""What was printed is what is read: process, clock, level, call site and message, whatever wrappers, colours and framing are around them."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from tests.parse.framing import records
from vllm_logdoctor.parse import Record
from vllm_logdoctor.parse.clock import seconds_of

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
# What logs write in every place where a wrapper, a quote or a second header could be meant.
WORDS = ("text", "a: b", "[1, 2]", "(3)", "0.5", "x|y", "--flag", "it's", "é", "a.py", "=> 17", "5:", "{'a': 1}", "95%")  # fmt: skip
MOMENTS = st.datetimes(min_value=datetime(2023, 1, 1), max_value=datetime(2026, 12, 31))
PROCESSES = {
    "": (None, "", ""),
    "(APIServer pid=17) ": (17, "api-server", ""),
    "(EngineCore_DP1 pid=18) ": (18, "engine-core", "DP1"),
    "(Worker_TP1_EP1 pid=19) ": (19, "worker", "TP1_EP1"),
    "(VllmWorker rank=3 pid=20) ": (20, "worker", "3"),
    "(DPCoordinator pid=21) ": (21, "coordinator", ""),
    "(Spooler pid=22) ": (22, "other", ""),
}
# What is put before a line, the host that it names, and whether it prints a year.
WRAPPERS = {
    "": ("", None),
    "web-1  | ": ("web-1", None),
    "[pod/vllm-0/server] ": ("vllm-0/server", None),
    "{moment:%Y-%m-%dT%H:%M:%S}.25Z ": ("", True),
    "{moment:%Y-%m-%dT%H:%M:%S}.25Z stderr F ": ("", True),
    "[{moment:%Y-%m-%d %H:%M:%S}] ": ("", True),
    "{moment:%b %d %H:%M:%S} node7 vllm[44]: ": ("node7", False),
    "{moment:%Y-%m-%d %H:%M:%S} web_server-2  | ": ("web_server-2", True),
}


class Printed(Struct, frozen=True):
    """A line as printed, and what it says."""

    wrapper: str
    process: str
    level: str
    moment: datetime
    with_year: bool
    file: str
    number: int
    message: str

    @property
    def header(self) -> str:
        """Level, clock and call site."""
        clock = self.moment.strftime("%Y-%m-%d %H:%M:%S,%f" if self.with_year else "%m-%d %H:%M:%S")
        return f"{self.level} {clock} [{self.file}:{self.number}] "

    @property
    def line(self) -> str:
        """The whole line."""
        return f"{self.wrapper.format(moment=self.moment)}{self.process}{self.header}{self.message}"

    def check(self, found: Record) -> None:
        """Assert that a record says it."""
        host, outer_year = WRAPPERS[self.wrapper]
        pid, role, rank = PROCESSES[self.process]
        assert (found.level, found.call_site, found.message) == (self.level, (self.file, self.number), self.message)  # fmt: skip
        assert (found.process.pid, found.process.role, found.process.rank) == (pid, role, rank)
        assert found.process.host == host
        assert found.year_known is (self.with_year or outer_year is True)
        assert (found.outer_time is None) is (outer_year is None)
        printed = seconds_of(
            f"{self.moment:%Y-%m-%d %H:%M:%S}" if found.year_known else f"{self.moment:%m-%d %H:%M:%S}"
        )
        assert printed is not None
        fraction = self.moment.microsecond / 1e6 if self.with_year else 0.0
        assert found.time == pytest.approx(printed[0] + fraction, abs=1e-5)


lines = st.builds(
    Printed,
    st.sampled_from(sorted(WRAPPERS)),
    st.sampled_from(sorted(PROCESSES)),
    st.sampled_from(LEVELS),
    MOMENTS,
    st.booleans(),
    st.sampled_from(["core.py", "v1/engine/core.py", "kv_transfer/.../base.py", "<frozen>.py"]),
    st.integers(0, 99_999),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(lambda words: " ".join(["said", *words])),
)


@given(lines)
def test_a_record_says_what_was_printed(printed: Printed) -> None:
    (found,) = records(printed.line)
    printed.check(found)
    assert found.text == printed.line
    assert (found.file, found.line) == (0, 7)


@given(lines, st.sampled_from(["\x1b[{}m", "^[[{}m", "#033[{}m", "[{}m"]))
def test_colours_are_no_part_of_what_is_said(printed: Printed, colour: str) -> None:
    on, off = colour.format("1;36"), colour.format("0")
    process = f"{on}{printed.process.strip()}{off} " if printed.process else ""
    header = printed.header.replace(printed.level, f"{on}{printed.level}{off}", 1)
    (found,) = records(f"{printed.wrapper.format(moment=printed.moment)}{process}{header}{printed.message}")
    printed.check(found)


@given(lines, lines)
def test_two_records_without_a_line_end_between_them_are_two(first: Printed, second: Printed) -> None:
    glued = f"{first.line}.{second.process}{second.header}{second.message}"
    one, two = records(glued)
    assert (one.level, one.message) == (first.level, f"{first.message}.")
    assert (two.level, two.call_site, two.message) == (second.level, (second.file, second.number), second.message)  # fmt: skip
    assert two.process.pid == PROCESSES[second.process][0]


@given(lines, st.sampled_from(["log", "message", "msg"]))
def test_a_line_in_a_string_of_json_says_the_same_with_the_clock_of_its_writer(
    printed: Printed, key: str
) -> None:
    body = {key: f"{printed.process}{printed.header}{printed.message}\n", "time": f"{printed.moment:%Y-%m-%dT%H:%M:%S}Z"}  # fmt: skip
    (found,) = records(json.dumps(body, ensure_ascii=False))
    assert (found.level, found.call_site, found.message) == (printed.level, (printed.file, printed.number), printed.message)  # fmt: skip
    assert found.process.pid == PROCESSES[printed.process][0]
    assert found.outer_time is not None
    assert found.year_known
