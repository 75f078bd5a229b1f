"""A secret that goes on in another line: how far it may be, what may be between, and what ends it."""

from __future__ import annotations

import pytest

from vllm_logdoctor.parse import RecordParser
from vllm_logdoctor.scan import WantedLine

VALUE = "Zq7hTk2Lw9XbV3nR"
KEY_LINE = "MIIEpAIBAAKCAQEA7bq2" * 3 + "Zk9w"


def texts(*lines: tuple[int, int, str]) -> list[str]:
    """Return what is shown of lines, each given with file and number."""
    parser = RecordParser()
    return [
        record.text
        for file, number, line in lines
        for record in parser.parse(WantedLine(file, number, line.encode()))
    ]


@pytest.mark.parametrize(("number", "masked"), [(11, True), (15, True), (16, False)])
def test_a_value_may_be_a_few_lines_behind_its_name(number: int, masked: bool) -> None:
    # Blank lines, which are no records, are between them where line ends were doubled.
    assert texts((0, 10, "args: api_key="), (0, number, VALUE))[1] == ("***" if masked else VALUE)


def test_a_value_is_in_the_file_of_its_name_and_behind_it() -> None:
    assert texts((0, 10, "args: api_key="), (1, 11, VALUE))[1] == VALUE
    assert texts((0, 10, "args: api_key="), (0, 9, VALUE), (0, 11, VALUE)) == ["args: api_key=", VALUE, "***"]
    # The first line that may be the value is the value.
    assert texts((0, 10, "args: api_key="), (0, 11, "and more words"), (0, 12, VALUE))[2] == VALUE


@pytest.mark.parametrize(
    ("name", "line", "masked"),
    [
        ("api_key=", "Zq7hTk2L", "***"),
        ("api_key:", "'Zq7hTk2L'", "'***'"),
        ("api_key", "Zq7hTk2L", "Zq7hTk2L"),
        ("api_key", VALUE, "***"),
        ("- name: DB_PASSWORD", "  value: otterStone", "  value: ***"),
        ("- name: DB_PASSWORD", "  otherkey: otterStone", "  otherkey: otterStone"),
        ('"api_key":', '"Zq7hTk2L",', '"***",'),
        ("--api-key \\", "  Zq7hTk2L \\", "  *** \\"),
        ("--api-key", "Zq7hTk2Lw9 --port 8000", "*** --port 8000"),
        ("api_key", "Input should be None [type=none_required, input_value='Zq7hTk2L', input_type=str]",
         "Input should be None [type=none_required, input_value='***', input_type=str]"),
        ("api_key=", "None", "None"),
        ("max_num_seqs=", VALUE, VALUE),
        # In a sentence a name at the end asks for nothing.
        ("please tell us more of what you call an api_key", VALUE, VALUE),
        ("please tell us more of what you call an api_key:", VALUE, "***"),
    ],
)  # fmt: skip
def test_what_follows_a_name_is_its_value_where_it_has_the_form_of_one(
    name: str, line: str, masked: str
) -> None:
    assert texts((0, 1, name), (0, 2, line))[1] == masked


def test_each_item_of_a_list_behind_a_name_is_masked_up_to_another_line() -> None:
    lines = ["api_keys:", f"- {VALUE}", "- Xk4Tz8Vb1Nq6Rw3P", "port: 8000", f"- {VALUE}"]
    assert texts(*((0, number, line) for number, line in enumerate(lines))) == [
        "api_keys:", "- ***", "- ***", "port: 8000", f"- {VALUE}",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "head", ["host1: ", "(EngineCore_DP0 pid=71) ", "INFO 03-04 10:11:12 [core.py:93] ", "web-1  | "]
)
def test_a_head_before_both_lines_and_a_rule_between_them_change_nothing(head: str) -> None:
    lines = ["api_key=", "----", "", VALUE]
    found = texts(*((0, number, head + line) for number, line in enumerate(lines)))
    assert found[-1] == f"{head}***"
    assert VALUE not in "".join(found)


@pytest.mark.parametrize(("width", "next_number", "masked"), [(80, 2, True), (59, 2, False), (80, 3, False)])
def test_the_rest_of_a_value_is_in_the_line_behind_one_as_wide_as_a_terminal(
    width: int, next_number: int, masked: bool
) -> None:
    line = f"--api-key={VALUE}".rjust(width, "x").replace("x--", " --")
    rest = "k3Vq9ZbQ8r2 --port 8000"
    found = texts((0, 1, line), (0, next_number, rest))
    assert found[1] == ("*** --port 8000" if masked else rest)


def test_a_word_behind_a_wide_line_is_no_rest_of_a_value() -> None:
    line = f"--api-key={VALUE}".rjust(80).replace("    --", "x   --", 1)
    for rest in ("Starting the server", "--port 8000"):
        assert texts((0, 1, line), (0, 2, rest))[1] == rest
    assert texts((0, 1, f"{line} and"), (0, 2, "k3Vq9ZbQ8r2"))[1] == "k3Vq9ZbQ8r2"


@pytest.mark.parametrize("lead", ["", "   ", "key1 | ", "(APIServer pid=7) "])
def test_all_lines_of_a_private_key_are_masked_up_to_its_end(lead: str) -> None:
    lines = [
        "-----BEGIN RSA PRIVATE KEY-----", "Proc-Type: 4,ENCRYPTED", "", KEY_LINE, KEY_LINE[::-1], "Zk9wQ1x2==", "-----END RSA PRIVATE KEY-----", KEY_LINE[:20],
    ]  # fmt: skip
    found = "\n".join(texts(*((0, number, lead + line) for number, line in enumerate(lines))))
    assert KEY_LINE not in found
    assert KEY_LINE[::-1] not in found
    assert "Proc-Type: 4,ENCRYPTED" in found
    assert found.endswith(KEY_LINE[:20])


def test_lines_with_secrets_are_counted_and_the_first_ones_kept() -> None:
    parser = RecordParser()
    for number in range(60):
        tuple(parser.parse(WantedLine(0, number, f"api_key={VALUE} {'x' * 700}".encode())))
    assert parser.secret_count == 60
    assert [one.line for one in parser.secrets] == list(range(50))
    assert {(one.names, len(one.text)) for one in parser.secrets} == {(("API key",), 600)}


def test_a_value_in_another_line_than_its_name_is_counted_where_it_is() -> None:
    parser = RecordParser()
    for number, line in enumerate(("args: api_key=", VALUE), start=1):
        tuple(parser.parse(WantedLine(3, number, line.encode())))
    assert [(one.file, one.line, one.names, one.text) for one in parser.secrets] == [
        (3, 2, ("API key",), "***")
    ]


@pytest.mark.parametrize(("length", "masked"), [(16, True), (15, False)])
def test_a_word_of_fewer_letters_than_a_line_of_a_key_ends_the_key(length: int, masked: bool) -> None:
    word = KEY_LINE[:length]
    lines = ["-----BEGIN RSA PRIVATE KEY-----", KEY_LINE, word, KEY_LINE]
    shown = texts(*((0, 10 + number, line) for number, line in enumerate(lines)))
    assert (word in shown) is not masked
