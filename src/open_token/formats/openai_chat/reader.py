"""Reader of the OpenAI chat completions API: the layout of its bodies and streams."""

from collections.abc import Iterator
from typing import Any, cast

from open_token.builder.draft import Draft
from open_token.formats.shared.api_conversation import Dialect, read_source
from open_token.formats.shared.api_detection import CHAT
from open_token.formats.shared.chat_messages import (
    ChunkMerger,
    add_assistant_message,
    add_tool_message,
    build_comparison_keys,
    parse_content,
    parse_usage,
)
from open_token.formats.shared.fields import JsonObject, as_dicts, as_text
from open_token.formats.shared.message_writer import (
    CallMatcher,
    MessageWriter,
    add_alternatives,
    count_leading_prompts,
)
from open_token.formats.shared.notes import format_kind
from open_token.jsontools.timestamps import from_epoch, to_utc
from open_token.model.document import Role
from open_token.sources.source import Source

_OPENAI_MODELS = ("gpt", "o1", "o3", "o4", "chatgpt", "codex", "ft:gpt", "computer-use")
_NORMAL_FINISH_REASONS = ("", "stop", "tool_calls", "function_call")


def read(source: Source, draft: Draft) -> None:
    """Add the conversation to the draft, in source order."""
    read_source(source, create_dialect(draft))


def create_dialect(draft: Draft) -> Dialect:
    """Return what adds bodies of this API to the draft."""
    draft.conversation.setdefault("source_runtime", "api")
    draft.without_thoughts = "unknown"
    return _ChatDialect(draft)


def _identify_provider(model: str | None) -> str | None:
    if model is None:
        return None
    name = model.rpartition("/")[2].lower()
    return "openai" if name.startswith(_OPENAI_MODELS) else "other"


class _ChatDialect:
    """The chat completions API; see Dialect."""

    name = CHAT

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self._calls = CallMatcher(draft)
        self._model: str | None = None
        self._has_answer = False

    def create_merger(self) -> ChunkMerger:
        return ChunkMerger()

    def start_exchange(self, request: JsonObject, response: JsonObject) -> None:
        self._model = as_text(response.get("model")) or as_text(request.get("model")) or self._model
        provider = _identify_provider(self._model)
        if provider:
            self.draft.conversation.setdefault("provider", provider)

    def get_prompts(self, request: JsonObject) -> list[Any]:
        messages = _get_messages(request)
        return messages[: count_leading_prompts(messages)]

    def get_history(self, request: JsonObject) -> list[Any]:
        messages = _get_messages(request)
        return messages[count_leading_prompts(messages) :]

    def is_delta(self, request: JsonObject) -> bool:
        return False

    def list_tools(self, request: JsonObject) -> list[str]:
        definitions = [
            tool.get("function", tool.get("custom", tool))
            for tool in as_dicts(request.get("tools"))
        ]
        definitions += as_dicts(request.get("functions"))
        names = [
            as_text(definition.get("name")) or as_text(definition.get("type"))
            for definition in as_dicts(definitions)
        ]
        return [name for name in names if name]

    def get_output(self, response: JsonObject) -> list[Any]:
        choices = as_dicts(response.get("choices"))
        return [choices[0].get("message")] if choices else []

    def build_comparison_keys(self, item: Any) -> list[Any]:
        return build_comparison_keys(item)

    def add_item(self, item: Any, place: str) -> None:
        role = item.get("role") if isinstance(item, dict) else None
        if role in ("tool", "function"):
            add_tool_message(self.draft, self._calls, item, place)
        elif role == "assistant":
            self._has_answer = True
            add_assistant_message(self._create_writer(item, place), item)
        elif role in ("system", "developer", "user"):
            self._add_input(role, item, place)
        else:
            self.draft.note_omission("unknown-role", place, f"role {format_kind(role)}")

    def _add_input(self, role: str, message: JsonObject, place: str) -> None:
        name = as_text(message.get("name"))
        if role == "user":
            actor = self.draft.get_actor("human", name or "user")
        else:
            actor = self.draft.get_actor("system", name or "system")
        if "content" not in message:
            self.draft.note_omission("no-content", place, f"a message of {role} without content")
        content = parse_content(self.draft, message.get("content"), place)
        self.draft.add_message(
            cast(Role, role), "" if content is None else content, actor, ts=_get_time(message)
        )

    def _create_writer(
        self, message: JsonObject, place: str, ts: str | None = None
    ) -> MessageWriter:
        model = as_text(message.get("model")) or self._model
        name = as_text(message.get("name")) or "assistant"
        actor = self.draft.get_actor("model", name, provider=_identify_provider(model), model=model)
        return MessageWriter(self.draft, actor, self._calls, place, ts or _get_time(message))

    def add_response(self, response: JsonObject, place: str) -> None:
        if isinstance(response.get("error"), dict):
            self.draft.add_annotation({"kind": "error", "error": response["error"]})
        ts = from_epoch(response.get("created"))
        if ts and not self._has_answer:
            self.draft.conversation.setdefault("started_at", ts)
        self._has_answer = True
        choices = as_dicts(response.get("choices"))
        if not choices:
            return
        writer = self._create_writer({}, place, ts)
        writer.usage = parse_usage(response.get("usage"))
        if writer.usage and writer.usage.get("reasoning_tokens"):
            self.draft.without_thoughts = "unavailable"
        self._add_choice(writer, choices[0])
        writer.close()
        add_alternatives(self.draft, self._add_other_choices(choices[1:], place, ts))

    def _add_other_choices(
        self, choices: list[JsonObject], place: str, ts: str | None
    ) -> Iterator[MessageWriter]:
        for number, choice in enumerate(choices, 2):
            writer = self._create_writer({}, f"{place}, choice {number}", ts)
            writer.calls = CallMatcher(self.draft)
            self._add_choice(writer, choice)
            yield writer

    def _add_choice(self, writer: MessageWriter, choice: JsonObject) -> None:
        message = choice.get("message")
        add_assistant_message(writer, message if isinstance(message, dict) else {})
        reason = choice.get("finish_reason", "")
        if reason is None:
            writer.add_annotation("message_facts", broke_off=True)
        elif reason not in _NORMAL_FINISH_REASONS:
            writer.add_annotation("message_facts", finish_reason=reason)


def _get_messages(request: JsonObject) -> list[Any]:
    messages = request.get("messages")
    return messages if isinstance(messages, list) else []


def _get_time(message: JsonObject) -> str | None:
    """Return the time that some programs add to the messages they store."""
    return to_utc(message.get("timestamp")) or to_utc(message.get("created_at"))
