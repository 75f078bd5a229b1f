"""The state of a run on the first screen: "LIMITED: KV cache full", and the level that gives it its colour."""

from __future__ import annotations

from typing import Literal

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.report.effects import MOST_OF_THE_RUN
from vllm_logdoctor.report.escape import code, inline, prose
from vllm_logdoctor.report.excerpt import excerpt, heading
from vllm_logdoctor.report.key_figures import excess_load
from vllm_logdoctor.report.naming import (
    BROKEN,
    LIMITS,
    failed_state,
    is_client,
    shows_a_run,
    start_seen,
    was_interrupted,
)
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.proof import decisive
from vllm_logdoctor.rules.bottleneck import (
    ONE_FAILED,
    RECEIVED_SIGTERM,
    limit_is_probable,
    no_request_succeeded,
    offloaded_gib,
)
from vllm_logdoctor.rules.context import plural
from vllm_logdoctor.rules.failure.nonfatal import CLIENT_FAILED, TRANSFER
from vllm_logdoctor.rules.failure.requests import REFUSED
from vllm_logdoctor.rules.failure.rule_ids import NOT_IN_LOG, UNKNOWN
from vllm_logdoctor.rules.failure.silent_end import STOPPED
from vllm_logdoctor.rules.limits import SERVER_LIMITS
from vllm_logdoctor.rules.load import load_of
from vllm_logdoctor.rules.model import Confidence, Finding
from vllm_logdoctor.rules.offline import outputs_are_empty, prints_answers
from vllm_logdoctor.rules.performance.order import CLIENT
from vllm_logdoctor.run.lifecycle import trail_of
from vllm_logdoctor.run.omissions import last_omission
from vllm_logdoctor.run.other_programs import failed_check
from vllm_logdoctor.run.servers import NAMES, VLLM

Level = Literal["healthy", "limited", "failed", "cut"]
DOUBT: dict[Confidence, str] = {"high": "", "medium": ", probable cause", "low": ", possible cause"}
_NAMES_NO_CAUSE = frozenset({NOT_IN_LOG, UNKNOWN})
"""Findings that quote an error or miss the cause: nothing in their title is doubtful."""
# KeyError in scheduler.py, schedule
_OF_EXCEPTION = lazy_pattern(r"\w*(?:Error|Exception|StopIteration) in ")
_NO_LOAD = ("startup-only", "failed", "none-clear")
LIMITING = (*SERVER_LIMITS, "host-limited", "interconnect-limited")
_SEVERE = ("critical", "high")
_WORD = lazy_pattern(r"[A-Za-z]{3}")
_UNNAMED = "unclassified-failure"
_ABOUT_THE_CACHE = "kv-cache-preemption"
_STALLED = "engine-makes-no-progress"
_AGAIN = 3
"""Lines of a finding from which what it is about was no single event."""
_REST_LEFT_OUT = "its writer left the rest out"
_NO_RUN = "the log shows neither a complete start nor statistics of a load"
# FAILED tests/test_a.py::test_b[x-1] - ValueError: text      /src/csrc/attention.cpp:281:40: error: use of undeclared identifier
_TEST = lazy_pattern(
    r"^(?:FAILED|ERROR) \S{1,300}\.py::.{1,200}? - (?=\w)|^\S{1,300}?(?::\d+(?::\d+)?|\(\d+\)): (?=(?:fatal )?error: )"
)
# [1760000000.12] [node1:42   :0]   ib_md.c:99   UCX  ERROR text      E0511 10:00:00.123456 7 agent.cpp:9] text
# libfabric:1:2::efa:ep:open():9<warn> text
_OF_LIBRARY = lazy_pattern(
    r"^(?:\[\d{9,}\.\d+\] \[[^\]]{1,200}\]\s+[\w./-]{1,80}:\d+\s+UCX\s+(?:ERROR|FATAL)\s+|[EF]\d{4} [\d:.]{8,20}\s+\d+ [\w./-]{1,80}:\d+\] "
    r"|libfabric:\S{1,200}<\w{4,5}>\s+)"
)
# function <function test_a at 0x7fc6998f1800> failed
_ADDRESS = lazy_pattern(r" at 0x[0-9a-f]{6,16}\b")
# Failed to apply Processor on data={'text': '<|image_pad|>...
_DUMP = lazy_pattern(r"(?<=\w)=[{\[(<].*")
# ptxas terminated (signal: 11)sccache: Compiler killed by signal 11    (two programs wrote into one line)
_GLUED = lazy_pattern(r"(?<=\))(?=[a-z]{2,20}: )")
_TITLE = 110


def state_level(page: Page) -> Level:
    """Return the level of a run's state."""
    run = page.run
    if page.root is not None or run.outcome in BROKEN:
        return "failed"
    if run.server != VLLM or is_cut_off(page):
        return "cut"
    if run.kind == "build" or run.router or is_client(run):
        return "healthy"
    if not shows_a_run(page.run) and page.diagnosis.bottleneck.name in _NO_LOAD:
        return "cut"
    limit = page.diagnosis.bottleneck.name
    queued = limit == "none-clear" and any(sample.waiting for sample in run.samples)
    limited = limit in LIMITING or queued or costly_findings(page) or no_request_succeeded(run)
    return "limited" if limited or transfers_failed(page) else "healthy"


def failed_request(page: Page) -> Finding | None:
    """Return the error of a request in a log that shows nothing else, or a little load: the first screen is about it."""
    run, level = page.run, state_level(page)
    if level == "healthy" and _is_of_little_load(page):
        known = (one for one in page.advice if one.id == REFUSED and one.evidence and one.role == "root")
        return None if _counts_refusals(page) else next(known, None)
    if level != "cut" or run.server != VLLM or is_cut_off(page) or run.kind == "test":
        return None
    first = next((one for one in page.advice if one.evidence), None)
    return first if first is not None and first.id == REFUSED else None


def _is_of_little_load(page: Page) -> bool:
    return page.diagnosis.bottleneck.name == "client-limited" and load_of(page.run).is_short


def _counts_refusals(page: Page) -> bool:
    """Return whether requests were refused: how many, the figures say."""
    return any(status >= 400 for _, _, status in page.run.accesses)


def of_little_load(page: Page) -> Finding | None:
    """Return the finding that no request waited in a few statistics lines: the first screen is about it."""
    return next((one for one in page.advice if one.id == CLIENT), None) if _is_of_little_load(page) else None


def state(page: Page) -> str:
    """Return the state in capitals with what it is about, "FAILED at start-up: Out of memory"."""
    run, level = page.run, state_level(page)
    if run.server != VLLM:
        return f"NOT JUDGED: log of {NAMES.get(run.server, run.server)}"
    if page.root is not None:
        return _state_of_failure(page, page.root)
    if level == "failed":
        return f"{failed_state(run)}: cause not in this log"
    if level == "cut":
        return _state_of_piece(page)
    return _state_of_limited(page) if level == "limited" else _state_of_healthy(page)


def _state_of_failure(page: Page, root: Finding) -> str:
    """Return how a run failed, and its cause with the doubt that is left."""
    outcome, cause = page.run.outcome, _cause(root)
    if root.id == STOPPED and root.confidence == "high":
        return cause.replace("Stopped", "STOPPED", 1)
    if outcome == "truncated" and root.role == "root" and root.confidence != "high":
        return f"CUT OFF, possible failure: {cause}"
    doubt = DOUBT[doubted(root)]
    if outcome == "crashed_while_serving":
        cause = cause.removesuffix(" while serving")
    return f"{failed_state(page.run)}{doubt}: {cause}"


def doubted(root: Finding) -> Confidence:
    """Return how sure the cause is that a title states: an exception or a message that is only quoted is certain."""
    message = root.title.partition(": ")[2].removesuffix("...")
    quotes = message and any(message in " ".join(one.text.split()) for one in root.evidence)
    certain = root.id in _NAMES_NO_CAUSE or _OF_EXCEPTION.match(root.title) or quotes
    return "high" if certain else root.confidence


def _state_of_piece(page: Page) -> str:
    """Return the state of a log that shows neither how its run ended nor what it served."""
    run = page.run
    if is_cut_off(page):
        return (
            f"CUT OFF: {'no result in the log' if run.startup_complete else 'the log ends during start-up'}"
        )
    if run.kind == "test":
        failed = failed_check(trail_of(run))
        return f"TEST FAILED: {inline(failed.test) if failed is not None and failed.test else 'an assertion'}"
    if failed_request(page) is not None:
        return f"REQUEST ERROR: {_logged_error(page)}"
    if page.diagnosis.bottleneck.reason == RECEIVED_SIGTERM:
        return f"STOPPED: {RECEIVED_SIGTERM[0].lower()}{RECEIVED_SIGTERM[1:]}"
    if last_omission(run) is not None:
        return f"EXCERPT: {_REST_LEFT_OUT}"
    if run.followed and start_seen(run):
        return "CUT OFF: the next start follows before this one completed"
    no_statistics = page.diagnosis.bottleneck.name == "none-clear"
    return f"EXCERPT: {'requests without statistics' if no_statistics else _NO_RUN}"


def _state_of_limited(page: Page) -> str:
    """Return what limits a run, or that its requests fail."""
    held = page.diagnosis.bottleneck.name in LIMITING or costly_findings(page)
    if transfers_failed(page) and not held and not no_request_succeeded(page.run):
        return "TO CHECK: KV transfers failed"
    if not no_request_succeeded(page.run) or failing_requests(page):
        return f"LIMITED: {_limit(page)}"
    if page.diagnosis.bottleneck.reason == ONE_FAILED:
        return f"REQUEST FAILED: {_logged_error(page) or 'the only answered one to the model'}"
    return "REQUESTS FAILED: no request succeeded"


def _state_of_healthy(page: Page) -> str:
    """Return the state of a run in which nothing failed and no setting limits it."""
    run, limit = page.run, page.diagnosis.bottleneck.name
    if run.kind == "build":
        return "BUILD: no error"
    if run.router:
        return "ROUTER: no error"
    if is_client(run):
        return f"BENCHMARK CLIENT: {'more load than the server took' if excess_load(run) else 'results'}"
    if was_interrupted(run) and (stop := next((one for one in page.findings if one.id == STOPPED), None)):
        return _cause(stop).replace("Stopped", "STOPPED", 1)
    if run.benchmarks and not (run.samples or run.startup_complete):
        return "BENCHMARK RESULTS: the log has no lines of the server"
    if limit == "startup-only" and (error := _logged_error(page)):
        return f"STARTED: {error}"
    if outputs_are_empty(run):
        return "TO CHECK: every printed output is empty"
    if limit == "none-clear" and not run.samples:
        return "COMPLETED" if run.kind == "offline" else "HEALTHY: no statistics of the load in this log"
    if limit == "startup-only" and last_omission(run) is not None:
        return f"STARTED: {_REST_LEFT_OUT}"
    if limit == "startup-only" and not run.seen("request-received"):
        return f"STARTED: no {'prompts in the lines of vLLM' if run.kind == 'offline' else 'request in this log'}"
    if _is_of_little_load(page):
        logged = "" if _counts_refusals(page) else _logged_error(page)
        stopped = next((f"s{_cause(one)[1:]}" for one in page.findings if one.id == STOPPED), "")
        waited = f"no request waited in {plural(load_of(run).lines, 'statistics line')}"
        return f"NO FAILURE: {logged or stopped or waited}"
    if limit in ("idle", "startup-only", "none-clear"):
        return f"HEALTHY: {LIMITS[limit]}"
    client = any(one.title == CLIENT_FAILED for one in page.advice)
    return f"HEALTHY, but {CLIENT_FAILED[0].lower()}{CLIENT_FAILED[1:]}" if client else "HEALTHY"


def _logged_error(page: Page) -> str:
    """Return what failed in the log of a server that did not fail, a request or a client; else nothing."""
    found = next((prose(one.title) for one in page.advice if one.id == REFUSED and one.evidence), "")
    return found[:1].lower() + found[1:]


def _limit(page: Page) -> str:
    """Return what limits a run: requests that fail, before anything that makes the others slower.

    A cache that is not full is named by the title of the finding on it.
    """
    failing = failing_requests(page)
    if failing:
        return prose(failing[0].title)
    limit = page.diagnosis.bottleneck.name
    # The word of the finding's confidence: "medium" where lines speak for the limit, "low" where nothing shows a network.
    word = " (suspected)" if limit == "interconnect-limited" else " (probable)"
    probable = word if limit_is_probable(page.run, limit, load_of(page.run)) else ""
    if limit == "kv-cache-limited":
        titles = (one.title for one in page.diagnosis.findings if one.id == _ABOUT_THE_CACHE)
        title = next(titles, "")
        return prose(title.partition(":")[0]) + probable if title else LIMITS[limit]
    if limit == "host-limited" and offloaded_gib(page.run):
        return "CPU offload of weights"
    if limit == "prefill-limited" and "which is not in the log" in page.diagnosis.bottleneck.reason:
        return "prefill or max_num_seqs"
    if limit in LIMITING:
        return LIMITS[limit] + probable
    named = (one.title for one in costly_findings(page))
    return prose(next(named, "requests wait, the cause is not in the log"))


def transfers_failed(page: Page) -> bool:
    """Return whether transfers of KV blocks failed again and again in a run that went on."""
    found = (one for one in (*page.advice, *page.diagnosis.hidden) if one.id == TRANSFER)
    return any(one.kind == "configuration" and len(one.evidence) >= _AGAIN for one in found)


def costly_findings(page: Page) -> list[Finding]:
    """Return the severe findings that limit a run: work that is refused or stalls, and settings whose cost the load in the log shows."""
    severe = (
        one for one in (*page.advice, *page.diagnosis.hidden) if one.severity in _SEVERE and one.changes
    )
    loaded = _shows_load(page)
    return [
        one
        for one in severe
        if one.kind == "configuration"
        or one.id == _STALLED
        or (one.kind == "performance" and loaded and not _holds_briefly(one))
    ]


def _shows_load(page: Page) -> bool:
    """Return whether enough statistics lines show requests to say what slows them down."""
    load = load_of(page.run)
    return bool(load.busy) and (page.diagnosis.bottleneck.name != "client-limited" or not load.is_short)


def _holds_briefly(finding: Finding) -> bool:
    """Return True if a finding is about a small part of the load only."""
    return finding.effect is not None and finding.effect.share < MOST_OF_THE_RUN


def failing_requests(page: Page) -> list[Finding]:
    """Return what says that most requests fail: whatever else limits a run comes after it."""
    return [one for one in costly_findings(page) if one.topic == "serving" and one.kind == "configuration"]


def is_cut_off(page: Page) -> bool:
    """Return True if the log ends before anything was served or answered, without an error."""
    run = page.run
    answered = any(one.done for one in run.progress) or prints_answers(run)
    before_result = run.kind == "offline" and not run.samples and not answered
    unfinished = before_result or not run.startup_complete
    return run.outcome == "truncated" and start_seen(run) and unfinished and not is_client(run)


def _cause(root: Finding) -> str:
    """Return the title of a cause; the exception itself where no rule names it."""
    line = next(iter(root.evidence), None)
    if line is not None and line.text.rstrip().endswith(":"):  # What a check compares is on the next lines.
        line = decisive(root)[0]
    said = _OF_LIBRARY.sub("", _TEST.sub("", excerpt(line.text, limit=400))) if line is not None else ""
    said = _GLUED.split(_ADDRESS.sub("", said), maxsplit=1)[0]
    said = heading(_DUMP.sub("…", said) if len(said) > _TITLE else said, _TITLE)
    if root.id == _UNNAMED and _WORD.search(said) and not said.replace(".", "").isidentifier():
        text = said.partition(". Did you mean")[0]
        return code(text) if "\\" in inline(text) else inline(text)
    return prose(heading(root.title, _TITLE))
