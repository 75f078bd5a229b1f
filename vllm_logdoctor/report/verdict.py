"""The sentence of the first screen that says what matters, with the lines that prove it; all texts are escaped inline Markdown."""

from __future__ import annotations

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.report.escape import code, prose
from vllm_logdoctor.report.excerpt import whole_sentences, without_arguments
from vllm_logdoctor.report.figures import capital
from vllm_logdoctor.report.key_figures import benchmark_result
from vllm_logdoctor.report.naming import BROKEN, PHASES, is_client
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.proof import carrying, decisive, figures, quoted
from vllm_logdoctor.report.state import (
    LIMITING,
    Level,
    costly_findings,
    doubted,
    failing_requests,
    is_cut_off,
    state,
    state_level,
)
from vllm_logdoctor.rules.bottleneck import no_request_succeeded
from vllm_logdoctor.rules.context import plural
from vllm_logdoctor.rules.failure.nonfatal import CLIENT_FAILED
from vllm_logdoctor.rules.failure.requests import REFUSED
from vllm_logdoctor.rules.model import Confidence, Finding
from vllm_logdoctor.run.clock import duration
from vllm_logdoctor.run.model import Evidence, Outcome, Phase, Run
from vllm_logdoctor.texts import shared_start

LEAD = 320
"""Characters of an explanation on the first screen; the rest follows in the details."""
_QUOTE = 240
_MOST_NEEDED = 5
"""Lines cited at most for a sentence whose parts several lines show."""
_REPEATED = 6
_WORD = lazy_pattern(r"[A-Za-z]{3}")
# Compiler error: ...    First mismatch: ...
_QUOTATION = lazy_pattern(r"(?:^|(?<=[.!?] ))[A-Z][^.:]{2,40}: ")
_DOUBT: dict[Confidence, str] = {"high": "", "medium": "Probable cause", "low": "Possible cause"}
_HEDGED = lazy_pattern(
    r"\b(?:may|might|most(?:ly| often)|[Uu]sual(?:ly)?|[Pp]robabl[ey]|[Pp]ossibl[ey]|likely)\b"
)
_LOWERED = lazy_pattern(
    r"(?:The|An?|This|These|One|No|Other|After|With|While|During|Start-up|Loading|In|At|Its?|Ranks|Speculative|Structured|[A-Z][a-z]+ing) "
)
_INTERVAL = 10.0
"""Seconds between two statistics lines of an engine, unless it is set otherwise."""
_LONG_IDLE = 600.0
_NAMELESS = ("unexplained", "imports")
_CLOSED = ("engine-start", "compile")
"""Phases of a start whose evidence is the line that ends them."""
_FIRST_AND_LAST = {
    "load-weights": ("model-load-started", "model-loaded", "model-weights-loaded"),
    "engine-init": ("graph-capture-started", "graphs-captured"),
    "dynamo": ("compile-started", "dynamo-done"),
    "inductor": ("dynamo-done", "graph-compiled"),
    "engine-load": ("graph-capture-started", "graphs-captured"),
}
"""The line that each rank begins a phase with, and those that it ends it with."""
_NEXT = {"dynamo": "; the compilation of the traced graph follows"}
_SERVER_ERRORS = "answered-with-server-errors"
_SENTENCE_END = lazy_pattern(r"(?<=[.!?])\s+(?=[A-Z`])")
# Downloading:   0%|          | 0.00/9.29G [00:00<?, ?B/s]      model-00001-of-00015.safetensors:  12%|#2 | 1.2G/9.3G
_DOWNLOAD = lazy_pattern(
    r"(?:Downloading|Fetching)\b.{0,80}?\d+%\||\S+\.(?:safetensors|bin|gguf|pth?):? +\d+%\|"
)


def sentence(page: Page) -> str:
    """Return the verdict in one sentence, without emphasis."""
    run = page.run
    if page.root in page.diagnosis.hidden:
        return "Known failure, left out by the baseline or a suppression."
    if page.root is not None:
        return root_lead(page.root, page.run.outcome)
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
    return _on_load(page)


def _on_load(page: Page) -> str:
    """Return what limited a run, after the failing requests or the settings that matter more."""
    limit, level = page.diagnosis.bottleneck, state_level(page)
    words = f"{capital(prose(limit.reason).rstrip('.'))}{page.cited(limit.evidence, 2)}."
    first = costly_findings(page)
    if level == "cut" and limit.name != "none-clear":
        first = list(page.advice)
    elif level != "limited" or limit.name in LIMITING:
        first = failing_requests(page) or [one for one in page.advice if one.id == _SERVER_ERRORS]
    if not first:
        return _with_refusal(page, words, level) + _sleep(page)
    if first[0].id == _SERVER_ERRORS or prose(first[0].title) in state(page):
        return f"{with_lines(page, split_lead(root_explanation(first[0]))[0], first[0])} {words}"
    named = f"{prose(first[0].title)}{page.cited(first[0].evidence, 1)}."
    return named if level == "cut" else f"{named} {words}"


def _sleep(page: Page) -> str:
    """Return that the engine gave its memory back for a time, and whether it had it at the end of the log."""
    freed, woke = page.run.seen("sleep-mode-freed"), page.run.seen("sleep-mode-woke-up")
    if freed is None:
        return ""
    slept = (freed.last or freed.first[-1]).record
    up = (woke.last or woke.first[-1]).record if woke is not None else None
    asleep = up is None or (up.file, up.line) < (slept.file, slept.line)
    times = plural(woke.count, "wake-up") if woke is not None else "no wake-up"
    shown = page.cited([page.run.evidence(slept if up is None or asleep else up)])
    return f" Sleep mode was used: {times}{', and the engine was asleep at the end of the log' if asleep else ''}{shown}."


def _with_refusal(page: Page, words: str, level: Level) -> str:
    """Return the words on a load, with the error of a request where none was answered or nothing else is known."""
    refused = next((one for one in page.advice if one.id == REFUSED and one.evidence), None)
    if refused is not None and page.diagnosis.bottleneck.name == "startup-only":
        whose = " of a client" if refused.title == CLIENT_FAILED else ""
        return f"{words.removesuffix('.')}, and this error{whose}: {quote(page, refused)}."
    if refused is None or level != "limited" or not no_request_succeeded(page.run):
        return words
    return f"{words.removesuffix('.')}: {quote(page, refused)}."


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


def root_lead(root: Finding, outcome: Outcome = "unknown") -> str:
    """Return what the first screen says of a cause: with the doubt of its title, where the sentences state none.

    Whether anything failed is not in a log that is cut off.

    Example:
        >>> root_lead(Finding("x", "failure", "high", "medium", "t", "The sizes do not fit. They differ."))
        'Probable cause: the sizes do not fit. They differ.'
    """
    sure = doubted(root)
    doubt = _DOUBT["low" if outcome == "truncated" and sure == "medium" else sure]
    text = split_lead(root_explanation(root))[0]
    if not doubt or not text or _HEDGED.search(text):
        return text
    return f"{doubt}: {text[0].lower() if _LOWERED.match(text) else text[0]}{text[1:]}"


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
    quotes = dict.fromkeys(one.text for one in (*lines[:1], *root.evidence[:1]))
    said = " ".join(f"{' '.join(quotes)} {root.title} ".split())
    for label in _QUOTATION.finditer(text):
        value = text[label.end() :].removeprefix("AssertionError: ")
        starts = [at for at in range(len(said)) if said.startswith(value[:_REPEATED], at)]
        shared = max((shared_start(value, said[at:]) for at in starts), default=0)
        rest = value[shared:].lstrip(".…")
        whole = not rest or rest.startswith(" ") or value[:shared].endswith(" ")
        if whole and shared >= min(_REPEATED, len(value.rstrip("."))):
            return f"{text[: label.start()].rstrip()} {rest.lstrip()}".strip()
    return text


def quote(page: Page, root: Finding) -> str:
    text, lines = quoted(root)
    return (
        f"{code(whole_sentences(without_arguments(text, _QUOTE), _QUOTE), _QUOTE)} {page.cite(lines)}"
        if lines
        else ""
    )


def is_in_title(quoted_line: str, title: str) -> bool:
    """Return whether a title holds the whole text of a decisive line, which then is not said again."""
    text = quoted_line.partition("` [")[0].strip("`")
    return bool(text) and text in title


def with_lines(page: Page, text: str, root: Finding) -> str:
    bare = text if text.endswith("...") else text.rstrip(".")
    needed = 1 + len(root.shown_by) + len(figures(root))
    return f"{bare}{page.cited(carrying(root), max(2, min(needed, _MOST_NEEDED)))}." if text else ""


def idle_before(page: Page, root: Finding) -> str:
    """Return how long before a failure while serving the statistics lines show no request; "" where that is minutes."""
    run, samples = page.run, page.run.samples
    last, line = samples[-1] if samples else None, root.evidence[0] if root.evidence else None
    if run.outcome != "crashed_while_serving" or last is None or last.time is None or line is None:
        return ""
    at_end = [one for one in samples if one.time is not None and one.time > last.time - _INTERVAL]
    times = (one.time for one in run.records if one.line == line.line and run.files[one.file] == line.file)
    idle = (next(times, None) or last.time) - last.time
    if idle < _LONG_IDLE or any(one.running != 0 or one.waiting for one in at_end):
        return ""
    proof = page.cited([Evidence(run.files[last.file], last.line, last.text)])
    return f" The last statistics line, {duration(idle)} earlier, shows no running request{proof}."


def download(page: Page) -> Record | None:
    """Return the last line of a log that ends with the bar of a download."""
    last = page.run.tail[-1] if page.run.tail and page.run.last_of_file else None
    return last if last is not None and _DOWNLOAD.match(last.message) else None


def _cut_off(page: Page) -> str:
    """Return what is known of a start whose end is not in the log."""
    if (bar := download(page)) is not None:
        return f"The log ends while the model is being downloaded{page.cited([page.run.evidence(bar)], 1)}."
    ready = page.run.measured.get("init_engine_seconds")
    if ready is not None:
        first = "result" if page.run.kind == "offline" else "request"
        return f"The engine was ready{page.cited(ready.evidence, 1)}; the log ends before the first {first}."
    parts = [phase for phase in page.run.phases if phase.parent == "startup" and phase.name in PHASES]
    if not parts or parts[-1].name in _NAMELESS:
        last_line = next((one for one in reversed(page.run.tail) if _WORD.search(one.message)), None)
        if last_line is None:
            return "The log ends before start-up completed."
        said = f"{code(last_line.message, _QUOTE // 2)}{page.cited([page.run.evidence(last_line)], 1)}"
        return f"The log ends before start-up completed; its last line: {said}."
    last, shown = parts[-1], page.cited(parts[-1].evidence[-1:])
    known = "completed" if _completed(page.run, last) else "began"
    then = _NEXT.get(last.name, "") if known == "completed" else ""
    return f"The log ends before start-up completed; the last phase that {known}: {PHASES[last.name]}{shown}{then}."


def _completed(run: Run, phase: Phase) -> bool:
    """Return whether a phase is over in all ranks: builds may go on, and so may what follows the cache's size."""
    if phase.name not in _FIRST_AND_LAST:
        return phase.name in _CLOSED
    counts = (seen.count if (seen := run.seen(name)) else 0 for name in _FIRST_AND_LAST[phase.name])
    begun, *ended = counts
    return 0 < max(ended) >= begun
