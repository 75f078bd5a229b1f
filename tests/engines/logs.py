"""Logs of other engines written for these tests: layouts of the engines, made-up values."""

from __future__ import annotations

ARGUMENTS = (
    "[2026-03-11 10:00:00] server_args=ServerArgs(model_path='org/tiny-1b', dtype='auto', quantization=None, tp_size=1, "
    "kv_cache_dtype='auto', disable_cuda_graph=False, speculative_algorithm={drafts}, disaggregation_mode='{part}')"
)


def sglang(
    speed: float = 90.0,
    running: int = 2,
    drafts: str | None = None,
    part: str = "null",
    dtype: str = "torch.bfloat16",
) -> str:
    """Return a log of SGLang that decodes `running` requests at `speed` tokens/s for a minute."""
    length = "accept len: 2.00, " if drafts else ""
    lines = [
        ARGUMENTS.format(drafts=repr(drafts), part=part),
        f"[2026-03-11 10:00:20 TP0] Load weight end. type=TinyForCausalLM, dtype={dtype}, avail mem=40.00 GB, mem usage=2.00 GB.",
        "[2026-03-11 10:00:30 TP0] max_total_num_tokens=185897, chunked_prefill_size=8192, max_running_requests=48, context_len=4096",
        "[2026-03-11 10:00:40] INFO:     Application startup complete.",
        "[2026-03-11 10:00:41] The server is fired up and ready to roll!",
        "[2026-03-11 10:01:00 TP0] Prefill batch. #new-seq: 2, #new-token: 40, #cached-token: 60, token usage: 0.00, #running-req: 0, #queue-req: 0",
        f"[2026-03-11 10:01:01 TP0] Decode batch. #running-req: {running}, #token: 120, token usage: 0.01, {length}gen throughput (token/s): 0.44, #queue-req: 0",
    ]
    lines += [
        f"[2026-03-11 10:01:{second:02d} TP0] Decode batch. #running-req: {running}, #token: {second}, token usage: 0.01, "
        f"{length}gen throughput (token/s): {speed + second % 2:.2f}, #queue-req: 1"
        for second in range(2, 30)
    ]
    return "\n".join(lines) + "\n"


def vllm(
    speed: float = 100.0,
    running: int = 2,
    drafts: bool = False,
    dtype: str = "torch.bfloat16",
    model: str = "org/tiny-1b",
) -> str:
    """Return a log of vLLM that decodes `running` requests at `speed` tokens/s for five minutes."""
    config = f"'model': '{model}'"
    if drafts:
        config += ", 'speculative_config': {'method': 'ngram', 'num_speculative_tokens': 3}"
    spec = "SpeculativeConfig(method='ngram', num_spec_tokens=3)" if drafts else "None"
    head = "(APIServer pid=7) INFO 03-11 "
    lines = [
        f"{head}10:00:00 [api_server.py:1289] vLLM API server version 0.11.2",
        f"{head}10:00:00 [utils.py:233] non-default args: {{{config}}}",
        f"(EngineCore pid=8) INFO 03-11 10:00:05 [core.py:93] Initializing a V1 LLM engine (v0.11.2) with config: model='{model}', "
        f"speculative_config={spec}, tokenizer='{model}', dtype={dtype}, max_seq_len=4096, tensor_parallel_size=1, "
        "data_parallel_size=1, quantization=None, enforce_eager=False, kv_cache_dtype=auto",
        "(EngineCore pid=8) INFO 03-11 10:00:20 [kv_cache_utils.py:1229] GPU KV cache size: 950,420 tokens",
        "(APIServer pid=7) INFO:     Application startup complete.",
    ]
    for number in range(24):
        at = f"10:0{1 + number // 6}:{number % 6}0"
        lines.append(
            f"{head}{at} [loggers.py:236] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: "
            f"{speed + number % 2:.1f} tokens/s, Running: {running} reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%, Prefix cache hit rate: 0.0%"
        )
        if drafts:
            lines.append(
                f"{head}{at} [metrics.py:100] SpecDecoding metrics: Mean acceptance length: 2.50, Accepted throughput: 10.00 tokens/s, "
                "Drafted throughput: 20.00 tokens/s, Accepted: 100 tokens, Drafted: 200 tokens, "
                "Per-position acceptance rate: 0.700, 0.500, 0.300, Avg Draft acceptance rate: 50.0%"
            )
    return "\n".join(lines) + "\n"


def llama_cpp(
    slots: int = 4, requests: int = 32, tokens: int = 64, seconds: float = 2.0, quantization: str = "BF16"
) -> str:
    """Return a log of llama.cpp's server whose slots are all busy: each request decodes `tokens` in `seconds`."""
    lines = [
        "0.00.100.000 I print_info: file type   = " + quantization,
        "0.00.100.001 I print_info: general.name     = org/tiny-1b",
        f"0.00.200.000 I srv    load_model: initializing slots, n_slots = {slots}",
        "0.00.300.000 I srv  llama_server: server is listening on http://0.0.0.0:8080",
    ]
    for number in range(requests):
        end = 1.0 + seconds * (1 + number // slots)
        at = f"{int(end // 60)}.{int(end % 60):02d}.{int(end % 1 * 1000):03d}.000"
        lines += [
            f"{at} I slot print_timing: id  {number % slots} | task {number} | prompt eval time =      10.00 ms /    20 tokens (    0.50 ms per token,  2000.00 tokens per second)",
            f"{at} I slot print_timing: id  {number % slots} | task {number} |        eval time =    {seconds * 1000:.2f} ms /    {tokens} tokens (   10.00 ms per token,    32.00 tokens per second)",
        ]
    lines.append(
        "1.32.279.939 I slot print_timing: id  1 | task 99 |        eval time =       0.00 ms /     1 tokens (    0.00 ms per token, 1000000.00 tokens per second)"
    )
    return "\n".join(lines) + "\n"


LLAMA_BENCH = """  Device 0: NVIDIA T, compute capability 9.0, VMM: yes
| model                          |       size |     params | backend    | ngl |            test |                  t/s |
| ------------------------------ | ---------: | ---------: | ---------- | --: | --------------: | -------------------: |
| tiny 1B Q8_0                   |   1.00 GiB |     1.00 B | CUDA       |  99 |           pp512 |      9000.00 ± 15.00 |
| tiny 1B Q8_0                   |   1.00 GiB |     1.00 B | CUDA       |  99 |           tg128 |        150.00 ± 0.50 |

build: 308f61c31 (9536)
"""
