"""Results of `vllm bench` in the log of the server: what is a figure of one, which lines prove it, what load was asked for."""

from __future__ import annotations

from tests.unseen.reading import only_run
from vllm_logdoctor.run.model import Benchmark

SERVER = "INFO 03-04 10:00:00 [api_server.py:1289] vLLM API server version 0.11.0\n"
HEAD = "============ Serving Benchmark Result ============\n"
FIGURES = "Successful requests:                     40        \nMean TTFT (ms):                          21.50     \n"
ASKED = "Namespace(subparser='bench', dataset_name='{}', num_prompts=300, model='org/m', random_input_len=512, request_rate=inf, goodput=None)\n"
THROUGHPUT = "Throughput: 1.50 requests/s, 2000.00 total tokens/s, 250.00 output tokens/s\n"


def results(text: str) -> list[Benchmark]:
    return only_run(SERVER + text).benchmarks


def places(one: Benchmark) -> list[int]:
    return [line.line for line in one.evidence]


def test_a_result_has_its_figures_and_its_first_and_last_line() -> None:
    [found] = results(f"{HEAD}{FIGURES}Request throughput (req/s):              nan       \n")
    assert (found.kind, found.figures) == ("serve", {"Successful requests": 40.0, "Mean TTFT (ms)": 21.5})
    assert places(found) == [2, 5]


def test_figures_without_the_head_of_a_result_are_none() -> None:
    """A prompt or an answer may quote them."""
    assert results(FIGURES) == []
    assert results(HEAD) == []
    assert results(f"{THROUGHPUT}{FIGURES}")[0].figures.keys() == {
        "requests/s", "total tokens/s", "output tokens/s",
    }  # fmt: skip


def test_figures_that_a_logger_prints_are_none() -> None:
    quoted = FIGURES.replace("Mean", "INFO 03-04 10:00:09 [logger.py:41] Mean")
    [found] = results(HEAD + quoted)
    assert found.figures == {"Successful requests": 40.0}


def test_figures_far_below_the_head_are_of_no_result() -> None:
    for lines, counted in ((118, 2), (119, 1), (120, 0)):
        [*found] = results(HEAD + "another line\n" * lines + FIGURES)
        assert sum(len(one.figures) for one in found) == counted


def test_each_head_begins_a_result() -> None:
    again = FIGURES.replace("40", "50")
    first, second = results(HEAD + FIGURES + HEAD + again)
    assert (first.figures["Successful requests"], second.figures["Successful requests"]) == (40.0, 50.0)
    assert (places(first), places(second)) == ([2, 4], [5, 7])


def test_a_line_of_throughput_is_a_result_of_its_own_in_the_file_as_it_stands() -> None:
    without = "Throughput: 3.50 requests/s, 1500.00 tokens/s\n"
    served, first, second = results(HEAD + FIGURES + THROUGHPUT + without)
    assert served.figures.keys() == {"Successful requests", "Mean TTFT (ms)"}
    assert first.kind == second.kind == "throughput"
    assert first.figures == {"requests/s": 1.5, "total tokens/s": 2000.0, "output tokens/s": 250.0}
    assert second.figures == {"requests/s": 3.5, "total tokens/s": 1500.0}
    assert (places(first), places(second)) == ([5], [6])


def test_latency_is_one_result_of_an_average_and_percentiles() -> None:
    [found] = results(
        "Avg latency: 1.25 seconds\n10% percentile latency: 1.0 seconds\n99% percentile latency: 1.5 seconds\n"
    )
    assert found.kind == "latency"
    assert found.figures == {"average latency (s)": 1.25, "p10 latency (s)": 1.0, "p99 latency (s)": 1.5}
    assert places(found) == [2, 4]


def test_the_load_that_was_asked_for_is_a_part_of_a_served_result_alone() -> None:
    [served] = results(ASKED.format("random") + HEAD + FIGURES)
    assert served.asked["random_input_len"] == 512
    assert (served.asked["model"], served.asked["num_prompts"]) == ("org/m", 300)
    assert not {"goodput", "subparser"} & served.asked.keys()
    assert places(served) == [2, 3, 5]
    [offline] = results(ASKED.format("random") + THROUGHPUT)
    assert (dict(offline.asked), places(offline)) == ({}, [3])


def test_a_fixed_data_set_has_no_lengths_that_were_asked_for() -> None:
    [served] = results(ASKED.format("sharegpt") + HEAD + FIGURES)
    assert served.asked["dataset_name"] == "sharegpt"
    assert "random_input_len" not in served.asked


def test_new_arguments_end_a_result() -> None:
    found = results(HEAD + FIGURES + ASKED.format("sharegpt") + FIGURES + HEAD + FIGURES)
    assert [places(one) for one in found] == [[2, 4], [5, 8, 10]]


def test_results_have_the_load_of_the_command_before_each_where_the_client_prints_none() -> None:
    """Also far below the head of the file, where the command is written over several lines."""
    command = "python3 benchmarks/benchmark_serving.py \\\n  --model org/m \\\n  --dataset-name random \\\n  --max-concurrency {} \\\n  --random-input-len 64\n"
    runs = [
        f"{command.format(most)}{'another line' if far else ''}\n" + "text\n" * far + HEAD + FIGURES
        for most, far in ((1, 150), (8, 0))
    ]
    first, second = results("".join(runs))
    assert [one.asked["max_concurrency"] for one in (first, second)] == [1, 8]
    assert [one.asked["random_input_len"] for one in (first, second)] == [64, 64]
    assert places(second)[0] == places(first)[-1] + 1, "the line of its command"


def test_a_command_is_of_the_next_result_only() -> None:
    command = "vllm bench serve --model org/m --max-concurrency 4\n"
    first, second = results(command + HEAD + FIGURES + HEAD + FIGURES)
    assert (first.asked["max_concurrency"], second.asked) == (4, {})
