"""What of a step counts, as a short key: equal keys, equal steps."""

import json
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
import orjson

from open_token.comparing.deeds import ASIDE, change, within
from open_token.comparing.outputs import plain_output, steady
from open_token.comparing.steps import Run, Step, data_of, lasting_facts, object_of, said
from open_token.jsontools.walk import map_strings
from open_token.model.document import Event
from open_token.redaction.markers import count_markers, strip_marker_hashes

_BY_OUTCOME = frozenset(("edit", "write", "delegate", "plan"))
"""Deeds of which other tools tell in their own words that they are done."""
_VOLATILE = frozenset(("id", "seq", "ts", "usage", "links", "actor_id"))

Pointer = tuple[str, ...]
Face = tuple[dict[str, Any], dict[str, Any]]
"""What a step is, and what came of it."""


class Rules(msgspec.Struct, frozen=True):
    """How two runs are compared."""

    exact: bool
    ignored: tuple[Pointer, ...]
    marks_by_type: bool
    translated: frozenset[str]
    """Deeds for which the two runs have tools of different names."""


def face_of(run: Run, rules: Rules) -> Callable[[Step], Face]:
    """What of a step counts: of itself, and of what came of it."""
    face = _exact(run) if rules.exact else _semantic(run.cwd, rules)
    return (lambda step: _without(face(step), rules.ignored)) if rules.ignored else face


def shown_face_of(run: Run, rules: Rules) -> Callable[[Step], Face]:
    """The same, to be shown: marks that count by their type alone are told by it alone."""
    face = face_of(run, rules)
    return (lambda step: _by_type(face(step))) if rules.marks_by_type else face


def _by_type(face: Face) -> Face:
    raw = _bytes(face)
    stripped = strip_marker_hashes(raw)
    called, came = face if stripped == raw else json.loads(stripped)
    return called, came


def give_keys(run: Run, rules: Rules) -> int:
    """Set the keys of every step; tells how many marks of redaction there are."""
    face = face_of(run, rules)
    marks = 0
    for step in run.steps:
        called, came = (_bytes(part) for part in _steady(*face(step), rules.exact))
        marks += count_markers(called) + count_markers(came)
        if rules.marks_by_type:
            called, came = strip_marker_hashes(called), strip_marker_hashes(came)
        step.call_key = blake2b(called, digest_size=8).digest()
        step.key = step.call_key + blake2b(came, digest_size=8).digest()
    return marks


def _steady(called: dict[str, Any], came: dict[str, Any], exact: bool) -> Face:
    """What came of a step without what is new each time."""
    result = came.get("result")
    return called, {**came, "result": steady(result)} if type(result) is str and not exact else came


def _semantic(cwd: str, rules: Rules) -> Callable[[Step], Face]:
    def face(step: Step) -> Face:
        if step.kind == "call":
            return _called(step, cwd, rules), _came(step, cwd, rules)
        if step.kind == "result":
            return {"kind": "result"}, _came(step, cwd, rules)
        value = said(step.event)
        if isinstance(value, str):
            value = within(value.strip().replace("\r\n", "\n"), cwd)
        return {"kind": step.kind, "role": step.role, "text": value}, {}

    return face


def _called(step: Step, cwd: str, rules: Rules) -> dict[str, Any]:
    deed, arguments = step.deed, step.arguments
    if not deed.known:
        return {"tool": step.tool, "arguments": _seen_from(arguments, cwd)}
    if deed.name in rules.translated:
        made: dict[str, Any] = {"tool": deed.name, "target": deed.target}
        gone, came = change(arguments) if deed.files else ([], [])
        return made | {"removed": gone, "added": came} if deed.files else made
    if isinstance(arguments, dict):
        arguments = {name: value for name, value in arguments.items() if name not in ASIDE}
        if deed.argument:
            arguments[deed.argument] = deed.target
    return {"tool": step.tool, "arguments": _seen_from(arguments, cwd)}


def _came(step: Step, cwd: str, rules: Rules) -> dict[str, Any]:
    if not step.has_result:
        return {}
    if step.deed.name in rules.translated and step.deed.name in _BY_OUTCOME:
        return {"failed": step.failed}
    value = plain_output(said(step.result) if step.result else None, step.deed.name)
    return {"failed": step.failed, "result": _seen_from(value, cwd)}


def _seen_from(value: Any, cwd: str) -> Any:
    """Values as seen from the run's own folder."""
    return map_strings(value, lambda text: within(text, cwd)) if cwd else value


def _exact(run: Run) -> Callable[[Step], Face]:
    """All that an event holds but ids, times and counts; what it hangs on is told by what that
    is."""
    events = {
        str(event.get("id")): event
        for step in run.steps
        for event in (step.event, step.result)
        if event
    }
    spans = {
        str(object_of(step.event.get("links")).get("span_id")): step.event
        for step in run.steps[::-1]
    }

    def own(event: Event) -> dict[str, Any]:
        kept = {name: value for name, value in event.items() if name not in _VOLATILE}
        if event.get("type") == "tool_use":
            data = {
                name: value for name, value in data_of(event).items() if name != "native_call_id"
            }
            kept["content"] = {**object_of(event.get("content")), "data": data}
        return kept | {"actor": run.actors.get(str(event.get("actor_id")), "")}

    def hung(event: Event) -> dict[str, Any]:
        links = object_of(event.get("links"))
        places: dict[str, Event | None] = {}
        for name in ("parent_id", "replies_to"):
            places[name] = events.get(str(links[name])) if name in links else None
        if "span_id" in links:
            places["span_id"] = spans.get(str(links["span_id"]))
        return {
            name: digest(own(there))
            for name, there in places.items()
            if there is not None and there is not event
        }

    def face(step: Step) -> Face:
        if step.kind == "result":
            return {"kind": "result"}, own(step.event) | {"facts": lasting_facts(step)}
        came = own(step.result) | {"facts": lasting_facts(step)} if step.result else {}
        return own(step.event) | {"links": hung(step.event)}, came

    return face


def _without(face: Face, ignored: Sequence[Pointer]) -> Face:
    """The face without what nobody wants to hear of."""
    called, came = face
    return _pruned(called, ignored), _pruned(came, ignored)


def _pruned(value: Any, ignored: Sequence[Pointer]) -> Any:
    """A value without what pointers point to; in a list something else stands in its place."""
    if isinstance(value, list):
        inside = _pruned({str(place): part for place, part in enumerate(value)}, ignored)
        return [inside.get(str(place)) for place in range(len(value))]
    if not isinstance(value, dict):
        return value
    made = {}
    for name, part in value.items():
        tails = [pointer[1:] for pointer in ignored if pointer and pointer[0] in (name, "*")]
        if () not in tails:
            made[name] = _pruned(part, tails) if tails else part
    return made


def digest(value: Any) -> str:
    """A value in a few letters."""
    return blake2b(_bytes(value), digest_size=8).hexdigest()


def _bytes(value: Any) -> bytes:
    try:
        return orjson.dumps(value, None, orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # numbers beyond 64 bits, lone surrogates
        return json.dumps(value, sort_keys=True, default=str).encode()
