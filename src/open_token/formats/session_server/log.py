"""A session from its log: the imported document verbatim, then the turns of this server."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

from open_token.builder.draft import Draft
from open_token.formats.open_token.frame import add_events, find_event_fault, read_frame
from open_token.formats.session_server.turns import TurnWriter
from open_token.formats.shared.fields import JsonObject
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

_NUMBERED_ID = re.compile(r"(?:evt|call|span|act)_([0-9]{1,15})")
_IDENTITY_FIELDS = ("kind", "name", "provider", "model", "instance_id")


def fold_records(
    records: Iterable[tuple[str, Any]], draft: Draft
) -> tuple[SessionState | None, bool]:
    """Return the state that the log entries lead to, and whether the session was renamed.

    An entry that does not fit is noted.
    """
    state: SessionState | None = None
    is_renamed = False
    for place, record in records:
        try:
            entry: LogEntry = parse_entry(record)
            state = state or SessionState(entry.session_id)
            state.apply(entry)
            if entry.kind == "session.changed" and "intent" in entry.data["changes"]:
                is_renamed = True
        except (LogError, RecursionError):
            draft.note_omission("bad-entry", place, "a row that does not fit the log")
    return state, is_renamed


def add_session(state: SessionState, draft: Draft, is_renamed: bool = False) -> None:
    """Add a session to the draft.

    One that was imported as a document keeps the title of the document until it is renamed.
    """
    if state.document is None:
        _read_session(state, draft)
        _add_turns(state, draft)
        return
    imported = _add_document(state, state.document, draft)
    if is_renamed and state.session.intent:
        draft.conversation["title"] = state.session.intent
    if state.annotations or not all(turn.imported for turn in state.turns.values()):
        continuation = Draft(branches=draft.branches, subagents=draft.subagents)
        _add_turns(state, continuation)
        _append_continuation(state, continuation, draft, imported)


def _read_session(state: SessionState, draft: Draft) -> None:
    session = state.session
    draft.conversation["id"] = state.session_id
    if session.intent:
        draft.conversation["title"] = session.intent
    if session.created_at:
        draft.conversation["started_at"] = session.created_at


def _list_active_turns(state: SessionState) -> set[str | None]:
    """Return the ids of the turns on the active branch, and None for what is on no turn."""
    return {None, *(turn.facts.id for turn in state.path)}


def _add_turns(state: SessionState, draft: Draft) -> None:
    """Add the turns of this server, and what happened between them."""
    active = _list_active_turns(state)
    items: list[tuple[float, str | None, JsonObject]] = []
    for number, turn in enumerate(state.turns.values()):
        if turn.imported:
            continue
        if draft.branches != "all" and turn.facts.id not in active:
            draft.note_omission(
                "abandoned-branch",
                f"turn {number + 1}",
                "a turn of an abandoned branch; branches=all exports it",
            )
        items.append((number, turn.facts.id, _build_turn(turn)))
    for aside in state.annotations:
        # Asides come between turns.
        items.append((aside.turns - 0.5, aside.anchor, _build_aside(aside.at, aside.data)))
    items.sort(key=lambda item: item[0])
    if draft.branches != "all":
        items = [item for item in items if item[1] in active]
    abandoned = {number for number, item in enumerate(items) if item[1] not in active}
    TurnWriter(draft, [body for _, _, body in items], abandoned).add_all()


def _build_turn(turn: Turn) -> JsonObject:
    """Return a turn with the times of its results."""
    body: JsonObject = to_builtins(turn.snapshot())
    times = [calling.ended_at for calling in turn.calls.values()]
    calls = zip(body["tool_calls"], times, strict=True)
    return {**body, "tool_calls": [{**call, "finished_at": time} for call, time in calls]}


def _build_aside(at: str, data: JsonObject) -> Aside:
    aside = Aside(data)
    aside.at = at
    return aside


def _add_document(
    state: SessionState, document: DocumentImported, draft: Draft
) -> list[JsonObject]:
    """Add the imported document, without what was abandoned since; return its events."""
    draft.is_export = True
    cast(JsonObject, draft.conversation).clear()
    read_frame(dump_event_data(document), draft, "document.")
    active = _list_active_turns(state)
    items = [
        (item.event, item.anchor in active) for item in _select_valid(state.imported_events, draft)
    ]
    if draft.branches == "all":
        events = list(_wrap_abandoned(items))
    else:
        events = [event for event, is_active in items if is_active]
        for event, is_active in items:
            if not is_active:
                draft.note_omission(
                    "abandoned-branch",
                    event["id"],
                    "an event of an abandoned branch; branches=all exports it",
                )
    add_events((("", event) for event in events), draft)
    return events


def _select_valid(items: list[ImportedEvent], draft: Draft) -> Iterator[ImportedEvent]:
    """Yield the events that can be processed, and note the others."""
    known_ids: set[str] = set()
    for number, item in enumerate(items, 1):
        fault = find_event_fault(item.event, known_ids)
        if fault:
            draft.note_omission("bad-event", f"event {number}", fault)
        else:
            known_ids.add(item.event["id"])
            yield item


def _wrap_abandoned(items: list[tuple[JsonObject, bool]]) -> Iterator[JsonObject]:
    """Yield the events; consecutive abandoned ones are wrapped in a span."""
    events = [event for event, _ in items]
    number = _find_highest("evt_", events)
    span_number = _find_highest("span_", events)
    links: JsonObject | None = None
    actor = ""
    for event, is_active in items:
        if is_active and links is not None:
            number += 1
            yield _build_span_event("span_end", number, actor, {}, links)
            links = None
        elif not is_active and links is None:
            number += 1
            span_number += 1
            links = {"span_id": f"span_{span_number:06d}"}
            actor = event["actor_id"]
            data = {"kind": "abandoned_branch"}
            yield _build_span_event("span_start", number, actor, data, links)
        yield _set_span(event, links)
    if links is not None:
        yield _build_span_event("span_end", number + 1, actor, {}, links)


def _set_span(event: JsonObject, span_links: JsonObject | None) -> JsonObject:
    links = event.get("links", {})
    if span_links is None or "span_id" in links:
        return event
    return {**event, "links": {**links, **span_links}}


def _build_span_event(
    kind: str, number: int, actor: str, data: JsonObject, links: JsonObject
) -> JsonObject:
    return {
        "id": f"evt_{number:06d}",
        "seq": 0,
        "type": kind,
        "actor_id": actor,
        "visibility": "metadata",
        "content": {"mime": "application/json", "data": data},
        "links": links,
    }


def _append_continuation(
    state: SessionState, continuation: Draft, draft: Draft, imported: list[JsonObject]
) -> None:
    """Add the turns of this server after the document, with ids that continue its own."""
    record = continuation.finish(lambda: "")
    actors = _merge_participants(record.participants, draft.participants)
    offsets = {prefix: _find_highest(prefix, imported) for prefix in ("evt_", "call_", "span_")}
    for event in record.events:
        draft.add_event(_renumber_event(event, offsets, actors))
    draft.exported_at = state.session.updated_at
    draft.integrity = None
    draft.conversation["id"] = state.session_id
    if record.conversation.get("internal_availability") == "available":
        draft.conversation["internal_availability"] = "available"


def _merge_participants(new: list[Participant], known: list[Participant]) -> dict[str, str]:
    """Add participants that the document lacks; return the actor_id of each new one in it."""
    actor_ids = {_get_identity(person): person["actor_id"] for person in reversed(known)}
    number = _find_highest("act_", [cast(JsonObject, person) for person in known], "actor_id")
    merged: dict[str, str] = {}
    for person in new:
        actor_id = actor_ids.get(_get_identity(person))
        if actor_id is None:
            number += 1
            actor_id = f"act_{number:03d}"
            known.append(cast(Participant, {**person, "actor_id": actor_id}))
        merged[person["actor_id"]] = actor_id
    return merged


def _get_identity(person: Participant) -> tuple[str | None, ...]:
    return tuple(cast(JsonObject, person).get(name) for name in _IDENTITY_FIELDS)


def _find_highest(prefix: str, values: list[JsonObject], field: str = "id") -> int:
    """Return the highest number with a prefix among ids and links."""
    highest = 0
    for value in values:
        links = value.get("links", {})
        for name in (value.get(field), links.get("call_id"), links.get("span_id")):
            if not isinstance(name, str) or not name.startswith(prefix):
                continue
            match = _NUMBERED_ID.fullmatch(name)
            if match:
                highest = max(highest, int(match[1]))
    return highest


def _renumber_event(event: Event, offsets: dict[str, int], actors: dict[str, str]) -> Event:
    renumbered = cast(JsonObject, dict(event))
    renumbered["id"] = _renumber(event["id"], offsets)
    renumbered["actor_id"] = actors[event["actor_id"]]
    if "links" in event:
        renumbered["links"] = {
            name: _renumber(str(value), offsets) for name, value in event["links"].items()
        }
    return cast(Event, renumbered)


def _renumber(name: str, offsets: dict[str, int]) -> str:
    prefix, _, number = name.partition("_")
    return f"{prefix}_{int(number) + offsets[prefix + '_']:06d}"
