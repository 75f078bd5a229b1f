"""How many runs, engines and causes a report speaks of, each on a small log of its own."""

from __future__ import annotations

import vllm_logdoctor

TRACEBACK = "ERROR 01-17 10:00:09 worker_base.py:554] "
TPU = [
    "INFO 01-17 10:00:00 __init__.py:179] Automatically detected platform tpu.",
    "INFO 01-17 10:00:01 api_server.py:768] vLLM API server version 0.6.6",
    "INFO 01-17 10:00:02 llm_engine.py:232] Initializing an LLM engine (v0.6.6) with config: model='org/model', tensor_parallel_size=4",
    TRACEBACK + "Traceback (most recent call last):",
    TRACEBACK + '  File "/opt/vllm/worker/tpu_worker.py", line 60, in init_device',
    TRACEBACK + "    devices = xla._get_devices()",
    TRACEBACK + "RuntimeError: TPU initialization failed: Expected 16 worker addresses, got 8.",
]
REPLAYED = "(pid=51) INFO 01-17 10:00:06 __init__.py:179] Automatically detected platform tpu. [repeated 3x across cluster]"
TWO_ENGINES = [
    "INFO 05-01 10:00:00 [api_server.py:1043] vLLM API server version 0.9.1",
    "(EngineCore_0 pid=7) INFO 05-01 10:00:10 [core.py:77] Initializing a V1 LLM engine (v0.9.1) with config:"
    " model='org/model', dtype=torch.bfloat16, max_seq_len=4096, tensor_parallel_size=2",
    "(EngineCore_0 pid=7) INFO 05-01 10:01:46 [kv_cache_utils.py:637] GPU KV cache size: 64,000 tokens",
    "(EngineCore_1 pid=8) INFO 05-01 10:01:46 [kv_cache_utils.py:637] GPU KV cache size: 64,000 tokens",
    "INFO 05-01 10:01:46 [loggers.py:134] vllm cache_config_info with initialization after num_gpu_blocks is: 8000",
]
CORE = "(EngineCore_0 pid=7) ERROR 05-01 10:05:20 [core.py:517] "
BROKEN = [
    CORE + "EngineCore encountered a fatal error.",
    CORE + "Traceback (most recent call last):",
    CORE + '  File "/opt/vllm/v1/engine/core.py", line 876, in run_busy_loop',
    CORE + "    if self.number == 0:",
    CORE + "AttributeError: 'Engine' object has no attribute 'number'",
]


def report(lines: list[str]) -> str:
    return vllm_logdoctor.analyze(lines).to_markdown()


def test_a_line_that_ray_repeats_late_begins_no_run() -> None:
    assert len(vllm_logdoctor.analyze([*TPU, REPLAYED]).runs) == 1


def test_a_message_that_says_which_part_of_the_topology_is_wrong_is_given_no_other_cause() -> None:
    text = report(TPU)
    assert "has 16 workers, and 8 addresses are set" in text
    assert "lsof" not in text


def test_engines_that_no_setting_counts_leave_the_number_of_gpus_and_the_block_size_open() -> None:
    text = report(TWO_ENGINES)
    assert "2 GPUs" not in text
    assert "block_size" not in text
    alone = report([TWO_ENGINES[1], TWO_ENGINES[2], TWO_ENGINES[4]])
    assert "(TP=2)" in alone
    assert "`block_size` | `8`" in alone


def test_v0_is_not_offered_to_engines_side_by_side() -> None:
    assert "VLLM_USE_V1=0" not in report([*TWO_ENGINES, *BROKEN])
    assert "VLLM_USE_V1=0" in report([*TWO_ENGINES[:3], *BROKEN])


def test_defaults_of_a_later_release_are_not_called_set_in_a_build_between_two() -> None:
    lines = [
        "INFO 11-29 10:00:00 api_server.py:625] vLLM API server version 0.6.1.post2.dev949+g0a1b2c3d4",
        "INFO 11-29 10:00:00 api_server.py:626] args: Namespace(host=None, port=8000, model='org/model',"
        " scheduling_policy='fcfs', multi_step_stream_outputs=True, max_num_seqs=77)",
    ]
    config = vllm_logdoctor.analyze(lines).runs[0].config
    given = {name for name in config if config.value(name).provenance == "explicit"}
    assert "max_num_seqs" in given
    assert not given & {"scheduling_policy", "multi_step_stream_outputs"}


def test_weights_that_the_checkpoint_lacks_are_not_called_unknown_names() -> None:
    error = "(EngineCore pid=7) ERROR 08-08 10:00:39 [core.py:1330] "
    text = report([
        error + "EngineCore failed to start.",
        error + "Traceback (most recent call last):",
        error + '  File "/opt/vllm/model_executor/model_loader/default_loader.py", line 467, in track_weights_loading',
        error + "    raise ValueError(",
        error + "ValueError: Following weights were not initialized from checkpoint: {'visual.blocks.2.norm1.weight'}",
    ])  # fmt: skip
    assert text.startswith("# FAILED at start-up: Checkpoint lacks the weights of its encoder: visual\n")
    assert "does not match the model class" not in text


def test_the_word_of_the_build_tool_behind_an_error_decides() -> None:
    error = "(EngineCore pid=7) ERROR 08-10 10:00:38 [core.py:1349] "
    text = report([
        error + "EngineCore failed to start.",
        error + "Traceback (most recent call last):",
        error + '  File "/srv/my env/lib/flashinfer/sampling.py", line 68, in get_sampling_module',
        error + "    module = gen_sampling_module().build_and_load()",
        error + "RuntimeError: Ninja build failed. Ninja output:",
        error + "ninja: Entering directory `/srv/cache/sampling'",
        error + "ninja: error: '/srv/my', needed by '/srv/cache/sampling/sampling.o', missing and no known rule to make it",
    ])  # fmt: skip
    assert "it finds no file /srv/my" in text
    assert "above the traceback" not in text


def test_a_failure_after_an_idle_time_says_since_when_no_request_ran() -> None:
    def dies(minutes: int, running: int) -> str:
        last = (
            "INFO 05-01 10:02:00 [loggers.py:134] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 7.5 tokens/s,"
            f" Running: {running} reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%, Prefix cache hit rate: 7.4%"
        )
        broken = [line.replace("10:05:20", f"10:{minutes}:20") for line in BROKEN]
        return report([TWO_ENGINES[0], TWO_ENGINES[1], TWO_ENGINES[2], last, *broken])

    assert "The last statistics line, 57 min 20 s earlier, shows no running request [L4]." in dies(59, 0)
    assert "earlier, shows no" not in dies(59, 3)
    assert "earlier, shows no" not in dies(10, 0)
