"""What ran, on what, for how long and how it ended, in the words of the first line of a report."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

import vllm_logdoctor
from tests.report.test_verdict import line
from tests.rules.making import a_run, load, record
from tests.tables import for_each
from vllm_logdoctor.report.naming import (
    accelerator_unit,
    accelerators,
    failed_state,
    how_it_ended,
    is_client,
    model_name,
    parallelism,
    per_engine,
    run_title,
    shows_a_run,
    start_seen,
    version_words,
    was_interrupted,
)
from vllm_logdoctor.run.job import JobEnd
from vllm_logdoctor.run.model import Benchmark, Progress, Run, Value

BUSY = {"running": 8, "generation": 300.0}
RESULT = Benchmark("serve", {"Benchmark duration (s)": 60.0}, (line(3),), {"model": "org/asked"})


@for_each(
    ("name", "shown"),
    [
        ("org/Model-8B", "org/Model-8B"),
        ("/data/models/Model-8B/", "Model-8B"),
        ("./Model-8B", "Model-8B"),
        ("~/Model-8B", "Model-8B"),
        ("Model-8B", "Model-8B"),
        ("/", "/"),
        # What names a step, a size or a format names no model.
        ("/runs/sft/checkpoint-900", "…/sft/checkpoint-900"),
        ("/runs/a/b/sft/8b/1/main", "…/sft/8b/1/main"),
        ("/runs/a/sft/8b/1/main/fp8", "…/8b/1/main/fp8"),
        ("/home/model", "/home/model"),
        ("/hub/models--org--Model-8B/snapshots/0123", "org/Model-8B"),
        ("/hub/models--org--Model-8B", "org/Model-8B"),
    ],
)
def test_a_model_has_the_name_that_tells_it(name: str, shown: str) -> None:
    assert model_name(name) == shown


@for_each(
    ("settings", "platform", "words"),
    [
        ({}, "cuda", ""),
        ({"tensor_parallel_size": 1}, "cuda", "1 GPU"),
        ({"tensor_parallel_size": 4}, "rocm", "4 GPUs (TP=4)"),
        ({"tensor_parallel_size": 2, "pipeline_parallel_size": 3}, "xpu", "6 XPUs (TP=2, PP=3)"),
        ({"tensor_parallel_size": 2, "pipeline_parallel_size": 1, "data_parallel_size": 2}, "tpu", "4 TPUs (TP=2, DP=2)"),
        # Experts are spread over the ranks of each stage.
        ({"tensor_parallel_size": 2, "pipeline_parallel_size": 3, "data_parallel_size": 2, "enable_expert_parallel": True}, "cuda", "12 GPUs (TP=2, PP=3, DP=2, EP=4)"),
        ({"tensor_parallel_size": 1, "enable_expert_parallel": True}, "cuda", "1 GPU"),
        ({"tensor_parallel_size": 2, "enable_expert_parallel": False}, "npu", "2 NPUs (TP=2)"),
        ({"tensor_parallel_size": True}, "cuda", ""),
        ({"tensor_parallel_size": 2, "data_parallel_size": True}, "hpu", "2 HPUs (TP=2)"),
        ({"tensor_parallel_size": 2}, "cpu", "2 CPU ranks (TP=2)"),
        ({"tensor_parallel_size": 2}, None, "2 ranks (TP=2)"),
        ({"tensor_parallel_size": 2, "device": "cpu"}, "cuda", "2 CPU ranks (TP=2)"),
    ],
)  # fmt: skip
def test_the_accelerators_and_how_a_model_is_spread(
    settings: dict[str, Any], platform: str | None, words: str
) -> None:
    run = a_run(set=settings, platform=platform)
    assert parallelism(run) == words
    assert (accelerators(run) is None) is (words == "")
    assert accelerator_unit(run) in words or not words


@for_each(("in_engine", "unit"), [("cuda", "GPU"), ("cpu", "CPU rank"), (None, "CPU rank")])
def test_the_engine_and_not_the_argument_tells_the_device(in_engine: str | None, unit: str) -> None:
    run = a_run(set={"device": "cpu"}, platform="cuda", engine_config={"device_config": in_engine})
    assert accelerator_unit(run) == unit


@for_each(
    ("settings", "words"),
    [({}, ""), ({"data_parallel_size": 1}, ""), ({"data_parallel_size": 2}, " per engine")],
)
def test_engines_that_share_a_load_have_a_cache_each(settings: dict[str, Any], words: str) -> None:
    assert per_engine(a_run(set=settings)) == words


@for_each(
    ("more", "words"),
    [
        ({"version": "0.11.2"}, "vLLM 0.11.2"),
        ({"version": None}, "vLLM, release not in the log"),
        ({"version": ""}, "vLLM, release not in the log"),
        ({"router": True}, "router before servers of vLLM"),
        ({"server": "sglang"}, "SGLang, release not in the log"),
        ({"server": "other"}, "other, release not in the log"),
    ],
)
def test_the_engine_and_its_version(more: dict[str, Any], words: str) -> None:
    assert version_words(a_run(**more)) == words


def test_a_traceback_of_a_library_alone_is_not_called_vllm() -> None:
    def header(*lines: str) -> str:
        return vllm_logdoctor.analyze("\n".join(lines).encode()).to_markdown()

    opening = "Traceback (most recent call last):"
    library = '  File "/opt/lib/python3.12/site-packages/ray/_private/wire.py", line 9, in decode'
    caller = '  File "/opt/lib/python3.12/site-packages/vllm/executor/ray_utils.py", line 9, in get'
    error = ("    kind = int(head)", "ValueError: invalid literal for int() with base 10: b'x'")
    assert "no line of vLLM in the log" in header(opening, library, *error)
    assert "vLLM, release not in the log" in header(opening, caller, "    return decode(x)", library, *error)
    # The message is vLLM's, whoever raised it.
    refused = "openai.BadRequestError: Error code: 400 - {'object': 'error', 'message': 'max_tokens must be at least 1, got -2.'}"
    assert "no line of vLLM" not in header(opening, library, "    raise error", refused)


def ended(seconds: float | None = 90.0, **more: Any) -> Run:
    run = a_run(**{"outcome": "running", **more})
    run.started, run.ended = 1000.0, None if seconds is None else 1000.0 + seconds
    return run


def batch(**more: Any) -> Run:
    return ended(kind="offline", progress=[Progress(line(5), 8, 8, 4.0)], **more)


def client(**more: Any) -> Run:
    given = {"kind": "client", "benchmarks": [RESULT], "version": None, "outcome": "unknown", **more}
    run = ended(**given)
    run.startup_complete = False
    return run


@for_each(
    ("run", "title"),
    [
        (ended(), "vLLM 0.11.2 · log of 1 min 30 s · end not in the log"),
        (ended(model=Value("/data/Model-8B", "explicit")), "vLLM 0.11.2 · Model-8B · log of 1 min 30 s · end not in the log"),
        (ended(set={"tensor_parallel_size": 2}), "vLLM 0.11.2 · 2 GPUs (TP=2) · log of 1 min 30 s · end not in the log"),
        (ended(1.0), "vLLM 0.11.2 · log of 1 s · end not in the log"),
        (ended(0.9), "vLLM 0.11.2 · end not in the log"),
        (ended(None), "vLLM 0.11.2 · end not in the log"),
        (ended(kind="offline"), "vLLM 0.11.2 · offline · log of 1 min 30 s · end not in the log"),
        (batch(outcome="clean_shutdown"), "vLLM 0.11.2 · offline · log of 1 min 30 s · prompts completed"),
        (batch(outcome="clean_shutdown", benchmarks=[RESULT, RESULT]), "vLLM 0.11.2 · offline · prompts completed"),
        (ended(kind="build", version=None, outcome="crashed_at_startup"), "output of a build or an installation · log of 1 min 30 s · failed"),
        (ended(kind="build", outcome="clean_shutdown"), "vLLM 0.11.2 · build · log of 1 min 30 s · succeeded"),
        (ended(kind="container", version=None), "start of a container · log of 1 min 30 s · not started"),
        (client(), "output of a client · org/asked · benchmark client · benchmark of 1 min · 1 result in the log"),
        (client(benchmarks=[RESULT, RESULT]), "output of a client · org/asked · benchmark client · benchmark of 2 min · 2 results in the log"),
        (client(outcome="clean_shutdown"), "output of a client · org/asked · benchmark client · benchmark of 1 min · clean shutdown"),
        # How long a run waited for an interrupt is not in the log.
        (ended(tail=[record("KeyboardInterrupt", 9), record("x", 10)]), "vLLM 0.11.2 · end not in the log"),
        (ended(tail=[record("KeyboardInterrupt", 8), record("x", 9), record("y", 10)]), "vLLM 0.11.2 · log of 1 min 30 s · end not in the log"),
        (ended(tail=[replace(record("KeyboardInterrupt", 9), time=1090.0)]), "vLLM 0.11.2 · log of 1 min 30 s · end not in the log"),
    ],
)  # fmt: skip
def test_the_title_of_a_run(run: Run, title: str) -> None:
    assert run_title(run) == title


@for_each(
    ("run", "title"),
    [
        (ended(outcome="crashed_at_startup"), "vLLM 0.11.2 · log of 1 min 30 s"),
        (ended(outcome="killed"), "vLLM 0.11.2 · log of 1 min 30 s"),
        (ended(outcome="unknown"), "vLLM 0.11.2 · log of 1 min 30 s"),
        (ended(outcome="truncated"), "vLLM 0.11.2 · log of 1 min 30 s · log cut off"),
        (ended(outcome="crashed_at_startup", job=JobEnd(exit_status=3)), "vLLM 0.11.2 · log of 1 min 30 s · crashed at start-up (job's exit status 3)"),
        (ended(outcome="crashed_at_startup", kind="test", version=None), "output of pytest · log of 1 min 30 s · 1 test failed"),
        (client(outcome="crashed_while_serving"), "output of a client · org/asked · benchmark client"),
    ],
)  # fmt: skip
def test_the_title_of_a_run_that_failed_does_not_repeat_its_state(run: Run, title: str) -> None:
    assert run_title(run, failed=True) == title


@for_each(
    ("outcome", "job", "words"),
    [
        ("clean_shutdown", None, "clean shutdown"),
        ("clean_shutdown", JobEnd(), "clean shutdown"),
        ("clean_shutdown", JobEnd(exit_status=0), "clean shutdown"),
        ("clean_shutdown", JobEnd(exit_status=3), "clean shutdown (job's exit status 3)"),
        ("clean_shutdown", JobEnd(signal=15), "stopped (job ended by signal 15)"),
        ("killed", JobEnd(signal=9), "killed (job ended by signal 9)"),
        ("killed", JobEnd(limit="walltime"), "killed at the walltime"),
        ("killed", JobEnd(limit="walltime", walltime=7200.0), "killed at the walltime"),
        ("killed", JobEnd(limit="walltime", elapsed=7260.0, walltime=7200.0), "killed at the walltime after 2 h 1 min of 2 h"),
        ("killed", JobEnd(limit="walltime", elapsed=7260.0), "killed at the walltime after 2 h 1 min"),
        ("killed", JobEnd(limit="memory", exit_status=3), "killed at the memory limit of its job"),
        # A crash is its own end, unless its job says how it ended.
        ("crashed_while_serving", JobEnd(limit="walltime"), "crashed while serving"),
        ("crashed_while_serving", JobEnd(signal=6, exit_status=134), "crashed while serving (job ended by signal 6)"),
        ("crashed_while_serving", JobEnd(exit_status=1), "crashed while serving (job's exit status 1)"),
    ],
)  # fmt: skip
def test_how_a_run_ended_by_its_job(outcome: Any, job: JobEnd | None, words: str) -> None:
    assert how_it_ended(a_run(outcome=outcome, job=job)) == words


@for_each(
    ("more", "words"),
    [
        ({"outcome": "crashed_at_startup"}, "FAILED at start-up"),
        ({"outcome": "running"}, "REQUEST ERROR"),
        ({"outcome": "unknown"}, "ERROR"),
        ({"outcome": "unknown", "job": JobEnd(exit_status=1)}, "FAILED"),
        ({"outcome": "unknown", "job": JobEnd(exit_status=0)}, "ERROR"),
        ({"outcome": "crashed_while_serving", "kind": "unknown"}, "FAILED after start-up"),
        ({"outcome": "clean_shutdown", "kind": "offline"}, "PROGRAM FAILED after all prompts were answered"),
        ({"outcome": "crashed_at_startup", "kind": "offline"}, "FAILED at start-up"),
        ({"outcome": "unknown", "kind": "build"}, "BUILD"),
        ({"outcome": "crashed_at_startup", "kind": "build"}, "BUILD FAILED"),
        ({"outcome": "crashed_at_startup", "kind": "test"}, "TESTS FAILED"),
        ({"outcome": "crashed_at_startup", "kind": "client"}, "CLIENT FAILED"),
        ({"outcome": "crashed_at_startup", "kind": "container"}, "CONTAINER NOT STARTED"),
    ],
)
def test_the_state_of_a_run_that_failed(more: dict[str, Any], words: str) -> None:
    assert failed_state(a_run(**more)) == words


IMPORTED = [
    record("Traceback (most recent call last):", 5),
    record('  File "/opt/app/serve.py", line 1, in <module>', 6),
    record("    import vllm", 7),
    record("ImportError: no such module", 8),
]


def test_a_program_that_shows_nothing_but_an_import_failed_at_it() -> None:
    def state(**more: Any) -> str:
        return failed_state(
            a_run(
                **{
                    "kind": "unknown",
                    "outcome": "crashed_at_startup",
                    "version": None,
                    "records": IMPORTED,
                    **more,
                }
            )
        )

    assert state() == "FAILED at import"
    assert state(version="0.11.2") == "FAILED at start-up"
    assert state(kind="server") == "FAILED at start-up"
    assert state(records=[]) == "FAILED at start-up"
    assert state(outcome="unknown") == "ERROR"


@for_each(
    ("more", "a_client"),
    [
        ({}, True),
        ({"benchmarks": []}, False),
        ({"samples": load((1, BUSY))}, False),
        ({"accesses": {("POST", "/v1/completions", 200): 1}}, False),
        ({"model": Value("org/m", "explicit")}, False),
    ],
)
def test_a_benchmark_alone_is_a_client(more: dict[str, Any], a_client: bool) -> None:
    assert is_client(client(**more)) is a_client
    started = client(**more)
    started.startup_complete = True
    assert not is_client(started)


@for_each(
    ("more", "shown"),
    [
        ({}, False),
        ({"samples": load((1, BUSY))}, True),
        ({"progress": [Progress(line(5), 8, 8, 4.0)]}, True),
        ({"benchmarks": [RESULT]}, True),
        ({"accesses": {("POST", "/v1/completions", 200): 1}}, True),
        ({"outcome": "clean_shutdown"}, True),
        ({"outcome": "clean_shutdown", "version": None}, False),
    ],
)
def test_a_log_shows_a_run_by_its_start_its_load_or_its_end(more: dict[str, Any], shown: bool) -> None:
    run = a_run(**more)
    assert shows_a_run(run)
    run.startup_complete = False
    assert shows_a_run(run) is shown


def test_the_beginning_of_a_start_is_seen_by_version_settings_or_phases() -> None:
    assert start_seen(a_run())
    assert not start_seen(a_run(version=None))
    assert start_seen(a_run(version=None, set={"model": "m"}))
    assert start_seen(a_run(version=None, phases=(("load-weights", 1.0),)))
    assumed = a_run(version=None)
    assumed.version = Value("0.11.2", "inferred")
    assert not start_seen(assumed)


@for_each(
    ("more", "tail", "interrupted"),
    [
        ({}, ("^C", "KeyboardInterrupt"), True),
        (
            {},
            ("^C", "KeyboardInterrupt", "Processed prompts: 100%|####| 8/8 [00:04<00:00,  2.00it/s]"),
            False,
        ),
        ({}, ("something",), False),
        ({"kind": "server"}, ("^C", "KeyboardInterrupt"), False),
        ({"outcome": "killed"}, ("^C", "KeyboardInterrupt"), False),
    ],
)
def test_a_program_that_was_interrupted_before_its_prompts_were_done(
    more: dict[str, Any], tail: tuple[str, ...], interrupted: bool
) -> None:
    lines = [record(text, number) for number, text in enumerate(tail, 5)]
    run = a_run(**{"kind": "offline", "outcome": "clean_shutdown", "tail": lines, **more})
    assert was_interrupted(run) is interrupted
    assert (how_it_ended(run) == "interrupted") is interrupted
