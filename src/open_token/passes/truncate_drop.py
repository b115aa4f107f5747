"""drop=oldest: which events are dropped together, and the annotation that accounts for them.

Events of one call or one span are dropped together, and annotations with the event that they are
about.
"""

from array import array
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from itertools import islice
from typing import Any, cast

from open_token.model.document import Event, Links, Participant

_DROPPED = "dropped"
_ACTOR_NAME = "open-token"
_TARGET_LINKS = ("parent_id", "replies_to")


class EventGroups:
    """Groups of events that are dropped together, as a union-find over positions (from 0).

    A group is identified by the position of its oldest event. `earlier` is the account of an
    earlier drop, if the events begin with one; the new account includes it.
    """

    def __init__(self, events: Iterable[Event], named: Iterable[str] = ()) -> None:
        self._events = events
        # Numbers in arrays, since the events themselves need not fit into memory.
        self._oldest = array("q")
        self._type_names: list[str] = []
        self._types = array("H")
        # Positions of events that others link to, or that the record names; -1: not found.
        self._positions = dict.fromkeys(named, -1)
        self.earlier = _find_earlier_account(events)
        for position, target in self._join_calls_and_spans():
            if self._positions[target] >= 0:
                self._join(position, self._positions[target])
        for position in range(len(self._oldest)):
            self._oldest[position] = self._find_oldest(position)

    def __len__(self) -> int:
        return len(self._oldest)

    def oldest(self, position: int) -> int:
        """Return the group of an event."""
        return self._oldest[position]

    def _join_calls_and_spans(self) -> list[tuple[int, str]]:
        """Join events that share a call or a span; return annotations and their targets."""
        first_with: dict[tuple[str, str], int] = {}
        type_codes: dict[str, int] = {}
        annotated: list[tuple[int, str]] = []
        for position, event in enumerate(self._events):
            self._oldest.append(position)
            self._types.append(type_codes.setdefault(event["type"], len(type_codes)))
            links = cast(dict[str, Any], event.get("links", {}))
            for name in ("call_id", "span_id"):
                shared = links.get(name)
                if isinstance(shared, str):
                    self._join(position, first_with.setdefault((name, shared), position))
            for name in _TARGET_LINKS:
                target = links.get(name)
                if isinstance(target, str):
                    self._positions[target] = -1
                    if name == "parent_id" and event["type"] == "annotation":
                        annotated.append((position, target))
        self._type_names = list(type_codes)
        if self._positions:
            for position, event in enumerate(self._events):
                if event["id"] in self._positions:
                    self._positions[event["id"]] = position
        return annotated

    def _find_oldest(self, position: int) -> int:
        oldest = self._oldest
        while oldest[position] != position:
            # Path halving, without which long chains of events would take quadratic time.
            oldest[position] = oldest[oldest[position]]
            position = oldest[position]
        return position

    def _join(self, one: int, other: int) -> None:
        one = self._find_oldest(one)
        other = self._find_oldest(other)
        self._oldest[max(one, other)] = min(one, other)

    def find_dropped(self, last_group: int) -> list[int]:
        """Return the positions of the events in that group and all older ones."""
        return [position for position, group in enumerate(self._oldest) if group <= last_group]

    def find_lost_targets(self, last_group: int) -> set[str]:
        """Return the dropped events that are linked to or named."""
        lost = set()
        for event_id, position in self._positions.items():
            if position >= 0 and self._oldest[position] <= last_group:
                lost.add(event_id)
        return lost

    def build_account(self, last_group: int) -> dict[str, Any]:
        """Return what the annotation says about the dropped events."""
        dropped = self.find_dropped(last_group)
        if self.earlier:
            # The first event is the earlier annotation itself.
            dropped = [position for position in dropped if position]
        counts = Counter(self._type_names[self._types[position]] for position in dropped)
        counts.update(self.earlier.get("by_type", {}))
        first_id = self.earlier.get("first_id") or self._read_id(dropped[0])
        if dropped:
            last_id = self._read_id(dropped[-1])
        else:
            last_id = self.earlier["last_id"]
        return {
            "kind": _DROPPED,
            "events": counts.total(),
            "by_type": dict(sorted(counts.items())),
            "first_id": first_id,
            "last_id": last_id,
        }

    def _read_id(self, position: int) -> str:
        return next(islice(self._events, position, None))["id"]


def _find_earlier_account(events: Iterable[Event]) -> dict[str, Any]:
    """Return the well-formed account of an earlier drop with which the events begin, or nothing."""
    first = next(iter(events), None)
    if first is None or first["type"] != "annotation":
        return {}
    data = first.get("content", {}).get("data")
    if not isinstance(data, dict) or data.get("kind") != _DROPPED:
        return {}
    counts = data.get("by_type")
    if not isinstance(counts, dict):
        return {}
    if not all(type(count) is int and count >= 0 for count in counts.values()):
        return {}
    for name in ("first_id", "last_id"):
        if not isinstance(data.get(name), str):
            return {}
    return data


def build_annotation(number: int, actor_id: str, account: dict[str, Any]) -> Event:
    """Return the event that accounts for what was dropped."""
    return {
        "id": f"evt_{number:06d}",
        "seq": 1,
        "type": "annotation",
        "actor_id": actor_id,
        "visibility": "metadata",
        "content": {"mime": "application/json", "data": account},
    }


def add_actor(participants: list[Participant]) -> tuple[list[Participant], str]:
    """Return the participants including this program, and its actor_id."""
    for participant in participants:
        if participant.get("kind") == "system" and participant.get("name") == _ACTOR_NAME:
            return participants, participant["actor_id"]
    highest = 0
    for participant in participants:
        number = participant["actor_id"].removeprefix("act_")
        if number.isdecimal():
            highest = max(highest, int(number))
    actor_id = f"act_{highest + 1:03d}"
    actor: Participant = {"actor_id": actor_id, "kind": "system", "name": _ACTOR_NAME}
    return [*participants, actor], actor_id


def remove_links(event: Event, lost: Container[str]) -> Event:
    """Return the event without links to dropped events."""
    links = event.get("links", {})
    kept = {}
    for name, target in links.items():
        is_lost = name in _TARGET_LINKS and isinstance(target, str) and target in lost
        if not is_lost:
            kept[name] = target
    if len(kept) == len(links):
        return event
    changed = dict(event)
    if kept:
        changed["links"] = cast(Links, kept)
    else:
        del changed["links"]
    return cast(Event, changed)


class RemainingEvents:
    """The annotation, and the events that are left; can be iterated any number of times."""

    def __init__(
        self, events: Iterable[Event], groups: EventGroups, last_group: int, annotation: Event
    ) -> None:
        self._events = events
        self._groups = groups
        self._last_group = last_group
        self._annotation = annotation
        self._lost = groups.find_lost_targets(last_group)

    def __iter__(self) -> Iterator[Event]:
        yield self._annotation
        for position, event in enumerate(self._events):
            if self._groups.oldest(position) <= self._last_group:
                continue
            if self._lost:
                event = remove_links(event, self._lost)
            yield event
