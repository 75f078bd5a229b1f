"""An analysis made by hand, and the same with a stranger's text in every place that log text can reach."""

from __future__ import annotations

from collections import Counter

from vllm_logdoctor.parse import Process, Record
from vllm_logdoctor.plan.model import Plan, PlannedChange, WhatIf
from vllm_logdoctor.report.model import AlreadyRight, Analysis, Diagnosis, Message
from vllm_logdoctor.rules.bottleneck import Bottleneck, ServingPeriod
from vllm_logdoctor.rules.capacity.ceiling import Ceiling
from vllm_logdoctor.rules.model import Change, Effect, Finding
from vllm_logdoctor.run.model import (
    Benchmark,
    Coverage,
    Evidence,
    Extremes,
    Phase,
    Progress,
    Run,
    Sample,
    SourceSummary,
    Speculation,
    Transfer,
    Unknown,
    Value,
)

START = 26_000_000.0


def make_run(text: str, year_known: bool = False, outcome: str = "clean_shutdown") -> Run:
    """Return a run in which every free text is `text`."""
    line = Evidence(f"{text}.log", 7, f"INFO {text}")
    process = Process(f"EngineCore {text}", "engine-core", 41, "DP0", text)
    record = Record(
        0, 99, process, "ERROR", START, None, year_known, ("a.py", 1), f"last {text}", f"ERROR last {text}"
    )
    samples = [
        Sample(
            START + 10 * n,
            100 + n,
            0,
            100.0 * n,
            50.0 * n,
            n % 5,
            n % 3,
            None,
            float(n),
            12.5,
            text=f"stats {text}",
        )
        for n in range(30)
    ]
    return Run(
        kind="server",
        engine="V1",
        version=Value("0.18.1", "reported", (line,)),
        model=Value(f"/data/{text}", "explicit", (line,)),
        platform="cuda",
        platform_evidence=(line,),
        first_line=1,
        last_line=200,
        first_file=f"{text}.log",
        last_file=f"{text}.log",
        files=(f"{text}.log",),
        started=START,
        ended=START + 400,
        year_known=year_known,
        config={
            "tensor_parallel_size": Value(4, "explicit", (line,)),
            "max_model_len": Value(32768, "reported", (line,)),
            "served_model_name": Value([text], "explicit", (line,), text),
            "gpu_memory_utilization": Value(0.9, "default"),
            "chat_template": Value(text, "default"),
        },
        measured={
            "kv_cache_tokens": Value(85760, "reported", (line,)),
            "max_concurrency": Value(2.62, "reported", (line,)),
            "available_kv_cache_gib": Value(5.24, "reported", (line,)),
        },
        processes=[process],
        phases=[
            Phase("startup", "", START, START + 100, 100.0, (line,)),
            Phase("load-weights", text, START + 5, START + 65, 60.0, (line,), "startup"),
            Phase("engine-init", "EngineCore", START + 65, START + 90, 25.0, (line,), "startup"),
            Phase("compile", "EngineCore", START + 65, START + 80, 15.0, (line,), "engine-init"),
        ],
        samples=samples,
        sample_count=30,
        extremes=Extremes(2900.0, 1450.0, 4, 2, 29.0, 12.5, 0),
        accesses=Counter({("POST", f"/v1/{text}", 200): 90, ("GET", text, 404): 10}),
        accesses_by_minute={
            int(START // 60): Counter({200: 80}),
            int(START // 60) + 1: Counter({200: 10, 404: 10}),
        },
        requests_by_minute={
            int(START // 60): Counter({("POST", f"/v1/{text}", 200): 80}),
            int(START // 60) + 1: Counter({("POST", f"/v1/{text}", 200): 10, ("GET", text, 404): 10}),
        },
        environment={"VLLM_CACHE_ROOT": Value(text, "explicit", (line,))},
        speculation=[Speculation(START + 10 * n, line, 60, 100, 60.0, 1.6, (0.8, 0.4)) for n in range(5)],
        transfers=[Transfer(START, line, {f"Throughput {text}": 10.0 * n}) for n in range(3)],
        progress=[Progress(line, done, 8, 4.0, 100.0, 50.0) for done in (4, 8, 2, 8)],
        benchmarks=[Benchmark("serve", {f"Mean TTFT {text}": 12.5}, (line, line))],
        tail=[record],
        startup_complete=True,
        outcome=outcome,  # type: ignore[arg-type]
        last_of_file=True,
        vllm_records=120,
        recognised_records=100,
    )


def make_findings(text: str, failure: bool) -> tuple[Finding, ...]:
    """Return findings in which every free text is `text`."""
    lines = tuple(Evidence(f"{text}.log", 7 + n, f"WARNING {n} {text}") for n in range(5))
    advice = Finding(
        "max-num-seqs-too-low",
        "performance",
        "high",
        "medium",
        f"one seat {text}",
        f"Requests wait for {text} with `{text}`.",
        evidence=lines,
        changes=(
            Change("--max-num-seqs", "flag", 1, 32, note=text),
            Change(f"move {text}", "action"),
            Change("--chat-template", "flag", text, text, "changes-results"),
        ),
        alternatives=(text,),
        avoid=text,
        effect=Effect("generation_throughput", 1.05, 4.1, "published", text),
        verify=f"the line {text}",
        topic="serving",
    )
    root = Finding(
        "out-of-memory",
        "failure",
        "critical",
        "high",
        f"out of memory {text}",
        f"Because {text}.",
        "root",
        (lines[0], Evidence(f"{text}.log", 8, f"ERROR of its part {text}")),
        (Change("VLLM_X", "env", None, text),),
        verify=f"the line {text}",
    )
    cascade = Finding(
        "engine-dead",
        "failure",
        "low",
        "high",
        f"engine dead {text}",
        text,
        "cascade",
        (Evidence(f"{text}.log", 9, f"ERROR engine dead {text}"),),
    )
    return (root, cascade, advice) if failure else (advice,)


def make_analysis(
    text: str = "Qwen", *, failure: bool = False, runs: int = 1, year_known: bool = False
) -> Analysis:
    """Return an analysis in which every free text is `text`."""
    line = Evidence(f"{text}.log", 12, f"WARNING {text}")
    outcome = "crashed_while_serving" if failure else "clean_shutdown"
    period = ServingPeriod("max-num-seqs-limited", START, START + 60, 6, text, (line,))
    other = ServingPeriod("client-limited", START + 60, START + 400, 24, text, (line,))
    found = make_findings(text, failure)
    diagnoses = []
    for number in range(1, runs + 1):
        run = make_run(text, year_known, outcome)
        run.number = number
        diagnoses.append(
            Diagnosis(
                run,
                found,
                Bottleneck(
                    "failed" if failure else "client-limited",
                    f"nobody asked {text}",
                    (line,),
                    (period, other),
                ),
                Plan(
                    tuple(
                        PlannedChange(change, ("max-num-seqs-too-low",), text) for change in found[-1].changes
                    ),
                    f"vllm serve {text}",
                    f"vllm serve {text} --max-num-seqs 32",
                    ((text, text),),
                ),
                (WhatIf("kv_cache_dtype", "auto", text, 171520, 170000, 172000, 5.2, text),),
                (AlreadyRight(text, text, text, (line,)),),
                (Message("a", text, "harmless", text, 3, line), Message("", text, "unknown", "", 1, line)),
                (text,),
                Ceiling(2000.0, 900.0, 0.45, text, (line,)),
            )
        )
    return Analysis(
        (SourceSummary(f"{text}.log", 1000, 200, text),) * (2 if runs > 1 else 1),
        tuple(diagnoses),
        Coverage(200, 120, 100, 3, (Unknown("WARNING", text, 2, line),), (text,)),
    )
