"""Rules on what of a start comes again with each one: CUDA graphs, the run with the largest images, a phase that takes most of it."""

from __future__ import annotations

from vllm_logdoctor.catalogue.topics import Severity
from vllm_logdoctor.rules.context import RuleContext, action, flag, message_lines, setting_lines
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.rules.performance.startup import (
    EXTREME,
    LONG,
    MOST_OF_IT,
    is_small_part,
    longest,
    of_start,
    slow_weight_loading_storage,
)
from vllm_logdoctor.rules.rule import Advice
from vllm_logdoctor.run.clock import duration
from vllm_logdoctor.run.model import Evidence, Phase, Run

# A start of a model with images takes half a minute for them where all goes well.
LONG_ENCODER = 40.0
LONG_CAPTURE = 300.0
"""Graphs are captured in seconds: minutes of it are no price of a start, whatever the rest of it takes."""
LEAST_INIT = 30.0
_FEWER_SIZES = "Fewer capture sizes make it shorter; larger batches then run without a graph."


def slow_startup_graphs_and_dynamo(case: RuleContext) -> Advice | None:
    """Graph capture and tracing dominate the engine's start. Needs their seconds, and those of the whole where they are no many minutes.

    Releases capture all sizes in 1 to 45 s: less than a minute is usual, and worth saying only where a start is all that the log
    shows or the advice is for.
    """
    run = case.run
    whole_start, capture = run.measure("init_engine_seconds"), run.measure("graph_capture_seconds")
    if capture is None or (capture < LONG_CAPTURE and not _dominates(case, capture, whole_start)):
        return None
    tracing = longest(case, "dynamo") or 0.0
    traced = tracing >= capture / 10
    share = (
        f"Of {whole_start:,.0f} s of profiling, KV cache setup and warm-up, {capture:,.0f} s were"
        if whole_start
        else f"{capture:,.0f} s of the start were"
    )
    text = f"{share} CUDA graph capture" + (
        f" and {tracing:,.0f} s Dynamo tracing. The capture recurs at every start; whether the tracing does depends on the release and its cache."
        if traced
        else ", which recurs at every start."
    )
    severity = _severity_of_capture(case, capture)
    is_slow = capture + tracing >= LONG
    parts = "CUDA graph capture and Dynamo tracing" if traced else "CUDA graph capture"
    changes = _smaller_capture(case) if severity or case.objective == "startup" else ()
    return Advice(
        text if changes else f"{text} {_FEWER_SIZES}",
        message_lines(case, "graphs-captured", "dynamo-done", "engine-initialised"),
        confidence="high",
        severity=severity,
        title=f"Slow start-up: {parts}" if is_slow else f"Engine start: mostly {parts}",
        changes=changes,
        alternatives=(
            "a fixed --kv-cache-memory-bytes as the engine prints it: the start then skips profiling",
        ),
        avoid=""
        if severity
        else "Setting --enforce-eager to save these seconds: it makes every step slower.",
        verify="fewer seconds in `Graph capturing finished in`.",
    )


def _dominates(case: RuleContext, capture: float, whole_start: float | None) -> bool:
    """Return whether capture and tracing are half of an engine's start, and long or all that the log is about."""
    took = capture + (longest(case, "dynamo") or 0.0)
    if whole_start is None or whole_start < LEAST_INIT or took < MOST_OF_IT * whole_start:
        return False
    if case.objective == "startup" or _shows_a_start_only(case.run):
        return True
    return took >= LONG and not is_small_part(case.run, took)


def _shows_a_start_only(run: Run) -> bool:
    """Return whether a log is a piece of a start: it ends when the engine is set up, without a failure or a request."""
    return not (run.startup_complete or run.samples or run.progress or run.accesses or run.tracebacks)


def _severity_of_capture(case: RuleContext, seconds: float) -> Severity | None:
    """Return how severe a capture is that takes minutes, more where it takes a good part of the run; None for the usual seconds."""
    if seconds < LONG_CAPTURE:
        return None
    begun, ended = case.run.started, case.run.ended
    return "high" if begun is None or ended is None or seconds > (ended - begun) / 4 else "medium"


def _smaller_capture(case: RuleContext) -> tuple[Change, ...]:
    note = "larger batches then run without a graph"
    fewer = flag(case, "--max-cudagraph-capture-size", None, 128, "needs-test", note)
    return fewer or (action("capture fewer and smaller sizes: a shorter list in `--compilation-config`"),)


def slow_startup_encoder_profiling(case: RuleContext) -> Advice | None:
    """The run with the largest images takes long. Needs the line that announces it and the time of what follows."""
    seconds = longest(case, "encoder-profiling")
    if seconds is None or seconds < LONG_ENCODER:
        return None
    skip = flag(case, "--skip-mm-profiling", None, True)
    text = (
        f"{seconds:,.0f} s of the start went into a run with the largest images, sound or video that a request may carry,"
        " prepared on the host, to measure how much memory vLLM needs. Its length depends on the largest request"
        " that is allowed."
    )
    return Advice(
        text,
        (
            *_phase_lines(case, "encoder-profiling"),
            *setting_lines(case, "limit_mm_per_prompt", "mm_processor_kwargs"),
        ),
        confidence="medium",
        changes=(
            action(
                "let requests carry no more than they need: --limit-mm-per-prompt with 0 for what is not used, fewer pixels"
                " by --mm-processor-kwargs"
            ),
        ),
        alternatives=(f"{skip[0].knob}: no such run, and no memory kept free for what it measures",)
        if skip
        else (),
        verify="fewer seconds between the line on the encoder cache and the next one.",
    )


def _phase_lines(case: RuleContext, name: str) -> tuple[Evidence, ...]:
    return next((phase.evidence for phase in case.run.phases if phase.name == name), ())


def slow_startup_longest_phase(case: RuleContext) -> Advice | None:
    """One phase takes most of a start of many minutes, and no other rule names it. Needs the time from launch to ready."""
    start = case.run.startup_seconds
    if start is None or start < EXTREME or not case.run.startup_complete:
        return None
    most = [one for one in case.run.phases if one.parent and (one.seconds or 0.0) >= MOST_OF_IT * start]
    phase = min(most, key=lambda one: one.seconds or 0.0, default=None)
    loading = phase is not None and phase.name in ("load-weights", "read-weights")
    if (
        phase is None
        or phase.name not in _WORDS
        or (loading and slow_weight_loading_storage(case) is not None)
    ):
        return None
    words = _WORDS[phase.name]
    text = (
        f"{words[:1].upper()}{words[1:]} took {duration(phase.seconds or 0.0)} of {duration(start)} from launch to ready."
        f"{_beside_reading(case, phase)}"
    )
    return Advice(text, phase.evidence, confidence="high", title=f"Slow start-up: {words}")


_WORDS = {
    "imports": "what precedes the engine's start",
    "engine-start": "engine and worker start",
    "placement": "waiting for Ray's placement group",
    "load-weights": "weight loading",
    "read-weights": "weight loading",
    "kernel-build": "kernel builds (JIT)",
    "autotune": "kernel autotuning",
    "profiling": "memory profiling",
    "warm-up": "warm-up",
    "api-server": "API server",
}


def _beside_reading(case: RuleContext, phase: Phase) -> str:
    """Return how little of a loading was reading: the rest may have been a download of which the release prints nothing."""
    read = longest(case, "read-weights")
    if (
        phase.name != "load-weights"
        or read is None
        or phase.seconds is None
        or read >= MOST_OF_IT * phase.seconds
    ):
        return ""
    return f" Reading the files was {duration(read)} of it; a download comes before that."


RULES = (
    of_start(
        "slow-startup-graphs-and-dynamo",
        slow_startup_graphs_and_dynamo,
        lambda case: longest(case, "graph-capture"),
    ),
    of_start(
        "slow-startup-encoder-profiling",
        slow_startup_encoder_profiling,
        lambda case: longest(case, "encoder-profiling"),
    ),
    of_start("slow-startup-longest-phase", slow_startup_longest_phase, lambda case: case.run.startup_seconds),
)
