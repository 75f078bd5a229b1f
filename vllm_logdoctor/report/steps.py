"""What the first screen says to do, first things first, and what not to do; all texts are escaped inline Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.report.alternatives import ways_beside
from vllm_logdoctor.report.effects import action_words, change_words, effect_range, gains_little, origin_words
from vllm_logdoctor.report.escape import code, prose
from vllm_logdoctor.report.figures import capital
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.program_terms import in_program_terms
from vllm_logdoctor.report.state import Level, is_cut_off
from vllm_logdoctor.report.verdict import download
from vllm_logdoctor.rules.context import plural
from vllm_logdoctor.rules.failure.nonfatal import CLIENT_FAILED
from vllm_logdoctor.rules.failure.requests import REFUSED
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.rules.offline import outputs_are_empty, tokens, tokens_per_prompt
from vllm_logdoctor.rules.release_terms import options_of_fork
from vllm_logdoctor.run.metrics import offline_batches
from vllm_logdoctor.run.omissions import last_omission

SHOWN = 3
_ACTION = 140
# use a newer release      from 0.26 on
_RELEASE = lazy_pattern(r"\breleases?\b|\b0\.\d+")
_CLAUSE_END = lazy_pattern(r"(?<=\w{3}): |; |(?<=\w{3}) \(")
REVERSED = (
    "The lines of this log run backwards in time (newest first), so the start, end and cause below may be wrong. Reverse"
    " the log and analyze it again: `tac LOG | logdoctor analyze -`."
)
_REST_OF_LOG = (
    "If the process still runs, see what it does: `py-spy dump --pid PID`. If it ended, get its exit status, the rest of its"
    " output, and `dmesg -T` of its node."
)
_WHOLE_LOG = "Analyze the whole log: how this run went on is in the part that was left out."
_OF_EMPTY_OUTPUTS = "Print `outputs[0].token_ids` and `outputs[0].finish_reason` of a result: they show"
_DOWNLOADED_BEFORE = "Wait for the download if the process still runs; to start without it, give the path of a local copy as the model."


def worthwhile(page: Page) -> tuple[Finding, ...]:
    """Return the findings whose changes are worth proposing, in order of gain; a secret limits nothing, and is the last one shown."""
    found = [
        finding
        for finding in page.advice
        if finding.changes
        and finding.role != "cascade"
        and not page.put_off(finding)
        and not (finding.effect is not None and (gains_little(finding.effect) or _may_lose(finding)))
    ]
    secrets = [one for one in found if one.kind == "security"]
    # What the state of the run announces is the first thing to do.
    others = sorted(
        (one for one in found if one.kind != "security"), key=lambda one: one.title != CLIENT_FAILED
    )
    return (*others[: SHOWN - 1], *secrets, *others[SHOWN - 1 :])


def _may_lose(finding: Finding) -> bool:
    """Return whether a change whose limit is a guess was measured slower as well as faster: no first step."""
    effect = finding.effect
    lost = effect is not None and effect.metric == "generation_throughput" and effect.low < 1
    return lost and finding.confidence == "low"


def of_the_start(page: Page) -> tuple[Finding, ...]:
    """Return the findings worth proposing for a start that the log leaves unfinished: on the phase with which it ends."""
    last = max((line.line for phase in page.run.phases for line in phase.evidence), default=0)
    found = worthwhile(page) if is_cut_off(page) else ()
    on_start = (one for one in found if one.id.startswith(("slow-startup-", "slow-weight-loading-storage")))
    return tuple(one for one in on_start if max(line.line for line in one.evidence) >= last)


def remaining_ways(page: Page, root: Finding) -> tuple[str, ...]:
    """Return the remedies of a failure that the first screen has no room for, escaped."""
    return tuple(remedies(page, root))[SHOWN:]


def remedies(page: Page, root: Finding) -> list[str]:
    """Return what to do about a failure, first choice first; a setting that the plan holds back is none."""
    held_back = {knob for knob, _ in page.refused(root)}
    made = [change for change in root.changes if change.knob not in held_back]
    ways = [action_words(change, root.alternatives) for change in made]
    ways += [prose(way) for way in ways_beside(root.changes, root.alternatives)]
    ways[:1] = [way.removeprefix("Or ") for way in ways[:1]]
    return [in_program_terms(f"{capital(way).rstrip('.')}.", page.run) for way in ways]


def action(page: Page, finding: Finding, said: str) -> str:
    words = capital(_short("; ".join(change_words(change) for change in finding.changes[:2])))
    gain = (
        f" Gain: {effect_range(finding.effect)} ({origin_words(finding.effect)})." if finding.effect else ""
    )
    title = prose(finding.title)
    # Within a sentence the title begins with a small letter.
    why = (
        page.cite(finding.evidence, 2) if title[1:] in said else f"({title}{page.cited(finding.evidence, 2)})"
    )
    return in_program_terms(f"{f'**{words}** {why}'.rstrip()}.{gain}", page.run)


def _short(words: str) -> str:
    """Return the first clause of a long action; the details have all of it."""
    if len(words) <= _ACTION:
        return words
    clause = _CLAUSE_END.split(words, maxsplit=1)[0]
    return clause if clause.count("`") % 2 == 0 else words


def without_change(page: Page, level: Level) -> tuple[str, ...]:
    """Return what to do where no setting is to be changed."""
    if level == "cut" and is_cut_off(page):
        return (_DOWNLOADED_BEFORE, _REST_OF_LOG) if download(page) is not None else (_REST_OF_LOG,)
    if level == "failed":
        return (
            "Ask the scheduler, the container runtime or the kernel log (`dmesg -T`) who ended the process.",
        )
    if page.run.samples:
        return ()
    if last_omission(page.run) is not None:
        return (_WHOLE_LOG,)
    if outputs_are_empty(page.run):
        return (f"{_OF_EMPTY_OUTPUTS} {_of_tokens(tokens_per_prompt(offline_batches(page.run)))}",)
    refused = (one for one in page.advice if one.id == REFUSED and one.role == "root")
    return tuple(way for one in refused for way in remedies(page, one))[:SHOWN]


def _of_tokens(made: float | None) -> str:
    """Return what the tokens of empty outputs show, by how many of them there are on average."""
    if made is None:
        return "whether tokens were generated and what ended them."
    if not made:
        return "why no token was generated: the log counts 0 output tokens."
    return f"why the {tokens(made)} tokens that each prompt got leave no text: special tokens, a stop string at their beginning, or detokenize=False."


def note(page: Page, first: Finding | None, shown: tuple[Finding, ...]) -> str:
    parts = [REVERSED] if page.run.newest_first else []
    if first is not None and first.avoid:
        parts.append(in_program_terms(avoidance(first), page.run))
    if first is not None and first.kind == "failure":
        parts += _of_modified_build(page, first)
    further = len(worthwhile(page)) - len(shown) if shown else 0
    if further > 0:
        parts.append(f"{plural(further, 'more change')} below.")
    if page.diagnosis.hidden:
        names = ", ".join(code(name) for name in dict.fromkeys(one.id for one in page.diagnosis.hidden))
        parts.append(f"Left out by the baseline or a suppression: {names}.")
    return " ".join(parts)


def _of_modified_build(page: Page, root: Finding) -> Iterator[str]:
    """Yield what a step that names a release means for a build that no release is."""
    own = options_of_fork(page.run)
    ways = " ".join(remedies(page, root)[:SHOWN])
    if own and _RELEASE.search(ways) and next(iter(own)) not in ways:
        yield (
            f"This vLLM is modified: no release has its option {code(next(iter(own)))}{page.cited(next(iter(own.values())), 1)}."
            " Where a step names a release, rebase this build on that release."
        )


def avoidance(finding: Finding) -> str:
    """Return what not to do as a sentence, escaped."""
    text = finding.avoid.rstrip(".")
    return prose(
        f"{text}."
        if text.startswith(("Do not", "Don't", "Never"))
        else f"Avoid: {text[:1].lower() if text[1:2].islower() else text[:1]}{text[1:]}."
    )
