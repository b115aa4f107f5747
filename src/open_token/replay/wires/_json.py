"""Arguments that a wire carries as a text."""

from typing import Any

import msgspec


def parsed(value: Any) -> Any:
    """The arguments; the text itself where it is no JSON."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value) if value else {}
    except (msgspec.DecodeError, RecursionError):
        return value
