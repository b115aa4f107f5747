"""Leave out what a person chose: events with what belongs to them, images, the ends of a session."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, cast

from open_token.context import Context, Selection
from open_token.jsontools.objects import get_link
from open_token.model.document import Event, Record
from open_token.passes.truncate_drop import add_actor, build_annotation, remove_links

_CALL_EVENTS = ("tool_use", "tool_result", "span_start")
_SPAN_EVENTS = ("span_start", "span_end")


def leave_out(record: Record, context: Context) -> Record:
    """Return the record without what the selection of the context leaves out.

    A call is left out with its result, a subagent with everything that it did, and an annotation
    with what it is about. An annotation in the first place counts what is missing.
    """
    selection = context.selection
    if selection.without_media:
        record = _drop_media(record, context)
    groups = _Groups(record.events)
    dropped = groups.find_dropped(_find_chosen(groups, selection))
    if not dropped:
        return record
    participants, actor_id = add_actor(record.participants)
    number = record.next_event_number
    annotation = build_annotation(number, actor_id, groups.build_account(dropped))
    lost = {groups.ids[position] for position in dropped}
    return replace(
        record,
        participants=participants,
        events=_RemainingEvents(record.events, lost, annotation),
        coercions=[item for item in record.coercions if item.get("id") not in lost],
        next_event_number=number + 1,
    )


def _drop_media(record: Record, context: Context) -> Record:
    from open_token.redaction.media import create_removal, drop_media
    from open_token.redaction.report import add_media_account

    removal = create_removal(context, record.conversation.get("id", ""))
    record = drop_media(record, removal, _add_results(record, context.selection.without_media))
    level = context.options.redact
    return add_media_account(record, context, level, removal.counts, removal.distinct)


def _add_results(record: Record, event_ids: frozenset[str]) -> frozenset[str]:
    """Return the ids with those of the results of calls: a page shows both as one row."""
    call_ids = {get_link(event, "call_id") for event in record.events if event["id"] in event_ids}
    call_ids.discard("")
    results = (event["id"] for event in record.events if get_link(event, "call_id") in call_ids)
    return event_ids.union(results)


def _find_chosen(groups: "_Groups", selection: Selection) -> Iterator[int]:
    """Yield the positions of the events that the selection names."""
    first = groups.positions.get(selection.first, 0)
    end = groups.positions.get(selection.end, len(groups.ids))
    for position, event_id in enumerate(groups.ids):
        if position < first or position >= end or event_id in selection.dropped:
            yield position


class _Groups:
    """Which events belong together, by position."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.ids: list[str] = []
        self.positions: dict[str, int] = {}
        self._types: list[str] = []
        self._partners: list[list[str]] = []
        """By position: the groups that are left out with the event."""
        self._members: dict[str, list[int]] = {}
        for position, event in enumerate(events):
            self.ids.append(event["id"])
            self.positions[event["id"]] = position
            self._types.append(event["type"])
            self._partners.append([])
            self._add_links(position, event)

    def _add_links(self, position: int, event: Event) -> None:
        links = cast(dict[str, Any], event.get("links", {}))
        kind = event["type"]
        # Whoever leaves out a group leaves out its members; only some members stand for the group.
        for name, leaders in (("call_id", _CALL_EVENTS), ("span_id", _SPAN_EVENTS)):
            target = links.get(name)
            if isinstance(target, str):
                group = f"{name} {target}"
                self._members.setdefault(group, []).append(position)
                if kind in leaders:
                    self._partners[position].append(group)
        parent = links.get("parent_id")
        if kind == "annotation" and isinstance(parent, str):
            self._members.setdefault(f"event {parent}", []).append(position)

    def find_dropped(self, chosen: Iterable[int]) -> set[int]:
        """Return the positions of the chosen events and of all that is left out with them."""
        waiting = list(chosen)
        dropped = set(waiting)
        met: set[str] = set()
        while waiting:
            position = waiting.pop()
            for group in (*self._partners[position], f"event {self.ids[position]}"):
                if group in met:
                    continue
                met.add(group)
                fresh = [other for other in self._members.get(group, ()) if other not in dropped]
                dropped.update(fresh)
                waiting += fresh
        return dropped

    def build_account(self, dropped: set[int]) -> dict[str, Any]:
        """Return what the annotation says about the events that are left out."""
        counts = Counter(self._types[position] for position in dropped)
        return {
            "kind": "dropped",
            "detail": f"{counts.total():,} left out by choice",
            "events": counts.total(),
            "by_type": dict(sorted(counts.items())),
            "first_id": self.ids[min(dropped)],
            "last_id": self.ids[max(dropped)],
        }


class _RemainingEvents:
    """The annotation, and the events that are left; can be iterated any number of times."""

    def __init__(self, events: Iterable[Event], lost: set[str], annotation: Event) -> None:
        self._events = events
        self._lost = lost
        self._annotation = annotation

    def __iter__(self) -> Iterator[Event]:
        yield self._annotation
        for event in self._events:
            if event["id"] not in self._lost:
                yield remove_links(event, self._lost)
