"""Logs of JSON-RPC messages, one a line, plain or in an envelope with a time and a direction."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from open_token.formats.shared.fields import JsonObject, parse_json_text
from open_token.jsontools.timestamps import from_epoch, to_utc
from open_token.sources.source import Source

_ENVELOPE_KEYS = (
    "message",
    "msg",
    "payload",
    "data",
    "body",
    "frame",
    "rpc",
    "json",
    "raw",
    "line",
)
_TIME_KEYS = ("timestamp", "ts", "time", "at", "emittedAtMs")
# Seconds since 1970 have ten digits, milliseconds thirteen.
_MIN_MILLISECONDS = 100_000_000_000


class Message(NamedTuple):
    """One message of a log."""

    number: int
    body: JsonObject
    ts: str | None

    @property
    def position(self) -> str:
        """Where it is, for notes."""
        return f"line {self.number}"

    @property
    def method(self) -> str | None:
        """The method of a request or a notification; None for a response."""
        method = self.body.get("method")
        return method if isinstance(method, str) else None

    @property
    def params(self) -> JsonObject:
        """The parameters of a request or a notification."""
        params = self.body.get("params")
        return params if isinstance(params, dict) else {}

    @property
    def result(self) -> JsonObject:
        """The result of a response."""
        result = self.body.get("result")
        return result if isinstance(result, dict) else {}


def unwrap_message(record: Any) -> JsonObject | None:
    """Return the JSON-RPC message that a record is or holds; None if there is none."""
    if _is_message(record):
        body: JsonObject = record
        return body
    if not isinstance(record, dict):
        return None
    for key in _ENVELOPE_KEYS:
        inner = parse_json_text(record.get(key))
        if _is_message(inner):
            return dict(inner)
    return None


def iter_messages(source: Source, *, is_preview: bool = False) -> Iterator[Message | int]:
    """Yield the messages of a log, and the numbers of lines that are no messages."""
    for number, record in source.records(is_preview=is_preview):
        body = unwrap_message(record)
        if body is None:
            yield number
        else:
            yield Message(number, body, _get_time(record) or _get_time(body))


def _is_message(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("method"), str):
        # The app server of Codex leaves the version out, and parameters where there are none.
        return "params" in value or "jsonrpc" in value or len(value) == 1
    return "id" in value and ("result" in value or "error" in value)


def _get_time(record: JsonObject) -> str | None:
    for key in _TIME_KEYS:
        value = record.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return from_epoch(value, 0.001 if value >= _MIN_MILLISECONDS else 1.0)
        time = to_utc(value)
        if time:
            return time
    return None
