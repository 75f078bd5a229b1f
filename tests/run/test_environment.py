"""Variables of the launch and of vLLM itself, as far as a log shows them."""

from __future__ import annotations

import pytest

from vllm_logdoctor import analyze
from vllm_logdoctor.run.model import Run

START = """\
INFO 03-02 {hour}:00:00 [__init__.py:216] Automatically detected platform cuda.
(APIServer pid={pid}) INFO 03-02 {hour}:00:05 [api_server.py:1839] vLLM API server version 0.11.2
(APIServer pid={pid}) INFO 03-02 {hour}:00:05 [utils.py:233] non-default args: {{'model': 'org/tiny'}}
"""
LIFE = START + "(APIServer pid={pid}) INFO:     Application startup complete.\n"
END = "(APIServer pid={pid}) INFO:     Finished server process [{pid}]\n"


def runs(text: str) -> list[Run]:
    return [one.run for one in analyze(text.encode()).runs]


def told(run: Run) -> dict[str, tuple[object, str]]:
    return {name: (value.value, value.provenance) for name, value in run.environment.items()}


@pytest.mark.parametrize(
    "line",
    [
        "+ export VLLM_ATTENTION_BACKEND=FLASHINFER",
        "++ export VLLM_ATTENTION_BACKEND=FLASHINFER",
        "export VLLM_ATTENTION_BACKEND=FLASHINFER",
        'declare -x VLLM_ATTENTION_BACKEND="FLASHINFER"',
        "+ VLLM_ATTENTION_BACKEND=FLASHINFER",
        "VLLM_ATTENTION_BACKEND='FLASHINFER'",
    ],
)
def test_what_the_shell_shows_is_the_users(line: str) -> None:
    (run,) = runs(f"{line}\n" + LIFE.format(hour=10, pid=11))
    assert told(run) == {"VLLM_ATTENTION_BACKEND": ("FLASHINFER", "explicit")}
    assert run.environment["VLLM_ATTENTION_BACKEND"].evidence[0].line == 1


@pytest.mark.parametrize(
    "line",
    [
        "Use `export VLLM_ATTENTION_BACKEND=FLASHINFER` instead.",
        "+ export VLLM_OF_THIS_SITE=8000",
        "+ export VLLM_CACHE_ROOT=$HOME/cache",
        "+ sed -i s/^export VLLM_USE_V1=.*/export VLLM_USE_V1=0/ env.sh",
        "+ export MODEL_NAME=org/tiny",
    ],
)
def test_advice_variables_of_the_script_and_unexpanded_values_say_nothing(line: str) -> None:
    (run,) = runs(f"{line}\n" + LIFE.format(hour=10, pid=11))
    assert told(run) == {}


def test_what_vllm_sets_itself_is_an_adjustment() -> None:
    line = (
        "(APIServer pid=11) WARNING 03-02 10:00:06 [system_utils.py:103] We must use the `spawn` multiprocessing "
        "start method. Overriding VLLM_WORKER_MULTIPROC_METHOD to 'spawn'. See the documentation.\n"
    )
    (run,) = runs(LIFE.format(hour=10, pid=11) + line)
    assert told(run) == {"VLLM_WORKER_MULTIPROC_METHOD": ("spawn", "adjusted")}
    report = analyze((LIFE.format(hour=10, pid=11) + line).encode()).to_markdown()
    assert "`VLLM_WORKER_MULTIPROC_METHOD` `spawn` (set by vLLM)" in report


def test_the_next_run_of_the_shell_has_what_was_exported_and_not_what_was_unset() -> None:
    first, second = runs(
        "+ export VLLM_USE_V1=1\n+ export OMP_NUM_THREADS=8\n+ VLLM_PORT=9000\n"
        + (LIFE + END).format(hour=10, pid=11)
        + "+ unset OMP_NUM_THREADS\n+ export VLLM_USE_V1=0\n"
        + LIFE.format(hour=11, pid=12)
    )
    assert told(first) == {
        "VLLM_USE_V1": ("1", "explicit"),
        "OMP_NUM_THREADS": ("8", "explicit"),
        "VLLM_PORT": ("9000", "explicit"),
    }
    assert told(second) == {"VLLM_USE_V1": ("0", "explicit")}


def test_a_variable_far_down_in_the_file_is_seen() -> None:
    text = "noise of the launch script\n" * 500 + "+ export VLLM_USE_V1=1\n" + LIFE.format(hour=10, pid=11)
    (run,) = runs(text)
    assert told(run) == {"VLLM_USE_V1": ("1", "explicit")}


def test_a_secret_in_a_variable_is_masked() -> None:
    line = "+ export HF_HUB_TOKEN=hf_" + "a1B2" * 9 + "\n"
    (run,) = runs(line + LIFE.format(hour=10, pid=11))
    assert "a1B2" not in str(run.environment)


def test_the_launch_is_written_with_its_variables() -> None:
    report = analyze(("+ export VLLM_ATTENTION_BACKEND=FLASHINFER\n" + LIFE.format(hour=10, pid=11)).encode())
    assert "VLLM_ATTENTION_BACKEND" in report.to_markdown()
    assert report.to_dict()["runs"][0]["environment"]["VLLM_ATTENTION_BACKEND"]["provenance"] == "explicit"


@pytest.mark.parametrize(("state", "on"), [("enabled", True), ("disabled", False)])
def test_asynchronous_scheduling_is_what_the_engine_says(state: str, on: bool) -> None:
    lines = [
        "(APIServer pid=1) INFO 03-02 10:00:00 [utils.py:233] vLLM API server version 0.15.0",
        f"(APIServer pid=1) INFO 03-02 10:00:05 [vllm.py:624] Asynchronous scheduling is {state}.",
    ]
    assert analyze(lines).runs[0].config["async_scheduling"] is on
