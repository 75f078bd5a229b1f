"""Which files belong together by their names, and to which job's log the words of a batch system belong."""

from __future__ import annotations

import pytest

from tests.tables import for_each
from vllm_logdoctor.source import Input
from vllm_logdoctor.source.sets import InputSet, servers_apart, set_name, sets_of, with_words_of_jobs

SERVER = b"INFO 03-02 10:00:05 [api_server.py:1839] vLLM API server version 0.11.2\n"
KILLED = b"slurmstepd: error: *** JOB CANCELLED DUE TO TIME LIMIT ***\n"


def names(sets: list[InputSet]) -> list[list[str]]:
    return [[one.name for stream in found.streams for one in stream.inputs] for found in sets]


@for_each(
    ("one", "other", "together"),
    [
        ("a/run.out", "a/run.err", True),
        ("a/run_stdout.log", "a/run_stderr.log", True),
        ("a/run.out", "b/run.err", False),
        ("job.o123", "job.e123", True),
        ("job.o123", "job.e124", False),
        ("123.OU", "123.ER", True),
        ("rank0.log", "rank1.log", True),
        ("node-1.log", "node-2.log", True),
        ("run1.log", "run2.log", False),
        ("output.log", "errors.log", False),
    ],
)
def test_output_and_errors_of_one_job_and_files_of_ranks_are_of_one_run(
    one: str, other: str, together: bool
) -> None:
    assert (set_name(one) == set_name(other)) is together
    assert len(sets_of([Input(one), Input(other)])) == (1 if together else 2)


def test_a_rank_names_its_stream_and_a_rotated_file_continues_one() -> None:
    (ranks,) = sets_of([Input("rank0.log"), Input("rank1.log")])
    assert [stream.label for stream in ranks.streams] == ["rank0", "rank1"]
    (rotated,) = sets_of([Input("vllm.log.1"), Input("vllm.log")])
    assert [(len(stream.inputs), stream.label) for stream in rotated.streams] == [(2, "")]


@pytest.mark.parametrize(
    ("first", "second", "sets"),
    [(SERVER, SERVER, 2), (SERVER, b"worker\n", 1), (b"worker\n", b"worker\n", 1)],
)
def test_ranks_that_each_start_a_server_are_runs_of_their_own(first: bytes, second: bytes, sets: int) -> None:
    ranks = sets_of([Input("node1.log", data=first), Input("node2.log", data=second)])
    assert len(list(servers_apart(ranks))) == sets
    outputs = sets_of([Input("run.out", data=first), Input("run.err", data=second)])
    assert len(list(servers_apart(outputs))) == 1


@for_each(
    ("files", "joined"),
    [
        # The number of the job decides, else there is one log alone.
        ({"slurm-48.out": SERVER, "slurm-51.out": SERVER, "errors-51.err": KILLED}, [["slurm-48.out"], ["slurm-51.out", "errors-51.err"]]),
        ({"server.log": SERVER, "errors-51.err": KILLED}, [["server.log", "errors-51.err"]]),
        ({"a.log": SERVER, "b.log": SERVER, "errors-51.err": KILLED}, [["a.log"], ["b.log"], ["errors-51.err"]]),
        ({"a-51.log": SERVER, "b-51.log": SERVER, "errors-51.err": KILLED}, [["a-51.log"], ["b-51.log"], ["errors-51.err"]]),
        # Alone it is all that there is.
        ({"errors-51.err": KILLED}, [["errors-51.err"]]),
        ({"errors-51.err": KILLED, "errors-52.err": KILLED}, [["errors-51.err"], ["errors-52.err"]]),
        # Of another name, of other words, or too long to hold nothing else.
        ({"server.log": SERVER, "errors-51.log": KILLED}, [["server.log"], ["errors-51.log"]]),
        ({"server.log": SERVER, "errors-51.err": b"a warning\n"}, [["server.log"], ["errors-51.err"]]),
        ({"server.log": SERVER, "errors-51.err": KILLED * 200}, [["server.log"], ["errors-51.err"]]),
        ({"server.log": SERVER, "errors-51.err": b""}, [["server.log"], ["errors-51.err"]]),
        # Two that end one job.
        ({"server.log": SERVER, "first.err": KILLED, "second.e51": KILLED}, [["server.log", "first.err", "second.e51"]]),
    ],
)  # fmt: skip
def test_words_of_a_batch_system_belong_to_the_log_of_their_job(
    files: dict[str, bytes], joined: list[list[str]]
) -> None:
    sets = sets_of([Input(name, data=data) for name, data in files.items()])
    assert names(with_words_of_jobs(sets, lambda text: "TIME LIMIT" in text or not text)) == joined
