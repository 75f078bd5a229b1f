"""The command that started a server stands for the arguments that the server did not print."""

from __future__ import annotations

import pytest

from tests.run.lives_of_a_server import start, statistics, stop
from tests.unseen.reading import diagnoses, only_run, runs
from vllm_logdoctor.run.launches import command_of
from vllm_logdoctor.run.model import Run

SERVER = [
    "(APIServer pid=1) INFO 03-04 10:00:00 [api_server.py:1977] vLLM API server version 0.11.2",
    "(APIServer pid=1) INFO 03-04 10:00:09 [model.py:547] Resolved architecture: Qwen3ForCausalLM",
    "(APIServer pid=1) INFO:     Application startup complete.",
    statistics(),
]


def text(*parts: list[str]) -> str:
    return "".join(line + "\n" for part in parts for line in part)


@pytest.mark.parametrize(
    "line",
    [
        "$ vllm serve org/m --max-num-seqs 32",
        '(venv) user@host:~/work$ vllm serve "org/m" --max-num-seqs=32',
        "host:~# python3 -m vllm.entrypoints.openai.api_server --model org/m --max-num-seqs 32 > server.log 2>&1 &",
        "+ CUDA_VISIBLE_DEVICES=0,1 nohup /opt/venv/bin/vllm serve org/m --max_num_seqs 32",
        "docker run --gpus all -p 8000:8000 --ipc=host vllm/vllm-openai:v0.11.2 --model org/m --max-num-seqs 32",
        "root 4711 12.0 0.4 99 9 ? Sl 10:00 0:10 /usr/bin/python3 -m vllm.entrypoints.openai.api_server --model org/m --max-num-seqs 32",
        "srun --gpus=2 vllm serve org/m --max-num-seqs 32",
        "Starting server: vllm serve org/m --max-num-seqs 32",
        "$ vllm serve org/m --max-num-seqs^Ms 32^M",
        "$ vllm serve org/m\x07 --max-num-seqs 32\r",
        r"(base) PS C:\Users\me\my work> vllm serve org/m --max-num-seqs 32",
        r"(base) C:\work>vllm serve org/m --max-num-seqs 32",
        "me@mac vllm % vllm serve org/m --max-num-seqs 32",
        "[me@node7 my work]$ vllm serve org/m --max-num-seqs 32",
        "me@node7:~/vllm (main) ❯ vllm serve org/m --max-num-seqs 32",
        "➜  vllm git:(main) ✗ vllm serve org/m --max-num-seqs 32",
        "me@node7:~$ vllm serve org/other --port 9000 root@node7# vllm serve org/m --max-num-seqs 32",
    ],
)
def test_a_line_that_launches_a_server_is_read(line: str) -> None:
    command = command_of(line)
    assert command is not None
    assert command.arguments == {"model": "org/m", "max_num_seqs": 32}


@pytest.mark.parametrize(
    "line",
    [
        "Run vllm serve org/m to start it",
        "# vllm serve org/m --max-num-seqs 32",
        "> vllm serve org/m --max-num-seqs 32",
        "usage: vllm serve [model_tag] [options]",
        "vllm serve <model> --port 8000",
        "With `vllm serve`, you should provide the model as a positional argument",
        "vllm bench serve --model org/m",
        "python -m vllm.entrypoints.openai.api_server --model $MODEL",
        "vllm serve org/m --chat-template 'not closed",
    ],
)
def test_a_line_that_only_speaks_of_a_launch_is_not(line: str) -> None:
    assert command_of(line) is None


def test_switches_are_on_off_or_carry_a_value() -> None:
    command = command_of(
        "vllm serve org/m --enforce-eager --no-enable-prefix-caching -tp 4 --max-model-len 32k"
    )
    assert command is not None
    assert command.arguments == {
        "model": "org/m",
        "enforce_eager": True,
        "enable_prefix_caching": False,
        "tensor_parallel_size": 4,
        "max_model_len": 32000,
    }


def _set(run: Run, name: str) -> tuple[object, str, list[int]]:
    value = run.config[name]
    return value.value, value.provenance, [line.line for line in value.evidence]


def test_the_command_before_a_server_is_the_users_word_with_its_lines() -> None:
    command = ["$ vllm serve org/m \\", "    --max-num-seqs 32 \\", "    --gpu-memory-utilization 0.8"]
    [told] = diagnoses(text(command, SERVER))
    assert _set(told.run, "max_num_seqs") == (32, "explicit", [2, 1, 3])
    assert told.run.model is not None
    assert told.run.model.value == "org/m"
    assert told.plan.command_before is not None
    assert "--max-num-seqs 32" in told.plan.command_before


def test_what_the_server_prints_itself_counts_before_its_command() -> None:
    lines = start(extra=", 'max_num_seqs': 64")
    run = only_run(text(["$ vllm serve org/m --max-num-seqs 32 --enforce-eager"], lines, [statistics()]))
    assert _set(run, "max_num_seqs")[:2] == (64, "explicit")
    assert run.setting("enforce_eager") is False
    assert not run.launched_by


def test_the_command_of_another_model_is_not_this_servers() -> None:
    lines = [line for line in start() if "non-default" not in line]
    run = only_run(text(["$ vllm serve other/thing --max-num-seqs 32"], lines, [statistics()]))
    assert not run.launched_by


def test_the_last_command_before_a_server_counts() -> None:
    commands = [
        "$ vllm serve org/m --max-num-seqs 8",
        "zsh: command not found: vllm",
        "$ vllm serve org/m --max-num-seqs 16",
    ]
    assert only_run(text(commands, SERVER)).setting("max_num_seqs") == 16


def test_a_command_behind_a_server_whose_own_lines_are_not_in_the_log_is_no_run() -> None:
    assert (
        only_run(text(SERVER, stop(), ["$ vllm serve org/m --max-num-seqs 16"])).outcome == "clean_shutdown"
    )


def test_a_command_behind_a_server_is_the_next_ones() -> None:
    second = [line.replace("10:0", "11:0") for line in SERVER]
    first_run, second_run = runs(
        text(
            ["$ vllm serve org/m --max-num-seqs 8"],
            SERVER,
            stop(),
            ["$ vllm serve org/m --max-num-seqs 16"],
            second,
        )
    )
    assert (first_run.setting("max_num_seqs"), second_run.setting("max_num_seqs")) == (8, 16)


PROMPTS = ["me@node7:~$", "root@node7#", r"PS C:\my work>", r"C:\work>", "me@mac vllm %", "➜  ~", ">", "#"]


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize(
    ("ends", "outcome"),
    [
        (
            ["usage: vllm serve [model_tag]", "vllm serve: error: unrecognized arguments: --x"],
            "crashed_at_startup",
        ),
        (["Segmentation fault (core dumped)"], "crashed_at_startup"),
        (["Killed"], "killed"),
    ],
)
def test_what_is_typed_at_a_prompt_behind_a_server_is_the_next_run(
    prompt: str, ends: list[str], outcome: str
) -> None:
    imported = ["INFO 03-04 09:59:50 [__init__.py:216] Automatically detected platform cuda."]
    first, second = runs(
        text(
            [f"{prompt} vllm serve org/a --max-num-seqs 8"],
            imported,
            ends,
            [f"{prompt} vllm serve org/b --max-num-seqs 16"],
            SERVER,
        )
    )
    assert (first.outcome, first.setting("max_num_seqs")) == (outcome, 8)
    assert (second.outcome, second.setting("max_num_seqs")) == ("running", 16)


def test_a_command_typed_without_a_model_begins_a_run_of_its_own() -> None:
    second = [line.replace("10:0", "11:0") for line in SERVER]
    again = ["me@node7:~$ python -m vllm.entrypoints.openai.api_server"]
    first_run, second_run = runs(text(["$ vllm serve org/m --max-num-seqs 8"], SERVER, again, second))
    assert first_run.setting("max_num_seqs") == 8
    assert not second_run.launched_by


def test_a_prompt_ends_a_command_that_was_not_finished() -> None:
    given_up = ["me@node7:~$ vllm serve org/other \\"]
    run = only_run(text(given_up, ["root@node7# vllm serve org/m --max-num-seqs 32"], SERVER))
    assert _set(run, "max_num_seqs") == (32, "explicit", [2])


def test_a_quotation_is_no_prompt_where_no_command_began_the_log_with_it() -> None:
    imported = ["INFO 03-04 09:59:50 [__init__.py:216] Automatically detected platform cuda."]
    run = only_run(text(imported, ["> vllm serve org/m --max-num-seqs 16"], SERVER))
    assert run.setting("max_num_seqs") != 16


def test_a_command_that_is_refused_at_once_is_known_all_the_same() -> None:
    run = only_run(
        text(
            ["$ vllm serve org/m --max-seqs 8", "usage: vllm serve [model_tag] [options]"],
            ["vllm: error: unrecognized arguments: --max-seqs 8"],
        )
    )
    assert run.model is not None
    assert run.model.value == "org/m"


@pytest.mark.parametrize(
    "line",
    [
        '{"ts": "2026-03-04 09:59:58,100", "level": "INFO", "message": "Exec command", "cmd": "vllm serve org/m --gpu-memory-utilization 0.9"}',
        "+ vllm serve org/m --gpu-memory-utilization 0.9",
    ],
)
def test_a_default_that_the_command_gives_is_no_default(line: str) -> None:
    """The server prints the arguments that differ from their defaults only."""

    lines = ['{"message": "Waiting for server", "level": "INFO"}', line]
    run = only_run(text(lines, start(), [statistics()]))
    assert _set(run, "gpu_memory_utilization") == (0.9, "explicit", [2])
    assert run.setting("max_num_seqs") != 32


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (
            "+ vllm bench serve --model org/m --request-rate inf",
            "vllm bench serve --model org/m --request-rate inf",
        ),
        (
            "Running benchmark: python3 benchmarks/benchmark_serving.py --model org/m",
            "python3 benchmarks/benchmark_serving.py --model org/m",
        ),
        (
            '{"level": "INFO", "message": "Running throughput benchmark", "cmd": "vllm bench serve --model org/m"}',
            "vllm bench serve --model org/m",
        ),
    ],
)
def test_the_command_of_a_benchmark_client_is_kept_with_its_line(line: str, command: str) -> None:
    run = only_run(text(start(), [line, statistics()]))
    [found] = run.load_commands
    assert (found.text, found.line) == (command, len(start()) + 1)


def test_a_sentence_about_a_benchmark_is_no_command() -> None:
    run = only_run(text(start(), ["See vllm bench serve --help for how to measure it.", statistics()]))
    assert not run.load_commands


def test_a_line_too_long_for_a_command_is_none() -> None:
    long = "+ vllm bench serve --model org/m --header " + "x" * 16_000
    assert not only_run(text(start(), [long, statistics()])).load_commands


def test_a_prompt_begins_a_run_with_what_precedes_the_lines_of_its_engine() -> None:
    failed = [
        "$ python -m vllm.entrypoints.api_server --model org/a",
        "Traceback (most recent call last):",
        "ImportError: no module x",
    ]
    download = "Downloading config.json: 100%|##########|"
    first, second = runs(text(failed, ["$ vllm serve org/b", download], SERVER))
    assert (first.last_line, second.first_line) == (3, 4)


def test_a_second_failure_behind_a_prompt_is_of_the_second_command() -> None:
    failed = ["Traceback (most recent call last):", "ImportError: no module x"]
    found = runs(text(["$ vllm serve org/a"], failed, ["$ vllm serve org/b"], failed))
    assert [run.model.value for run in found if run.model] == ["org/a", "org/b"]


def test_a_command_at_a_prompt_behind_which_nothing_follows_is_no_run() -> None:
    assert len(runs(text(["$ vllm serve org/a"], SERVER, ["$ vllm serve org/b --max-num-seqs 16"]))) == 1


def test_an_argument_is_proven_by_its_own_line_of_the_command_however_it_is_written() -> None:
    command = ["vllm serve org/m \\", "  --max-num-seq 30 \\", "  -tp 2 \\", "  --no-enable-prefix-caching"]
    [told] = diagnoses(text(command, SERVER))
    shown = {
        name: told.run.config[name].evidence[0].line
        for name in ("max_num_seqs", "tensor_parallel_size", "enable_prefix_caching")
    }
    assert shown == {"max_num_seqs": 2, "tensor_parallel_size": 3, "enable_prefix_caching": 4}
