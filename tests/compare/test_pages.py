"""What the page of a comparison says: each change with what came of it, figures that moved, levels, findings, and its verdict on a plan."""

from __future__ import annotations

from typing import Any

import pytest
from compare_samples import analysis, diagnosis, finding, planned, samples, snapshot
from msgspec.structs import replace

from tests.tables import for_each
from vllm_logdoctor.comparison import verification_markdown
from vllm_logdoctor.comparison.comparison import FigureDifference, compare
from vllm_logdoctor.comparison.markdown import headline, render
from vllm_logdoctor.comparison.snapshot import Snapshot, snapshot_of
from vllm_logdoctor.comparison.verification import verify
from vllm_logdoctor.plan.model import Plan
from vllm_logdoctor.report.json import document
from vllm_logdoctor.rules.equal_load import band, equal_load, load_levels
from vllm_logdoctor.rules.model import Effect
from vllm_logdoctor.run.model import Sample

STEADY = samples(4, 100, 30)
FASTER = samples(4, 120, 30)


def section(before: Snapshot, after: Snapshot, title: str) -> list[str]:
    """The lines of one section of the page."""
    parts = dict(part.split("\n", 1) for part in f"\n{render(compare(before, after))}".split("\n## ")[1:])
    return [line for line in parts.get(title, "").split("\n") if line]


def below(before: Snapshot, after: Snapshot) -> list[str]:
    """The lines below the first changed setting."""
    return [line.strip(" -") for line in section(before, after, "What changed, and what came of it")[1:]]


@pytest.mark.parametrize(
    ("name", "before", "after", "expected"),
    [
        ("max_num_seqs", STEADY, STEADY, ["nothing that it can move has moved"]),
        ("max_num_seqs", STEADY, [], ["its effect on the speed is not known: no equal load"]),
        ("async_scheduling", STEADY, FASTER, ["speed at equal load × 1.2"]),
        ("async_scheduling", FASTER, STEADY, ["speed at equal load × 0.83"]),
        # No setting that the table of influences knows.
        ("a_flag_of_the_future", STEADY, FASTER, ["what it moves is not known here"]),
        # What moves no speed needs no equal load.
        ("load_format", STEADY, [], ["nothing that it can move has moved"]),
    ],
)
def test_below_a_change_is_what_it_moved(
    name: str, before: list[Sample], after: list[Sample], expected: list[str]
) -> None:
    pair = snapshot({name: 1}, series=before), snapshot({name: 2}, series=after)
    assert below(*pair) == expected


def test_a_change_with_room_a_figure_and_a_finding_has_a_line_for_each() -> None:
    before = snapshot(
        {"max_num_seqs": 1}, {"kv_cache_tokens": 2000}, samples(1, 50, 20, waiting=19), (finding("a", "--max-num-seqs"),)
    )  # fmt: skip
    after = snapshot({"max_num_seqs": 32}, {"kv_cache_tokens": 1800}, samples(20, 700, 20))
    assert below(before, after) == [
        "KV cache 2,000 tokens → 1,800 tokens (× 0.9)",
        "requests waited before; now 20 run at once, not 1: generation throughput, busy mean, 50 → 699 tokens/s (× 14)",
        "gone: title of a",
    ]


@pytest.mark.parametrize(
    ("more", "words"), [(6, "f1, f2, f3, f4, f5 and f6"), (8, "f1, f2, f3, f4, f5, f6 and 2 more")]
)
def test_what_vllm_chose_otherwise_is_listed_up_to_six_names(more: int, words: str) -> None:
    names = [f"f{number}" for number in range(1, more + 1)]
    before, after = (snapshot({"max_num_seqs": one}, chosen=dict.fromkeys(names, one)) for one in (1, 2))
    last = section(before, after, "What changed, and what came of it")[-1]
    assert last.replace("`", "") == f"vLLM itself chose otherwise: {words}."


def test_levels_are_a_table_in_their_order_with_the_share_that_both_logs_have() -> None:
    before = snapshot(series=[*samples(16, 300, 30), *STEADY])
    after = snapshot(series=[*FASTER, *samples(17, 330, 10), *samples(64, 900, 20)])
    table = section(before, after, "Speed at equal load")
    assert [[cell.strip() for cell in row.split("|")[1:-1]] for row in table[2:-1]] == [
        ["4", "100 (n=29)", "120 (n=29)", "× 1.2"],
        ["16 to 17", "300 (n=29)", "330 (n=9)", "× 1.05"],
    ]
    assert table[-1] == "100 % of the steady samples before and 67 % after lie in levels that both logs have."


def test_of_many_levels_those_of_few_samples_are_left_out() -> None:
    runnings = [*range(1, 9), *(round(9.5 * 1.25**step) for step in range(18))]
    series = [
        one
        for place, running in enumerate(runnings)
        for one in samples(running, 10 * running, 4 if place else 3)
    ]
    rows = section(snapshot(series=series), snapshot(series=series), "Speed at equal load")
    assert len(rows) - 4 == 24
    assert rows[-1] == "2 levels with fewer samples not shown."
    assert not rows[2].startswith("| 1 |")


@for_each(
    ("name", "before", "after", "verdict"),
    [
        ("kv_cache_tokens", 1000, 1005, "same"),
        ("kv_cache_tokens", 1000, 1006, "better"),
        ("kv_cache_tokens", 1000, 994, "worse"),
        ("model_weights_gib", 10, 9, "better"),
        ("model_weights_gib", 10, 11, "worse"),
        ("graph_capture_gib", 1.0, 2.0, "worse"),
        ("torch_compile_seconds", 20, 21.9, "same"),  # two seconds are no difference of a start
        ("torch_compile_seconds", 20, 22.1, "worse"),
        ("torch_compile_seconds", 100, 109.9, "same"),
        ("torch_compile_seconds", 100, 89, "better"),
        ("max_concurrency", 0, 3, "better"),
        ("max_concurrency", 0, 0, "same"),
        ("preemptions", 0, 3, "worse"),
        ("preemptions", 5, 0, "better"),
    ],
)  # fmt: skip
def test_a_figure_is_better_or_worse_beyond_what_two_starts_differ_by(
    name: str, before: float, after: float, verdict: str
) -> None:
    settings: tuple[dict[str, Any], ...] = (
        {"max_num_seqs": 1, "optimization_level": 0},
        {"max_num_seqs": 2, "optimization_level": 2},
    )
    pair = [snapshot(given, {name: value}) for given, value in zip(settings, (before, after), strict=True)]
    found = {one.name: one for one in compare(*pair).figures}[name]
    assert found.verdict == verdict
    assert found.ratio == (after / before if before else None)


def test_the_verdict_of_a_figure_is_a_column_and_a_note_takes_its_place() -> None:
    before = snapshot(
        {"gpu_memory_utilization": 0.9}, {"model_weights_gib": 10, "kv_cache_tokens": 1000}, startup=100
    )
    after = snapshot(
        {"gpu_memory_utilization": 0.8}, {"kv_cache_tokens": 800, "model_weights_gib": 10}, startup=20
    )
    rows = [
        [cell.strip() for cell in row.split("|")[1:-1]]
        for row in section(before, after, "Start-up and capacity")[2:]
    ]
    assert rows == [
        ["weights on a rank", "10 GiB", "10 GiB", "× 1", "same"],
        ["KV cache", "1,000 tokens", "800 tokens", "× 0.8", "**worse**"],
        ["start-up in all", "100 s", "20 s", "× 0.2", "no setting for it differs: a warm cache (compiled code, weights in memory) starts faster"],
    ]  # fmt: skip


def test_the_headline_names_outcomes_models_and_telling_figures() -> None:
    before = snapshot(
        {"gpu_memory_utilization": 0.9},
        {"kv_cache_tokens": 1000, "max_concurrency": 5.0},
        outcome="crashed_while_serving",
    )
    after = snapshot({"gpu_memory_utilization": 0.8}, {"kv_cache_tokens": 800, "max_concurrency": 4.0})
    said = headline(compare(before, after))
    assert "Before: crashed while serving; after: " in said
    assert "KV cache 1,000 tokens → 800 tokens (× 0.8)." in said
    assert "requests of full length" not in said
    assert "No setting" not in said
    assert "same run" not in said
    assert "same run of the same log" in headline(compare(after, after))


def test_findings_are_listed_by_what_became_of_them() -> None:
    before = snapshot(series=STEADY, findings=(finding("kept"), finding("went")))
    after = snapshot(series=STEADY, findings=(finding("came"), finding("kept")))
    assert section(before, after, "Findings") == [
        "- Gone: title of went (`went`)", "- New: title of came (`came`)", "- Still there: title of kept (`kept`)",
    ]  # fmt: skip
    silent = section(before, snapshot(findings=(finding("kept"),)), "Findings")
    assert silent[0].startswith(
        "- Not seen again, which says little: title of went (`went`): the later log has no"
    )


def test_what_only_one_log_shows_is_a_table_without_places_and_names() -> None:
    rows = section(
        snapshot({"max_num_seqs": 4, "port": 8000}), snapshot(), "Settings that only one log shows"
    )
    assert rows[2:] == ["| `max_num_seqs` | `4` | the log does not say |"]


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        # Two standard errors of 29 samples on each side are 2.8 %; less than 3 % is never clear.
        (100, 106, "faster"),
        (100, 102.9, "same"),
        (100, 94, "slower"),
        (100, 97.1, "same"),
    ],
)
def test_the_spread_of_the_samples_decides_what_is_a_clear_difference(
    before: float, after: float, verdict: str
) -> None:
    found = equal_load(*(load_levels(samples(4, rate, 30)) for rate in (before, after)))
    assert found.verdict == verdict
    assert found.ratio == pytest.approx(after / before)
    assert found.low is not None
    assert found.high is not None
    assert found.low * found.high == pytest.approx(found.ratio**2)
    assert found.high / found.ratio == pytest.approx(1.0283, abs=0.0005)


def test_levels_of_more_samples_weigh_more() -> None:
    """Ten samples at 1.0 and thirty at 2.0: the mean of the logarithms is three quarters of the way."""
    before = load_levels([*samples(2, 50, 11), *samples(6, 100, 31)])
    after = load_levels([*samples(2, 50, 11), *samples(6, 200, 31)])
    assert [pair.before.samples for pair in equal_load(before, after).pairs] == [10, 30]
    assert equal_load(before, after).ratio == pytest.approx(2 ** (30 / 40))


def test_a_level_has_its_bounds_mean_quartiles_and_lines() -> None:
    """The first line of a burst is left out, and a line counts as often as it stands for: 12, 13, 14, 13 and 13 requests."""
    lines = [(12, 10.0, 1), (12, 20.0, 1), (13, 30.0, 1), (14, 40.0, 1), (13, 50.0, 2)]
    series = [
        Sample(None, place, 0, 2.0 * rate, rate, running=running, count=count)
        for place, (running, rate, count) in enumerate(lines)
    ]
    (level,) = load_levels(series)
    assert (level.low, level.high, level.samples) == (12, 14, 5)
    assert (level.running, level.prompt) == (13, 76.0)
    assert level.generation == (30.0, 40.0, 50.0)


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [(8, 9, False), (9, 11, True), (11, 12, False), (100, 104, True), (104, 110, False)],
)
def test_from_nine_requests_on_a_level_is_a_quarter_wide(one: int, other: int, together: bool) -> None:
    assert (band(one) == band(other)) is together


@pytest.mark.parametrize(
    ("prompts", "said"),
    [
        ((10.0, 10.0), False),
        ((10.0, 15.0), False),
        ((10.0, 15.5), True),
        ((15.5, 10.0), True),
        ((4.0, 15.0), False),
    ],
)
def test_another_mix_of_prompts_and_answers_is_a_reason_to_take_care(
    prompts: tuple[float, float], said: bool
) -> None:
    """Half as many prompt tokens again for each generated one; below one in twenty the mix is noise."""
    found = equal_load(*(load_levels(samples(4, 100, 30, prompt=prompt)) for prompt in prompts))
    assert bool(found.warnings) is said


def prediction(
    effect: Effect, before: dict[str, float], after: dict[str, float], at: float = 0.9
) -> tuple[str, str]:
    """What became of the prediction of a larger cache."""
    expects = finding("rule", "--gpu-memory-utilization", effect, after=0.9)
    plan = Plan((planned("--gpu-memory-utilization", 0.8, 0.9, "rule"),))
    result = verify(
        snapshot({"gpu_memory_utilization": 0.8}, before, findings=(expects,), plan=plan), snapshot({"gpu_memory_utilization": at}, after)
    )  # fmt: skip
    (one,) = result.predictions
    return one.state, one.note


@pytest.mark.parametrize(
    ("metric", "after", "state"),
    [
        # The cache may miss the range by 1 %, a start by more.
        ("kv_cache_tokens", 1189, "as-predicted"),
        ("kv_cache_tokens", 1170, "less"),
        ("kv_cache_tokens", 1412, "as-predicted"),
        ("kv_cache_tokens", 1440, "more"),
        ("torch_compile_seconds", 1170, "as-predicted"),
        ("torch_compile_seconds", 1440, "as-predicted"),
        ("torch_compile_seconds", 900, "less"),
        ("torch_compile_seconds", 1800, "more"),
    ],
)
def test_a_prediction_came_true_within_the_margin_of_its_figure(
    metric: str, after: float, state: str
) -> None:
    effect = Effect(metric, 1.2, 1.4, "computed", "")
    assert prediction(effect, {metric: 1000}, {metric: after}) == (state, f"1,000 before, {after:,} after")


def test_a_prediction_that_nothing_measures_is_left_open() -> None:
    effect = Effect("kv_cache_tokens", 1.2, 1.4, "computed", "")
    assert prediction(effect, {"kv_cache_tokens": 1000}, {}) == (
        "unknown",
        "one of the logs does not show it",
    )
    assert prediction(effect, {"kv_cache_tokens": 0}, {"kv_cache_tokens": 5})[0] == "unknown"
    assert prediction(effect, {}, {}, at=0.85) == ("not-tried", "another value than the planned one was set")
    assert prediction(effect, {}, {}, at=0.8) == ("not-tried", "its changes are not in the next log")


def test_the_page_of_a_plan_counts_what_took_effect_and_what_came_true() -> None:
    effects = (finding("cache", "--gpu-memory-utilization", Effect("kv_cache_tokens", 1.2, 1.4, "computed", "")),
               finding("start", "--gpu-memory-utilization", Effect("torch_compile_seconds", 0.5, 0.5, "computed", "")))  # fmt: skip
    plan = Plan(
        (
            planned("--gpu-memory-utilization", 0.8, 0.9),
            planned("--enforce-eager", True, None),
            planned("--max-num-seqs", 1, 9),
            planned("--seed", 1, 9),
        )
    )
    before = snapshot(
        {"gpu_memory_utilization": 0.8, "enforce_eager": True, "seed": 1},
        {"kv_cache_tokens": 1000, "torch_compile_seconds": 50},
        findings=effects,
        plan=plan,
    )
    after = snapshot(
        {"gpu_memory_utilization": 0.9, "enforce_eager": True, "seed": 5},
        {"kv_cache_tokens": 1300, "torch_compile_seconds": 50},
    )
    page = verification_markdown.render(verify(before, after))
    assert (
        "**1 of 4 planned changes took effect; 1 can't be seen in the log; 1 of 2 predictions that could be measured came true.**"
        in page
    )
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in page.split("\n")
        if line.startswith("| `--")
    ]
    assert [row[:4] for row in rows] == [
        ["`--gpu-memory-utilization`", "`0.9`", "`0.9`", "took effect"],
        ["`--enforce-eager`", "dropped", "`True`", "**not applied**"],
        ["`--max-num-seqs`", "`9`", "", "not known"],
        ["`--seed`", "`9`", "`5`", "**another value**"],
    ]
    told = [
        [cell.strip() for cell in line.split("|")[1:4]]
        for line in page.split("\n")
        if line.startswith("| title of")
    ]
    assert told == [
        ["title of cache", "KV cache tokens × 1.2 to 1.4", "× 1.3"],
        ["title of start", "torch compile seconds × 0.5", "× 1"],
    ]


def test_a_figure_has_no_ratio_where_nothing_was_before() -> None:
    found = {
        one.name: one
        for one in compare(
            snapshot(measured={"preemptions": 0}), snapshot(measured={"preemptions": 4})
        ).figures
    }
    assert found["preemptions"] == FigureDifference("preemptions", 0, 4, None, "worse")


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ("max-num-seqs-limited", "client-limited", True),
        ("client-limited", "client-limited", False),
        ("max-num-seqs-limited", "a limit of the future", False),
        ("a limit of the future", "client-limited", False),
    ],
)
def test_the_limits_of_both_runs_are_named_where_they_differ(before: str, after: str, named: bool) -> None:
    pair = [replace(snapshot(series=STEADY), bottleneck=name) for name in (before, after)]
    assert ("Limit before: " in render(compare(*pair))) is named


def test_a_run_of_several_is_named_by_its_number_and_several_files_by_theirs() -> None:
    two = analysis(diagnosis(), diagnosis())
    assert [snapshot_of(document(two), number).name for number in (1, 2)] == [
        "vllm.log, run 1",
        "vllm.log, run 2",
    ]
    assert snapshot_of(document(analysis(diagnosis()))).name == "vllm.log"
    files = replace(two, sources=two.sources * 2)
    assert snapshot_of(document(files), 1).name == "2 files, run 1"
