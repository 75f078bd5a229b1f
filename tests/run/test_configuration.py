"""What the log states of a setting, from several sources, becomes one value with its origin."""

from __future__ import annotations

from typing import Any

from tests.tables import for_each
from vllm_logdoctor.run.configuration import (
    ConfigSources,
    effective_configuration,
    evidence_at,
    plain_value,
)
from vllm_logdoctor.run.model import Evidence, Run, Value

ARGUMENTS, ENGINE, LATER = (Evidence("vllm.log", line, f"line {line}") for line in (1, 2, 3))


def stated(arguments: dict[str, Any], engine: dict[str, Any], **more: Any) -> ConfigSources:
    return ConfigSources(
        arguments=arguments,
        arguments_evidence=(ARGUMENTS,),
        engine=engine,
        engine_evidence=(ENGINE,),
        **more,
    )


def merged(sources: ConfigSources, *fields: str, **defaults: Any) -> dict[str, tuple[Any, str, list[int]]]:
    found = effective_configuration(
        sources, lambda name: (defaults[name], "release") if name in defaults else None, fields
    )
    return {
        name: (value.value, value.provenance, [one.line for one in value.evidence])
        for name, value in found.items()
    }


@for_each(
    ("arguments", "engine", "value"),
    [
        ({"dtype": "half"}, {"dtype": "torch.float16"}, ("float16", "explicit", [1, 2])),
        ({"dtype": "half"}, {"dtype": "torch.bfloat16"}, ("bfloat16", "adjusted", [1, 2])),
        ({"dtype": "auto"}, {"dtype": "torch.bfloat16"}, ("bfloat16", "reported", [2])),
        ({}, {"dtype": "torch.bfloat16"}, ("bfloat16", "reported", [2])),
        ({"dtype": "half"}, {}, ("half", "explicit", [1])),
    ],
)
def test_the_engine_has_the_last_word_on_what_was_asked_for(
    arguments: dict[str, Any], engine: dict[str, Any], value: tuple[Any, str, list[int]]
) -> None:
    assert merged(stated(arguments, engine)) == {"dtype": value}


@for_each(
    ("given", "origin"),
    [
        # A count of 0 in an object that is printed whole is one that vLLM fills in, a switch that is off is none.
        ({"sizes": None, "warmups": 0, "mode": 3}, ("explicit", None)),
        ({"fuse": False, "mode": 3}, ("adjusted", "arguments: {'fuse': False}")),
    ],
)
def test_of_an_object_only_the_keys_that_the_engine_has_otherwise_are_named(
    given: dict[str, Any], origin: tuple[str, str | None]
) -> None:
    engine = {"sizes": [1, 2], "warmups": 1, "mode": 3, "fuse": True}
    found = effective_configuration(
        stated({"kernel_config": given}, {"kernel_config": engine}), lambda _: None, ()
    )["kernel_config"]
    assert (found.provenance, found.note or None) == origin


def test_an_engine_core_that_runs_alone_does_not_hide_how_many_there_are() -> None:
    assert merged(stated({"data_parallel_size": 4}, {"data_parallel_size": 1})) == {
        "data_parallel_size": (4, "explicit", [1])
    }
    assert merged(stated({"data_parallel_size": 1}, {"data_parallel_size": 2})) == {
        "data_parallel_size": (2, "adjusted", [1, 2])
    }


def test_the_first_of_several_names_confirms_them_all() -> None:
    names = {"served_model_name": ["a", "b"]}
    assert merged(stated(names, {"served_model_name": "a"}))["served_model_name"] == (["a", "b"], "explicit", [1, 2])  # fmt: skip
    assert merged(stated(names, {"served_model_name": "b"}))["served_model_name"][1] == "adjusted"


@for_each(
    ("arguments", "engine", "value"),
    [
        ({"max_num_seqs": 8}, {}, (16, "adjusted", [1, 3])),
        ({"max_num_seqs": 16}, {}, (16, "explicit", [1])),
        ({}, {}, (16, "adjusted", [3])),
        ({"max_num_seqs": 8}, {"max_num_seqs": 8}, (8, "explicit", [1, 2])),
    ],
)
def test_a_later_line_changes_what_the_engine_does_not_print(
    arguments: dict[str, Any], engine: dict[str, Any], value: tuple[Any, str, list[int]]
) -> None:
    adjusted = {"max_num_seqs": Value(16, "adjusted", (LATER,))}
    assert merged(stated(arguments, engine, adjusted=adjusted)) == {"max_num_seqs": value}


def test_defaults_fill_what_nobody_names_and_a_command_makes_them_chosen() -> None:
    sources = stated({"seed": 7}, {}, command={"block_size": 16})
    found = merged(sources, "seed", "block_size", "dtype", "swap_space", seed=0, block_size=16, dtype="auto")
    assert found == {
        "seed": (7, "explicit", [1]),
        "block_size": (16, "explicit", []),
        "dtype": ("auto", "default", []),
    }


def test_what_another_line_mentions_counts_only_where_nothing_else_names_it() -> None:
    mentioned = {"max_model_len": Value(4000, "reported", (LATER,))}
    assert merged(stated({}, {}, mentioned=mentioned))["max_model_len"] == (4000, "reported", [3])
    assert merged(stated({"max_model_len": 4096}, {}, mentioned=mentioned))["max_model_len"][0] == 4096


@for_each(
    ("printed", "plain"),
    [
        ("torch.bfloat16", "bfloat16"),
        ("LoadFormat.AUTO", "auto"),
        ("org/Model.V1", "org/Model.V1"),
        ("model.bin", "model.bin"),
        ("Qwen.Chat", "Qwen.Chat"),
        (".AUTO", ".AUTO"),
        (16, 16),
    ],
)
def test_a_value_is_shown_without_the_class_that_prints_it(printed: Any, plain: Any) -> None:
    assert plain_value(printed) == plain


def test_evidence_of_an_overlong_line_is_its_head_and_the_part_with_the_setting() -> None:
    text = f"args: {'x' * 400} config.seed=1 {'y' * 400}, seed=9 {'z' * 400}"
    shown = Evidence("vllm.log", 5, text[:300])
    (part,) = evidence_at((shown,), text, "seed")
    assert (part.line, part.text.startswith(text[:100])) == (5, True)
    assert "seed=9" in part.text
    assert "config.seed" not in part.text
    assert len(part.text) < 500
    assert evidence_at((shown,), text, "absent") == (shown,)
    assert evidence_at((shown,), text[:300], "seed") == (shown,)


@for_each(
    ("compiled", "tokens"),
    [
        ({"compile_ranges_endpoints": [32, 8192]}, 8192),
        ({"compile_ranges_split_points": [2048]}, 2048),
        ({"compile_ranges_endpoints": []}, None),
        ({}, None),
        ("{'level': 3}", None),
    ],
)
def test_the_tokens_of_a_step_are_the_last_end_of_the_compiled_ranges(
    compiled: Any, tokens: int | None
) -> None:
    found = merged(stated({}, {"compilation_config": compiled}))
    assert found.get("max_num_batched_tokens") == ((tokens, "reported", [2]) if tokens else None)
    asked = merged(stated({"max_num_batched_tokens": 512}, {"compilation_config": compiled}))
    assert asked["max_num_batched_tokens"][0] == 512


def test_what_the_platform_forces_holds_against_what_the_engine_printed() -> None:
    forced = {"dtype": Value("float32", "reported", (LATER,))}
    printed = {"dtype": "torch.float16"}
    assert merged(stated({}, printed, forced=forced)) == {"dtype": ("float32", "reported", [3])}
    given = merged(stated({"dtype": "half"}, printed, forced=forced))
    assert given == {"dtype": ("float32", "adjusted", [1, 2, 3])}


@for_each(
    ("asked", "printed", "confirmed"),
    [
        ({"method": "ngram", "num_speculative_tokens": 3}, {"method": "ngram", "num_spec_tokens": 3}, True),
        ({"method": "ngram", "num_speculative_tokens": 3}, {"method": "ngram", "num_spec_tokens": 4}, False),
        # What the engine does not print, and what was left to it, is not denied by it.
        ({"method": "ngram", "quantization": "fp8"}, {"method": "ngram"}, True),
        ({"method": "auto", "model": None}, {"method": "ngram", "model": "org/draft"}, True),
        ({"method": "ngram", "model": ""}, {"method": "mtp", "model": "org/draft"}, False),
        (["8"], 8, True),
        (["8", "9"], 8, False),
        ("HALF", "torch.float16", True),
        ("float", "torch.float32", True),
        ("AUTO", "Format.AUTO", True),
    ],
)
def test_what_the_engine_prints_confirms_what_was_asked_for_in_other_words(
    asked: Any, printed: Any, confirmed: bool
) -> None:
    found = merged(stated({"speculative_config": asked}, {"speculative_config": printed}))
    assert (found["speculative_config"][1] == "explicit") is confirmed


def test_the_part_with_the_setting_begins_and_ends_between_settings() -> None:
    text = f"args: {'x' * 400}, 'seed': 9, {'model=some/name, ' * 40}"
    (named,) = evidence_at((Evidence("vllm.log", 5, text[:300]),), text, "seed")
    part = named.text.partition(" ... ")[2]
    assert part.startswith("'seed': 9, ")
    assert part.endswith("model=some/name, ...")


def test_a_damaged_data_parallel_size_is_one_engine() -> None:
    """Bytes that are written over a line leave any text behind `data_parallel_size=`."""
    damaged = Run(config={"data_parallel_size": Value("1q", "reported")})
    assert not damaged.may_have_several_engines
    assert Run(config={"data_parallel_size": Value(2, "reported")}).may_have_several_engines
