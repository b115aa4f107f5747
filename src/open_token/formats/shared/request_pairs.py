"""A request and its response in one record, out of the names and wrappings that recorders give
them."""

from typing import Any

import msgspec

_REQUEST_NAMES = ("request", "request_body", "requestBody", "req")
_RESPONSE_NAMES = ("response", "response_body", "responseBody", "resp", "res")
_BODY_NAMES = ("parsed_body", "body", "json", "string")
_HISTORIES = ("messages", "contents", "input")
_BODY_MARKS = frozenset((*_HISTORIES, "choices", "candidates", "output", "type", "role", "error"))


def split(record: dict[str, Any]) -> tuple[Any, Any] | None:
    """The request and the response of a record that holds either under a common name; None when it
    holds neither."""
    request = next((record[name] for name in _REQUEST_NAMES if name in record), None)
    response = next((record[name] for name in _RESPONSE_NAMES if name in record), None)
    if str(record.get("type", "")).startswith("response.") or (
        request is None and response is None
    ):
        return None
    if request is None and any(name in record for name in _HISTORIES):
        request = {name: value for name, value in record.items() if name not in _RESPONSE_NAMES}
    return _opened(request), _opened(response)


def _opened(value: Any, depth: int = 0) -> Any:
    """A body out of its wrapping: JSON text, event-stream text, or an object with a `body`."""
    if isinstance(value, str):
        return _parsed(value)
    if isinstance(value, dict) and depth < 3 and _BODY_MARKS.isdisjoint(value):
        inner = next((value[name] for name in _BODY_NAMES if value.get(name)), None)
        return value if inner is None else _opened(inner, depth + 1)
    return value


def _parsed(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        pass
    lines = [line[5:].strip() for line in text.split("\n") if line.startswith("data:")]
    events = []
    for number, line in enumerate(lines, 1):
        try:
            events.append(msgspec.json.decode(line))
        except (ValueError, RecursionError):
            # The last event of a stream is often cut, or no JSON: `[DONE]`.
            if number < len(lines):
                return text
    return events or text
