"""Places of a traceback in words: which file and function, whose code, called by what, for which kind of requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.rules.making import record
from tests.tables import for_each
from vllm_logdoctor.run.blocks import Frame, Raised
from vllm_logdoctor.run.places import (
    caller_of,
    check_at,
    component_of,
    file_and_function,
    kind_of_request,
    raised_at,
    raised_in,
)

SITE = "/opt/env/lib/python3.12/site-packages"
CORE = f"{SITE}/vllm/v1/engine/core.py"
RUNNER = f"{SITE}/vllm/v1/worker/runner.py"
WRAPPER = f"{SITE}/vllm/compilation/wrapper.py"
TORCH = f"{SITE}/torch/nn/functional.py"
PACKAGE = f"{SITE}/gears/turn.py"
PYTHON = "/usr/lib/python3.12/json/decoder.py"
PROGRAM = "/home/app/serve.py"


def frame(file: str, function: str = "step", code: str = "go()") -> Frame:
    return Frame(file, 7, function, code, record("x"))


@for_each(
    ("file", "function", "words"),
    [
        (CORE, "step", "core.py, step"),
        (CORE, "", "core.py"),
        (f"{SITE}/vllm/envs/__init__.py", "get", "envs/__init__.py, get"),
        (f"{SITE}/vllm/models/utils.py", "get", "models/utils.py, get"),
    ],
)
def test_a_file_is_named_with_its_folder_where_many_have_its_name(
    file: str, function: str, words: str
) -> None:
    assert file_and_function(file, function) == words


MODEL = f"{SITE}/vllm/model_executor/models/llama.py"
INNER = f"{SITE}/vllm/model_executor/models/clip.py"
NO_MODEL = f"{SITE}/vllm/model_executor/models/utils.py"


@for_each(
    ("place", "frames", "words"),
    [
        (CORE, (), "core.py, step"),
        (CORE, (MODEL, CORE), "core.py, step (model llama)"),
        # The outermost one is the model that was loaded.
        (CORE, (MODEL, INNER, CORE), "core.py, step (model llama)"),
        (INNER, (MODEL, INNER), "clip.py, step (model llama)"),
        (MODEL, (MODEL,), "llama.py, step"),
        (CORE, (NO_MODEL, CORE), "core.py, step"),
        (f"{SITE}/vllm_ascend/worker.py", (), "worker.py, step (vllm_ascend)"),
        (f"{SITE}/vllm_ascend/worker.py", (MODEL,), "worker.py, step (vllm_ascend, model llama)"),
        (PACKAGE, (), "turn.py, step"),
    ],
)
def test_a_place_is_told_with_the_model_that_led_there(
    place: str, frames: tuple[str, ...], words: str
) -> None:
    assert component_of(frame(place), [frame(one) for one in frames]) == words


@for_each(
    ("frames", "kind"),
    [
        ([frame(CORE)], ""),
        ([frame(f"{SITE}/vllm/audio.py")], "audio"),
        ([frame(CORE, "whisper_step")], "audio"),
        ([frame(CORE, code="read(video)")], "video"),
        ([frame(CORE, code="read(imgs)")], "images"),
        ([frame(CORE, code="read(imgsize)")], ""),
        ([frame(f"{SITE}/vllm/models/siglip.py")], "images or video"),
        ([frame(f"{SITE}/vllm/multimodal/parse.py")], "images, audio or video"),
        ([frame(f"{SITE}/vllm/lora/layers.py")], "LoRA adapters"),
        ([frame(f"{SITE}/vllm/v1/structured_output/a.py")], "structured output"),
        # The four innermost places tell.
        ([frame(f"{SITE}/vllm/lora/layers.py"), *[frame(CORE)] * 3], "LoRA adapters"),
        ([frame(f"{SITE}/vllm/lora/layers.py"), *[frame(CORE)] * 4], ""),
    ],
)
def test_the_code_tells_the_kind_of_requests(frames: list[Frame], kind: str) -> None:
    assert kind_of_request(frames) == kind


def test_a_place_is_called_from_the_nearest_other_file_of_vllm() -> None:
    outer, near, wrapper, place = frame(CORE), frame(RUNNER, "load"), frame(WRAPPER), frame(PACKAGE)
    own = frame(PACKAGE, "inner")
    assert caller_of(place, [outer, near, place]) is near
    assert caller_of(place, [outer, near, own, place]) is near
    assert caller_of(place, [outer, near, wrapper, place]) is near
    assert caller_of(place, [near, frame(PROGRAM), place]) is None
    assert caller_of(place, [place, near]) is None
    assert caller_of(frame(PACKAGE), [near, place]) is None


@for_each(
    ("file", "at", "check"),
    [
        (CORE, "Raised in a.py, b", "a.py, b"),
        (TORCH, "Raised by torch, called from a.py, b", "torch (called from a.py, b)"),
        (PYTHON, "Raised by Python's standard library, called from a.py, b", "Python's standard library (called from a.py, b)"),
        ("/home/serve.py", None, None),
    ],
)  # fmt: skip
def test_who_raised_an_exception(file: str, at: str | None, check: str | None) -> None:
    if at is not None:
        assert raised_at(frame(file), "a.py, b") == at
        assert check_at(frame(file), "a.py, b") == check
    else:
        assert raised_at(frame(file), "a.py, b").startswith("Raised by ")


def said(place: Frame, *inner: Frame, name: str = "ValueError", **more: Any) -> str:
    frames = (*more.pop("outer", ()), place, *inner)
    raised = Raised(name, f"{name}: odd", "", frames, record("x"), "first")
    given = {"owner": "", "phase": "", "caller": None, "feature": "", "in_title": False, **more}
    return raised_in(place, raised=raised, **given)


PLACE = frame(CORE)
CALLER = frame(RUNNER, "load")
TURN = frame(PACKAGE, "turn")


@for_each(
    ("found", "words"),
    [
        (lambda: said(PLACE), "Raised in core.py, step"),
        (lambda: said(PLACE, phase="while the model was loaded"), "Raised in core.py, step, while the model was loaded"),
        (lambda: said(PLACE, owner="vLLM"), "Raised in core.py, step (vLLM)"),
        (lambda: said(PLACE, in_title=True), ""),
        (lambda: said(PLACE, in_title=True, phase="during start-up"), "Raised during start-up"),
        (lambda: said(PLACE, in_title=True, feature="LoRA"), "Raised in the code of LoRA"),
        (lambda: said(PLACE, in_title=True, feature="LoRA", phase="during start-up"), "Raised in the code of LoRA, during start-up"),
        (lambda: said(PLACE, caller=CALLER), "Raised in core.py, step, called from runner.py, load"),
        (lambda: said(PLACE, caller=CALLER, in_title=True), "Called from runner.py, load"),
        (lambda: said(PLACE, caller=PLACE), "Raised in core.py, step"),
        (lambda: said(TURN, caller=CALLER, owner="gears"), "Raised by gears (turn.py, turn), called from runner.py, load of vLLM"),
        (lambda: said(TURN, caller=frame(PROGRAM, "main"), owner="gears"), "Raised by gears (turn.py, turn), called from serve.py, main"),
        (lambda: said(TURN, caller=CALLER), "Raised in turn.py, turn, called from runner.py, load"),
        (lambda: said(PLACE, frame(TORCH)), "Raised by torch, called from core.py, step"),
        (lambda: said(PLACE, frame(PYTHON), owner="vLLM"), "Raised by Python's standard library, called from core.py, step (vLLM)"),
        (lambda: said(PLACE, TURN), "Raised in core.py, step"),
        (lambda: said(PLACE, frame(CORE, "again"), name="RecursionError"), "Endless calls through core.py, step"),
        (lambda: said(PLACE, name="RecursionError"), "Raised in core.py, step"),
        (lambda: said(frame("<string>", "handle")), "Raised in handle"),
        # A long sentence leaves out who called.
        (lambda: said(PLACE, caller=CALLER, phase="x" * 99), f"Raised in core.py, step, called from runner.py, load, {'x' * 99}"),
        (lambda: said(PLACE, caller=CALLER, phase="x" * 100), f"Raised in core.py, step, {'x' * 100}"),
    ],
)  # fmt: skip
def test_where_and_when_an_exception_was_raised(found: Callable[[], str], words: str) -> None:
    assert found() == words
