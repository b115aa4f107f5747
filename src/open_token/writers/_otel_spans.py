"""The spans of a trace in OTLP JSON: their ids, times, attributes, and the parts of messages."""

import hashlib
from collections.abc import Iterable
from typing import Any, BinaryIO

import msgspec

from open_token.jsontools.timestamps import to_epoch_ms
from open_token.model.document import Event
from open_token.writers._blocks import Media, spelled
from open_token.writers._runs import Body, blocks_of, text_of

AGENT, MODEL, TOOL = 1, 3, 1
"""Kinds of spans: what happens here is internal, a model is called as a client."""
_FAILED = 2
_HEAD = (
    b'{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"open-token"}}]},'
    b'"scopeSpans":[{"scope":{"name":"open-token"},"spans":['
)
_TAIL = b"]}]}]}\n"
_LATEST = (1 << 64) - 1
_MODALITIES = ("image", "audio", "video")


class Clock:
    """The time within one run, which never goes back: siblings are ordered by when they began."""

    def __init__(self, now: int) -> None:
        self.now = now

    def reach(self, events: Iterable[Event | None]) -> bool:
        """Go on to events; False when none has a time, or only one before what was told before."""
        moments = [
            moment
            for event in events
            if event and (moment := nanoseconds(event.get("ts"))) is not None
        ]
        if not moments or max(moments) < self.now:
            return False
        self.now = max(moments)
        return True


def nanoseconds(ts: Any) -> int | None:
    """A timestamp in UTC as nanoseconds since 1970, where OTLP can hold it."""
    seconds = to_epoch_ms(f"{ts[:19]}Z") if isinstance(ts, str) and ts.endswith("Z") else None
    digits = ts[20:-1].ljust(9, "0") if seconds is not None else ""
    if seconds is None or not digits.isdecimal() or len(digits) != 9:
        return None
    moment = seconds * 1_000_000 + int(digits)
    return moment if 0 < moment <= _LATEST else None


class Spans:
    """Writes the spans of one trace, each when it ends, as instrumentations do: a parent stands
    behind its children."""

    def __init__(self, conversation: str, out: BinaryIO) -> None:
        self._bytes = 0
        self._out = out
        self._before = _HEAD
        self._conversation = conversation
        self._trace = _digest(conversation)[:32]
        self._ids: set[str] = set()

    def begin(self, name: str, kind: int, parent: str | None, key: str, given: Body) -> Body:
        """A span whose id is made of the conversation and a key, so that the same input gives the
        same."""
        own = _digest(self._conversation, key)[:16]
        while own in self._ids:  # a stranger's file may use an id twice
            own = _digest(own)[:16]
        self._ids.add(own)
        span: Body = {"traceId": self._trace, "spanId": own} | (
            {"parentSpanId": parent} if parent else {}
        )
        span |= {"name": name, "kind": kind, "startTimeUnixNano": "0", "endTimeUnixNano": "0"}
        span["attributes"] = pairs({"gen_ai.operation.name": name.split(" ")[0], **given})
        span["attributes"] += pairs({"gen_ai.conversation.id": self._conversation})
        return span

    def end(
        self, span: Body, start: int, moment: int, *, known: bool, failed: bool = False
    ) -> None:
        """Write a span: when it was, whether the record itself says so, and whether it failed."""
        span["startTimeUnixNano"], span["endTimeUnixNano"] = str(start), str(moment)
        if not known:
            span["attributes"] += pairs({"open_token.time.estimated": True})
        if failed:
            span["attributes"] += pairs({"error.type": "_OTHER"})
            span["status"] = {"code": _FAILED}
        self._bytes += self._out.write(self._before + msgspec.json.encode(span))
        self._before = b","

    def close(self) -> int:
        """The end of the trace; gives the count of bytes."""
        return self._bytes + self._out.write(_TAIL)


def pairs(given: Body) -> list[Body]:
    """Attributes as OTLP has them: pairs of keys and typed values; what is None is left out."""
    return [
        {"key": key, "value": _value(value)} for key, value in given.items() if value is not None
    ]


def _value(value: str | bool | int | list[str]) -> Body:
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    if isinstance(value, bool):
        return {"boolValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def part(block: str | Media) -> Body:
    """A part of a message: a text, bytes, or where they are."""
    if isinstance(block, str):
        return {"type": "text", "content": block}
    about: Body = {"modality": block.kind if block.kind in _MODALITIES else "file"}
    about |= {"mime_type": block.media_type} if block.media_type else {}
    if block.base64 is not None:
        return {"type": "blob", **about, "content": block.base64}
    return {"type": "uri", **about, "uri": block.address}


def output(event: Event) -> Any:
    """What a tool gave back: its text, or the value as it is."""
    if (text := text_of(event)) is not None:
        return text
    held = blocks_of(event)
    return held if isinstance(event["content"].get("data"), list) else held[0] if held else ""


def output_text(event: Event) -> str:
    """The same as an attribute holds it: what is no text is JSON."""
    value = output(event)
    return value if isinstance(value, str) else spelled(value)


def _digest(*words: str) -> str:
    return hashlib.sha256("\0".join(("open-token", *words)).encode("utf-8", "replace")).hexdigest()
