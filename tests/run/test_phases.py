"""What the start was spent on: from the engine's own seconds, and from the clock where it prints none."""

from __future__ import annotations

import pytest

from tests.run.lives_of_a_server import start
from tests.unseen.reading import only_run
from vllm_logdoctor.run.model import Phase, Run

OLD = """\
INFO 03-04 10:00:00 api_server.py:585] vLLM API server version 0.6.4
INFO 03-04 10:00:20 llm_engine.py:249] Initializing an LLM engine (v0.6.4) with config: model='org/m', dtype=torch.float16, max_seq_len=4096
INFO 03-04 10:00:30 model_runner.py:1072] Starting to load model org/m...
INFO 03-04 10:00:48 model_runner.py:1077] Loading model weights took 12.5500 GB
INFO 03-04 10:00:55 gpu_executor.py:113] # GPU blocks: 6800, # CPU blocks: 512
INFO 03-04 10:01:10 model_runner.py:1518] Graph capturing finished in 13 secs, took 0.20 GiB
INFO 03-04 10:01:11 launcher.py:19] Available routes are:
"""
SERVING = (
    "INFO 03-04 10:30:00 metrics.py:449] Avg prompt throughput: 10.0 tokens/s, Avg generation throughput: 98.0 tokens/s, "
    "Running: 1 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 1.0%, CPU KV cache usage: 0.0%.\n"
)


def spans(run: Run) -> dict[str, float]:
    """Return seconds by phase."""
    return {phase.name: phase.seconds or 0.0 for phase in run.phases}


def named(run: Run, name: str) -> Phase:
    """Return the only phase of a name."""
    [phase] = [phase for phase in run.phases if phase.name == name]
    return phase


def test_weights_of_a_release_without_their_seconds_last_from_one_line_to_the_other() -> None:
    found = spans(only_run(OLD + SERVING))
    assert (found["imports"], found["engine-start"], found["load-weights"]) == (20, 10, 18)


def test_a_loading_without_a_line_on_its_end_ends_with_its_last_reading_and_no_later_phase_holds_it() -> None:
    on_tpu = """\
INFO 06-11 10:00:00 [api_server.py:1349] vLLM API server version 0.9.1
INFO 06-11 10:00:12 [core.py:70] Initializing a V1 LLM engine (v0.9.1) with config: model='org/m', dtype=torch.bfloat16, max_seq_len=4096
INFO 06-11 10:00:30 [tpu_model_runner.py:997] Loading model from scratch...
INFO 06-11 10:00:31 [weight_utils.py:308] Time spent downloading weights for org/m: 0.613000 seconds
INFO 06-11 10:00:40 [default_loader.py:272] Loading weights took 8.50 seconds
INFO 06-11 10:00:58 [kv_cache_utils.py:715] GPU KV cache size: 104,960 tokens
INFO 06-11 10:01:10 launcher.py:19] Available routes are:
"""
    run = only_run(on_tpu + SERVING.replace("03-04", "06-11"))
    assert (spans(run)["load-weights"], spans(run)["engine-init"]) == (10, 18)
    assert (named(run, "read-weights").parent, named(run, "download").parent) == ("load-weights",) * 2


def test_what_the_old_engine_does_behind_the_weights_ends_with_its_graphs() -> None:
    run = only_run(OLD + SERVING)
    assert spans(run)["engine-init"] == 22
    assert named(run, "graph-capture").parent == "engine-init"


def test_a_start_without_the_line_of_uvicorn_ends_with_the_routes_and_not_with_the_log() -> None:
    found = spans(only_run(OLD + SERVING))
    assert (found["startup"], found["serving"]) == (71, 29 * 60 - 11)


def test_a_start_whose_routes_are_not_logged_ends_with_the_first_statistics_at_the_latest() -> None:
    without_routes = OLD.replace("INFO 03-04 10:01:11 launcher.py:19] Available routes are:\n", "")
    assert spans(only_run(without_routes + SERVING + SERVING.replace("10:30", "10:59")))["startup"] == 30 * 60


def test_without_a_line_on_the_engine_s_work_the_time_until_ready_is_not_explained() -> None:
    version, config, *_, sized, _, routes = OLD.splitlines(keepends=True)
    found = spans(only_run(version + config + routes + SERVING))
    assert (found["unexplained"], found["startup"]) == (51, 71)
    assert "api-server" not in found
    assert spans(only_run(version + config + sized + routes + SERVING))["api-server"] == 16


def test_a_log_that_begins_while_serving_shows_no_start() -> None:
    assert spans(only_run(SERVING + SERVING.replace("10:30", "10:59"))) == {}


def test_a_start_that_breaks_off_while_loading_loads_to_the_end() -> None:
    log = "".join(OLD.splitlines(keepends=True)[:3])
    run = only_run(log + "ERROR 03-04 10:05:30 worker.py:10] CUDA error: out of memory\n")
    assert spans(run)["load-weights"] == 300
    assert not named(run, "load-weights").ends
    assert named(only_run(OLD + SERVING), "load-weights").ends


def test_a_start_that_fails_ends_with_the_failure_and_not_with_the_stop_of_its_workers() -> None:
    header = "(EngineCore_DP0 pid=8) ERROR 03-04 10:00:{} [core.py:851]"
    lines = (
        *start("0.17.0")[:1],
        "(EngineCore_DP0 pid=8) INFO 03-04 10:00:20 [gpu_model_runner.py:4116] Model loading took 8.5 GiB memory and 12.0 seconds",
        f"{header.format(22)} EngineCore failed to start.",
        f"{header.format(22)} Traceback (most recent call last):",
        f"{header.format(22)} ValueError: no cache specs",
        "(EngineCore_DP0 pid=8) ERROR 03-04 10:00:52 [multiproc_executor.py:284] Worker proc VllmWorker-2 died unexpectedly, shutting down executor.",
    )
    run = only_run("".join(line + "\n" for line in lines))
    assert (named(run, "startup").end or 0) - (named(run, "load-weights").end or 0) == 2


def test_a_stream_that_was_captured_twice_has_each_phase_once() -> None:
    loaded = "(Worker_TP0 pid=7) INFO 03-04 10:00:25 [gpu_model_runner.py:1] Model loading took 7.6 GiB and 12.400000 seconds"
    lines = start()
    run = only_run("\n".join([*lines[:3], loaded, loaded, *lines[3:]]) + "\n")
    assert named(run, "load-weights").seconds == 12.4


def test_a_phase_that_began_before_the_first_line_is_reported_with_its_whole_length() -> None:
    line = (
        "(VllmWorker rank=0 pid=9) INFO 03-04 10:00:00 [monitor.py:33] torch.compile takes 27.00 s in total\n"
    )
    phase = named(only_run(line), "compile")
    assert phase.start is not None
    assert phase.end is not None
    assert phase.end - phase.start == phase.seconds == 27.0


VISION = """\
INFO 03-04 10:00:00 [core.py:61] Initializing a V1 LLM engine (v0.8.2) with config: model='org/vl', dtype=torch.bfloat16, max_seq_len=4096
INFO 03-04 10:00:10 [gpu_model_runner.py:1186] Model loading took 15.6271 GB and 4.371134 seconds
INFO 03-04 10:00:10 [gpu_model_runner.py:1456] Encoder cache will be initialized with a budget of 16384 tokens, and profiled with 1 image items of the maximum feature size.
INFO 03-04 10:01:06 [backends.py:425] Dynamo bytecode transform time: 6.00 s
INFO 03-04 10:01:14 [kv_cache_utils.py:566] GPU KV cache size: 905,648 tokens
INFO 03-04 10:01:30 [core.py:151] init engine (profile, create kv cache, warmup model) took 79.00 seconds
"""


def test_the_run_with_made_up_images_lasts_until_tracing_begins() -> None:
    phase = named(only_run(VISION), "encoder-profiling")
    assert phase.seconds == 50
    assert phase.parent == "engine-init"


def test_without_compilation_it_lasts_until_the_cache_is_sized() -> None:
    eager = "".join(line for line in VISION.splitlines(keepends=True) if "Dynamo" not in line)
    assert named(only_run(eager), "encoder-profiling").seconds == 64


def test_the_parts_of_a_start_add_up_to_it() -> None:
    earlier = "INFO:     Application startup complete.\n"  # Of another program, before the engine is ready.
    log = OLD.replace("INFO 03-04 10:00:30", earlier + "INFO 03-04 10:00:30") + SERVING
    run = only_run(log)
    parts = [phase.seconds or 0.0 for phase in run.phases if phase.parent == "startup"]
    assert sum(parts) == named(run, "startup").seconds


def test_what_torch_compile_did_is_a_part_of_its_total() -> None:
    compiled = (
        "INFO 03-04 10:00:50 [backends.py:430] Dynamo bytecode transform time: 4.00 s\n"
        "INFO 03-04 10:00:53 [monitor.py:34] torch.compile takes 6.00 s in total\n"
    )
    log = OLD.replace("INFO 03-04 10:00:55", compiled + "INFO 03-04 10:00:55") + SERVING
    run = only_run(log)
    assert named(run, "dynamo").parent == "compile"
    assert named(run, "compile").parent == "engine-init"


def test_a_compilation_from_the_cache_begins_with_its_tracing_though_its_total_is_printed_later() -> None:
    compiled = (
        "INFO 03-04 10:00:40 [backends.py:548] Dynamo bytecode transform time: 8.00 s\n"
        "INFO 03-04 10:00:46 [backends.py:164] Directly load the compiled graph(s) for dynamic shape from the cache, took 5.000 s\n"
        "INFO 03-04 10:00:52 [monitor.py:34] torch.compile takes 8.00 s in total\n"
    )
    run = only_run(OLD.replace("INFO 03-04 10:00:55", compiled + "INFO 03-04 10:00:55") + SERVING)
    begun = named(run, "dynamo").start
    assert begun is not None
    assert named(run, "compile").start == begun
    assert named(run, "compile").end == begun + 8


def test_a_short_time_up_to_the_size_of_the_cache_is_not_all_of_the_images() -> None:
    eager = "".join(line for line in VISION.splitlines(keepends=True) if "Dynamo" not in line)
    soon = eager.replace("10:01:14", "10:00:22").replace("10:01:30", "10:00:23").replace("79.00", "13.00")
    assert not any(phase.name == "encoder-profiling" for phase in only_run(soon).phases)


def test_a_cache_that_does_not_fit_into_the_total_of_torch_compile_is_no_part_of_it() -> None:
    compiled = (
        "INFO 03-04 10:00:56 [backends.py:559] Dynamo bytecode transform time: 6.00 s\n"
        "INFO 03-04 10:01:01 [backends.py:161] Directly load the compiled graph(s) for dynamic shape from the cache, took 4.500 s\n"
        "INFO 03-04 10:01:02 [monitor.py:34] torch.compile takes 6.00 s in total\n"
    )
    old = OLD.replace("INFO 03-04 10:00:55", compiled + "INFO 03-04 10:01:03").replace("13 secs", "7 secs")
    run = only_run(old + SERVING)
    assert named(run, "dynamo").parent == "compile"
    assert named(run, "compile-cache").parent == "engine-init"


def test_of_phases_that_end_within_one_second_the_short_one_is_no_part_of_the_other() -> None:
    """Neither release nor engine printed the whole load, so that reading and initializing are parts of the start."""
    run = only_run(
        "INFO 03-04 10:00:00 [llm_engine.py:243] Initializing a V0 LLM engine (v0.8.5) with config: model='org/m', dtype=torch.bfloat16\n"
        "INFO 03-04 10:00:09 [loader.py:458] Loading weights took 0.40 seconds\n"
        "INFO 03-04 10:00:09 [llm_engine.py:449] init engine (profile, create kv cache, warmup model) took 0.10 seconds\n"
    )
    read, made = named(run, "read-weights"), named(run, "engine-init")
    assert read.parent == made.parent == "startup"
    assert read.end == made.start
    assert (read.seconds, made.seconds) == (0.4, 0.1)


BUILDS = """\
(EngineCore_DP0 pid=8) INFO 03-04 10:00:00 [core.py:93] Initializing a V1 LLM engine (v0.16.0) with config: model='org/m', dtype=torch.bfloat16, max_seq_len=4096
(Worker_TP0 pid=9) INFO 03-04 10:00:30 [gpu_model_runner.py:4221] Model loading took 11.36 GiB memory and 20.075547 seconds
(Worker_TP1 pid=10) [2026-03-04 10:00:31] INFO core.py:694: start build [module_norm] under /opt/aiter/jit/build/module_norm
(EngineCore_DP0 pid=8) INFO 03-04 10:01:30 [shm_broadcast.py:542] No available shared memory broadcast block found in 60 seconds.
(Worker_TP1 pid=10) [aiter] finish build [module_norm], cost 100.0s
(Worker_TP1 pid=10) [2026-03-04 10:02:11] INFO core.py:863: finish build [module_norm], cost 100.0s
(Worker_TP0 pid=9) [2026-03-04 10:02:51] INFO core.py:863: finish build [module_quant], cost 39.5s
(EngineCore_DP0 pid=8) INFO 03-04 10:03:00 [shm_broadcast.py:542] No available shared memory broadcast block found in 60 seconds.
"""


def test_kernels_built_just_in_time_are_one_phase_and_not_unexplained() -> None:
    run = only_run(BUILDS)
    assert named(run, "kernel-build").parent == "startup"
    assert named(run, "kernel-build").seconds == 140
    assert spans(run)["unexplained"] == 10


def test_kernels_built_while_the_engine_initializes_are_a_part_of_that() -> None:
    ready = "(EngineCore_DP0 pid=8) INFO 03-04 10:03:00 [core.py:151] init engine (profile, create kv cache, warmup model) took 150.00 seconds\n"
    run = only_run("".join(BUILDS.splitlines(keepends=True)[:-1]) + ready)
    assert named(run, "kernel-build").parent == "engine-init"


def test_builds_by_a_clock_of_another_time_zone_have_no_place() -> None:
    run = only_run(BUILDS.replace("[2026-03-04 10:", "[2026-03-04 18:"))
    assert not any(phase.name == "kernel-build" for phase in run.phases)


def test_compilations_of_several_ranges_ran_together_and_count_once() -> None:
    took = "Directly load the compiled graph(s) for compile range"
    compiled = (
        "INFO 03-04 10:00:50 [backends.py:1111] Dynamo bytecode transform time: 1.00 s\n"
        f"INFO 03-04 10:00:53 [backends.py:285] {took} (1, 204) from the cache, took 2.600 s\n"
        f"INFO 03-04 10:00:53 [backends.py:285] {took} (205, 8192) from the cache, took 2.700 s\n"
        "INFO 03-04 10:00:53 [monitor.py:48] torch.compile took 4.10 s in total\n"
    )
    run = only_run(OLD.replace("INFO 03-04 10:00:55", compiled + "INFO 03-04 10:00:55") + SERVING)
    assert named(run, "compile-cache").seconds == 2.7
    assert named(run, "compile-cache").parent == "compile"


def test_the_warm_up_within_the_profiling_of_memory_is_a_part_of_it() -> None:
    profiled = (
        "INFO 03-04 10:00:51 [monitor.py:81] Initial profiling/warmup run took 2.40 s\n"
        "INFO 03-04 10:00:55 [gpu_worker.py:440] Available KV cache memory: 40.61 GiB\n"
    )
    run = only_run(OLD.replace("INFO 03-04 10:00:55", profiled + "INFO 03-04 10:00:55") + SERVING)
    assert named(run, "warm-up").parent == "profiling"
    assert named(run, "warm-up").start >= named(run, "profiling").start


def test_the_seconds_that_vllm_prints_of_memory_profiling_win() -> None:
    profiled = (
        "INFO 03-04 10:00:55 [worker.py:267] Memory profiling takes 1.30 seconds\n"
        "INFO 03-04 10:00:55 [worker.py:267] model weights take 12.55GiB; non_torch_memory takes 0.06GiB; PyTorch activation peak memory takes"
        " 1.21GiB; the rest of the memory reserved for KV Cache is 5.02GiB.\n"
    )
    run = only_run(OLD.replace("INFO 03-04 10:00:55", profiled + "INFO 03-04 10:00:55") + SERVING)
    assert named(run, "profiling").seconds == 1.3


def test_a_time_between_two_lines_as_short_as_their_rounding_is_no_phase() -> None:
    profiled = "INFO 03-04 10:00:50 [gpu_worker.py:440] Available KV cache memory: 40.61 GiB\n"
    run = only_run(OLD.replace("INFO 03-04 10:00:55", profiled + "INFO 03-04 10:00:55") + SERVING)
    assert "profiling" not in spans(run)


def test_a_phase_begins_with_its_own_first_line_where_a_release_prints_one() -> None:
    """The length of the capture is cut to whole seconds: counted back from its end it would begin too late."""
    begins = "INFO 03-04 10:00:56 model_runner.py:1400] Capturing the model for CUDA graphs.\n"
    done = OLD.index("INFO 03-04 10:01:10")
    graphs = named(only_run(OLD[:done] + begins + OLD[done:] + SERVING), "graph-capture")
    assert graphs.start == graphs.end - 14  # type: ignore[operator]
    assert graphs.seconds == 13


def test_a_phase_does_not_begin_before_the_line_that_it_follows() -> None:
    """The end is printed in whole seconds and the length is not."""
    longer = OLD.replace("finished in 13 secs", "finished in 15.6 secs")
    graphs = named(only_run(longer + SERVING), "graph-capture")
    assert graphs.start == graphs.end - 15  # type: ignore[operator]


def test_the_line_that_a_phase_follows_may_be_of_another_process() -> None:
    """The engine core sizes the cache, a worker captures the graphs."""
    of_core = OLD.replace(
        "INFO 03-04 10:00:55 gpu_executor", "(EngineCore_0 pid=8) INFO 03-04 10:00:55 gpu_executor"
    )
    graphs = named(
        only_run(of_core.replace("finished in 13 secs", "finished in 15.6 secs") + SERVING), "graph-capture"
    )
    assert graphs.start == graphs.end - 15  # type: ignore[operator]


def test_whole_seconds_of_the_clock_take_nothing_from_a_printed_length() -> None:
    engine = "INFO 03-04 10:01:10 llm_engine.py:449] init engine (profile, create kv cache, warmup model) took 22.63 seconds\n"
    routes = OLD.index("INFO 03-04 10:01:11")
    run = only_run(OLD[:routes] + engine + OLD[routes:] + SERVING)
    assert spans(run)["engine-init"] == 22.63
    assert spans(run)["load-weights"] == 18


def test_loading_lasts_as_the_lines_around_it_print_where_the_measured_seconds_are_fewer() -> None:
    """A clock of the processor stops while the machine sleeps; the lines show what the start waited for."""
    loaded = "INFO 03-04 10:04:40 [gpu_model_runner.py:1624] Model loading took 5.7174 GiB and 223.753928 seconds\n"
    begun = "INFO 03-04 10:00:30 [gpu_model_runner.py:1595] Starting to load model org/m...\n"
    run = only_run("".join(OLD.splitlines(keepends=True)[:2]) + begun + loaded + SERVING)
    assert (spans(run)["engine-start"], spans(run)["load-weights"]) == (10, 250)
    assert [one.line for one in named(run, "engine-start").evidence] == [3]


def test_the_v2_model_runner_names_the_start_of_loading_in_its_own_words() -> None:
    begun = "INFO 03-04 10:00:30 [model_runner.py:281] Loading model from scratch...\n"
    failed = "ERROR 03-04 10:04:40 [core.py:1100] EngineCore failed to start.\n"
    run = only_run("".join(OLD.splitlines(keepends=True)[:2]) + begun + failed)
    assert (spans(run)["engine-start"], spans(run)["load-weights"]) == (10, 250)


def test_a_load_without_its_last_line_lasts_from_its_first_line_until_the_weights_are_read() -> None:
    begun = "INFO 03-04 10:00:30 [gpu_model_runner.py:4735] Starting to load model org/m...\n"
    read = "INFO 03-04 10:04:30 [default_loader.py:314] Loading weights took 200.00 seconds\n"
    failed = "ERROR 03-04 10:04:40 [core.py:1100] EngineCore failed to start.\n"
    found = spans(only_run("".join(OLD.splitlines(keepends=True)[:2]) + begun + read + failed))
    assert (found["engine-start"], found["load-weights"], found["read-weights"]) == (10, 240, 200)
    assert found["unexplained"] == 10


def test_the_time_of_readiness_is_proved_by_a_line_with_a_time() -> None:
    lines = (
        *start("0.17.0")[:4],
        "(APIServer pid=1) INFO 03-04 10:00:40 [api_server.py:580] Starting vLLM server on http://0.0.0.0:8000",
        "(APIServer pid=1) INFO:     Application startup complete.",
    )
    run = only_run("".join(line + "\n" for line in lines))
    assert [one.line for one in named(run, "api-server").evidence] == [5, 6]


DRAFTED = """\
(EngineCore pid=5) INFO 03-04 10:00:00 [core.py:107] Initializing a V1 LLM engine (v0.20.1) with config: model='org/m', speculative_config=SpeculativeConfig(method='eagle3', model='org/draft', num_spec_tokens=3), dtype=torch.bfloat16, max_seq_len=4096
(EngineCore pid=5) INFO 03-04 10:00:40 [default_loader.py:384] Loading weights took 30.10 seconds
(EngineCore pid=5) INFO 03-04 10:00:50 [default_loader.py:384] Loading weights took 4.20 seconds
(EngineCore pid=5) INFO 03-04 10:00:51 [gpu_model_runner.py:4851] Model loading took 22.84 GiB memory and 50.1 seconds
(EngineCore pid=5) INFO 03-04 10:00:58 [backends.py:1077] Using cache directory: /c/torch_compile_cache/8096/rank_0_0/backbone for vLLM's torch.compile
(EngineCore pid=5) INFO 03-04 10:00:58 [backends.py:1137] Dynamo bytecode transform time: 5.60 s
(EngineCore pid=5) INFO 03-04 10:01:28 [monitor.py:48] torch.compile took 35.70 s in total
(EngineCore pid=5) INFO 03-04 10:01:30 [backends.py:1077] Using cache directory: /c/torch_compile_cache/8096/rank_0_0/eagle_head for vLLM's torch.compile
(EngineCore pid=5) INFO 03-04 10:01:30 [backends.py:1137] Dynamo bytecode transform time: 1.13 s
(EngineCore pid=5) INFO 03-04 10:01:38 [monitor.py:48] torch.compile took 9.10 s in total
(EngineCore pid=5) INFO 03-04 10:02:08 [gpu_worker.py:440] Available KV cache memory: 62.31 GiB
(EngineCore pid=5) INFO 03-04 10:02:20 [core.py:151] init engine (profile, create kv cache, warmup model) took 89.00 seconds
"""


def processes(log: str, name: str) -> list[str]:
    return [phase.process for phase in only_run(log).phases if phase.name == name]


def test_what_is_read_and_compiled_for_the_draft_model_says_so() -> None:
    for name in ("read-weights", "dynamo", "compile"):
        assert processes(DRAFTED, name) == ["EngineCore", "EngineCore (draft model)"]
    starts = [phase.start for phase in only_run(DRAFTED).phases if phase.name == "compile"]
    assert starts[1] - starts[0] > 30, "each begins with its own tracing"


def test_a_loading_that_took_longer_than_its_run_is_of_a_wrong_clock() -> None:
    wrong = DRAFTED.replace("took 4.20 seconds", "took 14341.52 seconds")
    assert processes(wrong, "read-weights") == ["EngineCore"]
    begun_before_the_log = wrong.partition("\n")[2]
    assert any("EngineCore" in one for one in processes(begun_before_the_log, "read-weights"))


def test_a_draft_without_weights_has_no_phases_of_its_own() -> None:
    log = DRAFTED.replace("method='eagle3'", "method='ngram'")
    assert processes(log, "read-weights") == ["EngineCore", "EngineCore"]


def test_a_phase_between_two_lines_cites_both() -> None:
    rest = named(only_run(DRAFTED), "profiling")
    assert [one.line for one in rest.evidence] == [10, 11]
    images = named(only_run(VISION), "encoder-profiling")
    assert [one.line for one in images.evidence] == [3, 4]


def test_compilation_begins_with_its_own_first_line_where_debugging_prints_it() -> None:
    begun = '(EngineCore pid=5) DEBUG 03-04 10:00:53 [decorators.py:237] Start compiling function <code object forward at 0x1, file "/m.py", line 3>\n'
    lines = DRAFTED.splitlines(keepends=True)
    run = only_run("".join([*lines[:4], begun, *lines[4:]]))
    first = next(phase for phase in run.phases if phase.name == "dynamo")
    without = next(phase for phase in only_run(DRAFTED).phases if phase.name == "dynamo")
    assert first.start - without.start == 1


def test_a_start_fails_with_the_first_process_that_says_so() -> None:
    lines = [
        *start()[:3],
        "(Worker_TP1 pid=7) ERROR 03-04 10:00:40 [multiproc_executor.py:901] WorkerProc failed to start.",
        "(EngineCore_DP0 pid=2) ERROR 03-04 10:00:47 [core.py:1330] EngineCore failed to start.",
    ]
    assert spans(only_run("\n".join(lines)))["startup"] == 40


def test_flashinfer_s_own_clock_says_how_long_it_tuned() -> None:
    tuned = "(EngineCore pid=5) 2026-03-04 10:02:{} - INFO - autotuner.py:457 - flashinfer.jit: [Autotuner]: Autotuning process {}\n"
    lines = DRAFTED.splitlines(keepends=True)
    log = "".join(
        [*lines[:-1], tuned.format("09,616", "starts ..."), tuned.format("19,124", "ends"), lines[-1]]
    )
    phase = named(only_run(log), "autotune")
    assert phase.seconds == pytest.approx(9.508)
    assert phase.parent == "engine-init"
    at_once = "".join(
        [*lines[:-1], tuned.format("09,616", "starts ..."), tuned.format("09,750", "ends"), lines[-1]]
    )
    assert not any(one.name == "autotune" for one in only_run(at_once).phases)


def test_the_engine_s_work_holds_the_loading_where_no_line_says_when_it_ended() -> None:
    lines = [
        "INFO 03-05 21:21:59 llm_engine.py:81] Initializing an LLM engine with config: model='org/m', dtype=torch.float16",
        "INFO 03-05 21:22:09 weight_utils.py:177] Using model weights format ['*.safetensors']",
        "INFO 03-05 21:22:42 llm_engine.py:340] # GPU blocks: 6482, # CPU blocks: 819",
        "INFO 03-05 21:22:51 model_runner.py:748] Graph capturing finished in 7 secs.",
        "Processed prompts: 100%|##########| 4/4 [00:00<00:00,  7.22it/s]",
    ]
    run = only_run("\n".join(lines))
    assert spans(run)["engine-load"] == 52
    assert "engine-init" not in spans(run)
    assert named(run, "graph-capture").parent == "engine-load"


def test_a_phase_begins_in_the_likeliest_second_of_a_clock_that_cuts_fractions() -> None:
    run = only_run(
        "INFO 03-04 10:00:20 [core.py:77] Initializing a V1 LLM engine (v0.10.1) with config: model='m', speculative_config=None\n"
        "INFO 03-04 10:00:31 [gpu_model_runner.py:2700] Model loading took 6.0 GiB and 4.000000 seconds\n"
        "INFO 03-04 10:00:36 [kv_cache_utils.py:849] GPU KV cache size: 70,000 tokens\n"
        "INFO 03-04 10:00:40 [gpu_model_runner.py:2708] Graph capturing finished in 2.03 secs, took 0.31 GiB\n"
    )
    capture = named(run, "graph-capture")
    assert capture.start % 60 == 38
    assert capture.seconds == 2.03


def test_a_start_that_fails_in_the_weights_of_the_draft_model_has_a_phase_for_them() -> None:
    worker = "(Worker_TP0 pid=7) {} 03-04 10:0{} {}"
    size = "[weight_utils.py:901] Filesystem type for checkpoints: GPFS. Checkpoint size: {} GiB. Available RAM: 272.15 GiB."
    lines = [
        *start("0.17.0")[:1],
        worker.format("INFO", "1:00", "[model_runner.py:281] Loading model from scratch..."),
        worker.format("INFO", "1:02", size.format(370.41)),
        worker.format("INFO", "5:00", "[default_loader.py:535] Loading weights took 238.00 seconds"),
        worker.format("INFO", "5:01", size.format(5.87)),
        worker.format("ERROR", "5:06", "[multiproc_executor.py:901] WorkerProc failed to start."),
    ]
    run = only_run("".join(line + "\n" for line in lines))
    whole = named(run, "load-weights")
    served, draft = (phase for phase in run.phases if phase.name == "read-weights")
    assert (whole.seconds, [one.line for one in whole.evidence]) == (246, [2, 6])
    assert (draft.seconds, draft.process, draft.parent) == (5, "Worker_TP0 (draft model)", "load-weights")
    assert "draft" not in served.process
    assert not draft.ends
    once = only_run("".join(line + "\n" for line in (*lines[:4], lines[5])))
    assert not any("draft" in phase.process for phase in once.phases)
