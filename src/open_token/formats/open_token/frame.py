"""Reading an export again: the frame around its events, and the events themselves."""

import re
from collections.abc import Iterable
from typing import Any, cast

from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.shared.fields import JsonObject, as_dicts
from open_token.jsontools.timestamps import to_utc
from open_token.jsontools.walk import normalize_json_values
from open_token.model.document import (
    AVAILABILITIES,
    EVENT_TYPES,
    PROVIDERS,
    SOURCE_RUNTIMES,
    Event,
    Integrity,
    Participant,
)

HELP = "see what is wrong with `open-token validate`"
_EVENT_KEYS = (
    "id",
    "seq",
    "ts",
    "type",
    "actor_id",
    "visibility",
    "role",
    "content",
    "links",
    "usage",
)
_FRAME_KEYS = {
    "type",
    "open_token_version",
    "exported_at",
    "conversation",
    "participants",
    "events",
    "integrity",
}
_LINKS = ("parent_id", "replies_to", "call_id", "span_id")
_ENUMS = {
    "source_runtime": SOURCE_RUNTIMES,
    "provider": PROVIDERS,
    "internal_availability": AVAILABILITIES,
}
_ACTOR_KINDS = {
    "user": "human",
    "assistant": "model",
    "assistant_thought": "model",
    "tool": "tool",
}
_EVENT_ID = re.compile(r"evt_[0-9]{1,15}")


def read_frame(frame: JsonObject, draft: Draft, place: str = "") -> None:
    """Read what is around the events: a document, a header, or a footer with late facts."""
    exported_at = frame.get("exported_at")
    if isinstance(exported_at, str):
        draft.exported_at = exported_at
    _read_conversation(frame.get("conversation"), draft, f"{place}conversation")
    _read_participants(frame.get("participants"), draft, f"{place}participants")
    _read_integrity(frame.get("integrity"), draft)
    if not frame.keys() <= _FRAME_KEYS:
        draft.note_omission(
            "unknown-key",
            f"{place}top level",
            "a key that the format does not have there is left out",
        )


def _normalize(value: Any, draft: Draft, place: str) -> Any:
    """Return a value without numbers and depths that JSON parsers read differently."""
    return normalize_json_values(
        value,
        lambda pointer, kind: draft.note_omission("coerced", place, f"a value became text: {kind}"),
    )


def _read_conversation(value: Any, draft: Draft, place: str) -> None:
    facts = _normalize(value, draft, place)
    if not isinstance(facts, dict):
        return
    for name, fact in facts.items():
        if name in _ENUMS and fact not in _ENUMS[name]:
            draft.note_omission(
                "unknown-value", f"{place}.{name}", "a value outside the format's list is left out"
            )
        elif not _has_valid_type(name, fact):
            draft.note_omission(
                "unknown-value",
                f"{place}.{name}",
                "a value of another kind than the format's is left out",
            )
        else:
            cast(JsonObject, draft.conversation)[name] = fact


def _has_valid_type(name: str, value: Any) -> bool:
    """Return whether a fact about the conversation has the type that the passes expect."""
    if name == "id":
        return isinstance(value, str) and value != ""
    if name == "redaction":
        notes = value.get("notes", []) if isinstance(value, dict) else None
        return isinstance(notes, list) and all(isinstance(note, str) for note in notes)
    return True


def _read_participants(value: Any, draft: Draft, place: str) -> None:
    participants = _normalize(value, draft, place)
    if not isinstance(participants, list):
        return
    known = {participant["actor_id"] for participant in draft.participants}
    for number, participant in enumerate(participants):
        if not isinstance(participant, dict) or not isinstance(participant.get("actor_id"), str):
            draft.note_omission(
                "skipped-participant", f"{place}[{number}]", "a participant has no actor_id"
            )
        elif participant["actor_id"] not in known:
            draft.participants.append(cast(Participant, participant))


def _read_integrity(integrity: Any, draft: Draft) -> None:
    if not isinstance(integrity, dict):
        return
    draft.integrity = cast(Integrity, integrity)
    for coercion in as_dicts(integrity.get("coercions")):
        pointer = coercion.get("ptr")
        kind = coercion.get("was")
        seq = coercion.get("seq")
        if isinstance(pointer, str) and isinstance(kind, str):
            draft.coercions.append(
                {"seq": seq if type(seq) is int else 0, "ptr": pointer, "was": kind}
            )


def add_events(events: Iterable[tuple[str, Any]], draft: Draft, name: str = "") -> None:
    """Add events, each given with its place; actors without a participant get one."""
    known_ids: set[str] = set()
    id_by_number: dict[int, str] = {}
    first_events: dict[str, Event] = {}
    for number, (place, raw_event) in enumerate(events, 1):
        fault = find_event_fault(raw_event, known_ids)
        if fault:
            raise InputError(fault, where=f"{name}:{place}", help=HELP, code="input.export")
        if "event_type" in raw_event:
            draft.note_omission(
                "unknown-key",
                f"event {number}",
                "event_type has another meaning in NDJSON and is left out",
            )
        event = _order_keys(raw_event)
        known_ids.add(event["id"])
        id_by_number[number] = event["id"]
        first_events.setdefault(event["actor_id"], event)
        if draft.first_ts is None and "ts" in event:
            draft.first_ts = to_utc(event["ts"])
        draft.add_event(event)
    for coercion in draft.coercions:
        if "id" not in coercion:
            coercion["id"] = id_by_number.get(coercion.get("seq", 0), "")
    for participant in draft.participants:
        first_events.pop(participant["actor_id"], None)
    draft.participants.extend(_build_participant(event) for event in first_events.values())


def find_event_fault(event: Any, known_ids: set[str]) -> str | None:
    """Return why the passes could not process an event; None if they can."""
    if not isinstance(event, dict):
        return "an event is not an object"
    if not isinstance(event.get("id"), str) or not _EVENT_ID.fullmatch(event["id"]):
        return "an event has no id of the form evt_000001"
    if event["id"] in known_ids:
        return "an event id occurs twice"
    if event.get("type") not in EVENT_TYPES:
        return "an event has no type that the format knows"
    if not isinstance(event.get("actor_id"), str):
        return "an event has no actor_id"
    for name in ("ts", "visibility", "role"):
        if not isinstance(event.get(name, ""), str):
            return f"{name} of an event is not a string"
    for name in ("content", "links", "usage"):
        if not isinstance(event.get(name, {}), dict):
            return f"{name} of an event is not an object"
    if not isinstance(event.get("content", {}).get("text", ""), str):
        return "content.text of an event is not a string"
    links = event.get("links", {})
    if not all(isinstance(links[name], str) for name in _LINKS if name in links):
        return "a link of an event is not a string"
    return None


def _order_keys(event: JsonObject) -> Event:
    """Return an event with its keys in the order of the specification, unknown ones last."""
    complete = {"seq": 0, "content": {}, **event}
    ordered = {name: complete[name] for name in _EVENT_KEYS if name in complete}
    if len(ordered) < len(complete):
        for name, value in complete.items():
            if name not in ordered and name != "event_type":
                ordered[name] = value
    return cast(Event, ordered)


def _build_participant(event: Event) -> Participant:
    """Return a participant for an actor that the export lacks, according to its first event."""
    role = event.get("role", "")
    name = "assistant" if role == "assistant_thought" else role or "unknown"
    kind = _ACTOR_KINDS.get(role, "system")
    return cast(Participant, {"actor_id": event["actor_id"], "kind": kind, "name": name})
