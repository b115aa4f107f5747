"""The NDJSON stream of `--follow`: a header, each event at once, a footer at the end.

A stream that broke off or was ended can be continued in the same file.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, NamedTuple, cast

import orjson

from open_token.context import Context
from open_token.errors import InputError
from open_token.integrity.event_hashes import EventHasher
from open_token.model.document import Conversation, Event, Integrity, Participant, Record
from open_token.passes import select
from open_token.redaction.live import LiveRedaction
from open_token.writers.ndjson import NdjsonWriter

_HEADER_START = b'{"type":"header",'
_LATE_KINDS = ("usage", "abandoned_branch", "revised")


class _WrittenEvent(NamedTuple):
    """An event of a stream that is continued."""

    offset: int
    """Where its line begins."""
    digest: bytes
    is_late: bool
    """Whether it may have been added when the stream was ended."""


@dataclass
class WrittenStream:
    """What a file contains of a stream that began earlier."""

    header: bytes = b""
    events: list[_WrittenEvent] = field(default_factory=list)
    end: int = 0
    """Where the stream continues: before the footer or an incomplete last line."""


def read_written_stream(stream: BinaryIO, name: str) -> WrittenStream:
    """Read a stream that broke off or was ended; an incomplete last line is ignored.

    Raise InputError if it is not a stream that `--follow` wrote.
    """
    written = WrittenStream()
    offset = 0
    is_ended = False
    for number, line in enumerate(stream, 1):
        is_first = number == 1
        if not line.endswith(b"\n"):
            is_cut_header = _HEADER_START.startswith(line[: len(_HEADER_START)])
            if not is_first or is_cut_header:
                break
        record = _parse_line(line, is_first)
        if record is None or is_ended:
            raise _build_foreign_error(name, number)
        if is_first:
            written.header = line
        elif record["type"] == "event":
            event = _WrittenEvent(offset, _compute_digest(line), _is_late(record))
            written.events.append(event)
        is_ended = record["type"] == "footer"
        offset += len(line)
        if not is_ended:
            written.end = offset
    if written.events:
        return written
    return WrittenStream()


def _parse_line(line: bytes, is_first: bool) -> dict[str, Any] | None:
    """Return the record of a line, or None if `--follow` does not write such a line there."""
    try:
        record: dict[str, Any] = orjson.loads(line)
        if is_first:
            is_expected = _is_header(record)
        else:
            is_expected = _is_event_or_footer(record)
    except (ValueError, KeyError, TypeError):
        return None
    return record if is_expected else None


def _is_header(record: dict[str, Any]) -> bool:
    participants = record["participants"]
    if record["type"] != "header" or not isinstance(record["conversation"]["id"], str):
        return False
    return all(isinstance(participant["actor_id"], str) for participant in participants)


def _is_event_or_footer(record: dict[str, Any]) -> bool:
    if record["type"] == "footer":
        return True
    if record["type"] != "event":
        return False
    if not all(isinstance(record[key], str) for key in ("event_type", "id", "actor_id")):
        return False
    return isinstance(record["content"], dict) and isinstance(record.get("links", {}), dict)


def _build_foreign_error(name: str, number: int) -> InputError:
    return InputError(
        "this file is not a stream that --follow wrote",
        where=f"{name}:{number}",
        help="omit --append and name a new file",
        code="follow.append",
    )


def _is_late(record: dict[str, object]) -> bool:
    """Return whether an event may have been added at the end of a stream.

    If it was not, nothing is lost by removing it: the reader emits it again.
    """
    if record.get("event_type") == "span_end":
        return True
    content = record.get("content")
    data = content.get("data") if isinstance(content, dict) else None
    if not isinstance(data, dict):
        return False
    return data.get("missing_result") is True or data.get("kind") in _LATE_KINDS


def _compute_digest(line: bytes) -> bytes:
    return hashlib.blake2b(line, digest_size=16).digest()


RecordFactory = Callable[[], Record]


class FollowStream:
    """Writes redacted events to a file, flushed one by one."""

    def __init__(
        self, out: BinaryIO, context: Context, name: str, before: WrittenStream | None = None
    ) -> None:
        self._out = out
        self._context = context
        self._name = name
        self._written = before
        self._writer = NdjsonWriter()
        self.rewind()

    def rewind(self) -> None:
        """Start again; allowed as long as nothing was written."""
        written = self._written
        self._earlier_events = list(written.events) if written else []
        self._header = written.header if written else b""
        # The file is truncated there as late as possible: with the first line that differs.
        self._end = written.end if written else None
        self._redaction = LiveRedaction(self._context)
        self._record: Record | None = None
        self._seal: EventHasher | None = None
        self._header_conversation: Conversation = {}
        self._header_participants: list[Participant] = []
        self.has_written = False
        self.is_same = True
        """Whether the conversation still has the id that it has in the stream."""
        self.count = 0
        """The number of events."""

    def write_events(self, events: list[Event], build_record: RecordFactory) -> None:
        """Write the next events, and the header before the first one."""
        if not events:
            return
        if self._seal is None:
            self._start(build_record())
        for event in self._select_and_redact(events):
            self._write_event(event)

    def _select_and_redact(self, events: Any) -> list[Event]:
        assert self._record is not None
        selected = list(select(replace(self._record, events=events), self._context).events)
        return self._redaction.redact_events(selected, self._record.conversation["id"])

    def use_stream_id(self, conversation_id: str) -> str:
        """Return the id that the conversation has in this stream.

        It is the first one: a generated id may change as the conversation grows.
        """
        stream_id = self._parse_header().get("conversation", {}).get("id", conversation_id)
        self.is_same = stream_id == conversation_id
        return cast(str, stream_id)

    def _parse_header(self) -> dict[str, Any]:
        if self._header:
            return cast(dict[str, Any], orjson.loads(self._header))
        return {}

    def resume(self, record: Record) -> tuple[list[Event], list[Event]]:
        """Continue a stream with what is read again, which need not give the same events.

        Return the events of the stream, and the events of the record as they would be written now.
        """
        if not self._earlier_events:
            return [], []
        self._start(record)
        assert self._record is not None
        conversation: Conversation = self._parse_header().get("conversation", {})
        if _get_redaction_mode(conversation) != _get_redaction_mode(self._record.conversation):
            raise self.build_mismatch_error()
        while self._earlier_events and self._earlier_events[-1].is_late:
            self._end = self._earlier_events.pop().offset
        streamed = self._read_earlier_events()
        return streamed, self._select_and_redact(record.events)

    def _read_earlier_events(self) -> list[Event]:
        """Read the events of the file and add them to the hash."""
        assert self._seal is not None
        events: list[Event] = []
        self._out.seek(self._earlier_events[0].offset if self._earlier_events else 0)
        for _ in self._earlier_events:
            line: dict[str, Any] = orjson.loads(self._out.readline())
            line["type"] = line.pop("event_type")
            event = cast(Event, line)
            events.append(event)
            self._seal.take(event)
        self.count = len(events)
        self._earlier_events = []
        return events

    def _start(self, record: Record) -> None:
        self._record = self._redaction.redact_metadata(record)
        self._seal = EventHasher(self._record, self._context.options.integrity)
        if self._header:
            header = self._parse_header()
            self._record.exported_at = header.get("exported_at")
            self._header_conversation = header.get("conversation", {})
            self._header_participants = header.get("participants", [])
        else:
            self._header_conversation = {**self._record.conversation}
            self._header_participants = [*self._record.participants]
            self._write_line(self._writer.head(self._record))

    def _write_event(self, event: Event) -> None:
        assert self._seal is not None
        self._seal.take(event)
        self.count += 1
        line = self._writer.event(event, self.count)
        if self.count <= len(self._earlier_events):
            if self._earlier_events[self.count - 1].digest == _compute_digest(line):
                return
            self._cut_after(self.count - 1)
        self._write_line(line)

    def _cut_after(self, count: int) -> None:
        """Cut the stream after so many events; the rest was added when it was ended."""
        if not all(event.is_late for event in self._earlier_events[count:]):
            raise self.build_mismatch_error()
        self._end = self._earlier_events[count].offset
        self._earlier_events = self._earlier_events[:count]

    def _write_line(self, line: bytes) -> None:
        """Write a line; it replaces what an earlier end or a killed process left."""
        if self._end is not None:
            self._out.seek(self._end)
            self._out.truncate()
            self._end = None
        self.has_written = True
        self._out.write(line)
        self._out.flush()

    def build_mismatch_error(self) -> InputError:
        """Build the error for a file that does not belong to the conversation."""
        return InputError(
            "this file is not the beginning of the conversation as it is exported now",
            where=self._name,
            help="use the same options as before, or omit --append and name a new file; "
            "it was not changed",
            code="follow.append",
        )

    def close(self, record: Record) -> Integrity | None:
        """Write the footer; return the hashes, or None if there was no event."""
        if self._seal is None or self._record is None:
            return None
        if self.count < len(self._earlier_events):
            self._cut_after(self.count)
        final = self._redaction.redact_metadata(record)
        # The footer may add to the header and correct it, but cannot remove anything from it.
        self._record.conversation = {**self._header_conversation, **final.conversation}
        known = {participant["actor_id"] for participant in self._header_participants}
        added = [item for item in final.participants if item["actor_id"] not in known]
        self._record.participants = [*self._header_participants, *added]
        self._record.coercions = record.coercions
        integrity = self._seal.integrity()
        self._write_line(self._writer.stream_tail(self._record, integrity))
        return integrity


def _get_redaction_mode(conversation: Conversation) -> str | None:
    return conversation.get("redaction", {}).get("mode")
