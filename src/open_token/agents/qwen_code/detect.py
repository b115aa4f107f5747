"""Recognize session files of Qwen Code, and read the facts that a listing shows of them."""

from typing import Any

from open_token.sources.source import Source

_KINDS = ("user", "assistant", "tool_result", "system")
_PREVIEW_LENGTH = 400


def sniff(source: Source) -> bool:
    """Return whether records hold a message of Gemini parts or a system payload."""
    return any(_is_record(record) for record in source.sample)


def _is_record(record: Any) -> bool:
    if not isinstance(record, dict) or record.get("type") not in _KINDS:
        return False
    if "uuid" not in record or "sessionId" not in record:
        return False
    if isinstance(record.get("systemPayload"), dict):
        return True
    message = record.get("message")
    return isinstance(message, dict) and isinstance(message.get("parts"), list)


def peek(records: list[Any]) -> dict[str, str]:
    """Return id, cwd, first words and title, as far as the first records say."""
    facts: dict[str, str] = {}
    words = ""
    for record in records:
        if not isinstance(record, dict):
            continue
        payload = record.get("systemPayload")
        if not isinstance(payload, dict):
            payload = {}
        for name, key in (("id", "sessionId"), ("cwd", "cwd")):
            value = record.get(key)
            if isinstance(value, str) and value:
                facts.setdefault(name, value)
        title = payload.get("customTitle")
        if isinstance(title, str) and title:
            facts["title"] = title
        if record.get("type") == "user" and not record.get("subtype") and not words:
            words = _read_first_words(record, payload)
    return {"title": words, "words": words, **facts}


def peek_tail(records: list[Any]) -> dict[str, str]:
    """Return the last title, which Qwen Code writes again whenever it appends to the file."""
    title = None
    for record in records:
        payload = record.get("systemPayload") if isinstance(record, dict) else None
        value = payload.get("customTitle") if isinstance(payload, dict) else None
        if isinstance(value, str) and value:
            title = value
    return {"title": title} if title else {}


def _read_first_words(record: dict[str, Any], payload: dict[str, Any]) -> str:
    message = record.get("message")
    parts = message.get("parts") if isinstance(message, dict) else None
    texts = [payload.get("displayText")]
    if isinstance(parts, list):
        texts += [part.get("text") for part in parts if isinstance(part, dict)]
    for text in texts:
        if isinstance(text, str) and text:
            return text[:_PREVIEW_LENGTH]
    return ""
