"""`export --follow`: a running conversation as a stream that grows with it and ends whole."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from open_token.builder.draft import Draft
from open_token.context import Context
from open_token.errors import InputError
from open_token.locallib.ndjson_stream import FollowStream
from open_token.locallib.reread import EventTracker, find_unreported_usage, has_new_reasoning
from open_token.model.document import Conversation, Event, Record, Usage
from open_token.pipeline import read_record
from open_token.registry import load_reader
from open_token.sources.source import Source
from open_token.sources.tail import Tail
from open_token.storage.spool import Spool

Idle = Callable[[], bool]
_NOT_YET = ("input.json", "input.no-events", "input.empty", "input.sqlite", "input.missing")
"""What may be wrong with a file while its runtime writes it, or writes it anew."""


class Outlet(Spool):
    """A spool that keeps nothing: what comes goes out at once."""

    def __init__(self, out: Callable[[list[Event]], None]) -> None:
        super().__init__()
        self._out = out

    def extend(self, events: list[Event], weight: int) -> None:
        """Hand the events on."""
        self._count += len(events)
        self._out(events)

    def open_event(self, place: int) -> Event | None:
        """None may be changed any more."""
        return None


class _ReaderWaitsError(Exception):
    """The reader takes all records before it tells anything: it must be asked again whenever
    something is new."""


@dataclass
class Follower:
    """Follows one conversation and writes it down as it goes on."""

    path: Path
    name: str
    reader: str
    context: Context
    growing: FollowStream
    idle: Idle
    """Waits a little; False when it is time to end."""
    conversation: str | None = None

    def run(self) -> Record:
        """Follow until told to stop; gives what was known in the end."""
        while True:
            try:
                return self._run()
            except InputError as problem:
                # It was away just when it was opened.
                if problem.code != "input.missing" or self.growing.has_written or not self.idle():
                    raise
            self.growing.rewind()

    def _run(self) -> Record:
        first, shape = self._first()
        if shape != "lines":
            return self._again_and_again(first)
        try:
            return self._stream(first.conversation)
        except _ReaderWaitsError:
            return self._again_and_again(first)
        except InputError as problem:
            if problem.code != "follow.append":
                raise
        # At an end a reader may have told what it would have told later, or otherwise: behind that,
        # only what is new.
        self.growing.rewind()
        first, _ = self._first()
        return self._stream(first.conversation, self._behind(first))

    def _first(self) -> tuple[Record, str]:
        """The conversation as far as it has come, as soon as there is one, and the shape of its
        source."""
        while True:
            try:
                source = self._source()
                record, shape = read_record(source, self._context(), self.reader), source.shape
            except InputError as problem:
                if problem.code not in _NOT_YET or not self.idle():
                    raise
            else:
                record.conversation["id"] = self.growing.named(record.conversation["id"])
                return record, shape

    def _source(self) -> Source:
        source = (
            Source.of_folder(self.path, self.name)
            if self.path.is_dir()
            else Source.of(self.path, self.name)
        )
        source.conversation = self.conversation
        return source

    def _behind(self, record: Record) -> EventTracker:
        """What knows the events that the stream holds from earlier on."""
        renewal = EventTracker()
        told, written = self.growing.resumed(record)
        is_other = not renewal.adopt(told, written, record) and not self.growing.is_same
        if is_other or has_new_reasoning(told, written):
            raise self.growing.other()
        return renewal

    def _stream(self, known: Conversation, behind: EventTracker | None = None) -> Record:
        """Line by line, for readers that tell each record as it comes."""
        draft = Draft(
            subagents=self.context.options.subagents, spool=Outlet(lambda events: take(events))
        )
        spent: dict[str, Usage] = {}

        def facts(conversation: Conversation = known) -> Record:
            at = self.context.exported_at()
            people = behind.participants if behind else draft.participants
            coercions, notes = draft.coercions, draft.notes
            return Record(
                conversation, people, (), notes=notes, coercions=coercions, exported_at=at
            )

        def take(events: list[Event]) -> None:
            spent.update((event["id"], event["usage"]) for event in events if "usage" in event)
            self.growing.take(behind.more(events, draft.participants) if behind else events, facts)

        def idle() -> bool:
            draft.flush()
            if not draft.count:
                raise _ReaderWaitsError
            return self.idle()

        source = Tail(self.path, self.name, idle, draft.flush)
        source.conversation = self.conversation
        load_reader(self.reader).read(source, draft)
        late, usage, dropped = draft.close()
        take(_late(late, find_unreported_usage(usage, spent), dropped, draft))
        if behind:
            self.growing.take(behind.rest(), facts)
        return facts({**known, **draft.build_conversation(lambda: known["id"]), "id": known["id"]})

    def _context(self) -> Context:
        return replace(self.context, options=self.context.options.changed(native="none"))

    def _again_and_again(self, record: Record) -> Record:
        """For readers that need the whole: read it anew whenever it has changed, and tell what is
        new."""
        renewal, name = self._behind(record), record.conversation["id"]

        def facts() -> Record:
            known: Conversation = {**record.conversation, "id": name}
            return replace(record, conversation=known, participants=renewal.participants)

        def renew() -> bool:
            nonlocal record
            try:
                record = read_record(self._source(), self._context(), self.reader)
            except InputError as problem:
                if problem.code not in _NOT_YET:
                    raise
                return False
            self.growing.take(renewal.take(record), facts)
            return True

        before: tuple[Any, ...] = ()
        while True:
            now = _state(self.path)
            if now != before and renew():
                before = now
            if not self.idle():
                break
        renew()  # what came within one tick of the file system's clock shows no change
        self.growing.take(renewal.take(record, is_end=True), facts)
        return facts()


def _late(
    late: list[Event], usage: dict[str, Usage], dropped: list[range], draft: Draft
) -> list[Event]:
    """What a whole export would have put in its place, as annotations at the end."""
    number = draft.count + len(late)
    actor = draft.get_actor("system", "runtime")
    made = list(late)
    for name, counted in usage.items():
        number += 1
        made.append(_annotation(number, actor, {"kind": "usage"}, name, counted))
    for places in dropped:
        number += 1
        data = {
            "kind": "abandoned_branch",
            "first": f"evt_{places.start + 1:06d}",
            "events": len(places),
        }
        made.append(_annotation(number, actor, data, None, None))
    return made


def _annotation(
    number: int, actor: str, data: dict[str, Any], parent: str | None, usage: Usage | None
) -> Event:
    event: dict[str, Any] = {
        "id": f"evt_{number:06d}",
        "seq": 0,
        "type": "annotation",
        "actor_id": actor,
        "visibility": "metadata",
        "content": {"mime": "application/json", "data": data},
    }
    if parent:
        event["links"] = {"parent_id": parent}
    if usage:
        event["usage"] = usage
    return cast(Event, event)


def _state(path: Path) -> tuple[Any, ...]:
    """What changes when a file, a database with its log, or a folder does."""
    if path.is_dir():
        return tuple(
            _state(Path(folder, name))
            for folder, _, names in os.walk(path)
            for name in sorted(names)
        )
    try:
        facts = [os.stat(item) for item in (path, Path(f"{path}-wal")) if item.exists()]
    except OSError:
        return ()
    return (str(path), *((item.st_size, item.st_mtime_ns, item.st_ino) for item in facts))
