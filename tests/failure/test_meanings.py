"""What a failure means: words and places that tell one kind from another."""

import pytest

from tests.failure.judging import crashed, failures, root
from tests.failure.records import framed, traceback


def test_names_and_shapes_of_weights_are_told_apart():
    def load(ends):
        lines = traceback(("load_weights", "param = params[name]"), ends=ends)
        return root(
            "\n".join(framed("EngineCore_DP0 pid=9", ["EngineCore failed to start.", *lines], "core.py:708"))
        ).explanation

    assert load("KeyError: 'model.layers.3.mlp.gate.weight'").startswith(
        "The checkpoint has a weight under a name"
    )
    assert load(
        "AssertionError: Attempted to load weight (torch.Size([8, 3])) into parameter (torch.Size([8, 4]))"
    ).startswith("The shape of a weight")


def test_an_attention_library_without_code_for_the_card_is_not_blamed_on_torch():
    lines = [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/worker/model_runner.py", line 279, in execute_model',
        "    out = attend(q)",
        '  File "/opt/lib/python3.11/site-packages/xformers/ops/fmha/__init__.py", line 310, in attend',
        "    return op(q)",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
    ]
    assert root("\n".join(lines)).explanation.startswith("xFormers holds")
    plain = crashed("RuntimeError: CUDA error: no kernel image is available for execution on the device")
    assert "torch or vLLM" in plain.explanation


@pytest.mark.parametrize("parameter", ["g_idx", "weight_scale", "qweight", "weight_zero_point"])
def test_a_parameter_of_a_quantization_is_told_from_the_name_of_a_weight(parameter):
    def missing(name):
        block = traceback(
            ("load_weights", "param = params_dict[name]"), ends=f"KeyError: 'layers.0.mlp.down_proj.{name}'"
        )
        return root("\n".join(framed("EngineCore_DP0 pid=9", block)))

    assert missing(parameter).title.startswith("Quantized checkpoint")
    assert missing("weight").title == "Checkpoint weights do not match the model class"


@pytest.mark.parametrize("parameter", ["weight.absmax", "g_idx", "qweight", "weight_packed"])
def test_a_tensor_without_a_parameter_says_nothing_of_how_the_layer_was_built(parameter):
    found = root(
        "\n".join(
            framed(
                "EngineCore_DP0 pid=9",
                traceback(
                    ("load_weights", "param = params_dict[name]"),
                    ends=f"KeyError: 'layers.0.mlp.down_proj.{parameter}'",
                ),
            )
        )
    )
    assert "has no parameter" in found.explanation
    assert "without quantization" not in found.explanation


@pytest.mark.parametrize(
    ("executor", "operator", "title"),
    [
        ("cpu_executor", "ggml_dequantize", "GGUF weights not supported on the CPU backend"),
        ("cpu_executor", "gptq_gemm", "Quantization method not supported on this platform"),
    ],
)
def test_kernels_that_a_device_lacks_are_named_and_the_unquantized_model_is_first(executor, operator, title):
    block = traceback(
        (f"executor/{executor}", "output = self.run(step)"),
        ends=f"AttributeError: '_OpNamespace' '_C' object has no attribute '{operator}'",
    )
    found = root("\n".join(block))
    assert found.title == title
    assert found.alternatives[0].startswith("Serve the unquantized model")


def test_the_reason_of_a_refused_configuration_is_quoted_without_what_pydantic_adds():
    lines = [
        "(APIServer pid=7) Traceback (most recent call last):",
        '(APIServer pid=7)   File "/opt/vllm/engine/arg_utils.py", line 2436, in create_engine_config',
        "(APIServer pid=7)     config = VllmConfig(",
        "(APIServer pid=7) pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig",
        "(APIServer pid=7)   Value error, This scheduler handles 1 through 4 sequences [type=value_error, input_value=ArgsKwargs((), {}), input_type=ArgsKwargs]",
    ]
    found = root("\n".join(lines))
    assert found.id == "settings-refused"
    assert "1 through 4" in found.explanation
    assert "input_value" not in found.explanation


def test_a_class_of_remote_code_that_can_not_be_pickled_is_one():
    name = "transformers_modules.tiny.configuration_tiny.TinyConfig"
    found = crashed(
        f"_pickle.PicklingError: Can't pickle <class '{name}'>: it's not the same object as {name}"
    )
    assert found.id == "remote-code-module-not-importable-in-worker"
    assert "tiny.configuration_tiny.TinyConfig" in found.explanation


def test_a_check_of_types_in_the_attention_layer_is_no_refusal_of_a_backend():
    block = traceback(
        ("attention/layer", "assert isinstance(slot_mapping, dict), ("),
        ends="AssertionError: Expected slot_mapping to be a dict, got <class 'list'>.",
    )
    assert root("\n".join(framed("Worker_TP0 pid=9", block))).id != "attention-backend-incompatible"


def test_an_attribute_that_another_package_misses_in_vllm_is_a_difference_of_releases():
    lines = [
        "Traceback (most recent call last):",
        '  File "/opt/lib/python3.11/site-packages/tuner/engine_utils.py", line 400, in weights_of',
        "    inner = llm_engine.model_executor.driver_worker",
        "AttributeError: 'LLMEngine' object has no attribute 'model_executor'",
    ]
    found = root("\n".join(lines))
    assert "another vLLM release" in found.title
    assert "`model_executor`" in found.explanation


def test_figures_that_happen_to_hold_an_exit_code_name_no_signal():
    lines = [
        "INFO 05-01 10:00:20 [pynccl.py:69] vLLM is using nccl==2.21.5",
        "(Worker pid=3) *** SIGABRT received at time=1743139179 on cpu 139 ***",
        "(Worker pid=3) Fatal Python error: Aborted",
    ]
    assert root("\n".join(lines)).title == "Worker crashed in native code (abort)"


def test_an_exception_that_a_client_quotes_in_its_log_broke_no_server():
    quoted = """token_file_failed model='m' error=AttributeError("'PreTrainedConfig' object has no attribute 'hidden_size'")"""
    lines = ["INFO 05-01 10:00:20 [config.py:775] Using max model len 4096", quoted, "server: Killed"]
    assert all("lacks an attribute" not in one.title for one in failures("\n".join(lines)))


def _missing(module: str, importer: str = "vllm/platforms/here.py"):
    frame = f'  File "/opt/lib/python3.12/site-packages/{importer}", line 7, in <module>'
    ends = f"ModuleNotFoundError: No module named '{module}'"
    return root("\n".join(["Traceback (most recent call last):", frame, f"    import {module}", ends]))


@pytest.mark.parametrize("module", ["outlines.fsm", "flashinfer.comm", "torch_npu.npu", "lmcache.v1"])
def test_a_part_of_a_package_that_python_finds_needs_another_release_and_no_first_installation(module):
    package, _, part = module.partition(".")
    found = _missing(module)
    assert f"Python finds `{package}`, and no module `{part}` in it" in found.explanation
    steps = [*(str(one.after) for one in found.changes), *found.alternatives]
    assert not any(f"pip install {package}" in step or step == package for step in steps)
    assert any("release of" in step or "versions" in step for step in steps)


@pytest.mark.parametrize("module", ["pyairports", "flashinfer", "torch_npu", "lmcache"])
def test_a_package_that_python_does_not_find_is_not_installed(module):
    found = _missing(module)
    assert "Python finds" not in found.explanation
    assert any(word in found.title for word in ("missing", "not installed"))


def test_a_part_of_a_name_that_many_packages_share_may_be_of_one_that_is_missing():
    assert "its package is missing, or is a release without it" in _missing("google.protobuf").explanation


def test_a_module_that_a_connector_or_a_plugin_misses_in_vllm_is_a_matter_of_releases():
    assert _missing("vllm.distributed.old", "lmcache/integration.py").id == "stale-or-partial-build"
    plugin = _missing("vllm.worker.old", "vllm_ascend/worker.py")
    assert "imports something that this vLLM does not have" in plugin.explanation
