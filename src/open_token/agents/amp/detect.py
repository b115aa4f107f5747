"""Recognize Amp threads."""

from typing import Any
from urllib.parse import unquote, urlsplit

from open_token.sources.source import Source

_THREAD_FIELDS = ("v", "created", "env", "agentMode", "nextMessageId", "usageLedger")


def sniff(source: Source) -> bool:
    """Return whether the source is a thread."""
    if source.shape not in ("document", "lines") or len(source.sample) != 1:
        return False
    return _is_thread(source.sample[0])


def _is_thread(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        return False
    thread_id = value.get("id")
    if not isinstance(thread_id, str) or not thread_id.startswith("T-"):
        return False
    return any(name in value for name in _THREAD_FIELDS)


def peek(records: list[Any]) -> dict[str, str]:
    """Return the id, title and directory of a thread."""
    thread = records[0] if records and _is_thread(records[0]) else {}
    facts = {
        "id": thread.get("id"),
        "title": thread.get("title"),
        "cwd": get_directory(get_working_tree(thread)),
    }
    return {name: value for name, value in facts.items() if isinstance(value, str) and value}


def get_working_tree(thread: dict[str, Any]) -> dict[str, Any]:
    """Return the directory that the thread began in, with its repository."""
    value: Any = thread
    for name in ("env", "initial", "trees"):
        value = value.get(name) if isinstance(value, dict) else None
    first = value[0] if isinstance(value, list) and value else None
    return first if isinstance(first, dict) else {}


def get_directory(tree: dict[str, Any]) -> str | None:
    """Return the path of a working tree."""
    uri = tree.get("uri")
    if not isinstance(uri, str) or not uri:
        return None
    if not uri.startswith("file:"):
        return uri
    try:
        return unquote(urlsplit(uri).path)
    except ValueError:
        return uri
