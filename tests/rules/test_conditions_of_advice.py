"""What advice says under which condition: its title, its sentences and its steps, with and without the line that decides."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from tests.rules.making import a_run, advice, knobs, load, record, sample
from tests.tables import for_each
from vllm_logdoctor.rules.load import load_of
from vllm_logdoctor.rules.performance.full_cache import HELD_BY_FEW, MANY_SEQUENCES
from vllm_logdoctor.rules.performance.published import COMPILE_CACHE_WARM
from vllm_logdoctor.rules.steps import tokens_per_answer

BUSY = {"running": 8, "generation": 300.0, "kv": 4.0}
WINDOW = (
    "Hybrid KV cache manager is disabled for this hybrid model, This means we do not enable any optimizations for saving KV cache"
    " memory (e.g., dropping the KV cache outside the sliding window). The compute of layers like sliding window is still saved."
)
CONNECTOR = (
    "Turning off hybrid kv cache manager because `--kv-transfer-config` is set. This will reduce the performance of vLLM on LLMs"
    " with sliding window attention or Mamba attention. If you are a developer of kv connector, please consider supporting hybrid"
    " kv cache manager for your connector by making sure your connector is a subclass of `SupportsHMA` defined in"
    " kv_connector/v1/base.py."
)


@for_each(
    ("messages", "settings", "reason", "changes"),
    [
        ((WINDOW,), {}, "", {}),
        ((CONNECTOR, WINDOW), {}, "The KV connector does not support the other way.", {"a KV connector that supports the hybrid cache manager, or none": None}),
        ((WINDOW,), {"disable_hybrid_kv_cache_manager": True}, "--disable-hybrid-kv-cache-manager asked for it.", {"--disable-hybrid-kv-cache-manager": None}),
        # What the user asked for is the reason, whatever the connector can do.
        ((CONNECTOR, WINDOW), {"disable_hybrid_kv_cache_manager": True}, "--disable-hybrid-kv-cache-manager asked for it.", {"--disable-hybrid-kv-cache-manager": None}),
    ],
)  # fmt: skip
def test_what_made_window_layers_keep_the_whole_cache_is_what_to_change(
    messages: tuple[str, ...], settings: dict[str, Any], reason: str, changes: dict[str, Any]
) -> None:
    found = advice(a_run(set=settings, messages=messages, version="0.11.2"))["window-layers-keep-whole-cache"]
    assert found.explanation.endswith(f"than the memory could hold.{' ' if reason else ''}{reason}")
    assert knobs(found) == changes


@for_each(("usage", "severe"), [(89.9, False), (90.0, True)])
def test_a_cache_that_window_layers_waste_matters_once_it_is_nearly_full(usage: float, severe: bool) -> None:
    found = advice(a_run(messages=(WINDOW,), samples=load((6, {**BUSY, "kv": usage}))))
    assert (found["window-layers-keep-whole-cache"].severity == "medium") is severe


def held(running: int, generation: float, **more: Any) -> Any:
    run = a_run(
        samples=load((20, {"running": running, "waiting": 9, "kv": 80.0, "generation": generation})), **more
    )
    return advice(run)["kv-cache-preemption"]


def test_a_cache_that_few_requests_hold_says_so_and_is_judged_by_how_many_run_at_once() -> None:
    two, one, three = held(2, 60.0), held(1, 30.0), held(3, 90.0)
    assert two.title == one.title == HELD_BY_FEW
    assert "more than 2 requests run at once" in two.verify
    assert "more than 1 request run at once" in one.verify
    assert three.title not in (HELD_BY_FEW, MANY_SEQUENCES)
    assert "`GPU KV cache size` is larger" in three.verify


@pytest.mark.parametrize(
    ("samples", "free"),
    [
        ({}, True),
        ({"prompt": 1.0}, False),
        ({"running": 64}, False),
        ({"running": 63}, True),
        ({"waiting": 0}, False),
        ({"kv": 99.0}, False),
    ],
)
def test_adapters_take_turns_where_slots_and_cache_are_free_and_no_prompt_is_computed(
    samples: dict[str, Any], free: bool
) -> None:
    queue = {"running": 4, "waiting": 6, "kv": 5.0, "generation": 120.0, **samples}
    adapters = {
        "enable_lora": True,
        "max_loras": 1,
        "lora_modules": ["a=/a", "b=/b", "c=/c"],
        "max_num_seqs": 64,
    }
    run = a_run(set=adapters, samples=load((9, BUSY), (9, queue)), version="0.11.2")
    found = advice(run).get("adapters-take-turns")
    assert (found is not None) is free
    if found is not None:
        assert "Up to 6 requests waited for 50 % of the busy time" in found.explanation


POST = ("POST", "/v1/completions")


@for_each(
    ("held", "failed", "step", "alternative"),
    [
        (True, 9, "read the traceback of such a request, which this log holds", False),
        (False, 9, "look for the traceback of one such request: standard error and the engine's log", True),
        (False, 1, "look for the traceback of one such request: standard error and the engine's log", True),
        (True, 2, None, False),  # The exception of each is a finding of its own.
        (True, 3, "read the traceback of such a request, which this log holds", False),
    ],
)
def test_the_traceback_of_a_failed_request_is_read_where_the_log_holds_it(
    held: bool, failed: int, step: str | None, alternative: bool
) -> None:
    lines = [record("Exception in ASGI application", 30)] if held else []
    run = a_run(accesses=Counter({(*POST, 500): failed}), records=lines, version="0.20.0")
    found = advice(run).get("answered-with-server-errors")
    assert (found and next(iter(knobs(found)))) == step
    if found is not None:
        assert any("--log-error-stack" in one for one in found.alternatives) is alternative


def compiled(*messages: str) -> Any:
    run = a_run(
        messages=(*messages, "torch.compile takes 210.00 s in total"),
        measured={"torch_compile_seconds": 210.0, "init_engine_seconds": 300.0},
    )
    return advice(run)["slow-startup-torch-compile"]


def test_only_a_compilation_whose_cache_was_cold_is_promised_to_be_faster_the_next_time() -> None:
    cold = compiled("Compiling a graph for dynamic shape takes 180.00 s")
    unknown = compiled()
    assert "with a cold cache: a second start with the same model" in cold.explanation
    assert "the log does not show whether its cache was used" in unknown.explanation
    assert (cold.confidence, unknown.confidence) == ("high", "medium")
    assert cold.effect is not None
    assert unknown.effect is None


@for_each(
    ("first", "complete", "known"),
    [
        # 1,000 answers: ten requests may be cut off at both ends.
        (0, True, True),
        (10, False, True),
        (11, False, False),
        # Where the log holds the start, the requests of the first line began behind it.
        (11, True, True),
    ],
)
def test_a_length_of_answers_is_known_where_few_requests_began_before_the_lines(
    first: int, complete: bool, known: bool
) -> None:
    lines = load((1, {"running": first, "generation": 500.0}), (10, {"running": 40, "generation": 500.0}))
    run = a_run(samples=[*lines, replace(sample(number=11), generation=0.0)])
    run.startup_complete = complete
    run.accesses = Counter({(*POST, 200): 1000})
    assert (tokens_per_answer(run, load_of(run)) is not None) is known


@for_each(
    ("compilation", "whole", "low", "high", "basis"),
    [
        # Pairs measured elsewhere gave 1.75 to 5.6 x: a compilation that is most of the start bounds nothing.
        (200.0, 230.0, None, None, ""),
        (104.0, 145.0, 41 / 145, None, "; here at most 3.54 x: torch.compile is 104 of 145 s"),
        (100.0, 300.0, 2 / 3, 5 / 6, "torch.compile is 100 of 300 s; loading the cached result takes up to half of that"),
    ],
)  # fmt: skip
def test_what_a_warm_compile_cache_gains_is_bounded_by_the_rest_of_the_start(
    compilation: float, whole: float, low: float | None, high: float | None, basis: str
) -> None:
    run = a_run(
        messages=("Compiling a graph for dynamic shape takes 85.36 s",),
        measured={"torch_compile_seconds": compilation, "init_engine_seconds": whole},
    )
    effect = advice(run)["slow-startup-torch-compile"].effect
    measured = COMPILE_CACHE_WARM.effect("init_engine_seconds")
    assert effect is not None
    assert effect.low == pytest.approx(low or measured.low)
    assert effect.high == pytest.approx(high or measured.high)
    assert effect.basis == (basis if high else measured.basis + basis)
