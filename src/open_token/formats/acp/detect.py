"""Detection of Agent Client Protocol logs."""

from typing import Any

from open_token.formats.shared.json_rpc import unwrap_message
from open_token.sources.source import Source

_SESSION_METHODS = ("session/new", "session/load", "session/prompt", "session/update")


def sniff(source: Source) -> bool:
    """Return whether the source is a log of the protocol."""
    return any(_is_distinctive(record) for record in source.sample)


def _is_distinctive(record: Any) -> bool:
    message = unwrap_message(record)
    if message is None or message.get("method") not in _SESSION_METHODS:
        return False
    params = message.get("params")
    if not isinstance(params, dict):
        return False
    # The methods of other protocols may have these names, but not these parameters.
    return isinstance(params.get("sessionId"), str) or isinstance(params.get("cwd"), str)
