"""iFlow CLI: the envelope of Claude Code around snapshots of a stream, with results in Gemini's
form."""

from typing import Any

from open_token.sources.source import Source


def sniff(source: Source) -> bool:
    """Records as Claude Code writes them, with iFlow's own ids of sessions or messages, or its
    results."""
    records = [record for record in source.sample if isinstance(record, dict)]
    return any(_is_own(record) for record in records) and not any(
        _is_foreign(record) for record in records
    )


def _is_own(record: dict[str, Any]) -> bool:
    message = record.get("message")
    if (
        record.get("type") not in ("user", "assistant")
        or not isinstance(message, dict)
        or "uuid" not in record
    ):
        return False
    content = message.get("content")
    if not isinstance(content, str | list) or not isinstance(
        session := record.get("sessionId"), str
    ):
        return False
    if session.startswith("session-") or str(message.get("id")).startswith("response-"):
        return True
    return any(_has_response(block) for block in content if isinstance(content, list))


def _has_response(block: Any) -> bool:
    content = block.get("content") if isinstance(block, dict) else None
    return isinstance(content, dict) and "responseParts" in content


def _is_foreign(record: dict[str, Any]) -> bool:
    """Qwen Code has the same envelope around parts."""
    message = record.get("message")
    return "systemPayload" in record or (isinstance(message, dict) and "parts" in message)


def peek(records: list[Any]) -> dict[str, str]:
    """What the first records tell of a session: its id, the folder it was held in, the first words
    typed."""
    told: dict[str, str] = {}
    for record in records:
        if not isinstance(record, dict):
            continue
        for name, key in (("id", "sessionId"), ("cwd", "cwd")):
            if isinstance(value := record.get(key), str) and value:
                told.setdefault(name, value)
        message = record.get("message")
        words = (
            message.get("content")
            if isinstance(message, dict) and record.get("type") == "user"
            else None
        )
        if isinstance(words, str) and record.get("isMeta") is not True:
            told.setdefault("title", words[:400])
    return told
