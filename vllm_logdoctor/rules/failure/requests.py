"""Requests that failed while the server was well: counted, explained, never a failure of the server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.rules.failure.context import FailureContext, Observation
from vllm_logdoctor.rules.failure.matching import RuleMatch, is_vague, match_rules
from vllm_logdoctor.rules.failure.shown_lines import frames_named
from vllm_logdoctor.rules.failure.signatures import FailureRules
from vllm_logdoctor.rules.failure.unnamed import unnamed_match
from vllm_logdoctor.rules.failure.wording import finding_of, named_finding, shown, with_shown
from vllm_logdoctor.rules.model import Change, Finding
from vllm_logdoctor.run.blockkinds import is_utility_call
from vllm_logdoctor.run.lifecycle import serves
from vllm_logdoctor.run.owners import is_file_of_vllm
from vllm_logdoctor.run.places import file_and_function
from vllm_logdoctor.run.tracelines import link_line

REFUSED = "request-error-not-server-fault"
NO_TEMPLATE = "chat-template-missing"
_NO_ACCESS = "no-permission-for-path"
_OF_HOME = lazy_pattern(r": '/(?:\.|nonexistent)")
_WITHOUT = "vLLM goes on without this file; a download or another cache in the same place can fail."
_FEW = 3
_JUST_ABOVE = 10
"""Lines above a failed call in which a library may say why."""
_MANY = 20
"""Refused requests from which on their share says something of the clients."""
_CORRECT = Change(
    "correct the requests: the most frequent refusal shows what the server did not take", "action"
)
_OF_ERROR = lazy_pattern(r"(?i)error|exception|fail")
_MODEL = "error-model"
# Error with model error=ErrorInfo(message='The model `m` does not exist.', type='NotFoundError', param=None, code=404)
_MESSAGE = lazy_pattern(r"message='(?P<message>[^'\n]{4,200})'")
_ASGI = "Exception in ASGI application"
_FAILED = "Error while processing a request"
_LOGGED = (
    'The server logged "{logged}".\nExceptions: {several}.\nException: {only}.\n{grouped}.\n'
    "Raised in {place}.\n{answer}."
)
_COUNTED = "Client errors (HTTP 4xx): {statuses}."
_ANSWERED = "The web server answered with status 500 and goes on"
_GOES_ON = "Only this request is affected: the web server goes on after such an error"
_GROUPED = "The exception behind it is not in this log"
_WITHOUT_STREAM = (
    "Send the same request without `stream`, which the failed one had: if it fails too, the server logs the exception"
    " itself; if not, the fault is in the code that streams."
)
_STREAM = "starlette/responses.py"
_NOT_STOPPED = "Nothing in the log says that the server stopped"
_LOGGED_IN_PART = 'The server logged "{logged}".\nThe last line, which names the error, is not in the log.'
_TORN = "Error while processing a request, its traceback cut off"


def request_findings(
    context: FailureContext, rules: FailureRules, facts: Mapping[str, Any]
) -> Iterator[Finding]:
    """Yield what is to say of requests that failed: a missing chat template, and the refused ones with their count."""
    observed = [one for one in _observed(context) if not _follows(one, context)]
    refused, share = _refused(context), _refused_share(context)
    template = next((one for one in observed if _is(NO_TEMPLATE, one, context, rules, facts)), None)
    if template is not None and NO_TEMPLATE in rules:
        rule, records = rules.rule(NO_TEMPLATE), [template.record]
        finding = finding_of(rule, context.run, role=None, confidence="high", records=records, values={})
        if share:
            title = f"{finding.title}, and {100 * share:.0f} % of requests rejected"
            finding, share = replace(finding, severity="high", title=title), None
        yield finding
    caches = [one for one in observed if _is(_NO_ACCESS, one, context, rules, facts)]
    if caches:
        yield _unwritten(caches[0], context, rules, facts)
    texts = [one for one in observed if one is not template and one not in caches]
    fault = _server_fault(texts, context, rules, facts)
    if fault is not None:
        yield named_finding(fault, context.run, "root")
        texts = [one for one in texts if not _is(fault.rule.id, one, context, rules, facts)]
    calls = [] if fault is not None else [one for one in texts if _ended_in_call(one, context, rules, facts)]
    failed = _failed_call(calls[0], context, rules, facts) if calls else None
    if failed is not None:
        yield named_finding(failed, context.run, "root")
        texts = [one for one in texts if one not in calls]
    known = _known_refusal(texts, context, rules, facts)
    if known is not None and not share:
        heads = [head for one in observed if (head := _head(one)) is not None]
        lines = [*(one.record for one in texts[1:]), *heads]
        finding = named_finding(known, context.run, "root", lines)
        counted = f" {_COUNTED.format(statuses=_statuses(refused))}" if refused else ""
        yield replace(finding, explanation=finding.explanation + counted)
        return
    faults = [one for one in texts if _is_of_server(one)]
    if faults and refused and REFUSED in rules:
        yield _refusals(context, rules, Counter(), faults)
        texts = [one for one in texts if one not in faults]
    if REFUSED in rules and (sum(refused.values()) >= _FEW or texts or _unknown_model(context, refused)):
        refusals = _refusals(context, rules, refused, texts)
        if share:
            title = f"{100 * share:.0f} % of requests rejected with HTTP 4xx"
            refusals = replace(refusals, severity="high", title=title, changes=(*refusals.changes, _CORRECT))
        yield refusals


def _unwritten(
    one: Observation, context: FailureContext, rules: FailureRules, facts: Mapping[str, Any]
) -> Finding:
    """Return the finding on a file that could not be written and that a process did without."""
    named = next(found for found in match_rules(one, context, rules, facts) if found.rule.id == _NO_ACCESS)
    finding = named_finding(named, context.run, None)
    words = f"{finding.explanation} {_WITHOUT}"
    # That a folder above it is missing is no failure yet; what was raised while it was handled is.
    handled = [record for record in (one.block.records if one.block else ()) if link_line(record.message)]
    finding = with_shown(finding, handled[:1], context.run)
    return replace(finding, kind="configuration", severity="medium", explanation=words)


def _known_refusal(
    texts: Sequence[Observation], context: FailureContext, rules: FailureRules, facts: Mapping[str, Any]
) -> RuleMatch | None:
    """Return what failed requests, where all their exceptions are of one kind that has a title of its own."""
    named = [
        next((one for one in match_rules(text, context, rules, facts) if one.rule.id == REFUSED), None)
        for text in texts
        if not _follows_from_others(text)
        and (text.raised is None or text.raised.type)  # A torn traceback says nothing.
    ]
    titles = {one.signature.title if one is not None else "" for one in named}
    return named[0] if len(titles) == 1 and "" not in titles else None


def _server_fault(
    observed: Sequence[Observation], context: FailureContext, rules: FailureRules, facts: Mapping[str, Any]
) -> RuleMatch | None:
    """Return the fault of the server that failed a request with status 500, where a rule knows it by its own words."""
    for one in observed:
        if one.block is None or not (is_utility_call(one.block) or _is_of_server(one)):
            continue
        for named in match_rules(one, context, rules, facts):
            known = named.signature.rank == "cause" and named.rule.kind == "failure" and not is_vague(named)
            if known and named.rule.id not in (REFUSED, NO_TEMPLATE):
                return named
    return None


def _ended_in_call(
    one: Observation, context: FailureContext, rules: FailureRules, facts: Mapping[str, Any]
) -> bool:
    """Return whether the engine core failed in a call other than a request, and the log shows no work of it after that."""
    if one.block is None or not is_utility_call(one.block) or _is(REFUSED, one, context, rules, facts):
        return False
    last = one.block.records[-1].line
    served = any(record.line > last and serves(record) for record in context.trail)
    return not served and not any(sample.line > last and sample.generation for sample in context.run.samples)


def _failed_call(
    call: Observation, context: FailureContext, rules: FailureRules, facts: Mapping[str, Any]
) -> RuleMatch | None:
    """Return why a call failed, by a line of a library just above it where its traceback does not say."""
    above = {id(record) for record in context.above(call.position, _JUST_ABOVE)}
    lines = [line for line in context.lines if id(line.record) in above and not line.framed]
    named = [match for one in (call, *reversed(lines)) for match in match_rules(one, context, rules, facts)]
    failures = (match for match in named if match.rule.kind == "failure" and match.rule.id != NO_TEMPLATE)
    return next(failures, None) or unnamed_match(call, context, rules, facts)


def _is_of_server(observation: Observation) -> bool:
    """Return whether the web server itself logged an exception: nothing caught it, and the request was answered with status 500."""
    return observation.block is not None and _ASGI in observation.block.announcement


def _observed(context: FailureContext) -> Iterator[Observation]:
    numbers = [
        n
        for n, kind in enumerate(context.ending.kinds)
        if kind in ("request", "noise") and not _after_stop(context, n) and not _groups_root(context, n)
    ]
    for observation in context.exceptions(numbers):
        if (
            context.ending.kinds[context.blocks.index(observation.block)] == "request"
            or "template" in observation.text
            or _OF_HOME.search(observation.text)
        ):
            yield observation


def _follows_from_others(observation: Observation) -> bool:
    """Return whether an exception only says that there are others: a group of them, or what they cancelled."""
    raised = observation.raised
    return raised is not None and raised.name.endswith(("ExceptionGroup", "CancelledError"))


def _follows(observation: Observation, context: FailureContext) -> bool:
    """Return whether a cancelled request only follows from the error that ended the run."""
    return context.ending.failed and _follows_from_others(observation)


def _groups_root(context: FailureContext, number: int) -> bool:
    """Return whether a block is the head of an exception group with the error that ended the run."""
    last = context.blocks[number].last_raised
    return last.name.endswith("ExceptionGroup") and number + 1 in context.ending.fatal


def _after_stop(context: FailureContext, number: int) -> bool:
    stop, first = context.ending.stop, context.blocks[number].first
    return stop is not None and context.place(stop.record) < context.place(first)


def _is(
    rule_id: str,
    observation: Observation,
    context: FailureContext,
    rules: FailureRules,
    facts: Mapping[str, Any],
) -> bool:
    return any(named.rule.id == rule_id for named in match_rules(observation, context, rules, facts))


def _refused(context: FailureContext) -> Counter[int]:
    """Return the answers with 4xx to posted requests, by status; 401 and 404 to strangers who look around do not count."""
    return Counter({status: count for status, count in _posted(context).items() if 400 <= status < 500})


def _refused_share(context: FailureContext) -> float | None:
    """Return the share of refused requests where they are many and most."""
    refused, posted = _refused(context).total(), _posted(context).total()
    return refused / posted if refused >= _MANY and refused >= posted / 2 else None


def _posted(context: FailureContext) -> Counter[int]:
    """Return the answers to requests posted to the API, by status."""
    posted: Counter[int] = Counter()
    for (method, path, status), count in context.run.accesses.items():
        if method == "POST" and "/v1/" in path:
            posted[status] += count
    return posted


def _head(observation: Observation) -> Record | None:
    """Return the line above a traceback with which the server logs the error, not one that happens to be there."""
    head = observation.block.introduction if observation.block is not None else None
    if head is None or link_line(head.message) or not _OF_ERROR.search(head.message):
        return None
    return head


def _unknown_model(context: FailureContext, refused: Counter[int]) -> tuple[str, Record] | None:
    """Return what the server said of a model that it does not serve, where most refusals may be of that kind."""
    logged = context.run.messages.get(_MODEL)
    if logged is None or 2 * refused[404] <= refused.total():
        return None
    found = _MESSAGE.search(logged.first[0].record.message)
    return (found["message"], logged.first[0].record) if found else None


def _place(texts: Sequence[Observation]) -> str | None:
    """Return file and function of vLLM's code in which failed requests were, where all were in the same."""
    raised = [one.raised for one in texts if one.raised is not None]
    own = [[frame for frame in one.frames if is_file_of_vllm(frame.file)][-1:] for one in raised]
    places = {file_and_function(one[0].file, one[0].function) if one else "" for one in own}
    return places.pop() or None if len(places) == 1 else None


def _statuses(refused: Counter[int]) -> str:
    return ", ".join(f"{count} with {status}" for status, count in sorted(refused.items()))


def _answer(texts: Sequence[Observation], context: FailureContext) -> str:
    """Return what became of failed requests: with a status where the log has it, as a stream has begun to answer before."""
    if not texts or not all(_is_of_server(one) for one in texts):
        return _NOT_STOPPED
    return _ANSWERED if any(status >= 500 for status in _posted(context)) else _GOES_ON


def _refusals(
    context: FailureContext, rules: FailureRules, refused: Counter[int], texts: list[Observation]
) -> Finding:
    # Longer than what is shown of a value, so that a cut is marked.
    alone = [one for one in texts if not _follows_from_others(one)] or texts[-1:]
    left = {id(one.block or one): one for one in alone if one.raised is None or one.raised.type}
    texts = list(left.values()) or texts
    torn = bool(texts) and all(one.raised is not None and not one.raised.type for one in texts)
    words = Counter(one.text.split("\n")[0][:200] for one in texts)
    said = _unknown_model(context, refused) if not words else None
    if said is not None:
        words[said[0]] += 1
    what = shown(words.most_common(1)[0][0]) if words else None
    heads = [head for one in texts if (head := _head(one)) is not None]
    logged = sorted({head.message.strip().removeprefix("ERROR:").strip(" .:") for head in heads})
    records = [record for one in texts[:2] for record in (one.record, _head(one)) if record is not None]
    records += [said[1]] if said is not None else []
    values = {
        "count": sum(refused.values()) or None,
        "statuses": _statuses(refused) or None,
        "what": what,
        "only": what if len(words) == 1 else None,
        "several": "; ".join(shown(one) for one, _ in words.most_common(2)) if len(words) > 1 else None,
        "logged": logged[0] if len(logged) == 1 else None,
        "grouped": _GROUPED if texts and all(map(_follows_from_others, texts)) else None,
        "place": _place(texts),
        "answer": _answer(texts, context),
    }
    rule = rules.rule(REFUSED)
    frames = (frame for one in texts if one.raised is not None for frame in one.raised.frames)
    if streamed := values["grouped"] is not None and any(frame.file.endswith(_STREAM) for frame in frames):
        rule = replace(rule, alternatives=(_WITHOUT_STREAM,))
    title, explain = (_TORN, _LOGGED_IN_PART) if torn else (_FAILED, _LOGGED)
    finding = finding_of(
        rule if refused else replace(rule, title=title, meaning=""), context.run,
        role="root" if streamed else None, confidence="high",
        records=records, values=values, kind="configuration", explain="" if refused else explain,
    )  # fmt: skip
    announced = heads[:1] if len(logged) == 1 and not refused else []
    first = (one.raised.frames for one in texts[:1] if one.raised is not None)
    places = frames_named(finding.explanation, [frame for frames in first for frame in frames])
    return with_shown(finding, [*announced, *places], context.run)
