"""Configuration and security findings, what is already right, what a log does not tell."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.rules.making import a_run, advice, event, knobs, load
from tests.tables import for_each
from vllm_logdoctor import analyze
from vllm_logdoctor.rules import configuration, security
from vllm_logdoctor.rules.already_right import already_right
from vllm_logdoctor.rules.engine import settings_findings
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.rules.unknowns import unknowns_of
from vllm_logdoctor.run.model import Evidence, Run, Value


def settings(run: Run) -> dict[str, Finding]:
    return {found.id: found for found in settings_findings(configuration.RULES, run)}


def unknown(name: str) -> str:
    return f"Unknown vLLM environment variable detected: {name}"


def test_a_variable_that_was_renamed_is_reported_with_its_successor() -> None:
    found = settings(a_run(messages=(unknown("VLLM_ATTENTION_BACKEND"),), version="0.16.0"))[
        "environment-variable-ignored"
    ]
    assert found.severity == "medium"
    assert "--attention-backend" in found.explanation


def test_a_variable_of_the_users_own_script_is_information() -> None:
    found = settings(a_run(messages=(unknown("VLLM_MY_OWN_PORT"),), version="0.22.0"))[
        "environment-variable-ignored"
    ]
    assert found.severity == "info"
    assert not found.changes
    # A fork or a plugin may read it.
    assert "ignored" not in found.title
    assert "does not read" not in found.explanation


def test_variables_that_a_build_reads_ask_for_nothing() -> None:
    built = ("VLLM_PRECOMPILED_WHEEL_COMMIT", "VLLM_PRECOMPILED_WHEEL_LOCATION", "VLLM_VERSION_OVERRIDE")
    assert not settings(a_run(messages=tuple(map(unknown, built)), version="0.22.0"))


def test_variables_that_the_official_image_sets_ask_for_nothing() -> None:
    built = ("VLLM_BUILD_COMMIT", "VLLM_BUILD_URL", "VLLM_IMAGE_TAG")
    assert "environment-variable-ignored" not in settings(
        a_run(messages=tuple(map(unknown, built)), version="0.22.0")
    )


def test_a_variable_that_code_of_the_run_logs_is_read() -> None:
    warned = f"WARNING 05-03 10:00:00 [envs.py:1785] {unknown('VLLM_OWN_CACHE')}"
    copied = "INFO 05-03 10:00:01 [ray_utils.py:12] Copying the following environment variables to workers: ['VLLM_OWN_CACHE']"
    used = "INFO 05-03 10:00:09 [core.py:487] own cache active (VLLM_OWN_CACHE=1)"

    def titles(*lines: str) -> str:
        return repr([one.id for one in analyze([*lines]).runs[0].diagnosis.findings])

    start = "INFO 05-03 10:00:00 [api_server.py:1300] vLLM API server version 0.22.0"
    assert "environment-variable-ignored" in titles(start, warned, copied)
    assert "environment-variable-ignored" not in titles(start, warned, copied, used)


def test_variables_that_kubernetes_sets_for_a_service_are_reported_as_such() -> None:
    names = ("VLLM_ROUTER_SERVICE_HOST", "VLLM_ROUTER_PORT", "VLLM_ROUTER_PORT_80_TCP_ADDR", "VLLM_TYPO")
    found = settings(a_run(messages=tuple(map(unknown, names)), version="0.22.0"))[
        "environment-variable-ignored"
    ]
    assert "VLLM_TYPO: read by no vLLM release" in found.explanation
    assert "set by Kubernetes" in found.explanation
    assert not found.changes


def test_each_unknown_variable_is_shown_with_its_line() -> None:
    found = settings(
        a_run(messages=(unknown("VLLM_USE_V1"), unknown("VLLM_ATTENTION_BACKEND")), version="0.16.0")
    )["environment-variable-ignored"]
    assert sorted(line.line for line in found.evidence) == [10, 11]


def test_a_setting_that_brought_v0_back_is_dropped() -> None:
    line = "--kv-cache-dtype is not supported by the V1 Engine. Falling back to V0."
    run = a_run(set={"kv_cache_dtype": "fp8"}, engine="V0", version="0.9.0.1", messages=(line,))
    found = settings(run)["engine-fell-back-to-v0"]
    assert knobs(found) == {"--kv-cache-dtype": None}
    assert found.severity == "medium"


def test_what_the_launch_is_for_is_not_to_be_dropped() -> None:
    """A server of embeddings without its task serves nothing."""
    line = "--task embed is not supported by the V1 Engine. Falling back to V0."
    found = settings(a_run(set={"task": "embed"}, engine="V0", version="0.8.5", messages=(line,)))
    assert list(knobs(found["engine-fell-back-to-v0"])) == [
        "use a release whose V1 engine supports --task embed"
    ]


@pytest.mark.parametrize(
    ("feature", "given", "expected"),
    [
        ("--kv-cache-dtype", {"kv_cache_dtype": "fp8"}, {"--kv-cache-dtype": None}),
        ("--kv-cache-dtype", {}, {"drop --kv-cache-dtype, or use a release whose V1 engine supports it": None}),
        ("--enable-lora", {"enable_lora": False}, {"drop --enable-lora, or use a release whose V1 engine supports it": None}),
        # Words are no flag: vLLM names what it met in its own terms too.
        ("--enable-lora with 8 bits", {"enable_lora": True}, {"drop --enable-lora with 8 bits, or use a release whose V1 engine supports it": None}),
        ("VLLM_ATTENTION_BACKEND=XFORMERS", {}, {"drop VLLM_ATTENTION_BACKEND=XFORMERS, or use a release whose V1 engine supports it": None}),
        ("Pipeline Parallel without Ray", {}, {"use a release whose V1 engine supports Pipeline Parallel without Ray": None}),
        # A word that is the name of a setting too is no flag.
        ("quantization", {"quantization": "gptq"}, {"use a release whose V1 engine supports quantization": None}),
    ],
)  # fmt: skip
def test_only_a_flag_that_the_user_gave_is_dropped_for_v1(
    feature: str, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    line = f"{feature} is not supported by the V1 Engine. Falling back to V0."
    run = a_run(set=given, engine="V0", version="0.9.0.1", messages=(line,))
    found = settings(run)["engine-fell-back-to-v0"]
    assert knobs(found) == expected
    assert found.explanation.startswith(f"{feature} is not supported by the V1 engine")
    assert "engine-fell-back-to-v0" not in settings(a_run(set=given, engine="V1", messages=(line,)))


def test_swap_space_has_no_effect_in_v1() -> None:
    found = settings(a_run(set={"swap_space": 16}, version="0.11.2"))["argument-without-effect"]
    assert knobs(found) == {"--swap-space": None}
    assert "argument-without-effect" not in settings(
        a_run(set={"swap_space": 16}, engine="V0", version="0.6.3")
    )


def test_sampling_defaults_of_the_model_are_harmless_information() -> None:
    line = (
        "Default sampling parameters have been overridden by the model's Hugging Face generation config"
        " recommended from the model creator. If this is not intended, please relaunch"
    )
    found = settings(a_run(messages=(line,)))["sampling-defaults-from-model"]
    assert found.severity == "info"
    assert found.explanation.endswith("generation_config.json instead of vLLM's defaults.")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("{'repetition_penalty': 1.0, 'temperature': 1.0, 'top_k': -1, 'top_p': 1.0}", None),
        ("{'temperature': 1.0, 'top_k': 0}", None),
        ("{'temperature': 1.0, 'max_tokens': 2048}", "Answers of more than 2,048 tokens are cut"),
        (
            "{'temperature': 0.6, 'top_k': -1}",
            "generation_config.json (temperature=0.6) instead of vLLM's defaults.",
        ),
    ],
)
def test_sampling_values_that_are_the_plain_ones_change_no_answer(values: str, said: str | None) -> None:
    warned = "Default sampling parameters have been overridden by the model's Hugging Face generation config recommended from the model creator."
    printed = f"Using default chat sampling params from model: {values}"
    for messages in (
        (warned, printed),
        (
            f"Default vLLM sampling parameters have been overridden by the model's `generation_config.json`: `{values}`. If",
        ),
    ):
        found = settings(a_run(messages=messages)).get("sampling-defaults-from-model")
        assert (found is None) == (said is None)
        assert found is None or (said or "") in found.explanation


def test_bfloat16_run_as_float16_is_reported_and_left_to_the_user() -> None:
    run = a_run(set={"dtype": "float16"}, messages=("Casting torch.bfloat16 to torch.float16.",))
    found = settings(run)["weights-cast-to-half"]
    assert found.severity == "info"
    assert not found.changes
    other = a_run(messages=("Casting torch.float32 to torch.bfloat16.",))
    assert "weights-cast-to-half" not in settings(other)


@for_each(
    ("before", "after", "runs", "reported"),
    [
        ("torch.bfloat16", "torch.float16", "float16", True),
        ("torch.bfloat16", "torch.float16", None, True),
        ("torch.float32", "torch.float16", None, False),
        ("torch.bfloat16", "torch.float32", None, False),
        ("torch.float16", "torch.bfloat16", None, False),
        # A line before the engine that runs: that one has the type of the checkpoint.
        ("torch.bfloat16", "torch.float16", "torch.bfloat16", False),
    ],
)
def test_only_bfloat16_that_runs_as_float16_is_reported(
    before: str, after: str, runs: str | None, reported: bool
) -> None:
    run = a_run(reported={"dtype": runs} if runs else {}, messages=(f"Casting {before} to {after}.",))
    found = settings(run).get("weights-cast-to-half")
    assert (found is not None) is reported
    assert found is None or [line.line for line in found.evidence] == ([10, 3] if runs else [10])


def test_a_card_without_bfloat16_leaves_no_choice_of_the_type() -> None:
    cast = "Casting torch.bfloat16 to torch.float16."
    turing = "Cannot use FlashAttention-2 backend for Volta and Turing GPUs."
    run = a_run(set={"dtype": "float16"}, messages=(cast, turing))
    assert "weights-cast-to-half" not in settings(run)


def test_deprecation_warnings_are_one_finding_that_changes_nothing() -> None:
    line = "`guided_decoding_backend` is deprecated and has been renamed to `backend`. This will be removed in v0.10.0. Please use the `backend` argument instead."
    run = a_run(messages=(line,))
    (warning,) = [seen for seen in run.messages.values() if seen.first[0].pattern.topic == "deprecation"]
    warning.first[0] = replace(warning.first[0], record=replace(warning.first[0].record, level="WARNING"))
    found = settings(run)["deprecated-argument"]
    assert found.severity == "info"
    assert "1 deprecation warning" in found.explanation
    assert not found.changes


def test_a_secret_is_one_finding_with_its_lines_masked() -> None:
    run = a_run()
    run.secrets.append((Evidence("vllm.log", 4, "args: Namespace(api_key='***')"), ("api_key",)))
    run.secrets.append((Evidence("vllm.log", 9, "hf_token='***'"), ("hf_token",)))
    (found,) = settings_findings(security.RULES, run)
    assert found.id == "secret-in-log"
    assert found.kind == "security"
    assert [line.line for line in found.evidence] == [4, 9]
    assert "api_key, hf_token" in found.explanation
    assert settings_findings(security.RULES, a_run()) == ()


def right(run: Run) -> dict[str, str]:
    return {item.name: item.state for item in already_right(run)}


def test_what_is_on_is_reported_with_its_line() -> None:
    run = a_run(
        set={"max_num_seqs": 64},
        reported={"enable_prefix_caching": True, "quantization": "awq_marlin"},
        messages=("Graph capturing finished in 17 secs, took 0.48 GiB",),
        measured={"graph_capture_seconds": 17, "graph_capture_gib": 0.48},
        samples=load((9, {"running": 8, "generation": 400.0, "kv": 12.0, "hit": 72.0})),
    )
    found = right(run)
    assert found["CUDA graphs"] == "captured in 17 s, 0.48 GiB"
    assert "72 %" in found["prefix caching"]
    assert found["quantization"] == "awq_marlin"
    assert not found.keys() & {"KV cache", "max_num_seqs"}
    assert all(item.evidence for item in already_right(run))


def test_a_setting_that_is_right_is_proved_by_one_of_its_lines() -> None:
    run = a_run(samples=load((9, {"running": 8, "generation": 400.0})))
    twice = (Evidence("vllm.log", 3, "given"), Evidence("vllm.log", 9, "printed"))
    kinds = {
        "quantization": "awq_marlin",
        "async_scheduling": True,
        "kv_cache_dtype": "fp8",
        "enable_chunked_prefill": True,
    }
    run.config |= {name: Value(value, "explicit", twice) for name, value in kinds.items()}
    assert {item.name: [line.line for line in item.evidence] for item in already_right(run)} == {
        "quantization": [3], "asynchronous scheduling": [3], "chunked prefill": [3], "KV cache type": [9],
    }  # fmt: skip


def test_what_a_small_cache_type_brings_goes_by_its_bits() -> None:
    brought = {
        kind: next(
            one.brings for one in already_right(a_run(set={"kv_cache_dtype": kind})) if kind in one.state
        )
        for kind in ("fp8", "nvfp4")
    }
    assert brought["fp8"].startswith("twice")
    assert brought["nvfp4"].startswith("more than three times")


def test_a_default_without_a_line_is_no_proof() -> None:
    assert right(a_run(default={"enable_prefix_caching": True, "enable_chunked_prefill": True})) == {}


def test_a_slow_kernel_is_not_called_right() -> None:
    line = "awq quantization is not fully optimized yet. The speed can be slower than non-quantized models."
    assert "quantization" not in right(a_run(reported={"quantization": "awq"}, messages=(line,)))


def test_a_format_that_a_finding_would_replace_is_not_called_right() -> None:
    run = a_run(reported={"quantization": "gguf"})
    found = Finding(id="gguf-slow-path", kind="configuration", severity="medium", confidence="high", topic="quantization",
        title="GGUF checkpoint without fast kernels", explanation="", evidence=())  # fmt: skip
    assert [item.name for item in already_right(run)] == ["quantization"]
    assert already_right(run, findings=[found]) == ()


def test_a_card_that_a_script_names_is_known() -> None:
    started = {"set": {"max_num_seqs": 64}, "platform": "cuda"}
    named = a_run(messages=("Checked NVIDIA GPU: NVIDIA GB10",), **started)
    assert not any("GPU model" in text for text in unknowns_of(named))
    assert any("GPU model" in text for text in unknowns_of(a_run(**started)))


def test_what_vllm_warns_to_be_less_accurate_is_not_called_right() -> None:
    scales = "Using KV cache scaling factor 1.0 for fp8_e4m3. This may cause accuracy issues. Please make sure k/v_scale scaling factors are available in the fp8 checkpoint."
    experts = "w1_weight_scale_2 must match w3_weight_scale_2. Accuracy may be affected."
    reported = {"quantization": "modelopt_fp4", "kv_cache_dtype": "fp8_e4m3"}
    assert {"quantization", "KV cache type"} <= right(a_run(reported=reported)).keys()
    assert "KV cache type" not in right(a_run(reported=reported, messages=(scales,)))
    assert "quantization" in right(a_run(reported=reported, messages=(scales,)))
    assert "quantization" not in right(a_run(reported=reported, messages=(experts,)))


def test_tensor_parallelism_is_right_where_one_card_is_too_small() -> None:
    told = (
        "Free memory on device (23.1/24.0 GiB) on startup. Desired GPU memory utilization is (0.88, 21.12 GiB). Actual usage is "
        "15.39 GiB for weight, 0.4 GiB for peak activation, 0.1 GiB for non-torch memory, and 0.0 GiB for CUDAGraph memory. Replace "
        "gpu_memory_utilization config with `--kv-cache-memory=5368709120` (5.0 GiB) to fit into requested memory, or "
        "`--kv-cache-memory=7516192768` (7.0 GiB) to fully utilize gpu memory. Current kv cache memory in use is 5.24 GiB."
    )
    for messages, words in (
        ((), "the weights do not fit one card of the size that the log adds up to"),
        ((told,), "the weights do not fit one card"),
    ):
        run = a_run(
            set={"tensor_parallel_size": 4, "gpu_memory_utilization": 0.88},
            measured={"kv_cache_tokens": 85760, "available_kv_cache_gib": 5.24, "model_weights_gib": 15.39},
            messages=messages,
        )
        assert right(run)["tensor parallelism"] == f"4 ranks: {words}"


def test_what_is_missing_comes_with_what_to_set_next_time() -> None:
    run = a_run(version=None, kind="server")
    assert unknowns_of(run) == ("vLLM release and configuration: keep the log from its first line.",)
    assert "pip show vllm" in " ".join(unknowns_of(run, "tokenizer"))
    assert unknowns_of(run, "tokenizer", by_release=False) == ()


def test_nothing_is_missing_where_nothing_is_left_to_decide() -> None:
    assert unknowns_of(a_run(version=None, kind="server"), open_question=False) == ()


@pytest.mark.parametrize(("platform", "missed"), [("cuda", True), ("neuron", False)])
def test_the_size_of_the_cache_is_missed_where_the_platform_prints_one(platform: str, missed: bool) -> None:
    run = a_run(platform=platform, reported={"dtype": "torch.bfloat16"})
    assert ("KV cache size" in " ".join(unknowns_of(run))) is missed


CUT_ARGUMENTS = "non-default args: {'port': 8081, 'model': 'org"
WHOLE_ARGUMENTS = "non-default args: {'port': 8081}"


@for_each(
    ("line", "given", "command", "said"),
    [
        (CUT_ARGUMENTS, True, (), "Complete launch command"),
        (CUT_ARGUMENTS, True, (Evidence("job.log", 1, "vllm serve org/tiny"),), ""),
        (WHOLE_ARGUMENTS, True, (), ""),
        (WHOLE_ARGUMENTS, False, (), "Launch command: keep"),
        # What a source line of a traceback gives is no list that could be cut.
        (None, True, (), ""),
    ],
)
def test_a_command_is_missed_where_its_line_is_cut_or_none_is_there(
    line: str | None, given: bool, command: tuple[Evidence, ...], said: str
) -> None:
    run = a_run(reported={"dtype": "auto"}, messages=(line,) if line else ())
    run.arguments, run.launched_by = {"port": 8081} if given else {}, command
    missed = [one for one in unknowns_of(run) if "aunch command" in one]
    assert len(missed) == bool(said)
    assert not said or missed[0].startswith(said)


def test_a_whole_log_with_a_load_misses_nothing() -> None:
    run = a_run(
        set={"max_model_len": 4096, "gpu_memory_utilization": 0.9},
        measured={"kv_cache_tokens": 85760, "available_kv_cache_gib": 5.24, "model_weights_gib": 7.4},
        messages=(
            (
                "Free memory on device (60.6/60.9 GiB) on startup. Desired GPU memory utilization is (0.86,"
                " 52.4 GiB). Actual usage: 27.5 GiB for weights, 0.26 GiB for peak activation, 0.18 GiB"
            ),
        ),
        samples=load((9, {"running": 8, "generation": 400.0})),
    )
    assert unknowns_of(run) == ()


def test_an_event_of_the_packs_comes_after_each_line_of_these_tests() -> None:
    assert event(unknown("VLLM_X")).fields["name"] == "VLLM_X"


@pytest.mark.parametrize(("hit", "reported"), [(0.0, False), (4.9, False), (72.0, True)])
def test_a_prefix_cache_that_is_not_hit_is_not_called_right(hit: float, reported: bool) -> None:
    samples = load((9, {"running": 3, "generation": 90.0, "prompt": 900.0, "hit": hit}))
    run = a_run(reported={"enable_prefix_caching": True}, samples=samples)
    assert ("prefix caching" in right(run)) is reported


def test_what_a_finding_is_about_and_what_crashed_is_not_called_right() -> None:
    parts = load((9, {"running": 64, "waiting": 40, "generation": 400.0, "kv": 22.0}))
    run = a_run(set={"max_num_seqs": 64}, reported={"async_scheduling": True}, samples=parts)
    assert right(run).keys() == {"asynchronous scheduling"}
    found = already_right(run, findings=tuple(advice(run).values()))
    assert [item.name for item in found] == ["asynchronous scheduling"]
    run.outcome = "crashed_while_serving"
    assert already_right(run) == ()


def test_weights_that_the_loader_skips_are_reported_with_their_number() -> None:
    lines = [
        f"Parameter visual.blocks.{block}.attn.proj.weight not found in params_dict, skip loading"
        for block in range(3)
    ]
    found = settings(a_run(messages=tuple(lines)))["weights-left-out"]
    assert "3 times" in found.explanation
    assert "visual.blocks.0.attn.proj.weight" in found.explanation
    assert "answers about images may be wrong" in found.explanation
    assert "weights-left-out" not in settings(a_run(messages=("Loading weights took 10.00 seconds",)))


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("visual.blocks.0.norm.bias", "visual.merger.weight"), "All 2 are of the vision encoder:"),
        (("mtp.layers.0.norm.weight", "mtp.fc.weight"), "All 2 are of `mtp`."),
        (("visual.merger.weight", "mtp.fc.weight"), "The first one is of the vision encoder:"),
    ],
)  # fmt: skip
def test_weights_that_the_loader_skips_are_ascribed_to_the_part_that_their_names_share(
    names: tuple[str, ...], said: str
) -> None:
    lines = [f"Parameter {name} not found in params_dict, skip loading" for name in names]
    assert said in settings(a_run(messages=tuple(lines)))["weights-left-out"].explanation


@pytest.mark.parametrize(("skipped", "whole"), [(2, True), (9, False)])
def test_all_skipped_weights_are_spoken_of_where_the_log_was_read_with_all_their_names(
    skipped: int, whole: bool
) -> None:
    lines = [
        f"Parameter visual.blocks.{one}.weight not found in params_dict, skip loading" for one in range(2)
    ]
    run = a_run(messages=tuple(lines))
    run.messages["weight-without-place-skipped"].count = skipped
    said = settings(run)["weights-left-out"].explanation
    assert (f"All {skipped} are of" in said) is whole
    assert ("The first ones and the last one are of" in said) is not whole


def test_a_format_that_the_card_does_not_compute_in_is_not_called_right() -> None:
    warned = (
        "Your GPU does not have native support for FP4 computation but FP4 quantization is being used."
        " Weight-only FP4 compression will be used leveraging the Marlin kernel."
    )
    run = a_run(set={"quantization": "compressed-tensors"}, messages=(warned,))
    assert "quantization" not in right(run)


@for_each(
    ("given", "engine", "said", "changed"),
    [
        ({"swap_space": 9}, "V1", "--swap-space has no effect in the V1 engine (the V1 engine preempts by", ["--swap-space"]),
        # Of several each has its own note; a flag that the release has not is not proposed to be dropped.
        (
            {"swap_space": 9, "num_scheduler_steps": 4},
            "V1",
            "--swap-space, --num-scheduler-steps have no effect in the V1 engine (--swap-space: the V1 engine preempts by",
            ["--swap-space"],
        ),
        ({"swap_space": 9}, "V0", None, []),
        ({}, "V1", None, []),
    ],
)  # fmt: skip
def test_arguments_of_the_old_engine_have_no_effect_in_the_new_one(
    given: dict[str, Any], engine: str, said: str | None, changed: list[str]
) -> None:
    found = settings(a_run(set=given, engine=engine, version="0.11.2")).get("argument-without-effect")
    assert (found is not None) is (said is not None)
    if found is not None:
        assert found.explanation.startswith(said or "")
        assert list(knobs(found)) == changed
        assert [one.line for one in found.evidence] == [2]
