"""Rules on what is watched while serving, and costs: requests in the log, profiles, traced calls."""

from __future__ import annotations

from collections import Counter

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.context import RuleContext, action, flag, message_lines, plural, setting_lines
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.rules.performance.order import CLIENTS_OWN
from vllm_logdoctor.rules.rule import Advice, Rule
from vllm_logdoctor.run.lifecycle import trail_of
from vllm_logdoctor.run.minutes import is_probe

# Logged requests per second of serving from which formatting prompts costs the API server's one thread.
MANY_LOGGED = 1.0
LEAST_BUSY = 60
ANSWERS = "generated-response-output-finish-reason"
TRACED = "vllm-trace-function-enabled-record-every-function"
SERVER_ERROR = 500
LEAST_ERRORS = 3
LEAST_ERROR_SHARE = 0.01
# Failed requests that limit a server more than its speed does: their least number and share.
MANY_ERRORS = 5
MANY_FAIL = 0.05
# INFO:     127.0.0.1:43553 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error
_ANSWERED = lazy_pattern(r'"POST \S{1,200} HTTP/[\d.]{1,3}" 5\d\d\b')
TRACE = "VLLM_TRACE_FUNCTION"
PROFILE_ROUTE = "/start_profile"
PROFILE_LINES = ("torch-profiling-enabled-traces-saved", "profiling-enabled-traces-saved")


def requests_logged(case: RuleContext) -> Advice | None:
    """Every request is logged with its prompt. Needs such lines, and a load."""
    seen = case.run.seen("request-received")
    if (
        seen is None
        or case.load.busy_seconds < LEAST_BUSY
        or seen.count / case.load.busy_seconds < MANY_LOGGED
    ):
        return None
    rate = seen.count / case.load.busy_seconds
    answers = case.run.seen(ANSWERS)
    text = (
        f"{seen.count:,} requests are logged with their parameters and prompts ({rate:.1f} a second of load):"
        " the API server formats and writes them in its one thread, and prompts end up in the log."
    ) + (f" So are {plural(answers.count, 'answer')}." if answers else "")
    change = flag(case, "--disable-log-requests", None, True, "safe") or flag(
        case, "--enable-log-requests", True, None, "safe"
    )
    return Advice(
        text,
        (*message_lines(case, "request-received", ANSWERS), *setting_lines(case, "enable_log_requests")),
        confidence="medium",
        changes=(*change, *(flag(case, "--enable-log-outputs", True, None, "safe") if answers else ())),
        verify="no `Received request` lines.",
    )


def answered_with_server_errors(case: RuleContext) -> Advice | None:
    """Requests to the model were answered with 5xx. Needs access lines."""
    if case.run.outcome in ("crashed_while_serving", "killed"):
        # They follow from that.
        return None
    posts = {
        (method, path, status): count
        for (method, path, status), count in case.run.accesses.items()
        if method == "POST" and status < 600 and not is_probe(method, path)
    }
    failed = sum(count for (_, _, status), count in posts.items() if status >= SERVER_ERROR)
    total = sum(posts.values())
    most_fail = failed > 0 and failed >= total / 2
    raised = next(
        (one for one in case.run.records if "Exception in ASGI application" in one.message[:80]), None
    )
    held = raised is not None
    if not most_fail and (failed < LEAST_ERRORS or failed < LEAST_ERROR_SHARE * total):
        return None
    if held and failed < LEAST_ERRORS:
        return None  # The exception of each is a finding of its own.
    # Where no request succeeded, that is the state of the run and no limit of its load.
    many = failed < total and (most_fail or (failed >= MANY_FAIL * total and failed >= MANY_ERRORS))
    stack = flag(case, "--log-error-stack", None, True)
    answered = (one for one in trail_of(case.run) if _ANSWERED.search(one.message[:300]))
    shown = next(answered, raised)  # Access lines are counted, and only the last ones of a log are kept.
    worst = Counter({key: count for key, count in posts.items() if key[2] >= SERVER_ERROR}).most_common(1)
    (_, path, status), most = worst[0]
    text = (
        f"{failed:,} of {total:,} POST requests ({100 * failed / total:.3g} %) got a server error (HTTP"
        f" 5xx): {plural(most, 'time')} {status} for {path}."
    )
    return Advice(
        text,
        () if shown is None else (case.run.evidence(shown),),
        confidence="high",
        severity="high" if many else None,
        title=f"{100 * failed / total:.0f} % of requests answered with HTTP 5xx" if many else "",
        changes=(
            action(
                "read the traceback of such a request, which this log holds"
                if held
                else "look for the traceback of one such request: standard error and the engine's log"
            ),
        ),
        alternatives=(f"{stack[0].knob}, if the log has no traceback",) if stack and not held else (),
        verify="no answers with 5xx at the same load.",
    )


def every_call_traced(case: RuleContext) -> Advice | None:
    """Each call of a Python function is recorded. Needs vLLM's warning."""
    if case.event(TRACED) is None:
        return None
    text = (
        "VLLM_TRACE_FUNCTION records every call of a Python function: the run is many times slower, and no figure of it"
        " tells how fast the server is. It is for finding hangs."
    )
    return Advice(
        text,
        message_lines(case, TRACED),
        confidence="high",
        changes=(Change(TRACE, "env", 1, None, "safe", "unset it"),),
        verify="no such warning at the start.",
    )


def profiled_while_serving(case: RuleContext) -> Advice | None:
    """A profile was recorded while requests ran. Needs answered requests to /start_profile, and a load."""
    times = sum(
        count
        for (_, path, status), count in case.run.accesses.items()
        if path.split("?")[0].rstrip("/") == PROFILE_ROUTE and status < 300
    )
    if not times or not case.load.busy_seconds:
        return None
    text = (
        f"A profile was started {plural(times, 'time')} in this run: steps are slower while it records, and figures of that"
        " time are not those of the server alone."
    )
    return Advice(
        text,
        message_lines(case, *PROFILE_LINES),
        confidence="high",
        changes=(action("measure throughput without a profile running"),),
        verify="no request to /start_profile in the log of the measurement.",
    )


def _before_more_requests(_: RuleContext, worth: float) -> float:
    """More requests to a server that fails some are no advice."""
    return max(worth, CLIENTS_OWN + 0.01)


RULES = (
    Rule("every-call-traced", every_call_traced, voids_figures=True),
    Rule("answered-with-server-errors", answered_with_server_errors, worth=_before_more_requests),
    Rule("requests-logged", requests_logged, needs=("request-received",)),
    Rule("profiled-while-serving", profiled_while_serving),
)
