"""What-ifs: answered from the log's own numbers, or with the reason why not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.rules.making import a_run
from vllm_logdoctor.cli.whatif import run_whatif
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.pipeline import Analyser, Options
from vllm_logdoctor.plan import what_if_table
from vllm_logdoctor.plan.whatif import parse_setting, what_if
from vllm_logdoctor.run.model import Run
from vllm_logdoctor.source import inputs_from, read_chunks

CORPUS = Path(__file__).resolve().parents[2].parent / "shared" / "corpus" / "ab"


def run() -> Run:
    return a_run(
        set={
            "gpu_memory_utilization": 0.88,
            "max_model_len": 32768,
            "dtype": "bfloat16",
            "tensor_parallel_size": 4,
        },
        measured={
            "kv_cache_tokens": 85_760,
            "available_kv_cache_gib": 5.24,
            "model_weights_gib": 15.39,
            "max_concurrency": 2.62,
        },
    )


def test_tokens_and_concurrency_are_answered_with_bounds_and_basis() -> None:
    found = what_if(run(), {"gpu_memory_utilization": 0.9})
    tokens = found.kv_cache_tokens
    assert tokens.before == 85_760
    assert tokens.after is not None
    assert tokens.low is not None
    assert tokens.high is not None
    assert tokens.low <= tokens.after <= tokens.high
    assert "5.24 GiB +0.02 x 23.7 GiB" in tokens.basis
    assert found.max_concurrency.after == pytest.approx(2.62 * tokens.after / 85_760, abs=0.01)


def test_several_settings_act_together() -> None:
    both = what_if(run(), {"kv_cache_dtype": "fp8", "max_model_len": 8192}).max_concurrency.after
    assert both == pytest.approx(2.62 * 2 * 4, abs=0.02)


def test_the_spelling_of_a_flag_is_understood_and_the_order_does_not_matter() -> None:
    one = what_if(run(), {"--kv-cache-dtype": "fp8", "gpu-memory-utilization": 0.9})
    other = what_if(run(), {"gpu_memory_utilization": 0.9, "kv_cache_dtype": "fp8"})
    assert one == other


def test_what_does_not_enter_the_cache_changes_nothing() -> None:
    found = what_if(run(), {"enable_prefix_caching": False})
    assert found.kv_cache_tokens.after == 85_760
    assert "does not enter" in found.kv_cache_tokens.basis


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"limit_mm_per_prompt": {"image": 0}}, "no law is known"),
        ({"tensor_parallel_size": 1}, "nothing is left"),
        ({"speculative_config": {"method": "eagle3"}}, "draft model"),
    ],
)
def test_where_the_log_can_not_tell_the_reason_is_given(settings: dict[str, object], reason: str) -> None:
    found = what_if(run(), settings)
    assert found.kv_cache_tokens.after is None
    assert reason in found.kv_cache_tokens.basis


def test_a_log_without_the_size_of_the_cache_answers_nothing() -> None:
    assert (
        "does not print how many tokens" in what_if(a_run(), {"kv_cache_dtype": "fp8"}).kv_cache_tokens.basis
    )


def test_the_table_has_a_row_for_each_knob_of_the_version() -> None:
    knobs = {row.knob for row in what_if_table(run())}
    assert knobs == {
        "gpu_memory_utilization",
        "kv_cache_dtype",
        "max_model_len",
        "tensor_parallel_size",
        "quantization",
    }
    assert what_if_table(a_run()) == ()


@pytest.mark.parametrize("text", ["", "=3", "max_num_seqs"])
def test_a_setting_without_name_or_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="NAME=VALUE"):
        parse_setting(text)


def test_the_command_writes_the_documented_json(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text(
        "INFO 01-01 00:00:00 [gpu_worker.py:1] Available KV cache memory: 10.00 GiB\n"
        "INFO 01-01 00:00:00 [kv_cache_utils.py:1] GPU KV cache size: 100,000 tokens\n"
    )
    document = json.loads(run_whatif(str(log), ["kv_cache_dtype=fp8"], "json"))
    assert document["kv_cache_tokens"]["before"] == 100_000
    assert set(document["kv_cache_tokens"]) == {"before", "after", "low", "high", "basis"}
    assert "KV cache tokens: 100,000 -> 200,000" in run_whatif(str(log), ["kv_cache_dtype=fp8"], "text")
    assert "KV cache tokens: not known: " in run_whatif(str(log), ["tensor_parallel_size=2"], "text")
    with pytest.raises(LogdoctorError) as caught:
        run_whatif(str(log), [], "json")
    assert caught.value.exit_code == 2


def test_predictions_meet_the_measured_pairs() -> None:
    pairs = CORPUS / "capacity_pairs.jsonl"
    if not pairs.exists():
        pytest.skip("measured pairs are not beside this repository (../shared/corpus/ab)")
    errors: list[float] = []
    for line in pairs.read_text().splitlines():
        pair = json.loads(line)
        log = CORPUS / "logs" / Path(pair["before_log"] or "none").name
        if pair.get("set") and log.exists():
            after = what_if(last_with_cache(log), pair["set"]).kv_cache_tokens.after
            if after is not None:
                errors.append(abs(after / pair["kv_tokens_after"] - 1))
    errors.sort()
    assert errors[len(errors) // 2] <= 0.015
    assert sum(error <= 0.05 for error in errors) >= 0.9 * len(errors)


def last_with_cache(log: Path) -> Run:
    analyser = Analyser(Options())
    for source in inputs_from(str(log)):
        number = analyser.open(source.name)
        for chunk in read_chunks(source, number, analyser.reading(number)):
            analyser.feed(chunk)
    runs = analyser.runs()
    return next((found for found in reversed(runs) if found.measure("kv_cache_tokens")), runs[-1])


def test_no_larger_share_is_offered_of_memory_that_the_host_uses_too_or_that_a_modified_vllm_divides() -> (
    None
):
    def shares(one: Run) -> list[float]:
        return [row.after for row in what_if_table(one) if row.knob == "gpu_memory_utilization"]

    ours = {"kv_cache_tokens": 519_920, "available_kv_cache_gib": 65.25, "model_weights_gib": 17.2}
    settings = {"gpu_memory_utilization": 0.85, "max_model_len": 262_144, "dtype": "bfloat16"}
    assert shares(run())[-1] == 0.95
    # Graphs of 4 GiB do not fit beside 95 % of a card of 80 GB.
    graphs = {**ours, "available_kv_cache_gib": 52.0, "graph_capture_gib": 4.0}
    assert shares(a_run(set={**settings, "gpu_memory_utilization": 0.9}, measured=graphs))[-1] == 0.92
    # 119.6 GiB are a GB10's, whose memory is the host's.
    assert shares(a_run(set={**settings, "gpu_memory_utilization": 0.8}, measured=ours)) == []
    assert shares(a_run(set=settings, measured=ours)) == [0.8]


def test_no_fp8_cache_is_offered_where_the_launch_pins_flash_attention_2_for_the_draft_model() -> None:
    settings = {"max_model_len": 262_144, "dtype": "bfloat16"}
    pinned = {
        "method": "dflash",
        "model": "/d",
        "num_speculative_tokens": 4,
        "attention_backend": "flash_attn",
    }
    two = ("Using FlashAttention version 2",)
    one = a_run(set=settings, measured={"kv_cache_tokens": 519_920}, messages=two)
    assert "kv_cache_dtype" in {row.knob for row in what_if_table(one)}
    # The engine's own print of the draft model's settings names no backend, the arguments do.
    one.arguments = {"speculative_config": pinned}
    assert "kv_cache_dtype" not in {row.knob for row in what_if_table(one)}
