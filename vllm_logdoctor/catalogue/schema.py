"""The JSON Schema of pack files, for editors."""

from __future__ import annotations

import json

from vllm_logdoctor.catalogue.model import PackFile

SCHEMA_ID = "https://vllm-logdoctor.invalid/schema/pack-1.json"


def schema_text() -> str:
    """Return the JSON Schema of pack files as text; the same text for the same models."""
    schema = PackFile.model_json_schema()
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "Pattern pack of vllm_logdoctor",
    }
    return json.dumps(head | {key: schema[key] for key in schema if key not in head}, indent=2) + "\n"
