"""The section on the load, and those on messages and on what was read: which rows, in which words, up to which bound."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tests.report.test_verdict import line, page_of
from tests.rules.making import FILE, a_run, load, record, sample
from tests.tables import for_each
from vllm_logdoctor.report.model import Analysis, Diagnosis
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.sections.coverage import missing, what_was_read
from vllm_logdoctor.report.sections.messages import warnings_in_log
from vllm_logdoctor.report.sections.serving import serving
from vllm_logdoctor.rules.bottleneck import Bottleneck
from vllm_logdoctor.rules.model import Finding, Message
from vllm_logdoctor.run.model import Coverage, Extremes, Run, SourceSummary, Unknown

BUSY = {"running": 8, "generation": 300.0, "kv": 4.0}
IDLE = {"running": 0, "generation": 0.0}


def section(run: Run) -> str:
    return "\n".join(serving(page_of(run)))


def of_load(*parts: tuple[int, dict[str, Any]], **more: Any) -> str:
    return section(a_run(samples=load(*parts), **more))


def rows(text: str) -> dict[str, list[str]]:
    """Return the cells of each row of all tables by its first one."""
    cells = [
        [cell.strip() for cell in row.strip("|").split("|")]
        for row in text.split("\n")
        if row.startswith("|")
    ]
    return {first: rest for first, *rest in cells}


def test_a_run_without_statistics_and_requests_has_no_section() -> None:
    assert section(a_run()) == ""
    assert of_load((3, IDLE)) == ""


@for_each(
    ("parts", "said"),
    [
        (((1, BUSY),), "1 statistics line."),
        (((9, BUSY),), "9 statistics lines."),
        (((9, BUSY), (3, IDLE)), "12 statistics lines, 3 without load."),
    ],
)
def test_lines_are_counted_with_those_without_load(
    parts: tuple[tuple[int, dict[str, Any]], ...], said: str
) -> None:
    assert of_load(*parts).split("\n")[0] == said


def test_the_values_of_a_single_line_are_a_sentence_without_what_is_zero() -> None:
    assert "Generation 300 tokens/s; running 8; KV cache 4 %." in of_load((1, BUSY))
    assert "Generation 300 tokens/s; running 8; waiting 2; KV cache 4 %." in of_load(
        (1, {**BUSY, "waiting": 2})
    )


def test_few_lines_are_listed_and_eight_have_means() -> None:
    few = of_load((7, BUSY))
    assert few.count("| 300 | 8 |") == 7
    assert rows(few)["time"] == ["generation, tokens/s", "running", "KV cache, %", "evidence"]
    assert "[L106]" in few
    many = rows(of_load((6, BUSY), (2, {**BUSY, "generation": 100.0, "waiting": 4})))
    assert many[""] == ["mean", "median", "min", "max"]
    assert many["generation, tokens/s"] == ["250", "300", "100", "300"]
    assert many["waiting"] == ["1", "0", "0", "4"]
    assert "prompts, tokens/s" not in many


def test_lines_without_a_time_are_listed_without_one() -> None:
    samples = [replace(one, time=None) for one in load((3, BUSY))]
    assert "time" not in rows(section(a_run(samples=samples)))


def test_means_leave_out_lines_that_were_partly_idle_and_the_highest_value_does_not() -> None:
    text = of_load((1, IDLE), (1, {**BUSY, "generation": 150.0}), (8, BUSY), (1, IDLE))
    assert rows(text)["generation, tokens/s"] == ["300", "300", "150", "300"]
    assert "Mean and median leave out 1 line whose interval was partly idle." in text
    assert "leave out" not in of_load((9, BUSY))


def test_the_highest_value_is_that_of_all_lines_where_a_long_series_is_thinned_out() -> None:
    seen = Extremes(generation=950.0, running=8, kv_usage=4.0)
    assert rows(of_load((9, BUSY), extremes=seen))["generation, tokens/s"][-1] == "950"
    both = [replace(one, engine=engine) for one in load((9, BUSY)) for engine in (0, 1)]
    assert rows(section(a_run(samples=both, extremes=seen)))["generation, tokens/s"][-1] == "600"


def test_of_a_sweep_each_load_has_its_rates_and_only_the_highest_of_all_is_told() -> None:
    text = of_load(
        (12, {"running": 1, "generation": 250.0, "prompt": 10.0}),
        (6, {"running": 9, "generation": 2400.0, "prompt": 110.0}),
        (6, {"running": 18, "generation": 4800.0, "prompt": 220.0}),
        load_commands=(line(1, "vllm bench serve --request-rate 1"),),
    )
    found = rows(text)
    assert found[""] == ["max"]
    assert found["generation, tokens/s"] == ["4,800"]
    # So few come and go between two lines: how many ran in the mean is not known.
    assert found["1"] == ["10", "250", "", "10"]
    assert found["9"] == ["4", "2,400", "267", "110"]
    assert found["18"] == ["4", "4,800", "267", "220"]


@for_each(
    ("lines", "hit", "setting", "said"),
    [
        (9, 12.5, None, "Prefix cache hit rate 12.5 % at the end"),
        (2, 12.5, None, "Prefix cache hit rate 12.5 % at the end"),
        (8, 0.0, None, "Prefix cache hit rate 0 % at the end"),
        # Of a few requests no hit says nothing, nor where no prefix is cached.
        (7, 0.0, None, None),
        (9, 0.0, False, None),
        (9, None, None, None),
    ],
)
def test_the_hit_rate_is_that_of_the_end(
    lines: int, hit: float | None, setting: Any, said: str | None
) -> None:
    settings = {} if setting is None else {"enable_prefix_caching": setting}
    text = of_load((lines, {**BUSY, "hit": hit}), set=settings, extremes=Extremes(prefix_hit_last=hit))
    assert ("hit rate" in text) is (said is not None)
    assert (said or "") in text


def test_engines_have_a_row_each_and_no_hit_rate_in_common() -> None:
    both = [replace(one, engine=engine, prefix_hit=9.0) for one in load((9, BUSY)) for engine in (0, 1)]
    text = section(a_run(samples=both))
    assert text.startswith("18 statistics lines; ")
    assert rows(text)["engine 1"] == ["300", "300", "0", "8", "0", "4 %"]
    assert "hit rate" not in text
    assert "engine 0" not in rows(of_load((9, BUSY)))


def test_the_pace_of_a_step_and_of_an_answer() -> None:
    assert "edian decode step 26.7 ms (from statistics lines without prompt tokens)" in of_load((9, BUSY))
    assert "decode step" not in of_load((9, {**BUSY, "prompt": 90.0}))
    lines = [*load((10, {"running": 1, "generation": 500.0})), sample(number=10, generation=0.0)]
    run = a_run(samples=lines, accesses={("POST", "/v1/completions", 200): 100})
    assert "bout 500 generated tokens per answer" in section(run)


def test_times_without_lines_are_named_up_to_three() -> None:
    def with_holes(number: int) -> str:
        lines = [
            replace(one, time=10.0 * at + 300.0 * min(at // 3, number))
            for at, one in enumerate(load((20, BUSY)))
        ]
        return section(a_run(samples=lines))

    assert "No statistics lines" not in with_holes(0)
    assert (
        "in 4 places, with requests running before and after: the log does not show the load of that time."
        in with_holes(4)
    )
    assert " places" not in with_holes(3)
    assert "No statistics lines" in with_holes(3)


POST = "POST"


@for_each(
    ("answers", "said"),
    [
        ({(POST, "/v1/completions", 200): 3}, "3 HTTP responses (POST `/v1/completions`): all 200."),
        ({(POST, "/v1/completions", 200): 1, ("GET", "/v1/models", 200): 5}, "1 HTTP response (POST `/v1/completions`): status 200."),
        ({(POST, "/v1/completions", 200): 3, (POST, "/v1/embeddings", 200): 1}, "4 HTTP responses to POST requests: all 200."),
        ({("GET", "/v1/models", 200): 5}, None),
    ],
)  # fmt: skip
def test_answers_are_those_to_requests_of_a_client(answers: dict[Any, int], said: str | None) -> None:
    text = section(a_run(accesses=answers))
    assert ("HTTP response" in text) is (said is not None)
    assert (said or "") in text


def test_endpoints_are_ranked_by_their_requests_and_six_are_shown() -> None:
    answers = {
        (POST, f"/v1/{name}", 200): count
        for name, count in zip("abcdefgh", (5, 9, 7, 7, 1, 8, 3, 2), strict=True)
    }
    shown = [one for one in rows(section(a_run(accesses=answers))) if "/v1/" in one]
    assert [one[-2] for one in shown] == ["b", "f", "c", "d", "a", "g"]
    assert "2 more endpoints." in section(a_run(accesses=answers))
    six = dict(list(answers.items())[:6])
    assert "more endpoint" not in section(a_run(accesses=six))


def message(verdict: Any = "needs-attention", number: int = 9, pattern: str = "some", **more: Any) -> Message:
    return Message(pattern, "Something is odd", verdict, "It is odd.", 1234, line(number), **more)


def table_of(
    *messages: Message, root: Finding | None = None, earlier: tuple[Message, ...] = (), limit: Any = ()
) -> str:
    run = a_run(outcome="crashed_at_startup" if root else "running")
    bottleneck = Bottleneck("none-clear", "the load is not known", limit)
    page = page_of(run, *([root] if root else []), limit=bottleneck, messages=messages)
    if earlier:
        before = replace(page.diagnosis, messages=earlier)
        page = Page(page.analysis, page.diagnosis, earlier=(before,))
    return "\n".join(warnings_in_log(page))


def root(id: str) -> Finding:
    return Finding(id, "failure", "high", "high", "t", "e", "root", (line(7),))


@for_each(
    ("verdict", "root_id", "shown"),
    [
        ("needs-attention", None, "to check"),
        ("costs-performance", None, "costs performance"),
        ("will-break", None, "will break"),
        ("not-fatal", None, "error, not fatal"),
        ("harmless", None, None),
        ("information", None, None),
        ("unknown", None, None),
        # Beside a cause that is known only what will break matters, beside one that is not what may be it.
        ("needs-attention", "disk-full", None),
        ("will-break", "disk-full", "will break"),
        ("needs-attention", "cause-not-in-log", "to check"),
        ("costs-performance", "cause-not-in-log", None),
    ],
)
def test_messages_that_matter(verdict: Any, root_id: str | None, shown: str | None) -> None:
    text = table_of(message(verdict), root=root(root_id) if root_id else None)
    assert (rows(text).get(shown or "") if shown else None) == (
        ["`Something is odd`", "It is odd.", "1,234", "[L9]"] if shown else None
    )
    assert bool(text) is (shown is not None)


def test_messages_that_are_cited_or_were_told_of_an_earlier_run_are_left_out() -> None:
    assert not table_of(message(number=9), limit=(line(9),))
    assert not table_of(message("will-break", number=7), root=root("disk-full"))
    assert table_of(message(number=9, custom=True), limit=(line(9),))
    assert table_of(message("harmless", custom=True))
    assert not table_of(message(), earlier=(message(),))
    assert table_of(message(), earlier=(message(pattern="other"),))


def test_messages_are_ordered_by_what_they_do_and_eight_are_shown() -> None:
    some = [
        message("not-fatal", 30),
        message("will-break", 31),
        message("costs-performance", 32),
        message("harmless", 33, custom=True),
    ]
    assert list(rows(table_of(*some)))[2:] == [
        "will break",
        "costs performance",
        "error, not fatal",
        "harmless",
    ]
    assert "1 more in the JSON report." in table_of(*(message(number=20 + n) for n in range(9)))
    assert "more in the JSON" not in table_of(*(message(number=20 + n) for n in range(8)))


def read(
    *sources: SourceSummary, unknown: tuple[Unknown, ...] = (), found: tuple[Finding, ...] = (), **more: Any
) -> str:
    judged = Diagnosis(a_run(), found, Bottleneck("none-clear", "x"), unknowns=("No weights are printed.",))
    coverage = Coverage(1200, 9, 9, more.pop("cut", 0), unknown, more.pop("notes", ()))
    analysis = Analysis(sources or (SourceSummary(FILE, 1, 1200),), (judged,), coverage, **more)
    return "\n".join(what_was_read(analysis, Page(analysis, judged)))


def test_what_was_read_names_files_where_there_are_several_or_one_was_not_used() -> None:
    assert read() == "1,200 lines read."
    two = read(
        SourceSummary("a.log", 1, 1200), SourceSummary("b.csv", 1, 0, kind="csv", note="a table, left out")
    )
    assert rows(two)["a.log"] == ["1,200", "vLLM log, used"]
    assert rows(two)["b.csv"] == ["", "a table, left out"]
    noted = read(SourceSummary("a.log", 1, 1200, note="cut at 1 GB"))
    assert rows(noted)["a.log"] == ["1,200", "cut at 1 GB"]


def test_what_was_cut_and_noted_is_said() -> None:
    assert read(cut=1) == "1,200 lines read.\n1 character of overlong lines were cut."
    assert read(notes=("A note.",)).endswith("read.\n\nA note.")


def unknown(
    text: str = "WARNING: the door is shut", number: int = 9, count: int = 1, template: str | None = None
) -> Unknown:
    return Unknown("WARNING", text if template is None else template, count, line(number, text))


FOUND = Finding(
    "x",
    "failure",
    "high",
    "high",
    "t",
    "e",
    "root",
    (line(7, "KeyError: rows of the table"), line(8, "short Error: rows")),
)


@for_each(
    ("group", "told"),
    [
        (unknown(), True),
        (unknown(template="12 34"), False),
        (unknown(number=7), False),
        (unknown(number=7, count=2), True),  # One of two is explained.
        (unknown("WARNING: KeyError: rows of the table in x"), False),
        (unknown("WARNING: rows differ"), True),
    ],
)
def test_warnings_that_no_finding_explains(group: Unknown, told: bool) -> None:
    assert ("does not explain" in read(unknown=(group,), found=(FOUND,))) is told


def test_eight_kinds_of_them_are_shown() -> None:
    kinds = tuple(unknown(f"WARNING: door {one} is shut", 20 + at) for at, one in enumerate("abcdefghi"))
    assert "does not explain:" in read(unknown=kinds[:8])
    text = read(unknown=kinds)
    assert "does not explain; 1 more kinds in the JSON report:" in text
    assert "door h is shut" in text
    assert "door i is shut" not in text


def test_what_is_missing_is_a_list() -> None:
    judged = Diagnosis(
        a_run(), (), Bottleneck("none-clear", "x"), unknowns=("No weights are printed.", "No card.")
    )
    analysis = Analysis((SourceSummary(FILE, 1, 1),), (judged,), Coverage(1, 1, 1, 0, ()))
    assert missing(Page(analysis, judged)) == ["- No weights are printed.", "- No card."]


@for_each(
    ("words", "outcome", "running", "status", "said"),
    [
        (("Error in chat completion stream generator.",), "running", 1, 200, " A status is logged when the answer begins: 1 stream failed after that [L50]."),
        (("Error in completion stream generator", "Error in chat completion stream generator."), "crashed_while_serving", 1, 200, " 2 streams failed after that [L50, L51]."),
        (("Error in the generator of words.",), "running", 1, 200, ""),
        ((), "crashed_while_serving", 1, 200, " the crash may have cut off streamed answers with status 200."),
        ((), "crashed_while_serving", 0, 200, ""),
        ((), "crashed_while_serving", 1, 400, ""),
        ((), "killed", 1, 200, ""),
    ],
)  # fmt: skip
def test_a_status_says_nothing_of_a_stream_that_failed_later(
    words: tuple[str, ...], outcome: Any, running: int, status: int, said: str
) -> None:
    run = a_run(
        outcome=outcome,
        samples=load((1, BUSY), (1, {**BUSY, "running": running})),
        accesses={(POST, "/v1/completions", status): 3},
        tail=[record(text, 50 + at) for at, text in enumerate(words)],
    )
    shown = next(one for one in section(run).split("\n") if "HTTP response" in one)
    assert shown.endswith(f"{status}.{said}") if not said else said in shown


def test_another_server_may_have_answered_some() -> None:
    run = a_run(accesses={(POST, "/v1/completions", 200): 3}, other_server=line(77))
    assert "Some may belong to the server that starts at [L77]" in section(run)


def test_curves_show_what_changes_over_eight_lines_and_their_highest_value() -> None:
    text = of_load((9, BUSY), (3, {**BUSY, "kv": 55.0, "generation": 900.0}))
    assert "▃▃▃▃▃▃▃▃▃███  up to 900" in text
    assert "▁▁▁▁▁▁▁▁▁▄▄▄  up to 55 of 100" in text
    assert "running  " not in text
    assert "up to" not in of_load((5, BUSY), (2, {**BUSY, "kv": 55.0}))
    assert "up to 55 of 100" in of_load((5, BUSY), (3, {**BUSY, "kv": 55.0}))
    # A column of a long run is a mean of lines; the peak is that of all.
    long = of_load((200, BUSY), (1, {**BUSY, "generation": 900.0}), (3, BUSY), (1, IDLE))
    assert "means up to 500, peak 900" in long


@for_each(
    ("options", "number", "told"),
    [
        ("--result-filename out/a.json", 9, False),
        ("--result-filename out/a.json --save-result", 9, True),
        ("--result-filename out/a.json", 3, True),  # It stands before the command.
    ],
)
def test_a_result_file_that_a_benchmark_does_not_write_is_no_unexplained_warning(
    options: str, number: int, told: bool
) -> None:
    run = a_run(load_commands=(line(5, f"vllm bench serve --model org/m {options}"),))
    group = unknown("WARNING: result file is missing", number)
    analysis = Analysis(
        (SourceSummary(FILE, 1, 9),),
        (Diagnosis(run, (), Bottleneck("none-clear", "x")),),
        Coverage(9, 9, 9, 0, (group,)),
    )
    found = "\n".join(what_was_read(analysis, Page(analysis, analysis.runs[0])))
    assert ("does not explain" in found) is told
    assert ("[L5] has no `--save-result`" in found) is not told
