"""Cursor: agent transcripts, the chats of its command line, the composers and older chats in the
editor's databases."""

from importlib import import_module
from typing import Any

from open_token.draft import Draft
from open_token.model import Found
from open_token.readers._cursor_rows import CHATS, COMPOSERS
from open_token.source import Source

TITLE = "Cursor"
_EDITOR = "Cursor/User/globalStorage/state.vscdb"
_WORKSPACES = "Cursor/User/workspaceStorage/*/state.vscdb"
PLACES = (
    ".cursor/projects/*/agent-transcripts/*/*.jsonl",
    ".cursor/projects/*/agent-transcripts/*.jsonl",
    ".cursor/chats/*/*/store.db",
    f".config/{_EDITOR}",
    f"Library/Application Support/{_EDITOR}",
    f"AppData/Roaming/{_EDITOR}",
    f".config/{_WORKSPACES}",
    f"Library/Application Support/{_WORKSPACES}",
    f"AppData/Roaming/{_WORKSPACES}",
)
PARTS = ("subagents/*.jsonl",)
SEEN = (
    "transcripts of 2026; store.db, state.vscdb (composers of version 3 to 17) "
    "and the chats and composers that older builds kept with a workspace as described"
)
CARRIES = "prompts, answers, reasoning, calls and results, images, subagents; from databases also times, models, tokens"
LEAVES = "drafts, checkpoints, diffs, side data of results; transcripts lack most results"

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


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation; what that takes is loaded only now."""
    if source.shape != "sqlite":
        part = "_cursor_transcript"
    else:
        part = "_cursor_store" if is_store(source) else "_cursor_state"
    import_module(f"open_token.readers.{part}").read(source, draft)


def conversations(source: Source) -> list[Found]:
    """The composers and chats in the editor's database, or the one chat in that of the command
    line."""
    if source.shape != "sqlite":
        return []
    part = "_cursor_store" if is_store(source) else "_cursor_state"
    found: list[Found] = import_module(f"open_token.readers.{part}").conversations(source)
    return found


def belongs(source: Source, at: str, value: Any) -> str | None:
    """The composer that a row belongs to; a transcript and a chat of the command line are nobody's
    but their own."""
    if source.shape != "sqlite" or is_store(source):
        return None
    name: str | None = import_module("open_token.readers._cursor_state").belongs(source, at, value)
    return name
