"""Which run a line belongs to."""

from __future__ import annotations

from tests.run.lives_of_a_server import answers, start, statistics, stop
from vllm_logdoctor import RunView, analyze


def runs(*parts: list[str]) -> tuple[RunView, ...]:
    return analyze([line for part in parts for line in part]).runs


def test_one_life_is_one_run() -> None:
    (run,) = runs(start(), [statistics()], stop())
    assert (run.kind, run.outcome, run.version) == ("server", "clean_shutdown", "0.11.2")


def test_a_restart_in_the_same_file_is_a_second_run() -> None:
    found = runs(start(), [statistics()], stop(), start(pid=50, clock="03-04 11:00", model="org/other"))
    assert [run.model for run in found] == ["org/m", "org/other"]
    assert [run.outcome for run in found] == ["clean_shutdown", "running"]


def test_requests_belong_to_the_run_that_answered_them() -> None:
    first, second = runs(
        start(),
        [statistics()],
        answers(5),
        stop(),
        start(pid=50, clock="03-04 11:00"),
        answers(7, pid=50),
        stop(50),
    )
    assert [row[3] for row in first.requests] == [5]
    assert [row[3] for row in second.requests] == [7]


def test_a_start_that_fails_and_one_that_serves_are_two_runs() -> None:
    failing = [
        *start()[:3],
        "(EngineCore_DP0 pid=2) ERROR 03-04 10:00:20 [core.py:842] EngineCore failed to start.",
        "(EngineCore_DP0 pid=2) ERROR 03-04 10:00:20 [core.py:842] Traceback (most recent call last):",
        "(EngineCore_DP0 pid=2) ERROR 03-04 10:00:20 [core.py:842] ValueError: No available memory for the cache blocks.",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    ]
    found = runs(failing, start(pid=50, clock="03-04 10:05"), [statistics(50, "03-04 10:06:00")])
    assert [run.outcome for run in found] == ["crashed_at_startup", "running"]


def test_a_command_line_that_is_refused_behind_a_finished_run_is_the_next_start() -> None:
    refused = [
        "usage: vllm [-h] [-v] {chat,complete,serve,bench} ...",
        "vllm: error: unrecognized arguments: --no-such-flag",
    ]
    found = runs(start(), [statistics()], stop(), refused)
    assert [run.outcome for run in found] == ["clean_shutdown", "crashed_at_startup"]


def test_a_command_line_that_is_refused_beside_a_server_that_goes_on_is_no_start_of_it() -> None:
    refused = ["client: error: unrecognized arguments: --no-such-flag"]
    assert len(runs(start(), [statistics()], refused, [statistics(clock="03-04 10:02:00")])) == 1


def test_spawned_processes_that_import_the_program_again_start_no_run() -> None:
    lines = start()
    imported = "INFO 03-04 10:00:05 [__init__.py:216] Automatically detected platform cuda."
    assert len(runs([imported], lines[:2], [imported], lines[2:], [statistics()])) == 1


def test_engines_of_a_data_parallel_server_are_one_run() -> None:
    lines = start(extra=", 'data_parallel_size': 2")
    second = lines[2].replace("EngineCore_DP0 pid=2", "EngineCore_DP1 pid=3")
    (run,) = runs(lines[:3], [second], lines[3:], [statistics(engine=0), statistics(engine=1)])
    assert run.config["data_parallel_size"] == 2
    assert {sample.engine for sample in run.stats} == {0, 1}


def test_two_servers_that_write_to_one_file_are_two_runs() -> None:
    one, two = start(pid=1, model="org/a"), start(pid=90, model="org/b")
    mixed = [line for pair in zip(one, two, strict=True) for line in pair]
    found = runs(mixed, [statistics(1, running=1), statistics(90, running=9)])
    assert {run.model for run in found} == {"org/a", "org/b"}
    assert {run.model: run.stats[0].running for run in found} == {"org/a": 1, "org/b": 9}


def test_a_client_beside_a_server_that_is_up_begins_no_run() -> None:
    error = [
        "(EngineCore_DP0 pid=2) ERROR 03-04 10:00:40 [core.py:842] Traceback (most recent call last):",
        "(EngineCore_DP0 pid=2) ERROR 03-04 10:00:40 [core.py:842] ValueError: one step failed",
    ]
    imported = ["INFO 03-04 10:01:05 [__init__.py:216] Automatically detected platform cuda."]
    (run,) = runs(start(), [statistics()], error, imported, answers(3), [statistics(clock="03-04 10:02:00")])
    assert sum(row[3] for row in run.requests) == 3
    failed = [
        *start()[:3],
        "(EngineCore_DP0 pid=2) ERROR 03-04 10:00:20 [core.py:842] EngineCore failed to start.",
        *error,
    ]
    assert len(runs(failed, imported, start(pid=50, clock="03-04 10:05"))) == 2


def test_a_container_that_starts_again_below_the_end_of_a_traceback_begins_a_run() -> None:
    end = [
        "(EngineCore_DP0 pid=2) ERROR 03-04 09:58:40 [core.py:842]     self.model_runner.load_model()",
        "(APIServer pid=1)     wait_for_engine_startup(",
        "(APIServer pid=1)     raise RuntimeError(",
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    ]
    found = runs(end, start())
    assert [run.outcome for run in found] == ["crashed_at_startup", "running"]


def test_engines_that_a_ray_job_starts_side_by_side_are_one_run() -> None:
    lines = start()[2:4]
    second = [line.replace("pid=2", "pid=70") for line in lines]
    mixed = [
        f"(Server pid={90 + n}) {line}"
        for pair in zip(lines, second, strict=True)
        for n, line in enumerate(pair)
    ]
    assert len(runs(mixed)) == 1
    other = [line.replace("org/m", "org/other") for line in mixed]
    assert len(runs(mixed[:1], other[1:2])) == 2


def woven(*parts: list[str]) -> list[str]:
    return [line for together in zip(*parts, strict=True) for line in together]


def requests_of(found: tuple[RunView, ...]) -> dict[object, int]:
    return {run.model: sum(row[3] for row in run.requests) for run in found}


def test_requests_of_two_servers_in_one_file_are_distinguished_by_their_process() -> None:
    starts = woven(start(pid=1, model="org/a"), start(pid=90, model="org/b"))
    found = runs(
        starts,
        woven(answers(6, pid=1), answers(6, pid=90)),
        [statistics(90)],
        answers(3, pid=1),
        [statistics(1)],
    )
    assert requests_of(found) == {"org/a": 9, "org/b": 6}


def test_requests_of_two_servers_in_one_file_are_distinguished_by_their_container() -> None:
    one = [f"web-1  | {line}" for line in (*start(model="org/a"), *answers(4))]
    two = [f"web-2  | {line}" for line in (*start(model="org/b"), *answers(4))]
    bare = 'web-1  | INFO:     10.0.0.9:5000 - "GET /health HTTP/1.1" 200 OK'
    assert requests_of(runs(woven(one, two), [bare, bare])) == {"org/a": 6, "org/b": 4}


def test_requests_that_name_none_of_two_servers_are_counted_for_neither() -> None:
    starts = woven(start(pid=1, model="org/a"), start(pid=90, model="org/b"))
    torn = ['INFO:     10.0.0.9:5000 - "GET /health HTTP/1.1" 200 OK'] * 2
    report = analyze([*starts, *answers(1, pid=90), *torn])
    assert requests_of(report.runs) == {"org/a": 0, "org/b": 1}
    assert "2 access lines name none of the servers" in report.to_markdown()


def test_requests_that_name_none_of_two_servers_are_of_the_one_that_did_not_break() -> None:
    starts = woven(start(pid=1, model="org/a"), start(pid=90, model="org/b"))
    broken = [
        "(EngineCore_DP0 pid=91) ERROR 03-04 10:01:10 [core.py:842] Traceback (most recent call last):",
        "(EngineCore_DP0 pid=91) ERROR 03-04 10:01:10 [core.py:842] ValueError: one step failed",
    ]
    assert requests_of(runs(starts, broken, bare(answers(5)))) == {"org/a": 5, "org/b": 0}


def bare(lines: list[str]) -> list[str]:
    """Take the names of processes away, as releases before 0.10 wrote no others."""
    return [line.split(") ", 1)[1] for line in lines]


def test_a_server_on_another_port_that_shows_no_end_may_have_answered() -> None:
    one, two = (
        start(model=f"org/{name}", extra=f", 'port': {port}") for name, port in (("a", 8000), ("b", 8001))
    )
    report = analyze([*bare(one), bare([statistics()])[0], *bare(two), *bare(answers(5))])
    assert requests_of(report.runs) == {"org/a": 0, "org/b": 5}
    other = report.runs[1].diagnosis.run.other_server
    assert other is not None
    assert other.line == 1


def test_a_server_that_takes_the_same_port_has_replaced_the_one_before() -> None:
    one = start(model="org/a", extra=", 'port': 8000")
    report = analyze([*bare(one), bare([statistics()])[0], *bare(one), *bare(answers(5))])
    assert "another server's" not in report.to_markdown()


def test_a_log_that_starts_in_the_middle_is_a_run_that_is_known_in_part() -> None:
    (run,) = runs([statistics(), statistics(clock="03-04 10:02:00")])
    assert run.version is None
    assert run.outcome == "running"
    assert len(run.stats) == 2


def test_prose_before_a_log_is_no_life_of_a_server() -> None:
    quoted = "It is slow: `Avg prompt throughput: 5.0 tokens/s, Avg generation throughput: 2.0 tokens/s, Running: 1 reqs`"
    (run,) = runs([quoted], start())
    assert run.version == "0.11.2"


def test_a_plug_in_that_can_t_be_loaded_ends_nothing() -> None:
    failing = [
        "ERROR 03-04 09:59:50 [__init__.py:64] Failed to load plugin register_extra",
        "ERROR 03-04 09:59:50 [__init__.py:64] Traceback (most recent call last):",
        "ERROR 03-04 09:59:50 [__init__.py:64] ModuleNotFoundError: No module named 'extra'",
    ]
    (run,) = runs(failing, start())
    assert run.version == "0.11.2"


def test_a_log_that_starts_and_ends_among_requests_is_a_server_s() -> None:
    (run,) = runs(
        ["INFO 03-04 10:00:00 [async_llm.py:271] Added request chatcmpl-1."],
        [
            "ERROR 03-04 10:00:30 [dump_input.py:71] V1 LLM engine (v0.9.1) with config: model='org/m', dtype=torch.float16, "
        ],
    )
    assert run.kind == "server"


def test_ranks_with_one_name_that_start_at_once_are_one_run_whoever_tells_the_year() -> None:
    banner = "INFO 06-17 07:32:38 [core.py:70] Initializing a V1 LLM engine (v0.9.1) with config: model='org/m', speculative_config=None"
    found = runs(
        [
            "2025-06-17 07:32:29,783 INFO worker.py:1832 -- Started a local Ray instance.",
            "INFO 06-17 07:32:31 [utils.py:384] Creating placement groups for data parallel",
            f"(DPEngineCoreActor pid=316) {banner}",
            f"(DPEngineCoreActor pid=317) {banner}",
        ]
    )
    assert len(found) == 1


def test_a_main_module_that_runs_again_draws_new_ids_and_is_no_other_server() -> None:
    def front(pid: int, clock: str, drawn: str) -> list[str]:
        where = f"(APIServer pid={pid}) INFO 08-05 {clock}"
        return [
            f"{where} [api_server.py:1043] vLLM API server version 0.20.0",
            f"{where} [utils.py:404] non-default args: {{'model': 'org/m', 'port': 8425, 'kv_transfer_config': KVTransferConfig(engine_id='{drawn}')}}",
        ]

    found = runs(
        front(11, "07:41:18", "b244e466-9edd-462b-8493-8b2e6c1f5eb9"),
        front(12, "07:42:12", "ce6f409d-6e28-4649-8b13-172bbff0affa"),
        [
            "(EngineCore pid=13) INFO 08-05 07:43:05 [core.py:114] Initializing a V1 LLM engine (v0.20.0) with config: model='org/m'"
        ],
    )
    assert len(found) == 1


def test_access_lines_of_an_idle_hour_are_of_no_known_minute() -> None:
    (run,) = runs(start(), [statistics(clock="03-04 10:06:00")], answers(700), [statistics(clock="03-04 11:06:00")], answers(3), stop())  # fmt: skip
    by_minute = run.run.accesses_by_minute
    assert sum(by_minute[-1].values()) == 700
    assert sum(sum(counts.values()) for minute, counts in by_minute.items() if minute >= 0) == 3


def piece(front: int, engine: int) -> list[str]:
    """Return lines out of the life of a server, without its begin."""
    return [
        statistics(front),
        f"(EngineCore_DP0 pid={engine}) WARNING 03-04 10:00:00 [core.py:1] something odd",
    ]


def test_pieces_of_two_servers_are_two_runs() -> None:
    assert [run.to_dict()["lines"] for run in runs(piece(11, 12), piece(21, 22))] == [[1, 2], [3, 4]]


def test_pieces_of_two_servers_that_write_by_turns_are_two_runs() -> None:
    turns = [piece(11, 12), piece(21, 22)] * 2
    assert [run.to_dict()["serving"]["samples"] for run in runs(*turns)] == [2, 2]


def test_numbered_processes_are_of_one_run() -> None:
    engines = [
        f"(EngineCore_DP{rank} pid={rank + 20}) WARNING 03-04 10:00:00 [core.py:1] something odd"
        for rank in (0, 1)
    ]
    assert len(runs([statistics()], engines)) == 1


def test_a_start_that_was_typed_after_an_error_is_a_run_of_its_own() -> None:
    """Neither start printed a version: the first one failed before, the second one's line is not in the paste."""
    failed = [
        "(base) user@host:~$ vllm serve org/first --max-model-len 99999",
        "Traceback (most recent call last):",
        '  File "/opt/vllm/config.py", line 18, in check',
        '    raise ValueError("User-specified max_model_len (99999) is greater than the derived max_model_len")',
        "ValueError: User-specified max_model_len (99999) is greater than the derived max_model_len",
    ]
    again = [
        "(base) user@host:~$ vllm serve org/second",
        "INFO 05-01 10:02:20 [core.py:77] Initializing a V1 LLM engine (v0.8.5) with config: model='org/second', dtype=torch.bfloat16",
        "INFO:     Application startup complete.",
    ]
    found = runs(failed, again)
    assert [run.model for run in found] == ["org/first", "org/second"]
    assert [run.outcome for run in found] == ["crashed_at_startup", "running"]


def test_each_failed_test_of_a_session_with_its_engine_is_a_run_and_has_its_own_error() -> None:
    def section(test: str, clock: str, model: str, error: str) -> list[str]:
        return [
            f"_________________ {test} _________________",
            f"    def {test}():",
            f">       assert vllm_model.{error}",
            f"E       AttributeError: 'Pooler' object has no attribute '{error}'",
            "",
            "tests/test_pooling.py:43: AttributeError",
            "----------------------------- Captured stdout call -----------------------------",
            f"INFO {clock}:10 [llm_engine.py:230] Initializing a V0 LLM engine (v0.8.5) with config: model='{model}', dtype=torch.float16",
            f"INFO {clock}:12 [model_runner.py:1170] Starting to load model {model}...",
            f"INFO {clock}:13 [model_runner.py:1202] Model loading took 0.2091 GiB and 0.738950 seconds",
        ]

    summary = [
        "=========================== short test summary info ============================",
        "FAILED tests/test_pooling.py::test_bert - AttributeError: 'Pooler' object has no attribute 'norm'",
        "FAILED tests/test_pooling.py::test_roberta - AttributeError: 'Pooler' object has no attribute 'kind'",
        "=================== 2 failed, 1 passed in 64.00s (0:01:04) ====================",
    ]
    sections = [
        section("test_bert", "05-27 12:32", "org/bert", "norm"),
        section("test_roberta", "05-27 12:33", "org/roberta", "kind"),
    ]
    found = runs(["=== FAILURES ==="], *sections, summary)
    assert [run.model for run in found] == ["org/bert", "org/roberta"]
    live = [line for section in sections for line in section if line.startswith("INFO")][:3]
    quoted = [line for section in sections for line in section if not line.startswith(("INFO", "---"))]
    assert len(runs(live, ["=== FAILURES ==="], quoted, summary)) == 1
    text = analyze([line for part in (*sections, summary) for line in part]).to_markdown()
    assert "2 tests" not in text
    assert "until the failure" not in text
    first, second = text.split("\n## Run ")[1:]
    assert "'norm'" in first
    assert "'kind'" in second
    assert "'norm'" not in second


def test_a_statistics_line_quoted_above_a_start_is_no_run_before_it() -> None:
    quoted = (
        "Avg prompt throughput: 102.2 tokens/s, Avg generation throughput: 2.2 tokens/s, Running: 1 reqs, Swapped: 0 reqs, "
        "Pending: 0 reqs, GPU KV cache usage: 0.3%, CPU KV cache usage: 0.0%"
    )
    assert (
        len(
            analyze(
                [quoted, "INFO:     Started server process [19]", "INFO:     Application startup complete."]
            ).runs
        )
        == 1
    )


def test_the_top_of_a_banner_is_of_the_server_whose_version_follows() -> None:
    """It is an empty line and a picture; the server before ended an hour earlier."""
    top = [
        f"(APIServer pid=50) INFO 03-04 11:00:00 [utils.py:299] {text}".rstrip(" ") + " " * (not text)
        for text in ("", "       █     █     █▄   ▄█")
    ]
    first, second = runs(start(), [statistics()], stop(), top, start(pid=50, clock="03-04 11:00"))
    assert first.run.ended == first.run.started + 60
    assert second.run.first_line == len([*start(), statistics(), *stop()]) + 1


def test_lines_without_a_word_are_kept_at_the_end_of_a_log() -> None:
    rule = "(APIServer pid=1) INFO 03-04 10:05:00 [utils.py:299] ----------"
    (run,) = runs(start(), [statistics(), *[rule] * 40])
    assert run.run.ended == run.run.started + 300


IMPORTED = "INFO {} [importing.py:44] Triton is installed but 0 active driver(s) found"
FOUND = "INFO {} [__init__.py:244] No platform plugin was found that could be activated"


def ends_and_begins(*parts: list[str]) -> tuple[float, int]:
    """Return how long the first run was, and the line with which the second one begins."""
    first, second = runs(*parts)
    return first.run.ended - first.run.started, second.run.first_line


def test_what_a_start_prints_before_its_version_is_of_that_start() -> None:
    """The server before was killed without a word."""
    lead = [line.format("03-04 10:59:58") for line in (IMPORTED, FOUND)]
    once = [line.format("03-04 10:00:00") for line in (IMPORTED, FOUND)]
    again = start(pid=50, clock="03-04 11:00")
    assert ends_and_begins(once, start(), [statistics()], lead, again) == (60, 9)
    late = [IMPORTED.format("03-04 10:10:00")]
    assert ends_and_begins(once, start(), [statistics()], late, again) == (600, 10), "no start takes so long"
    unheard = [FOUND.format("03-04 10:59:58")]
    assert ends_and_begins(once[:1], start(), [statistics()], unheard, again)[1] == 9, (
        "no line of the last start"
    )
    own = ["(APIServer pid=1) INFO 03-04 10:59:58 [utils.py:253] non-default args were seen"]
    assert ends_and_begins(once, start(), [statistics()], own, again)[1] == 10, "of the server that is up"


def test_the_first_lines_of_a_start_behind_one_that_failed_before_its_engine_are_its_own() -> None:
    def lines(clock: str) -> list[str]:
        return [
            f"WARNING 05-01 {clock} [argparse_utils.py:191] With `vllm serve`, you should provide the model as a positional argument.",
            f"(APIServer pid=1) INFO 05-01 {clock} [utils.py:299]        ▄▄",
            f"(APIServer pid=1) INFO 05-01 {clock} [utils.py:299]  █  version 0.19.1",
            f"(APIServer pid=1) INFO 05-01 {clock} [utils.py:233] non-default args: {{'model': 'org/m'}}",
        ]

    ended = [
        "(APIServer pid=1) Traceback (most recent call last):",
        "(APIServer pid=1) KeyboardInterrupt: terminated",
    ]
    first, second = runs([*lines("10:00:00"), *ended], lines("10:05:00"))
    assert (first.run.last_line, second.run.first_line) == (6, 7)


def test_requests_older_than_the_engine_of_a_failed_start_are_of_another_server() -> None:
    failed = [
        *start()[:3],
        "Traceback (most recent call last):",
        "torch.OutOfMemoryError: CUDA out of memory.",
    ]
    received = "(APIServer pid=1) INFO 03-04 09:57:59 [logger.py:36] Received request cmpl-1: prompt: 'a', params: None."
    older = [
        received,
        *answers(2),
        statistics(clock="03-04 09:58:00"),
        *answers(3),
        statistics(clock="03-04 09:58:10"),
    ]
    first, second = runs(failed, older)
    assert (first.run.sample_count, sum(first.run.accesses.values()), first.run.startup_complete) == (
        0,
        0,
        False,
    )
    assert (sum(second.run.accesses.values()), second.run.sample_count) == (5, 2)
    later = [*answers(2), statistics(clock="03-04 10:58:00"), *answers(3), statistics(clock="03-04 10:58:10")]
    assert len(runs(failed, later)) == 1
