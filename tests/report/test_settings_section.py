"""The section on settings: which values it shows, in which form, who set them, and what an earlier run had."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tests.report.test_load_section import rows
from tests.report.test_verdict import line, page_of
from tests.rules.making import a_run
from tests.tables import for_each
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.sections.configuration import configuration, configuration_summary, spread
from vllm_logdoctor.run.model import Run, Value


def value(given: Any, provenance: Any = "explicit", number: int = 2, **more: Any) -> Value:
    return Value(given, provenance, (line(number),), **more)


def run_of(version: str | None = "0.16.0", **config: Value) -> Run:
    return _with(a_run(version=version), config)


def _with(run: Run, config: dict[str, Value]) -> Run:
    run.config = config
    run.arguments = {name: one.value for name, one in config.items() if one.provenance == "explicit"}
    return run


def whole(run: Run) -> str:
    return "\n".join(configuration(page_of(run)))


def summary(run: Run, *earlier: Run, **more: Any) -> str:
    page = page_of(run, **more)
    before = tuple(replace(page.diagnosis, run=one) for one in earlier)
    return "\n".join(configuration_summary(Page(page.analysis, page.diagnosis, earlier=before)))


def test_values_are_ordered_by_who_set_them() -> None:
    run = run_of(
        seed=value(7, "reported", 4),
        dtype=value("float16", "adjusted", 3),
        max_num_seqs=value(64),
        block_size=value(16, "derived", 5),
        max_model_len=value(4096),
        swap_space=value(4, "default"),
    )
    found = rows(whole(run))
    assert list(found)[2:] == ["`max_model_len`", "`max_num_seqs`", "`dtype`", "`block_size`", "`seed`"]
    assert found["`max_num_seqs`"] == ["`64`", "arguments", "[L2]"]
    assert [found[f"`{name}`"][1] for name in ("dtype", "block_size", "seed")] == [
        "vLLM",
        "computed",
        "engine",
    ]
    assert whole(run).endswith("Defaults of this release: `swap_space` `4`.")


@for_each(
    ("given", "set_"),
    [
        (None, False),
        ("", False),
        ([], False),
        ({}, False),
        ((), False),
        (0, True),
        (False, True),
        ("x", True),
    ],
)
def test_what_the_engine_prints_as_nothing_is_not_set(given: Any, set_: bool) -> None:
    text = whole(run_of(seed=value(given, "reported", 4), max_num_seqs=value(64)))
    assert ("`seed`" in rows(text)) is set_
    assert ("Not set [L4]: `seed`." in text) is not set_


def test_a_note_and_what_a_value_became_are_shown() -> None:
    run = run_of(
        dtype=value("auto", resolved="bfloat16"), max_num_seqs=value(64, "adjusted", note="to fit the card")
    )
    found = rows(whole(run))
    assert found["`dtype`"][0] == "`auto` (resolved to `bfloat16`)"
    assert found["`max_num_seqs`"][1] == "vLLM (to fit the card)"


def test_nested_settings_are_spread_without_what_is_not_set() -> None:
    nested = {"mode": 3, "backend": "", "pass_config": {"fuse_norm": True, "fuse_act": None}}
    assert spread(nested) == "mode=3, pass_config.fuse_norm=True"
    assert (
        rows(whole(run_of(compilation_config=value(nested))))["`compilation_config`"][0]
        == "`mode=3, pass_config.fuse_norm=True`"
    )
    assert (
        rows(whole(run_of(compilation_config=value({"mode": None}))))["`compilation_config`"][0]
        == "nothing set"
    )
    # A long one leaves out what is off.
    long = {f"fuse_{n:02}": False for n in range(12)} | {"mode": 3, "inner": {"a": 0, "b": 2}}
    assert (
        rows(whole(run_of(compilation_config=value(long))))["`compilation_config`"][0]
        == "`mode=3, inner.b=2`"
    )
    short = {f"fuse_{n}": False for n in range(3)}
    assert "fuse_0=False" in rows(whole(run_of(compilation_config=value(short))))["`compilation_config`"][0]


def test_an_argument_is_shown_as_it_was_given_and_not_with_what_the_engine_filled_in() -> None:
    run = run_of(
        kv_transfer_config=value({"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_ip": "10.0.0.4"})
    )
    run.arguments = {"kv_transfer_config": {"kv_connector": "NixlConnector", "kv_role": "kv_both"}}
    assert rows(whole(run))["`kv_transfer_config`"] == [
        "`kv_connector=NixlConnector, kv_role=kv_both`",
        "arguments",
        "[L2]",
    ]
    # An object that is printed whole holds what vLLM filled in and drew for itself.
    run.arguments = {
        "kv_transfer_config": {"kv_connector": "NixlConnector", "kv_rank": None, "engine_id": "abc"}
    }
    assert rows(whole(run))["`kv_transfer_config`"] == [
        "`kv_connector=NixlConnector`",
        "arguments, completed by vLLM",
        "[L2]",
    ]
    run.config = {"kv_transfer_config": value({"kv_connector": "NixlConnector", "kv_rank": None}, "reported")}
    assert rows(whole(run))["`kv_transfer_config`"][1] == "engine"


def test_of_a_wrapped_command_the_line_with_the_argument_is_shown() -> None:
    wrapped = replace(value(64), evidence=(line(3), line(1), line(2), line(4)))
    run = run_of(max_num_seqs=wrapped)
    run.launched_by = (line(1), line(2))
    assert rows(whole(run))["`max_num_seqs`"][2] == "[L3]"
    run.launched_by = (line(1),)
    assert "L1" in rows(whole(run))["`max_num_seqs`"][2]


def test_the_summary_shows_what_was_set_and_of_the_rest_what_matters() -> None:
    run = run_of(
        max_num_seqs=value(64),
        port=value(8000),
        dtype=value("bfloat16", "reported", 4),
        tensor_parallel_size=value(1, "reported", 4),
        enforce_eager=value(False, "reported", 4),
        quantization=value(None, "reported", 4),
        compilation_config=value({"mode": 3}, "reported", 4),
        seed=value(7, "reported", 4),
        max_model_len=value(4096, "default"),
    )
    text = summary(run)
    assert list(rows(text))[2:] == ["`max_num_seqs`"]
    assert (
        "Also in effect [L4]: `dtype` `bfloat16`; defaults of this release, not printed [L2]: `max_model_len` `4096`."
        in text
    )
    assert "Set to the default value [L2]: `port` `8000`." in text


def test_a_summary_without_anything_set_does_not_say_also() -> None:
    assert (
        summary(run_of(dtype=value("bfloat16", "reported", 4))).strip()
        == "In effect [L4]: `dtype` `bfloat16`."
    )
    assert summary(run_of()) == ""
    defaults = run_of(max_num_seqs=value(64), max_model_len=value(4096, "default"))
    assert "Defaults of this release, not printed [L2]:" in summary(defaults)


@for_each(
    ("version", "given", "idle"),
    [
        ("0.16.0", value(8000), True),
        ("0.16.0", value(8001), False),
        ("0.16.0", value(8000, resolved="9000"), False),
        ("0.16.0", value(8000, "adjusted"), False),
        (None, value(8000), True),  # The same default in all releases.
    ],
)
def test_an_argument_at_its_default_changes_nothing(version: str | None, given: Value, idle: bool) -> None:
    text = summary(run_of(version, port=given))
    assert ("Set to the default value" in text) is idle
    assert ("`port`" in rows(text)) is not idle


def test_variables_are_shown_with_who_set_them() -> None:
    run = a_run(environment={"VLLM_B": value("2", "adjusted", 6), "VLLM_A": value("1", "explicit", 5)})
    assert "Environment: `VLLM_A` `1` [L5], `VLLM_B` `2` (set by vLLM) [L6]." in summary(run)
    assert "Environment: `VLLM_A` `1`" in whole(run)
    assert "Environment" not in summary(run_of(max_num_seqs=value(64)))


def earlier(number: int, **config: Value) -> Run:
    run = run_of(**config)
    run.number = number
    return run


def test_of_a_run_like_an_earlier_one_only_the_differences_are_shown() -> None:
    here = earlier(3, max_num_seqs=value(64), seed=value(7), dtype=value("half"))
    first = earlier(1, max_num_seqs=value(32), seed=value(7))
    text = summary(here, first)
    assert text.startswith("As in run 1, except:")
    assert rows(text)["`max_num_seqs`"] == ["`32`", "`64`", "[L2]"]
    assert rows(text)["`dtype`"] == ["not in the log", "`half`", "[L2]"]
    assert "`seed`" not in text
    assert rows(summary(first, here))["`dtype`"] == ["`half`", "not in the log", ""]


def test_the_nearest_of_earlier_runs_is_compared_and_the_first_that_is_the_same() -> None:
    settings = {f"x{n}": value(n) for n in range(12)}
    here = earlier(4, **settings)
    same = [earlier(number, **settings) for number in (1, 2)]
    assert summary(here, *same) == "As in run 1."
    near = earlier(2, **{**settings, "x1": value("other")})
    far = earlier(3, **{**settings, "x1": value("other"), "x2": value("other")})
    assert summary(here, far, near).startswith("As in run 2, except:")
    # With more than eight differences a run is another one.
    eight = earlier(1, **{**settings, **{f"x{n}": value("other") for n in range(8)}})
    nine = earlier(1, **{**settings, **{f"x{n}": value("other") for n in range(9)}})
    assert summary(here, eight).startswith("As in run 1, except:")
    assert "As in run" not in summary(here, nine)


def test_of_long_nested_settings_only_what_differs_is_compared() -> None:
    long = {f"fuse_{n:02}": True for n in range(12)}
    here = earlier(2, compilation_config=value({**long, "mode": 3}))
    before = earlier(1, compilation_config=value({**long, "mode": 2, "level": 1}))
    assert rows(summary(here, before))["`compilation_config`"][:2] == ["`mode=2, level=1`", "`mode=3`"]
    more = earlier(1, compilation_config=value({**long, "mode": 3, "level": 1}))
    assert rows(summary(here, more))["`compilation_config`"][:2] == ["`level=1`", "not set"]
    short = earlier(1, compilation_config=value({"mode": 2, "level": 1}))
    assert rows(summary(earlier(2, compilation_config=value({"mode": 3, "level": 1})), short))["`compilation_config`"][:2] == ["`mode=2, level=1`", "`mode=3, level=1`"]  # fmt: skip
