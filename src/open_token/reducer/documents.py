"""An Open-Token document as entries: every event is kept as it is, and shown in turns as far as
turns can show it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from open_token.entries import Entry, Json
from open_token.reducer._folds import COMPACTION
from open_token.reducer._kept import content_of
from open_token.reducer._state import State
from open_token.turns import ROOT, MemoryRef

_SIDEWAYS = ("abandoned_branch", "branch")
_ROLES = {"user": "user", "system": "system", "developer": "system"}


def import_document(
    state: State,
    events: Iterable[Json],
    at: str,
    *,
    conversation: Json | None = None,
    participants: list[Json] | None = None,
    exported_at: str | None = None,
    integrity: Json | None = None,
) -> Iterator[Entry]:
    """The entries that make a document the beginning of a session, in which no turn has been opened
    yet."""
    people = participants or []
    about: Json = {"conversation": conversation or {}, "participants": people}
    yield state.add("imported", about | {"exported_at": exported_at, "integrity": integrity}, at)
    scribe = _Scribe(state, at, {str(person.get("actor_id")): person for person in people})
    for event in events:
        yield from scribe.take(event)
    yield from scribe.finish()


@dataclass
class _Loop:
    """An agent at work: the one that talks with the person, or a subagent."""

    name: str = ROOT
    call: str | None = None
    """The call that it serves."""
    turn: str | None = None
    """The turn of the model's that is still open."""
    actor: str = ""
    answered: bool = False
    """A result came: what the model says next is another turn."""


@dataclass
class _Span:
    loop: _Loop
    aside: bool = False
    """It holds a branch that was left."""
    before: str | None = None
    """Where the branch was left from."""
    around: "_Span | None" = None


@dataclass
class _Scribe:
    """Writes a document down, event by event."""

    state: State
    at: str
    people: dict[str, Json]
    root: _Loop = field(default_factory=_Loop)
    spans: dict[str, _Span] = field(default_factory=dict)
    calls: dict[str, tuple[str, str, _Loop]] = field(default_factory=dict)
    """By call_id: the turn, the id of the call in it, and whose it is."""
    results: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By the id of a result's event: the turn and the call."""
    left: set[str] = field(default_factory=set)
    """The turns of branches that were left."""
    sideways: _Span | None = None
    count: int = 0

    def take(self, event: Json) -> Iterator[Entry]:
        """One event."""
        links = _links(event)
        span = self.spans.get(str(links.get("span_id")))
        loop = span.loop if span else self.root
        kind = event.get("type")
        if kind == "message":
            yield from self._message(event, loop)
        elif kind == "tool_use":
            yield from self._call(event, loop)
        elif kind == "tool_result":
            yield from self._result(event, loop)
        elif kind == "annotation":
            yield from self._annotation(event, loop)
        elif kind == "span_start":
            yield from self._span_start(event, span)
        elif kind == "span_end":
            yield from self._span_end(event, span)
        else:
            yield self._keep(event)

    def finish(self) -> Iterator[Entry]:
        """The end of the document."""
        for loop in {id(span.loop): span.loop for span in self.spans.values()}.values():
            yield from self._close(loop)
        yield from self._close(self.root)

    def _add(self, kind: str, **data: Any) -> Entry:
        return self.state.add(kind, data, self.at)

    def _keep(self, event: Json, **place: Any) -> Entry:
        """The event as it is; one of a branch that was left stays as long as what the branch was
        left from."""
        if self.sideways is not None:
            place["anchor"] = self.sideways.before
        elif place.get("turn_id") in self.left:
            place["anchor"] = self.state.head
        return self._add("event.kept", event=event, **place)

    def _message(self, event: Json, loop: _Loop) -> Iterator[Entry]:
        role = _ROLES.get(str(event.get("role")))
        if role is None:
            yield from self._speaking(event, loop)
            yield self._keep(event, turn_id=loop.turn)
            yield from self._count(event, loop.turn)
            return
        yield from self._close(loop)
        name = self._name("turn")
        if role == "user" and loop is self.root and event.get("visibility") == "public":
            yield self._add("checkpoint.made", checkpoint_id=self._name("cp"), turn_id=name)
        yield self._open(name, role, loop, event)
        yield self._keep(event, turn_id=name)
        yield from self._count(event, name)
        yield self._add("turn.ended", turn_id=name)

    def _call(self, event: Json, loop: _Loop) -> Iterator[Entry]:
        yield from self._speaking(event, loop)
        turn, links, data = loop.turn or "", _links(event), content_of(event)
        native = data.get("native_call_id") if isinstance(data, dict) else None
        name = (
            native
            if isinstance(native, str) and native
            else str(links.get("call_id") or self._name("tc"))
        )
        if name in self.state.callers:
            name = f"{name}#{self._name('tc')}"
        if "call_id" in links:
            self.calls[str(links["call_id"])] = (turn, name, loop)
        yield self._keep(event, turn_id=turn, tool_call_id=name)
        yield from self._count(event, turn)

    def _result(self, event: Json, loop: _Loop) -> Iterator[Entry]:
        called = self.calls.get(str(_links(event).get("call_id")))
        if called is None:
            yield from self._speaking(event, loop)
            yield self._keep(event, turn_id=loop.turn)
            yield from self._count(event, loop.turn)
            return
        turn, call, caller = called
        caller.answered = caller.answered or caller.turn == turn
        self.results[str(event.get("id"))] = (turn, call)
        yield self._keep(event, turn_id=turn, tool_call_id=call)
        yield from self._count(event, turn)

    def _annotation(self, event: Json, loop: _Loop) -> Iterator[Entry]:
        data = content_of(event)
        kind = data.get("kind") if isinstance(data, dict) else None
        result = self.results.get(str(_links(event).get("parent_id")))
        if kind == "compaction":
            yield from self._compaction(event, data, loop)
            return
        place = {"turn_id": loop.turn} if loop.turn else {}
        yield self._keep(event, **place)
        if kind == "result_facts" and result and data.get("is_error") is True:
            yield self._add(
                "tool.status", turn_id=result[0], tool_call_id=result[1], status="error"
            )
        elif kind == "memory_refs" and loop.turn and (refs := _refs(data.get("refs"))):
            yield self._add("memory.recalled", turn_id=loop.turn, refs=refs)
        yield from self._count(event, loop.turn)

    def _compaction(self, event: Json, data: Json, loop: _Loop) -> Iterator[Entry]:
        yield from self._close(loop)
        name = self._name("turn")
        yield self._open(name, "system", loop, event, kind="compaction")
        yield self._keep(event, turn_id=name)
        given = {field: data[field] for field in COMPACTION if field in data}
        if isinstance(summary := data.get("summary"), str):
            given.setdefault("summary_full", summary)
        yield self._add("compacted", turn_id=name, **_fitting(given))
        yield from self._count(event, name)
        yield self._add("turn.ended", turn_id=name)

    def _span_start(self, event: Json, around: _Span | None) -> Iterator[Entry]:
        links, data = _links(event), content_of(event)
        held = data if isinstance(data, dict) else {}
        outer = around or self.spans.get(str(held.get("parent_span")))
        loop = outer.loop if outer else self.root
        if held.get("kind") in _SIDEWAYS:
            yield from self._close(loop)
            span = _Span(loop, True, self.state.head, self.sideways)
            if self.sideways is None:
                self.sideways = span
        else:
            called = self.calls.get(str(links.get("call_id")))
            name = held.get("name")
            known = (
                name
                if isinstance(name, str) and name and name != ROOT
                else str(links.get("span_id"))
            )
            span = _Span(_Loop(known, called[1] if called else None))
        yield self._keep(event)
        self.spans[str(links.get("span_id"))] = span

    def _span_end(self, event: Json, span: _Span | None) -> Iterator[Entry]:
        if span is not None:
            yield from self._close(span.loop)
        yield self._keep(event)
        if span is not None and span.aside:
            yield self._add("branch.moved", head=span.before, reason="imported")
            self.sideways = span.around

    def _speaking(self, event: Json, loop: _Loop) -> Iterator[Entry]:
        """The model has a turn to speak in: the open one, unless a result or another model came
        between."""
        actor = str(event.get("actor_id"))
        changed = event.get("type") != "tool_result" and (loop.answered or loop.actor != actor)
        if loop.turn is not None and not changed:
            return
        yield from self._close(loop)
        name = self._name("turn")
        yield self._open(name, "assistant", loop, event)
        loop.turn, loop.actor = name, actor

    def _open(self, name: str, role: str, loop: _Loop, event: Json, kind: str = "message") -> Entry:
        if self.sideways is not None:
            self.left.add(name)
        ts = event.get("ts")
        model = (
            self.people.get(str(event.get("actor_id")), {}).get("model")
            if role == "assistant"
            else None
        )
        turn: Json = {"turn_id": name, "loop_id": loop.name, "kind": kind, "role": role}
        turn["started_at"] = ts if isinstance(ts, str) else None
        turn |= {"model": model} if isinstance(model, str) else {}
        turn |= {"parent_fork_tool_call_id": loop.call} if loop.call else {}
        return self._add("turn.opened", turn=turn, imported=True)

    def _close(self, loop: _Loop) -> Iterator[Entry]:
        if loop.turn is not None:
            yield self._add("turn.ended", turn_id=loop.turn)
        loop.turn, loop.answered = None, False

    def _count(self, event: Json, turn: str | None) -> Iterator[Entry]:
        """What an event took, added to what its turn took."""
        given = event.get("usage")
        if turn is None or not isinstance(given, dict):
            return
        usage = dict(self.state.turns[turn].facts.usage or {})
        for name, count in given.items():
            if type(count) is int:
                usage[name] = usage.get(name, 0) + count
        if usage:
            yield self._add("usage.counted", turn_id=turn, usage=usage)

    def _name(self, kind: str) -> str:
        """The next name of a turn, a checkpoint or a call, alone among all sessions."""
        self.count += 1
        return f"{kind}_{self.state.session_id.removeprefix('sess_')}_{self.count}"


def _links(event: Json) -> Json:
    links = event.get("links")
    return links if isinstance(links, dict) else {}


def _refs(refs: Any) -> list[Json]:
    """The references to memories among them."""
    return [ref for ref in refs if _is(ref, MemoryRef)] if isinstance(refs, list) else []


def _fitting(given: Json) -> Json:
    """The facts of a compaction that are of the kind that turns know."""
    kinds: dict[str, Any] = {
        "archived_count": int,
        "tokens_before": int,
        "tokens_after": int,
        "saved_ratio": float,
    }
    fits = {name: value for name, value in given.items() if _is(value, kinds.get(name, str))}
    if fits.get("trigger") not in ("auto", "manual", "forced_retry"):
        fits.pop("trigger", None)
    return fits


def _is(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True
