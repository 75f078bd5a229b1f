"""Which inputs belong together: a rotated set is one stream, standard output and error or one file per rank are one run set."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from vllm_logdoctor.source.inputs import Input, rotation_of

# server.out + server.err     vllm_stdout.log + vllm_stderr.log     job.o123 + job.e123     123.pbs.OU + 123.pbs.ER
_OUTPUT = re.compile(r"[._-](?:stdout|stderr|out|err|OU|ER)(?=$|[._-])")
_PBS_OUTPUT = re.compile(r"\.[oe](?=\d+(?:\.\d+)?$)")
# rank0.log, node-1.log, worker_2.log
_RANK = re.compile(r"(?P<word>rank|node|worker|proc)[-_.]?\d+")


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
