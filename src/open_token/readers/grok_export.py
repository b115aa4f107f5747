"""Reads the data export of Grok: `prod-grok-backend.json`, the zip that holds it, its folder, or
one conversation."""

from importlib import import_module
from typing import Any

from open_token.draft import Draft
from open_token.model import Found
from open_token.readers._export_files import Layout, Part
from open_token.source import Source
from open_token.timestamps import to_utc

TITLE = "Grok data export"
PLACES: tuple[str, ...] = ()
SEEN = "described, not seen"
CARRIES = "messages, thoughts, steps, images and files, sources, with `branches=all` the branches that were left"
LEAVES = "projects, tasks and generated media beside the conversations, the account, layout hints of the page"


def _is_conversation(value: dict[str, Any]) -> bool:
    responses = value.get("responses")
    if not isinstance(responses, list) or not isinstance(value.get("conversation"), dict):
        return False
    looked_at = responses[:64]
    return not responses or any(
        isinstance(item, dict) and isinstance(item.get("response"), dict) for item in looked_at
    )


LAYOUT = Layout(
    globs=(
        "prod-grok-backend.json",
        "*/prod-grok-backend.json",
        "ttl/*/export_data/*/prod-grok-backend.json",
    ),
    sign=b"{",
    is_one=_is_conversation,
    id_of=lambda value: value["conversation"].get("id"),
    key="conversations",
)


def sniff(source: Source) -> bool:
    """Whether the content is of this format."""
    return LAYOUT.sniff(source)


def conversations(source: Source) -> list[Found]:
    """The conversations of the export, in its order."""
    return LAYOUT.parts(source).listed(_found)


def _found(part: Part) -> Found:
    about = part.value["conversation"]
    title = about.get("title")
    return Found(
        part.id,
        title=title if isinstance(title, str) and title else None,
        started_at=to_utc(about.get("create_time")),
        updated_at=to_utc(about.get("modify_time")),
        messages=len(part.value["responses"]),
    )


def belongs(source: Source, at: str, value: Any) -> str | None:
    """The conversation that a part of the export belongs to."""
    return LAYOUT.parts(source).owner(at, value)


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation; what that takes is loaded only now."""
    import_module("open_token.readers._grok_export").read(source, draft, LAYOUT.parts(source))
