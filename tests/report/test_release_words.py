"""What stands beside a version that says less than it seems to."""

import pytest

import vllm_logdoctor
from vllm_logdoctor.report.naming import version_words
from vllm_logdoctor.run.identity import FROM_PATH
from vllm_logdoctor.run.model import Evidence, Run, Value


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (Value("0.11.0", "reported"), "vLLM 0.11.0"),
        (
            Value("0.1.dev1+g0123abc", "reported"),
            "vLLM 0.1.dev1+g0123abc (a source build without a release number)",
        ),
        (
            Value("0.3.3", "derived", (Evidence("x", 1, ""),), FROM_PATH),
            "vLLM 0.3.3 (from a file name in the log)",
        ),
        (
            Value("0.9.2", "derived", (), "near 0.9.1 to 0.9.2, from 1 of 1 call sites"),
            "vLLM 0.9.1 or 0.9.2 (inferred from the prefix of one line)",
        ),
        (
            Value("0.9.2", "derived", (), "0.9.1 to 0.9.2, from 3 of 3 call sites"),
            "vLLM 0.9.1 or 0.9.2 (inferred from the prefixes of the log's lines)",
        ),
        (
            Value("0.9.2", "derived", (), "0.9.0, 0.9.0.1, 0.9.2, from 2 of 2 call sites"),
            "vLLM 0.9.0, 0.9.0.1 or 0.9.2 (inferred from the prefixes of the log's lines)",
        ),
        (Value("0.3.3", "derived", (Evidence("x", 1, ""),), "from an installer's line"), "vLLM 0.3.3"),
    ],
)
def test_a_version_says_what_it_is(version, words):
    assert version_words(Run(version=version)) == words


def test_a_default_alone_is_no_further_setting_in_effect():
    """Without a setting that the engine printed, "also" has nothing to refer to."""
    lines = [
        "(APIServer pid=1) INFO 05-01 10:00:01 [utils.py:325] vLLM API server version 0.16.0",
        "(APIServer pid=1) INFO 05-01 10:00:01 [utils.py:261] non-default args: {'model': 'org/m', 'max_model_len': 4096}",
    ]
    text = vllm_logdoctor.analyze(lines).to_markdown()
    assert "\nDefaults of this release, not printed: " in text


@pytest.mark.parametrize(("device", "said"), [("cpu", False), ("cuda", True)])
def test_the_share_of_gpu_memory_is_no_setting_of_the_old_engine_on_a_cpu(device, said):
    lines = [
        "INFO 09-05 10:00:00 api_server.py:459] vLLM API server version 0.6.0",
        "INFO 09-05 10:00:00 api_server.py:460] args: Namespace(host=None, port=8000, model='org/m', gpu_memory_utilization=0.9,"
        f" max_model_len=4096, device='{device}')",
        "INFO 09-05 10:00:01 llm_engine.py:213] Initializing an LLM engine (v0.6.0) with config: model='org/m', dtype=torch.bfloat16,"
        f" max_seq_len=4096, device_config={device}, kv_cache_dtype=auto, served_model_name=org/m",
    ]
    text = vllm_logdoctor.analyze(lines).to_markdown()
    assert ("`gpu_memory_utilization`" in text) is said
