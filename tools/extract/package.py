"""All facts of one release from its unpacked package folder."""

from __future__ import annotations

import ast
from pathlib import Path, PurePosixPath

from tools.extract.command_line import extract_flags
from tools.extract.config_classes import extract_fields
from tools.extract.environment import extract_variables
from tools.extract.messages import extract_messages
from tools.extract.release import PrintedMessage, ReleaseFacts

# Models log little of use for telling a release, and their lines would double the table.
_MODELS = PurePosixPath("model_executor/models")
_LEVELS = {"warnings.warn": "warn", "print": "print"}
_LOGGED = frozenset({"logger", "print_once"})


def release_from_package(package: Path, version: str | None = None) -> ReleaseFacts:
    """Facts of the release in `package`, the folder named vllm of an unpacked wheel or source distribution.

    `version`: its number; by default what the package's _version.py says. Raises ValueError where the folder
    is no vLLM package or does not say its version, SyntaxError where a source that matters is no Python.
    """
    if not (package / "engine" / "arg_utils.py").is_file():
        raise ValueError(f"no vLLM package: {package}")
    return ReleaseFacts(
        version or own_version(package),
        flags=extract_flags(package),
        variables=extract_variables(package),
        fields=extract_fields(package),
        messages=_messages(package),
    )


def own_version(package: Path) -> str:
    """What the package's _version.py says; raises ValueError where it says nothing."""
    path = package / "_version.py"
    tree = ast.parse(path.read_bytes()) if path.is_file() else ast.Module([], [])
    for node in tree.body:
        match node:
            case ast.Assign(
                targets=[*_, ast.Name(id="version" | "__version__")], value=ast.Constant(value=str(text))
            ):
                return text
    raise ValueError(f"{package} does not say its version; give it")


def _messages(package: Path) -> dict[PrintedMessage, tuple[int, ...]]:
    found: dict[PrintedMessage, set[int]] = {}
    for each in extract_messages(package):
        level = _LEVELS.get(each.kind, each.level)
        lines = found.setdefault(PrintedMessage(each.file, each.template, each.style, level), set())
        if each.kind in _LOGGED and not PurePosixPath(each.file).is_relative_to(_MODELS):
            lines.add(each.line)
    return {message: tuple(sorted(lines)) for message, lines in found.items()}
