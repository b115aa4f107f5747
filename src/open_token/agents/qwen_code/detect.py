"""Qwen Code: a tree of records in the envelope of Claude Code around Gemini messages."""

from typing import Any

from open_token.sources.source import Source

_KINDS = ("user", "assistant", "tool_result", "system")


def sniff(source: Source) -> bool:
    """Records with uuid and session around a message of Gemini parts, or with a payload of the
    system's."""
    return any(_is_record(record) for record in source.sample)


def _is_record(record: Any) -> bool:
    if not isinstance(record, dict) or record.get("type") not in _KINDS or "uuid" not in record:
        return False
    message = record.get("message")
    parts = isinstance(message, dict) and isinstance(message.get("parts"), list)
    return "sessionId" in record and (parts or isinstance(record.get("systemPayload"), dict))


def peek(records: list[Any]) -> dict[str, str]:
    """What the first records tell of a session: its id, the folder it was held in, a title or the
    first words typed."""
    told: dict[str, str] = {}
    words = ""
    for record in records:
        if not isinstance(record, dict):
            continue
        payload = record.get("systemPayload")
        payload = payload if isinstance(payload, dict) else {}
        for name, value in (("id", record.get("sessionId")), ("cwd", record.get("cwd"))):
            if isinstance(value, str) and value:
                told.setdefault(name, value)
        if isinstance(title := payload.get("customTitle"), str) and title:
            told["title"] = title
        if record.get("type") == "user" and not record.get("subtype") and not words:
            words = _words(record, payload)
    return {"title": words, "words": words, **told}


def peek_tail(records: list[Any]) -> dict[str, str]:
    """The title that the last records give, where Qwen Code writes it again and again."""
    payloads = [record.get("systemPayload") for record in records if isinstance(record, dict)]
    titles = [payload.get("customTitle") for payload in payloads if isinstance(payload, dict)]
    named = [title for title in titles if isinstance(title, str) and title]
    return {"title": named[-1]} if named else {}


def _words(record: dict[str, Any], payload: dict[str, Any]) -> str:
    message = record.get("message")
    parts = message.get("parts") if isinstance(message, dict) else None
    texts = (
        [part.get("text") for part in parts if isinstance(part, dict)]
        if isinstance(parts, list)
        else []
    )
    for text in (payload.get("displayText"), *texts):
        if isinstance(text, str) and text:
            return text[:400]
    return ""
