"""Scopes of a syntax tree: a module, class or function body with the names that it sets to an expression."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct, field

_Scoped = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Scope(Struct):
    """One body: dotted `name`, `nodes` without those of inner scopes, and what it sets names to, by line."""

    name: str
    outer: Scope | None
    nodes: list[ast.stmt | ast.expr] = field(default_factory=list)
    assignments: dict[str, list[tuple[int, ast.expr]]] = field(default_factory=dict)

    def values_of(self, name: str, line: int) -> list[ast.expr]:
        """All that a name was set to above `line`, oldest first; what grew by += is the whole sum."""
        if name in self.assignments:
            return [value for at, value in self.assignments[name] if at < line or not self.name]
        return [] if self.outer is None else self.outer.values_of(name, line)


def scopes_of(tree: ast.Module) -> Iterator[Scope]:
    """The module's scope and all inner ones, outermost first."""
    pending: list[tuple[Scope, list[ast.stmt]]] = [(Scope("", None), tree.body)]
    while pending:
        scope, body = pending.pop()
        inner: list[_Scoped] = []
        for statement in body:
            _collect(statement, scope, inner)
        yield scope
        pending.extend(
            (Scope(f"{scope.name}.{node.name}".lstrip("."), scope), node.body) for node in reversed(inner)
        )


def _collect(node: ast.AST, scope: Scope, inner: list[_Scoped]) -> None:
    if isinstance(node, _Scoped):
        inner.append(node)
        return
    if isinstance(node, (ast.stmt, ast.expr)):
        scope.nodes.append(node)
    _remember(node, scope)
    for child in ast.iter_child_nodes(node):
        _collect(child, scope, inner)


def _remember(node: ast.AST, scope: Scope) -> None:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            scope.assignments.setdefault(name, []).append((node.lineno, value))
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            scope.assignments.setdefault(name, []).append((node.lineno, value))
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value) if name in scope.assignments:
            before = scope.assignments[name][-1][1]
            scope.assignments[name].append((node.lineno, ast.BinOp(before, ast.Add(), value)))
