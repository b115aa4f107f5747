"""Amp: a thread as the client kept it on the disk, one JSON document each."""

from typing import Any
from urllib.parse import unquote, urlsplit

from open_token.sources.source import Source

_EDITOR = "User/globalStorage/sourcegraph.amp/threads3/T-*.json"


def sniff(source: Source) -> bool:
    """A thread: its id begins with T-, and it holds messages."""
    return (
        source.shape in ("document", "lines")
        and len(source.sample) == 1
        and _is_thread(source.sample[0])
    )


def _is_thread(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        return False
    name = value.get("id")
    named = isinstance(name, str) and name.startswith("T-")
    return named and any(
        key in value for key in ("v", "created", "env", "agentMode", "nextMessageId", "usageLedger")
    )


def peek(records: list[Any]) -> dict[str, str]:
    """What a thread tells of itself: its id, the folder it was held in, its title."""
    thread = records[0] if records and _is_thread(records[0]) else {}
    told = {"id": thread.get("id"), "title": thread.get("title"), "cwd": folder_of(tree_of(thread))}
    return {name: value for name, value in told.items() if isinstance(value, str) and value}


def tree_of(thread: dict[str, Any]) -> dict[str, Any]:
    """The folder with its repository that the thread began in."""
    found: Any = thread
    for name in ("env", "initial", "trees"):
        found = found.get(name) if isinstance(found, dict) else None
    first = found[0] if isinstance(found, list) and found else None
    return first if isinstance(first, dict) else {}


def folder_of(tree: dict[str, Any]) -> str | None:
    """The path behind a tree's address."""
    address = tree.get("uri")
    if not isinstance(address, str) or not address:
        return None
    try:
        return unquote(urlsplit(address).path) if address.startswith("file:") else address
    except ValueError:
        return address
