"""Which pattern takes a message."""

from __future__ import annotations

from tests.parse.framing import records
from vllm_logdoctor.catalogue.index import load_index
from vllm_logdoctor.events import Event, Matcher
from vllm_logdoctor.parse import RecordParser
from vllm_logdoctor.scan import Line

INDEX = load_index()
MATCHER = Matcher(INDEX)


def event_of(text: str) -> Event | None:
    gates = tuple(number for number, gate in enumerate(INDEX.gates) if gate in text)
    (record,) = RecordParser().parse(Line(0, 1, text.encode(), gates))
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


def test_without_its_gate_no_pattern_is_tried() -> None:
    (record,) = records("INFO 03-04 10:11:12 [kv_cache_utils.py:1229] GPU KV cache size: 5 tokens")
    assert record.literals == ()
    assert MATCHER.match(record) is None


def test_an_exception_s_type_does_not_hide_its_message() -> None:
    text = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."
    assert event_of(text) is not None


def test_absent_fields_are_left_out() -> None:
    event = event_of("INFO 03-04 10:11:12 [kv_cache_utils.py:1229] KV cache size: 5 tokens")
    assert event is not None
    assert event.text("pool") == ""
    assert event.number("pool") is None
