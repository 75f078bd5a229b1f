"""A benchmark that sends several loads one after the other: no mean over them, but the speed at each."""

from __future__ import annotations

from tests.rules.making import a_run, load
from vllm_logdoctor.report.series import points_of
from vllm_logdoctor.report.sweep import steps_of_sweep
from vllm_logdoctor.run.model import Evidence, Run

RATES = (
    (12, {"running": 1, "generation": 250.0, "prompt": 10.0}),
    (4, {"running": 9, "generation": 2400.0, "prompt": 110.0}),
    (4, {"running": 18, "generation": 4800.0, "prompt": 220.0}),
)
CLIENT = (Evidence("vllm.log", 1, "vllm bench serve --request-rate 1"),)


def swept(*parts: tuple[int, dict[str, float]], client: bool = True) -> Run:
    run = a_run(samples=load(*parts))
    run.load_commands = CLIENT if client else ()
    return run


def test_each_load_of_a_sweep_has_its_own_speed() -> None:
    run = swept(*RATES)
    steps = steps_of_sweep(run, points_of(run))
    assert [(step.low, step.high, step.generation) for step in steps] == [
        (1, 1, 250.0),
        (9, 9, 2400.0),
        (18, 18, 4800.0),
    ]
    # The first line of a load counts requests that began within its interval, the last one those that end in the next.
    assert [step.lines for step in steps] == [10, 2, 2]


def test_an_interval_in_which_one_load_ends_and_the_next_begins_is_not_steady() -> None:
    refilled = (1, {"running": 9, "generation": 1300.0, "prompt": 60.0})
    run = swept(RATES[0], RATES[1], refilled, *RATES[1:])
    steps = steps_of_sweep(run, points_of(run))
    assert [step.generation for step in steps] == [250.0, 2400.0, 4800.0]


def test_what_users_send_and_what_has_one_load_is_no_sweep() -> None:
    users = swept(*RATES, client=False)
    assert not steps_of_sweep(users, points_of(users))
    one = swept((20, RATES[0][1]))
    assert not steps_of_sweep(one, points_of(one))
