"""An exception that could be a refusal: raised by a check, or by code that broke."""

from __future__ import annotations

import pytest

from tests.rules.making import record
from tests.tables import for_each
from vllm_logdoctor.rules.failure.matching import broke_by_itself
from vllm_logdoctor.run.blocks import Frame, Raised
from vllm_logdoctor.run.owners import acting_frames, is_file_of_vllm, owner_of

SITE = "/opt/env/lib/python3.12/site-packages"
MODEL = (f"{SITE}/vllm/model_executor/models/m.py", "forward", "x = a.view(b)")
CHECK = (f"{SITE}/vllm/config.py", "verify", 'raise ValueError("no")')
TORCH = (f"{SITE}/torch/nn/functional.py", "linear", "return torch._C._nn.linear(input)")
OWN = ("/home/me/serve.py", "main", "x = int(y)")
LOAD = (f"{SITE}/vllm/model_executor/models/m.py", "load_weights", "param.copy_(w)")
LOADER = (f"{SITE}/vllm/model_executor/layers/linear.py", "weight_loader", "param.copy_(w)")


def raised(type: str, text: str, *frames: tuple[str, str, str]) -> Raised:
    places = tuple(Frame(file, 7, function, code, record(code)) for file, function, code in frames)
    return Raised(type, text, "", places, record(text), "")


@for_each(
    ("one", "broke"),
    [
        (raised("ValueError", "the length must be positive", CHECK), False),
        (raised("ValueError", "the length must be positive", MODEL), True),
        (
            raised("ValueError", "the length must be positive", (CHECK[0], "verify", "assert length > 0")),
            False,
        ),
        (raised("RuntimeError", "sizes do not match", MODEL, TORCH), True),
        (
            raised("ValueError", "sizes do not match", OWN),
            False,
        ),  # code of the user's own may check in any way
        (raised("TypeError", "sizes do not match", MODEL), False),
        (raised("ValueError", "sizes do not match", (*MODEL[:2], "")), False),
        # Arithmetic of the language refuses nothing, whoever called it.
        (raised("ValueError", "too many values to unpack (expected 2)", OWN), True),
        (raised("ValueError", "invalid literal for int() with base 10: 'x'", CHECK), True),
        (raised("KeyError", "too many values to unpack (expected 2)", CHECK), False),
        # A checkpoint that does not fit is the checkpoint's.
        (raised("RuntimeError", "sizes do not match", LOAD, MODEL), False),
        (raised("RuntimeError", "sizes do not match", LOADER, TORCH), False),
        (raised("ValueError", "no place"), False),
    ],
)
def test_what_no_check_raised_broke_by_itself(one: Raised, broke: bool) -> None:
    assert broke_by_itself(one) is broke


@pytest.mark.parametrize(
    ("file", "owner", "own"),
    [
        (f"{SITE}/torch/nn/functional.py", "torch", False), (f"{SITE}/vllm/config.py", "vllm", True), ("/workspace/vllm/vllm/v1/engine/core.py", "vllm", True),
        ("/opt/env/lib/python3.12/asyncio/runners.py", "python", False), ("/home/me/serve.py", "", False), ("<stdin>", "", False),
    ],
)  # fmt: skip
def test_the_owner_of_a_file(file: str, owner: str, own: bool) -> None:
    assert (owner_of(file), is_file_of_vllm(file)) == (owner, own)


def test_frames_of_python_do_nothing_by_themselves() -> None:
    runner = ("/opt/env/lib/python3.12/asyncio/runners.py", "run", "return runner.run(main)")
    one = raised("ValueError", "x", OWN, runner, MODEL)
    assert [frame.function for frame in acting_frames(one.frames)] == ["main", "forward"]
    assert [frame.function for frame in acting_frames(raised("ValueError", "x", runner).frames)] == ["run"]
