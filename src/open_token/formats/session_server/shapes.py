"""The shapes in which a session server gives its turns away, told apart by their keys."""

from collections.abc import Iterator
from typing import Any

from open_token.model.patches import is_patch as is_patch
from open_token.model.patches import is_turn as is_turn

HOLDERS = ("turns", "messages", "nodes", "items", "events")
_DEEPEST = 4
_ROW = {"session_id", "seq", "at", "kind", "data"}


def is_entry(value: Any) -> bool:
    """Whether a value is a row of a session's log."""
    if not isinstance(value, dict) or value.keys() != _ROW or type(value["seq"]) is not int:
        return False
    return (
        isinstance(value["session_id"], str)
        and isinstance(value["kind"], str)
        and isinstance(value["data"], dict)
    )


def is_node(value: Any) -> bool:
    """Whether a value is a node of a session's history, in which branches that were left stand
    too."""
    return isinstance(value, dict) and "parent_id" in value and is_turn(value.get("turn"))


def turns_in(value: Any) -> list[Any] | None:
    """The turns of an answer: a bare list, or one inside an object; of a history, the turns of its
    nodes."""
    if isinstance(value, dict):
        for name in HOLDERS:
            if isinstance(held := value.get(name), list):
                return _listed(held)
        return None
    return _listed(value) if isinstance(value, list) else None


def _listed(held: list[Any]) -> list[Any] | None:
    if not held:
        return None
    nodes = [item["turn"] for item in held if is_node(item)]
    made = nodes or list(unwrapped(held))
    return made if any(is_turn(item) or is_patch(item) for item in made) else None


def unwrapped(record: Any, depth: int = 0) -> Iterator[Any]:
    """What was sent, out of the envelopes of sockets and logs: an event's name and payload, or
    batches of them."""
    if depth > _DEEPEST or is_turn(record) or is_patch(record):
        yield record
    elif isinstance(record, list) and len(record) == 2 and isinstance(record[0], str):
        yield from unwrapped(record[1], depth + 1)
    elif isinstance(record, list):
        for item in record:
            yield from unwrapped(item, depth + 1)
    elif isinstance(record, dict) and isinstance(record.get("events"), list):
        yield from unwrapped(record["events"], depth + 1)
    elif isinstance(record, dict) and isinstance(inner := _payload(record), dict | list):
        yield from unwrapped(inner, depth + 1)
    else:
        yield record


def _payload(record: dict[str, Any]) -> Any:
    named = any(isinstance(record.get(name), str) for name in ("event", "type", "name"))
    return (
        next((record[name] for name in ("payload", "data") if name in record), None)
        if named
        else None
    )
