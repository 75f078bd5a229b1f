"""Whose code a frame of a traceback is: vLLM's, a library's by name, Python's, a build's or the calling program's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.run.blocks import Frame

VLLM = "vllm"
PYTHON = "python"
BUILD = "build"
PROGRAM = ""
"""The program that calls vLLM: a script, a notebook, a server of its own."""

# They check what vLLM hands them: shapes, types and indices that do not fit are the caller's fault.
TENSOR_LIBRARIES = frozenset(
    {"torch", "numpy", "triton", "einops", "torchvision", "msgspec", "msgpack", "tokenizers"}
)
# /opt/env/lib/python3.12/site-packages/torch/nn/modules/module.py      ...\venv\Lib\site-packages\torch\nn\modules\module.py
# code/__torch__/some_library/trace/spmd.py: the code of a module that TorchScript compiled
_INSTALLED = lazy_pattern(r"(?:(?:site|dist)-packages|^code/__torch__)/(?P<package>\w+)")
# /tmp/pip-build-env-x/overlay/lib/...      .../pip/_vendor/pyproject_hooks/_in_process/_in_process.py      <string> (setup.py)
_BUILD = lazy_pattern(
    r"pip-build-env|/pip/_|pyproject_hooks|_in_process\.py|/setuptools/|/_?distutils/|/cpp_extension\.py$|^<string>$|(?:^|/)setup\.py$"
)
# /usr/lib/python3.12/asyncio/runners.py      <frozen importlib._bootstrap>      uvloop/loop.pyx      /opt/python3.11/argparse.py
_PYTHON = lazy_pattern(
    r"/lib(?:64)?/python3[.\d]*/(?!.*-packages/)|^[A-Za-z]:/.*/[Ll]ib/(?!site-packages)|^<frozen |^uvloop/loop\.pyx$"
    r"|/python3\.\d+/\w+\.py$|^<(?!stdin>)\w+>$"
)
# /workspace/vllm/vllm/v1/engine/core.py      /home/me/vllm/engine/llm_engine.py      vllm/worker/worker.py
_CHECKOUT = lazy_pattern(
    r"(?:^|/)(?P<package>vllm(?:_\w+)?)(?:-\d[\w.]*)?/(?:(?:engine|worker|v1|model_executor|executor|entrypoints|tracing|attention|distributed|config"
    r"|core|lora|utils|transformers_utils|spec_decode|multimodal|platforms|compilation|inputs|plugins|reasoning|renderers"
    r"|sequence|third_party|triton_utils|usage|vllm_flash_attn|benchmarks|parser|tokenizers|tool_parsers|profiler|ray"
    r"|device_allocator|assets|adapter_commons|prompt_adapter|logging_utils|kernels|ir|ops|quantization|patch|torchair"
    r"|sample|models|runner|layers)/.*|\w+\.py)$"
)


# /src/vllm/benchmarks/benchmark_throughput.py: a script beside the package, which may run another backend than vLLM
_BENCHMARK = lazy_pattern(r"(?:^|/)benchmarks/(?:\w+/)*(?:benchmark_\w+|backend_request_func)\.py$")

# /src/trainer/third_party/vllm/v1/weight_loaders.py      /home/me/LLaMA-Factory/src/llamafactory/train.py
_FRAMEWORK = lazy_pattern(
    r"(?:^|/)(?P<name>\w[\w-]*)/third_party/vllm/|/(?P<known>verl|trl|llamafactory|openrlhf|lm_eval|swift|fastchat|areal|slime)/"
)
_COPY = "/third_party/vllm/"
"""A folder of another project that holds changed parts of vLLM: /src/trainer/third_party/vllm/v1/weight_loaders.py"""

# Who shortens the paths of a traceback leaves vLLM's own module names:   File "llm_engine.py", line 12, in step
_SHORTENED = lazy_pattern(
    r"(?:(?:async_)?llm_engine|async_llm|api_server|worker|gpu_worker|(?:gpu_)?model_runner|weight_utils|model_loader|ray_utils"
    r"|core_client|multiproc_executor)\.py$"
)


@lru_cache(maxsize=4096)
def owner_of(file: str) -> str:
    """Return the package that a file of a frame belongs to, "python" for the standard library, "" for the calling program.

    >>> owner_of("/opt/envs/vllm/lib/python3.12/site-packages/torch/nn/modules/module.py")
    'torch'
    >>> owner_of("/opt/envs/vllm/lib/python3.12/asyncio/runners.py"), owner_of("/workspace/vllm/vllm/v1/engine/core.py")
    ('python', 'vllm')
    >>> owner_of("/home/me/vllm-tests/serve.py"), owner_of("<stdin>"), owner_of("code/__torch__/some_library/trace/run.py")
    ('', '', 'some_library')
    """
    path = file.replace("\\", "/")
    if _BUILD.search(path):
        return BUILD
    if installed := installed_package(path):
        return installed
    if _BENCHMARK.search(path):
        return PROGRAM
    if _SHORTENED.match(path):
        return VLLM
    checkout = _CHECKOUT.search(path)
    if checkout is not None and _COPY not in path:
        return checkout["package"]
    return PYTHON if _PYTHON.search(path) else PROGRAM


def framework_of(file: str) -> str:
    """Return the framework for training or evaluation whose source tree holds a file, or "".

    >>> framework_of("/home/me/src/verl/third_party/vllm/loaders.py"), framework_of("/home/me/serve.py")
    ('verl', '')
    """
    found = _FRAMEWORK.search(file)
    return (found["name"] or found["known"]) if found else ""


def installed_package(path: str) -> str:
    """Return the installed package that holds a file, or ""."""
    return str(next(reversed(_INSTALLED.findall(path)), ""))


_KERNELS = "vllm_flash_attn"
"""A package beside vLLM's own that is no plug-in of a platform."""


def plugin_of(frames: Sequence[Frame]) -> str:
    """Return the platform plug-in whose code is the outermost among frames, or "": vllm_ascend, vllm_gaudi."""
    owners = (owner_of(frame.file) for frame in frames)
    return next((one for one in owners if one.startswith("vllm_") and one != _KERNELS), "")


def is_file_of_vllm(file: str) -> bool:
    """Return whether a file is vLLM's own or of one of its platform plugins."""
    return owner_of(file).startswith(VLLM)


def is_own(file: str) -> bool:
    """Return whether a file of Python is vLLM's or the program's, a model's code among them."""
    return file.endswith(".py") and (is_file_of_vllm(file) or owner_of(file) == PROGRAM)


# Frames that only pass a call on: decorators, remote procedure calls, module hooks.
_PASSES_ON = lazy_pattern(
    r"(?:_?wrapper|_?wrapped\w*|_wrapped_call_impl|_call_impl|inner|decorate_context|run_method|collective_rpc|_fn|__call__|apply"
    r"|invoke|_resume_span|handle_event|__torch_function__)$"
)
# File ".../tokenization_utils_base.py", line 9, in __getattr__ / raise AttributeError(...): the fault is of who asked for the name.
_LOOKS_UP = frozenset({"__getattr__", "__getattribute__"})
_REFUSES_NAME = ("raise AttributeError", "return super().__getattr")
_CALLS_ON = lazy_pattern(
    r"(?:return |outputs? = |result = )?(?:await )?"
    r"(?:func|fn|f|self\._call_impl|forward_call|super\(\)\.\w+|orig_func|method)\(|raise type\(err\)\("
)


@lru_cache(maxsize=4096)  # Every rank prints the same frames.
def _passes_on(function: str, code: str) -> bool:
    """Return whether a frame does nothing by itself: it passes a call on, or refuses a name that its caller asked for."""
    if function in _LOOKS_UP:
        return code.startswith(_REFUSES_NAME)
    return bool(_PASSES_ON.match(function) and _CALLS_ON.match(code))


def acting_frames(frames: Sequence[Frame]) -> tuple[Frame, ...]:
    """Return the frames that do something, outermost first: without Python's own and without those that pass a call on."""
    found = [frame for frame in frames if owner_of(frame.file) != PYTHON]
    acting = [frame for frame in found if not _passes_on(frame.function.rpartition(".")[2], frame.code)]
    return tuple(acting or found or frames)


def is_vllm_or_tensors(owner: str | None) -> bool:
    """Return whether vLLM itself raised an exception, or a tensor library that it called."""
    return owner is not None and (owner.startswith(VLLM) or owner in TENSOR_LIBRARIES)
