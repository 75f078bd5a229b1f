"""Where the lines of a run are looked up: its file, if it can be read again, else what the analysis kept."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_logdoctor.assistants.excerpt import chosen
from vllm_logdoctor.assistants.lines import KeptLines, LineSource, MaskedLog
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.run.lifecycle import trail_of
from vllm_logdoctor.source import Input


def line_source(analysis: Analysis, inputs: Sequence[Input], run: int | None = None) -> LineSource:
    """Return where lines of a run are looked up.

    Args:
        analysis: all of an analysis.
        inputs: what it was made of.
        run: number of the run; default: the last that failed, else the last.

    Raises:
        LogdoctorError: no such run (exit code 2).
    """
    facts = chosen(analysis, run).run
    files = facts.files or (facts.first_file,)
    readable = [one for one in inputs if one.name in files and one.path is not None and one.path.is_file()]
    if len(files) == 1 and len(readable) == 1:
        return MaskedLog(readable[0])
    return KeptLines(facts, trail_of(facts))
