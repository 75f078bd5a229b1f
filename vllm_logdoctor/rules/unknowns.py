"""What a log does not contain, and what to set so that the next one does."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_logdoctor.knowledge.versions import at_least
from vllm_logdoctor.rules.capacity.card import device_name, job_card
from vllm_logdoctor.rules.capacity.memory import Memory, arguments_are_whole, memory_of
from vllm_logdoctor.rules.tasks import pools
from vllm_logdoctor.run.identity import is_inferred
from vllm_logdoctor.run.lifecycle import trail_of
from vllm_logdoctor.run.model import Run
from vllm_logdoctor.run.owners import is_file_of_vllm
from vllm_logdoctor.run.tracelines import frame_line

# No release of vLLM prints the names of cards or their links; a line of the job script does.
_CARDS = {"rocm": "rocm-smi --showproductname"}
_LISTED = "detected-different-devices-system-make-sure-set"
_LINKS = {"rocm": "rocm-smi --showtopo"}

_TWO_INTERVALS = 20.0
"""Seconds in which statistics are printed once for sure: one is 10 s long unless set."""
_V1_PRINTS = "0.11.1"
"""Release from which LLM() of the V1 engine prints statistics when it is told to."""
_IDLE_AT_DEBUG = "0.6.3"
"""First release whose idle engines print statistics at DEBUG only."""


_OF_MEMORY = frozenset({"memory", "kv-cache"})
_OF_CARDS = _OF_MEMORY | {"hardware", "kernels", "quantization", "attention", "platform", "parallelism"}
_OF_SETTINGS = _OF_MEMORY | {"configuration", "parallelism", "scheduler"}
"""Topics of failures whose steps need the size of memory, the cards, the settings of the run."""


def unknowns_of(run: Run, topic: str = "") -> tuple[str, ...]:
    """Return what this run's log does not contain, each with what would log it next time.

    Args:
        run: the run.
        topic: of the failure that ended the run, or "": of a failure only what its steps need is missing.
    """
    return tuple(_unknowns(run, topic))


def _unknowns(run: Run, topic: str) -> Iterator[str]:
    if run.kind in ("build", "test", "client", "container") or run.router or not _is_of_vllm(run):
        return
    where = _in_job(run)
    if run.version is None and (run.arguments or run.engine_config):
        yield f"vLLM release: run `pip show vllm`{where}."
    elif run.version is None:
        yield f"vLLM release: keep the log from its first line, or run `pip show vllm`{where}."
    elif is_inferred(run.version):
        yield f"Exact vLLM release: run `pip show vllm`{where}."
    if not topic or topic in _OF_SETTINGS:
        yield from _launch_unknowns(run)
    if not run.samples and not topic:
        yield from _load_unknowns(run)
    memory = memory_of(run)
    if not topic or topic in _OF_CARDS:
        yield from _card_unknowns(run, memory, links=not topic or topic == "parallelism")
    if not topic or topic in _OF_MEMORY:
        yield from _cache_unknowns(run, memory)


def _in_job(run: Run) -> str:
    return " in the job script" if run.job is not None else ""


def _launch_unknowns(run: Run) -> Iterator[str]:
    if not run.config and not (run.benchmarks and run.benchmarks[-1].asked):
        yield "Configuration: keep the log from its first line."
    elif run.config and run.kind == "server" and not run.arguments:
        yield "Launch command: keep the API server's lines."
    elif run.arguments and not arguments_are_whole(run):
        yield "Complete launch command (its line is cut or wrapped): write the log to a file, not through a terminal."


def _is_of_vllm(run: Run) -> bool:
    """Return whether anything in a log is of vLLM: the traceback of another program does not get a release by its first lines."""
    return bool(run.vllm_records or run.config or run.startup_complete or run.progress) or any(
        (frame := frame_line(one.message)) is not None and is_file_of_vllm(frame.file)
        for one in trail_of(run)
    )


def _load_unknowns(run: Run) -> Iterator[str]:
    if run.seen("stats-disabled-api-servers"):
        yield "Load: this release prints no statistics with several API servers; scrape /metrics."
    elif run.kind == "offline" and (run.startup_complete or run.setting("disable_log_stats") is True):
        yield f"Load: {_offline_statistics(run)}."
    elif run.setting("disable_log_stats") is True:
        yield "Load: statistics are off; start without `--disable-log-stats`."
    elif run.startup_complete:
        yield from _no_statistics(run)


def _offline_statistics(run: Run) -> str:
    """Return how to get statistics of an offline engine: the V1 engine of the first releases prints none."""
    none = "offline engines print no statistics by default"
    if run.engine == "V0" or at_least(run.release, _V1_PRINTS):
        return f"{none}; `LLM(..., disable_log_stats=False)` turns them on"
    return none if run.release is None else "offline engines of this release print no statistics"


def _no_statistics(run: Run) -> Iterator[str]:
    """Yield why a server that ran for some intervals printed no statistics, where it is known."""
    start = next((phase for phase in run.phases if phase.name == "startup"), None)
    ready = start.end if start is not None else run.started
    if ready is None or run.ended is None or run.ended - ready < _TWO_INTERVALS:
        return
    if not run.accesses and not run.requests_by_minute and at_least(run.release, _IDLE_AT_DEBUG):
        yield "Load: no statistics lines and no request. An idle engine prints them at DEBUG only (VLLM_LOGGING_LEVEL=DEBUG)."


def _card_unknowns(run: Run, memory: Memory | None, *, links: bool) -> Iterator[str]:
    if run.platform in (None, "cuda", "rocm") and run.config:
        sized = (
            memory is not None
            and memory.total is not None
            and "the next usual size" not in memory.total.basis
        )
        if not sized and not _names_card(run):
            yield f"GPU model: run `{_CARDS.get(run.platform or '', 'nvidia-smi -L')}`{_in_job(run)}."
        ranks = run.setting("tensor_parallel_size")
        if links and isinstance(ranks, int) and ranks > 1 and not _shows_links(run):
            yield f"GPU topology: run `{_LINKS.get(run.platform or '', 'nvidia-smi topo -m')}`{_in_job(run)}."


def _cache_unknowns(run: Run, memory: Memory | None) -> Iterator[str]:
    # An encoder that embeds has no KV cache to size, and Neuron prints no size of it.
    if (
        memory is None
        and run.platform != "neuron"
        and run.startup_complete
        and run.config
        and not pools(run)
        and not _shows_blocks(run)
    ):
        how = "the engine's start-up lines at INFO" if run.engine_config else "the log from its first line"
        yield f"KV cache size: keep {how}."


def _shows_blocks(run: Run) -> bool:
    """Return whether the engine printed how many blocks its cache has, on the CPU without those of another device."""
    return run.seen("kv-cache-blocks") is not None or any(
        "# CPU blocks: " in one.message for one in trail_of(run)
    )


def _shows_links(run: Run) -> bool:
    return bool(run.observed.of("links", "link") or run.seen("custom-allreduce-disabled"))


def _names_card(run: Run) -> bool:
    return bool(run.observed.of("gpus", "name") or device_name(run) or job_card(run) or run.seen(_LISTED))
