"""Steps and words follow what the log decides: alternatives that it rules out are left out, and its own figures stand in for examples."""

from __future__ import annotations

import pytest

from tests.failure.judging import examples, root
from tests.failure.records import framed
from vllm_logdoctor import analyze

READY = [
    "(APIServer pid=1) INFO 05-01 09:59:01 [api_server.py:1300] vLLM API server version 0.11.0",
    "(APIServer pid=1) INFO:     Application startup complete.",
]


def _raised(ends: str, *files: str, head: str = "") -> str:
    """A traceback as a program prints it, through files with their functions: /a/b.py:run."""
    frames = []
    for number, place in enumerate(files, 10):
        file, _, function = place.rpartition(":")
        frames += [f'  File "{file}", line {number}, in {function}', "    step()"]
    return "\n".join([*filter(None, [head]), "Traceback (most recent call last):", *frames, ends])


def _serving(ends: str, *files: str) -> str:
    lines = _raised(ends, *files).split("\n")
    block = framed("EngineCore_DP0 pid=9", ["EngineCore encountered a fatal error.", *lines], "core.py:710")
    return "\n".join([*READY, *block])


STEP = ("/opt/vllm/v1/engine/core.py:run_busy_loop", "/opt/vllm/v1/worker/gpu_model_runner.py:execute_model")
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}. GPU 0 has a total capacity of 20.00 GiB of which 300.00 MiB is free. Process 7 has 19.70 GiB memory in use. Of the allocated memory 16.00 GiB is allocated by PyTorch, and {reserved} is reserved by PyTorch but unallocated."


def test_memory_that_lacks_is_given_as_the_share_of_this_card() -> None:
    steps = " ".join(root(_serving(OOM.format(tried="1.50 GiB", reserved="100.00 MiB"), *STEP)).alternatives)
    assert "`--gpu-memory-utilization` by 0.08" in steps
    assert "expandable_segments" not in steps, "too little is reserved to help"


def test_reserved_memory_is_named_where_it_exceeds_what_was_asked_for() -> None:
    steps = root(_serving(OOM.format(tried="1.50 GiB", reserved="2.25 GiB"), *STEP)).alternatives
    assert "expandable_segments" in steps[0]
    assert "2.25 GiB" in steps[0]


def test_memory_of_a_draft_is_given_back_first() -> None:
    draft = "/opt/vllm/spec_decode/spec_decode_worker.py:_run_no_spec"
    steps = root(_serving(OOM.format(tried="1.50 GiB", reserved="1 MiB"), *STEP, draft)).alternatives
    assert steps[0].startswith("Start without speculative decoding")
    assert "--max-num-batched-tokens" not in " ".join(steps)


def test_an_earlier_engine_may_have_failed_itself() -> None:
    found = root(
        _raised("AssertionError: tensor model parallel group is already initialized", "/opt/vllm/distributed/parallel_state.py:initialize_model_parallel")
    )  # fmt: skip
    assert "whether it started or failed" in found.explanation
    assert len(found.alternatives) == 1


def test_an_error_below_speculative_decoding_is_tried_without_it() -> None:
    error = "RuntimeError: The expanded size of the tensor (512) must match the existing size (513)"
    through = root(_serving(error, "/opt/vllm/spec_decode/batch_expansion.py:score_proposals", *STEP))
    plain = root(_serving(error, *STEP))

    def asks(found: object) -> bool:
        return "speculative" in repr((found.alternatives, found.changes))  # type: ignore[attr-defined]

    assert asks(through)
    assert not asks(plain)


def test_two_settings_that_exclude_each_other_are_named() -> None:
    found = root(
        _raised("ValueError: Error: --enable-one-thing and --enable-other cannot be enabled at the same time", "/opt/vllm/entrypoints/openai/cli_args.py:validate")
    )  # fmt: skip
    assert "`--enable-one-thing` or `--enable-other`" in found.alternatives[0]


def test_the_toolkit_of_the_distribution_is_named_where_the_build_shows_it() -> None:
    build = [
        "Building wheels for collected packages: vllm",
        "  -- The CUDA compiler identification is unknown",
        "  Compiler: {nvcc}",
        "  ptxas tmp/Id.ptx, line 9; fatal   : Unsupported .version 7.5; current version is '6.3'",
        "  error: subprocess-exited-with-error",
    ]
    seen = {
        nvcc: root("\n".join(build).format(nvcc=nvcc)).alternatives
        for nvcc in ("/usr/bin/nvcc", "/usr/local/cuda/bin/nvcc")
    }
    assert seen["/usr/bin/nvcc"][0].startswith("Remove the distribution's package")
    assert seen["/usr/local/cuda/bin/nvcc"][0].startswith("Set CUDA_HOME")


def test_a_trial_before_any_request_blames_no_request() -> None:
    found = root(
        _raised("RuntimeError: CUDA error: device-side assert triggered", "/opt/vllm/worker/worker.py:determine_num_available_blocks", "/opt/vllm/worker/model_runner.py:profile_run")
    )  # fmt: skip
    assert "tokenizer" not in " ".join(found.alternatives)
    assert "No request was involved" in found.alternatives[0]


def test_a_condition_that_the_log_answers_is_left_out_of_the_step() -> None:
    fault = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
    shown = root(_serving(fault, *STEP, "/opt/vllm/v1/spec_decode/metadata.py:make_dummy")).alternatives
    hidden = root(_serving(fault, *STEP)).alternatives
    assert any(step.startswith("Switch speculation off") for step in shown)
    assert not any("speculat" in step for step in hidden)


@pytest.mark.parametrize(
    ("files", "step"),
    [
        (("/opt/vllm/connections.py:async_get_bytes", "/opt/lib/python3/site-packages/aiohttp/streams.py:read"), "Raise `VLLM_IMAGE_FETCH_TIMEOUT`"),
        (("/opt/vllm/connections.py:async_get_bytes", "/opt/lib/python3/site-packages/aiohttp/connector.py:connect"), "Fetch the URL"),
    ],
)  # fmt: skip
def test_a_source_that_answered_slowly_is_reachable(files: tuple[str, ...], step: str) -> None:
    text = _raised("asyncio.exceptions.TimeoutError", "/opt/vllm/entrypoints/openai/serving_chat.py:create", *files,
                   head="ERROR:    Exception in ASGI application")  # fmt: skip
    assert f"1. {step}" in analyze("\n".join([*READY, *text.split("\n")]).split("\n")).to_markdown()


@pytest.mark.parametrize(
    ("file", "outside"),
    [("/app/my_tool_parser.py", True), ("/opt/vllm/tool_parsers/hermes_tool_parser.py", False)],
)
def test_a_tool_parser_outside_of_vllm_is_said_to_be_so(file: str, outside: bool) -> None:
    lines = _raised("IndexError: list index out of range", f"{file}:extract_tool_calls_streaming").split("\n")
    block = framed(
        "APIServer pid=1", ["Error trying to handle streaming tool call.", *lines], "serving_chat.py:900"
    )
    text = analyze([*READY, *block]).to_markdown()
    assert ("not a part of vLLM" in text.split("\n")[0]) is outside
    assert "without `stream`" in text


def test_a_module_is_installed_by_the_name_of_its_package() -> None:
    found = root(_raised("ModuleNotFoundError: No module named 'fastchat.model'", "/opt/vllm/entrypoints/openai/api_server.py:<module>"))  # fmt: skip
    assert "fschat" in found.alternatives[0]


def test_operators_of_a_library_that_was_not_found_name_the_library() -> None:
    text = _raised("AttributeError: '_OpNamespace' '_C_ascend' object has no attribute 'some_op'", "/opt/vllm_ascend/worker/worker.py:init_device")  # fmt: skip
    above = "WARNING 05-01 10:00:00 [utils.py:1] Failed to import vllm_ascend_C:libours.so: cannot open shared object file: No such file or directory\n"
    assert "libours.so" in root(above + text).alternatives[0]
    assert "libours.so" not in repr(root(text).alternatives)


def test_the_example_of_a_full_card_names_its_share() -> None:
    assert "0.03" in root(examples()["oom-runtime-headroom"]).alternatives[0]


def test_the_model_that_takes_no_adapters_is_named() -> None:
    found = root(_raised("ValueError: Model OurForCausalLM does not support LoRA, but LoRA is enabled.", "/opt/vllm/model_executor/model_loader/loader.py:_initialize"))  # fmt: skip
    assert "OurForCausalLM" in found.explanation
    assert "another setting" not in found.explanation


def test_a_library_is_not_alone_to_blame_where_cuda_reports_late() -> None:
    files = (
        "/opt/vllm/worker/worker.py:execute_model",
        "/opt/lib/python3/site-packages/xformers/ops/fmha/cutlass.py:apply",
    )
    error = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
    late = root(_raised(error + "\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.", *files))  # fmt: skip
    own = root(_raised(error, *files))
    assert "vLLM or torch" in late.explanation
    assert "compute_cap" in late.alternatives[0]
    assert "vLLM or torch" not in own.explanation


def test_an_extension_that_is_missing_names_its_folder() -> None:
    error = "OSError: /home/u/.cache/torch_extensions/py312_cu128/ours/ours.so: cannot open shared object file: No such file or directory"
    found = root(_raised(error, "/opt/lib/python3/site-packages/torch/utils/cpp_extension.py:_import_module_from_library"))  # fmt: skip
    assert "`/home/u/.cache/torch_extensions/py312_cu128/ours`" in found.alternatives[0]
    assert "race" not in found.title


def test_a_library_that_refuses_an_argument_is_not_compared_by_release() -> None:
    library = "/opt/lib/python3/site-packages/xformers/ops/fmha.py:apply"
    caller = "/opt/vllm/model_executor/layers/attention.py:multi_query"
    refused = root(
        _raised("RuntimeError: bias is not aligned", "/opt/vllm/engine/llm_engine.py:step", caller, library)
    )
    other = root(_raised("TypeError: apply() got an unexpected keyword argument 'bias'", "/opt/vllm/engine/llm_engine.py:step", caller, library))  # fmt: skip
    assert "pip show xformers" not in " ".join(refused.alternatives)
    assert "pip show xformers" in " ".join(other.alternatives)


def test_a_step_is_left_where_the_release_is_not_known() -> None:
    found = root(_raised("AssertionError", "/opt/vllm/model_executor/models/some_model.py:__init__"))
    assert found.alternatives


BUILD = [
    "Building wheels for collected packages: vllm",
    "{printed}",
    "Traceback (most recent call last):",
    '  File "/usr/lib/python3.12/subprocess.py", line 413, in check_call',
    "    raise CalledProcessError(retcode, cmd)",
    "subprocess.CalledProcessError: Command '['cmake', '/src/vllm', '-G', 'Ninja']' returned non-zero exit status 1.",
    "  ERROR: Failed building wheel for vllm",
]


def test_a_build_tool_whose_output_is_missing_is_said_to_have_failed() -> None:
    silent = root("\n".join(BUILD).format(printed="running bdist_wheel"))
    shown = root("\n".join(BUILD).format(printed="CMake Error at CMakeLists.txt:14 (find_package): nothing"))
    assert "not in this log" in silent.title
    assert "not in this log" not in shown.title


@pytest.mark.parametrize(
    ("path", "variable"),
    [
        ("/home/u/.cache/vllm/torch_compile_cache/a/b", "`VLLM_CACHE_ROOT`"),
        ("/data/hub/models--a--b/blobs/c", "`HF_HOME`"),
    ],
)
def test_a_full_disk_names_the_variable_of_what_was_written(path: str, variable: str) -> None:
    steps = " ".join(
        root(
            _raised(f"OSError: [Errno 28] No space left on device: '{path}'", "/opt/vllm/utils.py:write")
        ).alternatives
    )
    assert f"{variable}." in steps
    assert "TRITON_CACHE_DIR" not in steps


def test_a_wrapper_without_its_cause_asks_for_the_lines_above() -> None:
    error = "RuntimeError: Failed to apply OurProcessor on data={'text': 'x'} with kwargs={}"
    found = root(_raised(error, "/opt/vllm/inputs/registry.py:call_hf_processor"))
    assert "not in this log" in found.title
    assert "above this line" in found.alternatives[0]


def test_a_neuron_sequence_needs_a_block_of_full_length() -> None:
    text = _raised("AssertionError", "/opt/vllm/worker/neuron_model_runner.py:_prepare_prompt").replace("    step()", "    assert len(block_table) == 1")  # fmt: skip
    vllm, program = root(text).alternatives
    assert "0.6.0 to 0.10.1.1" in vllm  # These set the size of a block themselves.
    assert "`block_size` equal to `max_model_len`" in program
    assert (
        "`--block-size` takes 32 at most there, in 0.5.5 2048" in program
    )  # Choices up to 32 in releases with this code.


@pytest.mark.parametrize(("function", "registers"), [("register_memory", True), ("create_backend", False)])
def test_memory_that_a_connector_could_not_register_is_not_one_of_three_faults(
    function: str, registers: bool
) -> None:
    files = ("/opt/vllm/distributed/kv_transfer/kv_connector/v1/nixl_connector.py:setup", f"/opt/lib/python3/site-packages/nixl/_api.py:{function}")  # fmt: skip
    found = root(_raised("nixl._bindings.nixlBackendError: NIXL_ERR_BACKEND", *files))
    assert ("register the memory" in found.title) is registers
    assert found.alternatives[0].startswith("Allow the process to lock memory") is registers
