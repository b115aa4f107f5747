"""Find the new events of a session that is read again whenever it changes.

Each reading numbers its events, calls, spans and participants from 1 on, and may insert, change or
drop events. So events are matched to those of the stream by their content, and new ones get ids
that are free in the stream.
"""

import hashlib
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

import orjson

from open_token.builder.draft import MISSING_RESULT
from open_token.model.document import Event, Participant, Record, Usage

_CLOSING_TYPES = ("tool_result", "span_end")


@dataclass
class _IdMap:
    """Maps the ids of one reading to those of the stream."""

    actors: dict[str, str] = field(default_factory=dict)
    events: dict[str, str] = field(default_factory=dict)
    calls: dict[str, str] = field(default_factory=dict)
    spans: dict[str, str] = field(default_factory=dict)


class EventTracker:
    """Knows the events of a stream, and turns later readings into the events that are new."""

    def __init__(self) -> None:
        self.participants: list[Participant] = []
        self._actors: dict[bytes, str] = {}
        self._ids_by_digest: dict[bytes, list[str]] = {}
        """The events of the stream by the digest of their content."""
        self._digests: dict[str, tuple[str, bytes]] = {}
        """Kind and digest of each event of the stream."""
        self._opened: dict[str, str] = {}
        """The call or span that an event of the stream begins."""
        self._calls: dict[str, Event | None] = {}
        """The calls of the stream; None for one that has its result."""
        self._results: dict[str, str] = {}
        """The result of each call."""
        self._spans: dict[str, Event | None] = {}
        """The spans of the stream; None for one that has ended."""
        self._revised: dict[str, Event] = {}
        """Events that changed after they were written."""
        self._reported_usage: dict[str, Usage] = {}
        self._latest_usage: dict[str, Usage] = {}
        self._next_number = 0
        # For an incremental reading: its ids, and the events of the stream that it has not emitted.
        self._incremental_ids = _IdMap()
        self._unmatched: dict[bytes, deque[str]] = {}

    def adopt(self, streamed: list[Event], current: Iterable[Event], record: Record) -> bool:
        """Learn the events of a stream that was written earlier.

        `current` holds the events of the record as they would be written now. An event of the
        stream that has changed or is gone keeps its id. Return False if that is true of most.
        """
        originals = {event["id"]: event for event in record.events}
        participants = {item["actor_id"]: item for item in record.participants}
        # `current` has been redacted like the stream; the originals have not.
        originals_by_digest: dict[bytes, deque[Event]] = {}
        for event in current:
            equal_events = originals_by_digest.setdefault(_compute_digest(event), deque())
            equal_events.append(originals[event["id"]])

        matched = 0
        last_actor_number = 0
        known_participants: dict[str, Participant] = {}
        for event in streamed:
            digest = _compute_digest(event)
            original = None
            candidates = originals_by_digest.get(digest)
            if candidates:
                matched += 1
                original = candidates.popleft()
                # Later readings are compared before redaction.
                digest = _compute_digest(original)
            # The actor of an event that has changed is most likely that of the same id.
            similar = original or originals.get(event["id"])
            if similar is not None:
                participant = participants[similar["actor_id"]]
                known_participants.setdefault(event["actor_id"], participant)
            self._register(event, digest)
            self._next_number = max(self._next_number, _parse_number(event["id"]) + 1)
            last_actor_number = max(last_actor_number, _parse_number(event["actor_id"]))
        self._adopt_participants(known_participants, last_actor_number)
        self._unmatched = self._queue_known_ids()
        return 2 * matched >= len(streamed)

    def _queue_known_ids(self) -> dict[bytes, deque[str]]:
        """Return the events of the stream by digest, to be taken one by one."""
        return {digest: deque(ids) for digest, ids in self._ids_by_digest.items()}

    def _adopt_participants(self, known: dict[str, Participant], count: int) -> None:
        """Add the participants of the stream under the ids that they have there."""
        for number in range(1, count + 1):
            actor_id = f"act_{number:03d}"
            # Ids have no gaps, so one that no matched event uses needs an entry as well.
            placeholder: Participant = {"actor_id": actor_id, "kind": "system", "name": "unknown"}
            participant = known.get(actor_id, placeholder)
            self._actors.setdefault(_participant_key(participant), actor_id)
            self.participants.append(_rename_participant(participant, actor_id))

    def filter_new_events(
        self, events: Iterable[Event], participants: Iterable[Participant]
    ) -> list[Event]:
        """Return the next events of an incremental reading that the stream does not hold yet."""
        ids = self._incremental_ids
        ids.actors |= self._map_participants(participants)
        new_events = []
        for event in events:
            digest = _compute_digest(event)
            candidates = self._unmatched.get(digest)
            if candidates:
                self._map_event(event, candidates.popleft(), ids)
                continue
            new_event = self._create_event(event, digest, ids)
            if new_event is not None:
                new_events.append(new_event)
        return new_events

    def update(self, record: Record, *, is_end: bool = False) -> list[Event]:
        """Return the events of a reading that are new; at the end, close what is still open."""
        self._next_number = max(self._next_number, record.next_event_number)
        events = list(record.events)
        digests = [_compute_digest(event) for event in events]
        count = len(events)
        if not is_end:
            count = _count_settled(events)
        ids = _IdMap(actors=self._map_participants(record.participants))
        unmatched = self._queue_known_ids()
        present = Counter(digests)
        new_events = []
        for event, digest in zip(events[:count], digests[:count], strict=True):
            if event["content"].get("data") == MISSING_RESULT:
                # The result may come yet. If it does not, a missing result is added at the end.
                continue
            if self._match_event(event, digest, unmatched, present, ids):
                continue
            new_event = self._create_event(event, digest, ids)
            if new_event is not None:
                new_events.append(new_event)
        if is_end:
            return [*new_events, *self.build_closing_events()]
        return new_events

    def _map_participants(self, participants: Iterable[Participant]) -> dict[str, str]:
        """Return the ids of participants in the stream; new ones are added."""
        actor_ids = {}
        for participant in participants:
            key = _participant_key(participant)
            if key not in self._actors:
                actor_id = f"act_{len(self.participants) + 1:03d}"
                self._actors[key] = actor_id
                self.participants.append(_rename_participant(participant, actor_id))
            actor_ids[participant["actor_id"]] = self._actors[key]
        return actor_ids

    def _match_event(
        self,
        event: Event,
        digest: bytes,
        unmatched: dict[bytes, deque[str]],
        present: Counter[bytes],
        ids: _IdMap,
    ) -> bool:
        """Return whether the stream holds the event, unchanged or as it was before a change."""
        candidates = unmatched.get(digest)
        if candidates:
            event_id = candidates.popleft()
        else:
            # Same id and kind, and its former content is gone: the event was changed.
            event_id = event["id"]
            kind, former_digest = self._digests.get(event_id, ("", b""))
            if kind != _get_kind(event) or former_digest in present:
                return False
            self._revised[event_id] = event
        self._map_event(event, event_id, ids)
        if "usage" in event:
            self._latest_usage[event_id] = event["usage"]
        return True

    def _map_event(self, event: Event, event_id: str, ids: _IdMap) -> None:
        """Record the id that an event of a reading has in the stream."""
        ids.events[event["id"]] = event_id
        links = event.get("links", {})
        opened_id = self._opened.get(event_id, "")
        if event["type"] == "tool_use" and "call_id" in links:
            ids.calls[links["call_id"]] = opened_id
        elif event["type"] == "span_start" and "span_id" in links:
            ids.spans[links["span_id"]] = opened_id

    def _create_event(self, event: Event, digest: bytes, ids: _IdMap) -> Event | None:
        """Return the event with ids of the stream, or None if it cannot be added any more."""
        event_id = event["id"]
        if event_id in self._digests:
            event_id = self._take_event_id()
        links = self._map_links(event, ids)
        if links is None:
            return None
        actor_id = ids.actors.get(event["actor_id"], event["actor_id"])
        new_event = cast(Event, {**event, "id": event_id, "actor_id": actor_id})
        if "links" in event:
            new_event["links"] = cast(Any, links)
        ids.events[event["id"]] = event_id
        self._register(new_event, digest)
        return new_event

    def _map_links(self, event: Event, ids: _IdMap) -> dict[str, str] | None:
        """Return the links of an event with ids of the stream.

        Return None for a second result of a call, and for the end of a span that is not open.
        """
        links = dict(cast(dict[str, str], event.get("links", {})))
        for key in ("parent_id", "replies_to"):
            if key in links:
                linked_id = links[key]
                links[key] = ids.events.get(linked_id, linked_id)
        if "call_id" in links and not self._map_call(event, links, ids):
            return None
        if "span_id" in links and not self._map_span(event, links, ids):
            return None
        return links

    def _map_call(self, event: Event, links: dict[str, str], ids: _IdMap) -> bool:
        """Replace the id of a call; return False for a second result of the same call."""
        kind = event["type"]
        call_id = links["call_id"]
        if kind == "tool_use" or call_id not in ids.calls:
            ids.calls[call_id] = _find_free_id(call_id, self._calls, "call")
        streamed_call_id = ids.calls[call_id]
        links["call_id"] = streamed_call_id
        if kind == "tool_result" and streamed_call_id in self._results:
            # What the stream says about this call has changed: that is reported at the end.
            earlier_result = self._results[streamed_call_id]
            self._revised[earlier_result] = event
            return False
        return True

    def _map_span(self, event: Event, links: dict[str, str], ids: _IdMap) -> bool:
        """Replace the id of a span; return False for the end of one that is not open."""
        kind = event["type"]
        span_id = links["span_id"]
        if kind == "span_start":
            ids.spans[span_id] = _find_free_id(span_id, self._spans, "span")
        streamed_span_id = ids.spans.get(span_id, "")
        links["span_id"] = streamed_span_id
        is_open = self._spans.get(streamed_span_id) is not None
        if kind == "span_start" or is_open:
            return True
        # An event that comes after the end of its span is written outside of it.
        del links["span_id"]
        return kind != "span_end"

    def _register(self, event: Event, digest: bytes) -> None:
        """Record an event as part of the stream."""
        event_id = event["id"]
        kind = event["type"]
        links = event.get("links", {})
        self._ids_by_digest.setdefault(digest, []).append(event_id)
        self._digests[event_id] = (_get_kind(event), digest)
        if "usage" in event:
            self._reported_usage[event_id] = event["usage"]
        call_id = links.get("call_id")
        if call_id and kind == "tool_use":
            self._opened[event_id] = call_id
            self._calls[call_id] = event
        elif call_id and kind == "tool_result":
            self._calls[call_id] = None
            self._results[call_id] = event_id
        span_id = links.get("span_id")
        if span_id and kind == "span_start":
            self._opened[event_id] = span_id
            self._spans[span_id] = event
        elif span_id and kind == "span_end":
            self._spans[span_id] = None

    def _take_event_id(self) -> str:
        while True:
            event_id = f"evt_{self._next_number:06d}"
            self._next_number += 1
            if event_id not in self._digests:
                return event_id

    def build_closing_events(self) -> list[Event]:
        """Return missing results, ends of open spans, revised events and unreported usage."""
        events = [self._build_missing_result(call) for call in self._calls.values() if call]
        for span_id, start in reversed(self._spans.items()):
            if start is not None:
                event = self._build_event("span_end", start["actor_id"], {})
                event["links"] = {"span_id": span_id}
                events.append(event)
        for event_id, revised in self._revised.items():
            data = {"kind": "revised", "content": revised["content"]}
            events.append(self._build_annotation(revised["actor_id"], data, event_id))
        return [*events, *self._build_usage_annotations()]

    def _build_usage_annotations(self) -> list[Event]:
        if not self._latest_usage:
            return []
        runtime: Participant = {"actor_id": "", "kind": "system", "name": "runtime"}
        actor_id = self._map_participants([runtime])[""]
        events = []
        unreported = find_unreported_usage(self._latest_usage, self._reported_usage)
        for event_id, usage in unreported.items():
            annotation = self._build_annotation(actor_id, {"kind": "usage"}, event_id)
            annotation["usage"] = usage
            events.append(annotation)
        return events

    def _build_missing_result(self, call: Event) -> Event:
        links = call.get("links", {})
        data: Any = call["content"].get("data")
        tool = None
        if isinstance(data, dict):
            tool = data.get("tool_name")
        participant: Participant = {"actor_id": "", "kind": "tool", "name": str(tool or "tool")}
        actor_id = self._map_participants([participant])[""]
        event = self._build_event("tool_result", actor_id, dict(MISSING_RESULT))
        event["role"] = "tool"
        event["links"] = {"call_id": links["call_id"]}
        span_id = links.get("span_id")
        if span_id and self._spans.get(span_id):
            event["links"]["span_id"] = span_id
        return event

    def _build_annotation(self, actor_id: str, data: dict[str, Any], parent_id: str) -> Event:
        event = self._build_event("annotation", actor_id, data)
        event["visibility"] = "metadata"
        event["links"] = {"parent_id": parent_id}
        return event

    def _build_event(self, kind: str, actor_id: str, data: dict[str, Any]) -> Event:
        event = {
            "id": self._take_event_id(),
            "seq": 0,
            "type": kind,
            "actor_id": actor_id,
            "visibility": "internal",
            "content": {"mime": "application/json", "data": data},
        }
        return cast(Event, event)


def find_unreported_usage(usage: dict[str, Usage], reported: dict[str, Usage]) -> dict[str, Usage]:
    """Return what events cost beyond the usage that was written with them."""
    unreported = {}
    for event_id, counts in usage.items():
        known = cast(dict[str, int], reported.get(event_id, {}))
        difference: dict[str, int] = {}
        for kind, count in cast(dict[str, int], counts).items():
            difference[kind] = max(count - known.get(kind, 0), 0)
        if any(difference.values()):
            unreported[event_id] = cast(Usage, difference)
    return unreported


def has_new_reasoning(streamed: list[Event], current: Iterable[Event]) -> bool:
    """Return whether a reading has reasoning between the events of a stream without any.

    Then the stream was written with other options, and all reasoning would come after the
    messages that it led to.
    """
    if any(_is_reasoning(event) for event in streamed):
        return False
    known = {_compute_digest(event) for event in streamed}
    has_reasoning = False
    for event in current:
        if has_reasoning and _compute_digest(event) in known:
            return True
        has_reasoning = has_reasoning or _is_reasoning(event)
    return False


def _is_reasoning(event: Event) -> bool:
    return event.get("role") == "assistant_thought"


def _participant_key(participant: Participant) -> bytes:
    """Return what identifies a participant across readings: everything but its id."""
    return orjson.dumps({**participant, "actor_id": ""}, option=orjson.OPT_SORT_KEYS)


def _rename_participant(participant: Participant, actor_id: str) -> Participant:
    return cast(Participant, {**participant, "actor_id": actor_id})


def _find_free_id(wanted: str, taken: dict[str, Event | None], prefix: str) -> str:
    number = len(taken)
    free_id = wanted
    while free_id in taken:
        number += 1
        free_id = f"{prefix}_{number:06d}"
    return free_id


def _parse_number(name: str) -> int:
    """Return the number at the end of an id; 0 if it has none."""
    digits = name.rpartition("_")[2]
    if digits.isdecimal() and len(digits) < 18:
        return int(digits)
    return 0


def _count_settled(events: list[Event]) -> int:
    """Count the events without those at the end that stand there only because nothing follows."""
    count = len(events)
    while count and _is_provisional(events[count - 1]):
        count -= 1
    return count


def _is_provisional(event: Event) -> bool:
    if event["type"] not in _CLOSING_TYPES:
        return False
    return event["type"] == "span_end" or event["content"].get("data") == MISSING_RESULT


def _get_kind(event: Event) -> str:
    """Return what an event cannot change and still be the same event."""
    return f"{event['type']} {event.get('role')}"


def _compute_digest(event: Event) -> bytes:
    """Return a digest of what is said, without ids and times, which later readings may change."""
    content = orjson.dumps([_get_kind(event), event["content"]], option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(content, digest_size=16).digest()
