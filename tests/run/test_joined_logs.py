"""Logs of several containers that a dump joins, one below the other: each server is a run with its own release and settings."""

from __future__ import annotations

from itertools import zip_longest

import pytest

from vllm_logdoctor import RunView, analyze

FAILED = [
    "ERROR 12-07 {clock}:59 [core.py:700] EngineCore failed to start.",
    "ERROR 12-07 {clock}:59 [core.py:700] Traceback (most recent call last):",
    'ERROR 12-07 {clock}:59 [core.py:700]   File "/opt/vllm/v1/core/kv_cache_utils.py", line 682, in check_enough_kv_cache_memory',
    "ERROR 12-07 {clock}:59 [core.py:700] ValueError: No available memory for the cache blocks.",
]


def container(
    clock: str, release: str, core: str, length: int, pid: int = 198, site: int = 216, fails: bool = False
) -> list[str]:
    """Return the log of a server inside another program, which prints neither version nor arguments."""
    front, engine = f"INFO 12-07 {clock}", f"({core} pid={pid}) "
    start = [
        f"{front}:16 [__init__.py:{site}] Automatically detected platform cuda.",
        f"{front}:24 [__init__.py:711] Resolved architecture: Arch{length}ForCausalLM",
        f"{front}:24 [__init__.py:1750] Using max model len {length}",
        f"{engine}INFO 12-07 {clock}:24 [core.py:74] Initializing a V1 LLM engine (v{release}) with config: model='/work',"
        f" dtype=torch.bfloat16, max_seq_len={length}, tensor_parallel_size=1, enable_prefix_caching=False",
        f"{engine}INFO 12-07 {clock}:50 [gpu_model_runner.py:2007] Model loading took {length / 1000} GiB and 24.7 seconds",
    ]
    if fails:
        return start + [engine + line.format(clock=clock) for line in FAILED]
    return [
        *start,
        f"{engine}INFO 12-07 {clock}:55 [kv_cache_utils.py:1028] GPU KV cache size: {length}000 tokens",
        "INFO:     Application startup complete.",
    ]


def facts(view: RunView) -> tuple[object, ...]:
    return view.version, view.outcome, view.config["max_model_len"], view.run.measure("model_weights_gib")


def test_a_server_of_another_release_below_is_a_run_of_its_own() -> None:
    first = container("23:24", "0.10.2", "EngineCore_DP0", 4096)
    second = container("23:30", "0.10.1.1", "EngineCore_DP0", 8192, pid=77, site=241, fails=True)
    assert [facts(view) for view in analyze([*first, *second]).runs] == [
        ("0.10.2", "unknown", 4096, 4.096),
        ("0.10.1.1", "crashed_at_startup", 8192, 8.192),
    ]
    assert [view.run.first_line for view in analyze([*first, *second]).runs] == [1, len(first) + 1]


def test_a_server_whose_core_has_a_name_of_another_kind_is_a_run_of_its_own() -> None:
    first = container("23:24", "0.10.2", "EngineCore_DP0", 4096)
    second = container("23:30", "0.10.2", "EngineCore_0", 8192, pid=77)
    assert [view.config["max_model_len"] for view in analyze([*first, *second]).runs] == [4096, 8192]


def test_a_start_that_is_older_than_the_engine_above_takes_all_its_lines_with_it() -> None:
    first = container("23:24", "0.10.2", "EngineCore_DP0", 4096)
    second = container("23:20", "0.10.1.1", "EngineCore_0", 8192, site=241, fails=True)
    one, other = analyze([*first, *second]).runs
    assert facts(one) == ("0.10.2", "running", 4096, 4.096)
    assert (other.run.first_line, facts(other)) == (
        len(first) + 1,
        ("0.10.1.1", "crashed_at_startup", 8192, 8.192),
    )
    assert "Arch8192ForCausalLM" not in str(one.run.messages["resolved-architecture"].first)


def test_the_end_of_a_failed_server_above_an_older_start_is_not_of_that_start() -> None:
    end = [
        "INFO 12-07 23:40:01 [gpu_model_runner.py:1953] Starting to load model /work...",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    ]
    piece, whole = analyze([*end, *container("23:24", "0.10.2", "EngineCore_DP0", 4096)]).runs
    assert (piece.outcome, piece.config.get("max_model_len")) == ("crashed_at_startup", None)
    assert facts(whole) == ("0.10.2", "running", 4096, 4.096)


@pytest.mark.parametrize("pid", [198, 77])
def test_servers_of_two_containers_that_write_by_turns_keep_their_own_lines(pid: int) -> None:
    first = [f"a-1  | {line}" for line in container("23:24", "0.10.2", "EngineCore_DP0", 4096)]
    second = container("23:24", "0.10.2", "EngineCore_DP0", 8192, pid=pid, fails=True)
    mixed = [line for both in zip_longest(first, second) for line in (both[0], f"b-1  | {both[1]}") if line]
    assert [facts(view) for view in analyze(mixed).runs] == [
        ("0.10.2", "running", 4096, 4.096),
        ("0.10.2", "crashed_at_startup", 8192, 8.192),
    ]


def test_engines_that_ray_starts_on_two_nodes_are_of_one_server() -> None:
    engine = container("23:24", "0.10.2", "DPEngineCoreActor", 4096)[3]
    other = engine.replace("pid=198", "pid=77, ip=10.0.7.2")
    assert len(analyze([engine, other]).runs) == 1


def test_engines_of_one_server_with_numbered_names_stay_together() -> None:
    lines = container("23:24", "0.10.2", "EngineCore_DP0", 4096)
    second = [lines[3].replace("EngineCore_DP0 pid=198", "EngineCore_DP1 pid=199")]
    assert len(analyze([*lines[:4], *second, *lines[4:]]).runs) == 1


def test_an_actor_of_ray_that_has_no_name_yet_begins_no_run() -> None:
    """Ray prints what its workers wrote late, and not in order of time."""
    lines = container("23:24", "0.10.2", "DPEngineCoreActor", 4096)
    late = "(pid=3893317) INFO 12-07 23:24:20 [__init__.py:216] Automatically detected platform cuda."
    assert len(analyze([*lines[:4], late, *lines[4:]]).runs) == 1


def test_what_another_logger_calls_a_warning_is_not_shown_as_what_broke() -> None:
    lines = container("23:24", "0.10.2", "EngineCore_DP0", 4096, fails=True)
    warning = "WARN 2026-12-07 23:24:17.152 system.rs:194] No attribute of device 0: error: the operation is not available"
    text = analyze([*lines[:1], warning, *lines[1:]]).to_markdown()
    assert "No available memory" in text
    assert "system.rs" not in text
