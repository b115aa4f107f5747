"""Takes an Open-Token export over: what stands around its events, and the events that can be worked
on."""

import re
from collections.abc import Iterable
from typing import Any, cast

from open_token.builder.draft import Draft
from open_token.errors import InputError
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

_ORDER = ("id", "seq", "ts", "type", "actor_id", "visibility", "role", "content", "links", "usage")
_TOP = {
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
HELP = "see what is wrong with `open-token validate`"
_KINDS = {"user": "human", "assistant": "model", "assistant_thought": "model", "tool": "tool"}
_ID = re.compile(r"evt_[0-9]{1,15}")


def frame_of(frame: dict[str, Any], draft: Draft, place: str = "") -> None:
    """What stands around the events: in a document, a header, or (what was met late) a footer."""
    if isinstance(exported_at := frame.get("exported_at"), str):
        draft.exported_at = exported_at
    _conversation(
        _settled(frame.get("conversation"), draft, f"{place}conversation"),
        draft,
        f"{place}conversation",
    )
    people = _settled(frame.get("participants"), draft, f"{place}participants")
    known = {person["actor_id"] for person in draft.participants}
    for number, person in enumerate(people if isinstance(people, list) else []):
        if not isinstance(person, dict) or not isinstance(person.get("actor_id"), str):
            draft.note_omission(
                "skipped-participant",
                f"{place}participants[{number}]",
                "a participant has no actor_id",
            )
        elif person["actor_id"] not in known:
            draft.participants.append(cast(Participant, person))
    _integrity(frame.get("integrity"), draft)
    if not frame.keys() <= _TOP:
        draft.note_omission(
            "unknown-key",
            f"{place}top level",
            "a key that the format does not have there is left out",
        )


def _settled(value: Any, draft: Draft, place: str) -> Any:
    """The value without numbers and depths that no JSON reader agrees on."""
    return normalize_json_values(
        value,
        lambda pointer, kind: draft.note_omission("coerced", place, f"a value became text: {kind}"),
    )


def _conversation(facts: Any, draft: Draft, place: str) -> None:
    if not isinstance(facts, dict):
        return
    for name, value in facts.items():
        if name in _ENUMS and value not in _ENUMS[name]:
            draft.note_omission(
                "unknown-value", f"{place}.{name}", "a value outside the format's list is left out"
            )
        elif not _is_usable(name, value):
            draft.note_omission(
                "unknown-value",
                f"{place}.{name}",
                "a value of another kind than the format's is left out",
            )
        else:
            cast(dict[str, Any], draft.conversation)[name] = value


def _is_usable(name: str, value: Any) -> bool:
    """Whether a fact about the conversation is of the kind that the passes work with."""
    if name == "id":
        return isinstance(value, str) and value != ""
    if name == "redaction":
        notes = value.get("notes", []) if isinstance(value, dict) else None
        return isinstance(notes, list) and all(isinstance(note, str) for note in notes)
    return True


def _integrity(integrity: Any, draft: Draft) -> None:
    if not isinstance(integrity, dict):
        return
    draft.integrity = cast(Integrity, integrity)
    coercions = integrity.get("coercions")
    for item in coercions if isinstance(coercions, list) else []:
        if (
            isinstance(item, dict)
            and isinstance(item.get("ptr"), str)
            and isinstance(item.get("was"), str)
        ):
            seq = item.get("seq")
            draft.coercions.append(
                {"seq": seq if type(seq) is int else 0, "ptr": item["ptr"], "was": item["was"]}
            )


def adopt(events: Iterable[tuple[str, Any]], draft: Draft, name: str = "") -> None:
    """Hand the events on, each with its place; those whom the export does not introduce become
    participants."""
    known: set[str] = set()
    id_of: dict[int, str] = {}
    speakers: dict[str, Event] = {}
    for place, (where, event) in enumerate(events, 1):
        if fault := fault_of(event, known):
            raise InputError(fault, where=f"{name}:{where}", help=HELP, code="input.export")
        if "event_type" in event:
            draft.note_omission(
                "unknown-key",
                f"event {place}",
                "event_type has another meaning in NDJSON and is left out",
            )
        made = _ordered(event)
        known.add(made["id"])
        id_of[place] = made["id"]
        speakers.setdefault(made["actor_id"], made)
        if draft.first_ts is None and "ts" in made:
            draft.first_ts = to_utc(made["ts"])
        draft.add_event(made)
    for item in draft.coercions:
        if "id" not in item:
            item["id"] = id_of.get(item.get("seq", 0), "")
    for person in draft.participants:
        speakers.pop(person["actor_id"], None)
    draft.participants.extend(_introduced(event) for event in speakers.values())


def fault_of(event: Any, known: set[str]) -> str | None:
    """Why the passes could not work on an event."""
    if not isinstance(event, dict):
        return "an event is not an object"
    if not isinstance(event.get("id"), str) or not _ID.fullmatch(event["id"]):
        return "an event has no id of the form evt_000001"
    if event["id"] in known:
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


def _ordered(event: dict[str, Any]) -> Event:
    """The event with its keys in the spec's order, unknown ones last."""
    whole = {"seq": 0, "content": {}, **event}
    made = {name: whole[name] for name in _ORDER if name in whole}
    if len(made) < len(whole):
        made |= {
            name: value
            for name, value in whole.items()
            if name not in made and name != "event_type"
        }
    return cast(Event, made)


def _introduced(event: Event) -> Participant:
    """An actor whom the export does not introduce, as far as an event tells who it is."""
    role = event.get("role", "")
    name = "assistant" if role == "assistant_thought" else role or "unknown"
    return cast(
        Participant,
        {"actor_id": event["actor_id"], "kind": _KINDS.get(role, "system"), "name": name},
    )
