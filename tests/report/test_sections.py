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
from vllm_logdoctor.report.serving import serving_of, summed_of
from vllm_logdoctor.rules.bottleneck import Bottleneck
from vllm_logdoctor.rules.load import quantile
from vllm_logdoctor.rules.model import Change, Effect
from vllm_logdoctor.run.model import Benchmark, Evidence, Phase, Run, Sample, Value


def report_of(diagnosis: Diagnosis) -> str:
    analysis = make_analysis()
    return markdown.render(Analysis(analysis.sources, (diagnosis,), analysis.coverage))


def changed(failure: bool = False, **fields: object) -> Diagnosis:
    return replace(make_analysis(failure=failure).runs[0], **fields)


def started() -> Diagnosis:
    """A run whose log shows its start from the beginning."""
    diagnosis = changed()
    phases = [*diagnosis.run.phases, Phase("imports", "", START, START + 5, 5.0, (), "startup")]
    return replace(diagnosis, run=replace(diagnosis.run, phases=phases))


class TestWhatToLookFor:
    def test_each_change_says_how_to_check_it(self):
        assert "- To check after the change: The line Qwen" in report_of(changed())

    def test_what_asks_for_no_change_shows_nothing_later(self):
        finding = make_findings("Qwen", False)[0]
        known = replace(finding, id="x", changes=(), severity="info", verify="no such line")
        assert "no such line" not in report_of(changed(findings=(finding, known)))

    def test_an_offline_engine_gets_flags_as_arguments(self):
        diagnosis = changed()
        run = replace(diagnosis.run, kind="offline")
        plan = replace(diagnosis.plan, command_before=None, command_after=None)
        text = report_of(replace(diagnosis, run=run, plan=plan))
        assert "- Change: `max_num_seqs` `" in text
        assert "`--max-num-seqs`" not in text


class TestVerdict:
    @pytest.mark.parametrize(
        ("confidence", "words"), [("high", ""), ("medium", ", probable cause"), ("low", ", possible cause")]
    )
    def test_a_doubtful_cause_is_called_doubtful(self, confidence, words):
        root, *others = make_findings("Qwen", True)
        text = report_of(changed(True, findings=(replace(root, confidence=confidence), *others)))
        assert text.startswith(f"# FAILED while serving{words}: out of memory Qwen\n")

    @pytest.mark.parametrize("rule", ["unclassified-failure", "cause-not-in-log"])
    def test_a_quoted_error_is_not_called_doubtful(self, rule):
        root, *others = make_findings("Qwen", True)
        text = report_of(changed(True, findings=(replace(root, id=rule, confidence="low"), *others)))
        assert text.startswith("# FAILED while serving: ")

    def test_a_crash_without_a_cause_says_that_the_log_does_not_tell(self):
        text = report_of(changed(True, findings=()))
        assert text.startswith("# FAILED while serving: cause not in this log\n")
        assert "The last lines of the log:" in text

    def test_nothing_to_change_is_a_result(self):
        text = report_of(changed(findings=(), plan=Plan(), bottleneck=Bottleneck("client-limited", "")))
        assert text.startswith("# HEALTHY\n")
        assert "What to change" not in text
        assert "Launch command" not in text
        assert "How to measure" not in text

    def test_a_limit_without_a_rule_is_not_called_healthy(self):
        text = report_of(changed(findings=(), plan=Plan(), bottleneck=Bottleneck("kv-cache-limited", "")))
        assert text.startswith("# LIMITED: KV cache full\n")

    @pytest.mark.parametrize("failure", [False, True])
    def test_what_a_baseline_hides_still_counts_for_the_state(self, failure):
        shown = changed(failure)
        hidden = report_of(replace(shown, findings=(), hidden=shown.findings, plan=Plan()))
        assert hidden.splitlines()[0] == report_of(shown).splitlines()[0]
        ids = ", ".join(f"`{finding.id}`" for finding in shown.findings)
        assert f"Left out by the baseline or a suppression: {ids}." in hidden
        assert "VLLM_X" not in hidden
        assert "The log does not contain the cause" not in hidden

    def test_a_failure_shows_its_line_and_the_fix_and_no_gains(self):
        head = report_of(changed(True)).split("\n## ")[0]
        assert "`WARNING 0 Qwen` [L7]" in head
        assert "1. Set `VLLM_X` to `Qwen`" in head
        assert "Gain" not in head

    @pytest.mark.parametrize("failure", [False, True])
    def test_the_first_screen_has_at_most_twelve_lines(self, failure):
        head = report_of(changed(failure)).split("\n## ")[0]
        assert sum(bool(line) for line in head.splitlines()) <= 12

    @pytest.mark.parametrize("failure", [False, True])
    def test_a_title_is_named_on_the_first_screen_and_once_more_at_most(self, failure):
        text = report_of(changed(failure))
        assert all(text.count(finding.title) <= 2 for finding in changed(failure).findings)

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
        assert "- Do not change `--max-num-batched-tokens` yet: make room first." in text

    def test_a_start_that_the_log_does_not_see_to_its_end_is_reported_as_that(self):
        run = replace(
            changed().run,
            outcome="truncated",
            startup_complete=False,
            samples=[],
            benchmarks=[],
            phases=changed().run.phases[:2],
        )
        text = report_of(changed(run=run, findings=(), plan=Plan()))
        assert "the last phase that began: weight loading [L7].**" in text

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
        assert "**The engine was ready [L7]; the log ends before the first request.**" in top
        assert "1. If the process still runs" in top
        assert "--max-num-seqs" not in top

    def test_a_benchmark_s_own_log_is_not_taken_for_a_server_s(self):
        line = make_analysis().runs[0].findings[0].evidence[0]
        figures = {"Successful requests": 640.0, "Output token throughput (tok/s)": 2955.0}
        run = Run(benchmarks=[Benchmark("serve", figures, (line,))], outcome="truncated")
        text = report_of(Diagnosis(run, (), Bottleneck("startup-only", ""), Plan()))
        assert (
            "it contains no server lines. Result: Successful requests 640, Output token throughput (tok/s) 2,955 [L7]."
            in text
        )
        assert "CUT OFF" not in text
        assert "log cut off" not in text


class TestTimeline:
    def test_parts_come_under_their_whole_whenever_they_begin(self):
        run = changed().run
        profiling = Phase("profiling", "", START + 64.5, START + 66, 1.5, (), "engine-init")
        run = replace(run, phases=[*run.phases[:2], profiling, *run.phases[2:]])
        lines = report_of(changed(run=run)).splitlines()
        rows = [line.split("|")[1].strip() for line in lines if line.startswith("| ")]
        assert rows.index("· memory profiling") > rows.index("profiling, KV cache, warm-up")

    def test_the_time_between_two_lines_is_a_whole_number_of_seconds(self):
        run = changed().run
        proof = (Evidence("vllm.log", 1, "a"), Evidence("vllm.log", 2, "b"))
        known = [phase for phase in run.phases if phase.name != "inductor"]
        images = Phase("encoder-profiling", "", START + 64.5, START + 72.7, 8.2, proof, "engine-init")
        short = Phase("profiling", "", START + 73, START + 73.4, 0.4, proof, "engine-init")
        text = report_of(changed(run=replace(run, phases=[*known, images, short])))
        rows = [line for line in text.splitlines() if "profiling |" in line]
        assert any("multimodal profiling" in row and "| about 8 s |" in row for row in rows)
        assert any("rest of memory profiling" in row and "| under 1 s |" in row for row in rows)

    def test_a_period_says_how_its_limits_are_mixed(self):
        busy = [3, 3, 0, 3, 3, 3, *[0] * 30]
        lines = [
            statistics(clock=f"03-04 10:{10 + n // 6}:{n % 6 * 10:02}", running=running)
            .replace("throughput: 10.0", f"throughput: {running}.0")
            .replace("throughput: 100.0", f"throughput: {running}.0")
            for n, running in enumerate(busy)
        ]
        report = analyze([*start(), *lines])
        assert report.periods[0].reason.endswith("; samples: 5 limited by the client, 1 idle")
        # When requests came is no limit over time.
        assert "Limits over time" not in report.to_markdown()

    def test_a_log_that_begins_in_the_middle_has_no_length_of_start_up(self):
        diagnosis = changed()
        diagnosis.run.phases[:] = [
            Phase("startup", "", START, START + 9, 9.0),
            Phase("unexplained", "", START, START + 9, 9.0),
        ]
        text = report_of(diagnosis)
        assert "**start-up**" not in text
        assert "rest of the start-up" not in text

    def test_a_start_on_several_devices_says_what_it_cost(self):
        assert "Start-up: 4 GPUs × 1 min 40 s = 0.11 GPU-hours." in report_of(started())

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

    def test_requests_of_monitoring_are_not_counted(self):
        diagnosis = changed()
        diagnosis.run.accesses = Counter({
            ("POST", "/v1/completions", 200): 3, ("GET", "/metrics", 200): 900,
            ("POST", "/start_profile", 200): 1, ("POST", "/stop_profile", 200): 1,
        })  # fmt: skip
        text = report_of(diagnosis)
        assert "3 HTTP responses (POST `/v1/completions`): all 200." in text
        assert "/metrics" not in text

    @given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(1, 5)), min_size=1), st.floats(0.01, 1))
    def test_a_quantile_is_a_value_that_enough_of_the_weight_does_not_exceed(self, weighted, share):
        found = quantile(weighted, share)
        total = sum(weight for _, weight in weighted)
        below = sum(weight for value, weight in weighted if value < found)
        upto = sum(weight for value, weight in weighted if value <= found)
        assert below <= share * total <= upto


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
        assert words == "1.25 to 2 x faster start-up (computed: 61 GiB at 1 GiB/s)"
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
    def test_what_an_earlier_run_said_is_not_reported_again(self):
        text = markdown.render(make_analysis(runs=2))
        first, second = text.split("## Run 2", 1)
        assert "- Evidence: " in first
        assert "- Evidence: " not in second
        assert "As in run 1 [" in second

    def test_only_settings_that_differ_are_shown(self):
        analysis = make_analysis(runs=2)
        analysis.runs[1].run.config["max_model_len"] = Value(1024, "reported")
        second = markdown.render(analysis).split("## Run 2", 1)[1]
        assert "As in run 1, except:" in second
        assert "| `max_model_len` | `32768` | `1024` |" in second
        assert "gpu_memory_utilization" not in second

    def test_settings_that_several_runs_share_are_those_of_the_first(self):
        last = markdown.render(make_analysis(runs=3)).split("## Run 3", 1)[1]
        assert "As in run 2" not in last


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

    def test_another_way_is_marked_as_one_behind_a_first_way(self):
        root = replace(make_findings("Qwen", True)[0], alternatives=("Or take the network: slower.",))
        assert "2. Or take the network: slower." in report_of(changed(True, findings=(root,)))
        alone = replace(root, changes=())
        assert "1. Take the network: slower." in report_of(changed(True, findings=(alone,)))

    def test_a_second_failure_is_shown_by_its_own_line_and_not_by_what_its_title_says_already(self):
        root, *_ = make_findings("Qwen", True)
        line = Evidence("a.log", 44, "ERROR 05-01 10:00:20 [core.py:208] RuntimeError: socket 7 timed out")
        other = replace(
            root,
            id="x",
            role="contributing",
            title="Network failed",
            explanation="The network failed.",
            evidence=(line,),
        )
        text = report_of(changed(True, findings=(root, other)))
        assert "Also: **Network failed**: `RuntimeError: socket 7 timed out` [a.log L44]\n\n" in text
        assert "The network failed." not in text

    def test_remarks_ask_nothing_of_the_new_log(self):
        advice = make_findings("Qwen", False)[0]
        remark = replace(advice, id="remark", severity="info", changes=(), verify="No such line.")
        text = report_of(changed(findings=(advice, remark)))
        assert "To check after the change: The line Qwen" in text
        assert "No such line." not in text


@pytest.mark.parametrize(
    ("verdict", "shown"), [("cause-of-failure", True), ("not-fatal", True), ("harmless", False)]
)
def test_only_warnings_that_matter_are_listed(verdict, shown):
    line = Evidence("Qwen.log", 180, "ERROR")
    message = Message("refused", "a refused request", verdict, "It was refused.", 3, line)
    assert ("`a refused request`" in report_of(changed(messages=(message,)))) is shown


def test_a_warning_that_a_finding_cites_is_not_listed_again():
    line = make_analysis().runs[0].findings[0].evidence[0]
    message = Message("refused", "a refused request", "will-break", "It was refused.", 3, line)
    assert "a refused request" not in report_of(changed(messages=(message,)))


def test_statuses_are_counted_by_the_access_log():
    diagnosis = changed()
    diagnosis.run.accesses = Counter(
        {("POST", "/v1/completions", 200): 3, ("POST", "/v1/completions", 400): 1}
    )
    text = report_of(diagnosis)
    assert "4 HTTP responses (POST `/v1/completions`): 3 with 200, 1 with 400." in text


class TestObjective:
    @pytest.mark.parametrize("objective", ["throughput", "latency", "long-context", "memory", "startup"])
    def test_the_report_says_for_what_its_order_is(self, objective):
        found = make_analysis()
        text = markdown.render(Analysis(found.sources, found.runs, found.coverage, objective))
        assert "Ordered for " in text
        assert "Ordered for" not in markdown.render(found)


def test_a_log_that_ends_while_requests_run_says_what_that_may_mean() -> None:
    text = analyze([*start(), statistics(running=3)]).to_markdown()
    assert "3 requests running in the last statistics line" in text
    assert "killed without logging it" in text
    assert "killed without logging it" not in analyze([*start(), statistics(running=0)]).to_markdown()


def test_the_cache_of_several_engines_is_given_per_engine() -> None:
    one = analyze(start()).to_markdown()
    two = analyze(start(extra=", 'data_parallel_size': 2")).to_markdown()
    assert "65,536 tokens per engine" in two
    assert "65,536 tokens" in one
    assert "per engine" not in one


def test_a_long_nested_setting_is_shown_without_what_is_off() -> None:
    filled = {f"option_{number}_of_many": False for number in range(12)}
    given = {
        **filled,
        "max_frames": 0,
        "compile_sizes": [9],
        "passes": {"fuse_norm": True, "fuse_act": False},
    }
    arguments = f"non-default args: {{'model': 'org/model', 'compilation_config': {given}}}"
    text = analyze([f"INFO 05-01 10:00:01 [utils.py:233] {arguments}"]).to_markdown()
    assert "| `compilation_config` | `compile_sizes=[9], passes.fuse_norm=True` | arguments |" in text


def test_an_object_that_is_printed_whole_is_not_only_the_users() -> None:
    arguments = "non-default args: {'model': 'org/model', 'compilation_config': {'level': 3, 'debug_dump_path': None, 'backend': 'inductor'}}"
    text = analyze([f"INFO 05-01 10:00:01 [utils.py:233] {arguments}"]).to_markdown()
    assert "| `compilation_config` | `level=3, backend=inductor` | arguments, completed by vLLM |" in text


def test_nested_settings_of_two_runs_are_shown_by_what_differs() -> None:
    """Cut at their length, both would look the same."""
    same = {f"option_{number}_of_many": number + 1 for number in range(40)}
    start = "(EngineCore_DP0 pid=2) INFO 05-01 1{}:00:00 [core.py:58] Initializing a V1 LLM engine (v0.11.0) with config: model='org/model', compilation_config={}"
    text = analyze(
        [start.format(number, {**same, "last": value}) for number, value in enumerate(("on", "off"))]
    ).to_markdown()
    assert "| `compilation_config` | `last=on` | `last=off` |" in text
