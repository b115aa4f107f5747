"""What a value in an OpenCode file is: a session, a message, a part, or several of them in one."""

import re
from typing import Any

_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_SORTABLE = re.compile(r"(?:msg|prt)_[0-9a-f]{12}[0-9A-Za-z]+")


def is_part(value: Any) -> bool:
    """A piece of a message, on its own."""
    return (
        type(value) is dict
        and isinstance(value.get("messageID"), str)
        and isinstance(value.get("sessionID"), str)
        and isinstance(value.get("type"), str)
    )


def is_message(value: Any) -> bool:
    """What is known of a message, on its own."""
    return (
        type(value) is dict
        and isinstance(value.get("sessionID"), str)
        and isinstance(value.get("id"), str)
        and value.get("role") in ("user", "assistant")
        and "messageID" not in value
    )


def is_session(value: Any) -> bool:
    """What is known of a session, on its own; since 1.0 it has a slug, before that it had not."""
    return (
        type(value) is dict
        and isinstance(value.get("id"), str)
        and type(value.get("time")) is dict
        and isinstance(value.get("title"), str)
        and any(isinstance(value.get(name), str) for name in ("projectID", "directory", "slug"))
        and "sessionID" not in value
    )


def is_bundle(value: Any) -> bool:
    """A message with its parts, as the server gives it."""
    return (
        type(value) is dict and type(value.get("parts")) is list and is_message(value.get("info"))
    )


def is_export(value: Any) -> bool:
    """A session with its messages, as `opencode export` writes it."""
    if (
        type(value) is not dict
        or type(value.get("messages")) is not list
        or type(value.get("info")) is not dict
    ):
        return False
    messages = value["messages"]
    if messages:
        return any(is_bundle(message) for message in messages[:8])
    return is_session(value["info"])


def is_event(value: Any) -> bool:
    """A line of `opencode run --format json`: a part as it was finished."""
    return (
        type(value) is dict
        and isinstance(value.get("sessionID"), str)
        and is_part(value.get("part"))
    )


def is_ours(value: Any) -> bool:
    """Any of these."""
    checks = (is_part, is_message, is_session, is_bundle, is_export, is_event)
    return any(check(value) for check in checks)


def is_path_safe(name: Any) -> bool:
    """Whether an id may be looked for as a file name."""
    return isinstance(name, str) and _ID.fullmatch(name) is not None


def is_sortable(name: str) -> bool:
    """Whether an id begins with the time at which it was made, so that ids sort in the order of
    events."""
    return _SORTABLE.fullmatch(name) is not None
