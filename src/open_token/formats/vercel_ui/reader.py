"""Tells UIMessages of the Vercel AI SDK, part by part."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import JsonObject, as_text, get_first, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.providers import identify_provider
from open_token.formats.vercel_ui.parts import is_stream, is_tool
from open_token.formats.vercel_ui.stream import streamed
from open_token.jsontools.media import build_media_block, build_media_url_block
from open_token.jsontools.timestamps import from_epoch, to_utc
from open_token.model.document import Event, Role
from open_token.sources.source import Source

_DONE = ("output-available", "result")
_MILLISECONDS = 1e11
_ENDS = {"error": "error", "abort": "aborted", "finish": "stop"}


def read(source: Source, draft: Draft) -> None:
    """Tell the messages in order."""
    draft.conversation["source_runtime"] = "web"
    draft.without_thoughts = "unknown"
    telling = _Messages(draft)
    is_saved = source.shape in ("lines", "events") and is_stream(source.sample)
    for place, message in streamed(source, draft) if is_saved else _placed(source, draft):
        telling.take(message, place)


def _placed(source: Source, draft: Draft) -> Iterator[tuple[str, Any]]:
    unit = "line" if source.shape == "lines" else "message"
    for number, record in source.records():
        if (
            not isinstance(record, dict)
            or "role" in record
            or not isinstance(record.get("messages"), list)
        ):
            yield f"{unit} {number}", record
            continue
        _about(record, draft)
        for place, message in enumerate(record["messages"], 1):
            yield f"{unit} {number}, message {place}" if number > 1 else f"message {place}", message


def _about(chat: JsonObject, draft: Draft) -> None:
    """What a chat says of itself."""
    if known := as_text(get_first(chat, "id", "chatId")):
        draft.conversation["id"] = known
    if title := as_text(chat.get("title")):
        draft.conversation["title"] = title
    if begun := time_of(chat.get("createdAt")):
        draft.conversation["started_at"] = begun


def time_of(value: Any) -> str | None:
    """A time in ISO 8601, or in milliseconds as JavaScript counts them."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value > _MILLISECONDS:
        return from_epoch(value, 0.001)
    return to_utc(value)


@dataclass(slots=True)
class _Message:
    """One message on its way."""

    role: str
    actor: str
    place: str
    ts: str | None
    event: Event | None = None
    sources: list[Any] = field(default_factory=list)
    group: int = 0


class _Messages:
    """Tells one message after another."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def take(self, message: Any, place: str) -> None:
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ("system", "user", "assistant", "data"):
            self._draft.note_omission(
                "unknown-record", place, f"a record {format_kind(role)} that is no message"
            )
            return
        made = self._begun(message, role, place)
        before = self._draft.count
        parts = message.get("parts")
        if not isinstance(parts, list):
            parts = _older(message)
        if role == "assistant":
            self._assistant(parts, made)
        else:
            self._words([*parts, *_attached(message)], made)
        if self._draft.count == before:
            self._draft.note_omission("empty-message", place, "a message without content")
        self._beside(message, made)

    def _begun(self, message: JsonObject, role: str, place: str) -> _Message:
        about = message.get("metadata")
        held = about if isinstance(about, dict) else {}
        ts = time_of(message.get("createdAt")) or time_of(held.get("createdAt"))
        if role == "user":
            actor = self._draft.get_actor("human", "user")
        elif role == "assistant":
            model = as_text(get_first(held, "model", "modelId"))
            provider = identify_provider(model)
            if provider:
                self._draft.conversation.setdefault("provider", provider)
            actor = self._draft.get_actor("model", "assistant", provider=provider, model=model)
        else:
            actor = self._draft.get_actor("system", "system")
        return _Message(role, actor, place, ts)

    def _words(self, parts: list[Any], made: _Message) -> None:
        """What a person or the application said: one message, however many parts it has."""
        blocks = [self._block(part, made) for part in parts]
        blocks = [block for block in blocks if block is not None]
        if not blocks:
            return
        only = (
            blocks[0].get("text")
            if len(blocks) == 1 and blocks[0].keys() == {"type", "text"}
            else None
        )
        words = only if isinstance(only, str) else blocks
        role = cast(Role, made.role if made.role != "data" else "system")
        made.event = self._draft.add_message(role, words, made.actor, ts=made.ts)

    def _block(self, part: Any, made: _Message) -> Any:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text":
            return {"type": "text", "text": part.get("text")}
        if kind == "file" and (block := _file(part)) is not None:
            return block
        self._other(part, kind, made)
        return None

    def _assistant(self, parts: list[Any], made: _Message) -> None:
        run: list[JsonObject] = []
        for part in parts:
            if is_tool(part):
                run.append(part)
                continue
            self._tools(run, made)
            run = []
            self._part(part, made)
        self._tools(run, made)
        if made.sources:
            data = {"kind": "message_facts", "citations": made.sources}
            self._draft.add_annotation(data, parent=made.event, actor=made.actor, ts=made.ts)

    def _part(self, part: Any, made: _Message) -> None:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text":
            if (words := part.get("text")) not in (None, ""):
                said = words if isinstance(words, str) else [words]
                made.event = self._draft.add_message("assistant", said, made.actor, ts=made.ts)
        elif kind == "reasoning":
            self._reasoning(part, made)
        elif kind == "file" and (block := _file(part)) is not None:
            made.event = self._draft.add_message("assistant", [block], made.actor, ts=made.ts)
        else:
            self._other(part, kind, made)

    def _reasoning(self, part: JsonObject, made: _Message) -> None:
        words = as_text(get_first(part, "text", "reasoning"))
        details = part.get("details")
        rows = (
            [row for row in details if isinstance(row, dict)] if isinstance(details, list) else []
        )
        if words:
            self._draft.add_reasoning(words, made.actor, ts=made.ts)
        if any(row.get("type") == "redacted" for row in rows) or (
            not words and part.get("providerMetadata")
        ):
            self._draft.add_reasoning(None, made.actor, ts=made.ts)
        elif not words:
            self._draft.note_omission("empty-reasoning", made.place, "reasoning without words")

    def _other(self, part: Any, kind: Any, made: _Message) -> None:
        if kind in ("source", "source-url", "source-document"):
            inner = part.get("source")
            held = inner if isinstance(inner, dict) else part
            made.sources.append(
                {name: value for name, value in held.items() if name != "providerMetadata"}
            )
        elif isinstance(kind, str) and kind.startswith("data-"):
            data = {
                "kind": "custom",
                "name": kind,
                **pick_fields(part, "id"),
                "value": part.get("data"),
            }
            self._draft.add_annotation(data, actor=made.actor, ts=made.ts)
        elif kind == "step-start":
            made.group += 1
        elif isinstance(kind, str) and kind in _ENDS:
            about = {
                "kind": _ENDS[kind],
                **pick_fields(part, "errorText", "reason", "finishReason"),
            }
            self._draft.add_annotation(about, actor=made.actor, ts=made.ts)
        else:
            name = kind.replace("-", "_") if isinstance(kind, str) else None
            self._draft.note_omission(
                "unknown-part", made.place, f"part {format_kind(name)}, kept as it is"
            )
            self._draft.add_annotation(
                {"kind": "custom", "name": kind, "value": part}, actor=made.actor, ts=made.ts
            )

    def _tools(self, run: list[JsonObject], made: _Message) -> None:
        """Calls that follow each other were made at once; what they gave back comes after all of
        them."""
        calls = [_invocation(part) for part in run]
        keys = [self._call(call, made) for call in calls]
        for call, key in zip(calls, keys, strict=True):
            self._result(call, key, made)

    def _call(self, call: JsonObject, made: _Message) -> str:
        given = get_first(call, "input", "args")
        if given is None:
            given = call.get("rawInput", {})
        extra = {"provider_executed": True} if call.get("providerExecuted") is True else {}
        extra |= pick_fields(call, "title")
        return self._draft.add_tool_call(
            as_text(call.get("toolCallId")),
            as_text(call.get("toolName")) or "tool",
            given,
            made.actor,
            ts=made.ts,
            group=(made.place, made.group),
            extra=extra or None,
        )

    def _result(self, call: JsonObject, key: str, made: _Message) -> None:
        approval, state = call.get("approval"), call.get("state")
        if isinstance(approval, dict) or state == "approval-requested":
            self._approval(call, approval if isinstance(approval, dict) else {}, made)
        if state == "output-error":
            self._draft.add_tool_result(
                key, call.get("errorText", ""), ts=made.ts, facts={"is_error": True}
            )
        elif state in _DONE:
            facts = {"preliminary": True} if call.get("preliminary") is True else None
            output = get_first(call, "output", "result")
            self._draft.add_tool_result(
                key, "" if output is None else output, ts=made.ts, facts=facts
            )

    def _approval(self, call: JsonObject, approval: JsonObject, made: _Message) -> None:
        decided = approval.get("approved")
        status = (
            "requested" if not isinstance(decided, bool) else "approved" if decided else "denied"
        )
        data: JsonObject = {"kind": "action_required", "action": "approval", "status": status}
        data |= {"tool": call.get("toolName"), **pick_fields(approval, "reason")}
        if native := as_text(call.get("toolCallId")):
            data["native_call_id"] = native
        self._draft.add_annotation(data, actor=made.actor, ts=made.ts)

    def _beside(self, message: JsonObject, made: _Message) -> None:
        facts = pick_fields(message, "metadata", "annotations", "data")
        if facts:
            self._draft.add_annotation(
                {"kind": "message_facts", **facts}, parent=made.event, actor=made.actor, ts=made.ts
            )


def _invocation(part: JsonObject) -> JsonObject:
    """The call inside a part: version 4 wraps it, version 5 has the tool's name in the type."""
    inner = part.get("toolInvocation")
    if isinstance(inner, dict):
        return inner
    kind = str(part.get("type"))
    return (
        part
        if kind == "dynamic-tool" or "toolName" in part
        else {**part, "toolName": kind.removeprefix("tool-")}
    )


def _older(message: JsonObject) -> list[Any]:
    """A message of version 4 without parts: reasoning, then words, then calls."""
    parts: list[Any] = []
    if message.get("reasoning"):
        parts.append({"type": "reasoning", "reasoning": message["reasoning"]})
    content = message.get("content")
    if content:
        parts.append({"type": "text", "text": content})
    calls = message.get("toolInvocations")
    for call in calls if isinstance(calls, list) else ():
        parts.append(
            {"type": "tool-invocation", "toolInvocation": call if isinstance(call, dict) else {}}
        )
    return parts


def _attached(message: JsonObject) -> list[Any]:
    given = message.get("experimental_attachments")
    return [
        {
            "type": "file",
            "mediaType": item.get("contentType"),
            "filename": item.get("name"),
            "url": item.get("url"),
        }
        for item in (given if isinstance(given, list) else ())
        if isinstance(item, dict)
    ]


def _file(part: JsonObject) -> JsonObject | None:
    mime, data, address = (
        as_text(get_first(part, "mediaType", "mimeType")),
        part.get("data"),
        part.get("url"),
    )
    family = (mime or "").partition("/")[0]
    sort = family if family in ("image", "audio", "video") else "file"
    about = pick_fields(part, "filename")
    if isinstance(data, str):
        return build_media_block(mime, data, sort) | about
    if isinstance(address, str):
        made = build_media_url_block(address, sort)
        return ({**made, "media_type": mime} if mime and "media_type" not in made else made) | about
    return None
