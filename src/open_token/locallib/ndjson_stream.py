"""The stream that `--follow` writes: each event at once, a footer at the end; it goes on where one
broke off."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, cast

import orjson

from open_token.context import Context
from open_token.errors import InputError
from open_token.integrity.event_hashes import EventHasher
from open_token.model.document import Conversation, Event, Integrity, Participant, Record
from open_token.passes import select
from open_token.redaction.live import LiveRedaction
from open_token.writers.ndjson import NdjsonWriter

_HEAD = b'{"type":"header",'
_LATE_KINDS = ("usage", "abandoned_branch", "revised")


@dataclass
class WrittenStream:
    """What a file holds of a stream that began earlier."""

    header: bytes = b""
    events: list[tuple[int, bytes, bool]] | None = None
    """For each event: where its line begins, the hash of the line, whether it was put in at the
    end."""
    end: int = 0


def read_written_stream(stream: BinaryIO, name: str) -> WrittenStream:
    """Look through a stream that broke off or was ended; half a line at its end does not count."""
    found = WrittenStream(events=[])
    assert found.events is not None
    place, is_ended = 0, False
    for number, line in enumerate(stream, 1):
        if not line.endswith(b"\n") and (number > 1 or _HEAD.startswith(line[: len(_HEAD)])):
            break
        record = _ours(line, number == 1)
        if record is None or is_ended:
            raise _foreign(name, number)
        if number == 1:
            found.header = line
        elif record["type"] == "event":
            found.events.append((place, _digest(line), _is_late(record)))
        is_ended = record["type"] == "footer"
        place += len(line)
        found.end = found.end if is_ended else place
    return found if found.events else WrittenStream()


def _ours(line: bytes, is_first: bool) -> dict[str, Any] | None:
    """The record of a line; None when --follow writes no such line there, so that the file is
    somebody else's."""
    try:
        record = orjson.loads(line)
        if is_first:
            people = record["participants"]
            is_ours = record["type"] == "header" and isinstance(record["conversation"]["id"], str)
            is_ours = is_ours and all(isinstance(person["actor_id"], str) for person in people)
        else:
            is_ours = record["type"] == "footer" or (
                record["type"] == "event" and _is_event(record)
            )
    except (ValueError, KeyError, TypeError):
        return None
    return record if is_ours else None


def _is_event(record: dict[str, Any]) -> bool:
    words = all(isinstance(record[name], str) for name in ("event_type", "id", "actor_id"))
    return (
        words and isinstance(record["content"], dict) and isinstance(record.get("links", {}), dict)
    )


def _foreign(name: str, number: int) -> InputError:
    return InputError(
        "this file is no stream that --follow wrote",
        where=f"{name}:{number}",
        help="leave --append out and name a new file",
        code="follow.append",
    )


def _is_late(record: dict[str, object]) -> bool:
    """Whether an event may be one that an end had put in: it is no loss, a reading tells it again
    if it is not."""
    if record.get("event_type") == "span_end":
        return True
    content = record.get("content")
    data = content.get("data") if isinstance(content, dict) else None
    return isinstance(data, dict) and (
        data.get("missing_result") is True or data.get("kind") in _LATE_KINDS
    )


def _digest(line: bytes) -> bytes:
    return hashlib.blake2b(line, digest_size=16).digest()


Facts = Callable[[], Record]


class FollowStream:
    """Writes events as they come, flushed one by one."""

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
        """Begin anew, as long as nothing was written."""
        before = self._written
        self._before = [*(before.events or ())] if before else []
        self._header = before.header if before else b""
        self._end = before.end if before else None
        """Where a stream goes on; what stands behind it stays until then."""
        self._redaction = LiveRedaction(self._context)
        self._record: Record | None = None
        self._seal: EventHasher | None = None
        self._facts: Conversation = {}
        self._people: list[Participant] = []
        self.has_written = False
        self.is_same = True
        """Whether the conversation still has the id that it has in the stream."""
        self.count = 0
        """How many events there are."""

    def take(self, events: list[Event], facts: Facts) -> None:
        """The next events; the header goes before the first."""
        if not events:
            return
        if self._seal is None:
            self._open(facts())
        assert self._record is not None
        chosen = list(select(replace(self._record, events=events), self._context).events)
        for event in self._redaction.redact_events(chosen, self._record.conversation["id"]):
            self._write(event)

    def named(self, name: str) -> str:
        """The id that a conversation has in this stream: the first one, whatever becomes of it as
        more is said."""
        told = self._told_facts().get("id", name)
        self.is_same = told == name
        return told

    def _told_facts(self) -> Conversation:
        return cast(
            Conversation, orjson.loads(self._header).get("conversation", {}) if self._header else {}
        )

    def resumed(self, record: Record) -> tuple[list[Event], list[Event]]:
        """The events that a stream holds from earlier on, and those of a reading as they would be
        written now.

        For what is read anew each time, and so need not tell the same again: it goes on behind
        those of the stream."""
        if not self._before:
            return [], []
        self._open(record)
        assert self._record is not None
        if self._told_facts().get("redaction", {}).get("mode") != self._record.conversation.get(
            "redaction", {}
        ).get("mode"):
            raise self.other()
        while self._before and self._before[-1][2]:
            self._end = self._before.pop()[0]
        told = self._read_again()
        chosen = list(select(replace(self._record, events=record.events), self._context).events)
        return told, self._redaction.redact_events(chosen, self._record.conversation["id"])

    def _read_again(self) -> list[Event]:
        """The events of the file, sealed as they are."""
        assert self._seal is not None
        told: list[Event] = []
        self._out.seek(self._before[0][0] if self._before else 0)
        for _ in self._before:
            line: dict[str, Any] = orjson.loads(self._out.readline())
            line["type"] = line.pop("event_type")
            told.append(cast(Event, line))
            self._seal.take(told[-1])
        self.count, self._before = len(told), []
        return told

    def _open(self, record: Record) -> None:
        self._record = self._redaction.redact_metadata(record)
        self._seal = EventHasher(self._record, self._context.options.integrity)
        self._facts, self._people = {**self._record.conversation}, [*self._record.participants]
        if not self._header:
            self._put(self._writer.head(self._record))
        else:
            told = orjson.loads(self._header)
            self._record.exported_at = told.get("exported_at")
            self._facts, self._people = told.get("conversation", {}), told.get("participants", [])

    def _write(self, event: Event) -> None:
        assert self._seal is not None
        self._seal.take(event)
        self.count += 1
        line = self._writer.event(event, self.count)
        if self.count <= len(self._before):
            if self._before[self.count - 1][1] == _digest(line):
                return
            self._cut(self.count - 1)
        self._put(line)

    def _cut(self, count: int) -> None:
        """So many events are left: what an earlier end had put in is not the end any more."""
        if not all(late for _, _, late in self._before[count:]):
            raise self.other()
        self._end = self._before[count][0]
        self._before = self._before[:count]

    def _put(self, line: bytes) -> None:
        """Write a line, in the place of what an earlier end or a kill had left."""
        if self._end is not None:
            self._out.seek(self._end)
            self._out.truncate()
            self._end = None
        self.has_written = True
        self._out.write(line)
        self._out.flush()

    def other(self) -> InputError:
        """The file does not go with the conversation."""
        return InputError(
            "this file is not the beginning of the conversation as it is exported now",
            where=self._name,
            help="use the same options as before, or leave --append out and name a new file; it was not changed",
            code="follow.append",
        )

    def close(self, record: Record) -> Integrity | None:
        """The footer, with what was met late."""
        if self._seal is None or self._record is None:
            return None
        if self.count < len(self._before):
            self._cut(self.count)
        final = self._redaction.redact_metadata(record)
        # What the header says is said: the footer can add to it and correct it, not take it back.
        self._record.conversation = {**self._facts, **final.conversation}
        known = {person["actor_id"] for person in self._people}
        later = [person for person in final.participants if person["actor_id"] not in known]
        self._record.participants = [*self._people, *later]
        self._record.coercions = record.coercions
        integrity = self._seal.integrity()
        self._put(self._writer.stream_tail(self._record, integrity))
        return integrity
