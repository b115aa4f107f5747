"""Goose: its session database, the JSON lines it wrote before, and what `goose session export`
prints."""

from importlib import import_module
from typing import Any

from open_token.draft import Draft
from open_token.model import Found
from open_token.source import Source

TITLE = "Goose"
PLACES = (
    "$GOOSE_PATH_ROOT/data/sessions/sessions.db",
    "$GOOSE_PATH_ROOT/data/sessions/*.jsonl",
    ".local/share/goose/sessions/sessions.db",
    ".local/share/goose/sessions/*.jsonl",
    "Library/Application Support/Block.block.goose/sessions/sessions.db",
    "Library/Application Support/Block.block.goose/sessions/*.jsonl",
    "AppData/Roaming/Block/goose/data/sessions/sessions.db",
    "AppData/Roaming/Block/goose/data/sessions/*.jsonl",
    "AppData/Roaming/Block/Block/goose/data/sessions/sessions.db",
)
SEEN = "an excerpt from before 1.0; databases up to schema 17, JSON lines and exports as described"
CARRIES = "prompts, answers, reasoning, calls and results, images, questions, subagents, tokens, what left the context"
LEAVES = "the state of extensions, recipes but for their instructions, structured copies of results"

_KINDS = frozenset(
    "text image document thinking redactedThinking reasoning toolRequest toolResponse frontendToolRequest"
    " toolConfirmationRequest actionRequired systemNotification contextLengthExceeded summarizationRequested"
    " conversationCompacted error".split()
)
_OLD = ("text", "tool_name", "tool_result")


def sniff(source: Source) -> bool:
    """Whether it is a session of Goose, in a database, as lines or as an export."""
    if source.shape == "sqlite":
        sessions, messages = (set(source.tables.get(name, ())) for name in ("sessions", "messages"))
        return {"id", "working_dir"} <= sessions and {
            "session_id",
            "role",
            "content_json",
        } <= messages
    records = source.sample
    if not records or not all(isinstance(record, dict) for record in records):
        return False
    if is_export(records[0]):
        return len(records) == 1
    return is_header(records[0]) or all(_is_message(record) for record in records)


def is_export(record: dict[str, Any]) -> bool:
    """A session with its conversation inside."""
    return isinstance(record.get("conversation"), list) and isinstance(
        record.get("working_dir"), str
    )


def is_header(record: dict[str, Any]) -> bool:
    """The first line of a file from before 1.10."""
    marks = ("message_count", "description", "total_tokens", "extension_data")
    return (
        "role" not in record
        and isinstance(record.get("working_dir"), str)
        and any(mark in record for mark in marks)
    )


def _is_message(record: dict[str, Any]) -> bool:
    """A message in a file without a header: its time is a number, its content blocks of Goose's
    own."""
    content = record.get("content")
    if record.get("role") not in ("user", "assistant") or type(record.get("created")) is not int:
        return False
    return isinstance(content, list) and all(
        isinstance(block, dict) and _is_block(block) for block in content
    )


def _is_block(block: dict[str, Any]) -> bool:
    if "type" in block:
        kind = block["type"]
        return isinstance(kind, str) and kind in _KINDS
    return any(name in block for name in _OLD)


def peek(records: list[Any]) -> dict[str, str]:
    """What the first record tells of a session: its id, the folder it was held in, its name."""
    first = records[0] if records and isinstance(records[0], dict) else {}
    found = {
        "cwd": first.get("working_dir"),
        "title": first.get("name") or first.get("description"),
    }
    if is_export(first):
        found["id"] = first.get("id")
    return {name: value for name, value in found.items() if isinstance(value, str) and value}


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation; what that takes is loaded only now."""
    import_module("open_token.readers._goose").read(source, draft)


def conversations(source: Source) -> list[Found]:
    """The sessions in a database that no other one started."""
    found: list[Found] = import_module("open_token.readers._goose").conversations(source)
    return found


def belongs(source: Source, at: str, value: Any) -> str | None:
    """The conversation that a row belongs to; a file is one conversation."""
    if source.shape != "sqlite":
        return None
    name: str | None = import_module("open_token.readers._goose").belongs(source, at, value)
    return name
