"""Read lists, lines and states of LangChain messages, or the runs of LangSmith."""

from collections.abc import Iterator
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.langchain import langsmith, langsmith_runs
from open_token.formats.langchain.detect import find_messages, has_runs, is_message
from open_token.formats.langchain.messages import (
    ChunkJoiner,
    build_message,
    is_chunk,
    unwrap_message,
)
from open_token.formats.shared.fields import JsonObject, as_text
from open_token.formats.shared.messages import Message
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.repeated_history import HistoryWriter, MessageContext
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Found
from open_token.sources.source import Source


def read(source: Source, draft: Draft) -> None:
    """Read the conversation into the draft."""
    draft.conversation["source_runtime"] = "api"
    draft.without_thoughts = "unknown"
    if has_runs(source):
        langsmith.read(source, draft)
    else:
        _MessageReader(draft).read(source)


def list_conversations(source: Source) -> list[Found]:
    """List the threads and traces of runs; messages are one conversation."""
    return langsmith_runs.list_threads(source) if has_runs(source) else []


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the id of the conversation that a run belongs to."""
    return langsmith_runs.find_owner(source, value) if has_runs(source) else None


class _MessageReader:
    """Reads messages in order; chunks are collected until their message is complete."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._history = HistoryWriter(draft, remember=False)
        self._chunks = ChunkJoiner()
        self._chunk_place = "record 1"

    def read(self, source: Source) -> None:
        for place, record in _list_records(source):
            if not is_message(record):
                self._flush()
                kind = record.get("type") if isinstance(record, dict) else None
                self._draft.note_omission(
                    "unknown-record", place, f"a record {format_kind(kind)} that is no message"
                )
                continue
            role, fields = unwrap_message(record)
            if is_chunk(record):
                self._read_chunk(fields, place)
                continue
            self._flush()
            self._read_message(role, fields, place)
        self._flush()

    def _read_chunk(self, fields: JsonObject, place: str) -> None:
        if not self._chunks.continues(fields):
            self._flush()
        self._chunk_place = place
        self._chunks.add(fields)

    def _flush(self) -> None:
        message = self._chunks.take_message()
        if message is not None:
            self._add_message(message, self._chunk_place)

    def _read_message(self, role: str, fields: JsonObject, place: str) -> None:
        if role == "remove":
            # LangGraph: a RemoveMessage deletes a message from the state.
            self._draft.add_annotation({"kind": "removed_message", "id": as_text(fields.get("id"))})
            return
        message = build_message(role, fields)
        message.ts = _get_time(fields)
        self._add_message(message, place)

    def _add_message(self, message: Message, place: str) -> None:
        if message.role != "assistant":
            self._history.add_message(message, MessageContext("", place, usage=message.usage))
            return
        actor = self._draft.get_actor(
            "model",
            message.name or "assistant",
            provider=message.provider,
            model=message.model,
        )
        if message.provider:
            self._draft.conversation.setdefault("provider", message.provider)
        if message.usage and message.usage.get("reasoning_tokens"):
            self._draft.without_thoughts = "unavailable"
        stage = MessageContext(actor, place, usage=message.usage)
        before = self._draft.count
        event = self._history.add_message(message, stage)
        if self._draft.count == before:
            self._draft.note_omission("empty-message", place, "a message without content")
        self._history.close(stage)
        self._history.add_facts(event, stage, message.facts)


def _list_records(source: Source) -> Iterator[tuple[str, Any]]:
    """Yield every record with its position, out of whatever holds the list."""
    if source.shape == "document":
        for number, record in enumerate(_get_list(source.document), 1):
            yield f"record {number}", record
        return
    unit = "line" if source.shape in ("lines", "events") else "record"
    for number, record in source.records():
        place = f"{unit} {number}"
        messages = None
        if isinstance(record, dict) and "type" not in record:
            messages = find_messages(record)
        if messages is None:
            yield place, record
            continue
        for message in messages:
            yield place, message


def _get_list(document: Any) -> list[Any]:
    if isinstance(document, list):
        if len(document) == 1 and isinstance(document[0], list):
            return document[0]
        return document
    return find_messages(document) or [document]


def _get_time(fields: JsonObject) -> str | None:
    """Return the time that an application stored in the message; LangChain itself stores none."""
    created_at = to_utc(fields.get("created_at"))
    if created_at:
        return created_at
    extra = fields.get("additional_kwargs")
    return to_utc(extra.get("timestamp")) if isinstance(extra, dict) else None
