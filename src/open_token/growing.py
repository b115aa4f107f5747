"""The stream that `--follow` writes: each event at once, a footer at the end; it goes on where one broke off."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import BinaryIO

import orjson

from open_token.context import Context
from open_token.errors import InputError
from open_token.model import Conversation, Event, Integrity, Participant, Record
from open_token.passes import Seal, select
from open_token.passes.live import LiveRedaction
from open_token.writers.ndjson import Ndjson

_LATE_KINDS = ("usage", "abandoned_branch", "revised")


@dataclass
class Written:
    """What a file holds of a stream that began earlier."""

    header: bytes = b""
    events: list[tuple[int, bytes, bool]] | None = None
    """For each event: where its line begins, the hash of the line, whether it was put in at the end."""
    end: int = 0


def written_in(stream: BinaryIO, name: str) -> Written:
    """Look through a stream that broke off or was ended; half a line at its end does not count."""
    found = Written(events=[])
    assert found.events is not None
    place = 0
    for number, line in enumerate(stream, 1):
        if not line.endswith(b"\n"):
            break
        try:
            record = orjson.loads(line)
            kind = record["type"]
        except (ValueError, KeyError, TypeError):
            raise _foreign(name, number) from None
        if number == 1:
            if kind != "header":
                raise _foreign(name, number)
            found.header = line
        elif kind == "event":
            found.events.append((place, _digest(line), _is_late(record)))
        elif kind == "footer":
            break
        place += len(line)
        found.end = place
    return found


def _foreign(name: str, number: int) -> InputError:
    return InputError(
        "this file is no stream that --follow wrote",
        where=f"{name}:{number}",
        help="leave --append out and name a new file",
        code="follow.append",
    )


def _is_late(record: dict[str, object]) -> bool:
    content = record.get("content")
    data = content.get("data") if isinstance(content, dict) else None
    return isinstance(data, dict) and (data.get("missing_result") is True or data.get("kind") in _LATE_KINDS)


def _digest(line: bytes) -> bytes:
    return hashlib.blake2b(line, digest_size=16).digest()


Facts = Callable[[], Record]


class Growing:
    """Writes events as they come, flushed one by one."""

    def __init__(self, out: BinaryIO, context: Context, name: str, before: Written | None = None) -> None:
        self._out = out
        self._context = context
        self._name = name
        self._before = (before.events or []) if before else []
        self._header = before.header if before else b""
        self._writer = Ndjson()
        self._redaction = LiveRedaction(context)
        self._record: Record | None = None
        self._seal: Seal | None = None
        self._facts: Conversation = {}
        self._people: list[Participant] = []
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
        for event in self._redaction.events(chosen, self._record.conversation["id"]):
            self._write(event)
        self._out.flush()

    def _open(self, record: Record) -> None:
        self._record = self._redaction.facts(record)
        self._seal = Seal(self._record, self._context.options.integrity)
        self._facts, self._people = {**self._record.conversation}, [*self._record.participants]
        if not self._header:
            self._out.write(self._writer.head(self._record))
        else:
            told = orjson.loads(self._header)
            self._record.exported_at = told.get("exported_at")
            self._facts, self._people = told.get("conversation", {}), told.get("participants", [])
            if self._facts.get("id") != self._record.conversation["id"]:
                raise self._other()

    def _write(self, event: Event) -> None:
        assert self._seal is not None
        self._seal.take(event)
        self.count += 1
        line = self._writer.event(event, self.count)
        if self.count > len(self._before):
            self._out.write(line)
            self._out.flush()
            return
        place, digest, _ = self._before[self.count - 1]
        if digest == _digest(line):
            return
        if not all(late for _, _, late in self._before[self.count - 1 :]):
            raise self._other()
        self._cut(place)
        self._out.write(line)
        self._out.flush()

    def _cut(self, place: int) -> None:
        """What an earlier end had put in is not the end any more."""
        self._before = self._before[: self.count - 1]
        self._out.seek(place)
        self._out.truncate()

    def _other(self) -> InputError:
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
            if not all(late for _, _, late in self._before[self.count :]):
                raise self._other()
            self.count += 1
            self._cut(self._before[self.count - 1][0])
            self.count -= 1
        final = self._redaction.facts(record)
        # What the header says is said: the footer can add to it and correct it, not take it back.
        self._record.conversation = {**self._facts, **final.conversation}
        known = self._people
        self._record.participants = [*known, *(person for person in final.participants if person not in known)]
        self._record.coercions = record.coercions
        integrity = self._seal.integrity()
        self._out.write(self._writer.late_tail(self._record, integrity))
        self._out.flush()
        return integrity
