"""Bandwidth from counters, rows of llama.cpp's benchmarks in each form, and the threads that say something of a host."""

from __future__ import annotations

import json

import pytest

from vllm_logdoctor.evidence.model import EvidenceFile, Reading
from vllm_logdoctor.evidence.read import read_evidence
from vllm_logdoctor.run.observed import observed

Row = tuple[object, ...]


def rows_of(text: str) -> list[Row]:
    return [
        (one.name, one.value, one.unit, one.subject, one.line)
        for one in read_evidence("file", text.encode()).readings
    ]


def perf(*lines: str) -> str:
    return " Performance counter stats for 'system wide':\n\n" + "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize(
    ("moved", "seconds", "bandwidth"),
    [
        # A MiB is 1,048,576 bytes.
        ("          1,000.00 MiB  uncore_imc/data_reads/", "10.0", 0.1),
        ("         10,000.00 KiB  uncore_imc/data_reads/", "0.01", 1.02),
        ("             10.00 GiB  uncore_imc/data_writes/", "5.0", 2.15),
        ("          1,000.00 MiB  uncore_imc/cas_count_read/", "1.0", 1.05),
        ("          1,000.00 MiB  cache/misses/", "1.0", None),
    ],
)
def test_the_bandwidth_of_counted_traffic(moved: str, seconds: str, bandwidth: float | None) -> None:
    found = {
        name: value
        for name, value, *_ in rows_of(perf(moved, "", f"      {seconds}00000000 seconds time elapsed"))
    }
    assert found.get("memory bandwidth") == bandwidth


def test_traffic_of_all_counters_is_added_up_with_its_lines() -> None:
    lines = perf(
        "          1,000.00 MiB  uncore_imc/data_reads/",
        "          1,000.00 MiB  uncore_imc/data_writes/",
        "",
        "      2.000000000 seconds time elapsed",
    )
    assert rows_of(lines) == [
        ("uncore_imc/data_reads/", 1000.0, "MiB", "", 3), ("uncore_imc/data_writes/", 1000.0, "MiB", "", 4), ("time elapsed", 2.0, "s", "", 6),
        ("memory bandwidth", 1.05, "GB/s", "", (3, 4, 6)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rate", "bandwidth"),
    [("5,120.5 MB/s", 5.12), ("51.2 GB/s", 51.2), ("512,000 KB/s", 0.51), ("1.5 TB/s", 1500.0)],
)
def test_a_metric_of_bandwidth_is_taken_in_its_unit(rate: str, bandwidth: float) -> None:
    found = {
        name: value
        for name, value, *_ in rows_of(
            perf(f"          1,000.00 MiB  uncore_imc/data_reads/  #   {rate}  umc_mem_bandwidth")
        )
    }
    assert found["memory bandwidth"] == bandwidth


def test_bytes_of_all_kernels_are_added_up() -> None:
    kernel = "  k (1, 1, 1)x(128, 1, 1)\n    dram__bytes_read.sum                Mbyte           12.50\n    dram__bytes_write.sum               Kbyte          500.00\n"
    assert [row[:3] for row in rows_of(kernel * 2)] == [
        ("profiled kernels", 2, "count"),
        ("dram__bytes_read", 25_000_000, "bytes"),
        ("dram__bytes_write", 1_000_000, "bytes"),
    ]


def test_modules_of_memory_deliver_eight_bytes_a_transfer() -> None:
    module = "Memory Device\n\tTotal Width: 72 bits\n\tSize: 32 GB\n\tSpeed: 4800 MT/s\n\tConfigured Memory Speed: {} MT/s\n"
    text = "Handle 0x1100, DMI type 17\n" + module.format(4400) + module.format(4800)
    assert rows_of(text) == [
        ("memory modules", 2, "count", "", (6, 11)), ("speed of a module", 4400, "MT/s", "", 6), ("memory bandwidth at most", 73.6, "GB/s", "", 6),
    ]  # fmt: skip


def bench(prompt: int, generated: int, depth: int, rate: float) -> str:
    return f'{{"build_commit": "8cf", "model_type": "tiny", "n_prompt": {prompt}, "n_gen": {generated}, "n_depth": {depth}, "avg_ts": {rate}, "samples_ts": [1.0, 2.0]}}'


@pytest.mark.parametrize(
    ("prompt", "generated", "depth", "name"),
    [(512, 0, 0, "pp512"), (0, 128, 0, "tg128"), (512, 128, 0, "pp512+tg128"), (0, 32, 4096, "tg32 @ d4096")],
)
def test_a_test_of_llama_bench_has_the_name_of_its_own_table(
    prompt: int, generated: int, depth: int, name: str
) -> None:
    assert rows_of(f"{bench(prompt, generated, depth, 120.5)}\n")[0] == (name, 120.5, "tok/s", "tiny", 1)


def test_rows_of_llama_bench_in_json() -> None:
    """One object a line, or one key a line in an array: each speed with the line that holds it."""
    lines = f"{bench(512, 0, 0, 10.5)}\n{bench(0, 128, 0, 20.5)}\n"
    assert [(row[0], row[1], row[4]) for row in rows_of(lines) if row[2] == "tok/s"] == [
        ("pp512", 10.5, 1),
        ("tg128", 20.5, 2),
    ]
    array = (
        "[\n"
        + ",\n".join(
            "{\n" + bench(512, 0, 0, rate)[1:-1].replace(', "', ',\n"') + "\n}" for rate in (10.5, 20.5)
        )
        + "\n]\n"
    )
    assert [(row[0], row[1], row[4]) for row in rows_of(array) if row[2] == "tok/s"] == [
        ("pp512", 10.5, 8),
        ("pp512", 20.5, 17),
    ]


def test_the_threads_of_a_host_are_the_busy_ones_and_vllms() -> None:
    """From 30 % of a processor on, of two frames the later one, the busiest first; vLLM's own count however idle."""

    def thread(name: str, value: object, pid: int) -> Reading:
        return Reading(f"cpu of {name}", value, "%", f"thread {pid}")  # type: ignore[arg-type]

    readings = (
        Reading("load average 1 min", 10.3), thread("java", 5.0, 1), thread("VLLM::EngineCor", 1.0, 2), thread("cc1plus", 99.0, 3), thread("java", 97.0, 1), thread("sh", "x", 4), thread("gcc", 30.0, 6), thread("ld", 29.9, 7),
        thread("idle", 0.5, 5),
    )  # fmt: skip
    found = observed([(EvidenceFile("top.txt", "top", readings), True)]).of("host")
    assert [(one.name, one.value) for one in found] == [
        ("load average 1 min", 10.3),
        ("cpu of cc1plus", 99.0),
        ("cpu of java", 97.0),
        ("cpu of gcc", 30.0),
        ("cpu of VLLM::EngineCor", 1.0),
    ]


def api(*series: dict[str, object]) -> list[Row]:
    return rows_of(
        json.dumps({"status": "success", "data": {"resultType": "matrix", "result": list(series)}})
    )


SERIES = {"__name__": "vllm:num_requests_waiting", "engine": "0", "pod": "a", "model_name": "tiny"}


@pytest.mark.parametrize(
    ("values", "rows"),
    [
        ([], []),
        ([3], [(3, "last value")]),
        ([3, 7.5], [(7.5, "last value"), ([3, 7.5], "series")]),
        (list(range(300)), [(299, "last value"), (list(range(200)), "series")]),
    ],
)
def test_a_series_of_prometheus_has_its_last_value_and_all_of_several(
    values: list[float], rows: list[tuple[object, str]]
) -> None:
    found = api({"metric": SERIES, "values": [[n, str(value)] for n, value in enumerate(values)]})
    expected = [("vllm:num_requests_waiting", value, unit, "engine 0, pod a", None) for value, unit in rows]
    assert [one for one in found if one[0] != "model"] == expected
    assert [one[1] for one in found if one[0] == "model"] == (["tiny"] if values else [])


def test_an_answer_at_one_time_has_a_value_without_a_name_and_each_model_once() -> None:
    found = api(*({"metric": {"model_name": name}, "value": [1, "3.5"]} for name in ("b", "a", "b")))
    assert [one[:3] for one in found] == [("value", 3.5, "last value")] * 3 + [("model", "a", ""), ("model", "b", "")]  # fmt: skip


def test_a_table_of_llama_bench_gives_speed_spread_and_size_of_each_test() -> None:
    table = (
        "| model | size | params | backend | ngl | test | t/s |\n"
        "| --- | ---: | ---: | --- | --: | --: | ---: |\n"
        "| qwen2 1.5B Q4_K | 1.04 GiB | 1.54 B | CUDA | 99 | pp512 | 5023.31 ± 12.50 |\n"
        "| qwen2 1.5B Q4_K | 1.04 GiB | 1.54 B | CUDA | 99 | tg128 | 121.70 ± 0.40 |\n"
    )
    model = "qwen2 1.5B Q4_K"
    assert rows_of(table) == [
        ("pp512", 5023.31, "tok/s", model, 3),
        ("pp512 spread", 12.5, "tok/s", model, 3),
        ("size", "1.04 GiB", "", model, 3),
        ("tg128", 121.7, "tok/s", model, 4),
        ("tg128 spread", 0.4, "tok/s", model, 4),
        ("size", "1.04 GiB", "", model, 4),
    ]
