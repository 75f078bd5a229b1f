"""The name in an error, or a setting of the run, rules out steps that the page has for other cases."""

from __future__ import annotations

import pytest

from tests.failure.judging import diagnosis, root
from tests.failure.records import framed, traceback
from tests.failure.two_ranks import START, text
from vllm_logdoctor.rules.model import Finding


def failed(
    error: str, config: str = "", *, function: str = "load_weights", code: str = "param = table[name]"
) -> Finding:
    lines = framed("EngineCore_DP0 pid=9", traceback((function, code), ends=error), "core.py:708")
    return root(text([START[0] + config, *START[1:]] if config else START, lines))


def test_a_name_in_the_hugging_face_format_needs_no_other_format_and_a_newer_release_first() -> None:
    found = failed("KeyError: 'transformer.h.12.mlp_norm.weight'")
    assert found.alternatives[0].startswith("Use a newer release")
    assert not any("--load-format" in way for way in found.alternatives)


def test_a_name_of_the_authors_own_files_needs_another_format() -> None:
    assert any(
        "--load-format" in way for way in failed("KeyError: 'layers.0.attention.wk.weight'").alternatives
    )


def test_the_bare_name_of_a_weight_that_ends_loading_is_called_a_key_error() -> None:
    lines = [
        "INFO 05-01 10:00:01 model_runner.py:1100] Starting to load model m...",
        "Loading safetensors checkpoint shards:  75% Completed | 3/4 [00:14<00:04,  4.90s/it]",
        "ERROR 05-01 10:00:31 engine.py:366] 'head.norm.weight'",
        "ERROR 05-01 10:00:31 engine.py:366] Traceback (most recent call last):",
        'ERROR 05-01 10:00:31 engine.py:366]   File "/opt/site-packages/vllm/engine/multiprocessing/engine.py", line 357, in run_mp_engine',
        "ERROR 05-01 10:00:31 engine.py:366]     engine = MQLLMEngine.from_engine_args(engine_args=engine_args,",
    ]
    found = root("\n".join(lines))
    assert found.id == "checkpoint-format-mismatch"
    assert "a KeyError" in found.explanation


MISSING = "AttributeError: 'RadioProcessor' object has no attribute 'get_tones'"


@pytest.mark.parametrize(
    ("trusted", "says", "never"),
    [
        ("True", "model's repository", "Where the model has code of its own"),
        ("False", "installed transformers", "repository"),
    ],
)
def test_whether_remote_code_is_trusted_tells_whose_class_lacks_a_name(
    trusted: str, says: str, never: str
) -> None:
    config = f"(EngineCore_DP0 pid=9) INFO 05-01 10:00:01 [core.py:58] Initializing a V1 LLM engine (v0.11.0) with config: model='m', trust_remote_code={trusted}, tensor_parallel_size=1"
    lines = framed(
        "EngineCore_DP0 pid=9", traceback(("prompts", "self.radio.get_tones("), ends=MISSING), "core.py:708"
    )
    found = root(text([*START, config], lines))
    words = " ".join((found.explanation, *found.alternatives))
    assert says in words
    assert never not in words


def test_a_class_that_vllm_defines_inside_a_function_is_not_the_programs() -> None:
    found = failed(
        "AttributeError: Can't pickle local object 'get_cached_tokenizer.<locals>.CachedTokenizer'"
    )
    assert "vLLM defines" in found.explanation
    assert not any("your own program" in way for way in found.alternatives)


def test_a_wait_for_ray_that_sigterm_ended_is_decided_by_vllms_own_comparison() -> None:
    waits = [
        f"INFO 05-01 10:0{minute}:00 [ray_utils.py:233] Waiting for creating a placement group of specs for {60 * minute} seconds."
        for minute in range(1, 4)
    ]
    lines = [
        "INFO 05-01 10:00:00 [api_server.py:1043] vLLM API server version 0.8.5.post1",
        "WARNING 05-01 10:00:02 [ray_utils.py:342] The number of required GPUs exceeds the total number of available GPUs in the placement group.",
        *waits,
        "*** SIGTERM received at time=1748300290 on cpu 8 ***",
        "Traceback (most recent call last):",
        '  File "/opt/site-packages/vllm/engine/multiprocessing/engine.py", line 400, in signal_handler',
        '    raise KeyboardInterrupt("MQLLMEngine terminated")',
        "KeyboardInterrupt: MQLLMEngine terminated",
        "INFO 05-01 10:06:00 [ray_distributed_executor.py:128] Shutting down Ray distributed executor.",
    ]
    found = diagnosis("\n".join(lines)).failures[0]
    assert (found.id, found.confidence) == ("ray-not-enough-gpus", "high")
    assert "SIGTERM" in found.explanation
    assert [lines[one.line - 1] for one in found.shown_by[:1]] == [lines[1]]
