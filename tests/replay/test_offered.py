"""A recorded call as a call of the tools that a request offers."""

from typing import Any

import pytest

from open_token.replay.asked import Tool
from open_token.replay.offered import as_offered
from open_token.replay.recording import Call


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
    mapped = as_offered(Call("c", recorded, arguments), [*others, offered])
    assert (mapped.made.name, mapped.made.arguments) == made
    assert mapped.is_offered


def test_what_nobody_offers_goes_out_as_it_is() -> None:
    call = Call("c", "spawn", {"a": 1})
    mapped = as_offered(call, [tool("draw")])
    assert (mapped.made.name, mapped.made.arguments, mapped.is_offered) == (
        "spawn",
        {"a": 1},
        False,
    )
    assert as_offered(call, []).is_offered


@pytest.mark.parametrize(
    "schema", [{}, {"properties": None}, {"properties": {"command": 3}, "required": [None, {}]}]
)
def test_a_schema_of_any_kind(schema: Any) -> None:
    assert as_offered(
        Call("c", "Bash", {"command": "ls"}), [Tool("bash", schema)]
    ).made.arguments == {"command": "ls"}
    assert as_offered(Call("c", "Bash", "ls"), [Tool("bash", schema)]).made.name == "bash"
