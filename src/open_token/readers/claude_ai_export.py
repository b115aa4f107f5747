"""Reads the data export of Claude.ai (`conversations.json`, the zip, its folder) and what its own
API gives out."""

from importlib import import_module
from typing import Any

from open_token.draft import Draft
from open_token.model import Found
from open_token.readers._export_files import Layout, Part
from open_token.source import Source
from open_token.timestamps import to_utc

TITLE = "Claude.ai data export"
PLACES: tuple[str, ...] = ()
SEEN = (
    "conversations.json of June 2025 and one with thoughts; the API's form and the zip as described"
)
CARRIES = "messages, thoughts with their summaries, tool calls and results, attachments with their text, branches"
LEAVES = "the account, projects and memories beside the conversations, and the bytes of files, which it does not have"


def _is_conversation(value: dict[str, Any]) -> bool:
    return isinstance(value.get("chat_messages"), list)


LAYOUT = Layout(
    globs=("conversations.json", "conversations-*.json"),
    sign=b'"chat_messages"',
    is_one=_is_conversation,
    id_of=lambda value: value.get("uuid"),
    key="conversations",
)


def sniff(source: Source) -> bool:
    """Whether the content is of this format."""
    return LAYOUT.sniff(source)


def conversations(source: Source) -> list[Found]:
    """The conversations of the export, in its order."""
    return LAYOUT.parts(source).listed(_found)


def _found(part: Part) -> Found:
    value = part.value
    name = value.get("name")
    return Found(
        part.id,
        title=name if isinstance(name, str) and name else None,
        started_at=to_utc(value.get("created_at")),
        updated_at=to_utc(value.get("updated_at")),
        messages=len(value["chat_messages"]),
    )


def belongs(source: Source, at: str, value: Any) -> str | None:
    """The conversation that a part of the export belongs to."""
    return LAYOUT.parts(source).owner(at, value)


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation; what that takes is loaded only now."""
    import_module("open_token.readers._claude_ai_export").read(source, draft, LAYOUT.parts(source))
