"""What is quoted of a line is its text, without what a logger or a container put before it."""

from __future__ import annotations

import pytest

from tests.tables import for_each
from vllm_logdoctor.report.excerpt import excerpt, heading
from vllm_logdoctor.report.proof import decisive
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.run.model import Evidence


@pytest.mark.parametrize(
    "line",
    [
        "KeyError: 'a'",
        "chat-vllm-1  | KeyError: 'a'",
        "[rank3]: KeyError: 'a'",
        "2025-02-03 10:11:12 ERROR 4711 [worker_base.py:148] KeyError: 'a'",
        "(EngineCore pid=7) ERROR 02-03 10:11:12 [core.py:5] KeyError: 'a'",
        "(_MapWorker pid=7) ERROR 02-03 10:11:12 core.py:5] KeyError: 'a'",
        "[2025-02-03 10:11:12,815] [ERROR] [MainThread] [vllm.worker.base] >>> KeyError: 'a'",
    ],
)
def test_a_prefix_is_not_quoted(line: str) -> None:
    assert excerpt(line) == "KeyError: 'a'"


def test_brackets_that_belong_to_the_text_are_quoted() -> None:
    assert excerpt("(2.0 GiB) are free") == "(2.0 GiB) are free"


@pytest.mark.parametrize("first", ["AssertionError", '  File "/opt/a.py", line 9, in f'])
def test_a_failed_assertion_is_quoted_before_its_bare_exception(first: str) -> None:
    lines = (Evidence("a.log", 3, first), Evidence("a.log", 2, "    assert heads % ranks == 0"))
    shown = decisive(Finding("x", "failure", "high", "high", "t", "e", "root", lines))
    assert [one.line for one in shown] == [2, 3]


@for_each(
    ("text", "limit", "shown"),
    [
        ("x" * 180, 180, "x" * 180),
        ("a" * 30, 30, "a" * 30),
        ("Short one. Then more words follow here", 20, "Short one"),
        # A sentence or a clause ends in the last two thirds of what there is room for.
        ("Short on. Then more words follow here", 27, "Short on. Then more words…"),
        ("Head: the first part, the second part (of a third)", 26, "Head: the first part"),
        ("Head: the first part, the second part (of a third)", 40, "Head: the first part, the second part"),
        ("plain words without any end of a clause at all", 20, "plain words without…"),
        ("12345 678901234567890", 12, "12345 67890…"),
    ],
)
def test_a_heading_ends_with_a_sentence_else_a_clause_else_a_word(text: str, limit: int, shown: str) -> None:
    assert heading(text, limit) == shown
    assert len(shown) <= limit


def test_a_line_is_quoted_with_at_most_180_characters() -> None:
    assert excerpt("w " * 90 + "w") == excerpt("w " * 90 + "w", limit=180)
    assert excerpt("x" * 180) == "x" * 180
    assert len(excerpt("x" * 181)) == 180


def test_of_evidence_with_a_part_left_out_the_part_with_the_setting_is_quoted() -> None:
    text = f"args: Namespace(model='{'m' * 90}', ... kv_cache_dtype='fp8', seed=0, {'x=1, ' * 30}..."
    assert excerpt(text, limit=100).startswith("…kv_cache_dtype='fp8', seed=0")
    assert excerpt(text, ["--kv-cache-dtype"], 100).startswith("…kv_cache_dtype='fp8'")
