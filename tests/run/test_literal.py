"""The reader of Python-like text."""

from __future__ import annotations

import argparse
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_logdoctor.run.repr_parser import read_pairs, read_value

plain = (
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.text("abz /._-'\"=,()[]{}:<>\\", max_size=12)
)
nested: st.SearchStrategy[Any] = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text("abc_", min_size=1, max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)
names = st.text("abcdef_", min_size=1, max_size=8).filter(str.isidentifier)


@given(nested)
def test_what_python_prints_is_read_back(value: Any) -> None:
    assert read_value(repr(value)) == value


@given(st.dictionaries(names, nested, max_size=6))
def test_an_argument_dump_is_read_back(values: dict[str, Any]) -> None:
    text = repr(argparse.Namespace(**values))
    assert read_pairs(text.removeprefix("Namespace(").removesuffix(")")) == values


@given(st.text(max_size=300))
def test_any_text_ends_in_a_dict(text: str) -> None:
    assert isinstance(read_pairs(text), dict)


@given(st.dictionaries(names, st.integers(0, 99), min_size=2, max_size=6), st.data())
def test_a_cut_keeps_what_stood_before_it(values: dict[str, int], data: st.DataObject) -> None:
    text = ", ".join(f"{name}={value}" for name, value in values.items())
    whole = text[: data.draw(st.integers(0, len(text)))].rsplit(",", 1)[0]
    kept = whole.count(",") + 1 if "," in text[: len(whole) + 1] else 0
    read = read_pairs(whole + ", ")
    assert list(read.items())[: max(kept - 1, 0)] == list(values.items())[: max(kept - 1, 0)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("torch.bfloat16", "torch.bfloat16"),
        ("<CompilationMode.VLLM_COMPILE: 3>", "VLLM_COMPILE"),
        ("<DynamicShapesType.BACKED: 'backed'>", "backed"),
        ("Config(backend='auto', nested=Inner(level=2))", {"backend": "auto", "nested": {"level": 2}}),
        ("{'sizes': [1, 2, 4], 'mode': <M.FULL: (2, 1)>}", {"sizes": [1, 2, 4], "mode": "FULL"}),
        ("0.92", 0.92),
        ("org/Model-7B", "org/Model-7B"),
        ("{1, 2}", [1, 2]),
    ],
)
def test_what_only_vllm_prints(text: str, value: Any) -> None:
    assert read_value(text) == value


def test_a_forgotten_comma() -> None:
    assert read_pairs("chunked_prefill_enabled=False multi_step_stream_outputs=True, seed=0") == {
        "chunked_prefill_enabled": False,
        "multi_step_stream_outputs": True,
        "seed": 0,
    }


def test_deep_nesting_ends() -> None:
    assert isinstance(read_value("[" * 5000 + "]" * 5000), list)


@pytest.mark.parametrize(
    ("text", "value"), [("8192", 8192), ("-3", -3), ("0.5", 0.5), ("1e3", 1000.0), ("9" * 400, "9" * 400)]
)
def test_a_number_beyond_any_setting_stays_text(text: str, value: Any) -> None:
    (found,) = read_pairs(f"n={text}").values()
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        # What stands between values, and what values and names begin with.
        ("x=1, xy=2", {"x": 1, "xy": 2}),
        ("a=1,\tb=2,\r\nc= [ 1 ,2 ] ", {"a": 1, "b": 2, "c": [1, 2]}),
        ("a=(1, 2), b=P(), c=P(1), d=P(1, 2), e=P(n=1)", {"a": [1, 2], "b": [], "c": 1, "d": [1, 2], "e": {"n": 1}}),
        ("path=/data/a[1], b=f(x))", {"path": "/data/a[1]", "b": "x"}),
        ("a=/opt/{x, y}, b=2", {"a": "/opt/{x, y}", "b": 2}),
        ("a=/opt/x y=2", {"a": "/opt/x", "y": 2}),
        # What has no name is passed over.
        ("7, 'x', [1], a=1", {"a": 1}),
        (", , a=1", {"a": 1}),
        ("a=None, b=null, c=true, d=False, e=Nonesuch", {"a": None, "b": None, "c": True, "d": False, "e": "Nonesuch"}),
        ("a='it\\'s\\n', b=\"x\\ty\"", {"a": "it's\n", "b": "x\ty"}),
        # What is cut ends there.
        ("a=[1, 2", {"a": [1, 2]}),
        ("a={'b': 1", {"a": {"b": 1}}),
        ("a='b", {"a": "b"}),
        ("a=<E.B: 2", {"a": "B"}),
        ("a={'b'", {"a": ["b"]}),
        ("a={1: 2, (3, 4): 5}", {"a": {"1": 2, "[3, 4]": 5}}),
        ("a=.5, b=-3, c=1e3, d=1.2.3, e=12GB", {"a": 0.5, "b": -3, "c": 1000.0, "d": "1.2.3", "e": "12GB"}),
        ("a=<class 'x'>, b=<function f at 0x1>, c=<A.B: 1>", {"a": "class 'x'", "b": "function f at 0x1", "c": "B"}),
    ],
)  # fmt: skip
def test_pairs_of_all_kinds(text: str, pairs: dict[str, Any]) -> None:
    assert read_pairs(text) == pairs
