"""Judges a run: root first, then what contributed, then what followed, then requests and stops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Process, Record
from vllm_logdoctor.rules.already_set import without_switches
from vllm_logdoctor.rules.failure.context import FailureContext, is_prose
from vllm_logdoctor.rules.failure.facts import facts_of
from vllm_logdoctor.rules.failure.matching import RuleMatch, place_of
from vllm_logdoctor.rules.failure.nonfatal import (
    aside_findings,
    caller_findings,
    limit_findings,
    transfer_findings,
)
from vllm_logdoctor.rules.failure.other_output import benchmark_findings
from vllm_logdoctor.rules.failure.pytest_output import has_several_errors, steps_of_test
from vllm_logdoctor.rules.failure.requests import REFUSED, request_findings
from vllm_logdoctor.rules.failure.root import Verdict, verdict_of
from vllm_logdoctor.rules.failure.rule_ids import CODE, UNKNOWN
from vllm_logdoctor.rules.failure.shown_lines import code_line
from vllm_logdoctor.rules.failure.signatures import FailureRules, expression, failure_rules
from vllm_logdoctor.rules.failure.silent_end import SILENT, end_findings
from vllm_logdoctor.rules.failure.user_packs import explained_by_packs
from vllm_logdoctor.rules.failure.wording import finding_of, frames_wanted, named_finding
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.rules.printed import check_of_failure
from vllm_logdoctor.run.blocks import Block, Frame, Raised, blocks_of
from vllm_logdoctor.run.lifecycle import trail_of
from vllm_logdoctor.run.model import Outcome, Run
from vllm_logdoctor.run.outcome import outcome_of
from vllm_logdoctor.run.owners import PROGRAM, acting_frames, is_file_of_vllm, is_own, owner_of
from vllm_logdoctor.run.tracelines import cleaned, frame_line, without_numbers

FOLLOWED = "errors-that-followed"
_MEMORY = (
    "Model loading took",
    "Loading model weights took",
    "the current vLLM instance can use",
    "Available KV cache memory",
    "Estimated CUDA graph memory",
)
_CLIENTS = frozenset({PROGRAM, "openai", "httpx", "httpcore", "requests", "urllib3", "aiohttp", "anyio"})
_UNSURE = frozenset({"unclassified-failure", "cause-not-in-log"})


def failures_of(run: Run) -> tuple[Outcome, tuple[Finding, ...]]:
    """Return how a run ended and what broke it.

    Returns:
        The outcome; and findings, the root first, what contributed, what followed, failed requests and stops apart: none of kind
        "failure" for a healthy run.
    """
    blocks = blocks_of(trail_of(run))
    context = FailureContext(run, blocks, outcome_of(run, blocks))
    rules, facts = failure_rules(), facts_of(run)
    verdict = verdict_of(context, rules, facts)
    if verdict is not None and run.kind == "client" and verdict.root.rule.id in _UNSURE:
        verdict = (
            None  # What the server answered, or that it did not, says more than where the client raised it.
        )
    if run.kind == "test" and has_several_errors(context.trail):
        verdict = None
    found = (
        _broken(context, rules, verdict) if verdict is not None else list(end_findings(context, rules, facts))
    )
    findings = (
        *explained_by_packs(context, found),
        *aside_findings(context, rules, facts),
        *transfer_findings(context, rules),
        *limit_findings(context, rules, facts),
        *request_findings(context, rules, facts),
        *benchmark_findings(context, rules),
        *caller_findings(context, rules),
    )
    outcome = _settled_outcome(context, findings)
    if run.kind == "test":
        findings = tuple(_in_a_test(one, context) if one.role == "root" else one for one in findings)
    return outcome, tuple(
        replace(one, verify=check_of_failure(one.verify, run, outcome)) if one.role == "root" else one
        for one in findings
    )


def speaks_of_vllm(run: Run) -> bool:
    """Return whether records without a line of vLLM's own loggers are about it: its files in a traceback, a failure known here."""
    if any("vllm" in record.text or "vLLM" in record.text for record in run.records[:2000]):
        return True
    return any(finding.role == "root" and finding.id not in _UNSURE for finding in failures_of(run)[1])


def shows_error(run: Run) -> bool:
    """Return whether a run shows an error that ended it, known here or not; a client's own error is none."""
    blocks = blocks_of(trail_of(run))
    owners = {owner_of(frame.file) for block in blocks for one in block.raised for frame in one.frames}
    remote = any(one.type.startswith("ray.") for block in blocks for one in block.raised)
    if owners and owners <= _CLIENTS and not remote and run.kind != "client":
        return False
    return any(finding.role == "root" and finding.kind == "failure" for finding in failures_of(run)[1])


def _in_a_test(root: Finding, context: FailureContext) -> Finding:
    """Return a failure without steps that set flags: a test starts its engines itself, and with several models."""
    ways = tuple(way for way in map(without_switches, root.alternatives) if "--" not in way)
    changes = tuple(one for one in root.changes if one.kind != "flag")
    if (ways, changes) != (root.alternatives, root.changes):
        ways = (*ways, steps_of_test(context.trail)[0])
    avoid = root.avoid if "--" not in root.avoid else ""
    return replace(root, changes=changes, alternatives=ways, avoid=avoid)


def _settled_outcome(context: FailureContext, findings: Sequence[Finding]) -> Outcome:
    """Return the outcome, with what the root says of it: a log that only seemed to stop has crashed where a failure names itself."""
    ending = context.ending
    if context.run.kind == "test":
        return ending.outcome  # What fails a test is no server that crashed.
    if ending.outcome not in ("truncated", "unknown", "running"):
        alone = not ending.started and ending.ready is None and ending.outcome == "crashed_while_serving"
        refused = alone and any(one.role == "root" and one.id == REFUSED for one in findings)
        return "unknown" if refused else ending.outcome  # Who called the engine may go on after a request.
    if ending.outcome == "running" and not ending.fatal and "request" in ending.kinds:
        return ending.outcome  # What failed requests has not ended the server.
    roots = (one for one in findings if one.role == "root" and one.kind == "failure" and one.id not in SILENT)
    root = next(roots, None)
    if root is None or (ending.outcome == "truncated" and _went_on(context, root)):
        return ending.outcome
    if ending.outcome == "running" and root.id in _UNSURE:
        return "unknown"  # The log ends with an error, not with the run.
    if ending.ready is not None:
        return "crashed_while_serving"
    return "crashed_at_startup" if ending.started or _only_at_start(root) else "unknown"


def _went_on(context: FailureContext, root: Finding) -> bool:
    """Return whether the process that wrote the line of a failure logged on as usual until the log ends.

    (EngineCore pid=41) Failed to get device capability: SM 12.x requires CUDA >= 12.9.
    (EngineCore pid=41) INFO 08-03 17:45:57 [weight_utils.py:869] Filesystem type for checkpoints: OVERLAY.
    """
    proof = {one.line for one in root.evidence}
    lines = [one for one in context.trail if one.line in proof]
    if (
        not lines
        or root.confidence == "high"
        or any(one.level in ("ERROR", "CRITICAL", "FATAL") for one in lines)
    ):
        return False
    behind = [one for one in context.trail if one.line > max(proof) and one.process == lines[-1].process]
    return not context.ending.fatal and any(one.level == "INFO" for one in behind)


# 2023-08-25 10:00:00,737 INFO client_builder.py:237 -- Passing the following kwargs to ray.init() on the server: ignore_reinit_error
_OF_NORMAL_COURSE = lazy_pattern(r"^(?:\S+ \S+\s+)?(?:INFO|DEBUG)\s+[\w.]+\.py:\d+ ")
_OF_ERRORS = lazy_pattern(r"(?i)error|exception|fail|fatal|crash|abort|died|dead|killed|traceback|terminat")
# │ /opt/vllm/engine/llm_engine.py:305 in step │    The other lines of a box show neither a place nor the code that raised.
#     def forward(      Code that is compiled or decorated has its first line in place of the one that raised.
#     hidden_states     So does a line from the middle of a statement.
# handle: <Handle functools.partial(...)>      What asyncio prints of a callback that raised.
_SAYS_NOTHING = lazy_pattern(
    r"handle: <\w*Handle |\s*│(?!.*(?:❱|\.py:\d+ in \w))|(?:\[rank\d+\]:)?\s+(?:(?:async )?def \w+\(|[a-z_]\w*,?)\s*$"
)
_START_TOPICS = frozenset(
    {"configuration", "kv-cache", "model-loading", "quantization", "scheduler", "tokenizer"}
)
_START_RULES = frozenset({"torch-compile-failure", "fused-compile-pass-fault"})
"""The graph is compiled before the engine serves; only kernels are built while it does."""
_WHILE_SERVING = frozenset({"oom-runtime-headroom", "sleep-mode-wake-up-oom", "killed-for-host-memory"})


def _only_at_start(root: Finding) -> bool:
    """Return whether a failure can only happen before the engine is up: its settings, weights, tokenizer, memory are checked there."""
    if root.confidence == "low":
        return False
    if root.topic in _START_TOPICS or root.id in _START_RULES:
        return True
    return root.topic == "memory" and root.id not in _WHILE_SERVING


def _broken(context: FailureContext, rules: FailureRules, verdict: Verdict) -> list[Finding]:
    lines = [*memory_of(verdict, context), *context_of(verdict, context), *verdict.agreeing]
    root = named_finding(verdict.root, context.run, "root", lines)
    copies = map(context.run.evidence, _copies(verdict.root, verdict.followed, verdict.agreeing))
    root = replace(root, evidence=tuple(dict.fromkeys((*root.evidence, *copies))))
    contributing = [
        named_finding(named, context.run, "contributing", _copies(named, context.blocks))
        for named in verdict.contributing
    ]
    return [root, *contributing, *_apart_from(root, _followed(context, rules, verdict))]


def _apart_from(root: Finding, followed: Iterable[Finding]) -> Iterator[Finding]:
    """Yield what followed without the lines that prove the root: the same error of another rank is no consequence."""
    proven = {(one.file, one.line) for one in root.evidence}
    for finding in followed:
        left = tuple(one for one in finding.evidence if (one.file, one.line) not in proven)
        if left:
            yield replace(finding, evidence=left)


def memory_of(verdict: Verdict, context: FailureContext) -> list[Record]:
    """Return what the engine said of memory before it ran out: the numbers behind the failure."""
    if verdict.root.rule.exhausts != "device-memory":
        return []
    above = context.trail[: verdict.root.observation.position]
    found = {words: record for record in above for words in _MEMORY if words in record.message}
    return [found[words] for words in _MEMORY if words in found][:2]


def context_of(verdict: Verdict, context: FailureContext) -> list[Record]:
    """Return lines that show where the root was raised: the frames that tell, the exceptions of its chain, the announcement."""
    block, raised = verdict.root.observation.block, verdict.root.observation.raised
    if block is None or raised is None:
        return []
    frames = [
        # By which place a rule knows a failure is in the line that names the file.
        code_line(frame, block) if is_own(frame.file) else frame.record
        for frame in _telling_frames(verdict.root, raised, block)
    ]
    chain = [one.record for one in _chained(raised, block)[:3]]
    # The line that raises proves the exception, though a report that quotes the exception has no need of it: what no rule
    # knows is identified by its place, which the line above names.
    of_place = verdict.root.rule.id in (CODE, UNKNOWN)
    chain += [
        one.record if of_place else code_line(one, block)
        for one in acting_frames(raised.frames)[-1:]
        if one.code.startswith("raise")
    ]
    records = [*frames, raised.record, *_more_of_text(raised, block), *chain]
    if context.run.kind != "test":  # There the lines above an error are the source of the test.
        records += [one for one in block.native if "Warning: " not in one.message][-2:]
    # The last line of another traceback, right above this one, announces nothing.
    raised_by_others = {id(one.record) for other in context.blocks for one in other.raised}
    above = block.introduction
    if above is not None and id(above) not in raised_by_others and _announces(above):
        records.append(above)
    return [
        one
        for one in records
        if not _SAYS_NOTHING.match(one.message) and not _is_of_importlib(one) and not is_prose(one)
    ]


def _chained(raised: Raised, block: Block) -> Sequence[Raised]:
    """Return the exceptions that an exception was raised from, itself, and those that followed.

    One that was being handled when it was raised broke nothing by itself.
    """
    first = next((number for number, one in enumerate(block.raised) if one is raised), 0)
    while first and block.raised[first].link == "cause":
        first -= 1
    return block.raised[first:]


# return cls.get_metadata_cls()(*args, **kwargs)      return self._op(*args, **(kwargs or {}))
_PASSES_ON = lazy_pattern(r".*\(\*\w*args\b.{0,40}\)$")
# raise ValueError(msg)      return ModelConfig(      config = VllmConfig(
_ONLY_REFUSES = lazy_pattern(r"raise\b|(?:return |\w+ = )?\w*Config\($")


def _telling_frames(root: RuleMatch, raised: Raised, block: Block) -> list[Frame]:
    """Return the frame by which the rule knows the failure, and the innermost one of vLLM or of the program, where it does more than raise."""
    known = expression(frames_wanted(root)) if frames_wanted(root) else None
    named = [frame for one in block.raised for frame in one.frames if known and known.search(place_of(frame))]
    named = [one for one in named if is_own(one.file)] or named
    acting = acting_frames(raised.frames)
    own = [one for one in acting if is_file_of_vllm(one.file)]
    own = own or [one for one in acting if owner_of(one.file) == PROGRAM]
    own = [one for one in own if not _PASSES_ON.match(one.code)][-1:]
    own = [one for one in own if is_own(one.file)]
    return [one for one in (*named[-1:], *own) if not _ONLY_REFUSES.match(one.code)]


def _is_of_importlib(record: Record) -> bool:
    """Return whether a line is a place of Python's import system: File "<frozen importlib._bootstrap>", line 241, in ...."""
    return "<frozen importlib" in record.message


def _announces(record: Record) -> bool:
    """Return whether the line before a traceback speaks of an error: any line may happen to be there."""
    text = cleaned(record.message)
    if text.startswith("    ") or frame_line(text) is not None or _OF_NORMAL_COURSE.search(text):
        return False
    if record.level:
        return record.level in ("ERROR", "CRITICAL", "FATAL")
    return "Warning: " not in text and bool(_OF_ERRORS.search(text))


def _more_of_text(raised: Raised, block: Block) -> list[Record]:
    """Return the second line of an exception's text where it holds figures: "Tried to allocate 136.00 MiB. GPU 0 has ..."."""
    second = raised.text.partition("\n")[2].partition("\n")[0].strip()
    if not any(sign.isdigit() for sign in second) or "Warning: " in second:
        return []  # Python prints its warnings between other lines.
    return [one for one in block.records if one.line > raised.record.line and second in one.message][:1]


def _copies(named: RuleMatch, blocks: Iterable[Block], lines: Iterable[Record] = ()) -> list[Record]:
    """Return where another process stated an error, in a traceback or a line, the first place of each process that is named."""
    seen = named.observation
    own = without_numbers(seen.raised.statement if seen.raised is not None else cleaned(seen.text))
    stated = [(block.last_raised.statement, block.last_raised.record) for block in blocks]
    # What a library prints has no traceback.
    stated += [] if seen.raised is not None else [(cleaned(one.message), one) for one in lines]
    found: dict[Process, Record] = {}
    for words, record in stated:
        if without_numbers(words) == own:
            found.setdefault(record.process, record)
    others = [one for process, one in found.items() if process != seen.record.process]
    return [one for one in others if one.process.name or one.process.rank]


def _first_words(raised: Raised) -> str:
    """Return the first line of what an exception states, without numbers: further lines may be of another message behind it."""
    return without_numbers(raised.statement.partition("\n")[0])


def _followed(context: FailureContext, rules: FailureRules, verdict: Verdict) -> list[Finding]:
    """Return one finding for all that followed from the root: first, last, how many of which process."""
    if not verdict.followed or FOLLOWED not in rules:
        return []
    rule = rules.rule(FOLLOWED)
    raised = verdict.root.observation.raised
    own = _first_words(raised) if raised is not None else ""
    # A torn traceback states no error, and the root's own words in another process are a copy.
    stated = [one for one in verdict.followed if one.last_raised.type]
    blocks = [one for one in stated if _first_words(one.last_raised) != own]
    if not blocks:
        return []
    writers = sorted({block.process.name or block.process.rank or "the main process" for block in blocks})
    values = {
        "errors": "1 further error" if len(blocks) == 1 else f"{len(blocks):,} further errors",
        "follow": "follows" if len(blocks) == 1 else "follow",
        "writers": ", ".join(writers[:8]),
        "last": blocks[-1].last_raised.statement.split("\n")[0],
        "root": verdict.root.rule.id,
    }
    records = [block.last_raised.record for block in (blocks[0], blocks[-1])]
    finding = finding_of(
        rule,
        context.run,
        role="cascade",
        confidence=verdict.root.confidence,
        records=records,
        values=values,
    )
    return [finding]
