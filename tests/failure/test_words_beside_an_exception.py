"""What Python and pytest print beside an exception: warnings are no part of it, a failed test has its line and value."""

from __future__ import annotations

import pytest

from tests.failure.judging import root
from tests.failure.test_clients_and_pieces import run_of


def test_a_warning_of_python_below_an_exception_is_no_part_of_it() -> None:
    lines = [
        "Processed prompts: 100%|##########| 8/8 [00:04<00:00,  2.00it/s, est. speed input: 10.00 toks/s, output: 1.00 toks/s]",
        "---------------------------------------------------------------------------",
        "AttributeError                            Traceback (most recent call last)",
        "AttributeError: 'Factory' object has no attribute 'find'",
        "",
        "/usr/local/lib/python3.12/dist-packages/mistune.py:435: SyntaxWarning: invalid escape sequence",
    ]
    assert "SyntaxWarning" not in run_of(lines).to_markdown()


@pytest.mark.parametrize(("text", "says"), [("''", "is empty."), ("'no'", "is empty or does not begin")])
def test_a_failed_test_is_told_by_its_line_and_the_value_that_was_parsed(text, says):
    log = f"""\
_____________ test_answer[tiny] _____________
    def test_answer(llm):
        answer = llm.generate(prompt)[0].outputs[0].text
>       parsed = json.loads(answer)

tests/test_answer.py:31:
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _
self = <json.decoder.JSONDecoder object at 0x7f0123456780>, s = {text}, idx = 0
>           raise JSONDecodeError("Expecting value", s, err.value) from None
E           json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)

/usr/lib/python3.12/json/decoder.py:356: JSONDecodeError"""
    found = root(log)
    assert "The test failed at `parsed = json.loads(answer)`" in found.explanation
    assert f"was parsed as JSON {says}" in found.explanation
    assert {one.line for one in found.evidence} >= ({4, 8} if says == "is empty." else {4})
