"""What a run prints of its work beside the statistics lines, and on what it ran: which rows, in which words."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tests.report.test_load_section import rows
from tests.report.test_verdict import cause, line, page_of
from tests.rules.making import a_run, load, record
from tests.tables import for_each
from vllm_logdoctor.parse import NO_PROCESS
from vllm_logdoctor.report.sections.machine import machine
from vllm_logdoctor.report.sections.totals import benchmarks, offline, speculation_line, transfers
from vllm_logdoctor.run.model import Benchmark, Progress, Run, Speculation, Transfer, Value

BUSY = {"running": 8, "generation": 300.0}


def bar(number: int, done: int, total: int, seconds: float | None = 4.0, **more: Any) -> Progress:
    return Progress(line(number), done, total, seconds, **more)


def of_batches(*bars: Progress, **more: Any) -> str:
    return "\n".join(offline(page_of(a_run(kind="offline", progress=list(bars), **more)))).strip()


@for_each(
    ("one", "more", "said"),
    [
        # All of one batch is the verdict of a run without statistics; what else the bar prints is not.
        (bar(5, 8, 8), {}, ""),
        (bar(5, 8, 8, input=90.0), {}, "90 input tokens/s [L5]."),
        (bar(5, 7, 8), {}, "7 of 8 prompts completed in 4 s [L5]."),
        (bar(5, 7, 8, None), {}, "7 of 8 prompts completed [L5]."),
        (bar(5, 7, 8, input=90.0, output=30.0), {}, "7 of 8 prompts completed in 4 s: input 90 tokens/s, output 30 tokens/s [L5]."),
        (bar(5, 8, 8, output=30.0), {"samples": load((1, BUSY))}, "8 of 8 prompts completed in 4 s: output 30 tokens/s [L5]."),
        (bar(5, 0, 8), {}, ""),
    ],
)  # fmt: skip
def test_one_batch_is_a_sentence(one: Progress, more: dict[str, Any], said: str) -> None:
    assert of_batches(one, **more) == said


def test_a_batch_of_a_run_that_failed_is_told_whole() -> None:
    page = page_of(a_run(kind="offline", progress=[bar(5, 8, 8)]), cause())
    assert offline(page)[0] == "8 of 8 prompts completed in 4 s [L5]."


def test_several_batches_are_a_table_of_the_last_five() -> None:
    two = of_batches(bar(5, 8, 8, input=90.0), bar(6, 4, 9, 2.0, output=30.0))
    assert two.startswith("2 batches with 12 prompts in 6 s:")
    assert rows(two)["4 of 9"] == ["2 s", "unknown", "30", "[L6]"]
    six = of_batches(*(bar(5 + n, n + 1, n + 1) for n in range(6)))
    assert six.startswith("6 batches with 21 prompts in 24 s; the last 5:")
    assert "1 of 1" not in rows(six)
    assert "6 of 6" in rows(six)


def result(
    number: int, kind: Any = "serve", asked: dict[str, Any] | None = None, **figures: float
) -> Benchmark:
    return Benchmark(
        kind, {name.replace("_", " "): one for name, one in figures.items()}, (line(number),), asked or {}
    )


def of_benchmarks(*results: Benchmark) -> str:
    return "\n".join(benchmarks(page_of(a_run(benchmarks=list(results)))))


def test_results_stand_side_by_side_with_what_the_client_asked_for() -> None:
    text = of_benchmarks(
        result(3, asked={"model": "m", "rate": 1}, Requests=9.0, Failed=1.0),
        result(4, asked={"model": "m", "rate": 2}, Requests=8.0),
    )
    assert text.startswith(
        "The client was started with `model=m`.\n\n2 results of a serving benchmark in this log:"
    )
    found = rows(text)
    assert found[""] == ["[L3]", "[L4]"]
    assert found["`rate`"] == ["1", "2"]
    assert found["Requests"] == ["9", "8"]
    assert found["Failed"] == ["1", ""]
    assert "`model`" not in found


def test_six_results_of_each_kind_are_shown_and_a_median_once() -> None:
    many = of_benchmarks(
        *(result(3 + n, Requests=float(n)) for n in range(7)),
        result(20, "latency", P50_TTFT=4.0, Median_TTFT=4.0, P99_TTFT=5.0),
    )
    assert "7 results of a serving benchmark in this log, the last 6:" in many
    assert rows(many)["Requests"] == ["1", "2", "3", "4", "5", "6"]
    assert "1 result of a latency benchmark in this log:" in many
    assert "P50 TTFT" not in rows(many)
    assert rows(many)["P99 TTFT"] == ["5"]
    alone = of_benchmarks(result(3, P50_TTFT=4.0))
    assert rows(alone)["P50 TTFT"] == ["4"]
    assert "started with" not in alone


def step(number: int, most: int, rate: float, wait: float, tokens: float = 9e4) -> Benchmark:
    figures = {"Request throughput (req/s)": rate, "Median TTFT (ms)": wait, "Successful requests": 40.0}
    return Benchmark(
        "serve", {**figures, "Total input tokens": tokens}, (line(number),), {"max_concurrency": most}
    )


def test_a_sweep_says_from_how_many_requests_at_once_on_the_server_is_full() -> None:
    sweep = (step(3, 2, 0.5, 900.0), step(4, 8, 0.98, 2000.0), step(5, 16, 1.0, 9000.0))
    assert (
        "With more than 8 requests at once the server answered hardly faster: 0.98 req/s with 8, 1 with 16, while the median time"
        " to the first token grew from 2 s to 9 s [L4, L5]." in of_benchmarks(*sweep)
    )
    for other in (
        sweep[:2],
        (*sweep[:2], step(5, 16, 1.9, 9000.0)),  # It still gains.
        (*sweep[:2], step(5, 16, 1.0, 2100.0)),  # Nothing waits longer.
        (*sweep[:2], step(5, 16, 1.0, 9000.0, tokens=5e4)),  # Other prompts.
    ):
        assert "hardly faster" not in of_benchmarks(*other)


def test_transfers_are_told_by_mean_highest_and_last() -> None:
    given = [
        Transfer(10.0 * n, line(90 + n), {"Avg xfer time (ms)": time})
        for n, time in enumerate((2.0, 9.0, 4.0))
    ]
    text = "\n".join(transfers(page_of(a_run(transfers=given))))
    assert text.startswith("KV transfers between engines, 3 lines [L90, L92]:")
    assert rows(text)["Avg xfer time (ms)"] == ["5", "9", "4"]
    assert transfers(page_of(a_run())) == []


def on(run: Run) -> dict[str, list[str]]:
    return rows("\n".join(machine(page_of(run))))


def test_what_ran_is_told_with_its_lines() -> None:
    run = a_run(measured={"model_weights_gib": 22.8}, set={"tensor_parallel_size": 2})
    run.model = Value("org/m", "reported", (line(3), line(4)))
    run.platform_evidence = (line(5), line(6), line(7))
    found = on(run)
    assert found["model"] == ["`org/m`", "[L3, L4]"]
    assert found["weights per rank"] == ["22.8 GiB", "[L40]"]
    assert found["platform"] == ["cuda", "[L5, L6]"]
    assert found["ranks"] == ["2 GPUs (TP=2)", "[L2]"]
    assert found["vLLM"] == ["0.11.2, V1 engine", "[L3]"]


def test_what_another_table_or_nothing_tells_is_left_out() -> None:
    configured = a_run(set={"model": "org/m", "tensor_parallel_size": 1})
    configured.model = Value("org/m", "explicit", (line(3),))
    found = on(configured)
    assert "model" not in found
    assert "ranks" not in found
    assert "platform" not in found  # Without a line it is no fact of this log.
    inferred = a_run()
    inferred.version = Value("0.11.2", "derived", (), "from 3 of 3 call sites")
    assert "vLLM" not in on(inferred)
    assert on(a_run(kind="build"))["vLLM"][0] == "0.11.2"
    assert machine(page_of(a_run(version=None))) == []


@for_each(
    ("messages", "row", "cell"),
    [
        (("Resolved architecture: LlamaForCausalLM",), "architecture", "LlamaForCausalLM"),
        (("Using Flash Attention backend.",), "attention backend", "Flash Attention"),
        (("vLLM is using nccl==2.27.3",), "NCCL", "2.27.3"),
        (("Using Flash Attention backend.", "Using FlashAttention version 3"), "FlashAttention", "3"),
        (("Using FlashInfer backend.", "Using FlashAttention version 2"), "FlashAttention", None),
        (("Using FlashAttention version 2",), "FlashAttention", "2"),
    ],
)
def test_what_vllm_says_of_its_parts(messages: tuple[str, ...], row: str, cell: str | None) -> None:
    found = on(a_run(messages=messages)).get(row)
    assert (found and found[0]) == cell


def test_hosts_of_line_prefixes_are_named_with_their_first_lines() -> None:
    process = [replace(NO_PROCESS, host=f"node{n}") for n in range(9)]
    lines = [replace(record("x", 50 + n), process=process[n % 9]) for n in range(12)]
    run = a_run(processes=process, records=lines)
    assert on(run)["hosts or containers in line prefixes"][0] == ", ".join(f"node{n}" for n in range(8))
    assert on(run)["hosts or containers in line prefixes"][1].startswith("[L50, L51, L52")
    assert "hosts or containers in line prefixes" not in on(a_run(processes=[NO_PROCESS]))


def drafts(
    number: int,
    accepted: int | None = None,
    drafted: int | None = None,
    share: float | None = None,
    **more: Any,
) -> Speculation:
    return Speculation(None, line(number), accepted, drafted, share, **more)


WHOLE = drafts(5, 100, 200, 50.0, mean_length=2.0, per_position=(0.7, 0.3))


@for_each(
    ("lines", "said"),
    [
        ((WHOLE,), "50 % of the drafted tokens accepted (100 of 200), mean acceptance length 2, by position of the draft 70 %, 30 % [L5]"),
        # Two lines count by their drafts: 150 of 600, and 300 drafts more than 100.
        (
            (WHOLE, drafts(6, 50, 400, 12.5, mean_length=1.4, per_position=(0.4, 0.0))),
            "25 % of the drafted tokens accepted (150 of 600), mean acceptance length 1.6, by position of the draft 50 %, 10 % [L5, L6]",
        ),
        # Each position is counted over all drafts, also those that end before it.
        ((drafts(5, share=60.0, per_position=(0.7, 0.3)),), "60 % of the drafted tokens accepted, by position of the draft 70 %, 30 % (some drafts were shorter) [L5]"),
        ((drafts(5, share=51.0, per_position=(0.7, 0.3)),), "51 % of the drafted tokens accepted, by position of the draft 70 %, 30 % [L5]"),
        ((drafts(5, share=60.0, per_position=(0.7,)),), "60 % of the drafted tokens accepted [L5]"),
        ((drafts(5, share=40.0), drafts(6, share=60.0)), "50 % of the drafted tokens accepted [L5, L6]"),
        ((drafts(5, mean_length=2.0),), "mean acceptance length 2 [L5]"),
        ((drafts(5),), None),
        ((), None),
    ],
)  # fmt: skip
def test_drafts_are_told_by_their_share_their_length_and_their_positions(
    lines: tuple[Speculation, ...], said: str | None
) -> None:
    found = speculation_line(page_of(a_run(speculation=list(lines))))
    assert found == ([f"- speculative decoding: {said}"] if said else [])


def test_an_old_engine_counts_from_its_start() -> None:
    """Its last line holds all."""
    last = drafts(6, 50, 400, 12.5, mean_length=1.4, efficiency=0.3)
    found = speculation_line(page_of(a_run(speculation=[replace(WHOLE, efficiency=0.4), last])))
    assert found == ["- speculative decoding: 12.5 % of the drafted tokens accepted (50 of 400) [L5, L6]"]
