"""Which run a file beside the log belongs to: joined by the model, the size of the KV cache and the number of cards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Literal

from msgspec import Struct

from vllm_logdoctor.evidence.model import EvidenceFile, Identity
from vllm_logdoctor.run.lifetimes import ZONES, in_time_of, lived_together
from vllm_logdoctor.run.model import Run
from vllm_logdoctor.run.observed import OF_CARDS, observed
from vllm_logdoctor.run.servers import VLLM

Certainty = Literal["sure", "likely", "not told", "contradicted"]


_YEAR_2000 = 946_684_800.0
"""Where the clock of a run begins, in seconds since 1970."""
_TIMES = {True: "began and ended with the log", False: "of another time"}


class Beside(Struct, frozen=True):
    """A file beside the log with the run that it belongs to.

    Attributes:
        evidence: what was read.
        run: number of the run, or None.
        certainty: how sure: "sure" by figures of the engine itself or a process id, "likely" by the model's name, "contradicted" where the file is of
            something else, "not told" where it names nothing to join by.
        because: what agrees or differs, in words.
    """

    evidence: EvidenceFile
    run: int | None = None
    certainty: Certainty = "not told"
    because: tuple[str, ...] = ()

    @property
    def used(self) -> bool:
        """Return whether its readings were taken over into a run."""
        return self.certainty in ("sure", "likely") and bool(self.evidence.readings)

    @property
    def why_not(self) -> str | None:
        """Why nothing was taken over, or None."""
        if self.used:
            return None
        if not self.evidence.kind:
            return self.evidence.note
        if self.certainty == "contradicted":
            return f"of another run: {', '.join(self.because)}"
        return "shown but not used: the file does not say which run it measured"


def files_of_runs(files: Sequence[EvidenceFile], runs: Sequence[Run]) -> tuple[Beside, ...]:
    """Return each file with the run that it belongs to: the surest one, the last of equals."""
    order: tuple[Certainty, ...] = ("sure", "likely", "not told", "contradicted")
    marks = [_Marks(run) for run in runs if run.server == VLLM]
    found = []
    for file in files:
        tried = [_belongs(file, one) for one in reversed(marks)] or [Beside(file)]
        found.append(min(tried, key=lambda one: order.index(one.certainty)))
    by_number = {run.number: run for run in runs}
    with_cards = [
        (one.evidence, by_number[one.run])
        for one in found
        if one.used and one.run is not None and one.evidence.kind in _OF_CARDS
    ]
    return tuple(_by_card(one, with_cards) for one in found)


def _by_card(one: Beside, with_cards: Sequence[tuple[EvidenceFile, Run]]) -> Beside:
    """Return a kernel's log that names no process of a run with the run whose cards it names in its time."""
    if one.evidence.kind != "dmesg" or one.certainty != "not told" or not one.evidence.cards:
        return one
    for other, run in with_cards:
        if one.evidence.cards & other.cards and any(
            reading.time and in_time_of(run, reading.time) for reading in one.evidence.readings
        ):
            return Beside(one.evidence, run.number, "likely", (f"a card of {other.file}, in the run's time",))
    return one


def attach(evidence: Sequence[EvidenceFile], runs: Sequence[Run]) -> None:
    """Give each run what files measured of it, and the counters of the last scrape that surely is its own.

    A file that names no run is shown with the last one, where nothing in it contradicts.
    """
    files = files_of_runs(evidence, runs) if evidence else ()
    last = next((run for run in reversed(runs) if run.server == VLLM), None)
    for run in runs:
        mine = [
            (one.evidence, one.used)
            for one in files
            if (one.run == run.number and one.run is not None)
            or (one.certainty == "not told" and run is last)
        ]
        if mine:
            run.observed = observed(mine)
    scrapes = [one for one in files if one.evidence.kind == "prometheus-text" and one.used]
    for one in sorted(scrapes, key=_tokens_counted):
        counted = {
            reading.name: reading.value
            for reading in one.evidence.readings
            if reading.unit in ("count", "tokens") and isinstance(reading.value, int)
        }
        next(run for run in runs if run.number == one.run).counters.update(counted)


def _tokens_counted(one: Beside) -> float:
    counted = (reading.value for reading in one.evidence.readings if reading.name == "generation tokens")
    value = next(counted, None)
    return float(value) if isinstance(value, int | float) else 0.0


class _Marks:
    """What in a run says which files are of it."""

    def __init__(self, run: Run) -> None:
        self.run = run
        tokens = run.measured.get("kv_cache_tokens")
        self.tokens = tokens.value if tokens is not None and isinstance(tokens.value, int | float) else None
        replicas = run.setting("data_parallel_size")
        self.replicas = replicas if isinstance(replicas, int) else 1
        self.names = _names(run)
        self.ranks = _ranks(run)
        self.pids = {str(process.pid) for process in run.processes if process.pid is not None}


def _belongs(file: EvidenceFile, marks: _Marks) -> Beside:
    run, identity = marks.run, file.identity
    if identity.is_empty and not file.place and file.kind not in _OF_CARDS and file.kind != "sglang-metrics":
        return Beside(file)
    agree: list[str] = []
    differ: list[str] = []
    tokens = _cache_tokens(identity)
    if tokens is not None and marks.tokens is not None:
        words = f"KV cache of {tokens:,} tokens here, {marks.tokens:,} in the log"
        # Some releases add up the blocks of all data-parallel engines.
        same = tokens in (marks.tokens, marks.tokens * marks.replicas)
        (agree if same else differ).append(words)
    sure = bool(agree)
    if _began_elsewhere(identity, run):
        differ.append("the process began at another time")
    model = identity.values.get("model") or identity.values.get("model_id")
    # lscpu calls the processor a model.
    if isinstance(model, str) and marks.names and file.kind != "lscpu":
        words = f"model {model} here, {marks.names[0]} in the log"
        (agree if any(_same_model(model, one) for one in marks.names) else differ).append(words)
    if _has_pid(identity, marks):
        sure = True
        agree.append("a process id of the log")
    together = lived_together(file, run)
    if together is not None:
        (agree if together else differ).append(_TIMES[together])
    differ += _other_machine(file, marks)
    if file.kind == "sglang-metrics":
        differ.append("metrics of SGLang")
    # A kernel's log names the processes it is of.
    if file.place and file.file in (run.first_file, run.last_file) and file.kind != "dmesg":
        agree.append("in the text of the log")
    agree += _same_build(identity, marks)
    if sure and not differ:
        return Beside(file, run.number, "sure", tuple(agree))
    if differ:
        return Beside(file, None, "contradicted", tuple(differ))
    return Beside(file, run.number, "likely", tuple(agree)) if agree else Beside(file)


def _has_pid(identity: Identity, marks: _Marks) -> bool:
    """Return whether a file names a process that wrote the log."""
    return any(
        not time or in_time_of(marks.run, time) is not False
        for pid in marks.pids
        for time in identity.pids.get(pid, ())
    )


def _other_machine(file: EvidenceFile, marks: _Marks) -> list[str]:
    """Return why a file can't be of the run's machine: no card used, fewer cards or ranks than the run has."""
    found = []
    platform = marks.run.platform
    if file.kind in _OF_CARDS and platform == "cpu":
        found.append("the run used no card")
    world = file.identity.values.get("world size")
    if isinstance(world, int) and marks.ranks is not None and world != marks.ranks:
        found.append(f"world size {world} here, {marks.ranks} in the log")
    if "operators" in file.identity.values and platform not in ("cpu", None):
        found.append("a profile without a kernel")
    return found


def _same_build(identity: Identity, marks: _Marks) -> list[str]:
    """Return what agrees with the run beyond its model: the ranks of a profile with steps of vLLM."""
    found = []
    world = identity.values.get("world size")
    if isinstance(world, int) and world == marks.ranks and "steps" in identity.values:
        found.append(f"world size {world} and steps of vLLM")
    return found


def _ranks(run: Run) -> int | None:
    ranks = [run.setting(name) for name in ("tensor_parallel_size", "pipeline_parallel_size")]
    return ranks[0] * ranks[1] if all(isinstance(one, int) for one in ranks) else None


_OF_CARDS = frozenset(
    (
        *OF_CARDS, "nvidia-smi-dmon", "nvidia-smi-pmon", "nvidia-smi-topo", "nvidia-smi-nvlink", "dcgmi-dmon", "gpu-series-csv",
        "nsys-stats-text", "nsys-stats-csv", "nsys-sqlite",
    )
)  # fmt: skip


def _began_elsewhere(identity: Identity, run: Run) -> bool:
    """Return whether the process that a scrape is of began outside the time of a run."""
    began = identity.values.get("process start")
    if not isinstance(began, int | float) or not run.year_known or run.started is None or run.ended is None:
        return False
    # The zone of a log is not printed: no two zones are farther apart.
    return not run.started - ZONES <= began - _YEAR_2000 <= run.ended + ZONES


def _cache_tokens(identity: Identity) -> int | None:
    blocks, size = identity.values.get("num_gpu_blocks"), identity.values.get("block_size")
    if blocks is None or size is None:
        return None
    try:
        return int(str(blocks)) * int(str(size))
    except ValueError:
        return None


def _names(run: Run) -> list[str]:
    """Return the names under which a run's model may be known: path, and what it is served as."""
    served = run.setting("served_model_name")
    named = served if isinstance(served, list | tuple) else [served]
    model = [run.model.value] if run.model is not None else []
    return [str(one) for one in (*named, *model) if one]


def _same_model(one: str, other: str) -> bool:
    return one == other or PurePosixPath(one).name == PurePosixPath(other).name
