"""Tells lists, lines and states of LangChain messages."""

from collections.abc import Iterator
from typing import Any

from open_token.draft import Draft
from open_token.model import Found
from open_token.readers._langchain_chunks import Chunks
from open_token.readers._langchain_messages import is_chunk, message_of, opened
from open_token.readers._langchain_shapes import is_message, messages_in
from open_token.readers._said import Body, Said
from open_token.readers._said_once import Stage, Talk
from open_token.readers._wire_responses_content import name_of, word
from open_token.source import Source
from open_token.timestamps import to_utc


def conversations(source: Source) -> list[Found]:
    """Messages are one conversation."""
    return []


def belongs(source: Source, at: str, value: Any) -> str | None:
    """No message is another conversation's."""
    return None


def read(source: Source, draft: Draft) -> None:
    """Tell the messages in order."""
    draft.conversation["source_runtime"] = "api"
    draft.without_thoughts = "unknown"
    _Messages(draft).tell(source)


class _Messages:
    """Tells one message after another; chunks are held until their message is whole."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._talk = Talk(draft, remember=False)
        self._chunks = Chunks()
        self._begun = "record 1"

    def tell(self, source: Source) -> None:
        for place, record in _placed(source):
            if not is_message(record):
                self._flush()
                self._draft.skip(
                    "unknown-record", place, f"a record {name_of(_kind(record))} that is no message"
                )
                continue
            role, fields = opened(record)
            if is_chunk(record):
                if not self._chunks.takes(fields):
                    self._flush()
                self._begun = place
                self._chunks.add(fields)
                continue
            self._flush()
            self._message(role, fields, place)
        self._flush()

    def _flush(self) -> None:
        whole = self._chunks.end()
        if whole is not None:
            self._say(whole, self._begun)

    def _message(self, role: str, fields: Body, place: str) -> None:
        if role == "remove":
            self._draft.annotation({"kind": "removed_message", "id": word(fields.get("id"))})
            return
        made = message_of(role, fields)
        made.ts = _time(fields)
        self._say(made, place)

    def _say(self, made: Said, place: str) -> None:
        actor = ""
        if made.role == "assistant":
            name = made.name or "assistant"
            actor = self._draft.actor("model", name, provider=made.provider, model=made.model)
            if made.provider:
                self._draft.conversation.setdefault("provider", made.provider)
            if made.usage and made.usage.get("reasoning_tokens"):
                self._draft.without_thoughts = "unavailable"
        stage = Stage(actor, place, usage=made.usage)
        before = self._draft.count
        event = self._talk.say(made, stage)
        if made.role == "assistant":
            if self._draft.count == before:
                self._draft.skip("empty-message", place, "a message without content")
            self._talk.close(stage)
            self._talk.facts(event, stage, made.facts)


def _placed(source: Source) -> Iterator[tuple[str, Any]]:
    """Every record with the place where it stands, out of whatever holds the list."""
    unit = "line" if source.shape in ("lines", "events") else "record"
    if source.shape == "document":
        value = source.document
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
            value = value[0]
        listed = value if isinstance(value, list) else messages_in(value) or [value]
        yield from ((f"record {number}", record) for number, record in enumerate(listed, 1))
        return
    for number, record in source.records():
        held = messages_in(record) if isinstance(record, dict) and "type" not in record else None
        if held is None:
            yield f"{unit} {number}", record
        else:
            yield from ((f"{unit} {number}", item) for item in held)


def _kind(record: Any) -> Any:
    return record.get("type") if isinstance(record, dict) else None


def _time(fields: Body) -> str | None:
    """A time that whoever kept the message wrote on it."""
    beside = fields.get("additional_kwargs")
    given = beside.get("timestamp") if isinstance(beside, dict) else None
    return to_utc(fields.get("created_at")) or to_utc(given)
