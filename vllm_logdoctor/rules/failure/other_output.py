"""What broke in text that no vLLM wrote: builds and installations, tests, programs that ask a server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.rules.failure.build_errors import INSTALL_BUILT
from vllm_logdoctor.rules.failure.context import FailureContext
from vllm_logdoctor.rules.failure.own_steps import WHOLE_OUTPUT
from vllm_logdoctor.rules.failure.pytest_output import findings_of_tests
from vllm_logdoctor.rules.failure.rule_ids import NOT_IN_LOG, UNKNOWN
from vllm_logdoctor.rules.failure.signatures import FailureRules
from vllm_logdoctor.rules.failure.wording import finding_of, shown
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.run.builds import failed_step, stated_error
from vllm_logdoctor.run.other_programs import (
    BROKEN_OFF,
    UNREACHED,
    addresses,
    counted_in,
    failed_requests,
)
from vllm_logdoctor.run.tracelines import cleaned

OTHERS = frozenset({"build", "client", "container", "test"})
REFUSED = "request-error-not-server-fault"
_OF_A_STEP = (
    "Correct what this line names, and build again.",
    INSTALL_BUILT,
)
_ANSWERS = {
    "refused": (
        "Correct the request: the server's answer says what it did not take (length, name of the model, a field).",
        "Where prompts are really that long, the server needs a larger `--max-model-len`.",
    ),
    "failed": ("Read the log of the server at that time: with a status of 5xx the server itself failed.",),
    "broken off": (
        "Read the log of the server, or of a proxy before it, at that time: it may have failed, been stopped or timed out.",
    ),
    "unset": (
        "Start the server with the settings that its answer names: {flags}.",
        "Without them, leave out of the request what needs them.",
    ),
    "unreached": (
        "See that the server runs and listens there: `curl http://HOST:PORT/health`, and `Application startup complete` in its log.",
        "Compare host, port and proxy variables of the client with those of the server.",
    ),
}
_HAPPENED = {
    UNREACHED: "The client's request did not get to the server: no connection was made.",
    BROKEN_OFF: "The server, or a proxy before it, closed the connection before its answer was complete.",
}
_MANY = 0.05
"""Share of failed requests from which on the figures of a benchmark are of another load than the one that was sent."""
_REFUSED = "The server refused the client's request."
_FAILED = "The server failed at the client's request; its own log has the error."
_NO_URL = (
    "Write the address as a URL with its scheme: `http://HOST:PORT/v1`.",
    "See that the server answers there: `curl http://HOST:PORT/health`.",
)
# "auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set
_FLAG = lazy_pattern(r"(?<![\w-])--[a-z][a-z0-9-]{2,60}(?![\w-])")


def findings_of_others(context: FailureContext, rules: FailureRules) -> Iterator[Finding]:
    """Yield what broke by the words of the program that wrote the text; a container's runtime is known by its rules alone."""
    if context.run.kind == "build":
        yield from _failed_build(context, rules)
    elif context.run.kind == "client":
        yield from _failed_client(context, rules)
    elif context.run.kind != "container":
        yield from findings_of_tests(context, rules)


def _failed_build(context: FailureContext, rules: FailureRules) -> Iterator[Finding]:
    """Yield what a step of a build said before it failed, or that its tool says only that it failed."""
    failed = failed_step(context.trail) if context.ending.failed else None
    if failed is None:
        return
    said = stated_error(context.trail) if UNKNOWN in rules else None
    values = {"exception": shown(cleaned((said or failed).message).strip())}
    rule_id, records = (
        (UNKNOWN, [said, failed][: 1 + (said is not failed)]) if said is not None else (NOT_IN_LOG, [failed])
    )
    rule = rules.rule(rule_id)
    finding = finding_of(rule, context.run, role="root", confidence="medium", records=records, values=values)
    title, ways = (
        ("A step of the build failed", _OF_A_STEP) if said is not None else (finding.title, WHOLE_OUTPUT)
    )
    yield replace(finding, title=title, changes=(), alternatives=ways, verify="")


def _failed_client(context: FailureContext, rules: FailureRules) -> Iterator[Finding]:
    """Yield what a server answered the program that wrote the log, or that it did not answer."""
    status, lines = failed_requests(context.trail)
    if not lines or REFUSED not in rules:
        return
    titles = {
        UNREACHED: "The client did not reach the server",
        BROKEN_OFF: "The server's response ended early",
    }
    title = titles.get(status, f"The server answered with status {status}")
    address = None if status else next(iter(addresses(context.trail)), None)
    happened, ways = _answered(status, lines)
    words = f"{happened} The client reports: {shown(lines[0].message.strip())}"
    if address is not None and address.is_url:
        words += f" The address that it was given is `{address.text}`."
    elif address is not None:
        words += f" The address that it was given, `{address.text}`, is no URL."
        ways = _NO_URL
    finding = finding_of(
        rules.rule(REFUSED), context.run, role="root", confidence="high",
        records=[*lines[:3], *([address.record] if address is not None else ())], values={},
        kind="failure", severity="high",
    )  # fmt: skip
    yield replace(finding, title=title, explanation=words, changes=(), alternatives=ways, verify="")


def _answered(status: int, lines: Sequence[Record]) -> tuple[str, tuple[str, ...]]:
    """Return what happened to a request by its status, as a sentence, and the steps for it."""
    flags = list(dict.fromkeys(_FLAG.findall(lines[0].message[:2000])))
    answer = (
        "unreached" if status == UNREACHED
        else "broken off" if status == BROKEN_OFF
        else "failed" if status >= 500
        else "unset" if flags else "refused"
    )  # fmt: skip
    named = " and ".join(f"`{flag}`" for flag in flags)
    ways = tuple(way.format(flags=named) for way in _ANSWERS[answer])
    return _HAPPENED.get(status, _REFUSED if status < 500 else _FAILED), ways


def benchmark_findings(context: FailureContext, rules: FailureRules) -> Iterator[Finding]:
    """Yield that requests of a benchmark failed, where its result counts them beside those that succeeded."""
    counted = [
        (block, found) for block in context.blocks if (found := counted_in(block, context.run)) is not None
    ]
    if not counted or REFUSED not in rules:
        return
    results = list({id(result): result for _, result in counted}.values())
    failed = sum(result.figures.get("Failed requests", 0) for result in results) or len(counted)
    total = failed + sum(result.figures["Successful requests"] for result in results)
    errors = [block.last_raised.record for block, _ in counted]
    status, lines = failed_requests(errors)
    happened, ways = _answered(status, lines) if lines else ("", ())
    words = [
        *([happened] if happened else ()),
        f"The client reports: {shown(errors[0].message.strip())}.",
        "The result was printed all the same; its rates and latencies are those of the other requests.",
    ]
    finding = finding_of(
        rules.rule(REFUSED), context.run, role=None, confidence="high", records=errors[:3], values={}
    )
    finding = replace(finding, severity="medium" if failed >= total * _MANY else "low")
    title = f"{failed:,.0f} of {total:,.0f} requests of the benchmark failed"
    yield replace(
        finding,
        title=title,
        explanation=" ".join(words),
        changes=(),
        alternatives=ways,
        verify="`Failed requests` is 0.",
    )
