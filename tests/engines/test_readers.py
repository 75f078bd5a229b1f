"""What is read of logs of SGLang and llama.cpp, and which of their rates say something about the speed."""

from __future__ import annotations

import pytest

from tests.engines.logs import llama_cpp, sglang, vllm
from vllm_logdoctor import analyze
from vllm_logdoctor.engines.llamacpp import LlamaCppReader
from vllm_logdoctor.engines.model import EngineLog, EngineReader
from vllm_logdoctor.engines.sglang import SGLangReader


def read(reader: EngineReader, text: str) -> EngineLog:
    for number, line in enumerate(text.split("\n"), start=1):
        reader.add(number, line)
    return reader.result()


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("model_path", "org/tiny-1b", 1),
        ("weights dtype", "torch.bfloat16", 2),
        ("kv tokens", 185897, 3),
        ("context", 4096, 3),
        ("ready s", 40.0, 4),
        ("prefix hits", 60, 6),
        ("most queued", 1, 8),
    ],
)
def test_sglang_facts_have_their_lines(name: str, value: object, line: int) -> None:
    fact = read(SGLangReader(), sglang()).facts[name]
    assert (fact.value, fact.line) == (value, line)


def test_sglang_line_behind_a_prefill_is_no_speed() -> None:
    log = read(SGLangReader(), sglang(speed=90.0))
    assert min(rate.tokens_per_second for rate in log.rates) == 90.0
    assert log.dropped["first line after a prefill"] == 1


def test_sglang_interval_with_idle_time_is_no_speed() -> None:
    idle = "[2026-03-11 10:05:00 TP0] Decode batch. #running-req: 2, #token: 9, gen throughput (token/s): 0.30, #queue-req: 0\n"
    log = read(SGLangReader(), sglang() + idle)
    assert log.dropped["interval with idle time"] == 1


def test_sglang_workers_of_one_rank_are_read_once() -> None:
    doubled = "".join(f"{line}\n{line.replace('TP0', 'TP1')}\n" for line in sglang().splitlines())
    assert len(read(SGLangReader(), doubled).rates) == len(read(SGLangReader(), sglang()).rates)


def test_sglang_scheduler_that_crashed_is_a_death() -> None:
    log = read(
        SGLangReader(),
        sglang() + "[2026-03-11 10:05:00] Subprocess scheduler_3 (pid=22) crashed with exit code -6.\n",
    )
    assert "died" in log.facts


def test_llama_cpp_rate_is_that_of_all_busy_slots() -> None:
    log = read(LlamaCppReader(), llama_cpp(slots=4, tokens=64, seconds=2.0))
    assert {rate.running for rate in log.rates} == {4}
    assert log.rates[0].tokens_per_second == pytest.approx(128.0, rel=0.01)
    assert log.value("decode tok/s per request") == pytest.approx(32.0)


def test_llama_cpp_request_of_one_token_is_no_speed() -> None:
    assert read(LlamaCppReader(), llama_cpp()).dropped == {"request of one token": 1}


def test_llama_cpp_times_on_lines_without_a_head_are_read() -> None:
    text = (
        "slot print_timing: id  3 | task 0 |\n"
        "prompt eval time =     124.60 ms /   218 tokens (    0.57 ms per token,  1749.58 tokens per second)\n"
        "       eval time =     329.83 ms /    25 tokens (   13.19 ms per token,    75.80 tokens per second)\n"
    )
    report = analyze(("print_info: file type = Q8_0\n" + text).encode())
    assert report.runs[0].run.server == "llama.cpp"
    log = report.runs[0].run.engine_log
    assert log is not None
    assert [(one.prompt_tokens, one.tokens) for one in log.requests] == [(218, 25)]


def test_llama_cpp_answer_without_a_line_on_its_prompt_counts_no_prompt() -> None:
    answer = "       eval time =     329.83 ms /    25 tokens (   13.19 ms per token,    75.80 tokens per second)\n"
    log = analyze(("print_info: file type = Q8_0\n" + answer).encode()).runs[0].run.engine_log
    assert log is not None
    assert [(one.prompt_tokens, one.tokens) for one in log.requests] == [(0, 25)]


@pytest.mark.parametrize(
    ("text", "speed"),
    [
        (
            "[41005] 1.37.495.377 I slot print_timing: id  0 | task 388 |\n"
            "[41005]        eval time =   10000.00 ms /   200 tokens (   50.00 ms per token,    20.00 tokens per second)\n",
            20.0,
        ),
        (
            "INFO [           print_timings] generation eval time =    2000.00 ms /   100 runs   (   20.00 ms per token) "
            '| tid="140" timestamp=1710000000 id_slot=0 id_task=0\n',
            50.0,
        ),
        (
            "2.02.846.974 I slot print_timing: id  3 | task 0 | n_decoded =   1081, tg =  13.50 t/s, tg_3s =  12.57 t/s\n"
            "2.05.870.752 I slot print_timing: id  3 | task 0 | n_decoded =   1119, tg =  12.50 t/s, tg_3s =  12.57 t/s\n",
            12.5,
        ),
        ("slot print_timing: id  0 | task 568 | n_gen = 100, tg = 4.43 t/s\n", 4.43),
    ],
    ids=["a server below a router", "text of 2024", "a request that goes on", "the same since 2026"],
)
def test_llama_cpp_speed_of_a_request_is_read_in_each_form(text: str, speed: float) -> None:
    run = analyze(text.encode()).runs[0].run
    assert run.server == "llama.cpp"
    assert run.engine_log is not None
    assert run.engine_log.facts["decode tok/s per request"].value == speed


def test_llama_cpp_progress_of_a_request_that_ended_counts_once() -> None:
    text = (
        "2.02.846.974 I slot print_timing: id  3 | task 0 | n_decoded =   100, tg =  90.00 t/s\n"
        "2.05.870.752 I slot print_timing: id  3 | task 0 |        eval time =   10000.00 ms /   200 tokens\n"
    )
    log = analyze(text.encode()).runs[0].run.engine_log
    assert log is not None
    assert log.facts["decode tok/s per request"].value == 20.0


TGI = {
    "text": "2026-03-11T01:17:04.123456Z  INFO shard-manager: text_generation_launcher: Shard ready in 5.6s rank=0\n",
    "the text in the log of a test": "INFO:server:     2026-03-11T01:17:04.123456Z  INFO text_generation_router: router/src/main.rs:230: Warming up model\n",
    "JSON of the launcher": '{"timestamp":"2026-03-11T01:17:04.815155Z","level":"INFO","fields":{"message":"Starting shard"},"target":"text_generation_launcher","span":{"rank":0}}\n',
    "JSON of the router": '{"timestamp":"2026-03-11T01:17:04.304586Z","level":"INFO","message":"Connected","target":"text_generation_router","filename":"router/src/main.rs"}\n',
}


@pytest.mark.parametrize("form", TGI)
def test_tgi_is_named_in_each_form_of_its_log(form: str) -> None:
    assert [view.run.server for view in analyze((TGI[form] * 3).encode()).runs] == ["tgi"]


INSIDE = "llama_context: n_ctx_per_seq (4096) < n_ctx_train (8192)\n"
OLLAMA = 'time=2026-03-11T01:17:04.858Z level=INFO source=server.go:637 msg="llama runner started in 1.59 seconds"\n'
SLOT = "slot launch_slot_: id  0 | task 112 | processing task\n"


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        (OLLAMA + INSIDE, ["ollama"]),
        (INSIDE + OLLAMA, ["ollama"]),
        (f"2026-03-11 01:17:04 chat-ollama-1   | {INSIDE}2026-03-11 01:17:04 chat-ollama-1   | {OLLAMA}", ["ollama"]),
        (INSIDE + SLOT + OLLAMA, ["llama.cpp", "ollama"]),
        (f"[llama] {SLOT}", ["llama.cpp"]),
    ],
    ids=["whole", "cut off at its head", "copied out of Docker Desktop", "a server of llama.cpp before", "tagged by a process manager"],
)  # fmt: skip
def test_llama_cpp_inside_ollama_is_ollama(text: str, servers: list[str]) -> None:
    assert [view.run.server for view in analyze(text.encode()).runs] == servers


def counts(text: str) -> dict[str, tuple[int, int]]:
    """Return samples and answered requests of each engine's run."""
    return {
        view.run.server: (view.run.sample_count, sum(view.run.accesses.values()))
        for view in analyze(text.encode()).runs
    }


ACCESSES = '(APIServer pid=7) INFO:     127.0.0.1:9 - "POST /v1/completions HTTP/1.1" 200 OK\n' * 3
OTHER_ACCESSES = '[2026-03-11 10:02:00] INFO:     127.0.0.1:9 - "POST /generate HTTP/1.1" 200 OK\n' * 5


@pytest.mark.parametrize("other", [sglang() + OTHER_ACCESSES, llama_cpp()], ids=["sglang", "llama.cpp"])
@pytest.mark.parametrize("vllm_first", [True, False])
def test_two_engines_in_one_file_are_two_runs_with_the_counts_that_they_have_apart(
    other: str, vllm_first: bool
) -> None:
    ours = vllm() + ACCESSES
    together = counts(ours + other if vllm_first else other + ours)
    assert together == {**counts(ours), **counts(other)}
    assert len(together) == 2


def test_a_prompt_that_quotes_another_engine_changes_nothing() -> None:
    quoted = "(APIServer pid=7) INFO 03-11 10:09:00 [logger.py:40] Received request x: prompt: 'Decode batch. #running-req: 1'\n"
    assert [view.run.server for view in analyze((vllm() + quoted).encode()).runs] == ["vllm"]
