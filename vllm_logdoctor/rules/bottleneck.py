"""What limits a run as a whole, from a closed list, and per serving period.

For the run as a whole, time counts: a limit of the server that holds for at least a fifth of the busy time
is the run's. Below that the client is the limit, however hard the short rush was; the periods keep it
visible.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby, islice, pairwise

from msgspec import Struct

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.rules.capacity.defaults import max_num_seqs_of, slots_in_a_line
from vllm_logdoctor.rules.intervals import majority, smoothed, time_by_limit
from vllm_logdoctor.rules.limits import (
    KV_FULL,
    KV_FULL_ALONE,
    SERVER_LIMITS,
    SLOTS_TAKEN,
    BottleneckName,
    has_begun,
    limits_of,
    mostly_queue,
    slots_may_be_taken,
    why_room_is_left,
)
from vllm_logdoctor.rules.load import (
    Load,
    Span,
    agreed_on,
    at_most_at_once,
    evidence_of_sample,
    load_of,
    queue_first,
    rate_each,
)  # fmt: skip
from vllm_logdoctor.rules.offline import completed, one_by_one, printed_answers
from vllm_logdoctor.rules.placement import joined_by_network, ranks_of
from vllm_logdoctor.rules.stalls import silence_behind
from vllm_logdoctor.run.clock import duration, stamp_of_library
from vllm_logdoctor.run.lifecycle import OWN_SHUTDOWN, trail_of
from vllm_logdoctor.run.metrics import offline_batches
from vllm_logdoctor.run.minutes import is_probe
from vllm_logdoctor.run.model import Evidence, Run
from vllm_logdoctor.run.omissions import last_omission
from vllm_logdoctor.run.other_programs import OWN_ERROR, FailedCheck, failed_check
from vllm_logdoctor.run.termination import stops_in

RUN_SHARE = 0.20
"""Share of the busy time from which a limit of the server is the run's."""
MOST_PERIODS = 60
"""A load that changes its limit more often is reported in equal pieces, each by the limit that holds most often."""
ONE_FAILED = "The only answered request to the model failed"

_LONGEST_ERROR = 160
_AT_ONCE = 2.0  # Seconds between the end of a start and a clean shutdown, too few for any work.
# FileNotFoundError: [Errno 2] No such file or directory: '/.cache'      A line of a traceback is indented, or code.
_STATES_ERROR = lazy_pattern(r"(?i)(?!traceback)(?=\w).*(?:error|fail|exception)")
RECEIVED_SIGTERM = "The process received SIGTERM"
_IGNORED = "Exception ignored in: <function"
_LAST_SIGNS = {
    "*** SIGTERM received at": RECEIVED_SIGTERM,
    _IGNORED: "Python ignored an exception in a destructor, which is harmless; no other error is in the log",
}
"""What a piece of a log says of an orderly end."""


class ServingPeriod(Struct, frozen=True):
    """Neighbouring samples with one limit: seconds on the run's clock, how many samples, what limits."""

    name: BottleneckName
    start: float | None
    end: float | None
    samples: int
    reason: str
    evidence: tuple[Evidence, ...]


class Bottleneck(Struct, frozen=True):
    """What limits the run as a whole, weighted by time, and per period."""

    name: BottleneckName
    reason: str
    evidence: tuple[Evidence, ...] = ()
    periods: tuple[ServingPeriod, ...] = ()


def bottleneck_of(run: Run, load: Load | None = None) -> Bottleneck:
    """Return what limits a run.

    Returns:
        the limit with its reason and lines; "failed" where it never served, "startup-only" where no
        statistics follow.
    """
    load = load or load_of(run)
    torn = run.outcome == "unknown" and run.tracebacks and not run.startup_complete and not load.spans
    if (
        run.outcome == "crashed_at_startup"
        or torn
        or (run.outcome == "crashed_while_serving" and not load.busy)
    ):
        words = "The log shows only tracebacks" if torn else "The run failed before it served a request"
        return Bottleneck("failed", words)
    if not load.spans:
        return _without_statistics(run)
    limits = limits_of(run, load)
    seconds = time_by_limit(load.spans, limits)
    if (silence := silence_behind(run, load.spans)) is not None:
        seconds["none-clear"] = seconds.get("none-clear", 0.0) + silence.seconds
    name = _overall(load, seconds)
    reason, lines = _reason(run, name, load, limits), _evidence(run, load, limits, name)
    return Bottleneck(name, reason, lines, tuple(_periods(run, load, limits)))


def _without_statistics(run: Run) -> Bottleneck:
    if run.seen("stats-disabled-api-servers"):
        return Bottleneck("none-clear", "This release prints no statistics with several API servers")
    if reason := _asked(run):
        return Bottleneck("none-clear", reason)
    batches = offline_batches(run)
    if batches:
        return Bottleneck("client-limited" if one_by_one(batches) else "none-clear", *completed(run, batches))
    if run.kind != "server" and (answers := printed_answers(run)) is not None:
        return _of_answers(run, *answers)
    if run.benchmarks:
        lines = tuple(one.evidence[0] for one in run.benchmarks if one.evidence)
        return Bottleneck("none-clear", "No statistics lines in the log, only benchmark results", lines)
    added = run.seen("request-added")
    if added:
        taken = (run.evidence(added.first[0].record),)
        return Bottleneck(
            "none-clear",
            f"The engine received {added.count:,} requests; the log has no statistics lines that show a limit",
            taken,
        )
    if run.speculation or run.transfers:
        proof = (run.speculation or run.transfers)[0].evidence
        return Bottleneck("none-clear", "The log has no statistics lines that show a limit", (proof,))
    if run.kind == "offline" and run.startup_complete:
        return _of_idle_engine(run)
    if (stopped := _stopped_without_request(run)) is not None:
        return stopped
    if run.startup_complete or run.config or run.measured or run.phases:
        part = "the" if run.startup_complete else "a part of the"
        if (mark := last_omission(run)) is not None:
            words = f"The log shows {part} start-up; whoever copied it left out what follows"
            return Bottleneck("startup-only", words, (run.evidence(mark),))
        return Bottleneck("startup-only", f"The log shows {part} start-up and no load")
    for record in trail_of(run):
        words = next((words for text, words in _LAST_SIGNS.items() if text in record.message[:120]), "")
        if words:
            return Bottleneck("startup-only", words, (run.evidence(record),))
    if (failed := failed_check(trail_of(run))) is not None and run.kind == "test":
        return _of_failed_check(run, failed)
    errors = list(filter(_is_own_error, trail_of(run)))
    if errors:
        said = errors[0]
        # A logger says what it could not do before the exception.
        logged = [one for one in errors[:2] if one.call_site == said.call_site and one.level]
        texts = [one.message.strip().rstrip(".") for one in logged] or [said.message]
        text = OWN_ERROR.sub("", ": ".join(texts)).strip()
        words = f"The log shows no load, and this error: {text[:_LONGEST_ERROR]}"
        return Bottleneck("startup-only", words, (run.evidence(said),))
    if (slept := _of_sleep(run)) is not None:
        return slept
    shown = "neither statistics lines nor requests"
    if requests := run.seen("request-received"):
        shown = (
            f"{requests.count:,} received request{'s' if requests.count > 1 else ''} and no statistics lines"
        )
    return Bottleneck("startup-only", f"The log has {shown}")


def _of_sleep(run: Run) -> Bottleneck | None:
    """Return what the first sleep in the log freed; None for a log without one."""
    slept = run.seen("sleep-mode-freed")
    if slept is None:
        return None
    event = slept.first[0]
    freed, used = (float(str(event.fields[name])) for name in ("freed", "used"))
    words = f"Sleep mode freed {freed:.3g} GiB of the card, {used:.3g} GiB stayed in use"
    return Bottleneck("startup-only", f"{words}; the log shows no load", (run.evidence(event.record),))


def _of_answers(run: Run, words: str, lines: tuple[Evidence, ...]) -> Bottleneck:
    """Return what a program printed, and that Python ignored an exception behind it."""
    ignored = next((one for one in trail_of(run) if one.message.startswith(_IGNORED)), None)
    if ignored is None:
        return Bottleneck("none-clear", words, lines)
    return Bottleneck("none-clear", f"{words}. {_LAST_SIGNS[_IGNORED]}", (*lines, run.evidence(ignored)))


def _of_idle_engine(run: Run) -> Bottleneck:
    """Return how long the start of an offline engine took whose work vLLM's lines do not show."""
    ready = f"was ready after {duration(run.startup_seconds)}" if run.startup_seconds else "started"
    unknown = "; vLLM's lines do not show what it computed"
    at_once = _ended_at_once(run)
    after = f" and was shut down within {_AT_ONCE:.0f} s" if at_once else unknown
    stops = (one for one in trail_of(run) if at_once and OWN_SHUTDOWN.search(one.message))
    starts_and_stops = [
        *(run.startup.evidence[:1] if run.startup else ()),
        *map(run.evidence, islice(stops, 1)),
    ]
    return Bottleneck("startup-only", f"The engine {ready}{after}", tuple(starts_and_stops))


def _stopped_without_request(run: Run) -> Bottleneck | None:
    """Return how long a server was up that was shut down and served nothing; None where its log does not show that."""
    spans = [phase for phase in run.phases if phase.name in ("serving", "shutdown")]
    up = next((phase for phase in spans if phase.name == "serving"), None)
    if up is None or run.kind != "server" or run.outcome != "clean_shutdown" or not run.startup_seconds:
        return None
    words = (
        f"The server was ready after {duration(run.startup_seconds)} and was shut down {duration(up.seconds)} later;"
        " the log shows no request to the model"
    )
    shown = [line for phase in spans for line in phase.evidence[:1]]
    if len(spans) == 1:
        ready = shown[-1].line if shown else 0
        stops = (stop.record for stop in stops_in(trail_of(run)) if stop.record.line > ready)
        shown += [run.evidence(record) for record in islice(stops, 1)]
    return Bottleneck("startup-only", words, tuple(shown))


def _ended_at_once(run: Run) -> bool:
    """Return whether a run was shut down right behind its start; what a program prints between has no time, and neither has its end."""
    ready = run.startup.end if run.startup is not None and run.outcome == "clean_shutdown" else None
    soon = ready is not None and run.ended is not None and run.ended - ready <= _AT_ONCE
    ends = (one for one in trail_of(run) if one.time is not None or stamp_of_library(one) is not None)
    return soon and any(OWN_SHUTDOWN.search(one.message) for one in ends)


def _of_failed_check(run: Run, failed: FailedCheck) -> Bottleneck:
    """Return which check of a test failed, and with which error."""
    said = next(one for one in trail_of(run) if OWN_ERROR.match(one.text[:80]))
    error = OWN_ERROR.sub("", said.text).strip()[:_LONGEST_ERROR].replace("`", "'")
    test = f"`{failed.test}`" if failed.test else "A test"
    at = (
        "" if not failed.statement else " at `{}`".format(failed.statement[:_LONGEST_ERROR].replace("`", "'"))
    )
    lines = tuple(run.evidence(one) for one in dict.fromkeys((failed.record, said)))
    return Bottleneck("startup-only", f"{test} failed{at}: `{error}`", lines)


def _is_own_error(record: Record) -> bool:
    """Return whether pytest or a logger states an error in a line: E   AssertionError: ..."""
    logged = record.level in ("ERROR", "CRITICAL") and _STATES_ERROR.match(record.message[:200])
    return bool(logged) or OWN_ERROR.match(record.text[:80]) is not None


def _asked(run: Run) -> str:
    """Return what became of requests to the model; an empty text where only pages and lists were asked for."""
    if no_request_succeeded(run):
        return "No request succeeded" if sum(posted(run).values()) > 1 else ONE_FAILED
    return "Requests were served; the log has no statistics lines" if posted(run) else ""


def posted(run: Run) -> dict[int, int]:
    """Return how many requests to the model were answered, by status."""
    found: Counter[int] = Counter()
    for (method, path, status), count in run.accesses.items():
        if method == "POST" and not is_probe(method, path):
            found[status] += count
    return found


def no_request_succeeded(run: Run) -> bool:
    """Return whether requests to the model were answered, each with an error."""
    answers = posted(run)
    # V0 counts an embedding as a generated token; a request that still runs is not answered yet.
    generated = any(sample.generation and sample.running for sample in run.samples)
    return bool(answers) and not generated and all(status >= 400 for status in answers)


def _overall(load: Load, seconds: Mapping[BottleneckName, float]) -> BottleneckName:
    if not load.busy_seconds:
        return "idle"
    held = {name: seconds.get(name, 0.0) / load.busy_seconds for name in SERVER_LIMITS}
    # Different limits of the server can take turns: together they make the run the server's, the longest
    # names it.
    if sum(held.values()) >= RUN_SHARE:
        return max(SERVER_LIMITS, key=lambda name: held[name])
    others: tuple[BottleneckName, ...] = (
        "client-limited", "host-limited", "interconnect-limited", "none-clear",
    )  # fmt: skip
    return max(others, key=lambda name: seconds.get(name, 0.0))


BEGINS = "requests began to arrive:"
_MEANING: dict[BottleneckName, str] = {
    "idle": "No request reached the engine {span}",
    "client-limited": "The client set the pace {span}: the queue was empty",
    "kv-cache-limited": "KV cache full {span}",
    "max-num-seqs-limited": "max_num_seqs reached {span}: requests queued while the KV cache had room",
    "prefill-limited": "Requests queued behind prompts (prefill) {span}, while slots and KV cache were free",
    "host-limited": "Decode steps much slower than the GPU needs {span}: these lines do not show why",
    "interconnect-limited": "Ranks on different nodes waited for the network in every step {span}",
    "none-clear": "Requests ran {span} without progress: neither tokens nor KV cache use changed",
}
_BY: dict[BottleneckName, str] = {
    "client-limited": "by the client",
    "kv-cache-limited": "by the KV cache",
    "max-num-seqs-limited": "by max_num_seqs",
    "prefill-limited": "by prefill",
    "host-limited": "by slow decode steps",
    "interconnect-limited": "by the network",
    "none-clear": "by no clear cause",
}


def _reason(run: Run, name: BottleneckName, load: Load, limits: Sequence[BottleneckName]) -> str:
    """Return the limit in words, with the number of lines of each limit: together they are all lines with load."""
    spans: defaultdict[BottleneckName, list[Span]] = defaultdict(list)
    arrived: list[Span] = []
    for span, limit in zip(load.spans, limits, strict=True):
        (arrived if limit == "client-limited" and has_begun(span) else spans[limit]).append(span)
    shown = spans.pop(name, [])
    meaning = limit_meaning(run, name, load, limits)
    others = {
        _BY[limit]: load.lines_of(held)
        for limit, held in spans.items()
        if limit not in ("idle", "none-clear")
    }
    if name == "prefill-limited" and mostly_queue(shown):
        others[f"{_BY[name]} without a queue"] = load.lines_of(span for span in shown if not span.waits)
        shown = [span for span in shown if span.waits]
    # The first interval begins before a log that begins with its line.
    idle = min(load.idle_seconds, max(0.0, (run.ended or 0.0) - (run.started or 0.0)) or load.idle_seconds)
    extent = f"for all {duration(idle)}" if name == "idle" else load.extent_of(shown)
    words = meaning.format(span=extent)
    most = max((span.sample.waiting or 0 for span in shown), default=0)
    if name == "kv-cache-limited" and most:
        running = max(span.sample.running or 0 for span in shown if span.waits)
        words += f": up to {most:,} request{'s' if most > 1 else ''} waited while at most {running:,} ran"
    # A batch that is given at once ends: nothing is left to send, and nobody sets a pace.
    tail = others.pop("by the client", 0) if run.kind == "offline" else 0
    named = [
        f"{by} ({_lines(number)})" for by, number in sorted(others.items(), key=lambda one: -one[1]) if number
    ]
    words += f". Otherwise limited {_listed(named)}" if named else ""
    few = "At most 1" if any(span.waits for span in spans.get("client-limited", ())) else "No"
    words += f". {few} prompt waited in {_lines(tail)}" if tail else ""
    unclear = load.lines_of(spans.get("none-clear", ()))
    words += f". No clear limit in {_lines(unclear)}" if unclear else ""
    words += f". Requests had just arrived in {_lines(load.lines_of(arrived))}" if arrived else ""
    if run.kind == "offline":
        for said in ("the client set the pace", "The client set the pace"):
            words = words.replace(said, f"{said[0]}he program gave no more prompts")
    return words


def _lines(number: int) -> str:
    return f"{number:,} line{'s' if number > 1 else ''}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def limit_is_probable(run: Run, name: BottleneckName, load: Load) -> bool:
    """Return whether a limit is only probable: max_num_seqs is not in the log, and the cache was not full; or no line shows a network."""
    if name == "interconnect-limited":
        return not joined_by_network(run)
    return (
        name in ("max-num-seqs-limited", "kv-cache-limited")
        and max_num_seqs_of(run) is None
        and load.peak_kv < KV_FULL
    )


def limit_meaning(run: Run, name: BottleneckName, load: Load, limits: Sequence[BottleneckName]) -> str:
    """Return in words what a limit means in a run, with a place for its time."""
    held = [
        span
        for span, limit in zip(load.spans, limits, strict=True)
        if limit == name and not (name == "client-limited" and has_begun(span))
    ]
    if name == "none-clear" and not any(span.sample.running for span in held):
        return "Requests waited {span} and none ran, although the KV cache had room"
    if name == "none-clear" and any(span.sample.generation > 0 for span in held):
        slots = slots_in_a_line(run)
        room = "with free slots and KV cache" if slots else "although the KV cache had room"
        none = f"{'' if slots else ','} while no prompt was computed"
        computed = any(span.sample.prompt > 0 for span in held)
        return f"Requests waited {{span}} {room}{'' if computed else none}: something else holds them back"
    if name == "max-num-seqs-limited" and limit_is_probable(run, name, load):
        return f"Probably {_MEANING[name]}"
    if name == "kv-cache-limited" and max(span.sample.kv_usage or 0.0 for span in held) < KV_FULL:
        return why_room_is_left(held, probable=limit_is_probable(run, name, load))
    if name == "kv-cache-limited" and any(span.waits for span in held):
        return "The KV cache limited concurrency {span}"
    most = max((span.sample.running or 0 for span in held), default=0)
    if name == "client-limited" and load.is_short:
        agreed = agreed_on(load) if len(held) == len(load.busy) else ""
        return f"{agreed}: the client set the pace" if agreed else at_most_at_once(load, held)
    slots = slots_in_a_line(run)
    if name == "client-limited" and slots and most >= SLOTS_TAKEN * slots:
        return f"The queue was empty {{span}}, with up to {most:,} of {slots:,} max_num_seqs slots taken"
    usage = max((span.sample.kv_usage or 0.0 for span in held), default=0.0)
    if name == "client-limited" and usage >= KV_FULL_ALONE:
        return f"The queue was empty {{span}}, with up to {usage:g} % of the KV cache in use"
    if name == "client-limited" and load.carries_media:
        return "The queue was empty {span}: the client set the pace, or the API server, which prepares images and sound"
    if name == "client-limited" and any(span.waits for span in held):
        return "The client set the pace {span}: the queue was almost empty"
    if name == "prefill-limited" and not mostly_queue(held):
        fastest = max(rate_each(span.sample) for span in held)
        return f"Prefill took up the steps {{span}}: running requests got at most {fastest:.2g} tokens/s each"
    if name == "prefill-limited" and slots_may_be_taken(run, load, held):
        return (
            "Requests waited {span}, although the KV cache had room: behind prompts (prefill), or because max_num_seqs, which is"
            " not in the log, was reached"
        )
    if name == "prefill-limited" and not slots:
        return "Requests queued behind prompts (prefill) {span}, although the KV cache had room"
    if name == "interconnect-limited" and not joined_by_network(run):
        return f"Slow steps {{span}} on {ranks_of(run)} ranks, more than most machines have cards: suspect the network between them"
    if name == "host-limited" and offloaded_gib(run):
        return "Decode steps much slower than the GPU needs {span}: weights offloaded to the host are copied in every step"
    if name == "host-limited" and run.platform is None:
        return "Very slow decode steps {span}: the log shows neither the cause nor the device"
    if name == "host-limited" and run.platform in ("npu", "xpu", "hpu", "tpu", "cpu"):
        return _MEANING[name].replace("GPU", run.platform.upper())
    return _MEANING[name]


def offloaded_gib(run: Run) -> float:
    """Return how many GiB of the weights stay in the memory of the host."""
    gib = run.setting("cpu_offload_gb")
    return gib if isinstance(gib, int | float) and not isinstance(gib, bool) and gib > 0 else 0


def _evidence(
    run: Run, load: Load, limits: Sequence[BottleneckName], name: BottleneckName
) -> tuple[Evidence, ...]:
    spans = [span for span, limit in zip(load.spans, limits, strict=True) if limit == name]
    if not spans:
        return ()
    fullest = max(spans, key=lambda span: span.sample.running or 0)
    worst = [
        max(held, key=lambda span: queue_first(span.sample))
        for limit in (name, *sorted(set(limits) & set(SERVER_LIMITS) - {name}))
        if (held := [span for span, one in zip(load.spans, limits, strict=True) if one == limit])
    ]
    chosen = {span.sample.line: span.sample for span in (*worst, fullest, spans[0], spans[-1])}
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
    words = (f"{number:,} {'limited ' + _BY[name] if name in _BY else name}" for name, number in counted)
    return f"; samples: {', '.join(words)}"


def _period(
    run: Run, name: BottleneckName, spans: Sequence[Span], limits: Sequence[BottleneckName]
) -> ServingPeriod:
    first, last = spans[0].sample, spans[-1].sample
    start = first.time - spans[0].seconds if first.time is not None else None
    samples = [span.sample for span in spans]
    running = max(sample.running or 0 for sample in samples)
    waiting = max(sample.waiting or 0 for sample in samples)
    usage = max((sample.kv_usage for sample in samples if sample.kv_usage is not None), default=None)
    begins = name == "client-limited" and len(samples) == 1 and waiting > 1
    seen = f"{BEGINS if begins else 'up to'} {running:,} running, {waiting:,} waiting"
    if not running and not waiting:
        seen = "no request" if name == "idle" else "each request ended before the next statistics line"
    still = name == "none-clear" and not any(sample.generation or sample.prompt for sample in samples)
    cache = f", KV cache {usage:g} %" if usage is not None else ""
    reason = f"{seen}{cache}{', no token computed' if still else ''}{_mixture(limits)}"
    # The lines that show the figures of the reason.
    most = (max(samples, key=lambda sample: sample.running or 0), max(samples, key=queue_first))
    shown = {
        sample.line: sample for sample in (*most, max(samples, key=lambda sample: sample.kv_usage or 0.0))
    }
    lines = tuple(evidence_of_sample(run, sample) for sample in shown.values())
    return ServingPeriod(name, start, last.time, len(spans), reason, lines)
