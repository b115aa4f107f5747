"""Notes about what an export leaves out or repairs, in the wording that all readers share."""

import re
from collections.abc import Callable
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import JsonObject, as_dicts, as_text
from open_token.sources.source import Source

_KIND_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,47}")
_MAX_SIZED_NOTES = 20
_NAMING_FIELDS = ("name", "title", "type", "kind")


def format_kind(kind: Any) -> str:
    """Return a type name that is safe to show in a note.

    Only a short identifier is shown; anything else could be content of the conversation.
    """
    if isinstance(kind, str) and _KIND_NAME.fullmatch(kind):
        return kind
    return "without a known type"


def note_tool_definitions(note: Callable[[str, str, str], None], tools: Any, place: str) -> None:
    """Note that tool definitions are reduced to names, if they hold more than names."""
    if isinstance(tools, list) and any(_has_description(tool) for tool in tools):
        note(
            "tool-definitions", place, "tool definitions; only the names of the tools are exported"
        )


def _has_description(tool: Any) -> bool:
    if not isinstance(tool, dict):
        return False
    definition = get_tool_definition(tool)
    return any(value for key, value in definition.items() if key not in _NAMING_FIELDS)


def list_tool_names(tools: Any) -> list[str]:
    """Return the names of tools as requests define them."""
    names = []
    for tool in as_dicts(tools):
        name = as_text(get_tool_definition(tool).get("name"))
        if name:
            names.append(name)
    return names


def get_tool_definition(tool: JsonObject) -> JsonObject:
    """Return the object that names a tool: OpenAI puts it into a field of its own."""
    function = tool.get("function")
    return function if isinstance(function, dict) else tool


def note_file_faults(file: Source, name: str, draft: Draft) -> None:
    """Note what was repaired or skipped in a file; the main file of a session has no name.

    The pipeline calls this for the main file, a reader for each companion file.
    """
    prefix = f"{name} " if name else ""
    if file.half_line is not None:
        draft.note_omission(
            "half-line",
            f"{prefix}line {file.half_line}",
            "the last line was not complete and is left out",
        )
    for number in file.repaired:
        draft.note_omission(
            "lone-surrogate",
            f"{prefix}line {number}",
            "text that is not valid Unicode was replaced by U+FFFD",
        )
    for count, (number, size) in enumerate(file.torn.items()):
        # The size makes each note its own, so that only the first ones have it.
        which = f"a line of which {size:,} bytes" if count < _MAX_SIZED_NOTES else "lines that"
        draft.note_omission(
            "torn-line", f"{prefix}line {number}", f"{which} are not JSON; they are left out"
        )
