"""Lines with a plain header are parsed in few steps: the records are those of the regular way."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_logdoctor.parse import Record, RecordParser, record_parser
from vllm_logdoctor.run import platform_detection
from vllm_logdoctor.scan import WantedLine

HEADS = (
    "(EngineCore_DP0 pid=81) ERROR 03-01 08:00:01 [core.py:7] ",
    "(VllmWorker TP1 pid=9) WARNING 2026-03-01 08:00:01,250 [gpu/worker.py:64] ",
    "(pid=12) INFO 03-01 08:00:01 [a.py:1] ",
    "INFO 03-01 08:00:01 [0m.py:1] ",
    "INFO 13-41 08:00:01 [loggers.py:127] ",
    "(APIServer pid=70) INFO:     ",
    "(APIServer pid=70) ",
    "(RayWorkerWrapper pid=690, ip=10.0.7.2) ",
    "web-1  | ",
    "2026-03-01T08:00:01.5Z ",
    "[rank3]: ",
    "3: ",
    "",
)
WORDS = (
    "Finished server process [41]", "OddA1Error: broken thing of kind 7a3b", "Traceback (most recent call last):", "step 17 took 0.5 s", " ",
    "\t", "\r", '"', '""', "'", "{", '{"message": "INFO"}', "[1;36m", "[36]", "\x1b[0m", "^[[0m", "#033[0m", "#055", "<-[36m", "<module>",
    "&lt;b&gt;", "\u2190", "\x9b", "\ufeff", "\u00e9", "**17**", "hf_token=abcdefgh", "api_key", "Bearer abcdefghij", "://u:p4ssw0rd@h/",
    "INFO 03-01 08:00:02 [b.py:2] text", "a.py:3] text", "2025-04-03 17:38:52,710 - vllm.x - INFO - text", '"textPayload": "x"', "data: {",
)  # fmt: skip

texts = st.builds(
    lambda head, words: head + " ".join(words),
    st.sampled_from(HEADS),
    st.lists(st.sampled_from(WORDS), max_size=4),
)


def parsed(lines: list[str]) -> tuple[list[Record], list[object]]:
    one = RecordParser()
    records = [
        record
        for number, text in enumerate(lines, start=1)
        for record in one.parse(WantedLine(0, number, text.encode()))
    ]
    return records, [one.secrets, one.secret_count, one.cut_characters]


@settings(max_examples=400, deadline=None)
@given(st.lists(texts, max_size=8))
def test_records_are_those_of_the_regular_way(lines: list[str]) -> None:
    with patch.object(record_parser, "is_usual", lambda message: False):
        expected = parsed(lines)
    assert parsed(lines) == expected


def test_a_usual_line_takes_few_steps() -> None:
    with patch.object(RecordParser, "_parse_any", side_effect=AssertionError):
        records, _ = parsed([HEADS[0] + WORDS[1]])
    assert [(one.level, one.message, one.process.pid) for one in records] == [
        ("ERROR", "OddA1Error: broken thing of kind 7a3b", 81),
    ]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            (
                *(word for _, words, _ in platform_detection._CHECKED for word in words),
                "gfx942 ",
                "vllm/v2/",
                "17 blocks: 3, # CPU",
                "abc",
                " ",
            )
        ),
        max_size=4,
    )
)
def test_words_that_only_digits_tell_apart_hint_at_what_they_say(words: list[str]) -> None:
    record = parsed(["INFO 03-01 08:00:01 [a.py:1] " + "".join(words)])[0][0]
    platform_detection._hints_of.cache_clear()
    found = list(platform_detection.hints_in(record))
    with patch.object(platform_detection, "_may_hint", lambda same: True):
        platform_detection._hints_of.cache_clear()
        assert found == list(platform_detection.hints_in(record))
