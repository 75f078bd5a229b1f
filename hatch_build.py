"""Puts the packs into the wheel, with what is compiled from them: an installed tool never has to write beside itself."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PackHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds patterns/ as vllm_logdoctor/_patterns, and the compiled index and failure rules."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files to include; an editable install reads the checkout instead."""
        if version == "editable" or self.target_name != "wheel":
            return
        root = Path(self.root)
        sys.path.insert(0, str(root))
        try:
            import msgspec

            from vllm_logdoctor.catalogue.loading import SHIPPED as INDEX
            from vllm_logdoctor.catalogue.loading import compile_folder
            from vllm_logdoctor.catalogue.locate import pack_files, page_files
            from vllm_logdoctor.rules.failure.signatures import SHIPPED as FAILURES
            from vllm_logdoctor.rules.failure.signatures import rules_text
        finally:
            sys.path.remove(str(root))
        packs = root / "patterns"
        include: dict[str, str] = build_data["force_include"]
        for file in [*pack_files(packs), *page_files(packs)]:
            include[str(file)] = f"vllm_logdoctor/_patterns/{file.relative_to(packs).as_posix()}"
        compiled = Path(tempfile.mkdtemp(prefix="logdoctor-packs-"))
        (compiled / INDEX).write_bytes(msgspec.json.encode(compile_folder(packs, trusted=True)))
        (compiled / FAILURES).write_bytes(rules_text())
        for file in compiled.iterdir():
            include[str(file)] = f"vllm_logdoctor/_patterns/{file.name}"
