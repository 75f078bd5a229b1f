"""The timeline: start-up phases, nested ones as parts, and what limited the run when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from vllm_logdoctor.report.clock import clock, moment_of, time_of_day
from vllm_logdoctor.report.escape import inline, prose
from vllm_logdoctor.report.figures import capital, number, share, table
from vllm_logdoctor.report.key_figures import start_of
from vllm_logdoctor.report.naming import LIMITS, accelerator_unit, accelerators, phase_words
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.serving import FEW_LINES
from vllm_logdoctor.rules.bottleneck import BEGINS, ServingPeriod
from vllm_logdoctor.rules.context import plural
from vllm_logdoctor.run.clock import duration
from vllm_logdoctor.run.model import Evidence, Phase

_MOST_PERIODS = 8
_DEEPEST = 3
_LEAST_PHASES = 3
_LONG_START = 60.0
_ROUNDED = 0.5
"""Seconds that rounding may put between a total and the sum of its parts."""
_BETWEEN_LINES = ("profiling", "encoder-profiling")
"""Phases whose length is the time between two lines, where it is: the engine prints no seconds for them."""
_PROFILED_BEFORE = ("compile", "dynamo", "inductor", "compile-cache", "encoder-profiling")
"""What memory profiling consists of beside its own row."""
_BY_THE_CLIENT = {"client-limited", "idle"}
"""When requests came, the curves show: no limit changes."""
_LONG_REST, _LARGE_REST = 5.0, 0.1
"""Seconds, and their share of the time until the failure, from which the time behind the last phase is shown."""
_BEFORE_WORKERS = ("startup", "imports", "placement", "unexplained")


def timeline(page: Page) -> list[str]:
    """Return the section; nothing where no phase and no serving period is known."""
    parts = [*_phases(page), *_periods(page)]
    return [*_bounds(page), *parts] if parts or _open_end(page) else []


def _bounds(page: Page) -> list[str]:
    run = page.run
    first, last = clock(run.started), clock(run.ended)
    if first is None or last is None or not run.phases:
        return []
    return [f"Log from {first} to {last}.{_cost(page)}{_open_end(page)}", ""]


def _open_end(page: Page) -> str:
    """Return what a server's log that ends while requests run may mean: a killed process logs nothing.

    An offline engine may print no statistics after those of its last requests.
    """
    run = page.run
    last = run.samples[-1] if run.samples else None
    if run.outcome != "running" or run.kind == "offline" or last is None or not last.running:
        return ""
    proof = page.cited([Evidence(run.files[last.file], last.line, last.text)])
    return (
        f" {plural(last.running, 'request')} running in the last statistics line{proof}: the log was copied while the server"
        " ran, or the process was killed without logging it."
    )


def _cost(page: Page) -> str:
    """Return what the start-up cost in device hours, where several devices waited for it."""
    total, ranks = start_of(page.run), accelerators(page.run)
    worked = any(phase.name not in _BEFORE_WORKERS for phase in page.run.phases)
    if (
        not total
        or not ranks
        or ranks < 2
        or not worked
        or page.root is not None
        or page.run.platform in (None, "cpu")
    ):
        return ""
    unit = accelerator_unit(page.run)
    return (
        f" Start-up: {plural(ranks, unit)} × {duration(total)} = {number(ranks * total / 3600)} {unit}-hours."
    )


def _phases(page: Page) -> list[str]:
    total = start_of(page.run)
    apart = ("startup", "serving", "idle", "shutdown")
    shown = [
        phase
        for phase in page.run.phases
        if phase.name not in apart and (total or phase.name != "unexplained")
    ]
    shown = list(_without_sums(shown))
    if not any(phase.name != "unexplained" and phase.seconds for phase in shown):
        return []
    started = page.run.startup_complete or page.run.outcome == "crashed_while_serving"
    if total and page.root is not None and not started:
        # The error of a test does not tell whether the start had ended.
        return [] if page.run.kind == "test" else _until_failure(page, shown, total)
    if len(shown) == 1:
        (only,) = shown
        if page.root is not None:
            return []  # It says nothing of the failure.
        return [
            f"{capital(prose(phase_words(only.name)))}: {duration(only.seconds)}{page.cited(only.evidence, 2)}.",
            "",
        ]
    several = len({phase.process for phase in shown}) > 1
    rows = [_row(page, phase, _whole(shown, total), several, depth) for phase, depth in nested(shown)]
    if total:
        whole = "start-up" if started else "start-up so far"
        rows.append(
            [f"**{whole}**", *([""] if several else []), "", f"**{duration(total)}**", "**100 %**", ""]
        )
    header = [
        "phase",
        *(["process"] if several else []),
        "from",
        "time",
        *(["share"] if total else []),
        "evidence",
    ]
    return [*table(header, rows if total else [[*row[:-2], row[-1]] for row in rows]), ""]


def _whole(shown: Sequence[Phase], total: float | None) -> float | None:
    """Return the seconds of which the phases are shares: of stamps in whole seconds their sum may exceed the length of the start."""
    parts = sum(phase.seconds or 0.0 for phase, depth in nested(shown) if not depth)
    return max(total, parts) if total else None


def _until_failure(page: Page, shown: Sequence[Phase], total: float) -> list[str]:
    """Return the phases of a start that failed, without shares of a whole; of a short one with few phases the log itself says as much."""
    known = [phase for phase in shown if phase.name != "unexplained"]
    if total < _LONG_START and sum(not depth for _, depth in nested(known)) < _LEAST_PHASES:
        return []
    several = len({phase.process for phase in known}) > 1
    rows = [_row(page, phase, None, several, depth) for phase, depth in nested(known)]
    seconds = _until(page, known, total)
    length = duration(seconds)
    rows += _behind(page, known, seconds, several)
    rows.append(["**until the failure**", *([""] if several else []), "", f"**{length}**", "", ""])
    header = ["phase", *(["process"] if several else []), "from", "time", "evidence"]
    return [*table(header, [[*row[:-2], row[-1]] for row in rows]), ""]


def _behind(page: Page, known: Sequence[Phase], seconds: float, several: bool) -> list[list[str]]:
    """Return the row of what no phase explains between the last one and the failure, where that is long: mostly the work that failed."""
    started, last = page.run.started, max((phase.end or 0.0 for phase in known), default=0.0)
    left = (started or 0.0) + seconds - last
    if started is None or not last or left < max(_LONG_REST, _LARGE_REST * seconds):
        return []
    return [
        ["from there to the failure", *([""] if several else []), time_of_day(last), duration(left), "", ""]
    ]


def _until(page: Page, known: Sequence[Phase], total: float) -> float:
    """Return the seconds up to the line of the failure, where it has a time: what ends behind it goes on logging."""
    run, proof = page.run, page.root.evidence[0] if page.root and page.root.evidence else None
    least = max((phase.end or 0.0 for phase in known), default=0.0)
    times = [
        record.time
        for record in run.records
        if proof and (record.line, run.evidence(record).file) == (proof.line, proof.file)
        and record.time is not None and record.time >= least
    ]  # fmt: skip
    return min(total, times[0] - run.started) if times and run.started is not None else total


def _without_sums(phases: Sequence[Phase]) -> Iterator[Phase]:
    """Yield the phases without a total of torch.compile that its parts add up to: between them lies what it does not count."""
    parts = [phase for phase in phases if phase.parent == "compile"]
    sums = [phase for phase in phases if phase.name == "compile"]
    seconds = sum(phase.seconds or 0.0 for phase in parts)
    if not parts or len(sums) != 1 or abs(seconds - (sums[0].seconds or 0.0)) > _ROUNDED:
        yield from phases
        return
    for phase in phases:
        if phase.name != "compile":
            yield replace(phase, parent=sums[0].parent) if phase.parent == "compile" else phase


def nested(phases: Sequence[Phase]) -> Iterator[tuple[Phase, int]]:
    """Yield the phases in order, each followed by its parts, with the depth of its nesting."""
    names = {phase.name for phase in phases}
    for phase in phases:
        if phase.parent not in names:
            yield from _with_parts(phase, phases, 0)


def _with_parts(phase: Phase, phases: Sequence[Phase], depth: int) -> Iterator[tuple[Phase, int]]:
    yield phase, depth
    for part in phases:
        if depth < _DEEPEST and part.parent == phase.name != part.name and _belongs(part, phase, phases):
            yield from _with_parts(part, phases, depth + 1)


def _belongs(part: Phase, whole: Phase, phases: Sequence[Phase]) -> bool:
    """Return True if a part belongs to this whole: of several with one name its own process's, else the nearest in time."""
    wholes = [phase for phase in phases if phase.name == whole.name]
    same = [phase for phase in wholes if phase.process == part.process]
    # Of two that are as near, a part begins with the later one: the clock has whole seconds.
    return whole is min(reversed(same or wholes), key=lambda one: _distance(part, one))


def _distance(part: Phase, whole: Phase) -> float:
    """Return the seconds between two phases, less than 0 where they overlap, 0 where the log does not date them."""
    if part.start is None or part.end is None or whole.start is None or whole.end is None:
        return 0.0
    return max(whole.start - part.end, part.start - whole.end)


def _row(page: Page, phase: Phase, total: float | None, several: bool, depth: int) -> list[str]:
    name = phase_words(phase.name)
    # Of profiling that prints no seconds the log shows what is left behind compilation, between two lines.
    computed = phase.name in _BETWEEN_LINES and len(phase.evidence) > 1
    if (
        computed
        and phase.name == "profiling"
        and any(one.name in _PROFILED_BEFORE for one in page.run.phases)
    ):
        name = f"rest of {name}"
    known = total is not None and phase.seconds is not None and phase.seconds <= total
    of_start = share(phase.seconds or 0.0, total or 0.0) if known else ""
    cells = [
        "· " * depth + prose(name),
        *([inline(phase.process, 60)] if several else []),
        _began(page, phase),
    ]
    length = _length(phase.seconds, computed)
    if not phase.ends:
        least = "" if page.run.outcome.startswith("crashed") else "at least "
        length = f"{least}{length}, no line shows its end" if phase.seconds else "no line shows its end"
    return [*cells, length, of_start, page.cite(phase.evidence, 2)]


def _length(seconds: float | None, computed: bool) -> str:
    """Return the length of a phase in words; times of lines are whole seconds, so that 0 of them are less than one."""
    if seconds is None or not (computed or seconds == 0):
        return duration(seconds)
    return "under 1 s" if seconds < 1 else f"about {duration(float(round(seconds)))}"


def _began(page: Page, phase: Phase) -> str:
    """Return when a phase began: a log that is cut at its start prints only the end of some."""
    started = page.run.started
    early = phase.start is not None and started is not None and phase.start < started - 1.0
    return f"before {time_of_day(started)}" if early else time_of_day(phase.start)


def _periods(page: Page) -> list[str]:
    """Return what limited the run when; nothing of a load that changes its limit again and again, or that only its client limits."""
    periods = page.diagnosis.bottleneck.periods
    few = sum(period.samples for period in periods) < FEW_LINES
    names = {period.name for period in periods}
    if few or len(names) < 2 or names <= _BY_THE_CLIENT or len(periods) > _MOST_PERIODS:
        return []
    rows = [
        [
            moment_of(page.run, period.start),
            moment_of(page.run, period.end),
            _limit_words(page, period),
            prose(period.reason) + page.cited(period.evidence, 2),
        ]
        for period in periods
    ]
    return ["Limits over time:", "", *table(["from", "to", "limit", "load"], rows), ""]


def _limit_words(page: Page, period: ServingPeriod) -> str:
    """Return a limit in words: none where requests have just arrived; a batch has no client, and nothing is left to send at its end."""
    offline = page.run.kind == "offline"
    if period.reason.startswith(BEGINS):
        return "prompts arrive" if offline else "requests arrive"
    if period.name == "client-limited" and offline:
        return "no prompt waits"
    return LIMITS.get(period.name, period.name)
