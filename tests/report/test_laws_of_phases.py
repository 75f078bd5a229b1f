"""Laws of the table of phases: parts lie inside their whole, and add up to no more than it."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.report.sections.timeline import nested
from vllm_logdoctor.run.model import Phase, Run
from vllm_logdoctor.source import inputs_from

LOGS = sorted((Path(__file__).parents[2] / "fixtures").glob("*.log"))
WHOLE_SECONDS = 1.05
"""Seconds by which times of lines, which are whole ones, may be wrong."""
ROUNDED = 1.02
"""Lengths of ranks and of rounded parts may exceed the whole by that."""


def parts_by_whole(run: Run) -> list[tuple[Phase, list[Phase]]]:
    """Return each phase that has parts with them, as the table nests them."""
    parts: dict[int, list[Phase]] = defaultdict(list)
    above: list[Phase] = []
    wholes = {}
    for phase, depth in nested([one for one in run.phases if one.name != "startup"]):
        above = [*above[:depth], phase]
        if depth:
            wholes[id(above[-2])] = above[-2]
            parts[id(above[-2])].append(phase)
    return [(whole, parts[key]) for key, whole in wholes.items()]


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_parts_of_a_phase_lie_inside_it_and_add_up_to_no_more(log: Path) -> None:
    for diagnosis in analyse(inputs_from([str(log)]), Options()).runs:
        for whole, parts in parts_by_whole(diagnosis.run):
            assert (
                sum(one.seconds or 0.0 for one in parts) <= ROUNDED * (whole.seconds or 0.0) + WHOLE_SECONDS
            )
            for part in parts:
                if part.start is None or part.end is None or whole.start is None or whole.end is None:
                    continue
                assert whole.start - WHOLE_SECONDS <= part.start
                assert part.end <= whole.end + WHOLE_SECONDS
