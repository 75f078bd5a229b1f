"""Each part of a finding on its own in the section on what to change; the first screen's one is not said twice."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tests.report.synthetic import make_analysis, make_findings
from tests.tables import for_each
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.sections.advice import changes
from vllm_logdoctor.rules.model import Change

(FIRST,) = make_findings("Qwen", failure=False)
SECOND = replace(
    FIRST, id="eager-mode", title="Eager mode", changes=(Change("--enforce-eager", "flag", True, None),), alternatives=(), avoid="", effect=None,
    verify="", confidence="high",
)  # fmt: skip


def section(**parts: Any) -> str:
    """The part of the section that is about a finding behind the first."""
    diagnosis = replace(make_analysis().runs[0], findings=(FIRST, replace(SECOND, **parts)))
    analysis = replace(make_analysis(), runs=(diagnosis,))
    return "\n".join(changes(Page(analysis, diagnosis))).partition("Eager mode")[2]


@for_each(
    ("parts", "line"),
    [
        ({"avoid": "A larger batch."}, "- Avoid: A larger batch"),
        ({"verify": "no such line."}, "- To check after the change: No such line."),
        ({"confidence": "low"}, "- Confidence in this finding: low."),
        ({"alternatives": ("Or fewer graphs",)}, "- Alternatives: Fewer graphs."),
        ({"alternatives": ("fewer graphs",), "changes": ()}, "- What to do: Fewer graphs."),
        ({"effect": FIRST.effect}, "- Expected: "),
        ({"changes": FIRST.changes}, "- Risk: the model's answers may change."),
    ],
)
def test_a_part_of_a_finding_has_a_line_where_it_is_known(parts: dict[str, Any], line: str) -> None:
    assert line in section(**parts)
    assert line not in section()
