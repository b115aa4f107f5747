"""What readers say of the fields that they share: only where there is something to say."""

from typing import Any

import pytest

from open_token.formats.shared.notes import note_tool_definitions


@pytest.mark.parametrize(
    ("tools", "count"),
    [
        ([{"name": "Bash", "description": "runs"}], 1),
        (
            [
                {"name": "a"},
                {"type": "function", "function": {"name": "b", "parameters": {"type": "object"}}},
            ],
            1,
        ),
        ([{"functionDeclarations": [{"name": "a"}]}], 1),
        ([{"type": "web_search", "name": "web_search"}, {"googleSearch": {}}], 0),
        ([{"type": "function", "function": {"name": "b"}}], 0),
        (["Bash", 4, None], 0),
        (None, 0),
        ("Bash", 0),
        ({"name": "Bash", "description": "runs"}, 0),
    ],
)
def test_definitions_are_noted_where_tools_have_more_than_names(tools: Any, count: int) -> None:
    notes: list[tuple[str, str, str]] = []
    note_tool_definitions(lambda *note: notes.append(note), tools, "line 1")
    assert [note[:2] for note in notes] == [("tool-definitions", "line 1")] * count
