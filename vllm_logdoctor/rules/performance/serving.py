"""Rules on the load: what a server that is too full, or not full at all, needs."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from vllm_logdoctor.rules.capacity.ceiling import distance
from vllm_logdoctor.rules.capacity.defaults import (
    engines_in_a_line,
    max_num_seqs_of,
    slots_in_a_line,
    step_tokens_of,
)
from vllm_logdoctor.rules.context import (
    RuleContext,
    action,
    flag,
    plural,
    rounded,
    sample_lines,
    setting_lines,
)
from vllm_logdoctor.rules.forecast import Limits, forecast
from vllm_logdoctor.rules.limits import (
    FEW,
    KV_FULL,
    KV_FULL_ALONE,
    MOSTLY_PROMPTS,
    SLOTS_TAKEN,
    STARVED,
    BottleneckName,
    full_without_queue,
    has_begun,
)
from vllm_logdoctor.rules.load import (
    STEADY,
    Load,
    Span,
    agreed_on,
    full_of,
    weighted_median,
)
from vllm_logdoctor.rules.model import Change, Effect
from vllm_logdoctor.rules.offline import one_by_one
from vllm_logdoctor.rules.one_batch import is_one_batch
from vllm_logdoctor.rules.performance.drafters import drafter_words, family_of
from vllm_logdoctor.rules.performance.order import CLIENTS_OWN
from vllm_logdoctor.rules.performance.published import (
    CLIENT_DOUBLED,
    MAX_NUM_SEQS_FROM_ONE,
    MAX_NUM_SEQS_RAISED,
)
from vllm_logdoctor.rules.performance.steps import slow_steps
from vllm_logdoctor.rules.placement import runs_on_cpu
from vllm_logdoctor.rules.rule import Advice, Rule
from vllm_logdoctor.rules.tasks import pools
from vllm_logdoctor.run.clock import duration
from vllm_logdoctor.run.metrics import offline_batches
from vllm_logdoctor.run.model import Progress, Sample

# A limit of the server is reported when it held for this share of the busy time, or when the queue behind it was long; and
# only when it explains a fair part of the waiting: a batch that is offered all at once waits for everything.
LEAST_SHARE = 0.05
LONG_QUEUE = 8
LEAST_OF_WAITING = 1 / 3
# Requests wait for a prefill now and then on any server; below this share of the busy time it is no limit.
LEAST_PREFILL_SHARE = 0.15
# Per cent of the cache from which it is what bounds the advised max_num_seqs.
NEARLY_FILLED = 80.0
# The default of large cards; more was measured nowhere. A tenth more requests is no change worth a restart.
MOST_RUNNING = 1024
LEAST_GROWTH = 1.1
# A tenth more requests is nothing that a client is changed for.
LEAST_ROOM = 1.1
# Share of the client's time from which steps that compute prompts leave nothing for more requests at once.
MOST_PROMPTS = 0.4
# Statistics lines behind each judgement: one line is a moment, not a load.
LEAST_LINES = 2
# Share of the time between the first and the last line below which a single client hardly uses the server.
SELDOM_BUSY = 1 / 3
# Share of the time in which close to the most requests run, from which their number is that of a limit.
MOST_OF_THE_TIME = 0.8
# Prompt tokens per second from which a step's time goes into prompts, at the same rate for one or for many.
MANY_PROMPT_TOKENS = 1000


_OF_A_BENCHMARK = (
    " The requests come from a benchmark in this log, whose rate or number of requests at once sets the pace: a higher"
    " one would show where the server's limit is."
)


NO_ROOM_FOR_MORE = "max_num_seqs reached, and the KV cache holds hardly more requests"
FEW_LINES = "Few statistics lines, and no queue in them"
_CHECK_CLIENT = (
    " Check the client: a thread or connection pool, a concurrency limit or steps that wait for each other may hold"
    " requests back, or it has no more to send."
)
_CONSTANT = (
    " The number of running requests hardly changes: check the client's concurrency limit, or its thread or connection"
    " pool."
)
_ONE_BY_ONE = " Check the client: it probably sends one request after the other."


def client_concurrency_bound(case: RuleContext) -> Advice | None:
    """Nothing waits: the engine does all that it is given. Needs statistics lines with requests running."""
    load = case.load
    if one_by_one(batches := offline_batches(case.run)):
        return _prompts_one_by_one(case, batches)
    run = case.run
    if case.bottleneck.name not in ("client-limited", "idle") or not load.peak_running or significant(case):
        return None
    if run.kind == "offline":
        return None  # It has the prompts that its program passes: whether there are more, no line tells.
    max_num_seqs = slots_in_a_line(run)
    calm = [span for span in case.spans("client-limited") if not has_begun(span)]
    held = [span for span in calm if span.sample.running]
    if len(held) < LEAST_LINES:
        return None
    most = max(span.sample.running or 0 for span in held)
    if max_num_seqs and most >= SLOTS_TAKEN * max_num_seqs:
        return None
    spare = (
        f"{max_num_seqs - most:,} of {max_num_seqs:,} max_num_seqs slots free and "
        if max_num_seqs and max_num_seqs > most
        else ""
    )
    room = floor_percent(100 - load.peak_kv)
    free = f"{spare}{f'at least {room} %' if load.peak_kv else 'nearly all'} of the KV cache free"
    whole = {id(sample) for sample in full_of(run.samples)}
    spans = [span for span in load.busy if id(span.sample) in whole] or load.busy
    median = weighted_median(spans, lambda sample: float(sample.running or 0))
    usual = (
        f"{median:,g} request{'' if median == 1 else 's'} at once in the median (at most {most:,})"
        if 1 <= median < most
        else f"at most {plural(most, 'request')} at once"
    )
    waited = max(span.sample.waiting or 0 for span in held)
    queue = f"at most {plural(waited, 'request')} waited" if waited else "no request waited"
    shown = (*sample_lines(case, held, most_requests_first), *setting_lines(case, "max_num_seqs"))
    if load.is_short:
        extent = load.extent_of([span for span in load.busy if not span.waits]).capitalize()
        text = f"{extent} {queue}: vLLM ran {usual}."
        text += "" if agreed_on(load) else " That is too little to say what limits this load."
        return Advice(text, shown, confidence="medium", title=FEW_LINES)
    pace = "" if load.lines_of(calm) == load.lines else "the client set the pace and "
    text = f"{load.extent_of(calm).capitalize()} {pace}{queue}: vLLM ran {usual} and had {free}."
    growth = room_to_grow(load.peak_kv, most, max_num_seqs)
    useless = _why_no_more_requests(case, held)
    near = _near_the_limit(most, growth, max_num_seqs, load.peak_kv)
    text += useless or f"{_words_on_client(load, most)}{near}"
    return Advice(
        text + distance(run, load),
        shown,
        confidence="high" if len(held) > LEAST_LINES else "medium",
        changes=() if useless else _more_requests(case, growth),
        effect=None if useless else _client_effect(growth),
        alternatives=drafter_words(run) if _wants_a_drafter(case) else (),
        avoid="Raising --max-num-seqs or --gpu-memory-utilization: no request waits for either.",
        verify=(
            "`Running: N reqs` rises when the client sends more at once; `Waiting` above 0 would show that the server"
            " became the limit."
        ),
    )


def _why_no_more_requests(case: RuleContext, held: Sequence[Span]) -> str:
    """Return why this load does not show that more requests at once would help; an empty text where it does."""
    if case.run.load_commands or case.run.benchmarks:
        return _OF_A_BENCHMARK
    if is_one_batch(case.run):
        return " No more requests were answered than ran at the same time: the client sent all of them at once and had no more to send."
    if pools(case.run) or runs_on_cpu(case.run):
        return ""
    if slow_steps(case):
        return (
            " Each request gets tokens far more slowly than the memory bandwidth of any card allows: find the cause first;"
            " more requests would only hide it."
        )
    if case.load.missing_seconds > case.load.busy_seconds:
        return (
            f" For {duration(case.load.missing_seconds)} more the log has no statistics lines although it has some before and after: what ran then"
            " is not in the log."
        )
    between = _seconds_between(case.load) - case.load.missing_seconds - case.load.computing_seconds
    if case.load.peak_running <= 1 and case.load.busy_seconds < SELDOM_BUSY * between:
        return (
            f" One request ran at a time, and the statistics lines show requests in only {duration(case.load.busy_seconds)} of"
            f" {duration(between)}."
        )
    prompt, generation = case.load.prompt, case.load.generation
    if prompt > max(MANY_PROMPT_TOKENS, MOSTLY_PROMPTS * generation):
        return (
            f" Prompts are most of the work ({rounded(prompt)} prompt tokens/s, {rounded(generation)} generated): they are"
            " computed at about the same rate one by one or together, so more requests at once gain little."
        )
    unprinted = case.load.computing_seconds
    computing = sum(span.seconds for span in held if computes_prompts_alone(span)) + unprinted
    share = computing / (sum(span.seconds for span in held) + unprinted)
    if share < MOST_PROMPTS:
        return ""
    return (
        f" In {100 * share:.0f} % of the time with requests the steps computed prompts and generated almost no tokens: compute limits"
        " them, and more requests at once would only share it. Shorter prompts or cached prefixes shorten this time."
    )


def _seconds_between(load: Load) -> float:
    """Return the seconds from the first to the last statistics line; 0 where their clock is not known."""
    clocks = [span.sample.time for span in load.spans if span.sample.time is not None]
    return max(clocks) - min(clocks) if clocks else 0.0


def computes_prompts_alone(span: Span) -> bool:
    """Return whether the requests of a line got next to no tokens: a long prompt, counted or under way, took its steps."""
    sample = span.sample
    return sample.generation < STARVED * max(sample.running or 0, 1)


def _wants_a_drafter(case: RuleContext) -> bool:
    """Return whether the speed of single answers is asked for, and few of them run: then drafts can pay."""
    few = 0 < case.load.running <= FEW and case.run.platform in ("cuda", "rocm")
    return few and (case.objective == "latency" or family_of(case.run) is not None)


def _words_on_client(load: Load, most: int) -> str:
    if most == 1:
        return _ONE_BY_ONE
    return _CONSTANT if _is_constant(load, most) else _CHECK_CLIENT


def _is_constant(load: Load, most: int) -> bool:
    """Return whether close to the most requests, and several, ran most of the time."""
    close = [span for span in load.busy if (span.sample.running or 0) >= (1 - STEADY / 2) * most]
    return most > 1 and load.share_of(close) >= MOST_OF_THE_TIME


def _near_the_limit(most: int, growth: float, max_num_seqs: int | None, usage: float) -> str:
    if growth >= 2:
        return ""
    slots = max_num_seqs and max_num_seqs / most <= growth
    scarce = "max_num_seqs" if slots else "cache"
    left = (
        f"hardly any {scarce} for more"
        if growth < LEAST_ROOM
        else f"{scarce} for {growth:.2g} times as many requests"
    )
    at = f"{most:,} of {max_num_seqs:,} slots of max_num_seqs" if slots else f"{usage:g} % of the cache"
    return f" The server is not far from its own limit either: at most {at} were taken, which leaves {left}."


def _prompts_one_by_one(case: RuleContext, batches: Sequence[Progress]) -> Advice:
    from statistics import median

    rates = [one.output for one in batches if one.output]
    text = (
        f"{len(batches):,} calls of the offline engine had one prompt each, so that it never ran two at once"
        + (f" ({rounded(median(rates))} generated tokens/s in the median)." if rates else ".")
        + " A step with many prompts takes hardly longer than a step with one: pass all prompts in one call."
    )
    return Advice(
        text,
        (batches[0].evidence, batches[-1].evidence),
        confidence="high",
        severity="medium",
        changes=(action("call generate() or chat() once with all prompts in one list", before=1),),
        alternatives=("the asynchronous engine or a server, where prompts come one after the other",),
        avoid="Settings of capacity (max_num_seqs, gpu_memory_utilization): one prompt at a time needs none.",
        verify="`Processed prompts` counts to the number of all prompts in one bar, and its output tokens/s rises.",
    )


def room_to_grow(usage: float, running: int, max_num_seqs: int | None) -> float:
    """Return by how much the number of requests can grow before the cache or max_num_seqs is used up.

    Example:
        >>> room_to_grow(9.0, 8, 256), room_to_grow(60.0, 100, 120)
        (10.0, 1.2)
    """
    cache = KV_FULL / usage if usage > 0 else MOST_RUNNING
    return min(cache, max_num_seqs / running if max_num_seqs and running else cache)


def _more_requests(case: RuleContext, growth: float) -> tuple[Change, ...]:
    if growth < LEAST_ROOM:
        return ()
    # The published gain is that of twice the requests.
    words = f"send {'twice as many' if growth >= 2 else 'more'} requests at once from the client"
    # A client at a limit of its own sends the next request as soon as one ends: it has more.
    words += "" if _is_constant(case.load, case.load.peak_running) else ", if it has more to send"
    return (action(words, before=round(case.load.running) or 1),)


def _client_effect(growth: float) -> Effect | None:
    """The measured range of twice the requests, bounded by what cache and max_num_seqs allow."""
    if growth < LEAST_ROOM:
        return None
    note = "each single request gets slower"
    if growth < 2:
        note += f"; cache and max_num_seqs allow {growth:.2g} times"
    effect = CLIENT_DOUBLED.effect("generation_throughput", note)
    return replace(effect, low=min(effect.low, growth), high=min(effect.high, growth))


def scheduler_limit_not_memory(case: RuleContext) -> Advice | None:
    """All max_num_seqs slots are taken while the cache has room.

    Needs statistics lines with the max_num_seqs taken and requests waiting.
    """
    held = case.spans("max-num-seqs-limited")
    if not held or not held_long(case, "max-num-seqs-limited"):
        return None
    known = max_num_seqs_of(case.run)
    max_num_seqs = known or max(span.sample.running or 0 for span in held)
    waiting = max(span.sample.waiting or 0 for span in held)
    engines = engines_in_a_line(case.run)
    queue = -(-waiting // engines)
    usage = max(span.sample.kv_usage or 0.0 for span in held)
    target = max_num_seqs_wanted(max_num_seqs, queue, usage, step_tokens_of(case.run))
    raised = f"`Running: N reqs` goes above {max_num_seqs:,} and " if target else ""
    text = (
        f"{case.load.extent_of(held).capitalize()} "
        + (
            _slots_taken(min(span.sample.running or 0 for span in held), max_num_seqs, engines)
            if known
            else f"exactly {max_num_seqs:,} requests ran"
        )
        + f" and up to {plural(waiting, 'request')} waited, while at most {usage:g} % of the KV cache was used."
    )
    if not known:
        text += (
            " max_num_seqs is not in the log; a constant number of running requests suggests it. If the real value is higher,"
            " something else limits the batch (with LoRA the number of adapters, --max-loras)."
        )
    if target is None:
        text += " The KV cache has room for hardly more such requests: a larger max_num_seqs would fill it."
    elif (filled := usage * target / max_num_seqs) > NEARLY_FILLED:
        text += f" {target:,} requests{' of each engine' if engines > 1 else ''} would fill about {filled:.0f} % of the KV cache."
    return Advice(
        text,
        (*sample_lines(case, held), *setting_lines(case, "max_num_seqs")),
        # A constant number of running requests makes a setting probable that the log does not show.
        confidence="high" if known is not None and case.asked_for("max_num_seqs") else "medium",
        severity="medium" if case.is_brief("max-num-seqs-limited") else None,
        changes=_max_num_seqs_change(case, max_num_seqs, target),
        effect=_max_num_seqs_effect(case, max_num_seqs, target, queue) if target is not None else None,
        alternatives=("a second replica, if each stream must stay as fast as it is",),
        title="" if target else NO_ROOM_FOR_MORE,
        verify=f"{raised}`Waiting` falls at the same load.",
    )


def _slots_taken(least: int, max_num_seqs: int, engines: int) -> str:
    """Return how many slots were taken: a step between two requests leaves a few of many free."""
    slots = (
        f"{plural(max_num_seqs, 'max_num_seqs slot')}{f' of each of {engines} ranks' if engines > 1 else ''}"
    )
    if least >= max_num_seqs * engines == 1:
        return f"the only {slots[2:]} was taken"
    if least >= max_num_seqs * engines:
        return f"all {slots} were taken"
    return f"at least {least:,} of the {slots} were taken"


def _max_num_seqs_change(case: RuleContext, max_num_seqs: int, target: int | None) -> tuple[Change, ...]:
    if target is None:
        return ()
    note = "each stream gets slower as more run at once"
    return flag(case, "--max-num-seqs", max_num_seqs, target, "needs-test", note)


def _max_num_seqs_effect(case: RuleContext, max_num_seqs: int, target: int, queue: int) -> Effect:
    """What more requests at once bring: by the run's own levels, else the measured range bounded by the queue."""
    measured = MAX_NUM_SEQS_FROM_ONE if max_num_seqs == 1 else MAX_NUM_SEQS_RAISED
    demand, engines = (max_num_seqs + queue) / max_num_seqs, engines_in_a_line(case.run)
    now, then = Limits(engines * max_num_seqs), Limits(engines * target)
    found = forecast(case.run, case.load, case.limits, now, then)
    if found is not None and found.measured:
        basis = (
            f"{found.running[0]:.0f} -> {found.running[1]:.0f} requests at once by this run's own throughput at other"
            " numbers of requests"
        )
        low, high = round(found.low, 3), round(found.high, 3)
        return Effect("generation_throughput", low, high, "computed", basis, found.share, found.next_limit)
    effect = measured.effect("generation_throughput")
    share = found.share if found else case.share("max-num-seqs-limited")
    return replace(
        effect,
        low=min(effect.low, demand),
        high=min(effect.high, demand),
        share=share,
        next_limit=found.next_limit if found else "",
    )


def held_long(case: RuleContext, limit: BottleneckName) -> bool:
    """Return whether a limit of the server held long enough, or held back enough requests, to be worth a change."""
    spans = case.spans(limit)
    if not spans:
        return False
    waits = sum(span.seconds for span in case.load.busy if span.waits)
    explained = sum(span.seconds for span in spans if span.waits)
    if waits and explained < LEAST_OF_WAITING * waits:
        return False
    if max(span.sample.waiting or 0 for span in spans) >= LONG_QUEUE and len(spans) >= LEAST_LINES:
        return True
    nearly_full = (
        limit == "kv-cache-limited" and max(span.sample.kv_usage or 0.0 for span in spans) >= KV_FULL_ALONE
    )
    return case.share(limit) >= LEAST_SHARE and (len(spans) >= LEAST_LINES or nearly_full)


def significant(case: RuleContext) -> bool:
    """Return whether any limit of the server is worth a change, or the cache is full so that the next request meets one."""
    return (
        held_long(case, "kv-cache-limited")
        or is_full_alone(case)
        or held_long(case, "max-num-seqs-limited")
        or (case.share("prefill-limited") >= LEAST_PREFILL_SHARE)
    )


def is_full_alone(case: RuleContext) -> bool:
    """Return whether the cache was full without a queue in a share of the load that is worth a word."""
    full = full_without_queue(case.load)
    return bool(full) and case.load.share_of(full) >= LEAST_SHARE


def max_num_seqs_wanted(
    max_num_seqs: int, waiting: int, usage: float, tokens: int | None = None
) -> int | None:
    """Return the max_num_seqs that takes the queue, as far as cache and step allow; None where they allow no more.

    Example:
        >>> max_num_seqs_wanted(64, 32, 10.0), max_num_seqs_wanted(1, 19, 0.9), max_num_seqs_wanted(64, 60, 60.0)
        (128, 32, 96)
        >>> max_num_seqs_wanted(64, 60, 88.0) is None
        True
    """
    wanted = 1
    while wanted < max_num_seqs + waiting and wanted < MOST_RUNNING:
        wanted *= 2
    room = int(max_num_seqs * 90 / usage) if usage > 0 else wanted
    # vLLM refuses a max_num_seqs above the tokens of a step.
    found = min(wanted, room - room % 8 if room >= 16 else room, tokens or wanted)
    return found if found >= LEAST_GROWTH * max_num_seqs else None


def floor_percent(share: float) -> str:
    """Return per cent rounded down, so that "at least" stays true.

    Example:
        >>> floor_percent(98.4), floor_percent(99.97)
        ('98', '99.9')
    """
    return f"{int(share * 10) / 10:g}" if share >= 99 else f"{int(share)}"


def most_requests_first(sample: Sample) -> tuple[float, ...]:
    """Order samples by the requests that ran, then by what they held: the line that shows what the client sent at most."""
    return (sample.running or 0, sample.kv_usage or 0.0)


RULES = (
    Rule(
        "scheduler-limit-not-memory",
        scheduler_limit_not_memory,
        objectives=("throughput",),
        removes="max-num-seqs-limited",
    ),
    Rule(
        "client-concurrency-bound",
        client_concurrency_bound,
        objectives=("throughput",),
        worth=lambda case, worth: CLIENTS_OWN / 2 if case.load.is_short else CLIENTS_OWN,
    ),
)
