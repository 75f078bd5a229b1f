"""Workers whose requests come from a front end of another program, side by side in one file, with a part of their lines."""

from __future__ import annotations

from vllm_logdoctor import Report, analyze

CONFIG = "model='org/m', dtype=torch.bfloat16, max_seq_len=4096, tensor_parallel_size=1, enforce_eager=True, enable_prefix_caching=False"
PODS = [
    "NAME               READY   STATUS    RESTARTS   AGE",
    "shop-frontend-7f   1/1     Running   0          16h",
    "NAME               TYPE       CLUSTER-IP    PORT(S)",
    "shop-openai        NodePort   10.1.55.103   8000:30080/TCP",
]


def worker(minute: int, *behind: str) -> list[str]:
    """Return the lines of a worker that an export kept, its start among them."""
    return [
        f"2026-07-24T02:{minute}:01.974262Z  INFO args.get_host_ip: side channel host 192.168.160.111",
        f"(EngineCore pid=102) INFO 07-24 02:{minute}:38 [core.py:109] Initializing a V1 LLM engine (v0.20.1) with config: {CONFIG}",
        f"(EngineCore pid=102) INFO 07-24 02:{minute}:50 [factory.py:64] Creating v1 connector with name: NixlConnector and engine_id: a2f9",
        f"2026-07-24T02:{minute}:58.627982Z  INFO runtime::manager: Creating TCP request plane server",
        *behind,
    ]


def answer(status: int) -> str:
    return (
        f"2026-07-24T02:22:29.009353Z  INFO front::service: http response sent status={status} latency_ms=2507"
        " method=POST uri=/v1/chat/completions version=HTTP/1.1"
    )


def outcomes(lines: list[str]) -> list[str]:
    return [view.outcome for view in analyze(lines).runs]


def test_an_engine_whose_front_end_answered_a_request_was_not_cut_off_during_its_start() -> None:
    assert outcomes([*worker(16), answer(400)]) == ["truncated"]
    assert outcomes([*worker(16), answer(200)]) == ["running"]
    combined = '10.0.0.9 - - [24/Jul/2026:02:22:29 +0000] "POST /v1/completions HTTP/1.1" 200 512'
    assert outcomes([*worker(16), combined]) == ["running"]


def test_a_front_end_may_answer_other_paths_before_there_is_an_engine() -> None:
    assert outcomes([*worker(16), answer(200).replace("/v1/chat/completions", "/v1/models")]) == ["truncated"]


def test_a_worker_that_began_before_another_one_ended_does_not_replace_it() -> None:
    together = analyze([*worker(16), *worker(15), answer(200)]).to_markdown()
    assert len(analyze([*worker(16), *worker(15), answer(200)]).runs) == 2
    assert "next start follows" not in together
    assert "next start follows" in analyze([*worker(16), *worker(40), answer(200)]).to_markdown()


def test_speculation_and_transfer_statistics_are_printed_by_engines_that_are_up() -> None:
    speculation = (
        "INFO 07-24 02:30:10 [metrics.py:120] SpecDecoding metrics: Mean acceptance length: 1.93, Accepted throughput: 0.35 tokens/s,"
        " Drafted throughput: 0.38 tokens/s, Accepted: 13 tokens, Drafted: 14 tokens, Per-position acceptance rate: 0.929,"
        " Avg Draft acceptance rate: 92.9%"
    )
    report = analyze([*worker(16), speculation])
    assert report.runs[0].outcome == "running"
    assert "no load" not in report.to_markdown()


def hours(lines: list[str]) -> float:
    (view,) = analyze(lines).runs
    return round((view.duration or 0.0) / 3600, 1)


LATER = [
    f"2026-07-24T03:{minute}:20.121740Z  INFO runtime::push_handler: request received" for minute in (41, 46)
]


def test_lines_of_another_logger_in_the_same_zone_belong_to_the_length_of_a_run() -> None:
    assert hours([*worker(16), *LATER]) == 1.5


def test_lines_behind_the_error_of_a_start_do_not() -> None:
    failed = [
        "(EngineCore pid=102) ERROR 07-24 02:16:59 [core.py:842] Traceback (most recent call last):",
        "(EngineCore pid=102) ERROR 07-24 02:16:59 [core.py:842] ValueError: No available memory for the cache blocks.",
    ]
    assert hours([*worker(16), *failed, *LATER]) == 0.0


def test_an_older_line_further_down_is_of_the_length_too() -> None:
    lines = worker(16)
    older = "(EngineCore pid=102) INFO 07-24 01:46:38 [factory.py:64] Creating v1 connector with name: NixlConnector and engine_id: a2f9"
    assert hours([*lines, older]) == 0.5


def test_cells_of_a_table_above_the_log_are_no_hosts() -> None:
    assert "hosts or containers" not in analyze([*PODS, *worker(16)]).to_markdown()


def test_what_the_log_does_not_show_of_the_arguments_holds_no_change_back() -> None:
    def plan(report: Report) -> list[str]:
        return [one.change.knob for one in report.runs[0].diagnosis.plan.changes]

    report = analyze([*worker(16), answer(200)])
    assert plan(report) == ["--enforce-eager"]
    assert "Prefix caching disabled" not in report.to_markdown()
