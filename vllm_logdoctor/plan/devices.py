"""What a launch asks a scheduler for: cards by platform, cores, the image that holds vLLM."""

from __future__ import annotations

import re

from vllm_logdoctor.plan.launch import Launch

IMAGE = "vllm/vllm-openai"
# Names of the device plugins; where clusters differ there is none.
_KUBERNETES = {
    "cuda": "nvidia.com/gpu", "rocm": "amd.com/gpu", "hpu": "habana.ai/gaudi", "tpu": "google.com/tpu",
}  # fmt: skip
# Schedulers count cards of these platforms as GPUs.
_GPUS = ("cuda", "rocm")
CARDS_OF_A_NODE = 8


def launch_platform(launch: Launch) -> str:
    """Return the platform; a log that does not tell one is taken for one of CUDA, as nearly all are."""
    return launch.platform or "cuda"


def gpus(launch: Launch) -> int:
    """Return the number of GPUs to ask a batch system for; 0 where the run takes none that it would count."""
    return launch.cards if launch_platform(launch) in _GPUS else 0


def processors(launch: Launch) -> int:
    """Return cores: one for the API server, the engine and each worker, doubled for what they start."""
    return 2 * (2 + launch.cards)


def notes(launch: Launch) -> list[str]:
    """Return what a job script can't know, as comments."""
    platform = launch_platform(launch)
    found = []
    if platform == "cpu":
        found.append("# the CPU backend computes on these cores: ask for all of one socket")
    elif platform not in _GPUS:
        found.append(f"# {launch.cards} {platform.upper()} devices: ask for them in your site's words")
    if launch.cards > CARDS_OF_A_NODE:
        found.append(
            f"# {launch.cards} cards: where no node has so many, ask for several and start Ray on them first"
        )
    return found


def compose_devices(launch: Launch) -> list[str]:
    """Return the lines of a compose service that hand the cards in."""
    platform = launch_platform(launch)
    if platform == "rocm":
        return ["    devices:", "      - /dev/kfd", "      - /dev/dri", "    group_add:", "      - video"]
    if platform != "cuda":
        return [] if platform == "cpu" else [f"    # {platform.upper()}: add its devices here"]
    return [
        "    deploy:",
        "      resources:",
        "        reservations:",
        "          devices:",
        "            - driver: nvidia",
        f"              count: {launch.cards}",
        "              capabilities: [gpu]",
    ]


def kubernetes_resources(launch: Launch) -> list[str]:
    """Return the lines of a container's resources."""
    platform = launch_platform(launch)
    name = _KUBERNETES.get(platform)
    if name is not None:
        return ["  resources:", "    limits:", f"      {name}: {launch.cards}"]
    if platform == "cpu":
        return ["  resources:", "    requests:", f"      cpu: {processors(launch)}"]
    return [f"  # {platform.upper()}: add its resource as your cluster's device plugin calls it"]


def image(launch: Launch) -> str:
    """Return the image of the release; only that for CUDA has one name over all releases."""
    release = re.fullmatch(r"\d+(?:\.\d+)+(?:\.post\d+)?", launch.version or "")
    tag = f"v{launch.version}" if release else "latest"
    platform = launch_platform(launch)
    if platform == "cuda":
        return f"{IMAGE}:{tag}"
    return f"vllm-{platform}:{tag}  # put in the image that you use: the log does not name it"
