"""Sampling defaults of a checkpoint: which of them are told, and where they are vLLM's own."""

from __future__ import annotations

from tests.rules.making import a_run
from tests.tables import for_each
from vllm_logdoctor.rules.configuration import RULES
from vllm_logdoctor.rules.engine import settings_findings

WARNED = (
    "Default sampling parameters have been overridden by the model's Hugging Face generation config recommended from the model"
    " creator. If this is not intended, please relaunch vLLM instance with `--generation-config vllm`."
)


def told(*messages: str) -> tuple[str, list[int]] | None:
    found = {one.id: one for one in settings_findings(RULES, a_run(messages=messages, version="0.16.0"))}
    one = next((one for one in found.values() if "generation_config.json" in one.explanation), None)
    return one and (
        one.explanation.partition("generation_config.json")[2],
        [line.line for line in one.evidence],
    )


@for_each(
    ("values", "said"),
    [
        ("{'temperature': 0.6, 'top_p': 0.9}", " (temperature=0.6, top_p=0.9) instead of vLLM's defaults."),
        ("{'temperature': 0.6, 'top_p': 1, 'top_k': -1}", " (temperature=0.6) instead of vLLM's defaults."),
        # Other values than numbers are too long to be told.
        ("{'temperature': 0.6, 'stop': ['</s>', 'end']}", " (temperature=0.6) instead of vLLM's defaults."),
        ("{'stop': ['</s>', 'end']}", " instead of vLLM's defaults."),
        ("{'max_tokens': 2048}", ". Answers of more than 2,048 tokens are cut; the other values are vLLM's own defaults."),
        ("{'max_tokens': 2048, 'top_p': 0.9}", " (max_tokens=2048, top_p=0.9) instead of vLLM's defaults."),
        ("{'temperature': 1.0, 'top_p': 1, 'top_k': 0, 'min_p': 0.0, 'repetition_penalty': 1}", None),
    ],
)  # fmt: skip
def test_the_values_that_differ_from_those_of_vllm_are_told(values: str, said: str | None) -> None:
    found = told(WARNED, f"Using default chat sampling params from model: {values}")
    assert found == (said and (said, [10, 11]))


def test_without_the_values_the_warning_alone_is_told() -> None:
    assert told(WARNED) == (" instead of vLLM's defaults.", [10])
    assert told("Using default chat sampling params from model: {'temperature': 0.6}") is None
