"""Detection of logs of the Codex app server."""

from typing import Any

from open_token.formats.shared.json_rpc import unwrap_message
from open_token.sources.source import Source

_ITEM_METHODS = ("item/started", "item/completed")
_TURN_METHODS = ("turn/start", "turn/started", "turn/completed", "item/agentMessage/delta")


def sniff(source: Source) -> bool:
    """Return whether the source is such a log."""
    return any(_is_distinctive(record) for record in source.sample)


def _is_distinctive(record: Any) -> bool:
    message = unwrap_message(record)
    params = message.get("params") if message else None
    if message is None or not isinstance(params, dict):
        return False
    method = message.get("method")
    if method == "thread/started":
        thread = params.get("thread")
        return isinstance(thread, dict) and isinstance(thread.get("id"), str)
    if not isinstance(params.get("threadId"), str):
        return False
    if method in _ITEM_METHODS:
        item = params.get("item")
        return isinstance(item, dict) and isinstance(item.get("type"), str)
    return method in _TURN_METHODS
