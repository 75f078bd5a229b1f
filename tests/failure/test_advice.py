"""Remedies: the log's own numbers, knobs that the version knows."""

import re
from pathlib import Path

import pytest

from tests.failure.judging import crashed, examples, root
from tests.failure.records import framed, traceback
from vllm_logdoctor.report.proof import figures
from vllm_logdoctor.rules.already_set import is_pointless
from vllm_logdoctor.rules.failure.wording import filled
from vllm_logdoctor.run.model import Run, Value


def changes(finding):
    return {change.knob: change.after for change in finding.changes}


def test_the_length_that_fits():
    finding = root(examples()["kv-cache-too-small-for-max-model-len"])
    assert changes(finding)["--max-model-len"] == 80688 // 1024 * 1024
    assert "16 GiB" in finding.explanation
    assert "9.85 GiB" in finding.explanation


_FIXED = (
    "INFO 05-01 10:00:30 [gpu_worker.py:492] Initial free memory 78.0 GiB, reserved {size} GiB memory for KV Cache as "
    "specified by kv_cache_memory_bytes config and skipped memory profiling.\n"
)


def _after_fixed_cache(slug):
    first, rest = examples()[slug].split("\n", 1)
    found = root(f"{first}\n{_FIXED.format(size='9.85')}{rest}")
    assert found.id == slug
    return " ".join([*found.alternatives, *(f"{one.knob} {one.note}" for one in found.changes)])


@pytest.mark.parametrize("slug", ["kv-cache-too-small-for-max-model-len", "oom-warmup", "oom-sampler-warmup"])
def test_the_share_of_the_card_is_not_changed_where_the_size_of_the_cache_is_given(slug):
    words = _after_fixed_cache(slug)
    assert "ower `--gpu-memory-utilization`" not in words
    assert "aise `--gpu-memory-utilization`" not in words
    assert "utilization" in " ".join(root(examples()[slug]).alternatives)


def test_a_cache_of_a_given_size_is_made_larger_by_that_setting():
    assert "Raise `--kv-cache-memory-bytes`" in _after_fixed_cache("kv-cache-too-small-for-max-model-len")


def test_the_figures_of_an_explanation_have_their_lines_as_evidence():
    head, rest = examples()["oom-cudagraph-capture"].split("\n", 1)
    printed = [
        "INFO 05-01 10:00:50 [gpu_model_runner.py:5955] Estimated CUDA graph memory: 3.25 GiB total",
        "INFO 05-01 10:00:51 [gpu_worker.py:436] Available KV cache memory: 4.75 GiB",
        "INFO 05-01 10:00:52 [gpu_model_runner.py:4820] Model loading took 9.5 GiB memory and 2.3 seconds",
    ]
    found = root("\n".join([head, *printed, rest]))
    assert "3.25 GiB" in found.explanation
    assert "4.75 GiB" in found.explanation
    assert {one.text for one in figures(found)} == set(printed[:2])


def test_no_setting_of_attention_is_dropped_for_a_kernel_of_a_linear_layer():
    ends = "RuntimeError: Currently, scaled gemm is not implemented for Blackwell"
    frames = [
        ("apply", "return self.mm(x)"),
        ("cutlass_scaled_mm", "torch.ops._C.cutlass_scaled_mm(out, a, b)"),
    ]
    block = framed(
        "EngineCore_DP0 pid=9", ["EngineCore failed to start.", *traceback(*frames, ends=ends)], "core.py:708"
    )
    found = root("\n".join(block))
    assert found.id == "kernel-backend-unsupported-on-arch"
    assert not any("forces a backend" in one for one in found.alternatives)


def test_the_length_that_fits_without_an_estimate_follows_from_both_sizes():
    finding = crashed(
        "ValueError: To serve at least one request with the models's max seq len (32768), (25.00 GiB KV cache is needed, "
        "which is larger than the available KV cache memory (5.00 GiB). Try increasing `gpu_memory_utilization`"
    )
    assert changes(finding)["--max-model-len"] <= 32768 * 5 / 25


def test_the_share_of_the_card_that_is_free():
    finding = root(examples()["gpu-memory-not-free-at-start"])
    assert "8.12 of 79.19 GiB" in finding.explanation
    assert "71.07 GiB were in use already; 63.15 GiB are missing" in finding.explanation
    assert "--gpu-memory-utilization" not in changes(finding), "a tenth of the card is no place for a model"


def not_free(free: float):
    return crashed(
        f"ValueError: Free memory on device ({free}/47.38 GiB) on startup is less than desired GPU memory utilization (0.95,"
        " 45.01 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
    )


def test_a_card_that_another_server_holds_is_freed_and_its_share_is_no_step_of_the_plan():
    shared = changes(not_free(31.44))
    assert "--gpu-memory-utilization" not in shared
    assert any("0.65 at most" in str(after) for after in shared.values())
    assert changes(not_free(43.5))["--gpu-memory-utilization"] == 0.9


def test_the_sizes_that_divide_the_heads():
    finding = root(examples()["parallel-size-indivisible"])
    assert changes(finding)["--tensor-parallel-size"] == 5
    assert "1, 2, 4, 5, 8, 10, 20, 40" in finding.explanation


def test_a_cache_larger_than_the_host_gets_what_the_host_has_and_no_share_of_a_card():
    finding = crashed(
        "ValueError: Available memory on node 0 (18.96/23.54 GiB) on kv cache allocation is less than requested memory"
        " for kv (200.0 GiB). Decrease --kv-cache-memory-bytes, VLLM_CPU_KVCACHE_SPACE, or reduce CPU memory used by"
        " other processes."
    )
    assert changes(finding) == {"VLLM_CPU_KVCACHE_SPACE": 9}
    assert "200 GiB" in finding.explanation


def test_the_number_of_requests_that_blocks_allow():
    assert changes(root(examples()["mamba-cache-blocks-too-few"]))["--max-num-seqs"] == 731


def test_the_rank_of_the_adapter():
    assert changes(root(examples()["lora-rank-exceeds-limit"]))["--max-lora-rank"] == 64


def _without_kernel(linear: str, arguments: str = "'model': 'm'"):
    return root(
        "\n".join(
            [
                "(APIServer pid=1) INFO 05-01 09:59:10 [api_server.py:90] vLLM API server version 0.22.1",
                "(APIServer pid=1) INFO 05-01 09:59:10 [utils.py:233] non-default args: {" + arguments + "}",
                *framed(
                    "EngineCore_DP0 pid=9",
                    [
                        "EngineCore failed to start.",
                        *traceback(
                            ("choose_kernel", "raise ValueError("),
                            ends=f"ValueError: Failed to find a kernel that can implement the {linear} linear layer. Reasons:",
                        ),
                    ],
                    "core.py:708",
                ),
            ]
        )
    )


def test_a_backend_that_was_forced_is_dropped_before_anything_else():
    finding = _without_kernel("WNA16", "'model': 'm', 'linear_backend': 'cutlass'")
    assert finding.changes[0].knob == "--linear-backend"
    assert finding.changes[0].after is None
    assert "VLLM_TEST_FORCE_FP8_MARLIN" not in changes(finding)


@pytest.mark.parametrize(("linear", "helps"), [("ScaledMM", True), ("WNA16", False)])
def test_fp8_kernels_are_no_way_for_weights_of_another_kind(linear, helps):
    assert ("VLLM_TEST_FORCE_FP8_MARLIN" in changes(_without_kernel(linear))) is helps


@pytest.mark.parametrize(("version", "known"), [("0.9.0", False), ("0.13.0", True)])
def test_flags_of_another_version_are_not_advised(version, known):
    finding = crashed(
        "RuntimeError: Check failed: (status == cudaSuccess) is false: BatchPrefillWithPagedKVCache failed with error invalid argument",
        version,
    )
    assert finding.id == "kernel-backend-unsupported-on-arch"
    assert ("--attention-backend" in changes(finding)) is known


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("0.11.0", "newer release"),
        ("0.23.1rc1.dev1201+gd08eebad1", "newer release"),
        ("0.23.1rc1.dev1201+gd08eebad1.d20260717", "newer sources"),
        ("0.1.dev3896+ga491d6f", "newer sources"),
    ],
)
def test_a_build_of_changed_sources_is_not_sent_to_a_release(version, words):
    finding = crashed("IndexError: list index out of range", version)
    ways = " ".join([*changes(finding), *finding.alternatives])
    assert [way for way in ("newer release", "newer sources") if way in ways] == [words]


def test_a_number_that_the_log_does_not_give_is_not_written():
    finding = crashed("torch.OutOfMemoryError: CUDA out of memory.")
    assert "None" not in finding.explanation
    assert "{" not in finding.explanation


def test_what_not_to_do_is_said():
    assert "even more than is free" in root(examples()["gpu-memory-not-free-at-start"]).avoid


def test_alternatives_come_in_the_order_of_the_page():
    assert root(examples()["port-in-use"]).alternatives[0].startswith("Find the process")


def test_no_other_way_repeats_the_change():
    finding = root(examples()["kv-cache-too-small-for-max-model-len"])
    assert not any(way.startswith("Lower `--max-model-len`") for way in finding.alternatives)
    assert any("--kv-cache-dtype fp8" in way for way in finding.alternatives)


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB of which 1.10 GiB is free."
V0_TRIAL = f"""\
INFO 05-01 09:59:20 llm_engine.py:237] Initializing an LLM engine (v0.6.3) with config: model='m', tensor_parallel_size=1
INFO 05-01 09:59:40 model_runner.py:1067] Loading model weights took 10.0000 GB
Traceback (most recent call last):
  File "/opt/vllm/worker/enc_dec_model_runner.py", line 348, in profile_run
    self.execute_model(model_input, kv_caches, intermediate_tensors)
  File "/opt/vllm/model_executor/models/mllama.py", line 229, in forward
    x = self.patch_embedding(pixel_values)
{OOM}"""


def test_one_image_a_request_is_not_advised_where_it_is_the_default():
    assert root(V0_TRIAL).id == "oom-multimodal-profiling"
    assert "--limit-mm-per-prompt" not in changes(root(V0_TRIAL))
    assert "--limit-mm-per-prompt" in changes(root(examples()["oom-multimodal-profiling"]))


def test_a_page_with_several_meanings_gives_the_one_that_the_text_shows():
    full = crashed("OSError: [Errno 28] No space left on device: '/cache/a.bin'")
    quota = crashed("OSError: [Errno 122] Disk quota exceeded: '/cache/a.bin'")
    assert (full.title, quota.title) == ("No space left on device", "Disk quota exceeded")
    assert "quota" not in full.explanation
    assert quota.explanation.startswith("A quota on this file system is used up")
    assert "quota" in quota.alternatives[0]
    assert "df -i" in full.alternatives[0]


def test_a_setting_is_named_as_the_release_has_it():
    fault = "torch.AcceleratorError: CUDA error: an illegal instruction was encountered"
    assert "`VLLM_ATTENTION_BACKEND=NAME`" in " ".join(
        crashed(fault, "0.10.2", place="attention_ops").alternatives
    )
    newest = " ".join(crashed(fault, "0.30.0", place="attention_ops").alternatives)
    assert "`--attention-backend NAME`" in newest
    assert "`--moe-backend NAME`" not in newest


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("an illegal instruction was encountered", "executed an instruction that the GPU refuses"),
        ("misaligned address", "no multiple of the size of the access"),
        ("an illegal memory access was encountered", "outside its memory"),
    ],
)
def test_a_fault_of_a_kernel_is_explained_in_its_own_words(fault, words):
    found = crashed(f"torch.AcceleratorError: CUDA error: {fault}")
    assert words in found.explanation
    assert "at a later call" in found.explanation


@pytest.mark.parametrize("path", sorted(Path("patterns/rules").glob("*.md")), ids=lambda path: path.stem)
def test_a_step_that_chooses_another_backend_has_a_place_for_its_name(path: Path):
    """A flag alone is no setting: `--attention-backend` needs a value."""
    bare = re.findall(r"(?i)\b(?:another|choose)\b[^.;`]*`(--[a-z-]+-backend)`", path.read_text())
    assert not bare


def test_a_variable_for_one_run_is_a_step_and_no_part_of_the_launch_command():
    failed = crashed("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", "0.30.0")
    assert not failed.changes
    assert failed.alternatives[0].startswith("Run once with `CUDA_LAUNCH_BLOCKING=1` and `--enforce-eager`")
    assert " ".join(failed.alternatives).count("--enforce-eager") == 1


def test_another_attention_backend_is_advised_where_the_traceback_is_in_attention_code():
    fault = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
    assert "attention" not in " ".join(crashed(fault).alternatives)
    assert "`--attention-backend NAME`" in " ".join(crashed(fault, "0.30.0", place="flash_attn").alternatives)


def test_a_check_names_the_given_arguments_that_it_speaks_of():
    given = "INFO 05-01 09:59:10 [utils.py:233] non-default args: {'model': 'm', 'enable_layered_cache': True, 'max_num_seqs': 4}\n"
    block = framed(
        "EngineCore_DP0 pid=9",
        [
            "EngineCore failed to start.",
            *traceback(
                ("make_specs", "raise ValueError(what)"),
                ends="ValueError: Layered cache requires 12 main and 4 other specs",
            ),
        ],
        "core.py:708",
    )
    found = root(given + "\n".join(block))
    assert "`enable_layered_cache`" in found.alternatives[0]
    assert "max_num_seqs" not in found.alternatives[0]


def test_a_main_guard_is_no_advice_for_a_notebook():
    fork = "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method"
    block = framed("VllmWorkerProcess pid=9", [*traceback(("init_device", "x()"), ends=fork)], "core.py:708")
    script = " ".join(root("\n".join(block)).alternatives)
    notebook = " ".join(
        root("\n".join([*block, "Cell In[3], line 2", "----> 2 llm = LLM('m')"])).alternatives
    )
    assert "__main__" in script
    assert "notebook" not in script
    assert "__main__" not in notebook
    assert "restart the kernel" in notebook


def test_the_number_of_devices_that_torch_prints_as_a_character_is_a_number():
    found = crashed(
        'RuntimeError: device >= 0 && device < num_gpus INTERNAL ASSERT FAILED at "CUDAContext.cpp":49, please report a bug to'
        " PyTorch. device=3, num_gpus=\x02"
    )
    assert "number 3, where the first one is 0; the number of devices that it sees is 2" in found.explanation
    assert "Ray" not in " ".join(found.alternatives)


def test_advice_on_a_log_without_a_release_fits_the_files_of_its_traceback():
    old = "\n".join(
        [
            "Traceback (most recent call last):",
            '  File "/opt/site-packages/vllm/executor/gpu_executor.py", line 36, in _init_executor',
            "    self.driver_worker.load_model()",
            '  File "/opt/site-packages/vllm/model_executor/model_loader/utils.py", line 35, in get_model_architecture',
            "    raise ValueError(",
            "ValueError: Model architectures ['LakeForCausalLM'] are not supported for now. Supported architectures: ['OPTForCausalLM']",
        ]
    )
    assert "--model-impl" not in " ".join(root(old).alternatives)
    assert "--model-impl" in " ".join(
        root(old.replace("/executor/gpu_executor", "/v1/executor/abstract")).alternatives
    )


def test_an_assertion_that_is_not_in_the_log_is_not_to_be_read():
    blind = crashed("RuntimeError: CUDA error: device-side assert triggered")
    assert "not in this log" in blind.explanation
    assert "CUDA_LAUNCH_BLOCKING" in blind.alternatives[0]


def test_weights_that_do_not_fit_a_draft_model_are_not_blamed_on_the_served_model():
    lines = [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/v1/worker/gpu/spec_decode/speculator.py", line 156, in load_model',
        "    load_draft_model()",
        '  File "/opt/vllm/model_executor/model_loader/weight_utils.py", line 950, in default_weight_loader',
        "    assert param.size() == loaded_weight.size(), (",
        "AssertionError: Attempted to load weight (torch.Size([64, 300])) into parameter (torch.Size([64, 180]))",
    ]
    found = root(
        "\n".join(framed("EngineCore_DP0 pid=9", ["EngineCore failed to start.", *lines], "core.py:708"))
    )
    assert "draft model" in found.explanation
    assert "--speculative-config" in found.alternatives[0]


def test_a_build_for_amd_gets_its_own_variable():
    found = crashed("torch.AcceleratorError: HIP error: invalid device function")
    advice = " ".join([*found.alternatives, *(change.knob for change in found.changes)])
    assert "PYTORCH_ROCM_ARCH" in advice
    assert "TORCH_CUDA_ARCH_LIST" not in advice


def test_a_fault_of_a_connector_can_be_avoided_without_it():
    lines = [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/v1/simple_kv_offload/worker.py", line 51, in register_kv_caches',
        "    views = raw.view(count, -1)",
        "RuntimeError: shape '[33, -1]' is invalid for input of size 8912",
    ]
    found = root(
        "\n".join(framed("EngineCore_DP0 pid=9", ["EngineCore failed to start.", *lines], "core.py:708"))
    )
    assert found.id == "engine-code-bug"
    assert "--kv-transfer-config" in found.alternatives[0]


def test_flags_of_other_programs_are_no_settings_that_a_release_lacks():
    log = "\n".join(
        [
            "Collecting vllm==0.6.4",
            "Building wheels for collected packages: vllm",
            "  Traceback (most recent call last):",
            '    File "<string>", line 460, in <module>',
            '    File "<string>", line 412, in get_vllm_version',
            "  RuntimeError: Unknown runtime environment",
            "  ERROR: Failed building wheel for vllm (0.6.4)",
        ]
    )
    assert "--no-build-isolation" in " ".join(root(log).alternatives)


def test_a_feature_is_named_where_the_message_names_it():
    adapters = crashed("ValueError: Model LakeForCausalLM does not support LoRA, but LoRA is enabled.")
    assert adapters.explanation.startswith("LoRA is switched on")
    assert "--enable-lora" in adapters.alternatives[0]
    assert not adapters.changes
    lines = [
        *traceback(
            ("model_runner", "self.load()"),
            ("mixtral", "assert self.total_num_kv_heads % tp_size == 0"),
            ends="AssertionError",
        )
    ]
    heads = root(
        "\n".join(framed("EngineCore_DP0 pid=9", ["EngineCore failed to start.", *lines], "core.py:708"))
    )
    assert "KV heads" in heads.explanation


def test_a_package_that_vllm_did_not_call_is_no_matter_of_vllms_issues():
    lines = [
        "INFO 05-01 10:00:00 [__init__.py:239] Automatically detected platform cuda.",
        "Traceback (most recent call last):",
        '  File "/srv/bench.py", line 12, in <module>',
        "    tokenizer.pad(batch)",
        '  File "/opt/lib/python3.11/site-packages/transformers/tokenization_utils_base.py", line 2764, in pad',
        '    raise ValueError("no token")',
        "ValueError: no token to fill with",
    ]
    assert "transformers" in root("\n".join(lines)).alternatives[0]
    client = [line.replace("transformers/tokenization_utils_base", "openai/_base_client") for line in lines]
    assert "the server's log" in root("\n".join(client)).alternatives[0]


def test_advice_to_leave_out_what_was_set_is_given():
    run = Run(config={"device": Value("cpu", "explicit")})
    assert not is_pointless("Leave out `--device cpu`: this build serves on its GPUs.", run)
    assert is_pointless("Start with `--device cpu`.", run)


def test_a_cut_quotation_ends_with_three_dots():
    assert (
        filled("Most frequent: {what}.", {"what": "asked for more..."}) == "Most frequent: asked for more..."
    )
    assert filled("Most frequent: {what}.", {"what": "No room."}) == "Most frequent: No room."


def test_a_pool_of_threads_in_rust_is_made_smaller_by_its_own_variable():
    found = crashed(
        'pyo3_runtime.PanicException: The global thread pool has not been initialized.: ThreadPoolBuildError { kind: IOError(Os { code: 11, kind: WouldBlock, message: "Resource temporarily unavailable" }) }'
    )
    assert found.id == "thread-or-process-limit"
    assert "RAYON_NUM_THREADS" in found.alternatives[0]


def test_an_argument_that_a_program_passes_is_no_flag_of_a_command():
    found = crashed("TypeError: EngineArgs.__init__() got an unexpected keyword argument 'worker_use_ray'")
    assert "worker_use_ray" in found.explanation
    assert "release" in found.alternatives[0]
    assert not found.changes


def test_an_unknown_error_is_to_be_looked_up_and_not_to_be_repeated_with_more_output():
    text = "\n".join([
        "Traceback (most recent call last):",
        '  File "/opt/site-packages/vllm/config.py", line 484, in __init__',
        '    raise RuntimeError("the tide is out")',
        "RuntimeError: the tide is out",
    ])  # fmt: skip
    finding = root(text)
    assert finding.id == "unclassified-failure"
    assert not finding.changes
    assert finding.alternatives[0].startswith("Search the issues of vLLM")
