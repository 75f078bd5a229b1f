"""What files beside the log add to a run: latency, kernels, cards; rules on them; nothing without them."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path

import pytest

from tests.tables import for_each
from vllm_logdoctor import analyze
from vllm_logdoctor.api import Report
from vllm_logdoctor.evidence.given import evidence_from
from vllm_logdoctor.evidence.kernels import class_of
from vllm_logdoctor.evidence.read import read_evidence_file
from vllm_logdoctor.pipeline import analyse
from vllm_logdoctor.report import html
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.report.serving import serving_of
from vllm_logdoctor.report.writers import render
from vllm_logdoctor.run.model import Extremes, Run
from vllm_logdoctor.source import inputs_from

ROOT = Path(__file__).resolve().parents[2]
LOG = ROOT / "fixtures" / "vllm-0.11.2-kv-starved.log"
PAIRS = sorted((ROOT.parent / "shared" / "corpus" / "cpu").glob("*/*.metrics.txt"))


def tokens() -> int:
    return int(analyze(str(LOG)).runs[0].run.measure("kv_cache_tokens") or 0)


def scrape(generated: int, queue: float, start: float | None = None, observations: int = 10) -> str:
    """Return /metrics of the fixture's run: `observations` requests that waited `queue` seconds each and took 10 s."""
    lines = [
        f'vllm:generation_tokens_total{{engine="0"}} {generated}.0',
        'vllm:num_preemptions_total{engine="0"} 17.0',
        f'vllm:cache_config_info{{block_size="128",num_gpu_blocks="{tokens() // 128}"}} 1.0',
    ]
    lines += [f"process_start_time_seconds {start}"] if start is not None else []
    for name, seconds in (
        ("request_queue_time", queue),
        ("e2e_request_latency", 10.0),
        ("time_to_first_token", queue + 1),
    ):
        lines += [
            f'vllm:{name}_seconds_sum{{engine="0"}} {seconds * observations}',
            f'vllm:{name}_seconds_bucket{{engine="0",le="5.0"}} {observations * (seconds < 5)}.0',
            f'vllm:{name}_seconds_bucket{{engine="0",le="20.0"}} {observations}.0',
            f'vllm:{name}_seconds_count{{engine="0"}} {observations}.0',
        ]
    return "\n".join(lines) + "\n"


def analysed(tmp_path: Path, **files: str) -> Analysis:
    names = []
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        names.append(str(tmp_path / name))
    return analyse(inputs_from(str(LOG)), evidence=evidence_from(names))


def ids(analysis: Analysis) -> set[str]:
    return {finding.id for finding in analysis.runs[0].findings}


def test_latency_of_a_scrape_has_means_and_bucket_bounds(tmp_path: Path) -> None:
    observed = analysed(tmp_path, metrics=scrape(100, 9.0)).runs[0].run.observed
    assert observed.number("latency", "queue time mean") == 9.0
    assert [one.value for one in observed.of("latency", "queue time p95 lies in")] == [[5.0, 20.0]]


def test_a_request_that_waits_longer_than_it_runs_is_a_finding(tmp_path: Path) -> None:
    assert "requests-wait-in-queue" in ids(analysed(tmp_path, metrics=scrape(100, 9.0)))
    assert "requests-wait-in-queue" not in ids(analysed(tmp_path, metrics=scrape(100, 0.5)))


def test_without_files_no_rule_on_them_says_anything() -> None:
    analysis = analyse(inputs_from(str(LOG)))
    assert not analysis.runs[0].run.observed.groups


def test_counters_are_subtracted_inside_one_life_only(tmp_path: Path) -> None:
    before, after = scrape(50, 1.0, start=1000.0), scrape(100, 5.0, start=1000.0, observations=20)
    one_life = analysed(tmp_path, before=before, after=after).runs[0].run.observed
    assert one_life.number("latency", "queue time mean") == pytest.approx((5 * 20 - 1 * 10) / 10)
    two_lives = (
        analysed(tmp_path, before=before, after=after.replace("1000.0", "2000.0")).runs[0].run.observed
    )
    assert two_lives.number("latency", "queue time mean") == 5.0


def test_v0_first_tokens_that_were_observed_again_are_left_out(tmp_path: Path) -> None:
    again = scrape(100, 1.0).replace(
        'time_to_first_token_seconds_count{engine="0"} 10.0',
        'time_to_first_token_seconds_count{engine="0"} 58.0',
    )
    observed = analysed(tmp_path, metrics=again).runs[0].run.observed
    assert not observed.of("latency", "TTFT mean")
    assert observed.of("latency", "queue time mean")


TRACE = {
    "distributedInfo": {"rank": 0, "world_size": 1},
    "traceEvents": [
        {
            "cat": "user_annotation",
            "name": "execute_context_0(0)_generation_4(4)",
            "ts": 0,
            "dur": 40,
            "ph": "X",
        },
        *(
            {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": n, "dur": 1, "ph": "X"}
            for n in range(300)
        ),
        {"cat": "kernel", "name": "ncclDevKernel_AllReduce", "ts": 0, "dur": 10, "ph": "X"},
        {"cat": "kernel", "name": "flash_fwd_kernel", "ts": 5, "dur": 10, "ph": "X"},
        {"cat": "kernel", "name": "sm90_xmma_gemm", "ts": 35, "dur": 5, "ph": "X"},
    ],
}


def test_a_trace_gives_shares_by_class_and_the_union_of_overlapping_kernels(tmp_path: Path) -> None:
    file = tmp_path / "trace.json.gz"
    file.write_bytes(gzip.compress(json.dumps(TRACE).encode()))
    found = {(one.name, one.subject): one.value for one in read_evidence_file(file).readings}
    assert found["class time", "communication"] == 10
    assert found["class time", "attention"] == 10
    assert found["gpu busy share", ""] == 0.5
    assert (found["launches", ""], found["steps", ""]) == (300, 1)


def steps_and(*events: tuple[str, str]) -> str:
    """Return a trace of two steps that holds events of a category and a name, and 40 µs of attention."""
    step = {"cat": "user_annotation", "name": "execute_context_0(0)_generation_4(4)", "ts": 0, "dur": 40}
    attention = {"cat": "kernel", "name": "flash_fwd_kernel", "ts": 0, "dur": 40}
    rest = [
        {"cat": category, "name": name, "ts": 50 + n, "dur": 1} for n, (category, name) in enumerate(events)
    ]
    return json.dumps({"traceEvents": [step, step, attention, *rest]})


@pytest.mark.parametrize(
    ("events", "layers"),
    [
        ([("python_function", f"nn.Module: TinyDecoderLayer_{n}") for n in (0, 1, 3, 2)], 4),
        ([("kernel", "reshape_and_cache_flash_kernel")] * 10, 5),
        ([("kernel", "reshape_and_cache_flash_kernel")] * 9, None),
        ([("python_function", "nn.Module: RMSNorm_7")], None),
    ],
    ids=[
        "modules of the stacks",
        "a cache write for each",
        "cache writes that are no whole number",
        "other modules",
    ],
)
def test_layers_are_counted_where_the_profile_tells_them(
    events: list[tuple[str, str]], layers: int | None, tmp_path: Path
) -> None:
    found = analysed(tmp_path, trace=steps_and(*events)).runs[0].run.observed
    counted = {one.name: one.value for one in found.of("kernels", joined=False) if not one.subject}
    times = {one.name: one.value for one in found.of("kernels", joined=False) if one.subject == "attention"}
    assert counted.get("layers") == layers
    assert times["time per step"] == 20
    assert times.get("time per layer") == (20 / layers if layers else None)


def test_the_report_has_kernel_time_by_step_and_layer(tmp_path: Path) -> None:
    trace = steps_and(*[("kernel", "reshape_and_cache_flash_kernel")] * 8)
    page = render(analysed(tmp_path, trace=trace), "markdown")
    assert "|  | of kernel time | a step | a layer | source |" in page
    assert "| attention | 83.3 % | 20 µs | 5 µs | trace traceEvents" in page


def test_steps_of_a_table_are_those_of_the_cpu(tmp_path: Path) -> None:
    table = (
        "Name    Self CPU %    Self CPU    Self CUDA    # of Calls\n"
        "execute_context_0(0)_generation_1(1)    0.00%    0.000us    1.227s    48\n"
        "execute_context_0(0)_generation_1(1)    8.00%    17.636ms    0.000us    8\n"
        "flash_fwd_kernel    0.00%    0.000us    16.000ms    64\n"
    )
    (tmp_path / "table").write_text(table)
    found = [one.value for one in read_evidence_file(tmp_path / "table").readings if one.name == "steps"]
    assert found == [8]


def test_a_truncated_trace_is_read_up_to_its_last_whole_event(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(TRACE)[:-60])
    found = read_evidence_file(file)
    assert "truncated" in found.note
    assert next(one.value for one in found.readings if one.name == "kernel events") == 2


def test_operators_of_a_cpu_trace_count_their_own_time(tmp_path: Path) -> None:
    inner = {"cat": "cpu_op", "name": "aten::mm", "tid": 1, "ts": 2, "dur": 6, "ph": "X"}
    outer = {"cat": "cpu_op", "name": "aten::linear", "tid": 1, "ts": 0, "dur": 10, "ph": "X"}
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({"traceEvents": [outer, inner]}))
    found = {(one.name, one.subject): one.value for one in read_evidence_file(file).readings}
    assert (found["time", "aten::mm"], found["time", "aten::linear"]) == (6, 4)


def database(path: Path, name_column: str = "demangledName") -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, {name_column} INT)")
        connection.execute("CREATE TABLE StringIds (id INT, value TEXT)")
        connection.execute("INSERT INTO StringIds VALUES (1, 'flash_fwd'), (2, 'ncclDevKernel_AllReduce')")
        connection.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0, 10000, 1), (5000, 15000, 2), (20000, 30000, 1)"
        )


def test_an_nsys_database_gives_the_same(tmp_path: Path) -> None:
    database(tmp_path / "a.sqlite")
    found = read_evidence_file(tmp_path / "a.sqlite")
    values = {(one.name, one.subject): one.value for one in found.readings}
    assert found.kind == "nsys-sqlite"
    assert (values["class time", "attention"], values["gpu busy share", ""]) == (20, round(25 / 30, 4))


def exported(path: Path) -> None:
    """Write what `nsys export --type sqlite` of release 2026.2 writes for two devices that wait for each other."""
    with sqlite3.connect(path) as connection:
        connection.executescript(
            """
            CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
            INSERT INTO StringIds VALUES (1, 'flash_fwd'), (2, 'cudaLaunchKernel_v7000'), (3, 'cudaLaunchKernelExC_v11060'), (4, 'cudaMemcpyAsync_v3020');
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
                streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL);
            INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0, 10000, 0, 1, 7, 1, 9, 1, 1), (30000, 40000, 0, 1, 7, 2, 9, 1, 1),
                (10000, 20000, 1, 1, 7, 3, 9, 1, 1), (20000, 50000, 1, 1, 7, 4, 9, 1, 1);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER,
                correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
            INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (0, 5000, 0, 9, 1, 2, 0, NULL), (0, 7000, 0, 9, 2, 2, 0, NULL), (0, 6000, 0, 9, 3, 3, 0, NULL),
                (0, 90000, 0, 9, 4, 4, 0, NULL);
            """
        )


def test_kernels_of_one_device_fill_no_gap_of_another(tmp_path: Path) -> None:
    exported(tmp_path / "a.sqlite")
    found = {one.name: one.value for one in read_evidence_file(tmp_path / "a.sqlite").readings}
    # 20 of 40 µs on the first, 40 of 40 on the second; 20 µs idle over four kernels.
    assert (found["gpu busy share"], found["time between kernels"]) == (0.75, 5.0)
    # A profile of torch names the device of a kernel.
    events = [
        {"cat": "kernel", "name": "k", "ts": start, "dur": length, "args": {"device": device}}
        for start, length, device in ((0, 10, 0), (30, 10, 0), (10, 10, 1), (20, 30, 1))
    ]
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}))
    traced = {one.name: one.value for one in read_evidence_file(tmp_path / "t.json").readings}
    assert (traced["gpu busy share"], traced["time between kernels"]) == (0.75, 5.0)


def test_an_nsys_database_counts_launches_and_what_one_takes(tmp_path: Path) -> None:
    exported(tmp_path / "a.sqlite")
    found = {one.name: one.value for one in read_evidence_file(tmp_path / "a.sqlite").readings}
    assert (found["launches"], found["overhead of a launch"]) == (3, 6.0)


def test_all_that_an_nsys_database_tells(tmp_path: Path) -> None:
    exported(tmp_path / "a.sqlite")
    with sqlite3.connect(tmp_path / "a.sqlite") as connection:
        connection.executescript(
            """
            CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER NOT NULL, end INTEGER NOT NULL, graphId INTEGER);
            INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (0, 10, 1), (20, 30, 1), (40, 50, 1);
            INSERT INTO StringIds VALUES (5, 'ncclDevKernel_AllReduce'), (6, 'cudaGraphLaunch_v10000');
            INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (50000, 60000, 1, 1, 7, 5, 9, 5, 5);
            INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (0, 8000, 0, 9, 5, 6, 0, NULL);
            """
        )
    kernels = "CUPTI_ACTIVITY_KIND_KERNEL"
    found = [
        (one.name, one.value, one.unit, one.subject, one.where) for one in read_evidence_file(tmp_path / "a.sqlite").readings
    ]  # fmt: skip
    assert found == [
        ("kernel events", 5, "count", "", kernels), ("kernel time", 70, "us", "", kernels), ("kernel span", 60, "us", "", kernels),
        # Of the first device 20 of 40 µs, of the second 50 of 50.
        ("gpu busy share", round(70 / 90, 4), "share", "", kernels), ("time between kernels", 4.0, "us", "", kernels),
        ("graph launches", 3, "count", "", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"),
        ("launches", 4, "count", "", "CUPTI_ACTIVITY_KIND_RUNTIME"), ("overhead of a launch", 6.5, "us", "", "CUPTI_ACTIVITY_KIND_RUNTIME"),
        ("class time", 60, "us", "attention", kernels), ("class launches", 4, "count", "attention", kernels),
        ("class time", 10, "us", "communication", kernels), ("class launches", 1, "count", "communication", kernels),
        ("time", 60, "us", "flash_fwd", kernels), ("time", 10, "us", "ncclDevKernel_AllReduce", kernels),
    ]  # fmt: skip


def test_an_nsys_database_of_another_version_is_one_line(tmp_path: Path) -> None:
    database(tmp_path / "a.sqlite", "nameOfTheFuture")
    found = read_evidence_file(tmp_path / "a.sqlite")
    assert (found.kind, found.readings) == ("nsys-sqlite", ())
    assert "another version" in found.note


@for_each(
    ("name", "kind"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "communication"),
        ("multimem_all_reduce_kernel", "communication"),
        ("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>", "KV cache write"),
        ("void vllm::moe::topkGatingSoftmax<8, 128>", "MoE routing"),
        ("fused_moe_kernel", "MoE GEMM"),
        ("void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits>", "attention"),
        ("void marlin::Marlin<__nv_bfloat16, 256>", "GEMM"),
        ("nvjet_tst_128x64_64x7_1x2_h_bz_TNT", "GEMM"),
        ("void vllm::rms_norm_kernel<c10::BFloat16>", "norm and activation"),
        ("void vllm::act_and_mul_kernel<c10::BFloat16, &silu>", "norm and activation"),
        ("void vllm::scaled_fp8_quant_kernel<float>", "quantize"),
        ("void at::native::(anonymous namespace)::distribution_something", "other"),
    ],
)
def test_kernels_are_classed_by_name(name: str, kind: str) -> None:
    assert class_of(name) == kind


def test_a_card_beside_a_run_on_the_cpu_is_contradicted(tmp_path: Path) -> None:
    table = "Driver Version : 570.1\nAttached GPUs                             : 1\nGPU 00000000:01:00.0\n    Product Name                          : NVIDIA T\n"
    (beside,) = analysed(tmp_path, smi=table).beside
    assert beside.certainty == "contradicted"
    assert "the run used no card" in (beside.why_not or "")


def test_only_a_victim_of_this_run_was_killed_for_memory(tmp_path: Path) -> None:
    pid = next(process.pid for process in analyse(inputs_from(str(LOG))).runs[0].run.processes if process.pid)
    for victim, certainty in ((pid, "sure"), (999_999, "not told")):
        (beside,) = analysed(
            tmp_path, dmesg=f"[ 1.0] Out of memory: Killed process {victim} (python3) total-vm:10kB\n"
        ).beside
        assert beside.certainty == certainty


@pytest.mark.skipif(not PAIRS, reason="needs the shared logs, which are no part of the project")
@pytest.mark.parametrize("metrics", PAIRS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_counters_of_a_real_pair_are_exact_in_the_report(metrics: Path) -> None:
    log = metrics.with_name(metrics.name.replace(".metrics.txt", ".log"))
    truth = {one.name: one.value for one in read_evidence_file(metrics).readings}
    if "generation tokens" not in truth and "requests finished" not in truth:
        pytest.skip("the server kept no statistics")
    analysis = analyse(inputs_from(str(log)), evidence=evidence_from([str(metrics)]))
    (beside,) = analysis.beside
    assert beside.used, beside.why_not
    run = next(one.run for one in analysis.runs if one.run.number == beside.run)
    for name in ("preemptions", "prompt tokens", "generation tokens", "prefix cache hits"):
        assert run.observed.number("scheduler", name) == truth.get(name)
    assert serving_of(run).preemptions == truth["preemptions"]


@pytest.mark.parametrize(
    ("printed", "counted", "shown"), [(1, 34, 34), (3, None, 3), (0, 0, 0), (0, None, None)]
)
def test_metrics_count_preemptions_that_the_log_does_not_print(
    printed: int, counted: int | None, shown: int | None
) -> None:
    run = Run(extremes=Extremes(preemptions=printed))
    run.counters.update({} if counted is None else {"preemptions": counted})
    assert serving_of(run).preemptions == shown


def test_of_two_frames_of_top_the_later_one_counts(tmp_path: Path) -> None:
    frame = (
        "top - 22:12:34 up 3 days, load average: 1.0\n"
        "    PID USER %CPU COMMAND\n      7 root  {} python3\n     11 root  {} python3\n\n"
    )
    analysis = analysed(tmp_path, top=frame.format(93.3, 46.7) + frame.format(61.0, 72.5))
    threads = [one for one in analysis.runs[0].run.observed.of("host", joined=False) if "cpu" in one.name]
    assert [(one.subject, one.value) for one in threads] == [("thread 11", 72.5), ("thread 7", 61.0)]


def test_a_report_of_the_library_has_the_values(tmp_path: Path) -> None:
    assert isinstance(analyze(str(LOG)), Report)


def test_compare_shows_the_latency_before_and_after(tmp_path: Path) -> None:
    from vllm_logdoctor.comparison.comparison import compare
    from vllm_logdoctor.comparison.snapshot import snapshot_of
    from vllm_logdoctor.report.json import document

    sides = [snapshot_of(document(analysed(tmp_path, metrics=scrape(100, queue)))) for queue in (9.0, 0.5)]
    found = {one.name: one for one in compare(*sides).figures}["ttft_mean_ms"]
    assert (found.before, found.after, found.verdict) == (10_000.0, 1500.0, "better")


def test_the_library_has_the_values_as_a_frame(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    from vllm_logdoctor.report.frames import measured_frame

    frame = measured_frame(analysed(tmp_path, metrics=scrape(100, 9.0)).runs[0].run)
    assert frame[frame.name == "queue time mean"].number.tolist() == [9.0]


def test_shares_busy_time_and_stages_of_a_request_are_charts(tmp_path: Path) -> None:
    from vllm_logdoctor.report.observed_charts import observed_charts

    trace = (
        '{"traceEvents": [{"cat": "kernel", "name": "flash_fwd", "ts": 0, "dur": 30},'
        ' {"cat": "kernel", "name": "ncclDevKernel_AllReduce", "ts": 60, "dur": 10}]}'
    )
    metrics = scrape(100, 9.0) + (
        'vllm:request_decode_time_seconds_sum{engine="0"} 10.0\nvllm:request_decode_time_seconds_count{engine="0"} 10.0\n'
    )
    analysis = analysed(tmp_path, metrics=metrics, trace=trace)
    charts = {one.name: one for one in observed_charts(analysis.runs[0].run)}
    assert charts["kernels-1"].rows == [("attention", "75 %"), ("communication", "25 %")]
    assert charts["busy-1"].rows == [("a kernel runs", "57.1 %"), ("none runs", "42.9 %")]
    assert charts["request-1"].rows == [("queue", "9 s"), ("decode", "1 s")]
    assert [(one["start"], one["end"]) for one in charts["request-1"].data["spans"]] == [
        (0.0, 9.0),
        (9.0, 10.0),
    ]
    page = html.render(analysis)
    assert all(f'data-chart="{name}"' in page for name in charts)


def test_a_report_without_files_beside_the_log_has_no_chart_of_them() -> None:
    page = html.render(analyse(inputs_from(str(LOG))))
    assert 'data-chart="kernels-1"' not in page


def test_verify_shows_the_latency_before_and_after(tmp_path: Path) -> None:
    from vllm_logdoctor.comparison.snapshot import snapshot_of
    from vllm_logdoctor.comparison.verification import verify
    from vllm_logdoctor.comparison.verification_markdown import render
    from vllm_logdoctor.report.json import document

    before, after = (
        snapshot_of(document(analysed(tmp_path, metrics=scrape(100, queue)))) for queue in (9.0, 0.5)
    )
    said = render(verify(before, after))
    assert "| time to first token, mean | 10,000 ms | 1,500 ms |" in said
