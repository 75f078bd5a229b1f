"""Lines that tell of a process that died."""

from __future__ import annotations

import pytest

from vllm_logdoctor.catalogue.literal_coverage import uncovered_shape
from vllm_logdoctor.parse import NO_PROCESS, Record
from vllm_logdoctor.run.lifecycle import _DEATH, _DEATH_WORDS, says_death


def record(message: str, level: str = "") -> Record:
    return Record(0, 1, NO_PROCESS, level, None, None, False, None, message, message)


def test_every_line_that_the_expression_takes_holds_one_of_its_words() -> None:
    assert uncovered_shape(_DEATH.pattern, list(_DEATH_WORDS)) is None


@pytest.mark.parametrize(
    ("message", "level", "reported"),
    [
        ("Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.", "ERROR", True),
        ("./serve.sh: line 9: 4711 Segmentation fault      (core dumped) vllm serve m", "", True),
        ("error: unrecognized arguments: --fast", "", True),
        ("Worker exited unexpectedly", "WARNING", True),
        ("Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.", "INFO", False),
        ("[0] ras/client_support.cc:160 NCCL WARN Call to bind failed: Address already in use", "", False),
        ("[Errno 98] error while attempting to bind on address: address already in use", "", True),
        ("the parrot of the second chapter died of old age", "", False),
        ("Avg prompt throughput: 1.0 tokens/s", "", False),
    ],
)
def test_death_is_known_by_its_own_words_and_by_no_remark(message: str, level: str, reported: bool) -> None:
    assert says_death(record(message, level)) is reported


def test_the_shell_says_that_native_code_ended_a_command_with_and_without_a_core_file() -> None:
    for words in ("Segmentation fault      (core dumped) vllm serve", "Bus error               vllm serve"):
        assert _DEATH.search(f"./serve.sh: line 9: 124064 {words}")
    for words in ("Terminated              vllm serve", "Killed                  vllm serve"):
        assert not _DEATH.search(f"./serve.sh: line 9: 124064 {words}")
