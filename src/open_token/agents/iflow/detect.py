"""Recognize session files of iFlow CLI, and read the facts that a listing shows of them."""

from typing import Any

from open_token.sources.source import Source

_PREVIEW_LENGTH = 400


def sniff(source: Source) -> bool:
    """Return whether records as in Claude Code have iFlow's ids or results."""
    records = [record for record in source.sample if isinstance(record, dict)]
    if any(_is_qwen_record(record) for record in records):
        return False
    return any(_is_iflow_record(record) for record in records)


def _is_iflow_record(record: dict[str, Any]) -> bool:
    message = record.get("message")
    if record.get("type") not in ("user", "assistant") or "uuid" not in record:
        return False
    if not isinstance(message, dict):
        return False
    session_id = record.get("sessionId")
    content = message.get("content")
    if not isinstance(session_id, str) or not isinstance(content, str | list):
        return False
    if session_id.startswith("session-") or str(message.get("id")).startswith("response-"):
        return True
    return isinstance(content, list) and any(_has_response_parts(block) for block in content)


def _has_response_parts(block: Any) -> bool:
    content = block.get("content") if isinstance(block, dict) else None
    return isinstance(content, dict) and "responseParts" in content


def _is_qwen_record(record: dict[str, Any]) -> bool:
    """Return whether it is a record of Qwen Code, which has Gemini parts in the same envelope."""
    message = record.get("message")
    return "systemPayload" in record or (isinstance(message, dict) and "parts" in message)


def peek(records: list[Any]) -> dict[str, str]:
    """Return id, cwd and first words of a session, as far as its first records say."""
    facts: dict[str, str] = {}
    for record in records:
        if not isinstance(record, dict):
            continue
        for name, key in (("id", "sessionId"), ("cwd", "cwd")):
            value = record.get(key)
            if isinstance(value, str) and value:
                facts.setdefault(name, value)
        message = record.get("message")
        if record.get("type") != "user" or record.get("isMeta") is True:
            continue
        text = message.get("content") if isinstance(message, dict) else None
        if isinstance(text, str):
            facts.setdefault("title", text[:_PREVIEW_LENGTH])
    return facts
