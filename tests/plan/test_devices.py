"""What a script of a launch asks a batch system, compose and Kubernetes for, by platform and cards."""

from __future__ import annotations

from tests.tables import for_each
from vllm_logdoctor.plan.devices import compose_devices, gpus, image, kubernetes_resources, notes, processors
from vllm_logdoctor.plan.launch import Launch


def launch(platform: str | None, cards: int = 4, version: str | None = None) -> Launch:
    return Launch("org/m", {}, {}, version, cards, platform)


@for_each(
    ("platform", "version", "name"),
    [
        ("cuda", "0.11.2", "vllm/vllm-openai:v0.11.2"), (None, "0.11.2", "vllm/vllm-openai:v0.11.2"), ("cuda", "0.9.0.post1", "vllm/vllm-openai:v0.9.0.post1"),
        ("cuda", "0.11.2.dev7+g1", "vllm/vllm-openai:latest"), ("cuda", None, "vllm/vllm-openai:latest"),
        ("rocm", "0.11.2", "vllm-rocm:v0.11.2  # put in the image that you use: the log does not name it"),
        ("cpu", None, "vllm-cpu:latest  # put in the image that you use: the log does not name it"),
    ],
)  # fmt: skip
def test_the_image_is_that_of_the_release_where_its_name_is_known(platform: str | None, version: str | None, name: str) -> None:  # fmt: skip
    assert image(launch(platform, version=version)) == name


@for_each(
    ("platform", "asked"),
    [("cuda", 4), (None, 4), ("rocm", 4), ("cpu", 0), ("tpu", 0)],
)
def test_a_batch_system_counts_gpus_alone(platform: str | None, asked: int) -> None:
    assert gpus(launch(platform)) == asked
    assert processors(launch(platform)) == 12


def test_each_container_gets_the_cards_in_the_words_of_its_platform() -> None:
    assert "              count: 4" in compose_devices(launch("cuda"))
    assert compose_devices(launch(None)) == compose_devices(launch("cuda"))
    assert "      - /dev/kfd" in compose_devices(launch("rocm"))
    assert compose_devices(launch("cpu")) == []
    assert compose_devices(launch("tpu")) == ["    # TPU: add its devices here"]
    assert kubernetes_resources(launch("cuda"))[-1] == "      nvidia.com/gpu: 4"
    assert kubernetes_resources(launch("rocm"))[-1] == "      amd.com/gpu: 4"
    assert kubernetes_resources(launch("cpu")) == ["  resources:", "    requests:", "      cpu: 12"]


def test_what_a_script_can_not_know_is_a_note() -> None:
    assert notes(launch("cuda", 8)) == []
    (several,) = notes(launch("cuda", 9))
    assert several.startswith("# 9 cards: where no node has so many")
    (cores,) = notes(launch("cpu", 1))
    assert "ask for all of one socket" in cores
    assert notes(launch("tpu", 4)) == ["# 4 TPU devices: ask for them in your site's words"]
