"""The progress bar of the offline engine: its last state is the batch, with what the bar says of its speed."""

from __future__ import annotations

from vllm_logdoctor import analyze
from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.run.metrics import offline_batches
from vllm_logdoctor.source import inputs_from

LOG = """INFO 05-01 10:00:00 [llm_engine.py:77] Initializing a V1 LLM engine (v0.11.2) with config: model='org/m'
Processed prompts:  50%|#####     | 5/10 [00:01<00:01,  4.20it/s, est. speed input: 12.30 toks/s, output: 45.60 toks/s]
Processed prompts: 100%|##########| 10/10 [00:02<00:00,  5.00it/s, est. speed input: 20.00 toks/s, output: 80.00 toks/s]
Processed prompts: 100%|##########| 4/4 [00:03<00:00,  1.30it/s, est. speed input: 6.00 toks/s, output: 90.00 toks/s]
"""


def test_each_batch_is_read_from_the_last_state_of_its_bar() -> None:
    (diagnosis,) = analyse(inputs_from(LOG.encode()), Options()).runs
    batches = offline_batches(diagnosis.run)
    assert [(batch.done, batch.total) for batch in batches] == [(10, 10), (4, 4)]
    assert [(batch.input, batch.output) for batch in batches] == [(20.0, 80.0), (6.0, 90.0)]


def test_the_time_that_a_progress_bar_counts_after_the_last_stamped_line_is_the_runs() -> None:
    start = [
        "INFO 05-01 10:00:00 [core.py:70] Initializing a V1 LLM engine (v0.11.2) with config: model='org/m', tensor_parallel_size=1",
        "INFO 05-01 10:01:00 [core.py:200] init engine (profile, create kv cache, warmup model) took 30.0 seconds",
    ]
    bars = [
        f"Processed prompts: 100%|##########| 8/8 [{took}<00:00, 1.2it/s, est. speed input: 10.0 toks/s, output: 20.0 toks/s]"
        for took in ("02:00", "01:30")
    ]
    assert analyze([*start, *bars]).runs[0].duration == 60 + 120 + 90


def test_the_time_of_a_full_bar_has_the_fraction_that_its_pace_gives() -> None:
    bars = [
        "Processed prompts: 100%|##########| 2/2 [00:02<00:00,  1.39s/it, est. speed input: 20.0 toks/s, output: 8.0 toks/s]",
        "Processed prompts: 100%|##########| 8/8 [00:04<00:00,  9.90it/s, est. speed input: 20.0 toks/s, output: 8.0 toks/s]",
    ]
    (diagnosis,) = analyse(inputs_from("\n".join([LOG.splitlines()[0], *bars]).encode()), Options()).runs
    assert [batch.seconds for batch in offline_batches(diagnosis.run)] == [2.78, 4.0]


def test_a_bar_that_a_notebook_cut_at_its_width_is_a_batch_and_no_part_of_the_start() -> None:
    lines = [
        "INFO 10-30 10:00:00 llm_engine.py:238] Initializing an LLM engine (v0.6.4) with config: model='org/m', tensor_parallel_size=1",
        "INFO 10-30 10:00:20 model_runner.py:1060] Loading model weights took 14.9 GB",
        "INFO 10-30 10:00:30 gpu_executor.py:122] # GPU blocks: 2000, # CPU blocks: 100",
        "INFO 10-30 10:00:50 model_runner.py:1522] Graph capturing finished in 10 secs.",
        "Processed prompts: 100%|#| 640/640 [00:30<00:00, 21.33it/s, est. speed input:",
        "INFO 10-30 10:01:25 multiproc_worker_utils.py:133] Terminating local vLLM worker processes",
    ]
    (diagnosis,) = analyse(inputs_from("\n".join(lines).encode()), Options()).runs
    assert [(batch.done, batch.total) for batch in offline_batches(diagnosis.run)] == [(640, 640)]
    assert next(phase.seconds for phase in diagnosis.run.phases if phase.name == "startup") == 50


def test_batches_after_lines_whose_time_is_not_read_are_in_the_runs_duration() -> None:
    tuner = "(Worker_TP{rank} pid=71{rank}) 2026-04-29 {time},077 - INFO - autotuner.py:446 - flashinfer.jit: [Autotuner]: Autotuning process starts ..."
    bar = "Processed prompts: 100%|##########| 8/8 [{took}<00:00, 1.2it/s, est. speed input: 10.0 toks/s, output: 20.0 toks/s]"
    lines = [
        tuner.format(rank=0, time="02:59:52"),
        bar.format(took="05:51"),
        tuner.format(rank=1, time="03:08:05"),
        bar.format(took="05:15"),
    ]
    duration = analyze(lines).runs[0].duration
    assert duration is not None
    assert duration >= 351 + 315


OWN = """Traceback (most recent call last):
  File "/home/me/evaluate.py", line 88, in <module>
    main()
  File "/home/me/evaluate.py", line 71, in main
    print(total / rounds)
ZeroDivisionError: division by zero
"""


def test_a_program_that_fails_behind_its_last_batch_is_no_crash_of_vllm() -> None:
    (diagnosis,) = analyse(inputs_from((LOG + OWN).encode()), Options()).runs
    assert diagnosis.run.outcome == "clean_shutdown"
    (root,) = [one for one in diagnosis.findings if one.role == "root"]
    assert "ZeroDivisionError" in root.title
    assert "vLLM itself had finished its work" in root.alternatives[0]


def test_a_program_that_fails_before_its_batch_is_done_or_in_vllm_crashes() -> None:
    half = "".join(LOG.splitlines(keepends=True)[:2])
    in_vllm = OWN.replace(
        "/home/me/evaluate.py", "/opt/env/lib/python3.12/site-packages/vllm/entrypoints/llm.py"
    )
    for text in (half + OWN, LOG + in_vllm):
        (diagnosis,) = analyse(inputs_from(text.encode()), Options()).runs
        assert diagnosis.run.outcome.startswith("crashed"), text


LEFT = "[rank0]:[W501 10:00:04.123456789 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed before we destruct ProcessGroupNCCL.\n"
SECOND = """== second experiment ==
INFO 05-01 10:01:00 [__init__.py:207] Automatically detected platform cuda.
INFO 05-01 10:01:20 [llm_engine.py:77] Initializing a V1 LLM engine (v0.11.2) with config: model='org/m'
"""


def test_the_next_program_of_a_file_begins_with_its_imports() -> None:
    first, second = (one.run for one in analyse(inputs_from((LOG + LEFT + SECOND).encode()), Options()).runs)
    assert (first.first_line, second.first_line, second.last_line) == (1, 7, 8)


def test_a_platform_that_is_detected_while_the_program_goes_on_begins_nothing() -> None:
    detected = SECOND.splitlines()[1]
    batch = "Processed prompts: 100%|##########| 6/6 [00:03<00:00,  1.30it/s, est. speed input: 6.00 toks/s, output: 90.00 toks/s]"
    assert len(analyze([*LOG.splitlines(), detected, batch]).runs) == 1


def test_the_speed_of_all_batches_is_stated() -> None:
    (diagnosis,) = analyse(inputs_from(LOG.encode()), Options()).runs
    assert "86.1 output tokens/s" in diagnosis.bottleneck.reason  # 10 prompts at 80, then 4 at 90


def test_a_full_bar_behind_a_full_one_that_was_faster_is_another_batch() -> None:
    bar = "Processed prompts: 100%|##########| 100/100 [{}<00:00,  2.32it/s]"
    for times, batches in (
        (("00:43", "01:41", "02:49"), 3),
        (("00:43", "00:43"), 1),
        (("00:43", "00:44"), 1),
    ):
        lines = [LOG.splitlines()[0], *(bar.format(time) for time in times)]
        (diagnosis,) = analyse(inputs_from("\n".join(lines).encode()), Options()).runs
        assert len(offline_batches(diagnosis.run)) == batches


def test_results_of_several_programs_have_no_length_in_common() -> None:
    result = "Processed prompts: 100%|##########| 100/100 [{}<00:00,  2.32it/s]\nThroughput: 2.32 requests/s, 1056.36 tokens/s"
    one, more = (
        analyze([LOG.splitlines()[0], *"\n".join(result.format(time) for time in times).splitlines()])
        .runs[0]
        .title
        for times in (("00:43",), ("00:43", "01:41"))
    )
    assert "log of 43.1 s" in one
    assert "log of" not in more


def test_a_log_that_ends_in_a_second_batch_holds_the_answers_of_the_first() -> None:
    start = [
        "INFO 05-01 10:00:00 [core.py:70] Initializing a V1 LLM engine (v0.11.2) with config: model='org/m', tensor_parallel_size=1",
        "INFO 05-01 10:00:52 [core.py:210] init engine (profile, create kv cache, warmup model) took 12.00 seconds",
    ]
    answer = "Prompt: 'The capital is', Generated text: ' a city'"
    begun = "Processed prompts:   0%|          | 0/8 [00:00<?, ?it/s, est. speed input: 0.00 toks/s, output: 0.00 toks/s]"
    assert analyze([*start, begun]).to_markdown().startswith("# CUT OFF: no result in the log")
    page = analyze([*start, answer, begun]).to_markdown()
    assert not page.startswith("# CUT OFF: no result")
    assert "printed 1 answer" in page
