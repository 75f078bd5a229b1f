"""A second opinion: what a model said of a run, with what was checked of it; no finding and no part of the plan."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, to_builtins

ClaimKind = Literal["cause", "contributing", "limit", "advice"]


class Citation(Struct, frozen=True):
    """One line that a claim rests on."""

    at: Annotated[str, Meta(description='line number, "12", or "2:12" for line 12 of the second file')]
    text: Annotated[str, Meta(description="what the model says that it reads")]
    holds: Annotated[bool, Meta(description="whether that text is on that line of the masked log")]


class ProposedChange(Struct, frozen=True):
    """One setting that a model would change."""

    knob: str
    value: str
    accepted: Annotated[bool, Meta(description="whether nothing speaks against it; it is not measured")]
    reason: Annotated[str, Meta(description='why it is refused, or ""')] = ""


class Claim(Struct, frozen=True):
    """One statement of a model."""

    kind: ClaimKind
    text: str
    citations: tuple[Citation, ...]
    changes: tuple[ProposedChange, ...] = ()
    contradicts: Annotated[
        tuple[str, ...],
        Meta(description="measured facts and findings of high confidence that it contradicts"),
    ] = ()

    @property
    def holds(self) -> bool:
        """Return whether it cites lines and all citations hold."""
        return bool(self.citations) and all(one.holds for one in self.citations)


class Opinion(Struct, frozen=True):
    """What one model said of one run.

    Attributes:
        run: number of the run.
        model: its name as the user gave it.
        error: why there is no answer, in one line, or "".
        claims: claims of which at least one citation holds; nothing else of them is proved.
        dropped: claims that were left out, in a few words each.
        addressed: lines of the log that speak to a model: the opinion may repeat them.
        lines_sent: lines of the log that the model was given.
        requests: how often it asked for more lines.
    """

    run: int
    model: str
    error: str = ""
    claims: tuple[Claim, ...] = ()
    dropped: tuple[str, ...] = ()
    addressed: tuple[str, ...] = ()
    lines_sent: int = 0
    requests: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return it as dictionaries and lists."""
        return dict(to_builtins(self))

    def to_markdown(self) -> str:
        """Return it as one paragraph and a list of what was checked."""
        from vllm_logdoctor.report.sections.opinion import opinion_lines

        return "\n".join(opinion_lines(self)) + "\n"
