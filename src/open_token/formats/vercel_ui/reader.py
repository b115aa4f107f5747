"""Read UIMessages of the Vercel AI SDK, part by part."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import (
    JsonObject,
    as_text,
    get_dicts,
    get_first,
    pick_fields,
)
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.providers import identify_provider
from open_token.formats.vercel_ui.detect import get_type, is_stream, is_tool
from open_token.formats.vercel_ui.stream import read_stream
from open_token.jsontools.media import build_media_block, build_media_url_block
from open_token.jsontools.timestamps import from_epoch, to_utc
from open_token.model.document import Event, Role
from open_token.sources.source import Source

_FINISHED_STATES = ("output-available", "result")
_SOURCE_TYPES = ("source", "source-url", "source-document")
_MIN_MILLISECONDS = 1e11
_END_KINDS = {"error": "error", "abort": "aborted", "finish": "stop"}


def read(source: Source, draft: Draft) -> None:
    """Read the messages into the draft."""
    draft.conversation["source_runtime"] = "web"
    draft.without_thoughts = "unknown"
    reader = _MessageReader(draft)
    messages = read_stream(source, draft) if is_stream(source) else _list_messages(source, draft)
    for place, message in messages:
        reader.read(message, place)


def _list_messages(source: Source, draft: Draft) -> Iterator[tuple[str, Any]]:
    """Yield messages with their positions, also those of chats."""
    unit = "line" if source.shape == "lines" else "message"
    for number, record in source.records():
        place = f"{unit} {number}"
        messages = None
        if isinstance(record, dict) and "role" not in record:
            messages = record.get("messages")
        if not isinstance(messages, list):
            yield place, record
            continue
        _read_chat_facts(record, draft)
        prefix = f"{place}, " if number > 1 else ""
        for position, message in enumerate(messages, 1):
            yield f"{prefix}message {position}", message


def _read_chat_facts(chat: JsonObject, draft: Draft) -> None:
    chat_id = as_text(get_first(chat, "id", "chatId"))
    if chat_id:
        draft.conversation["id"] = chat_id
    title = as_text(chat.get("title"))
    if title:
        draft.conversation["title"] = title
    started_at = _parse_time(chat.get("createdAt"))
    if started_at:
        draft.conversation["started_at"] = started_at


def _parse_time(value: Any) -> str | None:
    """Return a time in ISO 8601, or in milliseconds as JavaScript counts them."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and value > _MIN_MILLISECONDS:
        return from_epoch(value, 0.001)
    return to_utc(value)


@dataclass(slots=True)
class _Message:
    """A message being read."""

    role: str
    actor: str
    place: str
    ts: str | None
    event: Event | None = None
    sources: list[Any] = field(default_factory=list)
    step: int = 0


class _MessageReader:
    """Reads messages and adds them to the draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def read(self, body: Any, place: str) -> None:
        role = body.get("role") if isinstance(body, dict) else None
        if role not in ("system", "user", "assistant", "data"):
            self._draft.note_omission(
                "unknown-record", place, f"a record {format_kind(role)} that is no message"
            )
            return
        message = self._start_message(body, role, place)
        before = self._draft.count
        parts = body.get("parts")
        if not isinstance(parts, list):
            parts = _build_parts(body)
        if role == "assistant":
            self._read_assistant_parts(parts, message)
        else:
            self._read_input_parts(parts + _read_attachments(body), message)
        if self._draft.count == before:
            self._draft.note_omission("empty-message", place, "a message without content")
        facts = pick_fields(body, "metadata", "annotations", "data")
        if facts:
            self._annotate(message, {"kind": "message_facts", **facts}, message.event)

    def _start_message(self, body: JsonObject, role: str, place: str) -> _Message:
        metadata = body.get("metadata")
        if not isinstance(metadata, dict):
            metadata = {}
        if role == "user":
            actor = self._draft.get_actor("human", "user")
        elif role == "assistant":
            actor = self._get_model_actor(metadata)
        else:
            actor = self._draft.get_actor("system", "system")
        ts = _parse_time(body.get("createdAt")) or _parse_time(metadata.get("createdAt"))
        return _Message(role, actor, place, ts)

    def _get_model_actor(self, metadata: JsonObject) -> str:
        """Return the actor of the model, which applications may name in the metadata."""
        model = as_text(get_first(metadata, "model", "modelId"))
        provider = identify_provider(model)
        if provider:
            self._draft.conversation.setdefault("provider", provider)
        return self._draft.get_actor("model", "assistant", provider=provider, model=model)

    def _annotate(self, message: _Message, data: JsonObject, parent: Event | None = None) -> None:
        self._draft.add_annotation(data, parent=parent, actor=message.actor, ts=message.ts)

    def _read_input_parts(self, parts: list[Any], message: _Message) -> None:
        """Add a message of a person or the application, as one event."""
        blocks: list[JsonObject] = []
        for part in parts:
            block = self._read_block(part, message)
            if block is not None:
                blocks.append(block)
        if not blocks:
            return
        content: str | list[Any] = blocks
        if len(blocks) == 1 and blocks[0].keys() == {"type", "text"}:
            text = blocks[0]["text"]
            content = text if isinstance(text, str) else blocks
        role = "system" if message.role == "data" else message.role
        message.event = self._draft.add_message(
            cast(Role, role), content, message.actor, ts=message.ts
        )

    def _read_block(self, part: Any, message: _Message) -> JsonObject | None:
        kind = get_type(part)
        if kind == "text":
            return {"type": "text", "text": part.get("text")}
        block = _read_file(part) if kind == "file" else None
        if block is None:
            self._read_other_part(part, message)
        return block

    def _read_assistant_parts(self, parts: list[Any], message: _Message) -> None:
        tools: list[JsonObject] = []
        for part in parts:
            if is_tool(part):
                tools.append(part)
                continue
            self._read_tools(tools, message)
            tools = []
            self._read_assistant_part(part, message)
        self._read_tools(tools, message)
        if message.sources:
            data = {"kind": "message_facts", "citations": message.sources}
            self._annotate(message, data, message.event)

    def _read_assistant_part(self, part: Any, message: _Message) -> None:
        kind = get_type(part)
        if kind == "text":
            text = part.get("text")
            if text not in (None, ""):
                content = text if isinstance(text, str) else [text]
                self._add_answer(content, message)
            return
        if kind == "reasoning":
            self._read_reasoning(part, message)
            return
        block = _read_file(part) if kind == "file" else None
        if block is not None:
            self._add_answer([block], message)
        else:
            self._read_other_part(part, message)

    def _add_answer(self, content: str | list[Any], message: _Message) -> None:
        message.event = self._draft.add_message("assistant", content, message.actor, ts=message.ts)

    def _read_reasoning(self, part: JsonObject, message: _Message) -> None:
        text = as_text(get_first(part, "text", "reasoning"))
        # Version 4 has details, some of which may be redacted.
        details = part.get("details")
        is_redacted = False
        for detail in details if isinstance(details, list) else ():
            if isinstance(detail, dict) and detail.get("type") == "redacted":
                is_redacted = True
        if text:
            self._draft.add_reasoning(text, message.actor, ts=message.ts)
        if is_redacted or (not text and part.get("providerMetadata")):
            self._draft.add_reasoning(None, message.actor, ts=message.ts)
        elif not text:
            self._draft.note_omission("empty-reasoning", message.place, "reasoning without text")

    def _read_other_part(self, part: Any, message: _Message) -> None:
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(kind, str):
            self._read_unknown_part(part, kind, None, message)
        elif kind in _SOURCE_TYPES:
            # Version 4 wraps the source.
            source = part["source"] if isinstance(part.get("source"), dict) else part
            message.sources.append(
                {name: value for name, value in source.items() if name != "providerMetadata"}
            )
        elif kind.startswith("data-"):
            data = {
                "kind": "custom",
                "name": kind,
                **pick_fields(part, "id"),
                "value": part.get("data"),
            }
            self._annotate(message, data)
        elif kind == "step-start":
            message.step += 1
        elif kind in _END_KINDS:
            details = pick_fields(part, "errorText", "reason", "finishReason")
            self._annotate(message, {"kind": _END_KINDS[kind], **details})
        else:
            self._read_unknown_part(part, kind, kind.replace("-", "_"), message)

    def _read_unknown_part(
        self, part: Any, kind: Any, label: str | None, message: _Message
    ) -> None:
        self._draft.note_omission(
            "unknown-part", message.place, f"part {format_kind(label)}, preserved verbatim"
        )
        self._annotate(message, {"kind": "custom", "name": kind, "value": part})

    def _read_tools(self, parts: list[JsonObject], message: _Message) -> None:
        """Add consecutive calls, which were made in parallel, then their results."""
        calls = [_unwrap_call(part) for part in parts]
        keys = [self._add_call(call, message) for call in calls]
        for call, key in zip(calls, keys, strict=True):
            self._add_result(call, key, message)

    def _add_call(self, call: JsonObject, message: _Message) -> str:
        given = get_first(call, "input", "args")
        if given is None:
            # Input that did not match the schema of the tool.
            given = call.get("rawInput", {})
        extra: JsonObject = {}
        if call.get("providerExecuted") is True:
            extra["provider_executed"] = True
        extra |= pick_fields(call, "title")
        return self._draft.add_tool_call(
            as_text(call.get("toolCallId")),
            as_text(call.get("toolName")) or "tool",
            given,
            message.actor,
            ts=message.ts,
            group=(message.place, message.step),
            extra=extra or None,
        )

    def _add_result(self, call: JsonObject, key: str, message: _Message) -> None:
        state = call.get("state")
        approval = call.get("approval")
        if isinstance(approval, dict):
            self._annotate_approval(call, approval, message)
        elif state == "approval-requested":
            self._annotate_approval(call, {}, message)
        if state == "output-error":
            error = call.get("errorText", "")
            self._draft.add_tool_result(key, error, ts=message.ts, facts={"is_error": True})
        elif state in _FINISHED_STATES:
            output = get_first(call, "output", "result")
            self._draft.add_tool_result(
                key,
                "" if output is None else output,
                ts=message.ts,
                facts={"preliminary": True} if call.get("preliminary") is True else None,
            )

    def _annotate_approval(self, call: JsonObject, approval: JsonObject, message: _Message) -> None:
        status = "requested"
        approved = approval.get("approved")
        if isinstance(approved, bool):
            status = "approved" if approved else "denied"
        data: JsonObject = {
            "kind": "action_required",
            "action": "approval",
            "status": status,
            "tool": call.get("toolName"),
            **pick_fields(approval, "reason"),
        }
        native_id = as_text(call.get("toolCallId"))
        if native_id:
            data["native_call_id"] = native_id
        self._annotate(message, data)


def _unwrap_call(part: JsonObject) -> JsonObject:
    """Return the call of a part: version 4 wraps it, version 5 has the tool's name in the type."""
    call = part.get("toolInvocation")
    if isinstance(call, dict):
        return call
    kind = str(part.get("type"))
    if kind == "dynamic-tool" or "toolName" in part:
        return part
    return {**part, "toolName": kind.removeprefix("tool-")}


def _build_parts(body: JsonObject) -> list[Any]:
    """Return the parts of a message of version 4 without any: reasoning, then text, then calls."""
    parts: list[Any] = []
    if body.get("reasoning"):
        parts.append({"type": "reasoning", "reasoning": body["reasoning"]})
    if body.get("content"):
        parts.append({"type": "text", "text": body["content"]})
    calls = body.get("toolInvocations")
    for call in calls if isinstance(calls, list) else ():
        call = call if isinstance(call, dict) else {}
        parts.append({"type": "tool-invocation", "toolInvocation": call})
    return parts


def _read_attachments(body: JsonObject) -> list[Any]:
    """Return the attachments of a message of version 4 as parts."""
    parts: list[Any] = []
    for item in get_dicts(body, "experimental_attachments"):
        part = {
            "type": "file",
            "mediaType": item.get("contentType"),
            "filename": item.get("name"),
            "url": item.get("url"),
        }
        parts.append(part)
    return parts


def _read_file(part: JsonObject) -> JsonObject | None:
    """Return a file as a block; None when the part holds neither data nor a URL."""
    media_type = as_text(get_first(part, "mediaType", "mimeType"))
    kind = (media_type or "").partition("/")[0]
    if kind not in ("image", "audio", "video"):
        kind = "file"
    data = part.get("data")
    url = part.get("url")
    if isinstance(data, str):
        block = build_media_block(media_type, data, kind)
    elif isinstance(url, str):
        block = build_media_url_block(url, kind)
        if media_type and "media_type" not in block:
            block = {**block, "media_type": media_type}
    else:
        return None
    return block | pick_fields(part, "filename")
