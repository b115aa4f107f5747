"""The shapes in which a session server returns its turns, recognized by their keys."""

from collections.abc import Iterator
from typing import Any

from open_token.formats.shared.fields import JsonObject
from open_token.model.patches import is_patch as is_patch
from open_token.model.patches import is_turn as is_turn

LIST_FIELDS = ("turns", "messages", "nodes", "items", "events")
_MAX_DEPTH = 4
_ENTRY_KEYS = {"session_id", "seq", "at", "kind", "data"}


def is_entry(value: Any) -> bool:
    """Return whether a value is an entry of the log of a session."""
    if not isinstance(value, dict) or value.keys() != _ENTRY_KEYS:
        return False
    if type(value["seq"]) is not int or not isinstance(value["data"], dict):
        return False
    return isinstance(value["session_id"], str) and isinstance(value["kind"], str)


def is_node(value: Any) -> bool:
    """Return whether a value is a node of the history, which has abandoned branches, too."""
    return isinstance(value, dict) and "parent_id" in value and is_turn(value.get("turn"))


def find_turns(value: Any) -> list[Any] | None:
    """Return the turns in a response: a list, or one in an object; None if there are none."""
    if isinstance(value, dict):
        lists = [value.get(name) for name in LIST_FIELDS]
        value = next((items for items in lists if isinstance(items, list)), None)
    if not isinstance(value, list) or not value:
        return None
    # The history has its turns in nodes of a tree; other responses have them in the list itself.
    turns = [item["turn"] for item in value if is_node(item)]
    if not turns:
        turns = list(unwrap_records(value))
    if any(is_turn(item) or is_patch(item) for item in turns):
        return turns
    return None


def unwrap_records(record: Any, depth: int = 0) -> Iterator[Any]:
    """Yield what was sent, without the envelopes of sockets and logs.

    An envelope is the name of an event and its payload, or a batch of such.
    """
    if depth > _MAX_DEPTH or is_turn(record) or is_patch(record):
        yield record
    elif isinstance(record, list) and len(record) == 2 and isinstance(record[0], str):
        yield from unwrap_records(record[1], depth + 1)
    elif isinstance(record, list):
        for item in record:
            yield from unwrap_records(item, depth + 1)
    elif isinstance(record, dict) and isinstance(record.get("events"), list):
        yield from unwrap_records(record["events"], depth + 1)
    else:
        payload = _get_payload(record) if isinstance(record, dict) else None
        if isinstance(payload, dict | list):
            yield from unwrap_records(payload, depth + 1)
        else:
            yield record


def _get_payload(record: JsonObject) -> Any:
    if not any(isinstance(record.get(name), str) for name in ("event", "type", "name")):
        return None
    return record["payload"] if "payload" in record else record.get("data")
