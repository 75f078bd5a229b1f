"""Environment variables: when they were declared and what they mean when unset."""

import pytest

from vllm_logdoctor.knowledge.variables import (
    variable_default,
    variable_known,
    variable_spans,
)


@pytest.mark.parametrize(
    ("name", "last_with", "first_without"),
    [
        ("VLLM_USE_V1", "0.11.0", "0.11.1"),
        ("VLLM_ATTENTION_BACKEND", "0.14.1", "0.15.0"),
        ("VLLM_USE_TRITON_FLASH_ATTN", "0.11.0", "0.11.1"),
    ],
)
def test_removed_variables_end_where_they_ended(name: str, last_with: str, first_without: str) -> None:
    assert variable_known(name, last_with) is True
    assert variable_known(name, first_without) is False


def test_a_default_changes_with_the_release() -> None:
    assert variable_default("VLLM_USE_DEEP_GEMM", "0.10.2") == "0"
    assert variable_default("VLLM_USE_DEEP_GEMM", "0.11.0") == "1"


def test_an_unknown_variable_has_no_history() -> None:
    assert variable_spans("VLLM_NO_SUCH_THING") == ()
