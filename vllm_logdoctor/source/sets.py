"""Which inputs belong together: a rotated set is one stream, standard output and error or one file per rank are one run set."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from vllm_logdoctor.source.inputs import Input, rotation_of

# server.out + server.err     vllm_stdout.log + vllm_stderr.log     job.o123 + job.e123     123.pbs.OU + 123.pbs.ER
_OUTPUT = re.compile(r"[._-](?:stdout|stderr|out|err|OU|ER)(?=$|[._-])")
_PBS_OUTPUT = re.compile(r"\.[oe](?=\d+(?:\.\d+)?$)")
# rank0.log, node-1.log, worker_2.log
_RANK = re.compile(r"(?P<word>rank|node|worker|proc)[-_.]?\d+")
# (APIServer pid=11) INFO 03-02 10:00:05 [api_server.py:1839] vLLM API server version 0.11.2
_SERVER = re.compile(rb"API server version |Application startup complete|Uvicorn running on ")
_NUMBER = re.compile(r"\d+")
_HEAD_BYTES = 1 << 18
_LONGEST_WORDS = 4096
"""Bytes of a file that may hold nothing but what a batch system wrote."""


class Stream(Struct, frozen=True):
    """One continuous log: a file, or a rotated set oldest first; `label` names its rank in a set of several."""

    inputs: tuple[Input, ...]
    label: str = ""


class InputSet(Struct, frozen=True):
    """Streams of one run set; several are merged by time."""

    streams: tuple[Stream, ...]


def sets_of(inputs: Sequence[Input]) -> list[InputSet]:
    """Group inputs by what their names say; the order of first appearance is kept.

    Example:
        >>> named = [Input(n) for n in ("a/run.err", "a/run.out", "b.log.1", "b.log", "c_rank0.log", "c_rank1.log")]
        >>> [[[i.name for i in stream.inputs] for stream in one.streams] for one in sets_of(named)]
        [[['a/run.err'], ['a/run.out']], [['b.log.1', 'b.log']], [['c_rank0.log'], ['c_rank1.log']]]
    """
    streams: dict[str, list[Input]] = {}
    for entry in inputs:
        streams.setdefault(rotation_of(entry.name), []).append(entry)
    together: dict[str, list[Stream]] = {}
    for stem, members in streams.items():
        rank = _RANK.search(_base(stem))
        together.setdefault(set_name(stem), []).append(Stream(tuple(members), rank[0] if rank else ""))
    return [InputSet(tuple(members)) for members in together.values()]


def servers_apart(sets: Iterable[InputSet]) -> Iterator[InputSet]:
    """Yield sets in which at most one stream starts a server: logs of nodes that each run one are no ranks of one run."""
    for one in sets:
        ranked = len(one.streams) > 1 and all(stream.label for stream in one.streams)
        if ranked and sum(map(_starts_server, one.streams)) > 1:
            yield from (InputSet((Stream(stream.inputs),)) for stream in one.streams)
        else:
            yield one


def with_words_of_jobs(sets: Sequence[InputSet], says_end: Callable[[str], bool]) -> list[InputSet]:
    """Join the error output of a job that holds nothing but its end to the log of the job: the one that shares its number, or the only one.

    Args:
        sets: as `sets_of` returns them.
        says_end: whether a text says how a job ended, and nothing of a server.

    Example:
        >>> named = [Input("slurm-48.out", data=b"log"), Input("slurm-51.out", data=b"log"), Input("errors-48.err", data=b"killed")]
        >>> [[stream.inputs[0].name for stream in one.streams] for one in with_words_of_jobs(sets_of(named), "killed".__eq__)]
        [['slurm-48.out', 'errors-48.err'], ['slurm-51.out']]
    """
    words = [one for one in sets if _may_be_words(one) and says_end(_text(one.streams[0].inputs[0]))]
    if not words or len(words) == len(sets):
        return list(sets)
    logs = [one for one in sets if one not in words]
    joined: list[InputSet] = []
    for one in words:
        numbers = set(_NUMBER.findall(_base(one.streams[0].inputs[0].name)))
        same = [
            log for log in logs if numbers.intersection(_NUMBER.findall(_base(log.streams[0].inputs[0].name)))
        ]
        of_job = same if len(same) == 1 else logs
        if len(of_job) == 1:
            logs = [InputSet((*log.streams, *one.streams)) if log is of_job[0] else log for log in logs]
        else:
            joined.append(one)
    return [*logs, *joined]


def _may_be_words(one: InputSet) -> bool:
    """Return whether a set is one small file that is named as the error output of something."""
    first = one.streams[0].inputs[0]
    named = _OUTPUT.search(_base(first.name)) or _PBS_OUTPUT.search(_base(first.name))
    return len(one.streams) == 1 and named is not None and 0 < (first.size or 0) <= _LONGEST_WORDS


def _text(one: Input) -> str:
    try:
        with one.open() as file:
            return file.read(_LONGEST_WORDS).decode("utf-8", "replace")
    except Exception:
        return ""


def _starts_server(stream: Stream) -> bool:
    try:
        with stream.inputs[0].open() as file:
            return _SERVER.search(file.read(_HEAD_BYTES)) is not None
    except Exception:
        # What can't be read is named where it is analysed.
        return False


def _base(name: str) -> str:
    return name.rsplit("/", 1)[-1]


def set_name(name: str) -> str:
    """Return the name that all files of one run set share.

    Example:
        >>> set_name("a/run.out"), set_name("a/run.err.1"), set_name("a/job_rank3.log")
        ('a/run', 'a/run', 'a/job_rank#.log')
    """
    stem = rotation_of(name)
    folder, base = stem[: len(stem) - len(_base(stem))], _base(stem)
    base = _PBS_OUTPUT.sub(".", base)
    base = _OUTPUT.sub("", base)
    return folder + _RANK.sub(r"\g<word>#", base)
