"""Recognize OpenCode input, and distinguish its sessions, messages and parts."""

import re
from typing import Any

from open_token.sources.source import Source

_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_SORTABLE_ID = re.compile(r"(?:msg|prt)_[0-9a-f]{12}[0-9A-Za-z]+")


def sniff(source: Source) -> bool:
    """Return whether the source holds sessions, messages or parts of OpenCode."""
    if source.shape == "sqlite":
        return _is_database(source.tables)
    if source.shape == "folder":
        files = source.find_files("session/*/*.json") or source.find_files(
            "storage/session/*/*.json"
        )
        return any(is_session(value) for file in files[:3] for value in file.sample[:1])
    sample = source.sample
    # The server returns messages as a list.
    if len(sample) == 1 and isinstance(sample[0], list):
        sample = sample[0][:64]
    return any(is_opencode_value(value) for value in sample)


def _is_database(tables: dict[str, list[str]]) -> bool:
    if not {"id", "directory", "time_created"} <= set(tables.get("session", ())):
        return False
    # Version 2 moved the messages with their parts into a table of another name.
    if {"id", "session_id", "type", "data"} <= set(tables.get("session_message", ())):
        return True
    message_columns = set(tables.get("message", ()))
    return {"id", "session_id", "time_created", "data"} <= message_columns and "part" in tables


def peek(records: list[Any]) -> dict[str, str]:
    """Return the id, directory and title of the session in the first record."""
    first: Any = records[0] if records else None
    info = first["info"] if is_export(first) else first
    if not is_session(info):
        return {}
    facts = {"id": info["id"], "cwd": info.get("directory"), "title": info["title"]}
    if isinstance(info.get("parentID"), str):
        facts["is_part"] = "of the session that started it"
    return {name: value for name, value in facts.items() if isinstance(value, str)}


def is_part(value: Any) -> bool:
    """Return whether the value is a part of a message, without the message."""
    return (
        type(value) is dict
        and isinstance(value.get("messageID"), str)
        and isinstance(value.get("sessionID"), str)
        and isinstance(value.get("type"), str)
    )


def is_message(value: Any) -> bool:
    """Return whether the value is the header of a message, without its parts."""
    return (
        type(value) is dict
        and isinstance(value.get("sessionID"), str)
        and isinstance(value.get("id"), str)
        and value.get("role") in ("user", "assistant")
        and "messageID" not in value
    )


def is_session(value: Any) -> bool:
    """Return whether the value is the header of a session."""
    if type(value) is not dict or "sessionID" in value:
        return False
    # Sessions have a slug since 1.0.
    has_origin = any(isinstance(value.get(key), str) for key in ("projectID", "directory", "slug"))
    return (
        has_origin
        and isinstance(value.get("id"), str)
        and type(value.get("time")) is dict
        and isinstance(value.get("title"), str)
    )


def is_bundle(value: Any) -> bool:
    """Return whether the value is a message with its parts, as the server returns it."""
    if type(value) is not dict or type(value.get("parts")) is not list:
        return False
    return is_message(value.get("info"))


def is_export(value: Any) -> bool:
    """Return whether the value is a session with its messages, as `opencode export` writes it."""
    if type(value) is not dict:
        return False
    messages = value.get("messages")
    info = value.get("info")
    if type(messages) is not list or type(info) is not dict:
        return False
    if messages:
        return any(is_bundle(message) for message in messages[:8])
    return is_session(info)


def is_event(value: Any) -> bool:
    """Return whether the value is a line of `opencode run --format json`: a finished part."""
    return (
        type(value) is dict
        and isinstance(value.get("sessionID"), str)
        and is_part(value.get("part"))
    )


def is_opencode_value(value: Any) -> bool:
    """Return whether the value has any of the shapes that OpenCode writes."""
    checks = (is_part, is_message, is_session, is_bundle, is_export, is_event)
    return any(check(value) for check in checks)


def is_path_safe(name: Any) -> bool:
    """Return whether an id can be used as a file name."""
    return isinstance(name, str) and _ID.fullmatch(name) is not None


def is_sortable(name: str) -> bool:
    """Return whether an id begins with its creation time, so that ids sort chronologically."""
    return _SORTABLE_ID.fullmatch(name) is not None
