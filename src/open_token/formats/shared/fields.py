"""Access to fields of untrusted JSON: a field may be missing, empty or of an unexpected type."""

from typing import Any

import msgspec

JsonObject = dict[str, Any]

_decode_json = msgspec.json.Decoder().decode


def as_text(value: Any) -> str | None:
    """Return a non-empty string; None for anything else."""
    return value if isinstance(value, str) and value else None


def as_dicts(value: Any) -> list[JsonObject]:
    """Return the objects in a list; nothing if the value is not a list."""
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]


def get_dict(value: Any, key: str) -> JsonObject:
    """Return a field that holds an object; an empty one if it does not."""
    field = value.get(key) if type(value) is dict else None
    return field if type(field) is dict else {}


def get_dicts(value: Any, key: str) -> list[JsonObject]:
    """Return the objects in a field that holds a list."""
    field = value.get(key) if type(value) is dict else None
    if type(field) is not list:
        return []
    return [item for item in field if type(item) is dict]


def get_text(value: Any, key: str) -> str | None:
    """Return a field that holds a non-empty string; None if it does not."""
    field = value.get(key) if type(value) is dict else None
    return field if isinstance(field, str) and field else None


def get_first(value: JsonObject, *names: str) -> Any:
    """Return the first of these fields that is present and not null."""
    for name in names:
        field = value.get(name)
        if field is not None:
            return field
    return None


def pick_fields(value: JsonObject, *names: str) -> JsonObject:
    """Return these fields, without those that are missing or null."""
    return {name: value[name] for name in names if value.get(name) is not None}


def drop_nulls(value: JsonObject) -> JsonObject:
    """Return the fields that are not null."""
    return {name: field for name, field in value.items() if field is not None}


def parse_arguments(value: Any) -> Any:
    """Return the arguments of a tool call, parsed if they are a JSON object or array in a string."""
    if value is None:
        return {}
    if not isinstance(value, str):
        return value
    try:
        parsed = _decode_json(value.encode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return value
    return parsed if isinstance(parsed, dict | list) else value


def parse_json_text(value: Any) -> Any:
    """Return the parsed value of a string that holds a JSON object or array; anything else as is."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return _decode_json(value.encode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return value
