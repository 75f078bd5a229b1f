"""The part of the JSON document on what files beside the log measured of a run."""

from __future__ import annotations

from typing import Annotated, Any

from vllm_logdoctor.report.document.part import Part, means, plain
from vllm_logdoctor.run.observed import GROUPS, Group, Measured, Observed


class MeasuredOut(Part):
    """One measured value with the file that holds it."""

    name: str
    value: Any
    unit: str | None
    subject: str | None
    file: str
    line: int | None
    where: Annotated[str | None, means("place in a file without lines")]
    how: str
    joined: Annotated[bool, means("whether something in the file says that it is of this run")]

    @classmethod
    def of_measured(cls, one: Measured) -> MeasuredOut:
        """Return a value."""
        return cls.of(one, value=plain(one.value))


class ObservedOut(Part):
    """What files beside the log measured of a run, by group; empty without such files."""

    client: Annotated[list[MeasuredOut], means("what the client saw")]
    latency: Annotated[list[MeasuredOut], means("seconds; quantiles are the bounds of a bucket")]
    scheduler: list[MeasuredOut]
    gpus: list[MeasuredOut]
    links: list[MeasuredOut]
    kernels: Annotated[list[MeasuredOut], means("time by class of kernels, busy share, launches")]
    host: list[MeasuredOut]
    fate: Annotated[list[MeasuredOut], means("how a process, a container or a job ended")]

    @classmethod
    def of_observed(cls, observed: Observed) -> ObservedOut:
        """Return all groups."""
        return cls(**{group: _group(observed, group) for group in GROUPS})


def _group(observed: Observed, group: Group) -> list[MeasuredOut]:
    return [MeasuredOut.of_measured(one) for one in observed.of(group, joined=False)]
