"""Minimal responses for a schema."""

import json
from typing import Any

import pytest

from open_token.replay.player import build_fallback_text, build_minimal_value


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "OBJECT", "properties": {"score": {"type": "INTEGER", "minimum": 5}, "why": {"type": "STRING"}}},
         {"score": 5, "why": "ok"}),
        ({"type": "object", "properties": {"kind": {"enum": ["a", "b"]}, "all": {"type": "array"}}},
         {"kind": "a", "all": []}),
        ({"anyOf": [{"type": "boolean"}]}, False),
        ({"type": ["number", "null"]}, 1),
        ({"const": 7}, 7),
        ({"type": "null"}, None),
        (None, {}),
        ([1], {}),
        ({"properties": 3}, {}),
    ],
)  # fmt: skip
def test_the_least_value(schema: Any, value: Any) -> None:
    assert json.loads(build_fallback_text(schema)) == value


def test_a_schema_without_a_ground() -> None:
    schema: dict[str, Any] = {"type": "object"}
    schema["properties"] = {"again": schema}
    assert "again" in build_minimal_value(schema)
