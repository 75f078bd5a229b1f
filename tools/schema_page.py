"""The reference page of the JSON document: `python -m tools.schema_page docs/reference`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from vllm_logdoctor.report.document.model import json_schema

PAGE = "json-schema.md"
SCHEMA = "logdoctor-1.schema.json"
_HEAD = f"""# The JSON document

`logdoctor analyze vllm.log --format json` writes one document, `logdoctor/1`. This page and the schema beside
it ([{SCHEMA}]({SCHEMA})) are made from the models in `vllm_logdoctor/report/document/`.

- Unknown values are `null`, never guessed. There is no `NaN` and no infinity.
- Times are ISO 8601 without zone, and `null` where the log prints no year; `clock` holds month, day and time
  as printed in either case.
- Line numbers are 1-based and count `\\n` only.
- A later `logdoctor/1` may add names; none is renamed, removed or changed in meaning.
"""


def page() -> str:
    """Return the reference page as Markdown."""
    schema = json_schema()
    parts = [_HEAD, *_part("The document", schema)]
    for name, part in sorted(schema["$defs"].items()):
        parts += _part(_title(name), part)
    return "\n".join(parts).rstrip() + "\n"


def schema_text() -> str:
    """Return the JSON Schema as text."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **json_schema()}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def write(folder: Path) -> None:
    """Write page and schema."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PAGE).write_text(page(), encoding="utf-8")
    (folder / SCHEMA).write_text(schema_text(), encoding="utf-8")


def _title(name: str) -> str:
    return name.removesuffix("Out")


def _part(title: str, part: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {title}\n"
    if part.get("description"):
        yield part["description"] + "\n"
    yield "| name | type | meaning |\n|---|---|---|"
    for name, field in part.get("properties", {}).items():
        yield f"| `{name}` | {_type(field)} | {field.get('description', '')} |"
    yield ""


def _type(field: Mapping[str, Any]) -> str:
    if "$ref" in field:
        name = _title(field["$ref"].rsplit("/", 1)[-1])
        return f"[{name}](#{name.lower()})"
    if "anyOf" in field:
        return " or ".join(_type(choice) for choice in field["anyOf"])
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{choice}`" for choice in field["enum"])
    if field.get("type") == "array":
        if "prefixItems" in field:
            return f"list of {len(field['prefixItems'])}: {_type(field['prefixItems'][0])}"
        return f"list of {_type(field['items'])}" if "items" in field else "list"
    if isinstance(field.get("additionalProperties"), Mapping):
        return f"name to {_type(field['additionalProperties'])}"
    return str(field.get("type", "any"))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
