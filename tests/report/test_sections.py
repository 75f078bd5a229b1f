"""Single statements of the report: when they are made, and when they are not."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.report.synthetic import START, make_analysis, make_findings
from tests.run.lives_of_a_server import start, statistics
from vllm_logdoctor import analyze
from vllm_logdoctor.plan.model import Plan, PlannedChange
from vllm_logdoctor.report import markdown
from vllm_logdoctor.report.effects import change_words, effect_words
from vllm_logdoctor.report.excerpt import excerpt
from vllm_logdoctor.report.model import Analysis, Diagnosis, Message
from vllm_logdoctor.report.sections.measure import bench_command
from vllm_logdoctor.report.series import points_of
from vllm_logdoctor.report.serving import quantile, serving_of, summed_of
from vllm_logdoctor.rules.bottleneck import Bottleneck
from vllm_logdoctor.rules.model import Change, Effect
from vllm_logdoctor.run.model import Benchmark, Phase, Run, Sample, Value


def report_of(diagnosis: Diagnosis) -> str:
    analysis = make_analysis()
    return markdown.render(Analysis(analysis.sources, (diagnosis,), analysis.coverage))


def changed(failure: bool = False, **fields: object) -> Diagnosis:
    return replace(make_analysis(failure=failure).runs[0], **fields)


class TestWhatToLookFor:
    def test_what_to_look_for_stands_behind_what_it_is_for(self):
        text = report_of(changed())
        told = text[text.index("The new log must show:") :].split("\n\n")[1].splitlines()
        assert told
        assert all(line.startswith("- **") for line in told)

    def test_what_asks_for_no_change_shows_nothing_later(self):
        finding = make_findings("Qwen", False)[0]
        known = replace(finding, id="x", changes=(), severity="info", verify="no such line")
        assert "no such line" not in report_of(changed(findings=(finding, known)))

    def test_an_offline_engine_is_told_where_its_flags_go(self):
        diagnosis = changed()
        run = replace(diagnosis.run, kind="offline")
        plan = replace(diagnosis.plan, command_before=None, command_after=None)
        assert "the argument of the same name of `LLM(...)`" in report_of(
            replace(diagnosis, run=run, plan=plan)
        )


class TestVerdict:
    @pytest.mark.parametrize(
        ("confidence", "words"), [("high", ": out"), ("medium", ": probably out"), ("low", ": perhaps out")]
    )
    def test_a_doubtful_cause_is_called_doubtful(self, confidence, words):
        root, *others = make_findings("Qwen", True)
        text = report_of(changed(True, findings=(replace(root, confidence=confidence), *others)))
        assert f"**Crashed while serving{words} of memory Qwen" in text

    def test_a_crash_without_a_cause_says_that_the_log_does_not_tell(self):
        text = report_of(changed(True, findings=()))
        assert "**Crashed while serving. The log does not say why.**" in text
        assert "The log does not hold the cause." in text

    def test_nothing_to_change_is_a_result(self):
        text = report_of(changed(findings=(), plan=Plan(), bottleneck=Bottleneck("client-limited", "")))
        assert "**The client is the limit: the server took all that came and had room for more.**" in text
        assert "Nothing to change" in text
        assert "The plan" not in text
        assert "How to measure" not in text

    def test_a_limit_without_a_rule_is_not_called_fine(self):
        text = report_of(changed(findings=(), plan=Plan(), bottleneck=Bottleneck("kv-cache-limited", "")))
        assert "Nothing to change" not in text
        assert "No rule finds a setting in this log that would lift this limit." in text

    def test_a_failure_is_told_without_the_table_of_gains(self):
        head = report_of(changed(True)).split("## 1")[0]
        assert "| # | change | why | confidence |" in head
        assert "2 further changes" not in head.replace("1 further change below.", "")

    def test_a_change_that_the_plan_leaves_out_is_not_among_the_first(self):
        advice = make_findings("Qwen", False)[0]
        later = replace(
            advice,
            id="later",
            title="small steps",
            changes=(Change("--max-num-batched-tokens", "flag", 1, 2),),
        )
        plan = Plan(
            (PlannedChange(advice.changes[0], (advice.id,)),),
            refused=(("--max-num-batched-tokens", "make room first"),),
        )
        text = report_of(changed(findings=(advice, later), plan=plan))
        top = text.partition("## ")[0]
        assert "--max-num-seqs" in top
        assert "--max-num-batched-tokens" not in top
        assert "- **Not yet.** `--max-num-batched-tokens` make room first." in text

    def test_a_start_that_the_log_does_not_see_to_its_end_is_told_as_that(self):
        run = replace(
            changed().run,
            outcome="truncated",
            startup_complete=False,
            samples=[],
            benchmarks=[],
            phases=changed().run.phases[:2],
        )
        text = report_of(changed(run=run, findings=(), plan=Plan()))
        told = "**The log ends before the start-up does; the last part of it in the log: weights [L7]; "
        assert f"{told}whether the server came up is not in it.**" in text

    def test_a_log_that_ends_where_the_engine_is_ready_asks_for_its_rest_before_it_advises(self):
        analysed = changed()
        line = make_analysis().runs[0].findings[0].evidence[0]
        run = replace(
            analysed.run,
            outcome="truncated",
            startup_complete=False,
            samples=[],
            benchmarks=[],
            measured={"init_engine_seconds": Value(34.1, "reported", (line,))},
        )
        top = report_of(changed(run=run)).partition("## ")[0]
        assert "**The log ends where the engine is ready [L" in top
        assert "What to do: get the rest of the log" in top
        assert "| change |" not in top

    def test_a_benchmark_s_own_log_is_not_taken_for_a_server_s(self):
        line = make_analysis().runs[0].findings[0].evidence[0]
        figures = {"Successful requests": 640.0, "Output token throughput (tok/s)": 2955.0}
        run = Run(benchmarks=[Benchmark("serve", figures, (line,))], outcome="truncated")
        text = report_of(Diagnosis(run, (), Bottleneck("startup-only", ""), Plan()))
        assert (
            "nothing of a server is in it: Successful requests 640, Output token throughput (tok/s) 2,955 [L7]."
            in text
        )
        assert "log cut off" not in text.splitlines()[0]


class TestTimeline:
    def test_parts_stand_under_their_whole_whenever_they_begin(self):
        run = changed().run
        profiling = Phase("profiling", "", START + 64.5, START + 66, 1.5, (), "engine-init")
        run = replace(run, phases=[*run.phases[:2], profiling, *run.phases[2:]])
        lines = report_of(changed(run=run)).splitlines()
        rows = [line.split("|")[1].strip() for line in lines if line.startswith("| ")]
        assert rows.index("· memory profiling") > rows.index("profile, KV cache, warm-up")

    def test_a_period_says_how_its_limits_are_mixed(self):
        busy = [3, 3, 0, 3, 3, 3, *[0] * 30]
        lines = [
            statistics(clock=f"03-04 10:{10 + n // 6}:{n % 6 * 10:02}", running=running)
            .replace("throughput: 10.0", f"throughput: {running}.0")
            .replace("throughput: 100.0", f"throughput: {running}.0")
            for n, running in enumerate(busy)
        ]
        periods = analyze([*start(), *lines]).to_markdown().partition("Serving periods")[2]
        assert "; samples: 5 client-limited, 1 idle [" in periods

    def test_a_log_that_begins_in_the_middle_has_no_length_of_start_up(self):
        diagnosis = changed()
        diagnosis.run.phases[:] = [
            Phase("startup", "", START, START + 9, 9.0),
            Phase("unexplained", "", START, START + 9, 9.0),
        ]
        text = report_of(diagnosis)
        assert "Start-up took" not in text
        assert "not explained" not in text

    def test_a_start_that_failed_broke_off(self):
        diagnosis = changed(True)
        diagnosis.run.startup_complete = False
        assert "Start-up broke off after 1 min 40 s; 4 GPUs × 1 min 40 s = 0.11 GPU-hours." in report_of(
            diagnosis
        )

    def test_a_part_is_never_more_than_the_whole(self):
        diagnosis = changed()
        diagnosis.run.phases.append(Phase("dynamo", "", START, START + 500, 500.0))
        assert "500 %" not in report_of(diagnosis)


class TestServing:
    def test_engines_that_print_together_are_summed(self):
        run = Run(
            samples=[
                Sample(START + 10 * n + 0.1 * e, n, e, 10.0, 20.0, 3, 1, None, 40.0 + e)
                for n in range(4)
                for e in (0, 1)
            ]
        )
        points = points_of(run)
        assert [(p.generation, p.running, p.waiting, p.kv_usage) for p in points] == [(40.0, 6, 2, 41.0)] * 4
        assert summed_of(points).generation.p50 == 40.0

    def test_an_aggregate_is_not_added_to_its_parts(self):
        samples = [
            Sample(START, 1, -1, 0.0, 50.0, 2),
            Sample(START, 2, 0, 0.0, 25.0, 1),
            Sample(START, 3, 1, 0.0, 25.0, 1),
        ]
        assert [point.generation for point in points_of(Run(samples=samples))] == [50.0]

    def test_a_long_series_is_thinned_and_says_so(self):
        run = Run(samples=[Sample(START + n, n, 0, 0.0, float(n), n) for n in range(1000)])
        points = points_of(run, most=100)
        assert len(points) == 100
        assert {point.lines for point in points} == {10}
        assert points[-1].running == 999

    def test_preemptions_that_no_line_tells_are_unknown(self):
        assert serving_of(make_analysis().runs[0].run).preemptions is None

    def test_requests_without_statistics_say_what_is_missing(self):
        diagnosis = changed()
        diagnosis.run.samples.clear()
        diagnosis.run.sample_count = 0
        assert "The log holds no statistics lines" in report_of(diagnosis)

    @given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(1, 5)), min_size=1), st.floats(0.01, 1))
    def test_a_quantile_is_a_value_that_enough_of_the_weight_does_not_exceed(self, weighted, share):
        found = quantile(weighted, share)
        total = sum(weight for _, weight in weighted)
        below = sum(weight for value, weight in weighted if value < found)
        upto = sum(weight for value, weight in weighted if value <= found)
        assert below < share * total <= upto


class TestWords:
    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (Change("--max-num-seqs", "flag", 1, 32), "`--max-num-seqs` `1` → `32`"),
            (Change("--enforce-eager", "flag", True, None), "drop `--enforce-eager`"),
            (Change("--enable-prefix-caching", "flag", None, True), "add `--enable-prefix-caching`"),
            (Change("VLLM_X", "env", "1", None), "unset `VLLM_X`"),
            (
                Change("CUDA_HOME", "env", None, "the toolkit's directory"),
                "set `CUDA_HOME` to the toolkit's directory",
            ),
            (Change("free the card", "action"), "free the card"),
        ],
    )
    def test_a_change_reads_as_an_order(self, change, words):
        assert change_words(change) == words

    def test_an_effect_names_its_origin(self):
        words = effect_words(Effect("startup_seconds", 0.5, 0.8, "computed", "61 GiB at 1 GiB/s"))
        assert words == "start-up time 1.25 to 2 × shorter (computed: 61 GiB at 1 GiB/s)"
        assert effect_words(None) == ""

    def test_an_excerpt_holds_the_setting_in_question(self):
        line = (
            "INFO 04-12 07:11:48 [utils.py:233] non-default args: {" + "'a': 1, " * 40 + "'max_num_seqs': 1}"
        )
        assert "'max_num_seqs': 1" in excerpt(line, ["--max-num-seqs"])
        assert "INFO" not in excerpt(line, ["--max-num-seqs"])

    def test_an_excerpt_ends_at_a_whole_word(self):
        line = "(Replica(id=3f0) pid=77) INFO 04-12 07:11:48.120 [loggers.py:146] cache usage 97.3 %, hit rate 13.25 %"
        assert excerpt(line, limit=33) == "cache usage 97.3 %, hit rate…"

    @given(st.text(max_size=300), st.integers(20, 80))
    def test_an_excerpt_keeps_its_limit(self, line, limit):
        assert len(excerpt(line, ["--max-num-seqs"], limit)) <= limit


class TestSeveralRuns:
    def test_what_an_earlier_run_told_is_not_told_again(self):
        text = markdown.render(make_analysis(runs=2))
        first, second = text.split("## Run 2", 1)
        assert "- **Evidence.**" in first
        assert "- **Evidence.**" not in second
        assert "As in run 1. " in second

    def test_only_settings_that_differ_are_shown(self):
        analysis = make_analysis(runs=2)
        analysis.runs[1].run.config["max_model_len"] = Value(1024, "reported")
        second = markdown.render(analysis).split("## Run 2", 1)[1]
        assert "As in run 1, but for:" in second
        assert "| `max_model_len` | `32768` | `1024` |" in second
        assert "gpu_memory_utilization" not in second.split("Timeline")[0]


class TestMeasure:
    def test_the_command_fits_the_release_and_the_load(self):
        run = make_analysis().runs[0].run
        command = bench_command(run, 20)
        assert command is not None
        assert command.startswith("vllm bench serve --model /data/Qwen --served-model-name Qwen \\\n")
        assert "--max-concurrency 20 --num-prompts 200" in command

    @pytest.mark.parametrize("version", [None, Value("0.6.4", "reported"), Value("unknown", "derived")])
    def test_no_command_where_the_release_has_none_or_is_not_known(self, version):
        run = make_analysis().runs[0].run
        run.version = version
        assert bench_command(run, 20) is None

    def test_a_model_name_is_quoted(self):
        run = make_analysis("a; rm -rf ~ #").runs[0].run
        assert "--model '/data/a; rm -rf ~ #'" in (bench_command(run, 1) or "")

    def test_another_way_is_not_called_another_way_twice(self):
        root = replace(make_findings("Qwen", True)[0], alternatives=("Or take the network: slower.",))
        text = report_of(changed(True, findings=(root,)))
        assert "- Take the network: slower." in text

    def test_consequences_and_remarks_ask_nothing_of_the_new_log(self):
        advice = make_findings("Qwen", False)[0]
        remark = replace(advice, id="remark", severity="info", changes=(), verify="No such line.")
        text = report_of(changed(findings=(advice, remark)))
        assert "The line Qwen" in text
        assert "No such line." not in text


@pytest.mark.parametrize(
    ("verdict", "words"), [("cause-of-failure", "cause of failure"), ("not-fatal", "not fatal")]
)
def test_the_verdict_of_a_message_is_shown_as_it_was_judged(verdict, words):
    line = make_analysis().runs[0].findings[0].evidence[0]
    message = Message("refused", "a refused request", verdict, "It was refused.", 3, line)
    assert f"| {words} | `a refused request` |" in report_of(changed(messages=(message,)))


def test_statuses_are_counted_by_the_access_log():
    diagnosis = changed()
    diagnosis.run.accesses = Counter(
        {("POST", "/v1/completions", 200): 3, ("POST", "/v1/completions", 400): 1}
    )
    text = report_of(diagnosis)
    assert "4 answered requests in the access log: 3 with HTTP 200 (75 %), 1 with HTTP 400 (25 %)." in text


class TestObjective:
    @pytest.mark.parametrize("objective", ["throughput", "latency", "long-context", "memory", "startup"])
    def test_the_report_says_for_what_its_order_is(self, objective):
        found = make_analysis()
        text = markdown.render(Analysis(found.sources, found.runs, found.coverage, objective))
        assert "In order for " in text
        assert "In order for" not in markdown.render(found)


def test_a_log_that_ends_while_requests_run_says_what_that_may_mean() -> None:
    text = analyze([*start(), statistics(running=3)]).to_markdown()
    assert "3 running requests" in text
    assert "killed without a word" in text
    assert "killed without a word" not in analyze([*start(), statistics(running=0)]).to_markdown()
