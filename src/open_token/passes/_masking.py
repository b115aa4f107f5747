"""The second half of redaction, when a search found something: marks everywhere, and the account of
them."""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, cast

from open_token.context import Context
from open_token.jsontools.walk import estimate_memory, iter_strings
from open_token.model import Coercion, Conversation, Event, Participant, Record, Redaction
from open_token.passes._batches import batches, fact, facts
from open_token.passes._detect import Detector
from open_token.passes._found import Found
from open_token.passes._keys import Keys
from open_token.passes._marker import Marker, Numbers, dropped, keyed
from open_token.passes._mask import Masker
from open_token.passes._notes import redaction_of
from open_token.passes._spread import MOST_VALUES, recurring
from open_token.passes._strict import is_hidden
from open_token.storage.files import Spool

_SPOOL = 8 << 20
_AT_ONCE = 64


@dataclass(frozen=True)
class Masked:
    """Events of which some have a masked form; may be walked any number of times."""

    events: Iterable[Event]
    places: "array[int]"
    masked: Spool

    def __iter__(self) -> Iterator[Event]:
        places, masked = iter(self.places), iter(self.masked)
        place = next(places, -1)
        for number, event in enumerate(self.events):
            if number == place:
                yield next(masked)
                place = next(places, -1)
            else:
                yield event


def mask(
    record: Record,
    context: Context,
    level: str,
    detector: Detector,
    found: Found,
    marker: Marker | None = None,
) -> Record:
    """The record with everything masked; again with what masking itself brought to light, until
    that is nothing."""
    numbers = Numbers()
    if _key(context) is None:
        _pass_over_numbers(record, numbers)
    while True:
        masker = Masker(
            detector, found, marker or _marker(record, context, numbers), strict=level == "strict"
        )
        open_parts = [_masked_fact(masker, holder, part) for holder, part in facts(record)]
        coercions = [_masked_pointer(masker, item) for item in record.coercions]
        events = _masked_events(record, found, masker)
        if not masker.grew:
            break
    conversation = cast(Conversation, open_parts[0])
    redaction = _account(conversation, context, level, masker, found)
    if redaction is not None:
        conversation = {**conversation, "redaction": redaction}
    participants = cast(list[Participant], open_parts[1:])
    return replace(
        record,
        conversation=conversation,
        participants=participants,
        coercions=coercions,
        events=events,
    )


def _key(context: Context) -> bytes | None:
    return (context.team_key or context.key) if context.options.strategy == "hash" else context.key


def _marker(record: Record, context: Context, numbers: Numbers) -> Marker:
    strategy, key = context.options.strategy, _key(context)
    if strategy == "drop":
        return dropped()
    if key is None:
        return numbers.marker()
    return keyed(key, "" if strategy == "hash" else record.conversation.get("id", ""))


def _pass_over_numbers(record: Record, numbers: Numbers) -> None:
    for text in iter_strings([record.conversation, record.participants]):
        numbers.pass_over(text)
    for batch in batches(record.events, Keys(), foreign=record.is_export):
        for leaf in batch.leaves:
            numbers.pass_over(leaf)


def _masked_fact(
    masker: Masker, holder: dict[str, Any], open_part: dict[str, Any]
) -> dict[str, Any]:
    masked = masker.value(open_part)
    if masked is open_part:
        return holder
    renamed = {
        key: (name, fact(key, item))
        for key, (name, item) in zip(open_part, masked.items(), strict=True)
    }
    return dict(renamed.get(key, (key, item)) for key, item in holder.items())


def _masked_pointer(masker: Masker, item: Coercion) -> Coercion:
    """A pointer names keys, which may have been masked."""
    parts = item["ptr"].split("/")
    keys = [part.replace("~1", "/").replace("~0", "~") for part in parts]
    masked = [masker.key(key).replace("~", "~0").replace("/", "~1") for key in keys]
    return {**item, "ptr": "/".join(masked)} if masked != parts else item


def _masked_events(record: Record, found: Found, masker: Masker) -> Masked:
    masked = Masked(record.events, array("Q"), Spool(_SPOOL))
    for first, events, places in _to_mask(record, found, masker):
        chosen = [events[place - first] for place in places]
        cuts = map(found.cuts.get, places)
        whole = [
            masker.without_pieces(event, pieces) for event, pieces in zip(chosen, cuts, strict=True)
        ]
        for place, event, new in zip(places, chosen, masker.events(whole), strict=True):
            if new is not event:
                masked.places.append(place)
                masked.masked.append(new, estimate_memory(new.get("content")))
    return masked


def _to_mask(
    record: Record, found: Found, masker: Masker
) -> Iterator[tuple[int, list[Event], list[int]]]:
    """Events in batches, the place of the first, and the places of those in which there may be
    something to mask."""
    searched = iter([*found.places, -1])
    next_place = next(searched)
    for first, events, places in _with_echoes(record, found, masker):
        while 0 <= next_place < first + len(events):
            places.add(next_place)
            next_place = next(searched)
        places |= found.cuts.keys() & range(first, first + len(events))
        if masker.strict:
            places |= {place for place, event in enumerate(events, first) if is_hidden(event)}
        yield first, events, sorted(places)


def _with_echoes(
    record: Record, found: Found, masker: Masker
) -> Iterator[tuple[int, list[Event], set[int]]]:
    if masker.looks_for_echoes:
        for batch in found.batches or batches(record.events, masker.keys, foreign=record.is_export):
            yield (
                batch.first,
                batch.events,
                {batch.place_of(leaf) for leaf in masker.echoes(batch.leaves)},
            )
        return
    events, first = iter(record.events), 0
    while some := list(islice(events, _AT_ONCE)):
        yield first, some, set()
        first += len(some)


def _account(
    conversation: Conversation, context: Context, level: str, masker: Masker, found: Found
) -> Redaction | None:
    options = context.options
    remarks = []
    if _key(context) is None and options.strategy != "drop":
        remarks.append("marks are numbered in order of first use: no key could be kept")
    elif options.strategy == "hash" and context.team_key is None:
        remarks.append("no team key is set: marks match across exports of this user only")
    if len(recurring(found)) > MOST_VALUES:
        remarks.append(f"recurrences were masked for the first {MOST_VALUES} values only")
    distinct = {kind: len(values) for kind, values in masker.distinct.items()}
    before = conversation.get("redaction")
    return redaction_of(before, level, options.strategy, masker.marks, distinct, remarks)
