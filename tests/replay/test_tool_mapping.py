"""Mapping of recorded calls to offered tools."""

from typing import Any

import pytest

from open_token.replay.recording import Call
from open_token.replay.requests import Tool
from open_token.replay.tool_mapping import map_call


def tool(name: str, *required: str, **properties: str) -> Tool:
    return Tool(
        name,
        {
            "properties": {key: {"type": kind} for key, kind in properties.items()},
            "required": [*required],
        },
    )


@pytest.mark.parametrize(
    ("recorded", "arguments", "offered", "made"),
    [
        ("Bash", {"command": "ls"}, tool("Bash"), ("Bash", {"command": "ls"})),
        ("Bash", {"command": "ls", "description": "x"}, tool("exec_command", cmd="string"),
         ("exec_command", {"cmd": "ls"})),
        ("exec_command", {"cmd": "ls"}, tool("bash", "command", "description", command="string", description="string"),
         ("bash", {"command": "ls", "description": "replayed"})),
        ("shell", {"command": ["bash", "-lc", "ls -a"]}, tool("run_shell_command", command="string"),
         ("run_shell_command", {"command": "ls -a"})),
        ("bash", {"command": "ls"}, tool("shell", command="array"), ("shell", {"command": ["bash", "-lc", "ls"]})),
        ("shell", {"command": ["ls", "-a"]}, tool("bash", command="string"), ("bash", {"command": "ls -a"})),
        ("Read", {"file_path": "a"}, tool("read", filePath="string"), ("read", {"filePath": "a"})),
        ("read_file", {"absolute_path": "a", "limit": 3}, tool("view", path="string"), ("view", {"path": "a"})),
        ("Edit", {"file_path": "a", "old_string": "x", "new_string": "y"},
         tool("edit", path="string", oldText="string", newText="string"),
         ("edit", {"path": "a", "oldText": "x", "newText": "y"})),
        ("apply_patch", {"input": "*** Begin"}, Tool("apply_patch", {}, is_custom=True), ("apply_patch", "*** Begin")),
        ("Bash", {"command": 'echo "x"'}, Tool("exec", {}, is_custom=True, is_script=True),
         ("exec", 'text((await tools.exec_command({"cmd":"echo \\"x\\""})).output)')),
    ],
)  # fmt: skip
def test_the_same_under_another_name(
    recorded: str, arguments: Any, offered: Tool, made: tuple[str, Any]
) -> None:
    others = [tool("draw", path="string"), Tool("paint", {}, is_custom=True)]
    mapped = map_call(Call("c", recorded, arguments), [*others, offered])
    assert (mapped.call.name, mapped.call.arguments) == made
    assert mapped.is_offered


def test_what_nobody_offers_goes_out_as_it_is() -> None:
    call = Call("c", "spawn", {"a": 1})
    mapped = map_call(call, [tool("draw")])
    assert (mapped.call.name, mapped.call.arguments, mapped.is_offered) == (
        "spawn",
        {"a": 1},
        False,
    )
    assert map_call(call, []).is_offered


@pytest.mark.parametrize(
    "schema", [{}, {"properties": None}, {"properties": {"command": 3}, "required": [None, {}]}]
)
def test_a_schema_of_any_kind(schema: Any) -> None:
    assert map_call(
        Call("c", "Bash", {"command": "ls"}), [Tool("bash", schema)]
    ).call.arguments == {"command": "ls"}
    assert map_call(Call("c", "Bash", "ls"), [Tool("bash", schema)]).call.name == "bash"


def test_an_editor_is_called_with_the_command_of_the_action() -> None:
    schema = {"properties": {"command": {"type": "string"}, "path": {"type": "string"}}}
    editor = Tool("str_replace_editor", schema)
    read = map_call(Call("c", "Read", {"file_path": "a"}), [editor]).call
    assert (read.name, read.arguments) == ("str_replace_editor", {"command": "view", "path": "a"})
    back = map_call(Call("c", "text_editor", {"command": "view", "path": "a"}), [tool("Read")])
    assert back.call.name == "Read"


def test_a_patch_is_not_translated_to_an_edit() -> None:
    assert not map_call(Call("c", "apply_patch", {"input": "x"}), [tool("Edit")]).is_offered
