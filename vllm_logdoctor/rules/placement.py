"""Where a model runs: on which processors, on how many cards and nodes, and how fast its cards read their memory."""

from __future__ import annotations

from math import inf, prod

from msgspec import Struct

from vllm_logdoctor.rules.capacity.memory import GIB, Memory, memory_of, whole
from vllm_logdoctor.rules.load import rate_each
from vllm_logdoctor.rules.tasks import computes_for_others, pools
from vllm_logdoctor.run.model import Run, Sample

CARDS_OF_A_MACHINE = 8
SLOWEST_READING = 100.0
"""GB/s: half the memory bandwidth of the slowest card whose data sheet is known."""


class Host(Struct, frozen=True):
    """Where a model runs: on the CPU backend, on ranks of several nodes, on how many cards for one request, in how
    many stages of a pipeline, with which memory; and whether it makes tokens.
    """

    on_cpu: bool
    across_nodes: bool
    ranks: int
    generates: bool
    stages: int
    memory: Memory | None


def host_of(run: Run) -> Host:
    """Return where the model of a run works."""
    generates = not pools(run) and not computes_for_others(run)
    stages = whole(run.setting("pipeline_parallel_size")) or 1
    return Host(runs_on_cpu(run), joined_by_network(run), ranks_of(run), generates, stages, memory_of(run))


def reading_rate(sample: Sample, host: Host) -> float:
    """Return the GB/s at which cards read weights and cache in the steps of a line; infinite where the log does not print their sizes.

    The stages of a pipeline read one after the other.
    """
    memory = host.memory
    if memory is None or not memory.weights or not memory.available:
        return inf
    read = memory.weights + memory.available * (sample.kv_usage or 0.0) / 100
    return rate_each(sample) * read * host.stages * GIB / 1e9


def ranks_of(run: Run) -> int:
    """Return the number of cards that work on one request."""
    sizes = (run.setting("tensor_parallel_size"), run.setting("pipeline_parallel_size"))
    return prod(size for size in sizes if isinstance(size, int) and size > 0)


def on_each_card(run: Run) -> str:
    """Return " on each card" for a figure of a run that has several."""
    return " on each card" if ranks_of(run) > 1 else ""


def joined_by_network(run: Run) -> bool:
    """Return whether tensor parallel ranks are on several nodes: by Ray's words, or more than a machine has cards over TCP, by NCCL's."""
    if run.seen("tensor-parallel-across-nodes") is not None:
        return True
    size = run.setting("tensor_parallel_size")
    joined = isinstance(size, int) and size > CARDS_OF_A_MACHINE
    return joined and run.seen("nccl-over-sockets") is not None


def runs_on_cpu(run: Run) -> bool:
    """Return whether the CPU backend runs the model."""
    return run.platform == "cpu" or (run.platform is None and run.seen("cpu-pinned-memory-off") is not None)
