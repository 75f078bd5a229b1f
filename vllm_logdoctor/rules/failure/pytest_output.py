"""Which tests failed and with which errors, by the summary of pytest; and what to read next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, takewhile

from msgspec.structs import replace

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.rules.context import plural
from vllm_logdoctor.rules.failure.context import FailureContext, Observation
from vllm_logdoctor.rules.failure.facts import facts_of
from vllm_logdoctor.rules.failure.matching import is_vague, match_rules
from vllm_logdoctor.rules.failure.rule_ids import NOT_IN_LOG, UNKNOWN
from vllm_logdoctor.rules.failure.signatures import FailureRules
from vllm_logdoctor.rules.failure.stated_steps import PARSED_NOTHING
from vllm_logdoctor.rules.failure.wording import filled_lines, finding_of, shown, with_shown
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.run.blocks import Raised
from vllm_logdoctor.run.other_programs import OWN_ERROR, failed_check, failed_tests
from vllm_logdoctor.run.tracelines import exception_line

_KINDS = 3
_CITED = 10
_ERROR = 70
_LONG = 300
# function <function test_load at 0x7fc6998f1800> failed      ("a", 12)
_VARIABLE = lazy_pattern(r"<function \w+ at |0x[0-9a-f]+|\d+|'[^']*'")
# pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
_MODULES = lazy_pattern(r"^(?:\w+\.)+(?=\w+:)")
_PYDANTIC = "  Value error, "
# AssertionError: function <function test_load at 0x7f> failed when called with args ()      RuntimeError: Server exited unexpectedly.
_OF_WRAPPER = lazy_pattern(
    r"function <function \w+ at .{1,20}> failed when called with|Server exited unexpectedly"
    r"|Engine core initialization failed|Engine process failed to start"
)
# E   AssertionError: not close      E   assert 3 == 4
_OF_ASSERTION = lazy_pattern(r"E {2,}(?:AssertionError|assert )")
# E   AttributeError: 'PoolerConfig' object has no attribute 'pooling_norm'      E   TypeError: LLM.encode() got an unexpected keyword argument 'task'
# E   ImportError: cannot import name 'PoolerConfig' from 'vllm.config' (/opt/vllm/vllm/config.py)
_LACKS = lazy_pattern(
    r"E {2,}(?:AttributeError: .{1,200} has no attribute|TypeError: .{1,200} got an unexpected keyword argument"
    r"|ImportError: cannot import name) '(?P<name>\w{1,80})'"
)
# tests/models/test_load.py:43: AttributeError
_RAISED_IN_TEST = lazy_pattern(
    r"\S{0,200}\btest_\w{1,100}\.py:\d+: (?:AttributeError|TypeError|ImportError)\s*$"
)
# ====== warnings summary ======      ______ test_load ______
_NEXT_SECTION = lazy_pattern(r"\s*(?:={5,}|_{5,})")
# WARNING  vllm.model_executor.layers:logger.py:32 Falling back      WARNING 05-27 12:32:21 [arg_utils.py:1583] Falling back
_WARNED = lazy_pattern(r"(?:WARNING|ERROR|CRITICAL)\s+(?:\S+:\w+\.py:\d+ |\S+ \S+ \[\S+\] )?")
_READ = "Read the captured output of the failed test."
_CAPTURED = lazy_pattern(r"-+ Captured (?:stdout|stderr|log) \w+ -+")
_NAME = lazy_pattern(r"(?:FAILED|ERROR) (?P<name>[^'`]+?)(?: - |\s*$)")
_ADDRESS = lazy_pattern(r" at 0x[0-9a-f]{6,16}\b")


def has_several_errors(records: Sequence[Record]) -> bool:
    """Return whether a summary names failed tests with different errors: none of them is the cause of all."""
    return len(_errors(failed_tests(records), records)) > 1


def steps_of_test(records: Sequence[Record]) -> tuple[str, ...]:
    """Return what to read of failed tests: captured output that the log has, or the output that it lacks."""
    failed = failed_tests(records)
    name = next((found["name"] for line in failed if (found := _NAME.match(line))), "")
    one = "one failed test" if len(failed) > 1 else "the test"
    alone = (
        f"Run {one} alone, with its output: `pytest -s '{name}'`."
        if name
        else f"Run {one} alone, with its output (`-s`)."
    )
    stated = [one.text[:_LONG] for one in records if OWN_ERROR.match(one.text[:80])]
    lacks = next(filter(None, map(_LACKS.match, stated[:1])), None)
    if lacks is not None and any(_RAISED_IN_TEST.match(one.text[:_LONG]) for one in records):
        return (
            f"Take the test and vLLM from one commit: the installed code has no `{lacks['name']}`. If they are of one, the test is out of date.",
        )
    if _is_unexplained(records) and any(_CAPTURED.search(one.message[:200]) for one in records):
        warned = _warned(records)
        said = _WARNED.sub("", warned.text).replace("`", "'") if warned is not None else ""
        read = (
            f"See whether the captured output of the test explains it: `{shown(said).rstrip('.')}`."
            if said
            else _READ
        )
        return (read, alone)
    if stated:
        return (alone,)
    return (
        "Read the sections of the failed tests in the whole output of pytest: this log lacks them.",
        alone,
    )


def _is_unexplained(records: Sequence[Record]) -> bool:
    """Return whether captured output may explain an error: what one of another class than an assertion says needs none beside it."""
    stated = [one.text[:_LONG] for one in records if OWN_ERROR.match(one.text[:80])]
    return not stated or bool(_OF_ASSERTION.search(stated[0])) or any(map(_OF_WRAPPER.search, stated))


def failed_at(records: Sequence[Record]) -> str:
    """Return the line of code at which pytest says that a test failed; "" where it marks none."""
    failed = failed_check(records)
    return (
        f"The test failed at `{shown(failed.statement)}`" if failed is not None and failed.statement else ""
    )


def _warned(records: Sequence[Record]) -> Record | None:
    """Return the last warning or error that pytest captured of a test that an assertion failed, or None."""
    begun = next((n for n, one in enumerate(records) if _CAPTURED.search(one.message[:200])), len(records))
    lines = takewhile(lambda one: not _NEXT_SECTION.match(one.message), records[begun + 1 :])
    said = [one for one in lines if _WARNED.match(one.text[:_LONG])]
    return said[-1] if said and _is_unexplained(records) else None


def lines_of_test(records: Sequence[Record]) -> tuple[Record, ...]:
    """Return the line of code at which pytest says that a test failed, and that of a text without a character which was parsed as JSON."""
    failed = failed_check(records)
    marked = [failed.record] if failed is not None and failed.statement else []
    if marked and (said := _warned(records)) is not None:
        marked.append(said)
    return (*marked, *[one for one in records if PARSED_NOTHING.search(one.text[:_LONG])][:1])


def findings_of_tests(context: FailureContext, rules: FailureRules) -> Iterator[Finding]:
    """Yield which tests failed, in the words of their summary."""
    failed = failed_tests(context.trail)
    errors = _errors(failed, context.trail)
    wrapped = all(map(_OF_WRAPPER.search, errors))
    rule_id = NOT_IN_LOG if wrapped or len(errors) > 1 else UNKNOWN
    if not failed or rule_id not in rules:
        return
    finding = finding_of(
        rules.rule(rule_id), context.run, role="root", confidence="high",
        records=[failed[tests[0]] for tests in errors.values()][:_KINDS], values={"exception": shown(next(iter(failed)))},
    )  # fmt: skip
    files = {line.split("::", 1)[0].split(" ", 1)[1] for line in failed}
    tests = plural(len(failed), "test") + (f" of {next(iter(files))}" if len(files) == 1 else "")
    if len(errors) > 1:
        title = f"{tests} with {len(errors):,} different errors"
        words = f"{_listed(errors)}."
    elif wrapped:
        title = f"{tests}; the error is not in this log"
        words = "The message is of the wrapper that runs each test in a process of its own: why this process failed is not in this log."
    else:
        title = f"{tests} failed" if len(failed) > 1 else "A test failed"
        words = _with_the_same(tests, failed) if len(failed) > 1 else f"{failed_at(context.trail) or title}."
        words = f"{words} {_meaning(next(iter(errors)), context, rules)}".rstrip()
        lines = list(failed.values())
        finding = with_shown(finding, lines if len(lines) <= _CITED else lines[-1:], context.run)
    steps = steps_of_test(context.trail)
    yield replace(finding, title=title, explanation=words, changes=(), alternatives=steps, verify="")


def _with_the_same(tests: str, failed: Mapping[str, Record]) -> str:
    cited = "" if len(failed) <= _CITED else "; the first and the last are cited"
    return f"{tests} failed with the same error{cited}."


def _meaning(error: str, context: FailureContext, rules: FailureRules) -> str:
    """Return what the page of a failure says of an error whose text alone decides it, or ""."""
    named = exception_line(error, strict=True)
    if named is None:
        return ""
    record = next(iter(failed_tests(context.trail).values()))
    raised = Raised(named.type, named.text, named.inner, (), record, "")
    observation = Observation(error, record, 0, context.place(record), raised=raised)
    found = match_rules(observation, context, rules, facts_of(context.run))
    sure = (one for one in found if one.confidence == "high" and not is_vague(one))
    return next((filled_lines(one.signature.explain, one.values) for one in sure), "")


def _errors(failed: Mapping[str, Record], records: Sequence[Record]) -> dict[str, list[str]]:
    """Return the errors of failed tests as first stated, each with the tests; values do not make another error."""
    stated: dict[str, str] = {}
    found: dict[str, list[str]] = {}
    after = {id(one): following for one, following in pairwise(records)}
    for line, record in failed.items():
        error = _MODULES.sub("", line.partition(" - ")[2])
        following = after.get(id(record))
        if "ValidationError" in error and following is not None and following.message.startswith(_PYDANTIC):
            error = following.message.removeprefix(_PYDANTIC)
        first = stated.setdefault(_VARIABLE.sub("", error)[:_ERROR], error)
        found.setdefault(first, []).append(line)
    return found


def _listed(errors: dict[str, list[str]]) -> str:
    """Return the most frequent errors with the number of their tests."""
    ranked = sorted(errors.items(), key=lambda item: -len(item[1]))
    shown_kinds = [f"{len(tests):,} with `{_cut(error)}`" for error, tests in ranked[:_KINDS]]
    left = sum(len(tests) for _, tests in ranked[_KINDS:])
    return ", ".join([*shown_kinds, *([f"{left:,} with other errors"] if left else [])])


def _cut(error: str) -> str:
    text = _ADDRESS.sub("", error).replace("`", "'")
    return text if len(text) <= _ERROR else f"{text[:_ERROR].rstrip()} ..."
