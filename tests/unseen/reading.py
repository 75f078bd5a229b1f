"""What a log says, as plain facts to compare with."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.report.model import Diagnosis
from vllm_logdoctor.run.model import Run
from vllm_logdoctor.source import inputs_from


@cache
def _cache() -> Path:
    return Path(mkdtemp())


def log(name: str) -> str:
    """Return a log of the folder `logs`, written by hand."""
    return (Path(__file__).parent / "logs" / f"{name}.log").read_text()


def diagnoses(text: str | bytes) -> list[Diagnosis]:
    """Analyse a log; one diagnosis per run."""
    data = text.encode() if isinstance(text, str) else text
    return list(analyse(inputs_from(data), Options(cache=_cache())).runs)


def runs(text: str | bytes) -> list[Run]:
    """Analyse a log; its runs."""
    return [diagnosis.run for diagnosis in diagnoses(text)]


def only_run(text: str | bytes) -> Run:
    """Analyse a log that holds one run."""
    found = runs(text)
    assert len(found) == 1, [(run.first_line, run.last_line) for run in found]
    return found[0]


def facts(run: Run) -> dict[str, Any]:
    """Return the facts of a run by flat names: "kind", "config.dtype", "measured.kv_cache_tokens" ..."""
    extremes = run.extremes
    flat: dict[str, Any] = {
        "kind": run.kind, "engine": run.engine, "platform": run.platform, "outcome": run.outcome,
        "version": run.version.value if run.version else None,
        "model": run.model.value if run.model else None,
        "ready": run.startup_complete, "samples": run.sample_count,
        "prompt.max": extremes.prompt, "generation.max": extremes.generation,
        "running.max": extremes.running, "waiting.max": extremes.waiting, "kv.max": extremes.kv_usage,
        "prefix_hit.last": extremes.prefix_hit_last, "preemptions": extremes.preemptions,
        "requests": sum(run.accesses.values()),
    }  # fmt: skip
    flat.update({f"config.{name}": value.value for name, value in run.config.items()})
    flat.update({f"measured.{name}": value.value for name, value in run.measured.items()})
    return flat


def check(run: Run, **wanted: Any) -> None:
    """Compare facts of a run; "__" in a name is the dot."""
    found = facts(run)
    got = {name: found.get(name.replace("__", ".")) for name in wanted}
    wrong = {name: (got[name], "wanted", value) for name, value in wanted.items() if got[name] != value}
    assert not wrong, wrong
