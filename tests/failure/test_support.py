"""What a run's settings exclude as the name of a failure."""

from __future__ import annotations

from typing import Any

import pytest

from vllm_logdoctor.rules.failure.support import is_one_device


@pytest.mark.parametrize(
    ("facts", "one"),
    [
        ({"tensor_parallel_size": 1}, True),
        ({"tensor_parallel_size": 1, "pipeline_parallel_size": 1, "data_parallel_size": 1}, True),
        ({"tensor_parallel_size": 1, "pipeline_parallel_size": 2}, False),
        ({"tensor_parallel_size": 1, "data_parallel_size": 2}, False),
        ({"tensor_parallel_size": 2}, False),
        ({"tensor_parallel_size": 1, "ranks": 2}, False),
        ({}, False),
    ],
)
def test_one_device_is_known_from_all_sizes_and_ranks(facts: dict[str, Any], one: bool) -> None:
    assert is_one_device(facts) is one
