"""Flags of `vllm serve` and the API server, from the calls and classes of a vLLM package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from tools.extract.config_classes import ConfigSources, Field, read_classes
from vllm_logdoctor.knowledge.store import Facts

_FORMS = {"BooleanOptionalAction": "switch-pair", "store_true": "switch", "StoreBoolean": "boolean"}
_FRONT_ENDS = (
    "entrypoints/openai/cli_args.py",
    "entrypoints/cli/serve.py",
    "entrypoints/launcher/cli_args.py",
)


def extract_flags(package: Path) -> dict[str, Facts]:
    """Flags by their long name; what another flag is derived from at run time stays source text."""
    sources = read_classes(_sources(package))
    flags: dict[str, Facts] = {}
    for path in _front_ends(package):
        tree = ast.parse(path.read_bytes())
        for class_name in ("BaseFrontendArgs", "FrontendArgs"):
            flags.update(_flags_of_class(class_name, tree, sources))
        flags.update(_flags_of_calls(tree, sources, "server"))
    flags.update(
        _flags_of_calls(ast.parse((package / "engine/arg_utils.py").read_bytes()), sources, "engine")
    )
    return {name: _without_noise(facts) for name, facts in sorted(flags.items())}


def _without_noise(facts: Facts) -> Facts:
    return {key: value for key, value in facts.items() if key != "default_is_source" or value}


def _sources(package: Path) -> list[Path]:
    folder = package / "config"
    configs = sorted(folder.glob("*.py")) if folder.is_dir() else [package / "config.py"]
    return [*configs, package / "engine/arg_utils.py", *_front_ends(package)]


def _front_ends(package: Path) -> list[Path]:
    named = {package / name for name in _FRONT_ENDS} | set(package.glob("entrypoints/**/cli_args.py"))
    return sorted(path for path in named if path.is_file())


def _flags_of_class(name: str, tree: ast.Module, sources: ConfigSources) -> Iterator[tuple[str, Facts]]:
    """A flag for each field of a class that is turned into flags as a whole."""
    if any(isinstance(node, ast.ClassDef) and node.name == name for node in tree.body):
        for field_name, field in sources.fields_of(name).items():
            facts = _facts_of_field(field, sources)
            named = {"field": f"FrontendArgs.{field_name}", "owner": "server"}
            yield "--" + field_name.replace("_", "-"), {**facts, **named}


def _flags_of_calls(tree: ast.Module, sources: ConfigSources, owner: str) -> Iterator[tuple[str, Facts]]:
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            reader = _CallReader(_keyword_tables(function), sources)
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and _is_add_argument(node):
                    declared = reader.read(node)
                    if declared is not None:
                        yield declared[0], {**declared[1], "owner": owner}


def _is_add_argument(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument"


def _keyword_tables(function: ast.FunctionDef) -> dict[str, str]:
    """Names set by `x = get_kwargs(SomeConfig)`, with that class."""
    tables: dict[str, str] = {}
    for node in ast.walk(function):
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(func=ast.Name(id="get_kwargs"), args=[ast.Name(id=owner)]),
            ):
                tables[name] = owner
    return tables


class _CallReader(Struct, frozen=True):
    """Reads one add_argument call; `tables`: keyword tables with the class that each is made from."""

    tables: dict[str, str]
    sources: ConfigSources

    def read(self, call: ast.Call) -> tuple[str, Facts] | None:
        names = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        long_names = [name for name in names if name.startswith("--")]
        if not long_names:
            return None
        facts: Facts = {"default": None, "form": "value"}
        for keyword in call.keywords:
            if keyword.arg is None:
                facts.update(self._shared(keyword.value))
            else:
                facts.update(_facts_of_keyword(keyword.arg, keyword.value, self.sources))
        aliases = [name for name in names if name != long_names[0]]
        if aliases:
            facts["aliases"] = aliases
        return long_names[0], self._with_own_default(long_names[0], facts, call)

    def _with_own_default(self, name: str, facts: Facts, call: ast.Call) -> Facts:
        """Default of a flag whose call gives none: the engine argument so named, else off for a switch."""
        given = {keyword.arg for keyword in call.keywords}
        if given & {"default", None}:
            return facts
        field = self.sources.fields_of("EngineArgs").get(name.removeprefix("--").replace("-", "_"))
        if field is not None and field.default is not None:
            return {**facts, **_default(field.default, self.sources)}
        return {**facts, "default": False} if facts["form"] == "switch" else facts

    def _shared(self, value: ast.expr) -> Facts:
        """Facts of `**kwargs["field"]`, or of `**{**kwargs["field"], "default": None}`."""
        match value:
            case ast.Subscript(value=ast.Name(id=table), slice=ast.Constant(value=str(name))) if (
                table in self.tables
            ):
                owner = self.tables[table]
                field = self.sources.fields_of(owner).get(name)
                own = {} if field is None else _facts_of_field(field, self.sources)
                return {**own, "field": f"{owner}.{name}"}
            case ast.Dict(keys=keys, values=values):
                facts: Facts = {}
                for key, item in zip(keys, values, strict=True):
                    if key is None:
                        facts.update(self._shared(item))
                    elif isinstance(key, ast.Constant):
                        facts.update(_facts_of_keyword(str(key.value), item, self.sources))
                return facts
        return {}


def _facts_of_keyword(name: str, value: ast.expr, sources: ConfigSources) -> Facts:
    match name:
        case "default":
            return _default(value, sources)
        case "action":
            action = value.value if isinstance(value, ast.Constant) else ast.unparse(value).rpartition(".")[2]
            return {"form": _FORMS.get(str(action), "value")}
        case "choices":
            choices = _literal(value, sources)
            return {"choices": list(choices)} if isinstance(choices, (list, tuple)) else {}
        case "deprecated":
            return {"deprecated": True} if isinstance(value, ast.Constant) and value.value is True else {}
        case "help":
            return {"deprecated": True} if "deprecated" in ast.unparse(value).lower() else {}
    return {}


def _facts_of_field(field: Field, sources: ConfigSources) -> Facts:
    facts: Facts = {"default": None, "form": "value"}
    if "deprecated" in field.description.lower():
        facts["deprecated"] = True
    if field.default is not None:
        facts.update(_made(field.default) if field.factory else _default(field.default, sources))
    if field.type is not None:
        names = {node.id for node in ast.walk(field.type) if isinstance(node, ast.Name)}
        if "bool" in names and "str" not in names:
            facts["form"] = "switch-pair"
        else:
            choices = _choices(field.type, sources)
            facts.update({"choices": choices} if choices else {})
    return facts


def _made(factory: ast.expr) -> Facts:
    """Default that a factory makes: an empty container, or source text."""
    empty: dict[str, Any] = {"list": [], "dict": {}, "tuple": [], "set": []}
    name = ast.unparse(factory)
    if name in empty:
        return {"default": empty[name]}
    if isinstance(factory, ast.Lambda):
        return _literal_or_source(factory.body)
    return {"default": f"{name}()", "default_is_source": True}


def _default(value: ast.expr, sources: ConfigSources) -> Facts:
    # EngineArgs.field and SomeConfig.field lead to another field, at last to a literal.
    for _ in range(5):
        match value:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if name in sources.fields_of(owner):
                field = sources.fields_of(owner)[name]
                if field.default is None:
                    return {"default": None}
                if field.factory:
                    return _made(field.default)
                value = field.default
            case ast.Call(
                func=ast.Name(id="get_field"), args=[ast.Name(id=owner), ast.Constant(value=str(name))]
            ):
                value = ast.Attribute(ast.Name(owner), name)
            case _:
                break
    return _literal_or_source(value)


def _literal_or_source(value: ast.expr) -> Facts:
    try:
        literal = ast.literal_eval(value)
    except ValueError:
        return {"default": ast.unparse(value), "default_is_source": True}
    # Said openly, so that it also overrides the source text of a default that this one replaces.
    return {"default": list(literal) if isinstance(literal, tuple) else literal, "default_is_source": False}


def _choices(annotation: ast.expr, sources: ConfigSources, depth: int = 0) -> list[Any]:
    """Values of the Literal types in an annotation, through the names that stand for them."""
    found: list[Any] = []
    match annotation:
        case ast.Name(id=name) if name in sources.constants and depth < 5:
            found = _choices(sources.constants[name], sources, depth + 1)
        case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
            for item in inner.elts if isinstance(inner, ast.Tuple) else [inner]:
                found.extend(
                    [item.value] if isinstance(item, ast.Constant) else _choices(item, sources, depth + 1)
                )
        case ast.Subscript(slice=inner) | ast.UnaryOp(operand=inner):
            found = _choices(inner, sources, depth + 1)
        case ast.Tuple(elts=items):
            found = [choice for item in items for choice in _choices(item, sources, depth + 1)]
        case ast.BinOp(left=left, right=right):
            found = [*_choices(left, sources, depth + 1), *_choices(right, sources, depth + 1)]
    return found


def _literal(value: ast.expr, sources: ConfigSources) -> Any:
    if isinstance(value, ast.Name) and value.id in sources.constants:
        value = sources.constants[value.id]
    try:
        return ast.literal_eval(value)
    except ValueError:
        return None
