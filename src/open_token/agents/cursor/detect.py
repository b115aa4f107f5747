"""Recognize Cursor's transcripts and the databases of its command line and its editor."""

from typing import Any

from open_token.sources.source import Source

CHATS_KEY = "workbench.panel.aichat.view.aichat.chatdata"
COMPOSERS_KEY = "composer.composerData"
"""The rows in which older builds stored all chats and composers of a workspace."""

_ROLES = ("user", "assistant", "system", "tool")
_FOREIGN_FIELDS = ("uuid", "parentUuid", "sessionId", "type")
"""Fields of Claude Code's records, which also hold a `message`."""
_MESSAGE_FIELDS = {"role", "message", "uuid", "payload"}

_COMPOSER_SQL = """
    SELECT 1 FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;' LIMIT 1
"""
_WORKSPACE_SQL = "SELECT 1 FROM ItemTable WHERE key IN (?, ?) LIMIT 1"


def sniff(source: Source) -> bool:
    """Return whether the source is a transcript, a stream or one of the databases."""
    if source.shape == "sqlite":
        return is_cli_store(source) or _is_editor_state(source)
    if source.shape != "lines":
        return False
    if is_stream(source):
        return True
    records = source.sample
    if not records or not _is_message(records[0]):
        return False
    return all(_is_message(record) or _is_other_record(record) for record in records)


def is_stream(source: Source) -> bool:
    """Return whether the source is the output of `--output-format stream-json`."""
    return source.shape == "lines" and any(map(_is_stream_event, source.sample))


def _is_stream_event(record: Any) -> bool:
    """Return whether only Cursor writes such an event; Claude Code's stream is similar."""
    if not isinstance(record, dict):
        return False
    kind = record.get("type")
    subtype = record.get("subtype")
    if kind == "tool_call":
        return subtype in ("started", "completed") and isinstance(record.get("tool_call"), dict)
    if kind == "thinking":
        return subtype in ("delta", "completed")
    if kind != "system" or subtype != "init" or "uuid" in record or "tools" in record:
        return False
    return isinstance(record.get("session_id"), str) and "permissionMode" in record


def _is_message(record: Any) -> bool:
    if not isinstance(record, dict) or record.get("role") not in _ROLES:
        return False
    message = record.get("message")
    if not isinstance(message, dict) or not isinstance(message.get("content"), list | str):
        return False
    return not any(name in record for name in _FOREIGN_FIELDS)


def _is_other_record(record: Any) -> bool:
    """Return whether it is the end of a turn, or a record type of a later version."""
    if not isinstance(record, dict) or not isinstance(record.get("type"), str):
        return False
    return not _MESSAGE_FIELDS & record.keys()


def is_cli_store(source: Source) -> bool:
    """Return whether it is a chat of the command line: metadata, and blobs by their hash."""
    tables = source.tables
    if not {"key", "value"} <= set(tables.get("meta", ())):
        return False
    if not {"id", "data"} <= set(tables.get("blobs", ())):
        return False
    value = next(source.rows("SELECT value FROM meta WHERE key = '0'"), (None,))[0]
    # The metadata is a JSON object in hexadecimal digits.
    return isinstance(value, str) and value.startswith(("7b", "7B"))


def _is_editor_state(source: Source) -> bool:
    """Return whether it is a database of the editor, with composers or chats in it."""
    if {"key", "value"} <= set(source.tables.get("cursorDiskKV", ())):
        if next(source.rows(_COMPOSER_SQL), None) is not None:
            return True
    if not {"key", "value"} <= set(source.tables.get("ItemTable", ())):
        return False
    rows = source.rows(_WORKSPACE_SQL, (CHATS_KEY, COMPOSERS_KEY))
    return next(rows, None) is not None


def peek(records: list[Any]) -> dict[str, str]:
    """Return the first prompt of a transcript as its title."""
    for record in records:
        if _is_message(record) and record["role"] == "user":
            text = _get_first_text(record["message"]["content"])
            typed = text.partition("<user_query>")[2].partition("</user_query>")[0] or text
            return {"title": typed.strip()[:400]}
    return {}


def _get_first_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    for block in content:
        if isinstance(block, dict) and isinstance(block.get("text"), str):
            return str(block["text"])
    return ""
