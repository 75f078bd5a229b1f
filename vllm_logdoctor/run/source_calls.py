"""Settings in the source line of a traceback: the program's own call that makes an engine."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from vllm_logdoctor.knowledge.flags import flag_spans
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record

_MOST_LINES = 16
#     llm = LLM(model="org/m", max_model_len=512)      ----> 1 llm = vllm.LLM(      >>> llm = LLM(model="org/m")
_CALL = lazy_pattern(
    r"(?:-+> ?\S+ +|>>> |\s*)(?:[\w.]+ ?= ?|return )?(?P<call>(?:vllm\.)?(?:LLM|(?:Async)?EngineArgs)\(.*)",
)
_FRAME = lazy_pattern(r'\s*File "')
#      2     model=path,           [7](vscode-notebook-cell:?execution_count=5&line=7)     tensor_parallel_size=1,
_NUMBERED = lazy_pattern(r"\s*\[?\d+\]?(?:\([^)]*\))? ")
_OPENS_WITH_MODEL = "LLM"


def settings_in_calls(records: Sequence[Record]) -> tuple[dict[str, Any], Record] | None:
    """Return the settings of vLLM that the first call making an engine gives as literals, and its line; None without one.

    Names of variables tell no value and are left out.
    """
    for place, record in enumerate(records):
        message = record.message[:1000]
        if "LLM(" not in message and "EngineArgs(" not in message:
            continue
        found = _CALL.match(message)
        if found is None or record.level:
            continue
        settings = _literals(_parsed(found["call"], records[place + 1 : place + _MOST_LINES]))
        if settings:
            return settings, record
    return None


def _parsed(first: str, below: Sequence[Record]) -> ast.Call | None:
    """Return a call whose lines may go on below and may not all be in the log."""
    lines = [first]
    for text in _texts(first, below):
        call = _call(text)
        if call is not None:
            return call
        lines.append(text)
    ends = (f"{text.rstrip().rstrip(',')})" for text in reversed(lines))
    return next((call for text in ends if (call := _call(text)) is not None), None)


def _texts(first: str, below: Sequence[Record]) -> Iterator[str]:
    """Yield the text of a call with more and more of the lines below it."""
    text = first
    yield text
    for record in below:
        line = record.message
        if record.level or _FRAME.match(line) or not line.strip():
            return
        text = f"{text}\n{_NUMBERED.sub('', line, count=1)}"
        yield text


def _call(text: str) -> ast.Call | None:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree if isinstance(tree, ast.Call) else None


def _literals(call: ast.Call | None) -> dict[str, Any]:
    if call is None:
        return {}
    given = {one.arg: one.value for one in call.keywords if one.arg}
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if call.args and name == _OPENS_WITH_MODEL:
        given.setdefault("model", call.args[0])
    values = {
        name: _literal(value) for name, value in given.items() if flag_spans(f"--{name.replace('_', '-')}")
    }
    return {name: value for name, value in values.items() if value is not None}


def _literal(value: ast.expr) -> Any:
    """Return the value of a literal, the name of a type of torch, or None for what only the program knows."""
    if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id == "torch":
        return value.attr
    try:
        return ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
