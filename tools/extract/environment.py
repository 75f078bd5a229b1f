"""Environment variables that a vLLM package declares in its envs.py, with what they mean when unset."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from vllm_logdoctor.knowledge.store import Facts


def extract_variables(package: Path) -> dict[str, Facts]:
    """Variables by name; empty for a release without envs.py. Raises SyntaxError where it is no Python."""
    path = package / "envs.py"
    if not path.is_file():
        return {}
    tree = ast.parse(path.read_bytes())
    declared = dict(_declared_defaults(tree))
    return {
        name: {"default": fallback if fallback is not None else declared.get(name)}
        for name, fallback in _readers(tree)
    }


def _declared_defaults(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, ast.unparse(node.value)


def _readers(tree: ast.Module) -> Iterator[tuple[str, str | None]]:
    for node in tree.body:
        match node:
            case (
                ast.AnnAssign(target=ast.Name(id="environment_variables"), value=ast.Dict() as table)
                | ast.Assign(targets=[ast.Name(id="environment_variables")], value=ast.Dict() as table)
            ):
                for key, reader in zip(table.keys, table.values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        yield key.value, _fallback(key.value, reader)


def _fallback(name: str, reader: ast.expr) -> str | None:
    """Second argument of the call that reads the variable: os.getenv(NAME, fallback) or a helper like it."""
    for node in ast.walk(reader):
        if isinstance(node, ast.Call) and len(node.args) > 1:
            first, second = node.args[:2]
            if isinstance(first, ast.Constant) and first.value == name:
                return ast.unparse(second)
    return None
