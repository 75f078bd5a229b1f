"""What to look for after a restart is named as the release and its engine print it."""

from __future__ import annotations

import pytest

from tests.failure.records import records_of
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.rules.printed import as_printed, check_of_failure
from vllm_logdoctor.rules.release_terms import action_of_release, fits_release, in_words_of_release
from vllm_logdoctor.run.model import Outcome, Run, Value

LOADED = "The weights load: `Model loading took N GiB`."
LATER = "INFO 05-01 10:00:01 [default_loader.py:268] Loading weights took 9.12 seconds"


@pytest.mark.parametrize(
    ("version", "engine", "platform", "line"),
    [
        ("0.5.4", "V0", "cuda", "`# GPU blocks`"),
        ("0.6.6", "V0", "tpu", "`# TPU blocks`"),
        ("0.6.6", None, "cuda", "`# GPU blocks`"),
        ("0.8.5", "V0", "cuda", "`# cuda blocks`"),
        ("0.9.2", "V0", "rocm", "`# rocm blocks`"),
        ("0.7.3", "V1", "cuda", "`# GPU blocks`"),
        ("0.8.5", "V1", "cuda", "`GPU KV cache size`"),
        ("0.29.0", "V1", "cuda", "`GPU KV cache size`"),
        ("0.30.0", "V1", "cuda", "`KV cache size`"),
        ("0.33.0", "V1", "cpu", "`KV cache size`"),
        (None, None, None, "`GPU KV cache size` (engine V0: `# GPU blocks`)"),
    ],
)
def test_the_size_of_the_cache(
    version: str | None, engine: str | None, platform: str | None, line: str
) -> None:
    run = Run(version=Value(version, "reported") if version else None, engine=engine, platform=platform)  # type: ignore[arg-type]
    assert as_printed("Look for `GPU KV cache size`.", run) == f"Look for {line}."


def test_requests_that_wait_are_pending_ones_in_v0() -> None:
    assert as_printed("`Waiting` falls.", Run(engine="V0")) == "`Pending` falls."
    assert as_printed("`Waiting` falls.", Run(engine="V1")) == "`Waiting` falls."


@pytest.mark.parametrize(
    ("check", "version", "outcome", "expected"),
    [
        (LOADED, "0.11.2", "crashed_at_startup", LOADED),
        (LOADED, "0.11.2", "crashed_while_serving", ""),
        ("`Resolved architecture: ...`.", "0.9.2", "crashed_at_startup", ""),
        ("`Automatically detected platform ...` names it.", "0.12.0", "crashed_at_startup", ""),
        ("`GPU KV cache size` is printed.", None, "crashed_at_startup", ""),
        ("`/v1/models` lists the adapter.", None, "crashed_at_startup", "`/v1/models` lists the adapter."),
        ("The start or request that failed succeeds.", "0.11.2", "crashed_at_startup", ""),
    ],
)
def test_a_check_waits_for_a_line_that_the_release_prints_at_info(
    check: str, version: str | None, outcome: Outcome, expected: str
) -> None:
    run = Run(version=Value(version, "reported") if version else None, kind="server")
    assert check_of_failure(check, run, outcome) == expected


def test_a_start_that_got_further_than_its_check_has_another_one() -> None:
    run = Run(version=Value("0.11.2", "reported"), kind="server", records=records_of(LATER))
    assert check_of_failure("Loading begins: `Starting to load model`.", run, "crashed_at_startup") == ""
    assert check_of_failure(LOADED, run, "crashed_at_startup") == LOADED


def test_a_server_that_begins_is_no_check_of_an_offline_run() -> None:
    run = Run(version=Value("0.11.2", "reported"), kind="offline")
    assert "startup" not in check_of_failure("`Application startup complete`.", run, "crashed_at_startup")


@pytest.mark.parametrize(("version", "fits"), [("0.9.2", False), ("0.11.2", True)])
def test_a_value_that_a_release_does_not_offer_is_no_advice_for_it(version: str, fits: bool) -> None:
    run = Run(version=Value(version, "reported"))
    assert fits_release("a smaller cache: --kv-cache-dtype fp8_ds_mla", run) is fits


def test_a_step_in_words_names_no_setting_that_the_release_lacks() -> None:
    written = Change(
        "read other files: `--load-format auto`, or `--safetensors-load-strategy eager`", "action"
    )
    worded = action_of_release(written, Run(version=Value("0.9.2", "reported")))
    assert worded is not None
    assert worded.knob == "read other files: `--load-format auto`"
    assert action_of_release(written, Run(version=Value("0.11.2", "reported"))) == written


def test_a_step_that_only_a_newer_release_can_take_is_no_step() -> None:
    written = Change("give the cache a fixed size: --kv-cache-memory-bytes", "action")
    assert action_of_release(written, Run(version=Value("0.9.2", "reported"))) is None


def test_what_is_to_be_taken_away_need_not_be_in_the_release() -> None:
    written = Change("remove VLLM_USE_V1", "action")
    assert action_of_release(written, Run(version=Value("0.15.0", "reported"))) == written


def test_a_variable_is_not_set_to_the_default_of_the_release() -> None:
    old = Run(version=Value("0.6.0", "reported"))
    steps = "Change one: attention (`--enforce-eager`), sampling (`VLLM_USE_FLASHINFER_SAMPLER=0`)."
    assert in_words_of_release(steps, old) == "Change one: attention (`--enforce-eager`)."
    assert in_words_of_release(steps, Run(version=Value("0.22.0", "reported"))) == steps


def test_a_log_without_a_release_gets_the_first_one_that_has_a_new_flag() -> None:
    assert (
        in_words_of_release("Set `--moe-backend marlin`.", Run())
        == "Set `--moe-backend marlin` (0.17 and later)."
    )


def test_what_shows_that_a_server_is_up_is_no_check_where_the_failed_one_was_up() -> None:
    def check(run: Run, outcome: Outcome) -> str:
        return check_of_failure("`Application startup complete`", run, outcome)

    line = "`Application startup complete`"
    server = Run(kind="server", version=Value("0.11.2", "reported"))
    assert check(server, "crashed_at_startup") == line
    assert check(server, "crashed_while_serving") == ""
    assert (
        check(
            Run(kind="server", version=Value("0.11.2", "reported"), startup_complete=True),
            "crashed_at_startup",
        )
        == ""
    )


def test_scheduling_that_an_argument_switched_off_is_checked_by_the_argument() -> None:
    """Releases from 0.27 on print no line where an argument switched it off."""
    check = "`Asynchronous scheduling is enabled.` at the start."
    by_argument = Run(version=Value("0.29.0", "reported"), arguments={"async_scheduling": False})
    assert as_printed(check, by_argument).startswith("the arguments at the start no longer name")
    by_vllm = Run(version=Value("0.29.0", "reported"))
    assert as_printed(check, by_vllm).startswith("no line at the start says")
