"""What a log does not contain, and what to set so that the next one does."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_logdoctor.knowledge.versions import at_least
from vllm_logdoctor.rules.capacity.card import device_name, job_card
from vllm_logdoctor.rules.capacity.memory import Memory, arguments_are_whole, memory_of
from vllm_logdoctor.rules.performance.steps import LONG_CALL
from vllm_logdoctor.rules.tasks import pools
from vllm_logdoctor.run.identity import is_inferred
from vllm_logdoctor.run.lifecycle import trail_of
from vllm_logdoctor.run.model import Run
from vllm_logdoctor.run.owners import is_file_of_vllm
from vllm_logdoctor.run.tracelines import frame_line

# No release of vLLM prints the names of cards or their links; a line of the job script does.
_CARDS = {"rocm": "rocm-smi --showproductname"}
_NO_DRIVER = "Triton is installed but 0 active driver"
_LISTED = "detected-different-devices-system-make-sure-set"
_LINKS = {"rocm": "rocm-smi --showtopo"}

_AT_THE_BEGINNING = "keep the log from its first line"
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


def unknowns_of(
    run: Run, topic: str = "", *, by_release: bool = True, open_question: bool = True
) -> tuple[str, ...]:
    """Return what this run's log does not contain and a step needs, each with what would log it next time.

    Args:
        run: the run.
        topic: of the failure that ended the run, or "": of a failure only what its steps need is missing.
        by_release: whether a step depends on the release of vLLM.
        open_question: whether anything is left to decide; else only a load that the log does not show is missing.
    """
    found = list(_unknowns(run, topic, by_release, open_question))
    first = [one.partition(":")[0] for one in found if _AT_THE_BEGINNING in one]
    if len(first) < 2:
        return tuple(found)
    names = [first[0], *(f"{one[:1].lower()}{one[1:]}" if one[1:2].islower() else one for one in first[1:])]
    listed = f"{', '.join(names[:-1])} and {names[-1]}: {_AT_THE_BEGINNING}."
    return (listed, *(one for one in found if _AT_THE_BEGINNING not in one))


def _unknowns(run: Run, topic: str, by_release: bool, open_question: bool) -> Iterator[str]:
    if run.kind in ("build", "test", "client", "container") or run.router or not _is_of_vllm(run):
        return
    if by_release and open_question:
        yield from _release_unknowns(run, topic)
    if open_question and (not topic or topic in _OF_SETTINGS):
        yield from _launch_unknowns(run)
    if not run.samples and not topic:
        yield from _load_unknowns(run)
    if not open_question:
        return
    memory = memory_of(run)
    if not topic or topic in _OF_CARDS:
        yield from _card_unknowns(run, memory, links=topic == "parallelism")
    if not topic or topic in _OF_MEMORY:
        yield from _cache_unknowns(run, memory)


def _release_unknowns(run: Run, topic: str) -> Iterator[str]:
    where = _in_job(run)
    if run.version is None and (run.arguments or run.engine_config or run.benchmarks):
        yield f"vLLM release: run `pip show vllm`{where}."
    elif run.version is None:
        way = f", or run `pip show vllm`{where}" if topic else ""
        yield f"vLLM release: {_AT_THE_BEGINNING}{way}."
    elif is_inferred(run.version):
        yield f"Exact vLLM release: run `pip show vllm`{where}."


def _in_job(run: Run) -> str:
    return " in the job script" if run.job is not None else ""


def _launch_unknowns(run: Run) -> Iterator[str]:
    of_client = run.benchmarks and run.benchmarks[-1].asked and not run.samples
    if not run.config and not of_client:
        yield f"Configuration: {_AT_THE_BEGINNING}."
    elif run.config and run.kind == "server" and not run.arguments:
        yield "Launch command: keep the API server's lines."
    elif any(map(run.seen, ("arguments-non-default", "arguments-namespace"))) and not arguments_are_whole(
        run
    ):
        # What a source line of a traceback gives is no list of the arguments.
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
        # The bars of an offline engine show its speed: whether that is slow matters where a call takes long.
        seconds = max((one.seconds or 0.0 for one in run.progress), default=0.0)
        if (not run.progress or seconds >= LONG_CALL) and (
            run.engine == "V0" or at_least(run.release, _V1_PRINTS)
        ):
            part = (
                "How many prompts ran at once, which output tokens/s alone do not show" if seconds else "Load"
            )
            yield f"{part}: start the engine with `LLM(..., disable_log_stats=False)`."
    elif run.setting("disable_log_stats") is True:
        yield "Load: statistics are off; start without `--disable-log-stats`."
    elif run.startup_complete:
        yield from _no_statistics(run)


def _no_statistics(run: Run) -> Iterator[str]:
    """Yield why a server that ran for some intervals printed no statistics, where it is known."""
    ready = run.startup.end if run.startup is not None else run.started
    if ready is None or run.ended is None or run.ended - ready < _TWO_INTERVALS:
        return
    answered = run.accesses or run.requests_by_minute or run.benchmarks
    if not answered and run.seen("training-progress") is None and at_least(run.release, _IDLE_AT_DEBUG):
        yield "Load: no statistics lines and no request. An idle engine prints them at DEBUG only (VLLM_LOGGING_LEVEL=DEBUG)."


def _card_unknowns(run: Run, memory: Memory | None, *, links: bool) -> Iterator[str]:
    if run.platform in (None, "cuda", "rocm") and run.config:
        sized = (
            memory is not None
            and memory.total is not None
            and "the next usual size" not in memory.total.basis
        )
        if not sized and not _names_card(run) and not _sees_no_card(run):
            either = f"nvidia-smi -L` or `{_CARDS['rocm']}"
            yield f"GPU model: run `{_CARDS.get(run.platform, 'nvidia-smi -L') if run.platform else either}`{_in_job(run)}."
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
        yield f"KV cache size: {'keep the start-up lines of the engine at INFO' if run.engine_config else _AT_THE_BEGINNING}."


def _shows_blocks(run: Run) -> bool:
    """Return whether the engine printed how many blocks its cache has, on the CPU without those of another device."""
    return run.seen("kv-cache-blocks") is not None or any(
        "# CPU blocks: " in one.message for one in trail_of(run)
    )


def _shows_links(run: Run) -> bool:
    return bool(run.observed.of("links", "link") or run.seen("custom-allreduce-disabled"))


def _sees_no_card(run: Run) -> bool:
    """Return whether a run whose platform is not known found no driver of a GPU."""
    return run.platform is None and any(_NO_DRIVER in one.message for one in trail_of(run))


def _names_card(run: Run) -> bool:
    return bool(run.observed.of("gpus", "name") or device_name(run) or job_card(run) or run.seen(_LISTED))
