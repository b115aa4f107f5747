"""How a reader builds a conversation: Draft numbers, pairs, spans and notes, so that no reader can
break them."""

from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec

from open_token.builder.call_pairing import Calls
from open_token.builder.event_writer import Ledger, links_of
from open_token.jsontools.walk import estimate_memory, normalize_json_values
from open_token.model.document import (
    Content,
    Conversation,
    Event,
    EventType,
    Integrity,
    Kind,
    Note,
    Participant,
    Record,
    Role,
    Usage,
)
from open_token.model.document import Visibility as Visibility
from open_token.storage.files import Spool

MISSING = {"missing_result": True}


class Draft(Ledger):
    """A conversation under construction. Readers call its verbs in source order."""

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
        self.without_thoughts = without_thoughts
        """What internal_availability says when no thought came: unknown where the format cannot
        tell."""
        self._actors: dict[tuple[str | None, ...], str] = {}
        self._calls = Calls()
        self._span_count = 0
        self._open_spans: dict[str, str] = {}
        self._thoughts = False
        self._notes: dict[tuple[str, str], Note] = {}
        self._tools: dict[str, str] = {}
        self._highest = 0

    def get_actor(
        self,
        kind: Kind,
        name: str,
        *,
        provider: str | None = None,
        model: str | None = None,
        instance_id: str | None = None,
    ) -> str:
        """The actor_id of a participant, who is entered on first sight."""
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
        """What someone said: a text, or a list of blocks when it is more than one text."""
        body = self._text(content) if type(content) is str else self._json(content)
        if visibility is None:
            visibility = "internal" if role in ("system", "developer") else "public"
        return self._add("message", role, visibility, actor, body, ts, None, span, parent, usage)

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
        """Hidden reasoning: its words, the runtime's own summary of them, or None when it is
        sealed."""
        self._thoughts = True
        body: Content
        if text is None:
            body = {"mime": "application/json", "data": {"redacted": True, "encrypted": True}}
        elif summary:
            body = {**self._text(text), "data": {"summary": "runtime"}}
        else:
            body = self._text(text)
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
        """A call; gives the key by which its result is told. The same open call told again is
        noted, not repeated."""
        if native_id and self._calls.is_open(native_id):
            self.note_omission(
                "duplicate-call", f"event {self.count}", "a call with the same id is still open"
            )
            return native_id
        if type(arguments) is not dict and type(arguments) is not list:
            arguments = {
                "raw": arguments
                if isinstance(arguments, str)
                else msgspec.json.encode(arguments).decode()
            }
        data: dict[str, Any] = {"tool_name": tool, "arguments": arguments}
        if native_id:
            data["native_call_id"] = native_id
        if extra:
            data |= extra
        key, call = self._calls.make(native_id, tool, span, group, self.count)
        content = self._json(data)
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
        """The output of a call, alone; facts about it (error flag, exit code) follow in an
        annotation."""
        call = self._calls.answer(native_id, self.count)
        if call is None and (earlier := self._calls.answered(native_id)):
            return self.add_annotation(
                {"kind": "repeated_result", "call_id": earlier, "output": output}, ts=ts, span=span
            )
        body = self._text(output) if type(output) is str else self._json(output)
        if call is None:
            call_id = self._calls.new_id()
        else:
            call_id, tool, span = call.call_id, call.tool, span or call.span
        actor = self._tool(tool or "tool")
        event = self._add(
            "tool_result", "tool", "internal", actor, body, ts, call_id, span, None, usage
        )
        if not call:
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
        """Whether a call was made and has no result yet."""
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
        """A fact beside the talk, for machines: visibility metadata, no role."""
        parent_id = None
        if parent is not None:
            parent_id = parent["id"]
            if not span and "links" in parent:
                span = parent["links"].get("span_id")
            actor = actor or parent["actor_id"]
            self._calls.extend(None, self.count)
        actor = actor or self.get_actor("system", "runtime")
        return self._add(
            "annotation",
            None,
            "metadata",
            actor,
            self._json(data),
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
        """Open a span (a subagent, an abandoned branch); gives its span_id. `call` is the key of
        the call it serves."""
        self._span_count += 1
        span_id = f"span_{self._span_count:06d}"
        self._open_spans[span_id] = actor
        served = self._calls.get(call)
        call_id = served.call_id if served else None
        self._add(
            "span_start", None, "internal", actor, self._json(data), ts, call_id, span_id, parent
        )
        return span_id

    def end_span(
        self,
        span_id: str,
        data: dict[str, Any] | None = None,
        *,
        ts: str | None = None,
        call: str | None = None,
    ) -> None:
        """Close a span. With `call`, a result that never comes will stand behind it."""
        actor = self._open_spans.pop(span_id)
        if call:
            self._calls.move(call, self.count)
        self._add("span_end", None, "internal", actor, self._json(data or {}), ts, None, span_id)

    def add_event(self, event: Event) -> None:
        """Take over an event of an earlier export as it is."""
        number = event.get("id", "")[4:]
        if number.isdecimal() and len(number) < 16:
            self._highest = max(self._highest, int(number))
        if event.get("role") == "assistant_thought":
            self._thoughts = True
        found: list[tuple[str, str]] = []
        # What Draft itself made was settled from its data on, which stands two levels below the
        # event.
        event = normalize_json_values(
            event, lambda pointer, kind: found.append((pointer, kind)), depth=-2
        )
        self.coercions += [
            {"id": event["id"], "ptr": pointer, "was": kind} for pointer, kind in found
        ]
        self._weight += estimate_memory(event.get("content"))
        self._take(event)

    def note_omission(self, code: str, place: str, detail: str) -> None:
        """Note something that is not carried over; the same kind is counted, with its first
        place."""
        known = self._notes.get((code, detail))
        place, count = (known.place, known.count) if known else (place, 0)
        self._notes[code, detail] = Note(code, place, detail, count + 1)

    @property
    def notes(self) -> list[Note]:
        """What is not carried over, as far as it is known."""
        return list(self._notes.values())

    def drop_branch(self, first: int, end: int, data: dict[str, Any], actor: str) -> None:
        """The events from place `first` up to `end` are a branch that was left: dropped, or wrapped
        in a span."""
        if first >= end:
            return
        if self.branches != "all":
            self._splice.dropped.append(range(first, end))
            self.note_omission(
                "abandoned-branch",
                f"event {first + 1}",
                "a branch that was left; branches=all exports it",
            )
        else:
            self._span_count += 1
            span_id = f"span_{self._span_count:06d}"
            start = _late("span_start", "metadata", actor, self._json(data), span=span_id)
            stop = _late("span_end", "metadata", actor, self._json({}), span=span_id)
            self._splice.wrap(range(first, end), span_id, start, stop)

    def close(self) -> tuple[list[Event], dict[str, Usage], list[range]]:
        """The end of a conversation whose events are out already: what was learnt too late to stand
        in its place."""
        for span_id in list(self._open_spans):
            self.end_span(span_id)
        self._insert_missing_results(also_dropped=True)
        self.flush()
        self._splice.number(max(self._highest, self.count) + 1)
        return self._splice.insertions(), self._splice.usage, self._splice.dropped

    def facts(self, fingerprint: Callable[[], str], exported_day: str = "") -> Conversation:
        """What is known of the conversation by now."""
        return self._conversation(fingerprint, exported_day)

    def finish(self, fingerprint: Callable[[], str], exported_day: str = "") -> Record:
        """The record: open spans closed, missing results put in, ids given."""
        for span_id in list(self._open_spans):
            self.end_span(span_id)
        self._insert_missing_results()
        self._hand_over()
        self.conversation = self._conversation(fingerprint, exported_day)
        events: Iterable[Event] = self.spool
        inserted = 0
        if self._splice.is_needed:
            events = self._splice
            inserted = self._splice.number(max(self._highest, self.count) + 1)
        record = Record(
            conversation=self.conversation,
            participants=self.participants,
            events=events,
            notes=self.notes,
            coercions=self.coercions,
            exported_at=self.exported_at,
            next_event_number=max(self._highest, self.count) + 1 + inserted,
            is_export=self.is_export,
            integrity=self.integrity,
        )
        # They are the record's now: readers refer to themselves, and would hold them until they are
        # collected.
        del self.spool, self._splice
        return record

    def _conversation(self, fingerprint: Callable[[], str], exported_day: str) -> Conversation:
        """The facts in the spec's order, with an id made from the day and the source's hash where
        none was given."""
        made = self.conversation
        name = made.get("id")
        if not name:
            day = (self.first_ts or "")[:10].replace("-", "") or exported_day or "00000000"
            name = f"conv_{day}_{fingerprint()[:8]}"
        if self.is_export:
            return cast(Conversation, {**made, "id": name})
        ordered = Conversation(id=name)
        for key in ("title", "started_at", "timezone", "source_runtime", "provider"):
            if made.get(key):
                ordered[key] = made[key]
        ordered["internal_availability"] = "available" if self._thoughts else self.without_thoughts
        return ordered

    def _insert_missing_results(self, *, also_dropped: bool = False) -> None:
        for call in self._calls.unanswered():
            if also_dropped or not self._splice.is_dropped(call.place):
                actor = self._tool(call.tool or "tool")
                body: Content = {"mime": "application/json", "data": dict(MISSING)}
                event = _late(
                    "tool_result", "internal", actor, body, call=call.call_id, span=call.span
                )
                self._splice.insert(call.run.last, event)

    def _tool(self, name: str) -> str:
        """The actor_id of a tool."""
        known = self._tools.get(name)
        if known is None:
            known = self._tools[name] = self.get_actor("tool", name)
        return known


def _late(
    type: EventType, visibility: Visibility, actor: str, content: Content, **links: Any
) -> Event:
    """An event that is put in when the rest is there; it gets its id last."""
    event: Event = {"id": "", "seq": 0, "type": type, "actor_id": actor, "visibility": visibility}
    if type == "tool_result":
        event["role"] = "tool"
    event["content"] = content
    event["links"] = links_of(None, **links)
    return event
