"""Words of a failure: values as they are shown, sentences that end well, and changes that the log fills in."""

from __future__ import annotations

from typing import Any

from tests.failure.records import records_of
from tests.rules.making import a_run
from tests.tables import for_each
from vllm_logdoctor.catalogue.pages import ChangeTemplate
from vllm_logdoctor.rules.failure.wording import (
    changes_of,
    evidence_of_records,
    explained,
    filled,
    filled_lines,
    knob_known,
    shown,
)


@for_each(
    ("value", "text"),
    [
        (30000, "30,000"), (-1234, "-1,234"), (True, "True"), (None, "None"), (0.5, "0.5"), (0.12345, "0.1235"), (1.0, "1"), (1.005, "1"), (12.345, "12.35"), (-2.345, "-2.35"),
        ("  two\n words ", "two words"), ("x" * 160, "x" * 160), ("x" * 161, "x" * 157 + "..."),
        # A text is cut at a word of its later half, a path at a folder.
        ("a" * 150 + " " + "b" * 20, "a" * 150 + "..."), ("a" * 80 + " " + "b" * 100, "a" * 80 + "..."), ("a" * 79 + " " + "b" * 100, "a" * 79 + " " + "b" * 77 + "..."),
        ("/data/" + "m" * 60 + "/" + "n" * 120, "/data/" + "m" * 60 + "/..."), ("/data is full " + "n" * 160, "/data is full " + "n" * 143 + "..."),
    ],
)  # fmt: skip
def test_a_value_as_words_show_it(value: Any, text: str) -> None:
    assert shown(value) == text


@for_each(
    ("template", "values", "sentence"),
    [
        ("Port {port} of device {device}, rank {rank}, xid {xid}.", {"port": 30000, "device": 1000, "rank": 2000, "xid": 3000}, "Port 30000 of device 1000, rank 2000, xid 3000."),
        ("{code} {uid} {other_port} {port2} {stated}", {"code": 10001, "uid": 1000, "other_port": 30001, "port2": 30002, "stated": "x" * 170}, "10001 1000 30001 30002 " + "x" * 170),
        ("It said: {what}.", {"what": "No room!"}, "It said: No room!"),
        ("It said: {what}. More.", {"what": "Why?"}, "It said: Why? More."),
        ("It said: {what}.", {"what": "No room"}, "It said: No room."),
        ("It said: {what}.", {"what": "and so on..."}, "It said: and so on..."),
        ("It said: {what}", {"what": "and so on..."}, "It said: and so on..."),
        ("It said: {what}.", {}, None), ("It said: {what}.", {"what": None}, None), ("It said: {what.", {"what": 1}, None),
        ("{what}: {count}", {"what": 0, "count": ""}, "0: "),
    ],
)  # fmt: skip
def test_a_sentence_is_filled_in_or_left_out(
    template: str, values: dict[str, Any], sentence: str | None
) -> None:
    assert filled(template, values) == sentence


def test_lines_without_their_values_are_left_out_and_the_others_are_one_text() -> None:
    assert filled_lines("  {a} is.\n{b} is not.\n\nThe end. ", {"a": 1}) == "1 is. The end."


@for_each(
    ("template", "values", "text"),
    [
        ("Compiler error: {what}.", {"what": "x"}, "Meaning. Compiler error: x."),
        ("Compiler error: {what}", {"what": "x"}, "Meaning. Compiler error: x"),
        ("It needs {what}.", {"what": "x"}, "It needs x."),
        (
            "Compiler error: {what}.\nIt needs {more}.",
            {"what": "x", "more": "y"},
            "Compiler error: x. It needs y.",
        ),
        ("Compiler error: {what}.\nIt needs {more}.", {"what": "x"}, "Meaning. Compiler error: x."),
        ("It needs {what}.", {}, "Meaning."),
    ],
)
def test_what_a_failure_means_is_said_where_its_words_only_quote_the_log(
    template: str, values: dict[str, Any], text: str
) -> None:
    assert explained(template, values, "Meaning.") == text


def test_evidence_is_eight_lines_once_each_and_none_without_a_word_behind_the_first() -> None:
    run = a_run()
    records = records_of("\n".join(["0 0 1", "1 0 0", *(f"line of text {number}" for number in range(9))]))
    lines = [one.line for one in evidence_of_records([records[0], *records, records[0]], run)]
    assert lines == [1, 3, 4, 5, 6, 7, 8, 9]


RUN = a_run(set={"max_model_len": 8192}, version="0.11.2")


@for_each(
    ("template", "values", "change"),
    [
        (("--max-model-len", "flag", "{fits}"), {"fits": 4096, "max_model_len": 8192}, ("--max-model-len", 8192, 4096)),
        (("--max-model-len", "flag", "{fits} tokens"), {"fits": 4096}, ("--max-model-len", None, "4096 tokens")),
        (("--max-model-len", "flag", "{fits}"), {}, None),
        (("--max-model-len", "flag", "{fits}"), {"fits": 8192, "max_model_len": 8192}, None),
        (("--max-num-seqs", "flag", 32), {"max_num_seqs": 256}, ("--max-num-seqs", 256, 32)),
        (("--no-such-flag", "flag", 32), {}, None),
        (("NCCL_DEBUG", "env", "INFO"), {"NCCL_DEBUG": "WARN"}, ("NCCL_DEBUG", None, "INFO")),
        (("do this", "action", "that"), {}, ("do this", None, "that")),
    ],
)  # fmt: skip
def test_a_change_of_a_page_has_the_values_of_the_log(
    template: tuple[Any, ...], values: dict[str, Any], change: tuple[Any, ...] | None
) -> None:
    found = [
        (one.knob, one.before, one.after) for one in changes_of([ChangeTemplate(*template)], RUN, values)
    ]
    assert found == ([change] if change else [])


def test_a_change_needs_the_values_that_it_names_and_keeps_its_note_and_safety() -> None:
    template = ChangeTemplate("--max-num-seqs", "flag", 32, "needs-test", "for {why}", ("why",))
    assert changes_of([template], RUN, {}) == ()
    (found,) = changes_of([template], RUN, {"why": "room"})
    assert (found.kind, found.safety, found.note) == ("flag", "needs-test", "for room")


@for_each(
    ("knob", "kind", "version", "platform", "known"),
    [
        ("--max-num-seqs", "flag", "0.11.2", "cuda", True), ("--max-num-seqs=3", "flag", "0.11.2", "cuda", True), ("--compilation-config.mode", "flag", "0.11.2", "cuda", True),
        ("--no-such-flag", "flag", "0.11.2", "cuda", False), ("NCCL_DEBUG", "env", "0.11.2", "cuda", True), ("NCCL_DEBUG", "env", "0.11.2", "cpu", False),
        ("VLLM_NO_SUCH_VARIABLE", "env", "0.11.2", "cuda", False), ("VLLM_NO_SUCH_VARIABLE", "env", None, "cuda", True), ("VLLM_LOGGING_LEVEL", "env", "0.11.2", "cuda", True),
        ("HF_HOME", "env", "0.11.2", "cuda", True), ("do this", "action", "0.11.2", "cuda", True),
    ],
)  # fmt: skip
def test_flags_and_variables_are_those_of_the_release_and_the_device(
    knob: str, kind: str, version: str | None, platform: str, known: bool
) -> None:
    assert knob_known(knob, kind, a_run(version=version, platform=platform)) is known
