"""Words for places of a traceback: where an exception was raised, in code of which model, for which kind of requests."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.run.blocks import Frame, Raised
from vllm_logdoctor.run.owners import PYTHON, TENSOR_LIBRARIES, VLLM, owner_of

# /opt/vllm/model_executor/models/phi3_small.py
_MODEL = lazy_pattern(r"/model_executor/models/(?!utils\.py|interfaces)(?P<model>\w+)\.py$")


def component_of(place: Frame, frames: Sequence[Frame]) -> str:
    """Return a place as titles name it: file and function, whose package it is where not vLLM's, and the model that led there."""
    base = file_name(place.file)
    found = [match["model"] for one in frames if (match := _MODEL.search(one.file))]
    owner = owner_of(place.file)
    of_others = owner if owner.startswith(VLLM) and owner != VLLM else ""
    # The outermost one is the model that was loaded; it may be built around another one.
    model = f"model {found[0]}" if found and f"{found[0]}.py" != base else ""
    more = ", ".join(filter(None, (of_others, model)))
    return file_and_function(place.file, place.function) + (f" ({more})" if more else "")


_KINDS = (
    (lazy_pattern(r"audio|whisper|speech"), "audio"),
    (lazy_pattern(r"video"), "video"),
    (lazy_pattern(r"[/_]image|\b(?:sub_)?imgs?\b"), "images"),
    (lazy_pattern(r"vision|siglip|/clip\.py"), "images or video"),
    (lazy_pattern(r"multimodal"), "images, audio or video"),
    (lazy_pattern(r"/lora/"), "LoRA adapters"),
    (lazy_pattern(r"guided_decoding|structured_output|xgrammar|outlines"), "structured output"),
)
_NEAR = 4


def kind_of_request(frames: Sequence[Frame]) -> str:
    """Return the kind of requests whose code the innermost frames are, or ""."""
    places = " ".join(f"{one.file}:{one.function} {one.code}" for one in frames[-_NEAR:])
    return next((kind for expression, kind in _KINDS if expression.search(places)), "")


def file_name(file: str) -> str:
    """Return the name of a file without its folders; with its own where many folders have one of the name.

    >>> file_name("/opt/vllm/v1/structured_output/__init__.py"), file_name("C:/vllm/utils.py"), file_name("vllm/envs.py")
    ('structured_output/__init__.py', 'vllm/utils.py', 'envs.py')
    """
    folders = file.split("/")
    return "/".join(folders[-2:] if folders[-1] in ("__init__.py", "utils.py") else folders[-1:])


def file_and_function(file: str, function: str) -> str:
    """Return the name of a file without its folders, and a function where there is one.

    A file that every package has is named with its folder.

    >>> file_and_function("/opt/vllm/v1/structured_output/__init__.py", "grammar_init")
    'structured_output/__init__.py, grammar_init'
    """
    return f"{file_name(file)}, {function}".rstrip(", ")


def caller_of(place: Frame, frames: Sequence[Frame]) -> Frame | None:
    """Return the frame of vLLM in the nearest other file that called a place, or None: the wrapper of compiled models calls nothing itself."""
    outer = frames[: next((n for n, one in enumerate(frames) if one is place), 0)]
    others = (one for one in reversed(outer) if one.file != place.file and "/compilation/" not in one.file)
    found = next(others, None)
    return found if found is not None and owner_of(found.file).startswith(VLLM) else None


# image_embeds = self.visual(pixel_values)      embeds = self.vision_tower(images)
_ENCODER_CALL = lazy_pattern(r"\bself\.(?:visual|(?:vision|audio|image)_\w+)\(")


def layer_call(frames: Sequence[Frame]) -> str:
    """Return with which code, and where, a model at work called the layer that failed; "" where its own code failed."""
    found = next((one for one in reversed(frames) if _MODEL.search(one.file)), None)
    if found is None or found is frames[-1] or not found.code or "forward" not in found.function:
        return ""
    within = next(
        (one for one in frames if _MODEL.search(one.file) and _ENCODER_CALL.search(one.code)), found
    )
    inside = f", inside `{within.code}`" if within is not found else ""
    return f"`{found.code}` in {file_and_function(found.file, found.function)}{inside}"


_LONGEST = 155
"""Values of a report's sentences are cut off above it."""


def raised_at(deepest: Frame, where: str) -> str:
    """Return where an exception was raised, in a place of vLLM's code or by a library that it called: Raised in loader.py, load."""
    by = _library_of(deepest)
    return f"Raised by {by}, called from {where}" if by else f"Raised in {where}"


def check_at(deepest: Frame, where: str) -> str:
    """Return whose check raised an exception: one in a place of vLLM's code, or of a library that it called."""
    by = _library_of(deepest)
    return f"{by} (called from {where})" if by else where


def _library_of(deepest: Frame) -> str:
    """Return whose code raised an exception, in words; "" for vLLM's own."""
    library = owner_of(deepest.file)
    if library.startswith(VLLM):
        return ""
    return "Python's standard library" if library == PYTHON else library or file_name(deepest.file)


def raised_in(
    place: Frame,
    owner: str,
    phase: str,
    raised: Raised,
    caller: Frame | None,
    feature: str,
    *,
    in_title: bool,
) -> str:
    """Return where and when an exception was raised: Raised in loader.py, load_weights (vLLM), while the model was loaded.

    Args:
        place: the frame that acted.
        owner: whose code it is, in words; "" where the file tells.
        phase: what was going on, in words.
        raised: the exception.
        caller: the frame of vLLM or of a program that called the place, or None.
        feature: the feature of vLLM whose code led there, or "".
        in_title: whether the title of the finding names the place.
    """
    deepest = raised.frames[-1]
    where = (
        place.function
        if file_name(place.file).startswith("<")
        else file_and_function(place.file, place.function)
    )
    library = owner_of(deepest.file)
    called = ""
    if caller is not None and caller is not place:
        called = f"called from {file_and_function(caller.file, caller.function)}"
    of_library = bool(called) and not owner_of(place.file).startswith(VLLM)
    whose = f" ({owner})" if owner else ""
    if of_library and owner:
        of_vllm = " of vLLM" if caller is not None and owner_of(caller.file).startswith(VLLM) else ""
        words, called = f"Raised by {owner} ({where})", f"{called}{of_vllm}"
    elif raised.name == "RecursionError" and deepest is not place:
        words, called = f"Endless calls through {where}", ""
    elif library in {PYTHON, *TENSOR_LIBRARIES} and library != owner_of(place.file):
        words, called = raised_at(deepest, f"{where}{whose}"), ""
    else:
        words = "" if in_title else f"Raised in {where}{whose}"
    within = f"in the code of {feature}" if feature else ""
    parts = [words, called, within, phase]
    if len(", ".join(parts)) > _LONGEST:
        parts.remove(called)
    found = ", ".join(filter(None, parts))
    if found in (phase, within, f"{within}, {phase}"):
        return f"Raised {found}" if found else ""
    return f"{found[:1].upper()}{found[1:]}"
