"""Files beside the log are recognized by content, and give the values that a person would copy."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evidence.samples import READINGS, SAMPLES
from tests.tables import for_each
from vllm_logdoctor.evidence.kinds import KINDS, evidence_kind
from vllm_logdoctor.evidence.model import EvidenceFile, Reading
from vllm_logdoctor.evidence.pasted import read_parts
from vllm_logdoctor.evidence.read import MOST_READINGS, read_evidence
from vllm_logdoctor.pipeline import analyse
from vllm_logdoctor.report.markdown import render
from vllm_logdoctor.source import inputs_from

FIXTURES = sorted((Path(__file__).resolve().parents[2] / "fixtures").glob("*.log"))


def test_every_kind_has_a_sample_and_a_reading() -> None:
    assert {kind.name for kind in KINDS} == SAMPLES.keys()
    # A database is no text: tests of the profiles write one.
    assert SAMPLES.keys() - READINGS.keys() == {"nsys-sqlite"}


@for_each("name", SAMPLES)
def test_a_kind_is_recognized_by_content(name: str) -> None:
    kind = evidence_kind(SAMPLES[name])
    assert kind is not None
    assert kind.name == name


@for_each("name", SAMPLES)
def test_no_other_kind_that_is_tried_earlier_claims_a_sample(name: str) -> None:
    claims = [kind.name for kind in KINDS if kind.recognizes(SAMPLES[name])]
    assert claims[0] == name


@for_each("name", READINGS)
def test_a_value_is_read_with_its_line(name: str) -> None:
    wanted, subject, value, line = READINGS[name]
    readings = read_evidence(name, SAMPLES[name].encode()).readings
    found = [one for one in readings if one.name == wanted and one.subject == subject]
    assert [(one.value, one.line) for one in found][:1] == [(value, line)]


@for_each("log", FIXTURES)
def test_a_log_of_a_server_is_no_evidence(log: Path) -> None:
    head = log.read_text(encoding="utf-8", errors="replace")[:65536]
    kind = evidence_kind(head)
    # A benchmark's result may lie in the log of its engine: what such a file is, who gives it decides.
    results = {"vllm-bench-text": "Benchmark Result", "vllm-bench-offline-text": "\nThroughput: "}
    assert kind is None or (kind.name in results and results[kind.name] in head)


def test_a_quantile_is_the_bounds_of_its_bucket_and_never_a_point() -> None:
    readings = {one.name: one for one in read_evidence("m", SAMPLES["prometheus-text"].encode()).readings}
    assert readings["TTFT p95 lies in"].value == [0.1, 1.0]
    assert readings["TTFT mean"].value == 0.5


def test_busy_time_counts_overlapping_kernels_once() -> None:
    readings = {
        one.name: one.value for one in read_evidence("t", SAMPLES["torch-chrome-trace"].encode()).readings
    }
    assert (readings["kernel time"], readings["kernel span"]) == (20, 15)


def test_a_truncated_trace_gives_its_whole_events() -> None:
    whole = SAMPLES["torch-chrome-trace"]
    cut = whole[: whole.index('{"cat": "cpu_op"') + 8]
    readings = {one.name: one.value for one in read_evidence("t", cut.encode()).readings}
    assert readings["kernel events"] == 2


def test_packed_files_are_unpacked_and_truncated_ones_say_so() -> None:
    packed = gzip.compress(SAMPLES["free"].encode())
    assert read_evidence("free.gz", packed).kind == "free"
    assert read_evidence("free.gz", packed[:-6]).note == "truncated gz"


def test_secrets_of_an_environment_are_masked() -> None:
    text = SAMPLES["collect-env"] + "HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345\n"
    shown = str(read_evidence("env.txt", text.encode()).readings)
    assert "HF_TOKEN" in shown
    assert "abcdefghijkl" not in shown


def test_a_file_gives_at_most_so_many_readings_and_says_what_it_left_out() -> None:
    rows = "".join(f"{pid} root 20 0 1 1 1 S 1.0 1.0 0:01 python\n" for pid in range(30))
    cards = "".join(f"GPU {n}: T (UUID: x)\n\t Link 0: 26.5 GB/s\n" for n in range(60))
    assert len(read_evidence("top", (SAMPLES["top"] + rows).encode()).readings) < MOST_READINGS
    found = read_evidence("links", cards.encode())
    assert len(found.readings) == MOST_READINGS
    assert "left out" in found.note


@given(st.sampled_from(sorted(SAMPLES)), st.data())
def test_damaged_files_never_raise(name: str, data: st.DataObject) -> None:
    whole = SAMPLES[name].encode()
    start = data.draw(st.integers(0, len(whole)))
    length = data.draw(st.integers(0, 12))
    junk = data.draw(st.binary(max_size=12))
    damaged = whole[:start] + junk + whole[start + length :]
    assert len(read_evidence(name, damaged).readings) <= MOST_READINGS


SACCT = "JobID           JobName      State ExitCode     MaxRSS\n------------ ---------- ---------- -------- ----------\n"
BOX = "| NVIDIA-SMI 517.40       Driver Version: 517.40       CUDA Version: 11.7     |\n| Volatile Uncorr. ECC |\n"


@for_each(
    ("text", "kind", "name", "value"),
    [
        (f"{SACCT}42             serve OUT_OF_ME+    0:125\n", "sacct", "ExitCode", "0:125"),
        (f"{SACCT}42.batch       batch OUT_OF_ME+    0:125      15.8G\n", "sacct", "MaxRSS", "15.8G"),
        (f"{BOX}|   0  NVIDIA T ... WDDM  | 00000000:01:00.0 Off |\n", "nvidia-smi-table", "bus", "00000000:01:00.0"),
        ("available: 1 nodes (0)\nnode 0 cpus:\nnode 0 size: 9 MB node 0 free: 7 MB\n", "numactl", "free", 7),
        ('"Status": "exited",\n"OOMKilled": true,\n"ExitCode": 137,\n', "docker-inspect", "OOMKilled", True),
        ("= Serving Benchmark Result =\nBackend:  sgl-jax\nMean TTFT (ms):  7.5\n", "sglang-bench-text", "Mean TTFT", 7.5),
        ("[1.0] Memory cgroup out of memory: Killed process 42 (serve) anon-rss:1kB\n", "dmesg", "oom killed", "42 serve"),
        ('vllm:num_preemptions_total{model="tiny",version="1"} 3\n', "prometheus-text", "model", "tiny"),
        (f"{BOX}|   0  NVIDIA T   On |   0000000F:01:00.0 Off | N/A |\n| N/A   38C    P8    2W /  N/A  | Not Supported   |      3%      Default |\n", "nvidia-smi-table", "utilization", 3),
        ("GPU[0]\t\t: GPU use (%): 97\nGPU[0]\t\t: Card series: T\n", "rocm-smi", "GPU use (%)", 97),
        ("| 0     910T                | OK            | 99.0        36                0    / 0             |\n| 0       0                 | 632268        | python3.1          | 197   |\n", "npu-smi", "memory of process 632268 python3.1", 197),
        ("vllm\n    State: Running\n    Last State: Terminated\n      Exit Code: 137\n    Restart Count: 1\n", "kubectl-describe", "exit code", 137),
        ("= Serving Benchmark Result =\nBackend:   sglang-oai \nMean TTFT (ms):  7.5\n", "sglang-bench-text", "Backend", "sglang-oai"),
        ("time,cpu_util_pct,mem_used_gb\n1,12.5,4\n", "cpu-series-csv", "max cpu_util_pct", 12.5),
        ("[1.0] Memory cgroup out of memory: Kill process 42 (serve) score 9\n[1.0] Killed process 42 (serve) anon-rss:1kB\n", "dmesg", "oom killed", "42 serve"),
        ("[1.0] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),task=serve,pid=42,uid=0\n", "dmesg", "oom killed", "42 serve"),
        ("Last State:     Terminated\n  Reason:       OOMKilled\n  Exit Code:    137\n", "kubectl-describe", "reason", "OOMKilled"),
        ("|   0  NVIDIA T   Off | 00000000:01:00.0 Off | N/A |\n| 30%   38C    P8    24W / 350W |   5MiB / 24576MiB |   3%   Default |\n", "nvidia-smi-table", "utilization", 3),
        ("State:{\nDead:false,\nExitCode:137,\nOOMKilled:false,\nStatus:\"exited\"\n}\n", "docker-inspect", "ExitCode", 137),
        ("Nvidia driver version        : 570.86.10\n", "collect-env", "driver", "570.86.10"),
        ("{'status': 'success', 'data': {'resultType': 'vector', 'result': [{'metric': {'model_name': 'tiny'}, 'value': [1, '3']}]}}", "prometheus-json", "model", "tiny"),
        ("Successful requests:   10\nMedian TTFT (ms):   27.5     <====\n", "vllm-bench-text", "Median TTFT", 27.5),
        ("[    0.000000] Linux version 6.18\n[    0.000001] Command line: quiet\n", "dmesg", "faults", 0),
        ("Aug 28 17:02:17 node7 systemd[1]: vllm.service: Main process exited, code=killed, status=9/KILL\n", "dmesg", "main process ended", "killed, status=9/KILL"),
        ("Aug 28 17:02:17 node7 systemd[1]: vllm.service: Failed with result 'oom-kill'.\n", "dmesg", "unit failed", "oom-kill"),
        ("13:43:41      UID      TGID       TID    %usr    %CPU   CPU  Command\n13:43:42        0         -        68    0.98   54.9    1  |__VLLM::Worker\n", "pidstat", "cpu of VLLM::Worker", 54.9),
        ("#           time             counts unit events\n     2.000000000           1,000.00 MiB  uncore_imc/data_reads/\n", "perf-stat", "memory bandwidth", 0.52),
        ("     2.000000000,1000.00,MiB,uncore_imc/data_reads/,2000000000,100.00,,\n", "perf-stat", "memory bandwidth", 0.52),
        ('{"counter-value" : "0.93", "unit" : "msec", "event" : "task-clock", "event-runtime" : 930316, "pcnt-running" : 100.00}\n', "perf-stat", "task-clock", 0.93),
        ('{\n   "lscpu": [\n      {\n         "field": "Socket(s):",\n         "data": "2"\n', "lscpu", "sockets", 2),
        ("policy: bind\nphyscpubind: 0 1\nmembind: 0\n", "numactl", "processors allowed", "0 1"),
        ("kind: Pod\nstatus:\n  containerStatuses:\n  - lastState:\n      terminated:\n        exitCode: 137\n        reason: OOMKilled\n", "kubectl-describe", "reason", "OOMKilled"),
        ('"containerStatuses": [\n {\n  "restartCount": 4,\n', "kubectl-describe", "restart count", 4),
        ("GPU0\tCPU Affinity\nGPU0\t X \t0-23\n", "nvidia-smi-topo", "gpus", 1),
        ("GPU: 0\n    POWER:\n        THROTTLE_STATUS: UNTHROTTLED\n", "amd-smi", "throttle_status", "UNTHROTTLED"),
    ],
)  # fmt: skip
def test_a_layout_of_another_release_or_place_is_read(text: str, kind: str, name: str, value: object) -> None:
    found = read_evidence("file", text.encode())
    assert found.kind == kind
    assert next(one.value for one in found.readings if one.name == name) == value


SHOWN = {
    "behind a command": lambda text: f"user@node:~$ some command\n{text}",
    "in a fence": lambda text: f"```text\n{text}\n```\n",
    "below empty lines": lambda text: f"\n\n{text}",
    "indented": lambda text: "\n".join(f"    {line}" for line in text.split("\n")),
    "quoted": lambda text: "\n".join(f"> {line}" for line in text.split("\n")),
    "in colour": lambda text: "\n".join(f"\x1b[1m{line}\x1b[0m" for line in text.split("\n")),
    "with a byte order mark": lambda text: f"\ufeff{text}",
}


@for_each("form", SHOWN)
@for_each("name", sorted(SAMPLES.keys() - {"nsys-sqlite", "torch-chrome-trace", "prometheus-json"}))
def test_what_is_around_the_output_of_a_tool_changes_nothing(name: str, form: str) -> None:
    plain = read_evidence("file", SAMPLES[name].encode())
    text = SHOWN[form](SAMPLES[name])
    found = read_evidence("file", text.encode())
    moved = text.split("\n").index(
        next(line for line in text.split("\n") if SAMPLES[name].split("\n")[0] in line)
    )
    assert found.kind == name
    assert [(one.name, one.value) for one in found.readings] == [
        (one.name, one.value) for one in plain.readings
    ]
    lines = [(one.line, other.line) for one, other in zip(plain.readings, found.readings, strict=True)]
    assert all(
        other == one + moved for one, other in lines if isinstance(one, int) and isinstance(other, int)
    )


@pytest.mark.parametrize("form", ["     {},,", "{}"])
def test_counters_without_a_time_give_no_bandwidth(form: str) -> None:
    # What perf calls run time is of all processors together.
    counter = "1000.00,MiB,uncore_imc/data_reads/,2000000000,100.00"
    found = read_evidence("perf.txt", f"{form.format(counter)},\n".encode()).readings
    assert [one.name for one in found] == ["uncore_imc/data_reads/"]


def test_the_busiest_processes_come_first_however_many_idle_ones_are_printed_before() -> None:
    rows = "".join(
        f"13:43:38        0      {pid}    0.00    0.00    0.00     0  idle\n" for pid in range(100, 300)
    )
    text = f"13:43:37      UID       PID    %usr %system    %CPU   CPU  Command\n{rows}13:43:38 0 711 97.00 1.00 98.00 1 VLLM::EngineCore\n"
    first = read_evidence("pidstat.txt", text.encode()).readings[0]
    assert (first.name, first.value, first.subject) == ("cpu of VLLM::EngineCore", 98.0, "pid 711")


def test_what_powershell_writes_is_read() -> None:
    found = read_evidence("smi.txt", SAMPLES["nvidia-smi-table"].replace("\n", "\r\n").encode("utf-16"))
    assert (found.kind, found.readings[0].value) == ("nvidia-smi-table", "570.10")


def test_a_process_that_the_kernel_names_twice_was_killed_once() -> None:
    text = "[1.0] oom-kill:constraint=CONSTRAINT_NONE,task=serve,pid=42,uid=0\n[1.0] Out of memory: Killed process 42 (serve)\n"
    found = read_evidence("dmesg", text.encode()).readings
    assert [(one.value, one.line) for one in found if one.name == "oom killed"] == [("42 serve", 2)]


def test_cards_on_one_line_of_json_are_kept_apart() -> None:
    text = (
        '{"card0": {"GPU use (%)": "97"}, "card1": {"GPU use (%)": "3"}, "system": {"Driver version": "6.8"}}'
    )
    found = read_evidence("rocm.json", text.encode()).readings
    assert [(one.subject, one.value) for one in found] == [("card0", "97"), ("card1", "3"), ("system", "6.8")]


def test_a_file_that_holds_what_several_tools_print_is_read_as_several(tmp_path: Path) -> None:
    file = tmp_path / "snapshot.txt"
    file.write_text(f"{SAMPLES['nvidia-smi-topo']}\n{SAMPLES['numactl']}\n{SAMPLES['free']}")
    found = read_parts(file)
    assert [(one.kind, one.place) for one in found] == [
        ("nvidia-smi-topo", (1, 4)),
        ("numactl", (5, 9)),
        ("free", (10, 13)),
    ]
    assert found[2].readings[0].line == 11


@pytest.mark.parametrize("name", sorted(SAMPLES.keys() - {"nsys-sqlite"}))
def test_a_file_of_one_tool_stays_one(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(SAMPLES[name])
    assert [one.kind for one in read_parts(tmp_path / "file")] == [name]


@pytest.mark.parametrize(("columns", "values"), [("build_commit,build_number,", "8cf,5163,"), ("", "")])
def test_a_table_of_llama_bench_names_its_build_only_where_it_has_the_column(
    columns: str, values: str
) -> None:
    text = f"{columns}model_type,n_prompt,n_gen,avg_ts,stddev_ts\n{values}tiny,512,0,7100.0,140.3\n"
    found = {one.name: one.value for one in read_evidence("bench.csv", text.encode()).readings}
    assert found["pp512"] == 7100.0
    assert found.get("build") == ("8cf 5163" if columns else None)


@for_each("name", sorted(SAMPLES.keys() - {"llama-bench-text"}))
def test_no_file_of_another_tool_alone_is_a_run(name: str) -> None:
    assert not analyse(inputs_from(SAMPLES[name].encode())).runs


def test_lines_that_collect_env_prints_by_importing_vllm_are_no_run() -> None:
    text = f"INFO 11-21 00:22:17 [__init__.py:239] Automatically detected platform cpu.\n{SAMPLES['collect-env']}"
    assert not analyse(inputs_from(text.encode())).runs


TABLES_OF_A_SWEEP = """✔ OpenAIHTTPBackend backend validated with model tiny
ℹ Request Latency Statistics (Completed Requests)
|===========|=========|========|======|======|
| Benchmark | Request Latency || TTFT       ||
| Strategy  | Sec             || ms         ||
|           | Mdn     | p95    | Mdn  | p95  |
|-----------|---------|--------|------|------|
| constant  | 1.5     | 1.7    | 14.5 | 17.5 |
| constant  | 2.5     | 2.7    | 24.5 | 27.5 |
|===========|=========|========|======|======|

ℹ Server Throughput Statistics
|===========|=====|======|=======|======|
| Benchmark | Requests               ||||
| Strategy  | Per Sec   || Concurrency ||
|           | Mdn | Mean | Mdn   | Mean |
|-----------|-----|------|-------|------|
| constant  | 1.0 | 1.1  | 2.0   | 2.1  |
| constant  | 5.0 | 5.1  | 9.0   | 9.1  |
|===========|=====|======|=======|======|
"""


def test_tables_of_guidellm_give_each_benchmark_of_a_sweep_its_figures() -> None:
    found = read_evidence("guidellm.txt", TABLES_OF_A_SWEEP.encode())
    assert (found.kind, found.readings[0].name, found.readings[0].value) == ("guidellm-text", "model", "tiny")
    values = {(one.subject, one.name): (one.value, one.unit, one.line) for one in found.readings}
    assert values["constant", "Request Latency median"] == (1.5, "s", 8)
    assert values["constant 2", "TTFT p95"] == (27.5, "ms", 9)
    assert values["constant 2", "Requests Per Sec mean"] == (5.1, "", 19)
    assert values["constant", "Requests Concurrency median"] == (2.0, "", 18)


def test_early_tables_of_guidellm_have_seconds_under_a_head_of_milliseconds() -> None:
    readings = read_evidence("guidellm.txt", SAMPLES["guidellm-text"].encode()).readings
    units = {one.name: one.unit for one in readings}
    assert (units["Req Latency mean"], units["TTFT mean"]) == ("s", "ms")


def test_a_list_of_processors_is_counted_without_those_that_are_offline() -> None:
    text = """CPU NODE SOCKET CORE L1d:L1i:L2:L3 ONLINE    MAXMHZ
  0    0      0    0 0:0:0:0          yes 4100.0000
  1    0      0    0 0:0:0:0          yes 4100.0000
  2    1      1    0 1:1:1:1          yes 4100.0000
  3    -      -    - -                 no 4100.0000
"""
    found = read_evidence("lscpu.txt", text.encode())
    assert found.kind == "lscpu"
    assert {one.name: (one.value, one.line) for one in found.readings} == {
        "cpus": (3, (2, 4)),
        "cores": (2, (2, 4)),
        "sockets": (2, (2, 4)),
        "numa nodes": (2, (2, 4)),
    }


PULL = 'Warning Failed 9m kubelet Failed to pull image "vllm/vllm-openai:v9": not found'
SCHEDULED = "Normal Scheduled 5m default-scheduler Successfully assigned default/vllm-0 to node-a"


@pytest.mark.parametrize(
    ("events", "words"),
    [
        (["Warning FailedScheduling 34s default-scheduler 0/4 nodes are available: 3 Insufficient nvidia.com/gpu."], "no node has enough nvidia.com/gpu"),
        ([PULL, "Warning Failed 8m kubelet Error: ImagePullBackOff"], "The image is not pulled"),
        (["Warning Evicted 3m kubelet The node was low on resource: memory."], "evicted"),
        (["Warning Unhealthy 9m kubelet Startup probe failed: 503", "Normal Killing 8m kubelet Container vllm failed startup probe, will be restarted"], "its startup probe fails"),
        (["Warning FailedScheduling 9m default-scheduler 0/4 nodes are available: 4 Insufficient cpu.", SCHEDULED], None),
        ([SCHEDULED, "Warning Unhealthy 5m kubelet Readiness probe failed: connection refused"], None),
    ],
)  # fmt: skip
def test_events_of_a_pod_alone_say_what_went_wrong_with_it(events: list[str], words: str | None) -> None:
    report = render(analyse(inputs_from(("Events:\n  " + "\n  ".join(events) + "\n").encode())))
    heading = report.partition("\n")[0]
    assert heading.startswith("# No log of vLLM")
    assert words in heading if words else heading == "# No log of vLLM"


@pytest.mark.parametrize(
    ("reading", "pids"),
    [
        (Reading("memory of process 10291 python", 512, "MiB", "gpu 0"), {"10291"}),
        (Reading("cpu", 99.5, "%", "thread 2532738"), {"2532738"}),
        (Reading("memory used", 512, "MiB", "gpu 10291"), set()),
    ],
)
def test_numbers_of_processes_are_taken_from_readings_of_processes_alone(
    reading: Reading, pids: set[str]
) -> None:
    assert EvidenceFile("smi.txt", "nvidia-smi", (reading,)).identity.pids.keys() == pids


def test_a_file_without_a_log_is_shown_and_not_said_to_be_left_unused() -> None:
    result = "============ Serving Benchmark Result ============\nSuccessful requests:                     40\nBenchmark duration (s):                  41.5\n"
    report = render(analyse(inputs_from(result.encode())))
    assert "| shown below: no log of vLLM was given |" in report
    assert "which run" not in report
