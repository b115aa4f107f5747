"""Tells lists, lines and states of LangChain messages."""

from collections.abc import Iterator
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.langchain.messages import is_chunk, message_of, opened, usage_of
from open_token.formats.langchain.shapes import is_message, messages_in
from open_token.formats.shared.fields import JsonObject, as_text
from open_token.formats.shared.messages import Message
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.repeated_history import HistoryWriter, MessageContext
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Found, Usage
from open_token.sources.source import Source


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
        self._talk = HistoryWriter(draft, remember=False)
        self._chunks = Chunks()
        self._begun = "record 1"

    def tell(self, source: Source) -> None:
        for place, record in _placed(source):
            if not is_message(record):
                self._flush()
                self._draft.note_omission(
                    "unknown-record",
                    place,
                    f"a record {format_kind(_kind(record))} that is no message",
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

    def _message(self, role: str, fields: JsonObject, place: str) -> None:
        if role == "remove":
            self._draft.add_annotation({"kind": "removed_message", "id": as_text(fields.get("id"))})
            return
        made = message_of(role, fields)
        made.ts = _time(fields)
        self._say(made, place)

    def _say(self, made: Message, place: str) -> None:
        actor = ""
        if made.role == "assistant":
            name = made.name or "assistant"
            actor = self._draft.get_actor("model", name, provider=made.provider, model=made.model)
            if made.provider:
                self._draft.conversation.setdefault("provider", made.provider)
            if made.usage and made.usage.get("reasoning_tokens"):
                self._draft.without_thoughts = "unavailable"
        stage = MessageContext(actor, place, usage=made.usage)
        before = self._draft.count
        event = self._talk.add_message(made, stage)
        if made.role == "assistant":
            if self._draft.count == before:
                self._draft.note_omission("empty-message", place, "a message without content")
            self._talk.close(stage)
            self._talk.add_facts(event, stage, made.facts)


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


def _time(fields: JsonObject) -> str | None:
    """A time that whoever kept the message wrote on it."""
    beside = fields.get("additional_kwargs")
    given = beside.get("timestamp") if isinstance(beside, dict) else None
    return to_utc(fields.get("created_at")) or to_utc(given)


_SPREAD = frozenset(
    ("text", "thinking", "reasoning", "reasoning_content", "signature", "partial_json", "args")
)
_HALVES = ("input_json_delta", "tool_call_chunk", "tool_use")
_WEIGHTY = ("content", "tool_calls", "tool_call_chunks", "usage_metadata")
_COUNTS = (
    "input_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
)


class Chunks:
    """The chunks of one message."""

    def __init__(self) -> None:
        self._held: list[JsonObject] = []

    def takes(self, fields: JsonObject) -> bool:
        """Whether a chunk goes on with the message under way."""
        if not self._held:
            return True
        before = self._held[-1]
        same = before.get("id") == fields.get("id") or not (before.get("id") and fields.get("id"))
        # The Responses API: the first chunk has the id of the response and nothing else, the others
        # that of the run.
        opened = len(self._held) == 1 and not any(before.get(name) for name in _WEIGHTY)
        return (same or opened) and before.get("chunk_position") != "last"

    def add(self, fields: JsonObject) -> None:
        """Take a chunk."""
        self._held.append(fields)

    def end(self) -> Message | None:
        """The message under way, when there is one."""
        held, self._held = self._held, []
        if not held:
            return None
        calls = _calls(held)
        joined: JsonObject = {
            "content": _content([chunk.get("content") for chunk in held], bool(calls)),
            "tool_calls": calls,
            "name": next((chunk["name"] for chunk in held if as_text(chunk.get("name"))), None),
        }
        for name in ("additional_kwargs", "response_metadata"):
            joined[name] = _joined(
                [part for chunk in held if isinstance(part := chunk.get(name), dict)]
            )
        made = message_of("assistant", joined)
        counted = [usage for chunk in held if (usage := usage_of(chunk.get("usage_metadata")))]
        sums = {name: _sum(name, counted) for name in _COUNTS}
        made.usage = build_usage(**sums) or made.usage
        return made


def _sum(name: str, counted: list[Usage]) -> int | None:
    known = [count for usage in counted if type(count := usage.get(name)) is int]
    return sum(known) if known else None


def _joined(pieces: list[JsonObject]) -> JsonObject:
    """One value of many pieces: texts that are spread over them end to end, of anything else the
    last word."""
    spread: dict[str, list[str]] = {}
    made: JsonObject = {}
    listed: list[Any] = []
    for piece in pieces:
        for name, item in piece.items():
            if name in _SPREAD and isinstance(item, str):
                spread.setdefault(name, []).append(item)
                made.setdefault(name, "")
            elif name == "summary" and isinstance(item, list):
                listed += item
            elif item is not None and (name != "type" or name not in made):
                made[name] = item
    if listed:
        made["summary"] = listed
    return made | {name: "".join(texts) for name, texts in spread.items()}


def _content(values: list[Any], without_calls: bool) -> Any:
    if all(isinstance(value, str | None) for value in values):
        return "".join(value or "" for value in values)
    blocks = _indexed(values)
    for block in blocks:
        if isinstance(block, dict) and isinstance(block.get("summary"), list):
            block["summary"] = _indexed([block["summary"]])
    # The pieces of a call's arguments stand in the tool_call_chunks too.
    return [
        block
        for block in blocks
        if not (without_calls and isinstance(block, dict) and block.get("type") in _HALVES)
    ]


def _indexed(values: list[Any]) -> list[Any]:
    """The blocks of all lists; those of one index are pieces of one."""
    groups: dict[Any, list[Any]] = {}
    for value in values:
        for block in value if isinstance(value, list) else [value] if value else []:
            index = block.get("index") if isinstance(block, dict) else None
            known = isinstance(index, int | str)
            groups.setdefault(("index", index) if known else ("alone", len(groups)), []).append(
                block
            )
    return [_joined(group) if isinstance(group[0], dict) else group[0] for group in groups.values()]


def _calls(held: list[JsonObject]) -> list[JsonObject]:
    made: dict[Any, list[JsonObject]] = {}
    whole: list[JsonObject] = []
    for number, chunk in enumerate(held):
        pieces, calls = chunk.get("tool_call_chunks"), chunk.get("tool_calls")
        if isinstance(pieces, list) and pieces:
            for piece in pieces:
                index = piece.get("index") if isinstance(piece, dict) else None
                known = isinstance(index, int | str)
                made.setdefault(index if known else ("chunk", number), []).append(piece)
        elif isinstance(calls, list):
            whole += [call for call in calls if isinstance(call, dict)]
    joined = [
        _joined([piece for piece in pieces if isinstance(piece, dict)]) for pieces in made.values()
    ]
    return [*joined, *whole]
