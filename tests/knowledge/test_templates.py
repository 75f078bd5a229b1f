"""A template prints what its literal parts allow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_logdoctor.knowledge.templates import could_begin, could_print, literal_parts


@pytest.mark.parametrize(
    ("template", "style", "message", "can"),
    [
        ("GPU KV cache size: %s tokens", "percent", "GPU KV cache size: 2,505,984 tokens", True),
        ("GPU KV cache size: %s tokens", "percent", "GPU KV cache size: 2,505,984 blocks", False),
        ("Used %.1f%% of %5d", "percent", "Used 93.0% of    12", True),
        ("chosen {} of {{x}}", "brace", "chosen 3 of {x}", True),
        ("Starting", "plain", "Starting", True),
        ("Starting", "plain", "Starting up", False),
        ("First line %s\nsecond line", "percent", "First line 1", True),
        ("First line\nsecond line", "plain", "First line", True),
        ("Traced files:\n%s", "percent", "Traced files:", True),
        ("Traced files:\n%s", "percent", "Traced files: none", False),
        ("100% sure", "plain", "100% sure", True),
    ],
)
def test_templates_and_what_they_print(template: str, style: str, message: str, can: bool) -> None:
    assert could_print(literal_parts(template, style), message) is can


@pytest.mark.parametrize(
    ("message", "can"),
    [
        ("Failed to start the workspace: build failed. Output:", True),
        ("Failed to start the worksp", True),
        ("Failed to start the", False),
        ("Failed to start a workspace: build failed", False),
    ],
)
def test_the_begin_of_a_message_is_known_by_enough_of_its_text(message: str, can: bool) -> None:
    parts = literal_parts("Failed to start the workspace: %s. It is disabled.", "percent")
    assert not could_print(parts, message)
    assert could_begin(parts, message, 24) is can


@given(st.lists(st.text(max_size=8).filter(lambda text: "\n" not in text), min_size=2, max_size=5), st.data())
def test_whatever_fills_the_placeholders_is_recognised(parts: list[str], data: st.DataObject) -> None:
    filled = parts[0] + "".join(data.draw(st.text(max_size=5)) + part for part in parts[1:])
    assert could_print(tuple(parts), filled)
