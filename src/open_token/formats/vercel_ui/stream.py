"""Joins the chunks of a UI message stream of the Vercel AI SDK to the messages that a client makes
of them."""

from collections.abc import Callable, Iterator
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import JsonObject, as_text, parse_arguments, pick_fields
from open_token.formats.vercel_ui.parts import is_chunk
from open_token.sources.source import Source

_USUAL_ENDS = (None, "stop", "tool-calls")
_SILENT = frozenset(("finish-step", "text-end", "message-metadata"))


def streamed(source: Source, draft: Draft) -> Iterator[tuple[str, JsonObject]]:
    """The messages of a saved stream, each with the place where it begins."""
    stream = _Stream(draft)
    for number, chunk in source.records():
        place = f"chunk {number}"
        if not is_chunk(chunk):
            draft.note_omission("unknown-record", place, "a record that is no chunk of a stream")
            continue
        if chunk["type"] == "start" and stream.is_another(chunk):
            yield from stream.end()
        stream.take(chunk, place)
    yield from stream.end()


class _Stream:
    """The message under way: its parts in the order in which they began."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._place = ""
        self._message: JsonObject = {}
        self._open: dict[tuple[str, Any], JsonObject] = {}

    def is_another(self, chunk: JsonObject) -> bool:
        """Whether a start begins a new message; an answer that goes on after an approval keeps its
        id."""
        return not chunk.get("messageId") or chunk["messageId"] != self._message.get("id")

    def end(self) -> Iterator[tuple[str, JsonObject]]:
        """The message under way, whole, if there is one."""
        message, self._message, self._open = self._message, {}, {}
        if message:
            for part in message["parts"]:
                _close(part)
            yield self._place, message

    def take(self, chunk: JsonObject, place: str) -> None:
        if not self._message:
            self._place, self._message = place, {"role": "assistant", "parts": []}
        if isinstance(about := chunk.get("messageMetadata"), dict):
            self._message["metadata"] = {**self._message.get("metadata", {}), **about}
        kind = chunk["type"]
        if kind in _TAKEN:
            _TAKEN[kind](self, chunk, place)
        elif kind not in _SILENT:
            self._beside(chunk, kind, place)

    def _part(self, family: str, native: Any, made: JsonObject) -> JsonObject:
        """The part that a chunk goes on with, or a new one."""
        key = (family, as_text(native))
        if key not in self._open:
            self._open[key] = made
            self._message["parts"].append(made)
        return self._open[key]

    def start(self, chunk: JsonObject, _: str) -> None:
        self._message |= {"id": chunk["messageId"]} if as_text(chunk.get("messageId")) else {}

    def step(self, chunk: JsonObject, _: str) -> None:
        self._open = {key: part for key, part in self._open.items() if key[0] == "tool"}
        self._message["parts"].append({"type": "step-start"})

    def words(self, chunk: JsonObject, _: str) -> None:
        family, _, phase = chunk["type"].partition("-")
        if phase == "start":
            self._open.pop((family, as_text(chunk.get("id"))), None)
        part = self._part(family, chunk.get("id"), {"type": family, "pieces": []})
        part |= pick_fields(chunk, "providerMetadata")
        if isinstance(delta := chunk.get("delta"), str):
            part["pieces"].append(delta)

    def tool(self, chunk: JsonObject, place: str) -> None:
        native, kind = chunk.get("toolCallId"), chunk["type"].removeprefix("tool-")
        part = self._part(
            "tool", native, {"type": "dynamic-tool", "toolCallId": native, "pieces": []}
        )
        if part.get("preliminary") and "output" in chunk:
            self._draft.note_omission(*_replaced(place))
        part |= pick_fields(
            chunk, "toolName", "input", "output", "errorText", "providerExecuted", "title"
        )
        if isinstance(delta := chunk.get("inputTextDelta"), str):
            part["pieces"].append(delta)
        elif kind == "approval-request":
            part |= {"state": "approval-requested", "approval": {"id": chunk.get("approvalId")}}
        elif kind != "input-start":
            part["state"] = "output-error" if kind == "input-error" else kind
            part["preliminary"] = chunk.get("preliminary")

    def finish(self, chunk: JsonObject, _: str) -> None:
        if chunk.get("finishReason") not in _USUAL_ENDS:
            self._message["parts"].append(chunk)

    def _beside(self, chunk: JsonObject, kind: str, place: str) -> None:
        """A part that comes whole; data under the same id again takes the place of what it was."""
        if kind.startswith("data-") and as_text(chunk.get("id")):
            part = self._part(kind, chunk["id"], {})
            if part:
                self._draft.note_omission(*_replaced(place))
            part |= chunk
        else:
            self._message["parts"].append(chunk)


def _replaced(place: str) -> tuple[str, str, str]:
    return "replaced-part", place, "what an output or data was before the stream replaced it"


def _close(part: JsonObject) -> None:
    pieces = part.pop("pieces", None)
    if pieces is None:
        return
    if part["type"] != "dynamic-tool":
        part["text"] = "".join(pieces)
    elif pieces and "input" not in part:
        part["input"] = parse_arguments("".join(pieces))


_TAKEN: dict[str, Callable[[_Stream, JsonObject, str], None]] = {
    "start": _Stream.start,
    "start-step": _Stream.step,
    "finish": _Stream.finish,
    "reasoning-end": _Stream.words,
    **dict.fromkeys(
        ("text-start", "text-delta", "reasoning-start", "reasoning-delta"), _Stream.words
    ),
    **dict.fromkeys(
        ("tool-input-start", "tool-input-delta", "tool-input-available", "tool-input-error"),
        _Stream.tool,
    ),
    **dict.fromkeys(
        ("tool-output-available", "tool-output-error", "tool-output-denied"), _Stream.tool
    ),
    "tool-approval-request": _Stream.tool,
}
