"""Responses to requests outside the conversation: the smallest value of the requested form."""

from typing import Any

import msgspec

from open_token.replay.text import as_list, as_object

FALLBACK_TEXT = "ok"
_MAX_DEPTH = 32


def build_fallback_text(schema: Any) -> str:
    """Return the JSON text of a response with a schema."""
    return msgspec.json.encode(build_minimal_value(schema)).decode()


def build_minimal_value(schema: Any, depth: int = 0) -> Any:
    """Return a minimal value that a common JSON Schema accepts."""
    fields = as_object(schema)
    enum = as_list(fields.get("enum"))
    if enum:
        return enum[0]
    if "const" in fields:
        return fields["const"]
    for name in ("anyOf", "oneOf", "allOf"):
        options = as_list(fields.get(name))
        if options:
            return build_minimal_value(options[0], depth + 1) if depth < _MAX_DEPTH else None
    value_type = fields.get("type")
    if isinstance(value_type, list) and value_type:
        value_type = value_type[0]
    value_type = str(value_type or "object").lower()
    if value_type == "object":
        if depth >= _MAX_DEPTH:
            return {}
        properties = as_object(fields.get("properties"))
        return {name: build_minimal_value(part, depth + 1) for name, part in properties.items()}
    if value_type in ("integer", "number"):
        minimum = fields.get("minimum")
        return minimum if isinstance(minimum, int | float) else 1
    return {"string": FALLBACK_TEXT, "boolean": False, "array": []}.get(value_type)
