"""Configuration classes of a vLLM package, from vllm/config.py or vllm/config/: fields, defaults, types."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from vllm_logdoctor.knowledge.store import Facts


class Field(Struct, frozen=True):
    """One field: its type as an expression and its default; `default` None where it is required."""

    type: ast.expr | None
    default: ast.expr | None
    factory: bool = False
    description: str = ""

    @property
    def default_text(self) -> str | None:
        """Default as source text, "factory: X" where it is made by calling X."""
        if self.default is None:
            return None
        text = ast.unparse(self.default)
        return f"factory: {text}" if self.factory else text


class ConfigSources(Struct):
    """Classes by name, and the names that stand for types or values in their modules."""

    classes: dict[str, dict[str, Field]] = field(default_factory=dict)
    bases: dict[str, list[str]] = field(default_factory=dict)
    constants: dict[str, ast.expr] = field(default_factory=dict)

    def fields_of(self, name: str) -> dict[str, Field]:
        """Fields of a class, inherited ones first."""
        fields: dict[str, Field] = {}
        for base in self.bases.get(name, ()):
            fields.update(self.fields_of(base))
        return {**fields, **self.classes.get(name, {})}


def extract_fields(package: Path) -> dict[str, Facts]:
    """Defaults by "Class.field" of all configuration classes."""
    sources = read_classes(_config_files(package))
    return {
        f"{name}.{field_name}": {"default": field.default_text}
        for name, fields in sources.classes.items()
        if name.endswith(("Config", "Mode", "Level"))
        for field_name, field in fields.items()
    }


def read_classes(files: list[Path]) -> ConfigSources:
    """Every top-level class and constant of the files."""
    sources = ConfigSources()
    for file in files:
        for node in ast.parse(file.read_bytes()).body:
            if isinstance(node, ast.ClassDef):
                sources.classes[node.name] = dict(_fields(node))
                sources.bases[node.name] = [base.id for base in node.bases if isinstance(base, ast.Name)]
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                sources.constants[node.targets[0].id] = node.value
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
                sources.constants[node.target.id] = node.value
    return sources


def _config_files(package: Path) -> list[Path]:
    folder = package / "config"
    return sorted(folder.glob("*.py")) if folder.is_dir() else [package / "config.py"]


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, Field]]:
    annotated = [
        (item.target.id, item, _text_after(node.body, place))
        for place, item in enumerate(node.body)
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    ]
    for name, item, description in annotated:
        yield name, replace(_field(item.annotation, item.value), description=description)
    if any(isinstance(base, ast.Name | ast.Attribute) and "Enum" in ast.unparse(base) for base in node.bases):
        for statement in node.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                yield statement.targets[0].id, Field(None, statement.value)
    if not annotated:
        yield from _arguments(node)


def _text_after(body: list[ast.stmt], place: int) -> str:
    match body[place + 1 : place + 2]:
        case [ast.Expr(value=ast.Constant(value=str(text)))]:
            return text
    return ""


def _arguments(node: ast.ClassDef) -> Iterator[tuple[str, Field]]:
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            arguments = method.args.args[1:]
            defaults: list[ast.expr | None] = [None] * (len(arguments) - len(method.args.defaults))
            for argument, default in zip(arguments, [*defaults, *method.args.defaults], strict=True):
                yield argument.arg, Field(argument.annotation, default)


def _field(annotation: ast.expr, value: ast.expr | None) -> Field:
    if not isinstance(value, ast.Call) or ast.unparse(value.func).rpartition(".")[2] not in (
        "field",
        "Field",
    ):
        return Field(annotation, value)
    named = {keyword.arg: keyword.value for keyword in value.keywords}
    if "default_factory" in named:
        return Field(annotation, named["default_factory"], factory=True)
    positional = value.args[0] if value.args else None
    default = named.get("default", positional)
    required = isinstance(default, ast.Constant) and default.value is Ellipsis
    return Field(annotation, None if required else default)
