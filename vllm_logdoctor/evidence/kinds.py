"""All kinds of files that are known, in the order in which they are tried: the first that recognizes a file has it."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from vllm_logdoctor.evidence import (
    accelerators,
    benchmarks,
    cluster,
    counters,
    engine_benchmarks,
    environment,
    host,
    nvidia,
    profiles,
    prometheus,
    traces,
)
from vllm_logdoctor.evidence.model import Kind


def _holds(*words: str) -> Callable[[str], bool]:
    return lambda head: all(word in head for word in words)


def _csv_header(regex: str) -> Callable[[str], bool]:
    """Return a test of the first line with text: names joined by commas, one of which fits the expression."""
    expression = re.compile(regex)
    name = re.compile(r"^[\w. \[\]%/()-]+$")

    def test(head: str) -> bool:
        names = head.lstrip().partition("\n")[0].strip().split(",")
        return (
            len(names) > 2
            and all(name.match(one) for one in names)
            and any(expression.search(one.strip()) for one in names)
        )

    return test


_LATENCY = "time to first token, latency, queue time, preemptions, lengths, prefix cache hits"
_CLIENT = "latency and throughput that the client saw"
_OFFLINE = "throughput or latency of the engine without a server"
_LLAMA_CPP = "speed of llama.cpp on this machine"
_KERNELS = "time by kernel, busy share of the GPU"
_JOB = "how the job ended, what it used and asked for"
_CONTAINER = "how the container ended, its limits"
_CALLS = "time by kernel and by call"
_CARD = "the card, its memory, clocks and power"

KINDS: tuple[Kind, ...] = (
    Kind(
        "sglang-metrics",
        "load and latency of a server of SGLang",
        r"^# (?:HELP|TYPE) sglang[:_]|^sglang:\w+[{ ]",
        prometheus.read_prometheus,
    ),
    Kind(
        "prometheus-text",
        _LATENCY,
        r"^# (?:HELP|TYPE) (?:vllm:|python_gc_|process_)|^vllm:\w+[{ ]",
        prometheus.read_prometheus,
    ),
    Kind(
        "torch-chrome-trace",
        _KERNELS,
        r'"traceEvents"\s*:|^\[\s*\{[^{}]{0,400}"ph"\s*:',
        stream=traces.read_trace_file,
    ),
    Kind("nsys-sqlite", _KERNELS, r"\ASQLite format 3", stream=traces.read_nsys_sqlite),
    Kind(
        "prometheus-json",
        _LATENCY,
        r"""["']resultType["'][\s\S]*["']metric["']\s*:""",
        prometheus.read_api,
    ),
    Kind("dcgm-exporter", _CARD, r"^# (?:HELP|TYPE) DCGM_FI_", accelerators.read_dcgm),
    Kind(
        "amd-smi-json",
        _CARD,
        r'"gpu"\s*:\s*\d+[\s\S]{0,2000}"(?:asic|usage|vram|mem_usage|power)"\s*:\s*\{',
        accelerators.read_amd_json,
    ),
    Kind("amd-smi", _CARD, r"^GPU: \d+\s*\n\s+[A-Z_]+:", accelerators.read_amd),
    Kind("dcgmi-dmon", _CARD, r"^#\s*Entity\s+\w+", accelerators.read_dcgmi),
    Kind(
        "numactl",
        "processors and memory of each NUMA node",
        r"^available: \d+ nodes? \(|^physcpubind:",
        host.read_numactl,
    ),
    Kind("nsys-stats-csv", _CALLS, r"^Time \(%\),Total Time \(ns\),", profiles.read_nsys),
    Kind(
        "docker-inspect",
        _CONTAINER,
        lambda head: "OOMKilled" in head and cluster.is_docker_inspect(head),
        cluster.read_docker_inspect,
    ),
    Kind("guidellm-json", _CLIENT, '"guidellm_version"', benchmarks.read_guidellm),
    Kind(
        "aiperf-json",
        _CLIENT,
        r'"(?:request_throughput|time_to_first_token|request_latency)"\s*:\s*\{',
        benchmarks.read_aiperf_json,
    ),
    Kind("aiperf-csv", _CLIENT, r"^Metric,(?:Unit,)?avg,", benchmarks.read_aiperf_csv),
    Kind(
        "vllm-bench-json",
        _CLIENT,
        r'"(?:mean_ttft_ms|request_throughput|total_token_throughput)"',
        benchmarks.read_vllm_json,
    ),
    Kind(
        "vllm-bench-offline-json",
        _OFFLINE,
        r'"total_num_tokens"[\s\S]*"tokens_per_second"|"avg_latency"[\s\S]*"latencies"',
        benchmarks.read_offline_json,
    ),
    Kind("llmperf-json", _CLIENT, r'"results_?\w*"|"results_ttft_s', benchmarks.read_llmperf),
    Kind(
        "xpu-smi",
        _CARD,
        r"^\| (?:GPU Utilization \(%\)|Device ID +\| Device Information)",
        accelerators.read_xpu,
    ),
    Kind("rocm-smi-json", _CARD, r'"card\d+"\s*:\s*\{', accelerators.read_rocm),
    Kind("nvidia-smi-xml", _CARD, r'<nvidia_smi_log|<gpu id="[0-9A-Fa-f:.]+">', nvidia.read_xml),
    Kind("nvidia-smi-q", _CARD, r"^Attached GPUs\s+: \d", nvidia.read_query),
    Kind("nvidia-smi-pmon", "which process keeps the card busy", r"^# gpu\s+pid\s+type", nvidia.read_monitor),
    Kind(
        "nvidia-smi-dmon",
        "how busy card and memory were, power, clocks",
        r"^#\s*gpu\s+\w+\s+\w+.*\n#\s*Idx",
        nvidia.read_monitor,
    ),
    Kind(
        "collect-env",
        "card, driver, versions, processors, variables",
        r"^PyTorch version\s*:.*(?:\n.*){1,3}^CUDA used to build PyTorch"
        r"|^(?:GPU models and configuration|CUDA_MODULE_LOADING set to|Nvidia driver version)\s*:",
        environment.read_environment,
    ),
    Kind("rocm-smi", _CARD, r"^GPU\[\d+\]\s*: |Temp.*\bSCLK\s+MCLK\b", accelerators.read_rocm_text),
    Kind("nvidia-smi-topo", "links between the cards", nvidia.is_topology, nvidia.read_topology),
    Kind(
        "nvidia-smi-nvlink",
        "speed of the links between the cards",
        r"^GPU \d+: .*\(UUID.*\)\n\s+Link \d+:",
        nvidia.read_nvlink,
    ),
    Kind(
        "nvidia-smi-list",
        "the cards and their parts",
        r"^GPU \d+: .*\(UUID: GPU-[\w-]+\)$(?!\n\s+Link)",
        nvidia.read_list,
    ),
    Kind("nvidia-smi-table", _CARD, nvidia.is_table, nvidia.read_smi_table),
    Kind(
        "nvidia-smi-csv",
        _CARD,
        _csv_header(
            r"^(?:utilization\.gpu|memory\.(?:used|total)|gpu_uuid|uuid|power\.draw|used_gpu_memory)"
        ),
        nvidia.read_csv,
    ),
    Kind(
        "npu-smi",
        _CARD,
        r"\bnpu-smi \S+\s+Version:|^\| \d+ +\w*910\w* +\| (?:OK|Warning|Alarm|Critical|UNKNOWN) +\|",
        accelerators.read_npu,
    ),
    Kind("sglang-bench-text", _CLIENT, benchmarks.is_sglang, benchmarks.read_results_text),
    Kind("vllm-bench-text", _CLIENT, benchmarks.is_results_text, benchmarks.read_results_text),
    Kind("guidellm-text", _CLIENT, benchmarks.is_guidellm_text, benchmarks.read_guidellm_text),
    Kind(
        "vllm-bench-offline-text",
        _OFFLINE,
        r"^Throughput: [\d.]+ requests/s, [\d.]+ (?:total )?tokens/s|^Avg latency: [\d.]+ seconds *\n\d{1,3}%? percentile latency: ",
        benchmarks.read_offline_text,
    ),
    Kind("aiperf-text", _CLIENT, r"NVIDIA (?:AIPerf|GenAI-Perf) \|", benchmarks.read_aiperf),
    Kind("aisbench-text", _CLIENT, r"[│|] Performance Parameters +[│|] Stage", benchmarks.read_aiperf),
    Kind(
        "llama-benchy", _CLIENT, r"^\|\s*model\s*\|\s*test\s*\|\s*t/s\b", engine_benchmarks.read_llama_bench
    ),
    Kind(
        "llama-bench-text",
        _LLAMA_CPP,
        r"^\|\s*model\s*\|.*\|\s*test\s*\|\s*t/s\s*\|",
        engine_benchmarks.read_llama_bench,
    ),
    Kind(
        "llama-bench-json",
        _LLAMA_CPP,
        _holds('"build_commit"', '"avg_ts"'),
        engine_benchmarks.read_llama_bench_rows,
    ),
    Kind(
        "llama-bench-csv",
        _LLAMA_CPP,
        r"^(?:build_commit,|\w+,.{0,900}\bavg_ts,)",
        engine_benchmarks.read_llama_bench_rows,
    ),
    Kind(
        "llama-bench-sql",
        _LLAMA_CPP,
        r"^INSERT INTO \w+ \(build_commit, .*\bavg_ts\b",
        engine_benchmarks.read_llama_bench_rows,
    ),
    Kind(
        "llama-batched-bench",
        "speed of llama.cpp by size of the batch",
        r"^\|\s*PP \|.*\bS_TG t/s \||^\{.*\"speed_tg\"",
        engine_benchmarks.read_batched_bench,
    ),
    Kind(
        "sglang-bench-one-batch",
        "speed of SGLang for one batch, without a server",
        engine_benchmarks.is_one_batch,
        engine_benchmarks.read_one_batch,
    ),
    Kind("nsys-stats-text", _CALLS, r"\*\* .* \(\w+(?:_sum|_summary|sum)\):", profiles.read_nsys),
    Kind(
        "torch-key-averages",
        "time by operator and kernel",
        _holds("Self CPU %", "# of Calls"),
        profiles.read_torch_table,
    ),
    Kind("top", "which thread is busy", r"^top - .*load average:", host.read_top),
    Kind("pidstat", "CPU and I/O by process", r"^#?.*\bUID\s+(?:PID|TGID\s+TID)\s+%usr", host.read_pidstat),
    Kind("mpstat", "CPU by processor", r"\bCPU\s+%usr\s+%nice", host.read_mpstat),
    Kind("iostat", "how busy the disks were", r"^avg-cpu:\s+%user", host.read_iostat),
    Kind("vmstat", "memory, swapping and CPU of the host", r"^\s*r\s+b\s+swpd\s+free", host.read_vmstat),
    Kind("free", "memory of the host", r"^\s+total\s+used\s+free.*\nMem:", host.read_free),
    Kind("meminfo", "memory of the host", r"^MemTotal:\s+\d+ kB\nMemFree:", host.read_meminfo),
    Kind(
        "py-spy-dump",
        "in which function each thread was",
        r'\A(?:.*\n){0,3}?(?:Process \d+: .+\nPython v\d|Thread \w+ \([\w+]+\): ")',
        host.read_stacks,
    ),
    Kind(
        "folded-stacks",
        "in which functions the time of the processor goes",
        # thread (42): MainThread;_bootstrap (multiprocessing/process.py:314);wait (threading.py:355) 17
        r"\A\s*(?:[^;\n]+;){2,}[^;\n]+ \d+\n",
        host.read_folded_stacks,
    ),
    Kind(
        "lscpu",
        "processors, sockets, NUMA nodes",
        r'^Architecture:\s+\S+\n(?:.*\n){0,6}CPU\(s\):|"lscpu"\s*:\s*\[|^CPU (?:NODE )?SOCKET CORE ',
        host.read_lscpu,
    ),
    Kind(
        "perf-stat",
        "traffic of the memory, events of the processor",
        r"Performance counter stats for|^#\s+time\s+counts unit events"
        r"|^\s*(?:[\d.]+,)?(?:[\d.]+|<not \w+>),\w*,[\w./:-]+,\d+,\d+\.\d\d,|^\{\"(?:interval|counter-value)\" : ",
        counters.read_perf,
    ),
    Kind(
        "ncu",
        "traffic of each kernel with the card's memory",
        r"\bdram__bytes_(?:read|write)\.sum\b",
        counters.read_ncu,
    ),
    Kind(
        "dmidecode",
        "number and speed of the memory modules",
        r"^Memory Device\n(?:[ \t].*\n){0,6}[ \t]+Total Width:",
        counters.read_dmidecode,
    ),
    Kind("qstat-f", _JOB, r"^Job Id: \S+", cluster.read_qstat),
    Kind("qacct", _JOB, r"^qname\s+\S+\nhostname\s+\S", cluster.read_qacct),
    Kind("slurm-messages", _JOB, rf"\A(?:.*\n){{0,4}}?{cluster.SLURM_WORDS[1:]}", cluster.read_slurm_words),
    Kind("sacct", _JOB, r"^\s*JobID(?:Raw)?[ |].*(?:State|ExitCode)", cluster.read_sacct),
    Kind(
        "kubectl-describe",
        _CONTAINER,
        r"^QoS Class:|^\s*\"?containerStatuses\"?:|^\s*Last State: +\w+\n(?:.*\n){0,2} *Exit Code: +\d"
        r"|^\S+ +\d+/\d+ +CrashLoopBackOff\b|is waiting to start: CrashLoopBackOff$|^ +Restart Count: +\d"
        r"|^Name:\s+\S+\n(?:.*\n){0,4}^(?:Priority|Namespace|Service Account):|kubectl describe",
        cluster.read_kubectl_describe,
    ),
    Kind(
        "kubectl-events",
        "what Kubernetes did to the pod",
        r"\b(?:Normal|Warning)\s+"
        r"(?:Unhealthy|Killing|Pulling|Pulled|Scheduled|Started|Created|BackOff|Failed\w*|OOMKilling|Evicted)\b",
        cluster.read_kubectl_events,
    ),
    Kind(
        "dmesg",
        "who was killed for memory, faults of cards",
        r"\bNVRM: |\bKilled process \d+ \(|\boom-kill:constraint=|invoked oom-killer|\]: segfault at "
        r"|\A(?:\[ *\d+\.\d{6}\] .*\n|\[\w{3} \w{3} [ \d]\d [\d:]{8} \d{4}\] .*\n){2}"
        r"|^\w{3} [ \d]\d [\d:]{8} \S+ (?:kernel|systemd\[\d+\]): ",
        cluster.read_kernel_log,
    ),
    Kind(
        "ray-log",
        "what Ray's own processes say",
        r"\A\s*\[\d{4}-\d\d-\d\d [\d:,]+ [IWEF] \d+ \d+\] (?:\([\w-]+\) )?[\w.]+:\d+:",
        cluster.read_ray,
    ),
    Kind(
        "gpu-series-csv",
        "how busy the cards were over time",
        _csv_header(
            r"(?i)(?:(?<!cpu_)util_pct|gpu_util|power_w|power_watts|^temp_|temperature|gpu_usage|usage_percent|vram|gpu_mem_used)"
        ),
        host.read_series,
    ),
    Kind(
        "cpu-series-csv",
        "how busy the processors were over time",
        _csv_header(r"(?i)^cpu_\w*(?:pct|percent|busy|user)"),
        host.read_series,
    ),
)


_GAP = " " * 80
_WIDE_GAP = re.compile(r"[ \t]{80,}")


# What selects a file, reads it and looks for parts asks for the same text.
@lru_cache(maxsize=4)
def evidence_kind(head: str) -> Kind | None:
    """Return the kind of a file by its beginning (at most 64 KiB), or None for a log or something unknown.

    Example:
        >>> evidence_kind("top - 22:12:34 up 3 days,  0 users,  load average: 10.32, 7.18, 3.86\\n").name
        'top'
    """
    lines = (_WIDE_GAP.sub(_GAP, line.rstrip()) for line in head.split("\n"))
    # Expressions take long for runs of spaces and empty lines, which tell nothing.
    shown = "\n".join(line for line in lines if line) + "\n"
    return next((kind for kind in KINDS if kind.recognizes(shown)), None)
