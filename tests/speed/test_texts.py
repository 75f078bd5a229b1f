"""A question about a text is asked once, of long texts too, as far as memory allows."""

import pytest

from vllm_logdoctor.texts import asked_once


@pytest.mark.parametrize(("length", "times"), [(100, 1), (4_200, 1), (100_000, 2)])
def test_a_text_that_comes_again_is_asked_about_once_unless_it_is_huge(length: int, times: int) -> None:
    asked: list[str] = []
    ask = asked_once(asked.append)
    ask("x" * length + " 17")
    ask("x" * length + " 25")
    assert len(asked) == times
