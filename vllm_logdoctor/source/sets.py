"""Which inputs belong together: a rotated set is one stream, standard output and error or one file per rank are one run set."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from vllm_logdoctor.source.inputs import Input, rotation_of

# server.out + server.err     vllm_stdout.log + vllm_stderr.log     job.o123 + job.e123     123.pbs.OU + 123.pbs.ER
_OUTPUT = re.compile(r"[._-](?:stdout|stderr|out|err|OU|ER)(?=$|[._-])")
_PBS_OUTPUT = re.compile(r"\.[oe](?=\d+(?:\.\d+)?$)")
# rank0.log, node-1.log, worker_2.log
_RANK = re.compile(r"(?P<word>rank|node|worker|proc)[-_.]?\d+")
# (APIServer pid=11) INFO 03-02 10:00:05 [api_server.py:1839] vLLM API server version 0.11.2
_SERVER = re.compile(rb"API server version |Application startup complete|Uvicorn running on ")
_HEAD_BYTES = 1 << 18


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
        together.setdefault(family_of(stem), []).append(Stream(tuple(members), rank[0] if rank else ""))
    return [InputSet(tuple(members)) for members in together.values()]


def servers_apart(sets: Iterable[InputSet]) -> Iterator[InputSet]:
    """Yield sets in which at most one stream starts a server: logs of nodes that each run one are no ranks of one run."""
    for one in sets:
        ranked = len(one.streams) > 1 and all(stream.label for stream in one.streams)
        if ranked and sum(map(_starts_server, one.streams)) > 1:
            yield from (InputSet((Stream(stream.inputs),)) for stream in one.streams)
        else:
            yield one


def _starts_server(stream: Stream) -> bool:
    try:
        with stream.inputs[0].open() as file:
            return _SERVER.search(file.read(_HEAD_BYTES)) is not None
    except Exception:
        # What can't be read is named where it is analysed.
        return False


def _base(name: str) -> str:
    return name.rsplit("/", 1)[-1]


def family_of(name: str) -> str:
    """Return the name that all files of one run set share.

    Example:
        >>> family_of("a/run.out"), family_of("a/run.err.1"), family_of("a/job_rank3.log")
        ('a/run', 'a/run', 'a/job_rank#.log')
    """
    stem = rotation_of(name)
    folder, base = stem[: len(stem) - len(_base(stem))], _base(stem)
    base = _PBS_OUTPUT.sub(".", base)
    base = _OUTPUT.sub("", base)
    return folder + _RANK.sub(r"\g<word>#", base)
