"""Which events go when the oldest are dropped: whole calls, whole spans, and an annotation with
what it is about."""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, cast

from open_token.model import Event, Links, Participant

DROPPED = "dropped"
NAME = "open-token"
_TARGETS = ("parent_id", "replies_to")


class Groups:
    """Events that stand or fall together; a group is known by the place (from 0) of its oldest
    event."""

    def __init__(self, events: Iterable[Event], named: Iterable[str] = ()) -> None:
        self._events = events
        self._first = array("q")
        self._types: list[str] = []
        self._type_at = array("H")
        self._places = dict.fromkeys(named, -1)
        """Where the events stand that others link to, or that the record names."""
        self.earlier = _earlier_drop(events)
        """What the annotation of an earlier drop says, which the new one takes over; it is no event
        of its own then."""
        about = self._gather()
        for place, target in about:
            if self._places[target] >= 0:
                self._join(place, self._places[target])
        for place in range(len(self._first)):
            self._first[place] = self._oldest(place)

    def __len__(self) -> int:
        return len(self._first)

    def oldest(self, place: int) -> int:
        """The group of an event."""
        return self._first[place]

    def _gather(self) -> list[tuple[int, str]]:
        """Join what shares a call or a span; tells which annotation is about which event."""
        known: dict[tuple[str, str], int] = {}
        codes: dict[str, int] = {}
        about: list[tuple[int, str]] = []
        for place, event in enumerate(self._events):
            self._first.append(place)
            self._type_at.append(codes.setdefault(event["type"], len(codes)))
            links = cast(dict[str, Any], event.get("links", {}))
            for name in ("call_id", "span_id"):
                if isinstance(shared := links.get(name), str):
                    self._join(place, known.setdefault((name, shared), place))
            for name in _TARGETS:
                if isinstance(target := links.get(name), str):
                    self._places[target] = -1
                    if name == "parent_id" and event["type"] == "annotation":
                        about.append((place, target))
        self._types = list(codes)
        for place, event in enumerate(self._events if self._places else ()):
            if event["id"] in self._places:
                self._places[event["id"]] = place
        return about

    def _oldest(self, place: int) -> int:
        first = self._first
        while first[place] != place:
            first[place] = first[first[place]]
            place = first[place]
        return place

    def _join(self, one: int, other: int) -> None:
        one, other = self._oldest(one), self._oldest(other)
        self._first[max(one, other)] = min(one, other)

    def gone(self, last_group: int) -> list[int]:
        """The places of the events that go when that group and all older ones are dropped."""
        return [place for place, first in enumerate(self._first) if first <= last_group]

    def lost(self, last_group: int) -> set[str]:
        """The dropped events that are linked to or named."""
        return {
            name
            for name, place in self._places.items()
            if place >= 0 and self._first[place] <= last_group
        }

    def account(self, last_group: int) -> dict[str, Any]:
        """What the annotation says of the dropped events."""
        gone = self.gone(last_group)
        if self.earlier:
            gone = [place for place in gone if place]
        counts = Counter(self._types[self._type_at[place]] for place in gone)
        counts.update(self.earlier.get("by_type", {}))
        first_id = self.earlier.get("first_id") or self._id_at(gone[0])
        last_id = self._id_at(gone[-1]) if gone else self.earlier["last_id"]
        return {
            "kind": DROPPED,
            "events": counts.total(),
            "by_type": dict(sorted(counts.items())),
            "first_id": first_id,
            "last_id": last_id,
        }

    def _id_at(self, place: int) -> str:
        return next(islice(self._events, place, None))["id"]


def _earlier_drop(events: Iterable[Event]) -> dict[str, Any]:
    """The account of an earlier drop when the events begin with one, well formed; else nothing."""
    first = next(iter(events), None)
    data = first.get("content", {}).get("data") if first and first["type"] == "annotation" else None
    if not isinstance(data, dict) or data.get("kind") != DROPPED:
        return {}
    counts = data.get("by_type")
    if not isinstance(counts, dict) or not all(
        type(count) is int and count >= 0 for count in counts.values()
    ):
        return {}
    return (
        data
        if isinstance(data.get("first_id"), str) and isinstance(data.get("last_id"), str)
        else {}
    )


def annotation(number: int, actor_id: str, account: dict[str, Any]) -> Event:
    """The event that stands for what was dropped."""
    return {
        "id": f"evt_{number:06d}",
        "seq": 1,
        "type": "annotation",
        "actor_id": actor_id,
        "visibility": "metadata",
        "content": {"mime": "application/json", "data": account},
    }


def with_own_actor(participants: list[Participant]) -> tuple[list[Participant], str]:
    """The participants with the one who dropped events among them, and that one's actor_id."""
    for person in participants:
        if person.get("kind") == "system" and person.get("name") == NAME:
            return participants, person["actor_id"]
    numbers = [person["actor_id"].removeprefix("act_") for person in participants]
    highest = max((int(number) for number in numbers if number.isdecimal()), default=0)
    own: Participant = {"actor_id": f"act_{highest + 1:03d}", "kind": "system", "name": NAME}
    return [*participants, own], own["actor_id"]


def without_links(event: Event, lost: set[str]) -> Event:
    """The event without links to dropped ones."""
    links = event.get("links", {})
    kept = {
        name: target
        for name, target in links.items()
        if name not in _TARGETS or not isinstance(target, str) or target not in lost
    }
    if len(kept) == len(links):
        return event
    made = cast(Event, {name: value for name, value in event.items() if name != "links" or kept})
    if kept:
        made["links"] = cast(Links, kept)
    return made


class Kept:
    """What is left after a drop: the annotation, then the events that stay; may be walked any
    number of times."""

    def __init__(
        self, events: Iterable[Event], groups: Groups, last_group: int, first: Event
    ) -> None:
        self._events = events
        self._groups = groups
        self._last_group = last_group
        self._annotation = first
        self._lost = groups.lost(last_group)

    def __iter__(self) -> Iterator[Event]:
        yield self._annotation
        oldest, last_group, lost = self._groups.oldest, self._last_group, self._lost
        for place, event in enumerate(self._events):
            if oldest(place) > last_group:
                yield without_links(event, lost) if lost else event
