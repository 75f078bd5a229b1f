"""What kinds of files are called in a sentence."""

from __future__ import annotations

_NAMES = {
    "sglang-metrics": "the metrics of a server of SGLang",
    "prometheus-text": "a copy of `/metrics`",
    "prometheus-json": "metrics that Prometheus answered",
    "torch-chrome-trace": "a trace of the PyTorch profiler",
    "torch-key-averages": "a table of the PyTorch profiler",
    "nsys-sqlite": "a database of Nsight Systems",
    "dcgm-exporter": "metrics of the DCGM exporter",
    "sglang-bench-text": "the output of SGLang's bench_serving",
    "sglang-bench-one-batch": "the output of SGLang's bench_one_batch",
    "vllm-bench-text": "the output of `vllm bench serve` or a benchmark of its format",
    "vllm-bench-json": "a result of `vllm bench serve`",
    "vllm-bench-offline-text": "the output of `vllm bench throughput` or `vllm bench latency`",
    "vllm-bench-offline-json": "a result of `vllm bench throughput` or `vllm bench latency`",
    "guidellm-json": "a result of GuideLLM",
    "guidellm-text": "the output of GuideLLM",
    "aiperf-json": "a result of AIPerf",
    "aiperf-csv": "a result of AIPerf",
    "aiperf-text": "the output of AIPerf",
    "aisbench-text": "the output of AISBench",
    "llmperf-json": "a result of llmperf",
    "py-spy-dump": "the output of `py-spy dump`",
    "folded-stacks": "folded stacks of a profiler",
    "nvidia-smi-q": "the output of `nvidia-smi -q`",
    "collect-env": "the output of collect_env",
    "meminfo": "a copy of `/proc/meminfo`",
    "perf-stat": "the output of `perf stat`",
    "qstat-f": "the output of `qstat -f`",
    "slurm-messages": "messages of Slurm",
    "ray-log": "a log of Ray's own processes",
    "dmesg": "a log of the kernel",
    "gpu-series-csv": "a table of what the GPUs did over time",
    "cpu-series-csv": "a table of what the processors did over time",
}
_FORMATS = ("-json", "-csv", "-text", "-xml", "-sql", "-table", "-list")
_OF_SUBCOMMAND = ("docker-", "kubectl-", "nsys-stats", "dcgmi-", "nvidia-smi-")


def kind_words(name: str) -> str:
    """Return a kind of file in words, with its article.

    Example:
        >>> kind_words("vllm-bench-text"), kind_words("nvidia-smi-dmon"), kind_words("rocm-smi-json")
        ('the output of `vllm bench serve` or a benchmark of its format', 'the output of `nvidia-smi dmon`', 'the output of `rocm-smi`')
    """
    if name in _NAMES:
        return _NAMES[name]
    command = next((name.removesuffix(end) for end in _FORMATS if name.endswith(end)), name)
    start = next((one for one in _OF_SUBCOMMAND if command.startswith(one)), "")
    head = start.rstrip("-")
    rest = command[len(head) :].lstrip("-") if start else ""
    program = head.replace("nsys-stats", "nsys stats") if start else command
    return f"the output of `{f'{program} {rest}'.rstrip()}`"
