"""Makes `packages/schemastore/`: what a pull request to SchemaStore adds, laid out as its repository.

Run by `make accept`. Editors support draft 7 best, so SchemaStore asks for that; the schema of
`open-token schema` is translated.
"""

import json
from typing import Any

from make_conformance import build_kit, write_pretty
from open_token.model.json_schema import build_document_schema

NAME = "open-token"
SCHEMA_PATH = f"src/schemas/json/{NAME}.json"
POSITIVE = ("sound", "bare")
NEGATIVE = (
    "version",
    "top-level",
    "exported-at",
    "no-conversation-id",
    "redaction-mode",
    "actor-form",
    "kind",
    "event-id",
    "type",
    "no-role",
    "tool-as-message",
    "mime",
    "usage",
    "no-arguments",
)
"""Cases of the conformance kit. Order, pairing and hashes are beyond a schema."""


def build_files() -> dict[str, bytes]:
    """Return all files, by their paths."""
    kit = build_kit()
    files = {SCHEMA_PATH: _write(build_schema()), "catalog-entry.json": _write(build_entry())}
    for folder, names in (("test", POSITIVE), ("negative_test", NEGATIVE)):
        for name in names:
            document = json.loads(kit[f"fixtures/validate/{name}.json"])
            files[f"src/{folder}/{NAME}/{name}.json"] = write_pretty(document)
    return files


def build_entry() -> dict[str, Any]:
    """Return the entry for the catalog."""
    return {
        "name": "Open-Token",
        "description": "Conversation of a person with an AI agent: messages, tool calls, results",
        "fileMatch": ["*.ot.json"],
        "url": f"https://www.schemastore.org/{NAME}.json",
    }


def build_schema() -> dict[str, Any]:
    """Return the schema of a document in draft 7."""
    schema = _translate(build_document_schema())
    schema |= {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": f"https://json.schemastore.org/{NAME}.json",
    }
    return dict(schema)


def _translate(value: Any) -> Any:
    """Return a part of the schema with the names of draft 7."""
    if isinstance(value, list):
        return [_translate(item) for item in value]
    if not isinstance(value, dict):
        return value
    translated = {}
    for key, item in value.items():
        if key == "$ref":
            item = item.replace("#/$defs/", "#/definitions/")
        translated["definitions" if key == "$defs" else key] = _translate(item)
    return translated


def _write(value: Any) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"
