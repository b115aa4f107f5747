"""Server-sent events: one JSON value each, with the name of its type or without."""

from typing import Any

import msgspec


def named(value: dict[str, Any]) -> bytes:
    """An event under the name of its type."""
    return b"event: " + str(value["type"]).encode() + b"\n" + unnamed(value)


def unnamed(value: dict[str, Any]) -> bytes:
    """An event without a name."""
    return b"data: " + msgspec.json.encode(value) + b"\n\n"
