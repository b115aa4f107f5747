"""Events of a saved OpenAI Responses stream merged into whole responses, also when the stream broke
off."""

from typing import Any

from open_token.readers._wire_voice import Body

_WHOLE = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_FIELDS = {
    "response.function_call_arguments.delta": "arguments",
    "response.mcp_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
    "response.code_interpreter_call_code.delta": "code",
}
_TEXTS = {
    "response.output_text.delta": ("content", "output_text", "text", "content_index"),
    "response.refusal.delta": ("content", "refusal", "refusal", "content_index"),
    "response.reasoning_text.delta": ("content", "reasoning_text", "text", "content_index"),
    "response.reasoning_summary_text.delta": ("summary", "summary_text", "text", "summary_index"),
}


class Events:
    """The last event carries the whole response; before it came, items are built from their own
    events."""

    def __init__(self) -> None:
        self._body: Body | None = None
        self._items: dict[int, Body] = {}

    def add(self, chunk: Body) -> Body | None:
        """Take an event; gives the response before it when the event begins another."""
        kind = str(chunk.get("type"))
        finished = self.end() if kind == "response.created" else None
        body, item = chunk.get("response"), chunk.get("item")
        if isinstance(body, dict):
            self._body = body
        elif kind == "error":
            error = chunk.get("error")
            self._body = {
                **(self._body or {}),
                "error": error if isinstance(error, dict) else chunk,
            }
        elif kind in ("response.output_item.added", "response.output_item.done") and isinstance(
            item, dict
        ):
            self._items[_number(chunk, "output_index")] = dict(item)
        elif isinstance(chunk.get("delta"), str):
            self._grow(kind, chunk)
        return self.end() if kind in _WHOLE else finished

    def _grow(self, kind: str, chunk: Body) -> None:
        index, delta = _number(chunk, "output_index"), chunk["delta"]
        if name := _FIELDS.get(kind):
            item = self._items.setdefault(index, {"type": "function_call"})
            item[name] = str(item.get(name) or "") + delta
        elif kind in _TEXTS:
            holder, part_kind, name, place = _TEXTS[kind]
            is_thought = "reasoning" in kind
            item = self._items.setdefault(
                index,
                {"type": "reasoning"} if is_thought else {"type": "message", "role": "assistant"},
            )
            parts = item[holder] = [
                part for part in _list(item.get(holder)) if isinstance(part, dict)
            ]
            number = _number(chunk, place)
            if number >= len(parts):
                parts.append({"type": part_kind})
            part = parts[min(number, len(parts) - 1)]
            part[name] = str(part.get(name) or "") + delta

    def end(self) -> Body | None:
        """The response under way, when there is one."""
        body, self._body = self._body, None
        items, self._items = [self._items[index] for index in sorted(self._items)], {}
        if body is None and not items:
            return None
        # Codex's backend leaves the output of its last event empty.
        return {
            "object": "response",
            **(body or {}),
            "output": _list((body or {}).get("output")) or items,
        }


def _number(chunk: Body, name: str) -> int:
    value = chunk.get(name)
    return value if type(value) is int and value >= 0 else 0


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
