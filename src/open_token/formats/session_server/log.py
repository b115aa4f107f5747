"""Tells a session from its log: the events of the document it began with as they are, then what was
lived here."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

from open_token.builder.draft import Draft
from open_token.formats.open_token.frame import adopt, fault_of, frame_of
from open_token.formats.session_server.turns import Teller
from open_token.model.document import Event, Participant
from open_token.model.log_events import (
    DocumentImported,
    LogEntry,
    LogError,
    dump_event_data,
    parse_entry,
)
from open_token.model.patches import Aside
from open_token.model.session_types import to_builtins
from open_token.session import ImportedEvent, SessionState, Turn

Body = dict[str, Any]
_LEFT = {"kind": "abandoned_branch"}
_NUMBER = re.compile(r"(?:evt|call|span|act)_([0-9]{1,15})")


def fold_records(
    records: Iterable[tuple[str, Any]], draft: Draft
) -> tuple[SessionState | None, bool]:
    """The state that the rows of a log come to, and whether it got another title; a row that does
    not fit is noted."""
    state: SessionState | None = None
    is_renamed = False
    for place, record in records:
        try:
            entry: LogEntry = parse_entry(record)
            state = state or SessionState(entry.session_id)
            state.apply(entry)
            is_renamed |= entry.kind == "session.changed" and "intent" in entry.data["changes"]
        except (LogError, RecursionError):
            draft.note_omission("bad-entry", place, "a row that does not fit the log")
    return state, is_renamed


def tell(state: SessionState, draft: Draft, is_renamed: bool = False) -> None:
    """Tell a session; one that came in as a document has the document's title until somebody gives
    it another."""
    if state.document is None:
        _about(state, draft)
        _lived(state, draft)
        return
    before = _adopt(state, state.document, draft)
    if is_renamed and state.session.intent:
        draft.conversation["title"] = state.session.intent
    if state.annotations or not all(turn.imported for turn in state.turns.values()):
        inner = Draft(branches=draft.branches, subagents=draft.subagents)
        _lived(state, inner)
        _join(state, inner, draft, before)


def _about(state: SessionState, draft: Draft) -> None:
    session, told = state.session, draft.conversation
    told["id"] = state.session_id
    if session.intent:
        told["title"] = session.intent
    if session.created_at:
        told["started_at"] = session.created_at


def _lived(state: SessionState, draft: Draft) -> None:
    """The turns of this server, and what happened between them."""
    active: set[str | None] = {None, *(turn.facts.id for turn in state.path)}
    lived = [
        (place, turn.facts.id, _told(turn))
        for place, turn in enumerate(state.turns.values())
        if not turn.imported
    ]
    beside = [
        (aside.turns - 0.5, aside.anchor, _aside(aside.at, aside.data))
        for aside in state.annotations
    ]
    told = sorted([*lived, *beside], key=lambda item: item[0])
    if draft.branches != "all":
        for place, name, _ in lived:
            if name not in active:
                draft.note_omission(
                    "abandoned-branch",
                    f"turn {place + 1}",
                    "a turn that was left; branches=all exports it",
                )
        told = [item for item in told if item[1] in active]
    left = {place for place, (_, anchor, _) in enumerate(told) if anchor not in active}
    Teller(draft, [body for _, _, body in told], left).tell()


def _told(turn: Turn) -> Body:
    """A turn, and when the results of its calls came."""
    body: Body = to_builtins(turn.snapshot())
    ends = [calling.ended_at for calling in turn.calls.values()]
    calls = [
        {**call, "finished_at": end} for call, end in zip(body["tool_calls"], ends, strict=True)
    ]
    return {**body, "tool_calls": calls}


def _aside(at: str, data: Body) -> Aside:
    made = Aside(data)
    made.at = at
    return made


def _adopt(state: SessionState, document: DocumentImported, draft: Draft) -> list[Body]:
    """The document as it came, but for what was left since; gives the events."""
    draft.is_export = True
    cast(Body, draft.conversation).clear()
    frame_of(dump_event_data(document), draft, "document.")
    active: set[str | None] = {None, *(turn.facts.id for turn in state.path)}
    kept = [(item.event, item.anchor in active) for item in _sound(state.imported_events, draft)]
    if draft.branches == "all":
        events = list(_wrapped(kept))
    else:
        events = [event for event, is_active in kept if is_active]
        for event, is_active in kept:
            if not is_active:
                draft.note_omission(
                    "abandoned-branch",
                    event["id"],
                    "an event that was left; branches=all exports it",
                )
    adopt((("", event) for event in events), draft)
    return events


def _sound(kept: list[ImportedEvent], draft: Draft) -> Iterator[ImportedEvent]:
    """The events that can be worked on."""
    known: set[str] = set()
    for place, item in enumerate(kept, 1):
        if fault := fault_of(item.event, known):
            draft.note_omission("bad-event", f"event {place}", fault)
        else:
            known.add(item.event["id"])
            yield item


def _wrapped(kept: list[tuple[Body, bool]]) -> Iterator[Body]:
    """The events, with those that were left in spans of their own."""
    number, span = (
        _highest("evt_", [event for event, _ in kept]),
        _highest("span_", [event for event, _ in kept]),
    )
    around: Body | None = None
    for event, is_active in [*kept, ({}, True)]:
        if is_active == (around is None):
            if event:
                yield event if is_active else _inside(event, around)
            continue
        number += 1
        if around is None:
            span += 1
            around = {"span_id": f"span_{span:06d}"}
            actor = event["actor_id"]
            yield _bound("span_start", number, actor, dict(_LEFT), around)
            yield _inside(event, around)
        else:
            yield _bound("span_end", number, actor, {}, around)
            around = None
            if event:
                yield event


def _inside(event: Body, around: Body | None) -> Body:
    links = event.get("links", {})
    return (
        event if around is None or "span_id" in links else {**event, "links": {**links, **around}}
    )


def _bound(kind: str, number: int, actor: str, data: Body, links: Body) -> Body:
    about = {
        "id": f"evt_{number:06d}",
        "seq": 0,
        "type": kind,
        "actor_id": actor,
        "visibility": "metadata",
    }
    return {**about, "content": {"mime": "application/json", "data": data}, "links": links}


def _join(state: SessionState, inner: Draft, draft: Draft, before: list[Body]) -> None:
    """What was lived here behind the document, with numbers that go on from its own."""
    record = inner.finish(lambda: "")
    people = _people(record.participants, draft.participants)
    by_kind = {kind: _highest(kind, before) for kind in ("evt_", "call_", "span_")}
    for event in record.events:
        draft.add_event(_shifted(event, by_kind, people))
    draft.exported_at, draft.integrity = state.session.updated_at, None
    draft.conversation["id"] = state.session_id
    if record.conversation.get("internal_availability") == "available":
        draft.conversation["internal_availability"] = "available"


def _people(new: list[Participant], known: list[Participant]) -> dict[str, str]:
    """Who is who: participants of the document, and those who came later."""
    names = {_who(person): person["actor_id"] for person in reversed(known)}
    number = _highest("act_", [cast(Body, person) for person in known], "actor_id")
    found: dict[str, str] = {}
    for person in new:
        if (same := names.get(_who(person))) is None:
            number += 1
            same = f"act_{number:03d}"
            known.append(cast(Participant, {**person, "actor_id": same}))
        found[person["actor_id"]] = same
    return found


def _who(person: Participant) -> tuple[str | None, ...]:
    return tuple(
        cast(Body, person).get(name)
        for name in ("kind", "name", "provider", "model", "instance_id")
    )


def _highest(kind: str, values: list[Body], field: str = "id") -> int:
    """The highest number of a kind among ids and links."""
    numbers = [0]
    for value in values:
        links = value.get("links", {})
        for name in (value.get(field), links.get("call_id"), links.get("span_id")):
            if (
                isinstance(name, str)
                and name.startswith(kind)
                and (found := _NUMBER.fullmatch(name))
            ):
                numbers.append(int(found[1]))
    return max(numbers)


def _shifted(event: Event, by_kind: dict[str, int], people: dict[str, str]) -> Event:
    made = cast(
        Body, {**event, "id": _moved(event["id"], by_kind), "actor_id": people[event["actor_id"]]}
    )
    if "links" in event:
        made["links"] = {
            name: _moved(str(value), by_kind) for name, value in event["links"].items()
        }
    return cast(Event, made)


def _moved(name: str, by_kind: dict[str, int]) -> str:
    kind, _, number = name.partition("_")
    return f"{kind}_{int(number) + by_kind[kind + '_']:06d}"
