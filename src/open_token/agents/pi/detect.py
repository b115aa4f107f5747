"""Recognize session files of Pi, and read the facts that a listing shows of them."""

from typing import Any

from open_token.sources.source import Source

_OWN_ROLES = ("toolResult", "bashExecution", "custom", "hookMessage")
_SHARED_ROLES = ("system", "user", "assistant")
_FOREIGN_BLOCKS = ("tool_use", "tool_result")
"""Blocks of Anthropic, which other agents store in the same envelope."""
_OPENCLAW_PREFIXES = ("openclaw", "clawdbot", "moltbot")
_PREVIEW_LENGTH = 400


def sniff(source: Source) -> bool:
    """Return whether there is a session header, or messages as only Pi writes them."""
    if source.shape == "document":
        return False
    records = [record for record in source.sample if isinstance(record, dict)]
    return is_entry_log(records) and not is_openclaw(records)


def is_entry_log(records: list[dict[str, Any]]) -> bool:
    """Return whether records are entries of Pi, or of an agent that is built on it."""
    if any(_has_foreign_block(record) for record in records):
        return False
    return any(_is_header(record) or _is_message_entry(record) for record in records)


def is_openclaw(records: list[dict[str, Any]]) -> bool:
    """Return whether entries are those of OpenClaw, which is built on Pi and stores more."""
    return any(_is_openclaw_entry(record) for record in records)


def _is_openclaw_entry(record: dict[str, Any]) -> bool:
    kind = record.get("customType")
    if isinstance(kind, str) and (kind == "model-snapshot" or kind.startswith(_OPENCLAW_PREFIXES)):
        return True
    message = record.get("message")
    if isinstance(message, dict) and message.get("provider") == "openclaw":
        return True
    cwd = record.get("cwd")
    return record.get("type") == "session" and isinstance(cwd, str) and "/.openclaw/" in cwd


def _is_header(record: dict[str, Any]) -> bool:
    """Return whether it is a header of Pi.

    Other formats have a first line of this type, too: a trace for a dataset names its harness.
    """
    if record.get("type") != "session" or not isinstance(record.get("id"), str):
        return False
    if "harness" in record or "sessionId" in record:
        return False
    return "cwd" in record or isinstance(record.get("version"), int)


def _is_message_entry(record: dict[str, Any]) -> bool:
    message = record.get("message")
    if record.get("type") != "message" or not isinstance(message, dict):
        return False
    if not isinstance(record.get("timestamp"), str):
        return False
    # Entries with a parent are not Pi's alone; a message with a time of its own is.
    has_time = type(message.get("timestamp")) is int
    role = message.get("role")
    return role in _OWN_ROLES or (role in _SHARED_ROLES and has_time)


def _has_foreign_block(record: dict[str, Any]) -> bool:
    message = record.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list):
        return False
    return any(
        isinstance(block, dict) and block.get("type") in _FOREIGN_BLOCKS for block in content
    )


def peek(records: list[Any]) -> dict[str, str]:
    """Return id, cwd and name or first words of a session, as far as its first records say."""
    facts: dict[str, str] = {}
    words = ""
    for record in records:
        if not isinstance(record, dict):
            continue
        kind = record.get("type")
        name = record.get("name")
        if kind == "session":
            for field in ("id", "cwd"):
                value = record.get(field)
                if isinstance(value, str) and value:
                    facts[field] = value
        elif kind == "session_info" and isinstance(name, str) and name:
            facts["title"] = name
        elif not words:
            words = _read_first_words(record.get("message"))
    if words:
        facts.setdefault("title", words)
    return facts


def peek_tail(records: list[Any]) -> dict[str, str]:
    """Return the last name that the session was given."""
    title = None
    for record in records:
        if isinstance(record, dict) and record.get("type") == "session_info":
            title = record.get("name")
    return {"title": title} if isinstance(title, str) and title else {}


def _read_first_words(message: Any) -> str:
    if not isinstance(message, dict) or message.get("role") != "user":
        return ""
    content = message.get("content")
    if isinstance(content, list):
        texts = [block["text"] for block in content if isinstance(block, dict) and "text" in block]
        content = next(iter(texts), None)
    return content[:_PREVIEW_LENGTH] if isinstance(content, str) else ""
