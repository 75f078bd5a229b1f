"""Which run a file beside the log belongs to: joined by the model, the size of the KV cache and the number of cards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Literal

from msgspec import Struct

from vllm_logdoctor.evidence.model import EvidenceFile
from vllm_logdoctor.run.model import Run

Certainty = Literal["sure", "likely", "not told", "contradicted"]


_ZONES = 26 * 3600.0


class Beside(Struct, frozen=True):
    """A file beside the log with the run that it belongs to.

    Attributes:
        evidence: what was read.
        run: number of the run, or None.
        certainty: how sure: "sure" by figures of the engine itself, "likely" by the model's name, "contradicted" where the file is of
            something else, "not told" where it names nothing to join by.
        because: what agrees or differs, in words.
    """

    evidence: EvidenceFile
    run: int | None = None
    certainty: Certainty = "not told"
    because: tuple[str, ...] = ()

    @property
    def used(self) -> bool:
        """Whether its readings were taken over into a run."""
        return self.certainty == "sure" and self.evidence.kind == "prometheus-text"

    @property
    def why_not(self) -> str | None:
        """Why nothing was taken over, or None."""
        if self.used:
            return None
        if not self.evidence.kind:
            return self.evidence.note
        if self.certainty == "contradicted":
            return f"of another run: {', '.join(self.because)}"
        if self.evidence.kind == "prometheus-text":
            return "no size of a KV cache in it says that it is of this run"
        return "listed as read; no figure of the log depends on it"


def joined(files: Sequence[EvidenceFile], runs: Sequence[Run]) -> tuple[Beside, ...]:
    """Return each file with the run that it belongs to: the surest one, the last of equals."""
    order: tuple[Certainty, ...] = ("sure", "likely", "not told", "contradicted")
    found = []
    for file in files:
        tried = [_belongs(file, run) for run in runs if run.server == "vllm"] or [Beside(file)]
        found.append(min(reversed(tried), key=lambda one: order.index(one.certainty)))
    return tuple(found)


def take_counters(files: Sequence[Beside], runs: Sequence[Run]) -> None:
    """Give each run the counters of the last scrape that surely is its own."""
    for one in files:
        if one.used and one.run is not None:
            counted = {
                reading.name: reading.value
                for reading in one.evidence.readings
                if reading.unit in ("count", "tokens") and isinstance(reading.value, int)
            }
            next(run for run in runs if run.number == one.run).counters.update(counted)


def _belongs(file: EvidenceFile, run: Run) -> Beside:
    agree: list[str] = []
    differ: list[str] = []
    tokens, said = _cache_tokens(file), run.measured.get("kv_cache_tokens")
    if tokens is not None and said is not None and isinstance(said.value, int | float):
        words = f"KV cache of {tokens:,} tokens here, {said.value:,} in the log"
        (agree if tokens == said.value else differ).append(words)
    sure = bool(agree)
    if _began_elsewhere(file, run):
        differ.append("the process began at another time")
    model, served = _value(file, "model") or _value(file, "model_id"), _names(run)
    if isinstance(model, str) and served:
        words = f"model {model} here, {served[0]} in the log"
        (agree if any(_same_model(model, one) for one in served) else differ).append(words)
    if sure and not differ:
        return Beside(file, run.number, "sure", tuple(agree))
    if differ:
        return Beside(file, None, "contradicted", tuple(differ))
    return Beside(file, run.number, "likely", tuple(agree)) if agree else Beside(file)


def _began_elsewhere(file: EvidenceFile, run: Run) -> bool:
    """Return whether the process that a scrape is of began outside the time of a run."""
    began = _value(file, "process start")
    if not isinstance(began, int | float) or not run.year_known or run.started is None or run.ended is None:
        return False
    # The zone of a log is not printed: no two zones are farther apart.
    return not run.started - _ZONES <= began <= run.ended + _ZONES


def _cache_tokens(file: EvidenceFile) -> int | None:
    blocks, size = _value(file, "num_gpu_blocks"), _value(file, "block_size")
    try:
        return int(str(blocks)) * int(str(size))
    except ValueError:
        return None


def _value(file: EvidenceFile, name: str) -> object:
    return next((one.value for one in file.readings if one.name == name), None)


def _names(run: Run) -> list[str]:
    """Return the names under which a run's model may be known: path, and what it is served as."""
    served = run.setting("served_model_name")
    named = served if isinstance(served, list | tuple) else [served]
    model = [run.model.value] if run.model is not None else []
    return [str(one) for one in (*named, *model) if one]


def _same_model(one: str, other: str) -> bool:
    return one == other or PurePosixPath(one).name == PurePosixPath(other).name
