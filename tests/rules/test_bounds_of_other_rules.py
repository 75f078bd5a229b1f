"""Rules on memory, jobs, adapters, drafters, kernels and answers with errors: the figures they state, below and above each bound."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rules.making import a_run, advice, knobs, load
from tests.tables import for_each
from vllm_logdoctor.rules.engine import settings_findings
from vllm_logdoctor.rules.job import RULES as JOB_RULES
from vllm_logdoctor.rules.performance.drafters import drafter_words, family_of
from vllm_logdoctor.rules.performance.published import Range
from vllm_logdoctor.run.job import JobEnd
from vllm_logdoctor.run.model import Phase, Run, Value

GIB = 1 << 30
BUSY = {"running": 8, "generation": 300.0, "kv": 4.0}
ERRORS = "answered-with-server-errors"
POST = ("POST", "/v1/completions")


def killed(start: float | None = None, **job: Any) -> Any:
    phases = [Phase("startup", "", 0.0, start, start)] if start is not None else []
    run = Run(outcome="killed", job=JobEnd(job="PBS job 12", words="Exit_status = -29", **job), phases=phases)
    (found,) = settings_findings(JOB_RULES, run)
    return found


@pytest.mark.parametrize(
    ("job", "start", "said", "shorter"),
    [
        ({"limit": "walltime"}, None, "The batch system killed the job at its walltime.", False),
        ({"limit": "walltime", "elapsed": 7203.0, "walltime": 7200.0}, None, "Killed at the walltime after 2 h of 2 h.", False),
        ({"limit": "walltime", "elapsed": 3600.0}, 600.0, "Killed at the walltime after 1 h; start-up took 10 min of them.", False),
        # A quarter of the time for the start is long.
        ({"limit": "walltime", "elapsed": 3600.0}, 899.0, "start-up took 15 min of them.", False),
        ({"limit": "walltime", "elapsed": 3600.0}, 900.0, "start-up took 15 min of them.", True),
        ({"limit": "walltime", "elapsed": 119.0}, 119.0, "after 119 s; start-up took 119 s of them.", True),
        # A start longer than the job is of an earlier one.
        ({"limit": "walltime", "elapsed": 120.0}, 121.0, "Killed at the walltime after 2 min.", False),
        ({"limit": "walltime", "elapsed": 5460.0}, None, "after 1 h 31 min.", False),
        ({"limit": "memory"}, None, "The batch system killed the job at its memory limit.", False),
        ({"limit": "memory", "memory": 64 * GIB}, None, "Killed at the job's memory limit: 64.0 GiB of host memory.", False),
        ({"limit": "memory", "memory": 64 * GIB, "used_memory": 63 * GIB}, None, "memory limit: 63.0 GiB of 64.0 GiB of host memory.", False),
    ],
)  # fmt: skip
def test_a_job_that_was_killed_at_a_limit(
    job: dict[str, Any], start: float | None, said: str, shorter: bool
) -> None:
    found = killed(start, **job)
    assert said in found.explanation
    assert found.explanation.endswith(" PBS job 12: Exit_status = -29.")
    assert ("shorten the start-up" in found.changes[0].knob) is shorter
    assert ("memory" in found.changes[-1].knob) is (job["limit"] == "memory")


def test_a_job_without_such_a_limit_is_no_finding() -> None:
    assert not settings_findings(JOB_RULES, Run(job=JobEnd(limit="requeue")))
    assert not settings_findings(JOB_RULES, Run())


@for_each(
    ("answers", "severity", "said"),
    [
        ({(*POST, 200): 297, (*POST, 500): 3}, "medium", "3 of 300 POST requests (1 %) got a server error (HTTP 5xx): 3 times 500 for /v1/completions."),
        ({(*POST, 200): 298, (*POST, 500): 3}, None, ""),  # less than 1 %
        ({(*POST, 200): 8, (*POST, 500): 2}, None, ""),  # fewer than three
        ({(*POST, 200): 2, (*POST, 500): 2}, "high", "2 of 4 POST requests (50 %)"),
        ({(*POST, 200): 95, (*POST, 500): 5}, "high", "5 of 100 POST requests (5 %)"),
        ({(*POST, 200): 96, (*POST, 500): 5}, "medium", "5 of 101 POST requests (4.95 %)"),
        ({(*POST, 200): 76, (*POST, 500): 4}, "medium", "4 of 80 POST requests (5 %)"),
        ({(*POST, 500): 5}, "medium", "5 of 5 POST requests (100 %)"),  # the state of the run and no limit of its load
        ({(*POST, 499): 5, (*POST, 200): 5}, None, ""),
        ({(*POST, 600): 5, (*POST, 200): 5}, None, ""),
        ({("GET", "/v1/models", 500): 5, (*POST, 200): 5}, None, ""),
        ({(*POST, 500): 3, (*POST, 503): 4, (*POST, 200): 7}, "high", "7 of 14 POST requests (50 %) got a server error (HTTP 5xx): 4 times 503 for"),
    ],
)  # fmt: skip
def test_answers_with_server_errors_count_by_number_and_share(
    answers: dict[Any, int], severity: str | None, said: str
) -> None:
    run = a_run(samples=load((9, BUSY)), accesses=answers)
    found = advice(run).get(ERRORS)
    assert (found is not None) is (severity is not None)
    if found is not None:
        assert said in found.explanation
        assert found.severity == severity
        assert ("of requests answered with HTTP 5xx" in found.title) is (severity == "high")
    assert ERRORS not in advice(
        a_run(samples=load((9, BUSY)), accesses=answers, outcome="crashed_while_serving")
    )


@pytest.mark.parametrize(
    ("kv", "share", "target"), [(11.0, 0.9, 0.44), (30.0, 0.9, 0.66), (30.1, 0.9, None), (29.0, 0.3, None)]
)
def test_a_cache_of_which_little_was_used_is_made_smaller_for_the_objective_memory(
    kv: float, share: float, target: float | None
) -> None:
    """Twice what was used of 48 GiB stays, on a card of 80 GiB: 10.56 GiB in place of 48 are 0.468 of the card less."""
    line = (
        f"Free memory on device (79.0/80.0 GiB) on startup. Desired GPU memory utilization is ({share}, 52.4 GiB). Actual usage:"
        " 27.5 GiB for weights, 0.26 GiB for peak activation, 0.18 GiB for non-torch memory"
    )
    run = a_run(
        set={"gpu_memory_utilization": share, "max_model_len": 2048},
        measured={"kv_cache_tokens": 400_000, "available_kv_cache_gib": 48.0 if share == 0.9 else 6.0, "model_weights_gib": 16.0},
        samples=load((9, {**BUSY, "kv": kv})),
        messages=(line,),
        version="0.16.0",
    )  # fmt: skip
    found = advice(run, "memory").get("cache-larger-than-load")
    assert (found and knobs(found)["--gpu-memory-utilization"]) == target
    assert "cache-larger-than-load" not in advice(run)
    if found is not None:
        assert found.effect is not None
        assert found.effect.low == found.effect.high == pytest.approx((target or 0) / share, abs=0.001)
        assert (
            f"At most {kv:g} % of 48 GiB of KV cache were used. {2 * kv / 100 * 48:.1f} GiB hold 2 times that"
            in found.explanation
        )


@pytest.mark.parametrize(
    ("requests", "objective", "said", "changes"),
    [
        (1.9, "balanced", "holds 1.9 requests of the full 32,768 tokens. Requests that need more than half of the cache run one after the other", {}),
        (1.0, "balanced", "holds 1 request of the full 32,768 tokens", {}),
        (0.5, "balanced", "A request of that length does not fit, and the engine can't finish it.", {"--max-model-len": 15360}),
        (2.0, "balanced", None, {}),
        (1.9, "long-context", "holds 1.9 requests", {"--kv-cache-dtype": "fp8"}),
    ],
)  # fmt: skip
def test_a_cache_of_less_than_two_long_requests(
    requests: float, objective: str, said: str | None, changes: dict[str, Any]
) -> None:
    run = a_run(
        set={"max_model_len": 32768, "dtype": "bfloat16"},
        measured={"max_concurrency": requests},
        version="0.16.0",
    )
    found = advice(run, objective).get("few-full-length-requests-fit")
    assert (found is not None) is (said is not None)
    if found is not None:
        assert (said or "") in found.explanation
        assert knobs(found) == changes


@pytest.mark.parametrize(
    ("dtype", "platform", "wide"),
    [
        ("float32", "cuda", True),
        ("float", "rocm", True),
        ("float32", "cpu", False),
        ("bfloat16", "cuda", False),
    ],
)
def test_weights_of_four_bytes(dtype: str, platform: str, wide: bool) -> None:
    found = advice(a_run(set={"dtype": dtype}, platform=platform)).get("weights-in-32-bit")
    assert (found and knobs(found)) == ({"--dtype": "bfloat16"} if wide else None)


def test_weights_on_the_host_are_read_at_the_speed_of_the_link() -> None:
    """10 GiB at 50 and 25 GB/s; where the fastest step took less than half of that, only a part was read."""
    run = a_run(set={"cpu_offload_gb": 10}, samples=load((9, {**BUSY, "generation": 20.0})))
    whole = next(one for one in advice(run).values() if "stay on the host" in one.explanation)
    assert "215 to 429 ms a step" in whole.explanation
    partly = a_run(set={"cpu_offload_gb": 10}, samples=load((9, {**BUSY, "generation": 80.0})))
    found = next(one for one in advice(partly).values() if "stay on the host" in one.explanation)
    assert "The fastest steps took at most 100 ms, where all of them take 215 ms" in found.explanation
    assert (whole.confidence, found.confidence) == ("high", "medium")
    spare = a_run(
        set={"cpu_offload_gb": 10},
        measured={"kv_cache_tokens": 9000, "available_kv_cache_gib": 20.1},
        version="0.16.0",
    )
    assert any(knobs(one).get("--cpu-offload-gb", 0) is None for one in advice(spare).values())
    none = a_run(
        set={"cpu_offload_gb": 10},
        measured={"kv_cache_tokens": 9000, "available_kv_cache_gib": 20.0},
        version="0.16.0",
    )
    assert not any("--cpu-offload-gb" in knobs(one) for one in advice(none).values())


@pytest.mark.parametrize(
    ("method", "weights", "words"),
    [
        (
            "bitsandbytes",
            None,
            "take a checkpoint in AWQ, GPTQ or FP8, or 16-bit weights if they fit on the card",
        ),
        ("awq", None, "take a checkpoint in GPTQ or FP8, or 16-bit weights if they fit on the card"),
        ("gptq", None, "take a checkpoint in AWQ or FP8, or 16-bit weights if they fit on the card"),
    ],
)
def test_other_formats_than_the_slow_one_are_proposed(method: str, weights: float | None, words: str) -> None:
    line = f"{method} quantization is not fully optimized yet. The speed can be slower than non-quantized models."
    assert list(knobs(advice(a_run(messages=(line,)))["quantization-without-fast-kernel"])) == [words]


@pytest.mark.parametrize(
    ("model", "version", "words"),
    [
        ("Qwen/Qwen3.5-27B", "0.17.0", "the checkpoint's own MTP layers, if it has them, as the draft model (--speculative-config, method mtp): "),
        ("Qwen/Qwen3.5-27B", "0.16.0", "(--speculative-config, method mtp, known to work since vLLM 0.17.0): "),
        ("deepseek-ai/DeepSeek-R1", "0.10.0", "(--speculative-config, method deepseek_mtp): "),
        ("google/gemma-4-27b", "0.21.0", "the MTP drafter published beside the model as the draft model"),
        ("Qwen/Qwen3-8B", "0.21.0", "a drafter that is published for this model"),
    ],
)  # fmt: skip
def test_a_drafter_with_its_method_and_release(model: str, version: str, words: str) -> None:
    run = Run(model=Value(model, "explicit"), version=Value(version, "reported"))
    (said,) = drafter_words(run)
    assert words in said
    assert ("0.83 to 1.11 x with 2 to 16" in said) is (family_of(run) is not None)
    run.config["speculative_config"] = Value({"method": "ngram"}, "explicit")
    assert drafter_words(run) == ()


def test_a_published_range_in_words_and_as_an_effect() -> None:
    """Of seconds a smaller ratio is the better one, and the median says how many times faster."""
    one = Range(0.5, 2.0, 1.25, 3, 1, "here")
    assert one.words() == "0.5 to 2 x (3 measured pairs from one source)"
    found = one.effect("generation_throughput", "slower streams")
    assert (found.low, found.high, found.median, found.origin) == (0.5, 2.0, 1.25, "published")
    assert found.basis == "3 measured pairs from one source, median 1.25 x; here; slower streams"
    half = Range(0.2, 0.8, 0.5, 8, 4, "there", quartiles=True).effect("startup_seconds")
    assert half.basis == "middle half of 8 measured pairs from 4 sources, median 2 x; there"


@pytest.mark.parametrize(
    ("lines", "calm", "found"), [(5, 95, True), (4, 96, False), (2, 8, True), (1, 9, False)]
)
def test_adapters_take_turns_from_a_twentieth_of_the_time_on(lines: int, calm: int, found: bool) -> None:
    queue = {"running": 4, "waiting": 6, "kv": 5.0, "generation": 120.0}
    run = a_run(
        set={
            "enable_lora": True,
            "max_loras": 1,
            "lora_modules": ["a=/a", "b=/b", "c=/c"],
            "max_num_seqs": 64,
        },
        samples=load((calm, BUSY), (lines, queue)),
        version="0.11.2",
    )
    assert ("adapters-take-turns" in advice(run)) is found


@pytest.mark.parametrize(("requests", "logged"), [(60, True), (59, False)])
def test_requests_that_are_logged_cost_from_one_a_second_on(requests: int, logged: bool) -> None:
    line = "Received request cmpl-1: prompt: 'x', params: SamplingParams(n=1), prompt_token_ids: [1], lora_request: None."
    run = a_run(messages=(line,), samples=load((6, BUSY)), version="0.9.0")
    run.messages["request-received"].count = requests
    assert ("requests-logged" in advice(run)) is logged
    short = a_run(messages=(line,), samples=load((5, BUSY)), version="0.9.0")
    short.messages["request-received"].count = 600
    assert "requests-logged" not in advice(short)
