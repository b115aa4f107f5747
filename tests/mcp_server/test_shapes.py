"""The schemas that clients see."""

import jsonschema
import pytest

from open_token.mcp_server.shapes import Events, ExportConversation, GetEvents, Sessions, schema_of


def test_a_schema_is_an_object_that_takes_nothing_else() -> None:
    schema = schema_of(ExportConversation)
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
    schema = schema_of(Sessions)
    jsonschema.validate({"sessions": [], "total": 0}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"sessions": [{"id": 1}], "total": 0}, schema)
    assert "$defs" not in schema_of(GetEvents)
    jsonschema.Draft202012Validator.check_schema(schema_of(Events))
