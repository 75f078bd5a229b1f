"""The first screen of starts that take hours: what took the time comes before what else the log may lack."""

from __future__ import annotations

from vllm_logdoctor import analyze

CAPTURED = (
    "INFO 04-21 22:56:58 [gpu_model_runner.py:1608] Graph capturing finished in 7412 secs, took 1.31 GiB"
)
READY = "INFO 04-21 22:58:22 [core.py:162] init engine (profile, create kv cache, warmup model) took 7629.91"
LOADING = "INFO 04-12 08:00:00 [gpu_model_runner.py:1273] Starting to load model org/m..."
LOADED = "INFO 04-12 08:20:41 [loader.py:458] Loading weights took 1240.16 seconds"
COMPILING = "INFO 04-12 08:21:30 [backends.py:430] Dynamo bytecode transform time: 9.20 s"


def first_steps(*lines: str) -> list[str]:
    """The numbered steps of the first screen."""
    (run,) = analyze(list(lines)).runs
    screen = run.to_markdown().split("\n## ")[0]
    return [line for line in screen.splitlines() if line[:2] in ("1.", "2.", "3.")]


def test_a_start_that_captured_graphs_for_hours_begins_with_that() -> None:
    steps = first_steps(CAPTURED, READY)
    assert "Slow start-up: CUDA graph capture" in steps[0]
    assert "py-spy" in steps[1]


def test_a_log_that_ends_with_a_long_loading_begins_with_that() -> None:
    assert "Slow start-up: weight loading" in first_steps(LOADING, LOADED)[0]


def test_a_log_that_ends_in_a_later_phase_begins_with_what_may_have_ended_it() -> None:
    assert "py-spy" in first_steps(LOADING, LOADED, COMPILING)[0]


def test_an_engine_s_seconds_without_their_unit_are_those_of_its_start() -> None:
    (run,) = analyze([CAPTURED, READY]).runs
    assert run.run.measure("init_engine_seconds") == 7629.91
