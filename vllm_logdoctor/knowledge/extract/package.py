"""All facts of one release from its unpacked package folder."""

from __future__ import annotations

import ast
from pathlib import Path, PurePosixPath

from vllm_logdoctor.knowledge.extract.command_line import extract_flags
from vllm_logdoctor.knowledge.extract.config_classes import extract_fields
from vllm_logdoctor.knowledge.extract.environment import extract_variables
from vllm_logdoctor.knowledge.extract.messages import extract_messages
from vllm_logdoctor.knowledge.extract.release import CallSite, ReleaseFacts

# Models print little of use, and are too many for the table of call sites.
_MODELS = PurePosixPath("model_executor/models")


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
        call_sites=_call_sites(package),
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


def _call_sites(package: Path) -> dict[CallSite, tuple[int, ...]]:
    lines: dict[CallSite, set[int]] = {}
    for message in extract_messages(package):
        path = PurePosixPath(message.file)
        if message.kind in ("logger", "print_once") and not path.is_relative_to(_MODELS):
            lines.setdefault(CallSite(path.name, message.template, message.style), set()).add(message.line)
    return {site: tuple(sorted(found)) for site, found in lines.items()}
