"""Memory of a device and the laws of the cache, with figures that were measured elsewhere as examples."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rules.making import a_run, load
from vllm_logdoctor.knowledge.dtypes import kv_cache_bytes
from vllm_logdoctor.rules.capacity.card import device_of
from vllm_logdoctor.rules.capacity.ceiling import ceiling_of, prefill_ceiling_of
from vllm_logdoctor.rules.capacity.defaults import max_num_seqs_of
from vllm_logdoctor.rules.capacity.laws import LAWS, ChangedSetting
from vllm_logdoctor.rules.capacity.memory import device_total, memory_of, utilization_of
from vllm_logdoctor.rules.load import load_of
from vllm_logdoctor.run.model import Run

ON_H100 = (
    "Using default W8A8 Block FP8 kernel config. Performance might be sub-optimal! Config file not found"
    " at /opt/N=1536,K=4096,device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8.json"
)
MEASURED = {"kv_cache_tokens": 85_760, "available_kv_cache_gib": 5.24, "model_weights_gib": 15.39}


def card_of_24(**more: object) -> Run:
    return a_run(set={"gpu_memory_utilization": 0.88, "max_model_len": 32768}, measured=MEASURED, **more)  # type: ignore[arg-type]


def test_a_printed_size_of_the_device_is_taken_as_it_is() -> None:
    line = (
        "Free memory on device (60.6/60.9 GiB) on startup. Desired GPU memory utilization is (0.86, 52.4"
        " GiB). Actual usage: 27.5 GiB for weights, 0.26 GiB for peak activation, 0.18 GiB for non-torch"
        " memory"
    )
    found = device_total(a_run(messages=(line,)))
    assert found is not None
    assert found.gib == 60.9
    assert (found.low, found.high) == pytest.approx((60.89, 60.91))


def test_otherwise_the_usual_size_that_holds_weights_and_cache_is_taken_and_said_to_be_that() -> None:
    found = device_total(card_of_24())
    assert found is not None
    assert found.gib == pytest.approx(23.7)
    assert "the next usual size above" in found.basis


def test_the_usual_size_is_one_of_the_run_s_own_platform() -> None:
    """105 GiB of weights and cache fit a GB10 of 120 GiB; AMD sells no card between 64 and 192 GB."""
    large = {**MEASURED, "available_kv_cache_gib": 90.0}
    sizes = {
        platform: size.gib
        if (
            size := device_total(
                a_run(set={"gpu_memory_utilization": 0.9}, measured=large, platform=platform)
            )
        )
        else None
        for platform in ("cuda", "rocm", "xpu")
    }
    assert sizes == {"cuda": 119.6, "rocm": 191.9, "xpu": None}


def test_a_default_utilization_counts_only_where_all_arguments_are_printed() -> None:
    silent = a_run(default={"gpu_memory_utilization": 0.9}, measured=MEASURED)
    assert utilization_of(silent) is None
    complete = a_run(set={"port": 8000}, default={"gpu_memory_utilization": 0.9}, measured=MEASURED)
    assert utilization_of(complete) == 0.9


def test_requested_memory_tells_a_utilization_that_is_not_printed() -> None:
    line = "Initial free memory: 38.66 GiB, free memory: 31.04 GiB, requested GPU memory: 11.85 GiB"
    run = a_run(default={"gpu_memory_utilization": 0.9}, measured=MEASURED, messages=(line,))
    assert utilization_of(run) == pytest.approx(0.30)


@pytest.mark.parametrize(("free", "share"), [(39.39, 0.30), (39.4, 0.30), (39.41, 0.27)])
def test_requested_memory_is_a_share_of_the_smallest_size_that_holds_what_is_free(
    free: float, share: float
) -> None:
    line = f"Initial free memory: {free} GiB, free memory: 31.04 GiB, requested GPU memory: 11.85 GiB"
    assert utilization_of(a_run(measured=MEASURED, messages=(line,))) == pytest.approx(share)


def test_slots_that_the_device_decides_need_a_device_that_is_no_a100() -> None:
    small = a_run(set={"gpu_memory_utilization": 0.9}, measured=MEASURED, version="0.11.2")
    assert max_num_seqs_of(small) == 256
    assert max_num_seqs_of(a_run(set={"max_num_seqs": 32})) == 32


def answer(run: Run, name: str, value: object) -> float | str:
    memory = memory_of(run)
    assert memory is not None
    after = LAWS[name](memory, ChangedSetting(run, name, value))
    return after if isinstance(after, str) else after.tokens / memory.tokens


def test_utilization_moves_the_cache_by_the_device_times_the_difference() -> None:
    # 7.59 GiB at 0.3 became 11.54 GiB at 0.4 on a device of 39.5 GiB.
    line = "Initial free memory: 38.66 GiB, free memory: 31.0 GiB, requested GPU memory: 11.85 GiB"
    run = a_run(
        set={"gpu_memory_utilization": 0.3},
        measured={"kv_cache_tokens": 41424, "available_kv_cache_gib": 7.59, "model_weights_gib": 3.5},
        messages=(line,),
    )
    assert answer(run, "gpu_memory_utilization", 0.4) == pytest.approx(62992 / 41424, rel=0.003)


def test_more_than_was_free_is_refused() -> None:
    line = "Initial free memory: 20.0 GiB, free memory: 4.0 GiB, requested GPU memory: 11.85 GiB"
    run = a_run(
        set={"gpu_memory_utilization": 0.3},
        measured={"kv_cache_tokens": 41424, "available_kv_cache_gib": 7.59, "model_weights_gib": 3.5},
        messages=(line,),
    )
    assert "were free" in str(answer(run, "gpu_memory_utilization", 0.9))


def test_a_cache_whose_size_is_fixed_does_not_move_with_utilization() -> None:
    run = a_run(set={"gpu_memory_utilization": 0.9, "kv_cache_memory_bytes": 5 * 1024**3}, measured=MEASURED)
    assert answer(run, "gpu_memory_utilization", 0.95) == 1.0


def test_fp8_holds_exactly_twice_the_tokens() -> None:
    assert answer(a_run(set={"dtype": "bfloat16"}, measured=MEASURED), "kv_cache_dtype", "fp8") == 2.0


def test_a_latent_cache_gains_less_from_fp8() -> None:
    run = a_run(
        set={"dtype": "bfloat16"},
        measured=MEASURED,
        messages=("Using FLASHMLA attention backend out of potential backends: ['FLASHMLA'].",),
    )
    assert answer(run, "kv_cache_dtype", "fp8") == pytest.approx(2 * 576 / 656)


def test_two_ranks_hold_more_than_twice_the_tokens() -> None:
    # 15.31 GiB with 24.3 GiB of weights became 27.19 GiB a rank, 20,064 tokens became 71,264.
    run = a_run(
        set={"tensor_parallel_size": 1},
        measured={"kv_cache_tokens": 20064, "available_kv_cache_gib": 15.31, "model_weights_gib": 24.3},
    )
    assert answer(run, "tensor_parallel_size", 2) == pytest.approx(71264 / 20064, rel=0.02)


def test_ranks_that_hold_less_than_their_share_of_the_checkpoint_free_an_unknown_size() -> None:
    run = a_run(
        set={"tensor_parallel_size": 4},
        measured={"kv_cache_tokens": 20064, "available_kv_cache_gib": 15.31, "model_weights_gib": 61.2},
        messages=(
            "Filesystem type for checkpoints: EXT4. Checkpoint size: 404.92 GiB. Available RAM: 217.56 GiB.",
        ),
    )
    assert "less than its share of the checkpoint" in str(answer(run, "tensor_parallel_size", 8))


def test_fewer_ranks_than_the_weights_need_are_refused() -> None:
    run = a_run(set={"tensor_parallel_size": 4}, measured=MEASURED)
    assert "nothing is left" in str(answer(run, "tensor_parallel_size", 1))


def test_a_shorter_model_length_leaves_the_tokens_alone() -> None:
    assert answer(card_of_24(), "max_model_len", 8192) == 1.0


def test_blocks_are_counted_in_tokens() -> None:
    run = a_run(set={"block_size": 16}, measured={"kv_cache_tokens": 1600})
    assert answer(run, "num_gpu_blocks_override", 50) == pytest.approx(0.5)


@pytest.mark.parametrize("value", ["8G", "8Gi", 8 * 1024**3])
def test_bytes_for_the_cache_are_read_as_vllm_reads_them(value: object) -> None:
    assert answer(card_of_24(), "kv_cache_memory_bytes", value) == pytest.approx(8 / 5.24)


def test_the_size_of_graphs_that_were_never_captured_is_not_invented() -> None:
    run = a_run(set={"enforce_eager": True}, measured=MEASURED, version="0.23.0")
    assert "not known" in str(answer(run, "enforce_eager", False))


@given(st.floats(0.5, 0.99), st.floats(0.5, 0.99))
def test_more_utilization_never_means_fewer_tokens(first: float, second: float) -> None:
    low, high = sorted((round(first, 3), round(second, 3)))
    run = card_of_24()
    answers = [answer(run, "gpu_memory_utilization", value) for value in (low, high)]
    if all(isinstance(found, float) for found in answers):
        assert answers[0] <= answers[1]  # type: ignore[operator]


@given(
    st.sampled_from(sorted(LAWS)),
    st.one_of(st.integers(-5, 10**7), st.floats(), st.text(max_size=8), st.none(), st.booleans()),
)
def test_no_value_breaks_a_law_and_bounds_enclose_the_answer(name: str, value: object) -> None:
    run = card_of_24()
    memory = memory_of(run)
    assert memory is not None
    after = LAWS[name](memory, ChangedSetting(run, name, value))
    assert isinstance(after, str) or after.low <= after.tokens * 1.0001 + 1


def test_the_ceiling_needs_a_card_that_the_log_names() -> None:
    decode = load((9, {"running": 4, "generation": 120.0, "kv": 1.0}))
    assert ceiling_of(a_run(measured=MEASURED, samples=decode)) is None
    found = ceiling_of(a_run(measured=MEASURED, samples=decode, messages=(ON_H100,)))
    assert found is not None
    assert 0 < found.share < 1
    assert "3,350 GB/s" in found.formula


def test_the_arithmetic_of_the_card_bounds_prompts() -> None:
    """16-bit weights of 16 GB are 8 billion: 989 TFLOP/s make 61,800 tokens/s at two operations for each weight."""
    fast = load((9, {"running": 8, "prompt": 30_900.0}))
    run = a_run(measured={"model_weights_gib": 16e9 / 1024**3}, samples=fast, messages=(ON_H100,))
    found = prefill_ceiling_of(run, load_of(run))
    assert found is not None
    assert found.ceiling == pytest.approx(989e12 / (2 * 8e9))
    assert found.share == pytest.approx(0.5, rel=0.01)
    assert "989 TFLOP/s" in found.formula
    assert "8 billion weights" in found.formula


def test_a_card_of_an_unknown_variant_is_bounded_by_the_fastest_one() -> None:
    """An H100 has 756, 835 or 989 TFLOP/s and 2,000 to 3,900 GB/s: what is reached is a lower bound then."""
    samples = load(
        (9, {"running": 4, "generation": 120.0, "kv": 1.0}), (3, {"running": 8, "prompt": 30_900.0})
    )
    run = a_run(measured=MEASURED, samples=samples, messages=("#SBATCH --gres=gpu:h100:4",))
    decode, prefill = ceiling_of(run), prefill_ceiling_of(run, load_of(run))
    assert decode is not None
    assert "3,900 GB/s (H100 NVL" in decode.formula
    assert prefill is not None
    assert "989 TFLOP/s (H100 SXM" in prefill.formula
    assert "or more" in decode.of_limit
    assert "or more" in prefill.of_limit
    assert "or more" not in str(ceiling_of(a_run(measured=MEASURED, samples=samples, messages=(ON_H100,))))


def test_a_printed_memory_rules_variants_out() -> None:
    """A card of 79.2 GiB is no H100 NVL of 94."""
    lines = (
        "#SBATCH --gres=gpu:h100:4",
        "Free memory on device (78.6/79.2 GiB) on startup. Desired GPU memory utilization is (0.9, 71.3"
        " GiB). Actual usage: 27.5 GiB for weights, 0.26 GiB for peak activation, 0.18 GiB for non-torch memory",
    )
    samples = load((9, {"running": 4, "generation": 120.0, "kv": 1.0}))
    found = ceiling_of(a_run(measured=MEASURED, samples=samples, messages=lines))
    assert found is not None
    assert "3,350 GB/s (H100 SXM" in found.formula


@pytest.mark.parametrize(
    ("prompt", "settings", "weights"),
    [
        (300.0, {}, 14.9),
        (90_000.0, {}, 14.9),
        (30_900.0, {"pipeline_parallel_size": 2}, 14.9),
        (30_900.0, {}, None),
    ],
    ids=["few-prompts", "faster-than-the-card", "stages", "weights-unknown"],
)
def test_prompts_that_say_nothing_of_the_card_have_no_bound(
    prompt: float, settings: dict[str, Any], weights: float | None
) -> None:
    samples = load((9, {"running": 8, "prompt": prompt}))
    measured = {"model_weights_gib": weights} if weights else {}
    run = a_run(set=settings, measured=measured, samples=samples, messages=(ON_H100,))
    assert prefill_ceiling_of(run, load_of(run)) is None


@pytest.mark.parametrize(
    ("figures", "settings"),
    [
        ({"running": 4, "generation": 9000.0, "kv": 1.0}, {}),
        ({"running": 4, "generation": 120.0, "kv": 1.0}, {"pipeline_parallel_size": 2}),
    ],
    ids=["faster-than-all-weights-are-read", "stages"],
)
def test_where_a_step_does_not_read_all_weights_there_is_no_ceiling(
    figures: dict[str, Any], settings: dict[str, Any]
) -> None:
    run = a_run(set=settings, measured=MEASURED, samples=load((9, figures)), messages=(ON_H100,))
    assert ceiling_of(run) is None


def test_experts_and_drafts_have_no_ceiling() -> None:
    decode = load((9, {"running": 4, "generation": 120.0, "kv": 1.0}))
    drafts = a_run(
        set={"speculative_config": {"method": "ngram"}},
        measured=MEASURED,
        samples=decode,
        messages=(ON_H100,),
    )
    assert ceiling_of(drafts) is None
    kernels = (
        "Using default MoE config. Performance might be sub-optimal! Config file not found at"
        " /opt/configs/E=256,N=768,device_name=AMD_Instinct_MI300X,dtype=fp8_w8a8.json"
    )
    assert ceiling_of(a_run(measured=MEASURED, samples=decode, messages=(kernels,))) is None


def test_a_cache_shared_by_kinds_of_layers_holds_what_the_engine_prints_as_requests() -> None:
    """gpt-oss-120b: 2,269,888 tokens are printed, and 32.56 requests of 131,072 fit: 4.27 million tokens, not 2.27."""
    run = a_run(
        set={"max_model_len": 131_072},
        measured={"kv_cache_tokens": 2_269_888, "max_concurrency": 32.56, "available_kv_cache_gib": 77.93},
    )
    memory = memory_of(run)
    assert memory is not None
    assert memory.hybrid
    assert memory.held == pytest.approx(32.56 * 131_072)
    uniform = memory_of(card_of_24())
    assert uniform is not None
    assert uniform.held == uniform.tokens == 85_760


def test_bytes_of_a_latent_token_are_656_for_576_elements() -> None:
    """fp8_ds_mla: 512 fp8 elements, 4 scales of 4 bytes, 64 rotary elements of 2 bytes: 512 + 16 + 128 bytes."""
    found = kv_cache_bytes("fp8_ds_mla")
    assert found is not None
    assert found.exact is not None
    assert found.exact * 576 == 512 + 4 * 4 + 64 * 2


def test_ranks_of_a_latent_cache_share_the_weights_and_not_the_cache() -> None:
    """Twice the ranks free half of 15.39 GiB less 0.2 for buffers; each rank still keeps all of a token's latent."""
    run = a_run(
        set={"dtype": "bfloat16"},
        measured=MEASURED,
        messages=("Using FLASHMLA attention backend out of potential backends: ['FLASHMLA'].",),
    )
    memory = memory_of(run)
    assert memory is not None
    shared = LAWS["tensor_parallel_size"](memory, ChangedSetting(run, "tensor_parallel_size", 2))
    assert not isinstance(shared, str)
    assert shared.weights == pytest.approx(15.39 / 2)
    assert shared.tokens / memory.tokens == pytest.approx((5.24 + 15.39 / 2 - 0.2) / 5.24)


@pytest.mark.parametrize(
    ("total", "platform", "card"),
    [
        (139.8, "cuda", "H200 SXM by its 139.8 GiB"),
        (79.2, "cuda", None),
        (191.5, "rocm", "MI300X by its 191.5 GiB"),
    ],
    ids=["one card", "H100 or A100", "AMD"],
)
def test_a_printed_memory_names_the_card_that_alone_has_it(
    total: float, platform: str, card: str | None
) -> None:
    line = (
        f"Free memory on device ({total - 1:g}/{total:g} GiB) on startup. Desired GPU memory utilization is (0.86, 52.4"
        " GiB). Actual usage: 27.5 GiB for weights, 0.26 GiB for peak activation, 0.18 GiB for non-torch memory"
    )
    found = device_of(a_run(messages=(line,), platform=platform))
    assert (found.name if found else None) == card


def test_a_default_above_the_batches_of_the_engines_full_graphs_is_not_its_own() -> None:
    """On GB10 the driver does not tell the memory: vLLM takes the default of small cards."""
    line = "Profiling CUDA graph memory: PIECEWISE=51 (largest=512), FULL={}"
    card = "Using default MoE config. Performance might be sub-optimal! Config file not found at /v/configs/E=128,N=704,device_name=NVIDIA_GB10.json"
    large = {**MEASURED, "available_kv_cache_gib": 90.0}
    found = {
        full: max_num_seqs_of(
            a_run(
                set={"gpu_memory_utilization": 0.9},
                measured=large,
                messages=(line.format(full), card),
                version="0.20.0",
            )
        )
        for full in ("35 (largest=256)", "51 (largest=512)")
    }
    assert found == {"35 (largest=256)": 256, "51 (largest=512)": 1024}
