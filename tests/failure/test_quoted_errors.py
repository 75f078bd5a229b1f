"""What a follow-up error quotes of another one is its cause; what only says that there was one is not."""

from __future__ import annotations

from tests.failure.records import records_of
from tests.tables import for_each
from vllm_logdoctor.rules.failure.context import Observation
from vllm_logdoctor.rules.failure.cut_off import of_another_process
from vllm_logdoctor.rules.failure.signatures import failure_rules


@for_each(
    ("text", "wrapper", "quoted"),
    [
        (
            "RuntimeError: Worker failed with error 'index 7 of 5', please check the stack trace above",
            False,
            "index 7 of 5",
        ),
        (
            "RuntimeError: Worker failed with error 'index 7 of 5', please check the stack trace above",
            True,
            "index 7 of 5",
        ),
        ("Worker failed with error 'index 7\\nof 5'", True, "index 7\\nof 5"),
        ("Worker failed with error 'ab'", False, None),
        ("ValueError('Attempted to assign 5 of 7')", False, "ValueError('Attempted to assign 5 of 7')"),
        ("ValueError('Attempted to assign 5 of 7')\nmore", False, "ValueError('Attempted to assign 5 of 7')"),
        ("ValueError('Attempted to assign 5 of 7')", True, None),
        ("ValueError: Attempted to assign 5 of 7", False, None),
        ("Engine core initialization failed. See root cause above.", True, None),
    ],
)
def test_the_error_that_another_process_quotes(text: str, wrapper: bool, quoted: str | None) -> None:
    (record,) = records_of("(EngineCore_DP0 pid=9) ERROR 05-01 10:00:00 [core.py:708] x")
    found = of_another_process(
        Observation(text, record, 0, (0, 1), wrapper=wrapper, echo=True), failure_rules()
    )
    assert found is not None
    if quoted is None:
        assert (found.rule.id, found.values["exception"]) == ("cause-not-in-log", text.split("\n")[0])
        assert found.signature.confidence == "medium"
    else:
        assert (found.rule.id, found.values["exception"]) == ("unclassified-failure", quoted)
        assert found.values["process"] == "EngineCore_DP0"
        assert (found.signature.rank, found.signature.confidence) == ("echo", "low")
