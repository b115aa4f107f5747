"""What a route answers, said once for OpenAPI: a schema and an example of it."""

from typing import Any

from pydantic import TypeAdapter


def shown(model: Any, example: Any) -> dict[int | str, dict[str, Any]]:
    """The answer of a route that went well."""
    schema = TypeAdapter(model).json_schema()
    plain = _inline(schema, schema.pop("$defs", {}))
    return {200: {"content": {"application/json": {"schema": plain, "example": example}}}}


def _inline(schema: Any, known: dict[str, Any]) -> Any:
    """A schema without references, which lead nowhere once it stands inside a larger document."""
    if isinstance(schema, list):
        return [_inline(item, known) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(name := schema.get("$ref"), str):
        return _inline(known[name.rpartition("/")[2]], known)
    return {key: _inline(value, known) for key, value in schema.items()}
