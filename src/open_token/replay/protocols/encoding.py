"""Server-sent events, errors and JSON arguments, as several protocols encode them."""

from typing import Any

import msgspec


def encode_named_event(value: dict[str, Any]) -> bytes:
    """Encode an event with its type as its name."""
    return b"event: " + str(value["type"]).encode() + b"\n" + encode_event(value)


def encode_event(value: dict[str, Any]) -> bytes:
    """Encode an event without a name."""
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


def encode_openai_error(message: str) -> bytes:
    """Encode an error as both APIs of OpenAI return it."""
    error = {
        "message": message,
        "type": "invalid_request_error",
        "param": None,
        "code": "replay_miss",
    }
    return msgspec.json.encode({"error": error})


def parse_arguments(value: Any) -> Any:
    """Parse arguments that are JSON in a string; return the string where it is not JSON."""
    if not isinstance(value, str):
        return value
    if not value:
        return {}
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value


def parse_limit(value: Any) -> int | None:
    """Return a token limit where it is a number."""
    return value if isinstance(value, int) else None
