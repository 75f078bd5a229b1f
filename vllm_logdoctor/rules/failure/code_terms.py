"""What the frames of an error in vLLM's code show: the feature that led there, and whose build of vLLM it is."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from vllm_logdoctor.knowledge.flags import flag_exists
from vllm_logdoctor.knowledge.versions import at_least
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.release_terms import has_left_vllm, options_of_fork, release_of
from vllm_logdoctor.run.blockphase import BlockPhase
from vllm_logdoctor.run.blocks import Frame, Raised
from vllm_logdoctor.run.model import Run
from vllm_logdoctor.run.owners import VLLM, owner_of, plugin_of
from vllm_logdoctor.run.places import file_name

_NEAR = 4
"""Frames of the innermost ones: layers of adapters are around every layer, those that failed are near."""


class Feature(Struct, frozen=True):
    """A feature of vLLM that a start can do without.

    Attributes:
        name: as users call it.
        places: known by a file and function of its code.
        step: how to start without it.
        near: only among the innermost frames.
        flag: what the page of the rule changes in releases that have it, so that no step is needed.
    """

    name: str
    places: re.Pattern[str]
    step: str
    near: bool = False
    flag: str = ""


# vllm/spec_decode/batch_expansion.py:score_proposals      vllm/v1/worker/gpu_model_runner.py:propose_draft_token_ids
_FEATURES = (
    Feature(
        "speculative decoding",
        lazy_pattern(r"spec_decode/|propose_draft|_proposer\.py|/models/\w+_mtp\.py|/models/medusa\.py"),
        "Start without speculative decoding: the traceback passes through its code.",
        flag="--speculative-config",
    ),
    Feature(
        "the KV connector",
        lazy_pattern(r"kv_connector|kv_transfer|kv_offload"),
        "Start without `--kv-transfer-config`: the error was raised by the code of the KV connector.",
    ),
    Feature(
        "Ray's SPMD workers",
        lazy_pattern(r":_?execute_model_spmd$"),
        "Start without the variables `VLLM_USE_RAY_SPMD_WORKER` and `VLLM_USE_RAY_COMPILED_DAG`: they switch on the code that raised the error.",
    ),
    Feature(
        "LoRA",
        lazy_pattern(r"/lora/"),
        "Start without `--enable-lora`: the error was raised by the code of LoRA adapters.",
        near=True,
    ),
)
_WITHOUT_GRAPHS = "Start with `--enforce-eager`: the error was raised while CUDA graphs were captured."
# vllm/compilation/decorators.py, line 245, in __call__: model_output = self.forward(*args, **kwargs)
_COMPILED = lazy_pattern(r"/vllm/compilation/decorators\.py$")
_NOT_COMPILED = "return self.forward("
_WITHOUT_COMPILE = (
    "Start without torch.compile (`-O0`, or without `--compilation-config`): its code raised the error. In engine V0"
    " `--enforce-eager` leaves it on."
)
_DEMO_SERVER = lazy_pattern(r"/vllm/entrypoints/api_server\.py$")
_OTHER_SERVER = "Start the OpenAI-compatible server instead (`vllm serve`): vllm.entrypoints.api_server is a demonstration."
_V1 = lazy_pattern(r"/vllm/v1/")
_UNSET_V1 = (
    "Start without `VLLM_USE_V1`: this release runs the V0 engine then, and V1's code raised the error."
)
_WITHOUT_V1 = "Try the V0 engine (`VLLM_USE_V1=0`): V1's code raised the error."
_LAST_WITH_BOTH_ENGINES = "0.10.0"
_FIRST_WITH_V1_ON = "0.8.0"
# /src/vllm/vllm/v1/engine/core.py      ~/vllm-main/vllm/worker/worker.py      (images of vLLM have its own tree in /workspace/vllm)
_SOURCE_TREE = lazy_pattern(
    r"^(?P<tree>(?!.*-packages/|/(?:workspace|vllm-workspace|app)/vllm/vllm/)[/~](?:[^/]*/)*[^/]*vllm[^/]*)/vllm/"
)
# Parts of V0 that no release with V1 alone has: vllm/worker/model_runner.py, vllm/core/scheduler.py
_OF_V0 = lazy_pattern(r"/vllm/(?:worker|core|spec_decode)/")
_FIRST_WITHOUT_V0 = "0.11.0"
_NEWER = "Use a newer release: this code may have changed."
_SEARCH = "Search the issues of vLLM for {error} and {place}: an answer there may name the release that has the fix."


def feature_of(frames: Sequence[Frame]) -> Feature | None:
    """Return the feature whose code led to an error, or None."""
    return next(
        (
            one
            for one in _FEATURES
            if any(
                one.places.search(f"{frame.file}:{frame.function}")
                for frame in frames[-_NEAR if one.near else 0 :]
                if owner_of(frame.file).startswith(VLLM)
            )
        ),
        None,
    )


def steps_around(frames: Sequence[Frame], phase: BlockPhase | str, run: Run) -> tuple[str, ...]:
    """Return what a start can do without to get around an error in vLLM's code."""
    feature = feature_of(frames)
    own = [one.file for one in frames if owner_of(one.file).startswith(VLLM)]
    if feature is not None:
        changed = feature.flag and flag_exists(feature.flag, release_of(run)) is not False
        return () if changed else (feature.step,)
    if phase == "graph-capture":
        return (_WITHOUT_COMPILE if _is_compiled_in_v0(frames) else _WITHOUT_GRAPHS,)
    if own and _DEMO_SERVER.search(own[-1]):
        return (_OTHER_SERVER,)
    release = release_of(run) if run.version is not None else None
    # The engines share the rest of the code: models, multimodal processing, kernels.
    if not own or not _V1.search(own[-1]):
        return ()
    if run.engine == "V1" and at_least(release, _FIRST_WITH_V1_ON) is False:
        return (_UNSET_V1,)
    if run.may_have_several_engines:
        return ()  # Servers with data parallelism are V1's.
    return (_WITHOUT_V1,) if at_least(release, _LAST_WITH_BOTH_ENGINES) is False else ()


def _is_compiled_in_v0(frames: Sequence[Frame]) -> bool:
    """Return whether torch.compile's code raised an error in the V0 engine, which compiles whatever `--enforce-eager` says."""
    compiled = any(_COMPILED.search(one.file) and not one.code.startswith(_NOT_COMPILED) for one in frames)
    return compiled and any(_OF_V0.search(one.file) for one in frames)


def step_of_build(frames: Sequence[Frame], raised: Raised, run: Run) -> str:
    """Return which other build of vLLM may not have an error of its code."""
    if options_of_fork(run):
        return _NEWER
    own = [one.file for one in frames if owner_of(one.file).startswith(VLLM)]
    if plugin := plugin_of(frames):
        name = plugin.replace("_", "-")
        return f"Use the release of vLLM that the documentation of {name} names for the installed {name}: its code called this one."
    if has_left_vllm(run):
        return _NEWER
    tree = _SOURCE_TREE.search(own[-1]) if own else None
    if tree is not None:
        return f"Start once with a release of vLLM instead of the source tree `{tree['tree']}`, whose code failed."
    if own and _OF_V0.search(own[-1]):
        return f"Use {_FIRST_WITHOUT_V0} or newer: the V0 engine, whose code failed, is gone there."
    if release_of(run) is None:
        place = f"`{file_name(own[-1])}`" if own else "the name of the function"
        return _SEARCH.format(error=f"`{raised.inner or raised.name}`", place=place)
    return _NEWER
