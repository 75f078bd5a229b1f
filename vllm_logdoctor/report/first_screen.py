"""The first screen: state, what ran, the verdict, a few figures, what to do; one model for all formats.

All texts are escaped inline Markdown.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.report.alternatives import ways_beside
from vllm_logdoctor.report.effects import (
    MOST_OF_THE_RUN,
    ORIGINS,
    action_words,
    change_words,
    effect_range,
    gains_little,
)
from vllm_logdoctor.report.escape import code, inline, prose
from vllm_logdoctor.report.excerpt import excerpt, without_arguments
from vllm_logdoctor.report.figures import capital
from vllm_logdoctor.report.key_figures import benchmark_result, key_figures
from vllm_logdoctor.report.naming import (
    BROKEN,
    LIMITS,
    PHASES,
    failed_state,
    is_client,
    run_title,
    shows_a_run,
    start_seen,
)
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.program_terms import in_program_terms
from vllm_logdoctor.report.proof import decisive, telling
from vllm_logdoctor.rules.bottleneck import (
    ONE_FAILED,
    limit_is_probable,
    no_request_succeeded,
    offloaded_gib,
    outputs_are_empty,
)
from vllm_logdoctor.rules.context import plural
from vllm_logdoctor.rules.failure.requests import REFUSED
from vllm_logdoctor.rules.failure.unnamed import NOT_IN_LOG, UNKNOWN
from vllm_logdoctor.rules.limits import SERVER_LIMITS
from vllm_logdoctor.rules.load import load_of
from vllm_logdoctor.rules.model import Confidence, Finding
from vllm_logdoctor.run.servers import NAMES, VLLM
from vllm_logdoctor.texts import shared_start

Level = Literal["healthy", "limited", "failed", "cut"]

SHOWN = 3
LEAD = 320
"""Characters of an explanation on the first screen; the rest follows in the details."""
DOUBT: dict[Confidence, str] = {"high": "", "medium": ", probable cause", "low": ", possible cause"}
_NAMES_NO_CAUSE = frozenset({NOT_IN_LOG, UNKNOWN})
"""Findings that quote an error or miss the cause: nothing in their title is doubtful."""
# KeyError in scheduler.py, schedule
_OF_EXCEPTION = lazy_pattern(r"\w*(?:Error|Exception|StopIteration) in ")
_NO_LOAD = ("startup-only", "failed", "none-clear")
_LIMITING = (*SERVER_LIMITS, "host-limited", "interconnect-limited")
_SEVERE = ("critical", "high")
_QUOTE = 240
_REPEATED = 6
_WORD = lazy_pattern(r"[A-Za-z]{3}")
# Compiler error: ...    First mismatch: ...
_QUOTATION = lazy_pattern(r"(?:^|(?<=[.!?] ))[A-Z][^.:]{2,40}: ")
_ACTION = 140
_CLAUSE_END = lazy_pattern(r"(?<=\w{3}): |; |(?<=\w{3}) \(")
_UNNAMED = "unclassified-failure"
_ABOUT_THE_CACHE = "kv-cache-preemption"
_SERVER_ERRORS = "answered-with-server-errors"
_STALLED = "engine-makes-no-progress"
_SENTENCE_END = lazy_pattern(r"(?<=[.!?])\s+(?=[A-Z`])")
REVERSED = (
    "The lines of this log run backwards in time (newest first), so the start, end and cause below may be wrong. Reverse"
    " the log and analyze it again: `tac LOG | logdoctor analyze -`."
)
_NO_RUN = "the log shows neither a complete start nor a load"
_REST_OF_LOG = (
    "Get the rest of the log and how the process ended: `docker inspect`, `kubectl describe pod`, `kubectl logs"
    " --previous`, `journalctl -u` or `sacct`."
)
# FAILED tests/test_a.py::test_b[x-1] - ValueError: text      /src/csrc/attention.cpp:281:40: error: use of undeclared identifier
_TEST = lazy_pattern(
    r"^(?:FAILED|ERROR) \S{1,300}\.py::.{1,200}? - (?=\w)|^\S{1,300}?(?::\d+(?::\d+)?|\(\d+\)): (?=(?:fatal )?error: )"
)
# Downloading:   0%|          | 0.00/9.29G [00:00<?, ?B/s]      model-00001-of-00015.safetensors:  12%|#2 | 1.2G/9.3G
_DOWNLOAD = lazy_pattern(
    r"(?:Downloading|Fetching)\b.{0,80}?\d+%\||\S+\.(?:safetensors|bin|gguf|pth?):? +\d+%\|"
)
_DOWNLOADED_BEFORE = "Wait for the download if the process still runs; to start without it, give the path of a local copy as the model."


class FirstScreen(Struct, frozen=True):
    """What a hurried reader gets of one run.

    Attributes:
        level: "healthy", "limited", "failed" or "cut".
        state: "LIMITED: KV cache full".
        ran: what ran on what, for how long, and how it ended.
        quote: the decisive line of a failure with its place, or "".
        verdict: the sentence that matters, with line references.
        figures: names and values, at most five.
        actions: what to do, first things first, at most three.
        note: what not to do, and how many further changes follow; or "".
    """

    level: Level
    state: str
    ran: str
    verdict: str
    quote: str = ""
    figures: tuple[tuple[str, str], ...] = ()
    actions: tuple[str, ...] = ()
    note: str = ""


def first_screen(page: Page) -> FirstScreen:
    """Return the first screen of a run."""
    level = state_level(page)
    root = page.shown_root
    if root is not None and (before := page.failed_before) is not None:
        again = f"The same failure as in run {before.number}{page.cited(root.evidence[1:], 2)}."
        return FirstScreen(
            level, state(page), run_title(page.run, failed=True), again, quote=_quote(page, root)
        )
    if root is not None:
        return FirstScreen(
            level,
            state(page),
            run_title(page.run, failed=True),
            _with_lines(page, split_lead(root_explanation(root))[0], root),
            quote=_quote(page, root),
            actions=tuple(_remedies(page, root))[:SHOWN],
            note=_note(page, root, ()),
        )
    chosen = worthwhile(page)[:SHOWN] if level != "cut" else ()
    verdict = sentence(page)
    return FirstScreen(
        level,
        state(page),
        run_title(page.run),
        verdict,
        figures=key_figures(page.run) if level != "failed" else (),
        actions=tuple(_action(page, finding, f"{state(page)}: {verdict}") for finding in chosen)
        or _without_change(page, level),
        note=_note(page, chosen[0] if chosen else None, chosen),
    )


def state_level(page: Page) -> Level:
    """Return the level of a run's state."""
    run = page.run
    if page.root is not None or run.outcome in BROKEN:
        return "failed"
    if run.server != VLLM or is_cut_off(page):
        return "cut"
    if run.kind == "build" or run.router:
        return "healthy"
    if not shows_a_run(page.run) and page.diagnosis.bottleneck.name in _NO_LOAD:
        return "cut"
    limit = page.diagnosis.bottleneck.name
    queued = limit == "none-clear" and any(sample.waiting for sample in run.samples)
    limited = limit in _LIMITING or queued or _severe(page) or no_request_succeeded(run)
    return "limited" if limited else "healthy"


def state(page: Page) -> str:
    """Return the state in capitals with what it is about, "FAILED at start-up: Out of memory"."""
    root, run = page.root, page.run
    if run.server != VLLM:
        return f"NOT JUDGED: log of {NAMES.get(run.server, run.server)}"
    if root is not None:
        if run.outcome == "truncated" and root.role == "root" and root.confidence != "high":
            return f"CUT OFF, possible failure: {_cause(root)}"
        quoted = root.id in _NAMES_NO_CAUSE or _OF_EXCEPTION.match(root.title)
        doubt = "" if quoted else DOUBT[root.confidence]
        cause = _cause(root)
        if run.outcome == "crashed_while_serving":
            cause = cause.removesuffix(" while serving")
        return f"{failed_state(run)}{doubt}: {cause}"
    level, limit = state_level(page), page.diagnosis.bottleneck.name
    if level == "failed":
        return f"{failed_state(run)}: cause not in this log"
    if level == "cut" and is_cut_off(page):
        return (
            f"CUT OFF: {'no result in the log' if run.startup_complete else 'the log ends during start-up'}"
        )
    if level == "cut" and run.kind == "test":
        return "EXCERPT: a check of a test failed"
    if level == "cut":
        shown = "requests without statistics" if limit == "none-clear" else _NO_RUN
        return f"EXCERPT: {_logged_error(page) or shown}"
    if level == "limited":
        failed = no_request_succeeded(run) and not _failing_requests(page)
        one = page.diagnosis.bottleneck.reason == ONE_FAILED
        shown = "REQUEST FAILED: the only one answered" if one else "REQUESTS FAILED: no request succeeded"
        return shown if failed else f"LIMITED: {_limit(page)}"
    if run.kind == "build":
        return "BUILD: no error"
    if run.router:
        return "ROUTER: no error"
    if is_client(run):
        return "BENCHMARK CLIENT: results"
    if run.benchmarks and not (run.samples or run.startup_complete):
        return "BENCHMARK RESULTS: the log has no lines of the server"
    if limit == "startup-only" and _logged_error(page):
        return f"STARTED: {_logged_error(page)}"
    if outputs_are_empty(run):
        return "TO CHECK: every printed output is empty"
    if limit == "none-clear" and not run.samples:
        shown = "COMPLETED" if run.kind == "offline" and not run.startup_complete else "HEALTHY"
        return f"{shown}: no statistics of the load in this log"
    return f"HEALTHY: {LIMITS[limit]}" if limit in ("idle", "startup-only", "none-clear") else "HEALTHY"


def _logged_error(page: Page) -> str:
    """Return what failed in the log of a server that did not fail, a request or a client; else nothing."""
    found = next((prose(one.title) for one in page.advice if one.id == REFUSED and one.evidence), "")
    return found[:1].lower() + found[1:]


def _limit(page: Page) -> str:
    """Return what limits a run: requests that fail, before anything that makes the others slower.

    A cache that is not full is named by the title of the finding on it.
    """
    failing = _failing_requests(page)
    if failing:
        return prose(failing[0].title)
    limit = page.diagnosis.bottleneck.name
    probable = " (probable)" if limit_is_probable(page.run, limit, load_of(page.run)) else ""
    if limit == "kv-cache-limited":
        titles = (one.title for one in page.diagnosis.findings if one.id == _ABOUT_THE_CACHE)
        title = next(titles, "")
        return prose(title.partition(":")[0]) + probable if title else LIMITS[limit]
    if limit == "host-limited" and offloaded_gib(page.run):
        return "CPU offload of weights"
    if limit == "host-limited" and page.run.platform is None:
        return "slow decode steps"
    if limit in _LIMITING:
        return LIMITS[limit] + probable
    named = (one.title for one in _severe(page) if one.id == _STALLED or one.id.startswith("slow-start"))
    held = "requests wait, the cause is not in the log"
    return prose(next(named, held if limit == "none-clear" and page.run.samples else "by its configuration"))


def sentence(page: Page) -> str:
    """Return the verdict in one sentence, without emphasis."""
    run, limit = page.run, page.diagnosis.bottleneck
    if page.root in page.diagnosis.hidden:
        return "Known failure, left out by the baseline or a suppression."
    if page.root is not None:
        return split_lead(root_explanation(page.root))[0]
    if run.outcome in BROKEN:
        said = (
            f" {prose(run.job.job or 'The job')}: {prose(run.job.words)}."
            if run.job and run.job.words
            else ""
        )
        return f"The log does not contain the cause.{said}"
    if run.kind == "build":
        return "Log of a build or an installation; no vLLM runs in it."
    if run.router:
        return "Log of a router, which distributes requests among servers of vLLM; no engine runs in it."
    if is_client(run):
        return f"Log of a benchmark client; it contains no server lines. {benchmark_result(page)}"
    if is_cut_off(page):
        return _cut_off(page)
    words = f"{capital(prose(limit.reason).rstrip('.'))}{page.cited(limit.evidence, 2)}."
    level, first = state_level(page), _severe(page)
    if level == "cut" and limit.name != "none-clear":
        first = list(page.advice)
    elif level != "limited" or limit.name in _LIMITING:
        first = _failing_requests(page) or [one for one in page.advice if one.id == _SERVER_ERRORS]
    if not first:
        refused = next((one for one in page.advice if one.id == REFUSED and one.evidence), None)
        if refused is not None and limit.name == "startup-only":
            return f"{words.removesuffix('.')}, and this error: {_quote(page, refused)}."
        if refused is None or level != "limited" or not no_request_succeeded(run):
            return words
        return f"{words.removesuffix('.')}: {_quote(page, refused)}."
    if level == "cut" and first[0].id == REFUSED and first[0].evidence:
        return f"The error: {_quote(page, first[0])}."
    if first[0].id == _SERVER_ERRORS or prose(first[0].title) in state(page):
        return f"{split_lead(root_explanation(first[0]))[0]} {words}"
    named = f"{prose(first[0].title)}{page.cited(first[0].evidence, 1)}."
    return named if level == "cut" else f"{named} {words}"


def _severe(page: Page) -> list[Finding]:
    """Return the findings of the configuration that limit a run, by their severity."""
    return [
        one
        for one in (*page.advice, *page.diagnosis.hidden)
        if one.severity in _SEVERE and one.changes and one.kind != "security" and not _holds_briefly(one)
    ]


def _holds_briefly(finding: Finding) -> bool:
    """Return True if a finding is about a small part of the load only."""
    return finding.effect is not None and finding.effect.share < MOST_OF_THE_RUN


def _failing_requests(page: Page) -> list[Finding]:
    """Return what says that most requests fail: whatever else limits a run comes after it."""
    return [one for one in _severe(page) if one.topic == "serving" and one.kind == "configuration"]


def worthwhile(page: Page) -> tuple[Finding, ...]:
    """Return the findings whose changes are worth proposing, in order of gain; a secret limits nothing, and is the last one shown."""
    found = [
        finding
        for finding in page.advice
        if finding.changes
        and finding.role != "cascade"
        and not page.put_off(finding)
        and not (finding.effect is not None and gains_little(finding.effect))
    ]
    secrets = [one for one in found if one.kind == "security"]
    others = [one for one in found if one.kind != "security"]
    return (*others[: SHOWN - 1], *secrets, *others[SHOWN - 1 :])


def split_lead(text: str) -> tuple[str, str]:
    """Return the sentences of an explanation that fit the first screen, and the rest; both escaped.

    Example:
        >>> split_lead("It broke. " + "Long story. " * 40)[0].startswith("It broke. Long story.")
        True
    """
    sentences = _SENTENCE_END.split(text.strip())
    kept = 1
    while kept < len(sentences) and len(" ".join(sentences[: kept + 1])) <= LEAD:
        kept += 1
    return prose(" ".join(sentences[:kept])), prose(" ".join(sentences[kept:]))


def root_explanation(root: Finding) -> str:
    """Return the explanation of a failure without the quotations that its decisive line or title repeats.

    Example:
        >>> from vllm_logdoctor.run.model import Evidence
        >>> line = Evidence("a.log", 1, "KeyError: 'rows' of 3")
        >>> root_explanation(Finding("x", "failure", "high", "high", "t", "Exception: 'rows' of.... Raised in a.py.", "root", (line,)))
        'Raised in a.py.'
    """
    text = root.explanation
    lines = decisive(root)
    said = " ".join(f"{lines[0].text if lines else ''} {root.title} ".split())
    for label in _QUOTATION.finditer(text):
        value = text[label.end() :].removeprefix("AssertionError: ")
        starts = [at for at in range(len(said)) if said.startswith(value[:_REPEATED], at)]
        shared = max((shared_start(value, said[at:]) for at in starts), default=0)
        rest = value[shared:].lstrip(".…")
        whole = not rest or rest.startswith(" ") or value[:shared].endswith(" ")
        if whole and shared >= min(_REPEATED, len(value.rstrip("."))):
            return f"{text[: label.start()].rstrip()} {rest.lstrip()}".strip()
    return text


def remaining_ways(page: Page, root: Finding) -> tuple[str, ...]:
    """Return the remedies of a failure that the first screen has no room for, escaped."""
    return tuple(_remedies(page, root))[SHOWN:]


def is_cut_off(page: Page) -> bool:
    """Return True if the log ends before anything was served or answered, without an error."""
    run = page.run
    before_result = run.kind == "offline" and not run.samples and not any(one.done for one in run.progress)
    unfinished = before_result or not run.startup_complete
    return run.outcome == "truncated" and start_seen(run) and unfinished and not is_client(run)


def _cause(root: Finding) -> str:
    """Return the title of a cause; the exception itself where no rule names it."""
    said = _TEST.sub("", excerpt(root.evidence[0].text, limit=400)) if root.evidence else ""
    said = excerpt(said, limit=110)
    if root.id == _UNNAMED and _WORD.search(said):
        return inline(said.partition(". Did you mean")[0])
    return prose(root.title)


def _quote(page: Page, root: Finding) -> str:
    shown = decisive(root)
    return (
        f"{code(excerpt(without_arguments(shown[0].text, _QUOTE), limit=_QUOTE), _QUOTE)} {page.cite(shown[:1])}"
        if shown
        else ""
    )


def _with_lines(page: Page, text: str, root: Finding) -> str:
    return f"{text.rstrip('.')}{page.cited(telling(root), 2)}." if text else ""


def _remedies(page: Page, root: Finding) -> list[str]:
    """Return what to do about a failure, first choice first; a setting that the plan holds back is none."""
    held_back = {knob for knob, _ in page.refused(root)}
    made = [change for change in root.changes if change.knob not in held_back]
    ways = [action_words(change, root.alternatives) for change in made]
    ways += [prose(way.removeprefix("Or ")) for way in ways_beside(root.changes, root.alternatives)]
    return [in_program_terms(f"{capital(way).rstrip('.')}.", page.run) for way in ways]


def _action(page: Page, finding: Finding, said: str) -> str:
    words = capital(_short("; ".join(change_words(change) for change in finding.changes[:2])))
    gain = (
        f" Gain: {effect_range(finding.effect)} ({ORIGINS[finding.effect.origin]})." if finding.effect else ""
    )
    title = prose(finding.title)
    why = page.cite(finding.evidence, 2) if title in said else f"({title}{page.cited(finding.evidence, 2)})"
    return in_program_terms(f"{f'**{words}** {why}'.rstrip()}.{gain}", page.run)


def _short(words: str) -> str:
    """Return the first clause of a long action; the details have all of it."""
    if len(words) <= _ACTION:
        return words
    clause = _CLAUSE_END.split(words, maxsplit=1)[0]
    return clause if clause.count("`") % 2 == 0 else words


def _without_change(page: Page, level: Level) -> tuple[str, ...]:
    """Return what to do where no setting is to be changed."""
    if level == "cut" and is_cut_off(page):
        return (_DOWNLOADED_BEFORE, _REST_OF_LOG) if _download(page) is not None else (_REST_OF_LOG,)
    if level == "failed":
        return (
            "Ask the scheduler, the container runtime or the kernel log (`dmesg -T`) who ended the process.",
        )
    if page.run.samples:
        return ()
    refused = (one for one in page.advice if one.id == REFUSED and one.role == "root")
    return tuple(way for one in refused for way in _remedies(page, one))[:SHOWN]


def _note(page: Page, first: Finding | None, shown: tuple[Finding, ...]) -> str:
    parts = [REVERSED] if page.run.newest_first else []
    if first is not None and first.avoid:
        parts.append(in_program_terms(avoidance(first), page.run))
    further = len(worthwhile(page)) - len(shown) if shown else 0
    if further > 0:
        parts.append(f"{plural(further, 'more change')} below.")
    if page.diagnosis.hidden:
        names = ", ".join(code(name) for name in dict.fromkeys(one.id for one in page.diagnosis.hidden))
        parts.append(f"Left out by the baseline or a suppression: {names}.")
    return " ".join(parts)


def avoidance(finding: Finding) -> str:
    """Return what not to do as a sentence, escaped."""
    text = finding.avoid.rstrip(".")
    return prose(
        f"{text}."
        if text.startswith(("Do not", "Don't", "Never"))
        else f"Avoid: {text[:1].lower() if text[1:2].islower() else text[:1]}{text[1:]}."
    )


def _download(page: Page) -> Record | None:
    """Return the last line of a log that ends with the bar of a download."""
    last = page.run.tail[-1] if page.run.tail and page.run.last_of_file else None
    return last if last is not None and _DOWNLOAD.match(last.message) else None


def _cut_off(page: Page) -> str:
    """Return what is known of a start whose end is not in the log."""
    if (download := _download(page)) is not None:
        return (
            f"The log ends while the model is being downloaded{page.cited([page.run.evidence(download)], 1)}."
        )
    ready = page.run.measured.get("init_engine_seconds")
    if ready is not None:
        first = "result" if page.run.kind == "offline" else "request"
        return f"The engine was ready{page.cited(ready.evidence, 1)}; the log ends before the first {first}."
    parts = [phase for phase in page.run.phases if phase.parent == "startup" and phase.name in PHASES]
    if not parts or parts[-1].name == "unexplained":
        return "The log ends before start-up completed."
    last = parts[-1]
    loaded = page.run.measured.get("model_weights_gib") if last.name == "load-weights" else None
    when, evidence = ("after", loaded.evidence) if loaded is not None else ("during", last.evidence)
    return f"The log ends before start-up completed, {when} {PHASES[last.name]}{page.cited(evidence, 1)}."
