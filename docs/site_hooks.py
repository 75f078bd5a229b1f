"""Adds a page per rule to the site while it is built; the pages' source is patterns/rules."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from generate import rule_markdown
from mkdocs.structure.files import File, Files

from vllm_logdoctor.catalogue.pages import rule_ids


def on_files(files: Files, config: Any) -> Files:
    """Add the rule pages."""
    for rule_id in rule_ids():
        files.append(File.generated(config, f"reference/rules/{rule_id}.md", content=rule_markdown(rule_id)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead the links to rule pages, which hold in the repository, to their pages of the site."""
    return markdown.replace("](../../patterns/rules/", "](rules/")
