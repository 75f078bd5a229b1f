"""What limits a run, from a closed list, per serving period and as a whole.

One statistics line is judged by these rules, first that holds:

1. idle: nothing runs and nothing waits.
2. Something waits, and the cache has no room: it is at least 90 % full, or what is free is less than one
   running request holds on average (with three requests at 28 % each, 84 % is full). V1 prints no
   preemption: this is how it looks.
3. Something waits, the cache has room, and at least 95 % of the seats (max_num_seqs) are taken: the seats
   limit. Where the log does not tell the seats, a number of running requests at which most of the waiting
   lines stand still is one, unless the arguments leave the seats open and no default is so small.
4. Something waits with seats and cache free, and it is more than one request that has just come: the tokens of a
   step are spent on prompts (prefill). Where no such line of the run shows a prompt, it is something else that
   admits no more, and nothing is said of it.
5. Nothing waits and the cache is 95 % full or more: the next request or token will wait for the cache.
6. Nothing waits: the engine did all that it was given, the client limits. A CPU that makes less than a token
   per second and request is the host's limit, as is a card that makes less than one and a half with a handful
   of requests, or less than two and a half with up to 256 in half of the cache, and no prompts, counted or under
   way: no card reads its own memory so slowly. Tensor parallel ranks on different nodes
   are the interconnect's, and so are more ranks than a machine has cards, where a single stream crawls. Several
   requests that get less than a token per second each while prompts are computed wait inside the batch: prefill.

Lines in which requests run while neither a token nor the usage of the cache moves for half a minute tell no
limit: the engine stood still.

For the run as a whole, time counts: a limit of the server that holds for at least a fifth of the busy time
is the run's. Below that the client is the limit, however hard the short rush was; the periods keep it
visible.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import groupby, pairwise
from math import prod
from typing import Literal

from msgspec import Struct

from vllm_logdoctor.rules.capacity.defaults import least_seats, seats_of
from vllm_logdoctor.rules.load import Load, Span, evidence_of_sample, load_of, minutes
from vllm_logdoctor.rules.stalls import stalled
from vllm_logdoctor.rules.tasks import computes_for_others, pools
from vllm_logdoctor.run.metrics import batches_of
from vllm_logdoctor.run.model import Evidence, Progress, Run, Sample

BottleneckName = Literal[
    "idle", "client-limited", "kv-cache-limited", "max-num-seqs-limited", "prefill-limited", "host-limited",
    "interconnect-limited", "startup-only", "failed", "none-clear",
]  # fmt: skip

KV_FULL = 90.0
"""Percent; where requests were preempted, logs show 92 to 100 at the end of each interval."""
KV_FULL_ALONE = 95.0
"""Percent at which the cache limits even while nothing waits yet."""
KV_LEAST = 50.0
"""Percent below which the cache is not called full, however large a request is."""
SEATS_TAKEN = 0.95
"""Share of max_num_seqs: asynchronous scheduling shows a seat or two free at any moment."""
RUN_SHARE = 0.20
"""Share of the busy time from which a limit of the server is the run's."""
MOST_PERIODS = 60
"""A load that changes its limit more often is told in equal pieces, each by the limit that holds most often.
"""
SLOW_CPU = 1.0
"""Tokens per second and request."""
SLOW_CARD = 1.5
"""Tokens per second and request with few requests: a card reads all of its memory two (unified memory) to forty
times a second, and a step reads its weights once."""
SLOW_BATCH = 2.5
"""The same with more requests and half of the cache empty: a step then reads at most the weights and half the cache."""
MOST_OF_BATCH = 256
"""Requests up to which a step of decoding is bound by memory and not by arithmetic."""
SLOW_RANKS = 5.0
"""The same where the ranks are more than a machine has cards: cards of such machines read theirs twelve times."""
LEAST_CALLS = 10
"""Calls of an offline engine with one prompt each; fewer are a trial."""
STARVED = 1.0
"""Tokens per second and request below which requests of a batch hardly decode: the steps compute prompts."""
PROMPT_GROWTH = 0.3
"""Per cent of the cache; a few tokens take less in ten seconds, a long prompt that is being computed takes more."""
LEAST_LINES_WITHOUT_PROMPTS = 3
"""Statistics lines from which waiting without any prompt is no prefill: V1 counts a prompt when it is computed to its end."""
LEAST_LINES_STARVED = 2
LEAST_CROWD = 10
"""Running requests beside which a single one that waits has just come."""
FEW = 4
"""Requests with which a step costs hardly more than reading the weights."""
CARDS_OF_A_MACHINE = 8
SERVER_LIMITS: tuple[BottleneckName, ...] = ("kv-cache-limited", "max-num-seqs-limited", "prefill-limited")


class Host(Struct, frozen=True):
    """Where a model runs: on the CPU backend, on ranks of several nodes, on how many cards for one request; and
    whether it makes tokens.
    """

    on_cpu: bool = False
    across_nodes: bool = False
    ranks: int = 1
    generates: bool = True


class ServingPeriod(Struct, frozen=True):
    """Neighbouring samples with one limit: seconds on the run's clock, how many samples, what limits."""

    name: BottleneckName
    start: float | None
    end: float | None
    samples: int
    reason: str
    evidence: tuple[Evidence, ...] = ()


class Bottleneck(Struct, frozen=True):
    """What limits the run as a whole, weighted by time, and per period."""

    name: BottleneckName
    reason: str
    evidence: tuple[Evidence, ...] = ()
    periods: tuple[ServingPeriod, ...] = ()


def bottleneck_of(run: Run, load: Load | None = None) -> Bottleneck:
    """Say what limits a run.

    Args:
        run: the run.
        load: its load, where it is known already.

    Returns:
        the limit with its reason and lines; "failed" where it never served, "startup-only" where no
        statistics follow.
    """
    load = load or load_of(run)
    if run.outcome == "crashed_at_startup" or (run.outcome == "crashed_while_serving" and not load.busy):
        return Bottleneck("failed", "The run failed before it served a request")
    if not load.spans:
        return _without_statistics(run)
    limits = limits_of(run, load)
    periods = tuple(_periods(run, load, limits))
    name = _overall(load, limits)
    return Bottleneck(name, _reason(run, name, load, limits), _evidence(run, load, limits, name), periods)


def limits_of(run: Run, load: Load) -> tuple[BottleneckName, ...]:
    """Return what limits each span of the load."""
    seats = seats_of(run) or apparent_seats(load.spans, least_seats(run))
    host = Host(
        runs_on_cpu(run),
        run.seen("tensor-parallel-across-nodes") is not None or tensor_ranks_over_sockets(run),
        ranks_of(run),
        not pools(run) and not computes_for_others(run),
    )
    still = frozenset() if host.on_cpu else stalled(load.spans)
    last: dict[int, Sample] = {}
    limits: list[BottleneckName] = []
    for span in load.spans:
        sample = span.sample
        limit = limit_of(span, seats)
        if (sample.file, sample.line) in still:
            limit = "none-clear"
        elif limit == "client-limited":
            limit = limit_below(span, host, last.get(sample.engine))
        last[sample.engine] = sample
        limits.append(limit)
    return tuple(with_prompts(load.spans, limits))


def with_prompts(spans: Sequence[Span], limits: Sequence[BottleneckName]) -> list[BottleneckName]:
    """Return the limits with prefill among them only where enough lines of the run show it: a prompt behind a queue,
    or more than one line of requests that hardly decode.
    """
    prefill = [span for span, limit in zip(spans, limits, strict=True) if limit == "prefill-limited"]
    queues = sum(span.waits for span in prefill)
    instead: BottleneckName = "prefill-limited"
    if queues >= LEAST_LINES_WITHOUT_PROMPTS and not any(span.sample.prompt > 0 for span in prefill):
        instead = "none-clear"
    elif not queues and len(prefill) < LEAST_LINES_STARVED:
        instead = "client-limited"
    return [instead if limit == "prefill-limited" else limit for limit in limits]


def ranks_of(run: Run) -> int:
    """Return the number of cards that work on one request."""
    sizes = (run.setting("tensor_parallel_size"), run.setting("pipeline_parallel_size"))
    return prod(size for size in sizes if isinstance(size, int) and size > 0)


def tensor_ranks_over_sockets(run: Run) -> bool:
    """Whether more tensor parallel ranks than a machine has cards reach each other over TCP, by NCCL's own words."""
    size = run.setting("tensor_parallel_size")
    joined = isinstance(size, int) and size > CARDS_OF_A_MACHINE
    return joined and run.seen("nccl-over-sockets") is not None


def runs_on_cpu(run: Run) -> bool:
    """Whether the CPU backend runs the model."""
    return run.platform == "cpu" or (run.platform is None and run.seen("cpu-pinned-memory-off") is not None)


def limit_of(span: Span, seats: int | None) -> BottleneckName:
    """Return what of the server limits one sample; `seats` is max_num_seqs, None where it is not known."""
    sample = span.sample
    running, kv = sample.running or 0, sample.kv_usage or 0.0
    if not span.busy:
        return "idle"
    if span.waits:
        if cache_is_full(running, kv) and not (seats and running >= seats):
            return "kv-cache-limited"
        if seats and running >= SEATS_TAKEN * seats:
            return "max-num-seqs-limited"
        return "client-limited" if is_arrival(sample) else "prefill-limited"
    if kv >= KV_FULL_ALONE:
        return "kv-cache-limited"
    return "client-limited"


def is_arrival(sample: Sample) -> bool:
    """Whether what waits is one request that came since the last step: any server shows that at some moments."""
    return (sample.waiting or 0) <= 1 and not sample.swapped and (sample.running or 0) >= LEAST_CROWD


def limit_below(span: Span, host: Host, before: Sample | None = None) -> BottleneckName:
    """Return what limits a sample in which nothing waits: the client, or what the engine runs on.

    Args:
        span: the sample.
        host: where the model runs.
        before: the sample before it of the same engine. Requests that were not there then have made no tokens yet.
    """
    sample = span.sample
    running = sample.running or 0
    if host.across_nodes:
        return "interconnect-limited"
    if not running or before is None or not before.running or not host.generates:
        return "client-limited"
    if host.on_cpu:
        slow = sample.prompt + sample.generation < SLOW_CPU * running
        return "host-limited" if slow else "client-limited"
    prompts = computes_prompts(sample, before)
    if prompts and min(running, before.running) > 1 and sample.generation < STARVED * running:
        return "prefill-limited"
    if prompts:
        return "client-limited"
    if running > FEW:
        return "host-limited" if is_slower_than_memory(sample) else "client-limited"
    if host.ranks > CARDS_OF_A_MACHINE and sample.generation < SLOW_RANKS * running:
        return "interconnect-limited"
    return "host-limited" if sample.generation < SLOW_CARD * running else "client-limited"


def computes_prompts(sample: Sample, before: Sample) -> bool:
    """Whether prompts are computed: counted, or under way.

    V1 counts a prompt when it is computed to its end; until then only the cache that it takes shows it. V0, whose
    lines tell swapped requests, counts every part.
    """
    if sample.prompt > 0 or sample.swapped is not None:
        return sample.prompt > 0
    return (sample.kv_usage or 0.0) - (before.kv_usage or 0.0) > PROMPT_GROWTH


def is_slower_than_memory(sample: Sample) -> bool:
    """Whether requests of a batch without prompts are slower than any card reads its memory.

    Example:
        >>> is_slower_than_memory(Sample(0.0, 1, 0, 0.0, 74.0, running=32, waiting=0, kv_usage=28.0))
        True
        >>> is_slower_than_memory(Sample(0.0, 1, 0, 0.0, 740.0, running=32, waiting=0, kv_usage=28.0))
        False
    """
    running = sample.running or 0
    slowest = SLOW_BATCH if (sample.kv_usage or 0.0) < 50 else SLOW_CARD
    return running <= MOST_OF_BATCH and sample.generation < slowest * running


def cache_is_full(running: int, usage: float) -> bool:
    """Whether the cache has no room for one more request of the size of those that run.

    Example:
        >>> cache_is_full(100, 91.0), cache_is_full(3, 84.0), cache_is_full(100, 84.0)
        (True, True, False)
    """
    if usage >= KV_FULL:
        return True
    return bool(running) and usage >= KV_LEAST and 100.0 - usage < usage / running


def apparent_seats(spans: Sequence[Span], least: int = 1) -> int | None:
    """Return the number of running requests, `least` or more, at which waiting lines stand still, or None where there
    is none.
    """
    waiting = [
        span.sample.running or 0
        for span in spans
        if span.waits and not cache_is_full(span.sample.running or 0, span.sample.kv_usage or 0.0)
    ]
    most, times = max(waiting, default=0), Counter(waiting)
    # Two lines are enough where nothing but this number was seen, with a crowd behind it.
    lines = 2 if len(times) == 1 and most >= LEAST_CROWD and _queue(spans) >= most else 3
    enough = times[most] >= lines and times[most] >= len(waiting) / 2
    return most if most >= max(least, 1) and enough else None


def _queue(spans: Sequence[Span]) -> int:
    """Return the shortest queue of the lines in which requests wait."""
    return min((span.sample.waiting or 0 for span in spans if span.waits), default=0)


def time_by_limit(load: Load, limits: Sequence[BottleneckName]) -> dict[BottleneckName, float]:
    """Return the seconds of each limit."""
    seconds: dict[BottleneckName, float] = defaultdict(float)
    for span, limit in zip(load.spans, limits, strict=True):
        seconds[limit] += span.seconds
    return dict(seconds)


def _without_statistics(run: Run) -> Bottleneck:
    if run.seen("stats-disabled-api-servers"):
        return Bottleneck("none-clear", "This release prints no statistics with several API servers")
    if told := _asked(run):
        return Bottleneck("none-clear", told)
    batches = batches_of(run)
    if one_by_one(batches):
        return _of_single_prompts(batches)
    if batches:
        return _of_batches(batches)
    if run.benchmarks:
        lines = tuple(one.evidence[0] for one in run.benchmarks[:3] if one.evidence)
        return Bottleneck("none-clear", "No statistics lines in the log, only benchmark results", lines)
    added = run.seen("request-added")
    if added:
        taken = (run.evidence(added.first[0].record),)
        return Bottleneck(
            "none-clear",
            f"The engine received {added.count:,} requests; the log has no statistics lines that show what limits them",
            taken,
        )
    if run.kind == "offline" and run.startup_complete:
        return Bottleneck(
            "startup-only", "The engine started; offline engines print no statistics by default"
        )
    if run.startup_complete or run.config or run.measured or run.phases:
        return Bottleneck("startup-only", "The log shows a start and no load")
    return Bottleneck("startup-only", "The log shows no load")


def _asked(run: Run) -> str:
    """Return what became of requests to the model; an empty text where only pages and lists were asked for."""
    answers = [status for (method, _, status) in run.accesses if method == "POST"]
    if any(status < 400 for status in answers):
        return "Requests were served; the log has no statistics lines"
    return "No request was answered with success; the log has no statistics lines" if answers else ""


def one_by_one(batches: Sequence[Progress]) -> bool:
    """Whether an offline engine was given its prompts one after the other, each in a call of its own."""
    return len(batches) >= LEAST_CALLS and all(one.total == 1 for one in batches)


def _of_single_prompts(batches: Sequence[Progress]) -> Bottleneck:
    seconds = sum(one.seconds or 0.0 for one in batches)
    took = f" in {minutes(seconds)}" if seconds else ""
    told = f"{len(batches):,} prompts completed{took}, each in its own call: the engine never had two at once"
    return Bottleneck("client-limited", told, (batches[0].evidence, batches[-1].evidence))


def _of_batches(batches: Sequence[Progress]) -> Bottleneck:
    """Tell what the progress bars of an offline engine say; they know prompts and time, not what limits them."""
    done, seconds = sum(one.done for one in batches), sum(one.seconds or 0.0 for one in batches)
    whole = "prompts" if all(one.done == one.total for one in batches) else "prompts of unfinished batches"
    took = f" in {minutes(seconds)}" if seconds else ""
    told = f"{done:,} {whole} completed{took}; the log has no statistics lines that show what limits them"
    ends = (batches[0], batches[-1]) if len(batches) > 1 else batches
    return Bottleneck("none-clear", told, tuple(one.evidence for one in ends))


def _overall(load: Load, limits: Sequence[BottleneckName]) -> BottleneckName:
    if not load.busy_seconds:
        return "idle"
    seconds = time_by_limit(load, limits)
    held = {name: seconds.get(name, 0.0) / load.busy_seconds for name in SERVER_LIMITS}
    # Different limits of the server can take turns: together they make the run the server's, the longest
    # names it.
    if sum(held.values()) >= RUN_SHARE:
        return max(SERVER_LIMITS, key=lambda name: held[name])
    others: tuple[BottleneckName, ...] = (
        "client-limited", "host-limited", "interconnect-limited", "none-clear",
    )  # fmt: skip
    return max(others, key=lambda name: seconds.get(name, 0.0))


_MEANING: dict[BottleneckName, str] = {
    "idle": "No request reached the engine for {span}",
    "client-limited": "No request queued for {span}: the client set the pace",
    "kv-cache-limited": "KV cache full for {span}",
    "max-num-seqs-limited": "All max_num_seqs slots in use for {span}: requests queued while the KV cache had room",
    "prefill-limited": "Requests queued behind prompts (prefill) for {span}, with free slots and KV cache",
    "host-limited": "Steps far slower than reading the weights for {span}: the host (CPU) sets the pace, not the device",
    "interconnect-limited": "Ranks on different nodes waited for the network in every step for {span}",
    "none-clear": "Requests ran for {span} without progress: neither tokens nor KV cache use changed",
}
_BY: dict[BottleneckName, str] = {
    "client-limited": "by the client",
    "kv-cache-limited": "by the KV cache",
    "max-num-seqs-limited": "by max_num_seqs",
    "prefill-limited": "by prefill",
    "host-limited": "by the host",
    "interconnect-limited": "by the network",
    "none-clear": "by no clear cause",
}


def _reason(run: Run, name: BottleneckName, load: Load, limits: Sequence[BottleneckName]) -> str:
    seconds = time_by_limit(load, limits)
    total = load.idle_seconds if name == "idle" else load.busy_seconds
    words = meaning(run, name, load, limits).format(span=_span(seconds.get(name, 0.0), total, name))
    most = max((span.sample.waiting or 0 for span in load.spans), default=0)
    if name == "kv-cache-limited" and most:
        running = max(span.sample.running or 0 for span in load.spans)
        words += f": up to {most:,} requests waited while at most {running:,} ran"
    others = [
        other
        for other in sorted(seconds, key=lambda limit: -seconds[limit])
        if other in _BY and other != name
    ]
    if others:
        words += f". Otherwise limited {' and '.join(f'{_BY[other]} ({minutes(seconds[other])})' for other in others)}"
    return words + (f". Times of {load.engines} engines added up" if load.engines > 1 else "")


def meaning(run: Run, name: BottleneckName, load: Load, limits: Sequence[BottleneckName]) -> str:
    """Return in words what a limit means in a run, with a place for its time."""
    held = [span for span, limit in zip(load.spans, limits, strict=True) if limit == name]
    if name == "none-clear" and any(span.sample.generation > 0 for span in held):
        return "Requests waited for {span} with free slots and KV cache while no prompt was computed: something else admits no more"
    if name == "client-limited" and any(span.waits for span in held):
        return "Almost no request queued for {span}: the client set the pace"
    if name == "prefill-limited" and not any(span.waits for span in held):
        return (
            "Prompts (prefill) took the steps for {span}: running requests got less than one token per second"
        )
    across = run.seen("tensor-parallel-across-nodes") is not None or tensor_ranks_over_sockets(run)
    if name == "interconnect-limited" and not across:
        return f"Slow steps for {{span}} on {ranks_of(run)} ranks, more than most machines have cards: suspect the network between them"
    return _MEANING[name]


def _span(seconds: float, total: float, name: BottleneckName) -> str:
    if not total:
        return minutes(seconds)
    if seconds >= 0.995 * total:
        return f"all {minutes(total)}{'' if name == 'idle' else ' of load'}"
    return f"{minutes(seconds)} of {minutes(total)}{'' if name == 'idle' else ' of load'}"


def _evidence(
    run: Run, load: Load, limits: Sequence[BottleneckName], name: BottleneckName
) -> tuple[Evidence, ...]:
    spans = [span for span, limit in zip(load.spans, limits, strict=True) if limit == name]
    if not spans:
        return ()
    worst = max(
        spans,
        key=lambda span: (span.sample.waiting or 0, span.sample.kv_usage or 0.0, span.sample.running or 0),
    )
    chosen = {span.sample.line: span.sample for span in (worst, spans[0], spans[-1])}
    return tuple(evidence_of_sample(run, sample) for sample in chosen.values())


def _periods(run: Run, load: Load, limits: Sequence[BottleneckName]) -> list[ServingPeriod]:
    """Join neighbours of one limit; a single odd sample between two alike is theirs."""
    calm = smoothed(limits)
    if sum(a != b for a, b in pairwise(calm)) > MOST_PERIODS:
        calm = majority(limits, max(9, 2 * len(limits) // MOST_PERIODS))
    position = 0
    periods: list[ServingPeriod] = []
    for name, alike in groupby(calm):
        end = position + sum(1 for _ in alike)
        periods.append(_period(run, name, load.spans[position:end], limits[position:end]))
        position = end
    return periods


def _mixture(limits: Sequence[BottleneckName]) -> str:
    """Return how the samples of a period divide where they do not agree."""
    counted = Counter(limits).most_common()
    if len(counted) < 2:
        return ""
    return "; samples: " + ", ".join(f"{number:,} {name}" for name, number in counted)


def smoothed(limits: Sequence[BottleneckName]) -> list[BottleneckName]:
    """Return the limits with single samples between two alike taken for those.

    Example:
        >>> smoothed(["idle", "client-limited", "idle"])
        ['idle', 'idle', 'idle']
    """
    out = list(limits)
    for number in range(1, len(out) - 1):
        if out[number - 1] == limits[number + 1]:
            out[number] = out[number - 1]
    return out


def majority(limits: Sequence[BottleneckName], window: int) -> list[BottleneckName]:
    """Return for each sample the limit that holds most often among so many in a row.

    Example:
        >>> majority(["idle", "idle", "client-limited", "idle"], 4)
        ['idle', 'idle', 'idle', 'idle']
    """
    out: list[BottleneckName] = []
    for start in range(0, len(limits), window):
        part = limits[start : start + window]
        out += [max(sorted(set(part)), key=part.count)] * len(part)
    return out


def _period(
    run: Run, name: BottleneckName, spans: Sequence[Span], limits: Sequence[BottleneckName]
) -> ServingPeriod:
    first, last = spans[0].sample, spans[-1].sample
    start = first.time - spans[0].seconds if first.time is not None else None
    running = max(span.sample.running or 0 for span in spans)
    waiting = max(span.sample.waiting or 0 for span in spans)
    usage = max(span.sample.kv_usage or 0.0 for span in spans)
    reason = f"up to {running} running, {waiting} waiting, KV cache {usage:g} %{_mixture(limits)}"
    lines = tuple(
        evidence_of_sample(run, sample) for sample in ((first,) if first is last else (first, last))
    )
    return ServingPeriod(name, start, last.time, len(spans), reason, lines)
