"""Import an Open-Token document as the beginning of a session.

Every event of the document is stored unchanged in the log, and shown in turns as far as turns can
represent it.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from open_token.jsontools.objects import get_content, get_links
from open_token.model.log_events import Json, LogEntry
from open_token.model.session_types import ROOT_LOOP, MemoryRef
from open_token.session.state import COMPACTION_FIELDS, SessionState

_BRANCH_SPANS = ("abandoned_branch", "branch")
_TURN_ROLES = {"user": "user", "system": "system", "developer": "system"}
_TRIGGERS = ("auto", "manual", "forced_retry")
_COMPACTION_TYPES: dict[str, Any] = {
    "archived_count": int,
    "tokens_before": int,
    "tokens_after": int,
    "saved_ratio": float,
}


def import_document(
    state: SessionState,
    events: Iterable[Json],
    now: Callable[[], str],
    *,
    conversation: Json | None = None,
    participants: list[Json] | None = None,
    exported_at: str | None = None,
    integrity: Json | None = None,
) -> Iterator[LogEntry]:
    """Yield the log entries that import a document into a session without turns."""
    people = participants or []
    header = {
        "conversation": conversation or {},
        "participants": people,
        "exported_at": exported_at,
        "integrity": integrity,
    }
    yield state.add("imported", header, now())
    importer = _Importer(state, now, {str(person.get("actor_id")): person for person in people})
    for event in events:
        yield from importer.add_event(event)
    yield from importer.finish()


@dataclass
class _Loop:
    """An agent loop: the main agent, or a subagent."""

    loop_id: str = ROOT_LOOP
    parent_call: str | None = None
    """The call that started the subagent."""
    turn_id: str | None = None
    """The assistant turn that is still open."""
    actor_id: str = ""
    has_result: bool = False
    """A result arrived: what the model says next belongs to another turn."""


@dataclass
class _Span:
    loop: _Loop
    is_branch: bool = False
    """It contains a branch that was abandoned."""
    before: str | None = None
    """The node that the branch was started from."""
    outer_branch: "_Span | None" = None


@dataclass
class _Importer:
    """Turns the events of a document into log entries, one event at a time."""

    state: SessionState
    now: Callable[[], str]
    participants: dict[str, Json]
    root: _Loop = field(default_factory=_Loop)
    spans: dict[str, _Span] = field(default_factory=dict)
    calls: dict[str, tuple[str, str, _Loop]] = field(default_factory=dict)
    """By `call_id`: the turn of the call, its id in the turn, and its loop."""
    results: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By the id of a result event: the turn and the call."""
    abandoned: set[str] = field(default_factory=set)
    """The turns of abandoned branches."""
    current_branch: _Span | None = None
    count: int = 0

    def add_event(self, event: Json) -> Iterator[LogEntry]:
        """Yield the entries for one event."""
        span = self.spans.get(str(get_links(event).get("span_id")))
        loop = span.loop if span else self.root
        event_type = event.get("type")
        if event_type == "message":
            yield from self._add_message(event, loop)
        elif event_type == "tool_use":
            yield from self._add_call(event, loop)
        elif event_type == "tool_result":
            yield from self._add_result(event, loop)
        elif event_type == "annotation":
            yield from self._add_annotation(event, loop)
        elif event_type == "span_start":
            yield from self._start_span(event, span)
        elif event_type == "span_end":
            yield from self._end_span(event, span)
        else:
            yield self._store_event(event)

    def finish(self) -> Iterator[LogEntry]:
        """End the turns that are still open."""
        loops = {id(span.loop): span.loop for span in self.spans.values()}
        for loop in loops.values():
            yield from self._end_turn(loop)
        yield from self._end_turn(self.root)

    def _add(self, kind: str, **data: Any) -> LogEntry:
        return self.state.add(kind, data, self.now())

    def _store_event(self, event: Json, **position: Any) -> LogEntry:
        """Store an event unchanged.

        Events of an abandoned branch are anchored at the node that the branch started from.
        """
        if self.current_branch is not None:
            position["anchor"] = self.current_branch.before
        elif position.get("turn_id") in self.abandoned:
            position["anchor"] = self.state.head
        return self._add("event.kept", event=event, **position)

    def _add_message(self, event: Json, loop: _Loop) -> Iterator[LogEntry]:
        role = _TURN_ROLES.get(str(event.get("role")))
        if role is None:
            yield from self._ensure_assistant_turn(event, loop)
            yield self._store_event(event, turn_id=loop.turn_id)
            yield from self._add_usage(event, loop.turn_id)
            return
        yield from self._end_turn(loop)
        turn_id = self._next_id("turn")
        if role == "user" and loop is self.root and event.get("visibility") == "public":
            checkpoint_id = self._next_id("cp")
            yield self._add("checkpoint.made", checkpoint_id=checkpoint_id, turn_id=turn_id)
        yield self._open_turn(turn_id, role, loop, event)
        yield self._store_event(event, turn_id=turn_id)
        yield from self._add_usage(event, turn_id)
        yield self._add("turn.ended", turn_id=turn_id)

    def _add_call(self, event: Json, loop: _Loop) -> Iterator[LogEntry]:
        yield from self._ensure_assistant_turn(event, loop)
        turn_id = loop.turn_id or ""
        links = get_links(event)
        data = get_content(event)
        call_id = data.get("native_call_id") if isinstance(data, dict) else None
        if not isinstance(call_id, str) or not call_id:
            call_id = str(links.get("call_id") or self._next_id("tc"))
        # Native ids repeat, for example in branches of one conversation; ids of a session do not.
        if call_id in self.state.callers:
            suffix = self._next_id("tc")
            call_id = f"{call_id}#{suffix}"
        if "call_id" in links:
            document_call_id = str(links["call_id"])
            self.calls[document_call_id] = (turn_id, call_id, loop)
        yield self._store_event(event, turn_id=turn_id, tool_call_id=call_id)
        yield from self._add_usage(event, turn_id)

    def _add_result(self, event: Json, loop: _Loop) -> Iterator[LogEntry]:
        document_call_id = str(get_links(event).get("call_id"))
        call = self.calls.get(document_call_id)
        if call is None:
            # The document lacks the call. Its result is preserved in the turn around it.
            yield from self._ensure_assistant_turn(event, loop)
            yield self._store_event(event, turn_id=loop.turn_id)
            yield from self._add_usage(event, loop.turn_id)
            return
        turn_id, call_id, caller = call
        caller.has_result = caller.has_result or caller.turn_id == turn_id
        self.results[str(event.get("id"))] = (turn_id, call_id)
        yield self._store_event(event, turn_id=turn_id, tool_call_id=call_id)
        yield from self._add_usage(event, turn_id)

    def _add_annotation(self, event: Json, loop: _Loop) -> Iterator[LogEntry]:
        content = get_content(event)
        data: Json = content if isinstance(content, dict) else {}
        kind = data.get("kind")
        if kind == "compaction":
            yield from self._add_compaction(event, data, loop)
            return
        if loop.turn_id:
            yield self._store_event(event, turn_id=loop.turn_id)
        else:
            yield self._store_event(event)
        if kind == "result_facts" and data.get("is_error") is True:
            result = self.results.get(str(get_links(event).get("parent_id")))
            if result is not None:
                turn_id, call_id = result
                yield self._add(
                    "tool.status", turn_id=turn_id, tool_call_id=call_id, status="error"
                )
        elif kind == "memory_refs" and loop.turn_id:
            refs = _get_memory_refs(data.get("refs"))
            if refs:
                yield self._add("memory.recalled", turn_id=loop.turn_id, refs=refs)
        yield from self._add_usage(event, loop.turn_id)

    def _add_compaction(self, event: Json, data: Json, loop: _Loop) -> Iterator[LogEntry]:
        yield from self._end_turn(loop)
        turn_id = self._next_id("turn")
        yield self._open_turn(turn_id, "system", loop, event, kind="compaction")
        yield self._store_event(event, turn_id=turn_id)
        fields = {name: data[name] for name in COMPACTION_FIELDS if name in data}
        summary = data.get("summary")
        if isinstance(summary, str):
            fields.setdefault("summary_full", summary)
        yield self._add("compacted", turn_id=turn_id, **_drop_mistyped(fields))
        yield from self._add_usage(event, turn_id)
        yield self._add("turn.ended", turn_id=turn_id)

    def _start_span(self, event: Json, outer: _Span | None) -> Iterator[LogEntry]:
        links = get_links(event)
        content = get_content(event)
        data: Json = content if isinstance(content, dict) else {}
        outer = outer or self.spans.get(str(data.get("parent_span")))
        loop = outer.loop if outer else self.root
        span_id = str(links.get("span_id"))
        if data.get("kind") in _BRANCH_SPANS:
            # The head before the branch is stored: the end of the span moves back to it.
            yield from self._end_turn(loop)
            span = _Span(loop, True, self.state.head, self.current_branch)
            if self.current_branch is None:
                self.current_branch = span
        else:
            loop_id = data.get("name")
            # A subagent that has the name of the root would take its turns for the root's.
            if not isinstance(loop_id, str) or loop_id in ("", ROOT_LOOP):
                loop_id = span_id
            started_by = self.calls.get(str(links.get("call_id")))
            caller_id = started_by[1] if started_by else None
            span = _Span(_Loop(loop_id, caller_id))
        yield self._store_event(event)
        self.spans[span_id] = span

    def _end_span(self, event: Json, span: _Span | None) -> Iterator[LogEntry]:
        if span is not None:
            yield from self._end_turn(span.loop)
        yield self._store_event(event)
        if span is not None and span.is_branch:
            yield self._add("branch.moved", head=span.before, reason="imported")
            self.current_branch = span.outer_branch

    def _ensure_assistant_turn(self, event: Json, loop: _Loop) -> Iterator[LogEntry]:
        """Open an assistant turn unless one is open.

        A result, or an event of another actor, ends the open turn.
        """
        actor_id = str(event.get("actor_id"))
        if loop.turn_id is not None:
            is_same_turn = not loop.has_result and loop.actor_id == actor_id
            if is_same_turn or event.get("type") == "tool_result":
                return
        yield from self._end_turn(loop)
        turn_id = self._next_id("turn")
        yield self._open_turn(turn_id, "assistant", loop, event)
        loop.turn_id = turn_id
        loop.actor_id = actor_id

    def _open_turn(
        self, turn_id: str, role: str, loop: _Loop, event: Json, kind: str = "message"
    ) -> LogEntry:
        if self.current_branch is not None:
            self.abandoned.add(turn_id)
        timestamp = event.get("ts")
        turn: Json = {
            "turn_id": turn_id,
            "loop_id": loop.loop_id,
            "kind": kind,
            "role": role,
            "started_at": timestamp if isinstance(timestamp, str) else None,
        }
        if role == "assistant":
            model = self.participants.get(str(event.get("actor_id")), {}).get("model")
            if isinstance(model, str):
                turn["model"] = model
        if loop.parent_call:
            turn["parent_fork_tool_call_id"] = loop.parent_call
        return self._add("turn.opened", turn=turn, imported=True)

    def _end_turn(self, loop: _Loop) -> Iterator[LogEntry]:
        if loop.turn_id is not None:
            yield self._add("turn.ended", turn_id=loop.turn_id)
        loop.turn_id = None
        loop.has_result = False

    def _add_usage(self, event: Json, turn_id: str | None) -> Iterator[LogEntry]:
        """Add the usage of an event to that of its turn."""
        counts = event.get("usage")
        if turn_id is None or not isinstance(counts, dict):
            return
        usage = dict(self.state.turns[turn_id].facts.usage or {})
        for name, count in counts.items():
            if type(count) is int:
                usage[name] = usage.get(name, 0) + count
        if usage:
            yield self._add("usage.counted", turn_id=turn_id, usage=usage)

    def _next_id(self, kind: str) -> str:
        """Return the next id of a turn, a checkpoint or a call; it is unique among all sessions."""
        self.count += 1
        return f"{kind}_{self.state.session_id.removeprefix('sess_')}_{self.count}"


def _get_memory_refs(refs: Any) -> list[Json]:
    """Return the valid memory references of a list."""
    if not isinstance(refs, list):
        return []
    return [ref for ref in refs if _is_type(ref, MemoryRef)]


def _drop_mistyped(fields: Json) -> Json:
    """Return the fields of a compaction that have the type that a turn expects."""
    valid = {}
    for name, value in fields.items():
        if _is_type(value, _COMPACTION_TYPES.get(name, str)):
            valid[name] = value
    if valid.get("trigger") not in _TRIGGERS:
        valid.pop("trigger", None)
    return valid


def _is_type(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True
