"""A name of a secret at the end of a line is read where the line after it is, so that the value behind it is masked."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from tests.parse.secret_forms import PLACES, filled
from vllm_logdoctor import analyze
from vllm_logdoctor.parse import RecordParser
from vllm_logdoctor.scan import LineFilter, Scanner, Selector, WantedLine, build_prefilter, line_selection
from vllm_logdoctor.scan.structure import may_begin_secret
from vllm_logdoctor.source import Chunk

SECRET = "Zq7hTk2Lw9XbV3nR"
QUIET = "quiet\n" * 200
WANTED = f"ERROR 03-01 08:00:01 [core.py:7] wrong input_value='{SECRET}', input_type=str\n"


def texts_of(*chunks: str) -> str:
    """Return the texts of all records that are read of consecutive chunks of a file."""
    selector, parser, line = (
        Selector(Scanner(build_prefilter(["nothing of this"]), LineFilter())),
        RecordParser(),
        1,
    )
    found = []
    for chunk in chunks:
        lines = [
            item for item in selector.select(Chunk(0, line, chunk.encode())) if isinstance(item, WantedLine)
        ]
        found += [record.text for wanted in lines for record in parser.parse(wanted)]
        line += chunk.count("\n")
    return "\n".join(found)


@pytest.mark.parametrize("end", ["\n", "=\n", ": \n", "\x1b[0m\r\n", "\n\n", "\n\n\n\n"])
def test_the_line_before_a_wanted_one_is_read_where_it_names_a_secret(end: str) -> None:
    found = texts_of(f"{QUIET}api_key{end}{WANTED}")
    assert SECRET not in found
    assert "input_value='***'" in found


@pytest.mark.parametrize("end", ["\n", "\n\n", "\n\n\n\n"])
def test_the_name_may_be_in_the_chunk_before(end: str) -> None:
    assert SECRET not in texts_of(f"{QUIET}api_key{end}", WANTED)
    assert SECRET not in texts_of(QUIET, "api_key\n", end[1:] + WANTED)


def test_a_line_that_names_a_secret_keeps_its_indentation() -> None:
    whole = f"  the last part is an api_key\n{WANTED}"
    assert texts_of(whole).splitlines()[0] == "  the last part is an api_key"
    assert texts_of(*whole.splitlines(keepends=True)) == texts_of(whole)


def test_a_line_that_names_a_secret_is_read_beyond_the_limit_of_kinds() -> None:
    with patch.object(line_selection, "_MOST_KINDS", 1):
        found = texts_of(
            f"{QUIET}{WANTED.replace(SECRET, 'Zq1hTk3Lw5XbV7nR')}INFO 03-01 08:00:01 [other.py:7] api_key\n{WANTED}"
        )
    assert SECRET not in found


def test_a_private_key_that_begins_before_the_last_lines_is_masked_in_them() -> None:
    key = "Zq7hTk2Lw9XbV3nR" * 4 + "\n"
    log = f"{QUIET}ERROR 03-01 08:00:01 [core.py:7] text\n{QUIET}-----BEGIN PRIVATE KEY-----\n{key * 103}"
    assert SECRET not in analyze(log.encode()).to_json()


def test_keys_of_a_list_that_begins_before_the_last_lines_are_masked_in_them() -> None:
    log = f"{QUIET}ERROR 03-01 08:00:01 [core.py:7] text\n{QUIET}api_keys:\n" + f"  - {SECRET}\n" * 90
    assert {record.text for record in analyze(log.encode()).runs[0].run.tail} == {"  - ***"}


@pytest.mark.parametrize(
    "form", [*(form for form in PLACES if r"\n" in form), "-----BEGIN PRIVATE KEY-----", "[64]"]
)
def test_of_the_lines_before_the_last_ones_each_that_a_secret_begins_in_is_read(form: str) -> None:
    parser = RecordParser()
    for number, line in enumerate(filled(form, 1)[0].encode().split(b"\n")):
        tuple(parser.parse(WantedLine(0, number, line)))
        assert may_begin_secret(line) or parser.unfinished is None
