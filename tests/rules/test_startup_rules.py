"""Slow starts: downloads, weight loading, torch.compile, CUDA graphs, profiling."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.rules.making import a_run, advice, load
from vllm_logdoctor.rules.already_right import already_right, parallelism_needed
from vllm_logdoctor.rules.load import load_of
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.run.model import Phase, Run

H100 = "0, NVIDIA H100 80GB HBM3, 81559 MiB, 535.86.10"
BUSY = {"running": 8, "generation": 400.0, "prompt": 40.0, "kv": 3.0}


def test_slow_storage_is_reported_with_its_rate_and_the_seconds_of_a_local_disk() -> None:
    run = a_run(
        messages=(H100,),
        set={"tensor_parallel_size": 4},
        measured={"model_weights_gib": 15.39},
        phases=(("read-weights", 1073.6),),
    )
    found = advice(run)["slow-weight-loading-storage"]
    assert "59 MiB/s" in found.explanation
    assert found.effect is not None
    assert found.effect.metric == "load_seconds"
    # 1,073.6 s instead of 61.56 s at 1 GiB/s, 20.5 s at 3 GiB/s.
    assert (1 / found.effect.high, 1 / found.effect.low) == (pytest.approx(17), pytest.approx(52))


@pytest.mark.parametrize(("gib", "seconds"), [(57.0, 282.0), (30.0, 285.0), (100.0, 210.0)])
def test_the_gain_of_a_local_disk_is_what_its_computation_gives(gib: float, seconds: float) -> None:
    run = a_run(messages=(H100,), measured={"model_weights_gib": gib}, phases=(("read-weights", seconds),))
    effect = advice(run)["slow-weight-loading-storage"].effect
    assert effect is not None
    assert "at 1 to 3 GiB/s" in effect.basis
    assert 1 / effect.high == pytest.approx(seconds / gib, rel=0.1)
    assert 1 / effect.low == pytest.approx(3 * seconds / gib, rel=0.1)


def test_seconds_without_a_size_are_set_against_no_rate() -> None:
    found = advice(a_run(messages=(H100,), phases=(("read-weights", 1500.0),)))["slow-weight-loading-storage"]
    assert "a local disk at 1 GiB/s reads 1,500 GiB in that time" in found.explanation
    assert "does not show the size" in found.explanation
    assert "far below" not in found.explanation


def test_a_loading_of_many_minutes_is_slow_where_a_local_disk_reads_faster() -> None:
    """0.57 GiB/s: a minute of it is nothing, eleven minutes of it are most of a start."""
    small, large = (
        advice(
            a_run(
                messages=(H100,), measured={"model_weights_gib": gib}, phases=(("read-weights", gib / 0.57),)
            )
        )
        for gib in (60.0, 376.0)
    )
    assert "slow-weight-loading-storage" not in small
    assert ", below what a fast local disk reads" in large["slow-weight-loading-storage"].explanation


def test_stages_and_replicas_read_their_own_part_of_the_weights() -> None:
    size, phases = {"model_weights_gib": 10.0}, (("read-weights", 100.0),)
    alone = advice(a_run(measured=size, phases=phases))
    staged = advice(a_run(set={"pipeline_parallel_size": 8}, measured=size, phases=phases))
    replicas = advice(a_run(set={"data_parallel_size": 8}, measured=size, phases=phases))
    assert "10.0 GiB" in alone["slow-weight-loading-storage"].explanation
    assert "slow-weight-loading-storage" not in staged | replicas


def test_the_pass_of_a_drafter_over_its_shards_is_not_that_of_the_model() -> None:
    """21.75 GiB in 168.6 s are 132 MiB/s; the 0.88 GiB of the drafter in 6.3 s come after it."""
    sizes = (21.75, 0.88)
    run = a_run(
        messages=tuple(
            f"Filesystem type for checkpoints: EXT4. Checkpoint size: {size} GiB. Available RAM: 87.14 GiB."
            for size in sizes
        ),
        phases=(("read-weights", 168.6), ("read-weights", 6.3)),
    )
    assert "169 s for 21.8 GiB, 132 MiB/s" in advice(run)["slow-weight-loading-storage"].explanation


def test_on_a_card_that_shares_the_host_memory_the_reader_is_changed_and_not_the_disk() -> None:
    run = a_run(
        messages=(
            "0, NVIDIA GB10, 122570 MiB, 580.95",
            "Filesystem type for checkpoints: EXT4. Checkpoint size: 48.1 GiB. Available RAM: 60.94 GiB.",
        ),
        phases=(("read-weights", 371.0),),
    )
    found = advice(run)["slow-weight-loading-storage"]
    assert "fastsafetensors" in found.changes[0].knob
    assert "disk is probably not the limit" in found.explanation
    assert found.effect is None
    assert not any("page cache" in one or "runai_streamer" in one for one in found.alternatives)


@pytest.mark.parametrize(("seconds", "gib"), [(20.0, 61.0), (100.0, 61.0)], ids=["soon over", "a fast disk"])
def test_a_usual_load_is_not_called_slow(seconds: float, gib: float) -> None:
    run = a_run(measured={"model_weights_gib": gib}, phases=(("read-weights", seconds),))
    assert "slow-weight-loading-storage" not in advice(run)


def test_a_download_is_not_blamed_on_the_disk() -> None:
    run = a_run(
        messages=("Time spent downloading weights for org/m: 500.0 seconds",),
        measured={"model_weights_gib": 15.0},
        phases=(("download", 500.0), ("load-weights", 600.0)),
    )
    found = advice(run)
    assert "slow-startup-model-download" in found
    assert "slow-weight-loading-storage" not in found


def test_a_cold_compile_cache_promises_the_measured_range() -> None:
    run = a_run(
        measured={"torch_compile_seconds": 210.0},
        messages=(
            "Compiling a graph for dynamic shape takes 180.00 s",
            "torch.compile takes 210.00 s in total",
        ),
        phases=(("inductor", 180.0),),
    )
    effect = advice(run)["slow-startup-torch-compile"].effect
    assert effect is not None
    assert effect.low < effect.high < 1.0


GRAPHS = "slow-startup-graphs-and-dynamo"


def captured(seconds: float, tracing: float, **more: object) -> Run:
    """A start of the engine, 10 s of which are neither capture nor tracing."""
    figures = {"init_engine_seconds": seconds + tracing + 10.0, "graph_capture_seconds": seconds}
    return a_run(measured=figures, **{"phases": (("dynamo", tracing),), **more})  # type: ignore[arg-type]


def test_graphs_and_tracing_that_take_most_of_a_long_start_are_reported_with_what_shortens_them() -> None:
    found = advice(captured(95.0, 12.0))[GRAPHS]
    assert found.title == "Slow start-up: CUDA graph capture and Dynamo tracing"
    assert "Fewer capture sizes" in found.explanation
    assert "--enforce-eager" in found.avoid


def test_the_usual_seconds_of_a_capture_are_said_only_where_the_start_is_what_the_log_or_the_advice_is_about() -> (
    None
):
    assert GRAPHS not in advice(captured(24.0, 11.0))
    assert advice(captured(24.0, 11.0), "startup")[GRAPHS].title.startswith("Engine start: mostly")
    piece = captured(24.0, 11.0)
    piece.startup_complete = False
    assert advice(piece)[GRAPHS].title == "Engine start: mostly CUDA graph capture and Dynamo tracing"
    failed = captured(24.0, 11.0, tracebacks=1)
    failed.startup_complete = False
    assert GRAPHS not in advice(failed)


def test_a_capture_of_minutes_is_a_small_part_of_a_start_that_loads_for_half_an_hour() -> None:
    phases = (("startup", 1810.0), ("load-weights", 1600.0))
    assert GRAPHS not in advice(captured(150.0, 20.0, phases=phases))
    assert GRAPHS in advice(captured(400.0, 0.0, phases=phases))


def test_a_capture_of_an_hour_needs_no_other_figure_of_the_start() -> None:
    found = advice(a_run(measured={"graph_capture_seconds": 5200.0}))[GRAPHS]
    assert found.explanation.startswith("5,200 s of the start were CUDA graph capture")
    assert found.severity == "high"
    assert found.changes


def test_a_start_is_seldom_its_findings_come_after_those_of_serving() -> None:
    settings = {
        "messages": (H100,),
        "measured": {"model_weights_gib": 15.0},
        "phases": (("read-weights", 1000.0),),
    }
    serving = advice(a_run(samples=load((60, BUSY)), **settings))  # type: ignore[arg-type]
    assert list(serving)[-1] == "slow-weight-loading-storage"
    starting = advice(a_run(samples=load((60, BUSY)), **settings), "startup")  # type: ignore[arg-type]
    assert next(iter(starting)) == "slow-weight-loading-storage"


def test_a_loading_that_the_log_leaves_unfinished_is_slow_already() -> None:
    bar = "Loading safetensors checkpoint shards:  80% Completed | 77/96 [11:44<01:40,  4.77s/it]"
    run = a_run(messages=(bar,), set={"tensor_parallel_size": 4})
    found = advice(run)["slow-weight-loading-storage"]
    assert "77 of 96 shards were loaded after 704 s" in found.explanation
    assert not any("eager" in way for way in found.alternatives), "needs memory that the log does not show"
    assert any("sharded_state" in way for way in found.alternatives)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "sharded_state"),
        ({"load_format": "sharded_state"}, ""),
        ({"enable_expert_parallel": True}, "--enable-ep-weight-filter"),
        ({"enable_expert_parallel": True, "enable_ep_weight_filter": True}, ""),
    ],
)
def test_ranks_that_read_their_own_part_already_are_not_offered_a_way_to(
    settings: dict[str, Any], said: str
) -> None:
    bar = "Loading safetensors checkpoint shards:  80% Completed | 77/96 [11:44<01:40,  4.77s/it]"
    run = a_run(messages=(bar,), version="0.19.0", set={"tensor_parallel_size": 4, **settings})
    ways = [way for way in advice(run)["slow-weight-loading-storage"].alternatives if "own" in way]
    assert [said in way for way in ways] == ([True] if said else [])


def test_a_loading_that_has_just_begun_is_not_slow() -> None:
    bar = "Loading safetensors checkpoint shards:  10% Completed | 9/96 [00:44<06:40,  4.77s/it]"
    assert "slow-weight-loading-storage" not in advice(a_run(messages=(bar,)))


def test_with_the_compile_cache_switched_off_there_is_nothing_to_keep() -> None:
    run = a_run(
        measured={"torch_compile_seconds": 210.0},
        messages=("vLLM's torch.compile cache is disabled.",),
    )
    found = advice(run)
    assert "slow-startup-torch-compile" not in found
    assert found["compile-cache-disabled"].severity == "medium"


@pytest.mark.parametrize(("seconds", "reported"), [(90.0, True), (12.0, False)])
def test_a_start_that_waits_for_made_up_images_says_what_shortens_it(seconds: float, reported: bool) -> None:
    found = advice(a_run(phases=(("encoder-profiling", seconds),)))
    assert ("slow-startup-encoder-profiling" in found) is reported


def compiled(seconds: float, whole_start: float) -> Run:
    return a_run(
        measured={"torch_compile_seconds": seconds, "init_engine_seconds": whole_start},
        messages=("Compiling a graph for dynamic shape takes 70.00 s",),
        phases=(("inductor", 70.0),),
    )


def test_compilation_is_not_what_makes_a_start_slow_that_captures_graphs_for_half_an_hour() -> None:
    assert "slow-startup-torch-compile" not in advice(compiled(83.0, 2267.0))


def test_a_warm_cache_gains_no_more_than_the_compilation() -> None:
    effect = advice(compiled(100.0, 300.0))["slow-startup-torch-compile"].effect
    assert effect is not None
    assert effect.origin == "computed"
    assert (effect.low, effect.high) == pytest.approx((2 / 3, 5 / 6))


def test_alternatives_name_no_setting_that_the_release_lacks() -> None:
    old = advice(captured(95.0, 12.0, version="0.9.2"))[GRAPHS]
    new = advice(captured(95.0, 12.0, version="0.16.0"))[GRAPHS]
    assert "--kv-cache-memory-bytes" not in " ".join(old.alternatives)
    assert "--kv-cache-memory-bytes" in " ".join(new.alternatives)


def _captured(seconds: float, *, lived: float) -> Run:
    figures = {"init_engine_seconds": seconds + 40.0, "graph_capture_seconds": seconds}
    run = a_run(
        measured=figures, messages=(f"Graph capturing finished in {seconds:.0f} secs, took 3.10 GiB",)
    )
    run.started, run.ended = 1000.0, 1000.0 + lived
    return run


def test_a_capture_of_minutes_is_as_severe_as_its_part_of_the_run_and_nothing_that_is_right() -> None:
    most, little, long = (
        _captured(1500.0, lived=3000.0), _captured(1500.0, lived=90_000.0), _captured(80.0, lived=200.0)
    )  # fmt: skip
    assert [advice(run)[GRAPHS].severity for run in (most, little, long)] == ["high", "medium", "low"]
    assert advice(most)[GRAPHS].changes
    assert (
        "Dynamo" not in advice(most)[GRAPHS].title + advice(most)[GRAPHS].explanation
    )  # A part that took no time.
    assert not advice(long)[GRAPHS].changes
    usual = _captured(40.0, lived=100.0)
    assert "CUDA graphs" not in {one.name for one in already_right(most)}
    assert "CUDA graphs" in {one.name for one in already_right(usual)}
    usual.phases = [Phase("startup", "", 1000.0, 1060.0, 60.0)]  # Most of the start is nothing to praise.
    assert "CUDA graphs" not in {one.name for one in already_right(usual)}


def test_a_warm_compile_cache_saves_no_more_than_the_compilation_took() -> None:
    """104 of 145 s: without them the engine starts in 41 s, 3.5 times as fast; pairs elsewhere gave up to 5.6."""
    run = a_run(
        messages=("Compiling a graph for dynamic shape takes 85.36 s",),
        measured={"torch_compile_seconds": 104.0, "init_engine_seconds": 145.0},
    )
    effect = advice(run)["slow-startup-torch-compile"].effect
    assert effect is not None
    assert 1 / effect.low == pytest.approx(145 / 41, rel=0.01)


def test_the_seconds_of_compilation_are_those_of_all_models_of_the_engine() -> None:
    run = a_run(
        messages=(
            "Compiling a graph for dynamic shape takes 85.36 s",
            "init engine (profile, create kv cache, warmup model) took 315.60 s (compilation: 107.19 s)",
        ),
        measured={"torch_compile_seconds": 98.5, "init_engine_seconds": 315.6},
    )
    assert "torch.compile took 107 s" in advice(run)["slow-startup-torch-compile"].explanation


def test_weights_that_the_host_does_not_hold_are_not_read_into_its_page_cache() -> None:
    size = "Filesystem type for checkpoints: XFS. Checkpoint size: 26.67 GiB. Available RAM: {} GiB."
    for ram, cached in {"24.63": False, "99.10": True}.items():
        run = a_run(messages=(H100, size.format(ram)), phases=(("read-weights", 77.0),), version="0.29.0")
        found = advice(run)["slow-weight-loading-storage"]
        assert ("page cache" in found.changes[0].knob) == cached
        assert any("prefetch" in way for way in found.alternatives) == cached
        assert "must hold the checkpoint" not in str(found.alternatives)  # The log decides.


@pytest.mark.parametrize(("ram", "offered"), [("60.94", False), ("97.20", True)])
def test_files_are_read_whole_only_where_the_memory_holds_the_checkpoint_twice(
    ram: str, offered: bool
) -> None:
    """A file is in memory twice while it is read whole, and one of two files can be nearly all of it."""
    size = f"Filesystem type for checkpoints: EXT4. Checkpoint size: 48.07 GiB. Available RAM: {ram} GiB."
    shared = "0, NVIDIA GB10, 122570 MiB, 580.95.05"
    run = a_run(messages=(shared, size), phases=(("read-weights", 371.0),), version="0.20.0")
    (change,) = advice(run)["slow-weight-loading-storage"].changes
    assert "fastsafetensors" in change.knob
    assert ("eager" in change.knob) is offered


def test_files_are_read_ahead_only_where_vllm_does_not_warn_of_it() -> None:
    size = "Filesystem type for checkpoints: XFS. Checkpoint size: 26.67 GiB. Available RAM: 28.10 GiB."
    run = a_run(messages=(H100, size), phases=(("read-weights", 77.0),), version="0.29.0")
    assert not any("prefetch" in way for way in advice(run)["slow-weight-loading-storage"].alternatives)


def test_a_loader_that_quantizes_says_nothing_of_the_storage() -> None:
    size, phases = {"model_weights_gib": 13.9}, (("read-weights", 117.0),)
    assert "slow-weight-loading-storage" in advice(a_run(measured=size, phases=phases))
    run = a_run(set={"quantization": "bitsandbytes"}, measured=size, phases=phases)
    assert "slow-weight-loading-storage" not in advice(run)


def test_the_disk_is_not_blamed_where_the_card_is_not_known() -> None:
    """Cards that share the host's memory read mapped files at 130 MiB/s from any local disk."""
    size = "Filesystem type for checkpoints: EXT4. Checkpoint size: 15.3 GiB. Available RAM: 91.6 GiB."
    run = a_run(messages=(size,), phases=(("read-weights", 120.0),))
    found = advice(run)["slow-weight-loading-storage"]
    assert found.effect is None
    assert "the disk is not the limit" in found.changes[0].knob
    blamed = advice(a_run(messages=(H100, size), phases=(("read-weights", 120.0),)))
    assert "faster local disk" in blamed["slow-weight-loading-storage"].changes[0].knob


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        ("/scratch/me/vllm-cache-1045456", "one folder for all jobs"),
        ("/scratch/me/vllm", "between starts: /scratch/me/vllm;"),
        ("/home/me/.cache/vllm", "(default ~/.cache/vllm)"),
    ],
)
def test_the_cache_of_a_single_job_is_not_asked_to_be_kept(folder: str, words: str) -> None:
    run = a_run(
        messages=(
            f"Using cache directory: {folder}/torch_compile_cache/ab12/rank_0_0/backbone for vLLM's torch.compile",
            "Compiling a graph for dynamic shape takes 180.00 s",
            "torch.compile takes 210.00 s in total",
        ),
        measured={"torch_compile_seconds": 210.0},
    )
    assert words in advice(run)["slow-startup-torch-compile"].changes[0].knob


def test_of_two_parts_of_a_start_the_longer_one_comes_first() -> None:
    def first(download: float, load: float) -> str:
        whole = 60.0 + download + load
        phases = (
            ("startup", whole),
            ("download", download),
            ("read-weights", load),
            ("load-weights", load + download),
        )
        return next(iter(advice(a_run(measured={"model_weights_gib": 10.0}, phases=phases))))

    assert first(80.0, 400.0) == "slow-weight-loading-storage"
    assert first(400.0, 80.0) == "slow-startup-model-download"


def test_a_build_without_a_release_number_is_offered_what_its_own_line_names() -> None:
    named = (
        "Auto-prefetch is disabled because the filesystem (EXT4) is not a recognized network FS (NFS/Lustre)."
    )
    phases = (("load-weights", 400.0), ("read-weights", 400.0))
    found = {
        bool(messages): advice(
            a_run(
                measured={"model_weights_gib": 10.0},
                phases=phases,
                messages=messages,
                version="0.1.dev1+g6804e1b81",
            )
        )
        for messages in ((), (named,))
    }
    offered = {
        known: "prefetch" in str(one["slow-weight-loading-storage"].alternatives)
        for known, one in found.items()
    }
    assert offered == {False: False, True: True}
    assert "must hold the checkpoint" in str(found[True]["slow-weight-loading-storage"].alternatives)


LONGEST = "slow-startup-longest-phase"


def start_of(whole: float, *parts: tuple[str, float], **more: object) -> dict[str, Finding]:
    """Findings on a start of some seconds with parts of it."""
    run = a_run(phases=(("startup", whole), *parts), **more)  # type: ignore[arg-type]
    run.phases = [replace(one, parent="startup") if one.name != "startup" else one for one in run.phases]
    return advice(run)


def test_the_phase_that_takes_most_of_an_extreme_start_is_named_whichever_it_is() -> None:
    found = start_of(940.0, ("engine-init", 750.0), ("warm-up", 620.0), ("load-weights", 126.0))[LONGEST]
    assert found.title == "Slow start-up: warm-up"
    assert found.explanation.startswith("Warm-up took 10 min 20 s of 15 min 40 s from launch to ready.")
    assert not found.changes


@pytest.mark.parametrize(
    ("whole", "parts"),
    [
        (540.0, (("warm-up", 400.0),)),
        (900.0, (("warm-up", 400.0), ("imports", 400.0))),
        (900.0, (("download", 700.0), ("load-weights", 720.0))),
        (1200.0, (("unexplained", 1100.0),)),
    ],
    ids=["usual", "several", "has-a-rule", "no-phase"],
)
def test_a_start_without_such_a_phase_names_none(whole: float, parts: tuple[tuple[str, float], ...]) -> None:
    assert LONGEST not in start_of(whole, *parts)


def test_a_long_loading_that_is_hardly_reading_says_so() -> None:
    found = start_of(1810.0, ("load-weights", 1590.0), ("read-weights", 7.0))[LONGEST]
    assert "Reading the files was 7 s of it; a download comes before that" in found.explanation


def test_compilation_is_not_what_to_shorten_in_an_extreme_start_that_loads_for_most_of_it() -> None:
    compiled_too = {"measured": {"torch_compile_seconds": 150.0, "init_engine_seconds": 250.0}}
    found = start_of(1020.0, ("load-weights", 690.0), ("read-weights", 660.0), **compiled_too)
    assert "slow-startup-torch-compile" not in found
    assert "slow-startup-torch-compile" in start_of(500.0, ("load-weights", 200.0), **compiled_too)


@pytest.mark.parametrize(
    ("ranks", "weights", "needed"), [(2, 50.0, True), (2, 30.0, False), (1, 90.0, False), (3, 30.0, True)]
)
def test_tensor_parallelism_is_right_where_the_weights_of_all_ranks_do_not_fit_one_card(
    ranks: int, weights: float, needed: bool
) -> None:
    sizes = {"model_weights_gib": weights, "available_kv_cache_gib": 18.0, "kv_cache_tokens": 100_000}
    run = a_run(set={"tensor_parallel_size": ranks, "gpu_memory_utilization": 0.9}, measured=sizes)
    found = parallelism_needed(run, load_of(run))
    assert (found is not None) is needed
    if found is not None:
        assert f"{ranks * weights:.1f} GiB of weights do not fit one card" in found.brings
        assert [one.line for one in found.evidence] == [40, 2]
