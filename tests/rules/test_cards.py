"""The card of a run is known from what the job lists or asks for; compile targets tell its generation and no more."""

from __future__ import annotations

import pytest

from tests.rules.making import ENGINE, LOADED, PLATFORM
from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.report.model import Diagnosis
from vllm_logdoctor.rules.capacity.card import device_of, job_card
from vllm_logdoctor.rules.capacity.fp8 import Capability, capability_of
from vllm_logdoctor.source import inputs_from

START = (PLATFORM, ENGINE, *LOADED, "INFO:     Application startup complete.")
FREE = (
    "INFO 03-02 10:00:41 [gpu_worker.py:356] Free memory on device (38.9/39.39 GiB) on startup. Desired GPU memory utilization is (0.9, 35.45 GiB). Actual usage: "
    "6.2 GiB for weights, 0.32 GiB for peak activation, 0.05 GiB for non-torch memory, and 0.2 GiB for CUDAGraph memory."
)


def diagnosis(*before: str, after: tuple[str, ...] = ()) -> Diagnosis:
    return analyse(inputs_from("\n".join([*before, *START, *after]).encode()), Options()).runs[0]


@pytest.mark.parametrize(
    ("line", "card", "capability"),
    [
        ("#SBATCH --gres=gpu:l40s:4", "L40S by the job's request", "8.9"),
        ("srun --gres=gpu:nvidia_h100_80gb_hbm3:4 vllm serve", "H100 SXM by the job's request", "9.0"),
        ("   TresPerNode=gres/gpu:h100:4", "H100 (any) by the job's request", "9.0"),
        (
            "#PBS -l select=1:ncpus=32:ngpus=4:accelerator_model=A100",
            "A100 (any) by the job's request",
            "8.0",
        ),
        ("    nvidia.com/gpu.product: NVIDIA-L40S", "L40S by the job's request", "8.9"),
    ],
    ids=["slurm-script", "slurm-long-name", "scontrol", "pbs", "kubernetes"],
)
def test_the_card_that_a_job_asks_for_is_known_and_said_to_be_asked_for(
    line: str, card: str, capability: str
) -> None:
    found = device_of(diagnosis(line).run)
    assert found is not None
    assert (found.name, found.capability) == (card, capability)


def test_a_request_without_a_kind_names_no_card() -> None:
    run = diagnosis("#SBATCH --gres=gpu:4").run
    assert job_card(run) is None
    assert device_of(run) is None


def test_two_kinds_in_one_log_name_none() -> None:
    assert device_of(diagnosis("#SBATCH --gres=gpu:h100:4", "#SBATCH --gres=gpu:a100:4").run) is None


def test_what_nvidia_smi_lists_goes_before_what_was_asked_for() -> None:
    listed = diagnosis("#SBATCH --gres=gpu:a100:1", "0, NVIDIA L40S, 46068 MiB, 535.86.10").run
    found = device_of(listed)
    assert found is not None
    assert found.name == "L40S"


def test_a_printed_memory_of_another_size_voids_the_request() -> None:
    """A site that calls a slice of 39 GiB by the name of its card."""
    run = diagnosis("#SBATCH --gres=gpu:nvidia_h100_80gb_hbm3:1", after=(FREE,)).run
    assert device_of(run) is None


@pytest.mark.parametrize(
    "line",
    [
        "[1/9] /usr/local/cuda/bin/nvcc -DPy_LIMITED_API -gencode=arch=compute_90a,code=sm_90a -c /x/norm.cu",
        "export TORCH_CUDA_ARCH_LIST=9.0a",
    ],
    ids=["kernels-compiled-at-the-start", "variable"],
)
def test_compile_targets_tell_the_generation_and_no_card(line: str) -> None:
    run = diagnosis(line).run
    assert device_of(run) is None
    assert capability_of(run) == Capability(9.0, 9.0)


@pytest.mark.parametrize("targets", ["8.0;9.0", "8.6+PTX"])
def test_targets_for_several_generations_tell_none(targets: str) -> None:
    assert capability_of(diagnosis(f"export TORCH_CUDA_ARCH_LIST={targets}").run) == Capability()


def idle(found: Diagnosis) -> str:
    return next((one.explanation for one in found.findings if one.id == "idle-cards"), "")


def test_cards_that_the_job_asks_for_and_the_engine_leaves_are_idle() -> None:
    found = diagnosis("#SBATCH --gres=gpu:h100:4")
    assert "The job asks for 4 cards, and the engine uses 1." in idle(found)
    (change,) = (item.change for item in found.plan.changes if "idle-cards" in item.findings)
    assert change.knob == "ask for 1 card in the job: the engine uses no more", (
        "no load was logged to speak of"
    )


def test_cards_of_a_shared_node_that_the_job_did_not_ask_for_are_not_idle() -> None:
    others = [f"{number}, NVIDIA H100, 65247 MiB, 535.86.10" for number in range(4)]
    assert not idle(diagnosis("#SBATCH --gres=gpu:h100:1", *others))
    assert idle(diagnosis(*others))
