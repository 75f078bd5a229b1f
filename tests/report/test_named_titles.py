"""A finding's title reads after "this run has"; where it stands alone it is told as a sentence's subject."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.report.test_sections import changed, make_analysis
from vllm_logdoctor.hooks.summary import summary
from vllm_logdoctor.report import github, junit, sarif
from vllm_logdoctor.report.model import Analysis

TITLE = "been stopped from outside"


def analysis_with_a_stop() -> Analysis:
    found = make_analysis().runs[0].findings[0]
    return replace(make_analysis(), runs=(changed(findings=(replace(found, title=TITLE, role="root"),)),))


@pytest.mark.parametrize(
    "told",
    [
        lambda found: "\n".join(summary(found)),
        github.render,
        junit.render,
        sarif.render,
    ],
)
def test_a_stop_is_told_with_its_subject(told) -> None:
    text = told(analysis_with_a_stop())
    assert TITLE in text
    assert text.count(f"it has {TITLE}") == text.count(TITLE)
