"""Model requests and responses, independent of the provider protocol."""

from functools import cached_property
from typing import Any, Literal

import msgspec


class Tool(msgspec.Struct, frozen=True):
    """A tool that a request offers."""

    name: str
    schema: dict[str, Any]
    is_custom: bool = False
    """Whether it takes one text instead of an object."""
    is_script: bool = False
    """Whether that text is JavaScript with `tools.exec_command`, as in Codex with newer models."""


class Message(msgspec.Struct, frozen=True):
    """Text of the user or the model."""

    by: Literal["user", "model"]
    text: str


class ToolCall(msgspec.Struct, frozen=True):
    """A call by the model; `id` is empty where the protocol has none."""

    id: str
    name: str
    arguments: Any


class ToolResult(msgspec.Struct, frozen=True):
    """The result of a call."""

    id: str
    name: str
    text: str


Item = Message | ToolCall | ToolResult


class ModelRequest(msgspec.Struct, dict=True):
    """One request: the conversation so far, in order, and what is requested."""

    protocol: str
    model: str
    stream: bool
    items: list[Item]
    tools: list[Tool] = []
    system: str = ""
    schema: Any = None
    """The JSON Schema of the response, where one is requested."""
    wants_json: bool = False
    limit: int | None = None
    """The maximum number of output tokens."""
    with_usage: bool = False
    is_json_list: bool = False
    """Whether a stream is requested as a JSON list instead of events."""

    @cached_property
    def end(self) -> int:
        """The position after the last message or call of the model."""
        for position in range(len(self.items), 0, -1):
            item = self.items[position - 1]
            if isinstance(item, ToolCall):
                return position
            if isinstance(item, Message) and item.by == "model":
                return position
        return 0

    @cached_property
    def prompts(self) -> list[str]:
        """The texts of the user after the last output of the model."""
        return [item.text for item in self.items[self.end :] if isinstance(item, Message)]

    @cached_property
    def results(self) -> list[ToolResult]:
        """The tool results after the last output of the model."""
        return [item for item in self.items[self.end :] if isinstance(item, ToolResult)]

    @cached_property
    def all_results(self) -> dict[str, ToolResult]:
        """All results by the id of their call."""
        return {item.id: item for item in self.items if isinstance(item, ToolResult) and item.id}

    @cached_property
    def all_calls(self) -> dict[str, ToolCall]:
        """All calls by their id."""
        return {item.id: item for item in self.items if isinstance(item, ToolCall) and item.id}

    @cached_property
    def last_calls(self) -> list[ToolCall]:
        """The calls of the last output of the model."""
        calls: list[ToolCall] = []
        for item in reversed(self.items[: self.end]):
            if not isinstance(item, ToolCall):
                break
            calls.append(item)
        calls.reverse()
        return calls

    @cached_property
    def last_text(self) -> str:
        """The text of the last output of the model, before its calls."""
        texts: list[str] = []
        for item in reversed(self.items[: self.end - len(self.last_calls)]):
            if not isinstance(item, Message) or item.by != "model":
                break
            texts.append(item.text)
        texts.reverse()
        return "\n\n".join(texts)


class ModelResponse(msgspec.Struct, frozen=True):
    """Text and calls of the model; `error` instead, where nothing is recorded for a request."""

    id: str
    parts: list[str | ToolCall]
    error: str = ""

    @property
    def calls(self) -> list[ToolCall]:
        """Its calls."""
        return [part for part in self.parts if isinstance(part, ToolCall)]

    @property
    def text(self) -> str:
        """Its text."""
        return "\n\n".join(part for part in self.parts if isinstance(part, str))
