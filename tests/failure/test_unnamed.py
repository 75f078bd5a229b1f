"""An error that no rule names: whose code it is laid to, how surely, and in which words, by its class and its frames."""

from __future__ import annotations

from tests.failure.judging import raised, root
from tests.tables import for_each

Place = tuple[str, int, str, str]
SITE = "/opt/env/lib/python3.12/site-packages"
VLLM: Place = (f"{SITE}/vllm/model_executor/models/tiny.py", 40, "forward", "return self.scale(x)")
LIBRARY: Place = (f"{SITE}/tinylib/scale.py", 7, "scale", "return x[index]")
TORCH: Place = (f"{SITE}/torch/nn/functional.py", 1750, "linear", "return torch._C._nn.linear(x, y)")
PROGRAM: Place = ("/home/u/app.py", 3, "main", "run()")
STANDARD: Place = ("/usr/lib/python3.12/json/decoder.py", 3, "decode", "raise x")
BUILD: Place = (
    "/tmp/pip-build-env-x1/overlay/lib/python3.12/site-packages/setuptools/build_meta.py", 3, "run_setup", "exec(code)",
)  # fmt: skip
OWN, CALLED = "in tiny.py, forward", "in tinylib, called by vLLM"
PROGRAMS, LIBRARYS, VLLMS = "in the program's own code", "raised by tinylib", "raised by vllm"


@for_each(
    ("frames", "index", "value", "other"),
    [
        # The class tells a fault of the code: a wrong index is one wherever vLLM called, a value only in vLLM's own frames, another class never.
        ((VLLM,), OWN, OWN, VLLMS),
        ((VLLM, TORCH), OWN, OWN, "raised by torch"),
        ((VLLM, STANDARD), OWN, OWN, VLLMS),
        ((PROGRAM, VLLM), OWN, OWN, VLLMS),
        ((VLLM, LIBRARY), CALLED, LIBRARYS, LIBRARYS),
        ((PROGRAM, VLLM, LIBRARY), CALLED, LIBRARYS, LIBRARYS),
        ((VLLM, LIBRARY, TORCH), CALLED, LIBRARYS, LIBRARYS),
        ((LIBRARY,), LIBRARYS, LIBRARYS, LIBRARYS),
        ((PROGRAM, LIBRARY), LIBRARYS, LIBRARYS, LIBRARYS),
        ((PROGRAM,), PROGRAMS, PROGRAMS, PROGRAMS),
        ((VLLM, PROGRAM), PROGRAMS, PROGRAMS, PROGRAMS),
        ((PROGRAM, STANDARD), PROGRAMS, PROGRAMS, PROGRAMS),
        ((BUILD,), *["in the build of a package"] * 3),
    ],
)
def test_whose_code_an_error_is_laid_to(
    frames: tuple[Place, ...], index: str, value: str, other: str
) -> None:
    for error, where in (
        ("IndexError: index 7 of 5", index),
        ("AttributeError: 'X' has no attribute 'connect'", index),
        ("ValueError: the shape differs", value),
        # A device, a peer or the host failed: whose code noticed it says nothing.
        ("RuntimeError: connect failed", other),
        ("StrangeError: the moon is wrong", other),
    ):
        found = root(
            f"INFO 05-01 09:59:01 [api_server.py:1300] vLLM API server version 0.11.0\n{raised(*frames, error=error)}"
        )
        name = error.partition(":")[0]
        assert found.title == f"{name} {where}", error
        of_code = where in (OWN, CALLED)
        assert found.id == ("engine-code-bug" if of_code else "unclassified-failure"), error
        sure = where == OWN and name in ("IndexError", "AttributeError")
        assert found.confidence == ("medium" if sure else "low"), error


def test_an_error_without_a_place_is_named_by_its_class_alone() -> None:
    found = root(
        "INFO 05-01 09:59:01 [api_server.py:1300] vLLM API server version 0.11.0\nTraceback (most recent call last):\nStrangeError: moon"
    )
    assert found.title == "StrangeError, a failure that no rule names"


COMPARE, KEEP = "Compare the installed release of {}", "Keep the whole log: the traceback shows neither"
SEARCH = "Search the issues of vLLM for the text of the error"
PROGRAM_STEP = "Correct the program at /home/u/app.py:3: the traceback contains no vLLM code."
WHEEL = "Install the package as a wheel"


@for_each(
    ("frames", "index", "other"),
    [
        # Another release where vLLM's code is at fault, the package where it is the package, the program where it is the program.
        ((VLLM,), "Use a newer release", SEARCH),
        ((VLLM, TORCH), "Use a newer release", COMPARE.format("torch")),
        ((VLLM, LIBRARY), "Try another release of vLLM, a newer one first: the failed call of tinylib is in vLLM's code.", COMPARE.format("tinylib")),
        ((LIBRARY,), KEEP, KEEP),
        ((PROGRAM, LIBRARY), *["Correct the call of tinylib at /home/u/app.py:3: the traceback contains no vLLM code."] * 2),
        ((PROGRAM,), PROGRAM_STEP, PROGRAM_STEP),
        ((VLLM, PROGRAM), *["Correct the code at /home/u/app.py:3: it is a part of neither vLLM nor an installed package."] * 2),
        ((BUILD,), WHEEL, WHEEL),
    ],
)  # fmt: skip
def test_the_first_step_fits_the_owner_of_the_code(frames: tuple[Place, ...], index: str, other: str) -> None:
    """What a device, a peer or the host did is nobody's code: its text is looked up, whoever noticed it."""
    for error, step in (
        ("IndexError: index 7 of 5", index), ("StrangeError: the moon is wrong", other), ("RuntimeError: CUDA driver lost", SEARCH),
    ):  # fmt: skip
        found = root(
            f"INFO 05-01 09:59:01 [api_server.py:1300] vLLM API server version 0.11.0\n{raised(*frames, error=error)}"
        )
        assert found.alternatives[0].startswith(step), error


REFUSES: Place = (
    "/home/u/src/verl/workers/tiny.py",
    9,
    "pick",
    'raise ValueError(f"Model {name} has no loader here. "',
)


TORCH_REFUSES: Place = (
    "/opt/site-packages/torch/functional.py",
    9,
    "stft",
    "raise ValueError(what)",
)


def test_an_argument_that_torch_refuses_is_a_matter_of_its_release_too() -> None:
    fault = "ValueError: step has to be smaller than the window"
    start = "INFO 05-01 09:59:01 [api_server.py:1300] vLLM API server version 0.11.0"
    for frames, named in (((VLLM, TORCH_REFUSES), True), ((VLLM,), False)):
        found = root(f"{start}\n{raised(*frames, error=fault)}")
        assert any("`pip show torch`" in step for step in found.alternatives) is named


def test_a_torch_that_takes_no_device_without_an_index_is_too_old() -> None:
    vllm = (
        "/src/vllm/vllm/platforms/rocm.py",
        228,
        "get_current_memory_usage",
        "torch.cuda.mem_get_info(device)",
    )
    asked = (
        "/opt/site-packages/torch/cuda/memory.py",
        684,
        "mem_get_info",
        "device = _get_device_index(device)",
    )
    refused = ("/opt/site-packages/torch/_utils.py", 803, "_get_device_index", "raise ValueError(")
    error = "ValueError: Expected a torch.device with a specified index or an integer, but got:cuda"
    found = root(raised(vllm, asked, refused, error=error))
    assert "torch" in found.title
    assert "2.5 or newer" in found.alternatives[0]


@for_each(
    ("frames", "error", "says"),
    [
        ((REFUSES,), "ValueError: Model Tiny has no loader here. Known: dict_keys(['A'])", "The message states the cause: Model Tiny has no loader here. Raised in tiny.py"),
        ((VLLM, LIBRARY), "AttributeError: 'TinyScaler' object has no attribute 'pieces'", "The code reads `pieces`, which the class `TinyScaler` does not have."),
        ((VLLM,), "AttributeError: 'NoneType' object has no attribute 'seed'", "The code reads `seed` of a value that is None."),
        ((VLLM,), "TypeError: scale() got an unexpected keyword argument 'ge'", "The code passes the argument `ge`, which `scale()` does not take."),
        ((PROGRAM, STANDARD), "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)", "The text that was parsed as JSON is empty or does not begin with JSON."),
        # What Python says of a value is no cause, nor are few words.
        ((VLLM,), "IndexError: list index out of range", "No known cause matches this error."),
        ((REFUSES,), "ValueError: bad scale", "No known cause matches this error."),
        # What torch says of an argument is a symptom of who passed it, or of torch's release.
        ((VLLM, TORCH_REFUSES), "ValueError: step has to be smaller than the window", "No known cause matches this error."),
    ],
)  # fmt: skip
def test_an_error_that_says_what_is_wrong_is_given_in_its_words(
    frames: tuple[Place, ...], error: str, says: str
) -> None:
    found = root(
        f"INFO 05-01 09:59:01 [api_server.py:1300] vLLM API server version 0.11.0\n{raised(*frames, error=error)}"
    )
    assert says in found.explanation
