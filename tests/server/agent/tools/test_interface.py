"""What a tool is made of."""

from open_token.server.agent.tools.interface import ToolSpec


def test_a_tool_without_arguments_has_a_schema_all_the_same() -> None:
    assert ToolSpec(name="Now", description="the time").parameters == {
        "type": "object",
        "properties": {},
    }
