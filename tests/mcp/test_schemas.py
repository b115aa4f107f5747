"""The schemas that clients see."""

import jsonschema
import pytest

from open_token.mcp.schemas import (
    EventsRequest,
    EventsResult,
    ExportRequest,
    ListResult,
    build_schema,
)


def test_a_schema_is_an_object_that_takes_nothing_else() -> None:
    schema = build_schema(ExportRequest)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert (schema["type"], schema["required"], schema["additionalProperties"]) == (
        "object",
        ["session"],
        False,
    )
    assert all("description" in value for value in schema["properties"].values())
    jsonschema.validate({"session": "last", "redact": "pii"}, schema)
    for wrong in (
        {},
        {"session": ""},
        {"session": "x", "redact": "some"},
        {"session": "x", "path": "/etc"},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


def test_parts_stand_beside_the_whole() -> None:
    schema = build_schema(ListResult)
    jsonschema.validate({"notice": "", "sessions": [], "total": 0}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"notice": "", "sessions": [{"id": 1}], "total": 0}, schema)
    assert "$defs" not in build_schema(EventsRequest)
    jsonschema.Draft202012Validator.check_schema(build_schema(EventsResult))
