"""Which pattern takes a message."""

from __future__ import annotations

import pytest

from tests.parse.framing import records
from vllm_logdoctor.catalogue.loading import load_index
from vllm_logdoctor.events import Event, Matcher
from vllm_logdoctor.parse import RecordParser
from vllm_logdoctor.scan import WantedLine

INDEX = load_index()
MATCHER = Matcher(INDEX)


def event_of(text: str) -> Event | None:
    literals = tuple(number for number, literal in enumerate(INDEX.literals) if literal in text)
    (record,) = RecordParser().parse(WantedLine(0, 1, text.encode(), literals))
    return MATCHER.match(record)


def test_the_same_message_is_the_same_event_in_every_framing() -> None:
    message = "GPU KV cache size: 2,505,984 tokens"
    framings = [
        f"INFO 03-04 10:11:12 [kv_cache_utils.py:1229] {message}",
        f"(EngineCore_DP0 pid=5) INFO 03-04 10:11:12 [kv_cache_utils.py:1229] {message}",
        f"web-1  | INFO 03-04 10:11:12 kv_cache_utils.py:1229] {message}",
        f'{{"message": "{message}", "levelname": "INFO"}}',
    ]
    found = [event_of(text) for text in framings]
    assert {event.name for event in found if event} == {"kv-cache-size"}
    assert [event.number("tokens") for event in found if event] == [2505984.0] * 4


def test_a_message_inside_another_one_is_not_that_message() -> None:
    assert event_of("INFO 03-04 10:11:12 [logger.py:1] answer: 'GPU KV cache size: 5 tokens'") is None


def test_without_its_literal_no_pattern_is_tried() -> None:
    (record,) = records("INFO 03-04 10:11:12 [kv_cache_utils.py:1229] GPU KV cache size: 5 tokens")
    assert record.literals == ()
    assert MATCHER.match(record) is None


def test_an_exception_s_type_does_not_hide_its_message() -> None:
    event = event_of("RuntimeError: Failed to infer device type")
    assert event is not None
    assert event.pattern.level == "raise"


# What no pattern takes is known by the file that prints it, or as the text of an exception; nobody judged it.
@pytest.mark.parametrize(
    ("text", "id_begins", "meaning"),
    [
        (
            "WARNING 03-04 10:11:12 [gpu_model_runner.py:12] Encoder cache is not supported for encoder-decoder models",
            None,
            "",
        ),
        (
            "DEBUG 03-04 10:11:12 [core.py:123] Batch queue is enabled with size 4",
            "catalogue:core.py:",
            "Debug detail about the engine and its processes.",
        ),
        (
            "ERROR 03-04 10:11:12 [wrapper.py:1] ValueError: No available memory for the cache blocks. Try increasing "
            "`gpu_memory_utilization` when initializing the engine.",
            "catalogue:",
            "not classified; the operation that raised it did not complete.",
        ),
    ],
)
def test_what_nobody_judged_is_recognised_by_what_vllm_prints(
    text: str, id_begins: str | None, meaning: str
) -> None:
    (record,) = RecordParser().parse(WantedLine(0, 1, text.encode()))
    event = MATCHER.match_vllm_message(record)
    assert (event is not None) is (id_begins is not None)
    if event is not None and id_begins is not None:
        assert event.name.startswith(id_begins)
        assert event.pattern.meaning.endswith(meaning)


def test_absent_fields_are_left_out() -> None:
    event = event_of("INFO 03-04 10:11:12 [kv_cache_utils.py:1229] KV cache size: 5 tokens")
    assert event is not None
    assert event.text("pool") == ""
    assert event.number("pool") is None
