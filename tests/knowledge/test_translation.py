"""Advice is valid for the version in the log: translation never names what that version does not have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_logdoctor.knowledge.flags import Flag, flag_exists
from vllm_logdoctor.knowledge.history import names
from vllm_logdoctor.knowledge.translation import (
    Kept,
    NotYet,
    Removed,
    Renamed,
    UnknownKnob,
    translate_flag,
    translate_variable,
)
from vllm_logdoctor.knowledge.variables import variable_known
from vllm_logdoctor.knowledge.versions import known_versions

_VERSIONS = st.sampled_from([str(version) for version in known_versions()])
_FLAGS = st.sampled_from(sorted(names("flags")))
_VARIABLES = st.sampled_from(sorted(names("variables")))


def _exists(renamed: Renamed, version: str) -> bool | None:
    known = flag_exists if renamed.kind == "flag" else variable_known
    return known(renamed.to, version)


@given(_FLAGS, _VERSIONS)
def test_a_translated_flag_exists_in_that_version(flag: str, version: str) -> None:
    answer = translate_flag(flag, version)
    if isinstance(answer, Flag):
        assert flag_exists(answer.name, version)
    elif isinstance(answer, Renamed):
        assert _exists(answer, version)
    else:
        assert flag_exists(flag, version) is False


@given(_VARIABLES, _VERSIONS)
def test_a_translated_variable_exists_in_that_version(name: str, version: str) -> None:
    answer = translate_variable(name, version)
    if isinstance(answer, Kept):
        assert variable_known(answer.name, version)
    elif isinstance(answer, Renamed):
        assert _exists(answer, version)
    else:
        assert variable_known(name, version) is False


@pytest.mark.parametrize(
    ("flag", "version", "to", "key", "value"),
    [
        ("--cuda-graph-sizes", "0.16.0", "--cudagraph-capture-sizes", None, None),
        ("--cudagraph-capture-sizes", "0.10.2", "--cuda-graph-sizes", None, None),
        ("--cudagraph-capture-sizes", "0.8.5", "--compilation-config", "cudagraph_capture_sizes", None),
        ("--speculative-model", "0.11.2", "--speculative-config", "model", None),
        ("--guided-decoding-backend", "0.12.0", "--structured-outputs-config", "backend", None),
        ("--worker-use-ray", "0.9.0", "--distributed-executor-backend", None, "ray"),
        ("--attention-backend", "0.11.2", "VLLM_ATTENTION_BACKEND", None, None),
        ("--rope-scaling", "0.12.0", "--hf-overrides", "rope_scaling", None),
        ("--task", "0.13.0", "--runner", None, None),
    ],
)
def test_renamed_flags(flag: str, version: str, to: str, key: str | None, value: str | None) -> None:
    answer = translate_flag(flag, version)
    assert isinstance(answer, Renamed)
    assert (answer.to, answer.key, answer.value) == (to, key, value)


def test_a_key_that_the_release_dropped_is_no_translation() -> None:
    # structured outputs kept disable_fallback until 0.17.1 only
    assert isinstance(translate_flag("--guided-decoding-disable-fallback", "0.17.1"), Renamed)
    assert isinstance(translate_flag("--guided-decoding-disable-fallback", "0.18.0"), Removed)


def test_opposite_meaning_is_said() -> None:
    answer = translate_flag("--disable-log-requests", "0.20.0")
    assert isinstance(answer, Renamed)
    assert answer.to == "--enable-log-requests"
    assert answer.inverted


def test_removed_flags_say_since_when_and_why() -> None:
    answer = translate_flag("--swap-space", "0.20.0")
    assert isinstance(answer, Removed)
    assert answer.since == "0.18.0"
    assert "V1" in answer.note


def test_a_later_flag_is_not_yet_there() -> None:
    assert translate_flag("--performance-mode", "0.11.2") == NotYet("--performance-mode", "0.17.0")


def test_short_and_negative_forms_are_translated_too() -> None:
    assert isinstance(translate_flag("-cc", "0.11.0"), Flag)
    assert translate_flag("--no-async-scheduling", "0.9.2") == NotYet("--async-scheduling", "0.10.0")


def test_what_never_was_is_unknown() -> None:
    assert translate_flag("--disable-cuda-graph", "0.11.2") == UnknownKnob("--disable-cuda-graph")
    assert translate_variable("VLLM_FOO", "0.11.2") == UnknownKnob("VLLM_FOO")
    assert translate_flag("--model", None) == UnknownKnob("--model")


@pytest.mark.parametrize(
    ("name", "version", "to"),
    [
        ("VLLM_ATTENTION_BACKEND", "0.15.0", "--attention-backend"),
        ("VLLM_TORCH_PROFILER_DIR", "0.16.0", "--profiler-config"),
        ("VLLM_ALL2ALL_BACKEND", "0.16.0", "--all2all-backend"),
        ("VLLM_USE_FLASHINFER_MOE_FP4", "0.24.0", "--moe-backend"),
    ],
)
def test_variables_that_became_flags(name: str, version: str, to: str) -> None:
    answer = translate_variable(name, version)
    assert isinstance(answer, Renamed)
    assert answer.to == to
