"""Reader of the Anthropic Messages API: the layout of its bodies and streams."""

from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.anthropic_api import (
    BlockWriter,
    StreamMerger,
    build_comparison_keys,
)
from open_token.formats.shared.anthropic_blocks import parse_content, parse_usage
from open_token.formats.shared.api_conversation import Dialect, read_source
from open_token.formats.shared.api_detection import ANTHROPIC
from open_token.formats.shared.fields import JsonObject, as_dicts, as_text
from open_token.formats.shared.message_writer import CallMatcher, MessageWriter
from open_token.formats.shared.notes import format_kind
from open_token.jsontools.timestamps import to_utc
from open_token.sources.source import Source

_NORMAL_STOP_REASONS = ("end_turn", "tool_use")


def read(source: Source, draft: Draft) -> None:
    """Add the conversation to the draft, in source order."""
    read_source(source, create_dialect(draft))


def create_dialect(draft: Draft) -> Dialect:
    """Return what adds bodies of this API to the draft."""
    draft.conversation.setdefault("source_runtime", "api")
    draft.conversation.setdefault("provider", "anthropic")
    draft.without_thoughts = "unknown"
    return _MessagesDialect(draft)


class _MessagesDialect:
    """The Messages API; see Dialect."""

    name = ANTHROPIC

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self._calls = CallMatcher(draft)
        self._model: str | None = None

    def create_merger(self) -> StreamMerger:
        return StreamMerger()

    def start_exchange(self, request: JsonObject, response: JsonObject) -> None:
        self._model = as_text(response.get("model")) or as_text(request.get("model")) or self._model

    def get_prompts(self, request: JsonObject) -> list[Any]:
        system = request.get("system")
        return [{"role": "system", "content": system}] if system else []

    def get_history(self, request: JsonObject) -> list[Any]:
        messages = request.get("messages")
        return messages if isinstance(messages, list) else []

    def is_delta(self, request: JsonObject) -> bool:
        return False

    def list_tools(self, request: JsonObject) -> list[str]:
        names = [as_text(tool.get("name")) for tool in as_dicts(request.get("tools"))]
        return [name for name in names if name]

    def get_output(self, response: JsonObject) -> list[Any]:
        return [response] if response.get("content") else []

    def build_comparison_keys(self, item: Any) -> list[Any]:
        return build_comparison_keys(item)

    def add_item(self, item: Any, place: str) -> None:
        role = item.get("role") if isinstance(item, dict) else None
        if role == "system":
            content = parse_content(item.get("content") or "")
            self.draft.add_message("system", content, self.draft.get_actor("system", "system"))
        elif role == "user":
            actor = self.draft.get_actor("human", "user")
            writer = MessageWriter(self.draft, actor, self._calls, place)
            BlockWriter(writer, "user").add_content(item.get("content"))
        elif role == "assistant":
            writer = self._create_writer(place)
            BlockWriter(writer, "assistant").add_content(item.get("content"))
        else:
            self.draft.note_omission("unknown-role", place, f"role {format_kind(role)}")

    def _create_writer(self, place: str, ts: str | None = None) -> MessageWriter:
        actor = self.draft.get_actor("model", "assistant", provider="anthropic", model=self._model)
        return MessageWriter(self.draft, actor, self._calls, place, ts)

    def add_response(self, response: JsonObject, place: str) -> None:
        # The API gives no time; recordings put theirs here.
        writer = self._create_writer(place, to_utc(response.get("created_at")))
        writer.usage = parse_usage(response.get("usage"))
        if writer.usage and writer.usage.get("reasoning_tokens"):
            self.draft.without_thoughts = "unavailable"
        if isinstance(response.get("error"), dict):
            writer.add_annotation("error", error=response["error"])
        if response.get("content"):
            BlockWriter(writer, "assistant").add_content(response["content"])
        if response.get("stop_reason") is None:
            writer.add_annotation("message_facts", broke_off=True)
        elif response["stop_reason"] not in _NORMAL_STOP_REASONS:
            names = ("stop_reason", "stop_sequence", "stop_details")
            facts = {name: response.get(name) for name in names}
            writer.add_annotation("message_facts", **facts)
        writer.close()
