"""One small text of each kind, written for these tests in the layout of the tool; values are made up."""

from __future__ import annotations

SAMPLES: dict[str, str] = {
    "prometheus-text": """# HELP vllm:num_preemptions_total Cumulative number of preemption from the engine.
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="tiny"} 3.0
vllm:num_preemptions_total{engine="1",model_name="tiny"} 4.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="tiny"} 5.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1",model_name="tiny"} 2.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="1.0",model_name="tiny"} 10.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="tiny"} 10.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="tiny"} 10.0
""",
    "torch-chrome-trace": '{"distributedInfo": {"rank": 2}, "traceEvents": ['
    '{"cat": "kernel", "name": "a", "ts": 0, "dur": 10}, {"cat": "kernel", "name": "b", "ts": 5, "dur": 10}, {"cat": "cpu_op", "name": "c"}]}',
    "docker-inspect": '[{\n "State": {\n  "Status": "exited",\n  "OOMKilled": false,\n  "ExitCode": 137\n }\n}]',
    "guidellm-json": '{\n "metadata": {\n  "guidellm_version": "0.5.0"\n },\n "target": "http://127.0.0.1:8000"\n}',
    "guidellm-text": """Args: {"target": "http://127.0.0.1:8000", "model": "tiny"}
Metadata     | Request Stats         || Out Tok/sec| Req Latency (ms)||| TTFT (ms)          ||
    Benchmark| Per Second| Concurrency|        mean| mean| median|  p99|  mean| median|    p99
-------------|-----------|------------|------------|-----|-------|-----|------|-------|-------
  synchronous|       0.25|        1.00|        64.0| 4.00|   3.90| 4.50|  50.0|   49.0|   60.0
constant@0.50|       0.50|        2.00|       128.0| 4.10|   4.00| 4.60|  55.0|   54.5|   70.0
==============================================================================================
""",
    "vllm-bench-offline-text": "Throughput: 2.50 requests/s, 900.00 total tokens/s, 320.00 output tokens/s\nTotal num prompt tokens:  5800\n",
    "vllm-bench-offline-json": '{\n "avg_latency": 1.25,\n "latencies": [\n  1.2,\n  1.3\n ],\n "percentiles": {\n  "10": 1.2,\n  "99": 1.3\n }\n}',
    "vllm-bench-json": '{\n "model_id": "tiny",\n "completed": 8,\n "mean_ttft_ms": 21.5\n}',
    "llmperf-json": '{\n "model": "tiny",\n "results_ttft_s": {\n  "mean": 0.25\n },\n "results_error_rate": 0.0\n}',
    "rocm-smi-json": '{\n "card0": {\n  "GPU use (%)": "97",\n  "Card series": "Instinct"\n }\n}',
    "rocm-smi": "Device  Node  IDs              Temp        Power     SCLK     MCLK     Fan  PwrCap   VRAM%  GPU%\n"
    "              (DID,     GUID)  (Junction)  (Socket)\n0       2     0x75a0,   24959  60.0°C      319.0W    2203Mhz  1900Mhz  0%   1000.0W  7%     99%\n",
    "xpu-smi": "| Device ID                   | 1             |\n| GPU Utilization (%)         | 42            |\n| EU Array Idle (%)           |               |\n",
    "nvidia-smi-xml": '<?xml version="1.0" ?>\n<nvidia_smi_log>\n <driver_version>570.1</driver_version>\n <gpu id="00000000:01:00.0">\n'
    "  <product_name>NVIDIA T</product_name>\n  <max_clocks>\n   <sm_clock>2000 MHz</sm_clock>\n  </max_clocks>\n </gpu>\n</nvidia_smi_log>",
    "nvidia-smi-q": """Driver Version                            : 570.1
Attached GPUs                             : 1
GPU 00000000:01:00.0
    Product Name                          : NVIDIA T
    GPU Link Info
        Link Width
            Max                           : 16x
            Current                       : 4x
    Temperature
        GPU Current Temp                  : 61 C
    GPU Power Readings
        Power Draw                        : 250.10 W
        Current Power Limit               : 300.00 W
""",
    "nvidia-smi-pmon": "# gpu         pid   type     sm    mem    command\n# Idx           #    C/G      %      %    name\n    0        711      C     98     40    python\n",
    "nvidia-smi-dmon": "# gpu    pwr  gtemp     sm    mem\n# Idx      W      C      %      %\n    0    301     55     99     43\n",
    "collect-env": """Collecting environment information...
PyTorch version: 2.7.0+cu126
Is debug build: False
CUDA used to build PyTorch: 12.6
Python version: 3.11.2 (main) [GCC 12.2.0] (64-bit runtime)
GPU models and configuration:
GPU 0: NVIDIA T
HF_HOME=/models
""",
    "nvidia-smi-topo": "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-15\nGPU1\tPHB\t X \t0-15\n",
    "nvidia-smi-nvlink": "GPU 0: NVIDIA T (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n\t Link 1: 26.562 GB/s\n",
    "nvidia-smi-table": """+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.10                 Driver Version: 570.10         CUDA Version: 12.8     |
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
|   0  NVIDIA T                       On  |   00000000:83:00.0 Off |                    0 |
| N/A   52C    P0            228W /  300W |   12362MiB /  24576MiB |     97%      Default |
|    0   N/A  N/A             711      C   python3                               12034MiB |
""",
    "nvidia-smi-csv": "name, memory.used [MiB], power.draw [W]\nNVIDIA T, 12362 MiB, 228.10 W\n",
    "npu-smi": """| npu-smi 24.1.0                   Version: 24.1.0                                               |
| 0     910T                | OK            | 95.9        39                0    / 0             |
| 0                         | 0000:01:00.0  | 12          0    / 0          2826 / 32768         |
""",
    "sglang-bench-text": "============ Serving Benchmark Result ============\nBackend:    sglang\nSuccessful requests:   10\nMean TTFT (ms):   417.83\n",
    "vllm-bench-text": "============ Serving Benchmark Result ============\nSuccessful requests:   10\nMean TTFT (ms):   21.50\n",
    "aiperf-text": "   NVIDIA AIPerf | LLM Metrics\n┃ Metric ┃ avg ┃ p99 ┃\n│ Request Latency (ms) │ 3,651.23 │ 5,707.95 │\n",
    "aisbench-text": "│ Performance Parameters   │ Stage   │ Average         │ P99            │\n│ TTFT                     │ total   │ 7437.1 ms       │ 25381.7 ms     │\n",
    "llama-bench-text": "| model | size | backend | test | t/s |\n| --- | --- | --- | --- | --- |\n| tiny Q8_0 | 1 GiB | CPU | pp512 | 236.42 ± 3.71 |\n",
    "llama-bench-json": '[\n  {\n    "build_commit": "8cf",\n    "model_type": "tiny",\n    "n_prompt": 0,\n    "n_gen": 128,\n'
    '    "n_depth": 4096,\n    "avg_ts": 120.5,\n    "samples_ts": [ 1.0, 2.0 ]\n  }\n]\n',
    "llama-bench-csv": "build_commit,build_number,model_type,n_prompt,n_gen,avg_ts,stddev_ts\n"
    '"8cf","5163","tiny Q8_0","512","0","7100.0","140.3"\n',
    "llama-bench-sql": "CREATE TABLE IF NOT EXISTS llama_bench (\n  build_commit TEXT\n);\n\n"
    "INSERT INTO llama_bench (build_commit, model_type, n_prompt, n_gen, avg_ts) VALUES ('8cf', 'tiny Q8_0', '0', '32', '119.8');\n",
    "llama-batched-bench": "|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |\n"
    "|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|\n"
    "|   128 |    128 |    4 |   1024 |    0.108 |  1186.64 |    3.079 |   166.28 |    3.187 |   321.32 |\n",
    "sglang-bench-one-batch": "Prefill. latency: 0.05000 s, throughput:   2345.60 token/s\n"
    "Decode.  median latency: 0.00800 s, median throughput:    124.93 token/s\n",
    "nsys-stats-csv": "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
    '28.9,29131334735,42384,687.0,600.0,10,9000,1.0,"ncclDevKernel_AllReduce(int, int)"\n',
    "prometheus-json": '{"status":"success","data":{"resultType":"matrix","result":[{"metric":'
    '{"__name__":"vllm:num_requests_waiting","engine":"0","model_name":"tiny"},"values":[[1700000000,"3"],[1700000015,"7"]]}]}}',
    "dcgm-exporter": "# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).\n# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n"
    'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",modelName="NVIDIA T"} 98\n',
    "dcgmi-dmon": "#Entity   GPUTL   POWER\nID                W\nGPU 0     97      310.5\nGPU 0     98      311.5\n",
    "amd-smi": "GPU: 0\n    USAGE:\n        GFX_ACTIVITY: 97 %\n    POWER:\n        SOCKET_POWER: 612 W\n",
    "amd-smi-json": '[\n {\n  "gpu": 0,\n  "usage": {\n   "gfx_activity": {\n    "value": 97,\n    "unit": "%"\n   }\n  }\n }\n]\n',
    "numactl": "available: 2 nodes (0-1)\nnode 0 cpus: 0 1 2 3\nnode 0 size: 15947 MB\nnode 0 free: 9000 MB\n",
    "py-spy-dump": 'Process 711: VLLM::EngineCore\nPython v3.12.3 (/usr/bin/python3.12)\n\nThread 711 (active+gil): "MainThread"\n'
    "    dequeue (vllm/shm_broadcast.py:766)\n        Arguments:\n            timeout: None\n    run (vllm/core.py:9)\n",
    "folded-stacks": "MainThread;run (vllm/core.py:9);step (vllm/core.py:31) 3\nMainThread;run (vllm/core.py:9);poll (zmq/poll.py:106) 1\n",
    "nsys-sqlite": "SQLite format 3\x00",
    "nsys-stats-text": """ ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

| Time (%) | Total Time (ns) | Instances | Name |
|     28.9 |     29131334735 |     42384 | ncclDevKernel_AllReduce |
""",
    "torch-key-averages": """                 Name    Self CPU %     Self CUDA   Self CUDA %    # of Calls
             aten::mm         2.17%     107.738ms        86.74%           180
Self CUDA time total: 124.210ms
""",
    "top": """top - 22:12:34 up 3 days,  9:49,  0 users,  load average: 10.32, 7.18, 3.86
Threads: 105 total,   1 running
%Cpu(s): 12.5 us,  2.1 sy
MiB Mem : 2063184.+total, 1119808.+free

    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND
2532738 root      20   0  522.6g  67.2g  64.7g S  99.9   3.3   3:23.82 VLLM::W+
""",
    "pidstat": "#      Time   UID       PID    %usr %system    %CPU  Command\n 1646859221     0       711    97.00    1.00   98.00  python3\n",
    "mpstat": "03:15:06 PM  CPU    %usr   %nice    %sys   %idle\n03:15:06 PM  all    0.22    0.00    0.37   99.40\n",
    "iostat": "avg-cpu:  %user   %nice   %idle\n           0.14    0.00   99.70\n",
    "vmstat": "procs ---memory--- ---swap--\n r  b   swpd   free   si   so\n 2  1      7 279471    5    6\n",
    "free": "              total        used        free\nMem:        2017300      242740      478228\nSwap:       2097148         268     2096880\n",
    "meminfo": "MemTotal:        3997272 kB\nMemFree:         2760316 kB\nSwapTotal:       3996668 kB\n",
    "llama-benchy": "| model | test | t/s | peak t/s |\n|:--|--:|--:|--:|\n| tiny | tg32 | 59.10 ± 1.20 | 61.00 |\n",
    "perf-stat": " Performance counter stats for 'system wide':\n\n          1,000.00 MiB  uncore_imc/data_reads/\n            907.35 MiB  uncore_imc/data_writes/\n\n      10.000000000 seconds time elapsed\n",
    "ncu": "  fp8_quant_kernel (1, 1, 1)x(128, 1, 1)\n    dram__bytes_read.sum                Mbyte           12.50\n    dram__bytes_write.sum               Kbyte          500.00\n",
    "dmidecode": "Handle 0x1100, DMI type 17\nMemory Device\n\tTotal Width: 72 bits\n\tSize: 32 GB\n\tSpeed: 4800 MT/s\n\tConfigured Memory Speed: 4400 MT/s\n",
    "lscpu": "Architecture:          x86_64\nCPU(s):                96\nSocket(s):             2\n",
    "sglang-metrics": "# HELP sglang:num_queue_reqs The number of requests in the waiting queue.\n# TYPE sglang:num_queue_reqs gauge\n"
    'sglang:num_queue_reqs{engine_type="unified",model_name="tiny"} 3.0\n',
    "aiperf-json": '{\n "request_throughput": {"unit": "requests/sec", "avg": 12.34},\n "time_to_first_token": {\n  "avg": 42.7,\n  "p99": 99.5,\n  "unit": "ms"\n }\n}',
    "aiperf-csv": "Metric,avg,min,max,p99,p50\nTime to First Token (ms),42.70,20.00,120.10,99.50,40.20\n",
    "nvidia-smi-list": "GPU 0: NVIDIA T (UUID: GPU-5269b708-678a)\n  MIG 1g.18gb     Device  3: (UUID: MIG-00000003-0003)\n",
    "qacct": "==========\nqname        gpu.q\nhostname     node7\njobname      serve\njobnumber    42\nexit_status  137                  (Killed)\n",
    "slurm-messages": "slurmstepd: error: Detected 1 oom_kill event in StepId=42.0. Some of the step tasks have been OOM Killed.\n",
    "qstat-f": "Job Id: 42.head\n    Job_Name = serve\n    resources_used.walltime = 02:00:03\n    Resource_List.walltime = 02:00:00\n    Exit_status = 271\n",
    "sacct": "JobID|State|ExitCode|Elapsed\n42|TIMEOUT|0:0|02:00:10\n",
    "kubectl-describe": "Name:             server-0\nNamespace:        default\nPriority:         0\n    Last State:     Terminated\n      Reason:       OOMKilled\nQoS Class: Burstable\n",
    "kubectl-events": "25m   Warning   Unhealthy   pod/server-0   Liveness probe failed\n",
    "dmesg": "[ 1.0] Out of memory: Killed process 711 (python3) total-vm:10kB, anon-rss:7529332kB\n"
    "[ 2.0] NVRM: Xid (PCI:0000:b3:00): 79, pid=711, name=python3, GPU has fallen off the bus.\n",
    "ray-log": "[2026-06-20 22:44:59,238 E 128 128] (raylet) worker_pool.cc:502: Some workers failed to start.\n",
    "gpu-series-csv": "ts,index,temp_c,util_pct\n1,0,50,10\n2,0,54,97\n",
    "cpu-series-csv": "ts,cpu_busy_pct,cpu_user_pct\n1,10,9\n2,17.5,16\n",
}

READINGS: dict[str, tuple[str, str, object, int | tuple[int, ...] | None]] = {
    "prometheus-text": ("preemptions", "", 7, (3, 4)),
    "torch-chrome-trace": ("gpu busy share", "", 1.0, None),
    "docker-inspect": ("OOMKilled", "", False, 4),
    "guidellm-json": ("guidellm_version", "", "0.5.0", 3),
    "guidellm-text": ("TTFT median", "constant@0.50", 54.5, 6),
    "vllm-bench-offline-text": ("output throughput", "", 320.0, 1),
    "vllm-bench-offline-json": ("p99 latency", "", 1.3, 9),
    "vllm-bench-json": ("mean_ttft_ms", "", 21.5, 4),
    "llmperf-json": ("results_ttft_s mean", "", 0.25, 4),
    "rocm-smi-json": ("GPU use (%)", "card0", "97", 3),
    "rocm-smi": ("GPU%", "gpu 0", 99, 3),
    "xpu-smi": ("GPU Utilization (%)", "gpu 1", 42, 2),
    "nvidia-smi-xml": ("product", "GPU 00000000:01:00.0", "NVIDIA T", 5),
    "nvidia-smi-q": ("pcie width current", "GPU 00000000:01:00.0", "4x", 8),
    "nvidia-smi-pmon": ("sm of python (711)", "gpu 0", 98, 3),
    "nvidia-smi-dmon": ("sm", "gpu 0", 99, 3),
    "collect-env": ("name", "gpu 0", "NVIDIA T", 7),
    "nvidia-smi-topo": ("link", "GPU0-GPU1", "PHB", 2),
    "nvidia-smi-nvlink": ("links", "gpu 0", 2, 3),
    "nvidia-smi-table": ("utilization", "gpu 0", 97, 5),
    "nvidia-smi-csv": ("power.draw [W]", "", "228.10 W", 2),
    "npu-smi": ("HBM used", "npu 0", 2826, 3),
    "sglang-bench-text": ("Mean TTFT", "", 417.83, 4),
    "vllm-bench-text": ("Mean TTFT", "", 21.5, 3),
    "aiperf-text": ("Request Latency (ms) p99", "", 5707.95, 3),
    "aisbench-text": ("TTFT P99", "", 25381.7, 2),
    "llama-bench-text": ("pp512", "tiny Q8_0", 236.42, 3),
    "llama-bench-json": ("tg128 @ d4096", "tiny", 120.5, 8),
    "llama-bench-csv": ("pp512", "tiny Q8_0", 7100.0, 2),
    "llama-bench-sql": ("tg32", "tiny Q8_0", 119.8, 5),
    "llama-batched-bench": ("S_TG", "batch 4, 128 prompt and 128 generated tokens", 166.28, 3),
    "sglang-bench-one-batch": ("Decode throughput", "", 124.93, 2),
    "nsys-stats-csv": ("Instances", "ncclDevKernel_AllReduce(int, int)", 42384, 2),
    "prometheus-json": ("vllm:num_requests_waiting", "engine 0", 7, None),
    "dcgm-exporter": ("DCGM_FI_DEV_GPU_UTIL", "gpu 0", 98, 3),
    "dcgmi-dmon": ("POWER", "gpu 0", 311.5, 4),
    "amd-smi": ("gfx_activity", "gpu 0", 97, 3),
    "amd-smi-json": ("gfx_activity", "gpu 0", 97, 6),
    "numactl": ("cpus", "node 0", 4, 2),
    "py-spy-dump": ("active+gil in", "thread 711 MainThread", "dequeue (vllm/shm_broadcast.py:766)", 5),
    "folded-stacks": ("samples in", "step (vllm/core.py)", 75.0, None),
    "nsys-stats-text": ("Total Time (ns)", "ncclDevKernel_AllReduce", 29131334735, 4),
    "torch-key-averages": ("# of Calls", "aten::mm", 180, 2),
    "top": ("cpu of VLLM::W+", "thread 2532738", 99.9, 7),
    "pidstat": ("cpu of python3", "pid 711", 98.0, 2),
    "mpstat": ("%idle", "cpu all", 99.4, 2),
    "iostat": ("line", "", "avg-cpu:  %user   %nice   %idle", 1),
    "vmstat": ("swpd", "", 7, 3),
    "free": ("mem total", "", 2017300, 2),
    "meminfo": ("MemTotal", "", 3997272, 1),
    "llama-benchy": ("tg32", "tiny", 59.1, 3),
    "perf-stat": ("memory bandwidth", "", 0.2, (3, 4, 6)),
    "ncu": ("dram__bytes_read", "", 12500000, None),
    "dmidecode": ("speed of a module", "", 4400, 6),
    "lscpu": ("sockets", "", 2, 3),
    "sglang-metrics": ("waiting", "", 3, 3),
    "aiperf-json": ("time_to_first_token p99", "", 99.5, 5),
    "aiperf-csv": ("Time to First Token p50", "", 40.2, 2),
    "nvidia-smi-list": ("part of the card", "gpu 0 device 3", "MIG 1g.18gb", 2),
    "qacct": ("exit_status", "", 137, 6),
    "slurm-messages": ("step", "", "42.0", 1),
    "qstat-f": ("asked for walltime", "", "02:00:00", 4),
    "sacct": ("State", "job 42", "TIMEOUT", 2),
    "kubectl-describe": ("reason", "", "OOMKilled", 5),
    "kubectl-events": ("event", "", "25m Warning Unhealthy pod/server-0 Liveness probe failed", 1),
    "dmesg": ("xid", "gpu 0000:b3:00", 79, 2),
    "ray-log": ("severity and source", "raylet", "E worker_pool.cc:502", 1),
    "gpu-series-csv": ("max util_pct", "", 97, 3),
    "cpu-series-csv": ("max cpu_busy_pct", "", 17.5, 3),
}
