"""Late edits: what a reader learns after an event was written.

Insertions, dropped and wrapped branches, and usage are applied while the spool is iterated.
"""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice
from typing import cast

from open_token.model.document import Event, Links, Usage
from open_token.storage.spool import Spool


class LateEdits:
    """A spool with its late edits applied; it may be iterated any number of times."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        # All three are keyed by the place after which their events follow; -1 is the beginning.
        self._inserted: dict[int, list[Event]] = {}
        self._span_ends: dict[int, list[Event]] = {}
        self._span_starts: dict[int, list[Event]] = {}
        self._wrapped: list[tuple[range, str]] = []
        self.dropped: list[range] = []
        self._dropped_index: _RangeIndex | None = None
        self.usage: dict[str, Usage] = {}

    @property
    def is_needed(self) -> bool:
        """Whether there are any edits."""
        return bool(self._inserted or self._wrapped or self.dropped or self.usage)

    def insert(self, place: int, event: Event) -> None:
        """Insert an event after the one at `place`; it gets its id at the end."""
        self._inserted.setdefault(place, []).append(event)

    def wrap(self, places: range, span_id: str, start: Event, end: Event) -> None:
        """Put a span around the events of these places."""
        self._wrapped.append((places, span_id))
        starts = self._span_starts.setdefault(places.start - 1, [])
        starts.append(start)
        # Of spans that end at the same place, the one that began last ends first.
        ends = self._span_ends.setdefault(places.stop - 1, [])
        ends.insert(0, end)

    def is_dropped(self, place: int) -> bool:
        """Return whether the event at `place` belongs to a dropped branch."""
        return self._get_dropped_index().find_innermost(place) is not None

    def _get_dropped_index(self) -> "_RangeIndex":
        # Ranges are only ever added to `dropped`, so that an index is out of date exactly if their
        # number differs.
        index = self._dropped_index
        if index is None or index.count != len(self.dropped):
            index = _RangeIndex([(places, "") for places in self.dropped])
            self._dropped_index = index
        return index

    def number_insertions(self, first: int) -> int:
        """Give the inserted events their ids, in order of place; return how many there are."""
        count = 0
        spans = _RangeIndex(self._wrapped)
        for place in self._list_places():
            span_id = spans.find_innermost(place)
            inserted = self._inserted.get(place, ())
            self._inserted[place] = [_set_span(event, span_id) for event in inserted]
            for event in self._list_insertions_at(place):
                event["id"] = f"evt_{first + count:06d}"
                count += 1
        return count

    def list_insertions(self) -> list[Event]:
        """Return all inserted events, in order of place."""
        events: list[Event] = []
        for place in self._list_places():
            events.extend(self._list_insertions_at(place))
        return events

    def _list_places(self) -> list[int]:
        return sorted({*self._inserted, *self._span_ends, *self._span_starts})

    def _list_insertions_at(self, place: int) -> Iterator[Event]:
        """Yield what follows a place: missing results, then ends of spans, then starts."""
        for group in (self._inserted, self._span_ends, self._span_starts):
            yield from group.get(place, ())

    def __iter__(self) -> Iterator[Event]:
        if self.dropped or self._wrapped or self.usage:
            return self._iterate_edited()
        return self._iterate_with_insertions(iter(self._spool))

    def _iterate_with_insertions(self, events: Iterator[Event]) -> Iterator[Event]:
        """Yield events if only insertions were made: the usual case, in long strides."""
        done = 0
        for place in sorted(self._inserted):
            yield from islice(events, place + 1 - done)
            yield from self._inserted[place]
            done = place + 1
        yield from events

    def _iterate_edited(self) -> Iterator[Event]:
        branch_filter = _BranchFilter(self._get_dropped_index()) if self.dropped else None
        spans = _RangeIndex(self._wrapped)
        places = {*self._inserted, *self._span_ends, *self._span_starts}
        yield from self._list_insertions_at(-1)
        for place, event in enumerate(self._spool):
            if branch_filter is None or branch_filter.keeps(place, event):
                span_id = spans.find_innermost(place)
                yield _set_span(self._apply_usage(event), span_id)
            # Insertions that belong to a dropped branch were never made, so that these remain.
            if place in places:
                yield from self._list_insertions_at(place)

    def _apply_usage(self, event: Event) -> Event:
        if not self.usage:
            return event
        usage = self.usage.get(event["id"])
        if usage is None:
            return event
        return cast(Event, {**event, "usage": usage})


class _RangeIndex:
    """Named ranges of places, which may be nested; finds the innermost one around a place.

    A session with thousands of abandoned branches would make a search through all ranges for every
    event quadratic, so that the answer between any two edges is computed once.
    """

    def __init__(self, named: list[tuple[range, str]]) -> None:
        self.count = len(named)
        self._edges = _list_edges(named)
        self._names: list[str | None] = []
        """The name of the innermost range from each edge on."""
        # Taken from the end: by start, and of those with the same start the longest first, so that
        # the ranges that are open form a stack with the innermost one on top.
        upcoming = sorted(named, key=lambda item: (-item[0].start, item[0].stop))
        open_ranges: list[tuple[range, str]] = []
        for edge in self._edges:
            while upcoming and upcoming[-1][0].start <= edge:
                open_ranges.append(upcoming.pop())
            while open_ranges and open_ranges[-1][0].stop <= edge:
                open_ranges.pop()
            if open_ranges:
                _, name = open_ranges[-1]
                self._names.append(name)
            else:
                self._names.append(None)

    def find_innermost(self, place: int) -> str | None:
        """Return the name of the innermost range around a place."""
        number = bisect_right(self._edges, place) - 1
        return self._names[number] if number >= 0 else None


def _list_edges(named: list[tuple[range, str]]) -> list[int]:
    """Return the places at which a range starts or stops, each once, in order."""
    edges: set[int] = set()
    for places, _ in named:
        edges.add(places.start)
        edges.add(places.stop)
    return sorted(edges)


class _BranchFilter:
    """Decides which events remain when branches are dropped: pairs and spans stay complete."""

    def __init__(self, dropped: _RangeIndex) -> None:
        self._dropped = dropped
        self._kept_calls: dict[str, bool] = {}
        self._kept_spans: dict[str, bool] = {}
        self._dropped_ids: set[str] = set()

    def keeps(self, place: int, event: Event) -> bool:
        """Return whether the event at `place` remains."""
        is_kept = self._decide(event, self._dropped.find_innermost(place) is None)
        if not is_kept:
            self._dropped_ids.add(event["id"])
        return is_kept

    def _decide(self, event: Event, is_kept: bool) -> bool:
        links: Links = event.get("links", {})
        kind = event["type"]
        call_id = links.get("call_id", "")
        span_id = links.get("span_id", "")
        # A result or an end may lie on the other side of the edge of a branch: it goes the way of
        # its call or its start.
        if kind == "tool_result":
            return self._kept_calls.get(call_id, is_kept)
        if kind == "span_end":
            return self._kept_spans.get(span_id, is_kept)
        if kind == "annotation" and links.get("parent_id") in self._dropped_ids:
            return False
        # A span that starts in a dropped branch is dropped with all its events, wherever they are.
        if not self._kept_spans.get(span_id, True):
            is_kept = False
        if kind == "tool_use":
            self._kept_calls[call_id] = is_kept
        elif kind == "span_start":
            self._kept_spans[span_id] = is_kept
        return is_kept


def _set_span(event: Event, span_id: str | None) -> Event:
    """Return an event as part of a span, unless it is in one already."""
    links = event.get("links", {})
    if span_id is None or "span_id" in links:
        return event
    event = cast(Event, {**event, "links": {**links, "span_id": span_id}})
    if "usage" in event:
        # Links come before usage in every event.
        event["usage"] = event.pop("usage")
    return event
