"""An error in vLLM's own code: where it was raised, what led there, and whose build it is."""

import pytest

from tests.failure.judging import diagnosis, root
from tests.failure.records import framed
from tests.failure.test_naming import CAPTURE, LOAD, PROFILE, Place, at_start, while_serving
from vllm_logdoctor.run.owners import framework_of

SCHEDULER = "v1/core/sched/scheduler.py"


def steps(text: str) -> str:
    found = root(text)
    return " ".join([*(one.knob for one in found.changes), *found.alternatives])


def test_the_sentence_names_caller_and_phase_and_leaves_the_place_to_the_title():
    caller = Place("vllm/v1/engine/core.py", "step")
    found = root(while_serving("IndexError: x", caller, Place(f"vllm/{SCHEDULER}", "schedule")))
    assert found.title == "IndexError in scheduler.py, schedule"
    assert found.explanation.endswith(
        "No known cause matches this error. Called from core.py, step, after start-up."
    )


def test_a_long_sentence_keeps_its_end():
    caller = Place(
        "vllm/v1/worker/gpu_model_runner.py", "a_function_whose_name_fills_half_of_a_line_by_itself_alone"
    )
    place = Place("vllm/v1/worker/gpu_input_batch.py", "another_function_whose_name_fills_half_of_a_line")
    assert "after start-up." in root(while_serving("IndexError: x", caller, place)).explanation


@pytest.mark.parametrize(
    ("places", "ends", "words"),
    [
        ([Place("vllm/v1/spec_decode/eagle.py", "prepare"), Place("vllm/v1/worker/gpu_input_batch.py", "get_token")], "IndexError: x", "--speculative-config"),
        ([Place("vllm/lora/layers.py", "apply"), Place("vllm/lora/punica.py", "add")], "IndexError: x", "--enable-lora"),
        ([Place("vllm/executor/ray_utils.py", "execute_model_spmd"), Place("vllm/worker/worker.py", "cached")], "AssertionError", "VLLM_USE_RAY_SPMD_WORKER"),
    ],
)  # fmt: skip
def test_a_feature_whose_code_led_to_the_error_is_left_out_first(places, ends, words):
    found = root(while_serving(ends, *places, version="0.9.0"))
    ways = [*(one.knob for one in found.changes), *found.alternatives]
    assert words in ways[0]
    assert not any("Restart" in way for way in ways)


def test_an_error_while_graphs_are_captured_has_a_way_without_them():
    assert "--enforce-eager" in steps(at_start("KeyError: 'masks'", CAPTURE, Place("vllm/model_executor/models/gemma3.py", "forward")))  # fmt: skip


def test_a_check_of_a_model_in_memory_profiling_says_not_in_which_direction_sizes_help():
    # Fewer sequences make the dummy prompts longer: max_num_batched_tokens is divided among them.
    model = Place("vllm/model_executor/models/some.py", "forward", "assert length >= last")
    assert "--max-num-seqs" not in steps(at_start("AssertionError", PROFILE, model))


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("home/me/vllm-mixed/vllm/" + SCHEDULER, "source tree `/opt/home/me/vllm-mixed`"),
        ("lib/python3.12/site-packages/vllm/" + SCHEDULER, "newer release"),
    ],
)
def test_the_path_of_the_code_tells_a_source_tree_from_an_installed_release(file, words):
    assert words in steps(while_serving("IndexError: x", Place(file, "schedule")))


def test_a_plugin_on_the_way_is_to_fit_the_release():
    plugin = Place("lib/site-packages/vllm_ascend/worker/worker.py", "execute_model")
    text = steps(
        while_serving("IndexError: x", plugin, Place(f"lib/site-packages/vllm/{SCHEDULER}", "schedule"))
    )
    assert "documentation of vllm-ascend" in text
    assert "newer release" not in text


def test_the_v0_engine_is_gone_from_later_releases():
    text = steps(while_serving("IndexError: x", Place("site-packages/vllm/worker/model_runner.py", "build"), version="0.6.1"))  # fmt: skip
    assert "0.11.0 or newer" in text


def test_the_v0_engine_is_a_way_while_a_release_has_both():
    place = Place(f"site-packages/vllm/{SCHEDULER}", "schedule")
    assert "VLLM_USE_V1=0" in steps(while_serving("IndexError: x", place, version="0.8.1"))
    assert "VLLM_USE_V1" not in steps(while_serving("IndexError: x", place, version="0.11.0"))


def test_the_model_of_a_title_is_the_one_that_was_loaded():
    outer = Place("vllm/model_executor/models/gemma3_mm.py", "forward")
    inner = Place("vllm/model_executor/models/gemma3.py", "forward")
    assert "(model gemma3_mm)" in root(at_start("KeyError: 'masks'", CAPTURE, outer, inner)).title


def test_a_file_that_every_package_has_is_named_with_its_folder():
    package = Place("vllm/v1/structured_output/__init__.py", "grammar_init")
    library = Place("env/site-packages/xgrammar/compiler.py", "compile")
    found = root(at_start("AttributeError: 'Mine' object has no attribute 'vocab'", package, library))
    assert "called from structured_output/__init__.py, grammar_init of vLLM" in found.explanation


@pytest.mark.parametrize(
    ("ends", "compares"),
    [
        ("TypeError: f() got an unexpected keyword argument 'x'", True),
        ("RuntimeError: bias is not aligned", False),
    ],
)
def test_a_library_that_refuses_a_value_is_no_other_release_of_it(ends, compares):
    library = Place("env/site-packages/xformers/ops/cutlass.py", "apply")
    text = steps(while_serving(ends, Place("vllm/attention/backends/xformers.py", "forward"), library))
    assert ("pip show xformers" in text) is compares


def test_a_frameworks_own_check_is_no_defect_of_the_program():
    assert framework_of("/src/trainer/third_party/vllm/v1/loaders.py") == "trainer"
    lines = [
        "Traceback (most recent call last):",
        '  File "/src/verl/third_party/vllm/loaders.py", line 9, in find_loader',
        '    raise ValueError("no loader for architecture X")',
        "ValueError: no loader for architecture X",
    ]
    found = root("\n".join(lines))
    assert "release of verl" in " ".join(found.alternatives)
    assert "Correct the program" not in " ".join(found.alternatives)


def test_loading_is_not_serving():
    assert "Restart" not in steps(at_start("IndexError: x", LOAD, Place("vllm/model_executor/models/x.py", "load_weights")))  # fmt: skip


def test_v1_is_left_where_it_had_to_be_asked_for():
    place = Place("site-packages/vllm/multimodal/registry.py", "call")
    library = Place("site-packages/transformers/processing.py", "__call__")
    ends = "TypeError: object of type 'NoneType' has no len()"
    own = Place("site-packages/vllm/v1/worker/gpu_model_runner.py", "profile_run")
    assert "without `VLLM_USE_V1`" in steps(at_start(ends, PROFILE, own, library, version="0.6.6"))
    # Both engines share the code of models and their inputs.
    assert "VLLM_USE_V1" not in steps(at_start(ends, PROFILE, place, library, version="0.6.6"))
    assert "VLLM_USE_V1" not in steps(at_start(ends, PROFILE, place, library, version="0.8.1"))


def test_a_tool_parser_that_a_library_refuses_did_not_raise_the_error_itself():
    lines = [
        "Error in extracting tool call from response.",
        "Traceback (most recent call last):",
        '  File "/opt/lib/site-packages/vllm/entrypoints/openai/tool_parsers/hermes_tool_parser.py", line 87, in extract_tool_calls',
        "    json.loads(text)",
        '  File "/usr/lib/python3.12/json/decoder.py", line 355, in raw_decode',
        '    raise JSONDecodeError("Expecting value", s, err.value) from None',
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
    ]
    found = diagnosis("\n".join(framed("", lines, "hermes_tool_parser.py:108"))).findings
    words = "Raised by Python's standard library, called from hermes_tool_parser.py, extract_tool_calls."
    assert any(words in one.explanation for one in found)


def test_code_of_a_modified_vllm_is_not_called_vllms():
    printed = (
        "INFO 05-01 09:59:02 [utils.py:233] non-default args: {'model': 'org/m', 'enable_own_cache': True}"
    )
    place = Place("vllm/v1/own_cache.py", "check", 'raise RuntimeError("too little left")')
    head, *rest = at_start(
        "RuntimeError: too little left", PROFILE, place, version="0.1.dev9+g0123abc"
    ).split("\n")
    found = root("\n".join([head, printed, *rest]))
    assert "own_cache.py, check (a modified vLLM)" in found.explanation


@pytest.mark.parametrize(
    ("folder", "command"),
    [
        ("home/me/vllm/vllm", "pip install -e /opt/home/me/vllm"),
        ("lib/site-packages/vllm", "pip install --force-reinstall"),
    ],
)
def test_a_source_tree_is_built_again_not_installed(folder: str, command: str) -> None:
    place = Place(f"{folder}/_custom_ops.py", "rms_norm", "torch.ops._C.rms_norm(out)")
    ends = "AttributeError: '_OpNamespace' '_C' object has no attribute 'rms_norm'"
    found = root(at_start(ends, PROFILE, place))
    assert command in " ".join(str(one.after) for one in found.changes)


OWN_WAY = """\
INFO 05-01 10:00:01 [rocm.py:496] Using ROCM_ATTN backend out of potential backends: ['ROCM_ATTN'].
[rank0]: Traceback (most recent call last):
[rank0]:   File "{program}", line 65, in safe_mix
[rank0]:     original_mix(*args)
[rank0]:   File "/opt/site-packages/torch/_ops.py", line 1209, in __call__
[rank0]:     return self._op(*args, **kwargs)
[rank0]: NotImplementedError: Could not run 'vllm::mix' with arguments from the 'CUDA' backend. 'vllm::mix' is only available for: [CPU].

[rank0]: During handling of the above exception, another exception occurred:

[rank0]: Traceback (most recent call last):
[rank0]:   File "/opt/site-packages/vllm/v1/worker/gpu_model_runner.py", line 5782, in profile_run
[rank0]:     hidden_states = self._dummy_run(
[rank0]:   File "{program}", line 67, in safe_mix
[rank0]:     own_mix(*args)
[rank0]:   File "{program}", line 42, in own_mix
[rank0]:     torch.bmm(a, b)
[rank0]: RuntimeError: Expected size for first two dimensions of batch2 tensor to be: [64, 8] but got: [64, 32].

[rank0]: During handling of the above exception, another exception occurred:

[rank0]: Traceback (most recent call last):
[rank0]:   File "/opt/site-packages/trainer_kit/start.py", line 53, in load
[rank0]:     raise RuntimeError(error)
[rank0]: RuntimeError: Expected size for first two dimensions of batch2 tensor to be: [64, 8] but got: [64, 32]."""


def test_code_of_the_program_that_took_over_after_an_error_and_failed_is_the_root() -> None:
    found = root(OWN_WAY.format(program="/home/me/train.py"))
    assert found.title == "RuntimeError in the program's own code"
    assert "own_mix" in found.explanation
    assert "another error before it: NotImplementedError: Could not run 'vllm::mix'" in found.explanation
    assert any("train.py:42" in step for step in found.alternatives)
    assert any("NotImplementedError" in one.text for one in found.evidence)


def test_an_error_that_an_installed_library_could_not_handle_stays_the_root() -> None:
    found = root(OWN_WAY.format(program="/opt/site-packages/other_kit/mixes.py"))
    assert found.id == "kernel-backend-unsupported-on-arch"


def test_the_way_out_for_an_operator_without_kernel_names_the_platform_of_the_log() -> None:
    log = OWN_WAY.format(program="/opt/site-packages/other_kit/mixes.py")
    found = root(log)
    assert any("builds for ROCm" in step for step in found.alternatives)
    assert not any("CUDA" in step for step in found.alternatives)


def test_an_operator_that_python_registers_needs_no_other_build() -> None:
    listed = "[rank0]: CPU: registered at /opt/site-packages/vllm/utils/torch_utils.py:90 [kernel]\n"
    before, during, after = OWN_WAY.format(program="/opt/site-packages/other_kit/mixes.py").partition(
        "[rank0]: During"
    )
    found = root(before + listed + during + after)
    assert "Here that was the CPU" in found.explanation
    assert any("current_platform" in step for step in found.alternatives)
    assert not any("build" in step for step in found.alternatives)
