"""A recorded call as a call of the tools that a request offers: agents have the same few under many
names."""

from typing import Any

import msgspec

from open_token.replay.asked import Made, Tool
from open_token.replay.plain import list_of, object_of
from open_token.replay.recording import Call

FAMILIES: dict[str, tuple[str, ...]] = {
    "shell": (
        "bash", "shell", "exec_command", "run_shell_command", "shell_command", "local_shell", "execute_command",
        "run_terminal_cmd", "run_terminal_command", "run_command", "terminal", "powershell", "exec", "execute_bash",
    ),
    "read": ("read", "read_file", "view", "view_file", "readfile"),
    "write": ("write", "write_file", "write_to_file", "create", "create_file"),
    "edit": ("edit", "replace", "str_replace", "edit_file", "str_replace_editor", "replace_in_file"),
    "search": ("grep", "grep_search", "search_file_content", "search_files", "rg"),
    "find": ("glob", "find_files", "file_search", "glob_search"),
    "list": ("ls", "list", "list_directory", "list_files", "list_dir"),
}  # fmt: skip
_KIN = {name: family for family, names in FAMILIES.items() for name in names}
_ALIKE: tuple[tuple[str, ...], ...] = (
    ("command", "cmd", "script", "code"),
    (
        "file_path",
        "filePath",
        "path",
        "absolute_path",
        "filename",
        "dir_path",
        "dirPath",
        "directory",
    ),
    ("content", "contents", "file_text", "text"),
    ("old_string", "oldString", "old_str", "oldText", "search"),
    ("new_string", "newString", "new_str", "newText", "replace"),
    ("pattern", "query", "regex"),
)
_FILLED: dict[str, Any] = {
    "string": "replayed",
    "number": 0,
    "integer": 0,
    "boolean": False,
    "array": [],
    "object": {},
}


class Mapped(msgspec.Struct, frozen=True):
    """A call for the request at hand, and whether the request has such a tool."""

    made: Made
    is_offered: bool = True


def as_offered(call: Call, tools: list[Tool]) -> Mapped:
    """The call as the request can take it: under its own name, else under that of a tool that does
    the same."""
    plain = Made(call.id, call.tool, call.arguments)
    own = next((tool for tool in tools if tool.name == call.tool), None)
    if own is not None:
        return Mapped(_as_custom(plain) if own.is_custom else plain)
    family = _KIN.get(call.tool.lower())
    kin = next((tool for tool in tools if family and _is_kin(tool, family)), None)
    if kin is None:
        return Mapped(plain, is_offered=not tools)
    if kin.is_script:
        return Mapped(Made(call.id, kin.name, _scripted(object_of(call.arguments))))
    return Mapped(Made(call.id, kin.name, _translated(object_of(call.arguments), kin)))


def _is_kin(tool: Tool, family: str) -> bool:
    if tool.is_custom:
        return tool.is_script and family == "shell"
    return _KIN.get(tool.name.lower()) == family


def _scripted(arguments: dict[str, Any]) -> str:
    """A shell command as a line of the script that the tool runs."""
    line = _shaped(next((arguments[name] for name in _ALIKE[0] if name in arguments), ""), "string")
    given = msgspec.json.encode({"cmd": line}).decode()
    return f"text((await tools.exec_command({given})).output)"


def _as_custom(made: Made) -> Made:
    """A tool that takes a text gets what the record has as its only argument."""
    given = made.arguments
    if isinstance(given, dict) and len(given) == 1:
        given = next(iter(given.values()))
    return Made(
        made.id, made.name, given if isinstance(given, str) else msgspec.json.encode(given).decode()
    )


def _translated(arguments: dict[str, Any], tool: Tool) -> dict[str, Any]:
    """Arguments under the names that the tool has for them; what it does not know is left out."""
    properties = object_of(tool.schema.get("properties"))
    if not properties:
        return arguments
    made: dict[str, Any] = {}
    for name, value in arguments.items():
        there = (
            name
            if name in properties
            else next((word for word in _others(name) if word in properties), None)
        )
        if there is not None and there not in made:
            made[there] = _shaped(value, str(object_of(properties[there]).get("type")))
    for name in list_of(tool.schema.get("required")):
        if isinstance(name, str) and name not in made:
            kind = str(object_of(properties.get(name)).get("type") or "string").lower()
            made[name] = _FILLED.get(kind, "replayed")
    return made


def _others(name: str) -> tuple[str, ...]:
    return next((names for names in _ALIKE if name in names), ())


def _shaped(value: Any, kind: str) -> Any:
    """A command as the list or the line that the tool takes."""
    if kind == "array" and isinstance(value, str):
        return ["bash", "-lc", value]
    if kind == "string" and isinstance(value, list):
        words = [str(word) for word in value]
        return words[2] if len(words) == 3 and words[1] in ("-lc", "-c") else " ".join(words)
    return value
