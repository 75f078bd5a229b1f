"""All that is read of a file: each value with its unit, subject and line, and nothing else, as a person would copy it."""

from __future__ import annotations

import pytest

from tests.tables import for_each
from vllm_logdoctor.evidence.model import EvidenceFile, Reading, number_or_text
from vllm_logdoctor.evidence.read import read_evidence

Row = tuple[object, ...]
"""Name, value, and where it has them unit, subject and line."""


def rows_of(text: str) -> list[Row]:
    return [
        (one.name, one.value, one.unit, one.subject, one.line)
        for one in read_evidence("file", text.encode()).readings
    ]


KERNEL = """[Mon Nov 23 10:00:01 2026] Out of memory: Killed process 711 (python3) total-vm:10kB, anon-rss:7529332kB
[Mon Nov 23 10:00:02 2026] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),task=python3,pid=711,uid=0
[Mon Nov 23 10:00:03 2026] NVRM: Xid (PCI:0000:b3:00): 79, pid=711, name=python3, GPU has fallen off the bus.
[Mon Nov 23 10:00:04 2026] NVRM: The NVIDIA GPU 0000:b3:00.0
[Mon Nov 23 10:00:05 2026] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build
[Mon Nov 23 10:00:06 2026] pt_main_thread[25]: segfault at 7f79 ip 00007f sp 00007f error 4 in libnccl.so.2[7f7c+1]
[Mon Nov 23 10:00:07 2026] usb 1-1: new device
"""

TABLE = """| NVIDIA-SMI 570.10                 Driver Version: 570.10         CUDA Version: 12.8     |
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
|   0  NVIDIA T                       On  |   00000000:83:00.0 Off |                    0 |
| N/A   52C    P0            228W /  300W |   12362MiB /  24576MiB |     97%      Default |
|    0   N/A  N/A             711      C   python3                               12034MiB |
"""

QUERY = """==============NVSMI LOG==============

Timestamp                                 : Mon Nov 23 10:00:01 2026
Driver Version                            : 570.1
CUDA Version                              : 12.8

Attached GPUs                             : 2
GPU 00000000:01:00.0
    Product Name                          : NVIDIA T
    Performance State                     : P0
    Clocks Event Reasons
        SW Power Cap                      : Active
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Not Active
    GPU Link Info
        PCIe Generation
            Max                           : 4
            Current                       : 1
        Link Width
            Max                           : 16x
            Current                       : 4x
    FB Memory Usage
        Total                             : 24576 MiB
        Used                              : 12362 MiB
    BAR1 Memory Usage
        Total                             : 256 MiB
        Used                              : 5 MiB
    Utilization
        GPU                               : 97 %
        Memory                            : 43 %
    Temperature
        GPU Current Temp                  : 61 C
        Memory Current Temp               : N/A
    GPU Power Readings
        Average Power Draw                : N/A
        Instantaneous Power Draw          : 250.10 W
        Current Power Limit               : 300.00 W
        Enforced Power Limit              : 290.00 W
    Clocks
        SM                                : 1410 MHz
    Max Clocks
        SM                                : 1980 MHz
    Processes
        Process ID                        : 711
            Used GPU Memory               : 12034 MiB
        Process ID                        : 712
            Used GPU Memory               : 6 MiB

GPU 00000000:02:00.0
    Product Name                          : NVIDIA U
    Power Readings
        Power Draw                        : 20.00 W
        Power Limit                       : 70.00 W
"""

XML = """<?xml version="1.0" ?>
<nvidia_smi_log>
  <driver_version>570.1</driver_version>
  <cuda_version>12.8</cuda_version>
  <gpu id="00000000:01:00.0">
    <product_name>NVIDIA T</product_name>
    <fb_memory_usage>
      <total>24576 MiB</total>
      <reserved>300 MiB</reserved>
      <used>12362 MiB</used>
    </fb_memory_usage>
    <bar1_memory_usage>
      <used>5 MiB</used>
    </bar1_memory_usage>
    <clocks>
      <sm_clock>1410 MHz</sm_clock>
    </clocks>
    <max_clocks>
      <sm_clock>1980 MHz</sm_clock>
    </max_clocks>
    <clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap>
  </gpu>
  <gpu id="00000000:02:00.0">
    <product_name>NVIDIA U</product_name>
    <gpu_temp>61 C</gpu_temp>
  </gpu>
</nvidia_smi_log>
"""

GUIDELLM = """Args: {"target": "http://127.0.0.1:8000", "model": "tiny"}
Metadata     | Request Stats         || Out Tok/sec| Req Latency (ms)||| TTFT (ms)          ||
    Benchmark| Per Second| Concurrency|        mean| mean| median|  p99|  mean| median|    p99
-------------|-----------|------------|------------|-----|-------|-----|------|-------|-------
constant     |       0.25|        1.00|        64.0| 4.00|   3.90| 4.50|  50.0|   49.0|   60.0
constant     |       0.50|        2.00|       128.0| 4.10|   4.00| 4.60|  55.0|   54.5|   70.0
==============================================================================================
"""


@for_each(
    ("text", "expected"),
    [
        (KERNEL, [
            ("oom killed", "711 python3", "", "", 1), ("anon-rss of the killed", 7529332, "kB", "", 1), ("xid", 79, "", "gpu 0000:b3:00", 3),
            ("xid process", "711 python3", "", "gpu 0000:b3:00", 3), ("fallen off the bus", True, "", "", 3), ("device", "0000:b3:00.0", "", "", 4),
            ("driver", "570.86.10", "", "", 5), ("segfault", "25 pt_main_thread", "", "libnccl.so.2", 6),
        ]),
        ("[ 1.0] NVRM: Xid (PCI:0000:b3:00): 43\n", [("xid", 43, "", "gpu 0000:b3:00", 1)]),
        ("Aug 28 17:02:17 n systemd[1]: vllm.service: Scheduled restart job, restart counter is at 3.\n", [("unit restarts", 3, "", "vllm.service", 1)]),
        (TABLE, [
            ("driver", "570.10", "", "", 1), ("cuda", "12.8", "", "", 1), ("name", "NVIDIA T", "", "gpu 0", 3), ("bus", "00000000:83:00.0", "", "gpu 0", 3),
            ("temperature", 52, "C", "gpu 0", 4), ("power draw", 228, "W", "gpu 0", 4), ("power limit", 300, "W", "gpu 0", 4),
            ("memory used / total", "12362MiB /  24576MiB", "", "gpu 0", 4), ("utilization", 97, "%", "gpu 0", 4),
            ("memory of process 711 python3", 12034, "MiB", "gpu 0", 5),
        ]),
        (QUERY, [
            ("driver", "570.1", "", "", 4), ("cuda", "12.8", "", "", 5),
            *((name, value, unit, "GPU 00000000:01:00.0", line) for name, value, unit, line in (
                ("product", "NVIDIA T", "", 9), ("performance state", "P0", "", 10), ("sw power cap", "Active", "", 12), ("hw thermal slowdown", "Not Active", "", 14),
                ("pcie gen max", 4, "", 17), ("pcie gen current", 1, "", 18), ("pcie width max", "16x", "", 20), ("pcie width current", "4x", "", 21),
                ("memory total", 24576, "MiB", 23), ("memory used", 12362, "MiB", 24), ("gpu utilization", 97, "%", 29), ("memory utilization", 43, "%", 30),
                ("gpu temperature", 61, "C", 32), ("memory temperature", "N/A", "", 33), ("average power draw", "N/A", "", 35), ("power draw", 250.1, "W", 36),
                ("power limit", 300.0, "W", 37), ("enforced power limit", 290.0, "W", 38), ("sm clock", 1410, "MHz", 40), ("sm clock max", 1980, "MHz", 42),
                ("process", 711, "", 44), ("process memory", 12034, "MiB", 45), ("process", 712, "", 46), ("process memory", 6, "MiB", 47),
            )),
            ("product", "NVIDIA U", "", "GPU 00000000:02:00.0", 50), ("power draw", 20.0, "W", "GPU 00000000:02:00.0", 52), ("power limit", 70.0, "W", "GPU 00000000:02:00.0", 53),
        ]),
        (XML, [
            ("driver", "570.1", "", "", 3), ("cuda", "12.8", "", "", 4),
            *((name, value, "", "GPU 00000000:01:00.0", line) for name, value, line in (
                ("product", "NVIDIA T", 6), ("memory total", "24576 MiB", 8), ("memory used", "12362 MiB", 10), ("sm clock", "1410 MHz", 16), ("sw power cap", "Active", 21),
            )),
            ("product", "NVIDIA U", "", "GPU 00000000:02:00.0", 24), ("temperature", "61 C", "", "GPU 00000000:02:00.0", 25),
        ]),
        # Processes of many cards and rows of many samples: the first twenty, and the last sixteen.
        ("".join(TABLE.splitlines(keepends=True)[:2]) + "".join(f"|    {n}   N/A  N/A             {700 + n}      C   python3                               {n}MiB |\n" for n in range(22)), [
            ("driver", "570.10", "", "", 1), ("cuda", "12.8", "", "", 1), *((f"memory of process {700 + n} python3", n, "MiB", f"gpu {n}", 3 + n) for n in range(20)),
        ]),
        ("index, name, memory.used [MiB]\n" + "".join(f"{n % 2}, NVIDIA T, {n} MiB\n" for n in range(20)), [
            (name, value, "as printed", str(n % 2), 2 + n) for n in range(4, 20) for name, value in (("name", "NVIDIA T"), ("memory.used [MiB]", f"{n} MiB"))
        ]),
        # A state belongs to the card above it.
        ("".join(TABLE.splitlines(keepends=True)[line] for line in (3, 2, 3)), [
            ("name", "NVIDIA T", "", "gpu 0", 2), ("bus", "00000000:83:00.0", "", "gpu 0", 2), ("temperature", 52, "C", "gpu 0", 3), ("power draw", 228, "W", "gpu 0", 3),
            ("power limit", 300, "W", "gpu 0", 3), ("memory used / total", "12362MiB /  24576MiB", "", "gpu 0", 3), ("utilization", 97, "%", "gpu 0", 3),
        ]),
        ("\tGPU0\tGPU1\tGPU2\tCPU Affinity\nGPU0\t X \tNV4\tSYS\t0-15\nGPU1\tNV4\t X \tPHB\t0-15\nGPU2\tSYS\tPHB\t X \t0-15\n", [
            ("gpus", 3, "count", "", (2, 3, 4)), ("link", "NV4", "", "GPU0-GPU1", 2), ("link", "SYS", "", "GPU0-GPU2", 2), ("link", "PHB", "", "GPU1-GPU2", 3),
        ]),
        ("GPU 0: NVIDIA T (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\nGPU 1: NVIDIA U (UUID: GPU-2)\n" + "".join(f"\t Link {n}: 25 GB/s\n" for n in range(6)), [
            ("name", "NVIDIA T", "", "gpu 0", 1), ("link 0", 26.562, "GB/s", "gpu 0", 2), ("link 1", "inactive", "GB/s", "gpu 0", 3), ("links", 2, "count", "gpu 0", 3),
            ("name", "NVIDIA U", "", "gpu 1", 4), *((f"link {n}", 25, "GB/s", "gpu 1", 5 + n) for n in range(4)), ("links", 6, "count", "gpu 1", 10),
        ]),
        ("GPU 0: NVIDIA T (UUID: GPU-1)\n  MIG 1g.18gb     Device  3: (UUID: MIG-7)\n", [
            ("name", "NVIDIA T", "", "gpu 0", 1), ("uuid", "GPU-1", "", "gpu 0", 1), ("part of the card", "MIG 1g.18gb", "", "gpu 0 device 3", 2), ("uuid", "MIG-7", "", "gpu 0 device 3", 2),
        ]),
        ("# gpu         pid   type     sm    mem    command\n# Idx           #    C/G      %      %    name\n    0        711      C     98     40    python\n    1        712      C      -      -    ray\n", [
            ("columns", ["gpu", "pid", "type", "sm", "mem", "command"], "", "", 1), ("rows", 2, "count", "", (3, 4)),
            ("sm of python (711)", 98, "%", "gpu 0", 3), ("sm of ray (712)", "-", "%", "gpu 1", 4),
        ]),
        ("# gpu    sm    mem\n# Idx      %      %\n" + "".join(f"    0     {n}     43\n" for n in range(10, 16)), [
            ("columns", ["gpu", "sm", "mem"], "", "", 1), ("rows", 6, "count", "", (3, 8)),
            *((name, value, "", "gpu 0", 5 + n) for n in range(4) for name, value in (("sm", 12 + n), ("mem", 43))),
        ]),
        ("Fri\n# gpu    sm    mem\n# Idx      %      %\n", [("columns", ["gpu", "sm", "mem"], "", "", 2), ("rows", 0, "count", "", 2)]),
        ("# gpu    sm    mem\n# Idx      %      %\n    0     7     4\n", [
            ("columns", ["gpu", "sm", "mem"], "", "", 1), ("rows", 1, "count", "", (3,)), ("sm", 7, "", "gpu 0", 3), ("mem", 4, "", "gpu 0", 3),
        ]),
        ("name, index, memory.used [MiB], something.else\nNVIDIA T, 0, 12362 MiB, 3\nNVIDIA T, 1, 5 MiB, 3\n", [
            ("name", "NVIDIA T", "as printed", "0", 2), ("memory.used [MiB]", "12362 MiB", "as printed", "0", 2),
            ("name", "NVIDIA T", "as printed", "1", 3), ("memory.used [MiB]", "5 MiB", "as printed", "1", 3),
        ]),
        ("              total        used        free\nMem:        2017300      242740      478228\nSwap:       2097148         268     2096880\n", [
            ("mem total", 2017300, "", "", 2), ("mem used", 242740, "", "", 2), ("mem free", 478228, "", "", 2),
            ("swap total", 2097148, "", "", 3), ("swap used", 268, "", "", 3), ("swap free", 2096880, "", "", 3),
        ]),
        ("MemTotal:        3997272 kB\nMemFree:   2760316 kB\nHugePages_Total:       4\nActive:  5 kB\n", [("MemTotal", 3997272, "kB", "", 1), ("MemFree", 2760316, "kB", "", 2), ("HugePages_Total", 4, "count", "", 3)]),
        ("procs ---memory--- ---swap--\n r  b   swpd   free   si   so\n 2  1      7 279471    5    6\n 3  1      7 279470    0    1\n", [
            *((name, value, "", "", 3) for name, value in zip(("r", "b", "swpd", "free", "si", "so"), (2, 1, 7, 279471, 5, 6), strict=True)),
            *((name, value, "", "", 4) for name, value in zip(("r", "b", "swpd", "free", "si", "so"), (3, 1, 7, 279470, 0, 1), strict=True)),
        ]),
        ("03:15:06 PM  CPU    %usr   %nice   %idle\n03:15:06 PM  all    0.22   0.00   99.40\n03:15:06 PM    0   97.00    2.00    1.00\n\n03:15:07 PM  CPU    %usr   %nice   %idle\n", [
            ("%usr", 0.22, "%", "cpu all", 2), ("%nice", 0.0, "%", "cpu all", 2), ("%idle", 99.4, "%", "cpu all", 2), ("%usr", 97.0, "%", "cpu 0", 3), ("%nice", 2.0, "%", "cpu 0", 3), ("%idle", 1.0, "%", "cpu 0", 3),
        ]),
        ("#      Time   UID       PID    %usr %system    %CPU  Command\n 1646859221     0       711    97.00    1.00   98.00  python3\n 1646859221     0       712    99.00    0.50   99.50  ray worker\n", [
            ("cpu of ray worker", 99.5, "%", "pid 712", 3), ("cpu of python3", 98.0, "%", "pid 711", 2),
            ("%usr", 97.0, "", "pid 711", 2), ("%system", 1.0, "", "pid 711", 2), ("%usr", 99.0, "", "pid 712", 3), ("%system", 0.5, "", "pid 712", 3),
        ]),
        ("CPU NODE SOCKET CORE ONLINE\n  0    0      0    0    yes\n  1    0      0    0    yes\n  2    1      1    0    yes\n  3    1      1    -     no\n", [
            ("cpus", 3, "count", "", (2, 4)), ("cores", 2, "count", "", (2, 4)), ("sockets", 2, "count", "", (2, 4)), ("numa nodes", 2, "count", "", (2, 4)),
        ]),
        ("available: 2 nodes (0-1)\nnode 0 cpus: 0 1 2 3\nnode 0 size: 15947 MB\nnode 1 cpus:\nnode 1 free: 9000 MB\n", [
            ("numa nodes", 2, "count", "", 1), ("cpus", 4, "count", "node 0", 2), ("size", 15947, "MB", "node 0", 3), ("cpus", 0, "count", "node 1", 4), ("free", 9000, "MB", "node 1", 5),
        ]),
        ("ts,cpu_busy_pct,note\n1,10,a\n2,17.5,b\n3,17.5,c\n", [
            ("columns", ["ts", "cpu_busy_pct", "note"], "", "", 1), ("rows", 3, "count", "", (2, 4)), ("max ts", 3, "", "", 4), ("max cpu_busy_pct", 17.5, "", "", 3),
        ]),
        ('Process 711: VLLM::EngineCore\nPython v3.12.3 (/usr/bin/python3.12)\n\nThread 711 (active+gil): "MainThread"\n    dequeue (vllm/shm_broadcast.py:766)\n    run (vllm/core.py:9)\nThread 712 (idle)\n    wait (threading.py:1)\n', [
            ("process", "711 VLLM::EngineCore", "pid name", "", 1), ("active+gil in", "dequeue (vllm/shm_broadcast.py:766)", "", "thread 711 MainThread", 5), ("idle in", "wait (threading.py:1)", "", "thread 712", 8),
        ]),
        # Of ten samples eight are in the engine's step, two of these in the scheduler.
        ("run (vllm/v1/engine/core.py:9);step (vllm/v1/engine/core.py:31);schedule (vllm/v1/core/sched/scheduler.py:7) 2\nrun (vllm/v1/engine/core.py:9);step (vllm/v1/engine/core.py:32);execute (vllm/x.py:4) 6\nrun (vllm/v1/engine/core.py:9);poll (zmq/poll.py:106) 2\n", [
            ("share of a step", 25.0, "%", "scheduling", None), ("share of a step", 0.0, "%", "serialization", None),
            ("samples in", 60.0, "%", "execute (vllm/x.py)", None), ("samples in", 20.0, "%", "schedule (vllm/v1/core/sched/scheduler.py)", None), ("samples in", 20.0, "%", "poll (zmq/poll.py)", None),
        ]),
        (GUIDELLM, [
            ("model", "tiny", "", "", 1),
            *(
                (name, value, unit, subject, line)
                for subject, line, values in (("constant", 5, (0.25, 1.0, 64.0, 4.0, 3.9, 4.5, 50.0, 49.0, 60.0)), ("constant 2", 6, (0.5, 2.0, 128.0, 4.1, 4.0, 4.6, 55.0, 54.5, 70.0)))
                for (name, unit), value in zip((
                    ("Request Stats Per Second", ""), ("Request Stats Concurrency", ""), ("Out Tok/sec mean", ""), ("Req Latency mean", "s"), ("Req Latency median", "s"),
                    ("Req Latency p99", "s"), ("TTFT mean", "ms"), ("TTFT median", "ms"), ("TTFT p99", "ms"),
                ), values, strict=True)
            ),
        ]),
        # Figures per request are no speed, a row of another width is of no column, and a new table has new heads.
        ("| Benchmark | Request Latency || Output Tokens ||||\n| Strategy  | Sec | Sec | Per Req | Per Sec ||\n|           | Mdn | p95 | Mdn     | Mdn | Mean |\n|-----------|-----|-----|---------|-----|------|\n"
         "| constant  | 4.5 | 5.5 | 128.0   | 640.5 | n/a |\n| constant | 7.5 |\n|-----------|-----|-----|---------|-----|------|\n| Benchmark | TTFT ||\n| Strategy  | ms | ms |\n|           | Mdn | p95 |\n|----|----|----|\n| constant | 21.5 | 31.5 |\n", [
            ("Request Latency median", 4.5, "s", "constant", 5), ("Request Latency p95", 5.5, "s", "constant", 5), ("Output Tokens Per Sec median", 640.5, "", "constant", 5),
            ("TTFT median", 21.5, "ms", "constant", 12), ("TTFT p95", 31.5, "ms", "constant", 12),
        ]),
        ("Traffic request rate: 4.0\nOther words: 7\n= Serving Benchmark Result =\nSuccessful requests:   10\nMean TTFT (ms):   21.50\n====\nAfter it: 5\n", [
            ("Traffic request rate", 4.0, "", "", 1), ("Successful requests", 10, "", "", 4), ("Mean TTFT", 21.5, "ms", "", 5),
        ]),
        ("Throughput: 2.50 requests/s, 900.00 total tokens/s, 320.00 output tokens/s\nTotal num prompt tokens:  5800\nTotal num output tokens:  900\n", [
            ("requests throughput", 2.5, "requests/s", "", 1), ("total throughput", 900.0, "tokens/s", "", 1), ("output throughput", 320.0, "tokens/s", "", 1),
            ("Total num prompt tokens", 5800, "tokens", "", 2), ("Total num output tokens", 900, "tokens", "", 3),
        ]),
        ("Namespace(seed=0, model='tiny')\nAvg latency: 1.25 seconds\n10% percentile latency: 1.2 seconds\n", [("model", "tiny", "", "", 1), ("average latency", 1.25, "s", "", 2), ("p10 latency", 1.2, "s", "", 3)]),
        ('{\n "request_throughput": {"unit": "requests/sec", "avg": 12.34},\n "time_to_first_token": {\n  "avg": 42.7,\n  "p99": 99.5,\n  "min": 1.0,\n  "unit": "ms"\n }\n}', [
            ("request_throughput avg", 12.34, "requests/sec", "", 2), ("time_to_first_token avg", 42.7, "ms", "", 4), ("time_to_first_token p99", 99.5, "ms", "", 5),
        ]),
        ("Metric,avg,min,max,p99,p50\nTime to First Token (ms),42.70,20.00,120.10,99.50,40.20\nshort,1\n\nMetric,Value\nRequest Count,8\n", [
            ("Time to First Token avg", 42.7, "ms", "", 2), ("Time to First Token p50", 40.2, "ms", "", 2), ("Time to First Token p99", 99.5, "ms", "", 2), ("Request Count Value", 8, "", "", 6),
        ]),
        ("   NVIDIA AIPerf | LLM Metrics\n┃ Metric ┃ avg ┃ p99 ┃\n│ Request Latency (ms) │ 3,651.23 │ 5,707.95 │\n│ Name │ N/A │ N/A │\n", [
            ("Request Latency (ms) avg", 3651.23, "", "", 3), ("Request Latency (ms) p99", 5707.95, "", "", 3),
        ]),
        # A metric has a name and as many cells as the head; its unit may stand in the cell.
        ("   NVIDIA AIPerf | LLM Metrics\n│ Before the head │ 1.5 │ 2.5 │ 3.5 │\n┃ Metric ┃ avg ┃ p99 ┃ p50 ┃\n│ Latency (ms) │ 3.5 │ 5.5 │ 3.0 │\n│  │ 1.5 │ 2.5 │ 1.0 │\n│ Other (ms) │ 1.5 │ N/A │\n│ Last │ 7 s │ 8 s │ 6 s │\n", [
            ("Latency (ms) avg", 3.5, "", "", 4), ("Latency (ms) p99", 5.5, "", "", 4), ("Latency (ms) p50", 3.0, "", "", 4),
            ("Last avg", 7, "s", "", 7), ("Last p99", 8, "s", "", 7), ("Last p50", 6, "s", "", 7),
        ]),
        ("│ Performance Parameters   │ Stage   │ Average         │ P99            │ Median │\n│ TTFT                     │ total   │ 7437.1 ms       │ 25381.7 ms     │ 7000 ms │\n", [
            ("TTFT Average", 7437.1, "ms", "", 2), ("TTFT P99", 25381.7, "ms", "", 2), ("TTFT Median", 7000, "ms", "", 2),
        ]),
        ("JobID|State|ExitCode|Elapsed|JobName\n42|TIMEOUT|0:0|02:00:10|serve\n42.batch|CANCELLED||02:00:11|batch\n", [
            ("State", "TIMEOUT", "", "job 42", 2), ("ExitCode", "0:0", "", "job 42", 2), ("Elapsed", "02:00:10", "", "job 42", 2),
            ("State", "CANCELLED", "", "job 42.batch", 3), ("Elapsed", "02:00:11", "", "job 42.batch", 3),
        ]),
        ("JobID           State ExitCode     MaxRSS\n------------ ---------- -------- ----------\n42           OUT_OF_ME+    0:125\n42.batch        FAILED      1:0      15.8G\n", [
            ("State", "OUT_OF_ME+", "", "job 42", 3), ("ExitCode", "0:125", "", "job 42", 3),
            ("State", "FAILED", "", "job 42.batch", 4), ("ExitCode", "1:0", "", "job 42.batch", 4), ("MaxRSS", "15.8G", "", "job 42.batch", 4),
        ]),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=42.0. Some of the step tasks have been OOM Killed.\nother\nsrun: error: node7: task 0: Out Of Memory\n", [
            ("message", "error: Detected 1 oom_kill event in StepId=42.0. Some of the step tasks have been OOM Killed.", "as printed", "", 1), ("step", "42.0", "", "", 1),
            ("message", "error: node7: task 0: Out Of Memory", "as printed", "", 3), ("host", "node7", "", "", 3),
        ]),
        ("NAME     READY   STATUS             RESTARTS      AGE\nserver-0   0/1     CrashLoopBackOff   5 (2m30s ago)   13m\nQoS Class: Burstable\nLast State:     Terminated\n  Reason:       OOMKilled\n  Exit Code:    137\n      vllm serve tiny --port 8000\n", [
            ("pod status", "CrashLoopBackOff", "", "server-0", 2), ("restarts", 5, "count", "server-0", 2), ("qos class", "Burstable", "", "", 3), ("last state", "Terminated", "", "", 4),
            ("reason", "OOMKilled", "", "", 5), ("exit code", 137, "", "", 6), ("command", "vllm serve tiny --port 8000", "", "", 7),
        ]),
        ("25m   Warning   Unhealthy   pod/server-0   Liveness probe failed\n", [("event", "25m Warning Unhealthy pod/server-0 Liveness probe failed", "as printed", "", 1)]),
        ('[{\n "State": {\n  "Status": "exited",\n  "OOMKilled": false,\n  "ExitCode": 137,\n  "Pid": 0\n }\n}]', [("Status", "exited", "", "", 3), ("OOMKilled", False, "", "", 4), ("ExitCode", 137, "", "", 5)]),
        ("[2026-06-20 22:44:59,238 E 128 128] (raylet) worker_pool.cc:502: Some workers failed to start.\n" + "[2026-06-20 22:45:00,000 I 128 128] main.cc:1: Running\n" * 5 + "[2026-06-20 22:46:00,000 W 128 128] main.cc:9: Slow\n", [
            ("severity and source", "E worker_pool.cc:502", "", "raylet", 1), ("message", "Some workers failed to start.", "", "raylet", 1),
            *(("severity and source", "I main.cc:1", "", "", line) for line in (2, 3, 4)), ("severity and source", "W main.cc:9", "", "", 7), ("message", "Slow", "", "", 7),
        ]),
        # The last sample of each card, and the mean of all where they say how long the memory was active.
        ("#Entity   DRAMA   POWER\nID                W\nGPU 0     0.97      310.5\nGPU 1     0.10      90\nGPU 0     0.98      311.5\n", [
            ("columns", ["DRAMA", "POWER"], "", "", 1), ("DRAMA", 0.98, "", "gpu 0", 5), ("POWER", 311.5, "", "gpu 0", 5), ("memory active", 97.5, "%", "gpu 0", 5),
            ("DRAMA", 0.1, "", "gpu 1", 4), ("POWER", 90, "", "gpu 1", 4), ("memory active", 10.0, "%", "gpu 1", 4),
        ]),
    ],
)  # fmt: skip
def test_all_values_of_a_file(text: str, expected: list[Row]) -> None:
    assert rows_of(text) == expected


def test_a_line_of_the_kernel_has_its_clock() -> None:
    clocks = {
        "[Mon Nov 23 10:00:01 2026]": "Mon Nov 23 10:00:01 2026", "Nov 23 10:00:01 n kernel:": "Nov 23 10:00:01",
        "kern  :warn  : 2026-11-23T10:00:01,285060+00:00": "2026-11-23T10:00:01", "[   12.5]": "",
    }  # fmt: skip
    for printed, clock in clocks.items():
        (reading,) = read_evidence(
            "dmesg",
            f"{printed} NVRM: The NVIDIA GPU 0000:b3:00.0\n{printed} NVRM: Xid (PCI:0000:b3:00): 43\n".encode(),
        ).readings[:1]
        assert reading.time == clock


@pytest.mark.parametrize(
    ("text", "value"),
    [("1,024", 1024), ("0.5", 0.5), (" 7 ", 7), ("N/A", "N/A"), ("1e3", 1000.0), (" x ", "x"), ("", "")],
)
def test_a_cell_is_a_number_where_it_reads_as_one(text: str, value: object) -> None:
    found = number_or_text(text)
    assert (found, type(found)) == (value, type(value))


def test_what_a_file_may_be_joined_by() -> None:
    """Processes of readings on processes alone, cards by their address, and when something began and ended."""
    readings = (
        Reading("memory of process 711 python", 5), Reading("cpu of x", 9, subject="thread 712"), Reading("oom killed", "713 python", time="Mon"),
        Reading("segfault", "713 python", time="Tue"), Reading("utilization", 714), Reading("bus", "00000000:83:00.0"), Reading("xid", 79, subject="gpu 0000:B3:00"),
        Reading("model", "tiny"), Reading("model", "other"), Reading("StartedAt", "10:00"), Reading("mtime", "11:00"), Reading("Elapsed", "1h"),
    )  # fmt: skip
    file = EvidenceFile("x", "y", readings)
    assert file.identity.pids == {"711": ("",), "712": ("",), "713": ("Mon", "Tue")}
    assert file.identity.values == {"model": "tiny"}
    assert [one.value for one in file.identity.times] == ["10:00", "11:00"]
    assert file.cards == {"83:00", "b3:00"}
    assert not file.identity.is_empty
    assert EvidenceFile("x", "y", (Reading("utilization", 714),)).identity.is_empty
