"""Advice in the words of the run's release: settings under their names there, no item that it lacks, newer sources for a build."""

from __future__ import annotations

import pytest

import vllm_logdoctor
from tests.tables import for_each
from vllm_logdoctor.knowledge.messages import message_table
from vllm_logdoctor.rules.release_terms import fits_release, in_words_of_build, in_words_of_release
from vllm_logdoctor.run.model import Run, Value


def of(version: str | None) -> Run:
    return Run(version=Value(version, "reported") if version else None)


@for_each(
    ("version", "text", "words"),
    [
        ("0.22.0", "Set `--attention-backend X`.", "Set `--attention-backend X`."),
        ("0.10.2", "Set `--attention-backend X`.", "Set `VLLM_ATTENTION_BACKEND=X`."),
        ("0.10.2", "Set `--attention-backend`.", "Set `VLLM_ATTENTION_BACKEND`."),
        # Where the release is not known, the flag is said to be new, and what did its work before.
        (None, "Set `--attention-backend X`.", "Set `--attention-backend X` (before 0.13 `VLLM_ATTENTION_BACKEND=X`)."),
        (None, "one (`--attention-backend`)", "one (`--attention-backend`, before 0.13 `VLLM_ATTENTION_BACKEND`)"),
        (None, "Set `--linear-backend`.", "Set `--linear-backend` (0.22 and later)."),
        (None, "Set `--max-num-seqs 4`.", "Set `--max-num-seqs 4`."),
        ("0.5.0", "See `vllm serve --help=all`.", "See `python -m vllm.entrypoints.openai.api_server --help`."),
        ("0.10.2", "See `vllm serve --help=all`.", "See `vllm serve --help`."),
        ("0.11.0", "See `vllm serve --help=all`.", "See `vllm serve --help=all`."),
        # An item that the release lacks is left out; a list of nothing else stays.
        ("0.10.2", "One of: a (`--moe-backend`), b (`--attention-backend`), or c (`--load-format`).", "One of: b (`VLLM_ATTENTION_BACKEND`), or c (`--load-format`)."),
        ("0.10.2", "One of: a (`--moe-backend`), or c (`--linear-backend`).", "One of: a (`--moe-backend`), or c (`--linear-backend`)."),
        ("0.22.0", "One of: a (`--moe-backend`), or c (`--linear-backend`).", "One of: a (`--moe-backend`), or c (`--linear-backend`)."),
    ],
)  # fmt: skip
def test_settings_have_the_names_of_the_release(version: str | None, text: str, words: str) -> None:
    assert in_words_of_release(text, of(version)) == words


@pytest.mark.parametrize(
    ("version", "text", "fits"),
    [
        ("0.22.0", "--attention-backend TRITON_ATTN", True),
        ("0.10.2", "--attention-backend TRITON_ATTN", False),
        ("0.22.0", "--max-num-seqs 4 and --moe-backend marlin", True),
        ("0.10.2", "--max-num-seqs 4 and --moe-backend marlin", False),
        (None, "--moe-backend marlin", True),
        ("0.10.2", "drop it: remove VLLM_ATTENTION_BACKEND", True),
        ("0.22.0", "take --attention-backend instead of VLLM_ATTENTION_BACKEND", True),
        ("0.10.2", "ask for --cpus-per-task", True),
    ],
)
def test_advice_fits_a_release_that_has_each_setting_it_names(
    version: str | None, text: str, fits: bool
) -> None:
    assert fits_release(text, of(version)) is fits


def test_what_v1_ignores_is_no_advice_for_it() -> None:
    text = "Use less: a smaller `--cpu-offload-gb`, a smaller `--swap-space`."
    assert in_words_of_release(text, Run(engine="V1")) == "Use less: a smaller `--cpu-offload-gb`."
    assert in_words_of_release(text, Run(engine="V0")) == text
    assert not fits_release("Lower `--swap-space`.", Run(engine="V1"))


def test_an_engine_that_prints_no_such_setting_is_of_a_release_before_the_flag() -> None:
    old = {"model": "org/m", "quantization": "awq", "seed": 0}
    assert not fits_release("Start once with `--enforce-eager`.", Run(engine_config=old))
    assert fits_release(
        "Start once with `--enforce-eager`.", Run(engine_config={**old, "enforce_eager": False})
    )
    assert fits_release("Start once with `--enforce-eager`.", Run(engine_config={"model": "org/m"}))


@for_each(("version", "fits"), [("0.4.2", False), ("0.5.3", True), (None, True)])
def test_advice_from_a_release_on_is_none_for_those_before_it(version: str | None, fits: bool) -> None:
    assert fits_release("For adapters of the hub (from 0.5.3 on) check the name.", of(version)) is fits


@pytest.mark.parametrize(
    ("version", "own"),
    [
        ("0.23.0", False),
        ("0.23.1+cu130", False),
        ("0.23.1rc1.dev12+gd08eebad1", False),
        ("0.23.1+cu130.d20260717", True),
        ("0.1.dev1+g1.dirty", True),
        (None, False),
    ],
)
def test_a_build_of_changed_sources_gets_newer_sources(version: str | None, own: bool) -> None:
    texts = {
        "Use a newer release: it may help.": "Build from newer sources: it may help.",
        "Else try a newer release.": "Else build from newer sources.",
        "try a newer release, or the last one that worked": "build from newer sources, or the last ones that worked",
    }
    assert [in_words_of_build(text, of(version)) for text in texts] == [*(texts.values() if own else texts)]


@pytest.mark.parametrize(("given", "asked"), [("max_num_seqs", False), ("own_cache", True)])
def test_whoever_made_an_option_of_a_builds_own_is_the_one_to_ask(given: str, asked: bool) -> None:
    run = of("0.1.dev1+g1.dirty")
    run.config[given] = Value(1, "explicit")
    run.config["another_own"] = Value(1, "default")
    text = in_words_of_build("Use a newer release.", run)
    assert text == (
        "Report it to whoever maintains this build: no release of vLLM has its option `--own-cache`."
        if asked
        else "Build from newer sources."
    )


@pytest.mark.parametrize(
    ("version", "leaves"), [("0.7.2+gaudi000", True), ("0.9.2", True), ("0.11.0", False)]
)
def test_a_platform_that_left_vllm_has_no_newer_release_of_it(version: str, leaves: bool) -> None:
    run = Run(version=Value(version, "reported"), platform="hpu")
    assert ("vllm-gaudi" in in_words_of_build("Use a newer release: it may help.", run)) is leaves


@for_each("version", ["0.4.2", "0.6.3", "0.8.5", "0.10.2", "0.16.0", "0.32.0"])
def test_a_setting_that_a_release_lacks_never_takes_half_of_parentheses_along(version: str) -> None:
    """Of a list in parentheses the ends stay: without one the sentence would break."""
    step = "If memory ran out: request more, or hold less in it (`--swap-space`, `--cpu-offload-gb`, the cache of inputs)."
    words = in_words_of_release(step, Run(version=Value(version, "reported")))
    assert words.count("(") == words.count(")") == 1
    assert (
        words.startswith("If memory ran out: request more, or hold less")
        or "request more, hold less" in words
    )


def of_model(file: str) -> str:
    """Return the report of an engine V0 whose profiling fails in a model's code."""
    frames = (
        '  File "/opt/vllm/worker/worker.py", line 229, in determine_num_available_blocks',
        "    self.model_runner.profile_run()",
        f'  File "/opt/vllm/model_executor/models/{file}", line 92, in forward',
        "    assert rows >= groups",
    )
    log = "\n".join(("Traceback (most recent call last):", *frames, "AssertionError"))
    return vllm_logdoctor.analyze(log.encode()).to_markdown()


def test_a_model_that_left_vllm_with_the_v0_engine_is_in_no_newer_release() -> None:
    assert "Use a newer release up to 0.10.2: later ones have neither the V0 engine nor this model." in of_model("mllama.py")  # fmt: skip
    assert "Use a newer release: this code may have changed." in of_model("llama.py")


def test_a_file_that_only_raises_is_still_in_a_release() -> None:
    table = message_table()
    newest = len(table.versions) - 1
    assert table.last_with("model_executor/models/llama.py") == newest
    assert table.versions[table.last_with("model_executor/models/mllama.py") or 0] == "0.10.2"
    assert table.last_with("model_executor/models/no_such.py") is None
