"""Mapping of recorded calls to the tools that a request offers.

Agents have the same few tools under different names: a recorded call is translated to the offered
tool that performs the same action.
"""

from typing import Any

import msgspec

from open_token.agents.tools import (
    COMMAND,
    EDITOR_COMMANDS,
    find_action,
    find_synonyms,
    is_editor,
)
from open_token.jsontools.objects import as_list, as_object
from open_token.replay.recording import Call
from open_token.replay.requests import Tool, ToolCall

# Actions whose arguments can be translated one by one. A patch, for instance, cannot.
_TRANSLATABLE = frozenset(("run", "read", "write", "edit", "search", "find", "list"))
_PLACEHOLDERS: dict[str, Any] = {
    "string": "replayed",
    "number": 0,
    "integer": 0,
    "boolean": False,
    "array": [],
    "object": {},
}


class MappedCall(msgspec.Struct, frozen=True):
    """A call for a request, and whether the request offers its tool."""

    call: ToolCall
    is_offered: bool = True


def map_call(call: Call, tools: list[Tool]) -> MappedCall:
    """Translate a recorded call to one of the offered tools: of the same name or action."""
    unchanged = ToolCall(call.id, call.tool, call.arguments)
    for tool in tools:
        if tool.name == call.tool:
            return MappedCall(_to_custom_call(unchanged) if tool.is_custom else unchanged)
    action = find_action(call.tool, call.arguments)
    equivalent = _find_equivalent(tools, action)
    if action is None or equivalent is None:
        return MappedCall(unchanged, is_offered=not tools)
    arguments = as_object(call.arguments)
    if equivalent.is_script:
        return MappedCall(ToolCall(call.id, equivalent.name, _write_script(arguments)))
    translated = _translate_arguments(arguments, action, equivalent)
    return MappedCall(ToolCall(call.id, equivalent.name, translated))


def _find_equivalent(tools: list[Tool], action: str | None) -> Tool | None:
    if action not in _TRANSLATABLE:
        return None
    for tool in tools:
        if tool.is_custom:
            is_equivalent = tool.is_script and action == "run"
        elif is_editor(tool.name):
            is_equivalent = action in EDITOR_COMMANDS.values()
        else:
            is_equivalent = find_action(tool.name) == action
        if is_equivalent:
            return tool
    return None


def _write_script(arguments: dict[str, Any]) -> str:
    """Return a script for the Codex `exec` tool that runs a shell command."""
    command = next((arguments[name] for name in COMMAND if name in arguments), "")
    options = {"cmd": _convert(command, "string")}
    # JSON is valid JavaScript, so that no command can break out of its string.
    encoded = msgspec.json.encode(options).decode()
    return f"text((await tools.exec_command({encoded})).output)"


def _to_custom_call(call: ToolCall) -> ToolCall:
    """Return a call of a custom tool, which takes one text instead of an object."""
    value = call.arguments
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    if not isinstance(value, str):
        value = msgspec.json.encode(value).decode()
    return ToolCall(call.id, call.name, value)


def _translate_arguments(arguments: dict[str, Any], action: str, tool: Tool) -> dict[str, Any]:
    """Return arguments under the names of another tool; what it does not take is dropped."""
    properties = as_object(tool.schema.get("properties"))
    if not properties:
        return arguments
    translated: dict[str, Any] = {}
    if is_editor(tool.name):
        translated["command"] = next(
            command for command, performed in EDITOR_COMMANDS.items() if performed == action
        )
    for name, value in arguments.items():
        new_name = _find_property(name, action, properties)
        if new_name is not None and new_name not in translated:
            value_type = str(as_object(properties[new_name]).get("type"))
            translated[new_name] = _convert(value, value_type)
    for name in as_list(tool.schema.get("required")):
        if isinstance(name, str) and name not in translated:
            value_type = str(as_object(properties.get(name)).get("type") or "string").lower()
            translated[name] = _PLACEHOLDERS.get(value_type, "replayed")
    return translated


def _find_property(name: str, action: str, properties: dict[str, Any]) -> str | None:
    if name in properties:
        return name
    for synonym in find_synonyms(action, name):
        if synonym in properties:
            return synonym
    return None


def _convert(value: Any, value_type: str) -> Any:
    """Convert a command between a line and a list of words."""
    if value_type == "array" and isinstance(value, str):
        return ["bash", "-lc", value]
    if value_type == "string" and isinstance(value, list):
        words = [str(word) for word in value]
        if len(words) == 3 and words[1] in ("-lc", "-c"):
            return words[2]
        return " ".join(words)
    return value
