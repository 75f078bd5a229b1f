"""The commands compare, verify and whatif as functions."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from vllm_logdoctor.api import Report, RunView, analyze
from vllm_logdoctor.comparison import comparison, verification
from vllm_logdoctor.comparison.snapshot import Snapshot, snapshot_of
from vllm_logdoctor.comparison.writers import result_of_comparison, result_of_verification
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.plan.whatif import CacheForecast, check_setting, what_if
from vllm_logdoctor.report.writers import Result, render_result

Side = Report | RunView | Mapping[str, Any] | str | PathLike[str]
"""A run: a report (its last run that got ready), one run of it, a JSON document, or the path of a log."""


class Outcome:
    """A comparison or verification; a notebook shows its Markdown.

    Attributes:
        result: everything underneath.
    """

    def __init__(self, result: comparison.Comparison | verification.Verification, forms: Result) -> None:
        self.result = result
        self._forms = forms

    def to_markdown(self) -> str:
        """Return it as Markdown."""
        return render_result(self._forms, "markdown")

    def to_text(self) -> str:
        """Return it as plain text."""
        return render_result(self._forms, "text")

    def to_html(self) -> str:
        """Return it as one self-contained HTML file."""
        return render_result(self._forms, "html")

    def to_dict(self) -> dict[str, Any]:
        """Return its JSON document as dictionaries and lists."""
        return self._forms.document()

    def __repr__(self) -> str:
        return f"<{type(self.result).__name__.lower()}: {self.to_text().splitlines()[0]}>"

    _repr_markdown_ = to_markdown


def compare(before: Side, after: Side) -> Outcome:
    """Return what differs between two runs: settings, start-up, capacity, speed at equal load, findings.

    Example:
        >>> log = "fixtures/vllm-0.11.2-kv-starved.log"
        >>> compare(log, log).to_dict()["schema"]
        'logdoctor-comparison/1'

    Raises:
        LogdoctorError: a side can't be read or holds no run.
    """
    result = comparison.compare(_snapshot(before), _snapshot(after))
    return Outcome(result, result_of_comparison(result))


def verify(after: Side, against: Side) -> Outcome:
    """Return whether each change planned for `against` took effect in `after`, and whether its prediction came true.

    Example:
        >>> log = "fixtures/vllm-0.11.2-kv-starved.log"
        >>> verify(log, against=log).to_dict()["schema"]
        'logdoctor-verification/1'

    Raises:
        LogdoctorError: a side can't be read or holds no run.
    """
    result = verification.verify(_snapshot(against), _snapshot(after))
    return Outcome(result, result_of_verification(result))


def whatif(run: Report | RunView | str | PathLike[str], **settings: Any) -> CacheForecast:
    """Return what the KV cache of a run would hold with other settings.

    Example:
        >>> whatif("fixtures/vllm-0.11.2-kv-starved.log", max_model_len=256).max_concurrency.after
        20.0

    Args:
        run: a report (its last run whose KV cache is known), one of its runs, or the path of a log.
        settings: new values by EngineArgs field: `max_model_len=8192`.

    Raises:
        LogdoctorError: no setting is named, or a name or value is wrong (exit_code 2).
    """
    if not settings:
        raise LogdoctorError("name a setting: whatif(report, gpu_memory_utilization=0.95)", 2)
    facts = run.run if isinstance(run, RunView) else _report(run).analysis.with_known_cache.run
    for name, value in settings.items():
        check_setting(name, value, facts.release)
    return what_if(facts, settings)


def _report(side: Report | str | PathLike[str]) -> Report:
    return side if isinstance(side, Report) else analyze(side)


def _snapshot(side: Side) -> Snapshot:
    if isinstance(side, RunView):
        return snapshot_of({"sources": [{"file": side.run.first_file}], "runs": [side.to_dict()]})
    if isinstance(side, Mapping):
        return snapshot_of(side)
    if not isinstance(side, Report | str | PathLike):
        raise LogdoctorError(f"expected a report, a run, a document or a path, got {type(side).__name__}", 2)
    return snapshot_of(_report(side).to_dict())
