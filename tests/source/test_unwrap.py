"""Records that a terminal cut at its width are whole again."""

from __future__ import annotations

import textwrap

import pytest

from vllm_logdoctor.api import analyze
from vllm_logdoctor.source.unwrap import unwrapped, width_of

WIDTH = 120
ARGUMENTS = ", ".join(f"option_{number}=None" for number in range(40))
LOG = (
    f"INFO 06-15 14:33:24 api_server.py:178] args: Namespace(host=None, {ARGUMENTS}, model='org/tiny', max_num_seqs=48)",
    "INFO 06-15 14:33:24 llm_engine.py:161] Initializing an LLM engine (v0.5.0) with config: model='org/tiny', "
    "tokenizer='org/tiny', skip_tokenizer_init=False, tokenizer_mode=auto, dtype=torch.float16, max_seq_len=4096",
    "INFO 06-15 14:33:40 model_runner.py:160] Loading model weights took 1.2000 GB",
)


def rows(line: str, lose_blanks: bool) -> list[str]:
    """Cut a line as a terminal does; a copy of it may lose the blank at the end of a row."""
    cut = [line[at : at + WIDTH] for at in range(0, len(line), WIDTH)]
    return [row.rstrip(" ") for row in cut] if lose_blanks else cut


@pytest.mark.parametrize("lose_blanks", [False, True])
def test_arguments_over_several_rows_are_read_whole(lose_blanks: bool) -> None:
    text = "\n".join(row for line in LOG for row in rows(line, lose_blanks))
    run = analyze(text.encode()).runs[0]
    assert run.config["max_num_seqs"] == 48
    assert run.config.value("max_num_seqs").provenance == "explicit"


@pytest.mark.parametrize(
    "prefix", ["2025-06-15T14:33:24.123456789Z ", "2025-06-15T14:33:24.12+02:00 stderr F ", "vllm-1  | "]
)
def test_rows_of_a_container_s_log_are_joined_though_its_stamp_or_name_begins_each_record(
    prefix: str,
) -> None:
    text = "\n".join(row for line in LOG for row in rows(prefix + line, False))
    assert analyze(text.encode()).runs[0].config["max_num_seqs"] == 48


def test_a_blank_that_a_copy_loses_at_the_end_of_a_row_is_there_again() -> None:
    record = "INFO 06-15 14:33:24 api_server.py:178] " + " ".join("x" * (1 + n % 9) for n in range(120))
    copy = "\n".join(rows(record, lose_blanks=True) * 3)
    assert record.rstrip().encode() in b"".join(unwrapped([copy.encode()]))


def test_prose_set_to_a_width_is_left_alone() -> None:
    prose = textwrap.fill(
        "A paragraph that somebody wrote beside the log, with words of any length. " * 30, WIDTH
    )
    assert width_of(f"{LOG[2]}\n{prose}\n{LOG[2]}\n".encode()) == 0


COPY = "\n".join(row for line in LOG * 4 for row in rows(line, False)).encode() + b"\n"
"""A copy of a terminal: twelve records in rows."""
WHOLE = [line.encode() for line in LOG * 4]


@pytest.mark.parametrize("size", [1, 7, 119, 120, 121, 500, 10**6])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_rows_are_joined_whatever_the_blocks_and_each_line_keeps_its_number(size: int, end: bytes) -> None:
    copy = COPY.rstrip(b"\n") + end
    joined = b"".join(unwrapped(copy[at : at + size] for at in range(0, len(copy), size)))
    assert [line for line in joined.split(b"\n") if line] == WHOLE
    assert joined.count(b"\n") == copy.count(b"\n")
    before = {record: copy[: copy.index(record[:100])].count(b"\n") for record in WHOLE}
    assert {record: joined[: joined.index(record)].count(b"\n") for record in WHOLE} == before


def test_line_ends_of_windows_are_no_part_of_a_row() -> None:
    joined = b"".join(unwrapped([COPY.replace(b"\n", b"\r\n")]))
    assert [line.rstrip(b"\r") for line in joined.split(b"\n") if line] == WHOLE


def test_behind_the_sample_a_line_that_no_terminal_cut_stays_as_it_is() -> None:
    sample = COPY * 40  # More than decides whether rows are joined.
    long = b"x" * 5000
    text = sample + long + b"\n" + COPY
    for size in (1000, len(text)):
        joined = b"".join(unwrapped(text[at : at + size] for at in range(0, len(text), size)))
        assert [line for line in joined.split(b"\n") if line] == [*WHOLE * 40, long, *WHOLE]
        assert joined.count(b"\n") == text.count(b"\n")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"one line",
        COPY.replace(b"INFO", b"info"),  # No head of a record is at the begin of a row.
        b"\n".join(WHOLE) + b"\n",  # Not cut at all.
        COPY + b"x" * 2000 + b"\n",
        "\n".join(row[:30] for row in COPY.decode().splitlines()).encode(),  # No terminal is so narrow.
    ],
)
def test_what_was_not_cut_at_a_width_passes_unchanged(text: bytes) -> None:
    assert b"".join(unwrapped([text[:50], text[50:]])) == text


def test_a_row_that_begins_a_record_or_is_empty_continues_none() -> None:
    full = ("INFO 06-15 14:33:24 core.py:1] " + "y" * WIDTH)[:WIDTH]
    copy = "\n".join(
        [
            *(row for line in LOG * 4 for row in rows(line, False)),
            full,
            "ERROR 06-15 14:33:25 core.py:2] z",
            full,
            "",
            "end",
        ]
    )
    joined = b"".join(unwrapped([copy.encode()])).split(b"\n")
    assert joined[-5:] == [full.encode(), b"ERROR 06-15 14:33:25 core.py:2] z", full.encode(), b"", b"end"]
