"""Joining of the chunks of a UI message stream into messages, as a client does it."""

from collections.abc import Callable, Iterator
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import JsonObject, as_text, parse_arguments, pick_fields
from open_token.formats.vercel_ui.detect import is_chunk
from open_token.sources.source import Source

_USUAL_FINISH_REASONS = (None, "stop", "tool-calls")
_MARKER_CHUNKS = frozenset(("finish-step", "text-end", "message-metadata"))
_TOOL_FIELDS = ("toolName", "input", "output", "errorText", "providerExecuted", "title")


def read_stream(source: Source, draft: Draft) -> Iterator[tuple[str, JsonObject]]:
    """Yield the messages of a recorded stream, each with the position where it starts."""
    message = _MessageBuilder(draft)
    for number, chunk in source.records():
        place = f"chunk {number}"
        if not is_chunk(chunk):
            draft.note_omission("unknown-record", place, "a record that is no chunk of a stream")
            continue
        if chunk["type"] == "start" and message.is_another(chunk):
            yield from message.take()
        message.add_chunk(chunk, place)
    yield from message.take()


class _MessageBuilder:
    """Builds a message; its parts are in the order in which they started."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._place = ""
        self._message: JsonObject = {}
        self._open_parts: dict[tuple[str, Any], JsonObject] = {}

    def is_another(self, chunk: JsonObject) -> bool:
        """Return whether a start begins another message.

        An answer that continues after an approval starts again with the same id.
        """
        message_id = chunk.get("messageId")
        return not message_id or message_id != self._message.get("id")

    def take(self) -> Iterator[tuple[str, JsonObject]]:
        """Yield the message, if there is one, and start the next."""
        message = self._message
        self._message = {}
        self._open_parts = {}
        if message:
            for part in message["parts"]:
                _join_deltas(part)
            yield self._place, message

    def add_chunk(self, chunk: JsonObject, place: str) -> None:
        if not self._message:
            self._place = place
            self._message = {"role": "assistant", "parts": []}
        metadata = chunk.get("messageMetadata")
        if isinstance(metadata, dict):
            self._message["metadata"] = {**self._message.get("metadata", {}), **metadata}
        kind = chunk["type"]
        if kind in _HANDLERS:
            _HANDLERS[kind](self, chunk, place)
        elif kind not in _MARKER_CHUNKS:
            self._add_whole_part(chunk, kind, place)

    def _get_part(self, family: str, native_id: Any, new_part: JsonObject) -> JsonObject:
        """Return the part that a chunk continues, or a new one."""
        key = (family, as_text(native_id))
        if key not in self._open_parts:
            self._open_parts[key] = new_part
            self._message["parts"].append(new_part)
        return self._open_parts[key]

    def _start_message(self, chunk: JsonObject, _: str) -> None:
        if as_text(chunk.get("messageId")):
            self._message["id"] = chunk["messageId"]

    def _start_step(self, chunk: JsonObject, _: str) -> None:
        # Ids of texts and reasoning may be used again in the next step.
        self._open_parts = {key: part for key, part in self._open_parts.items() if key[0] == "tool"}
        self._message["parts"].append({"type": "step-start"})

    def _add_text(self, chunk: JsonObject, _: str) -> None:
        family, _, phase = chunk["type"].partition("-")
        if phase == "start":
            self._open_parts.pop((family, as_text(chunk.get("id"))), None)
        part = self._get_part(family, chunk.get("id"), {"type": family, "deltas": []})
        part |= pick_fields(chunk, "providerMetadata")
        delta = chunk.get("delta")
        if isinstance(delta, str):
            part["deltas"].append(delta)

    def _add_tool(self, chunk: JsonObject, place: str) -> None:
        native_id = chunk.get("toolCallId")
        kind = chunk["type"].removeprefix("tool-")
        new_part: JsonObject = {"type": "dynamic-tool", "toolCallId": native_id, "deltas": []}
        part = self._get_part("tool", native_id, new_part)
        if part.get("preliminary") and "output" in chunk:
            self._note_replaced(place)
        part |= pick_fields(chunk, *_TOOL_FIELDS)
        delta = chunk.get("inputTextDelta")
        if isinstance(delta, str):
            part["deltas"].append(delta)
        elif kind == "approval-request":
            part["state"] = "approval-requested"
            part["approval"] = {"id": chunk.get("approvalId")}
        elif kind != "input-start":
            part["state"] = "output-error" if kind == "input-error" else kind
            part["preliminary"] = chunk.get("preliminary")

    def _finish(self, chunk: JsonObject, _: str) -> None:
        if chunk.get("finishReason") not in _USUAL_FINISH_REASONS:
            self._message["parts"].append(chunk)

    def _add_whole_part(self, chunk: JsonObject, kind: str, place: str) -> None:
        """Add a part that arrives whole; data with a known id replaces what it was."""
        if not kind.startswith("data-") or not as_text(chunk.get("id")):
            self._message["parts"].append(chunk)
            return
        part = self._get_part(kind, chunk["id"], {})
        if part:
            self._note_replaced(place)
        part |= chunk

    def _note_replaced(self, place: str) -> None:
        self._draft.note_omission(
            "replaced-part", place, "an earlier version of an output or of data"
        )


def _join_deltas(part: JsonObject) -> None:
    deltas = part.pop("deltas", None)
    if deltas is None:
        return
    if part["type"] != "dynamic-tool":
        part["text"] = "".join(deltas)
    elif deltas and "input" not in part:
        part["input"] = parse_arguments("".join(deltas))


_HANDLERS: dict[str, Callable[[_MessageBuilder, JsonObject, str], None]] = {
    "start": _MessageBuilder._start_message,
    "start-step": _MessageBuilder._start_step,
    "finish": _MessageBuilder._finish,
    "text-start": _MessageBuilder._add_text,
    "text-delta": _MessageBuilder._add_text,
    "reasoning-start": _MessageBuilder._add_text,
    "reasoning-delta": _MessageBuilder._add_text,
    # Unlike the end of a text, it may bring provider metadata: the signature.
    "reasoning-end": _MessageBuilder._add_text,
    "tool-input-start": _MessageBuilder._add_tool,
    "tool-input-delta": _MessageBuilder._add_tool,
    "tool-input-available": _MessageBuilder._add_tool,
    "tool-input-error": _MessageBuilder._add_tool,
    "tool-approval-request": _MessageBuilder._add_tool,
    "tool-output-available": _MessageBuilder._add_tool,
    "tool-output-error": _MessageBuilder._add_tool,
    "tool-output-denied": _MessageBuilder._add_tool,
}
