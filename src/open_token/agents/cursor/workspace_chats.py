"""The chats from before Cursor's composers, and the first composers: all of a workspace in one row
of its database."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import msgspec

from open_token.formats.shared.fields import JsonObject, get_dict, get_dicts, get_text
from open_token.sources.source import Source

_decode = msgspec.json.Decoder().decode


def chats(source: Source) -> Iterator[tuple[str, JsonObject]]:
    """Each chat by its id, in the shape of a composer; later builds only name their composers
    there."""
    if not {"key", "value"} <= set(source.tables.get("ItemTable", ())):
        return
    for tab in get_dicts(_row(source, CHATS), "tabs"):
        if (name := get_text(tab, "tabId") or get_text(tab, "id")) and get_dicts(tab, "bubbles"):
            yield name, _as_composer(tab)
    for composer in get_dicts(_row(source, COMPOSERS), "allComposers"):
        if (name := get_text(composer, "composerId")) and _has_words(composer):
            yield name, composer


def workspace(source: Source) -> str | None:
    """The folder that was open, which a file beside the database tells."""
    beside = source.open_sibling("workspace.json")
    sample = beside.sample if beside is not None and beside.shape in ("document", "lines") else []
    folder = get_text(sample[0], "folder") if sample else None
    return (
        unquote(folder.removeprefix("file://")) if folder and folder.startswith("file://") else None
    )


def _as_composer(tab: JsonObject) -> JsonObject:
    title = get_text(tab, "chatTitle") or get_text(tab, "title")
    made: JsonObject = {
        "conversation": tab["bubbles"],
        "lastUpdatedAt": tab.get("lastSendTime", tab.get("timestamp")),
    }
    return {"name": title.partition("\n")[0][:160], **made} if title else made


def _has_words(composer: JsonObject) -> bool:
    return bool(get_dicts(composer, "conversation") or get_dict(composer, "conversationMap"))


def _row(source: Source, key: str) -> JsonObject:
    value: Any = next(source.rows("SELECT value FROM ItemTable WHERE key = ?", (key,)), (None,))[0]
    try:
        made = _decode(value)
    except (ValueError, TypeError, RecursionError):
        return {}
    return made if type(made) is dict else {}


CHATS = "workbench.panel.aichat.view.aichat.chatdata"
COMPOSERS = "composer.composerData"
