"""What limits each sample of a run.

A statistics line is judged by these rules, the first that holds:

1. idle: nothing runs and nothing waits.
2. Something waits, and the cache has no room: it is at least 90 % full, requests are swapped out (V0), or what is free is
   less than one running request holds on average (with three requests at 28 % each, 84 % is full). V1 prints no
   preemption: this is how it looks.
3. Something waits, the cache has room, and at least 95 % of max_num_seqs run: max_num_seqs
   limits. Where the log does not tell it, a number of running requests at which most of the waiting
   lines stay the same is one, unless the arguments leave max_num_seqs open and no default is so small. So it does
   where 90 % run, beside such a line with as many generated tokens and fewer prompts than those: some have just ended.
   Beside a line of a full cache, one with as many generated tokens and less than half of its prompts is the cache's.
4. Something waits with max_num_seqs slots and cache free, and it is more than one request that has just come: the tokens of a
   step are spent on prompts (prefill). A line in which a queue has just begun is the client's. Where no such line of the
   run shows a prompt, it is something else that admits no more, and nothing is said of it.
5. Nothing waits and the cache is 95 % full or more, in a row of lines of a full cache behind which requests wait, or in a run
   that preempts requests: the cache's. A full cache that holds back no request costs nothing, and limits nothing.
6. Nothing waits: the engine did all that it was given, the client limits. A CPU that makes less than a token
   per second and request is the host's limit, as is a card that makes less than one and a half with a handful
   of requests, or less than two and a half with up to 256 in half of the cache, and no prompts, counted or under
   way: no card reads its own memory so slowly. Tensor parallel ranks on different nodes
   are the interconnect's, and so are more ranks than a machine has cards, where a single stream crawls. Where the log
   prints the sizes of weights and cache, reading them at less than 100 GB/s is too slow for any card as well. Several
   requests that get less than a token per second each while prompts are computed wait inside the batch: prefill; so do those
   that get less than two and a half while 20 prompt tokens are computed for each of theirs.

Lines in which requests are there while neither a token nor the usage of the cache moves for half a minute tell no
limit: the engine made no progress (`rules.stalls`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from typing import Literal

from vllm_logdoctor.rules.capacity.defaults import least_max_num_seqs, slots_in_a_line
from vllm_logdoctor.rules.load import STEADY, Load, Span, have_many_sequences, rate_each
from vllm_logdoctor.rules.placement import (
    CARDS_OF_A_MACHINE,
    SLOWEST_READING,
    Host,
    host_of,
    reading_rate,
)
from vllm_logdoctor.rules.stalls import stalled
from vllm_logdoctor.run.model import Run, Sample

BottleneckName = Literal[
    "idle", "client-limited", "kv-cache-limited", "max-num-seqs-limited", "prefill-limited", "host-limited",
    "interconnect-limited", "startup-only", "failed", "none-clear",
]  # fmt: skip

SERVER_LIMITS: tuple[BottleneckName, ...] = ("kv-cache-limited", "max-num-seqs-limited", "prefill-limited")
FULL_BATCH: tuple[BottleneckName, ...] = ("kv-cache-limited", "max-num-seqs-limited")

KV_FULL = 90.0
"""Percent; where requests were preempted, logs show 92 to 100 at the end of each interval."""
KV_FULL_ALONE = 95.0
"""Percent at which the cache is full in a line without a queue, too."""
KV_LEAST = 50.0
"""Percent below which the cache is not called full, however large a request is."""
SLOTS_TAKEN = 0.95
"""Share of max_num_seqs: asynchronous scheduling shows one or two slots free at any moment."""
SLOTS_ALMOST_TAKEN = 0.9
"""The same in a line beside one at the limit whose tokens are like its own: a few requests have just ended."""
SLOW_CPU = 1.0
"""Tokens per second and request."""
SLOW_CARD = 1.5
"""Tokens per second and request with few requests: a card reads all of its memory two (unified memory) to forty
times a second, and a step reads its weights once."""
SLOW_BATCH = 2.5
"""The same with more requests and half of the cache empty: a step then reads at most the weights and half the cache."""
BLOCK = 16
"""Tokens of a block of the cache, which a request takes whole."""
MOST_OF_BATCH = 256
"""Requests up to which a step of decoding is bound by memory and not by arithmetic."""
SLOW_RANKS = 5.0
"""The same where the ranks are more than a machine has cards: cards of such machines read theirs twelve times."""
STARVED = 1.0
"""Tokens per second and request below which requests of a batch hardly decode: the steps compute prompts."""
MOSTLY_PROMPTS = 20.0
"""Prompt tokens computed for each generated one, from which the prompts are most of the arithmetic of the steps."""
PROMPT_GROWTH = 0.3
"""Per cent of the cache; a few tokens take less in ten seconds, a long prompt that is being computed takes more."""
LEAST_LINES_WITHOUT_PROMPTS = 3
"""Statistics lines from which waiting without any prompt is no prefill: V1 counts a prompt when it is computed to its end."""
BEGINNING = 0.1
"""Share of the prompt tokens/s of the next line below which a queue has just begun: no prompts were computed until then."""
LEAST_LINES_STARVED = 2
LEAST_CROWD = 10
"""Running requests beside which a single one that waits has just come."""
FEW = 4
"""Requests with which a step costs hardly more than reading the weights."""


def limits_of(run: Run, load: Load) -> tuple[BottleneckName, ...]:
    """Return what limits each span of the load."""
    max_num_seqs = slots_in_a_line(run) or apparent_max_num_seqs(load.spans, least_max_num_seqs(run))
    host = host_of(run)
    still = frozenset() if host.on_cpu else stalled(run, load.spans)
    moments = [limit_of(span, max_num_seqs) for span in load.spans]
    if not was_preempted(run, load):
        moments = costly_only(load.spans, moments)
    moments = with_room_just_freed(load.spans, moments, max_num_seqs)
    last: dict[int, Sample] = {}
    limits: list[BottleneckName] = []
    for span, limit in zip(load.spans, moments, strict=True):
        sample = span.sample
        if (sample.file, sample.line) in still:
            limit = "none-clear"
        elif limit == "client-limited":
            limit = limit_without_queue(
                span, host, last.get(sample.engine) or like_the_first(span, load.spans)
            )
        last[sample.engine] = sample
        limits.append(limit)
    return tuple(with_prompts(load.spans, in_one_burst(load.spans, limits)))


def was_preempted(run: Run, load: Load) -> bool:
    """Return whether the log shows preempted requests."""
    return load.preemptions > 0 or run.seen("preempted") is not None


def _places_by_engine(spans: Sequence[Span]) -> Iterable[Sequence[int]]:
    """Return the positions of each engine's spans."""
    places: defaultdict[int, list[int]] = defaultdict(list)
    for number, span in enumerate(spans):
        places[span.sample.engine].append(number)
    return places.values()


def costly_only(spans: Sequence[Span], moments: Sequence[BottleneckName]) -> list[BottleneckName]:
    """Return the limits without a full cache that holds back no request: no line of the row in which it is full shows a queue.

    Example:
        >>> spans = [Span(Sample(0.0, n, 0, 9.0, 9.0, running=9, waiting=w, kv_usage=97.0), 10.0) for n, w in enumerate((0, 0))]
        >>> costly_only(spans, ["kv-cache-limited", "kv-cache-limited"])
        ['client-limited', 'client-limited']
    """
    found = list(moments)
    for places in _places_by_engine(spans):
        for name, row in groupby(places, key=lambda place: moments[place]):
            full = list(row)
            if name == "kv-cache-limited" and not any(spans[place].waits for place in full):
                for place in full:
                    found[place] = "client-limited"
    return found


def with_room_just_freed(
    spans: Sequence[Span], moments: Sequence[BottleneckName], max_num_seqs: int | None
) -> list[BottleneckName]:
    """Return the limits without prefill where requests of a full batch have just ended: the line beside shows its limit and as many
    generated tokens. A few slots are free, and prompts are fewer than those tokens; or the cache has room, and prompts are less than
    half of those in that line: no step was full of them.

    Example:
        >>> lines = [Sample(0.0, n, 0, 800.0, 2600.0, running=r, waiting=40) for n, r in enumerate((64, 60, 59, 57))]
        >>> beside = ["max-num-seqs-limited", *["prefill-limited"] * 3]
        >>> with_room_just_freed([Span(one, 10.0) for one in lines], beside, 64)
        ['max-num-seqs-limited', 'max-num-seqs-limited', 'max-num-seqs-limited', 'prefill-limited']
    """
    found = list(moments)
    for places in _places_by_engine(spans):
        for row in (places, places[::-1]):
            for beside, place in pairwise(row):
                one, other = spans[place].sample, spans[beside].sample
                alike = abs(one.generation - other.generation) <= STEADY * other.generation
                if (found[beside], found[place]) == ("max-num-seqs-limited", "prefill-limited"):
                    freed = alike and _slots_just_freed(one, max_num_seqs or 0)
                elif (moments[beside], found[place]) == ("kv-cache-limited", "prefill-limited"):
                    # With few requests a low rate is that of a long prompt, counted at its end.
                    many = (one.running or 0) >= LEAST_CROWD
                    fewer = 2 * one.prompt <= other.prompt and (alike or one.generation > other.generation)
                    freed = many and fewer
                else:
                    continue
                if freed:
                    found[place] = found[beside]
    return found


def _slots_just_freed(sample: Sample, max_num_seqs: int) -> bool:
    """Return whether a few slots are free, and prompts are not what the steps compute."""
    least = min(SLOTS_ALMOST_TAKEN * max_num_seqs, max_num_seqs - 1)
    return (sample.running or 0) >= least and sample.prompt < sample.generation


def full_without_queue(load: Load) -> tuple[Span, ...]:
    """Return the spans in which the cache was full while no request waited."""
    return tuple(
        span for span in load.busy if not span.waits and (span.sample.kv_usage or 0.0) >= KV_FULL_ALONE
    )


def in_one_burst(spans: Sequence[Span], limits: Sequence[BottleneckName]) -> list[BottleneckName]:
    """Return the limits without prefill in the single line in which a queue begins: its prompts are those of the next line.

    Example:
        >>> queue = [Span(Sample(0.0, n, 0, prompt, 9.0, running=9, waiting=9), 10.0) for n, prompt in enumerate((8.0, 90.0))]
        >>> in_one_burst(queue, ["prefill-limited", "prefill-limited"])
        ['client-limited', 'prefill-limited']
    """
    found = list(limits)
    for places in _places_by_engine(spans):
        for before, place, after in zip([None, *places], places, places[1:], strict=False):
            if limits[place] != "prefill-limited" or not (spans[place].waits and spans[after].waits):
                continue
            begins = before is None or not spans[before].waits
            if begins and 0 < spans[place].sample.prompt < BEGINNING * spans[after].sample.prompt:
                found[place] = "client-limited"
    return found


def like_the_first(first: Span, spans: Sequence[Span]) -> Sample | None:
    """Return the second sample of an engine if it shows the load of the first: that one then was no beginning, but where the log is cut."""
    of_engine = (span.sample for span in spans if span.sample.engine == first.sample.engine)
    next(of_engine, None)
    second = next(of_engine, None)
    if second is None or second.running != first.sample.running:
        return None
    if first.sample.prompt and is_starved(first.sample):
        goes_on = computes_prompts(second, first.sample) and is_starved(second)
        return second if goes_on else None
    if first.sample.prompt or second.prompt:
        return None
    return second if abs(second.generation - first.sample.generation) <= 0.1 * second.generation else None


def with_prompts(spans: Sequence[Span], limits: Sequence[BottleneckName]) -> list[BottleneckName]:
    """Return the limits with prefill among them only where enough lines of the run show it: a prompt behind a queue,
    or more than one line of requests that hardly decode.
    """
    prefill = [span for span, limit in zip(spans, limits, strict=True) if limit == "prefill-limited"]
    queues = sum(span.waits for span in prefill)
    instead: BottleneckName = "prefill-limited"
    counted = any(span.sample.prompt > 0 for span in prefill)
    # V0, whose lines tell swapped requests, counts every part of a prompt.
    parts = any(span.sample.swapped is not None for span in prefill)
    if queues and not counted and (parts or queues >= LEAST_LINES_WITHOUT_PROMPTS):
        instead = "none-clear"
    elif not queues and len(prefill) < LEAST_LINES_STARVED:
        instead = "client-limited"
    elif counted:
        limits = _without_prompts(spans, limits)
    return [instead if limit == "prefill-limited" else limit for limit in limits]


def _without_prompts(spans: Sequence[Span], limits: Sequence[BottleneckName]) -> list[BottleneckName]:
    """Return the limits with none for a queue in a line in which no prompt is computed, nor counted in the next one."""
    found = list(limits)
    again = {id(span) for span in recomputed(spans)}
    before: dict[int, int] = {}
    for number, span in enumerate(spans):
        last = before.get(span.sample.engine)
        before[span.sample.engine] = number
        if last is not None and limits[last] == "prefill-limited" and _counts_late(span.sample):
            found[last] = "prefill-limited"
        if limits[number] != "prefill-limited" or not span.waits:
            continue
        previous = spans[last].sample if last is not None else span.sample
        if not computes_prompts(span.sample, previous) and id(span) not in again:
            found[number] = "none-clear"
    return found


def recomputed(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Return the spans in which prompts of preempted requests are computed again, which V1 does not count: the queue gets shorter
    without a prompt, and the requests that run get less than half of the tokens per second that they got before.

    Example:
        >>> tokens = ((900.0, 9), (90.0, 4))
        >>> lines = [Sample(0.0, n, 0, 0.0, made, running=70, waiting=w, kv_usage=60.0) for n, (made, w) in enumerate(tokens)]
        >>> [span.sample.line for span in recomputed([Span(one, 10.0) for one in lines])]
        [1]
    """
    found: list[Span] = []
    for places in _places_by_engine(spans):
        queue, usual = 0, 0.0
        for place in places:
            sample = spans[place].sample
            waiting, rate = sample.waiting or 0, rate_each(sample)
            counts = sample.prompt > 0 or sample.swapped is not None
            if 0 < waiting < queue and not counts and 2 * rate < usual:
                found.append(spans[place])
            else:
                usual = rate
            queue = waiting
    return tuple(found)


def _counts_late(sample: Sample) -> bool:
    """Return whether a line counts a prompt that was under way in the line before: V0, which tells swapped requests, counts parts."""
    return sample.prompt > 0 and sample.swapped is None


def limit_of(span: Span, max_num_seqs: int | None) -> BottleneckName:
    """Return what of the server limits one sample; `max_num_seqs` is None where it is not known."""
    sample = span.sample
    running, kv = sample.running or 0, sample.kv_usage or 0.0
    if not span.busy:
        return "idle"
    if span.waits:
        # With all slots taken as well, more of them would find no room: a tenth more at most.
        if sample.swapped or cache_is_full(running, kv):
            return "kv-cache-limited"
        if max_num_seqs and running >= SLOTS_TAKEN * max_num_seqs:
            return "max-num-seqs-limited"
        if not running:
            return "none-clear"  # A prompt that is being computed is of a running request.
        return "client-limited" if is_arrival(sample) else "prefill-limited"
    if kv >= KV_FULL_ALONE:
        return "kv-cache-limited"
    return "client-limited"


def is_arrival(sample: Sample) -> bool:
    """Return whether what waits is one request that came since the last step: any server shows that at some moments."""
    return (sample.waiting or 0) <= 1 and not sample.swapped and (sample.running or 0) >= LEAST_CROWD


def has_begun(span: Span) -> bool:
    """Return whether a queue that no limit of the server holds back had just arrived when a line was printed."""
    return span.waits and not is_arrival(span.sample)


def limit_without_queue(span: Span, host: Host, before: Sample | None) -> BottleneckName:
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
    # What the generated tokens take of the cache at most, in per cent.
    tokens = sample.generation * span.seconds + running * BLOCK
    answers = 100 * tokens / host.memory.tokens if host.memory else 0.0
    prompts = computes_prompts(sample, before, answers)
    if prompts and min(running, before.running) > 1 and is_starved(sample):
        return "prefill-limited"
    if prompts:
        return "client-limited"
    if not sample.generation:
        return (
            "none-clear"  # A long prompt, a kernel that compiles, a step that hangs: no step shows its speed.
        )
    if reading_rate(sample, host) < SLOWEST_READING:
        return "host-limited"
    if running > FEW:
        return "host-limited" if is_slower_than_memory(sample) else "client-limited"
    if host.ranks > CARDS_OF_A_MACHINE and sample.generation < SLOW_RANKS * running:
        return "interconnect-limited"
    return "host-limited" if sample.generation < SLOW_CARD * running else "client-limited"


def computes_prompts(sample: Sample, before: Sample, answers: float = 0.0) -> bool:
    """Return whether prompts are computed: counted, or under way; `answers` is what generated tokens add to the cache, in per cent.

    V1 counts a prompt when it is computed to its end; until then only the cache shows it: the prompt takes some, or a
    request gave its own back and another one came, for as many run as before. V0, whose lines tell swapped requests,
    counts every part.

    Example:
        >>> ended = [Sample(0.0, n, 0, 0.0, 0.4, running=1, kv_usage=usage) for n, usage in enumerate((14.7, 2.5))]
        >>> computes_prompts(ended[1], ended[0])
        True
    """
    if sample.prompt > 0 or sample.swapped is not None:
        return sample.prompt > 0
    growth = (sample.kv_usage or 0.0) - (before.kv_usage or 0.0)
    came = bool(sample.running) and (sample.running or 0) >= (before.running or 0)
    return growth > max(PROMPT_GROWTH, answers) or (growth < -PROMPT_GROWTH and came)


def is_starved(sample: Sample) -> bool:
    """Return whether the requests of a batch hardly decode beside prompts; a little more do where prompts are most of the work.

    Example:
        >>> is_starved(Sample(0.0, 1, 0, 1487.0, 7.0, running=4)), is_starved(Sample(0.0, 1, 0, 100.0, 7.0, running=4))
        (True, False)
    """
    slowest = SLOW_BATCH if sample.prompt >= MOSTLY_PROMPTS * sample.generation else STARVED
    return sample.generation < slowest * (sample.running or 0)


def is_slower_than_memory(sample: Sample) -> bool:
    """Return whether requests of a batch without prompts are slower than any card reads its memory.

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
    """Return whether the cache has no room for one more request of the size of those that run.

    Example:
        >>> cache_is_full(100, 91.0), cache_is_full(3, 84.0), cache_is_full(100, 84.0)
        (True, True, False)
    """
    if usage >= KV_FULL:
        return True
    return bool(running) and usage >= KV_LEAST and 100.0 - usage < usage / running


def apparent_max_num_seqs(spans: Sequence[Span], least: int) -> int | None:
    """Return the number of running requests, `least` or more, at which waiting lines stay the same, or None where there
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


def mostly_queue(spans: Sequence[Span]) -> bool:
    """Return whether requests wait in at least half of some statistics lines."""
    return 2 * sum(span.waits for span in spans) >= len(spans)


def slots_may_be_taken(run: Run, load: Load, held: Sequence[Span]) -> bool:
    """Return whether max_num_seqs, which the log does not tell, may hold back a queue: with less of it no line shows more running."""
    queued = [span for span in held if span.waits] if mostly_queue(held) and not slots_in_a_line(run) else []
    at_most = sum((span.sample.running or 0) >= SLOTS_TAKEN * load.peak_running for span in queued)
    return bool(queued) and 2 * at_most >= len(queued)


def why_room_is_left(spans: Sequence[Span], *, probable: bool) -> str:
    """Return in words why requests wait for a cache that is not full, with a place for the time."""
    if have_many_sequences(spans):
        return (
            "Requests waited {span} although the KV cache was not full, probably because the many sequences of each running"
            " request (n, best_of or beam search) took all max_num_seqs slots"
        )
    if probable:
        return (
            "Requests waited {span} although the KV cache was not full: its free part was too small for the next one, or max_num_seqs,"
            " which is not in the log, was reached"
        )
    return "The free part of the KV cache was too small for the next request {span}"
