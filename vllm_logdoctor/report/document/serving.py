"""The part of the JSON document on serving: statistics lines, requests, drafts, transfers, offline batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from vllm_logdoctor.report.clock import clock, iso
from vllm_logdoctor.report.document.part import Part, means, three_decimals
from vllm_logdoctor.report.series import requests_by_time
from vllm_logdoctor.report.serving import Spread, requests_of, serving_of
from vllm_logdoctor.report.throughput_detail import drafts_of, transfers_of
from vllm_logdoctor.rules.equal_load import LoadLevel, load_levels
from vllm_logdoctor.rules.steps import acceptance_length, step_levels
from vllm_logdoctor.run.metrics import offline_batches
from vllm_logdoctor.run.model import Evidence, Run

BATCHES = 50
"""Offline batches that the document holds, the last ones; all are counted."""


class SpreadOut(Part):
    """Tokens/s of the statistics lines: mean and percentiles of the busy ones, highest of all."""

    mean_busy: float | None
    p50: float | None
    p95: float | None
    max: float | None

    @classmethod
    def of_spread(cls, spread: Spread) -> SpreadOut:
        """Round a spread."""
        return cls(
            three_decimals(spread.mean_busy),
            three_decimals(spread.p50),
            three_decimals(spread.p95),
            three_decimals(spread.max),
        )


class CountMaxOut(Part):
    """Most requests in one statistics line."""

    max: int | None


class PercentMaxOut(Part):
    """Highest share in percent."""

    max: float | None


class LastOut(Part):
    """Last printed value in percent."""

    last: float | None


class EndpointOut(Part):
    """Answered requests of one endpoint and status."""

    method: str
    path: str
    status: int
    count: int


class MinuteOut(Part):
    """Answered requests of one minute, or of several in a long log."""

    start: Annotated[str | None, means("ISO 8601 without zone; null where the log prints no year")]
    clock: Annotated[str | None, means("month, day and time as the log prints them")]
    minutes: Annotated[int, means("length")]
    by_status: dict[str, int]


class RequestsOut(Part):
    """Answered requests by the access log."""

    total: int
    by_status: dict[str, int]
    by_minute: Annotated[list[MinuteOut], means("requests without a time are left out")]
    by_endpoint: list[EndpointOut]

    @classmethod
    def of_run(cls, run: Run) -> RequestsOut:
        """Count the requests of a run."""
        statuses = requests_of(run)
        return cls(
            total=sum(statuses.values()),
            by_status=_by_status(statuses),
            by_minute=[
                MinuteOut(
                    iso(minute * 60.0, run.year_known), clock(minute * 60.0), length, _by_status(counts)
                )
                for minute, length, counts in requests_by_time(run)
            ],
            by_endpoint=[EndpointOut(*key, count) for key, count in sorted(run.accesses.items())],
        )


class LevelOut(Part):
    """Statistics lines with about the same number of running requests: speed at equal load."""

    low: Annotated[int, means("fewest running requests of an engine in the level")]
    high: Annotated[int, means("most running requests of the level")]
    running: Annotated[float, means("mean")]
    samples: int
    generation: Annotated[list[float], means("tokens/s: 25 %, median, 75 %")]
    prompt: Annotated[float, means("tokens/s")]

    @classmethod
    def of_level(cls, level: LoadLevel) -> LevelOut:
        """Round the figures of a level."""
        return cls.of(
            level,
            running=round(level.running, 3),
            generation=[round(value, 3) for value in level.generation],
            prompt=round(level.prompt, 3),
        )


class DraftsOut(Part):
    """Speculative decoding over the run."""

    lines: int
    accepted: Annotated[int | None, means("tokens; null where the lines lack it or not all were kept")]
    drafted: int | None
    acceptance: Annotated[float | None, means("percent")]
    mean_length: Annotated[float | None, means("tokens per step with the bonus token")]
    per_position: Annotated[list[float], means("percent, by position of the draft")]
    evidence: list[Evidence]

    @classmethod
    def of_run(cls, run: Run) -> DraftsOut | None:
        """Sum up the drafts of a run; None without any."""
        drafts = drafts_of(run)
        if drafts is None:
            return None
        return cls.of(
            drafts,
            acceptance=three_decimals(drafts.acceptance),
            mean_length=three_decimals(drafts.mean_length),
            per_position=[round(rate, 3) for rate in drafts.per_position],
        )


class TransferFigureOut(Part):
    """One figure of a KV connector, in the unit that its name holds."""

    mean: float | None
    highest: float | None
    last: float | None


class TransfersOut(Part):
    """Lines of a KV connector."""

    lines: int
    figures: Annotated[dict[str, TransferFigureOut], means("by the name that the connector prints")]
    evidence: list[Evidence]

    @classmethod
    def of_run(cls, run: Run) -> TransfersOut | None:
        """Sum up the transfers of a run; None without any."""
        if not run.transfers:
            return None
        first, last = run.transfers[0].evidence, run.transfers[-1].evidence
        figures = {
            one.name: TransferFigureOut(
                three_decimals(one.mean), three_decimals(one.highest), three_decimals(one.last)
            )
            for one in transfers_of(run)
        }
        return cls(len(run.transfers), figures, list(dict.fromkeys((first, last))))


class BatchOut(Part):
    """Last state of one progress bar of the offline engine."""

    done: int
    total: int
    seconds: float | None
    input: Annotated[float | None, means("tokens/s")]
    output: Annotated[float | None, means("tokens/s")]
    evidence: Evidence


class OfflineOut(Part):
    """Batches of the offline engine by its progress bars."""

    batches: int
    prompts: int
    seconds: float
    last: Annotated[list[BatchOut], means(f"at most {BATCHES}")]

    @classmethod
    def of_run(cls, run: Run) -> OfflineOut | None:
        """Sum up the batches of a run; None without any."""
        batches = offline_batches(run)
        if not batches:
            return None
        return cls(
            batches=len(batches),
            prompts=sum(batch.done for batch in batches),
            seconds=sum(batch.seconds or 0.0 for batch in batches),
            last=[BatchOut.of(batch) for batch in batches[-BATCHES:]],
        )


class ServingOut(Part):
    """Figures of the statistics lines and of the access log."""

    samples: Annotated[int, means("statistics lines, all engines")]
    busy_samples: int
    engines: Annotated[list[int], means("engine numbers; -1 is an aggregate")]
    prompt_throughput: SpreadOut
    generation_throughput: SpreadOut
    running: CountMaxOut
    waiting: CountMaxOut
    kv_cache_usage: PercentMaxOut
    prefix_cache_hit_rate: LastOut
    preemptions: int | None
    levels: Annotated[list[LevelOut], means("by number of running requests")]
    step_levels: Annotated[list[LevelOut], means("the same in decode steps/s, where drafts are accepted")]
    acceptance_length: Annotated[float | None, means("median tokens per step")]
    speculation: DraftsOut | None
    transfers: TransfersOut | None
    offline: OfflineOut | None
    requests: RequestsOut

    @classmethod
    def of_run(cls, run: Run) -> ServingOut:
        """Collect the figures of a run."""
        figures = serving_of(run)
        return cls.of(
            figures,
            busy_samples=figures.busy,
            prompt_throughput=SpreadOut.of_spread(figures.prompt),
            generation_throughput=SpreadOut.of_spread(figures.generation),
            running=CountMaxOut(figures.running),
            waiting=CountMaxOut(figures.waiting),
            kv_cache_usage=PercentMaxOut(figures.kv_usage),
            prefix_cache_hit_rate=LastOut(figures.prefix_hit),
            levels=[LevelOut.of_level(level) for level in load_levels(run.samples)],
            step_levels=[LevelOut.of_level(level) for level in step_levels(run)],
            acceptance_length=acceptance_length(run),
            speculation=DraftsOut.of_run(run),
            transfers=TransfersOut.of_run(run),
            offline=OfflineOut.of_run(run),
            requests=RequestsOut.of_run(run),
        )


def _by_status(counts: Mapping[int, int]) -> dict[str, int]:
    return {str(status): count for status, count in sorted(counts.items())}
