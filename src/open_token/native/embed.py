"""native=full: embed the source in annotations after the events, so that it can be restored."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from open_token.jsontools.walk import estimate_memory
from open_token.model.document import Event, Record
from open_token.native.encoding import NOTHING, Withheld, encode_value
from open_token.native.references import BinaryDataIndex, FindReference
from open_token.native.units import SourceUnit, iter_owned_units
from open_token.registry import Reader
from open_token.sources.source import Source
from open_token.storage.spool import Spool

# Plain values per annotation: enough for good compression, little enough to hold in memory.
_MAX_CHUNK = 1 << 18


@dataclass(frozen=True)
class _ChainedEvents:
    """Two sequences of events, one after the other; can be iterated any number of times."""

    first: Iterable[Event]
    second: Iterable[Event]

    def __iter__(self) -> Iterator[Event]:
        yield from self.first
        yield from self.second


def embed_source(
    record: Record, source: Source, reader: Reader, *, withheld: Withheld = NOTHING
) -> Record:
    """Return the record with the values of its source in annotations after its events.

    `reader` is that of the source. `withheld` says what is left out.
    """
    # After the events, not next to them: ids are then the same with and without native=full.
    actor, participants = _find_runtime_actor(record)
    spool = Spool()
    number = record.next_event_number
    for data, size in _merge_small(_iter_batches(record, source, reader, withheld)):
        event: Event = {
            "id": f"evt_{number:06d}",
            "seq": 0,
            "type": "annotation",
            "actor_id": actor,
            "visibility": "metadata",
            "content": {"mime": "application/json", "data": data},
        }
        number += 1
        spool.append(event, size)
    return replace(
        record,
        participants=participants,
        events=_ChainedEvents(record.events, spool),
        next_event_number=number,
    )


def _find_runtime_actor(record: Record) -> tuple[str, list[Any]]:
    """Return the actor that stands for the runtime, and the participants including it."""
    for participant in record.participants:
        if participant.get("kind") == "system" and participant.get("name") == "runtime":
            return participant["actor_id"], record.participants
    actor = f"act_{len(record.participants) + 1:03d}"
    runtime = {"actor_id": actor, "kind": "system", "name": "runtime"}
    return actor, [*record.participants, runtime]


def _iter_batches(
    record: Record, source: Source, reader: Reader, withheld: Withheld
) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield batches of units with their size; the first one of each file has the facts about it."""
    find = BinaryDataIndex(record.events).find
    for part, units in iter_owned_units(source, reader):
        base: dict[str, Any] = {"kind": "native", "reader": reader.definition.name}
        facts = {"shape": part.shape, **part.facts}
        if part.file:
            base["file"] = part.file
        else:
            facts["name"] = PurePath(source.name).name
        facts_size = estimate_memory(facts)
        is_first = True
        for batch, size in _group_units(units, find, withheld):
            data = _build_batch(base, batch)
            if is_first:
                data["about"] = facts
                size += facts_size
            is_first = False
            yield data, size
        if is_first:
            # A file without units must still be there after restore.
            yield {**base, "record": 0, "value": facts}, facts_size


def _group_units(
    units: Iterator[SourceUnit], find: FindReference, withheld: Withheld
) -> Iterator[tuple[list[SourceUnit], int]]:
    """Encode the units, and yield groups of consecutive ones with their size."""
    group: list[SourceUnit] = []
    size = 0
    for unit in units:
        if group and (size > _MAX_CHUNK or not _is_consecutive(group[-1], unit)):
            yield group, size
            group = []
            size = 0
        encoded = replace(unit, value=encode_value(unit.value, find, withheld=withheld))
        group.append(encoded)
        size += estimate_memory(encoded.value)
    if group:
        yield group, size


def _is_consecutive(unit: SourceUnit, following: SourceUnit) -> bool:
    return following.number == unit.number + 1 and following.at == unit.at


def _build_batch(base: dict[str, Any], batch: list[SourceUnit]) -> dict[str, Any]:
    """Return the data of an annotation: the first unit is `value`, the others are `more`."""
    first = batch[0]
    data = {**base, "record": first.number}
    if first.at:
        data["at"] = first.at
        if first.place:
            data["place"] = first.place
    data["value"] = first.value
    if len(batch) > 1:
        data["more"] = [unit.value for unit in batch[1:]]
    return data


def _merge_small(
    batches: Iterator[tuple[dict[str, Any], int]],
) -> Iterator[tuple[dict[str, Any], int]]:
    """Merge consecutive batches into one annotation as long as they are small."""
    group: list[dict[str, Any]] = []
    total = 0
    for batch, size in batches:
        if group and total + size > _MAX_CHUNK:
            yield _join_batches(group), total
            group = []
            total = 0
        group.append(batch)
        total += size
    if group:
        yield _join_batches(group), total


def _join_batches(group: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the first batch with records, and the others under `then` without shared keys."""
    first = next((batch for batch in group if batch["record"]), group[0])
    others = []
    for batch in group:
        if batch is first:
            continue
        other = dict(batch)
        del other["kind"]
        del other["reader"]
        others.append(other)
    if not others:
        return first
    return {**first, "then": others}
