"""The baseline document: each value with its source, each gap with a command; and the script that gathers what is missing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.evidence.samples import SAMPLES
from vllm_logdoctor.baseline.commands import collecting
from vllm_logdoctor.baseline.document import render
from vllm_logdoctor.evidence.given import evidence_from
from vllm_logdoctor.pipeline import analyse
from vllm_logdoctor.run.model import Run
from vllm_logdoctor.source import inputs_from

LOG = Path(__file__).resolve().parents[2] / "fixtures" / "vllm-0.11.2-kv-starved.log"
TABLE = """         Name    Self CPU %     Self CUDA   Self CUDA %      Self CPU    # of Calls
fused_moe_kernel         0.00%      64.000ms        64.00%       0.000us           100
  flash_fwd_kernel         0.00%      16.000ms        16.00%       0.000us            50
  mxfp8_quantize         0.00%      20.000ms        20.00%       0.000us           200
"""


def document(tmp_path: Path, log: str | bytes = str(LOG), **files: str) -> list[str]:
    names = []
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        names.append(str(tmp_path / name))
    return render(analyse(inputs_from(log), evidence=evidence_from(names)).runs[-1]).splitlines()


def row(lines: list[str], name: str) -> list[str]:
    return next(
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in lines
        if line.startswith(f"| {name} ")
    )


def test_every_row_has_a_value_with_its_source_or_a_command(tmp_path: Path) -> None:
    rows = [line for line in document(tmp_path) if line.startswith("| ") and "what measures it" not in line]
    assert len(rows) > 25
    for line in rows:
        _, value, source = (cell.strip() for cell in line.strip("|").split(" | ", 2))
        assert value
        assert source
        assert value != "?" or source.startswith("`")


def test_a_log_alone_leaves_kernels_open_with_the_command(tmp_path: Path) -> None:
    assert row(document(tmp_path), "attention")[1] == "?"
    assert "start_profile" in row(document(tmp_path), "attention")[2]


def test_a_profile_fills_shares_time_each_and_quantization(tmp_path: Path) -> None:
    lines = document(tmp_path, profile=TABLE)
    assert row(lines, "MoE FC1 and FC2")[1] == "64.0 %, 640 µs each"
    assert row(lines, "time in quantize kernels")[1] == "20,000 µs"


ON_A_CARD = (
    b"INFO 11-21 00:58:31 [api_server.py:1289] vLLM API server version 0.9.1\n"
    b"INFO 11-21 00:58:32 [__init__.py:244] Automatically detected platform cuda.\n"
    b"INFO 11-21 00:58:40 [config.py:823] This model supports multiple tasks. Using 'models/tiny-qwen3'.\n"
    b"INFO 11-21 00:59:02 [gpu_model_runner.py:2048] Graph capturing finished in 4 secs, took 0.08 GiB\n"
)
TRACE = {
    "deviceProperties": [{"name": "NVIDIA H100 80GB HBM3"}],
    "traceEvents": [
        {"cat": "user_annotation", "name": "execute_context_0(0)_generation_4(4)", "ts": 0, "dur": 1},
        {"cat": "user_annotation", "name": "execute_context_0(0)_generation_4(4)", "ts": 50, "dur": 1},
        {"cat": "kernel", "name": "flash_fwd_kernel", "ts": 0, "dur": 40},
        {"cat": "kernel", "name": "mxfp8_quantize", "ts": 20, "dur": 20},
        {"cat": "kernel", "name": "flash_fwd_kernel", "ts": 80, "dur": 20},
    ],
}


def test_a_trace_names_the_card_and_gives_times_of_a_step(tmp_path: Path) -> None:
    lines = document(tmp_path, ON_A_CARD, trace=json.dumps(TRACE))
    assert row(lines, "CUDA graphs")[1] == "captured in 4 s"
    assert row(lines, "card")[1] == "NVIDIA H100 80GB HBM3"
    assert row(lines, "theoretical peak")[1] == "3,350 GB/s"
    assert row(lines, "time in quantize kernels")[1] == "20 µs, 10 µs a step"
    assert row(lines, "a step while it was profiled")[1] == "0.05 ms"


@pytest.mark.parametrize(
    ("memory", "peak"),
    [(None, "4,000 to 4,900 GB/s"), (102_603_096_064, "4,000 GB/s"), (153_600_000_000, "4,900 GB/s")],
)
def test_the_peak_of_a_card_with_variants_is_a_range_unless_its_memory_tells(
    memory: int | None, peak: str, tmp_path: Path
) -> None:
    device = {"name": "NVIDIA GH200 120GB"} | ({"totalGlobalMem": memory} if memory else {})
    trace = json.dumps(TRACE | {"deviceProperties": [device]})
    assert row(document(tmp_path, ON_A_CARD, trace=trace), "theoretical peak")[1] == peak


API = "\n ** CUDA API Summary (cuda_api_sum):\n\n Time (%)  Total Time (ns)  Num Calls  Avg (ns)  Med (ns)  Name\n     90.0           900000        100      9000      5331  cudaLaunchKernel\n"
STACKS = (
    "MainThread;step (vllm/v1/engine/core.py:667);schedule (vllm/v1/core/sched/scheduler.py:700) 1\n"
    "MainThread;step (vllm/v1/engine/core.py:667);execute (vllm/v1/executor/multiproc_executor.py:1);enqueue (vllm/x/shm_broadcast.py:3) 2\n"
    "MainThread;step (vllm/v1/engine/core.py:667);wait (vllm/x/shm_broadcast.py:9);acquire_read (vllm/x/shm_broadcast.py:9) 7\n"
)
TOP = "top - 22:12:34 up 3 days, load average: 1.0\n\n    PID USER %CPU COMMAND\n      7 root  {} VLLM::EngineCore\n"


@pytest.mark.parametrize(
    ("name", "file", "text", "value"),
    [
        (
            "flashinfer",
            "collect-env.txt",
            SAMPLES["collect-env"] + "[pip3] flashinfer-python==0.6.1\n",
            "0.6.1",
        ),
        ("flashinfer", "collect-env.txt", SAMPLES["collect-env"] + "[pip3] numpy==2.3.5\n", "not installed"),
        (
            "theoretical peak",
            "nvidia-smi-q.txt",
            SAMPLES["nvidia-smi-q"].replace("NVIDIA T", "NVIDIA L40S"),
            "864 GB/s",
        ),
        (
            "measured during decoding",
            "dcgmi.txt",
            "#Entity   DRAMA\nID\nGPU 0     0.600\nGPU 0     0.700\n",
            "65 %",
        ),
        ("overhead of a launch", "nsys.txt", API, "5.33 µs"),
        ("decision of the scheduler", "engine-stacks.txt", STACKS, "10.0 % of the engine's step"),
        ("serialization between processes", "engine-stacks.txt", STACKS, "20.0 % of the engine's step"),
        ("memory traffic of conversions", "ncu.txt", SAMPLES["ncu"], "13 MB in the profiled kernels"),
        (
            "tg32 of this engine and others",
            "llama-benchy.md",
            SAMPLES["llama-benchy"],
            "59.1 tok/s, as the client saw it",
        ),
    ],
)
def test_what_a_command_writes_fills_the_row_that_names_it(
    name: str, file: str, text: str, value: str, tmp_path: Path
) -> None:
    plain = row(document(tmp_path, ON_A_CARD), name)
    assert plain[1] == "?"
    assert file in plain[2]
    assert row(document(tmp_path, ON_A_CARD, **{file: text}), name)[1] == value


@pytest.mark.parametrize(
    ("name", "file", "value"),
    [("theoretical peak", "dmidecode", "35.2 GB/s"), ("measured during decoding", "perf-stat", "0.2 GB/s")],
)
def test_memory_of_a_cpu_is_filled_as_well(name: str, file: str, value: str, tmp_path: Path) -> None:
    assert row(document(tmp_path), name)[1] == "?"
    assert row(document(tmp_path, **{file: SAMPLES[file]}), name)[1] == value


def test_a_thread_is_shown_with_and_without_requests(tmp_path: Path) -> None:
    lines = document(tmp_path, **{"top-H.txt": TOP.format(98.7), "top-H-idle.txt": TOP.format(4.3)})
    assert row(lines, "VLLM::EngineCore (thread 7)")[1] == "98.7 %"
    assert row(lines, "VLLM::EngineCore (thread 7) without requests")[1] == "4.3 %"


def test_time_between_kernels_is_that_in_which_none_ran(tmp_path: Path) -> None:
    # Of 100 µs two overlapping kernels took 40 and a third 20.
    found = row(document(tmp_path, ON_A_CARD, trace=json.dumps(TRACE)), "time between two kernels")
    assert found[1] == f"{40 / 3:.1f} µs"
    assert "computed" in found[2]


def test_latency_of_a_client_fills_what_no_metrics_tell(tmp_path: Path) -> None:
    result = '{"model_id": "models/tiny-qwen3", "completed": 8, "mean_ttft_ms": 21.5, "mean_itl_ms": 3.5}'
    lines = document(tmp_path, result=result)
    assert row(lines, "time to first token, this mode")[1] == "21.5 ms, as the client saw it"
    assert row(lines, "inter-token latency")[1] == "3.5 ms, as the client saw it"


def test_threads_of_the_log_stand_before_those_of_another_server(tmp_path: Path) -> None:
    rows = "     99 root  {} VLLM::EngineCore\n 327841 root  12.5 VLLM::EngineCore\n"
    top = TOP.partition("      7")[0] + rows.format(99.9)
    log = "(EngineCore pid=327841) INFO 11-21 00:58:31 [core.py:93] Initializing a V1 LLM engine (v0.11.2) with config: model='m'\n"
    names = [
        line.split(" | ")[0]
        for line in document(tmp_path, log.encode(), top=top)
        if "VLLM::EngineCore" in line
    ]
    assert names == [
        "| VLLM::EngineCore (thread 327841)",
        "| VLLM::EngineCore (thread 99, no process of the log)",
    ]


def test_no_row_stands_twice(tmp_path: Path) -> None:
    lines = document(tmp_path)
    kernels = lines[lines.index("## Kernel breakdown") : lines.index("## Memory bandwidth")]
    names = [line.split(" | ")[0] for line in kernels if line.startswith("| ")]
    assert len(names) == len(set(names))


def test_settings_have_their_line(tmp_path: Path) -> None:
    _, value, source = row(document(tmp_path), "max_num_seqs")
    assert (value, source[: source.index(" L")]) == ("64", LOG.name)


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"SLURM_JOB_ID": "7"}, "sacct -j 7"),
        ({"PBS_JOBID": "7.head"}, "qstat -xf 7.head"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubectl describe pod"),
        ({}, "curl -s localhost:8123/metrics"),
    ],
)
def test_the_script_is_for_this_launch_and_scheduler(variables: dict[str, str], words: str) -> None:
    script = "\n".join(collecting(Run(arguments={"port": 8123}), variables, 60, "job"))
    assert words in script


def test_the_script_reads_the_log_that_was_given_though_it_changed_the_folder(tmp_path: Path) -> None:
    (tmp_path / "my logs").mkdir()
    (tmp_path / "my logs" / "vllm.log").write_text("the log")
    *_, last = collecting(None, {}, 60, "job", "my logs/vllm.log")
    read = last.replace("logdoctor analyze", "cat").partition(" --with")[0]
    done = subprocess.run(
        ["sh", "-c", f"mkdir job; cd job; {read}"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "the log"


def test_the_script_gathers_what_the_rows_of_the_document_name(tmp_path: Path) -> None:
    script = "\n".join(collecting(None, {}, 60, "job"))
    for file in (
        "engine-stacks.txt",
        "metrics-after.txt",
        "nvidia-smi-q.txt",
        "top-H.txt",
        "dcgmi.txt",
        "/tmp/trace .",
    ):
        assert file in script


def test_a_job_id_can_not_become_a_command() -> None:
    script = "\n".join(collecting(None, {"SLURM_JOB_ID": "7; rm -rf /"}, 60, "job"))
    assert "'7; rm -rf /'" in script


def test_a_card_of_another_maker_is_asked_with_its_own_tool() -> None:
    script = "\n".join(collecting(Run(platform="rocm"), {}, 60, "job"))
    assert "amd-smi" in script
    assert "nvidia-smi" not in script
