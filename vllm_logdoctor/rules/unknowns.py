"""What a log does not tell, and what to set so that the next one does."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_logdoctor.rules.capacity.memory import arguments_are_whole, memory_of
from vllm_logdoctor.run.model import Run

# Pages of cards and links are printed by no release of vLLM; a line of the job script tells them.
_CARDS = {"rocm": "rocm-smi --showproductname"}
_LINKS = {"rocm": "rocm-smi --showtopo"}


def unknowns_of(run: Run) -> tuple[str, ...]:
    """Return what can't be told from this run's log, each with what would log it next time."""
    return tuple(_unknowns(run))


def _unknowns(run: Run) -> Iterator[str]:
    if run.version is None:
        yield (
            "The vLLM version: the start of the log is missing or shows none; keep the log from its first"
            " line, or add `vllm --version` to the job script."
        )
    elif run.version.provenance == "derived":
        yield (
            f"The exact vLLM version: told from the places that print lines ({run.version.value}); add `vllm"
            " --version` to the job script."
        )
    if not run.config:
        yield (
            "The configuration: neither arguments nor the engine's configuration line is in this log; keep it"
            " from the first line on."
        )
    elif run.kind == "server" and not run.arguments:
        yield (
            "The launch command: no line of arguments is in this log, so that no command can be written; keep"
            " the API server's lines."
        )
    elif run.arguments and not arguments_are_whole(run):
        yield (
            "The complete launch command: the line of arguments is cut or wrapped; write the log to a file,"
            " not through a terminal."
        )
    yield from _load_unknowns(run)
    yield from _hardware_unknowns(run)


def _load_unknowns(run: Run) -> Iterator[str]:
    if run.samples:
        yield (
            "Latency of requests: vLLM logs none; scrape /metrics, or run `vllm bench serve` against the"
            " server."
        )
        if run.engine == "V1" and not run.extremes.preemptions and (run.extremes.waiting or 0) > 0:
            yield (
                "Preemptions: most V1 releases print none; `vllm:num_preemptions_total` in /metrics counts"
                " them."
            )
        if not run.seen("request-received"):
            yield (
                "Lengths of prompts and answers: not logged; /metrics has their distribution"
                " (`vllm:request_prompt_tokens`)."
            )
        return
    if run.seen("stats-disabled-api-servers"):
        yield "The load: with several API servers this release prints no statistics; scrape /metrics."
    elif run.setting("disable_log_stats") is True:
        yield "The load: statistics are switched off (disable_log_stats); start without it next time."
    elif run.startup_complete and run.kind == "offline":
        yield (
            "The load: offline engines print no statistics unless `LLM(..., disable_log_stats=False)` is set."
        )
    elif run.startup_complete:
        yield (
            "The load: no statistics line is in the log; idle engines print them at DEBUG only, and a logging"
            " configuration of your own can drop them (VLLM_LOGGING_LEVEL, VLLM_LOG_STATS_INTERVAL)."
        )


def _hardware_unknowns(run: Run) -> Iterator[str]:
    memory = memory_of(run)
    if run.platform in (None, "cuda", "rocm") and run.config:
        sized = memory is not None and memory.total is not None and "taken for" not in memory.total.basis
        if not sized and not _names_card(run):
            command = _CARDS.get(run.platform or "", "nvidia-smi -L")
            yield f"The card: vLLM logs no name; put `{command}` into the job script."
        ranks = run.setting("tensor_parallel_size")
        if isinstance(ranks, int) and ranks > 1 and not run.seen("custom-allreduce-disabled"):
            command = _LINKS.get(run.platform or "", "nvidia-smi topo -m")
            yield f"How the cards are linked: not logged; put `{command}` into the job script."
    if memory is None and run.startup_complete:
        yield "The size of the KV cache: its line is missing; keep the engine core's lines at INFO."


def _names_card(run: Run) -> bool:
    """Tell whether a line names the card: files of tuned kernels carry its name."""
    return any(
        "device_name=" in event.record.message for seen in run.messages.values() for event in seen.first[:1]
    )
