"""Reads the session files of Claude Code, with the subagents that belong to them."""

from typing import Any

from open_token.sources.source import Source

_ASIDES = {
    "summary": "leafUuid",
    "file-history-snapshot": "snapshot",
    "queue-operation": "operation",
}
_TREE = ("user", "assistant", "system", "attachment", "progress")


def sniff(source: Source) -> bool:
    """Records in a tree of uuids around Anthropic messages; other runtimes use the same envelope
    for other messages."""
    records = [record for record in source.sample if isinstance(record, dict)]
    if any(_is_foreign(record) for record in records):
        return False
    if any(_is_talk(record) or _is_node(record) for record in records):
        return True
    return bool(records) and all(_is_aside(record) for record in records)


def _is_talk(record: dict[str, Any]) -> bool:
    message = record.get("message")
    return (
        record.get("type") in ("user", "assistant")
        and isinstance(message, dict)
        and isinstance(message.get("content"), str | list)
        and "uuid" in record
        and ("parentUuid" in record or "sessionId" in record)
    )


def _is_node(record: dict[str, Any]) -> bool:
    return (
        record.get("type") in _TREE
        and "parentUuid" in record
        and "sessionId" in record
        and "message" not in record
    )


def _is_aside(record: dict[str, Any]) -> bool:
    kind = record.get("type")
    return isinstance(kind, str) and kind in _ASIDES and _ASIDES[kind] in record


def _is_foreign(record: dict[str, Any]) -> bool:
    """Qwen Code has Gemini parts in the envelope, iFlow ids and results of its own."""
    message = record.get("message")
    if "systemPayload" in record or not isinstance(message, dict):
        return "systemPayload" in record
    if "parts" in message or str(message.get("id")).startswith("response-"):
        return True
    if str(record.get("sessionId")).startswith("session-"):
        return True
    content = message.get("content")
    return isinstance(content, list) and any("responseParts" in _output(block) for block in content)


def _output(block: Any) -> dict[str, Any]:
    content = block.get("content") if isinstance(block, dict) else None
    return content if isinstance(content, dict) else {}


def peek(records: list[Any]) -> dict[str, str]:
    """What the first records tell of a session: its id, the folder it was held in, a title or the
    first words typed."""
    told: dict[str, str] = {}
    for record in records:
        if not isinstance(record, dict):
            continue
        for name, key in (
            ("id", "sessionId"),
            ("cwd", "cwd"),
            ("title", "customTitle"),
            ("title", "aiTitle"),
        ):
            if isinstance(value := record.get(key), str) and value:
                told.setdefault(name, value)
        if "words" not in told and record.get("type") == "user" and not _is_put_in(record):
            told |= _first_words(record)
    told.setdefault("title", told.get("words", ""))
    return told


def peek_tail(records: list[Any]) -> dict[str, str]:
    """The title that the last records give, where Claude Code writes it again and again; a person's
    own wins."""
    titles: dict[str, str] = {}
    for record in records:
        for key in ("aiTitle", "customTitle"):
            if isinstance(record, dict) and isinstance(value := record.get(key), str) and value:
                titles[key] = value
    title = titles.get("customTitle") or titles.get("aiTitle")
    return {"title": title} if title else {}


def _is_put_in(record: dict[str, Any]) -> bool:
    """Whether the client wrote it: a fork after a compaction begins with the summary."""
    return record.get("isMeta") is True or record.get("isCompactSummary") is True


def _first_words(record: dict[str, Any]) -> dict[str, str]:
    message = record.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        texts = [
            block.get("text")
            for block in content
            if isinstance(block, dict) and block.get("type") == "text"
        ]
        content = texts[0] if texts else None
    if not isinstance(content, str) or content.lstrip().startswith(("<", "Caveat:")):
        return {}
    return {"words": content[:400]}
