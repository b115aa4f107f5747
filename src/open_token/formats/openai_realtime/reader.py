"""Reader of logs of the OpenAI Realtime API.

The server sends one item several times: piece by piece, when it is done, and with the response. A
transcript of what a person said comes after the answer to it has begun. So the items are collected
first, and added in the order of the conversation.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import (
    JsonObject,
    as_dicts,
    as_text,
    drop_nulls,
    get_dict,
    get_text,
    parse_arguments,
    pick_fields,
)
from open_token.formats.shared.notes import format_kind, note_tool_definitions
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.media import build_media_url_block
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Usage
from open_token.sources.source import Source

_TEXT_PARTS = ("input_text", "text", "output_text")
_AUDIO_PARTS = ("input_audio", "audio", "output_audio")
_ITEM_EVENTS = (
    "conversation.item.created",
    "conversation.item.added",
    "conversation.item.done",
    "conversation.item.retrieved",
    "response.output_item.added",
    "response.output_item.done",
)
_TEXT_EVENTS = (
    "response.text",
    "response.output_text",
    "response.audio_transcript",
    "response.output_audio_transcript",
)
_ARGUMENTS_EVENT = "response.function_call_arguments"
_TRANSCRIPTION = "conversation.item.input_audio_transcription"
_AUDIO_EVENTS = (
    "input_audio_buffer.append",
    "response.audio.delta",
    "response.output_audio.delta",
)
# What these say stands in other events too, or nobody said it.
_SILENT = (
    "input_audio_buffer.",
    "output_audio_buffer.",
    "rate_limits.",
    "response.content_part.",
    "response.audio.done",
    "response.output_audio.done",
    "response.create",
    "response.cancel",
    "conversation.created",
    "conversation.item.truncate",
    "conversation.item.delete",
    "conversation.item.retrieve",
)


def read(source: Source, draft: Draft) -> None:
    """Add the conversation to the draft."""
    draft.conversation.setdefault("source_runtime", "api")
    draft.conversation.setdefault("provider", "openai")
    draft.without_thoughts = "unknown"
    unit = "record" if source.shape == "document" else "line"
    conversation = _Conversation(draft)
    for number, record in source.records():
        conversation.add_event(record, f"{unit} {number}")
    conversation.add_items()


@dataclass
class _Entry:
    """One item of the conversation, or something that happened between items."""

    place: str
    ts: str | None
    item: JsonObject = field(default_factory=dict)
    annotation: JsonObject | None = None
    texts: dict[int, str] = field(default_factory=dict)
    """The texts of the parts as they were streamed."""
    whole: set[int] = field(default_factory=set)
    """The parts whose text is complete."""
    arguments: str = ""
    facts: JsonObject = field(default_factory=dict)
    response: str | None = None
    model: str | None = None
    usage: Usage | None = None


class _Conversation:
    """The items of a log, each once, in the order in which they appeared."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._entries: list[_Entry] = []
        self._by_id: dict[str, _Entry] = {}
        self._unnamed: dict[str, deque[_Entry]] = {}
        """Items that the client sent without an id: the server gives it."""
        self._model: str | None = None
        self._prompt: str | None = None
        self._tools: list[str] = []

    def add_event(self, event: Any, place: str) -> None:
        """Add one event of the log."""
        kind = get_text(event, "type") or ""
        ts = to_utc(event.get("timestamp")) if kind else None
        head, _, end = kind.rpartition(".")
        if kind in ("session.created", "session.updated", "session.update"):
            self._add_session(get_dict(event, "session"), place, ts)
        elif kind == "conversation.item.create":
            self._add_client_item(get_dict(event, "item"), place, ts)
        elif kind in _ITEM_EVENTS:
            entry = self._update(get_dict(event, "item"), place, ts)
            entry.response = entry.response or get_text(event, "response_id")
        elif head in _TEXT_EVENTS and end in ("delta", "done"):
            self._add_text(event, end, place, ts)
        elif head == _ARGUMENTS_EVENT and end in ("delta", "done"):
            self._add_arguments(event, end, place, ts)
        elif head == _TRANSCRIPTION:
            self._add_transcript(event, end, place, ts)
        elif kind in ("conversation.item.truncated", "conversation.item.deleted"):
            facts = pick_fields(event, "audio_end_ms")
            name = "interrupted" if end == "truncated" else "deleted"
            self._get(event, place, ts).facts |= {name: True, **facts}
        elif kind in ("response.created", "response.done"):
            self._add_response(get_dict(event, "response"), place, ts)
        elif kind == "error":
            error = {"kind": "error", "error": event.get("error")}
            self._entries.append(_Entry(place, ts, annotation=error))
        elif kind in _AUDIO_EVENTS:
            detail = "a piece of audio, which is told by its transcript"
            self._draft.note_omission("audio", place, detail)
        elif not kind.startswith(_SILENT):
            detail = f"an event {format_kind(kind)}"
            self._draft.note_omission("unknown-record", place, detail)

    def _add_session(self, session: JsonObject, place: str, ts: str | None) -> None:
        self._model = get_text(session, "model") or self._model
        prompt = get_text(session, "instructions")
        if prompt and prompt != self._prompt:
            self._prompt = prompt
            part = {"type": "input_text", "text": prompt}
            item = {"type": "message", "role": "system", "content": [part]}
            self._entries.append(_Entry(place, ts, item))
        names = [as_text(tool.get("name")) for tool in as_dicts(session.get("tools"))]
        tools = [name for name in names if name]
        if tools and tools != self._tools:
            self._tools = tools
            annotation = {"kind": "tools", "names": tools}
            self._entries.append(_Entry(place, ts, annotation=annotation))
            note_tool_definitions(self._draft.note_omission, session["tools"], place)

    def _add_client_item(self, item: JsonObject, place: str, ts: str | None) -> None:
        if get_text(item, "id"):
            self._update(item, place, ts)
            return
        entry = _Entry(place, ts, dict(item))
        self._entries.append(entry)
        self._unnamed.setdefault(_describe(item), deque()).append(entry)

    def _get(self, event: JsonObject, place: str, ts: str | None) -> _Entry:
        """Return the entry of the item that an event names."""
        return self._update({"id": event.get("item_id")}, place, ts)

    def _update(self, item: JsonObject, place: str, ts: str | None) -> _Entry:
        """Return the entry of an item, which replaces what was known of it."""
        name = get_text(item, "id") or ""
        entry = self._by_id.get(name) if name else None
        if entry is None:
            entry = self._adopt(item)
        if entry is None:
            entry = _Entry(place, ts, model=self._model)
            self._entries.append(entry)
        if name:
            self._by_id[name] = entry
        entry.model = entry.model or self._model
        known = entry.item.get("content")
        entry.item |= drop_nulls(item)
        if isinstance(known, list) and known and not item.get("content"):
            entry.item["content"] = known
        return entry

    def _adopt(self, item: JsonObject) -> _Entry | None:
        """Return the item of the client that the server repeats with an id."""
        entries = self._unnamed.get(_describe(item))
        return entries.popleft() if entries else None

    def _add_text(self, event: JsonObject, end: str, place: str, ts: str | None) -> None:
        entry = self._get(event, place, ts)
        entry.item.setdefault("role", "assistant")
        entry.item.setdefault("type", "message")
        index = event.get("content_index")
        if not isinstance(index, int):
            index = 0
        if end == "done":
            text = get_text(event, "text") or get_text(event, "transcript")
            entry.texts[index] = text or entry.texts.get(index, "")
            entry.whole.add(index)
        elif index not in entry.whole:
            entry.texts[index] = entry.texts.get(index, "") + (get_text(event, "delta") or "")
        entry.response = entry.response or get_text(event, "response_id")

    def _add_arguments(self, event: JsonObject, end: str, place: str, ts: str | None) -> None:
        entry = self._get(event, place, ts)
        entry.item.setdefault("type", "function_call")
        entry.item |= pick_fields(event, "call_id", "name")
        if end == "done":
            entry.arguments = get_text(event, "arguments") or entry.arguments
        else:
            entry.arguments += get_text(event, "delta") or ""
        entry.response = entry.response or get_text(event, "response_id")

    def _add_transcript(self, event: JsonObject, end: str, place: str, ts: str | None) -> None:
        if end not in ("completed", "failed"):
            return
        entry = self._get(event, place, ts)
        entry.item.setdefault("role", "user")
        entry.item.setdefault("type", "message")
        index = event.get("content_index")
        if end == "failed":
            entry.facts["transcription_error"] = event.get("error")
        elif get_text(event, "transcript"):
            entry.texts[index if isinstance(index, int) else 0] = event["transcript"]

    def _add_response(self, response: JsonObject, place: str, ts: str | None) -> None:
        name = get_text(response, "id") or place
        entry: _Entry | None = None
        for item in as_dicts(response.get("output")):
            entry = self._update(item, place, ts)
            entry.response = entry.response or name
        usage = response.get("usage")
        if isinstance(usage, dict):
            # Where the response ended, not at one of its items: an item may get a late transcript,
            # and a session that is followed would count its tokens again.
            self._entries.append(
                _Entry(place, ts, annotation={"kind": "usage"}, usage=_parse_usage(usage))
            )
        status = get_text(response, "status")
        if status in (None, "completed", "in_progress"):
            return
        details = get_dict(response, "status_details")
        facts = {"status": status, **pick_fields(details, "reason", "error")}
        if status == "cancelled":
            facts["interrupted"] = True
        if entry is not None:
            entry.facts |= facts
        else:
            self._entries.append(_Entry(place, ts, annotation={"kind": "message_facts", **facts}))

    def add_items(self) -> None:
        """Add everything to the draft."""
        for entry in self._entries:
            if entry.annotation is not None:
                actor = self._get_model(entry) if entry.usage else None
                self._draft.add_annotation(
                    entry.annotation, actor=actor, ts=entry.ts, usage=entry.usage
                )
            else:
                self._add_item(entry)

    def _add_item(self, entry: _Entry) -> None:
        item = entry.item
        kind = item.get("type")
        event: Any = None
        if kind == "message":
            event = self._add_message(entry)
        elif kind in ("function_call", "mcp_call"):
            self._draft.add_tool_call(
                as_text(item.get("call_id")) or as_text(item.get("id")),
                as_text(item.get("name")) or "tool",
                parse_arguments(as_text(item.get("arguments")) or entry.arguments or None),
                self._get_model(entry),
                ts=entry.ts,
            )
            if kind == "mcp_call" and (item.get("output") or item.get("error")):
                output = item.get("output") or item.get("error")
                self._draft.add_tool_result(as_text(item.get("id")), output, ts=entry.ts)
        elif kind == "function_call_output":
            output = item.get("output")
            self._draft.add_tool_result(
                as_text(item.get("call_id")), "" if output is None else output, ts=entry.ts
            )
        else:
            detail = f"an item {format_kind(kind)}"
            self._draft.note_omission("unknown-record", entry.place, detail)
        if entry.facts:
            facts = {"kind": "message_facts", **drop_nulls(entry.facts)}
            self._draft.add_annotation(facts, parent=event, ts=entry.ts)

    def _add_message(self, entry: _Entry) -> Any:
        blocks = self._build_blocks(entry)
        content: Any = blocks
        single = blocks[0] if len(blocks) == 1 else None
        if isinstance(single, dict) and single.keys() == {"type", "text"}:
            content = single["text"]
        role = entry.item.get("role")
        if role == "assistant":
            actor = self._get_model(entry)
            return self._draft.add_message("assistant", content or "", actor, ts=entry.ts)
        if role == "system":
            actor = self._draft.get_actor("system", "system")
            return self._draft.add_message("system", content or "", actor, ts=entry.ts)
        if role != "user":
            detail = f"role {format_kind(role)}"
            self._draft.note_omission("unknown-role", entry.place, detail)
        actor = self._draft.get_actor("human", "user")
        return self._draft.add_message("user", content or "", actor, ts=entry.ts)

    def _build_blocks(self, entry: _Entry) -> list[Any]:
        parts = entry.item.get("content")
        if parts is None:
            parts = []
        elif not isinstance(parts, list):
            parts = [parts]
        blocks = []
        for index, part in enumerate(parts):
            blocks.append(self._build_block(entry, part, entry.texts.get(index)))
        # Pieces of parts that the item does not list. An index is any number that somebody wrote,
        # so only those that occur are visited.
        for index in sorted(entry.texts):
            if not 0 <= index < len(parts):
                blocks.append(self._build_block(entry, {}, entry.texts[index]))
        return blocks

    def _build_block(self, entry: _Entry, part: Any, streamed: str | None) -> Any:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in _TEXT_PARTS or kind in _AUDIO_PARTS or part == {}:
            text = get_text(part, "text") or get_text(part, "transcript") or streamed
            if text is None and kind in _AUDIO_PARTS:
                detail = "audio without a transcript"
                self._draft.note_omission("audio", entry.place, detail, what="message", events=1)
                return {"type": "audio"}
            if text is not None or isinstance(part.get("text", ""), str):
                return {"type": "text", "text": text or ""}
        if kind == "input_image" and get_text(part, "image_url"):
            return build_media_url_block(part["image_url"], "image")
        detail = f"part {format_kind(kind)}, kept as it is"
        self._draft.note_omission("unknown-part", entry.place, detail)
        return part

    def _get_model(self, entry: _Entry) -> str:
        model = entry.model or self._model
        return self._draft.get_actor("model", "assistant", provider="openai", model=model)


def _describe(item: JsonObject) -> str:
    """Return what an item of the client and its copy by the server have in common."""
    parts = [part.get("text") or part.get("type") for part in as_dicts(item.get("content"))]
    facts = [item.get(name) for name in ("type", "role", "call_id", "output")]
    return repr([*facts, parts])


def _parse_usage(usage: JsonObject) -> Usage | None:
    details = get_dict(usage, "input_token_details")
    return build_usage(
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        cache_read_tokens=details.get("cached_tokens"),
    )
