"""Message templates of a vLLM package, read from its syntax trees: what it can log, warn, raise and print."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

from tools.extract.scopes import Scope, scopes_of
from tools.extract.texts import style_of, texts_of
from vllm_logdoctor.knowledge.templates import Style

Level = Literal["debug", "info", "warning", "error", "exception", "critical", "raise", "print"]
Kind = Literal["logger", "print_once", "warnings.warn", "raise", "assert", "argparse", "print"]

_LOG_LEVELS: dict[str, Level] = {
    "debug": "debug",
    "info": "info",
    "warning": "warning",
    "warn": "warning",
    "error": "error",
    "exception": "exception",
    "critical": "critical",
    "fatal": "critical",
}
_PRINT_ONCE: dict[str, Level] = {
    "print_info_once": "info",
    "print_warning_once": "warning",
    "print_debug_once": "debug",
}
# Parts of a package that a server never runs.
_SKIPPED_FOLDERS = frozenset({"tests", "benchmarks", "__pycache__"})


class MessageTemplate(Struct, frozen=True):
    """One place that puts out a message.

    Attributes:
        template: text with placeholders, see `style`.
        style: plain (none), percent (%s, %d ...), brace ({}; literal braces doubled).
        level: of the log, or "raise" and "print".
        kind: what puts it out.
        file: path inside the package; line: where the call starts, 1-based, as a log shows it.
        function: enclosing classes and functions, joined by dots; "" at module level.
        exception: class raised, or category of warnings.warn.
        once: printed only the first time.
    """

    template: str
    style: Style
    level: Level
    kind: Kind
    file: str
    line: int
    function: str
    exception: str | None = None
    once: bool = False


def extract_messages(path: Path) -> list[MessageTemplate]:
    """Every message template below `path`, an unpacked vLLM package folder or one source file.

    Files that are no valid Python are left out. Nothing is imported or run. Sorted by file and line.
    """
    root = path if path.is_dir() else path.parent
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    found: list[MessageTemplate] = []
    for file in files:
        inside = file.relative_to(root)
        if not _SKIPPED_FOLDERS.isdisjoint(inside.parts):
            continue
        found.extend(messages_of_source(file.read_bytes(), inside.as_posix()))
    return found


def messages_of_source(source: bytes | str, file: str) -> list[MessageTemplate]:
    """Message templates of one source text; empty where it is no valid Python.

    >>> text = "def f(x):\\n    logger.info('Using %s backend.', x)\\n"
    >>> [(m.template, m.style, m.level, m.line, m.function) for m in messages_of_source(text, "a.py")]
    [('Using %s backend.', 'percent', 'info', 2, 'f')]
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    found = [message for scope in scopes_of(tree) for message in _messages_in(scope, file)]
    return sorted(found, key=lambda message: (message.line, message.template))


def _messages_in(scope: Scope, file: str) -> Iterator[MessageTemplate]:
    for node in scope.nodes:
        output: _Output | None = None
        if isinstance(node, ast.Call):
            output = _of_call(node, scope)
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            output = _of_raise(node.exc)
        elif isinstance(node, ast.Assert) and node.msg is not None:
            output = _Output(node.msg, "raise", "assert", "AssertionError")
        if output is not None:
            yield from _templates(output, node.lineno, scope, file)


class _Output(Struct, frozen=True):
    """A statement or call that puts out `text`."""

    text: ast.expr
    level: Level
    kind: Kind
    exception: str | None = None
    once: bool = False
    has_arguments: bool = False


def _of_call(call: ast.Call, scope: Scope) -> _Output | None:
    text = _first_argument(call)
    if text is None:
        return None
    name = _last_name(call.func)
    more = len(call.args) > 1
    if name in _PRINT_ONCE:
        return _Output(text, _PRINT_ONCE[name], "print_once", once=True)
    if isinstance(call.func, ast.Name):
        if name == "print":
            return _Output(text, "print", "print")
        level = _loudest(_log_level(value) for value in _aliased(call.func, scope, call.lineno))
        return None if level is None else _Output(text, level, "logger", has_arguments=more)
    if not isinstance(call.func, ast.Attribute):
        return None
    owner = _last_name(call.func.value).lower()
    if owner == "warnings" and name == "warn":
        return _Output(text, "warning", "warnings.warn", _category(call))
    if owner == "parser" and name == "error":
        return _Output(text, "raise", "argparse", "SystemExit")
    level = _log_level(call.func)
    once = name.endswith("_once")
    return None if level is None else _Output(text, level, "logger", once=once, has_arguments=more)


def _log_level(function: ast.expr) -> Level | None:
    """Level of a logger's method such as `logger.info_once`; None for any other expression."""
    if not isinstance(function, ast.Attribute):
        return None
    owner = _last_name(function.value).lower()
    is_logger = owner in ("log", "logging") or owner.endswith("logger")
    return _LOG_LEVELS.get(function.attr.removesuffix("_once")) if is_logger else None


def _loudest(levels: Iterable[Level | None]) -> Level | None:
    order = [*dict.fromkeys(_LOG_LEVELS.values())]
    return max((level for level in levels if level is not None), key=order.index, default=None)


def _aliased(name: ast.Name, scope: Scope, line: int) -> Iterator[ast.expr]:
    # log_level = logger.debug if is_default_group else logger.info
    for value in scope.values_of(name.id, line):
        yield from (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,)


def _of_raise(call: ast.Call) -> _Output | None:
    text = _first_argument(call)
    return None if text is None else _Output(text, "raise", "raise", _last_name(call.func))


def _templates(output: _Output, line: int, scope: Scope, file: str) -> Iterator[MessageTemplate]:
    formatted = isinstance(output.text, ast.BinOp) and isinstance(output.text.op, ast.Mod)
    for text in texts_of(output.text, lambda name: scope.values_of(name, line)):
        yield MessageTemplate(
            text.template,
            style_of(text, output.has_arguments or formatted),
            output.level,
            output.kind,
            file,
            line,
            scope.name,
            output.exception,
            output.once,
        )


def _first_argument(call: ast.Call) -> ast.expr | None:
    if call.args:
        return call.args[0]
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    return named.get("msg") or named.get("message") or named.get("detail")


def _category(call: ast.Call) -> str:
    if len(call.args) > 1:
        return _last_name(call.args[1])
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    return _last_name(named["category"]) if "category" in named else "UserWarning"


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    return _last_name(node.func) if isinstance(node, ast.Call) else ""
