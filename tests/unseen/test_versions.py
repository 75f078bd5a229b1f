"""Every generation of statistics and start-up lines, written by hand after the formats of each release."""

from __future__ import annotations

from tests.unseen.reading import check, log, only_run


def test_engine_of_0_2_without_version_or_process_names() -> None:
    run = only_run(log("0.2-two-gpus"))
    check(
        run,
        kind="server",
        engine="V0",
        model="org/base-7b",
        outcome="running",
        ready=True,
        samples=2,
        generation__max=41.7,
        prompt__max=3.2,
        running__max=3,
        waiting__max=2,
        kv__max=12.5,
        requests=1,
        config__tensor_parallel_size=2,
        config__dtype="float16",
        config__max_model_len=4096,
        config__enforce_eager=False,
        config__gpu_memory_utilization=0.9,
        config__block_size=16,
        measured__kv_cache_tokens=7406 * 16,
        measured__graph_capture_seconds=6.0,
    )


def test_first_statistics_of_v1_have_no_rates() -> None:
    run = only_run(log("0.7.0-v1"))
    check(
        run,
        kind="server",
        engine="V1",
        version="0.7.0",
        running__max=7,
        waiting__max=1,
        samples=0,
        measured__max_concurrency=39.06,
    )


def test_statistics_of_0_7_2_have_no_comma_before_the_cache() -> None:
    run = only_run(log("0.7.2-v1"))
    check(
        run,
        engine="V1",
        version="0.7.2",
        samples=2,
        running__max=7,
        waiting__max=1,
        kv__max=9.9,
        generation__max=310.4,
        prompt__max=10.5,
    )


def test_0_33_with_all_parts_of_the_statistics_line() -> None:
    run = only_run(log("0.33.0-all-parts"))
    check(
        run,
        kind="server",
        engine="V1",
        version="0.33.0",
        platform="cuda",
        model="org/big-moe",
        samples=2,
        generation__max=1650.0,
        running__max=41,
        waiting__max=12,
        kv__max=97.1,
        prefix_hit__last=31.4,
        preemptions=7,
        requests=1,
        config__max_model_len=32768,
        config__quantization="fp8",
        config__kv_cache_dtype="fp8",
        config__tensor_parallel_size=4,
        config__gpu_memory_utilization=0.85,
        config__enable_chunked_prefill=True,
        measured__kv_cache_tokens=1234560,
        measured__max_concurrency=37.68,
        measured__model_weights_gib=28.41,
        measured__available_kv_cache_gib=38.2,
        measured__torch_compile_seconds=22.5,
        measured__init_engine_seconds=71.02,
        measured__graph_capture_seconds=21.0,
        measured__graph_capture_gib=0.77,
        outcome="running",
    )
    assert run.samples[0].external_hit == 12.0
    assert run.samples[0].mm_hit == 50.0


def test_cache_usage_of_another_device_is_cache_usage() -> None:
    check(
        only_run(log("0.30.0-cpu")),
        platform="cpu",
        version="0.30.0",
        kv__max=3.5,
        samples=1,
        measured__kv_cache_tokens=65536,
        measured__max_concurrency=32.0,
    )


def test_0_6_with_post_release_and_cumulative_preemptions() -> None:
    check(
        only_run(log("0.6.1-preempted")),
        kind="server",
        engine="V0",
        platform="cuda",
        version="0.6.1.post2",
        model="org/m-awq",
        samples=2,
        running__max=9,
        waiting__max=4,
        kv__max=99.9,
        prefix_hit__last=45.21,
        preemptions=51,
        outcome="clean_shutdown",
        config__quantization="awq_marlin",
        config__max_num_seqs=64,
        config__gpu_memory_utilization=0.95,
        config__max_model_len=32768,
        measured__kv_cache_tokens=192000,
        measured__model_weights_gib=5.181,
        measured__graph_capture_seconds=17.0,
        config__load_format="auto",
    )
