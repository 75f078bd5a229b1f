"""What is read of logs of SGLang and llama.cpp, and which of their rates say something about the speed."""

from __future__ import annotations

import pytest

from tests.engines.logs import llama_cpp, sglang, vllm
from tests.tables import for_each
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


def facts(reader: EngineReader, text: str) -> dict[str, object]:
    return {one.name: one.value for one in read(reader, text).facts.values()}


@for_each(
    ("line", "expected"),
    [
        (
            "server_args=ServerArgs(model_path='org/m', dtype='auto', quantization='fp8', tp_size=4, dp_size=2, kv_cache_dtype='fp8_e5m2', mem_fraction_static=0.88, "
            "chunked_prefill_size=8192, attention_backend='fa3', disable_cuda_graph=True, disable_radix_cache=False, context_length=None, max_running_requests=48, "
            "speculative_algorithm='EAGLE', disaggregation_mode='null', port=30000)",
            {
                "model_path": "org/m", "dtype": "auto", "quantization": "fp8", "tp_size": "4", "dp_size": "2", "kv_cache_dtype": "fp8_e5m2", "mem_fraction_static": "0.88",
                "chunked_prefill_size": "8192", "attention_backend": "fa3", "disable_cuda_graph": "True", "disable_radix_cache": "False", "max_running_requests": "48",
                "speculative_algorithm": "EAGLE", "disaggregation_mode": "null",
            },
        ),
        ("max_total_num_tokens=185897, chunked_prefill_size=8192, max_running_requests=48, context_len=65536", {"kv tokens": 185897, "max running": 48, "context": 65536}),
        (
            "Load weight end. elapsed=109.33 s, type=TinyForCausalLM, quant=compressed-tensors, dtype=torch.bfloat16, avail mem=47.80 GB, mem usage=2.50 GB.",
            {
                "load weight": "elapsed=109.33 s, type=TinyForCausalLM, quant=compressed-tensors, dtype=torch.bfloat16, avail mem=47.80 GB, mem usage=2.50 GB.",
                "weights elapsed": "109.33", "weights quant": "compressed-tensors", "weights dtype": "torch.bfloat16", "weights mem usage": "2.50",
            },
        ),
        ("KV Cache is allocated. #tokens: 185897, K size: 1.2 GB", {"kv cache": "#tokens: 185897, K size: 1.2 GB"}),
        ("Capture cuda graph end. Time elapsed: 10.70 s. mem usage=1.20 GB.", {"graph capture s": 10.7}),
        ("Capture target verify CUDA graph end. elapsed=0.77 s", {"graph capture s": 0.77}),
        ("Using KV cache dtype: torch.bfloat16", {"kv dtype": "torch.bfloat16"}),
        ("Scheduler hit an exception: Traceback", {"died": "Scheduler hit an exception"}), ("Received sigquit from a child process.", {"died": "Received sigquit from a child proc"}),
        ("Exception in ModelTpServer", {"died": "Exception in ModelTpServer"}), ("Watchdog timeout (self.watchdog_last=3)", {"died": "Watchdog timeout"}),
        ("The server is fired up and ready to roll!", {"warmed up": "yes"}), ("INFO:     Application startup complete.", {"ready": "yes"}), ("Another line", {}),
    ],
)  # fmt: skip
def test_each_line_of_sglang_that_tells_a_fact(line: str, expected: dict[str, object]) -> None:
    assert facts(SGLangReader(), line) == expected


def test_sglang_is_ready_so_long_after_its_first_clock() -> None:
    text = "[2026-03-11 10:00:00] a\n[2026-03-11 10:00:40] INFO:     Application startup complete.\n[2026-03-11 10:01:05 TP0] The server is fired up and ready to roll!"
    found = facts(SGLangReader(), text)
    assert (found["ready s"], found["warmed up s"]) == (40.0, 65.0)


DECODE = "[2026-03-11 10:{at} TP0] Decode batch. #running-req: {running}, #token: 9, {more}gen throughput (token/s): {speed}, #queue-req: {queue}"
PREFILL = "[2026-03-11 10:{at} TP0] Prefill batch. #new-seq: 1, #new-token: {new}, #cached-token: {cached}, #running-req: 0, #queue-req: 0"


def decode(at: str, running: int = 2, speed: float = 90.0, queue: int = 0, more: str = "") -> str:
    return DECODE.format(at=at, running=running, speed=speed, queue=queue, more=more)


def test_each_line_of_sglang_that_is_no_speed_is_counted_with_its_reason() -> None:
    text = [
        decode("01:00"), decode("01:10"), decode("01:20", running=0), PREFILL.format(at="01:21", new=30, cached=10), decode("01:30"),
        decode("01:40", queue=7, more="accept len: 2.50, "), decode("01:50", speed=2.0), decode("01:55", speed=0.0),
        "[2026-03-11 10:02:00 TP0] Decode batch. #running-req: 2, #token: 9, #queue-req: 0", PREFILL.format(at="02:01", new=50, cached=10),
    ]  # fmt: skip
    log = read(SGLangReader(), "\n".join(text))
    assert [(rate.line, rate.running, rate.waiting, rate.tokens_per_second, rate.acceptance) for rate in log.rates] == [
        (2, 2, 0, 90.0, None), (6, 2, 7, 90.0, 2.5),
    ]  # fmt: skip
    assert log.dropped == {
        "first line of the log": 1, "nothing was running at its end": 1, "first line after a prefill": 1, "interval with idle time": 2,
    }  # fmt: skip
    shown = {name: (one.value, one.line, one.unit) for name, one in log.facts.items()}
    assert shown == {
        "most running": (2, 1, ""), "most queued": (7, 6, ""), "prefix hits": (20, 10, "of 100 prompt tokens"),
    }  # fmt: skip


@for_each(
    ("line", "name", "value"),
    [
        ("srv    load_model: loading model '/models/tiny.gguf'", "model file", "/models/tiny.gguf"),
        ("llama_model_loader: loaded meta data with 29 key-value pairs and 300 tensors from /m/tiny.gguf (version GGUF V3)", "model file", "/m/tiny.gguf"),
        ("llama_model_loader: - kv   2:               general.name str              = Tiny 1B", "model", "Tiny 1B"),
        ("print_info: general.name     = Tiny 1B Instruct", "model", "Tiny 1B Instruct"),
        ("print_info: file type   = Q4_K - Medium", "quantization", "Q4_K - Medium"), ("llm_load_print_meta: model ftype      = Q8_0", "quantization", "Q8_0"),
        ("print_info: file size   = 2.31 GiB (5.12 BPW)", "size", "2.31 GiB"), ("print_info: model params     = 1.54 B", "params", "1.54 B"),
        ("load_tensors: offloaded 20/35 layers to GPU", "offload", "20/35"), ("llama_context: n_ctx         = 8192", "context", 8192),
        ("slot   load_model: id  0 | task -1 | new slot, n_ctx = 4096", "context", 4096), ("llama_context: n_ctx_per_seq = 2048", "context per slot", 2048),
        ("slot init: n_ctx_slot = 1024", "context per slot", 1024), ("llama_context: n_batch       = 2048", "n_batch", 2048), ("llama_context: n_ubatch      = 512", "n_ubatch", 512),
        ("llama_context: flash_attn    = auto", "flash attention", "auto"), ("llama_kv_cache_unified:      CUDA0 KV buffer size =   320.00 MiB", "kv buffer", "CUDA0 320.00 MiB"),
        ("llama_context: KV self size  =  320.00 MiB, K (f16):  160.00 MiB, V (f16):  160.00 MiB", "kv type", "f16"),
        ("llama_kv_cache_unified: size =  320.00 MiB (  8192 cells,  40 layers)", "kv cells", 8192), ("srv    load_model: initializing slots, n_slots = 4", "slots", 4),
        ("  Device 0: NVIDIA T, compute capability 9.0, VMM: yes", "device", "NVIDIA T"), ("build: 5163 (8cfabc12) with cc for x86_64", "build", "5163 (8cfabc12)"),
        ("build: 8cfabc12 (5163)", "build", "8cfabc12 (5163)"), ("main: server is listening on http://0.0.0.0:8080 - starting", "listening", "server is listening on http://0.0.0.0:8080"),
    ],
)  # fmt: skip
def test_each_line_of_llama_cpp_that_tells_a_fact(line: str, name: str, value: object) -> None:
    assert facts(LlamaCppReader(), line) == {name: value}
    assert facts(LlamaCppReader(), f"{line}\n{line.replace('2', '7').replace('4', '8')}")[name] == value


EVAL = "1.00.000.000 I slot print_timing: id  {slot} | task 1 | {what} time = {ms} ms / {tokens} tokens"


def test_the_speed_of_requests_of_llama_cpp_is_the_median_of_those_with_sixteen_tokens() -> None:
    def text(*requests: tuple[int, float]) -> str:
        return "\n".join(
            EVAL.format(slot=0, what="       eval", ms=ms, tokens=tokens) for tokens, ms in requests
        )

    def speed(*requests: tuple[int, float]) -> object:
        fact = read(LlamaCppReader(), text(*requests)).facts.get("decode tok/s per request")
        return (fact.value, fact.unit) if fact else None

    assert speed((16, 500.0)) == (32.0, "tok/s, one request with 16 tokens or more")
    assert speed((15, 500.0)) is None
    assert speed((16, 500.0), (15, 1.0), (64, 1000.0), (20, 200.0)) == (
        64.0,
        "tok/s, median of 3 requests with 16 tokens or more",
    )
    prompts = [EVAL.format(slot=0, what="prompt eval", ms=10.0, tokens=20), text((64, 1000.0))]
    found = facts(LlamaCppReader(), "\n".join(prompts))
    assert (found["prompt tok/s per request"], found["decode tok/s per request"]) == (2000.0, 64.0)
    dropped = read(LlamaCppReader(), text((1, 10.0), (64, 0.0), (2, 10.0)))
    assert (dropped.dropped, len(dropped.requests)) == ({"request of one token": 2}, 1)


def test_a_request_of_llama_cpp_that_still_runs_has_the_speed_that_it_prints() -> None:
    running = "1.00.000.000 I slot print_timing: id  {} | task 1 | n_decoded = 1081, tg = {} t/s"
    log = read(
        LlamaCppReader(),
        "\n".join([running.format(0, 12.5), running.format(1, 20.5), running.format(1, 0.0)]),
    )
    assert log.facts["decode tok/s per request"].value == 16.5
    ended = EVAL.format(slot=1, what="       eval", ms=1000.0, tokens=64)
    log = read(LlamaCppReader(), "\n".join([running.format(0, 12.5), running.format(1, 20.5), ended]))
    assert log.facts["decode tok/s per request"].value == (12.5 + 64.0) / 2
