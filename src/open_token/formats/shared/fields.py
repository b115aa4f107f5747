"""Looks into records of which nothing is certain: a field may be missing, empty or of any other
kind."""

import re
from collections.abc import Callable
from typing import Any

from open_token.builder.draft import Draft
from open_token.sources.source import Source

Record = dict[str, Any]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,40}")


def record_in(value: Any, key: str) -> Record:
    """A field that holds an object; an empty one when it does not."""
    found = value.get(key) if type(value) is dict else None
    return found if type(found) is dict else {}


def records_in(value: Any, key: str) -> list[Record]:
    """The objects in a field that holds a list."""
    found = value.get(key) if type(value) is dict else None
    return [item for item in found if type(item) is dict] if type(found) is list else []


def word_in(value: Any, key: str) -> str | None:
    """A field that holds text, and not an empty one."""
    found = value.get(key) if type(value) is dict else None
    return found if isinstance(found, str) and found else None


def kept(value: Record, *names: str) -> Record:
    """These fields, those that say something."""
    return {name: value[name] for name in names if value.get(name) is not None}


def note_definitions(skip: Callable[[str, str, str], None], tools: Any, place: str) -> None:
    """Say that only the names of tools are told, where there is more: what the model was told of
    them."""
    if isinstance(tools, list) and any(map(_is_described, tools)):
        skip("tool-definitions", place, "what the model was told of its tools beside their names")


def _is_described(tool: Any) -> bool:
    inner = tool.get("function") if isinstance(tool, dict) else None
    held = inner if isinstance(inner, dict) else tool if isinstance(tool, dict) else {}
    return any(value for key, value in held.items() if key not in ("name", "title", "type", "kind"))


def name_of(kind: Any) -> str:
    """A kind as a note may show it: a short word of the runtime's own, nothing that could be
    content."""
    return kind if isinstance(kind, str) and _NAME.fullmatch(kind) else "without a known type"


def note_faults(file: Source, name: str, draft: Draft) -> None:
    """Note what was mended or left out; for the file that was opened itself that is done
    elsewhere."""
    if file.half_line is not None:
        draft.note_omission(
            "half-line",
            f"{name} line {file.half_line}",
            "the last line was not complete and is left out",
        )
    for number in file.repaired:
        draft.note_omission(
            "lone-surrogate",
            f"{name} line {number}",
            "text that is not valid Unicode was replaced by U+FFFD",
        )
