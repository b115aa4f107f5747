"""Cursor: agent transcripts, the chats of its command line, the composers and older chats in the
editor's databases."""

from typing import Any

from open_token.agents.cursor.workspace_chats import CHATS, COMPOSERS
from open_token.sources.source import Source

_EDITOR = "Cursor/User/globalStorage/state.vscdb"
_WORKSPACES = "Cursor/User/workspaceStorage/*/state.vscdb"

_FOREIGN = ("uuid", "parentUuid", "sessionId", "type")
_TALK = {"role", "message", "uuid", "payload"}


def sniff(source: Source) -> bool:
    """Whether it is a transcript or one of the two databases."""
    if source.shape == "sqlite":
        return is_store(source) or is_state(source)
    records = source.sample if source.shape == "lines" else []
    return (
        bool(records)
        and _is_talk(records[0])
        and all(_is_talk(record) or _is_aside(record) for record in records)
    )


def _is_talk(record: Any) -> bool:
    message = record.get("message") if isinstance(record, dict) else None
    if not isinstance(message, dict) or record.get("role") not in (
        "user",
        "assistant",
        "system",
        "tool",
    ):
        return False
    return isinstance(message.get("content"), list | str) and not any(
        name in record for name in _FOREIGN
    )


def _is_aside(record: Any) -> bool:
    """The end of a turn, or what newer versions may write between messages."""
    return (
        isinstance(record, dict)
        and isinstance(record.get("type"), str)
        and not _TALK & record.keys()
    )


def is_store(source: Source) -> bool:
    """A chat of the command line: one root, and blobs by their hash."""
    tables = source.tables
    if not {"key", "value"} <= set(tables.get("meta", ())) or not {"id", "data"} <= set(
        tables.get("blobs", ())
    ):
        return False
    value = next(source.rows("SELECT value FROM meta WHERE key = '0'"), (None,))[0]
    return isinstance(value, str) and value.startswith(("7b", "7B"))  # JSON in hexadecimal digits


def is_state(source: Source) -> bool:
    """The editor's database, with composers or chats in it."""
    if {"key", "value"} <= set(source.tables.get("cursorDiskKV", ())):
        rows = source.rows(
            "SELECT 1 FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;' LIMIT 1"
        )
        if next(rows, None) is not None:
            return True
    if not {"key", "value"} <= set(source.tables.get("ItemTable", ())):
        return False
    found = source.rows("SELECT 1 FROM ItemTable WHERE key IN (?, ?) LIMIT 1", (CHATS, COMPOSERS))
    return next(found, None) is not None


def peek(records: list[Any]) -> dict[str, str]:
    """What the first records of a transcript tell: the first words typed."""
    for record in records:
        if _is_talk(record) and record["role"] == "user":
            content = record["message"]["content"]
            blocks = content if isinstance(content, list) else [{"text": content}]
            texts = [block.get("text") for block in blocks if isinstance(block, dict)]
            words = next((text for text in texts if isinstance(text, str)), "")
            typed = words.partition("<user_query>")[2].partition("</user_query>")[0] or words
            return {"title": typed.strip()[:400]}
    return {}
