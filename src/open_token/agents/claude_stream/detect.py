"""Recognize streams of messages that Claude Code prints, and read what a listing shows of them."""

from typing import Any

from open_token.sources.source import Source

# Fields of session files, and types of records in the similar streams of other agents.
_SESSION_FIELDS = ("parentUuid", "sessionId", "leafUuid")
_OTHER_TYPES = ("message", "tool_call", "thinking")
_PREVIEW_LENGTH = 400


def sniff(source: Source) -> bool:
    """Return whether the input is a stream of SDK messages: lines, or all of them in one array."""
    records = _list_records(source.sample)
    if any(_is_other(record) for record in records):
        return False
    return any(_is_evidence(record) for record in records)


def _list_records(sample: list[Any]) -> list[dict[str, Any]]:
    if len(sample) == 1 and isinstance(sample[0], list):
        sample = sample[0]
    return [record for record in sample if isinstance(record, dict)]


def _is_other(record: dict[str, Any]) -> bool:
    return record.get("type") in _OTHER_TYPES or any(key in record for key in _SESSION_FIELDS)


def _is_evidence(record: dict[str, Any]) -> bool:
    """Return whether a record has what no other format has."""
    kind = record.get("type")
    if kind == "system":
        # The list of tools tells it from the stream of Cursor.
        has_tools = isinstance(record.get("tools"), list)
        return record.get("subtype") == "init" and "session_id" in record and has_tools
    if kind == "stream_event":
        return isinstance(record.get("event"), dict) and "session_id" in record
    if kind == "result":
        return "num_turns" in record and ("total_cost_usd" in record or "session_id" in record)
    message = record.get("message")
    if kind not in ("user", "assistant") or not isinstance(message, dict):
        return False
    has_content = isinstance(message.get("content"), str | list)
    # Older versions name no parent, and other agents no model.
    is_named = "parent_tool_use_id" in record or "model" in message
    return has_content and is_named and "session_id" in record


def peek(records: list[Any]) -> dict[str, str]:
    """Return id, folder and first words of a stream."""
    facts: dict[str, str] = {}
    for record in _list_records(records):
        for name, key in (("id", "session_id"), ("cwd", "cwd")):
            value = record.get(key)
            if isinstance(value, str) and value:
                facts.setdefault(name, value)
        if record.get("type") == "user" and not record.get("parent_tool_use_id"):
            words = _read_words(record.get("message"))
            if words:
                facts.setdefault("words", words[:_PREVIEW_LENGTH])
    facts.setdefault("title", facts.get("words", ""))
    return facts


def _read_words(message: Any) -> str | None:
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        texts = [block.get("text") for block in content if isinstance(block, dict)]
        content = texts[0] if texts else None
    if not isinstance(content, str) or content.lstrip().startswith("<"):
        return None
    return content
