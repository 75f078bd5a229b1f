"""Runs made by hand: the settings, lines and load that a test is about, and nothing else."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from vllm_logdoctor.catalogue.index import PackIndex
from vllm_logdoctor.catalogue.loading import load_index
from vllm_logdoctor.events import Event
from vllm_logdoctor.events.matcher import Matcher
from vllm_logdoctor.parse import NO_PROCESS, Record
from vllm_logdoctor.rules.bottleneck import bottleneck_of
from vllm_logdoctor.rules.model import Change, Finding
from vllm_logdoctor.rules.performance import performance_findings
from vllm_logdoctor.run.metrics import speculation_of
from vllm_logdoctor.run.model import Evidence, Occurrences, Phase, Run, Sample, Value

FILE = "vllm.log"

PLATFORM = "INFO 03-02 10:00:05 [__init__.py:243] Automatically detected platform cuda."
ENGINE = (
    "INFO 03-02 10:00:06 [core.py:93] Initializing a V1 LLM engine (v0.11.0) with config: model='org/tiny', dtype=torch.float16, "
    "max_seq_len=4096, tensor_parallel_size=1, quantization=None, kv_cache_dtype=auto"
)
LOADED = (
    "INFO 03-02 10:00:30 [gpu_model_runner.py:2900] Model loading took 6.2 GiB and 11.3 seconds",
    "INFO 03-02 10:00:40 [gpu_worker.py:298] Available KV cache memory: 5.10 GiB",
    "INFO 03-02 10:00:40 [kv_cache_utils.py:1087] GPU KV cache size: 41,000 tokens",
)


@cache
def index() -> PackIndex:
    """The packs of the project."""
    return load_index()


@cache
def matcher() -> Matcher:
    """The matcher over them."""
    return Matcher(index())


def record(text: str, line: int = 1, level: str = "INFO") -> Record:
    """A record of one message, with the literals that it holds."""
    literals = tuple(number for number, literal in enumerate(index().literals) if literal in text)
    return Record(0, line, NO_PROCESS, level, None, None, False, None, text, text, literals)


def event(text: str, line: int = 1) -> Event:
    """The event of a message; a pattern or the table of vLLM's messages must know it."""
    one = record(text, line)
    found = matcher().match(one) or matcher().match_vllm_message(one)
    assert found is not None, f"nothing knows {text!r}"
    return found


def sample(
    running: int = 0,
    waiting: int = 0,
    kv: float = 0.0,
    generation: float | None = None,
    prompt: float = 0.0,
    hit: float | None = None,
    engine: int = 0,
    number: int = 0,
) -> Sample:
    """One statistics line, ten seconds after the one before; each request makes 30 tokens/s unless given."""
    text = f"Engine {engine:03d}: Running: {running} reqs, Waiting: {waiting} reqs, GPU KV cache usage: {kv}%"
    return Sample(
        10.0 * number,
        100 + number,
        engine,
        prompt,
        30.0 * running if generation is None else generation,
        running,
        waiting,
        None,
        kv,
        prefix_hit=hit,
        text=text,
    )


def load(*parts: tuple[int, dict[str, Any]]) -> list[Sample]:
    """A series of statistics lines: each part so many lines alike."""
    samples: list[Sample] = []
    for times, figures in parts:
        samples += [sample(**figures, number=len(samples) + extra) for extra in range(times)]
    return samples


def a_run(
    *,
    set: dict[str, Any] | None = None,
    reported: dict[str, Any] | None = None,
    default: dict[str, Any] | None = None,
    measured: dict[str, float] | None = None,
    messages: tuple[str, ...] = (),
    samples: list[Sample] | None = None,
    version: str | None = "0.11.2",
    engine: str | None = "V1",
    platform: str | None = "cuda",
    kind: Any = "server",
    phases: tuple[tuple[str, float], ...] = (),
    **more: Any,
) -> Run:
    """A run: `set` by the user, `reported` by the engine, `default` of the version, messages in order of
    lines.
    """
    given = set or {}
    line = Evidence(FILE, 2, "non-default args: " + repr(given))
    engine_line = Evidence(FILE, 3, "Initializing a V1 LLM engine with config: " + repr(reported or {}))
    config = {
        name: Value(value, "default", (), "default of the version") for name, value in (default or {}).items()
    }
    config |= {name: Value(value, "reported", (engine_line,)) for name, value in (reported or {}).items()}
    config |= {name: Value(value, "explicit", (line,)) for name, value in given.items()}
    run = Run(
        kind=kind,
        engine=engine,
        platform=platform,
        version=Value(version, "reported", (engine_line,)) if version else None,
        first_file=FILE,
        files=(FILE,),
        config=config,
        measured={
            name: Value(value, "reported", (Evidence(FILE, 40 + place, f"{name} {value}"),))
            for place, (name, value) in enumerate((measured or {}).items())
        },
        arguments=dict(given),
        samples=samples or [],
        sample_count=len(samples or []),
        startup_complete=True,
        phases=[Phase(name, "", None, None, seconds) for name, seconds in phases],
        **more,
    )
    if given:
        _see(run, event(f"non-default args: {given!r}", 2))
    for place, text in enumerate(messages):
        seen = event(text, 10 + place)
        _see(run, seen)
        drafts = speculation_of(seen, None, run.evidence(seen.record)) if "peculati" in seen.name else None
        run.speculation += [drafts] if drafts else []
    return run


def _see(run: Run, found: Event) -> None:
    seen = run.messages.setdefault(found.pattern.id, Occurrences())
    seen.first.append(found)
    seen.last = found
    seen.count += 1


def advice(run: Run, objective: str = "balanced") -> dict[str, Finding]:
    """The performance findings of a run by id, in order; each that changes something says how to check it, and shows what it changes."""
    found = {one.id: one for one in performance_findings(run, bottleneck_of(run), objective)}
    assert [name for name, one in found.items() if one.changes and not one.verify] == []
    unproved = [
        (name, change.knob)
        for name, one in found.items()
        for change in one.changes
        if not _is_proved(change, one, run)
    ]
    assert not unproved, unproved
    return found


def _is_proved(change: Change, found: Finding, run: Run) -> bool:
    """Return whether a finding shows the value of a flag that it changes: by the setting's line, or by one that holds the value."""
    value = run.config.get(change.knob.removeprefix("--").replace("-", "_"))
    if change.before is None or value is None or not value.evidence:
        return True
    lines = {line.line for line in value.evidence}
    return any(line.line in lines or str(change.before) in line.text for line in found.evidence)


def knobs(found: Finding) -> dict[str, Any]:
    """The proposed values of a finding by knob."""
    return {change.knob: change.after for change in found.changes}


def numbers(text: str) -> list[float]:
    """All numbers of a text."""
    return [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", text)]
