"""Pi: session files of every version, the later ones trees of entries."""

from typing import Any

from open_token.sources.source import Source

_ROLES = ("system", "user", "assistant", "toolResult", "bashExecution", "custom", "hookMessage")


def sniff(source: Source) -> bool:
    """A header of a session, or messages with the entry's own time around them."""
    records = [record for record in source.sample if isinstance(record, dict)]
    return source.shape != "document" and any(
        _is_header(record) or _is_entry(record) for record in records
    )


def _is_header(record: dict[str, Any]) -> bool:
    """Other formats begin with a line of this type too: a trace for a dataset names its harness."""
    named = isinstance(record.get("id"), str) and (
        "cwd" in record or isinstance(record.get("version"), int)
    )
    return (
        record.get("type") == "session"
        and named
        and "harness" not in record
        and "sessionId" not in record
    )


def _is_entry(record: dict[str, Any]) -> bool:
    message = record.get("message")
    if (
        record.get("type") != "message"
        or not isinstance(message, dict)
        or not isinstance(record.get("timestamp"), str)
    ):
        return False
    return message.get("role") in _ROLES and (
        "parentId" in record or type(message.get("timestamp")) is int
    )


def peek(records: list[Any]) -> dict[str, str]:
    """What the first records tell of a session: its id, its folder, its name or the first words
    typed."""
    told: dict[str, str] = {}
    words = ""
    for record in records:
        if not isinstance(record, dict):
            continue
        if record.get("type") == "session":
            told |= {
                name: value
                for name in ("id", "cwd")
                if isinstance(value := record.get(name), str) and value
            }
        elif (
            record.get("type") == "session_info"
            and isinstance(name := record.get("name"), str)
            and name
        ):
            told["title"] = name
        elif not words:
            words = _first_words(record.get("message"))
    if words:
        told.setdefault("title", words)
    return told


def peek_tail(records: list[Any]) -> dict[str, str]:
    """What the last records tell: a name that was given later."""
    named = [
        record
        for record in records
        if isinstance(record, dict) and record.get("type") == "session_info"
    ]
    name = named[-1].get("name") if named else None
    return {"title": name} if isinstance(name, str) and name else {}


def _first_words(message: Any) -> str:
    if not isinstance(message, dict) or message.get("role") != "user":
        return ""
    content = message.get("content")
    if isinstance(content, list):
        content = next(
            (block.get("text") for block in content if isinstance(block, dict) and "text" in block),
            None,
        )
    return content[:400] if isinstance(content, str) else ""
