"""Answers in parts (`stream_event`), and what is left of one that never came as a whole."""

from typing import Any

import msgspec

from open_token.formats.shared.fields import parse_arguments

_DELTA_FIELDS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("partial_json", "input"),
}
"""By the type of a delta: its field, and the field of the block that it continues."""


class PartialMessage(msgspec.Struct):
    """An answer as far as its parts have arrived."""

    id: str | None
    model: Any
    usage: dict[str, Any]
    blocks: dict[int, dict[str, Any]] = {}
    parts: dict[int, list[str]] = {}
    whole_blocks: int = 0
    """How many blocks came as a whole since."""

    def add(self, event: dict[str, Any]) -> None:
        """Take one more event of the API."""
        kind = event.get("type")
        index = event.get("index")
        if kind == "message_delta" and isinstance(event.get("usage"), dict):
            counts = {name: value for name, value in event["usage"].items() if value is not None}
            self.usage |= counts
        elif kind == "content_block_start" and type(index) is int:
            block = event.get("content_block")
            self.blocks[index] = dict(block) if isinstance(block, dict) else {}
            self.parts[index] = []
        elif kind == "content_block_delta" and type(index) is int and index in self.blocks:
            self._add_delta(index, event.get("delta"))

    def _add_delta(self, index: int, delta: Any) -> None:
        kind = delta.get("type") if isinstance(delta, dict) else None
        if not isinstance(kind, str) or kind not in _DELTA_FIELDS:
            return
        part = delta.get(_DELTA_FIELDS[kind][0])
        if isinstance(part, str):
            self.parts[index].append(part)

    def list_remaining(self) -> list[dict[str, Any]]:
        """Return the blocks that came only in parts, put together."""
        remaining = []
        for index in sorted(self.blocks)[self.whole_blocks :]:
            block = self.blocks[index]
            text = "".join(self.parts[index])
            kind = block.get("type")
            if kind == "text" or kind == "thinking":
                text = str(block.get(kind) or "") + text
                if text:
                    remaining.append({"type": kind, kind: text})
            elif kind == "tool_use":
                arguments = parse_arguments(text) if text else block.get("input")
                remaining.append({**block, "input": arguments})
        return remaining


def start_partial(event: dict[str, Any]) -> PartialMessage:
    """Return the message that a `message_start` event begins."""
    message = event.get("message")
    message = message if isinstance(message, dict) else {}
    message_id = message.get("id")
    usage = message.get("usage")
    return PartialMessage(
        message_id if isinstance(message_id, str) else None,
        message.get("model"),
        dict(usage) if isinstance(usage, dict) else {},
    )
