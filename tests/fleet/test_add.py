"""Adding logs: each once, with its status; only what is new; a dead worker costs one log."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import deque
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fleet.conftest import STARVED
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.fleet.adding import add
from vllm_logdoctor.fleet.batches import Batch, read_batch
from vllm_logdoctor.fleet.inventory import logs_of
from vllm_logdoctor.fleet.jobs import job_of
from vllm_logdoctor.fleet.library import Fleet
from vllm_logdoctor.fleet.mapping import WorkerPool, given, outcomes, usable_cores
from vllm_logdoctor.fleet.reading import ReadOptions, read_log
from vllm_logdoctor.fleet.schema import TABLES
from vllm_logdoctor.fleet.store import Store


def statuses(fleet: Fleet) -> dict[str, str]:
    return {Path(row["path"]).name: row["status"] for row in fleet.table("logs").to_pylist()}


def test_every_log_has_a_status(fleet: Fleet) -> None:
    assert statuses(fleet) == {
        "slurm-101.out": "ok",
        "vllm.e202": "ok",
        "named.log": "ok",
        "empty.log": "empty",
        "poem.log": "not-vllm",
        "cut.log.gz": "partial",
        "gpus.csv": "other-tool",
    }


def test_the_clock_of_a_machine_that_is_not_set_gives_no_date(tmp_path: Path) -> None:
    lines = STARVED.read_text().splitlines()
    (tmp_path / "vllm.log").write_text(
        "\n".join(f"1970-01-01T00:00:{n % 60:02d}Z {line}" for n, line in enumerate(lines))
    )
    (log,) = logs_of([str(tmp_path)])
    (run,) = read_log(log, ReadOptions())["runs"]
    assert (run["started"], run["ended"], run["year_from"]) == (None, None, None)
    assert run["span_s"] > 0


@pytest.mark.parametrize(
    ("path", "job"),
    [
        ("/logs/1234567.out", "job 1234567 in /logs"),
        ("/logs/llama-1234567_3.out", "job 1234567_3 in /logs"),
        ("/logs/llama-1234567-nid001200-0.log", "job 1234567 in /logs"),
        ("/logs/job-1234567/rank0_nid001200.log", "job 1234567"),
        ("/logs/slurm_1234567/logs/vllm.log.1.gz", "slurm 1234567"),
        ("/logs/vllm.o1234567.gz", "pbs 1234567"),
        ("/logs/1234567.server.OU.zst", "pbs 1234567"),
        ("/logs/1234567/rank0_nid001200.log", "job 1234567 in /logs"),
        ("/logs/1234567.pbs01/vllm.log", "job 1234567 in /logs"),
        ("/logs/1234567/slurm-7654321.out", "slurm 7654321"),
    ],
)
def test_a_job_is_named_by_its_file_or_its_directory(path: str, job: str) -> None:
    found = job_of([path])
    assert found is not None
    assert found.key == job


@pytest.mark.parametrize(
    "path",
    [
        "/logs/20261101/vllm.log",
        "/project/123456/x/vllm.log",
        "/logs/job1/vllm.log",
        "/logs/vllm-20261101-nid000123.log",
    ],
)
def test_a_day_a_project_and_the_number_of_a_trial_are_no_job(path: str) -> None:
    assert job_of([path]) is None


def test_files_of_one_job_are_one_job(fleet: Fleet) -> None:
    jobs = {Path(row["path"]).name: row["job"] for row in fleet.table("logs").to_pylist()}
    assert jobs["slurm-101.out"] == "slurm 101"
    assert jobs["vllm.e202"] == "pbs 202"
    assert jobs["named.log"] == "slurm 303"
    assert jobs["empty.log"].startswith("log /")
    both = next(row for row in fleet.table("logs").to_pylist() if row["job"] == "pbs 202")
    assert [Path(file).name for file in both["files"]] == ["vllm.e202", "vllm.o202"]


def test_a_second_call_reads_nothing(fleet: Fleet, logs: Path) -> None:
    done = fleet.add([logs], jobs=1)
    assert (done.read, done.known) == (0, 7)


def test_only_a_log_that_has_grown_is_read_again_and_counts_once(fleet: Fleet, logs: Path) -> None:
    with (logs / "slurm-101.out").open("a") as file:
        file.write("INFO 07-16 12:29:43 [api_server.py:1289] vLLM API server version 0.11.2\n")
    done = fleet.add([logs], jobs=1)
    assert (done.read, done.known) == (1, 6)
    assert fleet.table("logs").num_rows == 7
    runs = [row for row in fleet.table("runs").to_pylist() if row["log"] == _key(fleet, "slurm-101.out")]
    assert len({row["run"] for row in runs}) == len(runs) == 2


def test_what_was_read_twice_counts_once_in_plain_parquet_too(
    fleet: Fleet, tmp_path: Path, logs: Path
) -> None:
    before = fleet.store.parts()
    other = Store(tmp_path / "store")
    batch = Batch(before[0], str(other.path), tuple(logs_of([str(logs)])), ReadOptions(), ("", 0))
    assert sum(read_batch(batch).statuses.values()) == 7
    assert fleet.table("logs").num_rows == 7


def test_rows_hold_no_text_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    secret, prompt = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz12345678", "tell me of the green whale"
    log.write_text(
        STARVED.read_text()
        + f"INFO 07-16 12:29:43 [x.py:1] token={secret}\n"
        + f"INFO 07-16 12:29:43 [logger.py:42] Received request cmpl-1: prompt: '{prompt}', params: None.\n"
        + f"ERROR 07-16 12:29:44 [x.py:2] no pattern knows that {prompt} is not here\n"
    )
    fleet = Fleet(tmp_path / "store")
    fleet.add([log], jobs=1)
    for table in set(TABLES) - {"documents"}:
        text = str(fleet.table(table).to_pylist())
        assert "whale" not in text, table
        assert secret not in text, table
    assert secret not in str(fleet.table("documents").to_pylist())
    assert fleet.table("runs")["secrets"].to_pylist() == [1]


def test_a_pool_an_executor_and_one_process_give_the_same_rows(tmp_path: Path, logs: Path) -> None:
    with ThreadPoolExecutor(2) as threads:
        tables = [
            _rows(tmp_path / "one", [logs], jobs=1),
            _rows(tmp_path / "two", [logs], jobs=2),
            _rows(tmp_path / "threads", [logs], executor=threads),
        ]
    assert tables[0] == tables[1] == tables[2]


def test_a_dask_cluster_gives_the_same_rows(tmp_path: Path, logs: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        by_dask = _rows(tmp_path / "dask", [logs], client=client)
    assert by_dask == _rows(tmp_path / "one", [logs], jobs=1)


def test_a_log_that_kills_its_worker_is_found_by_name_in_one_retry(tmp_path: Path, logs: Path) -> None:
    killer = _Killer("slurm-101.out")
    store = Store(tmp_path / "store")
    done = add(
        store,
        logs_of([str(logs)]),
        ReadOptions(),
        WorkerPool(1, lambda _: nullcontext(killer), isolated=False),
    )
    assert done.read == 7
    assert statuses(Fleet(store.path))["slurm-101.out"] == "killed-worker"
    assert killer.deaths == 2


def test_a_log_whose_worker_was_killed_once_is_read(tmp_path: Path, logs: Path) -> None:
    store = Store(tmp_path / "store")
    killer = _Killer("slurm-101.out", times=1)
    add(
        store,
        logs_of([str(logs)]),
        ReadOptions(),
        WorkerPool(1, lambda _: nullcontext(killer), isolated=False),
    )
    assert statuses(Fleet(store.path))["slurm-101.out"] == "ok"


def test_workers_that_never_begin_end_the_call_with_their_error(tmp_path: Path, logs: Path) -> None:
    store = Store(tmp_path / "store")
    never = _Killer("", times=99)
    with pytest.raises(LogdoctorError, match="workers end before they read anything"):
        add(
            store,
            logs_of([str(logs)]),
            ReadOptions(),
            WorkerPool(1, lambda _: nullcontext(never), isolated=False),
        )


def test_a_log_over_its_memory_limit_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def takes_too_much(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("vllm_logdoctor.fleet.reading.analyse", takes_too_much)
    fleet = Fleet(tmp_path / "store")
    with ThreadPoolExecutor(1) as threads:
        fleet.add([STARVED], executor=threads)
    assert set(statuses(fleet).values()) == {"too-large"}


@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded on Linux only")
@pytest.mark.parametrize(
    ("code", "status"),
    [("bytearray(1 << 30)", 7), ("import time; time.sleep(60)", 1)],
    ids=["memory", "time"],
)
def test_limits_end_what_goes_beyond_them(code: str, status: int) -> None:
    script = f"""
from vllm_logdoctor.fleet.limits import limited
try:
    with limited(1.0, 1 << 28):
        {code}
except MemoryError:
    raise SystemExit(7)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == status


def test_the_time_limit_leaves_a_partial_log(tmp_path: Path) -> None:
    log = tmp_path / "long.log"
    log.write_text(STARVED.read_text() + "INFO 07-16 12:29:44 [api_server.py:1] hello\n" * 60_000)
    fleet = Fleet(tmp_path / "store")
    with ThreadPoolExecutor(1) as threads:
        fleet.add([log], executor=threads, time_limit=0.01)
    (row,) = fleet.table("logs").to_pylist()
    assert (row["status"], row["note"]) == ("partial", "time limit of 0.01 s")


def test_a_store_without_permission_is_a_clear_word(tmp_path: Path, logs: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LogdoctorError, match="no store of logdoctor fleet"):
        Fleet(tmp_path / "file").add([logs], jobs=1)


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "store")
    with pytest.raises(LogdoctorError, match="no such file"):
        fleet.add([tmp_path / "nothing.log"], jobs=1)
    fleet.add([], listed=[str(tmp_path / "gone.log")], jobs=1)
    assert statuses(fleet) == {"gone.log": "unreadable"}


def test_a_rotated_set_is_one_log(tmp_path: Path) -> None:
    for name in ("vllm.log.1", "vllm.log"):
        shutil.copy(STARVED, tmp_path / name)
    assert [len(log.files) for log in logs_of([str(tmp_path / "vllm.log*")])] == [2]


class _Killer(Executor):
    """Reads batches as a pool does whose processes die on one log; with no log named they die before they begin."""

    def __init__(self, name: str, times: int = 2) -> None:
        self.name, self.times, self.deaths = name, times, 0

    def submit(self, fn: Any, /, *args: Any, **_: Any) -> Future[Any]:
        (batch,) = args
        future: Future[Any] = Future()
        victim = next((log for log in batch.logs if log.files[0].endswith(self.name)), None)
        if victim is not None and self.deaths < self.times:
            self.deaths += 1
            if self.name:
                Store(batch.store).running(batch.id).write_text(f'{{"log": "{victim.key}", "since": 4e9}}')
            future.set_exception(BrokenProcessPool("died"))
        else:
            future.set_result(read_batch(batch))
        return future


def _key(fleet: Fleet, name: str) -> str:
    return str(next(row["log"] for row in fleet.table("logs").to_pylist() if row["path"].endswith(name)))


def _rows(store: Path, paths: list[Path], **given: Any) -> dict[str, list[str]]:
    fleet = Fleet(store)
    fleet.add(paths, **given)
    left_out = {"part", "added", "seconds"}
    return {
        table: sorted(
            str({name: value for name, value in row.items() if name not in left_out})
            for row in fleet.table(table).to_pylist()
        )
        for table in TABLES
    }


class _AtOnce(Executor):
    """Runs what it gets at once, and keeps what a Dask client has beside it."""

    def __init__(self, **threads: int) -> None:
        self._client = SimpleNamespace(nthreads=lambda: threads) if threads else None

    def submit(self, fn: Any, /, *args: Any, **more: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(fn(*args, **more))
        return done


def test_a_client_of_dask_works_with_all_threads_of_its_workers() -> None:
    assert given(_AtOnce(a=2, b=3)).count == 5
    assert given(ThreadPoolExecutor(3)).count == 3
    assert given(_AtOnce()).count == usable_cores()


@pytest.mark.parametrize(
    ("isolated", "count", "opened"), [(False, 2, [2, 1]), (True, 2, [2]), (False, 1, [1])]
)
def test_a_log_that_killed_a_worker_is_read_by_a_worker_of_its_own_where_others_could_end_with_it(
    isolated: bool, count: int, opened: list[int], tmp_path: Path
) -> None:
    def batch(name: str) -> Batch:
        return Batch(name, str(tmp_path / "store"), (), ReadOptions(), ("", 0), alone=name == "a")

    asked: list[int] = []

    def open_executor(workers: int) -> nullcontext[Executor]:
        asked.append(workers)
        return nullcontext(_AtOnce())

    waiting = deque(map(batch, "ab"))
    read = [one.id for one, _ in outcomes(waiting, WorkerPool(count, open_executor, isolated))]
    assert asked == opened
    assert set(read) == {"a", "b"}
    assert read[-1] == "a" or opened == [count]


def test_again_reads_what_another_version_had_read_and_nothing_else(
    tmp_path: Path, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, found, reading = Store(tmp_path / "store"), list(logs_of([str(logs)])), ReadOptions()
    workers = WorkerPool(1, lambda _: nullcontext(_AtOnce()), isolated=True)
    assert add(store, found, reading, workers).read == 7
    assert add(store, found, reading, workers, again=True).known == 7
    monkeypatch.setattr("vllm_logdoctor.fleet.adding.engine_of", lambda _: "the next version")
    assert add(store, found, reading, workers).known == 7
    assert add(store, found, reading, workers, again=True).read == 7
