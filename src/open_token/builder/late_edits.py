"""What a reader learns late, put into events that were read early: insertions, dropped and wrapped
branches, usage."""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice
from typing import cast

from open_token.model.document import Event, Links, Usage
from open_token.storage.files import Spool


class Spliced:
    """A spool seen through its late changes; may be walked any number of times."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._inserted: dict[int, list[Event]] = {}
        self._stops: dict[int, list[Event]] = {}
        self._starts: dict[int, list[Event]] = {}
        self._wrapped: list[tuple[range, str]] = []
        self.dropped: list[range] = []
        self._ranges_of_dropped: _Ranges | None = None
        self.usage: dict[str, Usage] = {}

    @property
    def is_needed(self) -> bool:
        return bool(self._inserted or self._wrapped or self.dropped or self.usage)

    def insert(self, place: int, event: Event) -> None:
        """Put an event behind the one at a place; it gets its id at the end."""
        self._inserted.setdefault(place, []).append(event)

    def wrap(self, places: range, span_id: str, start: Event, stop: Event) -> None:
        """Put a span around the events of these places."""
        self._wrapped.append((places, span_id))
        self._starts.setdefault(places.start - 1, []).append(start)
        self._stops.setdefault(places.stop - 1, []).insert(0, stop)

    def is_dropped(self, place: int) -> bool:
        """Whether the event at a place belongs to a branch that is left out."""
        return self._left_out.around(place) is not None

    @property
    def _left_out(self) -> "_Ranges":
        if self._ranges_of_dropped is None or self._ranges_of_dropped.count != len(self.dropped):
            self._ranges_of_dropped = _Ranges([(places, "") for places in self.dropped])
        return self._ranges_of_dropped

    def number(self, first: int) -> int:
        """Give the inserted events their ids, in the order in which they will stand; tells how many
        they are."""
        count = 0
        spans = _Ranges(self._wrapped)
        for place in sorted({*self._inserted, *self._stops, *self._starts}):
            span_id = spans.around(place)
            self._inserted[place] = [
                _in_span(event, span_id) for event in self._inserted.get(place, ())
            ]
            for event in self._put_in(place):
                event["id"] = f"evt_{first + count:06d}"
                count += 1
        return count

    def insertions(self) -> list[Event]:
        """All that was put in, in order of place."""
        places = sorted({*self._inserted, *self._stops, *self._starts})
        return [event for place in places for event in self._put_in(place)]

    def _put_in(self, place: int) -> Iterator[Event]:
        """What stands behind a place: results of the events before, then ends of spans, then
        starts."""
        for group in (self._inserted, self._stops, self._starts):
            yield from group.get(place, ())

    def __iter__(self) -> Iterator[Event]:
        if self.dropped or self._wrapped or self.usage:
            return self._changed()
        return self._with_insertions(iter(self._spool))

    def _with_insertions(self, events: Iterator[Event]) -> Iterator[Event]:
        """The usual case, in long strides: nothing changes but for what is put in."""
        done = 0
        for place in sorted(self._inserted):
            yield from islice(events, place + 1 - done)
            yield from self._inserted[place]
            done = place + 1
        yield from events

    def _changed(self) -> Iterator[Event]:
        kept = _Kept(self._left_out) if self.dropped else None
        spans = _Ranges(self._wrapped)
        late = {*self._inserted, *self._stops, *self._starts}
        yield from self._put_in(-1)
        for place, event in enumerate(self._spool):
            if kept is None or kept.takes(place, event):
                yield _in_span(self._with_usage(event), spans.around(place))
            if place in late:
                yield from self._put_in(place)

    def _with_usage(self, event: Event) -> Event:
        usage = self.usage.get(event["id"]) if self.usage else None
        return event if usage is None else cast(Event, {**event, "usage": usage})


class _Ranges:
    """Places in named ranges, which may lie in one another; finds the innermost around a place."""

    def __init__(self, named: list[tuple[range, str]]) -> None:
        self.count = len(named)
        self._edges = sorted({edge for places, _ in named for edge in (places.start, places.stop)})
        self._names: list[str | None] = []
        coming = sorted(named, key=lambda item: (-item[0].start, item[0].stop))
        around: list[tuple[range, str]] = []
        for edge in self._edges:
            while coming and coming[-1][0].start <= edge:
                around.append(coming.pop())
            while around and around[-1][0].stop <= edge:
                around.pop()
            self._names.append(around[-1][1] if around else None)

    def around(self, place: int) -> str | None:
        """The name of the innermost range around a place."""
        number = bisect_right(self._edges, place) - 1
        return self._names[number] if number >= 0 else None


class _Kept:
    """Decides, event by event, what stays when branches are left out: a pair and a span stay or go
    whole."""

    def __init__(self, left_out: _Ranges) -> None:
        self._left_out = left_out
        self._calls: dict[str, bool] = {}
        self._spans: dict[str, bool] = {}
        self._gone: set[str] = set()

    def takes(self, place: int, event: Event) -> bool:
        """Whether the event at a place stays."""
        stays = self._decide(event, self._left_out.around(place) is None)
        if not stays:
            self._gone.add(event["id"])
        return stays

    def _decide(self, event: Event, stays: bool) -> bool:
        links: Links = event.get("links", {})
        kind, call_id, span_id = event["type"], links.get("call_id", ""), links.get("span_id", "")
        if kind == "tool_result":
            return self._calls.get(call_id, stays)
        if kind == "span_end":
            return self._spans.get(span_id, stays)
        if kind == "annotation" and links.get("parent_id") in self._gone:
            return False
        if not self._spans.get(span_id, True):
            stays = False
        if kind == "tool_use":
            self._calls[call_id] = stays
        elif kind == "span_start":
            self._spans[span_id] = stays
        return stays


def _in_span(event: Event, span_id: str | None) -> Event:
    if span_id is None or "span_id" in event.get("links", {}):
        return event
    return _ordered(
        cast(Event, {**event, "links": cast(Links, {**event.get("links", {}), "span_id": span_id})})
    )


def _ordered(event: Event) -> Event:
    """Links before usage, as everywhere."""
    if "usage" in event:
        event["usage"] = event.pop("usage")
    return event
