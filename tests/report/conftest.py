"""Fixtures: an analysis made by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.report.synthetic import make_analysis
from vllm_logdoctor.report.model import Analysis


@pytest.fixture
def analysis() -> Analysis:
    """A healthy run with one piece of advice."""
    return make_analysis()


@pytest.fixture
def analysis_of() -> Callable[..., Analysis]:
    """Makes an analysis in which every free text is the given one."""
    return make_analysis
