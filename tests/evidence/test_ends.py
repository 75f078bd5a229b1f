"""Who ended a run: the kernel, Docker, Kubernetes and Slurm are joined by process id, card and time, on a clock of any zone."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from vllm_logdoctor.evidence.given import evidence_from
from vllm_logdoctor.pipeline import analyse
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.report.writers import render
from vllm_logdoctor.source import inputs_from

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SILENT = FIXTURES / "vllm-0.32.0-kill-apiserver.log"
"""From 11-21 00:58:31 to 00:59:35; API server 32704; the log just ends."""
BEGAN, ENDED = datetime(2026, 11, 21, 0, 58, 20), datetime(2026, 11, 21, 0, 59, 50)
ROOT = ("root", "killed-for-host-memory")


def analysed(tmp_path: Path, log: Path | bytes, **files: str) -> Analysis:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    named = [str(tmp_path / name) for name in files]
    return analyse(inputs_from(str(log) if isinstance(log, Path) else log), evidence=evidence_from(named))


def failures(analysis: Analysis) -> list[tuple[str | None, str]]:
    return [(one.role, one.id) for one in analysis.runs[-1].findings if one.kind == "failure"]


def docker(began: datetime, ended: datetime, killed: bool = True) -> str:
    state = {"Status": "exited", "OOMKilled": killed, "ExitCode": 137, "StartedAt": f"{began.isoformat()}.1Z", "FinishedAt": f"{ended.isoformat()}.2Z"}  # fmt: skip
    return json.dumps([{"State": state}], indent=1)


def kubectl(began: datetime, ended: datetime) -> str:
    form = "%a, %d %b %Y %H:%M:%S +0000"
    return (
        "Name:             server-0\nNamespace:        default\nPriority:         0\n    Last State:     Terminated\n"
        f"      Reason:       OOMKilled\n      Exit Code:    137\n      Started:      {began.strftime(form)}\n"
        f"      Finished:     {ended.strftime(form)}\nQoS Class: Burstable\n"
    )


def sacct(began: datetime, ended: datetime) -> str:
    return f"JobID|State|ExitCode|Start|End\n42|OUT_OF_MEMORY|0:125|{began.isoformat()}|{ended.isoformat()}\n"


def qstat(began: datetime, ended: datetime) -> str:
    form = "%a %b %d %H:%M:%S %Y"
    return (
        "Job Id: 42.head\n    Job_Name = serve\n    job_state = F\n    resources_used.walltime = 00:01:30\n"
        f"    stime = {began.strftime(form)}\n    mtime = {ended.strftime(form)}\n    Exit_status = 271\n"
    )


@pytest.mark.parametrize("zone", [timedelta(0), timedelta(hours=-9)])
def test_a_job_of_pbs_that_lived_as_long_is_the_run_and_its_status_is_shown(
    tmp_path: Path, zone: timedelta
) -> None:
    analysis = analysed(tmp_path, SILENT, job=qstat(BEGAN + zone, ENDED + zone))
    fate = {one.name: (one.value, one.joined) for one in analysis.runs[0].run.observed.of("fate")}
    assert analysis.beside[0].certainty == "likely"
    assert fate["Exit_status"] == (271, True)
    # A signal is no word on memory.
    assert failures(analysis) == []


@pytest.mark.parametrize("write", [docker, kubectl, sacct])
@pytest.mark.parametrize("zone", [timedelta(0), timedelta(hours=-9), timedelta(hours=5, minutes=30)])
def test_a_container_or_job_that_lived_as_long_is_the_run(tmp_path: Path, write, zone: timedelta) -> None:  # type: ignore[no-untyped-def]
    analysis = analysed(tmp_path, SILENT, end=write(BEGAN + zone, ENDED + zone))
    assert (analysis.beside[0].certainty, analysis.runs[0].run.outcome) == ("likely", "killed")
    assert failures(analysis) == [ROOT]


@pytest.mark.parametrize(
    ("began", "ended", "certainty"),
    [
        (BEGAN - timedelta(hours=2), ENDED, "not told"),
        (BEGAN, ENDED + timedelta(hours=3), "not told"),
        (BEGAN - timedelta(days=3), ENDED - timedelta(days=3), "contradicted"),
        (BEGAN + timedelta(days=3), ENDED + timedelta(days=3), "contradicted"),
    ],
)
@pytest.mark.parametrize("write", [docker, kubectl, sacct, qstat])
def test_one_of_another_time_changes_nothing(  # type: ignore[no-untyped-def]
    tmp_path: Path, write, began: datetime, ended: datetime, certainty: str
) -> None:
    analysis = analysed(tmp_path, SILENT, end=write(began, ended))
    assert (analysis.beside[0].certainty, analysis.runs[0].run.outcome) == (certainty, "running")
    assert failures(analysis) == []


def test_a_container_that_was_not_killed_for_memory_says_nothing_of_it(tmp_path: Path) -> None:
    assert failures(analysed(tmp_path, SILENT, end=docker(BEGAN, ENDED, killed=False))) == []


def kernel(clock: str, pid: int) -> str:
    return (
        f"{clock} Out of memory: Killed process {pid} (VLLM::EngineCor) total-vm:10kB, anon-rss:7529332kB\n"
    )


@pytest.mark.parametrize(
    ("clock", "certainty"),
    [
        ("[ 1843.308145]", "sure"),
        ("[Sat Nov 21 01:59:36 2026]", "sure"),
        ("Nov 21 00:59:36 host kernel:", "sure"),
        ("2026-11-21T00:59:36+0000 host kernel:", "sure"),
        ("2026-11-01T00:59:36+0000 host kernel:", "not told"),
        ("Oct 02 00:59:36 host kernel:", "not told"),
        ("kern  :warn  : 2026-11-01T04:41:44,285060+00:00", "not told"),
    ],
)
def test_a_line_of_the_kernel_counts_in_the_time_of_the_run(
    tmp_path: Path, clock: str, certainty: str
) -> None:
    analysis = analysed(tmp_path, SILENT, dmesg=kernel(clock, 32704))
    assert analysis.beside[0].certainty == certainty
    assert failures(analysis) == ([ROOT] if certainty == "sure" else [])


@pytest.mark.parametrize(
    ("form", "cited"),
    [
        ("text", "oom killed: 32704 VLLM::EngineCor [dmesg.txt L1]"),
        ("markdown", "`oom killed: 32704 VLLM::EngineCor` [dmesg.txt L1]"),
        ("html", 'class="line">dmesg.txt L1</a>'),
        ("github", "dmesg.txt,line=1,"),
        ("junit", "dmesg.txt:1: oom killed"),
        ("csv", "dmesg.txt,1,killed-for-host-memory"),
        ("sarif", "dmesg.txt"),
        ("json", "dmesg.txt"),
    ],
)
def test_a_line_of_a_file_beside_the_log_is_cited_with_the_files_name(
    tmp_path: Path, form: str, cited: str
) -> None:
    assert cited in render(analysed(tmp_path, SILENT, **{"dmesg.txt": kernel("[ 1.0]", 32704)}), form)


def test_lines_of_two_files_beside_the_log_are_two_lines(tmp_path: Path) -> None:
    files = {"a.txt": kernel("[ 1.0]", 32704), "b.txt": docker(BEGAN, ENDED).replace("\n", "")}
    page = render(analysed(tmp_path, SILENT, **files), "html")
    assert re.search(r'id="e1-1"><span>[^<]*a\.txt L1<', page)
    assert re.search(r'id="e2-1"><span>[^<]*b\.txt L1<', page)


def test_a_process_of_another_program_is_shown_and_is_no_cause(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, SILENT, dmesg=kernel("Nov 21 00:59:36 host kernel:", 999_999))
    assert (analysis.beside[0].certainty, failures(analysis)) == ("not told", [])


def test_the_victim_is_the_root_where_the_log_names_no_cause(tmp_path: Path) -> None:
    log = FIXTURES / "vllm-0.32.0-kill-worker-tp2.log"
    assert failures(analysed(tmp_path, log))[0] == ("root", "process-killed-externally")
    found = failures(analysed(tmp_path, log, dmesg=kernel("[ 1.0]", 7152)))
    assert found[:2] == [ROOT, ("cascade", "process-killed-externally")]


def test_the_cause_in_the_log_stays_the_root(tmp_path: Path) -> None:
    log = FIXTURES / "vllm-0.32.0-fail-max-model-len-exceeds-kv-cache.log"
    found = failures(analysed(tmp_path, log, dmesg=kernel("[ 1.0]", 21593)))
    assert found[0] == ("root", "kv-cache-too-small-for-max-model-len")
    assert ("contributing", "killed-for-host-memory") in found


LOG_OF_CARD = (
    b"INFO 11-21 00:58:31 [api_server.py:1289] vLLM API server version 0.9.1\n"
    b"INFO 11-21 00:58:32 [__init__.py:244] Automatically detected platform cuda.\n"
    b"INFO 11-21 00:58:40 [config.py:823] This model supports multiple tasks. Using 'models/tiny'.\n"
    b"INFO 11-21 00:59:35 [loggers.py:118] Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s, "
    b"Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.1%, Prefix cache hit rate: 0.0%\n"
)
CARDS = "Attached GPUs                             : 1\nGPU 00000000:83:00.0\n    Processes\n            Process ID                        : {}\n"


@pytest.mark.parametrize(
    ("bus", "clock", "certainty"),
    [
        ("0000:83:00", "Nov 21 00:59:30 host kernel:", "likely"),
        ("0000:b3:00", "Nov 21 00:59:30 host kernel:", "not told"),
        ("0000:83:00", "Nov 01 00:59:30 host kernel:", "not told"),
    ],
)
def test_a_fault_without_a_process_is_of_the_run_on_that_card_in_its_time(
    tmp_path: Path, bus: str, clock: str, certainty: str
) -> None:
    pid = 711
    log = LOG_OF_CARD.replace(b"INFO", b"(APIServer pid=711) INFO")
    xid = f"{clock} NVRM: Xid (PCI:{bus}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
    analysis = analysed(tmp_path, log, smi=CARDS.format(pid), dmesg=xid)
    found = {one.evidence.kind: one.certainty for one in analysis.beside}
    assert found == {"nvidia-smi-q": "sure", "dmesg": certainty}
