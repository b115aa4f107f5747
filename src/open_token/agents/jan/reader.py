"""Read threads of Jan."""

from typing import Any

from open_token.agents.jan.detect import is_message
from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.shared.chat_messages import parse_content, parse_usage
from open_token.formats.shared.fields import (
    JsonObject,
    as_text,
    get_dict,
    get_dicts,
    get_first,
    get_text,
    parse_arguments,
)
from open_token.formats.shared.message_writer import MessageWriter
from open_token.formats.shared.product_chats import ProductChat, parse_time
from open_token.formats.shared.token_usage import build_usage
from open_token.model.document import Event, Usage
from open_token.sources.source import Source

_MESSAGE_FIELDS = frozenset(
    "id object thread_id role content status created_at completed_at metadata type".split()
)
_METADATA_FIELDS = ("tool_calls", "usage")
_THREAD_FIELDS = ("id", "object", "title", "created", "updated")
_USUAL_STATES = ("ready", "completed", None)


def read(source: Source, draft: Draft) -> None:
    """Read the thread into the draft."""
    reader = _ThreadReader(draft)
    reader.read_thread(_find_thread(source))
    for number, record in source.records():
        place = f"line {number}"
        if is_message(record):
            reader.read_message(record, place)
        else:
            draft.note_omission("unknown-record", place, "a record that is not a message")
    reader.finish()


def _find_thread(source: Source) -> JsonObject:
    """Return the file about the thread; nothing if there is none beside the messages."""
    for file in source.find_siblings("thread.json"):
        try:
            document = next((record for _, record in file.records()), None)
        except InputError:
            return {}
        return document if isinstance(document, dict) else {}
    return {}


class _ThreadReader:
    """Reads one thread."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._chat = ProductChat(draft, "Jan", "other")
        self._thread: JsonObject = {}
        self._thread_id: str | None = None
        self._model: JsonObject = {}

    def read_thread(self, thread: JsonObject) -> None:
        """Read the facts about the thread."""
        self._thread = thread
        self._chat.add_context(thread, _THREAD_FIELDS)
        for assistant in get_dicts(thread, "assistants"):
            self._model = get_dict(assistant, "model") or self._model
            if assistant.get("instructions"):
                self._chat.add_text("system", assistant["instructions"], "thread.json")

    def finish(self) -> None:
        """Set the facts about the conversation."""
        thread = self._thread
        thread_id = self._thread_id or get_text(thread, "id")
        started_at = parse_time(thread.get("created"))
        self._chat.finish(thread_id, thread.get("title"), started_at)

    def read_message(self, message: JsonObject, place: str) -> None:
        """Read the next message."""
        self._thread_id = self._thread_id or message["thread_id"]
        ts = parse_time(message.get("created_at"))
        known = _MESSAGE_FIELDS
        parent: Event | None
        if message.get("role") == "assistant":
            parent = self._read_answer(message, place, ts)
        elif message.get("role") == "tool":
            known = known | {"tool_call_id"}
            output = _join_content(self._draft, message.get("content"), place)
            call_id = get_text(message, "tool_call_id")
            parent = self._draft.add_tool_result(call_id, output or "", ts=ts)
        else:
            content = _join_content(self._draft, message.get("content"), place)
            parent = self._chat.add_text(message.get("role"), content, place, ts)
        if message.get("status") not in _USUAL_STATES:
            known = known - {"status"}
        self._chat.add_facts(message, known, parent=parent, ts=ts)
        metadata = message.get("metadata")
        if isinstance(metadata, dict):
            self._chat.add_facts(metadata, _METADATA_FIELDS, parent=parent, ts=ts)

    def _read_answer(self, message: JsonObject, place: str, ts: str | None) -> Event | None:
        metadata = get_dict(message, "metadata")
        model = get_first(metadata, "modelId", "model") or self._model.get("id")
        provider = self._model.get("engine") if "modelId" not in metadata else None
        usage = _parse_usage(get_dict(metadata, "usage"))
        writer = self._chat.open_answer(model, place, provider=provider, ts=ts, usage=usage)
        count = self._draft.count
        content = message.get("content")
        parts = content if isinstance(content, list) else [content]
        for part in parts:
            self._read_part(writer, part)
        calls = metadata.get("tool_calls")
        for call in calls if isinstance(calls, list) else []:
            _read_call(writer, call)
        if self._draft.count == count:
            self._draft.note_omission("empty-message", place, "message without text")
        writer.close()
        return writer.last

    def _read_part(self, writer: MessageWriter, part: Any) -> None:
        kind = get_text(part, "type")
        text = get_text(get_dict(part, "text"), "value")
        if kind == "reasoning" and text:
            writer.add_reasoning(text)
        elif kind == "tool_call":
            native_id = as_text(part.get("tool_call_id"))
            tool = as_text(part.get("tool_name")) or "tool"
            writer.add_tool_call(native_id, tool, parse_arguments(part.get("input")))
            if part.get("output") is not None:
                writer.add_tool_result(native_id, part["output"], tool)
        else:
            joined = _join_content(self._draft, [part], writer.place)
            if joined:
                writer.add_message(joined)


def _read_call(writer: MessageWriter, call: Any) -> None:
    """Read a call as older versions store it, with its result."""
    tool = get_dict(call, "tool") or call
    function = get_dict(tool, "function")
    if not function:
        writer.add_annotation("message_facts", tool_call=call)
        return
    native_id = as_text(tool.get("id"))
    name = as_text(function.get("name")) or "tool"
    writer.add_tool_call(native_id, name, parse_arguments(function.get("arguments")))
    response = call.get("response")
    if response is not None:
        facts = {"is_error": True} if get_text(call, "state") == "error" else None
        writer.add_tool_result(native_id, response, name, facts)


def _join_content(draft: Draft, content: Any, place: str) -> Any:
    """Return a text, or blocks as the chat API has them; empty texts are left out."""
    parts: list[Any] = []
    for part in content if isinstance(content, list) else [content]:
        value = get_dict(part, "text").get("value")
        if get_text(part, "type") == "text" and isinstance(value, str):
            notes = get_dict(part, "text").get("annotations")
            block: JsonObject = {"type": "text", "text": value}
            if value:
                parts.append(block)
            if notes:
                parts.append({"type": "annotations", "annotations": notes})
        elif isinstance(part, str):
            parts.append({"type": "text", "text": part})
        elif part:
            parts.append(part)
    return parse_content(draft, parts, place)


def _parse_usage(counts: JsonObject) -> Usage | None:
    return parse_usage(counts) or build_usage(
        input_tokens=get_first(counts, "inputTokens", "promptTokens"),
        output_tokens=get_first(counts, "outputTokens", "completionTokens"),
    )
