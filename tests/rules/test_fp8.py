"""fp8 is offered to cards that take it; where the card is not known, with the condition."""

from __future__ import annotations

import pytest

from tests.rules.making import ENGINE, LOADED, PLATFORM
from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.plan.model import WhatIf
from vllm_logdoctor.plan.whatif import what_if
from vllm_logdoctor.report.model import Diagnosis
from vllm_logdoctor.rules.capacity.fp8 import capability_of, condition_of_fp8, in_formats_of_card, refuses_fp8
from vllm_logdoctor.source import inputs_from

TURING = "INFO 03-02 10:00:07 [cuda.py:290] Cannot use FlashAttention-2 backend for Volta and Turing GPUs."
AMPERE = (
    "WARNING 03-02 10:00:07 [marlin_utils_fp8.py:80] Your GPU does not have native support for FP8 computation but FP8 "
    "quantization is being used. Weight-only FP8 compression will be used leveraging the Marlin kernel. This may degrade "
    "performance for compute-heavy workloads."
)
HOPPER = "INFO 03-02 10:00:07 [flash_attn.py:598] Using FlashAttention version 3"
V100 = (
    "ERROR 03-02 10:00:07 [core.py:100] ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. "
    "Your Tesla V100-SXM2-32GB GPU has compute capability 7.0. You can use float16 instead by explicitly setting the `dtype` "
    "flag in CLI, for example: --dtype=half."
)


def diagnosis(*lines: str) -> Diagnosis:
    concurrency = "INFO 03-02 10:00:40 [kv_cache_utils.py:1091] Maximum concurrency for 4,096 tokens per request: 10.01x"
    log = [PLATFORM, ENGINE, *lines, *LOADED, concurrency]
    return analyse(inputs_from("\n".join(log).encode()), Options()).runs[0]


def offered(found: Diagnosis) -> list[WhatIf]:
    return [answer for answer in found.what_if if answer.after == "fp8"]


@pytest.mark.parametrize("line", [TURING, V100])
def test_a_card_without_fp8_is_offered_none(line: str) -> None:
    found = diagnosis(line)
    assert not offered(found)
    assert "compute capability 7" in refuses_fp8(found.run)
    asked = what_if(found.run, {"kv_cache_dtype": "fp8"}).kv_cache_tokens
    assert asked.after is None
    assert "fp8 needs 8.0" in asked.basis


def test_a_card_that_is_not_known_gets_the_condition() -> None:
    found = diagnosis()
    assert {answer.knob for answer in offered(found)} == {"kv_cache_dtype", "quantization"}
    assert all("compute capability 8.9 or later" in answer.basis for answer in offered(found))


def test_a_card_that_only_unpacks_fp8_says_what_that_costs() -> None:
    found = diagnosis(AMPERE)
    assert "does not compute in fp8" in condition_of_fp8(found.run)


def test_a_card_with_fp8_has_no_condition() -> None:
    found = diagnosis(HOPPER)
    assert capability_of(found.run).least == 9.0
    assert condition_of_fp8(found.run) == ""
    assert offered(found)


def test_a_card_without_fp8_is_offered_the_formats_that_it_takes() -> None:
    advice = "Take a checkpoint in AWQ, GPTQ or FP8."
    assert in_formats_of_card(advice, diagnosis(TURING).run) == "Take a checkpoint in GPTQ."
    assert in_formats_of_card(advice, diagnosis(AMPERE).run) == advice
