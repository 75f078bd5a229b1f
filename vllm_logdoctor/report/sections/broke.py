"""What broke, behind the first screen: the lines that show it, other remedies, and what followed from it."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.report.escape import code, fence, prose
from vllm_logdoctor.report.excerpt import excerpt
from vllm_logdoctor.report.figures import capital
from vllm_logdoctor.report.naming import BROKEN
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.proof import LINES, decisive, masked, telling
from vllm_logdoctor.report.steps import remaining_ways, remedies
from vllm_logdoctor.report.verdict import quote, root_explanation, split_lead
from vllm_logdoctor.rules.failure.rule_ids import NOT_IN_LOG
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.run.model import Evidence
from vllm_logdoctor.run.owners import owner_of
from vllm_logdoctor.run.tracelines import cleaned, frame_line

_CUT = 300
_PATH = lazy_pattern(r".*[/\\]")
_REPORTED_LATE = frozenset({"cuda-illegal-memory-access", "index-out-of-range-device-assert"})
# (Worker_TP2 pid=35) ERROR ...
_PROCESS = lazy_pattern(r"\([^()]{1,80}\)|\[rank\d+\]")
_WORD = lazy_pattern(r"[A-Za-z]{2,}")
# │ ❱ 290 │   spent = time.perf_counter() - begun -    │      (the line of a box that raised)
_BOXED = lazy_pattern(r"│ ❱ \d+ (?:│ )*(?P<code>.*?) ?│?$")
# csrc/cache.cu(96): error: ...      src/x.cpp:12:4: error: ...
_LINE_NUMBER = lazy_pattern(r"(?:\(\d+(?:,\d+)?\)|:\d+(?::\d+)?)(?=: (?:fatal )?error)")
# What an export of a platform writes around its records:     "severity": "ERROR",     },     ]
_MEMBER = lazy_pattern(r"\s*(?:[\[\]{}]+,?|\"[^\"]{1,60}\"\s*:.*)")


def broke(page: Page) -> list[str]:
    """Return the section; nothing where the first screen has all lines that show what broke."""
    root = page.shown_root
    if root is None:
        return _last_lines(page) if page.run.outcome in BROKEN and page.root is None else []
    return _details(page, root) if _shows_more(page, root) and root.id not in _REPORTED_LATE else []


def reported(page: Page) -> list[str]:
    """Return the section of an error that the device reports at a later call: its lines show that call."""
    root = page.shown_root
    shown = root is not None and root.id in _REPORTED_LATE and _shows_more(page, root)
    return _details(page, root) if root is not None and shown else []


def beside_failure(page: Page) -> list[str]:
    """Return further steps and what followed, where no line but that of the first screen shows what broke."""
    root = page.shown_root
    return _details(page, root) if root is not None and not _shows_more(page, root) else []


def _shows_more(page: Page, root: Finding) -> bool:
    others = any(one.role != "cascade" for one in page.failures[1:])
    return others or bool(_rest(root) or _lines(page, root))


def _details(page: Page, root: Finding) -> list[str]:
    lines = [line for part in (_rest(root), _lines(page, root), _ways(page, root)) for line in part]
    for other in page.failures[1:]:
        if other.role != "cascade":
            shown = page.cited(other.evidence[1:])
            lines += [
                f"Also: **{prose(other.title)}**{shown}: {quote(page, other) or prose(other.explanation)}",
                "",
            ]
            lines += [f"- {way}" for way in remedies(page, other)[:2]] + [""]
    if not any(lines) and not any(one.role == "cascade" for one in page.failures):
        return []
    to_check = [f"To check after the fix: {prose(root.verify)}", ""] if root.verify else []
    return [*lines, *to_check, *_followed(page)]


def verification_line(page: Page) -> list[str]:
    """Return how to see that it worked, where nothing else is to say of what broke."""
    root = page.shown_root
    if root is None or not root.verify or _details(page, root):
        return []
    return [prose(root.verify), ""]


def _rest(root: Finding) -> list[str]:
    rest = split_lead(root_explanation(root))[1]
    return [rest, ""] if rest else []


def _lines(page: Page, root: Finding) -> list[str]:
    """Return the lines that add to the decisive one; repeated texts share one line."""
    places: dict[str, list[str]] = {}
    firsts: dict[str, str] = {}
    for one in telling(root)[1:]:
        text, frame = excerpt(one.text, limit=_CUT), frame_line(excerpt(cleaned(one.text), limit=_CUT))
        of_sentence = (
            frame is not None or text.startswith("│") or "Warning: " in text or text in root.explanation
        )
        of_sentence = of_sentence or root.id == NOT_IN_LOG
        if one in root.shown_by and of_sentence:
            continue  # The sentence above names the place, or what came behind the cause.
        if frame is not None:
            name = _PATH.sub("", frame.file)
            # Ray's frames show in whose process the run is, and nothing that broke.
            of_ray = owner_of(frame.file) == "ray"
            if of_ray or not frame.function:
                continue
            text = f"{name}:{frame.line} in {frame.function}"
        if (boxed := _BOXED.match(text)) is not None:
            text = boxed["code"]
        if frame is None and text.count("(") > text.count(")") and not text.endswith("…"):
            text += "…"  # Python prints the first line of a statement.
        # A compiler says the same of many lines of a file.
        first = firsts.setdefault(_LINE_NUMBER.sub("", text), text)
        if text != first and (number := _LINE_NUMBER.search(text)) is not None:
            text = f"the same error at line {number[0].strip('(:)')}"
        places.setdefault(text, []).append(page.place(one))
    said = [f"{', '.join(where)}: {text}" for text, where in places.items()]
    return [*fence("\n".join(said)), ""] if said else []


def _ways(page: Page, root: Finding) -> Iterator[str]:
    others = remaining_ways(page, root)
    if others:
        yield from ("Further steps:", "", *(f"- {capital(way)}" for way in others), "")


def _followed(page: Page) -> list[str]:
    followed: list[Evidence] = [
        line for finding in page.failures[1:] if finding.role == "cascade" for line in finding.evidence
    ]
    root = page.shown_root
    shown = decisive(root) if root is not None else ()
    own = masked(shown[0]) if shown else ""
    lines_of_all = dict.fromkeys((*shown[1:], *followed))
    copies = sorted((one for one in lines_of_all if masked(one) == own), key=lambda one: (one.file, one.line))
    same = _of_other_writers(shown[0], copies) if shown else []
    others = [line for line in followed if masked(line) != own]
    of_others = all(map(_writer, same))
    said = "The same error from other processes" if of_others else "The error quoted at the top, again"
    if not of_others and any(excerpt(one.text) != excerpt(shown[0].text) for one in same):
        said = "The error quoted at the top, again, with other numbers"
    lines = [f"{said}:{page.cited(same)}.", ""] if same else []
    lines += [f"Follow-up errors, not the cause:{page.cited(others)}.", ""] if others else []
    last = next((one for one in reversed(page.run.tail) if _WORD.search(one.message)), None)
    if (
        root is None
        or root.id != NOT_IN_LOG
        or page.run.kind == "test"
        or last is None
        or not page.run.last_of_file
    ):
        return lines
    if any(one.line >= last.line for finding in page.failures for one in finding.evidence):
        return lines
    # Where the cause is missing, the last line may be it.
    return [*lines, f"Last line: {code(last.message, 160)}{page.cited([page.run.evidence(last)])}"]


def _of_other_writers(first: Evidence, copies: list[Evidence]) -> list[Evidence]:
    """Return one line for each process that printed the error too: a process may print its own twice."""
    writers = {_writer(first)} - {""}
    kept: list[Evidence] = []
    for one in copies:
        if (writer := _writer(one)) not in writers:
            kept.append(one)
            writers |= {writer} - {""}
    return kept


def _writer(line: Evidence) -> str:
    found = _PROCESS.match(line.text)
    return found[0] if found is not None else ""


def _says_something(record: Record) -> bool:
    return bool(record.message.strip()) and not _MEMBER.fullmatch(record.message)


def _last_lines(page: Page) -> list[str]:
    tail = [record for record in page.run.tail if _says_something(record)][-LINES:]
    if not tail:
        return []
    return [
        "The last lines of the log:",
        "",
        *fence("\n".join(f"L{record.line}: {record.text[:_CUT]}" for record in tail)),
    ]
