"""Reads the data export of ChatGPT: the zip as it is downloaded, its folder, `conversations.json`,
one conversation."""

from importlib import import_module
from typing import Any

from open_token.draft import Draft
from open_token.model import Found
from open_token.readers._export_files import Layout, Part
from open_token.source import Source
from open_token.timestamps import from_epoch

TITLE = "ChatGPT data export"
PLACES: tuple[str, ...] = ()
SEEN = (
    "conversations.json of June 2025; later content types, the zip and its split files as described"
)
CARRIES = "the shown line of messages, tool calls and results, thoughts, images and files, with `branches=all` the rest"
LEAVES = "feedback, shared links, the account, and what only the page needs of a message's metadata"


def _is_conversation(value: dict[str, Any]) -> bool:
    mapping = value.get("mapping")
    if not isinstance(mapping, dict):
        return False
    if not mapping:
        return "current_node" in value
    nodes = [node for node in mapping.values() if isinstance(node, dict)]
    return any(
        "message" in node and ("parent" in node or "children" in node) for node in nodes[:64]
    )


LAYOUT = Layout(
    globs=("conversations.json", "conversations-*.json"),
    sign=b'"mapping"',
    is_one=_is_conversation,
    id_of=lambda value: value.get("conversation_id") or value.get("id"),
)


def sniff(source: Source) -> bool:
    """Whether the content is of this format."""
    return LAYOUT.sniff(source)


def conversations(source: Source) -> list[Found]:
    """The conversations of the export, in its order."""
    return LAYOUT.parts(source).listed(_found)


def _found(part: Part) -> Found:
    value = part.value
    title = value.get("title")
    return Found(
        part.id,
        title=title if isinstance(title, str) and title else None,
        started_at=from_epoch(value.get("create_time")),
        updated_at=from_epoch(value.get("update_time")),
        messages=sum(
            isinstance(node, dict) and bool(node.get("message"))
            for node in value["mapping"].values()
        ),
    )


def belongs(source: Source, at: str, value: Any) -> str | None:
    """The conversation that a part of the export belongs to."""
    return LAYOUT.parts(source).owner(at, value)


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation; what that takes is loaded only now."""
    import_module("open_token.readers._chatgpt_export").read(source, draft, LAYOUT.parts(source))
