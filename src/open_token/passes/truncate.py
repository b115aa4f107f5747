"""The truncate pass: fit an export into max_bytes.

The largest texts are cut first. The oldest events are dropped only with drop=oldest.
"""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import islice

from open_token.context import Context, SizeEstimator
from open_token.errors import SizeLimitError
from open_token.model.document import Event, Record
from open_token.passes.truncate_cuts import iter_cuts
from open_token.passes.truncate_drop import (
    EventGroups,
    RemainingEvents,
    add_actor,
    build_annotation,
)

_PROBE: Event = {
    "id": "evt_000001",
    "seq": 1,
    "type": "annotation",
    "actor_id": "act_001",
    "visibility": "metadata",
}
# Larger than any length: orders cuts by stage first, and by length within a stage.
_STAGE_WEIGHT = 1 << 48


def truncate(record: Record, context: Context) -> Record:
    """Return the record within max_bytes as the writer writes it; raise DoesNotFit if impossible."""
    limit = context.options.max_bytes
    measure = context.measure
    if limit is None:
        return record
    assert measure is not None, "the pipeline measures its writer before it runs the passes"
    sizes = array("q")
    for position, event in enumerate(record.events, 1):
        sizes.append(measure.event(event, position))
    total = measure.frame(record, len(sizes)) + sum(sizes)
    if total <= limit:
        return record
    cuts = CutTable(record.events, sizes, measure)
    smallest = total - sum(cuts.saved)
    if smallest <= limit:
        counts = cuts.choose(total - limit)
        return replace(record, events=CutEvents(record.events, counts, measure))
    if context.options.drop != "oldest" or not sizes:
        raise _too_small(limit, smallest, ", or drop=oldest, which drops the oldest events to fit")
    return OldestDropper(record, sizes, cuts, measure, limit).fit(smallest)


def _too_small(limit: int, smallest: int, alternative: str) -> SizeLimitError:
    return SizeLimitError(
        f"the export cannot be made smaller than {smallest} bytes, and max_bytes is {limit}",
        smallest=smallest,
        help=f"give max_bytes={smallest} or more{alternative}",
    )


class CutTable:
    """Every cut that can be made, as numbers: its event, its order, and the bytes that it saves.

    `saved` has the bytes that all cuts of an event save together. The events after each cut are
    not stored, since they would take more memory than the spool allows; `CutEvents` makes the
    chosen cuts again.
    """

    def __init__(
        self, events: Iterable[Event], sizes: "array[int]", measure: SizeEstimator
    ) -> None:
        self._orders = array("q")
        self._positions = array("q")
        self._savings = array("q")
        self.saved = array("q", bytes(8 * len(sizes)))
        for position, event in enumerate(events):
            self._add_cuts(event, position, sizes[position], measure)

    def _add_cuts(self, event: Event, position: int, size: int, measure: SizeEstimator) -> None:
        def measure_event(changed: Event) -> int:
            return measure.event(changed, position + 1)

        for cut in iter_cuts(event, size, measure_event):
            saving = size - cut.size
            self._orders.append(cut.stage * _STAGE_WEIGHT - cut.length)
            self._positions.append(position)
            self._savings.append(saving)
            self.saved[position] += saving
            size = cut.size

    def choose(self, excess: int, kept: "bytearray | None" = None) -> dict[int, int]:
        """Return how many cuts each event needs: texts before data, the largest first.

        With `kept`, only events that it marks are cut.
        """
        counts: dict[int, int] = {}
        # The sort is stable, so the cuts of one event stay in the order in which they are made.
        numbers = sorted(range(len(self._orders)), key=self._orders.__getitem__)
        for number in numbers:
            if excess <= 0:
                break
            position = self._positions[number]
            if kept is not None and not kept[position]:
                continue
            counts[position] = counts.get(position, 0) + 1
            excess -= self._savings[number]
        return counts


class CutEvents:
    """Events with the given number of cuts each; can be iterated any number of times."""

    def __init__(
        self, events: Iterable[Event], counts: dict[int, int], measure: SizeEstimator
    ) -> None:
        self._events = events
        self._counts = counts
        self._measure = measure

    def __iter__(self) -> Iterator[Event]:
        for position, event in enumerate(self._events):
            count = self._counts.get(position)
            if count:
                event = self._cut(event, position + 1, count)
            yield event

    def _cut(self, event: Event, seq: int, count: int) -> Event:
        def measure_event(changed: Event) -> int:
            return self._measure.event(changed, seq)

        cuts = iter_cuts(event, measure_event(event), measure_event)
        return next(islice(cuts, count - 1, None)).event


class OldestDropper:
    """Finds the fewest oldest groups of events without which the export fits, with all cuts made."""

    def __init__(
        self,
        record: Record,
        sizes: "array[int]",
        cuts: CutTable,
        measure: SizeEstimator,
        limit: int,
    ) -> None:
        participants, self._actor = add_actor(record.participants)
        self._number = record.next_event_number
        self._record = replace(
            record, participants=participants, next_event_number=self._number + 1
        )
        self._sizes = sizes
        self._cuts = cuts
        self._measure = measure
        self._limit = limit
        named = (item["id"] for item in record.coercions if "id" in item)
        self._groups = EventGroups(record.events, named)
        self._probe_size = cache(self._measure_probe)
        self._smallest_frame = cache(self._measure_smallest_frame)

    def fit(self, smallest: int) -> Record:
        """Return the record without its oldest events; `smallest` is its size with all of them."""
        for last_group, count, rest in self._iter_candidates():
            # The cheap lower bound first: the exact frame has to build the annotation.
            if self._smallest_frame(len(str(count + 1))) + rest > self._limit:
                continue
            if self._measure_frame(last_group, count) + rest <= self._limit:
                return self._drop(last_group, count)
        size = self._measure_frame(last_group, 0) + rest
        raise _too_small(self._limit, min(smallest, size), "; dropping every event is not enough")

    def _iter_candidates(self) -> Iterator[tuple[int, int, int]]:
        """Yield each last group that may be dropped, the number of events left, and their bytes."""
        weights = array("q", bytes(8 * len(self._sizes)))
        counts = array("q", bytes(8 * len(self._sizes)))
        for position, size in enumerate(self._sizes):
            group = self._groups.oldest(position)
            smallest = size - self._cuts.saved[position]
            # Events are renumbered, so the bytes of their numbers are counted separately.
            weights[group] += smallest - self._measure_seq(position + 1)
            counts[group] += 1

        # The annotation has number 1, and the events that are left have the numbers from 2.
        left = len(self._sizes)
        rest = sum(weights) + self._measure_seqs(2, left + 2)
        for group, count in enumerate(counts):
            if not count:
                continue
            freed_numbers = self._measure_seqs(left - count + 2, left + 2)
            rest -= weights[group] + freed_numbers
            left -= count
            yield group, left, rest

    def _measure_seqs(self, first: int, end: int) -> int:
        return sum(self._measure_seq(seq) for seq in range(first, end))

    def _measure_seq(self, seq: int) -> int:
        """Return the bytes of an event that depend on seq: its digits, and the first separator."""
        return self._probe_size(len(str(seq)), seq == 1)

    def _measure_probe(self, digits: int, is_first: bool) -> int:
        seq = 10 ** (digits - 1)
        if digits == 1 and not is_first:
            seq += 1
        return self._measure.event(_PROBE, seq)

    def _measure_smallest_frame(self, digits: int) -> int:
        return self._measure.frame(replace(self._record, coercions=[]), 10 ** (digits - 1))

    def _measure_frame(self, last_group: int, count: int) -> int:
        """Return the bytes around the events that are left, including the annotation."""
        annotation = self._measure.event(self._build_annotation(last_group), 1)
        frame = self._measure.frame(self._without_lost_coercions(last_group), count + 1)
        return frame + annotation

    def _build_annotation(self, last_group: int) -> Event:
        account = self._groups.build_account(last_group)
        return build_annotation(self._number, self._actor, account)

    def _without_lost_coercions(self, last_group: int) -> Record:
        """Return the record without coercions in events that are dropped: they name no event."""
        lost = self._groups.find_lost_targets(last_group)
        coercions = [item for item in self._record.coercions if item.get("id") not in lost]
        return replace(self._record, coercions=coercions)

    def _drop(self, last_group: int, count: int) -> Record:
        """Drop the oldest groups, and cut the rest only as far as needed."""
        kept = bytearray(len(self._sizes))
        uncut = self._measure_frame(last_group, count) + self._measure_seqs(2, count + 2)
        for position, size in enumerate(self._sizes):
            if self._groups.oldest(position) > last_group:
                kept[position] = 1
                uncut += size - self._measure_seq(position + 1)
        counts = self._cuts.choose(uncut - self._limit, kept)
        events = CutEvents(self._record.events, counts, self._measure)
        annotation = self._build_annotation(last_group)
        return replace(
            self._without_lost_coercions(last_group),
            events=RemainingEvents(events, self._groups, last_group, annotation),
        )
