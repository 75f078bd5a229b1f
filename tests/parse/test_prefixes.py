"""What stands before the header: process prefixes, wrappers, both, torn ones."""

from __future__ import annotations

import pytest

from tests.parse.framing import record
from tests.tables import for_each
from vllm_logdoctor.parse import RecordParser
from vllm_logdoctor.scan import WantedLine

HEADER = "INFO 03-04 10:11:12 [core.py:93] text"


@for_each(
    ("prefix", "name", "role", "pid", "rank"),
    [
        ("", "", "", None, ""),
        ("(APIServer pid=1) ", "APIServer", "api-server", 1, ""),
        ("(ApiServer_3 pid=41) ", "ApiServer_3", "api-server", 41, ""),
        ("(EngineCore_DP0 pid=52) ", "EngineCore_DP0", "engine-core", 52, "DP0"),
        ("(EngineCore_0 pid=52) ", "EngineCore_0", "engine-core", 52, ""),
        ("(EngineCore pid=52) ", "EngineCore", "engine-core", 52, ""),
        ("(Worker pid=63) ", "Worker", "worker", 63, ""),
        ("(Worker_TP1_EP1 pid=63) ", "Worker_TP1_EP1", "worker", 63, "TP1_EP1"),
        ("(Worker_DP1_PP0_TP2 pid=63) ", "Worker_DP1_PP0_TP2", "worker", 63, "DP1_PP0_TP2"),
        ("(VllmWorkerProcess pid=63) ", "VllmWorkerProcess", "worker", 63, ""),
        ("(VllmWorker rank=3 pid=63) ", "VllmWorker", "worker", 63, "3"),
        ("(VllmWorker TP1 pid=63) ", "VllmWorker TP1", "worker", 63, "TP1"),
        ("(DPCoordinator pid=21) ", "DPCoordinator", "coordinator", 21, ""),
        ("(DPSupervisor pid=22) ", "DPSupervisor", "coordinator", 22, ""),
        ("(pid=74) ", "", "", 74, ""),
    ],
)
def test_process_prefixes(prefix: str, name: str, role: str, pid: int | None, rank: str) -> None:
    found = record(prefix + HEADER)
    process = found.process
    assert (process.name, process.role, process.pid, process.rank) == (name, role, pid, rank)
    assert found.message == "text"


def test_ray_actors_name_their_host() -> None:
    process = record("(RayWorkerWrapper pid=690, ip=192.0.2.7) " + HEADER).process
    assert (process.role, process.pid, process.host) == ("worker", 690, "192.0.2.7")


def test_the_innermost_process_wrote_the_line() -> None:
    assert record("(HttpServer pid=5) (EngineCore_DP0 pid=9) " + HEADER).process.pid == 9


def test_a_doubled_prefix_keeps_header_and_message() -> None:
    found = record("(EngineCore pid=9) (APIServer pid=5) " + HEADER)
    assert (found.level, found.message) == ("INFO", "text")


def test_a_torn_prefix_keeps_header_and_message() -> None:
    found = record("(Vllm" + HEADER)
    assert (found.level, found.call_site, found.message) == ("INFO", ("core.py", 93), "text")


@for_each(
    "wrapper",
    [
        "vllm-llm-1  | ",
        "2026-03-04T08:11:12.669025667Z ",
        "2026-03-04T08:11:12.669025667Z stderr F ",
        "[2026-03-04T08:11:12Z] ",
        "  | 2026-03-04T08:11:12.899Z | ",
        "> [2026-03-04T08:11:12Z] ",
        ">   | [2026-03-04T08:11:12Z] ",
        "2026-03-04 08:11:12,684 - INFO - vLLM: ",
        "Mar  4 08:11:12 node7 vllm[8707]: ",
        "мар  4 08:11:12 node7 python3[8707]: ",
        "12: ",
        "383.1s 39 ",
        "[pod/vllm-0/server] ",
        "[1,0]<stdout>:",
    ],
)
@for_each("process", ["", "(EngineCore_DP0 pid=52) "])
def test_wrappers_are_taken_off(wrapper: str, process: str) -> None:
    found = record(wrapper + process + HEADER)
    assert (found.level, found.call_site, found.message) == ("INFO", ("core.py", 93), "text")
    assert found.process.pid == (52 if process else None)


@pytest.mark.parametrize(
    ("wrapper", "year_known"),
    [
        ("2026-03-04T08:11:12Z ", True),
        ("Mar  4 08:11:12 node7 vllm[8707]: ", False),
        ("[2026-03-04 08:11:12] ", True),
        ("> [2026-03-04T08:11:12Z] ", True),
    ],
)
def test_the_wrappers_clock_is_beside_the_log_s_own(wrapper: str, year_known: bool) -> None:
    found = record(wrapper + HEADER)
    assert found.time is not None
    assert found.outer_time is not None
    assert found.outer_time % 86400 == 8 * 3600 + 11 * 60 + 12
    assert found.time % 86400 == 10 * 3600 + 11 * 60 + 12
    assert found.year_known == year_known


@pytest.mark.parametrize(
    ("wrapper", "host"),
    [
        ("web-1  | ", "web-1"),
        ("Mar  4 08:11:12 node7 vllm[8707]: ", "node7"),
        ("[pod/vllm-0/server] ", "vllm-0/server"),
    ],
)
def test_wrappers_name_the_host(wrapper: str, host: str) -> None:
    assert record(wrapper + HEADER).process.host == host


def test_srun_and_torch_name_the_rank() -> None:
    assert record("12: " + HEADER).process.rank == "12"
    assert record("[rank3]: RuntimeError: text").process.rank == "3"
    assert record("[rank3]: RuntimeError: text").message == "RuntimeError: text"


def test_uvicorn_prints_no_time() -> None:
    found = record('(APIServer pid=5) INFO:     127.0.0.1:40000 - "POST /v1/completions HTTP/1.1" 200 OK')
    assert found.time is None
    assert found.process.role == "api-server"


def test_numbers_of_lines_are_no_ranks() -> None:
    parser = RecordParser()
    listing = [WantedLine(0, 4 + n, f"{n}: {HEADER}".encode()) for n in range(20)]
    ranks = [one.process.rank for line in listing for one in parser.parse(line)]
    assert set(ranks[8:]) == {""}


def test_ranks_that_take_turns_are_ranks() -> None:
    parser = RecordParser()
    lines = [
        WantedLine(0, 1 + n, f"{rank}: {HEADER}".encode())
        for n, rank in enumerate((0, 1, 0, 3, 2, 1, 0, 2, 3, 0))
    ]
    assert [one.process.rank for line in lines for one in parser.parse(line)] == list("0103210230")


@pytest.mark.parametrize("before", ["1561:", "1562-", "    "])
def test_grep_and_indented_blocks_stand_before_a_process(before: str) -> None:
    found = record(f"{before}(Worker_TP2 pid=63) {HEADER}")
    assert (found.process.name, found.process.rank, found.message) == ("Worker_TP2", "TP2", "text")
    bare = record(f"{before}(Worker_TP2 pid=63) ValueError: text")
    assert (bare.process.pid, bare.message) == (63, "ValueError: text")


def test_indented_code_keeps_its_indentation() -> None:
    assert record("    (output, ) = self.collective_rpc(").message == "    (output, ) = self.collective_rpc("
