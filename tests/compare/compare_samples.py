"""Runs as the JSON report holds them, made from the few facts that a test is about."""

from __future__ import annotations

from typing import Any

from vllm_logdoctor.comparison.snapshot import Snapshot, snapshot_of
from vllm_logdoctor.plan.model import Plan, PlannedChange
from vllm_logdoctor.report.json import document
from vllm_logdoctor.report.model import Analysis, Diagnosis
from vllm_logdoctor.rules.equal_load import load_levels
from vllm_logdoctor.rules.model import Change, Effect, Finding
from vllm_logdoctor.run.model import Coverage, Outcome, Phase, Run, Sample, SourceSummary, Value


def samples(
    running: int, generation: float, count: int, prompt: float = 10.0, waiting: int = 0
) -> list[Sample]:
    """Samples at one load whose rates lie 2 % apart."""
    rates = (generation * (1 + 0.02 * (number % 3 - 1)) for number in range(count))
    return [
        Sample(None, n + 1, 0, prompt, rate, running=running, waiting=waiting) for n, rate in enumerate(rates)
    ]


def diagnosis(
    settings: dict[str, Any] | None = None,
    measured: dict[str, float] | None = None,
    series: list[Sample] | None = None,
    findings: tuple[Finding, ...] = (),
    startup: float | None = None,
    outcome: Outcome = "clean_shutdown",
    version: str = "0.11.2",
    chosen: dict[str, Any] | None = None,
    plan: Plan | None = None,
    environment: dict[str, str] | None = None,
) -> Diagnosis:
    """A run: `settings` and `environment` the user gave, `chosen` vLLM itself did."""
    run = Run(
        version=Value(version, "reported"),
        model=Value("org/tiny", "reported"),
        startup_complete=outcome != "crashed_at_startup",
        outcome=outcome,
        samples=series or [],
        sample_count=len(series or []),
    )
    run.config = {name: Value(value, "explicit") for name, value in (settings or {}).items()}
    run.config |= {name: Value(value, "reported") for name, value in (chosen or {}).items()}
    run.environment = {name: Value(value, "explicit") for name, value in (environment or {}).items()}
    run.measured = {name: Value(value, "reported") for name, value in (measured or {}).items()}
    for sample in run.samples:
        run.extremes.running = max(run.extremes.running or 0, sample.running or 0)
        run.extremes.waiting = max(run.extremes.waiting or 0, sample.waiting or 0)
        run.extremes.generation = max(run.extremes.generation, sample.generation)
    if startup is not None:
        run.phases = [Phase("startup", "", None, None, startup)]
    return Diagnosis(run, findings, plan=plan or Plan())


def analysis(*runs: Diagnosis) -> Analysis:
    return Analysis((SourceSummary("vllm.log", 1, 1),), runs, Coverage(1, 1, 1, 0, ()))


def snapshot(*args: Any, **facts: Any) -> Snapshot:
    """The snapshot of one run, by way of the JSON report."""
    return snapshot_of(document(analysis(diagnosis(*args, **facts))))


def finding(
    rule: str, knob: str = "", effect: Effect | None = None, kind: str = "performance", after: Any = True
) -> Finding:
    changes = (Change(knob, "flag", None, after),) if knob else ()
    return Finding(rule, kind, "medium", "high", f"title of {rule}", "", changes=changes, effect=effect)  # type: ignore[arg-type]


def planned(knob: str, before: Any, after: Any, *rules: str) -> PlannedChange:
    return PlannedChange(Change(knob, "flag", before, after), rules)


__all__ = ["analysis", "diagnosis", "finding", "load_levels", "planned", "samples", "snapshot"]
