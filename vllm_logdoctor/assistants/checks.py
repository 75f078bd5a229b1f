"""What is checked of a model's claims before anything of them is shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from vllm_logdoctor.assistants.contradictions import Facts
from vllm_logdoctor.assistants.excerpt import LogLine, Places
from vllm_logdoctor.assistants.injection import addresses_model, neutral
from vllm_logdoctor.assistants.question import INSTRUCTIONS, MOST_CLAIMS, CitationIn, ClaimIn
from vllm_logdoctor.assistants.settings import SettingChecks
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse.secrets import mask
from vllm_logdoctor.report.escape import visible
from vllm_logdoctor.report.model import Diagnosis
from vllm_logdoctor.report.naming import BROKEN
from vllm_logdoctor.report.opinion import Citation, Claim, ProposedChange

SHORTEST_CITATION = 12
"""Characters of a citation: fewer occur in many lines. A shorter line may be cited whole."""
_LONGEST_STATEMENT = 400
_MOST_CITATIONS, _MOST_CHANGES = 5, 3
_REPEATED_WORDS = 6
"""So many words in a row, taken over from a line, make a claim that line's words."""
_ENGLISH = frozenset(
    ("the", "a", "an", "is", "are", "was", "were", "be", "of", "to", "in", "on", "at", "and", "or", "not", "no", "for", "with", "by",
     "from", "that", "this", "it", "as", "than", "has", "have", "had", "can", "cannot", "because", "when", "which", "while", "before",
     "after", "its", "does", "did", "fails", "failed")
)  # fmt: skip
_WORD = lazy_pattern(r"[^\W\d_]+")


class Checks:
    """Checks claims on one run against the lines that the model was given and what is known of the run."""

    def __init__(self, diagnosis: Diagnosis, sent: Sequence[LogLine]) -> None:
        self._diagnosis = diagnosis
        self._places = Places(diagnosis.run)
        self._settings = SettingChecks(diagnosis, self._places)
        self._facts = Facts(diagnosis, self._places, [one.text for one in sent])
        self._lines: dict[str, list[str]] = {}
        for one in sent:
            self._lines.setdefault(one.at, []).append(_squeezed(neutral(one.text)))
        self._addressed = [(one.at, _shingles(one.text)) for one in sent if addresses_model(one.text)]

    def checked(self, claims: Sequence[ClaimIn]) -> tuple[tuple[Claim, ...], tuple[str, ...]]:
        """Return the claims of which at least one citation holds, and for each other one why it was left out."""
        kept: list[Claim] = []
        dropped: list[str] = []
        for claim in claims[:MOST_CLAIMS]:
            statement = _plain(claim.statement)
            citations = tuple(self._citation(one) for one in claim.citations[:_MOST_CITATIONS])
            reason = _unfit(statement)
            if not reason and not citations:
                reason = "cites no line"
            if not reason and not any(one.holds for one in citations):
                reason = "no citation holds"
            if reason:
                dropped.append(reason)
                continue
            changes = tuple(self._settings.checked(one) for one in claim.changes[:_MOST_CHANGES])
            contradicts = tuple(dict.fromkeys(self._contradictions(claim, statement, citations)))
            kept.append(Claim(claim.kind, statement, citations, changes, contradicts))
        dropped += ["more claims than were asked for"] * (len(claims) > MOST_CLAIMS)
        return _with_one_value(kept), tuple(dropped)

    def _citation(self, cited: CitationIn) -> Citation:
        at = str(cited.line).strip().lstrip("Ll")[:20]
        words = _squeezed(cited.text)
        lines = self._lines.get(at, [])
        long_enough = len(words) >= SHORTEST_CITATION or words in lines
        holds = bool(words) and long_enough and any(words in line for line in lines)
        return Citation(visible(at), _plain(cited.text, 200), holds)

    def _contradictions(self, claim: ClaimIn, statement: str, citations: Sequence[Citation]) -> Iterator[str]:
        yield from self._against_root(claim, citations)
        yield from self._facts.against(statement)
        for at, shingles in self._addressed:
            if shingles & _shingles(statement):
                yield f"its words are those of L{at}, a line that speaks to a language model"

    def _against_root(self, claim: ClaimIn, citations: Sequence[Citation]) -> Iterator[str]:
        if claim.kind != "cause":
            return
        run = self._diagnosis.run
        failures = [one for one in self._diagnosis.findings if one.kind == "failure"]
        root = next((one for one in failures if one.role == "root"), None)
        if not failures and run.outcome not in BROKEN:
            yield f"no failure was found: the outcome is {run.outcome.replace('_', ' ')}"
        if root is None or root.confidence != "high" or claim.topic == root.topic:
            return
        proofs = set(self._places.of(root.evidence, 20))
        if not proofs & {one.at for one in citations if one.holds}:
            yield f"{root.id} (confidence high, [{', '.join(f'L{at}' for at in sorted(proofs)[:3])}])"


def _squeezed(text: str) -> str:
    return " ".join(visible(text).split())


def _plain(text: str, limit: int = _LONGEST_STATEMENT) -> str:
    return _squeezed(mask(text[: 4 * limit]).text)[:limit]


def _unfit(statement: str) -> str:
    """Return why a statement can't be shown, or an empty text."""
    words = [word.lower() for word in _WORD.findall(statement)]
    if len(words) < 3:
        return "says nothing"
    if not _ENGLISH.intersection(words):
        return "not in English"
    if _shingles(statement) & _shingles(INSTRUCTIONS):
        return "repeats the question"
    return ""


def _shingles(text: str) -> set[tuple[str, ...]]:
    """Return all runs of `_REPEATED_WORDS` words of a text."""
    words = [word.lower() for word in _WORD.findall(text)]
    return {tuple(words[n : n + _REPEATED_WORDS]) for n in range(len(words) - _REPEATED_WORDS + 1)}


def _with_one_value(claims: Sequence[Claim]) -> tuple[Claim, ...]:
    """Refuse changes that want several values for one setting."""
    wanted: dict[str, set[str]] = {}
    for change in (change for claim in claims for change in claim.changes):
        wanted.setdefault(change.knob, set()).add(change.value)

    def settled(change: ProposedChange) -> ProposedChange:
        if change.accepted and len(wanted[change.knob]) > 1:
            return replace(change, accepted=False, reason="several values are proposed for it")
        return change

    return tuple(replace(claim, changes=tuple(map(settled, claim.changes))) for claim in claims)
