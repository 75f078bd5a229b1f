"""Words for places of a traceback: where an exception was raised, in code of which model, for which kind of requests."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.run.blocks import Frame, Raised
from vllm_logdoctor.run.owners import PYTHON, TENSOR_LIBRARIES, VLLM, owner_of

# /opt/vllm/model_executor/models/phi3_small.py
_MODEL = lazy_pattern(r"[/\\]model_executor[/\\]models[/\\](?!utils\.py|interfaces)(?P<model>\w+)\.py$")


def component_of(place: Frame, frames: Sequence[Frame]) -> str:
    """Return a place as titles name it: file and function, whose package it is where not vLLM's, and the model that led there."""
    base = file_name(place.file)
    found = [match["model"] for one in frames if (match := _MODEL.search(one.file))]
    owner = owner_of(place.file)
    of_others = owner if owner.startswith(VLLM) and owner != VLLM else ""
    model = f"model {found[-1]}" if found and f"{found[-1]}.py" != base else ""
    more = ", ".join(filter(None, (of_others, model)))
    return file_and_function(place.file, place.function) + (f" ({more})" if more else "")


_KINDS = (
    (lazy_pattern(r"multimodal|vision|[/_]image|audio|siglip|/clip\.py"), "images, audio or video"),
    (lazy_pattern(r"/lora/"), "LoRA adapters"),
    (lazy_pattern(r"guided_decoding|structured_output|xgrammar|outlines"), "structured output"),
)
_NEAR = 4


def kind_of_request(frames: Sequence[Frame]) -> str:
    """Return the kind of requests whose code the innermost frames are, or ""."""
    places = " ".join(f"{one.file}:{one.function} {one.code}" for one in frames[-_NEAR:])
    return next((kind for expression, kind in _KINDS if expression.search(places)), "")


def file_name(file: str) -> str:
    """Return the name of a file without its folders, those of Windows as well."""
    return file.replace("\\", "/").rpartition("/")[2]


def file_and_function(file: str, function: str) -> str:
    """Return the name of a file without its folders, and a function where there is one."""
    return f"{file_name(file)}, {function}".rstrip(", ")


def raised_in(place: Frame, owner: str, phase: str, raised: Raised | None) -> str:
    """Return where and when an exception was raised: loader.py, load_weights (vLLM), while the model was built and its weights were loaded."""
    deepest = raised.frames[-1] if raised is not None and raised.frames else place
    # Python's own library or one of tensors raised it, or the last frame of endless calls: what is named called that.
    libraries = {PYTHON, *TENSOR_LIBRARIES}
    calls = (owner_of(deepest.file) in libraries and owner_of(place.file) not in libraries) or (
        raised is not None and raised.name == "RecursionError" and deepest is not place
    )
    shell = file_name(place.file).startswith("<")
    named = place.function if shell else file_and_function(place.file, place.function)
    where = f"{'a call from ' if calls else ''}{named}{f' ({owner})' if owner else ''}"
    return ", ".join(filter(None, (where, phase)))
