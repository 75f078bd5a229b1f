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


def test_a_blank_that_a_copy_loses_at_the_end_of_a_row_is_there_again() -> None:
    record = "INFO 06-15 14:33:24 api_server.py:178] " + " ".join("x" * (1 + n % 9) for n in range(120))
    copy = "\n".join(rows(record, lose_blanks=True) * 3)
    assert record.rstrip().encode() in b"".join(unwrapped([copy.encode()]))


def test_prose_set_to_a_width_is_left_alone() -> None:
    prose = textwrap.fill(
        "A paragraph that somebody wrote beside the log, with words of any length. " * 30, WIDTH
    )
    assert width_of(f"{LOG[2]}\n{prose}\n{LOG[2]}\n".encode()) == 0
