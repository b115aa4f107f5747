"""How the files of a task of Cline look, so that each can be told from bare lists of API
messages."""

from typing import Any

from open_token.formats.shared.api_detection import is_cline_task
from open_token.sources.source import Source

API, UI = "api_conversation_history.json", "ui_messages.json"
SESSION = "*.messages.json"
_MARKS = ("modelInfo", "metrics", "isSummary", "condenseParent", "condenseId", "truncationParent")
_LOOKED_AT = 64


def is_api(source: Source) -> bool:
    """Messages for the API, with Cline's marks: what it wraps and puts in, or the facts it keeps
    with an answer."""
    messages = _items(source)
    if not messages or not all(
        isinstance(item.get("role"), str) and "content" in item for item in messages
    ):
        return False
    if is_cline_task(messages):
        return True
    return any(mark in item for item in messages for mark in _MARKS) and not any(
        "id" in item for item in messages
    )


def is_ui(source: Source) -> bool:
    """What the panel said and asked, each with its time."""
    items = _items(source)
    return bool(items) and all(_is_shown(item) for item in items)


def _is_shown(item: dict[str, Any]) -> bool:
    kind = item.get("type")
    return (
        kind in ("ask", "say")
        and isinstance(item.get(str(kind)), str)
        and type(item.get("ts")) in (int, float)
    )


def is_metadata(source: Source) -> bool:
    """The facts beside them: a part of the task's conversation too."""
    if (
        source.shape not in ("document", "lines")
        or len(source.sample) != 1
        or not isinstance(source.sample[0], dict)
    ):
        return False
    found = source.sample[0]
    return isinstance(found.get("files_in_context"), list) and isinstance(
        found.get("model_usage"), list
    )


def is_session(source: Source) -> bool:
    """The messages of a session or of an agent in it, as the command line keeps them since its
    version 3."""
    return (
        source.shape in ("document", "lines")
        and len(source.sample) == 1
        and is_messages(source.sample[0])
    )


def is_messages(value: Any) -> bool:
    """Messages with the session that they are of, and where that comes from."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("sessionId"), str)
        and isinstance(value.get("messages"), list)
        and (isinstance(value.get("origin"), dict) or isinstance(value.get("agent"), str))
    )


def of_folder(source: Source) -> list[Source]:
    """The files of a task's folder that hold talk."""
    return [file for name in (API, UI) for file in source.find_files(name)]


def _items(source: Source) -> list[dict[str, Any]]:
    """The first items of a list, when all of them are objects."""
    if source.shape != "document" or not isinstance(source.sample[0], list):
        return []
    first = source.sample[0][:_LOOKED_AT]
    return first if all(isinstance(item, dict) for item in first) else []
