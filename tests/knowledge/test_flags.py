"""Flags: when they existed, their defaults and forms."""

import pytest

from vllm_logdoctor.knowledge.flags import (
    flag_at,
    flag_default,
    flag_exists,
    flag_for_field,
    flag_history,
    flag_spans,
    flags_of,
)


@pytest.mark.parametrize(
    ("flag", "last_with", "first_without"),
    [
        ("--swap-space", "0.17.1", "0.18.0"),
        ("--num-scheduler-steps", "0.10.0", "0.10.1"),
        ("--guided-decoding-backend", "0.10.2", "0.11.0"),
        ("--cuda-graph-sizes", "0.12.0", "0.13.0"),
        ("--speculative-model", "0.8.2", "0.8.3"),
        ("--worker-use-ray", "0.6.6.post1", "0.7.0"),
        ("--disable-log-requests", "0.16.0", "0.17.0"),
    ],
)
def test_removed_flags_end_where_they_ended(flag: str, last_with: str, first_without: str) -> None:
    assert flag_exists(flag, last_with) is True
    assert flag_exists(flag, first_without) is False


@pytest.mark.parametrize(
    ("flag", "version", "default"),
    [
        ("--gpu-memory-utilization", "0.19.1", 0.9),
        ("--gpu-memory-utilization", "0.20.0", 0.92),
        ("--max-num-seqs", "0.6.4", 256),
        ("--max-num-seqs", "0.8.5", None),
        ("--tensor-parallel-size", "0.33.0", 1),
        ("--async-scheduling", "0.13.0", False),
        ("--async-scheduling", "0.14.0", None),
    ],
)
def test_defaults_are_those_of_the_release(flag: str, version: str, default: object) -> None:
    assert flag_default(flag, version) == default


def test_a_flag_that_never_was_exists_nowhere() -> None:
    assert flag_exists("--disable-cuda-graph", "0.11.2") is False
    assert flag_history("--disable-cuda-graph") == ()
    assert flag_spans("--disable-cuda-graph") == ()


def test_without_a_version_nothing_is_said() -> None:
    assert flag_exists("--model", None) is None
    assert flags_of("0.1.dev7+gabc") == {}


@pytest.mark.parametrize(
    ("written", "version", "name"),
    [
        ("-tp", "0.5.0", "--tensor-parallel-size"),
        ("-q", "0.11.2", "--quantization"),
        ("-O3", "0.11.0", "--compilation-config"),
        ("-O3", "0.12.0", "--optimization-level"),
        ("-O.level=3", "0.11.0", "--compilation-config"),
        ("-cc", "0.12.0", "--compilation-config"),
        ("--no-enable-prefix-caching", "0.11.2", "--enable-prefix-caching"),
        ("--max_num_seqs", "0.11.2", "--max-num-seqs"),
        ("--speculative-config.method", "0.11.2", "--speculative-config"),
    ],
)
def test_other_ways_of_writing_lead_to_the_flag(written: str, version: str, name: str) -> None:
    found = flag_at(written, version)
    assert found is not None
    assert found.name == name


def test_a_negative_form_needs_a_flag_that_has_one() -> None:
    assert flag_at("--no-enable-prefix-caching", "0.6.4") is None
    assert flag_at("--no-max-num-seqs", "0.11.2") is None


@pytest.mark.parametrize(
    ("field", "version", "value", "words"),
    [
        ("max_num_seqs", "0.11.2", 64, ("--max-num-seqs", "64")),
        ("enable_prefix_caching", "0.11.2", True, ("--enable-prefix-caching",)),
        ("enable_prefix_caching", "0.11.2", False, ("--no-enable-prefix-caching",)),
        ("enable_prefix_caching", "0.6.0", False, ()),
        ("enable_chunked_prefill", "0.8.0", False, ("--enable-chunked-prefill", "false")),
        ("cudagraph_capture_sizes", "0.12.0", [1, 2, 4], ("--cudagraph-capture-sizes", "1", "2", "4")),
        (
            "speculative_config",
            "0.11.2",
            {"method": "ngram"},
            ("--speculative-config", '{"method": "ngram"}'),
        ),
    ],
)
def test_a_value_becomes_words_of_a_command_line(
    field: str, version: str, value: object, words: tuple[str, ...]
) -> None:
    flag = flag_for_field(field, version)
    assert flag is not None
    assert flag.arguments(value) == words


def test_a_field_without_a_flag_in_that_release_has_none() -> None:
    assert flag_for_field("attention_backend", "0.12.0") is None
    assert flag_for_field("swap_space", "0.18.0") is None
