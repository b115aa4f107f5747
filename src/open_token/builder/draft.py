"""The draft: how readers build a conversation.

Draft numbers events, pairs calls with results, and manages spans and notes, so that no reader can
get these wrong.
"""

from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec

from open_token.builder.call_pairing import CallTracker
from open_token.builder.event_writer import EventWriter, build_event, build_links
from open_token.jsontools.walk import estimate_memory, normalize_json_values
from open_token.model.document import (
    Content,
    Conversation,
    Event,
    EventType,
    Integrity,
    Kind,
    Participant,
    Record,
    Role,
    Usage,
)
from open_token.model.document import Visibility as Visibility
from open_token.model.omissions import Note, Omitted, find_omitted
from open_token.storage.spool import Spool

MISSING_RESULT = {"missing_result": True}


class Draft(EventWriter):
    """A conversation under construction. Readers call its methods in source order."""

    def __init__(
        self,
        *,
        branches: str = "active",
        subagents: str = "inline",
        without_thoughts: str = "unavailable",
        spool: Spool | None = None,
    ) -> None:
        super().__init__(spool=spool)
        self.branches = branches
        self.subagents = subagents
        self.conversation: Conversation = {}
        self.participants: list[Participant] = []
        self.is_export = False
        self.exported_at: str | None = None
        self.integrity: Integrity | None = None
        self.fingerprint: str | None = None
        """What identifies a conversation without an id among several of its source."""
        self.first_day: str | None = None
        """Its first day, where no event states a time in UTC."""
        self.without_thoughts = without_thoughts
        """The value of internal_availability if there is no reasoning: unknown where the format
        cannot tell."""
        self._actors: dict[tuple[str | None, ...], str] = {}
        self._calls = CallTracker()
        self._span_count = 0
        self._open_spans: dict[str, str] = {}
        self._has_reasoning = False
        self._notes: dict[tuple[str, str], Note] = {}
        self._tool_actors: dict[str, str] = {}
        self._highest_number = 0

    def get_actor(
        self,
        kind: Kind,
        name: str,
        *,
        provider: str | None = None,
        model: str | None = None,
        instance_id: str | None = None,
    ) -> str:
        """Return the actor_id of a participant, who is added on first use."""
        key = (kind, name, provider, model, instance_id)
        known = self._actors.get(key)
        if known:
            return known
        actor_id = f"act_{len(self.participants) + 1:03d}"
        participant: Participant = {"actor_id": actor_id, "kind": kind, "name": name}
        if provider:
            participant["provider"] = provider
        if model:
            participant["model"] = model
        if instance_id:
            participant["instance_id"] = instance_id
        self.participants.append(participant)
        self._actors[key] = actor_id
        return actor_id

    def _get_tool_actor(self, name: str) -> str:
        # A cache in front of get_actor, whose key is costly for every result.
        known = self._tool_actors.get(name)
        if known is None:
            known = self._tool_actors[name] = self.get_actor("tool", name)
        return known

    def add_message(
        self,
        role: Role,
        content: str | list[Any],
        actor: str,
        *,
        ts: str | None = None,
        visibility: Visibility | None = None,
        span: str | None = None,
        usage: Usage | None = None,
        parent: str | None = None,
    ) -> Event:
        """Add a message: a text, or a list of blocks if it is more than a single text."""
        body = self._build_text(content) if type(content) is str else self._build_json(content)
        if visibility is None:
            visibility = "internal" if role in ("system", "developer") else "public"
        return self._add("message", role, visibility, actor, body, ts, None, span, parent, usage)

    def insert_message(
        self,
        position: int,
        role: Role,
        content: str | list[Any],
        actor: str,
        *,
        ts: str | None = None,
        visibility: Visibility = "public",
    ) -> None:
        """Insert a message before the event at a position, once that has been passed.

        For what a reader learns to be missing only later. It goes with an abandoned branch around
        it, so branches must be dropped before.
        """
        place = position - 1
        if place >= 0 and self._late_edits.is_dropped(place):
            return
        body = self._build_text(content) if type(content) is str else self._build_json(content)
        event = build_event("", ts, "message", actor, visibility, role, body)
        self._late_edits.insert(place, event)

    def add_reasoning(
        self,
        text: str | None,
        actor: str,
        *,
        ts: str | None = None,
        span: str | None = None,
        usage: Usage | None = None,
        summary: bool = False,
    ) -> Event:
        """Add reasoning: its text, the runtime's summary of it, or None if it is encrypted."""
        self._has_reasoning = True
        body: Content
        if text is None:
            body = {"mime": "application/json", "data": {"redacted": True, "encrypted": True}}
        elif summary:
            body = {**self._build_text(text), "data": {"summary": "runtime"}}
        else:
            body = self._build_text(text)
        return self._add(
            "message", "assistant_thought", "internal", actor, body, ts, None, span, None, usage
        )

    def add_tool_call(
        self,
        native_id: str | None,
        tool: str,
        arguments: Any,
        actor: str,
        *,
        ts: str | None = None,
        span: str | None = None,
        usage: Usage | None = None,
        group: object = None,
        extra: dict[str, Any] | None = None,
    ) -> str:
        """Add a call; return the key for its result.

        A call that is added again while it is open is noted, not repeated.
        """
        # Streaming runtimes write a message again with every block they add. A second call with
        # the id of an open one would also leave the first without a result for ever.
        if native_id and self._calls.is_open(native_id):
            self.note_omission(
                "duplicate-call", f"event {self.count}", "a call with the same id is still open"
            )
            return native_id
        if type(arguments) is not dict and type(arguments) is not list:
            if not isinstance(arguments, str):
                arguments = msgspec.json.encode(arguments).decode()
            arguments = {"raw": arguments}
        data: dict[str, Any] = {"tool_name": tool, "arguments": arguments}
        if native_id:
            data["native_call_id"] = native_id
        if extra:
            data |= extra
        key, call = self._calls.open_call(native_id, tool, span, group, self.count)
        content = self._build_json(data)
        self._add(
            "tool_use", "assistant", "internal", actor, content, ts, call.call_id, span, None, usage
        )
        return key

    def add_tool_result(
        self,
        native_id: str | None,
        output: Any,
        *,
        ts: str | None = None,
        span: str | None = None,
        facts: dict[str, Any] | None = None,
        tool: str | None = None,
        usage: Usage | None = None,
    ) -> Event:
        """Add the output of a call; facts about it (error flag, exit code) become an annotation."""
        call = self._calls.close_call(native_id, self.count)
        if call is None:
            # A call has exactly one result in the format. A second one is preserved, but as an
            # annotation, which is paired with nothing.
            answered = self._calls.get_answered_id(native_id)
            if answered:
                repeated = {"kind": "repeated_result", "call_id": answered, "output": output}
                return self.add_annotation(repeated, ts=ts, span=span)
        body = self._build_text(output) if type(output) is str else self._build_json(output)
        if call is None:
            call_id = self._calls.create_id()
        else:
            call_id = call.call_id
            tool = call.tool
            span = span or call.span
        actor = self._get_tool_actor(tool or "tool")
        event = self._add(
            "tool_result", "tool", "internal", actor, body, ts, call_id, span, None, usage
        )
        if call is None:
            orphan: dict[str, Any] = {
                "kind": "orphan_result",
                "detail": "the call of this result is not in the source",
            }
            if native_id:
                orphan["native_call_id"] = native_id
            self.add_annotation(orphan, parent=event, ts=ts)
        if facts:
            self.add_annotation({"kind": "result_facts", **facts}, parent=event, ts=ts)
        return event

    def is_call_open(self, key: str) -> bool:
        """Return whether a call was added and has no result yet."""
        return self._calls.is_open(key)

    def add_annotation(
        self,
        data: dict[str, Any],
        *,
        parent: Event | None = None,
        actor: str | None = None,
        ts: str | None = None,
        span: str | None = None,
        usage: Usage | None = None,
    ) -> Event:
        """Add a fact about the conversation or an event: visibility metadata, no role."""
        parent_id = None
        if parent is not None:
            parent_id = parent["id"]
            if not span and "links" in parent:
                span = parent["links"].get("span_id")
            actor = actor or parent["actor_id"]
            # Facts about a call stay next to it: a missing result is inserted after them.
            self._calls.extend_run(self.count)
        actor = actor or self.get_actor("system", "runtime")
        return self._add(
            "annotation",
            None,
            "metadata",
            actor,
            self._build_json(data),
            ts,
            None,
            span,
            parent_id,
            usage,
        )

    def start_span(
        self,
        data: dict[str, Any],
        actor: str,
        *,
        ts: str | None = None,
        call: str | None = None,
        parent: str | None = None,
    ) -> str:
        """Open a span (a subagent, an abandoned branch); return its span_id.

        `call` is the key of the call that started it.
        """
        span_id = self._create_span_id()
        self._open_spans[span_id] = actor
        started_by = self._calls.get_open(call)
        call_id = started_by.call_id if started_by else None
        content = self._build_json(data)
        self._add("span_start", None, "internal", actor, content, ts, call_id, span_id, parent)
        return span_id

    def end_span(
        self,
        span_id: str,
        data: dict[str, Any] | None = None,
        *,
        ts: str | None = None,
        call: str | None = None,
    ) -> None:
        """Close a span; a missing result of `call` is then inserted after it."""
        actor = self._open_spans.pop(span_id)
        if call:
            self._calls.move_missing_result(call, self.count)
        content = self._build_json(data or {})
        self._add("span_end", None, "internal", actor, content, ts, None, span_id)

    def _create_span_id(self) -> str:
        self._span_count += 1
        return f"span_{self._span_count:06d}"

    def add_event(self, event: Event) -> None:
        """Add an event of an earlier export as it is."""
        number = event.get("id", "")[4:]
        if number.isdecimal() and len(number) < 16:
            self._highest_number = max(self._highest_number, int(number))
        if event.get("role") == "assistant_thought":
            self._has_reasoning = True
        coercions: list[tuple[str, str]] = []
        # Draft itself normalizes only the data of an event, which is two levels below it.
        event = normalize_json_values(
            event, lambda pointer, kind: coercions.append((pointer, kind)), depth=-2
        )
        for pointer, kind in coercions:
            self.coercions.append({"id": event["id"], "ptr": pointer, "was": kind})
        self._weight += estimate_memory(event.get("content"))
        self._append(event)

    def note_omission(
        self,
        code: str,
        place: str,
        detail: str,
        *,
        what: Omitted | None = None,
        size: int = 0,
        events: int = 0,
    ) -> None:
        """Note something that is not exported; equal notes are counted, with the first place.

        `what` says what of the conversation it is, if somebody said it; `size` is its number of
        characters and `events` its number of records, if known.
        """
        note = Note(code, place, detail, 1, what or find_omitted(code), size, events)
        known = self._notes.get((code, detail))
        self._notes[code, detail] = note if known is None else known.plus(note)

    @property
    def notes(self) -> list[Note]:
        """What is known to be missing in the export so far."""
        return list(self._notes.values())

    def drop_branch(self, first: int, end: int, data: dict[str, Any], actor: str) -> None:
        """Treat the events from `first` up to `end` as an abandoned branch.

        They are dropped, or wrapped in a span if all branches are exported.
        """
        if first >= end:
            return
        if self.branches != "all":
            self._late_edits.dropped.append(range(first, end))
            self.note_omission(
                "abandoned-branch",
                f"event {first + 1}",
                "an abandoned branch; branches=all exports it",
                events=end - first,
            )
            return
        span_id = self._create_span_id()
        start = _build_late_event(
            "span_start", "metadata", actor, self._build_json(data), span=span_id
        )
        stop = _build_late_event("span_end", "metadata", actor, self._build_json({}), span=span_id)
        self._late_edits.wrap(range(first, end), span_id, start, stop)

    def close(self) -> tuple[list[Event], dict[str, Usage], list[range]]:
        """End a conversation whose events were sent as they came.

        Return the late edits: events to insert, usage by event id, and dropped ranges.
        """
        self._close_spans()
        self._insert_missing_results(also_dropped=True)
        self.flush()
        edits = self._late_edits
        edits.number_insertions(max(self._highest_number, self.count) + 1)
        return edits.list_insertions(), edits.usage, edits.dropped

    def finish(self, fingerprint: Callable[[], str], exported_day: str = "") -> Record:
        """Return the record: open spans closed, missing results inserted, ids given."""
        self._close_spans()
        self._insert_missing_results()
        self._write_batch()
        self.conversation = self.build_conversation(fingerprint, exported_day)
        next_number = max(self._highest_number, self.count) + 1
        events: Iterable[Event] = self.spool
        if self._late_edits.is_needed:
            events = self._late_edits
            next_number += self._late_edits.number_insertions(next_number)
        record = Record(
            conversation=self.conversation,
            participants=self.participants,
            events=events,
            notes=self.notes,
            coercions=self.coercions,
            exported_at=self.exported_at,
            next_event_number=next_number,
            is_export=self.is_export,
            integrity=self.integrity,
        )
        # The record owns them now. Readers are in reference cycles with the draft, and would keep
        # them alive until the garbage collector runs.
        del self.spool, self._late_edits
        return record

    def _close_spans(self) -> None:
        for span_id in list(self._open_spans):
            self.end_span(span_id)

    def build_conversation(
        self, fingerprint: Callable[[], str], exported_day: str = ""
    ) -> Conversation:
        """Return what is known about the conversation, in the order of the specification.

        A missing id is made from the day and the hash of the source.
        """
        known = self.conversation
        conversation_id = known.get("id")
        if not conversation_id:
            day = (self.first_day or self.first_ts or "")[:10].replace("-", "")
            day = day or exported_day or "00000000"
            conversation_id = f"conv_{day}_{fingerprint()[:8]}"
        if self.is_export:
            return cast(Conversation, {**known, "id": conversation_id})
        ordered = Conversation(id=conversation_id)
        for key in ("title", "started_at", "timezone", "source_runtime", "provider"):
            if known.get(key):
                ordered[key] = known[key]
        availability = "available" if self._has_reasoning else self.without_thoughts
        ordered["internal_availability"] = availability
        return ordered

    def _insert_missing_results(self, *, also_dropped: bool = False) -> None:
        for call in self._calls.list_unanswered():
            if not also_dropped and self._late_edits.is_dropped(call.place):
                continue
            event = _build_late_event(
                "tool_result",
                "internal",
                self._get_tool_actor(call.tool or "tool"),
                {"mime": "application/json", "data": dict(MISSING_RESULT)},
                call=call.call_id,
                span=call.span,
            )
            self._late_edits.insert(call.run.last, event)


def _build_late_event(
    type: EventType, visibility: Visibility, actor: str, content: Content, **links: Any
) -> Event:
    """Return an event that is inserted after the others, and gets its id last."""
    event: Event = {"id": "", "seq": 0, "type": type, "actor_id": actor, "visibility": visibility}
    if type == "tool_result":
        event["role"] = "tool"
    event["content"] = content
    event["links"] = build_links(None, **links)
    return event
