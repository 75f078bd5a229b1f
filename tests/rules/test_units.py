"""Figures have the unit that the line prints: per rank or whole, bytes of a latent token, all accesses, tokens of a hybrid cache."""

from __future__ import annotations

import pytest

from tests.run.lives_of_a_server import answers, start, statistics, stop
from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.plan.whatif import what_if
from vllm_logdoctor.report.model import Diagnosis
from vllm_logdoctor.rules.capacity.memory import GIB, memory_of
from vllm_logdoctor.source import inputs_from


def diagnosis(*lines: str) -> Diagnosis:
    return analyse(inputs_from("\n".join(lines).encode()), Options()).runs[0]


def aggregated(second: int, running: int, waiting: int = 0) -> str:
    """The line of a server that adds up eight data parallel engines."""
    return (
        f"(ApiServer_0 pid=7) INFO 03-04 10:01:{second:02} [loggers.py:310] 8 Engines Aggregated: Avg prompt throughput: 100.0"
        f" tokens/s, Avg generation throughput: {30.0 * running} tokens/s, Running: {running} reqs, Waiting: {waiting} reqs,"
        " GPU KV cache usage: 9.0%, Prefix cache hit rate: 0.0%"
    )


def ranks(*lines: str) -> Diagnosis:
    first = start("0.16.0", extra=", 'max_num_seqs': 16, 'data_parallel_size': 8")
    return diagnosis(
        *(line.replace("data_parallel_size=1", "data_parallel_size=8") for line in first), *lines
    )


@pytest.mark.parametrize(("running", "waiting", "named"), [(26, 4, False), (128, 40, True)])
def test_max_num_seqs_holds_for_each_of_the_engines_that_a_line_adds_up(
    running: int, waiting: int, named: bool
) -> None:
    """16 sequences for each of 8 ranks are 128 requests: 26 of them take no limit, although 26 is more than 16."""
    found = ranks(*(aggregated(second, running, waiting) for second in range(10, 60, 10)))
    assert ("scheduler-limit-not-memory" in {one.id for one in found.findings}) is named
    assert (found.bottleneck.name == "max-num-seqs-limited") is named


def test_accesses_before_the_first_statistics_line_are_counted() -> None:
    run = diagnosis(*start(), *answers(5), statistics(), *answers(2), *stop()).run
    assert run.accesses.total() == 7
    assert run.accesses_by_minute[-1].total() == 5, "their minute is not known"


def test_accesses_without_a_time_are_not_put_into_one_minute() -> None:
    minutes = [statistics(clock=f"03-04 10:0{minute}:00") for minute in range(2, 8)]
    lines = [line for stats in minutes for line in (stats, *answers(10))]
    by_minute = diagnosis(*start(), *lines, *stop()).run.accesses_by_minute
    assert [by.total() for minute, by in sorted(by_minute.items()) if minute >= 0] == [10] * 6


LATENT = (
    "(APIServer pid=7) INFO 03-04 10:00:00 [api_server.py:1977] vLLM API server version 0.20.0",
    "(APIServer pid=7) INFO 03-04 10:00:00 [utils.py:253] non-default args: {'model': 'org/latent', 'max_model_len': 65536,"
    " 'tensor_parallel_size': 4, 'kv_cache_dtype': 'fp8_ds_mla'}",
    "(APIServer pid=7) INFO 03-04 10:00:01 [cache.py:285] Using fp8_ds_mla data type to store kv cache. It reduces the GPU memory "
    "footprint and boosts the performance. Meanwhile, it may cause accuracy drop without a proper scaling factor",
    "(EngineCore pid=8) INFO 03-04 10:00:05 [core.py:105] Initializing a V1 LLM engine (v0.20.0) with config: model='org/latent', "
    "speculative_config=None, dtype=torch.bfloat16, max_seq_len=65536, tensor_parallel_size=4, pipeline_parallel_size=1, "
    "data_parallel_size=1, quantization=fp8, enforce_eager=False, kv_cache_dtype=fp8_ds_mla, device_config=cuda",
    "(Worker_TP0 pid=9) INFO 03-04 10:01:00 [gpu_model_runner.py:4000] Model loading took 57.41 GiB memory and 48.2 seconds",
    "(Worker_TP0 pid=9) INFO 03-04 10:01:30 [gpu_worker.py:440] Available KV cache memory: 11.0 GiB",
    "(EngineCore pid=8) INFO 03-04 10:01:30 [kv_cache_utils.py:1708] GPU KV cache size: 295,168 tokens",
    "(EngineCore pid=8) INFO 03-04 10:01:30 [kv_cache_utils.py:1709] Maximum concurrency for 65,536 tokens per request: 4.50x",
    "(APIServer pid=7) INFO:     Application startup complete.",
)


def test_a_latent_cache_of_656_bytes_for_576_elements_grows_by_that_to_16_bit() -> None:
    run = diagnosis(*LATENT).run
    answer = what_if(run, {"kv_cache_dtype": "auto"}).kv_cache_tokens
    assert answer.after == pytest.approx(295_168 * (656 / 576) / 2, rel=0.001)
    assert "1.13889 -> 2 bytes an element" in answer.basis


def test_a_token_of_a_cache_with_several_kinds_of_layers_costs_what_full_requests_show() -> None:
    """4.50 requests of 65,536 tokens in 11 GiB are 39 KiB a token; by the printed tokens it would be four times as much."""
    hybrid = [
        line.replace("295,168 tokens", "73,728 tokens").replace("fp8_ds_mla", "auto") for line in LATENT
    ]
    memory = memory_of(diagnosis(*hybrid).run)
    assert memory is not None
    assert 11 * GIB / memory.held / 1024 == pytest.approx(39.1, rel=0.01)
    assert memory.tokens == 73_728


@pytest.mark.parametrize("version", ["0.1.dev1+g6804e1b81", "0.20.0"])
def test_an_untagged_build_keeps_its_actions(version: str) -> None:
    first = start(version, extra=", 'enforce_eager': True, 'max_num_seqs': 4")
    busy = [
        statistics(clock=f"03-04 10:01:{second:02}", running=4).replace("Waiting: 0", "Waiting: 9")
        for second in range(10, 60, 10)
    ]
    found = diagnosis(*(line.replace("enforce_eager=False", "enforce_eager=True") for line in first), *busy)
    changes = {item.change.knob: item.change.after for item in found.plan.changes}
    assert changes.keys() >= {"--max-num-seqs", "--enforce-eager"}
    assert found.plan.command_after is not None
    assert "--enforce-eager" not in found.plan.command_after
