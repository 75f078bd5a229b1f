"""Advice that would do nothing is not given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.rules.making import a_run
from vllm_logdoctor.catalogue.pages import ChangeTemplate, rule_page
from vllm_logdoctor.rules.already_set import already_set, is_pointless
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.run.model import Value

RULES = Path(__file__).resolve().parents[2] / "patterns" / "rules"


@pytest.mark.parametrize(
    ("settings", "change", "expected"),
    [
        (
            {"disable_custom_all_reduce": True},
            Change("--disable-custom-all-reduce", "flag", None, True),
            True,
        ),
        ({}, Change("--disable-custom-all-reduce", "flag", None, True), False),
        ({"enable_prefix_caching": False}, Change("--no-enable-prefix-caching", "flag", None, True), True),
        ({"enable_prefix_caching": True}, Change("--no-enable-prefix-caching", "flag", None, True), False),
        ({"max_num_seqs": 64}, Change("--max-num-seqs", "flag", 64, 128), False),
        ({"enforce_eager": True}, Change("--enforce-eager", "flag", True, None), False),
    ],
)
def test_a_flag_that_the_user_gave_is_set(settings: dict[str, Any], change: Change, expected: bool) -> None:
    assert already_set(a_run(set=settings), change) is expected


def test_a_value_that_vllm_took_by_itself_is_not_given() -> None:
    run = a_run(reported={"disable_custom_all_reduce": True})
    assert not already_set(run, Change("--disable-custom-all-reduce", "flag", None, True))


def test_a_switch_that_is_on_is_not_to_be_tried_again() -> None:
    tried = "Start once with `--enforce-eager` to see whether torch.compile generates the kernel."
    assert is_pointless(tried, a_run(set={"enforce_eager": True}))
    assert not is_pointless(tried, a_run())


def test_a_variable_is_set_where_the_log_shows_it() -> None:
    run = a_run(environment={"NCCL_DEBUG": Value("INFO", "explicit")})
    assert already_set(run, Change("NCCL_DEBUG", "env", None, "INFO"))
    assert not already_set(run, Change("NCCL_DEBUG", "env", None, "TRACE"))


def changes_of_pages() -> list[tuple[str, ChangeTemplate]]:
    """The changes that pages of failures name, with the page."""
    pages = sorted(path.stem for path in RULES.glob("*.md"))
    return [(name, change) for name in pages for change in rule_page(name).changes]


def test_what_only_the_user_knows_is_done_by_hand() -> None:
    """Words in the place of a value would end up in the command."""
    values = [
        (page, change.knob, change.to)
        for page, change in changes_of_pages()
        if change.kind in ("flag", "env") and isinstance(change.to, str) and "{" not in change.to
    ]
    assert values
    assert [place for place in values if " " in place[2] or "path/to" in place[2] or not place[2]] == []


@pytest.mark.parametrize(
    ("text", "pointless"),
    [
        ("Set `CUDA_LAUNCH_BLOCKING=1` for one run.", True),
        ("Start with `--kv-cache-dtype fp8`: the check that failed asks for it.", True),
        ("Start with `--kv-cache-dtype auto`.", False),
        ("Start with `--kv-cache-dtype fp8` and `--max-num-seqs 8`.", False),
        ("Drop `--quantization`: vLLM reads the method from the checkpoint.", True),
        ("Drop `--kv-cache-dtype`.", False),
        ("Merge adapters before serving, or load them with `--enable-lora`.", True),
        ("For GGUF pass the path of the file.", True),
        ("Find what triggers it: a kind of request (LoRA, images).", False),
    ],
)
def test_words_that_the_launch_follows_already_or_can_not_follow(text: str, pointless: bool) -> None:
    run = a_run(set={"kv_cache_dtype": "fp8"}, environment={"CUDA_LAUNCH_BLOCKING": Value("1", "explicit")})
    assert is_pointless(text, run) is pointless
