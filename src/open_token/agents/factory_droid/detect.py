"""Recognize sessions and streams of Factory Droid, and read the facts that a listing shows."""

from typing import Any

from open_token.formats.shared.fields import get_dict, get_dicts, get_text
from open_token.sources.source import Source

_START_FIELDS = frozenset("title sessionTitle owner version cwd created_at workspace_root".split())
_MESSAGE_ROLES = ("user", "assistant", "system")
_STREAM_KINDS = ("system", "message", "tool_call", "tool_result", "completion", "error")
DEFAULT_TITLE = "New Session"
_PREVIEW_LENGTH = 400


def sniff(source: Source) -> bool:
    """Return whether it is a session that begins with its start, or a stream of `droid exec`."""
    if source.shape == "document":
        return len(source.sample) == 1 and is_start(source.sample[0])
    records = [record for record in source.sample if isinstance(record, dict)]
    if any(is_start(record) for record in records):
        return all(_fits_session(record) for record in records)
    return is_stream(records)


def is_start(record: Any) -> bool:
    """Return whether a record starts a session: its id, and what else only Droid writes there."""
    if not isinstance(record, dict) or record.get("type") != "session_start":
        return False
    details = get_dict(record, "session") or record
    # With `data` it is an event of another agent, whose envelope has the same type.
    if get_text(details, "id") is None or "data" in record:
        return False
    return details is not record or bool(_START_FIELDS & record.keys())


def _fits_session(record: dict[str, Any]) -> bool:
    """Return whether a message has the envelope of Droid; records of other types are welcome."""
    if record.get("type") != "message":
        return True
    return get_text(get_dict(record, "message"), "role") in _MESSAGE_ROLES


def is_stream(records: list[dict[str, Any]]) -> bool:
    """Return whether records are a stream: with the session in each, and words, a call or an end."""
    known = [record for record in records if record.get("type") in _STREAM_KINDS]
    if not known:
        return False
    # Streams of other agents have records of the same types; their calls and ends differ.
    has_session_ids = all(_get_session_id(record) for record in known)
    return has_session_ids and any(
        _is_call(record) or _is_end(record) or _is_text(record) for record in known
    )


def _get_session_id(record: dict[str, Any]) -> str | None:
    return get_text(record, "session_id") or get_text(record, "sessionId")


def _is_call(record: dict[str, Any]) -> bool:
    is_named = get_text(record, "toolName") or get_text(record, "toolId")
    return record.get("type") == "tool_call" and bool(is_named) and "parameters" in record


def _is_text(record: dict[str, Any]) -> bool:
    """Return whether it is a message as a text, which has no envelope in Droid's stream."""
    has_role = record.get("role") in _MESSAGE_ROLES
    return record.get("type") == "message" and has_role and isinstance(record.get("text"), str)


def _is_end(record: dict[str, Any]) -> bool:
    return record.get("type") == "completion" and isinstance(record.get("finalText"), str)


def peek(records: list[Any]) -> dict[str, str]:
    """Return id, cwd and title or first words of a session, as far as its first records say."""
    facts: dict[str, str] = {}
    words = ""
    for record in records:
        if not isinstance(record, dict):
            continue
        if is_start(record):
            facts |= _read_start(record)
        elif record.get("type") == "system":
            session_id = _get_session_id(record)
            if session_id:
                facts.setdefault("id", session_id)
            directory = get_text(record, "cwd")
            if directory:
                facts.setdefault("cwd", directory)
        words = words or _read_first_words(record)
    if words:
        facts["words" if "title" in facts else "title"] = words[:_PREVIEW_LENGTH]
    return facts


def _read_start(record: dict[str, Any]) -> dict[str, str]:
    details = get_dict(record, "session") or record
    title = get_text(record, "sessionTitle") or get_text(details, "title")
    found = {
        "id": get_text(details, "id"),
        "cwd": get_text(details, "cwd") or get_text(details, "workspace_root"),
        "title": None if title == DEFAULT_TITLE else title,
    }
    return {name: value for name, value in found.items() if value}


def _read_first_words(record: dict[str, Any]) -> str:
    """Return what a person typed in a record, without the reminders before it."""
    if record.get("type") != "message":
        return ""
    message = get_dict(record, "message") or record
    if message.get("role") != "user":
        return ""
    plain = get_text(message, "content") or get_text(message, "text")
    texts = [plain or ""]
    for block in get_dicts(message, "content"):
        texts.append(get_text(block, "text") or "")
    for text in texts:
        typed = text.rpartition("</system-reminder>")[2].strip()
        if typed:
            return typed
    return ""
