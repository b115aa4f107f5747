"""Fits an export into max_bytes: cuts the largest texts first, and drops the oldest events only
when asked to."""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import islice

from open_token.context import Context, SizeEstimator
from open_token.errors import SizeLimitError
from open_token.model import Event, Record
from open_token.passes._truncate_cuts import steps
from open_token.passes._truncate_drop import Groups, Kept, annotation, with_own_actor

_PROBE: Event = {
    "id": "evt_000001",
    "seq": 1,
    "type": "annotation",
    "actor_id": "act_001",
    "visibility": "metadata",
}
_LENGTHS = 1 << 48


def truncate(record: Record, context: Context) -> Record:
    """The record, small enough for max_bytes as the chosen writer writes it; DoesNotFit when that
    cannot be."""
    limit, measure = context.options.max_bytes, context.measure
    if limit is None:
        return record
    assert measure is not None, "the pipeline measures its writer before it runs the passes"
    sizes = array(
        "q", (measure.event(event, place) for place, event in enumerate(record.events, 1))
    )
    total = measure.frame(record, len(sizes)) + sum(sizes)
    if total <= limit:
        return record
    cuts = Cuts(record.events, sizes, measure)
    smallest = total - sum(cuts.saved)
    if smallest <= limit:
        return replace(record, events=Shortened(record.events, cuts.enough(total - limit), measure))
    if context.options.drop != "oldest" or not sizes:
        raise _too_small(limit, smallest, ", or drop=oldest, which drops the oldest events to fit")
    return Drop(record, sizes, cuts, measure, limit).fit(smallest)


def _too_small(limit: int, smallest: int, otherwise: str) -> SizeLimitError:
    return SizeLimitError(
        f"the export cannot be made smaller than {smallest} bytes, and max_bytes is {limit}",
        smallest=smallest,
        help=f"give max_bytes={smallest} or more{otherwise}",
    )


class Cuts:
    """Every cut that can be made, as numbers: which event, how large the thing was, how many bytes
    it saves."""

    def __init__(
        self, events: Iterable[Event], sizes: "array[int]", measure: SizeEstimator
    ) -> None:
        self._order = array("q")
        self._event = array("q")
        self._saving = array("q")
        self.saved = array("q", bytes(8 * len(sizes)))
        """The bytes that all cuts together save, by event."""
        for place, event in enumerate(events):
            size = sizes[place]
            for step in steps(event, size, lambda made, at=place + 1: measure.event(made, at)):  # type: ignore[misc]
                self._order.append(step.stage * _LENGTHS - step.length)
                self._event.append(place)
                self._saving.append(size - step.size)
                self.saved[place] += size - step.size
                size = step.size

    def enough(self, excess: int, keeps: "bytearray | None" = None) -> dict[int, int]:
        """How many cuts each event gets so that the excess is gone: texts before data, largest
        first."""
        chosen: dict[int, int] = {}
        for number in sorted(range(len(self._order)), key=self._order.__getitem__):
            if excess <= 0:
                break
            place = self._event[number]
            if keeps is None or keeps[place]:
                chosen[place] = chosen.get(place, 0) + 1
                excess -= self._saving[number]
        return chosen


class Shortened:
    """Events with their cuts made; may be walked any number of times."""

    def __init__(
        self, events: Iterable[Event], counts: dict[int, int], measure: SizeEstimator
    ) -> None:
        self._events = events
        self._counts = counts
        self._measure = measure

    def __iter__(self) -> Iterator[Event]:
        for place, event in enumerate(self._events):
            count = self._counts.get(place)
            yield self._cut(event, place + 1, count) if count else event

    def _cut(self, event: Event, place: int, count: int) -> Event:
        def size(made: Event) -> int:
            return self._measure.event(made, place)

        return next(islice(steps(event, size(event), size), count - 1, None)).event


class Drop:
    """Finds the fewest oldest groups of events without which the export fits, with every cut
    made."""

    def __init__(
        self, record: Record, sizes: "array[int]", cuts: Cuts, measure: SizeEstimator, limit: int
    ) -> None:
        participants, self._actor = with_own_actor(record.participants)
        self._record = replace(
            record, participants=participants, next_event_number=record.next_event_number + 1
        )
        self._number = record.next_event_number
        self._sizes = sizes
        self._cuts = cuts
        self._measure = measure
        self._limit = limit
        self._groups = Groups(
            record.events, (item["id"] for item in record.coercions if "id" in item)
        )
        self._cost_of = cache(
            lambda digits, is_first: measure.event(
                _PROBE, 10 ** (digits - 1) + (digits == 1 and not is_first)
            )
        )
        bare = replace(self._record, coercions=[])
        self._least_frame = cache(lambda digits: measure.frame(bare, 10 ** (digits - 1)))

    def fit(self, smallest: int) -> Record:
        """The record without its oldest events; smallest is what it takes with all of them."""
        for last_group, count, rest in self._candidates():
            if self._least_frame(len(str(count + 1))) + rest > self._limit:
                continue
            if self._frame(last_group, count) + rest <= self._limit:
                return self._without(last_group, count)
        size = self._frame(last_group, 0) + rest
        raise _too_small(self._limit, min(smallest, size), "; dropping every event is not enough")

    def _candidates(self) -> Iterator[tuple[int, int, int]]:
        """Each group to which may be dropped, how many events are left then, and their bytes with
        every cut made."""
        weights, counts = (
            array("q", bytes(8 * len(self._sizes))),
            array("q", bytes(8 * len(self._sizes))),
        )
        for place, size in enumerate(self._sizes):
            group = self._groups.oldest(place)
            weights[group] += size - self._cuts.saved[place] - self._cost(place + 1)
            counts[group] += 1
        kept = len(self._sizes)
        rest = sum(weights) + sum(self._cost(place) for place in range(2, kept + 2))
        for group, count in enumerate(counts):
            if count:
                rest -= weights[group] + sum(
                    self._cost(place) for place in range(kept - count + 2, kept + 2)
                )
                kept -= count
                yield group, kept, rest

    def _cost(self, place: int) -> int:
        """What a place takes of an event's bytes: the digits of seq, and the first has another
        separator."""
        return self._cost_of(len(str(place)), place == 1)

    def _frame(self, last_group: int, count: int) -> int:
        """The bytes around the events that stay, the annotation among them."""
        first = self._annotation(last_group)
        return self._measure.frame(self._named(last_group), count + 1) + self._measure.event(
            first, 1
        )

    def _annotation(self, last_group: int) -> Event:
        return annotation(self._number, self._actor, self._groups.account(last_group))

    def _named(self, last_group: int) -> Record:
        """The record without what it says about dropped events."""
        lost = self._groups.lost(last_group)
        return replace(
            self._record, coercions=[c for c in self._record.coercions if c.get("id") not in lost]
        )

    def _without(self, last_group: int, count: int) -> Record:
        """With the oldest gone there may be room: the rest is cut only as far as needed."""
        keeps = bytearray(
            self._groups.oldest(place) > last_group for place in range(len(self._sizes))
        )
        whole = sum(
            self._sizes[place] - self._cost(place + 1) for place, kept in enumerate(keeps) if kept
        )
        whole += self._frame(last_group, count) + sum(
            self._cost(place) for place in range(2, count + 2)
        )
        chosen = self._cuts.enough(whole - self._limit, keeps)
        events = Shortened(self._record.events, chosen, self._measure)
        return replace(
            self._named(last_group),
            events=Kept(events, self._groups, last_group, self._annotation(last_group)),
        )
