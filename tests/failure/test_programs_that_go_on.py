"""Programs that call an engine and outlive an exception of their own code: where its text ends, and that the run did not fail."""

import pytest

from tests.failure.judging import diagnosis
from tests.failure.records import records_of
from vllm_logdoctor import analyze
from vllm_logdoctor.run.blocks import blocks_of

ENGINE = [
    "INFO 05-01 10:00:04 [utils.py:233] non-default args: {'max_model_len': 4096, 'model': 'org/m'}",
    "(EngineCore_DP0 pid=9) INFO 05-01 10:00:15 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: model='org/m'",
    "(EngineCore_DP0 pid=9) INFO 05-01 10:01:00 [core.py:210] init engine (profile, create kv cache, warmup model) took 19.00 seconds",
    "INFO 05-01 10:01:01 [llm.py:306] Supported_tasks: ['generate']",
]
STEPS = [f"step {number} of 4: reward 0.2{number}" for number in range(1, 5)]


def printed(outermost: str, ends: str = "KeyError: 'score'") -> list[str]:
    """Return a traceback of a program that begins in a function."""
    return [
        "Traceback (most recent call last):",
        f'  File "/srv/train.py", line 88, in {outermost}',
        "    reward = score(answer)",
        '  File "/srv/train.py", line 41, in score',
        '    return answer["score"]',
        ends,
    ]


def failed(*parts: list[str]) -> bool:
    text = "\n".join(line for part in parts for line in part)
    return any(one.kind == "failure" for one in diagnosis(text).findings)


@pytest.mark.parametrize(
    "behind",
    [
        STEPS[1:],
        ["2026-05-01 10:02:00,123 - trainer - INFO - step 2 done"],
        ["Training:  40%|####      | 2/5 [00:20<00:30, 10.0s/it]"],
    ],
    ids=["lines as before", "with a clock", "progress bar"],
)
def test_the_text_of_an_exception_ends_where_its_program_writes_on(behind):
    (block,) = blocks_of(records_of("\n".join([STEPS[0], *printed("step"), *behind])))
    assert block.last_raised.text == "'score'"


def test_further_lines_of_a_message_are_its_text():
    ends = (
        "RuntimeError: CUDA error: invalid argument\nFor debugging set a variable.\nCompile with assertions."
    )
    (block,) = blocks_of(records_of("\n".join([STEPS[0], *printed("step", ends)])))
    assert block.last_raised.text.endswith("Compile with assertions.")


def test_a_program_that_caught_an_exception_and_went_on_has_not_failed():
    assert not failed(ENGINE, STEPS[:1], printed("step"), STEPS[1:])
    assert failed(ENGINE, STEPS[:1], printed("step"))


def test_lines_of_a_failure_or_a_shell_show_no_program_that_goes_on():
    assert failed(ENGINE, STEPS[:1], printed("step"), ["2026-05-01 10:02:00,123 scorer failed, exiting"])
    assert failed(ENGINE, STEPS[:1], printed("step"), ["+ echo done"])


def test_an_exception_that_the_interpreter_printed_ends_its_program_unless_it_writes_on_as_before():
    assert failed(ENGINE, printed("<module>"), ["2026-05-01 10:02:00,123 next job"])
    assert failed(ENGINE, STEPS[:1], printed("<module>"), ["2026-05-01 10:02:00,123 next job"])
    assert not failed(ENGINE, STEPS[:1], printed("<module>"), STEPS[1:])


def test_a_line_that_a_script_printed_before_the_engine_is_none_of_its_program():
    assert failed(["job 1 begins"], ENGINE, printed("<module>"), ["job 2 begins"])


def test_an_actor_whose_job_writes_on_has_caught_its_exception():
    actor = [f"(RewardWorker pid=77) {line}" for line in printed("step")]
    steps = [f"(TaskRunner pid=55) {line}" for line in STEPS]
    assert not failed(ENGINE, actor, steps)
    assert failed(ENGINE, actor, steps[:1])


def test_what_the_program_outlived_is_in_the_report():
    report = analyze([*ENGINE, STEPS[0], *printed("step"), *STEPS[1:]]).to_markdown()
    assert "Exception in the program, which went on" in report
    assert "KeyError: 'score'" in report


TRAINED = [
    "(TaskRunner pid=55) Training Progress: 100%|##########| 4/4 [20:33<00:00, 205.58s/it]",
    "(TaskRunner pid=55) Traceback (most recent call last):",
    '(TaskRunner pid=55)   File "/opt/site-packages/torch/utils/data/_utils/signal_handling.py", line 73, in handler',
    "(TaskRunner pid=55)     _error_if_any_worker_fails()",
    "(TaskRunner pid=55) RuntimeError: DataLoader worker (pid 77) is killed by signal: Killed.",
]
METRICS = ["(TaskRunner pid=55) step:4 - reward/mean:0.31 - actor/lr:1e-06 - perf/time:12.5"]


def test_a_trainer_that_prints_its_last_step_behind_an_exception_has_not_failed():
    assert failed(ENGINE, TRAINED)
    assert not failed(ENGINE, TRAINED, METRICS)
    report = analyze([*ENGINE, *TRAINED, *METRICS]).to_markdown()
    assert "made 4 of 4 steps" in report
    assert "DataLoader worker (pid 77) is killed by signal: Killed.`" in report


@pytest.mark.parametrize(
    "behind", [METRICS[0].partition(") ")[2], "{'loss': 0.31, 'grad_norm': 1.2, 'epoch': 0.5}"]
)
def test_a_line_of_metrics_is_no_text_of_an_exception(behind):
    (block,) = blocks_of(records_of("\n".join([*printed("step"), behind])))
    assert block.last_raised.text == "'score'"
