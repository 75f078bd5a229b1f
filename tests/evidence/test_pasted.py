"""Pasted texts: issue bodies, mails, chats and tickets hold a log among prose, commands and the output of other tools."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.evidence.samples import SAMPLES
from vllm_logdoctor.pipeline import analyse
from vllm_logdoctor.report import markdown
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.source import inputs_from

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
FAILED = (
    (FIXTURES / "vllm-0.32.0-fail-max-model-len-exceeds-kv-cache.log").read_text(encoding="utf-8").rstrip()
)
SERVED = (FIXTURES / "vllm-0.11.2-kv-starved.log").read_text(encoding="utf-8").rstrip()
CARD = SAMPLES["nvidia-smi-table"].rstrip()
ENVIRONMENT = SAMPLES["collect-env"].rstrip()
METRICS = SAMPLES["prometheus-text"].rstrip().replace("tiny", "models/tiny-qwen3")
ROOT = "kv-cache-too-small-for-max-model-len"


def fenced(text: str, mark: str = "```", language: str = "") -> str:
    return f"{mark}{language}\n{text}\n{mark}"


def quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.split("\n"))


ISSUE = f"""### Your current environment

<details><summary>collect_env</summary>

{fenced(ENVIRONMENT, language="text")}

</details>

### Describe the bug

It was `torch.cuda.OutOfMemoryError: CUDA out of memory.` with another model. Now I start

{fenced("vllm serve models/tiny-llama-1m --port 8300 --enforce-eager", language="bash")}

and get

{fenced(FAILED)}

ValueError: No available memory for the cache blocks.
was another day.
"""
TEXTS = {
    "issue, fenced": ISSUE,
    "issue, answered by mail": quoted(ISSUE),
    "without a fence": f"Hi,\n\nyesterday RuntimeError: CUDA error: out of memory, today\n\n{FAILED}\n\nThanks!\n\n{CARD}\n",
    "mail": f"From: ops\n\nOn Monday the user wrote:\n{quoted(FAILED)}\n\nI think it was a killed worker (exit code -9).\n",
    "chat": f"[10:02] alice: down again\n[10:03] alice: the log\n{FAILED}\n"
    "[10:05] bob: last week we had ValueError: No available memory for the cache blocks.\n[10:06] alice: no\n",
    "indented": "The log is\n\n"
    + "\n".join(f"    {line}" for line in FAILED.split("\n"))
    + "\n\nThat is all.\n",
    "list with other fences and line ends": f"1. start\n\n{fenced(FAILED, '~~~')}\n\n2. wait\n".replace(
        "\n", "\r\n"
    ),
}


def analysed(text: str) -> Analysis:
    return analyse(inputs_from(text.encode()))


def failures(analysis: Analysis) -> list[tuple[str | None, str]]:
    found: Iterable = analysis.runs[-1].findings
    return [(one.role, one.id) for one in found if one.kind == "failure"]


@pytest.mark.parametrize("name", TEXTS)
def test_the_log_is_judged_as_without_the_text_around_it(name: str) -> None:
    assert failures(analysed(TEXTS[name])) == failures(analysed(FAILED))


@pytest.mark.parametrize("name", TEXTS)
def test_lines_are_numbered_as_in_the_text(name: str) -> None:
    lines = TEXTS[name].split("\n")
    analysis = analysed(TEXTS[name])
    root = next(one for one in analysis.runs[0].findings if one.id == ROOT)
    assert (
        "To serve at least one request" in lines[root.evidence[0].line - 1] + lines[root.evidence[1].line - 1]
    )
    assert analysis.sources[0].lines == TEXTS[name].rstrip("\n").count("\n") + 1


def test_a_part_of_another_tool_is_read_with_the_lines_of_the_text() -> None:
    (beside,) = analysed(ISSUE).beside
    card = next(one for one in beside.evidence.readings if one.value == "NVIDIA T")
    assert beside.evidence.kind == "collect-env"
    assert isinstance(card.line, int)
    assert ISSUE.split("\n")[card.line - 1] == "GPU 0: NVIDIA T"


def test_what_a_launch_command_beside_a_part_of_a_log_says_is_known() -> None:
    part = FAILED[FAILED.index("(EngineCore pid=21615) ERROR") :]
    text = f"I start\n\n{fenced('vllm serve models/tiny-llama-1m --port 8300 --seed 7')}\n\nand get\n\n{fenced(part)}\n"
    run = analysed(text).runs[0].run
    assert (run.setting("seed"), run.model and run.model.value) == (7, "models/tiny-llama-1m")


def test_a_ticket_with_a_card_of_another_machine_shows_it_and_uses_nothing() -> None:
    (beside,) = analysed(
        f"**4711**: slow\n\n{fenced('$ nvidia-smi' + chr(10) + CARD)}\n\n{fenced(SERVED)}\n"
    ).beside
    assert (beside.evidence.kind, beside.certainty) == ("nvidia-smi-table", "contradicted")


def test_metrics_in_the_text_of_the_log_are_of_its_run() -> None:
    text = f"Log\n\n{fenced(SERVED)}\n\nand /metrics:\n\n{fenced(METRICS)}\n"
    analysis = analysed(text)
    (beside,) = analysis.beside
    assert (beside.run, beside.certainty) == (1, "likely")
    assert analysis.runs[0].run.counters["preemptions"] == 7


def test_the_last_line_of_a_log_is_none_of_a_tool_behind_it() -> None:
    text = f"{FAILED}\n\nThat was all of it.\n\n{fenced(CARD)}\n"
    assert analysed(text).beside
    assert "Last line: `|" not in markdown.render(analysed(text))


def test_two_logs_are_two_runs() -> None:
    text = f"Before:\n\n{fenced(FAILED)}\n\nafter:\n\n{fenced(SERVED)}\n"
    assert [one.run.outcome for one in analysed(text).runs] == ["crashed_at_startup", "clean_shutdown"]


def test_a_fence_within_a_prompt_takes_nothing_from_a_log() -> None:
    head, tail = SERVED[: len(SERVED) // 2].rpartition("\n")[0], SERVED[len(SERVED) // 2 :].partition("\n")[2]
    within, plain = analysed(f"{head}\n```python\nprint(1)\n```\n{tail}\n"), analysed(f"{head}\n{tail}\n")
    assert len(within.runs[0].run.samples) == len(plain.runs[0].run.samples)
    assert within.runs[0].run.outcome == plain.runs[0].run.outcome


def test_prose_alone_names_no_cause() -> None:
    text = "Is it normal that `vllm serve` says\n\nValueError: something is wrong\n\nwith vLLM 0.9.1 on an A100?\n"
    found = failures(analysed(text))
    assert {name for role, name in found if role == "root"} <= {"unclassified-failure"}


def test_standard_input_is_parted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(ISSUE.encode()))))
    analysis = analyse(inputs_from("-"))
    assert [one.evidence.kind for one in analysis.beside] == ["collect-env"]
    assert failures(analysis) == failures(analysed(FAILED))


def test_evidence_alone_on_standard_input_is_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(METRICS.encode()))))
    analysis = analyse(inputs_from("-"))
    assert (len(analysis.runs), analysis.beside[0].evidence.kind) == (0, "prometheus-text")


def test_a_long_standard_input_that_begins_with_a_card_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"{CARD}\n{SERVED}\n" + "\n" * (1 << 20) + "(APIServer pid=1) INFO:     Shutting down\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode()))))
    analysis = analyse(inputs_from("-"))
    assert analysis.sources[0].lines == text.count("\n")
    assert len(analysis.runs) == 1
