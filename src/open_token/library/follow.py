"""`export --follow`: export a running session as a stream of events.

Line-oriented sources are read incrementally as they grow. Everything else (documents, databases,
directories), and the sources of readers that need all records first, is read again whenever it
changes.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from open_token.builder.draft import Draft
from open_token.context import Context
from open_token.errors import InputError
from open_token.formats.shared.notes import note_file_faults
from open_token.library.ndjson_stream import FollowStream
from open_token.library.reread import EventTracker, find_unreported_usage, has_new_reasoning
from open_token.model.document import Conversation, Event, Record, Usage
from open_token.pipeline import read_record
from open_token.registry import load_reader
from open_token.sources.source import Source
from open_token.sources.tail import Tail
from open_token.storage.spool import Spool

WaitFunction = Callable[[], bool]
# What may be wrong with a file while its agent writes or replaces it.
_TRANSIENT_ERRORS = (
    "input.json",
    "input.no-events",
    "input.empty",
    "input.sqlite",
    "input.missing",
)


class _ForwardingSpool(Spool):
    """A spool that stores nothing and passes events on at once."""

    def __init__(self, forward: Callable[[list[Event]], None]) -> None:
        super().__init__()
        self._forward = forward

    def extend(self, events: list[Event], weight: int) -> None:
        """Pass the events on."""
        self._count += len(events)
        self._forward(events)

    def open_event(self, place: int) -> Event | None:
        """Return None: events that were passed on cannot be changed."""
        return None


class _NeedsAllRecordsError(Exception):
    """The reader emits no event before it has all records, so the source must be read again."""


@dataclass
class Follower:
    """Follows one session and writes its events to a stream."""

    path: Path
    name: str
    reader: str
    context: Context
    stream: FollowStream
    idle: WaitFunction
    """Waits a moment; returns False when it is time to end."""
    conversation: str | None = None

    def run(self) -> Record:
        """Follow the session until `idle` returns False; return what is known of it by then."""
        while True:
            try:
                return self._follow()
            except InputError as problem:
                # An agent that replaces its file may have removed it just when it was opened.
                is_missing = problem.code == "input.missing"
                if not is_missing or self.stream.has_written or not self.idle():
                    raise
            self.stream.rewind()

    def _follow(self) -> Record:
        record, shape = self._read_first()
        if shape != "lines":
            return self._follow_by_rereading(record)
        try:
            return self._follow_lines(record.conversation)
        except _NeedsAllRecordsError:
            return self._follow_by_rereading(record)
        except InputError as problem:
            if problem.code != "follow.append":
                raise
        # The stream to continue was ended earlier, and at an end a reader may emit events that it
        # would have emitted later or differently. Append only what is new.
        self.stream.rewind()
        record, _ = self._read_first()
        return self._follow_lines(record.conversation, self._resume_stream(record))

    def _read_first(self) -> tuple[Record, str]:
        """Read the session as soon as there is one; return it with the shape of its source."""
        while True:
            try:
                source = self._open_source()
                record = read_record(source, self._build_context(), self.reader)
                shape = source.shape
            except InputError as problem:
                if problem.code not in _TRANSIENT_ERRORS or not self.idle():
                    raise
            else:
                conversation_id = record.conversation["id"]
                record.conversation["id"] = self.stream.use_stream_id(conversation_id)
                return record, shape

    def _open_source(self) -> Source:
        if self.path.is_dir():
            source = Source.of_folder(self.path, self.name)
        else:
            source = Source.of(self.path, self.name)
        source.conversation = self.conversation
        return source

    def _build_context(self) -> Context:
        return replace(self.context, options=self.context.options.changed(native="none"))

    def _resume_stream(self, record: Record) -> EventTracker:
        """Return a tracker that knows the events of the stream that is continued.

        Raise InputError if the stream does not belong to this conversation.
        """
        tracker = EventTracker()
        streamed, current = self.stream.resume(record)
        is_similar = tracker.adopt(streamed, current, record)
        is_other = not is_similar and not self.stream.is_same
        if is_other or has_new_reasoning(streamed, current):
            raise self.stream.build_mismatch_error()
        return tracker

    def _follow_lines(self, known: Conversation, tracker: EventTracker | None = None) -> Record:
        """Read line by line; write each event as soon as the reader emits it."""
        reported_usage: dict[str, Usage] = {}

        def build_record(conversation: Conversation = known) -> Record:
            return Record(
                conversation,
                tracker.participants if tracker else draft.participants,
                (),
                notes=draft.notes,
                coercions=draft.coercions,
                exported_at=self.context.exported_at(),
            )

        def write_events(events: list[Event]) -> None:
            for event in events:
                if "usage" in event:
                    reported_usage[event["id"]] = event["usage"]
            if tracker:
                events = tracker.filter_new_events(events, draft.participants)
            self.stream.write_events(events, build_record)

        def wait() -> bool:
            draft.flush()
            if not draft.count:
                raise _NeedsAllRecordsError
            return self.idle()

        draft = Draft(
            subagents=self.context.options.subagents, spool=_ForwardingSpool(write_events)
        )
        source = Tail(self.path, self.name, wait, draft.flush)
        source.conversation = self.conversation
        load_reader(self.reader).read(source, draft)
        note_file_faults(source, "", draft)
        late_events, usage, dropped = draft.close()
        unreported = find_unreported_usage(usage, reported_usage)
        write_events(_build_late_events(late_events, unreported, dropped, draft))
        if tracker:
            self.stream.write_events(tracker.build_closing_events(), build_record)
        facts = draft.build_conversation(lambda: known["id"])
        return build_record({**known, **facts, "id": known["id"]})

    def _follow_by_rereading(self, record: Record) -> Record:
        """Read the whole source whenever it has changed; write what is new."""
        tracker = self._resume_stream(record)
        conversation_id = record.conversation["id"]

        def build_record() -> Record:
            conversation: Conversation = {**record.conversation, "id": conversation_id}
            return replace(record, conversation=conversation, participants=tracker.participants)

        def reread() -> bool:
            nonlocal record
            try:
                record = read_record(self._open_source(), self._build_context(), self.reader)
            except InputError as problem:
                if problem.code not in _TRANSIENT_ERRORS:
                    raise
                return False
            self.stream.write_events(tracker.update(record), build_record)
            return True

        last_state: tuple[Any, ...] = ()
        while True:
            state = _compute_state(self.path)
            if state != last_state and reread():
                last_state = state
            if not self.idle():
                break
        # Two writes within one tick of the file system's clock look like one.
        reread()
        self.stream.write_events(tracker.update(record, is_end=True), build_record)
        return build_record()


def _build_late_events(
    late_events: list[Event], usage: dict[str, Usage], dropped: list[range], draft: Draft
) -> list[Event]:
    """Return annotations for what an export of the finished session has at an earlier position."""
    number = draft.count + len(late_events)
    actor = draft.get_actor("system", "runtime")
    events = list(late_events)
    for event_id, counts in usage.items():
        number += 1
        annotation = _build_annotation(number, actor, {"kind": "usage"})
        annotation["links"] = {"parent_id": event_id}
        annotation["usage"] = counts
        events.append(annotation)
    for positions in dropped:
        number += 1
        data = {
            "kind": "abandoned_branch",
            "first": f"evt_{positions.start + 1:06d}",
            "events": len(positions),
        }
        events.append(_build_annotation(number, actor, data))
    return events


def _build_annotation(number: int, actor: str, data: dict[str, Any]) -> Event:
    event = {
        "id": f"evt_{number:06d}",
        "seq": 0,
        "type": "annotation",
        "actor_id": actor,
        "visibility": "metadata",
        "content": {"mime": "application/json", "data": data},
    }
    return cast(Event, event)


def _compute_state(path: Path) -> tuple[Any, ...]:
    """Return a value that changes when a file, a database with its log, or a directory does."""
    if path.is_dir():
        states: list[tuple[Any, ...]] = []
        for folder, _, names in os.walk(path):
            for name in sorted(names):
                states.append(_compute_state(Path(folder, name)))
        return tuple(states)
    files = (path, Path(f"{path}-wal"))
    try:
        stats = [os.stat(file) for file in files if file.exists()]
    except OSError:
        return ()
    return (str(path), *((item.st_size, item.st_mtime_ns, item.st_ino) for item in stats))
